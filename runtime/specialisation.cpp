// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "specialisation.hpp"

#include "call_schedule.hpp"
#include "host.hpp"
#include "plan_check.hpp"
#include <mortise/runtime/call.hpp>
#include <mortise/runtime/memory_plan.hpp>

#include <algorithm>

namespace mortise::runtime {
namespace {

using plan::BufferKind;

constexpr uint64_t mostBytes = UINT64_C(1) << 47;

Error tooLarge(const Layout &layout, std::span<const int64_t> values) {
  return {MORTISE_OUT_OF_MEMORY, "the plan needs more memory than can be addressed for " +
                                     valuesText(*layout.plan, values) + "; use smaller shapes"};
}

class SpecialisationMaker {
public:
  SpecialisationMaker(const Layout &layout, const Binding &binding, Specialisation &specialisation,
                      RefusedPlace refused)
      : layout(layout), plan(*layout.plan), binding(binding), specialisation(specialisation), refused(refused) {}

  Result<void> make(std::span<const int64_t> values, SpecialisedKernels &specialised) {
    auto shape = Shape::make(layout, values);
    if (!shape)
      return shape.error();
    specialisation.shape = std::move(*shape);
    if (auto done = findKernels(specialised); !done)
      return done;
    workspace.resize(layout.spaces.size());
    const size_t count = layout.regions.size();
    specialisation.instances.resize(count);
    specialisation.ownSteps.resize(count);
    specialisation.workspaceBytes.resize(count);
    for (size_t i = 0; i < count; ++i) {
      if (auto done = prepareRegion(i); !done)
        return inRegion(plan, i, done.error());
      specialisation.clocks.push_back(specialisation.clockCount);
      specialisation.clockCount += static_cast<uint32_t>(std::max<size_t>(specialisation.steps(i).size(), 1));
    }
    for (size_t i = 0; i < layout.spaces.size(); ++i) {
      const uint64_t alignment = layout.spaces[i].alignment;
      specialisation.workspaces.push_back((specialisation.shape.arenas[i] + alignment - 1) / alignment * alignment);
      specialisation.spaceBytes.push_back(specialisation.workspaces[i] + workspace[i]);
    }
    specialisation.schedule = scheduleOfCall(layout, specialisation);
    return {};
  }

private:
  Result<void> findKernels(SpecialisedKernels &specialised) {
    std::vector<uint32_t> missing;
    for (uint32_t i = 0; i < layout.regions.size(); ++i)
      if (!layout.regions[i].kernel && layout.regions[i].first == i)
        missing.push_back(i);
    auto made = specialised.get(layout, missing, specialisation.shape.values, refused);
    if (!made)
      return made.error();
    const size_t count = layout.regions.size();
    specialisation.kernels.resize(count);
    specialisation.constants.resize(count);
    specialisation.ownsConstants.resize(count);
    asked.resize(count);
    for (size_t i = 0; i < missing.size(); ++i)
      specialisation.kernels[missing[i]] = std::move((*made)[i]);
    for (size_t i = 0; i < count; ++i) {
      const CompiledRegion &region = layout.regions[i];
      if (region.kernel) {
        specialisation.kernels[i] = region.kernel;
        specialisation.constants[i] = binding.packed[i];
        asked[i] = binding.workspaces[i];
        continue;
      }
      specialisation.kernels[i] = specialisation.kernels[region.first];
      auto packed = packConstants(plan, layout.literalData, i, *specialisation.kernels[i], binding,
                                  specialisation.uploads, refused);
      if (!packed)
        return packed.error();
      specialisation.constants[i] = packed->constants;
      asked[i] = packed->workspace;
      specialisation.ownsConstants[i] = true;
      specialisation.packedBytes += packed->bytes;
    }
    return {};
  }

  Result<void> prepareRegion(size_t number) {
    const Kernel &kernel = *specialisation.kernels[number];
    uint64_t bytes = 0;
    if (kernel.makesInstances()) {
      if (auto made = makeInstance(number, bytes); !made)
        return made;
    } else if (asked[number] != 0) {
      bytes = asked[number];
    } else {
      const bool symbolic = kernel.graph->view().symbol_count != 0;
      auto known =
          workspaceOf(kernel, symbolic ? std::span<const int64_t>(specialisation.shape.values) : std::span<int64_t>());
      if (!known)
        return known.error();
      bytes = *known;
    }
    uint64_t &most = workspace[layout.spaceOf(*kernel.device)];
    most = std::max(most, bytes);
    specialisation.workspaceBytes[number] = bytes;
    return {};
  }

