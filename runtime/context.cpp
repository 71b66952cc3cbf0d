// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "context.hpp"

#include "host.hpp"
#include <mortise/runtime/call.hpp>

#include <chrono>
#include <cstring>
#include <utility>

namespace mortise::runtime {

using plan::BufferKind;

Context::Context(const Layout &layout) : layout(layout) {}

Result<std::unique_ptr<Context>> Context::create(const Layout &layout) {
  std::unique_ptr<Context> context(new Context(layout));
  const plan::PlanT &plan = *layout.plan;
  const size_t spaces = layout.spaces.size();
  context->hostMemory.resize(spaces);
  context->spaceMemory.resize(spaces);
  context->spaceBytes.resize(spaces);
  context->inputPointers.resize(plan.inputs.size());
  context->outputPointers.resize(plan.outputs.size());
  context->staging.resize(plan.inputs.size());
  context->address.resize(plan.buffers.size());
  context->inputSlots.resize(layout.inputSlots);
  context->outputSlots.resize(layout.outputSlots);
  context->enqueues.resize(layout.operations.size(), MortiseEnqueueArgs{.struct_size = sizeof(MortiseEnqueueArgs)});
  if (auto done = context->createStreams(); !done)
    return done.error();
  return context;
}

Result<void> Context::createStreams() {
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

void Context::freeSpace(size_t number) {
  const Device *device = layout.spaces[number].device;
  spaceBytes[number] = 0;
  hostMemory[number] = Block();
  void *memory = std::exchange(spaceMemory[number], nullptr);
  if (device == nullptr || memory == nullptr)
    return;
  MortiseMemoryArgs args{.struct_size = sizeof(MortiseMemoryArgs), .device = device->info.device, .memory = memory};
  if (auto called = call("memory_free", device->plugin->table->memory_free, args); !called)
    logMessage(MORTISE_WARNING, "memory_free failed: " + called.error().message);
}

Result<void> Context::allocate(size_t number, uint64_t bytes) {
  const MemorySpace &space = layout.spaces[number];
  if (space.device == nullptr) {
    auto block = Block::allocate(bytes, space.alignment);
    if (!block)
      return block.error();
    hostMemory[number] = std::move(*block);
    spaceMemory[number] = hostMemory[number].data();
    spaceBytes[number] = bytes;
    return {};
  }
  MortiseMemoryArgs args{.struct_size = sizeof(MortiseMemoryArgs),
                         .device = space.device->info.device,
                         .bytes = std::max<uint64_t>(bytes, 1)};
  if (auto called = call("memory_allocate", space.device->plugin->table->memory_allocate, args); !called)
    return called;
  if (args.memory == nullptr)
    return Error{MORTISE_INTERNAL, "memory_allocate: expected memory or a status, found neither"};
  spaceMemory[number] = args.memory;
  spaceBytes[number] = bytes;
  return {};
}

// Frees the old memory first: no work is in flight. Allocates at least a quarter more than before, so that a sequence
// of growing calls does not allocate in each call.
Result<void> Context::grow(size_t number, uint64_t bytes) {
  if (spaceMemory[number] != nullptr && bytes <= spaceBytes[number])
    return {};
  const uint64_t generous = spaceBytes[number] + spaceBytes[number] / 4;
  freeSpace(number);
  if (generous > bytes && allocate(number, generous))
    return {};
  return allocate(number, bytes);
}

// Fills the lists that depend on the symbols' values and on the constants, but not on a call's pointers.
Result<void> Context::take(const Binding &binding, const Specialisation &specialisation) {
  const plan::PlanT &plan = *layout.plan;
  specialisationNumber = 0; // no specialisation, should a step below fail
  for (size_t i = 0; i < layout.spaces.size(); ++i)
    if (auto grown = grow(i, specialisation.spaceBytes[i]); !grown)
      return grown;
  for (size_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers[i]->kind == BufferKind::Arena)
      address[i] = static_cast<std::byte *>(spaceMemory[plan.buffers[i]->space]) + specialisation.shape.offsets[i];
    else if (plan.buffers[i]->kind == BufferKind::Literal)
      address[i] =
          const_cast<std::byte *>(layout.literalData[i]); // checkPlan has proved that no operation writes to a literal
  for (uint32_t number : layout.constantBuffers)
    address[number] = const_cast<void *>(binding.data[plan.buffers[number]->index]);
  for (const Patch &patch : layout.fixedInputs)
    inputSlots[patch.slot] = address[patch.buffer];
  for (const Patch &patch : layout.fixedOutputs)
    outputSlots[patch.slot] = address[patch.buffer];
  if (nanoseconds.size() < specialisation.clockCount)
    nanoseconds.resize(specialisation.clockCount);
  for (size_t i = 0; i < enqueues.size(); ++i) {
    const Operation &operation = layout.operations[i];
    if (operation.region == none)
      continue;
    const Kernel &kernel = *specialisation.kernels[operation.region];
    const uint32_t space = layout.spaceOf(*kernel.device);
    MortiseEnqueueArgs &args = enqueues[i];
    args.kernel = kernel.kernel;
    args.constants = specialisation.constants[operation.region];
    args.instance = specialisation.instances[operation.region];
    args.symbols = kernel.graph->view().symbol_count ? specialisation.shape.values.data() : nullptr;
    args.stream = operation.stream == none ? nullptr : streams[operation.stream];
    args.inputs = inputSlots.data() + operation.inputSlots;
    args.outputs = outputSlots.data() + operation.outputSlots;
    args.workspace = specialisation.needsWorkspace[operation.region]
                         ? static_cast<std::byte *>(spaceMemory[space]) + specialisation.workspaces[space]
                         : nullptr;
  }
  specialisationNumber = specialisation.number;
  return {};
}

Context::~Context() {
  for (size_t i = 0; i < streams.size(); ++i) {
    const Device &device = *layout.streams[i];
    MortiseStreamArgs args{
        .struct_size = sizeof(MortiseStreamArgs), .device = device.info.device, .stream = streams[i]};
    if (auto called = call("stream_destroy", device.plugin->table->stream_destroy, args); !called)
      logMessage(MORTISE_WARNING, "stream_destroy failed: " + called.error().message);
  }
  for (size_t i = 0; i < spaceMemory.size(); ++i)
    freeSpace(i);
}

Result<void> Context::execute(const Binding &binding, const Specialisation &specialisation, const void *const *inputs,
                              void *const *outputs, bool profile) {
  const plan::PlanT &plan = *layout.plan;
  if (specialisation.number != specialisationNumber)
    if (auto taken = take(binding, specialisation); !taken)
      return taken;
  for (uint32_t number : layout.callBuffers) {
    const plan::BufferT &buffer = *plan.buffers[number];
    if (buffer.kind == BufferKind::Input)
      address[number] = const_cast<void *>(inputs[buffer.index]); // checkPlan has proved which inputs are written
    else if (const int64_t alias = plan.outputs[buffer.index]->alias; alias >= 0)
      address[number] = const_cast<void *>(inputs[alias]);
    else
      address[number] = outputs[buffer.index];
  }
  for (const Patch &patch : layout.inputPatches)
    inputSlots[patch.slot] = address[patch.buffer];
  for (const Patch &patch : layout.outputPatches)
    outputSlots[patch.slot] = address[patch.buffer];
  if (profile)
    std::fill(nanoseconds.begin(), nanoseconds.end(), 0);
  auto done = executeAll(specialisation, profile);
  if (!done)
    abandon();
  return done;
}

Result<void> Context::executeAll(const Specialisation &specialisation, bool profile) {
  for (size_t i = 0; i < layout.operations.size(); ++i) {
    const Operation &operation = layout.operations[i];
    if (operation.waitFirst != none)
      if (auto waited = wait(operation.waitFirst); !waited)
        return waited;
    auto done = operation.region != none ? enqueue(i, specialisation, profile)
                                         : copy(operation, specialisation.shape.bytes[operation.source]);
    if (!done) [[unlikely]]
      return done;
  }
  return layout.lastStream == none ? Result<void>() : wait(layout.lastStream);
}

Result<void> Context::enqueue(size_t number, const Specialisation &specialisation, bool profile) {
  const Operation &operation = layout.operations[number];
  const Kernel &kernel = *specialisation.kernels[operation.region];
  const uint32_t clock = specialisation.clocks[operation.region];
  MortiseEnqueueArgs &args = enqueues[number];
  const bool whole =
      profile && specialisation.steps(operation.region).empty(); // a kernel that reports no steps counts as one step
  args.step_ns = profile && !whole ? nanoseconds.data() + clock : nullptr;
  const auto begin = whole ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
  auto called = call("enqueue", kernel.table().enqueue, args);
  if (!called) [[unlikely]]
    return Error{called.error().code, regionText(*layout.plan, operation.region) + ": " + called.error().message};
  if (whole) {
    if (operation.stream != none)
      if (auto waited = wait(operation.stream); !waited)
        return waited;
    const auto spent = std::chrono::steady_clock::now() - begin;
    nanoseconds[clock] += static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count());
  }
  return called;
}

Result<void> Context::copy(const Operation &operation, uint64_t bytes) {
  void *target = address[operation.target];
  const void *source = address[operation.source];
  if (bytes == 0 || target == source)
    return {};
  if (operation.device == nullptr) {
    std::memcpy(target, source, bytes);
    return {};
  }
  const MortisePlugin &table = *operation.device->plugin->table;
  MortiseMemoryArgs args{.struct_size = sizeof(MortiseMemoryArgs),
                         .device = operation.device->info.device,
                         .stream = operation.stream == none ? nullptr : streams[operation.stream],
                         .bytes = bytes,
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
