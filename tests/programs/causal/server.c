/* Requests arrive by chance, whatever the server does, and wait in a queue: a faster handler shortens the
 * waiting by more than itself. Prints the mean latency. With BY_THE_CLOCK see open_loop.c. */
#include "causal.h"
#include <math.h>

#define ROOM 4096
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static double arrivals[ROOM];
static long in, out;
static double latencies;

static void *handler(void *unused) {
  for (long n = work("handle", 900000), rest = work("answer", 300000);;) {
    pthread_mutex_lock(&lock);
    while (in == out) pthread_cond_wait(&arrived, &lock);
    double arrival = arrivals[out++ % ROOM];
    pthread_mutex_unlock(&lock);
    WORK(n); /* line: handle */
    WORK(rest); /* line: answer */
    VITALFEW_END("request");
    VITALFEW_PROGRESS("answered");
    progress();
    latencies += now() - arrival;
  }
  return unused;
}

int main(int argc, char **argv) {
  setup(argc, argv);
  pthread_t thread;
  pthread_create(&thread, NULL, handler, NULL);
  unsigned short seed[3] = {1, 2, 3};
  double due = now();
  while (now() - started < knob_seconds) {
    double wait = -log(1 - erand48(seed)) / 250;
#ifdef BY_THE_CLOCK
    due += wait;
    struct timespec t = {(time_t)due, (long)((due - (double)(time_t)due) * 1e9)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
#else
    struct timespec t = {(time_t)wait, (long)((wait - (double)(time_t)wait) * 1e9)};
    nanosleep(&t, NULL);
    due = now();
#endif
    VITALFEW_BEGIN("request");
    pthread_mutex_lock(&lock);
    if (in - out < ROOM) arrivals[in++ % ROOM] = due;
    pthread_cond_signal(&arrived);
    pthread_mutex_unlock(&lock);
  }
  if (argc > 4) finish();
  printf("latency %.2f\n", 1e6 * latencies / (double)atomic_load(&visits));
  fflush(stdout);
  _exit(0);
}
