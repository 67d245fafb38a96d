/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* The frames of CRuby on a user stack.
 *
 * As in python.h, user space passes the layout of the interpreter's structures. When a walk
 * meets the function that executes Ruby, the frames of this call follow on the stack, up to and
 * including the one marked as its last (VM_FRAME_FLAG_FINISH). Frames are adjacent in memory,
 * each caller behind its callee. Methods in C have native frames. */
#pragma once
#include "python.h"

/* ---- shared with user space; mirrored in ruby.rs ---- */
enum ruby_text {
	RUBY_LENGTH_IN_FLAGS = 1, /* 3.1: of short strings */
	RUBY_LENGTH, /* 3.2 and later */
};
struct ruby_interpreter {
	u64 eval_start[EVAL_RANGES]; /* offsets in the file */
	u64 eval_end[EVAL_RANGES];
	u64 module; /* address of the word with the library's number, less the file offset of address 0; 0: a program */
	s64 context; /* from the thread pointer, or in the library's thread-local data */
	u16 frame_size;
	u16 location;
	u16 lines;
	u8 text; /* enum ruby_text; 0: no interpreter */
	u8 line_shift; /* of a method's first line */
};
/* In a record, `lines` starts with the table of ranks; the lines follow. */
#define RUBY_RANKS 448
#define RUBY_LINE_BYTES (CODE_LINES - RUBY_RANKS)
#define RUBY_IMMEDIATE 54 /* positions whose ranks have words of their own */
#define RUBY_PART 12 /* size of the copied part of struct iseq_insn_info_entry */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MOST_INTERPRETERS);
	__type(key, u32);
	__type(value, struct ruby_interpreter);
} rubies SEC(".maps");
/* The interpreter of an image, by the image's number; 0: none. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u32);
} image_rubies SEC(".maps");

/* The same in all tested versions: rb_control_frame_t, rb_iseq_t and the head of its body. */
#define FRAME_POSITION 0
#define FRAME_SEQUENCE 16
#define FRAME_ENVIRONMENT 32
#define SEQUENCE_BODY 16
#define BODY_POSITIONS 4
#define BODY_CODE 8
#define RUBY_BODY 160 /* size of the copied part */
#define RUBY_FINISH 0x20
#define RUBY_IN_C 0x80
#define RUBY_TYPE 0x1f
#define RUBY_STRING 5
#define RUBY_ARRAY 7
#define RUBY_INTERNAL 0x1a
#define RUBY_ELSEWHERE (1 << 13) /* a string's characters are not in its object; an array's elements are */
#define INTERNAL_SEQUENCE 7

struct ruby_walk {
	u64 frame; /* the next one */
	u64 start; /* frames begin here */
	u64 end;
	u64 file_base;
	u64 process;
	u32 image;
	u32 image_ruby;
	u8 met;
	u8 pending;
	u8 untold; /* the method whose body is in `bytes` is to be sent, see tell_method */
	u8 unused[5];
	struct ruby_interpreter of;
	u8 bytes[256]; /* a frame, the body of a sequence, or the head of a string */
	struct code_record record;
};

static __always_inline u64 ruby_word(struct ruby_walk *ruby, u32 at)
{
	return *(u64 *)&ruby->bytes[at & 0xf8];
}

static __always_inline struct python_counts *counts_of_ruby(void)
{
	u32 language = LANGUAGE_RUBY;
	return bpf_map_lookup_elem(&python_counts, &language);
}

/* ---- what the thread executes ---- */
static __always_inline u64 ruby_context(struct ruby_walk *ruby)
{
#if defined(__TARGET_ARCH_x86)
	struct ruby_interpreter *of = &ruby->of;
	struct task_struct *task = bpf_get_current_task_btf();
	u64 pointer = task->thread.fsbase;

	if (!of->module)
		return user_word(pointer + of->context);
	/* The second word behind the thread pointer leads to the thread-local data of all
	 * libraries. */
	u64 module = user_word(of->module - ruby->file_base);
	u64 data = user_word(user_word(pointer + 8) + 16 * module);
	return user_word(data + of->context);
#else
	return 0; /* threads' pointers are unknown here */
#endif
}

