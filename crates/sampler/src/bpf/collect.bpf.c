/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* The collector's kernel half: counts samples where they are taken (DCPI section 4.2), so that user
 * space handles aggregates.
 *
 * Every table that a drain empties exists twice; `control.active` says which copy is being
 * filled. User space flips this, waits until no program that saw the old value can still be
 * running, and drains the other copy. Samples that cannot be stored are counted: at every drain,
 * taken == stored + dropped holds exactly for each event. */
#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "targets.h"
#include "identity.h"
#include "unwind_walk.h"

#define MAX_EVENTS 32
#define NAME_LEN 16
#define PIECE 48 /* words of a stack that are read at once */

#if defined(__TARGET_ARCH_x86)
#define IP_REGISTER 16 /* struct pt_regs.ip, in words */
#elif defined(__TARGET_ARCH_arm64)
#define IP_REGISTER 32 /* struct user_pt_regs.pc */
#endif

/* ---- what user space sets before the programs are loaded ---- */
const volatile bool with_stacks = false;
const volatile bool per_process = false;
const volatile bool per_thread = false;
const volatile u16 sleep_event = 0; /* event numbers of the two off-CPU events */
const volatile u16 queue_event = 1;
const volatile u32 cpus = 1;
const volatile u32 place_slots = 1; /* of `places`, for a CPU and a buffer; a power of two */

/* ---- shared with user space; mirrored in layout.rs ---- */
enum place_kind { PLACE_FILE = 0, PLACE_KERNEL = 1, PLACE_ADDRESS = 2 };

/* Samples of a place on one CPU, in one cache line. */
struct place {
	u64 offset; /* file offset, or an address */
	u64 inode;
	u32 device;
	u32 generation; /* of an address: the control group */
	u32 tgid; /* 0 where processes are not kept apart and the image is known */
	u32 tid;
	/* For an address: the number of the address space, see `address_space`; otherwise the
	 * control group. A place fills a cache line and has no room for both. */
	u32 space;
	u8 event;
	u8 kind;
	u16 first_high; /* time of the first sample: monotonic clock, in 1024 ns */
	u32 first_low;
	u32 count; /* 0: a free slot */
	char name[NAME_LEN];
};
struct stack_key {
	u64 user; /* keys of `frames`; 0: none */
	u64 kernel;
	u32 tgid; /* 0 where processes are not kept apart and no frame is an address */
	u32 tid;
	u32 space;
	u32 cgroup;
	u16 event;
	u16 cpu;
	u32 labels; /* of the goroutine, see go.h */
	char name[NAME_LEN];
};
struct thread_key {
	u32 tgid;
	u32 tid;
	u32 cgroup;
	u16 event;
	u16 cpu;
	char name[NAME_LEN];
};
/* Samples of one thread, in an unbroken run on one CPU. */
struct run {
	u64 count;
	u64 first_ns;
	struct thread_key thread;
};
struct tally {
	u64 count;
	u64 first_ns; /* time of the first sample (monotonic clock) */
};
struct wait_tally {
	u64 count;
	u64 first_ns;
	u64 weight_ns;
};
struct accounting {
	u64 taken;
	u64 stored;
	u64 dropped;
	u64 inserted; /* new entries: how full the tables are */
	u64 spent_ns; /* with stacks: time in the program, mostly spent on walks */
};
struct off_key {
	struct stack_key thread;
	u64 waker_user;
	u64 waker_kernel;
	u32 waker_tgid;
	u32 waker_tid;
	u32 waker_space;
	u32 unused;
	char waker_name[NAME_LEN];
};
/* A thread that is off the CPU. */
struct waiting {
	struct off_key key;
	u64 since_ns;
	u64 woken_ns; /* 0: still asleep */
};

/* Messages of user space to the running programs. One struct with a stable layout: pinned
 * programs outlive the process that loaded them. */
struct control {
	/* How often the tables were flipped; even: buffer 0 is being filled. With STOPPED
	 * nothing is counted. A process that takes over from a dead one sets STOPPED, because
	 * links end some time after they are closed. */
	u32 active;
	u32 unused;
	/* The dead-man's switch (monotonic clock): living user space keeps moving it ahead, and
	 * nothing is sampled after it. 0: no limit. */
	u64 until_ns;
	u64 ceased_ns; /* time at which a program first found the limit passed; 0: not yet */
	u64 overdue; /* interrupts since then, which are not sampled */
};
volatile struct control control = {};
#define STOPPED 0x80000000u

