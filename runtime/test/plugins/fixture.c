/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * A plugin for tests of the loader, here and in tests/bad_input. FAULT plants one fault; 0 is none. Its kernels add:
 * every output is the sum of a region's f32 inputs, or input 0 plus 1 when there is no other.
 *
 * QUEUED: its devices have streams: work waits in the stream until stream_wait, so a missing wait gives a wrong result.
 * The device "far" also has memory of its own, and its kernels refuse any other. OP_PACK: they take memory that another
 * plugin allocated for the same device. TWINS: it has two equal devices.
 *
 * It knows opset 1, or opset 2 when OPSET is 2: then it takes regions with symbols, and makes instances unless PLAIN is
 * defined. CRASHES: it does what the environment variable MORTISE_TEST_CRASH says, "PLACE KIND". SAVING: its kernels
 * can be saved and loaded; the step of a loaded one is called "loaded sum". OPS: it declares an op of its own (ops.h).
 *
 * Options of a region: "fail" has its calls fail, and "refuse" has constants_bind refuse "always", or constants that
 * begin with a number below 0.
 */
#include <mortise/plugin.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

enum {
  NONE,
  WRONG_MAGIC,
  NULL_SLOT,
  WRONG_ABI,
  WRONG_LAYOUT,
  NULL_TABLE,
  GARBAGE_TABLE,
  SMALL_TABLE,
  FAILS_TO_INITIALIZE,
  GARBAGE_ALIGNMENT,
  NULL_DEVICE,
  UNDECLARED_KIND,
  GARBAGE_DEVICES,
  HALF_OF_STREAMS,
  HALF_OF_INSTANCES,
  HALF_OF_SAVING,
  GARBAGE_INSTANCE,
  GARBAGE_STATUS,
  GARBAGE_CANDIDATES,
  GARBAGE_CANDIDATE,
  GARBAGE_NODES,
  GARBAGE_LOWERING,
  GARBAGE_PAIRS,
  GARBAGE_DETAIL,
  GARBAGE_SLOT,
  GARBAGE_STEP,
  GARBAGE_STEP_NAME,
  HUGE_WORKSPACE,
  FAILS_TO_SAVE,
  REFUSES_SAVED,
  LOADS_NOTHING,
  NO_DEVICE,
  FAST_MATH,
  CRASHES
};

#ifndef FAULT
#define FAULT NONE
#endif
#ifndef OPSET
#define OPSET 1
#endif
#ifndef TWINS
#define TWINS 0
#endif
#ifndef SAVING
#define SAVING 0
#endif
static void *write_nowhere(void *unused) {
  (void)unused;
  *(volatile int *)(uintptr_t)0x10 = 1;
  return NULL;
}

/* Kinds: "null", "abort", "loop", and "thread", which is "null" in a thread of the plugin's own. */
static void crash(const char *place) {
  if (FAULT != CRASHES)
    return;
  const char *wanted = getenv("MORTISE_TEST_CRASH");
  const size_t length = strlen(place);
  if (!wanted || strncmp(wanted, place, length) != 0 || wanted[length] != ' ')
    return;
  const char *kind = wanted + length + 1;
  if (strcmp(kind, "null") == 0)
    write_nowhere(NULL);
  if (strcmp(kind, "abort") == 0)
    abort();
  for (volatile int forever = strcmp(kind, "loop") == 0; forever;)
    ;
  pthread_t thread;
  if (strcmp(kind, "thread") == 0 && pthread_create(&thread, NULL, write_nowhere, NULL) == 0)
    pthread_join(thread, NULL);
}

__attribute__((constructor)) static void start(void) { crash("start"); }
#if defined(__x86_64__)
/* What -ffast-math links into a library. */
__attribute__((constructor)) static void flush_subnormals(void) {
  if (FAULT == FAST_MATH)
    _mm_setcsr(_mm_getcsr() | 0x8040);
}
#endif
#if OPSET == 2 && !defined(PLAIN)
#define INSTANCES 1
#else
#define INSTANCES 0
#endif
#ifdef OP_PACK
#define SAME_AS "far:0"
#else
#define SAME_AS NULL
#endif
#ifdef NAME
#elif defined(QUEUED)
#define NAME "queued"
#else
#define NAME "fixture"
#endif

