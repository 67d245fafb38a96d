/* writer: one thread makes records, another one puts each on the disk for sure; repaired, thirty-two at a time. later_writer [repaired] */
#include "work.h"

enum { RECORDS = 700, ROOM = 8 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned long queue[ROOM];
static int first, count;

APART static void put_record(unsigned long record) {
  pthread_mutex_lock(&lock);
  while (count == ROOM) pthread_cond_wait(&changed, &lock);
  queue[(first + count++) % ROOM] = record;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}

APART static unsigned long take_record(void) {
  pthread_mutex_lock(&lock);
  while (!count) pthread_cond_wait(&changed, &lock);
  unsigned long record = queue[first];
  first = (first + 1) % ROOM;
  count--;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return record;
}

static void *make_records(void *unused) {
  (void)unused;
  for (unsigned long i = 0; i < RECORDS; i++) put_record(DIGEST(i, 40000));
  return NULL;
}

APART static void store_record(int file, unsigned long record, int number) {
  if (write(file, &record, sizeof record) != sizeof record) exit(1);
  if (!repaired || number % 32 == 31) fdatasync(file);
}

static void *store_records(void *unused) {
  (void)unused;
  char name[] = "later_writer_XXXXXX";
  int file = mkstemp(name);
  unlink(name);
  for (int i = 0; i < RECORDS; i++) store_record(file, take_record(), i);
  return NULL;
}

int main(int words, char **unused) {
  (void)unused;
  repaired = words > 1;
  run_threads(make_records, store_records);
}
