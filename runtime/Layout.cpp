// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Works out, once, everything about a plan's run that does not change between calls.
#include "Context.h"

#include "PlanCheck.h"

#include <algorithm>
#include <cstring>

namespace mortise::runtime {
namespace {

using plan::BufferKind;

Error corrupt(std::string message) {
  return {MORTISE_CORRUPT, "malformed plan: " + std::move(message) + "; compile again"};
}

class LayoutMaker {
public:
  LayoutMaker(Layout &layout, const Registry &registry) : layout(layout), plan(*layout.plan), registry(registry) {}

  Result<void> make() {
    describeTensors();
    if (auto done = findSpaces(); !done)
      return done;
    if (auto done = copyLiterals(); !done)
      return done;
    for (size_t i = 0; i < plan.buffers.size(); ++i)
      if (plan.buffers[i]->kind == BufferKind::Input && plan.inputs[plan.buffers[i]->index]->constant)
        layout.constantBuffers.push_back(static_cast<uint32_t>(i));
      else if (plan.buffers[i]->kind == BufferKind::Input || plan.buffers[i]->kind == BufferKind::Output)
        layout.callBuffers.push_back(static_cast<uint32_t>(i));
    for (const auto &step : plan.steps)
      if (auto done = addOperation(*step); !done)
        return done;
    return {};
  }

private:
  void describeTensors() {
    auto spec = [](std::string role, const plan::TensorTypeT &type) {
      return TensorSpec{std::move(role), type.dtype, type.dims, *denseBytes(type), (dtypeBits(type.dtype) + 7) / 8};
    };
    for (size_t i = 0; i < plan.inputs.size(); ++i)
      layout.inputs.push_back(
          spec("input " + std::to_string(i) + " '" + plan.inputs[i]->name + "'", *plan.inputs[i]->type));
    for (size_t i = 0; i < plan.outputs.size(); ++i)
      layout.outputs.push_back(spec("output " + std::to_string(i), *plan.outputs[i]->type));
  }

  Result<const Device *> spaceDevice(const std::string &name) const {
    if (name.empty())
      return nullptr;
    for (const auto &kernel : layout.kernels)
      if (kernel->device->name() == name)
        return kernel->device;
    auto found = registry.find(name);
    if (!found)
      return found.error();
    return found->front();
  }

  // Arena sizes, with the largest workspace of the regions that run in each space.
  Result<void> findSpaces() {
    for (const auto &space : plan.spaces) {
      auto device = spaceDevice(space->device);
      if (!device)
        return device.error();
      layout.spaces.push_back({*device && (*device)->info.host_memory ? nullptr : *device, space->bytes, 0, 64});
    }
    std::vector<uint64_t> workspaces(layout.spaces.size());
    for (const auto &kernel : layout.kernels) {
      const uint32_t number = spaceOf(*kernel->device);
      if (number == none)
        return corrupt("it has no memory space for device '" + kernel->device->name() + "'");
      MemorySpace &space = layout.spaces[number];
      space.alignment = std::max<size_t>(space.alignment, kernel->device->info.alignment);
      workspaces[number] = std::max(workspaces[number], kernel->workspace);
    }
    for (size_t i = 0; i < layout.spaces.size(); ++i) {
      MemorySpace &space = layout.spaces[i];
      space.workspace = (space.bytes + space.alignment - 1) / space.alignment * space.alignment;
      space.bytes = space.workspace + workspaces[i];
    }
    return {};
  }

  // Space 0 is the host's.
  uint32_t spaceOf(const Device &device) const {
    if (device.info.host_memory)
      return 0;
    for (size_t i = 0; i < layout.spaces.size(); ++i)
      if (layout.spaces[i].device == &device)
        return static_cast<uint32_t>(i);
    return none;
  }

  Result<void> copyLiterals() {
    layout.literalData.resize(plan.buffers.size());
    size_t alignment = 64;
    for (const MemorySpace &space : layout.spaces)
      alignment = std::max(alignment, space.alignment);
    for (size_t i = 0; i < plan.buffers.size(); ++i) {
      if (plan.buffers[i]->kind != BufferKind::Literal)
        continue;
      auto block = Block::allocate(plan.buffers[i]->literal.size(), alignment);
      if (!block)
        return block.error();
      std::ranges::copy(std::as_bytes(std::span(plan.buffers[i]->literal)), block->data());
      layout.literalData[i] = block->data();
      layout.literals.push_back(std::move(*block));
    }
    return {};
  }