#ifndef KIND
#define KIND NAME
#endif

static const MortiseHost *host;
static int initialized;
#define NOWHERE ((void *)(uintptr_t)0x1230) /* no memory is there */

static MortiseStatus *invalid(const char *message) { return host->status_create(MORTISE_INVALID_ARGUMENT, message); }

static MortiseStatus *initialize(MortiseInitializeArgs *args) {
  crash("initialize");
  host = args->host;
  if (initialized++)
    return invalid("initialize was called twice");
  static uint64_t garbage[64];
  if (FAULT == GARBAGE_STATUS)
    return (MortiseStatus *)garbage;
  return FAULT == FAILS_TO_INITIALIZE ? invalid("expected a flux capacitor, found none") : NULL;
}

static MortiseStatus *devices(MortiseDevicesArgs *args) {
  crash("devices");
  if (FAULT == NO_DEVICE)
    return host->status_create(MORTISE_NOT_FOUND, "expected a flux capacitor, found none; plug one in");
  static int first, second, third;
  // Constant, because several threads may compile at once.
  static const MortiseSpace ordinary = {.struct_size = sizeof ordinary,
                                        .name = "host",
                                        .kind = MORTISE_SPACE_HOST,
                                        .alignment = FAULT == GARBAGE_ALIGNMENT ? 7 : 64};
  static const MortiseSpace own = {
      .struct_size = sizeof own, .name = "own", .kind = MORTISE_SPACE_DEVICE, .alignment = 256};
  static const MortiseSpace *const ordinary_only[] = {&ordinary}, *const own_only[] = {&own};
  static const MortiseDeviceInfo near = {.struct_size = sizeof near,
                                         .device = (MortiseDevice *)&first,
                                         .kind = FAULT == UNDECLARED_KIND ? "surprise" : KIND,
                                         .name = "a test device",
                                         .automatic = 1,
                                         .threads = 1,
                                         .space_count = 1,
                                         .spaces = ordinary_only,
                                         .peak_flops = 1e9,
                                         .bandwidth = 1e9,
                                         .features = "",
                                         .fingerprint = SAVING ? "fixture chip 1" : NULL};
  static const MortiseDeviceInfo far = {.struct_size = sizeof far,
                                        .device = (MortiseDevice *)&second,
                                        .kind = "far",
                                        .name = "a test device with memory of its own",
                                        .threads = 1,
                                        .space_count = 1,
                                        .spaces = own_only,
                                        .features = "",
                                        .same_as = SAME_AS};
  static const MortiseDeviceInfo twin = {.struct_size = sizeof twin,
                                         .device = (MortiseDevice *)&third,
                                         .kind = NAME,
                                         .name = "another of the same kind",
                                         .ordinal = 1,
                                         .automatic = 1,
                                         .threads = 1,
                                         .space_count = 1,
                                         .spaces = ordinary_only,
                                         .peak_flops = 1e9,
                                         .bandwidth = 1e9,
                                         .features = ""};
  static const MortiseDeviceInfo *const list[] = {FAULT == NULL_DEVICE ? NULL : &near, TWINS ? &twin : &far};
  args->devices = FAULT == GARBAGE_DEVICES ? (const MortiseDeviceInfo *const *)(uintptr_t)0x1230 : list;
#ifdef QUEUED
  args->device_count = 2;
#else
  args->device_count = TWINS ? 2 : 1;
#endif
  return NULL;
}

