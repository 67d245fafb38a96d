/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Walks user stacks by unwind tables, in the kernel.
 *
 * User space compiles the tables of each image into rows (crate unwind, `compact`), and `rows`
 * holds them. The steps here are those of `CompactUnwinder` in that crate, which is tested
 * against programs executed instruction by instruction. For images without a table (yet), frame
 * pointers serve. */
#pragma once
#include "hotspot.h"
#include "v8.h"

#define MAX_FRAMES 127
#define STACK_PIECES 4 /* maximum number of entries of a user stack */
/* Frames, innermost first. A user stack of more than MAX_FRAMES continues in the entry with the
 * next odd number, whose count is of the remaining frames. */
struct frames {
	u64 count;
	u64 address[MAX_FRAMES];
};

#define WALK_FRAMES (STACK_PIECES * MAX_FRAMES)
#define WALK_WORDS (STACK_PIECES * sizeof(struct frames) / 8) /* a power of two */
/* The pieces of a stack. */
struct stack_words {
	u64 word[WALK_WORDS];
};
struct walk_loop {
	struct walk *walk;
	struct stack_words *words;
};

/* Stores a frame at the walk's depth; each piece starts with its count. */
static __always_inline void put_frame(struct walk *walk, struct stack_words *words, u32 depth, u64 word)
{
	u32 place = depth + depth / MAX_FRAMES + 1;

	__asm__ volatile("" : "+r"(place)); /* the verifier wants the bound that only the compiler knows */
	words->word[place & (WALK_WORDS - 1)] = word;
	walk->hash = mixed(walk->hash, word);
}

/* The word of a frame in the mapping `here`: its place in the image, or the address if the image
 * has no label. */
static __always_inline u64 frame_word(struct walk *walk, u64 address)
{
	u64 offset = address + walk->here.file_base;

	if (walk->here.label && !(offset >> IMAGE_OFFSET_BITS))
		return IMAGE_WORD | (u64)walk->here.label << IMAGE_OFFSET_BITS | offset;
	walk->by_address = 1;
	return address;
}

/* Puts the next frame of Ruby on the stack. */
static __always_inline long walk_ruby_frame(struct walk *walk, struct stack_words *words, u32 depth)
{
	u64 word = next_ruby_frame(&walk->ruby);

	if (walk->ruby.untold)
		tell_method(&walk->ruby);
	if (!word)
		word = PYTHON_WORD; /* skipped by user space */
	put_frame(walk, words, depth, word);
	walk->depth = depth + 1;
	if (walk->ending)
		walk->ruby.pending = 1;
	walk->ruby.pending &= walk->ruby.frame != 0;
	return walk->ending && !walk->ruby.pending;
}

/* Puts the next frame of Python on the stack. If it is no function, a placeholder stays. */
static __always_inline long walk_python_frame(struct walk *walk, struct stack_words *words, u32 depth)
{
	u64 word = next_python_frame(&walk->python);

	if (walk->python.untold)
		tell_code(&walk->python);
	if (!word)
		word = PYTHON_WORD; /* skipped by user space */
	put_frame(walk, words, depth, word);
	walk->depth = depth + 1;
	if (walk->ending) {
		walk->python.pending = walk->python.frame != 0;
		return !walk->python.pending;
	}
	if (!walk->python.frame)
		walk->python.pending = 0;
	return 0;
}

/* Puts the function on the stack for which V8's own code was executed. */
static __always_inline long walk_v8_frame(struct walk *walk, struct stack_words *words, u32 depth)
{
	put_frame(walk, words, depth, walk->v8.word);
	walk->depth = depth + 1;
	walk->v8.word = 0;
	return walk->ending && !walk->python.pending && !walk->ruby.pending;
}

/* If the native stack ended before its start, an interpreter's remaining frames have lost their
 * callers. */
static __always_inline long end_native_walk(struct walk *walk, bool complete)
{
	if (complete && !walk->python.pending && !walk->ruby.pending && !walk->v8.word)
		return 1;
	walk->ending = 1;
	walk->python.pending = walk->python.frame != 0;
	walk->ruby.pending = !walk->python.pending && walk->ruby.frame != 0;
	return !walk->python.pending && !walk->ruby.pending && !walk->v8.word;
}

