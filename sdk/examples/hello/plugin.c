/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A useful plugin in at most 200 lines of C: four ops on dense f32 tensors of static shape, in ordinary memory. */
#include <mortise/plugin.h>

#include <stdlib.h>
#include <string.h>

static const MortiseHost *host; /* set by initialize; valid until the process ends */

struct op {
  const char *name;
  void (*run)(const float *a, const float *b, float *out, int64_t begin, int64_t end);
};

/* Every region that this plugin proposes has one node. */
struct MortiseKernel {
  const struct op *op;
  uint32_t operands[2]; /* which region input each operand is */
  int64_t count;
};

/* The result of `constants_bind`. The host keeps the memory behind these pointers, which kernels read in place. */
struct MortiseConstants {
  const float *operands[2]; /* NULL for an operand that is not constant */
};

#define BINARY(name, result)                                                                                           \
  static void name(const float *a, const float *b, float *out, int64_t begin, int64_t end) {                           \
    for (int64_t i = begin; i < end; ++i)                                                                              \
      out[i] = (result);                                                                                               \
  }
BINARY(add, a[i] + b[i])
BINARY(sub, a[i] - b[i])
BINARY(mul, a[i] * b[i])
BINARY(divide, a[i] / b[i])
static const struct op ops[] = {
    {"mortise.add", add}, {"mortise.sub", sub}, {"mortise.mul", mul}, {"mortise.div", divide}};

static const struct op *find_op(const MortiseNode *node) {
  for (size_t i = 0; i < sizeof ops / sizeof *ops; ++i)
    if (strcmp(node->op, ops[i].name) == 0)
      return &ops[i];
  return NULL;
}

static int64_t element_count(const MortiseType *type) {
  int64_t count = 1;
  for (int32_t i = 0; i < type->rank; ++i)
    count *= type->dims[i];
  return count;
}

static MortiseStatus *initialize(MortiseInitializeArgs *args) {
  host = args->host;
  if (host->abi_revision < MORTISE_ABI_OLDEST || host->struct_size < offsetof(MortiseHost, graph_bytes))
    return host->status_create(MORTISE_VERSION_MISMATCH, "expected a host of ABI revision 3, found an older one");
  return NULL;
}

static MortiseStatus *devices(MortiseDevicesArgs *args) {
  /* Kernels read and write ordinary memory, so there is nothing to copy. */
  static const MortiseSpace memory = {
      .struct_size = sizeof memory, .name = "host", .kind = MORTISE_SPACE_HOST, .alignment = 64};
  static const MortiseSpace *const spaces[] = {&memory};
  static const MortiseDeviceInfo device = {
      .struct_size = sizeof device, .kind = "hello", .name = "hello", .threads = 1, .space_count = 1, .spaces = spaces};
  static const MortiseDeviceInfo *const list[] = {&device};
  args->devices = list;
  args->device_count = 1;
  return NULL;
}

/* Returns 0 when the kernel can run the node, else the reason; `detail` explains it to a person. */
static int32_t supports(const MortiseNode *node, const char **detail) {
  const MortiseType *type = node->results[0]->type; /* the operands have the same type */
  if (!find_op(node))
    return *detail = "expected mortise.add, mortise.sub, mortise.mul or mortise.div", MORTISE_REASON_OP;
  if (type->dtype != MORTISE_F32)
    return *detail = "expected f32", MORTISE_REASON_DTYPE;
  if (type->dim_exprs)
    return *detail = "expected a static shape", MORTISE_REASON_NEEDS_STATIC;
  if (type->strides || node->operands[0]->type->strides || node->operands[1]->type->strides)
    return *detail = "expected dense row-major tensors", MORTISE_REASON_LAYOUT;
  return 0;
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
    MortiseCandidate candidate = {.struct_size = sizeof(MortiseCandidate),
                                  .lowering = "hello.binary",
                                  .nodes = &i,
                                  .node_count = 1,
                                  .cost_ns = 1000 + count * 12 / 10, /* a call, and 10 bytes per nanosecond */
                                  .bytes = count * 12,
                                  .flops = count};
    args->add(args->sink, &candidate);
  }
  return NULL;
}

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
  kernel->op = find_op(node);
  kernel->operands[0] = node->operands[0]->result_index; /* the number of the region input */
  kernel->operands[1] = node->operands[1]->result_index;
  kernel->count = element_count(node->results[0]->type);
  args->kernel = kernel;
  return NULL;
}

/* No workspace, and no step to name. */
static MortiseStatus *kernel_info(MortiseKernelInfo *args) {
  (void)args;
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
    constants->operands[i] = (const float *)(uintptr_t)args->inputs[args->kernel->operands[i]];
  args->constants = constants;
  return NULL;
}

static MortiseStatus *constants_destroy(MortiseConstantsArgs *args) {
  free(args->constants);
  return NULL;
}

struct call {
  const MortiseKernel *kernel;
  const float *operands[2];
  float *out;
};

static void task(void *context, int64_t begin, int64_t end) {
  const struct call *call = context;
  call->kernel->op->run(call->operands[0], call->operands[1], call->out, begin, end);
}

static MortiseStatus *enqueue(MortiseEnqueueArgs *args) {
  struct call call = {.kernel = args->kernel, .out = (float *)(uintptr_t)args->outputs[0]};
  for (int i = 0; i < 2; ++i) {
    call.operands[i] = (const float *)(uintptr_t)args->inputs[args->kernel->operands[i]];
    if (!call.operands[i] && args->constants)
      call.operands[i] = args->constants->operands[i];
  }
  host->parallel_for(args->kernel->count, 16384, task, &call);
  return NULL;
}

MORTISE_EXPORT const MortisePlugin *mortise_plugin(void) {
  static const uint64_t layout_hashes[] = MORTISE_ABI_LAYOUT_HASHES;
  static const MortisePlugin plugin = {
      .struct_size = sizeof(MortisePlugin),
      .magic = MORTISE_PLUGIN_MAGIC,
      .abi_oldest = MORTISE_ABI_OLDEST,
      .abi_newest = MORTISE_ABI_REVISION,
      .layout_hashes = layout_hashes,
      .name = "hello",
      .vendor = "Mortise examples",
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
  };
  return &plugin;
}
