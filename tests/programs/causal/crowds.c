/* More threads than processors that meet often, written when the method had been tuned on those of standard.cpp and standard.rs:
 *
 *     crowds [LINE [PERCENT [SECONDS [KIND [MICROSECONDS]]]]]
 *
 * KIND is `ring` (four threads pass two tokens around), `farm` (one thread feeds three), `tables` (four threads, two
 * locks) or `checkpoint` (three unequal threads at a barrier). */
#include "kinds.h"
#include <semaphore.h>

static long units;

static long part(const char *line, long percent) { return work(line, units * percent / 100); }

static void count_piece(void) {
  VITALFEW_PROGRESS("piece");
  progress();
}

static sem_t tokens[4];

static void *pass_long(void *unused) {
  for (long n = part("passes_long", 50);;) {
    sem_wait(&tokens[0]);
    WORK(n); /* line: passes_long */
    sem_post(&tokens[1]);
    count_piece();
  }
  return unused;
}

static void *pass_short(void *which) {
  long at = (long)which;
  for (long n = part("passes_short", 30);;) {
    sem_wait(&tokens[at]);
    WORK(n); /* line: passes_short */
    sem_post(&tokens[(at + 1) % 4]);
  }
  return which;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;
static int jobs;

static void *feed(void *unused) {
  for (long n = part("feeding", 35);;) {
    WORK(n); /* line: feeding */
    pthread_mutex_lock(&lock);
    while (jobs == 3) pthread_cond_wait(&not_full, &lock);
    jobs++;
    pthread_cond_signal(&not_empty);
    pthread_mutex_unlock(&lock);
  }
  return unused;
}

static void *do_job(void *unused) {
  for (long n = part("doing", 90);;) {
    pthread_mutex_lock(&lock);
    while (jobs == 0) pthread_cond_wait(&not_empty, &lock);
    jobs--;
    pthread_cond_signal(&not_full);
    pthread_mutex_unlock(&lock);
    WORK(n); /* line: doing */
    count_piece();
  }
  return unused;
}

static pthread_mutex_t tables[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

static void *use_table(void *which) {
  pthread_mutex_t *table = &tables[(long)which % 2];
  for (long inside = part("in_table", 40), outside = part("off_table", 25);;) {
    pthread_mutex_lock(table);
    WORK(inside); /* line: in_table */
    pthread_mutex_unlock(table);
    WORK(outside); /* line: off_table */
    count_piece();
  }
  return which;
}

static pthread_barrier_t checkpoint;

static void *do_most(void *unused) {
  for (long n = part("most_of_it", 70);;) {
    WORK(n); /* line: most_of_it */
    pthread_barrier_wait(&checkpoint);
    count_piece();
  }
  return unused;
}

static void *do_some(void *unused) {
  for (long n = part("some_of_it", 50);;) {
    WORK(n); /* line: some_of_it */
    pthread_barrier_wait(&checkpoint);
  }
  return unused;
}

static void *do_least(void *unused) {
  for (long n = part("least_of_it", 30);;) {
    WORK(n); /* line: least_of_it */
    pthread_barrier_wait(&checkpoint);
  }
  return unused;
}

static const struct kind kinds[] = {
    {"ring", {pass_long, pass_short, pass_short, pass_short}},
    {"farm", {feed, do_job, do_job, do_job}},
    {"tables", {use_table, use_table, use_table, use_table}},
    {"checkpoint", {do_most, do_some, do_least}},
};

int main(int argc, char **argv) {
  setup(argc, argv);
  units = piece_length(argc, argv);
  const struct kind *kind = find_kind(argc, argv, kinds, sizeof kinds / sizeof *kinds);
  for (int i = 0; i < 4; i++) sem_init(&tokens[i], 0, i % 2 == 0);
  pthread_barrier_init(&checkpoint, NULL, 3);
  start_threads(kind);
  run_for_a_while();
  return finish();
}
