/* A program that removes itself, or with a second argument puts that file in its own place, and runs on:
 * vanishing PASSES [OTHER]. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((noinline)) static unsigned long vanished_work(unsigned long n)
{
	unsigned long x = n;

	for (unsigned long i = 0; i < n; i++) {
		__asm__ volatile("" : "+r"(x));
		x = (x ^ x << 13) * 0x9e3779b97f4a7c15ul;
	}
	return x;
}

int main(int argc, char **argv)
{
	volatile unsigned long sink;
	char path[4096];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (length < 0 || argc < 2)
		return 2;
	path[length] = 0;
	if (argc > 2 ? rename(argv[2], path) : unlink(path))
		return 2;
	sink = vanished_work(strtoul(argv[1], 0, 0));
	(void)sink;
	return 0;
}
