// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Context.h"

#include "Host.h"
#include <mortise/runtime/Call.h>

#include <chrono>
#include <cstring>

namespace mortise::runtime {

using plan::BufferKind;

Context::Context(const Layout &layout) : layout(layout) {}

Result<std::unique_ptr<Context>> Context::create(const Layout &layout) {
  std::unique_ptr<Context> context(new Context(layout));
  if (auto done = context->allocate(); !done)
    return done.error();
  context->prepare();
  return context;
}

Result<void> Context::allocate() {
  hostMemory.resize(layout.spaces.size());
  spaceMemory.resize(layout.spaces.size());
  for (size_t i = 0; i < layout.spaces.size(); ++i) {
    const MemorySpace &space = layout.spaces[i];
    if (space.device == nullptr) {
      auto block = Block::allocate(space.bytes, space.alignment);
      if (!block)
        return block.error();
      hostMemory[i] = std::move(*block);
      spaceMemory[i] = hostMemory[i].data();
      continue;
    }
    MortiseMemoryArgs args{.struct_size = sizeof(MortiseMemoryArgs),
                           .device = space.device->info.device,
                           .bytes = std::max<uint64_t>(space.bytes, 1)};
    if (auto called = call("memory_allocate", space.device->plugin->table->memory_allocate, args); !called)
      return called;
    if (args.memory == nullptr)
      return Error{MORTISE_INTERNAL, "memory_allocate: expected memory or a status, found neither"};
    spaceMemory[i] = args.memory;
  }
  for (const Device *device : layout.streams) {
    MortiseStreamArgs args{.struct_size = sizeof(MortiseStreamArgs), .device = device->info.device};
    if (auto called = call("stream_create", device->plugin->table->stream_create, args); !called)
      return called;
    if (args.stream == nullptr)
      return Error{MORTISE_INTERNAL, "stream_create: expected a stream or a status, found neither"};
    streams.push_back(args.stream);
  }
  return {};
}

void Context::prepare() {
  const plan::PlanT &plan = *layout.plan;
  inputPointers.resize(plan.inputs.size());
  outputPointers.resize(plan.outputs.size());
  staging.resize(plan.inputs.size());
  address.resize(plan.buffers.size());
  for (size_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers[i]->kind == BufferKind::Arena)
      address[i] = static_cast<std::byte *>(spaceMemory[plan.buffers[i]->space]) + plan.buffers[i]->offset;
    else if (plan.buffers[i]->kind == BufferKind::Literal)
      address[i] = const_cast<std::byte *>(layout.literalData[i]); // checkPlan: nothing writes to it
  inputSlots.resize(layout.inputSlots);
  outputSlots.resize(layout.outputSlots);
  nanoseconds.resize(layout.clocks);
  for (const Patch &patch : layout.fixedInputs)
    inputSlots[patch.slot] = address[patch.buffer];
  for (const Patch &patch : layout.fixedOutputs)
    outputSlots[patch.slot] = address[patch.buffer];
  for (const Operation &operation : layout.operations) {
    MortiseEnqueueArgs &args = enqueues.emplace_back(MortiseEnqueueArgs{.struct_size = sizeof(MortiseEnqueueArgs)});
    if (operation.region == none)
      continue;
    const Kernel &kernel = *layout.kernels[operation.region];
    args.kernel = kernel.kernel;
    args.stream = operation.stream == none ? nullptr : streams[operation.stream];
    args.inputs = inputSlots.data() + operation.inputSlots;
    args.outputs = outputSlots.data() + operation.outputSlots;
    size_t space = 0;
    while (!kernel.device->info.host_memory && layout.spaces[space].device != kernel.device)
      ++space;
    args.workspace =
        kernel.workspace ? static_cast<std::byte *>(spaceMemory[space]) + layout.spaces[space].workspace : nullptr;
  }
}

Context::~Context() {
  for (size_t i = 0; i < streams.size(); ++i) {
    const Device &device = *layout.streams[i];
    MortiseStreamArgs args{
        .struct_size = sizeof(MortiseStreamArgs), .device = device.info.device, .stream = streams[i]};
    if (auto called = call("stream_destroy", device.plugin->table->stream_destroy, args); !called)
      logMessage(MORTISE_WARNING, "stream_destroy failed: " + called.error().message);
  }
  for (size_t i = 0; i < spaceMemory.size(); ++i) {
    const Device *device = layout.spaces[i].device;
    if (device == nullptr || spaceMemory[i] == nullptr)
      continue;
    MortiseMemoryArgs args{
        .struct_size = sizeof(MortiseMemoryArgs), .device = device->info.device, .memory = spaceMemory[i]};
    if (auto called = call("memory_free", device->plugin->table->memory_free, args); !called)
      logMessage(MORTISE_WARNING, "memory_free failed: " + called.error().message);
  }
}

Result<void> Context::execute(const Bound *bound, const void *const *inputs, void *const *outputs, bool profile) {
  const plan::PlanT &plan = *layout.plan;
  for (uint32_t number : layout.callBuffers) {
    const plan::BufferT &buffer = *plan.buffers[number];
    if (buffer.kind == BufferKind::Input)
      address[number] = const_cast<void *>(inputs[buffer.index]); // written only where an output aliases it
    else if (const int64_t alias = plan.outputs[buffer.index]->alias; alias >= 0)
      address[number] = const_cast<void *>(inputs[alias]);
    else
      address[number] = outputs[buffer.index];
  }
  if (bound && bound->number != boundNumber) {
    boundNumber = bound->number;
    for (uint32_t number : layout.constantBuffers)
      address[number] = const_cast<void *>(bound->data[plan.buffers[number]->index]);
    for (size_t i = 0; i < enqueues.size(); ++i)
      if (layout.operations[i].region != none)
        enqueues[i].constants = bound->packed[layout.operations[i].region];
  }
  for (const Patch &patch : layout.inputPatches)
    inputSlots[patch.slot] = address[patch.buffer];
  for (const Patch &patch : layout.outputPatches)
    outputSlots[patch.slot] = address[patch.buffer];
  if (profile)
    std::fill(nanoseconds.begin(), nanoseconds.end(), 0);
  auto done = executeAll(profile);
  if (!done)
    abandon();
  return done;
}

Result<void> Context::executeAll(bool profile) {
  for (size_t i = 0; i < layout.operations.size(); ++i) {
    const Operation &operation = layout.operations[i];
    if (operation.waitFirst != none)
      if (auto waited = wait(operation.waitFirst); !waited)
        return waited;
    if (auto done = operation.region != none ? enqueue(i, profile) : copy(operation); !done) [[unlikely]]
      return done;
  }
  return layout.lastStream == none ? Result<void>() : wait(layout.lastStream);
}

Result<void> Context::enqueue(size_t number, bool profile) {
  const Operation &operation = layout.operations[number];
  const Kernel &kernel = *layout.kernels[operation.region];
  MortiseEnqueueArgs &args = enqueues[number];
  const bool whole = profile && kernel.steps.empty(); // a kernel without steps of its own is one step
  args.step_ns = profile && !whole ? nanoseconds.data() + operation.clocks : nullptr;
  const auto begin = whole ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
  auto called = call("enqueue", kernel.table().enqueue, args);
  if (!called) [[unlikely]]
    return Error{called.error().code, regionText(*layout.plan, operation.region) + ": " + called.error().message};
  if (whole) {
    if (operation.stream != none)
      if (auto waited = wait(operation.stream); !waited)
        return waited;
    const auto spent = std::chrono::steady_clock::now() - begin;
    nanoseconds[operation.clocks] +=
        static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count());
  }
  return called;
}