#define FLAGGED_TABLE(name_, type_, flags_, entries_, key_, value_) \
	struct {                                                    \
		__uint(type, type_);                                \
		__uint(map_flags, flags_);                          \
		__uint(max_entries, entries_);                      \
		__type(key, key_);                                  \
		__type(value, value_);                              \
	} name_ SEC(".maps")
#define TABLE(name_, type_, entries_, key_, value_) FLAGGED_TABLE(name_, type_, 0, entries_, key_, value_)

/* Open hash tables: `place_slots` for each CPU of buffer 0, then those of buffer 1. A program
 * that fills the cache itself waits at each sample for every line touched here: this table takes
 * one line, the kernel's hash tables three or four. User space maps the table, which also aligns
 * it to a page, and so each slot to a line. */
FLAGGED_TABLE(places, BPF_MAP_TYPE_ARRAY, BPF_F_MMAPABLE, 1, u32, struct place);
/* One table for all CPUs, with the CPU in the key: only that CPU adds entries. Unlike in the
 * kernel's per-CPU tables, the tally lies beside its key and is allocated with it. User space
 * sizes the tables by the number of CPUs. */
TABLE(stacks0, BPF_MAP_TYPE_HASH, 1, struct stack_key, struct tally);
TABLE(stacks1, BPF_MAP_TYPE_HASH, 1, struct stack_key, struct tally);
TABLE(threads0, BPF_MAP_TYPE_HASH, 1, struct thread_key, struct tally);
TABLE(threads1, BPF_MAP_TYPE_HASH, 1, struct thread_key, struct tally);
TABLE(frames0, BPF_MAP_TYPE_HASH, 16384, u64, struct frames);
TABLE(frames1, BPF_MAP_TYPE_HASH, 16384, u64, struct frames);
TABLE(waits0, BPF_MAP_TYPE_HASH, 16384, struct off_key, struct wait_tally);
TABLE(waits1, BPF_MAP_TYPE_HASH, 16384, struct off_key, struct wait_tally);
TABLE(waiting, BPF_MAP_TYPE_HASH, 32768, u32, struct waiting);
/* per event, first those of buffer 0, then those of buffer 1 */
TABLE(accounts, BPF_MAP_TYPE_PERCPU_ARRAY, 2 * MAX_EVENTS, u32, struct accounting);
/* The thread that is being counted, by buffer and event like the accounts. It is added to
 * `threads` when another thread is sampled on this CPU. */
TABLE(runs, BPF_MAP_TYPE_PERCPU_ARRAY, 2 * MAX_EVENTS, u32, struct run);
TABLE(ticks, BPF_MAP_TYPE_PERCPU_ARRAY, MAX_EVENTS, u32, u64);

/* Programs that can interrupt each other have scratch space of their own. */
enum scratch_user { SCRATCH_SAMPLE, SCRATCH_TRACEPOINT, SCRATCH_SWITCH, SCRATCH_WAKE, SCRATCH_USERS };
struct scratch {
	struct frames user[STACK_PIECES];
	struct frames kernel;
	u64 piece[PIECE];
	struct walk walk;
	struct off_key off;
	struct waiting waiting;
};
TABLE(scratches, BPF_MAP_TYPE_PERCPU_ARRAY, SCRATCH_USERS, u32, struct scratch);

#include "cgroups.h"

/* ---- which image a user address is in ----
 * Looking up the mapping costs microseconds (it takes a lock that an interrupt can only release in
 * another interrupt), and programs stay in few mappings. The cache is valid until the address
 * space is locked for writing, which mm_lock_seq counts. A program that allocates locks it all the
 * time, but the mapping mostly stays the same. */
#define CACHE_ENTRIES 256 /* for each CPU */
struct cached_mapping { /* a line of the cache */
	u64 start;
	u64 inode; /* 0: no file */
	u64 file_base; /* file offset of address 0 */
	struct vm_area_struct *vma; /* 0: nothing is cached */
	struct file *file;
	u32 pages;
	u32 device;
	u32 generation;
	u32 tgid;
	u32 program;
	u32 sequence;
};
FLAGGED_TABLE(mapping_cache, BPF_MAP_TYPE_ARRAY, BPF_F_MMAPABLE, CACHE_ENTRIES, u32, struct cached_mapping);

static __always_inline u32 pages_of(u64 start, u64 end)
{
	return (end - start) >> 12;
}

