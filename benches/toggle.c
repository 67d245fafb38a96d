/* toggle PID WINDOW_MS: switches another process's sampling on one CPU on and off.
 *
 * Takes the process's perf events (pidfd_getfd), keeps those that count, one per CPU, in the order
 * in which they were opened, which is that of the CPUs. All but the first are switched off for
 * good; the first is on in the odd windows of CLOCK_MONOTONIC. Prints "ready" and goes on until
 * it is killed. The same for every profiler: none of them has to know. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 1024 };

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void sleep_until(uint64_t when)
{
	struct timespec t = { when / 1000000000, when % 1000000000 };
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, 0) == EINTR)
		;
}

static int number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* The first word: the count, in every format that is not a group's. */
static uint64_t count_of(int fd)
{
	uint64_t words[8] = { 0 };
	return read(fd, words, sizeof words) >= 8 ? words[0] : 0;
}

int main(int count, char **arguments)
{
	if (count != 3) {
		fprintf(stderr, "usage: toggle PID WINDOW_MS\n");
		return 2;
	}
	int pid = atoi(arguments[1]);
	uint64_t width = strtoull(arguments[2], 0, 10) * 1000000;
	char path[300], target[64];
	int numbers[MOST], found = 0;
	snprintf(path, sizeof path, "/proc/%d/fd", pid);
	DIR *directory = opendir(path);
	for (struct dirent *entry; directory && (entry = readdir(directory));) {
		snprintf(path, sizeof path, "/proc/%d/fd/%s", pid, entry->d_name);
		ssize_t length = readlink(path, target, sizeof target - 1);
		if (length > 0 && found < MOST) {
			target[length] = 0;
			if (!strcmp(target, "anon_inode:[perf_event]"))
				numbers[found++] = atoi(entry->d_name);
		}
	}
	qsort(numbers, found, sizeof *numbers, number);

	int pidfd = syscall(SYS_pidfd_open, pid, 0), fds[MOST], taken = 0;
	uint64_t ids[MOST], before[MOST];
	for (int i = 0; i < found; i++) {
		int fd = syscall(SYS_pidfd_getfd, pidfd, numbers[i], 0), known = 0;
		uint64_t id;
		if (fd < 0 || ioctl(fd, PERF_EVENT_IOC_ID, &id))
			continue;
		for (int j = 0; j < taken; j++)
			known |= ids[j] == id;
		if (known) {
			close(fd);
			continue;
		}
		ids[taken] = id;
		before[taken] = count_of(fd);
		fds[taken++] = fd;
	}
	sleep_until(now() + 50000000);
	int counting = 0;
	for (int i = 0; i < taken; i++)
		if (count_of(fds[i]) > before[i])
			fds[counting++] = fds[i];
	if (!counting || counting > sysconf(_SC_NPROCESSORS_ONLN)) {
		fprintf(stderr, "toggle: of %d perf events of process %d %d count\n", taken, pid, counting);
		return 1;
	}
	for (int i = 1; i < counting; i++)
		ioctl(fds[i], PERF_EVENT_IOC_DISABLE, 0);
	puts("ready");
	fflush(stdout);
	for (;;) {
		uint64_t window = now() / width;
		if (ioctl(fds[0], window & 1 ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0)) {
			perror("toggle");
			return 1;
		}
		sleep_until((window + 1) * width + 200000);
	}
}
