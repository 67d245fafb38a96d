/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* The labels of the running goroutine.
 *
 * User space finds a Go program by its image (crate languages) and passes the layout of its
 * runtime. After a walk that meets such an image, the labels that the program set (package
 * runtime/pprof) are read. The path leads from the thread pointer to the goroutine, to its
 * thread, to the goroutine that this one runs (the scheduler has one of its own), to the labels.
 * Their number is a hash of the texts, which are sent to user space the first time. */
#pragma once
#include "identity.h"
#include "kernel_types.h"
#include <bpf/bpf_helpers.h>

/* ---- shared with user space; mirrored in go.rs ---- */
#define LABEL_KEY 32
#define LABEL_VALUE 96
#define MOST_LABELS 8
enum label_form {
	LABEL_MAP = 1, /* up to Go 1.23 */
	LABEL_LIST,
};
struct go_program {
	s32 goroutine; /* offset from the thread pointer of the pointer to the running goroutine */
	u16 goroutine_thread;
	u16 thread_goroutine;
	u16 labels;
	u8 form; /* enum label_form; 0: no Go program */
	u8 unused;
};
struct go_label {
	u32 key_length; /* length in the program; the copy here may be shorter */
	u32 value_length;
	u8 key[LABEL_KEY];
	u8 value[LABEL_VALUE];
};
struct label_record {
	u32 number;
	u32 count;
	struct go_label labels[MOST_LABELS];
};

/* By the image's number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, struct go_program);
} go_programs SEC(".maps");
/* Labels that were sent to user space. Of two labels in one slot, the other is sent again. */
#define LABEL_SLOTS 4096
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LABEL_SLOTS);
	__type(key, u32);
	__type(value, u32);
} told_labels SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} label_records SEC(".maps");

struct go_walk {
	u32 image; /* the last image looked up */
	struct go_program program;
	struct label_record record;
};

/* A frame in an image (0: no Go program) was put on the stack. */
static __always_inline void meet_go_program(struct go_walk *go, u32 image)
{
	if (go->program.form || image == go->image)
		return;
	go->image = image;
	struct go_program *program = bpf_map_lookup_elem(&go_programs, &image);
	if (program)
		go->program = *program;
}

/* A map with few entries is one bucket: a byte for each entry, the keys, the values. */
#define BUCKET_KEYS 8
#define BUCKET_VALUES (BUCKET_KEYS + 16 * MOST_LABELS)
#define FIRST_USED 5 /* least byte of an entry in use */

struct label_reader {
	struct go_walk *go;
	u64 from; /* the list, or the bucket */
	u64 used; /* bytes of the entries */
	u64 hash;
	u32 count;
	u32 is_list;
};
struct go_text {
	u64 start;
	u64 length;
};

static __always_inline long read_label_text(u8 *to, u32 room, struct go_text *text)
{
	u32 size = text->length < room ? text->length : room;

	/* The verifier checks the register that the helper gets, not the values it was computed
	 * from. */
	asm volatile("" : "+r"(size));
	if (size > room)
		return 1;
	return bpf_probe_read_user(to, size, (void *)text->start);
}

static long read_label(u32 index, struct label_reader *reader)
{
	struct label_record *record = &reader->go->record;
	struct go_text text[2];

	if (index >= reader->count || index >= MOST_LABELS)
		return 1;
	if (reader->is_list) {
		if (bpf_probe_read_user(text, sizeof(text), (void *)(reader->from + sizeof(text) * index)))
			return 1;
	} else {
		if (((reader->used >> (8 * index)) & 0xff) < FIRST_USED)
			return 0;
		u64 entry = reader->from + sizeof(text[0]) * index;
		if (bpf_probe_read_user(&text[0], sizeof(text[0]), (void *)(entry + BUCKET_KEYS)) ||
		    bpf_probe_read_user(&text[1], sizeof(text[1]), (void *)(entry + BUCKET_VALUES)))
			return 1;
	}
	struct go_label *label = &record->labels[record->count & (MOST_LABELS - 1)];
	__builtin_memset(label, 0, sizeof(*label));
	label->key_length = text[0].length;
	label->value_length = text[1].length;
	if (read_label_text(label->key, LABEL_KEY, &text[0]) || read_label_text(label->value, LABEL_VALUE, &text[1]))
		return 1;
	for (u32 i = 0; i < sizeof(*label) / 8; i++)
		reader->hash = mixed(reader->hash, ((u64 *)label)[i]);
	record->count++;
	return 0;
}

static __always_inline bool user_pointer(u64 address, u64 *word)
{
	return !bpf_probe_read_user(word, sizeof(*word), (void *)address) && *word;
}

/* Address of the goroutine's labels; 0: none. */
static __always_inline u64 find_labels(struct go_program *program)
{
	u64 word = 0;
#if defined(__TARGET_ARCH_x86)
	struct task_struct *task = bpf_get_current_task_btf();

	if (user_pointer(task->thread.fsbase + (s64)program->goroutine, &word) &&
	    user_pointer(word + program->goroutine_thread, &word) &&
	    user_pointer(word + program->thread_goroutine, &word) && user_pointer(word + program->labels, &word))
		return word;
#endif
	return 0;
}

/* The number of the labels of the current thread's goroutine; 0: none. */
__noinline u32 number_of_labels(struct go_walk *go)
{
	if (!go)
		return 0;
	struct go_program *program = &go->program;
	struct label_reader reader = { .go = go, .hash = HASH_START, .is_list = program->form == LABEL_LIST };
	u64 labels = find_labels(program), count = 0;
	if (!labels)
		return 0;
	if (reader.is_list) {
		if (!user_pointer(labels, &reader.from) || !user_pointer(labels + 8, &count))
			return 0;
	} else {
		u64 map = 0, head[3];
		if (!user_pointer(labels, &map) || bpf_probe_read_user(head, sizeof(head), (void *)map) || !head[0])
			return 0;
		/* With more than one bucket, finding the labels would take a longer walk. */
		if (head[1] & 0xff00 || bpf_probe_read_user(&reader.used, sizeof(reader.used), (void *)head[2]))
			return 0;
		reader.from = head[2];
		count = MOST_LABELS;
	}
	reader.count = count < MOST_LABELS ? count : MOST_LABELS;
	go->record.count = 0;
	bpf_loop(MOST_LABELS, read_label, &reader, 0);
	if (!go->record.count)
		return 0;
	u32 number = reader.hash >> 32 | 1, slot = (number >> 1) & (LABEL_SLOTS - 1);
	u32 *told = bpf_map_lookup_elem(&told_labels, &slot);
	go->record.number = number;
	if (told && *told != number && !bpf_ringbuf_output(&label_records, &go->record, sizeof(go->record), 0))
		*told = number;
	return number;
}
