/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Steps from Java code to its caller, and identification of the code.
 *
 * HotSpot's compiled code keeps no frame pointer, but each code blob records the size of its
 * frame. User space finds a JVM's code heaps (crate languages, `CodeCache`); here the blob is
 * found by the heap's segment map. The register rbp is saved below the return address. The
 * interpreter's frames have a frame pointer, and record where the caller's stack ends. */
#pragma once
#include "unwind_steps.h"

/* ---- shared with user space; mirrored in hotspot.rs ---- */
#define CODE_HEAPS 4
struct hotspot {
	u64 heap_start[CODE_HEAPS];
	u64 heap_end[CODE_HEAPS];
	u64 segments[CODE_HEAPS]; /* one byte each: how many to go back; 0: a blob begins here */
	u64 interpreter_start;
	u64 interpreter_end;
	u64 started; /* start time in clock ticks since boot, as in /proc: process ids are reused */
	/* Offsets from the start of a block. */
	u16 used;
	u16 frame_words;
	u16 frame_complete;
	u16 code;
	u16 structure;
	/* Offsets: in a method, of its constant part; in a block, of the method and of its
	 * compilation's number; 0: not known. */
	u16 method_constant;
	u16 block_method;
	u16 block_compilation;
	u8 segment_bits;
	u8 short_complete;
	u8 code_is_offset;
	u8 unused[5];
};
/* By process. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, struct hotspot);
} hotspots SEC(".maps");

#define SEGMENT_HOPS 32
#define SEGMENT_FREE 0xff
#define CLOCK_TICK 10000000ull /* nanoseconds */
#define HEAD_WORDS 16 /* of a code blob: HEAD of crate languages */
#define FARTHEST_SENDER (1ull << 20)
#define STUB_WORDS 128 /* SHA-256 has 79 below its return address */
#define LONGEST_INDIRECT_CALL 7 /* bytes of a call through a register or memory */
#define DIRECT_CALL 5
#define PUSHED_WORDS 8
/* Below the frame pointer of an interpreter's frame: its method, and the next bytecode's
 * address. */
#define INTERPRETED_METHOD 24
#define INTERPRETED_PLACE 64
#define LONGEST_METHOD (1ull << 17) /* its code has 64 KiB at most */

/* The start of the block that contains an address; 0: none does. */
__noinline u64 find_code_block(struct hotspot *of, u64 at)
{
	u64 start = 0, segments = 0;

	if (!of)
		return 0;
	for (u32 i = 0; i < CODE_HEAPS; i++) {
		if (at - of->heap_start[i] < of->heap_end[i] - of->heap_start[i]) {
			start = of->heap_start[i];
			segments = of->segments[i];
		}
	}
	if (!start)
		return 0;
	u64 segment = (at - start) >> (of->segment_bits & 31);
	for (u32 i = 0; i < SEGMENT_HOPS; i++) {
		u8 hops;
		if (bpf_probe_read_user(&hops, 1, (void *)(segments + segment)) || hops == SEGMENT_FREE)
			return 0;
		if (!hops)
			return start + (segment << (of->segment_bits & 31));
		segment -= hops;
	}
	return 0;
}

static __always_inline u32 head_half(struct walk *walk, u16 at)
{
	return *(u32 *)((u8 *)walk->code_head + (at & (HEAD_WORDS * 8 - 4)));
}

/* Whether an address is compiled or interpreted code. */
static __always_inline bool is_java_code(struct hotspot *of, u64 at)
{
	bool inside = false;

	for (u32 i = 0; i < CODE_HEAPS; i++)
		inside |= at - of->heap_start[i] < of->heap_end[i] - of->heap_start[i];
	return inside;
}

/* The interpreter's frame: below its frame pointer is the caller's stack pointer, past arguments
 * that were moved. */
static __always_inline enum walk_step walk_interpreted(struct walk *walk)
{
	u64 fp = walk->fp, sender;
	enum walk_step step = walk_by_pointer(walk);

	if (step == WALK_ON && stack_word(walk, fp - 8, &sender) && sender - walk->sp < FARTHEST_SENDER)
		walk->sp = sender;
	return step;
}

/* The innermost frame where it is incomplete: the return address is at the stack pointer, or
 * above the saved rbp. */
