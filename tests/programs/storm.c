/* A storm of processes: storm COUNT starts COUNT of them, eight at a time, each of which executes this program
 * again and ends. With a CPU's worth of work beside it that is most of a busy compile. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	unsigned long count = argc > 1 ? strtoul(argv[1], 0, 0) : 0, running = 0;

	while (count--) {
		pid_t child = fork();
		if (child < 0)
			return 2;
		if (!child) {
			execl("/proc/self/exe", "storm", "0", (char *)0);
			_exit(2);
		}
		if (++running == 8) {
			wait(0);
			running--;
		}
	}
	while (wait(0) > 0)
		;
	return 0;
}
