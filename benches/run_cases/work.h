#pragma once
// What the programs of known truth share.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define APART __attribute__((noinline))
#define THREADS 2

static int repaired;
static volatile unsigned long result;

/* Work that nothing is wrong with, of whoever does it: divisions, each of the result of the one before. */
#define DIGEST(start, rounds)                                             \
  ({                                                                      \
    unsigned long digest_ = (start), limit_ = (rounds);                   \
    for (unsigned long i_ = 0; i_ < limit_; i_++) {                       \
      digest_ = 0xfedcba9876543210u / (digest_ | 1) + i_;                 \
      __asm__ volatile("" : "+r"(digest_));                               \
    }                                                                     \
    digest_;                                                              \
  })

static void run_threads(void *(*first)(void *), void *(*second)(void *)) {
  pthread_t threads[THREADS];
  for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, i ? second : first, (void *)i);
  for (long i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}
