/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Drops samples of other processes in the kernel: an event of a CPU sees every process there. On
 * a busy machine the unwanted samples, with copies of their stacks, would fill the ring buffer. */
#include "targets.h"

SEC("perf_event")
int on_sample(void *context)
{
	return is_target(tgid_of(bpf_get_current_task_btf())); /* 0: no sample is written */
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
