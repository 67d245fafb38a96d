/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* One step up a stack: from a frame to its caller, by a rule or by the frame pointer. */
#pragma once
#include <bpf/bpf_core_read.h>
#include "unwind_mappings.h"
#include "unwind_rules.h"
#include "stack_window.h"

/* ---- steps ---- */
enum walk_step { WALK_ON, WALK_COMPLETE, WALK_UNSUPPORTED, WALK_LOST, WALK_ASTRAY };

#if defined(__TARGET_ARCH_arm64)
#define HAS_LINK true
/* A return address may be signed, in the bits above those of an address. */
#define CODE_BITS(walk_, address_) ((address_) & (walk_)->code_mask)
#else
#define HAS_LINK false
#define CODE_BITS(walk_, address_) (address_)
#endif

/* Moves to a possible caller. Its stack pointer must be above the callee's. With `may_stay` it
 * may be equal, as for an innermost function with its return address in a register. */
static __always_inline enum walk_step walk_up(struct walk *walk, u64 pc, u64 sp, u64 fp, bool may_stay)
{
	pc = CODE_BITS(walk, pc);
	if (!pc)
		return WALK_COMPLETE;
	if (pc < 4096 || pc >> 63)
		return WALK_ASTRAY;
	if (sp <= walk->sp && !(may_stay && walk->interrupted && pc != walk->pc && sp == walk->sp))
		return WALK_ASTRAY;
	walk->pc = pc;
	walk->sp = sp;
	walk->fp = fp;
	walk->link = 0;
	walk->interrupted = 0;
	walk->by_record = 0;
	return WALK_ON;
}

static __always_inline enum walk_step walk_to(struct walk *walk, u64 pc, u64 sp, u64 fp)
{
	return walk_up(walk, pc, sp, fp, HAS_LINK);
}

/* A null in place of the next frame record is the root only at the end of a chain of records: if
 * a table or a guess led to the frame, the register may be zero in a function without a frame
 * pointer. */
static __always_inline enum walk_step end_of_records(struct walk *walk)
{
	return walk->by_record ? WALK_COMPLETE : WALK_LOST;
}

/* The frame pointer leads to two words: the caller's frame pointer, and the return address. On
 * x86-64 these are the top of the frame. On AArch64 they are anywhere in it, mostly at its
 * bottom, so that the caller's stack pointer is above them, but unknown. */
static __always_inline enum walk_step walk_by_pointer(struct walk *walk)
{
	u64 fp = walk->fp, saved, pc;

	if (walk->fp_lost)
		return WALK_LOST;
	if (!fp)
		return end_of_records(walk);
	if (fp < walk->sp || (fp & 7))
		return WALK_LOST;
	if (!stack_word(walk, fp, &saved) || !stack_word(walk, fp + 8, &pc))
		return WALK_LOST;
	if (!CODE_BITS(walk, pc))
		return end_of_records(walk);
	walk->base_lost = 1;
	enum walk_step step = walk_to(walk, pc, fp + 16, saved);
	walk->by_record = 1;
	return step;
}

/* The caller is on another stack, which may lie anywhere: only the number of frames ends a
 * cycle. Go's functions that switch stacks keep a frame pointer, and set it to null if they have
 * no caller. */
static __always_inline enum walk_step walk_across_stacks(struct walk *walk)
{
	u64 fp = walk->fp, saved, pc;

	if (!fp && !walk->fp_lost)
		return WALK_COMPLETE;
	if (walk->fp_lost || (fp & 7) || !stack_word(walk, fp, &saved) || !stack_word(walk, fp + 8, &pc))
		return WALK_LOST;
	walk->base_lost = 1;
	walk->sp = 0;
	return walk_to(walk, pc, fp + 16, saved);
}