static MortiseStatus *propose(MortiseProposeArgs *args) {
  crash("propose");
  const uint32_t last[] = {(uint32_t)args->graph->node_count - 1};
  if (FAULT == GARBAGE_CANDIDATE)
    args->add(args->sink, NOWHERE);
  if (FAULT == GARBAGE_DETAIL)
    args->refuse(args->sink, last[0], MORTISE_REASON_OP, NOWHERE);
  if (FAULT == GARBAGE_NODES || FAULT == GARBAGE_LOWERING || FAULT == GARBAGE_PAIRS) {
    const MortiseCandidate candidate = {.struct_size = sizeof candidate,
                                        .lowering = FAULT == GARBAGE_LOWERING ? (const char *)NOWHERE : NAME ".all",
                                        .nodes = FAULT == GARBAGE_NODES ? (const uint32_t *)NOWHERE : last,
                                        .node_count = 1,
                                        .cost_ns = 1,
                                        .in_place = NOWHERE,
                                        .in_place_count = FAULT == GARBAGE_PAIRS};
    args->add(args->sink, &candidate);
  }
  if (FAULT == GARBAGE_CANDIDATES) {
    const uint32_t nodes[] = {0, 4000000000u};
    const MortiseCandidate candidate = {
        .struct_size = sizeof candidate, .lowering = NAME ".all", .nodes = nodes, .node_count = 2, .cost_ns = -1.0};
    args->add(args->sink, &candidate);
  }
  return NULL;
}

/* ---- Kernels */

typedef struct Kernel {
  size_t inputs, outputs, count;
  int far;                 /* its pointers must lie in the device's memory */
  int broken;              /* option "fail" */
  const char *refuses;     /* option "refuse", or NULL */
  const MortiseType *type; /* of every output */
  char name[32];
  MortiseStep step;
  const MortiseStep *steps[1];
  MortiseExprStep workspace;
} Kernel;

/* Evaluates sums and products, the only operations in the extents of the tests. */
static int64_t evaluate(const MortiseExpr *expr, const int64_t *symbols) {
  int64_t stack[16] = {0};
  size_t depth = 0;
  for (size_t i = 0; i < expr->count; ++i) {
    const MortiseExprStep *step = &expr->steps[i];
    if (step->op == MORTISE_EXPR_CONST)
      stack[depth++] = step->value;
    else if (step->op == MORTISE_EXPR_SYMBOL)
      stack[depth++] = symbols[step->value];
    else {
      --depth;
      stack[depth - 1] =
          step->op == MORTISE_EXPR_ADD ? stack[depth - 1] + stack[depth] : stack[depth - 1] * stack[depth];
    }
  }
  return stack[0];
}

static size_t count_of(const MortiseType *type, const int64_t *symbols) {
  size_t count = 1;
  for (int32_t i = 0; i < type->rank; ++i)
    count *= (size_t)(type->dims[i] == MORTISE_DYNAMIC ? evaluate(&type->dim_exprs[i], symbols) : type->dims[i]);
  return count;
}

static MortiseStep step_of(const char *name, const char *lowering) {
  static const uint32_t node = 0;
  return (MortiseStep){
      .struct_size = sizeof(MortiseStep), .name = name, .lowering = lowering, .nodes = &node, .node_count = 1};
}

