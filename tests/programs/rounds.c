/* rounds() multiplies 300 million times in each of four calls: a loop whose counter is in a register. */
__attribute__((noinline)) static unsigned long rounds(unsigned long n)
{
	unsigned long x = 7;
	for (unsigned long i = 0; i < n; i++) {
		__asm__ volatile("" : "+r"(x));
		x = (x ^ x >> 3) * 0x9e3779b97f4a7c15ul;
	}
	return x;
}

int main(void)
{
	volatile unsigned long sink = 0;
	for (int call = 0; call < 4; call++)
		sink += rounds(300000000);
	return 0;
}
