/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* User stacks by unwind tables, in the kernel.
 *
 * User space compiles the tables of each image into rows (crate unwind, `compact`), and `rows` holds
 * them. The steps here are those of `CompactUnwinder` in that crate, which is tested against programs
 * that are executed instruction by instruction. Where an image has no table (yet), frame pointers serve. */
#pragma once
#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "identity.h"

/* ---- what user space sets before the programs are loaded ---- */
const volatile bool by_tables = false;

/* ---- shared with user space; mirrored in unwinding/store.rs ---- */
#define ROW_PAGE_WORDS 1024
#define CHUNK_PAGES 256 /* pages of rows that one inner table has: 1 MiB */
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
};
enum rule_frame { FRAME_SAME, FRAME_AT_CFA, FRAME_AT_FRAME, FRAME_LOST };
enum rule_return { RETURN_AT_CFA, RETURN_IN_LINK };
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
/* What is known of an image: its number, 0 as long as user space has not said. Who asked first can be
 * asked for the file. */
struct image_number {
	u32 number;
	u32 tgid;
	u64 address;
};
/* The table of an image, by its number. */
struct image_table {
	u64 start; /* offset in the file */
	u32 blocks; /* 0: no table */
	u32 page; /* where it begins in `rows` */
	u32 used; /* round in which it was last used, see `round` */
	u32 unused;
};
#define IMAGE_VDSO 1
#define IMAGE_WITHOUT_TABLE 2
#define IMAGE_FIRST 3

/* How walks went; summed over the CPUs by user space. */
struct walk_counts {
	u64 stacks;
	u64 by_table; /* frames */
	u64 by_pointer_early; /* frames of images that have no table yet */
	u64 by_pointer; /* frames of code that has none */
	u64 complete; /* the ends of stacks */
	u64 unsupported;
	u64 lost; /* the frame pointer leads nowhere, or nothing is there */
	u64 astray; /* a return address that is none, a stack that goes back */
	u64 too_deep;
	u64 narrow; /* 32-bit */
	u64 crowded; /* images that found no room */
};

/* What user space tells the walks. */
struct walk_state {
	u32 version; /* changes with everything that makes a cached mapping's number wrong */
	u32 round; /* a second or so: what was used in which */
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
/* Counts images that have no number yet, so that user space need not look when there is none. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} walk_wanted SEC(".maps");

/* ---- what is mapped at an address ---- */
#define WALK_CACHE 128 /* mappings, for each CPU */
struct walk_mapping {
	u64 start;
	u64 end;
	u64 file_base; /* file offset of address 0 */
	u64 sequence; /* see walk_sequence */
	u32 tgid;
	u32 number; /* of the image; 0: no table yet */
	u32 version;
	u32 unused;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WALK_CACHE);
	__type(key, u32);
	__type(value, struct walk_mapping);
} walk_cache SEC(".maps");

#define MAPLE_WORDS 32
#define MAPLE_DEPTH 6
#define MAPLE_ARANGE 3
#define MAPLE_FIRST_INNER 2 /* of the node types; those below are leaves */

#define WALK_PIECE 48 /* words of a stack that are read at once */
#define WALK_BEFORE 56 /* bytes of them in front of the one that is asked for: saved registers */

/* A walk up a stack. */
struct walk {
	u64 pc;
	u64 sp;
	u64 fp;
	u64 base; /* rbx */
	u64 link;
	u64 hash;
	u64 sequence;
	u64 piece_start;
	u32 piece_bytes;
	u32 tgid;
	u32 depth;
	u32 version;
	u32 round;
	u8 fp_lost;
	u8 base_lost;
	u8 interrupted;
	u8 unused[5];
	u64 piece[WALK_PIECE];
	u64 node[MAPLE_WORDS];
	struct walk_counts counts;
	struct walk_mapping here; /* the mapping of the last lookup */
};

/* The mapping of an address out of the kernel's tree of mappings, which may be read without its lock in an
 * RCU read-side critical section, as BPF programs are. (The helper bpf_find_vma takes the lock, and in an
 * interrupt it can do so only once.) What is found says itself whether it is right. */