static MortiseStatus *kernel_compile(MortiseCompileArgs *args) {
  crash("kernel_compile");
  const MortiseGraph *graph = args->region;
  const void *bytes;
  size_t size;
  MortiseStatus *status = host->graph_bytes(graph, &bytes, &size);
  if (status)
    return status;
  if (graph->symbol_count && OPSET == 1)
    return invalid("expected a region without symbols");
  Kernel *kernel = calloc(1, sizeof *kernel);
  kernel->inputs = graph->input_count;
  kernel->outputs = graph->output_count;
  kernel->type = graph->outputs[0]->type;
  const int64_t no_symbols[1] = {0};
  kernel->count = graph->symbol_count ? 0 : count_of(kernel->type, no_symbols);
  static int compiled;
  if (OPSET == 2)
    snprintf(kernel->name, sizeof kernel->name, "sum %d", __atomic_add_fetch(&compiled, 1, __ATOMIC_RELAXED));
  else
    strcpy(kernel->name, "sum");
  kernel->step = step_of(kernel->name, "fixture.loop");
  kernel->steps[0] = FAULT == GARBAGE_STEP ? NOWHERE : &kernel->step;
  if (FAULT == GARBAGE_STEP_NAME)
    kernel->step.name = NOWHERE;
  for (size_t i = 0; i < args->option_count; ++i)
    if (strcmp(args->options[i].key, "fail") == 0)
      kernel->broken = 1;
    else if (strcmp(args->options[i].key, "refuse") == 0)
      kernel->refuses = strcmp(args->options[i].value, "always") == 0 ? "always" : "negative";
#ifdef QUEUED
  MortiseDevicesArgs all;
  devices(&all);
  kernel->far = args->device == all.devices[1]->device;
#endif
  kernel->workspace.op = MORTISE_EXPR_CONST;
  kernel->workspace.value = FAULT == HUGE_WORKSPACE ? INT64_C(1) << 46 : 100;
  args->kernel = (MortiseKernel *)kernel;
  return NULL;
}

#if SAVING
static const char saved[] = "a saved sum";

/* In two pieces, as a plugin may. */
static MortiseStatus *kernel_save(MortiseKernelSaveArgs *args) {
  args->write(args->sink, saved, 2);
  if (FAULT == FAILS_TO_SAVE)
    return invalid("expected ink, found none");
  args->write(args->sink, saved + 2, sizeof saved - 2);
  return NULL;
}

static MortiseStatus *kernel_load(MortiseCompileArgs *args) {
  if (FAULT == LOADS_NOTHING)
    return NULL;
  if (FAULT == REFUSES_SAVED || args->saved_bytes != sizeof saved || memcmp(args->saved, saved, sizeof saved) != 0)
    return invalid("expected kernels of this week, found older ones");
  MortiseStatus *status = kernel_compile(args);
  if (status == NULL) {
    Kernel *kernel = (Kernel *)args->kernel;
    strcpy(kernel->name, "loaded sum");
  }
  return status;
}
#endif

static MortiseStatus *kernel_info(MortiseKernelInfo *args) {
  Kernel *kernel = (Kernel *)args->kernel;
  args->workspace.steps = &kernel->workspace;
  args->workspace.count = 1;
  args->steps = kernel->steps;
  args->step_count = 1;
  return NULL;
}

static MortiseStatus *kernel_destroy(MortiseKernelArgs *args) {
  free(args->kernel);
  return NULL;
}

/* Constants are read in place, so only the list of pointers is kept. */
static MortiseStatus *constants_bind(MortiseConstantsBindArgs *args) {
  const Kernel *kernel = (Kernel *)args->kernel;
  const size_t bytes = kernel->inputs * sizeof(MortiseAddress);
  int refused = kernel->refuses && strcmp(kernel->refuses, "always") == 0;
  for (size_t i = 0; i < kernel->inputs && kernel->refuses; ++i)
    refused |= args->inputs[i] && *(const float *)(uintptr_t)args->inputs[i] < 0;
  if (refused)
    return host->status_create(MORTISE_UNSUPPORTED, "expected room for weights");
  args->constants = malloc(bytes + 1);
  memcpy(args->constants, args->inputs, bytes);
  args->packed_bytes = bytes;
  return NULL;
}

static MortiseStatus *constants_destroy(MortiseConstantsArgs *args) {
  free(args->constants);
  return NULL;
}

typedef struct Sum {
  const float *const *inputs;
  size_t input_count;
  float *output;
} Sum;

static void sum(void *context, int64_t begin, int64_t end) {
  const Sum *work = context;
  if (begin != 0)
    crash("task");
  for (int64_t i = begin; i < end; ++i) {
    float total = work->input_count == 1 ? 1.0f : 0.0f;
    for (size_t j = 0; j < work->input_count; ++j)
      total += work->inputs[j][i];
    work->output[i] = total;
  }
}

