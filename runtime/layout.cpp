// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "layout.hpp"

#include "plan_check.hpp"
#include <mortise/runtime/memory_plan.hpp>

#include <boost/dynamic_bitset.hpp>

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
    if (auto done = findSpaces(); !done)
      return done;
    describeTensors();
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
    findHostCopiers();
    const std::vector<Lane> lanes = lanesOfCopies();
    for (size_t i = 0; i < lanes.size(); ++i)
      layout.operations[i].stream = streamOf(layout.operations[i].device, lanes[i]);
    // What only other devices use is ordered by a caller's stream of its own device all the same.
    for (const std::vector<TensorSpec> *tensors : {&layout.inputs, &layout.outputs})
      for (const TensorSpec &tensor : *tensors)
        (void)streamOf(tensor.device, Lane::Work);
    return {};
  }

private:
  void describeTensors() {
    auto spec = [&](std::string role, const plan::TensorTypeT &type, const Device *device) {
      const size_t elementBytes = (dtypeBits(type.dtype) + 7) / 8;
      return TensorSpec{std::move(role),
                        type.dtype,
                        type.dims,
                        isStaticType(type) ? *denseBytes(type) : 0,
                        elementBytes,
                        formulasOf(plan, type),
                        {},
                        device,
                        elementBytes};
    };
    for (size_t i = 0; i < plan.inputs.size(); ++i)
      layout.inputs.push_back(
          spec(inputText(plan, i), *plan.inputs[i]->type, layout.spaces[plan.inputs[i]->space].device));
    for (size_t i = 0; i < plan.inputs.size(); ++i)
      if (plan.inputs[i]->donated && !layout.inputs[i].device)
        layout.inputs[i].alignment = arenaAlignment; // regions that get it may use it as they do an arena's
    for (size_t i = 0; i < plan.outputs.size(); ++i)
      layout.outputs.push_back(
          spec("output " + std::to_string(i), *plan.outputs[i]->type, layout.spaces[plan.outputs[i]->space].device));
  }

  Result<const Device *> spaceDevice(const std::string &name) const {
    if (name.empty())
      return nullptr;
    for (const CompiledRegion &region : layout.regions)
      if (region.device->name() == name)
        return &region.device->owner();
    auto found = registry.find(name);
    if (!found)
      return found.error();
    return &found->front()->owner();
  }

  Result<void> findSpaces() {
    for (const auto &space : plan.spaces) {
      auto device = spaceDevice(space->device);
      if (!device)
        return device.error();
      if (space->number != 0 &&
          (!*device || space->number >= (*device)->info.space_count || !(*device)->plugin->table->memory_allocate))
        return corrupt("device '" + space->device + "' has no memory space " + std::to_string(space->number));
      const bool own = *device && (space->number != 0 || !(*device)->inHostMemory());
      layout.spaces.push_back({own ? *device : nullptr, space->number,
                               own ? std::max<size_t>(64, (*device)->info.spaces[space->number]->alignment) : 64});
    }
    for (const CompiledRegion &region : layout.regions) {
      const uint32_t number = layout.spaceOf(*region.device);
      if (number == none)
        return corrupt("it has no memory space for device '" + region.device->name() + "'");
      size_t &alignment = layout.spaces[number].alignment;
      alignment = std::max<size_t>(alignment, region.device->home().alignment);
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

  bool isConstant(uint32_t buffer) const {
    const plan::BufferT &read = *plan.buffers[buffer];
    return read.kind == BufferKind::Literal || (read.kind == BufferKind::Input && plan.inputs[read.index]->constant);
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
      const MemorySpace &lies = layout.spaces[described.kind == BufferKind::Literal ? 0 : described.space];
      if (lies.number == 0 ? layout.home(buffer) != layout.spaces[layout.spaceOf(device)].device
                           : lies.device != &device.owner())
        return corrupt(regionText(plan, region) + " uses buffer " + std::to_string(buffer) +
                       ", which lies in other memory than its device's");
      if (described.kind == BufferKind::Arena && plan.symbols.empty() &&
          described.offset % device.home().alignment != 0)
        return corrupt("buffer " + std::to_string(buffer) + " lies at offset " + std::to_string(described.offset) +
                       ", and device '" + device.name() + "' wants multiples of " +
                       std::to_string(device.home().alignment));
      auto &patches = fromCaller(buffer) ? (outputs ? layout.outputPatches : layout.inputPatches)
                                         : (outputs ? layout.fixedOutputs : layout.fixedInputs);
      patches.push_back({slot, buffer});
    }
    return {};
  }

  uint32_t streamOf(const Device *device, Lane lane) {
    if (device == nullptr || !device->plugin->hasStreams())
      return none;
    const auto found = std::ranges::find_if(
        layout.streams, [&](const StreamPlace &place) { return place.device == device && place.lane == lane; });
    if (found != layout.streams.end())
      return static_cast<uint32_t>(found - layout.streams.begin());
    StreamPlace made{device, lane, static_cast<uint32_t>(layout.timelines.size())};
    if (device->same && device->plugin->hasNativeStreams() && device->same->plugin->hasNativeStreams())
      made.timeline = layout.streams[streamOf(device->same, lane)].timeline;
    const auto number = static_cast<uint32_t>(layout.streams.size());
    layout.streams.push_back(made);
    if (made.timeline == layout.timelines.size())
      layout.timelines.push_back(number);
    return number;
  }

  void findHostCopiers() {
    const auto inHostsArena = [&](uint32_t buffer) {
      return plan.buffers[buffer]->kind == BufferKind::Arena && plan.buffers[buffer]->space == 0;
    };
    for (const Operation &operation : layout.operations)
      if (operation.region == none && operation.device && operation.device->plugin->registersMemory() &&
          (inHostsArena(operation.source) || inHostsArena(operation.target)) &&
          std::ranges::find(layout.hostCopiers, operation.device) == layout.hostCopiers.end())
        layout.hostCopiers.push_back(operation.device);
  }

  // Gives a copy a lane of its own where a kernel of the same device comes neither before nor behind it.
  std::vector<Lane> lanesOfCopies() const {
    const size_t count = layout.operations.size();
    std::vector<boost::dynamic_bitset<>> needs(count, boost::dynamic_bitset<>(count)); // what each operation builds on
    std::vector<uint32_t> writers(plan.buffers.size(), none);
    for (uint32_t i = 0; i < count; ++i) {
      const Operation &operation = layout.operations[i];
      const bool copies = operation.region == none;
      const auto reads = copies ? std::vector{operation.source} : plan.regions[operation.region]->inputs,
                 writes = copies ? std::vector{operation.target} : plan.regions[operation.region]->outputs;
      for (uint32_t buffer : reads)
        if (const uint32_t writer = writers[memoryOf(plan, buffer)]; writer != none) {
          needs[i] |= needs[writer];
          needs[i].set(writer);
        }
      for (uint32_t buffer : writes)
        writers[memoryOf(plan, buffer)] = i;
    }
    std::vector<Lane> lanes(count, Lane::Work);
    for (size_t i = 0; i < count; ++i) {
      const Operation &copy = layout.operations[i];
      if (copy.region != none || copy.device == nullptr)
        continue;
      for (size_t j = 0; j < count && lanes[i] == Lane::Work; ++j)
        if (layout.operations[j].region != none && &layout.operations[j].device->owner() == copy.device &&
            !needs[i][j] && !needs[j][i])
          lanes[i] = layout.home(copy.target) == copy.device ? Lane::CopiesIn : Lane::CopiesOut;
    }
    return lanes;
  }

  // The device that copies between two others' memories, each NULL for the host's. NULL when neither can.
  static const Device *copier(const Device *from, const Device *to) {
    if (from == nullptr || to == nullptr || from == to)
      return to ? to : from;
    const std::optional<Link> link = linkBetween(*from, *to);
    return link ? link->copier : nullptr;
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
      const Device *to = layout.home(target);
      operation.ofConstant = to && isConstant(source);
      const Device *from = operation.ofConstant ? to : layout.home(source);
      operation.source = source;
      operation.target = target;
      operation.device = copier(from, to);
      if (operation.device == nullptr && (from || to))
        return Error{MORTISE_UNSUPPORTED, "plan: expected devices '" + from->name() + "' and '" + to->name() +
                                              "' to copy between their memories, found that they do not; compile "
                                              "again, so that values go through the host"};
    }
    layout.operations.push_back(operation);
    return {};
  }

  Layout &layout;
  const plan::PlanT &plan;
  const Registry &registry;
};

} // namespace

