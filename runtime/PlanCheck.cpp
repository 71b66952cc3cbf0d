// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "PlanCheck.h"

#include <algorithm>

namespace mortise::runtime {
namespace {

using plan::BufferKind;
using plan::BufferT;
using plan::PlanT;

Error corrupt(std::string message) {
  return {MORTISE_CORRUPT, "malformed plan: " + std::move(message) + "; compile again"};
}
std::string numbered(const char *what, size_t number) { return std::string(what) + " " + std::to_string(number); }

bool sameType(const plan::TensorTypeT &a, const plan::TensorTypeT &b) { return a.dtype == b.dtype && a.dims == b.dims; }

Result<void> checkBuffer(const PlanT &plan, const BufferT &buffer, const std::string &which) {
  if (!buffer.type || !denseBytes(*buffer.type))
    return corrupt(which + " has no sound type");
  // NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): has a value, or we had returned
  const uint64_t bytes = *denseBytes(*buffer.type);
  switch (buffer.kind) {
  case BufferKind::Input:
    if (buffer.index >= plan.inputs.size() || !sameType(*buffer.type, *plan.inputs[buffer.index]->type))
      return corrupt(which + " does not match an input");
    return {};
  case BufferKind::Output:
    if (buffer.index >= plan.outputs.size() || !sameType(*buffer.type, *plan.outputs[buffer.index]->type))
      return corrupt(which + " does not match an output");
    return {};
  case BufferKind::Arena:
    if (buffer.space >= plan.spaces.size() || buffer.offset > plan.spaces[buffer.space]->bytes ||
        bytes > plan.spaces[buffer.space]->bytes - buffer.offset)
      return corrupt(which + " reaches past its arena");
    return {};
  case BufferKind::Literal:
    if (buffer.literal.size() != bytes)
      return corrupt(which + " has " + std::to_string(buffer.literal.size()) + " bytes of literal for a type of " +
                     std::to_string(bytes));
    return {};
  }
  return corrupt(which + " has an unknown kind");
}

Result<void> checkSignature(const PlanT &plan) {
  for (size_t i = 0; i < plan.inputs.size(); ++i)
    if (!plan.inputs[i] || !plan.inputs[i]->type || !denseBytes(*plan.inputs[i]->type))
      return corrupt(numbered("input", i) + " has no sound type");
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const auto &output = plan.outputs[i];
    if (!output || !output->type || !denseBytes(*output->type))
      return corrupt(numbered("output", i) + " has no sound type");
    if (output->alias < 0)
      continue;
    if (static_cast<uint64_t>(output->alias) >= plan.inputs.size() ||
        !sameType(*output->type, *plan.inputs[output->alias]->type) || plan.inputs[output->alias]->constant)
      return corrupt(numbered("output", i) + " aliases what is no input of its type");
  }
  return {};
}

// Notes what a step writes; inputs may be written only where an output aliases them or they are state.
struct Writes {
  const PlanT &plan;
  std::vector<bool> outputs = std::vector<bool>(plan.outputs.size());

  Result<void> note(uint32_t number, const std::string &which) {
    const BufferT &buffer = *plan.buffers[number];
    if (buffer.kind == BufferKind::Output)
      outputs[buffer.index] = true;
    if (buffer.kind == BufferKind::Literal)
      return corrupt(which + " writes to a literal");
    if (buffer.kind == BufferKind::Input && !plan.inputs[buffer.index]->state &&
        std::none_of(plan.outputs.begin(), plan.outputs.end(),
                     [&](const auto &output) { return output->alias == int64_t{buffer.index}; }))
      return corrupt(which + " writes to input " + std::to_string(buffer.index) + ", which no output aliases");
    return {};
  }
};

Result<void> checkStep(const PlanT &plan, const plan::StepT &step, const std::string &which, Writes &writes) {
  if (const auto *enqueue = step.instruction.AsEnqueue()) {
    if (enqueue->region >= plan.regions.size())
      return corrupt(which + " runs a region that is not there");
    for (uint32_t output : plan.regions[enqueue->region]->outputs)
      if (auto noted = writes.note(output, which); !noted)
        return noted;
    return {};
  }
  if (const auto *copy = step.instruction.AsCopy()) {
    if (copy->source >= plan.buffers.size() || copy->target >= plan.buffers.size())
      return corrupt(which + " copies a buffer that is not there");
    if (*denseBytes(*plan.buffers[copy->source]->type) != *denseBytes(*plan.buffers[copy->target]->type))
      return corrupt(which + " copies between buffers of different sizes");
    return writes.note(copy->target, which);
  }
  return Error{MORTISE_VERSION_MISMATCH,
               "plan: " + which + " is an instruction that this version does not know; install a newer Mortise"};
}

} // namespace