static MortiseStatus *compute(const Kernel *kernel, size_t count, const MortiseAddress *constants,
                              const MortiseAddress *inputs, const MortiseAddress *outputs) {
  const float *sources[16];
  if (kernel->broken)
    return host->status_create(MORTISE_DEVICE_LOST, "the device caught fire");
  for (size_t i = 0; i < kernel->inputs; ++i)
    sources[i] = (const float *)(uintptr_t)(constants[i] ? constants[i] : inputs[i]);
  for (size_t i = 0; i < kernel->outputs; ++i) {
    Sum work = {sources, kernel->inputs, (float *)(uintptr_t)outputs[i]};
    host->parallel_for((int64_t)count, 1024, sum, &work);
  }
  return NULL;
}

#ifndef QUEUED

#if OPSET == 2
struct MortiseInstance {
  const Kernel *kernel;
  const MortiseConstants *constants;
  size_t count;
  int64_t symbol;
  MortiseStep step;
  const MortiseStep *steps[1];
};

#if INSTANCES
static MortiseStatus *instance_create(MortiseInstanceArgs *args) {
  const Kernel *kernel = (const Kernel *)args->kernel;
  MortiseInstance *instance = calloc(1, sizeof *instance);
  instance->kernel = kernel;
  instance->constants = args->constants;
  instance->count = count_of(kernel->type, args->symbols);
  instance->symbol = args->symbols[0];
  instance->step = step_of(kernel->name, "fixture.instance");
  instance->step.bytes = 4.0 * (double)instance->count;
  instance->steps[0] = &instance->step;
  args->instance = instance;
  args->workspace_bytes = FAULT == GARBAGE_INSTANCE ? UINT64_MAX : 100;
  args->packed_bytes = 8;
  args->steps = instance->steps;
  args->step_count = 1;
  return NULL;
}

static MortiseStatus *instance_destroy(MortiseInstanceArgs *args) {
  if (args->instance->kernel != (const Kernel *)args->kernel || args->instance->constants != args->constants)
    abort();
  free(args->instance);
  return NULL;
}
#endif
#endif

static MortiseStatus *enqueue(MortiseEnqueueArgs *args) {
  const Kernel *kernel = (const Kernel *)args->kernel;
  size_t count = kernel->count;
#if OPSET == 2
  if (kernel->count == 0) {
    if (INSTANCES != (args->instance != NULL) || !args->symbols)
      return invalid("expected an instance where there are instances, and the symbols' values");
    if (args->instance && (args->instance->symbol != args->symbols[0] || args->instance->kernel != kernel ||
                           args->instance->constants != args->constants))
      return invalid("expected the instance of these values and constants, found another");
    count = count_of(kernel->type, args->symbols);
  }
#endif
  if (args->stream || !args->workspace || args->workspace % 64)
    return invalid("expected no stream and a workspace");
  crash("enqueue");
  memset((void *)(uintptr_t)args->workspace, 0xff, 100);
  if (args->step_ns)
    args->step_ns[0] += 1000;
  return compute(kernel, count, (const MortiseAddress *)args->constants, args->inputs, args->outputs);
}

#else

/* ---- Streams: tasks run when stream_wait is called */

typedef struct Task {
  const Kernel *kernel;
  const MortiseAddress *constants;
  MortiseAddress inputs[16], outputs[16];
  MortiseAddress target, source; /* of a copy */
  size_t bytes;
} Task;

struct MortiseStream {
  Task tasks[64];
  size_t count;
  int lost;
};

struct MortiseEvent {
  MortiseStream *stream; /* NULL without a mark */
};

static MortiseAddress far_begin[64], far_end[64]; /* the device's memory */

