/* Runs a loop of generated code for as many milliseconds as the argument says, named "generated_loop" in a perf map. The second
 * argument says in what memory: "shared" with child processes, as PHP has it, or mapped "twice", as .NET has it; or that the code
 * is a "caller" of a compiled loop, and keeps a zero where the frame pointer would be. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static void compiled_loop(void)
{
	for (unsigned long n = 1000000; n; n--)
		__asm__ volatile("");
}

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
	/* push %rbp; xor %ebp, %ebp; call *%rdi; pop %rbp; ret */
	static const unsigned char caller[] = { 0x55, 0x31, 0xed, 0xff, 0xd7, 0x5d, 0xc3 };
	const char *kind = argc > 2 ? argv[2] : "own";
	int both = PROT_READ | PROT_WRITE, twice = -1;
	void *memory;
	if (!strcmp(kind, "twice")) {
		twice = memfd_create("doublemapper", 0);
		if (twice < 0 || ftruncate(twice, 4096))
			return 2;
		memory = mmap(0, 4096, both, MAP_SHARED, twice, 0);
	} else {
		int how = strcmp(kind, "shared") ? MAP_PRIVATE : MAP_SHARED;
		memory = mmap(0, 4096, both, how | MAP_ANONYMOUS, -1, 0);
	}
	bool is_caller = !strcmp(kind, "caller");
	memcpy(memory, is_caller ? caller : code, is_caller ? sizeof(caller) : sizeof(code));
	if (twice >= 0)
		memory = mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, twice, 0);
	else
		mprotect(memory, 4096, PROT_READ | PROT_EXEC);
	__builtin___clear_cache(memory, (char *)memory + 4096);
	char path[64];
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	FILE *map = fopen(path, "w");
	fprintf(map, "%lx %zx generated_loop\n", (unsigned long)memory, sizeof(code));
	fclose(map);
	clock_t end = clock() + (argc > 1 ? atol(argv[1]) : 500) * (CLOCKS_PER_SEC / 1000);
	while (clock() < end)
		((void (*)(unsigned long))memory)(is_caller ? (unsigned long)compiled_loop : 1000000);
	return 0;
}