static long see_mapping(struct task_struct *task, struct vm_area_struct *vma, struct cached_mapping *out)
{
	struct file *file = vma->vm_file;

	out->start = vma->vm_start;
	out->pages = pages_of(vma->vm_start, vma->vm_end);
	out->vma = vma;
	out->file = file;
	if (!file || is_shared_memory(file))
		return 0;
	identify(file, &out->inode, &out->device, &out->generation);
	out->file_base = file_base_of(vma->vm_pgoff, vma->vm_start);
	return 0;
}

/* Whether the cache can be trusted on this kernel, and the count of write locks. */
static __always_inline bool lock_sequence(struct mm_struct *mm, u32 *sequence)
{
	if (bpf_core_field_exists(mm->mm_lock_seq.sequence)) {
		*sequence = mm->mm_lock_seq.sequence;
		return !(*sequence & 1); /* odd: locked now */
	}
	return false;
}

/* A number of the program that a process runs. A process with a reused id may have the same
 * count of programs, inherited from its parent, so the start time is part of the number. */
static __always_inline u32 program_of(struct task_struct *task)
{
	return mixed(mixed(HASH_START, task->self_exec_id), task->group_leader->start_time) >> 32;
}

/* How often files were mapped, by process. Processes that share a counter only lose some sharing
 * of stacks. */
#define MAPPING_COUNTERS 4096
TABLE(file_mappings, BPF_MAP_TYPE_ARRAY, MAPPING_COUNTERS, u32, u32);

static __always_inline u32 *file_mappings_of(u32 tgid)
{
	u32 index = tgid & (MAPPING_COUNTERS - 1);
	return bpf_map_lookup_elem(&file_mappings, &index);
}

/* The number of an address space, from which user space learns what an address means: it changes
 * with the program and with each mapped file, which may replace another one at its address. */
static __always_inline u32 address_space(struct task_struct *task)
{
	u32 *mapped = file_mappings_of(task->tgid);
	return mixed(program_of(task), mapped ? *mapped : 0) >> 32;
}

/* Counts mapped files, at the point where the kernel searches for room for one. A library's room
 * is searched as a whole, of which code is a part, and mappings at fixed addresses mostly lie in
 * such room. (Attaching to a kernel function would tell the mapping exactly, but is not allowed
 * everywhere.) */
SEC("tp_btf/vm_unmapped_area")
int on_map(u64 *ctx)
{
	u32 *mapped;

	/* Memory without a file is mapped and moved all the time, and each count would make new
	 * stacks. */
#if defined(__TARGET_ARCH_x86)
	struct pt_regs *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	u64 call = regs->orig_ax, flags = regs->r10;
#else
	struct pt_regs___arm64 *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	u64 call = (u32)BPF_CORE_READ(regs, syscallno), flags = BPF_CORE_READ(regs, regs[3]);
#endif
	if (call == CALL_MREMAP || (call == CALL_MMAP && (flags & MAP_ANONYMOUS)))
		return 0;
	mapped = file_mappings_of(bpf_get_current_pid_tgid() >> 32);
	if (mapped)
		__sync_fetch_and_add(mapped, 1);
	return 0;
}

static __always_inline bool is_of(const struct cached_mapping *cached, struct task_struct *task)
{
	return cached->vma && cached->tgid == (u32)task->tgid && cached->program == program_of(task);
}

static __always_inline bool covers(const struct cached_mapping *cached, u64 address)
{
	return address - cached->start < (u64)cached->pages << 12;
}

/* Whether the mapping is unchanged although the address space has been locked since. The memory
 * of the vma may be freed or another mapping by now, so its fields decide. The memory of the
 * file and of its inode may have been reused as well: a library mapped in place of another one
 * often gets all three. So the inode's number and generation are compared. */
static __always_inline bool same_mapping(struct mm_struct *mm, struct cached_mapping *cached, u32 sequence)
{
	struct vm_area_struct *vma = cached->vma;
	u32 after;

	if (bpf_core_field_exists(vma->vm_refcnt)) {
		if (!BPF_CORE_READ(vma, vm_refcnt.refs.counter))
			return false; /* removed from its address space */
	} else if (bpf_core_field_exists(vma->detached)) {
		if (BPF_CORE_READ(vma, detached))
			return false;
	} else {
		return false;
	}
	u64 start = BPF_CORE_READ(vma, vm_start);
	if (BPF_CORE_READ(vma, vm_mm) != mm || start != cached->start ||
	    pages_of(start, BPF_CORE_READ(vma, vm_end)) != cached->pages || BPF_CORE_READ(vma, vm_file) != cached->file)
		return false;
	if (cached->inode) {
		struct cached_mapping now = {};
		if (file_base_of(BPF_CORE_READ(vma, vm_pgoff), start) != cached->file_base)
			return false;
		identify(cached->file, &now.inode, &now.device, &now.generation);
		if (now.inode != cached->inode || now.generation != cached->generation || now.device != cached->device)
			return false;
	}
	/* All fields were read between two changes. */
	if (!lock_sequence(mm, &after) || after != sequence)
		return false;
	cached->sequence = sequence;
	return true;
}

