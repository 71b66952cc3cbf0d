// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "watched.hpp"

#include "../../runtime/host_uses.hpp"
#include "resident.hpp"

#include <mortise/plugin.hpp>
#include <mortise/symbols.hpp>

#include <map>
#include <mutex>
#include <shared_mutex>

namespace mortise::test {
namespace {

struct Region { // of a kernel, and as long as it lives
  const MortiseGraph *graph = nullptr;
  MortiseExpr workspace{};
};

struct Watched {
  const MortisePlugin *slots; // the plugin's own
  MortisePlugin table;        // with those below in front
  const StrictControl *control;
  std::shared_mutex mutex;
  std::map<const MortiseKernel *, Region> regions;
  std::map<const MortiseInstance *, uint64_t> workspaces; // bytes
};
Watched *watched;

// Bytes from the first element of a value to behind the last.
uint64_t bytesOf(const MortiseType &type, std::span<const int64_t> symbols) {
  const auto number = [&](int64_t value, const MortiseExpr *exprs, int32_t i) {
    return value == MORTISE_DYNAMIC ? must(evaluate(exprs[i], symbols)) : value;
  };
  int64_t dense = 1, span = 1;
  for (int32_t i = type.rank; i-- > 0;) {
    const int64_t extent = number(type.dims[i], type.dim_exprs, i);
    if (extent == 0)
      return 0;
    span += (extent - 1) * (type.strides ? number(type.strides[i], type.stride_exprs, i) : dense);
    dense *= extent;
  }
  return (static_cast<uint64_t>(span) * dtypeBits(type.dtype) + 7) / 8;
}

void remember(const MortiseCompileArgs &args, const MortiseStatus *failed) {
  const std::lock_guard lock(watched->mutex);
  if (failed == nullptr)
    watched->regions[args.kernel] = {args.region, {}};
}

MortiseStatus *compile(MortiseCompileArgs *args) {
  MortiseStatus *status = watched->slots->kernel_compile(args);
  remember(*args, status);
  return status;
}

MortiseStatus *load(MortiseCompileArgs *args) {
  MortiseStatus *status = watched->slots->kernel_load(args);
  remember(*args, status);
  return status;
}

MortiseStatus *info(MortiseKernelInfo *args) {
  MortiseStatus *status = watched->slots->kernel_info(args);
  const std::lock_guard lock(watched->mutex);
  if (status == nullptr)
    watched->regions.at(args->kernel).workspace = args->workspace;
  return status;
}

MortiseStatus *createInstance(MortiseInstanceArgs *args) {
  MortiseStatus *status = watched->slots->instance_create(args);
  const std::lock_guard lock(watched->mutex);
  if (status == nullptr)
    watched->workspaces[args->instance] = args->workspace_bytes;
  return status;
}

MortiseStatus *destroy(MortiseKernelArgs *args) {
  {
    const std::lock_guard lock(watched->mutex);
    watched->regions.erase(args->kernel);
  }
  return watched->slots->kernel_destroy(args);
}

MortiseStatus *enqueue(MortiseEnqueueArgs *args) {
  Region region;
  uint64_t workspace = 0;
  {
    const std::shared_lock lock(watched->mutex);
    region = watched->regions.at(args->kernel);
    if (args->instance)
      workspace = watched->workspaces.at(args->instance);
  }
  const MortiseGraph &graph = *region.graph;
  const std::span<const int64_t> symbols(args->symbols, graph.symbol_count);
  if (args->instance == nullptr && region.workspace.count != 0)
    workspace = static_cast<uint64_t>(must(evaluate(region.workspace, symbols)));
  const auto tell = [&](MortiseAddress address, uint64_t bytes, bool writes) {
    if (address != 0)
      watched->control->host_uses(pointer(address), bytes, writes);
  };
  for (size_t i = 0; i < graph.input_count; ++i)
    tell(args->inputs[i], bytesOf(*graph.inputs[i]->type, symbols), false);
  for (size_t i = 0; i < graph.output_count; ++i)
    tell(args->outputs[i], bytesOf(*graph.outputs[i]->type, symbols), true);
  tell(args->workspace, workspace, true);
  return watched->slots->enqueue(args);
}

} // namespace

void watchKernels(runtime::Plugin &plugin, const StrictControl &control) {
  if (plugin.hasStreams() || (watched && watched->slots->kernel_compile != plugin.table->kernel_compile))
    fail("expected one library to be watched, without streams");
  if (watched == nullptr) {
    watched = new Watched{plugin.table, *plugin.table, &control, {}, {}, {}};
    watched->table.kernel_compile = compile;
    watched->table.kernel_info = info;
    if (plugin.hasInstances())
      watched->table.instance_create = createInstance;
    if (plugin.hasSaving())
      watched->table.kernel_load = load;
    watched->table.kernel_destroy = destroy;
    watched->table.enqueue = enqueue;
  }
  plugin.table = &watched->table;
}

} // namespace mortise::test

// In place of the runtime's.
void mortise::runtime::hostUses(const void *memory, uint64_t bytes, bool writes) {
  if (test::watched)
    test::watched->control->host_uses(memory, bytes, writes);
}
