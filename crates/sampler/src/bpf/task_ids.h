/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* The ids of processes and threads as user space knows them: the kernel's own, or in a container
 * those of its PID namespace. */
#pragma once
#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* The inode of user space's PID namespace; 0: the first one, which has the kernel's own ids. In
 * a section of its own, because other constants are set by position (programs.rs). */
const volatile u32 pid_namespace SEC(".rodata.namespace") = 0;

/* MAX_PID_NS_LEVEL */
#define NAMESPACE_LEVELS 32

/* Returns the id in user space's namespace; 0: none. A separate function, because its variables
 * would otherwise lie on the stack below walks. */
static __noinline u32 id_in_namespace(struct pid *pid)
{
	u32 level = BPF_CORE_READ(pid, level);

	/* It is usually the innermost namespace. */
	for (u32 above = 0; above <= NAMESPACE_LEVELS && above <= level; above++) {
		struct upid *own = (void *)pid + bpf_core_field_offset(struct pid, numbers) +
				   (level - above) * bpf_core_type_size(struct upid);

		if (BPF_CORE_READ(own, ns, ns.inum) == pid_namespace)
			return BPF_CORE_READ(own, nr);
	}
	return 0;
}

/* The ids of the thread and of its process. 0: the idle task, or a task outside of the
 * namespace. A reaped task (sched_process_free) has no id in a namespace. */
static __always_inline u32 tid_of(struct task_struct *task)
{
	return pid_namespace ? id_in_namespace(BPF_CORE_READ(task, thread_pid)) : task->pid;
}

static __always_inline u32 tgid_of(struct task_struct *task)
{
	return pid_namespace ? id_in_namespace(BPF_CORE_READ(task, group_leader, thread_pid)) : task->tgid;
}
