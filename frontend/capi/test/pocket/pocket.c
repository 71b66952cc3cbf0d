/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * A second plugin for tests. It runs add, mul, neg and logistic on f32, one node at a time, no composite op, and an op
 * of its own: pocket.scale(x) {by = 2}. It declares pocket.never(x), and does not run that.
 *
 * The option pocket.fail, "SLOT OP CODE", has a slot fail for kernels of one op: with a status of this code, or the
 * process ends there (CODE abort), or never returns (CODE hang). SLOT is a slot's name, or negative_constants:
 * constants_bind of a weight whose first element is below 0, or negative_inputs: enqueue, where an operand's first
 * element is below 0. */
#include <mortise/plugin.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const MortiseHost *host;

struct MortiseKernel {
  int op;
  size_t inputs; /* 1 if both operands are the same value */
  int64_t count;
  double by;     /* of pocket.scale */
  char fail[96]; /* the option */
};
static const char *const keys[] = {"mortise.add", "mortise.mul", "mortise.neg", "mortise.logistic", "pocket.scale"};

static int find(const MortiseNode *node) {
  for (int i = 0; i < 5; ++i)
    if (strcmp(node->op, keys[i]) == 0)
      return i;
  return -1;
}

static const MortiseAttribute two = {.struct_size = sizeof two, .name = "by", .kind = MORTISE_ATTRIBUTE_F64, .f64 = 2};
static const MortiseAttributeDeclaration by = {
    .struct_size = sizeof by, .name = "by", .kind = MORTISE_ATTRIBUTE_F64, .fallback = &two};
static const MortiseAttributeDeclaration *const scale_attributes[] = {&by};
static const MortiseOpDeclaration never = {.struct_size = sizeof never,
                                           .name = "pocket.never",
                                           .summary = "what no key computes",
                                           .operands_min = 1,
                                           .operands_max = 1};
static const MortiseOpDeclaration scale = {.struct_size = sizeof scale,
                                           .name = "pocket.scale",
                                           .summary = "x times `by`, of f32",
                                           .operands_min = 1,
                                           .operands_max = 1,
                                           .attributes = scale_attributes,
                                           .attribute_count = 1};
static const MortiseOpDeclaration *const own_ops[] = {&never, &scale};

static MortiseStatus *infer(MortiseInferArgs *args) {
  if (args->operands[0]->dtype != MORTISE_F32)
    return host->status_create(MORTISE_INVALID_ARGUMENT, "expected x to be f32");
  args->add(args->sink, args->operands[0]);
  return NULL;
}

static MortiseStatus *initialize(MortiseInitializeArgs *args) {
  host = args->host;
  return NULL;
}

static MortiseStatus *devices(MortiseDevicesArgs *args) {
  static char device;
  static const MortiseSpace memory = {
      .struct_size = sizeof memory, .name = "host", .kind = MORTISE_SPACE_HOST, .alignment = 16};
  static const MortiseSpace *const spaces[] = {&memory};
  static MortiseDeviceInfo info = {.struct_size = sizeof info,
                                   .kind = "pocket",
                                   .name = "pocket calculator",
                                   .threads = 1,
                                   .space_count = 1,
                                   .spaces = spaces,
                                   .features = ""};
  static const MortiseDeviceInfo *const list[] = {&info};
  info.device = (MortiseDevice *)&device;
  args->devices = list;
  args->device_count = 1;
  return NULL;
}

static MortiseStatus *propose(MortiseProposeArgs *args) {
  for (uint32_t n = 0; n < args->graph->node_count; ++n) {
    const MortiseNode *node = args->graph->nodes[n];
    const MortiseCandidate candidate = {
        .struct_size = sizeof candidate, .lowering = "pocket.node", .nodes = &n, .node_count = 1, .cost_ns = 1};
    if (find(node) < 0)
      args->refuse(args->sink, n, MORTISE_REASON_OP, "the pocket calculator has no such key");
    else if (node->results[0]->type->dtype != MORTISE_F32)
      args->refuse(args->sink, n, MORTISE_REASON_DTYPE, "expected f32");
    else
      args->add(args->sink, &candidate);
  }
  return NULL;
}

/* The number in the message counts the failures of the process. */
static MortiseStatus *fail(const MortiseKernel *kernel, const char *slot) {
  static int failures;
  char wanted[32], op[32], code[16], message[96];
  if (sscanf(kernel->fail, "%31s %31s %15s", wanted, op, code) != 3 || strcmp(wanted, slot) != 0 ||
      strcmp(op, keys[kernel->op]) != 0)
    return NULL;
  if (strcmp(code, "abort") == 0)
    abort();
  while (strcmp(code, "hang") == 0)
    sleep(1);
  snprintf(message, sizeof message, "the pocket calculator has no room for %s (failure %d)", op,
           __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED));
  return host->status_create(atoi(code), message);
}

