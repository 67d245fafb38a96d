/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Credits the threads of a program without hooks. A thread that was behind when another thread
 * of the program woke it adopts the waker's count: it has waited for the waker, and need not
 * stand still for it once more. A new thread starts with its creator's count. */
#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* runtime_abi::SIGNAL */
#define SIGNAL 16
/* runtime_abi::kernel */
#define KERNEL_THREADS 4096
#define THREAD_BITS 12
#define PROBES 16
/* Shorter waits count as none: see operations.rs of the runtime. */
#define SHORTEST_NS 20000
/* Sleeping for good: parked, dead, no load. These states are no waits of a program. */
#define NOT_WAITING 0xb0

/* runtime_abi::kernel::KernelClock */
struct kernel_clock {
	u32 tid;
	u32 fresh;
	u64 local;
	u64 credit;
	u64 since;
	u64 machine_tid;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, KERNEL_THREADS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct kernel_clock);
} clocks SEC(".maps");

/* mirrored in credits.rs */
struct kernel_credits {
	u64 handler; /* see ticks.bpf.c; 0 until the handler is installed */
	u64 meetings; /* waits that another thread of the program ended */
};
struct kernel_credits state;

static __always_inline bool is_target(struct task_struct *task)
{
	void *found = BPF_CORE_READ(task, sighand, action[SIGNAL - 1].sa.sa_handler);

	return found && (u64)found == state.handler;
}

/* The id by which the thread's own program knows it. */
static __always_inline u32 own_tid(struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	u32 level = BPF_CORE_READ(pid, level);
	u32 tid = 0;

	if (!level)
		return BPF_CORE_READ(task, pid);
	bpf_probe_read_kernel(&tid, sizeof(tid), (void *)pid + bpf_core_field_offset(struct pid, numbers) +
						      level * bpf_core_type_size(struct upid));
	return tid;
}

static __always_inline struct kernel_clock *clock_at(u32 tid, u32 step)
{
	u32 at = ((tid * 0x9e3779b1u >> (32 - THREAD_BITS)) + step) & (KERNEL_THREADS - 1);

	return bpf_map_lookup_elem(&clocks, &at);
}

static struct kernel_clock *find_clock(u32 tid)
{
	for (u32 step = 0; step < PROBES; step++) {
		struct kernel_clock *clock = clock_at(tid, step);

		if (clock && clock->tid == tid)
			return clock;
	}
	return 0;
}

static __always_inline struct kernel_clock *find_or_take_clock(u32 tid)
{
	struct kernel_clock *found = tid ? find_clock(tid) : 0;

	if (found || !tid)
		return found;
	for (u32 step = 0; step < PROBES; step++) {
		struct kernel_clock *clock = clock_at(tid, step);

		if (clock && !clock->tid && !__sync_val_compare_and_swap(&clock->tid, 0, tid)) {
			clock->local = 0;
			clock->credit = 0;
			clock->since = 0;
			clock->machine_tid = 0;
			clock->fresh = 1;
			return clock;
		}
	}
	return 0;
}

/* The larger of two counts (runtime_abi::Clock). A count of a past experiment is ignored. */
static __always_inline u64 further(u64 one, u64 other)
{
	s16 later = (s16)((u16)(one >> 48) - (u16)(other >> 48));

	if (later)
		return later > 0 ? one : other;
	return one > other ? one : other;
}

static __always_inline void add_credit(struct kernel_clock *clock, u64 count)
{
	for (int tries = 0; tries < 4; tries++) {
		u64 known = clock->credit, now = further(known, count);

		if (now == known || __sync_val_compare_and_swap(&clock->credit, known, now) == known)
			return;
	}
}

/* The delay count of a thread. */
static __always_inline u64 count_of(struct task_struct *task)
{
	struct kernel_clock *clock = find_clock(own_tid(task));

	return clock ? further(clock->local, clock->credit) : 0;
}

/* Whether a thread is in a system call that wakes others. A thread that stands still for a delay
 * wakes nobody: an interrupt on its CPU did. */
static __always_inline bool may_wake(struct task_struct *task)
{
#if defined(__TARGET_ARCH_x86)
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);

	switch ((s64)BPF_CORE_READ(regs, orig_ax)) {
	case 24: /* sched_yield */
	case 35: /* nanosleep */
	case 230: /* clock_nanosleep */
		return false;
	default:
		return (s64)BPF_CORE_READ(regs, orig_ax) >= 0;
	}
#else
	return false;
#endif
}

SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx)
{
	bool preempted = ctx[0];
	struct task_struct *prev = (void *)ctx[1];
	u32 task_state = ctx[3];
	struct kernel_clock *clock;

	if (!state.handler || preempted || !task_state || (task_state & NOT_WAITING) || !is_target(prev))
		return 0;
	clock = find_clock(own_tid(prev));
	if (clock)
		clock->since = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sched_waking")
int on_waking(u64 *ctx)
{
	struct task_struct *woken = (void *)ctx[0], *task = bpf_get_current_task_btf();
	struct kernel_clock *clock;

	if (!state.handler || !is_target(task) || !is_target(woken) || task->pid == woken->pid || !may_wake(task))
		return 0;
	clock = find_or_take_clock(own_tid(woken));
	if (!clock)
		return 0;
	if (clock->since) {
		if (bpf_ktime_get_ns() - clock->since >= SHORTEST_NS)
			__sync_fetch_and_add(&state.meetings, 1);
		clock->since = 0;
	}
	add_credit(clock, count_of(task));
	return 0;
}

SEC("tp_btf/sched_process_fork")
int on_fork(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	struct kernel_clock *clock;

	if (!state.handler || !is_target(parent))
		return 0;
	clock = find_or_take_clock(own_tid(child));
	if (!clock)
		return 0;
	clock->fresh = 1;
	clock->local = 0;
	clock->machine_tid = child->pid;
	clock->credit = count_of(parent);
	return 0;
}

/* Forgets a thread that has left the program. */
static __always_inline void forget_clock(struct task_struct *task)
{
	struct kernel_clock *clock = find_clock(own_tid(task));

	if (clock && (clock->machine_tid == task->pid || is_target(task)))
		clock->tid = 0;
}

SEC("tp_btf/sched_process_exit")
int on_exit(u64 *ctx)
{
	if (state.handler)
		forget_clock((void *)ctx[0]);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int on_exec(u64 *ctx)
{
	if (state.handler)
		forget_clock((void *)ctx[0]);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