/* ---- what methods are ---- */
static __always_inline void read_ruby_text(struct ruby_walk *ruby, u64 string, struct code_text *text)
{
	text->kind = text->length = text->cut = 0;
	if (bpf_probe_read_user(ruby->bytes, 40, (void *)string))
		return;
	u64 flags = ruby_word(ruby, 0);
	if ((flags & RUBY_TYPE) == RUBY_ARRAY) { /* path and real path; code from a string has a string */
		string = ruby_word(ruby, 24);
		if (string & 7 || string < 4096)
			string = ruby_word(ruby, 16);
		if (bpf_probe_read_user(ruby->bytes, 40, (void *)string))
			return;
		flags = ruby_word(ruby, 0);
	}
	if ((flags & RUBY_TYPE) != RUBY_STRING)
		return;
	u64 length = ruby_word(ruby, 16), data = string + 24;
	if (flags & RUBY_ELSEWHERE) {
		data = ruby_word(ruby, 24);
	} else if (ruby->of.text == RUBY_LENGTH_IN_FLAGS) {
		length = (flags >> 14) & 31;
		data = string + 16;
	}
	if (length > 1 << 20)
		return;
	if (length > CODE_TEXT) { /* the end of a path says more than the start */
		data += length - CODE_TEXT;
		length = CODE_TEXT;
		text->cut = 1;
	}
	u32 size = length;
	if (size > CODE_TEXT)
		return;
	if (bpf_probe_read_user(text->bytes, size, (void *)data))
		return;
	text->length = size;
	text->kind = 1;
}

/* The table from positions to lines, of the sequence whose body is in `bytes`. */
static __always_inline void read_ruby_lines(struct ruby_walk *ruby)
{
	struct ruby_interpreter *of = &ruby->of;
	struct code_record *record = &ruby->record;
	u32 positions = *(u32 *)&ruby->bytes[BODY_POSITIONS];
	u32 parts = *(u32 *)&ruby->bytes[(of->lines + 16) & 0xfc];
	u64 lines = ruby_word(ruby, of->lines), ranks = ruby_word(ruby, of->lines + 24);

	/* Positions beyond the copied table get the first line. */
	u32 words = positions < RUBY_IMMEDIATE ? (positions + 8) / 9 : RUBY_IMMEDIATE / 9;
	u32 blocks = positions < RUBY_IMMEDIATE ? 0 : (positions - RUBY_IMMEDIATE + 511) / 512;
	u32 size = blocks > 5 ? RUBY_RANKS : 8 * words + 80 * blocks;
	/* The verifier checks the register that the helper gets, not the values it was computed
	 * from. */
	asm volatile("" : "+r"(size));
	record->lines_length = record->lines_copied = 0;
	__builtin_memset(record->lines, 0, RUBY_RANKS);
	if (size > RUBY_RANKS)
		return;
	if (parts > 1 && bpf_probe_read_user(record->lines, size, (void *)ranks))
		return;
	size = parts > RUBY_LINE_BYTES / RUBY_PART ? RUBY_LINE_BYTES / RUBY_PART : parts;
	record->lines_length = size;
	size *= RUBY_PART;
	asm volatile("" : "+r"(size));
	if (size > RUBY_LINE_BYTES)
		return;
	if (!bpf_probe_read_user(record->lines + RUBY_RANKS, size, (void *)lines))
		record->lines_copied = size;
}

/* Describes a method, the body of whose sequence is in `bytes`, to user space. */
__noinline int tell_method(struct ruby_walk *ruby)
{
	if (!ruby)
		return 0;
	ruby->untold = 0;
	struct ruby_interpreter *of = &ruby->of;
	struct code_record *record = &ruby->record;
	u64 path = ruby_word(ruby, of->location), label = ruby_word(ruby, of->location + 16);

	record->lines_address = 0;
	record->minor = 0;
	record->language = LANGUAGE_RUBY;
	read_ruby_lines(ruby);
	read_ruby_text(ruby, path, &record->file);
	read_ruby_text(ruby, label, &record->name);
	u64 *slot = untold_slot(record->number);
	if (!bpf_ringbuf_output(&code_records, record, sizeof(*record), 0)) {
		if (slot)
			*slot = record->number;
	} else {
		struct python_counts *counts = counts_of_ruby();
		if (counts)
			counts->unsent++;
	}
	return 0;
}

