/* dispatch() calls through a pointer: often() three times of four, rarely() else. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t often(uint64_t x);
static uint64_t rarely(uint64_t x);

static uint64_t (*volatile table[4])(uint64_t) = {often, often, rarely, often};

__attribute__((noinline)) static uint64_t often(uint64_t x)
{
	return x * 6364136223846793005ull + 1442695040888963407ull;
}

__attribute__((noinline)) static uint64_t rarely(uint64_t x)
{
	return x ^ (x >> 7) ^ 12345;
}

__attribute__((noinline)) uint64_t dispatch(uint64_t x, uint64_t times)
{
	for (uint64_t i = 0; i < times; i++)
		x = table[i % 4](x);
	return x;
}

int main(int argc, char **argv)
{
	double millions = argc > 1 ? atof(argv[1]) : 100;
	uint64_t x = 88172645463325252ull;

	for (int i = 0; i < (int)(millions * 1000); i++)
		x = dispatch(x, 1000);
	printf("%d\n", x != 0);
	return 0;
}
