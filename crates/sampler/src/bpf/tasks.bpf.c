/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* How long the threads of the target ran, waited for a CPU and lived: the scheduler's own
 * accounts, read when it releases a thread. Nothing here runs at a switch or a sample. */
#include "kernel_types.h"
#include "task_ids.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* ---- what user space sets before the programs are loaded ---- */
const volatile u32 everything = 0; /* all threads, not those of `processes` */

/* ---- shared with user space; mirrored in task_accounts.rs ---- */
struct account {
	u64 cpu_ns; /* when counting began */
	u64 waiting_ns;
	u64 start_ns;
	u64 end_ns; /* 0: alive */
	u64 exit_cpu_ns; /* at the end, without the time since the last tick */
	u64 exit_waiting_ns;
	u32 tid;
	u32 unused;
};
struct totals {
	u64 threads; /* released ones */
	u64 cpu_ns;
	u64 waiting_ns;
	u64 life_ns;
	u64 lost; /* threads for which there was no room */
	u64 unknown; /* threads whose waiting time the kernel does not report */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, u32);
	__type(value, u32);
} processes SEC(".maps");
/* Threads that the kernel has not released, by their address: an id may have been reused by
 * then. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 262144);
	__type(key, u64);
	__type(value, struct account);
} threads SEC(".maps");
/* Threads that existed before, by id, until they end. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 262144);
	__type(key, u32);
	__type(value, struct account);
} earlier SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct totals);
} sums SEC(".maps");

static __always_inline struct totals *own_sums(void)
{
	u32 zero = 0;
	return bpf_map_lookup_elem(&sums, &zero);
}

static __always_inline void end(struct task_struct *task, struct account *account)
{
	account->end_ns = bpf_ktime_get_ns();
	account->exit_cpu_ns = task->se.sum_exec_runtime;
	if (bpf_core_field_exists(task->sched_info.run_delay))
		account->exit_waiting_ns = task->sched_info.run_delay;
}

static __always_inline void keep(struct task_struct *task, struct account *account)
{
	u64 key = (u64)task;
	struct totals *totals = own_sums();

	if (bpf_map_update_elem(&threads, &key, account, BPF_ANY) && totals)
		totals->lost++;
}

SEC("tp_btf/sched_process_fork")
int on_fork(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	u32 from = tgid_of(parent), to = tgid_of(child), one = 1;
	struct account account = { .start_ns = bpf_ktime_get_ns(), .tid = tid_of(child) };
	struct totals *totals;

	if (!account.tid)
		return 0; /* a task of another PID namespace */
	if (!everything) {
		if (!bpf_map_lookup_elem(&processes, &from)) {
			if (from != to)
				bpf_map_delete_elem(&processes, &to); /* entry of the id's last owner */
			return 0;
		}
		totals = own_sums();
		if (from != to && bpf_map_update_elem(&processes, &to, &one, BPF_ANY) && totals)
			totals->lost++;
	}
	keep(child, &account);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int on_exit(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u64 key = (u64)task;
	u32 tid = tid_of(task);
	struct account *account = bpf_map_lookup_elem(&threads, &key);

	if (account) {
		end(task, account);
		return 0;
	}
	account = bpf_map_lookup_elem(&earlier, &tid);
	if (account) {
		struct account copy = *account;
		end(task, &copy);
		keep(task, &copy);
		bpf_map_delete_elem(&earlier, &tid);
	}
	return 0;
}

/* Only here the accounts are complete: at the exit they lack the time since the last tick. */
SEC("tp_btf/sched_process_free")
int on_free(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u64 key = (u64)task;
	u32 tgid = tgid_of(task);
	struct account *account = bpf_map_lookup_elem(&threads, &key);
	struct totals *totals = own_sums();

	if (account && totals) {
		u64 end = account->end_ns ? account->end_ns : bpf_ktime_get_ns();
		totals->threads++;
		totals->cpu_ns += task->se.sum_exec_runtime - account->cpu_ns;
		totals->life_ns += end - account->start_ns;
		if (bpf_core_field_exists(task->sched_info.run_delay))
			totals->waiting_ns += task->sched_info.run_delay - account->waiting_ns;
		else
			totals->unknown++;
	}
	if (account)
		bpf_map_delete_elem(&threads, &key);
	if (task->pid == task->tgid)
		bpf_map_delete_elem(&processes, &tgid);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
