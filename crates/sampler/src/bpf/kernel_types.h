/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* The few kernel types that the collector reads, reduced to the fields it uses. The loader
 * adapts every access to the running kernel's layout (BPF CO-RE), so no generated header is
 * needed. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef s32 __s32;
typedef s64 __s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_F_NO_PREALLOC = 1, BPF_F_MMAPABLE = 1 << 10 };
enum { BPF_F_USER_STACK = 1 << 8 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };
enum { BPF_RB_AVAIL_DATA = 0 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };
enum { PF_USER_WORKER = 0x4000, PF_KTHREAD = 0x200000 };
/* Numbers of system calls. */
#if defined(__TARGET_ARCH_x86)
enum { CALL_MMAP = 9, CALL_MREMAP = 25 };
#else
enum { CALL_MMAP = 222, CALL_MREMAP = 216 };
#endif
enum { MAP_ANONYMOUS = 0x20 };
enum { VM_EXEC = 4, VM_GROWSDOWN = 0x100 };
/* The loader puts in the running kernel's number. */
enum cgroup_subsys_id { memory_cgrp_id = 4 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct super_block {
	u32 s_dev;
};
struct inode {
	unsigned short i_mode;
	unsigned long i_ino;
	u32 i_nlink;
	u32 i_generation;
	struct super_block *i_sb;
};
struct qstr {
	const unsigned char *name;
};
struct dentry {
	struct qstr d_name;
	struct inode *d_inode;
};
struct path {
	struct dentry *dentry;
};
struct file {
	u32 f_mode;
	struct path f_path;
	struct inode *f_inode;
};
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};
struct files_struct {
	struct fdtable *fdt;
};
/* A file that a stacking file system (overlayfs) opened on its lower layer: the user's view of it
 * is in user_path. Linux 6.5 and later. */
struct backing_file {
	struct file file;
	struct path user_path;
};
typedef struct {
	int counter;
} atomic_t;
struct refcount_struct {
	atomic_t refs;
};
struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned long vm_flags;
	unsigned long vm_pgoff;
	struct mm_struct *vm_mm;
	struct file *vm_file;
	struct refcount_struct vm_refcnt; /* Linux 6.15 and later; 0: not in an address space */
	bool detached; /* Linux 6.4 to 6.14 */
};
/* Of x86-64. */
struct pt_regs {
	unsigned long r15;
	unsigned long r14;
	unsigned long r13;
	unsigned long r12;
	unsigned long bp;
	unsigned long bx;
	unsigned long r11;
	unsigned long r10;
	unsigned long r9;
	unsigned long r8;
	unsigned long ax;
	unsigned long cx;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
	unsigned long ip;
	unsigned long cs;
	unsigned long sp;
};
/* Of AArch64. */
struct user_pt_regs {
	u64 regs[31];
	u64 sp;
	u64 pc;
	u64 pstate;
};
struct pt_regs___arm64 {
	u64 regs[31];
	s32 syscallno;
};
struct linux_binprm {
	const char *filename;
};
struct seqcount {
	u32 sequence;
};
typedef struct seqcount seqcount_t;
/* The tree of mappings since Linux 6.1. */
struct maple_tree {
	void *ma_root;
};
typedef struct {
	void *vdso;
} mm_context_t;
struct xol_area {
	unsigned long vaddr;
};
struct uprobes_state {
	struct xol_area *xol_area;
};
struct return_instance {
	unsigned long func; /* start of the function */
	unsigned long stack; /* the stack pointer there */
	unsigned long orig_ret_vaddr;
	bool chained;
	struct return_instance *next;
};
struct uprobe_task {
	struct return_instance *return_instances;
	unsigned long vaddr; /* original address of the instruction that is executed in the area of probes */
	unsigned long xol_vaddr; /* address at which it is executed */
};
struct mm_struct {
	struct maple_tree mm_mt;
	mm_context_t context;
	struct uprobes_state uprobes_state;
	seqcount_t mm_lock_seq;
	unsigned long task_size;
};
/* Linux 6.4 to 6.12. */
struct mm_struct___number {
	int mm_lock_seq;
};
struct sigaction {
	void *sa_handler;
};
struct k_sigaction {
	struct sigaction sa;
};
struct sighand_struct {
	struct k_sigaction action[64];
};
struct thread_struct {
	unsigned long fsbase; /* of x86-64 */
	struct {
		unsigned long tp_value;
	} uw; /* of AArch64 */
};
/* A directory of a control group. */
struct kernfs_node {
	struct kernfs_node *parent; /* until Linux 6.14 */
	const char *name;
	u64 id;
};
struct kernfs_node___6_15 {
	struct kernfs_node *__parent;
};
struct cgroup {
	int level; /* 0: the root */
	struct kernfs_node *kn;
};
struct cgroup_subsys_state {
	struct cgroup *cgroup;
};
struct css_set {
	struct cgroup_subsys_state *subsys[16];
	struct cgroup *dfl_cgrp;
};
struct ns_common {
	u32 inum;
};
struct pid_namespace {
	struct ns_common ns;
};
struct upid {
	int nr;
	struct pid_namespace *ns;
};
struct pid {
	unsigned int level;
	struct upid numbers[1];
};
struct seccomp {
	int mode;
};
typedef struct {
	unsigned long sig[1];
} sigset_t;
struct sched_entity {
	u64 sum_exec_runtime;
};
struct sched_info {
	u64 run_delay;
};
struct task_struct {
	struct thread_struct thread;
	int pid;
	int tgid;
	u64 self_exec_id;
	u64 start_time; /* kept by a thread that executes another program in place of its leader */
	u64 start_boottime; /* from Linux 5.5 on */
	struct task_struct *group_leader;
	u32 flags;
	struct mm_struct *mm;
	struct files_struct *files;
	char comm[16];
	struct sighand_struct *sighand;
	sigset_t blocked;
	sigset_t real_blocked; /* while it waits for signals */
	unsigned long sas_ss_sp; /* its stack for signals */
	unsigned long sas_ss_size;
	struct completion *vfork_done;
	struct sched_entity se;
	struct sched_info sched_info;
	struct css_set *cgroups;
	struct pid *thread_pid;
	struct seccomp seccomp;
	struct uprobe_task *utask;
};

#pragma clang attribute pop
