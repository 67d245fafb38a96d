/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* The unwind tables that user space puts into the kernel, and the outcomes of walks (mirrored in
 * unwinding/). */
#pragma once
#include "kernel_types.h"
#include <bpf/bpf_helpers.h>

/* ---- what user space sets before the programs are loaded ---- */
const volatile bool by_tables = false;

/* ---- shared with user space; mirrored in unwinding/store.rs ---- */
#define ROW_PAGE_WORDS 1024
#define CHUNK_PAGES 256 /* pages of rows in one inner table: 1 MiB */
#define MOST_CHUNKS 1024
#define MOST_IMAGES 4096
#define BLOCK_BITS 8
#define USER_CODE_64 0x33 /* __USER_CS of x86-64 */

/* `CompactKind`, `CompactFrame` and `CompactReturn` of crate unwind. */
enum rule_kind {
	RULE_UNCOVERED,
	RULE_ROOT,
	RULE_UNSUPPORTED,
	RULE_STACK_POINTER,
	RULE_FRAME_POINTER,
	RULE_STACK_MEMORY,
	RULE_FRAME_MEMORY,
	RULE_LINKAGE_STUB,
	RULE_SIGNAL_RETURN,
	RULE_REGISTER,
	RULE_BASE_REGISTER,
	RULE_STACK_SWITCH,
};
enum rule_frame { FRAME_SAME, FRAME_AT_CFA, FRAME_AT_FRAME, FRAME_LOST };
enum rule_return { RETURN_AT_CFA, RETURN_IN_LINK, RETURN_IN_REGISTER };
#define BASE_LOST 0xffff

struct rule {
	u8 kind;
	u8 frame;
	u8 link;
	u8 extra;
	s32 cfa_offset;
	s16 return_offset;
	u16 base_slot;
	s32 frame_offset;
};
/* The identity of an image. */
struct image_key {
	u64 inode;
	u32 device;
	u32 generation;
};
/* An image's number, 0 until user space has assigned it, and the process that asked first, which
 * can be asked for the file. */
struct image_number {
	u32 number;
	u32 tgid;
	u32 label; /* label of the image in stacks, see IMAGE_WORD; 0: none */
	u32 runtimes; /* its languages, one bit each, see below */
};
/* A bit for each language whose runtime the image is, so that other images need no lookup in the
 * languages' tables, which would miss the cache. */
enum image_runtime { RUNTIME_PYTHON, RUNTIME_RUBY, RUNTIME_V8, RUNTIME_GO };
/* The table of an image, by its number. */
struct image_table {
	u64 start; /* offset in the file */
	u32 blocks; /* 0: no table */
	u32 page; /* first page in `rows` */
	u32 used; /* round of its last use, see `round` */
	u32 unused;
};
/* A frame in a labelled image is this bit, the label and the offset in the file. Such a stack is
 * the same in each process, wherever its images are mapped. Labels, unlike numbers, are never
 * reused. */
#define IMAGE_WORD (1ull << 62)
#define IMAGE_OFFSET_BITS 40
#define LABEL_VDSO 1
#define IMAGE_VDSO 1
#define IMAGE_WITHOUT_TABLE 2
#define IMAGE_FIRST 3

/* Outcomes of walks; summed over the CPUs by user space. */
struct walk_counts {
	u64 stacks;
	u64 by_table; /* frames */
	u64 by_pointer_early; /* frames of images without a table yet */
	u64 by_pointer; /* frames of code without a table */
	u64 complete; /* walks that reached the end of the stack */
	u64 unsupported;
	u64 lost; /* the frame pointer leads nowhere, or to nothing */
	u64 astray; /* an invalid return address, or a stack pointer that moves down */
	u64 too_deep;
	u64 narrow; /* 32-bit */
	u64 crowded; /* images for which there was no room */
};

/* Messages of user space to the walks. */
struct walk_state {
	u32 version; /* changes whenever a cached mapping's number becomes wrong */
	u32 round; /* number of the current period of about a second, for last uses */
};

struct row_page {
	u32 words[ROW_PAGE_WORDS];
};
struct row_chunk {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CHUNK_PAGES);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(struct row_page));
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MOST_CHUNKS);
	__type(key, u32);
	__array(values, struct row_chunk);
} rows SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 65536);
	__type(key, u32);
	__type(value, struct rule);
} rules SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MOST_IMAGES);
	__type(key, struct image_key);
	__type(value, struct image_number);
} image_numbers SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MOST_IMAGES);
	__type(key, u32);
	__type(value, struct image_table);
} image_tables SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct walk_counts);
} walk_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct walk_state);
} walk_state SEC(".maps");
/* Counts images without a number, so that user space need not search when there are none. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} walk_wanted SEC(".maps");
