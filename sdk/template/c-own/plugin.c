/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * A plugin in C for a device with memory of its own: the host allocates there, and copies tensors to it and back. The
 * device "acme" runs f32 mortise.add and mortise.mul, and is done when a call returns. Addresses are the device's: here
 * those of ordinary memory, moved by 2^62, where the process has none. In place of `at`, malloc and memcpy, call your
 * driver.
 */
#include <mortise/plugin.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const MortiseHost *host; /* set by initialize; valid until the process ends */

#define MEMORY_BYTES (UINT64_C(1) << 32)
#define FAR (UINT64_C(1) << 62)
static void *at(MortiseAddress address) { return (void *)(uintptr_t)(address - FAR); }
static float *floats(MortiseAddress address) { return at(address); }

/* The result of `kernel_compile`. Every region that this plugin proposes has one node. */
struct MortiseKernel {
  int multiplies;
  uint32_t operands[2]; /* which region input each operand is */
  int64_t count;
  uint32_t node; /* 0: the index of the one node */
  MortiseStep step;
  const MortiseStep *steps[1];
};

/* The result of `constants_bind`. The host has copied the constants to the device, and keeps them there. */
struct MortiseConstants {
  MortiseAddress operands[2]; /* 0 for an operand that is not constant */
};

static int64_t element_count(const MortiseType *type) {
  int64_t count = 1;
  for (int32_t i = 0; i < type->rank; ++i)
    count *= type->dims[i];
  return count;
}

/* ---- Devices and their memory --------------------------------------------------------------- */

static MortiseStatus *initialize(MortiseInitializeArgs *args) {
  host = args->host;
  return NULL;
}

static MortiseStatus *devices(MortiseDevicesArgs *args) {
  static const MortiseSpace memory = {.struct_size = sizeof(MortiseSpace),
                                      .name = "memory",
                                      .kind = MORTISE_SPACE_DEVICE,
                                      .bytes = MEMORY_BYTES,
                                      .alignment = 64};
  static const MortiseSpace *const spaces[] = {&memory};
  static int handle;
  static MortiseDeviceInfo device = {
      .struct_size = sizeof(MortiseDeviceInfo),
      .kind = "acme",
      .name = "Acme Adder 1",
      .threads = 1,
      .space_count = 1,
      .spaces = spaces,
      .copy_bandwidth = 1e10, /* prices the way there and back, so that the host can choose */
      .copy_ns = 1000,
      .features = "",
  };
  static const MortiseDeviceInfo *const list[] = {&device};
  device.device = (MortiseDevice *)&handle;
  args->devices = list;
  args->device_count = 1;
  return NULL;
}

static MortiseStatus *memory_allocate(MortiseMemoryArgs *args) {
  void *memory = args->bytes <= MEMORY_BYTES ? aligned_alloc(64, (args->bytes + 63) / 64 * 64) : NULL;
  if (!memory)
    return host->status_create(MORTISE_OUT_OF_MEMORY, "the device has no memory left");
  args->address = (uintptr_t)memory + FAR;
  return NULL;
}

static MortiseStatus *memory_free(MortiseMemoryArgs *args) {
  free(at(args->address));
  return NULL;
}

static MortiseStatus *copy(MortiseCopyArgs *args) {
  if ((args->source_device && args->source < FAR) || (args->target_device && args->target < FAR))
    return host->status_create(MORTISE_INVALID_ARGUMENT, "copy: expected an address of the device, found another");
  void *target = args->target_device ? at(args->target) : (void *)(uintptr_t)args->target;
  const void *source = args->source_device ? at(args->source) : (void *)(uintptr_t)args->source;
  memcpy(target, source, args->bytes);
  return NULL;
}

/* ---- Proposals ------------------------------------------------------------------------------ */

/* Returns 0 when the kernel can run the node, else the reason; `detail` explains it to a person. */
static int32_t supports(const MortiseNode *node, const char **detail) {
  const MortiseType *type = node->results[0]->type; /* the operands have the same type */
  *detail = "expected mortise.add or mortise.mul";
  if (strcmp(node->op, "mortise.add") != 0 && strcmp(node->op, "mortise.mul") != 0)
    return MORTISE_REASON_OP;
  *detail = "expected f32";
  if (type->dtype != MORTISE_F32)
    return MORTISE_REASON_DTYPE;
  *detail = "expected a static shape";
  if (type->dim_exprs)
    return MORTISE_REASON_NEEDS_STATIC;
  *detail = "expected dense row-major tensors";
  const int dense = !type->strides && !node->operands[0]->type->strides && !node->operands[1]->type->strides;
  return dense ? 0 : MORTISE_REASON_LAYOUT;
}