static __always_inline enum walk_step walk_half_frame(struct walk *walk, bool is_pushed)
{
	u64 pc, fp = walk->fp, sp = walk->sp;

	if (is_pushed) {
		if (!stack_word(walk, sp, &fp))
			return WALK_LOST;
		sp += 8;
	}
	if (!stack_word(walk, sp, &pc))
		return WALK_LOST;
	return walk_to(walk, pc, sp + 8, fp);
}

/* Whether the word is the return address of a call. */
static __always_inline bool is_behind_call(u64 at)
{
	u8 bytes[LONGEST_INDIRECT_CALL];

	if (bpf_probe_read_user(bytes, sizeof(bytes), (void *)(at - sizeof(bytes))))
		return false;
	bool found = bytes[LONGEST_INDIRECT_CALL - DIRECT_CALL] == 0xe8;
	for (u32 i = 0; i + 1 < LONGEST_INDIRECT_CALL; i++)
		found |= bytes[i] == 0xff && (bytes[i + 1] & 0x38) == 0x10;
	return found;
}

/* The target of the call before a return address: `call target`, or `mov r10, target; call r10`.
 * 0: not known. */
static __always_inline u64 target_of_call(u64 at)
{
	struct {
		u8 move[2];
		u8 target[8];
		u8 call[3];
	} code;
	u64 target;
	s32 distance;

	if (bpf_probe_read_user(&code, sizeof(code), (void *)(at - sizeof(code))))
		return 0;
	if (code.move[0] == 0x49 && code.move[1] == 0xba && code.call[0] == 0x41 && code.call[1] == 0xff && code.call[2] == 0xd2) {
		__builtin_memcpy(&target, code.target, sizeof(target));
		return target;
	}
	if (code.target[6] != 0xe8)
		return 0;
	u8 bytes[4] = { code.target[7], code.call[0], code.call[1], code.call[2] };
	__builtin_memcpy(&distance, bytes, sizeof(distance));
	return at + distance;
}

/* Whether the word at `slot` is a return address into the code block that the walk is in, which
 * then becomes the place. The stack also holds words of calls that ended long ago; hardly any of
 * them is in this block. */
__noinline int is_return_of_block(struct walk *walk, u64 slot)
{
	u64 pc;

	if (!walk)
		return 0;
	u32 tgid = walk->tgid;
	struct hotspot *of = bpf_map_lookup_elem(&hotspots, &tgid);
	if (!of || !stack_word(walk, slot, &pc) || !is_java_code(of, pc))
		return 0;
	u64 target = target_of_call(pc);
	return target && find_code_block(of, target) == walk->java.block;
}

/* Whether the word can be the return address of frameless code, into the JVM's own code or Java
 * code. */
static __always_inline bool is_any_return(struct walk *walk, struct hotspot *of, u64 pc)
{
	if (pc - of->interpreter_start < of->interpreter_end - of->interpreter_start)
		return true; /* a return to the next bytecode */
	return pc > 4096 && !(pc >> 63) && (is_java_code(of, pc) || find_walk_mapping(walk, pc - 1)) && is_behind_call(pc);
}

/* Code blobs without a frame size: stubs and adapters. Most stubs keep a frame pointer, but
 * during their first instructions and after their last the register is the caller's, which may
 * use it for anything. Some stubs push words and keep no frame pointer. */
static __always_inline int walk_interrupted_stub(struct walk *walk, struct hotspot *of)
{
	u64 fp = walk->fp, sp = walk->sp, pc, saved;

	if (!(fp & 7) && fp - sp < FARTHEST_SENDER && is_return_of_block(walk, fp + 8) && stack_word(walk, fp, &saved) &&
	    stack_word(walk, fp + 8, &pc))
		return walk_to(walk, pc, fp + 16, saved);
	for (u32 i = 0; i < STUB_WORDS; i++) {
		if (is_return_of_block(walk, sp + 8 * i))
			return stack_word(walk, sp + 8 * i, &pc) ? walk_to(walk, pc, sp + 8 * i + 8, fp) : WALK_LOST;
	}
	if (stack_word(walk, sp, &pc) && is_any_return(walk, of, pc))
		return walk_to(walk, pc, sp + 8, fp);
	return WALK_UNSUPPORTED;
}

/* A stub that keeps a frame pointer. The stub that compiled code calls at its entry (nmethod
 * entry barrier) has a word between that and the return address: -1, or the end of the stack
 * when the code is left. */
