/* Two threads read from a disk for 2 ms while they hold a lock, and compute for 1 ms without it: the disk is all that counts. */
#include "causal.h"
#include "disk.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *worker(void *unused) {
  (void)unused;
  long ns = work("disk", 2000000), n = work("compute", 1000000);
  int disk = open_disk();
  while (!atomic_load(&stop)) {
    pthread_mutex_lock(&mutex);
    ask_disk(disk, ns);
    read_disk(disk, ns); /* line: disk */
    pthread_mutex_unlock(&mutex);
    WORK(n); /* line: compute */
    VITALFEW_PROGRESS("block");
    progress();
  }
  return NULL;
}

int main(int argc, char **argv) {
  setup(argc, argv);
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, worker, NULL);
  run_for_a_while();
  return finish();
}
