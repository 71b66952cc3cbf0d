/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Preloaded into a measuring process: counts host allocations on all threads, and the bytes allocated at one time. A
 * heap block counts with the size that the heap gave it (malloc_usable_size), which is at least the requested size. A
 * mapping counts, in whole pages, if it is anonymous and writable from the start. glibc's own mappings (large heap
 * blocks, thread stacks) do not pass through here; such blocks are counted as heap blocks.
 *
 * In such a process only PyTorch's CPU tensors and buffers of libraries use posix_memalign, which distinguishes them
 * from Python's own small objects.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void *__libc_valloc(size_t);
extern void *__libc_pvalloc(size_t);
extern void __libc_free(void *);

/* Bytes added to every requested size (ALLOC_COUNT_PADDING). Code that caches freed blocks if it recognises the
 * rounding of glibc's heap does not recognise this one and caches none, so that its temporary memory is counted. */
static size_t padding;

__attribute__((constructor)) static void readPadding(void) {
  const char *text = getenv("ALLOC_COUNT_PADDING");
  padding = text ? strtoul(text, NULL, 10) : 0;
}

static _Atomic uint64_t heap, aligned, maps; /* calls */
static _Atomic int64_t live, peak;           /* bytes */

static void grow(int64_t bytes) {
  int64_t now = atomic_fetch_add_explicit(&live, bytes, memory_order_relaxed) + bytes;
  int64_t seen = atomic_load_explicit(&peak, memory_order_relaxed);
  while (now > seen &&
         !atomic_compare_exchange_weak_explicit(&peak, &seen, now, memory_order_relaxed, memory_order_relaxed))
    ;
}

/* Counts a block that the heap has allocated. */
static void *made(void *memory) {
  atomic_fetch_add_explicit(&heap, 1, memory_order_relaxed);
  grow((int64_t)malloc_usable_size(memory));
  return memory;
}

EXPORT void *malloc(size_t size) { return made(__libc_malloc(size + padding)); }
EXPORT void *calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  return made(__libc_calloc(1, bytes + padding));
}
EXPORT void *memalign(size_t alignment, size_t size) { return made(__libc_memalign(alignment, size + padding)); }
EXPORT void *aligned_alloc(size_t alignment, size_t size) { return made(__libc_memalign(alignment, size + padding)); }
EXPORT void *valloc(size_t size) { return made(__libc_valloc(size + padding)); }
EXPORT void *pvalloc(size_t size) { return made(__libc_pvalloc(size + padding)); }
EXPORT void free(void *memory) {
  atomic_fetch_sub_explicit(&live, (int64_t)malloc_usable_size(memory), memory_order_relaxed);
  __libc_free(memory);
}
EXPORT void *realloc(void *memory, size_t size) {
  const int64_t before = (int64_t)malloc_usable_size(memory);
  void *moved = __libc_realloc(memory, size ? size + padding : 0);
  atomic_fetch_add_explicit(&heap, 1, memory_order_relaxed);
  if (moved || !size) /* otherwise the old block is still there */
    grow((int64_t)malloc_usable_size(moved) - before);
  return moved;
}
EXPORT int posix_memalign(void **memory, size_t alignment, size_t size) {
  if (alignment % sizeof(void *) || alignment & (alignment - 1) || !alignment)
    return EINVAL;
  atomic_fetch_add_explicit(&aligned, 1, memory_order_relaxed);
  void *block = memalign(alignment, size);
  if (!block)
    return ENOMEM;
  *memory = block;
  return 0;
}

/* The anonymous mappings, so that unmapping a part of one, or a file, is counted correctly. */
typedef struct Range {
  uintptr_t begin, end;
} Range;
enum { rangeLimit = 1 << 16 };
static Range ranges[rangeLimit];
static size_t rangeCount;
static pthread_mutex_t rangesMutex = PTHREAD_MUTEX_INITIALIZER;

static uintptr_t pagesUp(size_t bytes) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  return (bytes + page - 1) / page * page;
}

static void addRange(uintptr_t begin, uintptr_t end) {
  if (rangeCount == rangeLimit)
    abort(); /* an incomplete count is worse than none */
  ranges[rangeCount++] = (Range){begin, end};
  grow((int64_t)(end - begin));
}

static void removeRange(uintptr_t begin, uintptr_t end) {
  for (size_t i = 0; i < rangeCount;) {
    const Range range = ranges[i];
    const uintptr_t from = range.begin > begin ? range.begin : begin, to = range.end < end ? range.end : end;
    if (from >= to) {
      ++i;
      continue;
    }
    ranges[i] = ranges[--rangeCount];
    atomic_fetch_sub_explicit(&live, (int64_t)(range.end - range.begin), memory_order_relaxed);
    if (range.begin < from)
      addRange(range.begin, from);
    if (to < range.end)
      addRange(to, range.end);
  }
}

