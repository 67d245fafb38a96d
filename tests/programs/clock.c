// Preloaded: sets the clock of a program by as many seconds as the file $CLOCK_OFFSET says.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (clock == CLOCK_REALTIME) {
        const char *path = getenv("CLOCK_OFFSET");
        FILE *file = path ? fopen(path, "re") : NULL;
        long seconds = 0;
        if (file) {
            if (fscanf(file, "%ld", &seconds) == 1)
                now->tv_sec += seconds;
            fclose(file);
        }
    }
    return result;
}