static __noinline u64 find_vma_entry(struct walk *walk, u64 root, u64 address)
{
	u64 entry = root, page = address >> 12;

	/* A root that is a node is marked as such; one mapping alone, which nobody has, would be the root itself. */
	if (!walk || (root & 3) != 2)
		return 0;
	for (u32 depth = 0; depth < MAPLE_DEPTH; depth++) {
		if (entry < 4096)
			return 0;
		u32 type = (entry >> 3) & 15;
		bool arange = type == MAPLE_ARANGE;
		if (bpf_probe_read_kernel(walk->node, sizeof(walk->node), (void *)(entry & ~255ull)))
			return 0;
		/* parent, pivots, slots, and in the last word how many pivots there are */
		u32 pivots = arange ? 9 : 15, slots = 1 + pivots;
		u32 end = (arange ? walk->node[30] : walk->node[31]) & 0xff;
		if (!arange && walk->node[15])
			end = 15;
		if (end > pivots)
			end = pivots;
		/* the first pivot that is not below */
		u32 slot = 0;
		for (u32 i = 0; i < 15; i++) {
			u64 pivot = walk->node[(1 + i) & 31] >> 12;
			if (i >= end || pivot >= page)
				break;
			slot = i + 1;
		}
		entry = walk->node[(slots + slot) & 31];
		if (type < MAPLE_FIRST_INNER)
			return entry;
	}
	return 0;
}

static __always_inline u32 number_of_image(struct walk *walk, struct image_key *key, u64 address)
{
	struct image_number *known = bpf_map_lookup_elem(&image_numbers, key);
	if (known)
		return known->number;
	struct image_number wanted = { .tgid = walk->tgid, .address = address };
	if (bpf_map_update_elem(&image_numbers, key, &wanted, BPF_NOEXIST))
		walk->counts.crowded++;
	else {
		u32 zero = 0;
		u32 *count = bpf_map_lookup_elem(&walk_wanted, &zero);
		if (count)
			__sync_fetch_and_add(count, 1);
	}
	return 0;
}

/* Looks an address up in the tree and the files' identities; false if it is not mapped as code. */
static __noinline bool see_walk_mapping(struct walk *walk, u64 address)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct image_key key = {};

	if (!walk)
		return false;
	struct mm_struct *mm = task->mm;
	if (!mm || !bpf_core_field_exists(mm->mm_mt))
		return false;
	struct vm_area_struct *vma = (void *)find_vma_entry(walk, (u64)BPF_CORE_READ(mm, mm_mt.ma_root), address);
	if (!vma)
		return false;
	u64 start = BPF_CORE_READ(vma, vm_start), end = BPF_CORE_READ(vma, vm_end);
	if (address < start || address >= end || BPF_CORE_READ(vma, vm_mm) != mm)
		return false;
	if (bpf_core_field_exists(vma->vm_flags) && !(BPF_CORE_READ(vma, vm_flags) & VM_EXEC))
		return false;
	walk->here.start = start;
	walk->here.end = end;
	walk->here.file_base = 0;
	walk->here.tgid = walk->tgid;
	walk->here.version = walk->version;
	walk->here.sequence = walk->sequence;
	walk->here.number = IMAGE_WITHOUT_TABLE;
	struct file *file = BPF_CORE_READ(vma, vm_file);
	if (file) {
		identify(file, &key.inode, &key.device, &key.generation);
		walk->here.file_base = (BPF_CORE_READ(vma, vm_pgoff) << 12) - start;
		walk->here.number = number_of_image(walk, &key, address);
	} else if (start == (u64)BPF_CORE_READ(mm, context.vdso)) {
		walk->here.file_base = -start;
		walk->here.number = IMAGE_VDSO;
	}
	return true;
}

/* Puts the mapping of an address into `here`; false if it is not mapped as code. */
static __always_inline bool find_walk_mapping(struct walk *walk, u64 address)
{
	struct walk_mapping *here = &walk->here;

	if (address - here->start < here->end - here->start)
		return true;
	u32 part = (walk->tgid * 0x9e3779b1u ^ (u32)(address >> 20) * 0x85ebca6bu) >> 25;
	u32 index = bpf_get_smp_processor_id() * WALK_CACHE + (part & (WALK_CACHE - 1));
	struct walk_mapping *cached = bpf_map_lookup_elem(&walk_cache, &index);
	if (!cached)
		return false;
	if (cached->tgid == walk->tgid && cached->sequence == walk->sequence && cached->version == walk->version &&
	    address - cached->start < cached->end - cached->start) {
		*here = *cached;
		return true;
	}
	if (!see_walk_mapping(walk, address)) {
		here->end = here->start = 0;
		here->number = IMAGE_WITHOUT_TABLE;
		return false;
	}
	*cached = *here;
	return true;
}

/* ---- the rule of a place ---- */
static __always_inline struct row_page *row_page(u32 page)
{
	u32 chunk = page / CHUNK_PAGES, within = page % CHUNK_PAGES;
	void *inner = bpf_map_lookup_elem(&rows, &chunk);

	return inner ? bpf_map_lookup_elem(inner, &within) : 0;
}

