// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "kernel_proxy.hpp"

#include "../host.hpp"
#include "worker.hpp"
#include <mortise/dtypes.h>
#include <mortise/symbols.hpp>

#include <algorithm>
#include <cstring>

namespace mortise::runtime::isolation {
namespace {

// Lays tensors out one behind the other in the shared memory.
class Places {
public:
  explicit Places(uint64_t alignment) : alignment(alignment) {}
  Range add(uint64_t bytes) {
    const Range range{tensorsBegin + used, bytes, 1};
    used = (used + bytes + alignment - 1) / alignment * alignment;
    return range;
  }
  uint64_t end() const { return tensorsBegin + used; }

private:
  uint64_t alignment, used = 0;
};

// The bytes of a dense tensor.
Result<uint64_t> denseBytes(const MortiseType &type, std::span<const int64_t> symbols) {
  uint64_t count = 1;
  for (int32_t i = 0; i < type.rank; ++i) {
    int64_t extent = type.dims[i];
    if (extent == MORTISE_DYNAMIC) {
      auto evaluated = evaluate(type.dim_exprs[i], symbols);
      if (!evaluated)
        return evaluated.error();
      extent = *evaluated;
    }
    if (extent < 0 || __builtin_mul_overflow(count, static_cast<uint64_t>(extent), &count))
      return Error{MORTISE_INVALID_ARGUMENT, "expected extents of 0 or more that fit in memory"};
  }
  uint64_t bits;
  if (__builtin_mul_overflow(count, mortise_dtype_bits(type.dtype), &bits) || bits > UINT64_MAX - 7)
    return Error{MORTISE_INVALID_ARGUMENT, "expected a tensor that fits in memory"};
  return (bits + 7) / 8;
}

// A graph of no nodes whose input and output is the value.
Result<std::shared_ptr<const Graph>> graphOf(const MortiseGraph &graph, const MortiseType &type) {
  const MortiseValue value{.struct_size = sizeof value, .type = &type, .index = 0, .use_count = 1, .name = ""};
  const MortiseValue *values[] = {&value};
  return Graph::copy({.struct_size = sizeof(MortiseGraph),
                      .name = "",
                      .opset = graph.opset,
                      .values = values,
                      .value_count = 1,
                      .inputs = values,
                      .input_count = 1,
                      .outputs = values,
                      .output_count = 1,
                      .symbols = graph.symbols,
                      .symbol_count = graph.symbol_count});
}

} // namespace

Result<Sized> DeviceProxy::sizeIn(const MortiseGraph &graph, const MortiseType &type, uint32_t layout) const {
  auto value = graphOf(graph, type);
  if (!value)
    return value.error();
  const std::span<const std::byte> bytes = (*value)->bytes();
  return connection->ask<Sized>(Size{number, layout, {reinterpret_cast<const char *>(bytes.data()), bytes.size()}});
}

Result<std::unique_ptr<KernelProxy>> KernelProxy::compile(const DeviceProxy &device, Compile request,
                                                          std::shared_ptr<const Graph> graph) {
  auto made = std::make_unique<KernelProxy>(KernelProxy{.device = &device, .request = std::move(request)});
  made->graph = std::move(graph);
  const MortiseGraph &view = made->graph->view();
  const auto nameless = canonical(view);
  if (!nameless)
    return nameless.error();
  const std::span<const std::byte> bytes = (*nameless)->bytes();
  Writer identity;
  identity(made->request.lowering, made->request.work.forms,
           std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size()));
  made->identity = std::move(identity.bytes);
  Connection &connection = made->connection();
  if (connection.faulty.contains(made->identity))
    return Error{MORTISE_UNSUPPORTED, connection.named() + ": its worker ended in this kernel before"};
  if (auto ready = made->ensure(); !ready)
    return ready.error();
  for (const Step &step : made->texts)
    made->steps.push_back({.struct_size = sizeof(MortiseStep),
                           .name = step.name.c_str(),
                           .lowering = step.lowering.c_str(),
                           .bytes = step.bytes,
                           .flops = step.flops});
  for (const MortiseStep &step : made->steps)
    made->stepPointers.push_back(&step);
  for (const Form &form : made->request.work.forms) {
    if (form.layout == MORTISE_PLAIN_LAYOUT)
      continue;
    auto sized = device.sizeIn(view, *view.values[form.value]->type, form.layout);
    if (!sized)
      return sized.error();
    for (const ExprStep &step : sized->bytes)
      made->sizes[form.value].push_back({step.op, 0, step.value});
  }
  return made;
}

Result<void> KernelProxy::ensure() {
  if (auto ready = connection().ensure(); !ready)
    return ready;
  if (number != 0 && generation == connection().generation())
    return {};
  bool ended = false;
  auto compiled = connection().ask<Compiled>(request, &ended);
  if (ended)
    connection().faulty.insert(identity);
  if (!compiled)
    return compiled.error();
  number = compiled->kernel;
  generation = connection().generation();
  if (texts.empty())
    texts = std::move(compiled->steps);
  return {};
}

