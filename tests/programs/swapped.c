/* Two libraries that are mapped at the same address by turns, with their procedures at the same place in
 * them: swapped LIBRARY_A LIBRARY_B ROUNDS OUT. The second runs twice as long as the first. Writes how long
 * each ran, in nanoseconds of CPU time, and in how many rounds both were at one address. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static unsigned long long cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

int main(int argc, char **argv)
{
	unsigned long long spent[2] = { 0, 0 };
	unsigned long rounds = argc > 4 ? strtoul(argv[3], 0, 0) : 0, same = 0;
	volatile unsigned long sink = 0;

	while (rounds--) {
		unsigned long (*procedure[2])(unsigned long) = { 0, 0 };
		for (int which = 0; which < 2; which++) {
			void *library = dlopen(argv[1 + which], RTLD_NOW);
			if (!library)
				return 2;
			procedure[which] = (unsigned long (*)(unsigned long))dlsym(library, which ? "second" : "first_");
			if (!procedure[which])
				return 2;
			unsigned long long start = cpu_ns();
			sink += procedure[which](which ? 3000000 : 1500000);
			spent[which] += cpu_ns() - start;
			dlclose(library);
		}
		same += procedure[0] == procedure[1];
	}
	FILE *out = fopen(argc > 4 ? argv[4] : "/dev/stdout", "w");
	if (!out)
		return 2;
	fprintf(out, "%llu %llu %lu\n", spent[0], spent[1], same);
	return fclose(out) != 0;
}
