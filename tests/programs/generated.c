/* Runs a loop of generated code for as many milliseconds as the argument says, named
 * "generated_loop" in a perf map. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
#if defined(__x86_64__)
	/* mov rdi, rcx; dec rcx; jnz -5; ret */
	static const unsigned char code[] = { 0x48, 0x89, 0xf9, 0x48, 0xff, 0xc9, 0x75, 0xfb, 0xc3 };
#else
	/* subs x0, x0, #1; b.ne -4; ret */
	static const unsigned char code[] = { 0x00, 0x04, 0x00, 0xf1, 0xe1, 0xff, 0xff, 0x54,
					      0xc0, 0x03, 0x5f, 0xd6 };
#endif
	void *memory = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(memory, code, sizeof(code));
	mprotect(memory, 4096, PROT_READ | PROT_EXEC);
	__builtin___clear_cache(memory, (char *)memory + 4096);
	char path[64];
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	FILE *map = fopen(path, "w");
	fprintf(map, "%lx %zx generated_loop\n", (unsigned long)memory, sizeof(code));
	fclose(map);
	clock_t end = clock() + (argc > 1 ? atol(argv[1]) : 500) * (CLOCKS_PER_SEC / 1000);
	while (clock() < end)
		((void (*)(unsigned long))memory)(1000000);
	return 0;
}
