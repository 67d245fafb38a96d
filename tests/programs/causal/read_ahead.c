/* A thread reads ahead, 3 ms a block, and another one computes for 2 ms with each: who waits for the disk is in front of a queue. */
#include "causal.h"
#include "disk.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER, not_full = PTHREAD_COND_INITIALIZER;
static int queued;

static void *reader(void *unused) {
  (void)unused;
  long ns = work("disk", 3000000);
  int disk = open_disk();
  while (!atomic_load(&stop)) {
    ask_disk(disk, ns);
    read_disk(disk, ns); /* line: disk */
    pthread_mutex_lock(&mutex);
    while (queued == 4) pthread_cond_wait(&not_full, &mutex);
    queued++;
    pthread_cond_signal(&not_empty);
    pthread_mutex_unlock(&mutex);
  }
  return NULL;
}

static void *computer(void *unused) {
  (void)unused;
  long n = work("compute", 2000000);
  while (!atomic_load(&stop)) {
    pthread_mutex_lock(&mutex);
    while (queued == 0) pthread_cond_wait(&not_empty, &mutex);
    queued--;
    pthread_cond_signal(&not_full);
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
  pthread_create(&threads[0], NULL, reader, NULL);
  pthread_create(&threads[1], NULL, computer, NULL);
  run_for_a_while();
  return finish();
}
