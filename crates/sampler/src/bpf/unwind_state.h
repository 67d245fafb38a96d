/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* The state of a walk up a user stack. */
#pragma once
#include "unwind_tables.h"
#include "go.h"
#include "ruby.h"

#define WALK_CACHE 128 /* mappings, for each CPU */
struct walk_mapping {
	u64 start;
	u64 end;
	u64 file_base; /* file offset of address 0 */
	u64 sequence; /* see walk_sequence */
	u32 tgid;
	u32 number; /* of the image; 0: no table yet */
	u32 version;
	u32 label; /* of the image in stacks */
	u32 runtimes; /* see `image_number` */
	u32 unused[3]; /* pads the entry to a cache line */
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WALK_CACHE);
	__type(key, u32);
	__type(value, struct walk_mapping);
} walk_cache SEC(".maps");

#define MAPLE_WORDS 32 /* of a node of the tree of mappings */
#define WALK_PIECE 48 /* words of a stack that are read at once */

/* The state of a walk for V8 (v8.h). */
struct v8_walk {
	u64 word; /* the function of a frame of V8's own code, which follows that frame */
	u64 process;
	u32 image; /* the last image looked up */
	u32 image_engine; /* its engine */
	u32 engine; /* the engine of the process */
	u32 frames;
	u8 is_asked;
	u8 unused[7];
};

/* The kind of a JVM's code that a frame is in (hotspot.h). */
enum java_place { JAVA_NOT, JAVA_INTERPRETED, JAVA_PIECE };
struct java_walk {
	u64 block; /* or the interpreted method */
	u64 method; /* or its constant part */
	u32 place;
	u32 unused;
};

/* A walk up a stack. */
struct walk {
	u64 pc;
	u64 sp;
	u64 fp;
	u64 base; /* rbx */
	u64 link;
	u64 hash;
	u64 sequence;
	u64 piece_start;
	u32 piece_bytes;
	u32 tgid;
	u32 depth;
	u32 version;
	u32 round;
	u8 fp_lost;
	u8 base_lost;
	u8 interrupted;
	u8 by_address; /* a frame is an address, which has a meaning only in its process */
	u8 ending; /* the native stack has ended; remaining frames of an interpreter follow */
	u8 in_kernel; /* the thread is in the kernel, and its registers are those at the entry */
	/* A frame record led here. On AArch64 the stack pointer is then unknown, but not below
	 * `sp`: see walk_by_pointer. */
	u8 by_record;
	u8 unused[1];
	u64 code_mask; /* bits of an address of code, see CODE_BITS */
	u64 piece[WALK_PIECE];
	u64 node[MAPLE_WORDS];
	u64 probe_return; /* return address of probed functions; 0: there is none */
	struct return_instance *probed; /* the calls of probed functions in progress, innermost first */
	u64 code_head[16]; /* of a Java code blob */
	struct walk_counts counts;
	struct walk_mapping here; /* the mapping of the last lookup */
	struct image_key image; /* of the file that is mapped there */
	struct python_walk python;
	struct ruby_walk ruby;
	struct v8_walk v8;
	struct java_walk java;
	struct go_walk go;
};