static __always_inline enum walk_step walk_framed_stub(struct walk *walk, struct hotspot *of)
{
	u64 fp = walk->fp, pc, saved;

	if (walk->fp_lost || (fp & 7) || fp < walk->sp || !stack_word(walk, fp, &saved) || !stack_word(walk, fp + 8, &pc))
		return WALK_LOST;
	if (is_any_return(walk, of, pc))
		return walk_by_pointer(walk);
	if ((pc == ~0ull || pc - walk->sp < FARTHEST_SENDER) && stack_word(walk, fp + 16, &pc) && is_java_code(of, pc))
		return walk_to(walk, pc, fp + 24, saved);
	return WALK_LOST;
}

/* Code whose frame size is unknown, or not known yet. Where no word is certain to be the return
 * address, the stack is cut. */
static __always_inline int walk_unframed(struct walk *walk, struct hotspot *of)
{
	int step = walk->interrupted ? walk_interrupted_stub(walk, of) : WALK_UNSUPPORTED;

	return step == WALK_UNSUPPORTED ? walk_framed_stub(walk, of) : step;
}

/* State of the interrupted function's frame. */
enum half_frame { FRAME_WHOLE, FRAME_PUSHED, FRAME_NONE };
static __always_inline enum half_frame frame_now(struct walk *walk, struct hotspot *of, bool is_prologue)
{
	u8 bytes[4]; /* the byte before, and the instruction */
	u64 pc;

	if (bpf_probe_read_user(bytes, sizeof(bytes), (void *)(walk->pc - 1)))
		return FRAME_WHOLE;
	/* ret; cmp with a word of the thread, the poll before a return; pop rbp */
	if (bytes[1] == 0xc3 || (bytes[1] == 0x49 && bytes[2] == 0x3b && (bytes[3] & 0x3f) == 0x27))
		return FRAME_NONE;
	if (bytes[1] == 0x5d)
		return FRAME_PUSHED;
	if (!is_prologue)
		return FRAME_WHOLE;
	if (bytes[0] == 0x55 && bytes[1] == 0x48 && (bytes[2] == 0x83 || bytes[2] == 0x81))
		return FRAME_PUSHED;
	if (stack_word(walk, walk->sp, &pc) && is_java_code(of, pc))
		return FRAME_NONE;
	return FRAME_WHOLE;
}

/* Compiled code is called by compiled code, the interpreter or a stub. Some intrinsics (string
 * comparison) push words below their frame for a while, and so do callers of some stubs: the
 * return address is then a little above its usual place. If none is found there, the usual place
 * is taken. */
static __always_inline bool find_frame_end(struct walk *walk, struct hotspot *of, u64 *end)
{
	u64 pc;

	for (u32 i = 0; i < PUSHED_WORDS; i++) {
		if (stack_word(walk, *end + 8 * i - 8, &pc) && is_java_code(of, pc)) {
			*end += 8 * i;
			return true;
		}
	}
	return false;
}

static __always_inline bool is_same_process(struct hotspot *of)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return !bpf_core_field_exists(task->start_boottime) ||
	       BPF_CORE_READ(task, group_leader, start_boottime) / CLOCK_TICK == of->started;
}

static __always_inline u64 code_start(struct walk *walk, struct hotspot *of)
{
	return of->code_is_offset ? walk->java.block + of->structure + head_half(walk, of->code) :
				    walk->code_head[(of->code / 8) & (HEAD_WORDS - 1)];
}

/* Describes new code to user space. Returns the word of the stack for a place in it. */
static __always_inline u64 java_word(struct walk *walk, struct hotspot *of, u64 compilation, u64 place)
{
	u64 hash = mixed(mixed(mixed(HASH_START, of->started), walk->tgid), compilation);

	hash = mixed(mixed(hash, walk->java.block), walk->java.method);
	u64 number = hash >> (INSTRUCTION_BITS + 1) | 1;
	u64 *slot = untold_slot(number);
	if (slot) {
		u64 *words = (u64 *)walk->python.record.lines;
		words[0] = walk->java.place == JAVA_INTERPRETED;
		words[1] = walk->java.method;
		words[2] = of->started;
		tell_address(&walk->python.record, slot, number, LANGUAGE_JAVA, walk->java.block, 3 * sizeof(u64));
	}
	return PYTHON_WORD | (number << INSTRUCTION_BITS) | (place < INSTRUCTION_MOST ? place : INSTRUCTION_MOST);
}

/* A frame of the interpreter holds the method and the next bytecode's address, which is inside
 * the method. In the innermost frame a register holds that address. */
