// The paper's workload for SQLite: threads that insert rows, each into a table of its own, one database in memory
// each: inserts_sqlite THREADS SECONDS [0]. Prints the rate. With 0 SQLite keeps no statistics of its memory, for which all threads take one lock.
#include "../include/vitalfew.h"
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static atomic_int stop;
static atomic_long inserts;

static void *insert(void *unused) {
  sqlite3 *database;
  sqlite3_stmt *statement;
  if (sqlite3_open_v2(":memory:", &database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, NULL) ||
      sqlite3_exec(database, "create table t (a integer, b integer, c text)", NULL, NULL, NULL) ||
      sqlite3_prepare_v2(database, "insert into t values (?, ?, 'some text of a row')", -1, &statement, NULL))
    exit(1);
  for (long i = 0; !atomic_load_explicit(&stop, memory_order_relaxed); i++) {
    sqlite3_bind_int64(statement, 1, i);
    sqlite3_bind_int64(statement, 2, i * 7919 % 10007);
    if (sqlite3_step(statement) != SQLITE_DONE) exit(1);
    sqlite3_reset(statement);
    if (i % 100000 == 99999) sqlite3_exec(database, "delete from t", NULL, NULL, NULL);
    VITALFEW_PROGRESS("insert");
    atomic_fetch_add_explicit(&inserts, 1, memory_order_relaxed);
  }
  return unused;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  int threads = atoi(argv[1]);
  double seconds = atof(argv[2]), start = now();
  pthread_t all[64];
  if (threads < 1 || threads > 64) return 2;
  if (argc > 3) sqlite3_config(SQLITE_CONFIG_MEMSTATUS, atoi(argv[3]));
  for (int i = 0; i < threads; i++) pthread_create(&all[i], NULL, insert, NULL);
  while (now() - start < seconds) usleep(10000);
  atomic_store(&stop, 1);
  printf("rate %.4f\n", (double)atomic_load(&inserts) / (now() - start));
  fflush(stdout);
  _exit(0);
}
