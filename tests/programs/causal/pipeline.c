/* Three stages with bounded queues between them: the middle one takes longest. Two run at a time. */
#include "causal.h"

#define ROOM 8
static struct queue {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int items;
} queues[2] = {{PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0},
               {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0}};

static void put(struct queue *q) {
  pthread_mutex_lock(&q->lock);
  while (q->items == ROOM) pthread_cond_wait(&q->changed, &q->lock);
  q->items++;
  pthread_cond_broadcast(&q->changed);
  pthread_mutex_unlock(&q->lock);
}

static void take(struct queue *q) {
  pthread_mutex_lock(&q->lock);
  while (q->items == 0) pthread_cond_wait(&q->changed, &q->lock);
  q->items--;
  pthread_cond_broadcast(&q->changed);
  pthread_mutex_unlock(&q->lock);
}

static void *first(void *unused) {
  for (long n = work("first", 600000);;) {
    WORK(n); /* line: first */
    put(&queues[0]);
  }
  return unused;
}

static void *middle(void *unused) {
  for (long n = work("middle", 3000000);;) {
    take(&queues[0]);
    WORK(n); /* line: middle */
    put(&queues[1]);
  }
  return unused;
}

static void *last(void *unused) {
  for (long n = work("last", 1200000);;) {
    take(&queues[1]);
    WORK(n); /* line: last */
    VITALFEW_PROGRESS("item");
    progress();
  }
  return unused;
}

int main(int argc, char **argv) {
  setup(argc, argv);
  pthread_t thread;
  pthread_create(&thread, NULL, first, NULL);
  pthread_create(&thread, NULL, middle, NULL);
  pthread_create(&thread, NULL, last, NULL);
  run_for_a_while();
  return finish();
}