/* ---- probes of user functions (uprobes), by any process ---- */
#define PROBE_SLOT 128 /* bytes of an instruction's place in the area of probes */
#define BREAKPOINT 0xcc
#define MOST_LEFT 8 /* notes of calls that one return can end */
/* Offset of the kernel's code after its system call, to which probed functions return. It has
 * pushed three registers, the first in place of the return address, and pops two of them in
 * three bytes. */
#define AFTER_RETURN_CALL 13

/* Whether the innermost note is of the call whose return address is, or was, at this slot. Notes
 * of functions that were left by a jump are skipped. */
__noinline int is_return_of_probed(struct walk *walk, u64 slot)
{
	if (!walk)
		return 0;
	struct return_instance *call = walk->probed;
#if defined(__TARGET_ARCH_x86)
	for (u32 i = 0; i < MOST_LEFT && call && BPF_CORE_READ(call, stack) < slot; i++)
		call = BPF_CORE_READ(call, next);
	walk->probed = call;
	return call && BPF_CORE_READ(call, stack) == slot;
#else
	return call != 0;
#endif
}

/* Continues at the final return address of the innermost probed function. */
__noinline int leave_probed_function(struct walk *walk)
{
	if (!walk)
		return 0;
	struct return_instance *left = walk->probed;

	walk->pc = BPF_CORE_READ(left, orig_ret_vaddr);
	/* Functions that end in a tail call share the callee's return. */
	for (u32 i = 0; i < MOST_LEFT && BPF_CORE_READ(left, chained); i++)
		left = BPF_CORE_READ(left, next);
	walk->probed = BPF_CORE_READ(left, next);
	return 0;
}

/* Whether a breakpoint before the address was hit and its original instruction not executed yet.
 * In user mode that never holds: the kernel has always been entered. In the kernel the note of
 * the call tells, if the instruction pushes a register. */
__noinline int is_at_breakpoint(struct walk *walk)
{
	u8 byte = 0;

	if (!walk || !walk->in_kernel)
		return 0;
#if defined(__TARGET_ARCH_x86)
	bpf_probe_read_user(&byte, 1, (void *)(walk->pc - 1));
	if (byte != BREAKPOINT)
		return 0;
	struct return_instance *call = walk->probed;
	if (call && BPF_CORE_READ(call, func) == walk->pc - 1 && BPF_CORE_READ(call, stack) == walk->sp + 8)
		return 0;
#endif
	return byte == BREAKPOINT;
}

/* The thread is in the code to which probed functions return, `into` bytes after its start.
 * Before the kernel has handled the return, the note of the call has the target; afterwards the
 * stack has it. */
__noinline int leave_return_code(struct walk *walk, u64 into)
{
	if (!walk)
		return 0;
	u64 pushed = into < 3 ? into : 3;
	if (into > AFTER_RETURN_CALL)
		pushed = into - AFTER_RETURN_CALL > 2 ? 1 : 2;
	u64 slot = walk->sp + 8 * pushed - 8;
	if (walk->in_kernel && is_return_of_probed(walk, walk->sp - 8)) {
		/* The kernel has removed the registers from the stack, for the sake of
		 * unwinders. */
		slot = walk->sp - 8;
		leave_probed_function(walk);
	} else if (is_return_of_probed(walk, slot)) {
		leave_probed_function(walk);
	} else {
		u64 pc = 0;
		bpf_probe_read_user(&pc, sizeof(pc), (void *)slot);
		walk->pc = pc;
	}
	walk->sp = slot + 8;
	return 0;
}

/* An instruction with a probe is executed elsewhere, and a function whose return is probed
 * returns elsewhere. */
