/* Progress points for vitalfew causal run, and blocks for vitalfew interference run. One file, C and
 * C++, no library:
 *
 *     #include "vitalfew.h"
 *     ...
 *     VITALFEW_PROGRESS("request");              a unit of work is done
 *     VITALFEW_BEGIN("query"); ... VITALFEW_END("query");     how long one takes
 *
 *     VITALFEW_ENTER("insert"); ... VITALFEW_LEAVE("insert");   a block, in one thread
 *     for (...) { VITALFEW_TURN("rows", 10); ... }             ten turns of a loop are a block
 *
 * Without vitalfew one costs a test and does nothing. Programs built for Coz (coz.h) work too.
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

/* The functions of the tracer, or what does nothing. */
static inline unsigned vitalfew_block_of(const char *name) {
  union {
    void *symbol;
    unsigned (*function)(const char *);
  } found;
  found.symbol = dlsym((void *)0, "vitalfew_block");
  return found.symbol ? found.function(name) : 0;
}

static inline void vitalfew_nothing(unsigned block) { (void)block; }

typedef void (*vitalfew_edge)(unsigned);
static inline vitalfew_edge vitalfew_edge_of(const char *name) {
  union {
    void *symbol;
    vitalfew_edge function;
  } found;
  found.symbol = dlsym((void *)0, name);
  return found.symbol ? found.function : vitalfew_nothing;
}

#if defined(__cplusplus)
}
#endif

#define VITALFEW_EDGE(edge, name)                                                           \
  do {                                                                                      \
    static unsigned vitalfew_id; /* number + 1; 1: nothing is traced; 0: unknown */ \
    static vitalfew_edge vitalfew_to;                                                       \
    unsigned vitalfew_now = __atomic_load_n(&vitalfew_id, __ATOMIC_ACQUIRE);                \
    if (!vitalfew_now) {                                                                    \
      __atomic_store_n(&vitalfew_to, vitalfew_edge_of(edge), __ATOMIC_RELAXED);             \
      vitalfew_now = vitalfew_block_of(name) + 1;                                           \
      __atomic_store_n(&vitalfew_id, vitalfew_now, __ATOMIC_RELEASE);                       \
    }                                                                                       \
    if (vitalfew_now > 1)                                                                   \
      __atomic_load_n(&vitalfew_to, __ATOMIC_RELAXED)(vitalfew_now - 1);                    \
  } while (0)

/* A block of code, entered and left by one thread, in order. */
#define VITALFEW_ENTER(name) VITALFEW_EDGE("vitalfew_enter", name)
#define VITALFEW_LEAVE(name) VITALFEW_EDGE("vitalfew_leave", name)
/* At the beginning of a loop's body: `turns` turns are one block. */
#define VITALFEW_TURN(name, turns)                                                          \
  do {                                                                                      \
    static __thread unsigned vitalfew_turns;                                                \
    if (vitalfew_turns++ % (turns) == 0) {                                                  \
      VITALFEW_LEAVE(name);                                                                 \
      VITALFEW_ENTER(name);                                                                 \
    }                                                                                       \
  } while (0)

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