static int is_far(MortiseAddress address) {
  for (size_t i = 0; i < 64; ++i)
    if (address >= far_begin[i] && address < far_end[i])
      return 1;
  return 0;
}

static MortiseStatus *next_task(MortiseStream *stream, Task **task) {
  if (!stream || stream->lost || stream->count == 64)
    return host->status_create(MORTISE_DEVICE_LOST, "the stream is lost, missing or full");
  *task = &stream->tasks[stream->count++];
  memset(*task, 0, sizeof **task);
  return NULL;
}

static MortiseStatus *enqueue(MortiseEnqueueArgs *args) {
  const Kernel *kernel = (Kernel *)args->kernel;
  Task *task;
  MortiseStatus *status = next_task(args->stream, &task);
  if (status)
    return status;
  task->kernel = kernel;
  task->constants = (const MortiseAddress *)args->constants;
  for (size_t i = 0; i < kernel->inputs; ++i)
    task->inputs[i] = args->inputs[i];
  for (size_t i = 0; i < kernel->outputs; ++i)
    task->outputs[i] = args->outputs[i];
#ifndef OP_PACK
  for (size_t i = 0; i < kernel->inputs; ++i)
    if (args->inputs[i] && is_far(args->inputs[i]) != kernel->far)
      return invalid("an input lies in the wrong memory");
  for (size_t i = 0; i < kernel->outputs; ++i)
    if (is_far(args->outputs[i]) != kernel->far)
      return invalid("an output lies in the wrong memory");
#endif
  return NULL;
}

static MortiseStatus *stream_create(MortiseStreamArgs *args) {
  args->stream = calloc(1, sizeof *args->stream);
  return NULL;
}
static MortiseStatus *stream_destroy(MortiseStreamArgs *args) {
  free(args->stream);
  return NULL;
}
static MortiseStatus *run_all(MortiseStream *stream) {
  for (size_t i = 0; i < stream->count && !stream->lost; ++i) {
    const Task *task = &stream->tasks[i];
    MortiseStatus *status = NULL;
    if (task->kernel)
      status = compute(task->kernel, task->kernel->count, task->constants, task->inputs, task->outputs);
    else
      memcpy((void *)(uintptr_t)task->target, (const void *)(uintptr_t)task->source, task->bytes);
    host->status_destroy(status);
    stream->lost |= status != NULL;
  }
  stream->count = 0;
  return stream->lost ? host->status_create(MORTISE_DEVICE_LOST, "the device caught fire") : NULL;
}
static MortiseStatus *stream_status(MortiseStreamArgs *args) {
  return args->stream->lost ? host->status_create(MORTISE_DEVICE_LOST, "the device caught fire") : NULL;
}

static MortiseStatus *stream_reset(MortiseStreamArgs *args) {
  args->stream->lost = 0;
  return NULL;
}
static MortiseStatus *stream_wait(MortiseStreamArgs *args) { return run_all(args->stream); }

/* The mark is the stream's end: to wait for more than was asked is allowed. */
static MortiseStatus *event_create(MortiseEventArgs *args) {
  args->event = calloc(1, sizeof *args->event);
  return NULL;
}
static MortiseStatus *event_destroy(MortiseEventArgs *args) {
  free(args->event);
  return NULL;
}
static MortiseStatus *event_record(MortiseEventArgs *args) {
  args->event->stream = args->stream;
  return NULL;
}
static MortiseStatus *event_synchronize(MortiseEventArgs *args) {
  return args->event->stream ? run_all(args->event->stream) : NULL;
}
static MortiseStatus *event_query(MortiseEventArgs *args) {
  args->happened = !args->event->stream || args->event->stream->count == 0;
  return NULL;
}
static MortiseStatus *event_elapsed(MortiseEventArgs *args) {
  (void)args;
  return invalid("this device has no clock");
}