Result<void> Context::copy(const Operation &operation) {
  void *target = address[operation.target];
  const void *source = address[operation.source];
  if (operation.bytes == 0 || target == source)
    return {};
  if (operation.device == nullptr) {
    std::memcpy(target, source, operation.bytes);
    return {};
  }
  const MortisePlugin &table = *operation.device->plugin->table;
  MortiseMemoryArgs args{.struct_size = sizeof(MortiseMemoryArgs),
                         .device = operation.device->info.device,
                         .stream = operation.stream == none ? nullptr : streams[operation.stream],
                         .bytes = operation.bytes,
                         .memory = target,
                         .source = source};
  return operation.toDevice ? call("copy_to_device", table.copy_to_device, args)
                            : call("copy_to_host", table.copy_to_host, args);
}

Result<void> Context::wait(uint32_t stream) {
  const Device &device = *layout.streams[stream];
  MortiseStreamArgs args{
      .struct_size = sizeof(MortiseStreamArgs), .device = device.info.device, .stream = streams[stream]};
  auto waited = call("stream_wait", device.plugin->table->stream_wait, args);
  if (!waited)
    return Error{waited.error().code, "device '" + device.name() + "': " + waited.error().message};
  return waited;
}

void Context::abandon() {
  for (size_t i = 0; i < streams.size(); ++i) {
    const Device &device = *layout.streams[i];
    if (wait(static_cast<uint32_t>(i)))
      continue;
    MortiseStreamArgs args{
        .struct_size = sizeof(MortiseStreamArgs), .device = device.info.device, .stream = streams[i]};
    if (auto reset = call("stream_reset", device.plugin->table->stream_reset, args); !reset)
      logMessage(MORTISE_WARNING, "device '" + device.name() + "': stream_reset failed: " + reset.error().message);
  }
}

} // namespace mortise::runtime
