/* Three threads wait for one disk each, 6, 4 and 4 ms a block, and hand blocks to one that computes for 1 ms with each. */
#include "causal.h"
#include "disk.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER, not_full = PTHREAD_COND_INITIALIZER;
static int queued;

static void put(void) {
  pthread_mutex_lock(&mutex);
  while (queued == 8) pthread_cond_wait(&not_full, &mutex);
  queued++;
  pthread_cond_signal(&not_empty);
  pthread_mutex_unlock(&mutex);
}

static void *slow(void *unused) {
  (void)unused;
  long ns = work("slow", 6000000);
  int disk = open_disk();
  while (!atomic_load(&stop)) {
    ask_disk(disk, ns);
    read_disk(disk, ns); /* line: slow */
    put();
  }
  return NULL;
}

static void *fast(void *unused) {
  (void)unused;
  long ns = work("fast", 4000000);
  int disk = open_disk();
  while (!atomic_load(&stop)) {
    ask_disk(disk, ns);
    read_disk(disk, ns); /* line: fast */
    put();
  }
  return NULL;
}

static void *computer(void *unused) {
  (void)unused;
  long n = work("compute", 1000000);
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
  pthread_t threads[4];
  void *(*run[])(void *) = {slow, fast, fast, computer};
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, run[i], NULL);
  run_for_a_while();
  return finish();
}
