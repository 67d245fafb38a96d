/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* The frames of CPython on a user stack.
 *
 * User space finds the interpreter in an image (crate languages) and passes the layout of its
 * structures. When a walk meets the evaluation function, the Python frames of this call follow
 * on the stack. Each is a word with bit 63 set, which no user address has, the number of the
 * code object (a hash of its identity and place), and the instruction in it. A new code object's
 * names and line table are sent to user space. */
#pragma once
#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "identity.h"

/* ---- shared with user space; mirrored in languages.rs ---- */
#define MOST_INTERPRETERS 64
#define EVAL_RANGES 4
#define PYTHON_WORD (1ull << 63)
#define INSTRUCTION_BITS 20
#define INSTRUCTION_MOST ((1u << INSTRUCTION_BITS) - 1)
#define NO_FIELD 0xffff
#define CODE_TEXT 256
#define CODE_LINES 2048

/* How many frames one call of the evaluation function stands for. */
enum python_calls {
	PYTHON_ONE = 1, /* 3.8 to 3.10 */
	PYTHON_TO_ENTRY, /* 3.11: up to and including the marked one */
	PYTHON_TO_SHIM, /* 3.12 and later: up to one that is no function */
};
struct interpreter {
	u64 eval_start[EVAL_RANGES]; /* offsets in the file */
	u64 eval_end[EVAL_RANGES];
	u64 runtime; /* address of _PyRuntime, less the file offset of address 0 */
	u64 code_type; /* the same of PyCode_Type */
	u32 interpreters_head;
	u32 interpreter_next;
	u32 interpreter_threads;
	u16 thread_next;
	u16 thread_id;
	u16 thread_frame; /* the current frame, or the structure that holds it */
	u16 holder_frame; /* its offset in that structure; NO_FIELD: there is none */
	u16 frame_size;
	u16 frame_code;
	u16 frame_previous;
	u16 frame_instruction;
	u16 frame_mark;
	u16 code_first_line;
	u16 code_file;
	u16 code_name;
	u16 code_lines;
	u16 code_instructions; /* NO_FIELD: frames count them from the start */
	u16 ascii_data;
	u16 text_data;
	u16 bytes_data;
	u8 calls; /* enum python_calls; 0: no interpreter */
	u8 mark; /* of the shim's owner, or less */
	u16 minor; /* of the version */
};
struct code_text {
	u16 length; /* length in bytes of the copy */
	u8 kind; /* bytes a character; 0: unreadable */
	u8 cut;
	u32 unused;
	u8 bytes[CODE_TEXT];
};
enum script_language {
	LANGUAGE_PYTHON,
	LANGUAGE_RUBY,
	LANGUAGE_V8,
	LANGUAGE_JAVA,
	SCRIPT_LANGUAGES,
};
/* A code object that was met for the first time. */
struct code_record {
	u64 number;
	u64 lines_address;
	u32 tgid; /* set when the walk begins */
	u32 first_line;
	u32 lines_length;
	u32 lines_copied;
	u32 minor;
	u32 language; /* enum script_language */
	struct code_text file;
	struct code_text name;
	u8 lines[CODE_LINES];
};
struct python_counts {
	u64 stacks; /* walks that met an interpreter */
	u64 frames;
	u64 threadless; /* walks without a thread state, or with one without a frame */
	u64 broken; /* frames or code that could not be read, or were invalid */
	u64 unsent; /* code objects that could not be sent for lack of room */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MOST_INTERPRETERS);
	__type(key, u32);
	__type(value, struct interpreter);
} interpreters SEC(".maps");
/* The interpreter of an image, by the image's number; 0: none. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u32);
} image_interpreters SEC(".maps");
/* Where a thread has its state. The state found there is checked as well as its thread pointer:
 * the state of an ended thread may keep the pointer for long, and the next thread often has the
 * same one. */