/* A register of the innermost frame, by its DWARF number. */
static __always_inline bool innermost_register(struct walk *walk, u32 number, u64 *value)
{
#if defined(__TARGET_ARCH_x86)
	struct pt_regs *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	if (walk->depth)
		return false;
	switch (number) {
	case 0: *value = BPF_CORE_READ(regs, ax); return true;
	case 1: *value = BPF_CORE_READ(regs, dx); return true;
	case 2: *value = BPF_CORE_READ(regs, cx); return true;
	case 4: *value = BPF_CORE_READ(regs, si); return true;
	case 5: *value = BPF_CORE_READ(regs, di); return true;
	case 8: *value = BPF_CORE_READ(regs, r8); return true;
	case 9: *value = BPF_CORE_READ(regs, r9); return true;
	case 10: *value = BPF_CORE_READ(regs, r10); return true;
	case 11: *value = BPF_CORE_READ(regs, r11); return true;
	case 12: *value = BPF_CORE_READ(regs, r12); return true;
	case 13: *value = BPF_CORE_READ(regs, r13); return true;
	case 14: *value = BPF_CORE_READ(regs, r14); return true;
	case 15: *value = BPF_CORE_READ(regs, r15); return true;
	}
	return false;
#else
	/* The registers come first, in the order of their numbers. */
	u64 *registers = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	return !walk->depth && number < 31 && !bpf_probe_read_kernel(value, sizeof(*value), registers + number);
#endif
}

/* The frame address of a function with a frame record, to which the frame pointer leads while
 * the function waits for a callee. */
static __always_inline bool address_by_record(struct walk *walk, struct rule *rule, u64 *cfa)
{
	if (walk->fp_lost || rule->frame != FRAME_AT_CFA || rule->link != RETURN_AT_CFA ||
	    rule->return_offset != rule->frame_offset + 8)
		return false;
	*cfa = walk->fp - (s64)rule->frame_offset;
	return true;
}

static __always_inline bool frame_address(struct walk *walk, struct rule *rule, u64 *cfa)
{
	u64 base = walk->sp, offset = (s64)rule->cfa_offset;
	u8 kind = rule->kind;

	if (kind == RULE_FRAME_POINTER || kind == RULE_FRAME_MEMORY) {
		if (walk->fp_lost)
			return false;
		base = walk->fp;
	} else if (kind == RULE_BASE_REGISTER) {
		if (walk->base_lost)
			return false;
		base = walk->base;
	} else if (kind == RULE_REGISTER) {
		if (!innermost_register(walk, rule->extra, &base))
			return false;
	} else if (HAS_LINK && walk->by_record) {
		return address_by_record(walk, rule, cfa);
	}
	*cfa = base + offset;
	if (kind == RULE_STACK_MEMORY || kind == RULE_FRAME_MEMORY) {
		if (!stack_word(walk, *cfa, cfa))
			return false;
		*cfa += rule->extra;
	} else if (kind == RULE_LINKAGE_STUB && (walk->pc & 15) >= rule->extra) {
		*cfa += 8;
	}
	return true;
}

/* A register that was saved at `address`. If that lies below the stack pointer, an epilogue has
 * popped the register already, which the tables do not always say. */
static __always_inline void restore(struct walk *walk, u64 address, u64 *value, u8 *is_lost)
{
	if (walk->interrupted && address < walk->sp)
		return;
	*is_lost = !stack_word(walk, address, value);
}