__noinline int begin_probed_walk(struct walk *walk)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!walk)
		return 0;
	walk->probe_return = 0;
	walk->probed = 0;
	if (!bpf_core_field_exists(task->utask) || !bpf_core_field_exists(task->mm->uprobes_state.xol_area))
		return 0;
	struct uprobe_task *probes = task->utask;
	if (!probes)
		return 0;
	walk->probed = BPF_CORE_READ(probes, return_instances);
	u64 elsewhere = BPF_CORE_READ(probes, xol_vaddr);
	if (walk->pc - elsewhere < PROBE_SLOT)
		walk->pc = BPF_CORE_READ(probes, vaddr) + (walk->pc - elsewhere);
	else
		walk->pc -= is_at_breakpoint(walk);
	struct xol_area *area = BPF_CORE_READ(task, mm, uprobes_state.xol_area);
	if (!area)
		return 0;
	walk->probe_return = BPF_CORE_READ(area, vaddr);
#if defined(__TARGET_ARCH_x86)
	u64 into = walk->pc - walk->probe_return;
	if (into < PROBE_SLOT)
		leave_return_code(walk, into);
#endif
	return 0;
}

/* The number of the image that the walk is in, if it is a runtime of this kind; otherwise 0,
 * which no image has. */
static __always_inline u32 image_of_runtime(struct walk *walk, enum image_runtime runtime)
{
	/* Without a branch: the verifier would follow each to the end of the walk. */
	return walk->here.number * ((walk->here.runtimes >> runtime) & 1);
}

/* Puts the next frame on the stack; nonzero if it is the last one. The parts of a walk are
 * global functions, which the verifier checks once each without their callers' state. Otherwise
 * it would follow them from every state of a caller, which would take most of a recording's
 * start. */
__noinline int walk_frame(struct walk *walk, struct stack_words *words, u32 depth)
{
	struct rule *rule = 0;

	if (!walk || !words)
		return 1;

	if (walk->probed && !walk->interrupted && walk->pc == walk->probe_return && is_return_of_probed(walk, walk->sp - 8))
		leave_probed_function(walk);
	u64 at = walk->pc - !walk->interrupted;

	if (depth >= WALK_FRAMES)
		return 1;
	if (walk->v8.word)
		return walk_v8_frame(walk, words, depth);
	if (walk->python.pending)
		return walk_python_frame(walk, words, depth);
	if (walk->ruby.pending)
		return walk_ruby_frame(walk, words, depth);
	if (find_walk_mapping(walk, at)) {
		rule = find_rule(walk, at);
	} else if (depth) {
		walk->counts.astray++;
		walk->depth = depth;
		return end_native_walk(walk, false);
	}
	/* User space looks up a caller just before its address, where the call is. */
	bool no_call = depth && (walk->interrupted || (rule && rule->kind == RULE_SIGNAL_RETURN));
	meet_v8(&walk->v8, image_of_runtime(walk, RUNTIME_V8), walk->tgid);
	bool is_generated = !rule && !walk->here.file_base && walk->here.number == IMAGE_WITHOUT_TABLE;
	bool is_of_v8 = walk->v8.image_engine && (!rule || rule->kind == RULE_UNCOVERED);
	u64 function = is_generated || is_of_v8 ? function_of_frame(walk) : 0;
	if (is_generated && !function)
		function = find_java_code(walk);
	u64 word = is_generated && function ? function : frame_word(walk, walk->pc + no_call);
	walk->v8.word = is_generated ? 0 : function;
	put_frame(walk, words, depth, word);
	walk->depth = depth;
	meet_go_program(&walk->go, image_of_runtime(walk, RUNTIME_GO));
	u64 base = walk->here.file_base;
	meet_interpreter(&walk->python, image_of_runtime(walk, RUNTIME_PYTHON), base, at + base);
	meet_ruby(&walk->ruby, image_of_runtime(walk, RUNTIME_RUBY), base, at + base);
	enum walk_step step = is_generated ? walk_generated_code(walk) : walk_step(walk, rule);
	if (step == WALK_ON)
		return 0;
	walk->depth++;
	if (step == WALK_COMPLETE)
		walk->counts.complete++;
	else if (step == WALK_UNSUPPORTED)
		walk->counts.unsupported++;
	else if (step == WALK_LOST)
		walk->counts.lost++;
	else
		walk->counts.astray++;
	return end_native_walk(walk, step == WALK_COMPLETE);
}