static __always_inline struct cached_mapping *cache_slot(u32 cpu, u32 tgid, u64 part)
{
	u32 slot = cpu * CACHE_ENTRIES + ((tgid * 0x9e3779b1u ^ (u32)part * 0x85ebca6bu) >> 24);
	return bpf_map_lookup_elem(&mapping_cache, &slot);
}

static __always_inline void place_user_address(struct task_struct *task, u32 cpu, u64 address, struct place *place)
{
	struct mm_struct *mm = task->mm;
	u32 tgid = task->tgid, sequence = 0;
	bool cacheable = mm && lock_sequence(mm, &sequence);
	/* The code of a large program has one entry for 64 MB; neighbours, such as libraries,
	 * one for each MB. */
	struct cached_mapping *cached = cache_slot(cpu, tgid, address >> 26);
	struct cached_mapping *beside = cache_slot(cpu, tgid, address >> 20 | 1u << 31);

	place->kind = PLACE_ADDRESS;
	place->offset = address;
	if (!cached || !beside)
		return;
	if (is_of(cached, task) && !covers(cached, address))
		cached = beside;
	if (!(cacheable && is_of(cached, task) && covers(cached, address) &&
	      (cached->sequence == sequence || same_mapping(mm, cached, sequence)))) {
		struct cached_mapping found = {};
		if (bpf_find_vma(task, address, see_mapping, &found, 0))
			return; /* locked, or no longer mapped: user space resolves the address */
		found.tgid = tgid;
		found.program = program_of(task);
		found.sequence = sequence;
		if (!cacheable)
			found.vma = 0;
		*cached = found;
	}
	if (!cached->inode)
		return;
	place->kind = PLACE_FILE;
	place->inode = cached->inode;
	place->device = cached->device;
	place->generation = cached->generation;
	place->offset = address + cached->file_base;
}

/* ---- counting ---- */
static __always_inline struct accounting *account(u32 buffer, u32 event)
{
	u32 index = buffer * MAX_EVENTS + event;
	return bpf_map_lookup_elem(&accounts, &index);
}

/* Adds to the tally of `key`. The key contains the CPU, so no other CPU adds to it. Returns
 * false if there is no room. */
static __noinline bool count_in(void *table, void *key, struct accounting *account, u64 count, u64 first)
{
	struct tally *tally = bpf_map_lookup_elem(table, key);
	if (tally) {
		tally->count += count;
		return true;
	}
	struct tally fresh = { .count = count, .first_ns = first };
	if (bpf_map_update_elem(table, key, &fresh, BPF_ANY))
		return false;
	account->inserted++;
	return true;
}

/* Counts a sample of a place; false if there is no room. */
#define PROBES 32
#define NOT_FIRST 0x0000ffffffffffffull /* mask of the word with `first_high`, without it */
static __always_inline bool count_place(u32 buffer, u32 cpu, struct place *place, struct accounting *account, u64 now)
{
	u64 *key = (u64 *)place, hash = HASH_START;

	hash = mixed(mixed(mixed(mixed(mixed(mixed(mixed(hash, key[0]), key[1]), key[2]), key[3]), key[4]), key[6]), key[7]);
	for (u32 i = 0; i < PROBES; i++) {
		hash += i; /* growing steps, so that full stretches do not merge */
		u32 index = (buffer * cpus + cpu) * place_slots + ((u32)hash & (place_slots - 1));
		struct place *slot = bpf_map_lookup_elem(&places, &index);
		if (!slot)
			return false;
		if (!slot->count) {
			now = (now + 1023) >> 10; /* rounded up */
			place->first_low = now;
			place->first_high = now >> 32;
			place->count = 1;
			*slot = *place;
			account->inserted++;
			return true;
		}
		u64 *there = (u64 *)slot;
		u64 difference = (there[0] ^ key[0]) | (there[1] ^ key[1]) | (there[2] ^ key[2]) | (there[3] ^ key[3]) |
				 ((there[4] ^ key[4]) & NOT_FIRST) | (there[6] ^ key[6]) | (there[7] ^ key[7]);
		if (!difference) {
			if (slot->count + 1 == 0)
				return false;
			slot->count++;
			return true;
		}
	}
	return false;
}

