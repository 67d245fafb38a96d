/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* The unwind rule of an address. */
#pragma once
#include "unwind_state.h"

static __always_inline struct row_page *row_page(u32 page)
{
	u32 chunk = page / CHUNK_PAGES, within = page % CHUNK_PAGES;
	void *inner = bpf_map_lookup_elem(&rows, &chunk);

	return inner ? bpf_map_lookup_elem(inner, &within) : 0;
}

static __always_inline u32 find_row(const u32 *words, u32 first, u32 count, u32 within)
{
	/* The last row that begins at or before `within`; without branches, which would be
	 * mispredicted. */
	u32 at = first;

#pragma unroll
	for (u32 step = 0; step < BLOCK_BITS; step++) {
		u32 half = count / 2;
		u32 begins = words[(at + half) & (ROW_PAGE_WORDS - 1)] >> 16;
		at += half & (u32)((s32)(begins - within - 1) >> 31);
		count -= half;
		if (count <= 1)
			break;
	}
	return words[at & (ROW_PAGE_WORDS - 1)];
}

/* The rule of an address in the mapping `here`; null: there is no table. */
static __always_inline struct rule *find_rule(struct walk *walk, u64 address)
{
	u32 number = walk->here.number;
	struct image_table *table = bpf_map_lookup_elem(&image_tables, &number);

	if (!table)
		return 0;
	u64 distance = address + walk->here.file_base - table->start;
	u64 block = distance >> BLOCK_BITS;
	u32 zero = 0;
	if (!table->blocks)
		return 0;
	if (block >= table->blocks)
		return bpf_map_lookup_elem(&rules, &zero); /* uncovered */
	if (table->used != walk->round)
		table->used = walk->round;
	struct row_page *index = row_page(table->page + (u32)block / ROW_PAGE_WORDS);
	if (!index)
		return 0;
	u32 entry = index->words[block & (ROW_PAGE_WORDS - 1)];
	struct row_page *page = row_page(table->page + (entry >> 8) / ROW_PAGE_WORDS);
	if (!page)
		return 0;
	u32 row = find_row(page->words, (entry >> 8) & (ROW_PAGE_WORDS - 1), (entry & 0xff) + 1,
			   distance & ((1 << BLOCK_BITS) - 1));
	u32 rule = row & 0xffff;
	return bpf_map_lookup_elem(&rules, &rule);
}