static long walk_next_frame(u32 depth, struct walk_loop *loop)
{
	return walk_frame(loop->walk, loop->words, depth) != 0;
}

static __always_inline void add_walk_counts(struct walk *walk)
{
	u32 zero = 0;
	struct walk_counts *sums = bpf_map_lookup_elem(&walk_counts, &zero);

	if (!sums)
		return;
	u64 *sum = (u64 *)sums, *one = (u64 *)&walk->counts;
	for (u32 i = 0; i < sizeof(walk->counts) / 8; i++)
		sum[i] += one[i];
}

/* Whether the registers are those of a 32-bit program; if not, the walk begins with them. */
static __always_inline bool begin_walk(struct walk *walk, struct task_struct *task)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);

#if defined(__TARGET_ARCH_arm64)
	struct user_pt_regs *user = (void *)regs;
	walk->pc = BPF_CORE_READ(user, pc);
	if (BPF_CORE_READ(user, pstate) & 0x10)
		return false;
	walk->sp = BPF_CORE_READ(user, sp);
	walk->fp = BPF_CORE_READ(user, regs[29]);
	walk->link = BPF_CORE_READ(user, regs[30]);
	/* 2^39 to 2^52 bytes, depending on the kernel's configuration. */
	walk->code_mask = task->mm->task_size - 1;
#else
	walk->pc = regs->ip;
	if ((u16)regs->cs != USER_CODE_64)
		return false;
	walk->sp = regs->sp;
	walk->fp = regs->bp;
	walk->base = regs->bx;
#endif
	begin_probed_walk(walk);
	return true;
}

/* Puts the frames of the current thread's user stack into the pieces and returns their number;
 * their hash is `walk->hash`. For a 32-bit program, which has other tables, that is one frame. */
static __always_inline u32 walk_user_stack(struct walk *walk, struct task_struct *task, struct stack_words *words, u64 sequence)
{
	struct walk_loop loop = { .walk = walk, .words = words };
	u32 zero = 0;
	struct walk_state *state = bpf_map_lookup_elem(&walk_state, &zero);

	__builtin_memset(&walk->counts, 0, sizeof(walk->counts));
	walk->counts.stacks = 1;
	walk->go.program.form = 0;
	if (!state)
		return 0;
	walk->hash = HASH_START;
	if (!begin_walk(walk, task)) {
		walk->counts.narrow = 1;
		walk->by_address = 1;
		add_walk_counts(walk);
		put_frame(walk, words, 0, walk->pc);
		return 1;
	}
	walk->sequence = sequence;
	walk->version = state->version;
	walk->round = state->round;
	walk->tgid = walk->python.record.tgid = walk->ruby.record.tgid = tgid_of(task);
	walk->piece_bytes = 0;
	walk->here.start = walk->here.end = 0;
	walk->fp_lost = walk->base_lost = walk->by_record = 0;
	walk->interrupted = 1;
	walk->depth = 0;
	walk->python.image = walk->python.image_interpreter = 0;
	walk->python.met = walk->python.pending = walk->python.untold = walk->ending = 0;
	walk->python.frame = 0;
	walk->ruby.image = walk->ruby.image_ruby = 0;
	walk->ruby.met = walk->ruby.pending = walk->ruby.untold = 0;
	walk->ruby.frame = 0;
	walk->go.image = 0;
	__builtin_memset(&walk->v8, 0, sizeof(walk->v8));
	walk->java.place = JAVA_NOT;
	if (bpf_loop(WALK_FRAMES, walk_next_frame, &loop, 0) == WALK_FRAMES &&
	    !(walk->counts.complete | walk->counts.unsupported | walk->counts.lost | walk->counts.astray)) {
		walk->counts.too_deep = 1;
		walk->depth = WALK_FRAMES;
	}
	add_walk_counts(walk);
	return walk->depth;
}