static __always_inline u64 interpreted_word(struct walk *walk, struct hotspot *of)
{
	u64 constant, place = 0, fp = walk->fp;

	if (walk->fp_lost || (fp & 7) || fp < walk->sp || !stack_word(walk, fp - INTERPRETED_METHOD, &walk->java.method) ||
	    bpf_probe_read_user(&constant, sizeof(constant), (void *)(walk->java.method + of->method_constant)))
		return 0;
	if (!innermost_register(walk, 13, &place) || place - constant >= LONGEST_METHOD) {
		if (!stack_word(walk, fp - INTERPRETED_PLACE, &place) || place - constant >= LONGEST_METHOD)
			return 0;
	}
	walk->java.block = walk->java.method;
	walk->java.method = constant;
	return java_word(walk, of, 0, place - constant);
}

/* Identifies the code of a JVM that the frame is in. Returns its word of the stack; 0 if it is
 * no such code, or the JVM's methods cannot be read. */
__noinline u64 find_java_code(struct walk *walk)
{
#if defined(__TARGET_ARCH_x86)
	u32 compilation = 0;

	if (!walk)
		return 0;
	u32 tgid = walk->tgid;
	struct hotspot *of = bpf_map_lookup_elem(&hotspots, &tgid);
	walk->java.place = JAVA_NOT;
	if (!of || !is_same_process(of))
		return 0;
	u64 at = walk->pc - !walk->interrupted;
	if (at - of->interpreter_start < of->interpreter_end - of->interpreter_start) {
		walk->java.place = JAVA_INTERPRETED;
		return of->method_constant ? interpreted_word(walk, of) : 0;
	}
	u64 block = find_code_block(of, at);
	if (!block || bpf_probe_read_user(walk->code_head, sizeof(walk->code_head), (void *)block) ||
	    !(head_half(walk, of->used) & 0xff))
		return 0;
	walk->java.place = JAVA_PIECE;
	walk->java.block = block;
	if (!of->method_constant)
		return 0;
	/* If a blob is not a method, this is the code's address. */
	bpf_probe_read_user(&walk->java.method, sizeof(walk->java.method), (void *)(block + of->block_method));
	bpf_probe_read_user(&compilation, sizeof(compilation), (void *)(block + of->block_compilation));
	u64 start = code_start(walk, of);
	return java_word(walk, of, compilation, walk->pc > start ? walk->pc - start : 0);
#else
	return 0;
#endif
}

/* Steps over code without a file: Java code by its frame size, other code by the frame pointer. */
__noinline int walk_generated_code(struct walk *walk)
{
#if defined(__TARGET_ARCH_x86)
	u64 pc, fp, cfa;

	if (!walk)
		return WALK_ASTRAY;
	u32 tgid = walk->tgid;
	struct hotspot *of = bpf_map_lookup_elem(&hotspots, &tgid);
	if (!of || walk->java.place == JAVA_NOT)
		goto others;
	if (walk->java.place == JAVA_INTERPRETED) {
		walk->counts.by_pointer++;
		return walk_interpreted(walk);
	}
	u64 at = walk->pc - !walk->interrupted;
	u64 words = head_half(walk, of->frame_words);
	if (!words || words >= 1 << 16) {
		walk->counts.by_pointer++;
		goto unframed;
	}
	walk->counts.by_table++;
	if (walk->interrupted) {
		u64 code = code_start(walk, of);
		u32 complete = head_half(walk, of->frame_complete);
		if (of->short_complete)
			complete = (of->frame_complete & 2 ? complete >> 16 : complete) & 0xffff;
		enum half_frame now = frame_now(walk, of, at < code + complete);
		if (now != FRAME_WHOLE)
			return walk_half_frame(walk, now == FRAME_PUSHED);
	}
	cfa = walk->sp + 8 * words;
	if (!find_frame_end(walk, of, &cfa) && walk->interrupted)
		goto unframed;
	if (!stack_word(walk, cfa - 8, &pc) || !stack_word(walk, cfa - 16, &fp))
		return WALK_LOST;
	walk->fp_lost = 0;
	walk->base_lost = 1;
	return walk_to(walk, pc, cfa, fp);
unframed:
	return walk_unframed(walk, of);
others:
#endif
	if (!walk)
		return WALK_ASTRAY;
	walk->counts.by_pointer++;
	return walk_by_pointer(walk);
}
