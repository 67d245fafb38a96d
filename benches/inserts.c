// Threads that insert into one LevelDB database: inserts DIRECTORY THREADS INSERTS. Random keys of 16 bytes,
// values of 100 bytes.
#include <leveldb/c.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static leveldb_t *database;
static long inserts;

static void *insert(void *number) {
  leveldb_writeoptions_t *options = leveldb_writeoptions_create();
  char key[32], value[100], *error = NULL;
  uint64_t random = (uint64_t)(intptr_t)number * 0x9e3779b97f4a7c15u + 1;
  memset(value, 'v', sizeof value);
  for (long i = 0; i < inserts && !error; i++) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    int length = snprintf(key, sizeof key, "%016llx", (unsigned long long)random);
    memcpy(value, key, length);
    leveldb_put(database, options, key, length, value, sizeof value, &error);
  }
  leveldb_writeoptions_destroy(options);
  return error;
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  leveldb_options_t *options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  char *error = NULL;
  database = leveldb_open(options, argv[1], &error);
  if (error) return fprintf(stderr, "inserts: %s\n", error), 1;
  int threads = atoi(argv[2]);
  inserts = atol(argv[3]);
  pthread_t all[64];
  if (threads < 1 || threads > 64) return 2;
  for (intptr_t i = 0; i < threads; i++) pthread_create(&all[i], NULL, insert, (void *)i);
  int failed = 0;
  for (int i = 0; i < threads; i++) {
    void *error;
    pthread_join(all[i], &error);
    failed |= error != NULL;
  }
  leveldb_close(database);
  return failed;
}