#define THREAD_GUESSES 4096
struct python_thread {
	u64 thread; /* a hash of the thread's identity */
	u64 state;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, THREAD_GUESSES);
	__type(key, u32);
	__type(value, struct python_thread);
} python_threads SEC(".maps");
/* Code objects that were sent to user space. Of two in one slot, the other is sent again. */
#define CODE_SLOTS 65536
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CODE_SLOTS);
	__type(key, u32);
	__type(value, u64);
} python_codes SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 21);
} code_records SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SCRIPT_LANGUAGES);
	__type(key, u32);
	__type(value, struct python_counts);
} python_counts SEC(".maps");
struct python_walk {
	u64 frame; /* the next one */
	u64 file_base; /* of the interpreter's image */
	u64 process; /* a hash of the process's identity */
	u32 image; /* the last image looked up */
	u32 image_interpreter; /* its interpreter */
	u8 met; /* `of` is set */
	u8 pending; /* frames of the last call of the evaluation function follow */
	u8 untold; /* the code object whose head is in `bytes` is to be sent, see tell_code */
	u8 unused[5];
	struct interpreter of; /* a copy: the verifier forgets what a pointer in a map points to */
	u8 bytes[256]; /* a frame, a code object or the head of a string */
	struct code_record record;
};

static __always_inline u64 python_word(struct python_walk *python, u32 at)
{
	return *(u64 *)&python->bytes[at & 0xf8];
}

static __always_inline struct python_counts *counts_of_python(void)
{
	u32 zero = 0;
	return bpf_map_lookup_elem(&python_counts, &zero);
}

/* The slot of a function that was not sent to user space yet; 0: it was. */
static __always_inline u64 *untold_slot(u64 number)
{
	u32 slot = (number >> 1) & (CODE_SLOTS - 1);
	u64 *told = bpf_map_lookup_elem(&python_codes, &slot);

	return told && *told != number ? told : 0;
}

/* Sends user space a function whose names it reads from the process, by the function's address
 * and the bytes copied to `lines`. */
static __always_inline void tell_address(struct code_record *record, u64 *slot, u64 number, enum script_language language, u64 address,
					 u32 copied)
{
	u32 index = language;
	struct python_counts *counts = bpf_map_lookup_elem(&python_counts, &index);

	record->number = number;
	record->lines_address = address;
	record->first_line = record->lines_length = record->minor = 0;
	record->lines_copied = copied;
	record->language = language;
	record->file.kind = record->name.kind = 0;
	record->file.length = record->name.length = 0;
	if (!bpf_ringbuf_output(&code_records, record, sizeof(*record) - CODE_LINES + copied, 0))
		*slot = number;
	else if (counts)
		counts->unsent++;
}

/* ---- the state of the thread ---- */
static __always_inline u64 user_word(u64 address)
{
	u64 word = 0;
	bpf_probe_read_user(&word, sizeof(word), (void *)address);
	return word;
}

/* The thread pointer of the current thread. On AArch64 it is the value when the thread last left
 * its CPU; programs set it once. */
static __always_inline u64 thread_pointer(struct task_struct *task)
{
#if defined(__TARGET_ARCH_x86)
	return task->thread.fsbase;
#else
	return task->thread.uw.tp_value;
#endif
}

/* Whether a value of pthread_self() belongs to the thread with this pointer. On AArch64 C
 * libraries keep a thread's data below the address in the pointer. */
#define MOST_OF_THREAD 4096
static __always_inline bool is_thread(u64 id, u64 pointer)
{
#if defined(__TARGET_ARCH_x86)
	return id == pointer;
#else
	return pointer - id - 1 < MOST_OF_THREAD;
#endif
}

#define MOST_THREADS 512
struct thread_search {
	struct interpreter *of;
	u64 pointer; /* of the thread */
	u64 interpreter;
	u64 state;
	u64 found;
};

static long next_thread(u32 index, struct thread_search *search)
{
	struct interpreter *of = search->of;

	if (!search->state) {
		search->interpreter = user_word(search->interpreter + of->interpreter_next);
		if (!search->interpreter)
			return 1;
		search->state = user_word(search->interpreter + of->interpreter_threads);
		return 0;
	}
	if (is_thread(user_word(search->state + of->thread_id), search->pointer)) {
		search->found = search->state;
		return 1;
	}
	search->state = user_word(search->state + of->thread_next);
	return 0;
}

