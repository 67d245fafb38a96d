/* The time is in leaf(), called by three levels of functions through qsort of the C library; built
 * without frame pointers. */
#include <stdlib.h>

__attribute__((noinline)) static int leaf(int a, int b)
{
	unsigned x = (unsigned)a * 2654435761u ^ (unsigned)b;
	for (int i = 0; i < 40; i++)
		x = x * 1664525u + 1013904223u;
	return a < b ? -1 : a > b + (int)(x & 0);
}
static int compare(const void *a, const void *b)
{
	int result = leaf(*(const int *)a, *(const int *)b);
	__asm__ volatile("");
	return result;
}
__attribute__((noinline)) static void middle(int *numbers, size_t n)
{
	qsort(numbers, n, sizeof(int), compare);
	__asm__ volatile("");
}
__attribute__((noinline)) static void outer(int *numbers, size_t n)
{
	for (size_t i = 0; i < n; i++)
		numbers[i] = (int)(i * 2654435761u);
	middle(numbers, n);
	__asm__ volatile("");
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 80;
	size_t n = 100000;
	int *numbers = malloc(n * sizeof(int));
	while (rounds--)
		outer(numbers, n);
	return numbers[0] == 1;
}
