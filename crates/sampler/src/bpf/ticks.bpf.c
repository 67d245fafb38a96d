/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Sends a signal to the thread that a processor's timer interrupts, if it is of a program that waits for it. */
#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* runtime_abi::SIGNAL */
#define SIGNAL 16

/* Set before the program is loaded: the address of the handler that the target has for the signal. No other
 * process has one there, nor has a child that has executed another program. */
const volatile u64 handler = 0;

SEC("perf_event")
int on_tick(void *context)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	void *found = BPF_CORE_READ(task, sighand, action[SIGNAL - 1].sa.sa_handler);

	if (found && (u64)found == handler)
		bpf_send_signal_thread(SIGNAL);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
