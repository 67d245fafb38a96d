/* empty HZ: samples every CPU and runs a BPF program that does nothing: what the interrupt costs
 * alone, which is nobody's to change. Prints "ready" and goes on until it is killed. */
#define _GNU_SOURCE
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int count, char **arguments)
{
	if (count != 2) {
		fprintf(stderr, "usage: empty HZ\n");
		return 2;
	}
	struct bpf_insn program[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr load;
	memset(&load, 0, sizeof load);
	load.prog_type = BPF_PROG_TYPE_PERF_EVENT;
	load.insns = (uintptr_t)program;
	load.insn_cnt = 2;
	load.license = (uintptr_t)"GPL";
	memcpy(load.prog_name, "empty", sizeof "empty");
	int bpf = syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof load);
	if (bpf < 0) {
		perror("empty: BPF_PROG_LOAD");
		return 1;
	}
	struct perf_event_attr event = {
		.size = sizeof event,
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = 1000000000ull / strtoull(arguments[1], 0, 10),
		.exclude_idle = 1,
	};
	for (int cpu = 0; cpu < sysconf(_SC_NPROCESSORS_ONLN); cpu++) {
		int fd = syscall(SYS_perf_event_open, &event, -1, cpu, -1, 0);
		if (fd < 0 || ioctl(fd, PERF_EVENT_IOC_SET_BPF, bpf) || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0)) {
			perror("empty: perf event");
			return 1;
		}
	}
	puts("ready");
	fflush(stdout);
	pause();
	return 0;
}
