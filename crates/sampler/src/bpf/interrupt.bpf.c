/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Sends the signal to the thread that runs on a CPU. User space asks for that by BPF_PROG_TEST_RUN
 * on the CPU. The thread must belong to the program and be in user mode. So no system call ends
 * early, and no process gets the signal while it executes a new program. */
#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "external_wait.h"

/* Flag of the result: the CPU runs a thread of the program. Mirrored in interrupt.rs. */
#define FOUND (1u << 31)

/* Returns the thread that runs on this CPU, if it belongs to the process. */
SEC("raw_tp")
int interrupt_thread(u64 *context)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 process = context[0], spared = context[1], tid;

	if (tgid_of(task) != process || !is_target(task))
		return 0;
	tid = tid_of(task);
#if defined(__TARGET_ARCH_x86)
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);

	if (tid != spared && (s64)BPF_CORE_READ(regs, orig_ax) < 0 && !blocks_signal(task) && has_stack(task))
		bpf_send_signal_thread(SIGNAL);
#endif
	return FOUND | tid;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
