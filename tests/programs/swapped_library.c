/* A library for swapped.c: one procedure, NAME. */
__attribute__((noinline)) unsigned long NAME(unsigned long n)
{
	unsigned long x = n;

	for (unsigned long i = 0; i < n; i++) {
		__asm__ volatile("" : "+r"(x));
		x = (x ^ x << 13) * 0x9e3779b97f4a7c15ul;
	}
	return x;
}
