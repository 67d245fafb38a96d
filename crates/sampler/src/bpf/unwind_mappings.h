/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Finds the image that is mapped at an address in the kernel's tree of mappings. */
#pragma once
#include <bpf/bpf_core_read.h>
#include "identity.h"
#include "unwind_state.h"

#define MAPLE_DEPTH 6
#define MAPLE_ARANGE 3
#define MAPLE_FIRST_INNER 2 /* of the node types; lower ones are leaves */

static __always_inline u32 node_type(u64 entry)
{
	return (entry >> 3) & 15;
}

/* The entry of a tree node for a page; 0 if it cannot be read. */
__noinline u64 find_in_node(struct walk *walk, u64 entry, u64 page)
{
	if (!walk || entry < 4096)
		return 0;
	bool arange = node_type(entry) == MAPLE_ARANGE;
	if (bpf_probe_read_kernel(walk->node, sizeof(walk->node), (void *)(entry & ~255ull)))
		return 0;
	/* parent, pivots, slots, and in the last word the number of pivots */
	u32 pivots = arange ? 9 : 15, slots = 1 + pivots;
	u32 end = (arange ? walk->node[30] : walk->node[31]) & 0xff;
	if (!arange && walk->node[15])
		end = 15;
	if (end > pivots)
		end = pivots;
	/* Counts the pivots below; they are sorted. Without branches: the verifier would follow
	 * each of them. */
	u32 slot = 0;
	for (u32 i = 0; i < 15; i++) {
		u64 pivot = walk->node[(1 + i) & 31] >> 12;
		slot += ((u64)((s64)i - (s64)end) & (pivot - page)) >> 63;
	}
	return walk->node[(slots + slot) & 31];
}

/* The mapping of an address in the kernel's tree of mappings, which may be read without its lock
 * in an RCU read-side critical section, as BPF programs are. (The helper bpf_find_vma takes the
 * lock, and in an interrupt it can do so only once.) The fields of the result tell whether it is
 * right. */
static __always_inline u64 find_vma_entry(struct walk *walk, u64 root, u64 address)
{
	u64 entry = root;

	/* A root that is a node is marked as such; a process with a single mapping, which does
	 * not occur, would have the mapping itself as root. */
	if ((root & 3) != 2)
		return 0;
	for (u32 depth = 0; depth < MAPLE_DEPTH; depth++) {
		u32 type = node_type(entry);
		entry = find_in_node(walk, entry, address >> 12);
		if (type < MAPLE_FIRST_INNER)
			return entry;
	}
	return 0;
}

static __always_inline u32 number_of_image(struct walk *walk, struct image_key *key)
{
	struct image_number *known = bpf_map_lookup_elem(&image_numbers, key);
	if (known) {
		walk->here.label = known->label;
		walk->here.runtimes = known->runtimes;
		return known->number;
	}
	struct image_number wanted = { .tgid = walk->tgid };
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

/* Looks an address up in the tree, and its file's identity; false if it is not mapped as code. */
__noinline bool see_walk_mapping(struct walk *walk, u64 address)
{
	struct task_struct *task = bpf_get_current_task_btf();

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
	walk->here.label = 0;
	walk->here.runtimes = 0;
	struct file *file = BPF_CORE_READ(vma, vm_file);
	if (file && !is_shared_memory(file)) {
		identify(file, &walk->image.inode, &walk->image.device, &walk->image.generation);
		walk->here.file_base = file_base_of(BPF_CORE_READ(vma, vm_pgoff), start);
		walk->here.number = number_of_image(walk, &walk->image);
	} else if (start == (u64)BPF_CORE_READ(mm, context.vdso)) {
		walk->here.file_base = -start;
		walk->here.number = IMAGE_VDSO;
		walk->here.label = LABEL_VDSO;
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
		here->label = 0;
		here->runtimes = 0;
		return false;
	}
	*cached = *here;
	return true;
}
