/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Preloaded into a measuring process: counts host allocations on all threads. PyTorch's CPU tensors are the only users
 * of posix_memalign in it, so that they can be told from Python's own small objects.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static _Atomic uint64_t all, aligned;

EXPORT void *malloc(size_t size) {
  atomic_fetch_add_explicit(&all, 1, memory_order_relaxed);
  return __libc_malloc(size);
}
EXPORT void *calloc(size_t count, size_t size) {
  atomic_fetch_add_explicit(&all, 1, memory_order_relaxed);
  return __libc_calloc(count, size);
}
EXPORT void *realloc(void *memory, size_t size) {
  atomic_fetch_add_explicit(&all, 1, memory_order_relaxed);
  return __libc_realloc(memory, size);
}
EXPORT void *memalign(size_t alignment, size_t size) {
  atomic_fetch_add_explicit(&all, 1, memory_order_relaxed);
  return __libc_memalign(alignment, size);
}
EXPORT void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
EXPORT int posix_memalign(void **memory, size_t alignment, size_t size) {
  atomic_fetch_add_explicit(&aligned, 1, memory_order_relaxed);
  *memory = memalign(alignment, size);
  return *memory || !size ? 0 : ENOMEM;
}

EXPORT uint64_t alloc_count_aligned(void) { return atomic_load(&aligned); }

typedef void *(*RunPointers)(void *program, const void *const *inputs, void *const *outputs);

typedef struct Caller {
  RunPointers run;
  void *program;
  const void *const *inputs;
  void *const *outputs;
  int calls;
  int failures;
  pthread_barrier_t *warm, *counted;
} Caller;

static void *callMany(void *context) {
  Caller *caller = context;
  for (int i = 0; i < 10; ++i)
    caller->failures += caller->run(caller->program, caller->inputs, caller->outputs) != NULL;
  pthread_barrier_wait(caller->warm);
  pthread_barrier_wait(caller->warm); /* the count has been read */
  for (int i = 0; i < caller->calls; ++i)
    caller->failures += caller->run(caller->program, caller->inputs, caller->outputs) != NULL;
  pthread_barrier_wait(caller->counted);
  pthread_barrier_wait(caller->counted);
  return NULL;
}

/* Runs `program` from `threads` threads, `calls` times each after a warm-up, thread t writing to outputs[t]. Returns
 * the allocations made by the whole process meanwhile, or -1 when a call failed or a thread could not start. */
EXPORT int64_t alloc_count_program(RunPointers run, void *program, const void *const *inputs,
                                   void *const *const *outputs, int threads, int calls) {
  pthread_t ids[16];
  Caller callers[16];
  pthread_barrier_t warm, counted;
  if (threads < 1 || threads > 16)
    return -1;
  pthread_barrier_init(&warm, NULL, (unsigned)threads + 1);
  pthread_barrier_init(&counted, NULL, (unsigned)threads + 1);
  for (int t = 0; t < threads; ++t) {
    callers[t] = (Caller){run, program, inputs, outputs[t], calls, 0, &warm, &counted};
    if (pthread_create(&ids[t], NULL, callMany, &callers[t]))
      abort(); /* a half-started measurement cannot be joined */
  }
  pthread_barrier_wait(&warm);
  uint64_t before = atomic_load(&all);
  pthread_barrier_wait(&warm);
  pthread_barrier_wait(&counted);
  uint64_t after = atomic_load(&all);
  pthread_barrier_wait(&counted);
  int failures = 0;
  for (int t = 0; t < threads; ++t) {
    pthread_join(ids[t], NULL);
    failures += callers[t].failures;
  }
  return failures ? -1 : (int64_t)(after - before);
}
