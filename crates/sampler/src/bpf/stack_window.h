/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* The window of a walk: the piece of the stack that was read last. It needs `struct walk`. A
 * test compiles this file, too. */
#pragma once
#define WALK_BEFORE 56 /* bytes of a piece in front of the requested word: saved registers */

/* Copies the piece of the stack around an address; nonzero if that cannot be read. */
__noinline int read_piece(struct walk *walk, u64 address)
{
	u64 from = address - WALK_BEFORE;
	u32 bytes = WALK_PIECE * 8;

	if (!walk)
		return 1;
	if (from < walk->sp || from > address)
		from = address < walk->sp ? address : walk->sp;
	if (address - from > WALK_BEFORE || ((address - from) & 7))
		from = address;
	if (bpf_probe_read_user(walk->piece, WALK_PIECE * 8, (void *)from)) {
		/* near the end of the stack, or not on it */
		from = address;
		bytes = 8;
		if (bpf_probe_read_user(walk->piece, 8, (void *)from))
			bytes = 0;
	}
	walk->piece_start = from;
	walk->piece_bytes = bytes;
	return !bytes;
}

/* Reads a word of the stack. The piece contains the word if its offset is below `piece_bytes`:
 * an address in front of the piece wraps to an offset larger than every piece, and an empty
 * piece contains nothing. */
static __always_inline bool stack_word(struct walk *walk, u64 address, u64 *word)
{
	u64 offset = address - walk->piece_start;

	if (offset >= walk->piece_bytes || (offset & 7)) {
		if (read_piece(walk, address))
			return false;
		offset = address - walk->piece_start;
	}
	u32 index = offset / 8;
	if (index >= WALK_PIECE)
		return false;
	*word = walk->piece[index];
	return true;
}
