/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * A plugin around another, real/plugin.so beside this library: each slot does first what the environment variable
 * MORTISE_TEST_FAULT says, "SLOT KIND", and then what the other plugin's slot does. "start" and "mortise_plugin" are
 * places, too.
 */
#define _GNU_SOURCE
#include <mortise/plugin.h>

#include <dlfcn.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#pragma clang diagnostic ignored "-Winfinite-recursion"
static int deeper(volatile int *above) { /* a frame of a page, so that the guard page is met */
  volatile int frame[1024];
  frame[0] = above[0] + 1;
  return deeper(frame) + frame[0];
}

static void fault(const char *slot) {
  const char *wanted = getenv("MORTISE_TEST_FAULT"), *kind = wanted ? strchr(wanted, ' ') : NULL;
  if (!kind || strncmp(wanted, slot, strlen(slot)) != 0 || wanted + strlen(slot) != kind)
    return;
  static volatile int zero[1];
  volatile char *page = (volatile char *)(((uintptr_t)&zero + 4096) & ~(uintptr_t)4095);
  if (strcmp(++kind, "abort") == 0)
    abort();
  if (strcmp(kind, "null") == 0)
    *(volatile int *)(uintptr_t)0x10 = 1;
  if (strcmp(kind, "out of bounds") == 0)
    for (;;) /* into whatever is mapped behind it, to where nothing is */
      *page = 1, page += 4096;
  if (strcmp(kind, "stack overflow") == 0)
    deeper(zero);
  if (strcmp(kind, "exit") == 0)
    exit(0);
  if (strcmp(kind, "_exit") == 0)
    _exit(0);
  for (volatile int forever = strcmp(kind, "loop") == 0; forever;)
    ;
  if (strcmp(kind, "sleep") == 0)
    for (;;)
      pause();
  if (strcmp(kind, "memory") == 0)
    for (;;)
      *(volatile char *)memset(malloc(1 << 24), 1, 1 << 24) = 2;
}

__attribute__((constructor)) static void start(void) { fault("start"); }

/* clang-format off */
#define SLOTS(X) \
  X(initialize, Initialize) X(devices, Devices) X(propose, Propose) X(kernel_compile, Compile) X(kernel_destroy, Kernel) \
  X(constants_bind, ConstantsBind) X(constants_destroy, Constants) X(enqueue, Enqueue) \
  X(stream_create, Stream) X(stream_destroy, Stream) X(stream_wait, Stream) X(stream_status, Stream) X(stream_reset, Stream) \
  X(event_create, Event) X(event_destroy, Event) X(event_record, Event) X(event_wait, Event) X(event_query, Event) \
  X(event_synchronize, Event) X(event_elapsed, Event) X(memory_allocate, Memory) X(memory_free, Memory) X(copy, Copy) \
  X(peer, Peer) X(stream_import, Stream) X(stream_export, Stream) X(instance_create, Instance) X(instance_destroy, Instance) \
  X(frame_create, Frame) X(frame_destroy, Frame) X(kernel_save, KernelSave) X(kernel_load, Compile) \
  X(host_register, HostMemory) X(host_unregister, HostMemory) X(layout, Layout) X(infer, Infer)
/* clang-format on */

static const MortisePlugin *real;
#define WRAP(slot, args)                                                                                               \
  static MortiseStatus *slot##_first(Mortise##args##Args *asked) {                                                     \
    fault(#slot);                                                                                                      \
    return real->slot(asked);                                                                                          \
  }
SLOTS(WRAP)
static MortiseStatus *kernel_info_first(MortiseKernelInfo *asked) {
  fault("kernel_info");
  return real->kernel_info(asked);
}

MORTISE_EXPORT const MortisePlugin *mortise_plugin(void) {
  static MortisePlugin table;
  fault("mortise_plugin");
  Dl_info where;
  char path[PATH_MAX];
  if (!dladdr((const void *)&table, &where) || !where.dli_fname || !strrchr(where.dli_fname, '/'))
    return NULL;
  snprintf(path, sizeof path, "%.*s/real/plugin.so", (int)(strrchr(where.dli_fname, '/') - where.dli_fname),
           where.dli_fname);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  MortisePluginFn function = NULL;
  if (library)
    *(void **)&function = dlsym(library, MORTISE_PLUGIN_SYMBOL);
  else
    fprintf(stderr, "%s\n", dlerror());
  if (!function || !(real = function()))
    return NULL;
  table = *real;
#define SET(slot, args) table.slot = real->slot ? slot##_first : NULL;
  SLOTS(SET)
  table.kernel_info = kernel_info_first;
  return &table;
}