static __always_inline bool differs(struct thread_key *a, struct thread_key *b)
{
	u32 *x = (u32 *)a, *y = (u32 *)b, difference = 0;
	for (u32 i = 0; i < sizeof(*a) / 4; i++)
		difference |= x[i] ^ y[i];
	return difference;
}

/* Counts a sample of a thread. Returns the run, to be reverted if the sample cannot be stored,
 * or null if there is no room for the thread that ran before. */
static __always_inline struct run *count_thread(u32 buffer, struct thread_key *thread, struct accounting *account,
						u64 now)
{
	u32 index = buffer * MAX_EVENTS + (thread->event & (MAX_EVENTS - 1));
	struct run *run = bpf_map_lookup_elem(&runs, &index);
	if (!run)
		return 0;
	if (run->count && differs(&run->thread, thread)) {
		if (!count_in(buffer ? (void *)&threads1 : (void *)&threads0, &run->thread, account, run->count,
			      run->first_ns))
			return 0;
		run->count = 0;
	}
	if (!run->count) {
		name_cgroup(thread->cgroup);
		run->thread = *thread;
		run->first_ns = now;
	}
	run->count++;
	return run;
}

/* ---- stacks ---- */
/* All of these return the number under which the frames are kept, a hash; 0 if there are none. */
__noinline u64 number_of_frames(struct frames *frames)
{
	u64 hash = HASH_START;

	if (!frames || !frames->count)
		return 0;
	u64 count = frames->count;
	for (u32 i = 0; i < MAX_FRAMES; i++) {
		if (i >= count)
			break;
		hash = mixed(hash, frames->address[i]);
	}
	return hash | 1;
}

static __always_inline u64 helper_frames(void *ctx, struct frames *frames, u64 flags)
{
	long bytes = bpf_get_stack(ctx, frames->address, sizeof(frames->address), flags);

	frames->count = bytes > 0 ? (u64)bytes / 8 : 0;
	return number_of_frames(frames);
}

/* Walks by unwind tables, if the kernel supports that (user space has checked). */
static __always_inline u64 table_frames(struct task_struct *task, struct frames *frames, struct walk *walk)
{
	u32 locks = 0;

	if (!task->mm || (task->flags & (PF_KTHREAD | PF_USER_WORKER)))
		return 0;
	/* Cached mappings hold until the address space is locked; where locks are not counted,
	 * for one stack. */
	u64 sequence = lock_sequence(task->mm, &locks) ? locks : bpf_ktime_get_ns();
	u32 count = walk_user_stack(walk, task, (struct stack_words *)frames, mixed(sequence, program_of(task)));

	for (u32 piece = 0; piece < STACK_PIECES && count > piece * MAX_FRAMES; piece++)
		frames[piece].count = count - piece * MAX_FRAMES;
	return count ? walk->hash | 1 : 0;
}

#if defined(__TARGET_ARCH_x86)
#define LOWEST_ADDRESS 0x10000 /* the default of vm.mmap_min_addr: no code or stack lies below it */

/* Follows frame pointers like the kernel's helper, in less than half its time: it bypasses
 * perf's buffers, reads the stack in pieces instead of frame by frame, and does not try an
 * impossible frame pointer (which costs an exception). */
static __always_inline u64 user_frames(void *ctx, struct task_struct *task, struct frames *frames, u64 *piece)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	u64 frame = regs->bp, address = regs->ip, hash = HASH_START;
	u64 start = 0, readable = 0; /* the piece that was read */
	u32 count = 0;

	if (!task->mm || (task->flags & (PF_KTHREAD | PF_USER_WORKER)))
		return 0;
	if ((u16)regs->cs != USER_CODE_64)
		return helper_frames(ctx, frames, BPF_F_USER_STACK);
	for (u32 i = 0; i < MAX_FRAMES; i++) {
		frames->address[i] = address;
		hash = mixed(hash, address);
		count = i + 1;
		if ((frame & 7) || frame < LOWEST_ADDRESS)
			break;
		u64 word = (frame - start) / 8;
		if (word + 2 > readable) {
			readable = PIECE;
			if (bpf_probe_read_user(piece, PIECE * 8, (void *)frame)) {
				readable = 2; /* near the end of the stack */
				if (bpf_probe_read_user(piece, 16, (void *)frame))
					break;
			}
			start = frame;
			word = 0;
		}
		if (word > PIECE - 2)
			break; /* never happens; for the verifier */
		u64 caller = piece[word];
		address = piece[word + 1]; /* return address into the caller */
		if (address < LOWEST_ADDRESS || caller == frame)
			break;
		frame = caller;
	}
	frames->count = count;
	return hash | 1;
}
#else
static __always_inline u64 user_frames(void *ctx, struct task_struct *task, struct frames *frames, u64 *piece)
{
	return helper_frames(ctx, frames, BPF_F_USER_STACK);
}
#endif