static __always_inline u32 find_row(const u32 *words, u32 first, u32 count, u32 within)
{
	/* The last row that begins at or before `within`; without branches, which would be guessed wrong. */
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

/* ---- words of the stack ---- */
static __always_inline bool stack_word(struct walk *walk, u64 address, u64 *word)
{
	u64 offset = address - walk->piece_start;

	if (offset + 8 > walk->piece_bytes) {
		u64 from = address - WALK_BEFORE;
		u32 bytes = WALK_PIECE * 8;
		if (from < walk->sp || from > address)
			from = address < walk->sp ? address : walk->sp;
		if (address - from > WALK_BEFORE)
			from = address;
		if (bpf_probe_read_user(walk->piece, WALK_PIECE * 8, (void *)from)) {
			/* near the end of the stack, or not on it */
			from = address;
			bytes = 8;
			if (bpf_probe_read_user(walk->piece, 8, (void *)from)) {
				walk->piece_bytes = 0;
				return false;
			}
		}
		walk->piece_start = from;
		walk->piece_bytes = bytes;
		offset = address - from;
	}
	u32 index = offset / 8;
	if (index >= WALK_PIECE || (offset & 7))
		return false;
	*word = walk->piece[index];
	return true;
}

/* ---- steps ---- */
enum walk_step { WALK_ON, WALK_COMPLETE, WALK_UNSUPPORTED, WALK_LOST, WALK_ASTRAY };

#if defined(__TARGET_ARCH_arm64)
#define HAS_LINK true
#define CODE_BITS(address_) ((address_) & ((1ull << 48) - 1)) /* a signature is above */
#else
#define HAS_LINK false
#define CODE_BITS(address_) (address_)
#endif

/* A caller that can be one becomes the place. */
static __always_inline enum walk_step walk_to(struct walk *walk, u64 pc, u64 sp, u64 fp)
{
	pc = CODE_BITS(pc);
	if (!pc)
		return WALK_COMPLETE;
	if (pc < 4096 || pc >> 63)
		return WALK_ASTRAY;
	if (sp <= walk->sp && !(HAS_LINK && walk->interrupted && pc != walk->pc && sp == walk->sp))
		return WALK_ASTRAY;
	walk->pc = pc;
	walk->sp = sp;
	walk->fp = fp;
	walk->link = 0;
	walk->interrupted = 0;
	return WALK_ON;
}

static __always_inline enum walk_step walk_by_pointer(struct walk *walk)
{
	u64 fp = walk->fp, saved, pc;

	if (!fp && !walk->fp_lost && walk->depth)
		return WALK_COMPLETE;
	if (walk->fp_lost || fp < walk->sp || (fp & 7))
		return WALK_LOST;
	if (!stack_word(walk, fp, &saved) || !stack_word(walk, fp + 8, &pc))
		return WALK_LOST;
	walk->base_lost = 1;
	return walk_to(walk, pc, fp + 16, saved);
}

/* A register of the innermost frame, by its DWARF number. */
static __always_inline bool innermost_register(struct walk *walk, u32 number, u64 *value)
{
#if defined(__TARGET_ARCH_x86)
	struct pt_regs *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	if (walk->depth)
		return false;
	switch (number) {
	case 0: *value = BPF_CORE_READ(regs, ax); return true;
	case 1: *value = BPF_CORE_READ(regs, dx); return true;
	case 2: *value = BPF_CORE_READ(regs, cx); return true;
	case 4: *value = BPF_CORE_READ(regs, si); return true;
	case 5: *value = BPF_CORE_READ(regs, di); return true;
	case 8: *value = BPF_CORE_READ(regs, r8); return true;
	case 9: *value = BPF_CORE_READ(regs, r9); return true;
	case 10: *value = BPF_CORE_READ(regs, r10); return true;
	case 11: *value = BPF_CORE_READ(regs, r11); return true;
	case 12: *value = BPF_CORE_READ(regs, r12); return true;
	case 13: *value = BPF_CORE_READ(regs, r13); return true;
	case 14: *value = BPF_CORE_READ(regs, r14); return true;
	case 15: *value = BPF_CORE_READ(regs, r15); return true;
	}
#endif
	return false;
}

static __always_inline bool frame_address(struct walk *walk, struct rule *rule, u64 *cfa)
{
	u64 base = walk->sp, offset = (s64)rule->cfa_offset;
	u8 kind = rule->kind;

	if (kind == RULE_FRAME_POINTER || kind == RULE_FRAME_MEMORY) {
		if (walk->fp_lost)
			return false;
		base = walk->fp;
	} else if (kind == RULE_BASE_REGISTER) {
		if (walk->base_lost)
			return false;
		base = walk->base;
	} else if (kind == RULE_REGISTER) {
		if (!innermost_register(walk, rule->extra, &base))
			return false;
	}
	*cfa = base + offset;
	if (kind == RULE_STACK_MEMORY || kind == RULE_FRAME_MEMORY) {
		if (!stack_word(walk, *cfa, cfa))
			return false;
		*cfa += rule->extra;
	} else if (kind == RULE_LINKAGE_STUB && (walk->pc & 15) >= rule->extra) {
		*cfa += 8;
	}
	return true;
}

/* A register that was saved at `address`. An epilogue has popped it already where that lies below the stack
 * pointer, and the tables do not always say so. */
static __always_inline void restore(struct walk *walk, u64 address, u64 *value, u8 *is_lost)
{
	if (walk->interrupted && address < walk->sp)
		return;
	*is_lost = !stack_word(walk, address, value);
}

static __always_inline enum walk_step walk_by_rule(struct walk *walk, struct rule *rule)
{
	u64 cfa, pc, fp = walk->fp;

	if (!frame_address(walk, rule, &cfa))
		return WALK_UNSUPPORTED;
	if (rule->link == RETURN_IN_LINK) {
		if (!HAS_LINK || !walk->interrupted)
			return WALK_ASTRAY;
		pc = walk->link;
	} else if (!stack_word(walk, cfa + (s64)rule->return_offset, &pc)) {
		return WALK_LOST;
	}
	if (rule->frame == FRAME_AT_CFA)
		restore(walk, cfa + (s64)rule->frame_offset, &fp, &walk->fp_lost);
	else if (rule->frame == FRAME_AT_FRAME && !walk->fp_lost)
		restore(walk, walk->fp + (s64)rule->frame_offset, &fp, &walk->fp_lost);
	else if (rule->frame == FRAME_LOST)
		walk->fp_lost = 1;
	if (rule->base_slot == BASE_LOST)
		walk->base_lost = 1;
	else if (rule->base_slot)
		restore(walk, cfa - 8 * (u64)rule->base_slot, &walk->base, &walk->base_lost);
	return walk_to(walk, pc, cfa, fp);
}

/* The registers that the kernel put on the stack in front of a signal handler. */
static __always_inline enum walk_step walk_to_interrupted(struct walk *walk)
{
	u64 pc, sp, at = walk->sp;

#if defined(__TARGET_ARCH_arm64)
	/* siginfo (128), then ucontext with uc_mcontext at 176, whose registers begin at 8 */
	if (!stack_word(walk, at + 312 + 8 * 29, &walk->fp) || !stack_word(walk, at + 312 + 8 * 30, &walk->link) ||
	    !stack_word(walk, at + 312 + 8 * 31, &sp) || !stack_word(walk, at + 312 + 8 * 32, &pc))
		return WALK_LOST;
#else
	/* struct ucontext, of which uc_mcontext begins at 40 */
	if (!stack_word(walk, at + 120, &walk->fp) || !stack_word(walk, at + 128, &walk->base) ||
	    !stack_word(walk, at + 160, &sp) || !stack_word(walk, at + 168, &pc))
		return WALK_LOST;
	walk->base_lost = 0;
#endif
	walk->fp_lost = 0;
	if (!pc)
		return WALK_COMPLETE;
	if (pc < 4096 || pc >> 63)
		return WALK_ASTRAY;
	walk->pc = pc;
	walk->sp = sp;
	walk->interrupted = 1;
	return WALK_ON;
}

/* Assembly without tables in an image that has some mostly has no frame: the return address is where a call
 * put it, if that is code. */
static __always_inline enum walk_step walk_without_frame(struct walk *walk)
{
	u64 pc = walk->link, sp = walk->sp;

	if (walk->interrupted) {
		if (!HAS_LINK) {
			if (!stack_word(walk, sp, &pc))
				pc = 0;
			sp += 8;
		}
		pc = CODE_BITS(pc);
		if (pc > 4096 && find_walk_mapping(walk, pc - 1))
			return walk_to(walk, pc, sp, walk->fp);
	}
	return walk_by_pointer(walk);
}

static __always_inline enum walk_step walk_step(struct walk *walk, struct rule *rule)
{
	if (!rule) {
		if (walk->here.number)
			walk->counts.by_pointer++;
		else
			walk->counts.by_pointer_early++;
		return walk_by_pointer(walk);
	}
	switch (rule->kind) {
	case RULE_UNCOVERED:
		walk->counts.by_pointer++;
		return walk_without_frame(walk);
	case RULE_ROOT:
		walk->counts.by_table++;
		return WALK_COMPLETE;
	case RULE_UNSUPPORTED:
		return WALK_UNSUPPORTED;
	case RULE_SIGNAL_RETURN:
		walk->counts.by_table++;
		return walk_to_interrupted(walk);
	default:
		walk->counts.by_table++;
		return walk_by_rule(walk, rule);
	}
}

/* ---- walks ---- */
struct walk_loop {
	struct walk *walk;
	u64 *address; /* MAX_FRAMES of them */
};
#define WALK_FRAMES 127

static long walk_frame(u32 depth, struct walk_loop *loop)
{
	struct walk *walk = loop->walk;
	u64 at = walk->pc - !walk->interrupted;
	struct rule *rule = 0;

	if (depth >= WALK_FRAMES)
		return 1;
	if (find_walk_mapping(walk, at)) {
		rule = find_rule(walk, at);
	} else if (depth) {
		walk->counts.astray++;
		walk->depth = depth;
		return 1;
	}
	/* User space looks for callers in front of their addresses, where the call is. */
	bool no_call = depth && (walk->interrupted || (rule && rule->kind == RULE_SIGNAL_RETURN));
	u64 address = walk->pc + no_call;
	loop->address[depth] = address;
	walk->hash = mixed(walk->hash, address);
	walk->depth = depth;
	enum walk_step step = walk_step(walk, rule);
	if (step == WALK_ON)
		return 0;
	walk->depth++;
	if (step == WALK_COMPLETE)
		walk->counts.complete++;
	else if (step == WALK_UNSUPPORTED)
		walk->counts.unsupported++;
	else if (step == WALK_LOST)
		walk->counts.lost++;
	else
		walk->counts.astray++;
	return 1;
}

static __always_inline void add_walk_counts(struct walk *walk)
{
	u32 zero = 0;
	struct walk_counts *sums = bpf_map_lookup_elem(&walk_counts, &zero);

	if (!sums)
		return;
	u64 *sum = (u64 *)sums, *one = (u64 *)&walk->counts;
	for (u32 i = 0; i < sizeof(walk->counts) / 8; i++)
		sum[i] += one[i];
}

/* Whether the registers are those of a 32-bit program; else the walk begins with them. */
static __always_inline bool begin_walk(struct walk *walk, struct task_struct *task)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);

