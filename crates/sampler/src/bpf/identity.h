/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* The identity of a mapped file. */
#pragma once
#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

const volatile u32 backing_flag = 0; /* FMODE_BACKING of the running kernel; 0: has none */

/* As the process, /proc and perf see it: a file system that stacks others shows its own. */
static __always_inline void identify(struct file *file, u64 *inode_number, u32 *device, u32 *generation)
{
	struct inode *inode = 0;

	if (bpf_core_type_exists(struct backing_file) && (BPF_CORE_READ(file, f_mode) & backing_flag)) {
		struct backing_file *backing = (struct backing_file *)file;
		inode = BPF_CORE_READ(backing, user_path.dentry, d_inode);
	}
	if (!inode)
		inode = BPF_CORE_READ(file, f_inode);
	*inode_number = BPF_CORE_READ(inode, i_ino);
	*generation = BPF_CORE_READ(inode, i_generation);
	*device = BPF_CORE_READ(inode, i_sb, s_dev);
}

static __always_inline u64 mixed(u64 hash, u64 word)
{
	hash = (hash ^ word) * 0xff51afd7ed558ccdull;
	return hash ^ hash >> 32;
}
#define HASH_START 0x9e3779b97f4a7c15ull