static __always_inline void read_stacks(void *ctx, struct scratch *scratch, bool in_kernel, u64 *user, u64 *kernel)
{
	struct task_struct *task = bpf_get_current_task_btf();

	*kernel = in_kernel ? helper_frames(ctx, &scratch->kernel, 0) : 0;
	scratch->walk.by_address = !by_tables;
	scratch->walk.in_kernel = in_kernel;
	if (!tgid_of(task))
		*user = 0; /* user space cannot find the program whose threads wake these */
	else if (by_tables)
		*user = table_frames(task, scratch->user, &scratch->walk);
	else
		*user = user_frames(ctx, task, scratch->user, scratch->piece);
}

static __always_inline bool keep_frames(void *table, u64 hash, struct frames *frames, struct accounting *account)
{
	if (!hash || bpf_map_lookup_elem(table, &hash))
		return true;
	account->inserted++;
	return !bpf_map_update_elem(table, &hash, frames, BPF_ANY);
}

/* The first entry is stored last: if it exists, so do the others. */
static __always_inline bool keep_user_frames(void *table, u64 hash, struct frames *pieces, struct accounting *account)
{
	if (!hash || bpf_map_lookup_elem(table, &hash))
		return true;
	for (u32 piece = STACK_PIECES - 1; piece; piece--)
		if (pieces->count > piece * MAX_FRAMES && !keep_frames(table, hash + 2 * piece, &pieces[piece], account))
			return false;
	return keep_frames(table, hash, pieces, account);
}

static __always_inline bool keep_stacks(u32 buffer, struct scratch *scratch, struct accounting *account, u64 user,
					u64 kernel)
{
	void *table = buffer ? (void *)&frames1 : (void *)&frames0;
	return keep_frames(table, kernel, &scratch->kernel, account) &&
	       keep_user_frames(table, user, scratch->user, account);
}

static __always_inline bool count_stack(void *ctx, u32 buffer, struct stack_key *key, struct scratch *scratch,
					struct accounting *account, bool in_kernel, u64 now)
{
	void *table = buffer ? (void *)&stacks1 : (void *)&stacks0;

	read_stacks(ctx, scratch, in_kernel, &key->user, &key->kernel);
	if (!(key->user | key->kernel))
		return false;
	/* Short processes with the same work share one stack. */
	if (!per_process && !scratch->walk.by_address)
		key->tgid = key->space = 0;
	if (by_tables && key->user && scratch->walk.go.program.form)
		key->labels = number_of_labels(&scratch->walk.go);
	struct tally *tally = bpf_map_lookup_elem(table, key);
	if (tally) { /* its frames are stored, too */
		tally->count++;
		return true;
	}
	return keep_stacks(buffer, scratch, account, key->user, key->kernel) && count_in(table, key, account, 1, now);
}

/* Whether user space has been silent for too long. */
static __always_inline bool is_overdue(u64 now)
{
	u64 until = control.until_ns;

	if (!until || (s64)(now - until) < 0)
		return false;
	if (!control.ceased_ns)
		control.ceased_ns = now;
	__sync_fetch_and_add(&control.overdue, 1);
	return true;
}

/* Counts a sample of a place. A separate function, because its variables would otherwise lie on
 * the stack below walks: before Linux 6.13 all functions in a call chain share 512 bytes, each
 * rounded up to 32. */
