/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Executions of functions, by the kernel's probes at their entries and returns: for those that cannot
 * be traced by code in front of them. */
#include "kernel_types.h"
#include "lost.h"
#include "task_ids.h"
#include <bpf/bpf_helpers.h>

/* The kernel follows as many returns of a thread. */
#define DEPTH 64
#define ARGUMENTS 6

/* ---- shared with user space; mirrored in calls.rs ---- */
struct call {
	u64 enter_ns;
	u64 leave_ns;
	u64 arguments[ARGUMENTS];
	u32 pid;
	u32 tid;
	u32 block;
	u32 reserved;
};
struct open_call {
	u64 stack; /* where its return address is */
	u64 return_address;
	u64 enter_ns;
	u64 arguments[ARGUMENTS];
	u64 block;
};
struct thread_calls {
	u64 depth;
	struct open_call open[DEPTH];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_calls);
} threads SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} calls SEC(".maps");

SEC("uprobe")
int on_enter(struct pt_regs *ctx)
{
#if defined(__TARGET_ARCH_x86)
	u64 now = bpf_ktime_get_ns(), block = bpf_get_attach_cookie(ctx), stack = ctx->sp, caller = 0;
	struct thread_calls *own = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0,
							BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!own || bpf_probe_read_user(&caller, sizeof(caller), (void *)stack)) {
		lose();
		return 0;
	}
	u64 depth = own->depth;
	for (int i = 0; i < DEPTH && depth; i++) {
		struct open_call *top = &own->open[(depth - 1) % DEPTH];
		if (top->stack > stack)
			break;
		/* Its return address is the kernel's by now: it jumped here, and has not returned. */
		if (top->stack == stack && top->return_address != caller) {
			if (top->block == block)
				return 0;
			break;
		}
		depth--; /* left by a long jump */
	}
	if (depth >= DEPTH) {
		lose();
		return 0;
	}
	struct open_call *call = &own->open[depth % DEPTH];
	call->stack = stack;
	call->return_address = caller;
	call->enter_ns = now;
	call->arguments[0] = ctx->di;
	call->arguments[1] = ctx->si;
	call->arguments[2] = ctx->dx;
	call->arguments[3] = ctx->cx;
	call->arguments[4] = ctx->r8;
	call->arguments[5] = ctx->r9;
	call->block = block;
	own->depth = depth + 1;
#endif
	return 0;
}

SEC("uretprobe")
int on_leave(struct pt_regs *ctx)
{
#if defined(__TARGET_ARCH_x86)
	u64 now = bpf_ktime_get_ns(), stack = ctx->sp - sizeof(u64);
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_calls *own = bpf_task_storage_get(&threads, task, 0, 0);

	if (!own)
		return 0;
	for (int i = 0; i < DEPTH && own->depth; i++) {
		struct open_call *top = &own->open[(own->depth - 1) % DEPTH];
		if (top->stack > stack)
			break;
		own->depth--;
		if (top->stack < stack)
			continue;
		struct call *call = bpf_ringbuf_reserve(&calls, sizeof(*call), 0);
		if (!call) {
			lose();
			break;
		}
		call->enter_ns = top->enter_ns;
		call->leave_ns = now;
		for (int at = 0; at < ARGUMENTS; at++)
			call->arguments[at] = top->arguments[at];
		call->pid = tgid_of(task);
		call->tid = tid_of(task);
		call->block = top->block;
		call->reserved = 0;
		bpf_ringbuf_submit(call, BPF_RB_NO_WAKEUP);
		break;
	}
#endif
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
