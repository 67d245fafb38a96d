/* Functions in several executable mappings of one file: in the text, in a segment that is also written to, and in text one page of
 * which was made writable. `segments` calls each 200 times; `segments on` calls them until it is ended. */
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#define APART __attribute__((noinline, noipa))
#define PAGE __attribute__((aligned(4096), noinline, noipa))
static void spin(long turns)
{
	for (long i = 0; i < turns; i++)
		__asm__ volatile("" : "+r"(i));
}

/* Code and data in one segment, as nobody should: it must stay writable. */
__asm__(".section .written,\"awx\",@progbits\n"
	".globl written\nwritten: .long 1\n"
	".globl in_second\n.type in_second,@function\n"
	"in_second: .cfi_startproc\nxorl %eax, %eax\nmovq %rdi, %rcx\n.Lagain: subq $1, %rcx\njg .Lagain\nret\n.cfi_endproc\n"
	".size in_second, .-in_second\n.text\n");
extern int written;
void in_second(long turns);
APART void in_first(long turns) { spin(turns); }
PAGE void page_one(long turns) { spin(turns); }
PAGE void page_two(long turns) { spin(turns); }
PAGE void page_three(long turns) { spin(turns); }

int main(int count, char **arguments)
{
	(void)arguments;
	mprotect((void *)page_two, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
	for (long round = 0; round < 200 || count > 1; round++) {
		in_first(2000);
		in_second(2000);
		page_one(2000);
		page_two(2000);
		page_three(2000);
		written++;
		struct timespec shortly = {.tv_nsec = 100000};
		if (count > 1)
			nanosleep(&shortly, NULL);
	}
	printf("%d\n", written);
	return 0;
}