const Device *Layout::home(uint32_t buffer) const {
  return plan->buffers[buffer]->kind == BufferKind::Literal ? nullptr : spaces[plan->buffers[buffer]->space].device;
}

bool Layout::isCallers(uint32_t timeline) const {
  const Device *device = streams[timelines[timeline]].device;
  const auto liesThere = [&](const TensorSpec &spec) { return spec.device == device; };
  return streams[timelines[timeline]].lane == Lane::Work &&
         std::ranges::count(streams, timeline, &StreamPlace::timeline) == 1 &&
         (std::ranges::any_of(inputs, liesThere) || std::ranges::any_of(outputs, liesThere));
}

bool Layout::needsOnHost(size_t input) const {
  const auto is = [&](uint32_t buffer) {
    return plan->buffers[buffer]->kind == BufferKind::Input && plan->buffers[buffer]->index == input;
  };
  for (const Operation &operation : operations)
    if (operation.region == none && !operation.ofConstant && is(operation.source))
      return true;
  for (size_t r = 0; r < regions.size(); ++r)
    for (size_t j = 0; j < plan->regions[r]->inputs.size(); ++j) {
      const Device &device = *regions[r].device;
      const bool inHome = !regions[r].kernel || regions[r].kernel->constantSpaces.empty();
      const uint32_t space = inHome ? 0 : regions[r].kernel->constantSpaces[j];
      if (is(plan->regions[r]->inputs[j]) &&
          (space == MORTISE_HOST_SPACE || device.info.spaces[space]->kind == MORTISE_SPACE_HOST))
        return true;
    }
  return false;
}

