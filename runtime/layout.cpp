// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "layout.hpp"

#include "plan_check.hpp"

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
    auto spec = [&](std::string role, const plan::TensorTypeT &type) {
      return TensorSpec{std::move(role),
                        type.dtype,
                        type.dims,
                        isStaticType(type) ? *denseBytes(type) : 0,
                        (dtypeBits(type.dtype) + 7) / 8,
                        formulasOf(plan, type),
                        {}};
    };
    for (size_t i = 0; i < plan.inputs.size(); ++i)
      layout.inputs.push_back(spec(inputText(plan, i), *plan.inputs[i]->type));
    for (size_t i = 0; i < plan.outputs.size(); ++i)
      layout.outputs.push_back(spec("output " + std::to_string(i), *plan.outputs[i]->type));
  }

  Result<const Device *> spaceDevice(const std::string &name) const {
    if (name.empty())
      return nullptr;
    for (const CompiledRegion &region : layout.regions)
      if (region.device->name() == name)
        return region.device;
    auto found = registry.find(name);
    if (!found)
      return found.error();
    return found->front();
  }

  Result<void> findSpaces() {
    for (const auto &space : plan.spaces) {
      auto device = spaceDevice(space->device);
      if (!device)
        return device.error();
      layout.spaces.push_back({*device && (*device)->info.host_memory ? nullptr : *device, 64});
    }
    for (const CompiledRegion &region : layout.regions) {
      const uint32_t number = layout.spaceOf(*region.device);
      if (number == none)
        return corrupt("it has no memory space for device '" + region.device->name() + "'");
      size_t &alignment = layout.spaces[number].alignment;
      alignment = std::max<size_t>(alignment, region.device->info.alignment);
    }
    return {};
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

  // The device in whose memory a buffer lies; NULL for host memory.
  const Device *home(uint32_t buffer) const {
    return plan.buffers[buffer]->kind == BufferKind::Arena ? layout.spaces[plan.buffers[buffer]->space].device
                                                           : nullptr;
  }

  bool fromCaller(uint32_t buffer) const {
    return plan.buffers[buffer]->kind == BufferKind::Input || plan.buffers[buffer]->kind == BufferKind::Output;
  }

  Result<void> addSlots(const std::vector<uint32_t> &buffers, bool outputs, uint32_t region) {
    const Device &device = *layout.regions[region].device;
    const MortiseGraph &graph = layout.regions[region].graph->view();
    uint32_t &count = outputs ? layout.outputSlots : layout.inputSlots;
    for (size_t i = 0; i < buffers.size(); ++i) {
      const uint32_t slot = count++, buffer = memoryOf(plan, buffers[i]);
      if (!outputs && (graph.inputs[i]->flags & MORTISE_VALUE_CONSTANT))
        continue; // constants are bound, not passed with a call
      const plan::BufferT &described = *plan.buffers[buffer];
      if (home(buffer) != layout.spaces[layout.spaceOf(device)].device)
        return corrupt(regionText(plan, region) + " uses buffer " + std::to_string(buffer) +
                       ", which lies in other memory than its device's");
      if (described.kind == BufferKind::Arena && plan.symbols.empty() && described.offset % device.info.alignment != 0)
        return corrupt("buffer " + std::to_string(buffer) + " lies at offset " + std::to_string(described.offset) +
                       ", and device '" + device.name() + "' wants multiples of " +
                       std::to_string(device.info.alignment));
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
      const plan::RegionT &region = *plan.regions[enqueue->region];
      operation.region = enqueue->region;
      operation.device = layout.regions[enqueue->region].device;
      operation.inputSlots = layout.inputSlots;
      operation.outputSlots = layout.outputSlots;
      if (auto added = addSlots(region.inputs, false, enqueue->region); !added)
        return added;
      if (auto added = addSlots(region.outputs, true, enqueue->region); !added)
        return added;
    } else if (const auto *copy = step.instruction.AsCopy()) {
      const uint32_t source = memoryOf(plan, copy->source), target = memoryOf(plan, copy->target);
      const Device *from = home(source), *to = home(target);
      if (from && to)
        return Error{MORTISE_UNSUPPORTED,
                     "plan: a copy from one device's memory to another's has to go through the host; compile again"};
      operation.source = source;
      operation.target = target;
      operation.device = from ? from : to;
      operation.toDevice = to != nullptr;
    }
    // Devices run asynchronously: the next operation on another device or on the host waits for this one.
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

uint32_t Layout::spaceOf(const Device &device) const {
  if (device.info.host_memory)
    return 0;
  for (size_t i = 0; i < spaces.size(); ++i)
    if (spaces[i].device && spaces[i].device->sharesMemory(device))
      return static_cast<uint32_t>(i);
  return none;
}

Result<std::unique_ptr<Layout>> Layout::make(std::shared_ptr<const plan::PlanT> plan, const Registry &registry) {
  if (plan == nullptr)
    return Error{MORTISE_INVALID_ARGUMENT, "expected a plan, found NULL"};
  if (auto checked = checkPlan(*plan); !checked)
    return checked.error();
  auto layout = std::make_unique<Layout>();
  layout->plan = std::move(plan);
  auto regions = compileRegions(*layout->plan, registry);
  if (!regions)
    return regions.error();
  layout->regions = std::move(*regions);
  if (auto made = LayoutMaker(*layout, registry).make(); !made)
    return made.error();
  return layout;
}

} // namespace mortise::runtime
