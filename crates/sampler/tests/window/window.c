/* Requests words of an invented stack from the window of a walk, and compares each answer with
 * the stack. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t u64;
typedef uint32_t u32;
#undef __always_inline
#define __noinline __attribute__((noinline))
#define __always_inline inline __attribute__((always_inline))
#define WALK_PIECE 48
struct walk {
	u64 sp;
	u64 piece_start;
	u32 piece_bytes;
	u64 piece[WALK_PIECE];
};

#define STACK_BYTES 4096
static u64 stack_start;
static unsigned char stack[STACK_BYTES];

/* As the kernel's: all bytes, or none and zeros. */
static long bpf_probe_read_user(void *to, u32 bytes, const void *from)
{
	u64 offset = (u64)from - stack_start;

	if (offset < STACK_BYTES && STACK_BYTES - offset >= bytes) {
		memcpy(to, stack + offset, bytes);
		return 0;
	}
	memset(to, 0, bytes);
	return -14;
}
#include "../../src/bpf/stack_window.h"

static u64 state = 1;
static u64 draw(u64 below)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (state >> 33) % below;
}

/* Addresses near the last ones, in steps of a word and sometimes of a byte: the window's edges
 * are hit often. */
static u64 near(u64 address)
{
	return address + 8 * (draw(130) - 65) + (draw(50) ? 0 : draw(8));
}

int main(void)
{
	static const u64 starts[] = { 0x1000, 0x7ffc00000000, UINT64_MAX - 2 * STACK_BYTES + 1 };
	struct walk walk = { 0 };

	for (u32 i = 0; i < STACK_BYTES; i++)
		stack[i] = draw(256);
	for (u32 round = 0; round < 300000; round++) {
		/* A new walk: the window's former content stays. */
		stack_start = starts[draw(3)];
		walk.sp = stack_start + (draw(20) ? 8 * draw(STACK_BYTES / 8) : draw(STACK_BYTES));
		walk.piece_bytes = 0;
		if (!draw(3))
			walk.piece_start = walk.sp + 8 * (draw(4) - 1);
		u64 address = walk.sp;
		for (u32 step = draw(8) + 1; step; step--) {
			u64 word = 0, expected = 0;
			bool readable = !bpf_probe_read_user(&expected, 8, (void *)address);
			u64 start = walk.piece_start;
			u32 bytes = walk.piece_bytes;
			bool read = stack_word(&walk, address, &word);
			if (read != readable || (read && word != expected)) {
				printf("at %#llx, window %#llx + %u: %d %#llx, not %d %#llx\n", (long long)address, (long long)start,
				       bytes, read, (long long)word, readable, (long long)expected);
				return 1;
			}
			address = near(draw(4) ? address : walk.sp);
		}
	}
	return 0;
}
