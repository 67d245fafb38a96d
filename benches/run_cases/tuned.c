// Programs of known truth: tuned KIND [repaired]. Each has one dominant cause, and a form without it. The rules of
// `vitalfew run` were tuned on these; held.c has those that they were not. benches/run_cases.py runs both.
#include "work.h"

#include <sched.h>

APART static unsigned long parse_request(long number) { return DIGEST(number, 9000); }
APART static unsigned long format_reply(unsigned long value) { return DIGEST(value, 9000); }

/* line: the checksum of a table that never changes, for each request; repaired, once. */
static unsigned table[4096];
APART static unsigned long checksum_table(void) {
  unsigned long sum = 0;
  for (int round = 0; round < 12; round++)
    for (int i = 0; i < 4096; i++)
      sum = (sum ^ table[i]) * 0x100000001b3u % 0xfffffffbu;
  return sum;
}
static void line(void) {
  unsigned long sum = 0;
  for (long i = 0; i < 9000; i++) {
    if (!i || !repaired) sum = checksum_table();
    result = format_reply(parse_request(i) ^ sum);
  }
}

/* paths: a name is put into one form wherever it is used, in a dozen places; repaired, when it is read. */
APART static unsigned long normalize_name(const char *name) {
  unsigned long hash = 14695981039346656037u;
  for (int round = 0; round < 100; round++)
    for (const char *at = name; *at; at++)
      hash = (hash ^ (unsigned long)(*at | 32)) % 0xfffffffffffffc5u * 31;
  return hash;
}
static unsigned long form_of(const char *name) {
  static unsigned long known;
  if (!repaired) return normalize_name(name);
  return known ? known : (known = normalize_name(name));
}
#define HANDLER(name, rounds) \
  APART static unsigned long name(long i) { return DIGEST(form_of("Ludwig van Beethoven") + i, rounds) + 1; }
HANDLER(open_account, 1100) HANDLER(close_account, 900) HANDLER(list_orders, 1300) HANDLER(add_order, 1000)
HANDLER(drop_order, 1200) HANDLER(print_bill, 800) HANDLER(pay_bill, 1400) HANDLER(send_mail, 1000)
HANDLER(change_name, 900) HANDLER(change_street, 1100) HANDLER(show_stock, 1000) HANDLER(count_stock, 1000)
static void paths(void) {
  static unsigned long (*const handlers[])(long) = {open_account, close_account, list_orders, add_order, drop_order,
    print_bill, pay_bill, send_mail, change_name, change_street, show_stock, count_stock};
  for (long i = 0; i < 80000; i++) result = handlers[i % 12](i);
}

/* misses: prices in a list whose items lie in any order in 256 MB; repaired, in the order of the list. */
struct item { struct item *next; unsigned long price; char other[48]; };
APART static unsigned long add_prices(const struct item *item) {
  unsigned long sum = 0;
  for (; item; item = item->next) sum += item->price;
  return sum;
}
static void misses(void) {
  enum { ITEMS = 1 << 22 };
  struct item *items = calloc(ITEMS, sizeof *items);
  long at = 0;
  for (long i = 0; i < ITEMS; i++) {  // a full cycle through a power of two
    long next = repaired ? i + 1 : (at * 1664525 + 1013904223) & (ITEMS - 1);
    items[at].next = i < ITEMS - 1 ? &items[next] : NULL;
    at = next;
  }
  for (int i = 0; i < 3; i++) result = add_prices(items);
  for (long i = 0; i < 3000; i++) result = format_reply(parse_request(i));
}

/* mutex: one total that all threads add to; repaired, each has its own. */
static struct { pthread_mutex_t lock; unsigned long sum; char apart[128]; } totals[THREADS];
APART static void update_total(long thread, long i) {
  long at = repaired ? thread : 0;
  pthread_mutex_lock(&totals[at].lock);
  totals[at].sum += DIGEST(i, 6000);
  pthread_mutex_unlock(&totals[at].lock);
}
static void *mutex(void *thread) {
  for (long i = 0; i < 20000; i++) {
    update_total((intptr_t)thread, i);
    DIGEST(i, 2000);
  }
  return NULL;
}

