/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * A plugin with one planted fault, chosen by FAULT when it is compiled; with FAULT 0 it is well formed and offers the
 * device "faulty", which takes nothing.
 */
#include <mortise/plugin.h>

#include <stdlib.h>

enum {
  NONE,
  OTHER_ABI,
  WRONG_MAGIC,
  WRONG_LAYOUT,
  NULL_SLOT,
  NULL_TABLE,
  FAILS_TO_INITIALIZE,
  GARBAGE_DEVICES,
  GARBAGE_CANDIDATES
};

static const MortiseHost *host;

static MortiseStatus *initialize(MortiseInitializeArgs *args) {
  host = args->host;
  return FAULT == FAILS_TO_INITIALIZE
             ? host->status_create(MORTISE_UNSUPPORTED, "expected a flux capacitor, found none")
             : NULL;
}

static MortiseStatus *devices(MortiseDevicesArgs *args) {
  static MortiseDeviceInfo info = {.struct_size = sizeof info,
                                   .kind = "faulty",
                                   .name = "faulty device",
                                   .host_memory = 1,
                                   .threads = 1,
                                   .alignment = 64,
                                   .features = ""};
  static const MortiseDeviceInfo *const list[] = {&info};
  info.device = (MortiseDevice *)&info;
  info.alignment = FAULT == GARBAGE_DEVICES ? 7 : 64;
  args->devices = list;
  args->device_count = 1;
  return NULL;
}

static MortiseStatus *propose(MortiseProposeArgs *args) {
  if (FAULT == GARBAGE_CANDIDATES) {
    const uint32_t nodes[] = {0, 4000000000u};
    MortiseCandidate candidate = {
        .struct_size = sizeof candidate, .lowering = "faulty.all", .nodes = nodes, .node_count = 2, .cost_ns = -1.0};
    args->add(args->sink, &candidate);
  }
  for (uint32_t node = 0; node < args->graph->node_count; ++node)
    args->refuse(args->sink, node, MORTISE_REASON_OP, "this device takes nothing");
  return NULL;
}

static MortiseStatus *refuse(void) { return host->status_create(MORTISE_UNSUPPORTED, "this plugin compiles nothing"); }
static MortiseStatus *compile(MortiseCompileArgs *args) {
  (void)args;
  return refuse();
}
static MortiseStatus *info(MortiseKernelInfo *args) {
  (void)args;
  return refuse();
}
static MortiseStatus *destroy(MortiseKernelArgs *args) {
  (void)args;
  return NULL;
}
static MortiseStatus *bind(MortiseConstantsBindArgs *args) {
  (void)args;
  return refuse();
}
static MortiseStatus *unbind(MortiseConstantsArgs *args) {
  (void)args;
  return NULL;
}
static MortiseStatus *enqueue(MortiseEnqueueArgs *args) {
  (void)args;
  return refuse();
}

MORTISE_EXPORT const MortisePlugin *mortise_plugin(void) {
  static const uint64_t good[] = {MORTISE_ABI_LAYOUT_HASH_1}, bad[] = {~MORTISE_ABI_LAYOUT_HASH_1};
  static MortisePlugin table = {
      .struct_size = sizeof table,
      .magic = FAULT == WRONG_MAGIC ? 42 : MORTISE_PLUGIN_MAGIC,
      .abi_oldest = FAULT == OTHER_ABI ? 90 : 1,
      .abi_newest = FAULT == OTHER_ABI ? 99 : 1,
      .layout_hashes = FAULT == WRONG_LAYOUT ? bad : good,
      .name = "faulty",
      .vendor = "tests",
      .version = "1.0",
      .opset = 1,
      .initialize = initialize,
      .devices = devices,
      .propose = FAULT == NULL_SLOT ? NULL : propose,
      .kernel_compile = compile,
      .kernel_info = info,
      .kernel_destroy = destroy,
      .constants_bind = bind,
      .constants_destroy = unbind,
      .enqueue = enqueue,
  };
  return FAULT == NULL_TABLE ? NULL : &table;
}
