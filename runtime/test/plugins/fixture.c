/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * A plugin for the loader's tests: FAULT plants one fault, 0 none. Its kernels add: every output is the sum of a
 * region's f32 inputs, or input 0 plus 1 when there is no other. QUEUED gives it devices with streams: work waits in
 * the stream until stream_wait, so that a missing wait shows as a wrong result; its device "far" has memory of its own
 * as well.
 */
#include <mortise/plugin.h>

#include <stdlib.h>
#include <string.h>

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
  GARBAGE_STATUS
};

#ifndef FAULT
#define FAULT NONE
#endif
#ifdef QUEUED
#define NAME "queued"
#else
#define NAME "fixture"
#endif

static const MortiseHost *host;
static int initialized;

static MortiseStatus *invalid(const char *message) { return host->status_create(MORTISE_INVALID_ARGUMENT, message); }

static MortiseStatus *initialize(MortiseInitializeArgs *args) {
  host = args->host;
  if (initialized++)
    return invalid("initialize was called twice");
  static uint64_t garbage[64];
  if (FAULT == GARBAGE_STATUS)
    return (MortiseStatus *)garbage;
  return FAULT == FAILS_TO_INITIALIZE ? invalid("expected a flux capacitor, found none") : NULL;
}

static MortiseStatus *devices(MortiseDevicesArgs *args) {
  static int first, second;
  static MortiseDeviceInfo near = {.struct_size = sizeof near,
                                   .kind = NAME,
                                   .name = "a test device",
                                   .host_memory = 1,
                                   .threads = 1,
                                   .alignment = 64,
                                   .peak_flops = 1e9,
                                   .bandwidth = 1e9,
                                   .automatic = 1,
                                   .features = ""};
  static MortiseDeviceInfo far = {.struct_size = sizeof far,
                                  .kind = "far",
                                  .name = "a test device with memory of its own",
                                  .threads = 1,
                                  .alignment = 256,
                                  .features = ""};
  static const MortiseDeviceInfo *list[] = {&near, &far};
  near.device = (MortiseDevice *)&first;
  far.device = (MortiseDevice *)&second;
  if (FAULT == GARBAGE_ALIGNMENT)
    near.alignment = 7;
  if (FAULT == UNDECLARED_KIND)
    near.kind = "surprise";
  if (FAULT == NULL_DEVICE)
    list[0] = NULL;
  args->devices = FAULT == GARBAGE_DEVICES ? (const MortiseDeviceInfo *const *)(uintptr_t)0x1230 : list;
#ifdef QUEUED
  args->device_count = 2;
#else
  args->device_count = 1;
#endif
  return NULL;
}

static MortiseStatus *propose(MortiseProposeArgs *args) {
  (void)args;
  return NULL;
}

/* ---- Kernels */

typedef struct Kernel {
  size_t inputs, outputs, count;
  int far;    /* its pointers have to lie in the device's memory */
  int broken; /* option "fail" */
  MortiseExprStep workspace;
} Kernel;

static MortiseStatus *kernel_compile(MortiseCompileArgs *args) {
  const MortiseGraph *graph = args->region;
  const void *bytes;
  size_t size;
  MortiseStatus *status = host->graph_bytes(graph, &bytes, &size);
  if (status)
    return status;
  Kernel *kernel = calloc(1, sizeof *kernel);
  kernel->inputs = graph->input_count;
  kernel->outputs = graph->output_count;
  kernel->count = 1;
  for (int32_t i = 0; i < graph->outputs[0]->type->rank; ++i)
    kernel->count *= (size_t)graph->outputs[0]->type->dims[i];
  for (size_t i = 0; i < args->option_count; ++i)
    kernel->broken |= strcmp(args->options[i].key, "fail") == 0;
#ifdef QUEUED
  MortiseDevicesArgs all;
  devices(&all);
  kernel->far = args->device == all.devices[1]->device;
#endif
  kernel->workspace.op = MORTISE_EXPR_CONST;
  kernel->workspace.value = 100;
  args->kernel = (MortiseKernel *)kernel;
  return NULL;
}

