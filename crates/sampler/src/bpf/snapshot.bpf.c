/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* The state of a thread at a sample in user mode: its registers, and the memory that the next
 * instructions will read. For each place in the code, user space gives these addresses as a
 * function of the registers. */
#include "kernel_types.h"
#include "lost.h"
#include "targets.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define REGISTERS 16
/* machine::MAX_OPERATIONS. */
#define OPERATIONS 48
/* Number of values: registers, the base of fs, 0, and results of operations; a power of two. */
#define THREAD 16
#define NOTHING 17
#define FIRST 18
#define VALUES 128
/* Maximum number of places with operations. */
#define PLACES 16384
#define RING (8 << 20)

/* ---- shared with user space; mirrored in snapshots.rs, and machine::SliceKind ---- */
enum kind { LOAD, ADD, ADD_CONSTANT, SUBTRACT, AND, AND_CONSTANT, SHIFT_LEFT, SHIFT_RIGHT, SIGN_EXTEND };

struct operation {
	u8 kind;
	u8 width;
	u8 a;
	u8 b;
	u32 reserved;
	u64 constant;
};
struct slice {
	u64 count;
	struct operation operations[OPERATIONS];
};
struct snapshot {
	u64 time_ns;
	u32 pid;
	u32 tid;
	u64 ip;
	u64 flags;
	u64 count; /* number of operations */
	u64 known; /* bits of the operations that succeeded */
	u64 values[VALUES];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PLACES);
	__type(key, u64);
	__type(value, struct slice);
} slices SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING);
} snapshots SEC(".maps");

#if defined(__TARGET_ARCH_x86)
/* The context of a program on an event: registers in the kernel's order for user space. */
struct sampled {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

struct work {
	struct snapshot *one;
	struct slice *slice;
};

static __always_inline bool is_known(struct snapshot *one, u32 value)
{
	return value < FIRST || (one->known >> ((value - FIRST) & 63) & 1);
}

static long carry_out(u32 index, struct work *work)
{
	struct snapshot *one = work->one;
	struct operation *operation;
	u64 a, b, constant, value = 0;
	u32 unused;

	if (index >= OPERATIONS || index >= work->slice->count)
		return 1;
	operation = &work->slice->operations[index];
	if (!is_known(one, operation->a) || !is_known(one, operation->b))
		return 0;
	a = one->values[operation->a & (VALUES - 1)];
	b = one->values[operation->b & (VALUES - 1)];
	constant = operation->constant;
	switch (operation->kind) {
	case LOAD: {
		u32 width = operation->width & 15;

		if (width > sizeof(value) || bpf_probe_read_user(&value, width, (void *)(a + constant)))
			return 0;
		break;
	}
	case ADD:
		value = a + b;
		break;
	case ADD_CONSTANT:
		value = a + constant;
		break;
	case SUBTRACT:
		value = a - b;
		break;
	case AND:
		value = a & b;
		break;
	case AND_CONSTANT:
		value = a & constant;
		break;
	case SHIFT_LEFT:
		value = a << (constant & 63);
		break;
	case SHIFT_RIGHT:
		value = a >> (constant & 63);
		break;
	case SIGN_EXTEND:
		unused = 64 - 8 * (operation->width & 7);
		value = (u64)((s64)(a << (unused & 63)) >> (unused & 63));
		break;
	default:
		return 0;
	}
	one->values[(FIRST + index) & (VALUES - 1)] = value;
	one->known |= 1ull << index;
	return 0;
}

SEC("perf_event")
int on_sample(struct sampled *context)
{
	u64 ip = context->ip;
	struct task_struct *task = bpf_get_current_task_btf();
	u32 tgid = tgid_of(task);
	struct snapshot *one;
	struct work work;
	u64 flags;

	if (!is_target(tgid))
		return 0; /* no such place: no sample is written either */
	if ((context->cs & 3) != 3)
		return 1;
	one = bpf_ringbuf_reserve(&snapshots, sizeof(*one), 0);
	if (!one) {
		lose();
		return 1;
	}
	one->time_ns = bpf_ktime_get_ns();
	one->pid = tgid;
	one->tid = tid_of(task);
	one->ip = ip;
	one->flags = context->flags;
	one->count = 0;
	one->known = 0;
	one->values[0] = context->ax;
	one->values[1] = context->cx;
	one->values[2] = context->dx;
	one->values[3] = context->bx;
	one->values[4] = context->sp;
	one->values[5] = context->bp;
	one->values[6] = context->si;
	one->values[7] = context->di;
	one->values[8] = context->r8;
	one->values[9] = context->r9;
	one->values[10] = context->r10;
	one->values[11] = context->r11;
	one->values[12] = context->r12;
	one->values[13] = context->r13;
	one->values[14] = context->r14;
	one->values[15] = context->r15;
	one->values[THREAD] = BPF_CORE_READ(task, thread.fsbase);
	one->values[NOTHING] = 0;
	work.one = one;
	work.slice = bpf_map_lookup_elem(&slices, &ip);
	if (work.slice) {
		one->count = work.slice->count;
		bpf_loop(OPERATIONS, carry_out, &work, 0);
	}
	/* The reader is woken when a quarter of the buffer is full, and polls some times a
	 * second anyway. */
	flags = bpf_ringbuf_query(&snapshots, BPF_RB_AVAIL_DATA) > RING / 4 ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
	bpf_ringbuf_submit(one, flags);
	return 1;
}
#endif

char LICENSE[] SEC("license") = "Dual MIT/GPL";
