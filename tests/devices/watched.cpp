// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "watched.hpp"

#include "resident.hpp"

#include <mortise/plugin.hpp>
#include <mortise/symbols.hpp>

#include <map>
#include <mutex>
#include <shared_mutex>

namespace mortise::test {
namespace {

struct Watched {
  const MortisePlugin *slots; // the plugin's own
  MortisePlugin table;        // with those below in front
  const StrictControl *control;
  std::shared_mutex mutex;
  std::map<const MortiseKernel *, const MortiseGraph *> regions; // which live as long as their kernels
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
    watched->regions[args.kernel] = args.region;
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

MortiseStatus *destroy(MortiseKernelArgs *args) {
  {
    const std::lock_guard lock(watched->mutex);
    watched->regions.erase(args->kernel);
  }
  return watched->slots->kernel_destroy(args);
}

MortiseStatus *enqueue(MortiseEnqueueArgs *args) {
  const MortiseGraph *region = nullptr;
  {
    const std::shared_lock lock(watched->mutex);
    region = watched->regions.at(args->kernel);
  }
  const std::span<const int64_t> symbols(args->symbols, region->symbol_count);
  const auto tell = [&](MortiseAddress address, const MortiseType &type, bool writes) {
    if (address != 0)
      watched->control->host_uses(pointer(address), bytesOf(type, symbols), writes);
  };
  for (size_t i = 0; i < region->input_count; ++i)
    tell(args->inputs[i], *region->inputs[i]->type, false);
  for (size_t i = 0; i < region->output_count; ++i)
    tell(args->outputs[i], *region->outputs[i]->type, true);
  return watched->slots->enqueue(args);
}

} // namespace

void watchKernels(runtime::Plugin &plugin, const StrictControl &control) {
  if (plugin.hasStreams() || (watched && watched->slots->kernel_compile != plugin.table->kernel_compile))
    fail("expected one library to be watched, without streams");
  if (watched == nullptr) {
    watched = new Watched{plugin.table, *plugin.table, &control, {}, {}};
    watched->table.kernel_compile = compile;
    if (plugin.hasSaving())
      watched->table.kernel_load = load;
    watched->table.kernel_destroy = destroy;
    watched->table.enqueue = enqueue;
  }
  plugin.table = &watched->table;
}

} // namespace mortise::test
