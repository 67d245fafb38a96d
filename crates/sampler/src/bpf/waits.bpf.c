/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Every wait of the threads of some processes, one by one, with who ended it: for tracing, where a
 * wait belongs to the block that the thread was in. Aggregates are collect.bpf.c's business. */
#include "kernel_types.h"
#include "lost.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define NONE 0xffffffffu
/* Bytes of a program's path that are kept. */
#define PROGRAM 256

/* ---- what user space sets before the programs are loaded ---- */
const volatile u32 frame_size = 0; /* of runtime_abi::trace::Frame */
const volatile u32 block_offset = 0; /* of its block */
const volatile u32 base_offset = 0; /* of the first frame's address in runtime_abi::trace::Local */

/* ---- shared with user space; mirrored in waits.rs ---- */
struct wait {
	u64 start_ns;
	u64 end_ns;
	u64 queued_ns;
	u32 tid;
	u32 system_call; /* NONE: none */
	u32 waker_tid; /* 0: nobody of the program */
	u32 waker_block; /* NONE: none */
	u32 preempted;
	u32 reserved;
};
struct waiting {
	u64 since_ns; /* 0: it does not wait */
	u64 woken_ns; /* 0: still asleep */
	u32 system_call;
	u32 waker_tid;
	u32 waker_block;
	u32 preempted;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u32);
} processes SEC(".maps");
/* When the last thread of each of those ended that has ended. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u64);
} ended SEC(".maps");
/* Where a thread's runtime_abi::trace::Local is. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, u64);
} threads SEC(".maps");
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
/* Processes that those have started, directly or not. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u32);
} started SEC(".maps");
/* The programs that they have executed: paths. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 << 10);
} programs SEC(".maps");

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

SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx)
{
	bool preempted = ctx[0];
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u32 state = ctx[3], tid = next->pid;
	u64 now = bpf_ktime_get_ns();
	struct waiting *waited = tid ? bpf_map_lookup_elem(&waiting, &tid) : 0;

	if (waited && waited->since_ns) {
		struct wait *wait = bpf_ringbuf_reserve(&waits, sizeof(*wait), 0);
		if (wait) {
			u64 ready = waited->woken_ns ? waited->woken_ns : now;
			wait->start_ns = waited->since_ns;
			wait->end_ns = now;
			wait->queued_ns = now > ready ? now - ready : 0;
			wait->tid = tid;
			wait->system_call = waited->system_call;
			wait->waker_tid = waited->waker_tid;
			wait->waker_block = waited->waker_block;
			wait->preempted = waited->preempted;
			wait->reserved = 0;
			bpf_ringbuf_submit(wait, BPF_RB_NO_WAKEUP);
		} else {
			lose();
		}
		waited->since_ns = 0;
	}
	if (!is_target(prev->tgid))
		return 0;
	tid = prev->pid;
	/* EXIT_DEAD, EXIT_ZOMBIE, TASK_DEAD: the thread ends. */
	if (!preempted && (state & 0xb0)) {
		bpf_map_delete_elem(&waiting, &tid);
		return 0;
	}
	struct waiting out = {
		.since_ns = now,
		.woken_ns = preempted || !state ? now : 0,
		.system_call = preempted || !state ? NONE : system_call_of(prev),
		.waker_block = NONE,
		.preempted = preempted || !state,
	};
	/* Its entry stays: adding and removing one at each switch took a third of the time of this program. */
	waited = bpf_map_lookup_elem(&waiting, &tid);
	if (waited)
		*waited = out;
	else
		bpf_map_update_elem(&waiting, &tid, &out, BPF_ANY);
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
	u64 ids = bpf_get_current_pid_tgid();
	struct task_struct *task = bpf_get_current_task_btf();

	/* A thread wakes another one in a system call; otherwise an interrupt did, and "current" is
	 * whoever happened to run there. */
	if (is_target(ids >> 32) && system_call_of(task) != NONE) {
		entry->waker_tid = (u32)ids;
		entry->waker_block = current_block((u32)ids);
	}
	entry->woken_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline bool is_started(u32 tgid)
{
	return is_target(tgid) || bpf_map_lookup_elem(&started, &tgid);
}

SEC("tp_btf/sched_process_fork")
int on_fork(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	u32 pid = child->tgid, one = 1;

	if (pid != parent->tgid && is_started(parent->tgid))
		bpf_map_update_elem(&started, &pid, &one, BPF_ANY);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int on_exec(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct linux_binprm *binary = (void *)ctx[2];
	u32 pid = task->tgid, one = 1;

	if (!is_started(pid))
		return 0;
	/* The runtime is gone with the program that it was in. */
	bpf_map_delete_elem(&processes, &pid);
	bpf_map_delete_elem(&ended, &pid); /* Its other threads have ended. */
	bpf_map_delete_elem(&waiting, &pid);
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
	u32 pid = task->tgid;

	if (is_target(pid)) {
		u64 now = bpf_ktime_get_ns();
		bpf_map_update_elem(&ended, &pid, &now, BPF_ANY);
	}
	if (task->pid == task->tgid)
		bpf_map_delete_elem(&started, &pid);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
