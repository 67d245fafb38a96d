// Programs of known truth: fresh KIND [repaired]. Written before the rules learned from those of held.c, looked at once, and then learned from, too.
#include "work.h"

#include <regex.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* stat: a file's age is asked for before each request; repaired, once in a thousand. */
APART static long config_age(long request) {
  static struct stat known;
  if (!repaired || request % 1000 == 0) stat("/usr/lib/os-release", &known);
  return known.st_mtime;
}
static void asking(void) {
  for (long i = 0; i < 2000000; i++) result = DIGEST(config_age(i), 60);
}

/* rwlock: readers are shut out by a writer that works inside; repaired, it works outside. */
static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;
static volatile int finished;
APART static void read_table(long key) {
  pthread_rwlock_rdlock(&table_lock);
  result = DIGEST(key, 1000);
  pthread_rwlock_unlock(&table_lock);
}
APART static void rebuild_table(void) {
  if (repaired) DIGEST(5, 250000);
  pthread_rwlock_wrlock(&table_lock);
  if (!repaired) DIGEST(5, 250000);
  pthread_rwlock_unlock(&table_lock);
}
static void *read_often(void *thread) {
  for (long i = 0; i < 400000; i++) read_table(i);
  finished = 1;
  return thread;
}
static void *rebuild_often(void *thread) {
  while (!finished) {
    rebuild_table();
    usleep(700);
  }
  return thread;
}

/* hash: keys that end alike meet in few chains; repaired, they are mixed. */
enum { KEYS = 20000, CHAINS = 1 << 15 };
struct entry {
  struct entry *next;
  unsigned long key, value;
};
static struct entry *chains[CHAINS], entries[KEYS];
APART static unsigned long chain_of(unsigned long key) { return (repaired ? key * 0x9e3779b97f4a7c15u >> 40 : key) % CHAINS; }
APART static struct entry *find_entry(unsigned long key) {
  struct entry *at = chains[chain_of(key)];
  while (at && at->key != key) at = at->next;
  return at;
}
static void hashing(void) {
  for (long i = 0; i < KEYS; i++) {
    struct entry **chain = &chains[chain_of(i * 1024ul)];
    entries[i] = (struct entry){*chain, i * 1024ul, i};
    *chain = &entries[i];
  }
  for (long i = 0; i < 3000000; i++) result = DIGEST(find_entry(i * 7919 % KEYS * 1024ul)->value, 30);
}

/* shards: one of two threads gets most of the items; repaired, each takes what is next. */
static long next_item;
enum { ITEMS = 16000 };
APART static void process_item(long item) { result = DIGEST(item, 30000); }
static void *process_shard(void *thread) {
  long number = (long)thread;
  if (repaired)
    for (long item; (item = __atomic_fetch_add(&next_item, 1, __ATOMIC_RELAXED)) < ITEMS;) process_item(item);
  else
    for (long item = 0; item < ITEMS; item++)
      if ((item % 10 == 0) == (number == 0)) process_item(item);
  return NULL;
}

/* journal: a file that was opened to write through; repaired, not. */
APART static void append_entry(int file, long number) {
  char text[256] = {0};
  snprintf(text, sizeof text, "entry %ld", number);
  if (write(file, text, sizeof text) != sizeof text) exit(1);
}
static void journal(void) {
  char path[] = "/var/tmp/run-case-XXXXXX";
  close(mkstemp(path));
  int file = open(path, O_WRONLY | (repaired ? 0 : O_SYNC));
  unlink(path);
  for (long i = 0; i < 3000; i++) {
    append_entry(file, i);
    result = DIGEST(i, 60000);
  }
}

/* bytes: a file is read byte by byte; repaired, in blocks. */
static int source;
APART static int next_byte(void) {
  static char block[4096];
  static long at, end;
  if (repaired) {
    if (at == end) at = 0, end = read(source, block, sizeof block);
    return end > 0 ? block[at++] : -1;
  }
  char one;
  return read(source, &one, 1) == 1 ? one : -1;
}
static void bytes(void) {
  char path[] = "/var/tmp/run-case-XXXXXX", block[4096];
  source = mkstemp(path);
  unlink(path);
  memset(block, 'a', sizeof block);
  for (int i = 0; i < 700; i++)
    if (write(source, block, sizeof block) != sizeof block) exit(1);
  lseek(source, 0, SEEK_SET);
  for (int c; (c = next_byte()) >= 0;) result = DIGEST(c, 40);
}

