// Imports orders into an SQLite database, as many programs do at first: import ORDERS [index] [transaction].
// Each order's customer is looked up by name, and each order is kept at once. With `index` the names have an
// index, with `transaction` all orders are kept together. Prints how long the orders took.
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CUSTOMERS = 30000 };
static sqlite3 *database;

static void run(const char *sql) {
  char *error = NULL;
  if (sqlite3_exec(database, sql, NULL, NULL, &error)) {
    fprintf(stderr, "import: %s: %s\n", sql, error);
    exit(1);
  }
}

static sqlite3_stmt *prepare(const char *sql) {
  sqlite3_stmt *statement;
  if (sqlite3_prepare_v2(database, sql, -1, &statement, NULL)) {
    fprintf(stderr, "import: %s: %s\n", sql, sqlite3_errmsg(database));
    exit(1);
  }
  return statement;
}

static void create_tables(int with_index) {
  remove("orders.db");
  remove("orders.db-wal");
  if (sqlite3_open("orders.db", &database)) exit(1);
  run("pragma journal_mode = wal;"
      "create table customers (id integer primary key, name text);"
      "create table orders (id integer primary key, customer integer, amount integer); begin");
  sqlite3_stmt *insert = prepare("insert into customers (name) values (?)");
  for (int i = 0; i < CUSTOMERS; i++) {
    char name[32];
    snprintf(name, sizeof name, "customer %d", i);
    sqlite3_bind_text(insert, 1, name, -1, SQLITE_TRANSIENT);
    sqlite3_step(insert);
    sqlite3_reset(insert);
  }
  sqlite3_finalize(insert);
  run("commit");
  if (with_index) run("create index customers_name on customers (name)");
}

__attribute__((noinline)) static long find_customer(sqlite3_stmt *find, const char *name) {
  sqlite3_bind_text(find, 1, name, -1, SQLITE_STATIC);
  long id = sqlite3_step(find) == SQLITE_ROW ? sqlite3_column_int(find, 0) : 0;
  sqlite3_reset(find);
  return id;
}

__attribute__((noinline)) static void save_order(sqlite3_stmt *insert, long customer, long amount) {
  sqlite3_bind_int64(insert, 1, customer);
  sqlite3_bind_int64(insert, 2, amount);
  if (sqlite3_step(insert) != SQLITE_DONE) exit(1);
  sqlite3_reset(insert);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int asked(int argc, char **argv, const char *word) {
  for (int i = 2; i < argc; i++)
    if (!strcmp(argv[i], word)) return 1;
  return 0;
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  long orders = atol(argv[1]);
  int together = asked(argc, argv, "transaction");
  create_tables(asked(argc, argv, "index"));
  sqlite3_stmt *find = prepare("select id from customers where name = ?");
  sqlite3_stmt *insert = prepare("insert into orders (customer, amount) values (?, ?)");
  double start = now();
  if (together) run("begin");
  for (long i = 0; i < orders; i++) {
    char name[32];
    snprintf(name, sizeof name, "customer %ld", i * 7919 % CUSTOMERS);
    save_order(insert, find_customer(find, name), i % 1000);
  }
  if (together) run("commit");
  sqlite3_finalize(find);
  sqlite3_finalize(insert);
  printf("%ld orders in %.2f s\n", orders, now() - start);
  return sqlite3_close(database);
}
