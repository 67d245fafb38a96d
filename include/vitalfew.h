/* Progress points for vitalfew causal run. One file, C and C++, no library:
 *
 *     #include "vitalfew.h"
 *     ...
 *     VITALFEW_PROGRESS("request");              a unit of work is done
 *     VITALFEW_BEGIN("query"); ... VITALFEW_END("query");     how long one takes
 *
 * Without vitalfew a point costs a test and does nothing. Programs built for Coz (coz.h) work too.
 * Older C libraries (before glibc 2.34) need -ldl.
 *
 * Dedicated to the public domain (CC0), so that it can be copied into any source tree. */
#ifndef VITALFEW_H
#define VITALFEW_H

#include <dlfcn.h>
#include <stddef.h>

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct {
  size_t count;
  size_t reserved;
} vitalfew_counter;

/* The counter of a point; null where nothing is measured. kind: 1 visits, 2 begin, 3 end. */
static inline vitalfew_counter *vitalfew_find(int kind, const char *name) {
  typedef vitalfew_counter *(*find)(int, const char *);
  union {
    void *symbol;
    find function;
  } found;
  found.symbol = dlsym((void *)0 /* RTLD_DEFAULT */, "_coz_get_counter");
  return found.symbol ? found.function(kind, name) : (vitalfew_counter *)0;
}

static inline void vitalfew_call(const char *name, int argument) {
  union {
    void *symbol;
    void (*function)(int);
  } found;
  found.symbol = dlsym((void *)0, name);
  if (found.symbol) found.function(argument);
}

#if defined(__cplusplus)
}
#endif

#define VITALFEW_VISIT(kind, name)                                                          \
  do {                                                                                      \
    /* 1: not looked for yet. Two threads that look at once find the same. */               \
    static vitalfew_counter *vitalfew_at = (vitalfew_counter *)1;                           \
    vitalfew_counter *vitalfew_now = __atomic_load_n(&vitalfew_at, __ATOMIC_ACQUIRE);       \
    if (vitalfew_now == (vitalfew_counter *)1) {                                            \
      vitalfew_now = vitalfew_find(kind, name);                                             \
      __atomic_store_n(&vitalfew_at, vitalfew_now, __ATOMIC_RELEASE);                       \
    }                                                                                       \
    if (vitalfew_now) __atomic_fetch_add(&vitalfew_now->count, 1, __ATOMIC_RELAXED);        \
  } while (0)

/* A unit of work is done. */
#define VITALFEW_PROGRESS(name) VITALFEW_VISIT(1, name)
/* Something begins whose latency matters; it ends, perhaps in another thread. */
#define VITALFEW_BEGIN(name) VITALFEW_VISIT(2, name)
#define VITALFEW_END(name) VITALFEW_VISIT(3, name)

/* For locks of your own that do not end in the C library: before waiting; behind it, with 1 if
 * another thread ended the wait; before waking another thread. */
#define VITALFEW_BEFORE_WAITING() vitalfew_call("_coz_pre_block", 0)
#define VITALFEW_AFTER_WAITING(woken) vitalfew_call("_coz_post_block", woken)
#define VITALFEW_BEFORE_WAKING() vitalfew_call("_coz_catch_up", 0)

#endif