static __always_inline enum walk_step walk_by_rule(struct walk *walk, struct rule *rule)
{
	u64 cfa, pc, fp = walk->fp;

	if (!frame_address(walk, rule, &cfa))
		return WALK_UNSUPPORTED;
	if (rule->link == RETURN_IN_LINK) {
		if (!HAS_LINK || !walk->interrupted)
			return WALK_ASTRAY;
		pc = walk->link;
	} else if (rule->link == RETURN_IN_REGISTER) {
		if (!innermost_register(walk, rule->return_offset, &pc))
			return WALK_UNSUPPORTED;
	} else if (!stack_word(walk, cfa + (s64)rule->return_offset, &pc)) {
		return WALK_LOST;
	}
	if (rule->frame == FRAME_AT_CFA)
		restore(walk, cfa + (s64)rule->frame_offset, &fp, &walk->fp_lost);
	else if (rule->frame == FRAME_AT_FRAME && !walk->fp_lost)
		restore(walk, walk->fp + (s64)rule->frame_offset, &fp, &walk->fp_lost);
	else if (rule->frame == FRAME_LOST)
		walk->fp_lost = 1;
	if (rule->base_slot == BASE_LOST)
		walk->base_lost = 1;
	else if (rule->base_slot)
		restore(walk, cfa - 8 * (u64)rule->base_slot, &walk->base, &walk->base_lost);
	return walk_up(walk, pc, cfa, fp, HAS_LINK || rule->link == RETURN_IN_REGISTER);
}

/* The registers that the kernel put on the stack before a signal handler. */
static __always_inline enum walk_step walk_to_interrupted(struct walk *walk)
{
	u64 pc, sp, at = walk->sp;

#if defined(__TARGET_ARCH_arm64)
	/* siginfo (128), then ucontext with uc_mcontext at 176, whose registers begin at 8 */
	if (!stack_word(walk, at + 312 + 8 * 29, &walk->fp) || !stack_word(walk, at + 312 + 8 * 30, &walk->link) ||
	    !stack_word(walk, at + 312 + 8 * 31, &sp) || !stack_word(walk, at + 312 + 8 * 32, &pc))
		return WALK_LOST;
#else
	/* struct ucontext, of which uc_mcontext begins at 40 */
	if (!stack_word(walk, at + 120, &walk->fp) || !stack_word(walk, at + 128, &walk->base) ||
	    !stack_word(walk, at + 160, &sp) || !stack_word(walk, at + 168, &pc))
		return WALK_LOST;
	walk->base_lost = 0;
#endif
	walk->fp_lost = 0;
	if (!pc)
		return WALK_COMPLETE;
	if (pc < 4096 || pc >> 63)
		return WALK_ASTRAY;
	walk->pc = pc;
	walk->sp = sp;
	walk->by_record = 0;
	walk->interrupted = 1;
	return WALK_ON;
}

/* Assembly without tables in an image that has some mostly has no frame: the return address is
 * at the stack pointer, if that is code. */
static __always_inline enum walk_step walk_without_frame(struct walk *walk)
{
	u64 pc = walk->link, sp = walk->sp;

	if (walk->interrupted) {
		if (!HAS_LINK) {
			if (!stack_word(walk, sp, &pc))
				pc = 0;
			sp += 8;
		}
		pc = CODE_BITS(walk, pc);
		if (pc > 4096 && find_walk_mapping(walk, pc - 1))
			return walk_to(walk, pc, sp, walk->fp);
	}
	return walk_by_pointer(walk);
}

static __always_inline enum walk_step walk_step(struct walk *walk, struct rule *rule)
{
	if (!rule) {
		if (walk->here.number)
			walk->counts.by_pointer++;
		else
			walk->counts.by_pointer_early++;
		return walk_by_pointer(walk);
	}
	switch (rule->kind) {
	case RULE_UNCOVERED:
		walk->counts.by_pointer++;
		return walk_without_frame(walk);
	case RULE_ROOT:
		walk->counts.by_table++;
		return WALK_COMPLETE;
	case RULE_UNSUPPORTED:
		return WALK_UNSUPPORTED;
	case RULE_SIGNAL_RETURN:
		if (HAS_LINK && walk->by_record) {
			/* The place of the registers is unknown. A frame record that the kernel
			 * made leads on. */
			walk->counts.by_pointer++;
			return walk_by_pointer(walk);
		}
		walk->counts.by_table++;
		return walk_to_interrupted(walk);
	case RULE_STACK_SWITCH:
		walk->counts.by_pointer++;
		return walk_across_stacks(walk);
	default:
		walk->counts.by_table++;
		return walk_by_rule(walk, rule);
	}
}