static MortiseStatus *kernel_compile(MortiseCompileArgs *args) {
  const MortiseNode *node = args->region->nodes[0];
  MortiseKernel *kernel = calloc(1, sizeof *kernel);
  if (args->region->node_count != 1 || !kernel) {
    free(kernel);
    return host->status_create(MORTISE_INVALID_ARGUMENT, "expected a region of one node");
  }
  kernel->op = find(node);
  kernel->inputs = args->region->input_count;
  kernel->by = node->attribute_count ? node->attributes[0]->f64 : 0;
  kernel->count = 1;
  for (int32_t i = 0; i < node->results[0]->type->rank; ++i)
    kernel->count *= node->results[0]->type->dims[i];
  for (size_t i = 0; i < args->option_count; ++i)
    if (strcmp(args->options[i].key, "fail") == 0)
      snprintf(kernel->fail, sizeof kernel->fail, "%s", args->options[i].value);
  MortiseStatus *failed = fail(kernel, "kernel_compile");
  if (failed)
    free(kernel);
  else
    args->kernel = kernel;
  return failed;
}

static MortiseStatus *kernel_info(MortiseKernelInfo *args) {
  args->workspace.count = 0;
  args->step_count = 0;
  args->code_bytes = 0;
  return NULL;
}
static MortiseStatus *kernel_destroy(MortiseKernelArgs *args) {
  free(args->kernel);
  return NULL;
}
/* The packed form of a constant operand is the caller's own memory, which stays valid. */
static MortiseStatus *constants_bind(MortiseConstantsBindArgs *args) {
  MortiseStatus *failed = fail(args->kernel, "constants_bind");
  for (size_t i = 0; i < args->kernel->inputs && !failed; ++i)
    if (args->inputs[i] && *(const float *)(uintptr_t)args->inputs[i] < 0)
      failed = fail(args->kernel, "negative_constants");
  if (failed)
    return failed;
  const float **kept = calloc(2, sizeof *kept);
  if (!kept)
    return host->status_create(MORTISE_OUT_OF_MEMORY, "out of memory");
  kept[0] = (const float *)(uintptr_t)args->inputs[0];
  kept[1] = (const float *)(uintptr_t)args->inputs[args->kernel->inputs - 1];
  args->constants = (MortiseConstants *)kept;
  args->packed_bytes = 0;
  return NULL;
}
static MortiseStatus *constants_destroy(MortiseConstantsArgs *args) {
  free(args->constants);
  return NULL;
}

static const float *operand(const MortiseEnqueueArgs *args, size_t input) {
  const float *const *kept = (const float *const *)args->constants;
  return args->inputs[input] || !kept ? (const float *)(uintptr_t)args->inputs[input] : kept[input != 0];
}

static MortiseStatus *enqueue(MortiseEnqueueArgs *args) {
  const float *x = operand(args, 0), *y = operand(args, args->kernel->inputs - 1);
  float *result = (float *)(uintptr_t)args->outputs[0];
  if (!x || !y)
    return host->status_create(MORTISE_INVALID_ARGUMENT, "expected a pointer for each input, found NULL");
  MortiseStatus *failed = fail(args->kernel, "enqueue");
  if (!failed && args->kernel->count && (x[0] < 0 || y[0] < 0))
    failed = fail(args->kernel, "negative_inputs");
  if (failed)
    return failed;
  for (int64_t i = 0; i < args->kernel->count; ++i)
    switch (args->kernel->op) {
    case 0:
      result[i] = x[i] + y[i];
      break;
    case 1:
      result[i] = x[i] * y[i];
      break;
    case 2:
      result[i] = -x[i];
      break;
    case 4:
      result[i] = (float)args->kernel->by * x[i];
      break;
    default:
      result[i] = 1 / (1 + expf(-x[i]));
      break;
    }
  return NULL;
}

MORTISE_EXPORT const MortisePlugin *mortise_plugin(void) {
  static const uint64_t hashes[] = {MORTISE_ABI_LAYOUT_HASH_3};
  static const MortisePlugin plugin = {.struct_size = sizeof plugin,
                                       .magic = MORTISE_PLUGIN_MAGIC,
                                       .abi_oldest = 3,
                                       .abi_newest = 3,
                                       .layout_hashes = hashes,
                                       .name = "pocket",
                                       .vendor = "tests",
                                       .version = "1",
                                       .opset = 1,
                                       .initialize = initialize,
                                       .devices = devices,
                                       .propose = propose,
                                       .kernel_compile = kernel_compile,
                                       .kernel_info = kernel_info,
                                       .kernel_destroy = kernel_destroy,
                                       .constants_bind = constants_bind,
                                       .constants_destroy = constants_destroy,
                                       .enqueue = enqueue,
                                       .ops = own_ops,
                                       .op_count = 2,
                                       .infer = infer};
  return &plugin;
}
