/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* The control group of a thread, as a number, and the path of each number. */
#pragma once

/* Whether the kernel has version 1's memory hierarchy, which then tells containers apart. */
const volatile bool cgroups_by_memory = false;

/* Mirrored in layout.rs. */
#define CGROUP_LEVELS 10 /* the innermost ones are kept */
#define CGROUP_NAME 96 /* cri-containerd-<64 digits>.scope has 85 */
struct cgroup_name {
	char text[CGROUP_NAME];
};
struct cgroup_path {
	u32 levels; /* of `names` */
	u32 cut; /* 1: there are more above */
	struct cgroup_name names[CGROUP_LEVELS]; /* innermost first */
};
#define OF_MEMORY 0x80000000u

FLAGGED_TABLE(cgroups, BPF_MAP_TYPE_HASH, 0, 2048, u32, struct cgroup_path);
FLAGGED_TABLE(cgroup_scratch, BPF_MAP_TYPE_PERCPU_ARRAY, 0, 1, u32, struct cgroup_path);

static __always_inline struct kernfs_node *cgroup_node(struct task_struct *task, u32 *hierarchy)
{
	struct css_set *set = task->cgroups;
	struct cgroup *group = 0;

	*hierarchy = 0;
	if (cgroups_by_memory && bpf_core_enum_value_exists(enum cgroup_subsys_id, memory_cgrp_id)) {
		struct cgroup_subsys_state *state =
			BPF_CORE_READ(set, subsys[bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id)]);
		group = BPF_CORE_READ(state, cgroup);
		/* Processes that are only in a group of version 2, as systemd's are, are in the
		 * root of version 1. */
		if (BPF_CORE_READ(group, level)) {
			*hierarchy = OF_MEMORY;
			return BPF_CORE_READ(group, kn);
		}
	}
	return set->dfl_cgrp->kn;
}

static __always_inline struct kernfs_node *parent_node(struct kernfs_node *node)
{
	struct kernfs_node___6_15 *newer = (void *)node;

	if (bpf_core_field_exists(newer->__parent))
		return BPF_CORE_READ(newer, __parent);
	return BPF_CORE_READ(node, parent);
}

/* The number of the thread's control group. A number of one hierarchy is reused only after 2^31
 * others. */
static __always_inline u32 cgroup_of(struct task_struct *task)
{
	u32 hierarchy;
	struct kernfs_node *node = cgroup_node(task, &hierarchy);

	return ((u32)BPF_CORE_READ(node, id) & ~OF_MEMORY) | hierarchy;
}

/* Records the path of the current thread's group once: a group lives no longer than its tasks. */
__noinline int name_cgroup(u32 number)
{
	u32 first = 0, hierarchy;
	struct cgroup_path *path;

	if (bpf_map_lookup_elem(&cgroups, &number))
		return 0;
	path = bpf_map_lookup_elem(&cgroup_scratch, &first);
	if (!path)
		return 0;
	struct kernfs_node *node = cgroup_node(bpf_get_current_task_btf(), &hierarchy);
	u32 levels = 0;
	path->cut = 0;
	for (u32 i = 0; i < CGROUP_LEVELS; i++) {
		struct kernfs_node *parent = node ? parent_node(node) : 0;
		if (!parent)
			break;
		bpf_probe_read_kernel_str(path->names[i].text, CGROUP_NAME, BPF_CORE_READ(node, name));
		levels = i + 1;
		node = parent;
	}
	if (node && parent_node(node))
		path->cut = 1;
	path->levels = levels;
	bpf_map_update_elem(&cgroups, &number, path, BPF_ANY);
	return 0;
}