static __noinline bool take_place(struct thread_key *thread, u64 ip, struct accounting *acc, u64 now, u32 buffer)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct place place = { .event = thread->event };

	__builtin_memcpy(place.name, thread->name, NAME_LEN);
	if (ip >> 63) {
		place.kind = PLACE_KERNEL;
		place.offset = ip;
	} else {
		place_user_address(task, thread->cpu, ip, &place);
	}
	if (per_process || place.kind == PLACE_ADDRESS)
		place.tgid = thread->tgid;
	if (place.kind == PLACE_ADDRESS) {
		place.space = address_space(task);
		place.generation = thread->cgroup;
	} else {
		place.space = thread->cgroup;
	}
	if (per_thread)
		place.tid = thread->tid;
	return count_place(buffer & 1, thread->cpu, &place, acc, now);
}

/* Counts a sample. Returns 1 if no samples are wanted any more: the kernel then decrements the
 * event's limit (PERF_EVENT_IOC_REFRESH), and at zero disables the event, and so its interrupts. */
static __always_inline int take(void *ctx, u32 event, u64 ip, u32 scratch_user)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 tgid = tgid_of(task);
	u32 flips = control.active, buffer = flips & 1;
	u64 now = bpf_ktime_get_ns();

	event &= MAX_EVENTS - 1;
	if (is_overdue(now))
		return 1;
	if ((flips & STOPPED) || !is_target(tgid))
		return 0;
	struct accounting *acc = account(buffer, event);
	if (!acc)
		return 0;
	acc->taken++;

	u16 cpu = bpf_get_smp_processor_id();
	struct thread_key thread = { .tgid = tgid, .tid = tid_of(task), .cgroup = cgroup_of(task), .event = event, .cpu = cpu };
	bpf_get_current_comm(thread.name, sizeof(thread.name));
	struct run *run = count_thread(buffer, &thread, acc, now);
	bool kept = false;

	if (!run) {
		acc->dropped++;
		return 0;
	}
	if (with_stacks) {
		struct scratch *scratch = bpf_map_lookup_elem(&scratches, &scratch_user);
		if (scratch) {
			struct stack_key *key = &scratch->off.thread;
			__builtin_memset(key, 0, sizeof(*key));
			key->tgid = tgid;
			key->space = address_space(task);
			key->cgroup = thread.cgroup;
			key->event = event;
			key->cpu = cpu;
			if (per_thread)
				key->tid = thread.tid;
			__builtin_memcpy(key->name, thread.name, NAME_LEN);
			kept = count_stack(ctx, buffer, key, scratch, acc, ip >> 63, now);
		}
	} else {
		kept = take_place(&thread, ip, acc, now, buffer);
	}
	/* Both or neither: each sample has a place and a thread. */
	if (kept) {
		acc->stored++;
	} else {
		run->count--;
		acc->dropped++;
	}
	if (with_stacks)
		acc->spent_ns += bpf_ktime_get_ns() - now;
	return 0;
}

SEC("perf_event")
int on_sample(void *ctx)
{
	return take(ctx, bpf_get_attach_cookie(ctx), ((u64 *)ctx)[IP_REGISTER], SCRATCH_SAMPLE);
}

/* The kernel runs this at every occurrence, whatever the event's period, so this program counts
 * up to the period. The attach cookie is the event's number, and above 8 bits its period. */
SEC("tp")
int on_tracepoint(void *ctx)
{
	u64 cookie = bpf_get_attach_cookie(ctx), period = cookie >> 8, ip = 0;
	u32 event = cookie & (MAX_EVENTS - 1);

	if (period > 1) {
		if (!is_target(tgid_of(bpf_get_current_task_btf())))
			return 0;
		u64 *tick = bpf_map_lookup_elem(&ticks, &event);
		if (!tick || ++*tick < period)
			return 0;
		*tick = 0;
	}
	bpf_get_stack(ctx, &ip, sizeof(ip), 0);
	take(ctx, event, ip, SCRATCH_TRACEPOINT);
	return 0;
}

/* Empty: measures the cost of the interrupt itself on this machine. */
SEC("perf_event")
int on_nothing(void *ctx)
{
	return 0;
}

/* ---- time off the CPU ---- */
static __always_inline void count_wait(u32 buffer, struct off_key *key, u16 event, u64 from, u64 to)
{
	struct accounting *acc = account(buffer, event & (MAX_EVENTS - 1));
	struct wait_tally one = { .count = 1, .first_ns = from, .weight_ns = to > from ? to - from : 0 };
	void *table = buffer ? (void *)&waits1 : (void *)&waits0;

	if (!acc)
		return;
	acc->taken++;
	key->thread.event = event;
	struct wait_tally *tally = bpf_map_lookup_elem(table, key);
	if (tally) {
		__sync_fetch_and_add(&tally->count, 1);
		__sync_fetch_and_add(&tally->weight_ns, one.weight_ns);
		acc->stored++;
	} else if (!bpf_map_update_elem(table, key, &one, BPF_NOEXIST)) {
		acc->inserted++;
		acc->stored++;
	} else {
		acc->dropped++;
	}
}

