/* Two threads and a queue: one copies what a device hands out, in the kernel, and the other computes with it for half of that time. */
#include "causal.h"
#include <fcntl.h>

enum { ROOM = 2, LARGEST = 64 << 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int queued;
static long bytes, n;

static void move(int by) {
  pthread_mutex_lock(&lock);
  while (queued + by < 0 || queued + by > ROOM) pthread_cond_wait(&changed, &lock);
  queued += by;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
}

static void *copier(void *to) {
  int device = open("/dev/zero", O_RDONLY);
  while (!stop) {
    if (read(device, to, bytes) < 0) abort(); /* line: copy */
    move(1);
  }
  return NULL;
}

static void *computer(void *unused) {
  while (!stop) {
    move(-1);
    WORK(n); /* line: compute */
    VITALFEW_PROGRESS("item");
    progress();
  }
  return unused;
}

int main(int argc, char **argv) {
  setup(argc, argv);
  bytes = work("copy", 48 << 20), n = work("compute", 2000000);
  char *to = malloc(LARGEST);
  memset(to, 1, LARGEST);
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, copier, to);
  pthread_create(&threads[1], NULL, computer, NULL);
  run_for_a_while();
  return finish();
}