  Result<void> makeInstance(size_t number, uint64_t &bytes) {
    const Kernel &kernel = *specialisation.kernels[number];
    MortiseInstanceArgs args{.struct_size = sizeof(MortiseInstanceArgs),
                             .kernel = kernel.kernel,
                             .constants = specialisation.constants[number],
                             .symbols = specialisation.shape.values.data()};
    const AboutScope about(layout.regions[number].name.c_str());
    if (auto called = call("instance_create", kernel.table().instance_create, args); !called) {
      tellRefused(refused, number, called.error());
      return called;
    }
    if (args.instance == nullptr)
      return Error{MORTISE_INTERNAL, "instance_create: expected an instance or a status, found neither"};
    specialisation.instances[number] = args.instance;
    if (args.workspace_bytes > mostBytes)
      return Error{MORTISE_INTERNAL, "instance_create: expected a workspace size, found " +
                                         std::to_string(args.workspace_bytes) + " bytes"};
    bytes = args.workspace_bytes;
    specialisation.packedBytes += args.packed_bytes;
    auto steps = readSteps("instance_create", args.steps, args.step_count);
    if (!steps)
      return steps.error();
    if (!steps->empty() && steps->size() != kernel.steps.size())
      return Error{MORTISE_INTERNAL, "instance_create: expected none or as many steps as the kernel has, " +
                                         std::to_string(kernel.steps.size()) + ", found " +
                                         std::to_string(steps->size())};
    specialisation.ownSteps[number] = std::move(*steps);
    return {};
  }

  const Layout &layout;
  const plan::PlanT &plan;
  const Binding &binding;
  Specialisation &specialisation;
  RefusedPlace refused;
  std::vector<uint64_t> asked;     // per region: the workspace that its constants ask for, or 0
  std::vector<uint64_t> workspace; // per memory space: the largest workspace
};

// The tensor specs of all inputs or all outputs, with numbers for extents.
Result<std::vector<TensorSpec>> fillSpecs(const std::vector<TensorSpec> &from, const plan::PlanT &plan, bool inputs,
                                          std::span<const int64_t> values) {
  std::vector<TensorSpec> specs = from;
  for (size_t i = 0; i < specs.size(); ++i) {
    const plan::TensorTypeT &type = inputs ? *plan.inputs[i]->type : *plan.outputs[i]->type;
    if (isStaticType(type))
      continue;
    auto extents = extentsOf(type, values);
    const auto bytes = extents ? denseBytes(type.dtype, *extents) : std::nullopt;
    if (!bytes)
      return Error{MORTISE_INVALID_ARGUMENT, specs[i].role + ": " + typeText(plan, type) + " is no tensor for " +
                                                 valuesText(plan, values) +
                                                 (extents ? "" : ": " + extents.error().message)};
    specs[i].dims = std::move(*extents);
    specs[i].bytes = *bytes;
    specs[i].values = valuesText(plan, values);
  }
  return specs;
}

} // namespace

Result<std::vector<TensorSpec>> inputSpecs(const Layout &layout, std::span<const int64_t> values) {
  return fillSpecs(layout.inputs, *layout.plan, true, values);
}

Result<Shape> Shape::make(const Layout &layout, std::span<const int64_t> values) {
  const plan::PlanT &plan = *layout.plan;
  Shape shape;
  shape.values.assign(values.begin(), values.end());
  auto inputs = inputSpecs(layout, values), outputs = fillSpecs(layout.outputs, plan, false, values);
  if (!inputs || !outputs)
    return inputs ? outputs.error() : inputs.error();
  shape.inputs = std::move(*inputs);
  shape.outputs = std::move(*outputs);
  shape.offsets.resize(plan.buffers.size());
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const plan::BufferT &buffer = *plan.buffers[i];
    auto extents = extentsOf(*buffer.type, values);
    const auto bytes = extents ? bytesOf(buffer, *extents, values) : std::nullopt;
    if (!bytes)
      return extents ? tooLarge(layout, values)
                     : Error{MORTISE_INVALID_ARGUMENT, "a value of type " + typeText(plan, *buffer.type) +
                                                           " has no size for " + valuesText(plan, values) + ": " +
                                                           extents.error().message};
    shape.bytes.push_back(*bytes);
    shape.offsets[i] = buffer.offset;
  }
  for (uint32_t i = 0; i < plan.buffers.size(); ++i)
    if (const uint32_t root = memoryOf(plan, i); shape.bytes[i] != shape.bytes[root])
      return Error{MORTISE_CORRUPT, "malformed plan: buffer " + std::to_string(i) + " shares memory of " +
                                        std::to_string(shape.bytes[root]) + " bytes and needs " +
                                        std::to_string(shape.bytes[i]) + " for " + valuesText(plan, values) +
                                        "; compile again"};
  for (uint32_t s = 0; s < layout.spaces.size(); ++s) {
    if (plan.symbols.empty()) {
      shape.arenas.push_back(plan.spaces[s]->bytes);
      continue;
    }
    std::vector<ArenaBlock> blocks;
    std::vector<size_t> which;
    for (uint32_t i = 0; i < plan.buffers.size(); ++i)
      if (plan.buffers[i]->kind == BufferKind::Arena && plan.buffers[i]->space == s && memoryOf(plan, i) == i) {
        blocks.push_back({shape.bytes[i], plan.buffers[i]->first, plan.buffers[i]->last, 0});
        which.push_back(i);
      }
    shape.arenas.push_back(assignOffsets(blocks, std::max<uint64_t>(arenaAlignment, layout.spaces[s].alignment)));
    if (shape.arenas[s] > mostBytes)
      return tooLarge(layout, values);
    for (size_t i = 0; i < which.size(); ++i)
      shape.offsets[which[i]] = blocks[i].offset;
  }
  return shape;
}