#if defined(__TARGET_ARCH_arm64)
	struct user_pt_regs *user = (void *)regs;
	walk->pc = BPF_CORE_READ(user, pc);
	if (BPF_CORE_READ(user, pstate) & 0x10)
		return false;
	walk->sp = BPF_CORE_READ(user, sp);
	walk->fp = BPF_CORE_READ(user, regs[29]);
	walk->link = BPF_CORE_READ(user, regs[30]);
#else
	walk->pc = regs->ip;
	if ((u16)regs->cs != USER_CODE_64)
		return false;
	walk->sp = regs->sp;
	walk->fp = regs->bp;
	walk->base = regs->bx;
#endif
	return true;
}

/* Puts the frames of the current thread's user stack into `address` and returns how many; their hash is
 * `walk->hash`. A 32-bit program, which has other tables, has one. */
static __always_inline u32 walk_user_stack(struct walk *walk, struct task_struct *task, u64 *address, u64 sequence)
{
	struct walk_loop loop = { .walk = walk, .address = address };
	u32 zero = 0;
	struct walk_state *state = bpf_map_lookup_elem(&walk_state, &zero);

	__builtin_memset(&walk->counts, 0, sizeof(walk->counts));
	walk->counts.stacks = 1;
	if (!state)
		return 0;
	walk->hash = HASH_START;
	if (!begin_walk(walk, task)) {
		walk->counts.narrow = 1;
		add_walk_counts(walk);
		address[0] = walk->pc;
		walk->hash = mixed(walk->hash, walk->pc);
		return 1;
	}
	walk->sequence = sequence;
	walk->version = state->version;
	walk->round = state->round;
	walk->tgid = task->tgid;
	walk->piece_bytes = 0;
	walk->here.start = walk->here.end = 0;
	walk->fp_lost = walk->base_lost = 0;
	walk->interrupted = 1;
	walk->depth = 0;
	if (bpf_loop(WALK_FRAMES, walk_frame, &loop, 0) == WALK_FRAMES &&
	    !(walk->counts.complete | walk->counts.unsupported | walk->counts.lost | walk->counts.astray)) {
		walk->counts.too_deep = 1;
		walk->depth++;
	}
	add_walk_counts(walk);
	return walk->depth;
}