std::optional<uint64_t> denseBytes(const plan::TensorTypeT &type) {
  const size_t bits = dtypeBits(type.dtype);
  if (bits == 0)
    return std::nullopt;
  uint64_t total = bits;
  bool empty = false;
  for (int64_t dim : type.dims) {
    if (dim < 0)
      return std::nullopt;
    empty |= dim == 0;
    if (dim > 0 && __builtin_mul_overflow(total, static_cast<uint64_t>(dim), &total))
      return std::nullopt;
  }
  if (total > (UINT64_C(1) << 50))
    return std::nullopt;
  return empty ? 0 : (total + 7) / 8;
}

std::string typeText(int32_t dtype, std::span<const int64_t> dims) {
  std::string text = std::string(dtypeName(dtype)) + "[";
  for (size_t i = 0; i < dims.size(); ++i)
    text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

Result<void> checkPlan(const PlanT &plan) {
  if (plan.version != 1)
    return Error{MORTISE_VERSION_MISMATCH, "expected a plan of version 1, found version " +
                                               std::to_string(plan.version) +
                                               "; install a newer Mortise, or compile again"};
  if (auto checked = checkSignature(plan); !checked)
    return checked;
  if (plan.spaces.empty() || !plan.spaces[0] || !plan.spaces[0]->device.empty())
    return corrupt("its first memory space is not the host's");
  for (size_t i = 0; i < plan.spaces.size(); ++i)
    if (!plan.spaces[i] || plan.spaces[i]->bytes > (UINT64_C(1) << 47))
      return corrupt(numbered("memory space", i) + " is larger than any memory");
  for (size_t i = 0; i < plan.buffers.size(); ++i)
    if (auto checked = plan.buffers[i] ? checkBuffer(plan, *plan.buffers[i], numbered("buffer", i))
                                       : corrupt("a buffer is missing");
        !checked)
      return checked;
  for (size_t i = 0; i < plan.regions.size(); ++i) {
    if (!plan.regions[i])
      return corrupt(numbered("region", i) + " is missing");
    for (const auto *list : {&plan.regions[i]->inputs, &plan.regions[i]->outputs})
      for (uint32_t buffer : *list)
        if (buffer >= plan.buffers.size())
          return corrupt(numbered("region", i) + " names a buffer that is not there");
  }
  Writes writes{plan};
  for (size_t i = 0; i < plan.steps.size(); ++i)
    if (auto checked =
            plan.steps[i] ? checkStep(plan, *plan.steps[i], numbered("step", i), writes) : corrupt("a step is missing");
        !checked)
      return checked;
  for (size_t i = 0; i < plan.outputs.size(); ++i)
    if (plan.outputs[i]->alias < 0 && !writes.outputs[i])
      return corrupt("no step writes " + numbered("output", i));
  return {};
}

Result<void> checkRegion(const PlanT &plan, uint32_t number, const MortiseGraph &graph) {
  const plan::RegionT &region = *plan.regions[number];
  const std::string which = numbered("region", number);
  for (size_t i = 0; i < graph.value_count; ++i)
    if (!isStatic(*graph.values[i]->type))
      return Error{MORTISE_UNSUPPORTED,
                   which + " has symbolic extents, which this version's plans do not carry; compile for static shapes"};
  auto match = [&](const std::vector<uint32_t> &buffers, const MortiseValue *const *values, size_t count) {
    if (buffers.size() != count)
      return false;
    for (size_t i = 0; i < count; ++i) {
      const auto &expected = *plan.buffers[buffers[i]]->type;
      const MortiseType &found = *values[i]->type;
      if (expected.dtype != found.dtype || !std::ranges::equal(expected.dims, dims(found)))
        return false;
    }
    return true;
  };
  if (!match(region.inputs, graph.inputs, graph.input_count) ||
      !match(region.outputs, graph.outputs, graph.output_count))
    return corrupt(which + "'s buffers do not have the types of its graph's inputs and outputs");
  for (size_t i = 0; i < graph.input_count; ++i) {
    const BufferT &buffer = *plan.buffers[region.inputs[i]];
    const bool constant =
        buffer.kind == BufferKind::Literal || (buffer.kind == BufferKind::Input && plan.inputs[buffer.index]->constant);
    if ((graph.inputs[i]->flags & MORTISE_VALUE_CONSTANT) && !constant)
      return corrupt(which + " takes input " + std::to_string(i) + " as a constant, and it is none");
  }
  return {};
}

} // namespace mortise::runtime