const Specialisation::Queued *Specialisation::queuedOn(std::span<const CallersStream> callers) const {
  for (const auto &made : queued)
    if (std::ranges::is_permutation(made->timelines, callers, {}, {}, &CallersStream::timeline))
      return made.get();
  return nullptr;
}

Specialisation::~Specialisation() {
  for (size_t i = 0; i < instances.size(); ++i) {
    if (instances[i] == nullptr)
      continue;
    MortiseInstanceArgs args{.struct_size = sizeof(MortiseInstanceArgs),
                             .kernel = kernels[i]->kernel,
                             .constants = constants[i],
                             .symbols = shape.values.data(),
                             .instance = instances[i]};
    if (auto called = call("instance_destroy", kernels[i]->table().instance_destroy, args); !called)
      logMessage(MORTISE_WARNING, "instance_destroy failed: " + called.error().message);
  }
  for (size_t i = 0; i < constants.size(); ++i)
    if (constants[i] && ownsConstants[i])
      destroyConstants(*kernels[i], constants[i]);
}

Result<std::vector<KernelPtr>> SpecialisedKernels::get(const Layout &layout, std::span<const uint32_t> which,
                                                       std::span<const int64_t> values, RefusedPlace refused) {
  if (which.empty())
    return std::vector<KernelPtr>();
  for (const Set &set : sets)
    if (std::ranges::equal(set.values, values)) {
      std::vector<KernelPtr> found;
      for (const auto &[region, kernel] : set.kernels)
        found.push_back(kernel);
      return found;
    }
  auto made = specialiseRegions(*layout.plan, layout.regions, which, values, *layout.cache, refused);
  if (!made)
    return made.error();
  compiledByRegion.resize(layout.regions.size());
  Set set{Values(values.begin(), values.end()), {}};
  for (size_t i = 0; i < which.size(); ++i) {
    set.kernels.emplace_back(which[i], (*made)[i]);
    ++compiledByRegion[which[i]];
    ++compiled;
  }
  sets.push_back(std::move(set));
  return made;
}

void SpecialisedKernels::forget(std::span<const int64_t> values) {
  std::erase_if(sets, [&](const Set &set) { return std::ranges::equal(set.values, values); });
}

Result<std::shared_ptr<Specialisation>> makeSpecialisation(const Layout &layout, const Binding &binding,
                                                           std::span<const int64_t> values,
                                                           SpecialisedKernels &specialised, RefusedPlace refused) {
  auto specialisation = std::make_shared<Specialisation>();
  if (auto made = SpecialisationMaker(layout, binding, *specialisation, refused).make(values, specialised); !made)
    return made.error();
  return specialisation;
}

Result<std::vector<uint64_t>> fixedSpaceBytes(const Layout &layout) {
  std::vector<uint64_t> workspaces(layout.spaces.size());
  for (const CompiledRegion &region : layout.regions)
    if (region.kernel) {
      auto bytes = workspaceOf(*region.kernel, {});
      if (!bytes)
        return bytes.error();
      uint64_t &most = workspaces[layout.spaceOf(*region.device)];
      most = std::max(most, *bytes);
    }
  std::vector<uint64_t> bytes;
  for (size_t i = 0; i < layout.spaces.size(); ++i) {
    const uint64_t alignment = layout.spaces[i].alignment;
    bytes.push_back((layout.plan->spaces[i]->bytes + alignment - 1) / alignment * alignment + workspaces[i]);
  }
  return bytes;
}

} // namespace mortise::runtime
