/* Computes between system calls that end at once; prints its number before, and a sum after; returns 7. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	unsigned long calls = argc > 1 ? strtoul(argv[1], 0, 0) : 200000, x = 1;
	printf("%d\n", getpid());
	fflush(stdout);
	for (unsigned long i = 0; i < calls; i++) {
		for (int j = 0; j < 200; j++)
			x = (x ^ x << 13) * 0x9e3779b97f4a7c15ul;
		x += lseek(1000, 0, SEEK_CUR) == -1;
	}
	printf("%lu\n", x);
	return 7;
}
