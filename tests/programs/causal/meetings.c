/* Two threads that meet often:
 *
 *     meetings [LINE [PERCENT [SECONDS [KIND [MICROSECONDS]]]]]
 *
 * KIND is `barrier` (both wait for the other after each piece of work), `lock` (both need one lock for most of
 * their work) or `queue` (one makes what the other one uses); the longest piece of work takes about MICROSECONDS. */
#include "causal.h"

static pthread_barrier_t barrier;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t room = PTHREAD_COND_INITIALIZER, something = PTHREAD_COND_INITIALIZER;
static int queued;
static long of_long, of_short, of_inside, of_outside, of_producer, of_consumer;

static void *long_one(void *unused) {
  for (;;) {
    WORK(of_long); /* line: long */
    pthread_barrier_wait(&barrier);
    VITALFEW_PROGRESS("piece");
    progress();
  }
  return unused;
}

static void *short_one(void *unused) {
  for (;;) {
    WORK(of_short); /* line: short */
    pthread_barrier_wait(&barrier);
  }
  return unused;
}

static void *locker(void *unused) {
  for (;;) {
    pthread_mutex_lock(&lock);
    WORK(of_inside); /* line: inside */
    pthread_mutex_unlock(&lock);
    WORK(of_outside); /* line: outside */
    VITALFEW_PROGRESS("piece");
    progress();
  }
  return unused;
}

static void *producer(void *unused) {
  for (;;) {
    WORK(of_producer); /* line: producer */
    pthread_mutex_lock(&lock);
    while (queued == 4) pthread_cond_wait(&room, &lock);
    queued++;
    pthread_cond_signal(&something);
    pthread_mutex_unlock(&lock);
  }
  return unused;
}

static void *consumer(void *unused) {
  for (;;) {
    pthread_mutex_lock(&lock);
    while (queued == 0) pthread_cond_wait(&something, &lock);
    queued--;
    pthread_cond_signal(&room);
    pthread_mutex_unlock(&lock);
    WORK(of_consumer); /* line: consumer */
    VITALFEW_PROGRESS("piece");
    progress();
  }
  return unused;
}

int main(int argc, char **argv) {
  setup(argc, argv);
  const char *kind = argc > 4 ? argv[4] : "barrier";
  long n = 1000 * (argc > 5 ? atol(argv[5]) : 1000);
  of_long = work("long", n), of_short = work("short", n * 69 / 100);
  of_inside = work("inside", n * 60 / 100), of_outside = work("outside", n * 35 / 100);
  of_producer = work("producer", n * 70 / 100), of_consumer = work("consumer", n);
  pthread_barrier_init(&barrier, NULL, 2);
  void *(*first)(void *) = long_one, *(*second)(void *) = short_one;
  if (strcmp(kind, "lock") == 0) first = second = locker;
  if (strcmp(kind, "queue") == 0) first = producer, second = consumer;
  pthread_t thread;
  pthread_create(&thread, NULL, first, NULL);
  pthread_create(&thread, NULL, second, NULL);
  run_for_a_while();
  return finish();
}
