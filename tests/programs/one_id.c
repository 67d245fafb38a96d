/* Processes that have one id, one after the other: one_id COUNT PASSES. Each is waited for, and the next
 * begins at once, while the kernel may still have the last one's remains. Needs the right to choose ids. */
#define _GNU_SOURCE
#include <linux/sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) static unsigned long one_id_work(unsigned long n)
{
	unsigned long x = n;

	for (unsigned long i = 0; i < n; i++) {
		__asm__ volatile("" : "+r"(x));
		x = (x ^ x << 13) * 0x9e3779b97f4a7c15ul;
	}
	return x;
}

static pid_t start(pid_t id)
{
	struct clone_args args = { .exit_signal = SIGCHLD };

	if (id) {
		args.set_tid = (uintptr_t)&id;
		args.set_tid_size = 1;
	}
	return syscall(SYS_clone3, &args, sizeof(args));
}

int main(int argc, char **argv)
{
	unsigned long count = argc > 1 ? strtoul(argv[1], 0, 0) : 100;
	unsigned long passes = argc > 2 ? strtoul(argv[2], 0, 0) : 5000000;
	volatile unsigned long sink = 0;
	pid_t id = 0;

	while (count--) {
		pid_t child = start(id);
		if (child < 0) {
			perror("clone3");
			return 2;
		}
		if (!child) {
			sink += one_id_work(passes);
			_exit(0);
		}
		id = child;
		if (waitpid(child, 0, 0) != child)
			return 2;
	}
	return 0;
}