static MortiseStatus *memory_allocate(MortiseMemoryArgs *args) {
  args->address = (uintptr_t)aligned_alloc(256, (args->bytes + 255) / 256 * 256);
  for (size_t i = 0; i < 64; ++i)
    if (!far_begin[i]) {
      far_begin[i] = args->address;
      far_end[i] = far_begin[i] + args->bytes;
      return NULL;
    }
  return invalid("the test device has room for 64 allocations");
}
static MortiseStatus *memory_free(MortiseMemoryArgs *args) {
  for (size_t i = 0; i < 64; ++i)
    if (far_begin[i] == args->address)
      far_begin[i] = far_end[i] = 0;
  free((void *)(uintptr_t)args->address);
  return NULL;
}
static MortiseStatus *copy(MortiseCopyArgs *args) {
  Task *task;
  MortiseStatus *status = next_task(args->stream, &task);
  if (status)
    return status;
  task->target = args->target;
  task->source = args->source;
  task->bytes = args->bytes;
  return is_far(args->target) == (args->target_device != NULL) && is_far(args->source) == (args->source_device != NULL)
             ? NULL
             : invalid("a copy has its ends in the wrong memories");
}

#endif

#ifdef OPS
#include "ops.h"
#endif

MORTISE_EXPORT const MortisePlugin *mortise_plugin(void) {
  static const uint64_t hashes[] = MORTISE_ABI_LAYOUT_HASHES, bad[] = {~MORTISE_ABI_LAYOUT_HASH_3};
  static const MortisePlugin table = {
      .struct_size = FAULT == SMALL_TABLE ? 40 : sizeof table,
      .magic = FAULT == WRONG_MAGIC ? 42 : MORTISE_PLUGIN_MAGIC,
      .abi_oldest = FAULT == WRONG_ABI ? 90 : MORTISE_ABI_OLDEST,
      .abi_newest = FAULT == WRONG_ABI ? 99 : MORTISE_ABI_REVISION,
      .layout_hashes = FAULT == WRONG_LAYOUT ? bad : hashes,
      .name = NAME,
      .vendor = "tests",
      .version = "1.0",
      .opset = OPSET,
      .initialize = initialize,
      .devices = devices,
      .propose = FAULT == NULL_SLOT ? NULL : propose,
      .kernel_compile = kernel_compile,
      .kernel_info = kernel_info,
      .kernel_destroy = kernel_destroy,
#if SAVING
      .kernel_save = kernel_save,
      .kernel_load = FAULT == HALF_OF_SAVING ? NULL : kernel_load,
#endif
      .constants_bind = constants_bind,
      .constants_destroy = constants_destroy,
      .enqueue = FAULT == NULL_SLOT ? NULL : enqueue,
#ifdef QUEUED
      .stream_create = stream_create,
      .stream_destroy = stream_destroy,
      .stream_wait = stream_wait,
      .stream_status = stream_status,
      .stream_reset = stream_reset,
      .event_create = event_create,
      .event_destroy = event_destroy,
      .event_record = event_record,
      .event_wait = event_synchronize,
      .event_query = event_query,
      .event_synchronize = event_synchronize,
      .event_elapsed = event_elapsed,
      .memory_allocate = memory_allocate,
      .memory_free = memory_free,
      .copy = copy,
#else
#if INSTANCES
      .instance_create = instance_create,
      .instance_destroy = FAULT == HALF_OF_INSTANCES ? NULL : instance_destroy,
#endif
      .stream_create = FAULT == HALF_OF_STREAMS ? (MortiseStatus * (*)(MortiseStreamArgs *)) initialize : NULL,
#endif
#ifdef OPS
      .ops = own_ops,
      .op_count = 1,
      .infer = infer,
#endif
      .peer = FAULT == GARBAGE_SLOT ? (MortiseStatus * (*)(MortisePeerArgs *))(uintptr_t)0x1230 : NULL,
  };
  if (FAULT == GARBAGE_TABLE)
    return (const MortisePlugin *)(uintptr_t)0x1230;
  return FAULT == NULL_TABLE ? NULL : &table;
}
