/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Programs that wait for samples, and the state of a system call until it is complete:
 * external_waits.bpf.c stores its waits, ticks.bpf.c the times at which a processor's timer
 * found the thread in it. */
#pragma once
#include "task_ids.h"

/* runtime_abi::SIGNAL */
#define SIGNAL 16

/* Set before the programs are loaded: the address of the target's handler of the signal. No
 * other process has its handler there, nor has a child that executed another program. */
const volatile u64 handler = 0;
/* Not 0: threads that have restricted their system calls (seccomp) are spared, because the
 * handler makes system calls without checking. */
const volatile u64 spares_restricted = 0;

static __always_inline bool is_target(struct task_struct *task)
{
	void *found = BPF_CORE_READ(task, sighand, action[SIGNAL - 1].sa.sa_handler);

	/* A child that only lives to execute a program (vfork, posix_spawn) is about to drop its
	 * handlers; a signal that stays pending until then would end that program. */
	return found && (u64)found == handler && !BPF_CORE_READ(task, vfork_done) &&
	       !(spares_restricted && BPF_CORE_READ(task, seccomp.mode));
}

/* Whether the thread blocks the signal. A pending signal could be mistaken for the program's
 * own: by sigwait, or through a signalfd. */
static __always_inline bool blocks_signal(struct task_struct *task)
{
	u64 blocked = BPF_CORE_READ(task, blocked.sig[0]) | BPF_CORE_READ(task, real_blocked.sig[0]);

	return blocked & (1 << (SIGNAL - 1));
}

/* Bytes of stack that the kernel's signal frame with the widest vectors and the handler need. */
#define NEEDED_STACK 6144
/* Size of the smallest guard below a stack, in bytes. */
#define GUARD 4096

#if defined(__TARGET_ARCH_x86)
static long find_stack_start(struct task_struct *task, struct vm_area_struct *vma, u64 *start)
{
	/* The first thread's stack grows. */
	*start = vma->vm_flags & VM_GROWSDOWN ? 0 : vma->vm_start;
	return 0;
}

/* Whether the thread's stack has room for the handler. Without room the signal would end the
 * program. */
static __always_inline bool has_stack(struct task_struct *task)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	u64 sp = BPF_CORE_READ(regs, sp), start = BPF_CORE_READ(task, sas_ss_sp), size = BPF_CORE_READ(task, sas_ss_size);
	u8 byte;

	if (size)
		return sp - start >= size || sp - start >= NEEDED_STACK;
	/* Memory that the thread has used before is mapped, and most samples have used more than
	 * needed. The read does not step over a guard page. */
	if (!bpf_probe_read_user(&byte, sizeof(byte), (void *)(sp - NEEDED_STACK + GUARD)) &&
	    !bpf_probe_read_user(&byte, sizeof(byte), (void *)(sp - NEEDED_STACK)))
		return true;
	/* If the mappings are locked now, the answer is unknown. */
	return !bpf_find_vma(task, sp, find_stack_start, &start, 0) && sp - start >= NEEDED_STACK;
}
#else
static __always_inline bool has_stack(struct task_struct *task)
{
	return true;
}
#endif

/* mirrored in external_waits.rs */
struct external_wait {
	u64 since_ns; /* 0: not waiting */
	u64 woken_ns; /* 0: still asleep */
	u64 pc; /* of the system call, in the program */
	u64 sp;
	u64 waited_ns; /* in this system call so far */
	u32 external; /* another program ended the wait, or none did */
	u32 call; /* number of the system call */
	u32 from_peer; /* the call reads a socket, a pipe or a terminal */
	u32 ticks; /* number of samples in this system call */
	u64 ran_since_ns; /* time of the first one */
	u64 for_clients_ns; /* sum of all waits for work so far that another program ended */
	u64 client_ns; /* in this system call so far; discarded if the call brings no work */
	u32 by_client; /* another program ended the wait */
	u32 tid; /* id in user space's namespace */
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384); /* by the kernel's own ids */
	__type(key, u32);
	__type(value, struct external_wait);
} waiting SEC(".maps");

/* Parts of the signal's value: see runtime_abi::wait. */
#define LENGTH_BITS 40
#define CALL_BITS 12
#define TICKS_SHIFT 53
#define MOST_TICKS 2047

/* The number of the current system call of a thread; -1: none, or another processor
 * architecture's. */
static __always_inline s32 call_of(struct task_struct *task)
{
#if defined(__TARGET_ARCH_x86)
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	s64 number = (s64)BPF_CORE_READ(regs, orig_ax);

	return number >= 0 && number < 1 << CALL_BITS ? (s32)number : -1;
#else
	return -1;
#endif
}