Result<void> Layout::bringCopiedConstants(Binding &binding) const {
  for (const Operation &operation : operations) {
    auto address = operation.ofConstant ? bringTo(*operation.device, operation.source, *plan, literalData, binding)
                                        : Result<MortiseAddress>(0);
    if (!address)
      return address.error();
    binding.copied.push_back(*address);
  }
  return {};
}

uint32_t Layout::callersTimeline(const Device &device) const {
  for (uint32_t t = 0; t < timelines.size(); ++t)
    if (streams[timelines[t]].device == &device && isCallers(t))
      return t;
  return none;
}

uint32_t Layout::spaceOf(const Device &device) const {
  if (device.inHostMemory())
    return 0;
  for (size_t i = 0; i < spaces.size(); ++i)
    if (spaces[i].device && spaces[i].number == 0 && spaces[i].device->sharesMemory(device))
      return static_cast<uint32_t>(i);
  return none;
}

Result<std::unique_ptr<Layout>> Layout::make(std::shared_ptr<const plan::PlanT> plan, const Registry &registry,
                                             const LoadOptions &options) {
  if (plan == nullptr)
    return Error{MORTISE_INVALID_ARGUMENT, "expected a plan, found NULL"};
  if (auto checked = checkPlan(*plan); !checked)
    return checked.error();
  auto layout = std::make_unique<Layout>();
  layout->plan = std::move(plan);
  layout->cache = &registry.cache();
  auto regions = compileRegions(*layout->plan, registry, options);
  if (!regions)
    return regions.error();
  layout->regions = std::move(*regions);
  std::vector<const MortiseGraph *> graphs;
  for (const CompiledRegion &region : layout->regions)
    graphs.push_back(&region.graph->view());
  if (auto checked = checkDonations(*layout->plan, graphs); !checked)
    return checked.error();
  if (auto made = LayoutMaker(*layout, registry).make(); !made)
    return made.error();
  return layout;
}

} // namespace mortise::runtime
