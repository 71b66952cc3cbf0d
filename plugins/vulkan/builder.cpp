// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a region to steps: what groups do, and where each value lies.
#include "builder.hpp"

#include <algorithm>

namespace mortise::vulkan {

static constexpr uint32_t none = UINT32_MAX;

static Dim bytesOf(const MortiseValue &value) {
  const std::vector<Dim> dims = dimsOf(*value.type);
  return elementCount(std::span<const Dim>(dims)) * static_cast<int64_t>(dtypeBits(value.type->dtype) / 8);
}

static const char *loweringOf(codegen::GroupKind kind) {
  switch (kind) {
  case codegen::GroupKind::Pointwise:
    return "vulkan.pointwise";
  case codegen::GroupKind::Rows:
    return "vulkan.rows";
  case codegen::GroupKind::Columns:
    return "vulkan.columns";
  case codegen::GroupKind::Scan:
    return "vulkan.scan";
  case codegen::GroupKind::Product:
    return "vulkan.product";
  }
  return "vulkan.generated";
}

// ---- Places

void Builder::placeInputs() {
  for (uint32_t i = 0; i < region.input_count; ++i) {
    places[region.inputs[i]->index] = Place{Place::Input, i};
    kernel.constants |= (region.inputs[i]->flags & MORTISE_VALUE_CONSTANT) != 0;
  }
  for (size_t i = 0; i < region.alias_count; ++i)
    aliased[region.aliases[i]->output] = region.inputs[region.aliases[i]->input]->index;
}

// Whether the group may have the memory of one of its inputs, of which it makes something else, for this output.
bool Builder::mayWriteOver(uint32_t group, uint32_t output, uint32_t input) const {
  const std::vector<std::vector<uint32_t>> &over = functions[group]->code().over;
  return (groups[group].inPlace == static_cast<int>(input) && output == 0) ||
         (output < over.size() && std::ranges::find(over[output], input) != over[output].end());
}

// Whether the group that makes `value` may write it where the state lies that `output` updates: nobody wants the old
// contents any more.
bool Builder::mayUpdate(uint32_t output, uint32_t value) const {
  const uint32_t state = aliased[output];
  for (uint32_t other = 0; other < region.output_count; ++other)
    if (other != output && region.outputs[other]->index == state)
      return false;
  bool made = false;
  for (uint32_t number = 0; number < groups.size(); ++number) {
    const codegen::Group &group = groups[number];
    const bool before = made;
    const auto at = std::ranges::find(group.outputs, value);
    made |= at != group.outputs.end();
    const auto read = std::ranges::find(group.inputs, state);
    if (!made || read == group.inputs.end())
      continue;
    if (before || !mayWriteOver(number, static_cast<uint32_t>(at - group.outputs.begin()),
                                static_cast<uint32_t>(read - group.inputs.begin())))
      return false;
  }
  return made;
}

// Groups write outputs where they can. An output that is an input, is listed a second time, or updates a state that is
// still read is copied at the end.
void Builder::placeOutputs() {
  for (uint32_t o = 0; o < region.output_count; ++o) {
    const MortiseValue &value = *region.outputs[o];
    if (aliased[o] == value.index)
      continue; // the state as it was
    if (places[value.index] || (aliased[o] != none && !mayUpdate(o, value.index)))
      ends.push_back({o, value.index});
    else
      places[value.index] = Place{Place::Output, o};
  }
}

Place Builder::workspace(Dim bytes) {
  kernel.buffers.push_back({std::move(bytes)});
  return {Place::Workspace, static_cast<uint32_t>(kernel.buffers.size() - 1)};
}

Result<Place> Builder::placeOf(uint32_t value) {
  if (!places[value])
    return Error{MORTISE_INTERNAL, "a step of the vulkan plugin reads value " + std::to_string(value) + " (" +
                                       typeString(*region.values[value]->type) +
                                       "), which no step writes; please report this graph"};
  return *places[value];
}

Place Builder::placeFor(uint32_t value) {
  if (!places[value])
    places[value] = workspace(bytesOf(*region.values[value]));
  return *places[value];
}

// ---- Steps

Result<void> Builder::addLaunch(uint32_t number) {
  const codegen::Group &group = groups[number];
  Launch launch{functions[number], {}};
  for (const codegen::SimtArgument &argument : launch.function->code().arguments) {
    if (argument.kind == codegen::SimtArgument::Symbol) {
      launch.arguments.push_back({Launch::Argument::Symbol, argument.index, {}});
      continue;
    }
    if (argument.kind == codegen::SimtArgument::Constant) {
      launch.arguments.push_back({Launch::Argument::Constant, argument.index, {}});
      continue;
    }
    if (argument.kind == codegen::SimtArgument::Scratch) {
      launch.arguments.push_back({Launch::Argument::Address, 0, workspace(launch.function->code().scratchBytes)});
      continue;
    }
    const bool isOutput = argument.kind == codegen::SimtArgument::Output;
    Result<Place> place =
        isOutput ? Result<Place>(placeFor(group.outputs[argument.index])) : placeOf(group.inputs[argument.index]);
    if (!place)
      return place.error();
    launch.arguments.push_back({Launch::Argument::Address, 0, *place});
  }
  kernel.steps.push_back({std::move(launch), group.name, loweringOf(group.kind), group.nodes});
  return {};
}

void Builder::addCopy(uint32_t output, uint32_t value, Place source, Place target) {
  const MortiseNode *producer = region.values[value]->producer;
  kernel.steps.push_back({Copy{source, target, bytesOf(*region.values[value])},
                          "copy to output " + std::to_string(output), "vulkan.copy",
                          producer ? std::vector<uint32_t>{producer->index} : std::vector<uint32_t>{}});
}

// First what is copied elsewhere, then the states, which others may have been copied from. A state that becomes another
// one is kept in the workspace meanwhile: the two may change places.
Result<void> Builder::addCopies() {
  std::vector<std::pair<End, Place>> updates;
  for (const End &end : ends) {
    Result<Place> source = placeOf(end.value);
    if (!source)
      return source.error();
    const Place target{Place::Output, end.output};
    if (aliased[end.output] == none) {
      addCopy(end.output, end.value, *source, target);
      continue;
    }
    if (std::ranges::find(aliased, end.value) != aliased.end()) {
      const Place kept = workspace(bytesOf(*region.values[end.value]));
      addCopy(end.output, end.value, *source, kept);
      *source = kept;
    }
    updates.push_back({end, *source});
  }
  for (const auto &[end, source] : updates)
    addCopy(end.output, end.value, source, {Place::Output, end.output});
  return {};
}

void Builder::findLives() {
  for (uint32_t number = 0; number < kernel.steps.size(); ++number) {
    const auto use = [&](const Place &place) {
      if (place.kind != Place::Workspace)
        return;
      codegen::Buffer &buffer = kernel.buffers[place.index];
      buffer.first = std::min(buffer.first, number);
      buffer.last = std::max(buffer.last, number);
    };
    const auto &work = kernel.steps[number].work;
    if (const auto *copy = std::get_if<Copy>(&work)) {
      use(copy->source);
      use(copy->target);
    } else {
      for (const Launch::Argument &argument : std::get<Launch>(work).arguments)
        if (argument.kind == Launch::Argument::Address)
          use(argument.place);
    }
  }
}

Result<void> Builder::run() {
  codegen::FuseRequest request;
  request.graph = &region;
  request.taken.assign(region.node_count, false);
  request.materialise.assign(region.value_count, false);
  for (size_t i = 0; i < region.output_count; ++i)
    request.materialise[region.outputs[i]->index] = true;
  Result<codegen::FuseResult> fused = codegen::fuse(request, codegen::simtFuseTarget());
  if (!fused)
    return fused.error();
  groups = std::move(fused->groups);
  if (cancelled())
    return cancelledError();
  auto compiled = codegen::compileGroups<Function>(kernel.device, region, groups);
  if (!compiled)
    return compiled.error();
  functions = std::move(*compiled);
  placeInputs();
  placeOutputs();
  for (uint32_t number = 0; number < groups.size(); ++number)
    if (auto added = addLaunch(number); !added)
      return added;
  if (auto added = addCopies(); !added)
    return added;
  findLives();
  return {};
}

} // namespace mortise::vulkan