/* ticket: each event takes a number that both threads count; repaired, each thread has its own. */
static struct {
  long shared;
  char apart[120];
} numbers[THREADS + 1];
APART static long next_number(long thread) { return __atomic_add_fetch(&numbers[repaired ? thread : THREADS].shared, 1, __ATOMIC_SEQ_CST); }
static void *take_numbers(void *thread) {
  for (long i = 0; i < 100000000; i++) next_number((long)thread);
  return NULL;
}

/* regex: a pattern is compiled for each line; repaired, once. */
APART static int match_line(const char *line) {
  static regex_t pattern;
  static int compiled;
  if (!compiled || !repaired) {
    if (compiled) regfree(&pattern);
    compiled = !regcomp(&pattern, "^[a-z]+ [0-9]+ (GET|POST) ", REG_EXTENDED | REG_NOSUB);
  }
  return regexec(&pattern, line, 0, NULL, 0);
}
static void matching(void) {
  char line[64];
  for (long i = 0; i < 200000; i++) {
    snprintf(line, sizeof line, "host %ld GET /", i);
    result = DIGEST(match_line(line), 1500);
  }
}

/* small: each message is sent by itself to a child that answers; repaired, fifty at once. */
APART static void send_messages(int socket, int count) {
  char message[64] = {0};
  for (int i = 0; i < count; i++)
    if (write(socket, message, repaired && i ? 1 : sizeof message) < 0 || (!repaired && read(socket, message, 1) != 1)) exit(1);
  if (repaired && read(socket, message, 1) != 1) exit(1);
}
static void messages(void) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) exit(1);
  int batch = repaired ? 113 : 64;
  if (!fork()) {
    char got[128];
    close(ends[0]);
    for (long have = 0, n; (n = read(ends[1], got, sizeof got)) > 0;)
      for (have += n; have >= batch; have -= batch) {
        DIGEST(have, 300);
        if (write(ends[1], got, 1) != 1) break;
      }
    _exit(0);
  }
  close(ends[1]);
  for (long i = 0; i < 2000; i++) {
    send_messages(ends[0], 50);
    result = DIGEST(i, 60000);
  }
  close(ends[0]);
  wait(NULL);
}

/* polling: a result of the other thread is looked for every 2 ms; repaired, it is waited for. */
static pthread_mutex_t ready_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ready_changed = PTHREAD_COND_INITIALIZER;
static long asked_for, ready;
APART static void wait_until_ready(long number) {
  pthread_mutex_lock(&ready_lock);
  while (ready < number) {
    if (repaired) {
      pthread_cond_wait(&ready_changed, &ready_lock);
    } else {
      pthread_mutex_unlock(&ready_lock);
      usleep(2000);
      pthread_mutex_lock(&ready_lock);
    }
  }
  pthread_mutex_unlock(&ready_lock);
}
static void *prepare(void *thread) {
  for (long i = 1; i <= 1200; i++) {
    pthread_mutex_lock(&ready_lock);
    while (asked_for < i) pthread_cond_wait(&ready_changed, &ready_lock);
    pthread_mutex_unlock(&ready_lock);
    DIGEST(i, 60000);
    pthread_mutex_lock(&ready_lock);
    ready = i;
    pthread_cond_broadcast(&ready_changed);
    pthread_mutex_unlock(&ready_lock);
  }
  return thread;
}
static void *consume(void *thread) {
  for (long i = 1; i <= 1200; i++) {
    pthread_mutex_lock(&ready_lock);
    asked_for = i;
    pthread_cond_broadcast(&ready_changed);
    pthread_mutex_unlock(&ready_lock);
    wait_until_ready(i);
    result = DIGEST(i, 60000);
  }
  return thread;
}

int main(int count, char **words) {
  const char *kind = count > 1 ? words[1] : "";
  repaired = count > 2;
  if (!strcmp(kind, "stat")) asking();
  else if (!strcmp(kind, "rwlock")) run_threads(read_often, rebuild_often);
  else if (!strcmp(kind, "hash")) hashing();
  else if (!strcmp(kind, "shards")) run_threads(process_shard, process_shard);
  else if (!strcmp(kind, "journal")) journal();
  else if (!strcmp(kind, "bytes")) bytes();
  else if (!strcmp(kind, "ticket")) run_threads(take_numbers, take_numbers);
  else if (!strcmp(kind, "regex")) matching();
  else if (!strcmp(kind, "messages")) messages();
  else if (!strcmp(kind, "polling")) run_threads(prepare, consume);
  else return fputs("usage: fresh KIND [repaired]\n", stderr), 2;
  return 0;
}
