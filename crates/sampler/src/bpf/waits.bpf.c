/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Every wait of the threads of some processes, one by one, with its waker: for tracing, where a
 * wait belongs to the block that the thread was in. Aggregates belong to collect.bpf.c. */
#include "kernel_types.h"
#include "lost.h"
#include "task_ids.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define NONE 0xffffffffu
/* Maximum length of a program's path. */
#define PROGRAM 256
/* Longest time to leave the idle state, which takes tens of microseconds on virtual machines. */
#define WAKE_UP_NS 1000000
/* CPUs with higher numbers are not tracked: waits there count as the program's own. */
#define MOST_CPUS 4096

/* ---- what user space sets before the programs are loaded ---- */
const volatile u32 frame_size = 0; /* of runtime_abi::trace::Frame */
const volatile u32 block_offset = 0; /* of its block */
const volatile u32 base_offset = 0; /* of the first frame's address in runtime_abi::trace::Local */

/* ---- shared with user space; mirrored in thread_waits.rs ---- */
struct wait {
	u64 start_ns;
	u64 end_ns;
	u64 queued_ns;
	u32 tid;
	u32 system_call; /* NONE: none */
	u32 waker_tid; /* 0: not of the program; after a preemption: the woken thread that took the CPU */
	u32 waker_block; /* NONE: none */
	u32 preempted; /* then system_call is the one that the woken thread had waited in */
	u32 reserved;
	u64 taken_ns; /* part of queued_ns: other processes used CPUs that it might have had */
	u64 held_ns; /* part of the time before: the same for the waker */
};
struct changed_cpu {
	u32 number;
	u32 usable; /* 0 or 1 */
};
/* A time that a thread was ready without a CPU. */
struct queued {
	u64 from_ns;
	u64 to_ns;
	u64 taken_ns; /* see struct wait */
};
/* Number of these times that are kept of a thread, for the threads that it wakes. */
#define LAST 4
struct waiting {
	u64 since_ns; /* 0: not waiting */
	u64 woken_ns; /* 0: still asleep */
	u32 system_call;
	u32 waker_tid;
	u32 waker_block;
	u32 preempted;
	u32 waker; /* the kernel's id */
	u32 unused;
	u64 taken_ns; /* value of taken_ns below when the thread was ready */
	u64 held_ns;
	u64 n; /* number of times kept in last, with the overwritten ones */
	struct queued last[LAST];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u32);
} processes SEC(".maps");
/* The end of the last thread of each watched process that has ended. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u64);
} ended SEC(".maps");
/* Address of a thread's runtime_abi::trace::Local. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, u64);
} threads SEC(".maps");
/* By the kernel's own ids. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct waiting);
} waiting SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} waits SEC(".maps");
/* Descendants of watched processes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u32);
} started SEC(".maps");
/* Paths of the programs that they have executed. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 << 10);
} programs SEC(".maps");

/* A process that ran while watched threads were ready without a CPU; `takers` has its time. */
struct taker {
	u32 tgid;
	u32 is_own; /* 1: a watched process, or a descendant of one */
	char comm[16];
};
/* What a CPU does. As long as a cache line, as each CPU changes its own. */
#define USABLE 1 /* watched threads may run on it */
#define NOT_FOREIGN 2 /* it is idle, or runs a watched process. A thread that ran when watching
		       * began is not watched. */
struct cpu {
	u64 since_ns; /* when the running thread got the CPU */
	u32 state;
	u32 reserved[13];
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MOST_CPUS);
	__type(key, u32);
	__type(value, struct cpu);
} cpus SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct taker);
	__type(value, u64);
} takers SEC(".maps");

static __always_inline u32 system_call_of(struct task_struct *task)
{
#if defined(__TARGET_ARCH_x86)
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	long number = (long)regs->orig_ax;

	return number >= 0 && number < 4096 ? (u32)number : NONE;
#else
	return NONE;
#endif
}

static __always_inline bool is_target(u32 tgid)
{
	return bpf_map_lookup_elem(&processes, &tgid) != 0;
}

static __always_inline bool is_started(u32 tgid)
{
	return is_target(tgid) || bpf_map_lookup_elem(&started, &tgid);
}

/* Number of watched threads that are ready without a CPU, and the time since which that is so. */
static u64 ready_threads, ready_since;
/* Number of usable CPUs that run other processes. */
static u64 foreign_cpus;
/* Time for which a permanently ready thread would have been without a CPU because of other
 * processes, and the end of the time counted. */
static u64 taken_ns, taken_until;

/* Without other processes, the CPUs that these use would run the same number of ready threads.
 * The rest waits for the program's own threads. Which threads would run is unknown, so each is
 * charged the same share. Called before either number changes. */
static __always_inline void count_taken(u64 now)
{
	u64 until = taken_until, ready = ready_threads, foreign = foreign_cpus;

	/* Each moment is counted by one CPU. */
	if (now <= until || !__sync_bool_compare_and_swap(&taken_until, until, now) || !ready || !foreign)
		return;
	__sync_fetch_and_add(&taken_ns, foreign < ready ? (now - until) * foreign / ready : now - until);
}