/* The thread state of the current thread: the interpreter's own list has it under the thread
 * pointer, whether or not the thread holds the lock. */
__noinline u64 find_python_thread(struct python_walk *python)
{
	struct task_struct *task = bpf_get_current_task_btf();
	if (!python)
		return 0;
	struct interpreter *of = &python->of;
	u64 pointer = thread_pointer(task);
	u64 thread = mixed(mixed(mixed(python->process, pointer), task->pid), task->start_time);
	u32 slot = thread & (THREAD_GUESSES - 1);
	struct python_thread *guess = bpf_map_lookup_elem(&python_threads, &slot);
	if (!guess || !pointer)
		return 0;
	u64 guessed = guess->state;
	if (guess->thread == thread && guessed && is_thread(user_word(guessed + of->thread_id), pointer))
		return guessed;
	struct thread_search search = { .of = of, .pointer = pointer };
	search.interpreter = user_word(of->runtime - python->file_base + of->interpreters_head);
	if (!search.interpreter)
		return 0;
	search.state = user_word(search.interpreter + of->interpreter_threads);
	bpf_loop(MOST_THREADS, next_thread, &search, 0);
	guess->state = 0;
	guess->thread = thread;
	guess->state = search.found;
	return search.found;
}

/* ---- code objects ---- */
static __always_inline void read_text(struct python_walk *python, u64 string, struct code_text *text)
{
	struct interpreter *of = &python->of;

	text->kind = text->length = text->cut = 0;
	if (bpf_probe_read_user(python->bytes, 40, (void *)string))
		return;
	u64 length = python_word(python, 16);
	u32 state = python->bytes[32];
	u32 kind = (state >> 2) & 7;
	u64 data = string + ((state >> 6) & 1 ? of->ascii_data : of->text_data);
	if ((kind != 1 && kind != 2 && kind != 4) || length > 1 << 20)
		return;
	u64 bytes = length * kind;
	if (bytes > CODE_TEXT) { /* the end of a path says more than the start */
		data += bytes - CODE_TEXT;
		bytes = CODE_TEXT;
		text->cut = 1;
	}
	u32 size = bytes;
	if (size > CODE_TEXT)
		return;
	if (bpf_probe_read_user(text->bytes, size, (void *)data))
		return;
	text->length = size;
	text->kind = kind;
}

/* Describes a code object, whose head is in `bytes`, to user space. */
__noinline int tell_code(struct python_walk *python)
{
	if (!python)
		return 0;
	python->untold = 0;
	struct interpreter *of = &python->of;
	struct code_record *record = &python->record;
	u64 file = python_word(python, of->code_file), name = python_word(python, of->code_name);
	u64 lines = python_word(python, of->code_lines);

	record->lines_address = lines + of->bytes_data;
	record->minor = of->minor;
	record->language = LANGUAGE_PYTHON;
	record->lines_copied = 0;
	u64 length = user_word(lines + 16);
	record->lines_length = length > 1 << 24 ? 0 : length;
	u32 copied = record->lines_length < CODE_LINES ? record->lines_length : CODE_LINES - 1;
	copied &= CODE_LINES - 1;
	if (!bpf_probe_read_user(record->lines, copied, (void *)record->lines_address))
		record->lines_copied = copied;
	else
		copied = 0;
	read_text(python, file, &record->file);
	read_text(python, name, &record->name);
	u64 *slot = untold_slot(record->number);
	if (!bpf_ringbuf_output(&code_records, record, sizeof(*record) - CODE_LINES + copied, 0)) {
		if (slot)
			*slot = record->number;
	} else {
		struct python_counts *counts = counts_of_python();
		if (counts)
			counts->unsent++;
	}
	return 0;
}