EXPORT void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset) {
  void *memory = (void *)syscall(SYS_mmap, address, length, protection, flags, file, offset);
  if (memory == MAP_FAILED)
    return memory;
  atomic_fetch_add_explicit(&maps, 1, memory_order_relaxed);
  const uintptr_t begin = (uintptr_t)memory, end = begin + pagesUp(length);
  pthread_mutex_lock(&rangesMutex);
  removeRange(begin, end); /* MAP_FIXED replaces mappings */
  if ((flags & MAP_ANONYMOUS) && (protection & PROT_WRITE))
    addRange(begin, end);
  pthread_mutex_unlock(&rangesMutex);
  return memory;
}
EXPORT void *mmap64(void *address, size_t length, int protection, int flags, int file, off64_t offset) {
  return mmap(address, length, protection, flags, file, offset);
}
EXPORT int munmap(void *address, size_t length) {
  /* Under the lock, no other thread can map these addresses before the range is removed. */
  pthread_mutex_lock(&rangesMutex);
  const int failed = (int)syscall(SYS_munmap, address, length);
  if (!failed)
    removeRange((uintptr_t)address, (uintptr_t)address + pagesUp(length));
  pthread_mutex_unlock(&rangesMutex);
  return failed;
}
EXPORT void *mremap(void *address, size_t length, size_t newLength, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  void *wanted = flags & MREMAP_FIXED ? va_arg(rest, void *) : NULL;
  va_end(rest);
  pthread_mutex_lock(&rangesMutex);
  void *moved = (void *)syscall(SYS_mremap, address, length, newLength, flags, wanted);
  if (moved != MAP_FAILED) {
    atomic_fetch_add_explicit(&maps, 1, memory_order_relaxed);
    const int64_t before = atomic_load(&live);
    removeRange((uintptr_t)address, (uintptr_t)address + pagesUp(length));
    const int counted = atomic_load(&live) != before;
    removeRange((uintptr_t)moved, (uintptr_t)moved + pagesUp(newLength));
    if (counted)
      addRange((uintptr_t)moved, (uintptr_t)moved + pagesUp(newLength));
  }
  pthread_mutex_unlock(&rangesMutex);
  return moved;
}

EXPORT uint64_t alloc_count_heap(void) { return atomic_load(&heap); }
EXPORT uint64_t alloc_count_aligned(void) { return atomic_load(&aligned); }
EXPORT uint64_t alloc_count_maps(void) { return atomic_load(&maps); }
EXPORT int64_t alloc_count_live(void) { return atomic_load(&live); }
EXPORT int64_t alloc_count_peak(void) { return atomic_load(&peak); }
EXPORT void alloc_count_reset_peak(void) { atomic_store(&peak, atomic_load(&live)); }

typedef void *(*RunPointers)(void *program, const void *const *inputs, void *const *outputs, const int64_t *symbols);

/* Memory that a call updates, and its contents before each call. */
typedef struct State {
  void *memory;
  const void *initial;
  size_t bytes;
} State;

/* The arguments of one thread's calls. */
typedef struct Arguments {
  const void *const *inputs;
  void *const *outputs;
  const State *states;
  size_t stateCount;
} Arguments;

typedef struct Caller {
  RunPointers run;
  void *program;
  Arguments arguments;
  int calls;
  int failures;
  pthread_barrier_t *started, *warm, *counted;
} Caller;

enum { warmCalls = 50 };

static void call(Caller *caller) {
  const Arguments *arguments = &caller->arguments;
  for (size_t i = 0; i < arguments->stateCount; ++i)
    memcpy(arguments->states[i].memory, arguments->states[i].initial, arguments->states[i].bytes);
  caller->failures += caller->run(caller->program, arguments->inputs, arguments->outputs, NULL) != NULL;
}

static void *callMany(void *context) {
  Caller *caller = context;
  pthread_barrier_wait(caller->started); /* so that the warm-up has the same contention as the counted calls */
  for (int i = 0; i < warmCalls; ++i)
    call(caller);
  pthread_barrier_wait(caller->warm);
  pthread_barrier_wait(caller->warm); /* the count has been read */
  for (int i = 0; i < caller->calls; ++i)
    call(caller);
  pthread_barrier_wait(caller->counted);
  pthread_barrier_wait(caller->counted);
  return NULL;
}

/* Runs `program`, which has no symbols, from `threads` threads, `calls` times each after a warm-up; thread t passes
 * arguments[t]. Returns the number of heap blocks and mappings that the whole process made meanwhile, or -1 when a call
 * failed or `threads` is not in 1 .. 16. */
EXPORT int64_t alloc_count_program(RunPointers run, void *program, const Arguments *arguments, int threads, int calls) {
  pthread_t ids[16];
  Caller callers[16];
  pthread_barrier_t started, warm, counted;
  if (threads < 1 || threads > 16)
    return -1;
  pthread_barrier_init(&started, NULL, (unsigned)threads);
  pthread_barrier_init(&warm, NULL, (unsigned)threads + 1);
  pthread_barrier_init(&counted, NULL, (unsigned)threads + 1);
  for (int t = 0; t < threads; ++t) {
    callers[t] = (Caller){run, program, arguments[t], calls, 0, &started, &warm, &counted};
    if (pthread_create(&ids[t], NULL, callMany, &callers[t]))
      abort(); /* a half-started measurement cannot be joined */
  }
  pthread_barrier_wait(&warm);
  const uint64_t before = alloc_count_heap() + alloc_count_maps();
  pthread_barrier_wait(&warm);
  pthread_barrier_wait(&counted);
  const uint64_t after = alloc_count_heap() + alloc_count_maps();
  pthread_barrier_wait(&counted);
  int failures = 0;
  for (int t = 0; t < threads; ++t) {
    pthread_join(ids[t], NULL);
    failures += callers[t].failures;
  }
  return failures ? -1 : (int64_t)(after - before);
}
