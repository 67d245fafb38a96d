/* A disk of which it is known how long it takes: a timer that is set when it is asked, and read, which waits in the kernel until an
 * interrupt comes. A macro, so that the line that waits is the one where it is written. */
#include <stdint.h>
#include <sys/timerfd.h>

static inline int open_disk(void) { return timerfd_create(CLOCK_MONOTONIC, 0); }

/* Asks for something that takes `ns` nanoseconds; 0: nothing. */
static inline void ask_disk(int disk, long ns) {
  struct itimerspec in = {{0, 0}, {ns / 1000000000, ns % 1000000000}};
  timerfd_settime(disk, 0, &in, NULL);
}

#define read_disk(disk, ns)                                                \
  do {                                                                     \
    uint64_t times;                                                        \
    if ((ns) > 0 && read(disk, &times, sizeof times) != sizeof times) abort(); \
  } while (0)
