/* Programs of several kinds in one file:
 *
 *     program [LINE [PERCENT [SECONDS [KIND [MICROSECONDS]]]]] */
#ifndef KINDS_H
#define KINDS_H

#include "causal.h"

struct kind {
  const char *name;
  void *(*threads[5])(void *);
};

/* The kind that was asked for, of `count`: the first, where none was. Ends the program if there is no such kind. */
static inline const struct kind *find_kind(int argc, char **argv, const struct kind *kinds, size_t count) {
  for (const struct kind *kind = kinds; kind < kinds + count; kind++)
    if (argc <= 4 || strcmp(kind->name, argv[4]) == 0) return kind;
  exit(2);
}

/* Work of as many nanoseconds as a piece is to take. */
static inline long piece_length(int argc, char **argv) { return 1000 * (argc > 5 ? atol(argv[5]) : 1000); }

/* Starts the threads of a kind, each with its number. */
static inline void start_threads(const struct kind *kind) {
  for (long i = 0; kind->threads[i]; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, kind->threads[i], (void *)i);
  }
}

#endif
