/* More threads and processes that meet often, written when the method had been tuned on those of meetings.c:
 *
 *     encounters [LINE [PERCENT [SECONDS [KIND [MICROSECONDS]]]]]
 *
 * KIND is `pipes` (two processes pass two items around), `spinlock` (pthread_spin_lock), `semaphores` (two threads take
 * turns), `pool` (two workers do what a third thread makes and merges) or `stages` (a pipeline of three threads). */
#include "kinds.h"
#include <semaphore.h>
#include <signal.h>
#include <sys/prctl.h>

static long units;

static long part(const char *line, long percent) { return work(line, units * percent / 100); }

static int there[2], back[2];


static void *parent_process(void *unused) {
  for (long n = part("parent", 100);;) {
    char item;
    if (read(back[0], &item, 1) != 1) return unused;
    WORK(n); /* line: parent */
    VITALFEW_PROGRESS("piece");
    progress();
    if (write(there[1], &item, 1) != 1) return unused;
  }
}

static void child_process(void) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (long n = part("child", 60);;) {
    char item;
    if (read(there[0], &item, 1) != 1) _exit(0);
    WORK(n); /* line: child */
    if (write(back[1], &item, 1) != 1) _exit(0);
  }
}

static void begin_pipes(void) {
  if (pipe(there) || pipe(back)) _exit(1);
  if (write(back[1], "ab", 2) != 2) _exit(1);
  if (fork() == 0) child_process();
}

static pthread_spinlock_t spinlock;

static void *spin_locker(void *unused) {
  for (long inside = part("spin_inside", 50), outside = part("spin_outside", 80);;) {
    pthread_spin_lock(&spinlock);
    WORK(inside); /* line: spin_inside */
    pthread_spin_unlock(&spinlock);
    WORK(outside); /* line: spin_outside */
    VITALFEW_PROGRESS("piece");
    progress();
  }
  return unused;
}

static sem_t turns[2];

static void *ping(void *unused) {
  for (long n = part("ping", 40);;) {
    sem_wait(&turns[0]);
    WORK(n); /* line: ping */
    sem_post(&turns[1]);
    VITALFEW_PROGRESS("piece");
    progress();
  }
  return unused;
}

static void *pong(void *unused) {
  for (long n = part("pong", 60);;) {
    sem_wait(&turns[1]);
    WORK(n); /* line: pong */
    sem_post(&turns[0]);
  }
  return unused;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int to_do, done;

static void *pool_worker(void *unused) {
  for (long n = part("task", 50);;) {
    pthread_mutex_lock(&lock);
    while (to_do == 0) pthread_cond_wait(&changed, &lock);
    to_do--;
    pthread_mutex_unlock(&lock);
    WORK(n); /* line: task */
    pthread_mutex_lock(&lock);
    done++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
  }
  return unused;
}

static void *pool_maker(void *unused) {
  for (long making = part("making", 20), merging = part("merging", 30);;) {
    WORK(making); /* line: making */
    pthread_mutex_lock(&lock);
    to_do = 4, done = 0;
    pthread_cond_broadcast(&changed);
    while (done < 4) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    WORK(merging); /* line: merging */
    VITALFEW_PROGRESS("piece");
    progress();
  }
  return unused;
}

struct queue {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int length;
};

static struct queue queues[2] = {{PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0},
                                 {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0}};

static void move(struct queue *queue, int by) {
  pthread_mutex_lock(&queue->lock);
  while (queue->length == (by > 0 ? 3 : 0)) pthread_cond_wait(&queue->changed, &queue->lock);
  queue->length += by;
  pthread_cond_signal(&queue->changed);
  pthread_mutex_unlock(&queue->lock);
}

static void *first_stage(void *unused) {
  for (long n = part("first_stage", 30);;) {
    WORK(n); /* line: first_stage */
    move(&queues[0], 1);
  }
  return unused;
}

static void *second_stage(void *unused) {
  for (long n = part("second_stage", 100);;) {
    move(&queues[0], -1);
    WORK(n); /* line: second_stage */
    move(&queues[1], 1);
  }
  return unused;
}

static void *third_stage(void *unused) {
  for (long n = part("third_stage", 40);;) {
    move(&queues[1], -1);
    WORK(n); /* line: third_stage */
    VITALFEW_PROGRESS("piece");
    progress();
  }
  return unused;
}

static const struct kind kinds[] = {
    {"pipes", {parent_process}},
    {"spinlock", {spin_locker, spin_locker}},
    {"semaphores", {ping, pong}},
    {"pool", {pool_maker, pool_worker, pool_worker}},
    {"stages", {first_stage, second_stage, third_stage}},
};

int main(int argc, char **argv) {
  setup(argc, argv);
  units = piece_length(argc, argv);
  const struct kind *kind = find_kind(argc, argv, kinds, sizeof kinds / sizeof *kinds);
  pthread_spin_init(&spinlock, 0);
  sem_init(&turns[0], 0, 1);
  sem_init(&turns[1], 0, 0);
  if (kind == kinds) begin_pipes();
  start_threads(kind);
  run_for_a_while();
  return finish();
}
