/* Two threads write to a journal in turn, 4 kB each time, and one of them makes it safe with fsync, which is the disk's time and not known;
 * between that they compute for 1 ms. PERCENT of the fsyncs are left out where that is the line. */
#include "causal.h"
#include <fcntl.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int journal;
static long wanted, done, asked;

static void *writer(void *unused) {
  (void)unused;
  static char block[4096];
  long n = work("compute", 1000000);
  while (!atomic_load(&stop)) {
    WORK(n); /* line: compute */
    pthread_mutex_lock(&mutex);
    if (pwrite(journal, block, sizeof block, (asked % 64) * 4096) < 0) abort();
    asked += wanted;
    if (done + 100 <= asked) {
      done += 100;
      fsync(journal); /* line: fsync */
    }
    pthread_mutex_unlock(&mutex);
    VITALFEW_PROGRESS("entry");
    progress();
  }
  return NULL;
}

int main(int argc, char **argv) {
  setup(argc, argv);
  wanted = work("fsync", 100);
  const char *directory = getenv("TMPDIR");
  char path[4096];
  snprintf(path, sizeof path, "%s/journal.%d", directory ? directory : ".", (int)getpid());
  journal = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  unlink(path);
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, writer, NULL);
  run_for_a_while();
  return finish();
}