Result<uint64_t> KernelProxy::bytesOf(const MortiseValue &value, std::span<const int64_t> symbols) const {
  const auto found = sizes.find(value.index);
  if (found == sizes.end())
    return denseBytes(*value.type, symbols);
  auto bytes = evaluate({found->second.data(), found->second.size()}, symbols);
  if (!bytes)
    return bytes.error();
  return static_cast<uint64_t>(std::max<int64_t>(*bytes, 0));
}

Result<void> ConstantsProxy::ensure() {
  if (auto ready = kernel->ensure(); !ready)
    return ready;
  Connection &connection = kernel->connection();
  if (number != 0 && generation == connection.generation())
    return {};
  const MortiseGraph &graph = kernel->graph->view();
  Places places(kernel->device->alignment);
  Bind bind{.kernel = kernel->number};
  for (size_t i = 0; i < graph.input_count; ++i) {
    bind.inputs.emplace_back();
    if (inputs[i] == 0)
      continue;
    auto bytes = kernel->bytesOf(*graph.inputs[i], {});
    if (!bytes)
      return bytes.error();
    bind.inputs.back() = places.add(*bytes);
  }
  auto memory = connection.memoryOf(places.end());
  if (!memory)
    return memory.error();
  bind.shared = connection.sharedBytes();
  for (size_t i = 0; i < graph.input_count; ++i)
    if (bind.inputs[i].bytes)
      std::memcpy(*memory + bind.inputs[i].offset, reinterpret_cast<const void *>(inputs[i]), bind.inputs[i].bytes);
  bool ended = false;
  auto bound = connection.ask<Bound>(bind, &ended);
  if (ended)
    connection.faulty.insert(kernel->identity);
  if (!bound)
    return bound.error();
  number = bound->number;
  packedBytes = bound->packedBytes;
  generation = connection.generation();
  return {};
}

Result<void> ConstantsProxy::run(const MortiseEnqueueArgs &args) {
  Connection &connection = kernel->connection();
  const std::lock_guard lock(connection.mutex);
  if (isForkedChild())
    return forkedChildError();
  if (connection.faulty.contains(kernel->identity))
    return Error{MORTISE_UNSUPPORTED, connection.named() + ": its worker ended in this kernel before"};
  if (auto ready = ensure(); !ready)
    return ready;
  const MortiseGraph &graph = kernel->graph->view();
  const std::span symbols(args.symbols, args.symbols ? graph.symbol_count : 0);
  Places places(kernel->device->alignment);
  Enqueue enqueue{.constants = number,
                  .symbols = {symbols.begin(), symbols.end()},
                  .timed = static_cast<uint32_t>(args.step_ns ? kernel->steps.size() : 0)};
  const auto rangeOf = [&](const MortiseValue &value, MortiseAddress address) -> Result<Range> {
    if (address == 0)
      return Range{};
    auto bytes = kernel->bytesOf(value, symbols);
    if (!bytes)
      return bytes.error();
    for (size_t i = 0; i < enqueue.inputs.size(); ++i)
      if (*bytes && args.inputs[i] == address && enqueue.inputs[i].bytes == *bytes)
        return enqueue.inputs[i];
    return places.add(*bytes);
  };
  for (size_t i = 0; i < graph.input_count; ++i) {
    auto range = rangeOf(*graph.inputs[i], args.inputs[i]);
    if (!range)
      return range.error();
    enqueue.inputs.push_back(*range);
  }
  for (size_t i = 0; i < graph.output_count; ++i) {
    auto range = rangeOf(*graph.outputs[i], args.outputs[i]);
    if (!range)
      return range.error();
    enqueue.outputs.push_back(*range);
  }
  auto memory = connection.memoryOf(places.end());
  if (!memory)
    return memory.error();
  enqueue.shared = connection.sharedBytes();
  for (size_t i = 0; i < graph.input_count; ++i)
    if (enqueue.inputs[i].bytes)
      std::memcpy(*memory + enqueue.inputs[i].offset, reinterpret_cast<const void *>(args.inputs[i]),
                  enqueue.inputs[i].bytes);
  bool ended = false;
  auto told = connection.ask<Enqueued>(enqueue, &ended);
  if (ended)
    connection.faulty.insert(kernel->identity);
  if (!told)
    return told.error();
  for (size_t i = 0; i < graph.output_count; ++i)
    if (enqueue.outputs[i].bytes)
      std::memcpy(reinterpret_cast<void *>(args.outputs[i]), *memory + enqueue.outputs[i].offset,
                  enqueue.outputs[i].bytes);
  for (size_t i = 0; i < std::min<size_t>(enqueue.timed, told->stepNs.size()); ++i)
    args.step_ns[i] += told->stepNs[i];
  return {};
}

} // namespace mortise::runtime::isolation