static MortiseStatus *propose(MortiseProposeArgs *args) {
  for (uint32_t i = 0; i < args->graph->node_count; ++i) {
    const MortiseNode *node = args->graph->nodes[i];
    const char *detail = "";
    int32_t reason = supports(node, &detail);
    if (reason) {
      args->refuse(args->sink, i, reason, detail);
      continue;
    }
    double count = (double)element_count(node->results[0]->type);
    MortiseCandidate candidate = {.struct_size = sizeof candidate,
                                  .lowering = "acme.binary",
                                  .nodes = &i,
                                  .node_count = 1,
                                  .cost_ns = 1000 + count * 12 / 100, /* a call, and 100 bytes per nanosecond */
                                  .bytes = count * 12,
                                  .flops = count};
    args->add(args->sink, &candidate);
  }
  return NULL;
}

/* ---- Kernels -------------------------------------------------------------------------------- */

static MortiseStatus *kernel_compile(MortiseCompileArgs *args) {
  if (host->cancelled())
    return host->status_create(MORTISE_CANCELLED, "the compilation was cancelled");
  if (args->region->output_count != 1) /* a value may be listed twice, and an input be an output */
    return host->status_create(MORTISE_UNSUPPORTED, "expected a region of one output, found another number of them");
  const char *detail = "";
  if (args->region->node_count != 1 || supports(args->region->nodes[0], &detail))
    return host->status_create(MORTISE_INVALID_ARGUMENT, "expected a region as proposed, with one node");
  const MortiseNode *node = args->region->nodes[0];
  MortiseKernel *kernel = calloc(1, sizeof *kernel);
  if (!kernel)
    return host->status_create(MORTISE_OUT_OF_MEMORY, "no memory for a kernel");
  kernel->multiplies = strcmp(node->op, "mortise.mul") == 0;
  for (int i = 0; i < 2; ++i)
    kernel->operands[i] = node->operands[i]->result_index; /* the number of the region input */
  kernel->count = element_count(node->results[0]->type);
  kernel->step = (MortiseStep){.struct_size = sizeof(MortiseStep),
                               .name = kernel->multiplies ? "mul" : "add",
                               .lowering = "acme.binary",
                               .nodes = &kernel->node,
                               .node_count = 1,
                               .bytes = 12 * (double)kernel->count,
                               .flops = (double)kernel->count};
  kernel->steps[0] = &kernel->step;
  args->kernel = kernel;
  return NULL;
}

static MortiseStatus *kernel_info(MortiseKernelInfo *args) {
  args->steps = args->kernel->steps;
  args->step_count = 1;
  return NULL;
}

static MortiseStatus *kernel_destroy(MortiseKernelArgs *args) {
  free(args->kernel);
  return NULL;
}

static MortiseStatus *constants_bind(MortiseConstantsBindArgs *args) {
  MortiseConstants *constants = calloc(1, sizeof *constants);
  if (!constants)
    return host->status_create(MORTISE_OUT_OF_MEMORY, "no memory for constants");
  for (int i = 0; i < 2; ++i)
    constants->operands[i] = args->inputs[args->kernel->operands[i]];
  args->constants = constants;
  return NULL;
}

static MortiseStatus *constants_destroy(MortiseConstantsArgs *args) {
  free(args->constants);
  return NULL;
}

static MortiseStatus *enqueue(MortiseEnqueueArgs *args) {
  const MortiseKernel *kernel = args->kernel;
  MortiseAddress operands[2];
  for (int i = 0; i < 2; ++i) {
    operands[i] = args->inputs[kernel->operands[i]];
    if (!operands[i] && args->constants)
      operands[i] = args->constants->operands[i];
  }
  if (kernel->count == 0)
    return NULL; /* the addresses mean nothing then */
  const float *a = floats(operands[0]), *b = floats(operands[1]);
  float *out = floats(args->outputs[0]);
  for (int64_t i = 0; i < kernel->count; ++i)
    out[i] = kernel->multiplies ? a[i] * b[i] : a[i] + b[i];
  return NULL;
}

/* ---- The table ------------------------------------------------------------------------------ */

MORTISE_EXPORT const MortisePlugin *mortise_plugin(void) {
  static const uint64_t layout_hashes[] = MORTISE_ABI_LAYOUT_HASHES;
  static const MortisePlugin plugin = {
      .struct_size = sizeof(MortisePlugin),
      .magic = MORTISE_PLUGIN_MAGIC,
      .abi_oldest = MORTISE_ABI_OLDEST,
      .abi_newest = MORTISE_ABI_REVISION,
      .layout_hashes = layout_hashes,
      .name = "acme",
      .vendor = "Acme Inc.",
      .version = "1.0.0",
      .opset = MORTISE_OPSET,
      .initialize = initialize,
      .devices = devices,
      .propose = propose,
      .kernel_compile = kernel_compile,
      .kernel_info = kernel_info,
      .kernel_destroy = kernel_destroy,
      .constants_bind = constants_bind,
      .constants_destroy = constants_destroy,
      .enqueue = enqueue,
      .memory_allocate = memory_allocate,
      .memory_free = memory_free,
      .copy = copy,
  };
  return &plugin;
}
