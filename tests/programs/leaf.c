/* `outer` and `leaf`, which it calls and which has no frame, run loops of the same length: leaf SECONDS. */
#include <stdlib.h>
#include <time.h>

#ifdef ASSEMBLY
/* By hand, without unwind tables and without frame pointers. */
unsigned outer(unsigned x);
__asm__(".type outer, @function\n.type leaf, @function\nouter:\n\t"
	"push %rbp\n\tpush %r12\n\tsub $40, %rsp\n\tmov $1000, %ebp\n"
	"1:\tmov $200, %ecx\n"
	"2:\timul $22695477, %edi, %edi\n\tinc %edi\n\tdec %ecx\n\tjnz 2b\n\t"
	"call leaf\n\tdec %ebp\n\tjnz 1b\n\t"
	"mov %edi, %eax\n\tadd $40, %rsp\n\tpop %r12\n\tpop %rbp\n\tret\n.size outer, .-outer\n"
	"leaf:\tmov $200, %ecx\n"
	"3:\timul $1664525, %edi, %edi\n\tadd $1013904223, %edi\n\tdec %ecx\n\tjnz 3b\n\tret\n.size leaf, .-leaf\n");
#else
__attribute__((noinline)) static unsigned leaf(unsigned x)
{
	for (int i = 0; i < 200; i++)
		x = x * 1664525 + 1013904223;
	return x;
}

__attribute__((noinline)) static unsigned outer(unsigned x)
{
	for (int call = 0; call < 1000; call++) {
		for (int i = 0; i < 200; i++)
			x = x * 22695477 + 1;
		x = leaf(x);
	}
	return x;
}
#endif

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int count, char **words)
{
	double end = now() + atof(words[count - 1]);
	unsigned sum = 1;

	while (now() < end)
		sum = outer(sum);
	return sum == 1;
}
