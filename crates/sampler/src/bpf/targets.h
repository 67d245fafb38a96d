/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* The processes that are sampled: a command or a process, and its descendants. */
#pragma once
#include "kernel_types.h"
#include "task_ids.h"
#include <bpf/bpf_helpers.h>

const volatile bool only_targets = false; /* only processes in `targets` */

/* By process id. Ids are reused, and an old process may be freed after a new one began, so the
 * entry identifies its owner. */
struct target {
	u64 start; /* start of the process; 0: unknown, because user space added the entry */
	u32 armed;
	u32 unused;
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u32);
	__type(value, struct target);
} targets SEC(".maps");

static __always_inline bool is_target(u32 tgid)
{
	if (!tgid)
		return false; /* the idle task, or a task of another PID namespace */
	if (!only_targets)
		return true;
	struct target *target = bpf_map_lookup_elem(&targets, &tgid);
	return target && target->armed;
}

SEC("tp_btf/sched_process_fork")
int on_fork(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	u32 from = tgid_of(parent), to = tgid_of(child);
	struct target target = { .start = child->start_time, .armed = 1 };

	if (from == to)
		return 0; /* a thread */
	if (is_target(from))
		bpf_map_update_elem(&targets, &to, &target, BPF_ANY);
	else
		bpf_map_delete_elem(&targets, &to); /* entry of the id's last owner, which is not freed yet */
	return 0;
}

/* Until it executes, a command is in `targets` unarmed: the launcher's work before does not
 * count. */
SEC("tp_btf/sched_process_exec")
int on_exec(u64 *ctx)
{
	u32 tgid = tgid_of(bpf_get_current_task_btf());
	struct target *target = bpf_map_lookup_elem(&targets, &tgid);

	if (target)
		target->armed = 1;
	return 0;
}

SEC("tp_btf/sched_process_free")
int on_free(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 tgid = tgid_of(task);
	struct target *target = bpf_map_lookup_elem(&targets, &tgid);

	if (task->pid != task->tgid || !target)
		return 0;
	/* The id may belong to a younger process by now. */
	if (!target->start || target->start == task->start_time)
		bpf_map_delete_elem(&targets, &tgid);
	return 0;
}