static MortiseStatus *kernel_info(MortiseKernelInfo *args) {
  Kernel *kernel = (Kernel *)args->kernel;
  static const uint32_t node = 0;
  static const MortiseStep step = {
      .struct_size = sizeof step, .name = "sum", .lowering = "fixture.loop", .nodes = &node, .node_count = 1};
  static const MortiseStep *const steps[] = {&step};
  args->workspace.steps = &kernel->workspace;
  args->workspace.count = 1;
  args->steps = steps;
  args->step_count = 1;
  return NULL;
}

static MortiseStatus *kernel_destroy(MortiseKernelArgs *args) {
  free(args->kernel);
  return NULL;
}

/* Constants are read in place: the list of pointers is all there is to keep. */
static MortiseStatus *constants_bind(MortiseConstantsBindArgs *args) {
  const size_t bytes = ((Kernel *)args->kernel)->inputs * sizeof(void *);
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
  for (int64_t i = begin; i < end; ++i) {
    float total = work->input_count == 1 ? 1.0f : 0.0f;
    for (size_t j = 0; j < work->input_count; ++j)
      total += work->inputs[j][i];
    work->output[i] = total;
  }
}

static MortiseStatus *compute(const Kernel *kernel, const void *const *constants, const void *const *inputs,
                              void *const *outputs) {
  const float *sources[16];
  if (kernel->broken)
    return host->status_create(MORTISE_DEVICE_LOST, "the device caught fire");
  for (size_t i = 0; i < kernel->inputs; ++i)
    sources[i] = constants[i] ? constants[i] : inputs[i];
  for (size_t i = 0; i < kernel->outputs; ++i) {
    Sum work = {sources, kernel->inputs, outputs[i]};
    host->parallel_for((int64_t)kernel->count, 1024, sum, &work);
  }
  return NULL;
}

#ifndef QUEUED

static MortiseStatus *enqueue(MortiseEnqueueArgs *args) {
  if (args->stream || !args->workspace || (uintptr_t)args->workspace % 64)
    return invalid("expected no stream and a workspace");
  memset(args->workspace, 0xff, 100);
  if (args->step_ns)
    args->step_ns[0] += 1000;
  return compute((Kernel *)args->kernel, (const void *const *)args->constants, args->inputs, args->outputs);
}

#else

/* ---- Streams: tasks wait until somebody waits for the stream */

typedef struct Task {
  const Kernel *kernel;
  const void *const *constants;
  const void *inputs[16];
  void *outputs[16];
  void *target; /* of a copy */
  const void *source;
  size_t bytes;
} Task;

struct MortiseStream {
  Task tasks[64];
  size_t count;
  int lost;
};

static char *far_begin[64], *far_end[64]; /* the device's memory */