static __always_inline void becomes_ready(u64 now)
{
	count_taken(now);
	if (!ready_threads)
		ready_since = now;
	__sync_fetch_and_add(&ready_threads, 1);
}

static __always_inline void becomes_running(u64 now)
{
	count_taken(now);
	if (ready_threads)
		__sync_fetch_and_add(&ready_threads, -1);
}

/* Charges a thread that leaves a CPU for using it while watched threads were ready: the thread
 * that ran last before one of these got its CPU may have run for a moment only. */
static __always_inline void charge(struct task_struct *prev, u64 since, u64 now)
{
	u64 *sum;

	since = since > ready_since ? since : ready_since;
	if (!ready_threads || !prev->pid || now <= since)
		return;
	struct taker taker = {.tgid = tgid_of(prev)};
	u64 ns = now - since;

	taker.is_own = is_started(taker.tgid);
	bpf_probe_read_kernel(&taker.comm, sizeof(taker.comm), prev->comm);
	sum = bpf_map_lookup_elem(&takers, &taker);
	if (sum)
		__sync_fetch_and_add(sum, ns);
	else
		bpf_map_update_elem(&takers, &taker, &ns, BPF_ANY);
}

/* Remembers that a thread had no CPU, for some of the time because of other processes. */
static __always_inline void remember(struct waiting *of, u64 from, u64 to, u64 taken)
{
	u32 at = of->n % LAST;

	of->last[at].from_ns = from;
	of->last[at].to_ns = to;
	of->last[at].taken_ns = taken < to - from ? taken : to - from;
	of->n++;
}

/* Time since `since` for which other processes kept a thread from running; a lower bound. */
static __always_inline u64 held_since(u32 tid, u64 since)
{
	struct waiting *of = bpf_map_lookup_elem(&waiting, &tid);
	u64 sum = 0;

	for (int at = 0; of && at < LAST; at++) {
		struct queued *one = &of->last[at];
		u64 from = one->from_ns > since ? one->from_ns : since;

		if (one->to_ns > from)
			sum += one->taken_ns < one->to_ns - from ? one->taken_ns : one->to_ns - from;
	}
	return sum;
}

/* Changes one bit of the state of a CPU. Each change is counted once, whatever others change
 * meanwhile: it is known from which state it led to which. */
static __always_inline void change_state(struct cpu *cpu, u32 bit, u64 now)
{
	if (ready_threads)
		count_taken(now);
	u32 before = __sync_fetch_and_xor(&cpu->state, bit), after = before ^ bit;

	__sync_fetch_and_add(&foreign_cpus, (s64)(after == USABLE) - (before == USABLE));
}

/* Another thread has this CPU from now on. */
static __always_inline void change_slice(struct task_struct *prev, struct task_struct *next, u64 now)
{
	u32 number = bpf_get_smp_processor_id();
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &number);

	if (!cpu)
		return;
	if (cpu->state & USABLE)
		charge(prev, cpu->since_ns, now);
	cpu->since_ns = now;
	bool was_foreign = !(cpu->state & NOT_FOREIGN);
	bool is_foreign = next->pid && !is_started(tgid_of(next));
	if (is_foreign != was_foreign)
		change_state(cpu, NOT_FOREIGN, now);
}

/* Called by user space: watched threads may run on a CPU from now on, or no longer. */
SEC("syscall")
int change_usable(struct changed_cpu *changed)
{
	u32 number = changed->number;
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &number);

	if (cpu && !(cpu->state & USABLE) == changed->usable)
		change_state(cpu, USABLE, bpf_ktime_get_ns());
	return 0;
}

/* Whether a thread got its CPU so soon that it did not wait for others: an idle CPU had to wake
 * up, or its waker ran on there until it slept. Had the thread not been stopped, it would have
 * run on. */
static __always_inline bool is_wake_up(struct waiting *waited, struct task_struct *prev, u64 queued)
{
	return !waited->preempted && queued < WAKE_UP_NS && (!prev->pid || prev->pid == waited->waker);
}

SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx)
{
	bool preempted = ctx[0];
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u32 state = ctx[3], tid = next->pid;
	u64 now = bpf_ktime_get_ns();
	struct waiting *waited = tid ? bpf_map_lookup_elem(&waiting, &tid) : 0;
	u32 handed_to = 0, handed_to_tid = 0, handed_for = NONE;

	change_slice(prev, next, now);
	if (waited && waited->since_ns) {
		u64 ready = waited->woken_ns ? waited->woken_ns : now;
		u64 queued = now > ready ? now - ready : 0;

		u64 taken = 0;

		if (waited->woken_ns) {
			becomes_running(now);
			taken = taken_ns - waited->taken_ns;
		}
		if (is_wake_up(waited, prev, queued))
			queued = 0;
		else if (taken)
			remember(waited, ready, now, taken);
		/* A thread that wakes another one and loses its CPU to it passes on what that
		 * one waited for. */
		if (!waited->preempted && waited->waker == prev->pid) {
			handed_to = tid;
			handed_to_tid = tid_of(next);
			handed_for = waited->system_call;
		}
		struct wait *wait = bpf_ringbuf_reserve(&waits, sizeof(*wait), 0);
		if (wait) {
			wait->start_ns = waited->since_ns;
			wait->end_ns = now;
			wait->queued_ns = queued;
			wait->tid = tid_of(next);
			wait->system_call = waited->system_call;
			wait->waker_tid = waited->waker_tid;
			wait->waker_block = waited->waker_block;
			wait->preempted = waited->preempted;
			wait->reserved = 0;
			wait->taken_ns = taken < queued ? taken : queued;
			wait->held_ns = waited->held_ns;
			bpf_ringbuf_submit(wait, BPF_RB_NO_WAKEUP);
		} else {
			lose();
		}
		waited->since_ns = 0;
	}
	if (!is_target(tgid_of(prev)))
		return 0;
	tid = prev->pid;
	waited = bpf_map_lookup_elem(&waiting, &tid);
	/* The thread ran although no switch to it was traced, as happens with the agent threads
	 * of a virtual machine: it no longer counts as ready. */
	if (waited && waited->since_ns && waited->woken_ns)
		becomes_running(now);
	/* EXIT_DEAD, EXIT_ZOMBIE, TASK_DEAD: the thread ends. */
	if (!preempted && (state & 0xb0)) {
		bpf_map_delete_elem(&waiting, &tid);
		return 0;
	}
	bool ready = preempted || !state;
	if (ready)
		becomes_ready(now);
	/* The entry stays: adding and removing one at each switch took a third of this program's
	 * time. */
	if (!waited) {
		struct waiting none = {};

		bpf_map_update_elem(&waiting, &tid, &none, BPF_ANY);
		waited = bpf_map_lookup_elem(&waiting, &tid);
	}
	if (!waited)
		return 0;
	waited->woken_ns = ready ? now : 0;
	waited->system_call = ready ? handed_for : system_call_of(prev);
	waited->waker = ready ? handed_to : 0;
	waited->waker_tid = ready ? handed_to_tid : 0;
	waited->waker_block = NONE;
	waited->preempted = ready;
	waited->taken_ns = taken_ns;
	waited->held_ns = 0;
	waited->since_ns = now;
	return 0;
}

/* The block that the current thread is in. */
static __always_inline u32 current_block(u32 tid)
{
	u64 *local = bpf_map_lookup_elem(&threads, &tid), top = 0, base = 0, block = 0;

	if (!local || bpf_probe_read_user(&top, sizeof(top), (void *)*local) ||
	    bpf_probe_read_user(&base, sizeof(base), (void *)(*local + base_offset)) || top <= base ||
	    bpf_probe_read_user(&block, sizeof(block), (void *)(top - frame_size + block_offset)))
		return NONE;
	return block < (1 << 20) ? (u32)block : NONE;
}

SEC("tp_btf/sched_waking")
int on_waking(u64 *ctx)
{
	struct task_struct *woken = (void *)ctx[0];
	u32 tid = woken->pid;
	struct waiting *entry = bpf_map_lookup_elem(&waiting, &tid);

	if (!entry || !entry->since_ns || entry->woken_ns)
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();

	/* In a system call the current thread is the waker; otherwise an interrupt woke the
	 * task, and "current" is unrelated. */
	if (is_target(tgid_of(task)) && system_call_of(task) != NONE) {
		entry->waker = task->pid;
		entry->waker_tid = tid_of(task);
		entry->waker_block = current_block(entry->waker_tid);
		entry->held_ns = held_since(entry->waker, entry->since_ns);
	}
	entry->woken_ns = bpf_ktime_get_ns();
	becomes_ready(entry->woken_ns);
	entry->taken_ns = taken_ns;
	return 0;
}

SEC("tp_btf/sched_process_fork")
int on_fork(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	u32 pid = tgid_of(child), one = 1;

	if (child->tgid != parent->tgid && is_started(tgid_of(parent)))
		bpf_map_update_elem(&started, &pid, &one, BPF_ANY);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int on_exec(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct linux_binprm *binary = (void *)ctx[2];
	u32 pid = tgid_of(task), id = task->pid, one = 1;

	if (!is_started(pid))
		return 0;
	/* The runtime is gone with the program that it was in. */
	bpf_map_delete_elem(&processes, &pid);
	bpf_map_delete_elem(&ended, &pid); /* Its other threads have ended. */
	bpf_map_delete_elem(&waiting, &id);
	bpf_map_update_elem(&started, &pid, &one, BPF_ANY);
	char *name = bpf_ringbuf_reserve(&programs, PROGRAM, 0);
	if (name) {
		if (bpf_probe_read_kernel_str(name, PROGRAM, binary->filename) < 0)
			*name = 0;
		bpf_ringbuf_submit(name, BPF_RB_NO_WAKEUP);
	}
	return 0;
}

SEC("tp_btf/sched_process_exit")
int on_exit(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 pid = tgid_of(task);

	if (is_target(pid)) {
		u64 now = bpf_ktime_get_ns();
		bpf_map_update_elem(&ended, &pid, &now, BPF_ANY);
	}
	if (task->pid == task->tgid)
		bpf_map_delete_elem(&started, &pid);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