/* The number of the method whose body is in `bytes`. */
static __always_inline u64 number_of_method(struct ruby_walk *ruby, u64 body)
{
	struct ruby_interpreter *of = &ruby->of;
	u32 first_line = *(u32 *)&ruby->bytes[(of->location + 24) & 0xfc] >> (of->line_shift & 1);
	u64 hash = mixed(ruby->process, body);

	hash = mixed(hash, ruby_word(ruby, of->location));
	hash = mixed(hash, ruby_word(ruby, of->location + 16));
	hash = mixed(hash, ruby_word(ruby, of->lines));
	hash = mixed(hash, first_line);
	u64 number = hash >> (INSTRUCTION_BITS + 1) | 1;
	ruby->record.number = number;
	ruby->record.first_line = first_line;
	ruby->untold = untold_slot(number) != 0;
	return number;
}

/* ---- frames ---- */
/* Reads the next frame. Returns its word, or 0 if it is no method of Ruby. */
__noinline u64 next_ruby_frame(struct ruby_walk *ruby)
{
	if (!ruby)
		return 0;
	struct ruby_interpreter *of = &ruby->of;
	u64 flags, body, head[3];

	if (bpf_probe_read_user(ruby->bytes, 40, (void *)ruby->frame))
		goto broken;
	u64 position = ruby_word(ruby, FRAME_POSITION), sequence = ruby_word(ruby, FRAME_SEQUENCE);
	if (bpf_probe_read_user(&flags, sizeof(flags), (void *)ruby_word(ruby, FRAME_ENVIRONMENT)))
		goto broken;
	if (flags & RUBY_FINISH)
		ruby->pending = 0;
	ruby->frame += of->frame_size;
	if (ruby->frame >= ruby->end)
		ruby->frame = 0;
	if (flags & RUBY_IN_C || !sequence || !position)
		return 0;
	if (bpf_probe_read_user(head, sizeof(head), (void *)sequence) || (head[0] & RUBY_TYPE) != RUBY_INTERNAL ||
	    ((head[0] >> 12) & 15) != INTERNAL_SEQUENCE)
		goto broken;
	body = head[SEQUENCE_BODY / 8];
	if (bpf_probe_read_user(ruby->bytes, RUBY_BODY, (void *)body))
		goto broken;
	/* The position is that of the next instruction. */
	u64 index = (position - ruby_word(ruby, BODY_CODE)) / 8;
	if (index > *(u32 *)&ruby->bytes[BODY_POSITIONS])
		goto broken;
	index = index ? index - 1 : 0;
	if (index > INSTRUCTION_MOST)
		index = INSTRUCTION_MOST;
	u64 number = number_of_method(ruby, body);
	return number ? PYTHON_WORD | (number << INSTRUCTION_BITS) | index : 0;
broken:
	ruby->frame = 0;
	ruby->pending = 0;
	struct python_counts *counts = counts_of_ruby();
	if (counts)
		counts->broken++;
	return 0;
}

/* A native frame at `offset` of an image (0: not Ruby) was put on the stack: if it is in the
 * function that executes Ruby, Ruby frames follow. */
static __always_inline void meet_ruby(struct ruby_walk *ruby, u32 image, u64 file_base, u64 offset)
{
	if (image != ruby->image) {
		u32 *index = bpf_map_lookup_elem(&image_rubies, &image);
		ruby->image = image;
		ruby->image_ruby = index ? *index : 0;
	}
	u32 number = ruby->image_ruby;
	struct ruby_interpreter *of = number ? bpf_map_lookup_elem(&rubies, &number) : 0;
	if (!of || !of->text)
		return;
	bool inside = false;
	for (u32 i = 0; i < EVAL_RANGES; i++)
		inside |= offset >= of->eval_start[i] && offset < of->eval_end[i];
	if (!inside)
		return;
	if (!ruby->met) {
		struct task_struct *task = bpf_get_current_task_btf();
		struct python_counts *counts = counts_of_ruby();
		u64 context[3] = {};
		ruby->met = 1;
		ruby->of = *of;
		ruby->file_base = file_base;
		ruby->process = mixed(mixed(mixed(HASH_START, task->tgid), task->self_exec_id),
				      task->group_leader->start_time);
		u64 place = ruby_context(ruby);
		/* The stack of values, its size, and the frame: frames grow down from the end of
		 * the stack. */
		if (place && !bpf_probe_read_user(context, sizeof(context), (void *)place)) {
			ruby->end = context[0] + 8 * (context[1] & 0xffffffff);
			ruby->frame = context[2] >= context[0] && context[2] < ruby->end ? context[2] : 0;
		}
		if (counts) {
			counts->stacks++;
			if (!ruby->frame)
				counts->threadless++;
		}
	}
	ruby->pending = ruby->frame != 0;
}