static int is_far(const void *pointer) {
  for (size_t i = 0; i < 64; ++i)
    if ((const char *)pointer >= far_begin[i] && (const char *)pointer < far_end[i])
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
  task->constants = (const void *const *)args->constants;
  for (size_t i = 0; i < kernel->inputs; ++i)
    task->inputs[i] = args->inputs[i];
  for (size_t i = 0; i < kernel->outputs; ++i)
    task->outputs[i] = args->outputs[i];
  for (size_t i = 0; i < kernel->inputs; ++i)
    if (args->inputs[i] && is_far(args->inputs[i]) != kernel->far)
      return invalid("an input lies in the wrong memory");
  for (size_t i = 0; i < kernel->outputs; ++i)
    if (is_far(args->outputs[i]) != kernel->far)
      return invalid("an output lies in the wrong memory");
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
static MortiseStatus *stream_wait(MortiseStreamArgs *args) {
  MortiseStream *stream = args->stream;
  for (size_t i = 0; i < stream->count && !stream->lost; ++i) {
    const Task *task = &stream->tasks[i];
    MortiseStatus *status = NULL;
    if (task->kernel)
      status = compute(task->kernel, task->constants, task->inputs, task->outputs);
    else
      memcpy(task->target, task->source, task->bytes);
    host->status_destroy(status);
    stream->lost |= status != NULL;
  }
  stream->count = 0;
  return stream->lost ? host->status_create(MORTISE_DEVICE_LOST, "the device caught fire") : NULL;
}
static MortiseStatus *stream_reset(MortiseStreamArgs *args) {
  args->stream->lost = 0;
  return NULL;
}
static MortiseStatus *event(MortiseStreamArgs *args) {
  (void)args;
  return invalid("events are not tested here");
}

static MortiseStatus *memory_allocate(MortiseMemoryArgs *args) {
  args->memory = aligned_alloc(256, (args->bytes + 255) / 256 * 256);
  for (size_t i = 0; i < 64; ++i)
    if (!far_begin[i]) {
      far_begin[i] = args->memory;
      far_end[i] = far_begin[i] + args->bytes;
      return NULL;
    }
  return invalid("the test device has room for 64 allocations");
}
static MortiseStatus *memory_free(MortiseMemoryArgs *args) {
  for (size_t i = 0; i < 64; ++i)
    if (far_begin[i] == args->memory)
      far_begin[i] = far_end[i] = NULL;
  free(args->memory);
  return NULL;
}
static MortiseStatus *copy(MortiseMemoryArgs *args, const void *far, const void *near) {
  Task *task;
  MortiseStatus *status = next_task(args->stream, &task);
  if (status)
    return status;
  task->target = args->memory;
  task->source = args->source;
  task->bytes = args->bytes;
  return is_far(far) && !is_far(near) ? NULL : invalid("a copy has its ends in the wrong memories");
}
static MortiseStatus *copy_to_device(MortiseMemoryArgs *args) { return copy(args, args->memory, args->source); }
static MortiseStatus *copy_to_host(MortiseMemoryArgs *args) { return copy(args, args->source, args->memory); }

#endif

MORTISE_EXPORT const MortisePlugin *mortise_plugin(void) {
  static const uint64_t good[] = {MORTISE_ABI_LAYOUT_HASH_1}, bad[] = {~MORTISE_ABI_LAYOUT_HASH_1};
  static const MortisePlugin table = {
      .struct_size = FAULT == SMALL_TABLE ? 40 : sizeof table,
      .magic = FAULT == WRONG_MAGIC ? 42 : MORTISE_PLUGIN_MAGIC,
      .abi_oldest = FAULT == WRONG_ABI ? 90 : 1,
      .abi_newest = FAULT == WRONG_ABI ? 99 : 1,
      .layout_hashes = FAULT == WRONG_LAYOUT ? bad : good,
      .name = NAME,
      .vendor = "tests",
      .version = "1.0",
      .opset = 1,
      .initialize = initialize,
      .devices = devices,
      .propose = FAULT == NULL_SLOT ? NULL : propose,
      .kernel_compile = kernel_compile,
      .kernel_info = kernel_info,
      .kernel_destroy = kernel_destroy,
      .constants_bind = constants_bind,
      .constants_destroy = constants_destroy,
      .enqueue = FAULT == NULL_SLOT ? NULL : enqueue,
#ifdef QUEUED
      .stream_create = stream_create,
      .stream_destroy = stream_destroy,
      .stream_wait = stream_wait,
      .stream_reset = stream_reset,
      .event_create = event,
      .event_destroy = event,
      .event_record = event,
      .event_wait = event,
      .memory_allocate = memory_allocate,
      .memory_free = memory_free,
      .copy_to_device = copy_to_device,
      .copy_to_host = copy_to_host,
#else
      .stream_create = FAULT == HALF_OF_STREAMS ? (MortiseStatus * (*)(MortiseStreamArgs *)) initialize : NULL,
#endif
  };
  if (FAULT == GARBAGE_TABLE)
    return (const MortisePlugin *)(uintptr_t)0x1230;
  return FAULT == NULL_TABLE ? NULL : &table;
}