/* The number of a code object; 0 if it is none. */
__noinline u64 number_of_code(struct python_walk *python, u64 code)
{
	if (!python)
		return 0;
	struct interpreter *of = &python->of;
	if (bpf_probe_read_user(python->bytes, 144, (void *)code) ||
	    python_word(python, 8) != of->code_type - python->file_base)
		return 0;
	u32 first_line = *(u32 *)&python->bytes[of->code_first_line & 0xfc];
	u64 hash = mixed(python->process, code);
	hash = mixed(hash, python_word(python, of->code_file));
	hash = mixed(hash, python_word(python, of->code_name));
	hash = mixed(hash, python_word(python, of->code_lines));
	hash = mixed(hash, first_line);
	u64 number = hash >> (INSTRUCTION_BITS + 1) | 1;
	python->record.number = number;
	python->record.first_line = first_line;
	python->untold = untold_slot(number) != 0;
	return number;
}

/* ---- frames ---- */
/* Reads the next frame. Returns its word, or 0 if it is no function. */
__noinline u64 next_python_frame(struct python_walk *python)
{
	if (!python)
		return 0;
	struct interpreter *of = &python->of;
	u64 code, previous, instruction;
	u32 index = 0;

	u32 size = of->frame_size;
	if (size > 128 || bpf_probe_read_user(python->bytes, size, (void *)python->frame))
		goto broken;
	code = python_word(python, of->frame_code) & ~7ull; /* 3.14 marks pointers in the lowest bits */
	previous = python_word(python, of->frame_previous);
	u8 mark = python->bytes[of->frame_mark & 0xff];
	instruction = *(u64 *)&python->bytes[of->frame_instruction & 0xf8];
	bool shim = of->calls == PYTHON_TO_SHIM && mark >= of->mark;
	if (of->calls == PYTHON_ONE || shim || (of->calls == PYTHON_TO_ENTRY && mark))
		python->pending = 0;
	if (previous == python->frame)
		previous = 0;
	python->frame = previous;
	if (shim)
		return 0;
	if (of->code_instructions == NO_FIELD)
		index = (s32)instruction < 0 ? 0 : (u32)instruction;
	else if (instruction >= code + of->code_instructions)
		index = (instruction - code - of->code_instructions) / 2;
	u64 number = number_of_code(python, code);
	if (!number)
		goto broken;
	if (index > INSTRUCTION_MOST)
		index = INSTRUCTION_MOST;
	return PYTHON_WORD | (number << INSTRUCTION_BITS) | index;
broken:
	python->frame = 0;
	python->pending = 0;
	struct python_counts *counts = counts_of_python();
	if (counts)
		counts->broken++;
	return 0;
}

/* A native frame at `offset` of an image (0: not Python) was put on the stack: if it is in the
 * evaluation function, Python frames follow. */
static __always_inline void meet_interpreter(struct python_walk *python, u32 image, u64 file_base, u64 offset)
{
	if (image != python->image) {
		u32 *index = bpf_map_lookup_elem(&image_interpreters, &image);
		python->image = image;
		python->image_interpreter = index ? *index : 0;
	}
	u32 number = python->image_interpreter;
	struct interpreter *of = number ? bpf_map_lookup_elem(&interpreters, &number) : 0;
	if (!of || !of->calls)
		return;
	bool inside = false;
	for (u32 i = 0; i < EVAL_RANGES; i++)
		inside |= offset >= of->eval_start[i] && offset < of->eval_end[i];
	if (!inside)
		return;
	if (!python->met) {
		struct task_struct *task = bpf_get_current_task_btf();
		struct python_counts *counts = counts_of_python();
		python->met = 1;
		python->of = *of;
		python->file_base = file_base;
		python->process = mixed(mixed(mixed(HASH_START, task->tgid), task->self_exec_id),
					task->group_leader->start_time);
		u64 state = find_python_thread(python);
		python->frame = state ? user_word(state + of->thread_frame) : 0;
		if (python->frame && of->holder_frame != NO_FIELD)
			python->frame = user_word(python->frame + of->holder_frame);
		if (counts) {
			counts->stacks++;
			if (!python->frame)
				counts->threadless++;
		}
	}
	python->pending = python->frame != 0;
}
