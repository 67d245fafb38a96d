/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Tells the threads of a program how long outside events made them wait (a disk, a timer,
 * another process), and how often they were sampled in a system call. The thread gets the signal
 * that ticks.bpf.c sends when its system call is complete, so that no call is interrupted. The
 * signal's value contains both. */
#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "external_wait.h"

/* Shorter waits are not worth a signal. */
#define SHORTEST_NS 20000
/* Results of calls that the kernel may restart by itself; a signal now would make some of them
 * fail. */
#define RESTART_FIRST -516
#define RESTART_LAST -512
/* Sleeping for good: parked, dead, no load. These states are no waits of a program. */
#define NOT_WAITING 0xb0
/* Mask of the file type in i_mode. */
#define FILE_KIND 0170000
#define IS_SOCKET 0140000
#define IS_PIPE 0010000
#define IS_TERMINAL 0020000

enum pid_type { PIDTYPE_PID };
extern int bpf_send_signal_task(struct task_struct *task, int sig, enum pid_type type, u64 value) __ksym;

/* Calls that read from a descriptor: read and readv of x86-64. */
#define IS_READ(call) ((call) == 0 || (call) == 19)

/* System calls that wait for work, one bit each. Set before the programs are loaded. */
#define CALL_WORDS 8
const volatile u64 work_calls[CALL_WORDS] = {};

static __always_inline bool is_for_work(const struct external_wait *wait)
{
	u32 call = wait->call;

	return wait->from_peer || (call < 64 * CALL_WORDS && work_calls[call / 64 & (CALL_WORDS - 1)] >> (call & 63) & 1);
}

/* Whether a descriptor of the task leads to a peer. */
static __always_inline bool leads_to_peer(struct task_struct *task, u32 descriptor)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files = BPF_CORE_READ(table, fd);
	struct file *file = 0;
	u32 kind;

	if (descriptor >= BPF_CORE_READ(table, max_fds) ||
	    bpf_probe_read_kernel(&file, sizeof(file), files + descriptor) || !file)
		return false;
	kind = BPF_CORE_READ(file, f_inode, i_mode) & FILE_KIND;
	return kind == IS_SOCKET || kind == IS_PIPE || kind == IS_TERMINAL;
}

static __always_inline void begin_wait(struct task_struct *task, u64 now)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	s32 call = call_of(task);
	u32 tid = task->pid;
	struct external_wait fresh = { .since_ns = now }, *wait;

	/* A page fault has no end of its own at which the thread could get a signal. */
	if (call < 0)
		return;
	fresh.call = call;
	fresh.tid = tid_of(task);
	fresh.pc = BPF_CORE_READ(regs, ip);
	fresh.sp = BPF_CORE_READ(regs, sp);
	fresh.from_peer = IS_READ(call) && leads_to_peer(task, BPF_CORE_READ(regs, di));
	wait = bpf_map_lookup_elem(&waiting, &tid);
	if (wait) {
		fresh.waited_ns = wait->waited_ns;
		fresh.ticks = wait->ticks;
		fresh.ran_since_ns = wait->ran_since_ns;
		fresh.for_clients_ns = wait->for_clients_ns;
		fresh.client_ns = wait->client_ns;
	}
	bpf_map_update_elem(&waiting, &tid, &fresh, BPF_ANY);
}

/* Whether a thread in this system call wakes others by it. A thread that stands still for a
 * delay wakes nobody: an interrupt on its CPU did. (Not every kernel tells whether the processor
 * serves an interrupt.) */
static __always_inline bool may_wake(s32 call)
{
	switch (call) {
	case -1: /* none */
	case 24: /* sched_yield */
	case 35: /* nanosleep */
	case 230: /* clock_nanosleep */
		return false;
	default:
		return true;
	}
}

SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx)
{
	bool preempted = ctx[0];
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u32 state = ctx[3], tid = next->pid;
	struct external_wait *wait = tid ? bpf_map_lookup_elem(&waiting, &tid) : 0;

	if (wait && wait->since_ns) {
		/* The wait for a processor that follows is not part of this wait. */
		if (wait->external && wait->woken_ns > wait->since_ns) {
			wait->waited_ns += wait->woken_ns - wait->since_ns;
			if (wait->by_client)
				wait->client_ns += wait->woken_ns - wait->since_ns;
		}
		wait->since_ns = 0;
	}
	if (!preempted && state && !(state & NOT_WAITING) && is_target(prev))
		begin_wait(prev, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/sched_waking")
int on_waking(u64 *ctx)
{
	struct task_struct *woken = (void *)ctx[0], *task = bpf_get_current_task_btf();
	u32 tid = woken->pid;
	struct external_wait *wait = bpf_map_lookup_elem(&waiting, &tid);

	if (!wait || !wait->since_ns || wait->woken_ns)
		return 0;
	wait->external = task->tgid != woken->tgid || !may_wake(call_of(task));
	wait->by_client = wait->external && !is_target(task);
	wait->woken_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sys_exit")
int on_system_call_exit(u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 tid = task->pid;
	struct external_wait *wait = bpf_map_lookup_elem(&waiting, &tid);
	s64 result = ctx[1];
	u64 ns, ticks, value = 0, longest = (1ull << LENGTH_BITS) - 1;

	if (!wait || !(wait->waited_ns | wait->ticks))
		return 0;
	/* A call that ended by its timeout has brought no work. */
	if (result > 0 && is_for_work(wait))
		wait->for_clients_ns += wait->client_ns;
	wait->client_ns = 0;
	ns = wait->waited_ns;
	ticks = wait->ticks;
	wait->waited_ns = 0;
	wait->ticks = 0;
	if ((result >= RESTART_FIRST && result <= RESTART_LAST) || !is_target(task) || blocks_signal(task))
		return 0;
	if (ns >= SHORTEST_NS) {
		value = ns < longest ? ns : longest;
		value |= (u64)(wait->call & ((1 << CALL_BITS) - 1)) << LENGTH_BITS;
		value |= (u64)(wait->from_peer != 0) << (LENGTH_BITS + CALL_BITS);
	}
	value |= (ticks < MOST_TICKS ? ticks : MOST_TICKS) << TICKS_SHIFT;
	if (value && has_stack(task))
		bpf_send_signal_task(task, SIGNAL, PIDTYPE_PID, value);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
