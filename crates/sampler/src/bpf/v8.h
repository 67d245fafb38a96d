/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* The functions of JavaScript on a user stack.
 *
 * User space finds V8 in an image (crate languages) and passes the layout of its objects. Both
 * code that V8 generated, in memory without a file, and V8's own code, in its image without
 * unwind tables, have frame pointers. Below the frame pointer of a JavaScript function,
 * interpreted or compiled, are its context and the function. The object shared by all closures
 * of the function has its name: its address is the number of the frame (see python.h), and user
 * space reads the name from the process the first time. */
#pragma once
#include "unwind_steps.h"

/* ---- shared with user space; mirrored in v8.rs ---- */
/* `V8Layout` of crate languages. */
struct v8_engine {
	u16 frame_context;
	u16 frame_function;
	u16 function_shared;
	u16 shared_name;
	u16 shared_script;
	u16 of_user_space[3];
	u16 function_type; /* 0: no V8 */
	u16 shared_type;
	u16 script_type;
	u16 also_of_user_space[3];
};
#define V8_HEAD 8 /* words of an object that are copied */
#define V8_FUNCTION_TYPES 32 /* functions, constructors, classes */
#define V8_MAP_TYPE 12 /* offset of the object type in a map */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MOST_INTERPRETERS);
	__type(key, u32);
	__type(value, struct v8_engine);
} v8_engines SEC(".maps");
/* The engine of an image, by the image's number; 0: none. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u32);
} image_v8_engines SEC(".maps");
/* The engine of a process, by its id: generated code does not tell it. */
struct v8_process {
	u64 process; /* a hash of the process's identity: ids are reused */
	u32 engine;
	u32 unused;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, struct v8_process);
} v8_processes SEC(".maps");

static __always_inline u64 hash_of_process(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return mixed(mixed(mixed(HASH_START, task->tgid), task->self_exec_id), task->group_leader->start_time);
}

/* A native frame of an image (0: not V8) was put on the stack. */
static __always_inline void meet_v8(struct v8_walk *v8, u32 image, u32 tgid)
{
	if (image == v8->image)
		return;
	v8->image = image;
	u32 *index = bpf_map_lookup_elem(&image_v8_engines, &image);
	v8->image_engine = index ? *index : 0;
	if (!v8->image_engine || v8->engine)
		return;
	v8->process = hash_of_process();
	v8->engine = v8->image_engine;
	struct v8_process *known = bpf_map_lookup_elem(&v8_processes, &tgid);
	if (known && known->process == v8->process && known->engine == v8->engine)
		return;
	struct v8_process now = { .process = v8->process, .engine = v8->engine };
	bpf_map_update_elem(&v8_processes, &tgid, &now, BPF_ANY);
}

/* Finds the engine of the process, if it was met before. */
static __always_inline bool find_v8(struct v8_walk *v8, u32 tgid)
{
	if (v8->engine || v8->is_asked)
		return v8->engine;
	v8->is_asked = 1;
	struct v8_process *known = bpf_map_lookup_elem(&v8_processes, &tgid);
	if (!known)
		return false;
	v8->process = hash_of_process();
	if (known->process == v8->process)
		v8->engine = known->engine;
	return v8->engine;
}

static __always_inline bool is_object(u64 word)
{
	return (word & 3) == 1;
}

static __always_inline u32 v8_type(u64 object_map)
{
	u16 type = 0;

	if (is_object(object_map))
		bpf_probe_read_user(&type, sizeof(type), (void *)(object_map - 1 + V8_MAP_TYPE));
	return type;
}

/* Sends a function to user space. */
static __always_inline void tell_function(struct walk *walk, u64 *slot, u64 number, struct v8_engine *of, u64 shared, u64 name, u64 script)
{
	u64 *words = (u64 *)walk->python.record.lines;

	words[0] = name;
	words[1] = script;
	__builtin_memcpy(words + 2, of, sizeof(*of));
	tell_address(&walk->python.record, slot, number, LANGUAGE_V8, shared, 2 * sizeof(u64) + sizeof(*of));
}

/* The function of the frame at the frame pointer, as a word of the stack; 0 if it is not
 * JavaScript. */
__noinline u64 function_of_frame(struct walk *walk)
{
	u64 context, function, head[V8_HEAD];
	u32 language = LANGUAGE_V8;

	if (!walk || walk->fp_lost || (walk->fp & 7) || walk->fp < walk->sp)
		return 0;
	if (!find_v8(&walk->v8, walk->tgid))
		return 0;
	u32 engine = walk->v8.engine;
	struct v8_engine *of = bpf_map_lookup_elem(&v8_engines, &engine);
	if (!of || !of->function_type)
		return 0;
	/* Frames without a function have the number of their kind there. */
	if (!stack_word(walk, walk->fp - of->frame_context, &context) || !is_object(context) ||
	    !stack_word(walk, walk->fp - of->frame_function, &function) || !is_object(function))
		return 0;
	struct python_counts *counts = bpf_map_lookup_elem(&python_counts, &language);
	if (!counts)
		return 0;
	if (bpf_probe_read_user(head, sizeof(head), (void *)(function - 1)) ||
	    v8_type(head[0]) - of->function_type >= V8_FUNCTION_TYPES)
		return 0;
	u64 shared = head[(of->function_shared / 8) & (V8_HEAD - 1)];
	if (!is_object(shared) || bpf_probe_read_user(head, sizeof(head), (void *)(shared - 1)) ||
	    v8_type(head[0]) != of->shared_type)
		return 0;
	u64 name = head[(of->shared_name / 8) & (V8_HEAD - 1)];
	u64 script = head[(of->shared_script / 8) & (V8_HEAD - 1)], map = 0;
	/* V8's own functions have no script; their code has symbols. */
	if (!is_object(name) || !is_object(script) || bpf_probe_read_user(&map, sizeof(map), (void *)(script - 1)) ||
	    v8_type(map) != of->script_type)
		return 0;
	if (!walk->v8.frames++)
		counts->stacks++;
	u64 hash = mixed(mixed(mixed(walk->v8.process, shared), name), script);
	u64 number = hash >> (INSTRUCTION_BITS + 1) | 1;
	u64 *slot = untold_slot(number);
	if (slot)
		tell_function(walk, slot, number, of, shared, name, script);
	return PYTHON_WORD | (number << INSTRUCTION_BITS);
}
