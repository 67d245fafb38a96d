/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* The identity of a mapped file. */
#pragma once
#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

const volatile u32 backing_flag = 0; /* FMODE_BACKING of the running kernel; 0: none */
const volatile u32 page_shift = 12; /* of the running kernel: AArch64 has pages of 4, 16 or 64 KiB */

/* File offset of address 0 of a mapping. */
static __always_inline u64 file_base_of(u64 page_offset, u64 start)
{
	return (page_offset << (page_shift & 31)) - start;
}

/* As the process, /proc and perf see the file: a stacking file system shows its own inode. */
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

/* Shared memory, or memory that is mapped twice, has a file that was not opened by name. It is
 * no image: PHP puts generated code into the first kind, .NET into the second. User space knows
 * both by the same names (processes/maps.rs). */
static __always_inline bool is_shared_memory(struct file *file)
{
	u64 name[2] = {};

	if (BPF_CORE_READ(file, f_inode, i_nlink))
		return false;
	bpf_probe_read_kernel_str(name, sizeof(name), BPF_CORE_READ(file, f_path.dentry, d_name.name));
	if (name[0] == 0x6f72657a2f766564ull) /* dev/zero */
		return !(u8)name[1];
	return name[0] == 0x6f643a64666d656dull && name[1] == 0x0070616d656c6275ull; /* memfd:doublemap */
}

static __always_inline u64 mixed(u64 hash, u64 word)
{
	hash = (hash ^ word) * 0xff51afd7ed558ccdull;
	return hash ^ hash >> 32;
}
#define HASH_START 0x9e3779b97f4a7c15ull