/* Runs in the thread itself, without its stack; the idle thread counts as no waker. */
static __always_inline void set_waker(struct off_key *key, struct task_struct *task)
{
	key->waker_user = key->waker_kernel = 0;
	key->waker_tgid = tgid_of(task);
	key->waker_tid = tid_of(task);
	key->waker_space = 0;
	if (task->pid)
		bpf_get_current_comm(key->waker_name, NAME_LEN);
	else
		__builtin_memset(key->waker_name, 0, NAME_LEN);
}

SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx)
{
	bool preempted = ctx[0];
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u32 state = ctx[3], scratch_user = SCRATCH_SWITCH, buffer = control.active & 1;
	u64 now = bpf_ktime_get_ns();
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &scratch_user);

	if (!scratch)
		return 0;
	u32 tid = next->pid;
	struct waiting *waited = tid ? bpf_map_lookup_elem(&waiting, &tid) : 0;
	if (waited) {
		u64 runnable = waited->woken_ns ? waited->woken_ns : now;
		__builtin_memcpy(&scratch->off, &waited->key, sizeof(scratch->off));
		if (waited->since_ns < runnable)
			count_wait(buffer, &scratch->off, sleep_event, waited->since_ns, runnable);
		if (runnable < now) {
			/* The last thing that was waited for is the thread that had this CPU
			 * until now. */
			set_waker(&scratch->off, prev);
			count_wait(buffer, &scratch->off, queue_event, runnable, now);
		}
		bpf_map_delete_elem(&waiting, &tid);
	}
	/* EXIT_DEAD, EXIT_ZOMBIE, TASK_DEAD: the thread ends. */
	u32 tgid = tgid_of(prev);
	if (!is_target(tgid) || (!preempted && (state & 0xb0)))
		return 0;
	struct waiting *out = &scratch->waiting;
	__builtin_memset(out, 0, sizeof(*out));
	out->since_ns = now;
	out->woken_ns = preempted || !state ? now : 0;
	out->key.thread.tgid = tgid;
	out->key.thread.tid = tid_of(prev);
	out->key.thread.space = address_space(prev);
	out->key.thread.cgroup = cgroup_of(prev);
	name_cgroup(out->key.thread.cgroup);
	bpf_get_current_comm(out->key.thread.name, NAME_LEN);
	struct accounting *acc = account(buffer, sleep_event & (MAX_EVENTS - 1));
	if (!acc)
		return 0;
	tid = prev->pid;
	read_stacks(ctx, scratch, true, &out->key.thread.user, &out->key.thread.kernel);
	if (!keep_stacks(buffer, scratch, acc, out->key.thread.user, out->key.thread.kernel) ||
	    bpf_map_update_elem(&waiting, &tid, out, BPF_ANY)) {
		acc->taken++;
		acc->dropped++;
	}
	return 0;
}

SEC("tp_btf/sched_waking")
int on_waking(u64 *ctx)
{
	struct task_struct *woken = (void *)ctx[0];
	u32 tid = woken->pid, scratch_user = SCRATCH_WAKE, buffer = control.active & 1;
	struct waiting *entry = bpf_map_lookup_elem(&waiting, &tid);
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &scratch_user);

	if (!entry || entry->woken_ns || !scratch)
		return 0;
	/* In an interrupt, "current" is an unrelated thread. User space recognises interrupts by
	 * the kernel stack; here the symbols of interrupt entries are unknown. */
	u64 user = 0, kernel = 0;
	struct task_struct *task = bpf_get_current_task_btf();
	struct accounting *acc = account(buffer, sleep_event & (MAX_EVENTS - 1));
	read_stacks(ctx, scratch, true, &user, &kernel);
	if (!acc || !keep_stacks(buffer, scratch, acc, user, kernel))
		user = kernel = 0; /* no room: the waker is known, its stack is not */
	entry->key.waker_user = user;
	entry->key.waker_kernel = kernel;
	entry->key.waker_tgid = tgid_of(task);
	entry->key.waker_tid = tid_of(task);
	entry->key.waker_space = address_space(task);
	bpf_get_current_comm(entry->key.waker_name, NAME_LEN);
	entry->woken_ns = bpf_ktime_get_ns();
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