  // The device whose memory a buffer lies in; NULL for the host's.
  const Device *home(uint32_t buffer) const {
    return plan.buffers[buffer]->kind == BufferKind::Arena ? layout.spaces[plan.buffers[buffer]->space].device
                                                           : nullptr;
  }

  bool fromCaller(uint32_t buffer) const {
    return plan.buffers[buffer]->kind == BufferKind::Input || plan.buffers[buffer]->kind == BufferKind::Output;
  }

  Result<void> addSlots(const std::vector<uint32_t> &buffers, const Kernel &kernel, bool outputs, uint32_t region) {
    const MortiseGraph &graph = kernel.graph->view();
    uint32_t &count = outputs ? layout.outputSlots : layout.inputSlots;
    for (size_t i = 0; i < buffers.size(); ++i) {
      const uint32_t slot = count++, buffer = buffers[i];
      if (!outputs && (graph.inputs[i]->flags & MORTISE_VALUE_CONSTANT))
        continue; // bound, not passed
      const plan::BufferT &described = *plan.buffers[buffer];
      const Device *expected = kernel.device->info.host_memory ? nullptr : kernel.device;
      if (home(buffer) != expected)
        return corrupt(regionText(plan, region) + " uses buffer " + std::to_string(buffer) +
                       ", which lies in other memory than its device's");
      if (described.kind == BufferKind::Arena && described.offset % kernel.device->info.alignment != 0)
        return corrupt("buffer " + std::to_string(buffer) + " lies at offset " + std::to_string(described.offset) +
                       ", and device '" + kernel.device->name() + "' wants multiples of " +
                       std::to_string(kernel.device->info.alignment));
      auto &patches = fromCaller(buffer) ? (outputs ? layout.outputPatches : layout.inputPatches)
                                         : (outputs ? layout.fixedOutputs : layout.fixedInputs);
      patches.push_back({slot, buffer});
    }
    return {};
  }

  uint32_t streamOf(const Device *device) {
    if (device == nullptr || !device->plugin->hasStreams)
      return none;
    auto found = std::ranges::find(layout.streams, device);
    if (found == layout.streams.end())
      found = layout.streams.insert(found, device);
    return static_cast<uint32_t>(found - layout.streams.begin());
  }

  Result<void> addOperation(const plan::StepT &step) {
    Operation operation;
    if (const auto *enqueue = step.instruction.AsEnqueue()) {
      const Kernel &kernel = *layout.kernels[enqueue->region];
      const plan::RegionT &region = *plan.regions[enqueue->region];
      operation.region = enqueue->region;
      operation.device = kernel.device;
      operation.inputSlots = layout.inputSlots;
      operation.outputSlots = layout.outputSlots;
      operation.clocks = layout.clocks;
      layout.clocks += static_cast<uint32_t>(std::max<size_t>(kernel.steps.size(), 1));
      if (auto added = addSlots(region.inputs, kernel, false, enqueue->region); !added)
        return added;
      if (auto added = addSlots(region.outputs, kernel, true, enqueue->region); !added)
        return added;
    } else if (const auto *copy = step.instruction.AsCopy()) {
      const Device *from = home(copy->source), *to = home(copy->target);
      if (from && to)
        return Error{MORTISE_UNSUPPORTED,
                     "plan: a copy from one device's memory to another's has to go through the host; compile again"};
      operation.source = copy->source;
      operation.target = copy->target;
      operation.bytes = *denseBytes(*plan.buffers[copy->source]->type);
      operation.device = from ? from : to;
      operation.toDevice = to != nullptr;
    }
    // Devices run on their own: whoever comes next on another device, or on the host, waits first.
    operation.stream = streamOf(operation.device);
    if (operation.stream != layout.lastStream)
      operation.waitFirst = layout.lastStream;
    layout.lastStream = operation.stream;
    layout.operations.push_back(operation);
    return {};
  }

  Layout &layout;
  const plan::PlanT &plan;
  const Registry &registry;
};

} // namespace

Result<std::unique_ptr<Layout>> Layout::make(std::shared_ptr<const plan::PlanT> plan, const Registry &registry) {
  if (plan == nullptr)
    return Error{MORTISE_INVALID_ARGUMENT, "expected a plan, found NULL"};
  if (auto checked = checkPlan(*plan); !checked)
    return checked.error();
  auto layout = std::make_unique<Layout>();
  layout->plan = std::move(plan);
  auto kernels = compileKernels(*layout->plan, registry);
  if (!kernels)
    return kernels.error();
  layout->kernels = std::move(*kernels);
  if (auto made = LayoutMaker(*layout, registry).make(); !made)
    return made.error();
  return layout;
}

} // namespace mortise::runtime