/* sharing: counters of two threads in one cache line; repaired, apart. */
static struct { unsigned long count[64]; } counters __attribute__((aligned(512)));
APART static void count_event(unsigned long *own) {
  for (int i = 0; i < 1000; i++) __atomic_fetch_add(own, 1, __ATOMIC_RELAXED);
}
static void *sharing(void *thread) {
  long at = (intptr_t)thread * (repaired ? 32 : 1);
  for (int i = 0; i < 20000; i++) {
    count_event(&counters.count[at]);
    DIGEST(i, 800);
  }
  return NULL;
}

/* fsync: each record is made safe; repaired, all together. */
APART static void save_record(int file, long number, int last) {
  char record[512];
  memset(record, (int)number, sizeof record);
  if (pwrite(file, record, sizeof record, number * (long)sizeof record) < 0) exit(1);
  if (!repaired || last) fsync(file);
}
static void saving(void) {
  char path[] = "/tmp/run-case-XXXXXX";
  int file = mkstemp(path);
  for (long i = 0; i < 1500; i++) {
    result = format_reply(parse_request(i));
    save_record(file, i, i == 1499);
  }
  unlink(path);
}

/* pinned: all threads may use one CPU only; repaired, all. */
static void *compute_share(void *thread) {
  for (long i = 0; i < 6000; i++) DIGEST(i + (intptr_t)thread, 25000);
  return NULL;
}
static void pin(void) {
  cpu_set_t all, one;
  sched_getaffinity(0, sizeof all, &all);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
  if (!repaired) sched_setaffinity(0, sizeof one, &one);
}

/* pipeline: one stage takes four times as long as the other; repaired, as long. */
static struct { pthread_mutex_t lock; pthread_cond_t changed; long item[32]; int length, head; } queue;
APART static long read_item(long number) { return DIGEST(number, 12000) & 0xff; }
APART static unsigned long decode_item(long item) { return DIGEST(item, repaired ? 12000 : 48000); }
enum { PIPED = 8000 };
static void *read_items(void *none) {
  for (long i = 0; i < PIPED; i++) {
    long item = read_item(i);
    pthread_mutex_lock(&queue.lock);
    while (queue.length == 32) pthread_cond_wait(&queue.changed, &queue.lock);
    queue.item[(queue.head + queue.length++) % 32] = item;
    pthread_cond_signal(&queue.changed);
    pthread_mutex_unlock(&queue.lock);
  }
  return none;
}
static void *decode_items(void *none) {
  for (long i = 0; i < PIPED; i++) {
    pthread_mutex_lock(&queue.lock);
    while (!queue.length) pthread_cond_wait(&queue.changed, &queue.lock);
    long item = queue.item[queue.head];
    queue.head = (queue.head + 1) % 32;
    queue.length--;
    pthread_cond_signal(&queue.changed);
    pthread_mutex_unlock(&queue.lock);
    decode_item(item);
  }
  return none;
}

/* sleeping: waits for a device that is ready at once; repaired, looks first. */
APART static void wait_for_device(void) {
  if (!repaired) usleep(900);
  __asm__ volatile("");  // else usleep takes this function's place on the stack
}
static void sleeping(void) {
  for (long i = 0; i < 1500; i++) {
    wait_for_device();
    result = format_reply(parse_request(i));
  }
}

int main(int count, char **words) {
  const char *kind = count > 1 ? words[1] : "";
  repaired = count > 2;
  for (int i = 0; i < 4096; i++) table[i] = i * 2654435761u;
  if (!strcmp(kind, "line")) line();
  else if (!strcmp(kind, "paths")) paths();
  else if (!strcmp(kind, "misses")) misses();
  else if (!strcmp(kind, "mutex")) run_threads(mutex, mutex);
  else if (!strcmp(kind, "sharing")) run_threads(sharing, sharing);
  else if (!strcmp(kind, "fsync")) saving();
  else if (!strcmp(kind, "pinned")) pin(), run_threads(compute_share, compute_share);
  else if (!strcmp(kind, "pipeline")) run_threads(read_items, decode_items);
  else if (!strcmp(kind, "sleeping")) sleeping();
  else return fputs("usage: tuned KIND [repaired]\n", stderr), 2;
  return 0;
}
