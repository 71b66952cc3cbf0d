// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "plan_check.hpp"

#include "symbols.hpp"

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

// Compares expressions step by step: the compiler writes equal extents in one normal form.
bool sameSteps(std::span<const plan::ExprStep> a, std::span<const plan::ExprStep> b) {
  return std::ranges::equal(a, b, [](const plan::ExprStep &left, const plan::ExprStep &right) {
    return left.op() == right.op() && left.value() == right.value();
  });
}
bool sameType(const plan::TensorTypeT &a, const plan::TensorTypeT &b) {
  return a.dtype == b.dtype && a.dims == b.dims && a.step_counts == b.step_counts && sameSteps(a.steps, b.steps);
}

bool isSoundProgram(std::span<const plan::ExprStep> steps, size_t symbolCount) {
  constexpr size_t most = 4096;
  size_t depth = 0;
  for (const plan::ExprStep &step : steps) {
    if (step.op() == MORTISE_EXPR_CONST || step.op() == MORTISE_EXPR_SYMBOL) {
      if (step.op() == MORTISE_EXPR_SYMBOL && (step.value() < 0 || static_cast<uint64_t>(step.value()) >= symbolCount))
        return false;
      ++depth;
    } else if (step.op() < MORTISE_EXPR_ADD || step.op() > MORTISE_EXPR_MAX || depth-- < 2) {
      return false;
    }
  }
  return depth == 1 && steps.size() <= most;
}

bool isSoundType(const PlanT &plan, const std::unique_ptr<plan::TensorTypeT> &type) {
  if (!type || type->dims.size() > 64)
    return false;
  if (isStaticType(*type))
    return type->steps.empty() && denseBytes(*type).has_value();
  if (dtypeBits(type->dtype) == 0 || type->step_counts.size() != type->dims.size())
    return false;
  size_t at = 0;
  for (size_t i = 0; i < type->dims.size(); ++i) {
    const size_t count = type->step_counts[i];
    if (count > type->steps.size() - at)
      return false;
    const auto program = std::span(type->steps).subspan(at, count);
    const bool number = count == 1 && program[0].op() == MORTISE_EXPR_CONST;
    if (!isSoundProgram(program, plan.symbols.size()) ||
        type->dims[i] != (number ? program[0].value() : MORTISE_DYNAMIC) || (number && program[0].value() < 0))
      return false;
    at += count;
  }
  return at == type->steps.size();
}

// Sizes of symbolic types are compared for the values of each call, in Shape::make.
Result<void> checkSharing(const PlanT &plan, const BufferT &buffer, const std::string &which) {
  const BufferT *root = buffer.shares < plan.buffers.size() ? plan.buffers[buffer.shares].get() : nullptr;
  if (!root || root->shares != ownMemory || !isPlain(*root) || !isSoundType(plan, root->type))
    return corrupt(which + " shares the memory of a buffer that is not there or has none of its own");
  const bool isDonated = root->kind == BufferKind::Input && root->index < plan.inputs.size() &&
                         plan.inputs[root->index]->donated && buffer.space == root->space &&
                         dtypeBits(buffer.type->dtype) <= dtypeBits(root->type->dtype); // so that it is aligned
  if (!isDonated && !(root->kind == BufferKind::Arena && root->space == buffer.space))
    return corrupt(which + " shares the memory of buffer " + std::to_string(buffer.shares) +
                   ", which is neither its arena's nor a donated input's of as large elements");
  if (isStaticType(*buffer.type) && isStaticType(*root->type) && denseBytes(*buffer.type) != denseBytes(*root->type))
    return corrupt(which + " shares memory of another size");
  return {};
}

Result<void> checkBuffer(const PlanT &plan, const BufferT &buffer, const std::string &which) {
  if (!isSoundType(plan, buffer.type))
    return corrupt(which + " has no sound type");
  if (!isPlain(buffer) && (buffer.kind != BufferKind::Arena || buffer.plugin.empty() || buffer.shares != ownMemory ||
                           !isSoundProgram(buffer.bytes, plan.symbols.size())))
    return corrupt(which + " has a layout without a size, or is none of an arena's own");
  if (buffer.shares != ownMemory && (buffer.kind != BufferKind::Arena || plan.version < 2))
    return corrupt(which + " shares memory, and only an arena's of version 2 may");
  switch (buffer.kind) {
  case BufferKind::Input:
    if (buffer.index >= plan.inputs.size() || !sameType(*buffer.type, *plan.inputs[buffer.index]->type) ||
        buffer.space != plan.inputs[buffer.index]->space)
      return corrupt(which + " does not match an input");
    return {};
  case BufferKind::Output:
    if (buffer.index >= plan.outputs.size() || !sameType(*buffer.type, *plan.outputs[buffer.index]->type) ||
        buffer.space != plan.outputs[buffer.index]->space)
      return corrupt(which + " does not match an output");
    return {};
  case BufferKind::Arena:
    if (buffer.space >= plan.spaces.size())
      return corrupt(which + " lies in a memory space that is not there");
    if (buffer.shares != ownMemory)
      return checkSharing(plan, buffer, which);
    if (plan.symbols.empty()) {
      const auto bytes = bytesOf(buffer, buffer.type->dims, {});
      const uint64_t room = plan.spaces[buffer.space]->bytes;
      if (!bytes || buffer.offset > room || *bytes > room - buffer.offset)
        return corrupt(which + " reaches past its arena");
    }
    return {};
  case BufferKind::Literal:
    if (!isStaticType(*buffer.type) || buffer.space != 0)
      return corrupt(which + " is a literal with symbolic extents, or outside host memory");
    if (buffer.literal.size() != *denseBytes(*buffer.type))
      return corrupt(which + " has " + std::to_string(buffer.literal.size()) + " bytes of literal for a type of " +
                     std::to_string(*denseBytes(*buffer.type)));
    return {};
  }
  return corrupt(which + " has an unknown kind");
}

Result<void> checkSignature(const PlanT &plan) {
  for (size_t i = 0; i < plan.inputs.size(); ++i)
    if (!plan.inputs[i] || !isSoundType(plan, plan.inputs[i]->type) ||
        (plan.inputs[i]->constant && !isStaticType(*plan.inputs[i]->type)) ||
        plan.inputs[i]->space >= plan.spaces.size())
      return corrupt(numbered("input", i) + " has no sound type");
    else if (plan.inputs[i]->donated && (plan.inputs[i]->constant || plan.inputs[i]->state || plan.version < 2))
      return corrupt(numbered("input", i) + " is donated and also constant or state, or the plan is of version 1");
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const auto &output = plan.outputs[i];
    if (!output || !isSoundType(plan, output->type) || output->space >= plan.spaces.size())
      return corrupt(numbered("output", i) + " has no sound type");
    if (output->alias < 0)
      continue;
    if (static_cast<uint64_t>(output->alias) >= plan.inputs.size() ||
        !sameType(*output->type, *plan.inputs[output->alias]->type) || plan.inputs[output->alias]->constant ||
        plan.inputs[output->alias]->donated || plan.inputs[output->alias]->space != output->space)
      return corrupt(numbered("output", i) + " aliases what is no input of its type and memory");
  }
  return {};
}

Result<void> checkSymbols(const PlanT &plan) {
  for (size_t i = 0; i < plan.symbols.size(); ++i) {
    const auto &symbol = plan.symbols[i];
    if (!symbol || symbol->min < 0 || symbol->min > symbol->max || symbol->divisor < 1)
      return corrupt(numbered("symbol", i) + " has no sound range");
    if (symbol->input >= plan.inputs.size() || plan.inputs[symbol->input]->constant)
      return corrupt(numbered("symbol", i) + " comes from an input that is not there or is constant");
    const plan::TensorTypeT &type = *plan.inputs[symbol->input]->type;
    size_t at = 0;
    for (size_t dim = 0; dim < symbol->dimension && dim < type.step_counts.size(); ++dim)
      at += type.step_counts[dim];
    if (symbol->dimension >= type.step_counts.size() || type.step_counts[symbol->dimension] != 1 ||
        type.steps[at].op() != MORTISE_EXPR_SYMBOL || type.steps[at].value() != static_cast<int64_t>(i))
      return corrupt(numbered("symbol", i) + " is not the extent that it is said to come from");
  }
  for (size_t i = 0; i < plan.guards.size(); ++i)
    if (!plan.guards[i] || !isSoundProgram(plan.guards[i]->steps, plan.symbols.size()) ||
        plan.guards[i]->relation < MORTISE_RELATION_ZERO || plan.guards[i]->relation > MORTISE_RELATION_AT_LEAST)
      return corrupt(numbered("guard", i) + " has no sound expression and relation");
  return {};
}

// Records what an operation writes. An input may be written only when an output aliases it, or when it is state or
// donated.
struct Writes {
  const PlanT &plan;
  std::vector<bool> outputs = std::vector<bool>(plan.outputs.size());

  Result<void> note(uint32_t number, const std::string &which) {
    const BufferT &buffer = *plan.buffers[memoryOf(plan, number)];
    if (buffer.kind == BufferKind::Output)
      outputs[buffer.index] = true;
    if (buffer.kind == BufferKind::Literal)
      return corrupt(which + " writes to a literal");
    if (buffer.kind == BufferKind::Input && !plan.inputs[buffer.index]->state && !plan.inputs[buffer.index]->donated &&
        std::none_of(plan.outputs.begin(), plan.outputs.end(),
                     [&](const auto &output) { return output->alias == int64_t{buffer.index}; }))
      return corrupt(which + " writes to input " + std::to_string(buffer.index) + ", which no output aliases");
    return {};
  }
};

// For plans with symbols, the runtime computes arena offsets from these lifetimes.
Result<void> checkLifetime(const PlanT &plan, uint32_t number, uint32_t step, const std::string &which) {
  const BufferT &buffer = *plan.buffers[memoryOf(plan, number)];
  if (!plan.symbols.empty() && buffer.kind == BufferKind::Arena && (step < buffer.first || step > buffer.last))
    return corrupt(which + " uses buffer " + std::to_string(number) + " outside its lifetime");
  return {};
}

Result<void> checkStep(const PlanT &plan, const plan::StepT &step, uint32_t number, Writes &writes) {
  const std::string which = numbered("step", number);
  if (const auto *enqueue = step.instruction.AsEnqueue()) {
    if (enqueue->region >= plan.regions.size())
      return corrupt(which + " runs a region that is not there");
    for (const auto *list : {&plan.regions[enqueue->region]->inputs, &plan.regions[enqueue->region]->outputs})
      for (uint32_t buffer : *list)
        if (auto lives = checkLifetime(plan, buffer, number, which); !lives)
          return lives;
    for (uint32_t output : plan.regions[enqueue->region]->outputs)
      if (auto noted = writes.note(output, which); !noted)
        return noted;
    return {};
  }
  if (const auto *copy = step.instruction.AsCopy()) {
    if (copy->source >= plan.buffers.size() || copy->target >= plan.buffers.size())
      return corrupt(which + " copies a buffer that is not there");
    const BufferT &source = *plan.buffers[copy->source], &target = *plan.buffers[copy->target];
    const plan::TensorTypeT &from = *source.type, &to = *target.type;
    if (source.layout != target.layout || source.plugin != target.plugin ||
        (!isPlain(source) && !(sameSteps(source.bytes, target.bytes) && sameType(from, to))))
      return corrupt(which + " copies between buffers of different layouts");
    if (!sameType(from, to) && (!isStaticType(from) || !isStaticType(to) || *denseBytes(from) != *denseBytes(to)))
      return corrupt(which + " copies between buffers of different sizes");
    for (uint32_t buffer : {copy->source, copy->target})
      if (auto lives = checkLifetime(plan, buffer, number, which); !lives)
        return lives;
    return writes.note(copy->target, which);
  }
  return Error{MORTISE_VERSION_MISMATCH,
               "plan: " + which + " is an instruction that this version does not know; install a newer Mortise"};
}

} // namespace

std::optional<uint64_t> denseBytes(int32_t dtype, std::span<const int64_t> dims) {
  const size_t bits = dtypeBits(dtype);
  if (bits == 0)
    return std::nullopt;
  uint64_t total = bits;
  bool empty = false;
  for (int64_t dim : dims) {
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

std::optional<uint64_t> bytesOf(const BufferT &buffer, std::span<const int64_t> extents,
                                std::span<const int64_t> values) {
  if (isPlain(buffer))
    return denseBytes(buffer.type->dtype, extents);
  const Result<int64_t> bytes = evaluateSteps(buffer.bytes, values);
  if (!bytes || *bytes < 0 || *bytes > (INT64_C(1) << 50))
    return std::nullopt;
  return static_cast<uint64_t>(*bytes);
}

std::string typeText(int32_t dtype, std::span<const int64_t> dims) {
  std::string text = std::string(dtypeName(dtype)) + "[";
  for (size_t i = 0; i < dims.size(); ++i)
    text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

uint32_t memoryOf(const PlanT &plan, uint32_t buffer) {
  return plan.buffers[buffer]->shares == ownMemory ? buffer : plan.buffers[buffer]->shares;
}

Result<void> checkPlan(const PlanT &plan) {
  if (plan.version < 1 || plan.version > 2)
    return Error{MORTISE_VERSION_MISMATCH, "expected a plan of version 1 or 2, found version " +
                                               std::to_string(plan.version) +
                                               "; install a newer Mortise, or compile again"};
  if (plan.version == 1 && !plan.symbols.empty())
    return corrupt("it has symbols and is of version 1, which has none");
  if (plan.spaces.empty() || !plan.spaces[0] || !plan.spaces[0]->device.empty())
    return corrupt("its first memory space is not the host's");
  for (size_t i = 0; i < plan.spaces.size(); ++i)
    if (!plan.spaces[i] || plan.spaces[i]->bytes > (UINT64_C(1) << 47))
      return corrupt(numbered("memory space", i) + " is larger than any memory");
  if (auto checked = checkSignature(plan); !checked)
    return checked;
  if (auto checked = checkSymbols(plan); !checked)
    return checked;
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
    if (auto checked = plan.steps[i] ? checkStep(plan, *plan.steps[i], static_cast<uint32_t>(i), writes)
                                     : corrupt("a step is missing");
        !checked)
      return checked;
  for (size_t i = 0; i < plan.outputs.size(); ++i)
    if (plan.outputs[i]->alias < 0 && !writes.outputs[i])
      return corrupt("no step writes " + numbered("output", i));
  return {};
}

namespace {

bool sameSteps(const plan::TensorTypeT &expected, const MortiseType &found) {
  size_t at = 0; // numbers have been compared
  for (size_t i = 0; i < expected.step_counts.size(); ++i) {
    if (expected.dims[i] != MORTISE_DYNAMIC) {
      at += expected.step_counts[i];
      continue;
    }
    const MortiseExpr &program = found.dim_exprs[i];
    if (program.count != expected.step_counts[i])
      return false;
    for (size_t j = 0; j < program.count; ++j, ++at)
      if (program.steps[j].op != expected.steps[at].op() || program.steps[j].value != expected.steps[at].value())
        return false;
  }
  return true;
}

} // namespace

Result<void> checkRegion(const PlanT &plan, uint32_t number, const MortiseGraph &graph) {
  const plan::RegionT &region = *plan.regions[number];
  const std::string which = numbered("region", number);
  if (graph.symbol_count != 0 && graph.symbol_count != plan.symbols.size())
    return corrupt(which + " has " + std::to_string(graph.symbol_count) + " symbols, and the plan has " +
                   std::to_string(plan.symbols.size()));
  auto match = [&](const std::vector<uint32_t> &buffers, const MortiseValue *const *values, size_t count) {
    if (buffers.size() != count)
      return false;
    for (size_t i = 0; i < count; ++i) {
      const auto &expected = *plan.buffers[buffers[i]]->type;
      const MortiseType &found = *values[i]->type;
      if (expected.dtype != found.dtype || !std::ranges::equal(expected.dims, dims(found)) ||
          !sameSteps(expected, found))
        return false;
    }
    return true;
  };
  if (!match(region.inputs, graph.inputs, graph.input_count) ||
      !match(region.outputs, graph.outputs, graph.output_count))
    return corrupt(which + "'s buffers do not have the types of its graph's inputs and outputs");
  for (const auto *list : {&region.inputs, &region.outputs})
    for (uint32_t buffer : *list)
      if (const BufferT &used = *plan.buffers[buffer]; !isPlain(used) && used.plugin != region.plugin)
        return corrupt(which + " uses buffer " + std::to_string(buffer) + ", whose layout is plugin '" + used.plugin +
                       "''s");
  for (size_t i = 0; i < graph.input_count; ++i) {
    const BufferT &buffer = *plan.buffers[region.inputs[i]];
    const bool constant =
        buffer.kind == BufferKind::Literal || (buffer.kind == BufferKind::Input && plan.inputs[buffer.index]->constant);
    if ((graph.inputs[i]->flags & MORTISE_VALUE_CONSTANT) && !constant)
      return corrupt(which + " takes input " + std::to_string(i) + " as a constant, and it is none");
  }
  return {};
}

Result<void> checkDonations(const PlanT &plan, std::span<const MortiseGraph *const> graphs) {
  std::vector<bool> spent(plan.buffers.size()); // holds anything; by the buffer that has the memory
  const auto read = [&](uint32_t buffer, const std::string &which) -> Result<void> {
    if (spent[memoryOf(plan, buffer)])
      return corrupt(which + " reads buffer " + std::to_string(buffer) + ", which a region before it may overwrite");
    return {};
  };
  for (size_t number = 0; number < plan.steps.size(); ++number) {
    const std::string which = numbered("step", number);
    if (const auto *copy = plan.steps[number]->instruction.AsCopy()) {
      if (auto sound = read(copy->source, which); !sound)
        return sound;
      spent[memoryOf(plan, copy->target)] = false;
      continue;
    }
    const uint32_t region = plan.steps[number]->instruction.AsEnqueue()->region;
    const std::vector<uint32_t> &inputs = plan.regions[region]->inputs, &outputs = plan.regions[region]->outputs;
    for (uint32_t buffer : inputs)
      if (auto sound = read(buffer, which); !sound)
        return sound;
    for (uint32_t buffer : outputs)
      spent[memoryOf(plan, buffer)] = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!(graphs[region]->inputs[i]->flags & MORTISE_VALUE_DONATED))
        continue;
      const uint32_t memory = memoryOf(plan, inputs[i]);
      const BufferT &buffer = *plan.buffers[memory];
      const auto isThere = [&](uint32_t other) { return memoryOf(plan, other) == memory; };
      if (buffer.kind != BufferKind::Arena && !(buffer.kind == BufferKind::Input && plan.inputs[buffer.index]->donated))
        return corrupt(which + " lets its region overwrite buffer " + std::to_string(inputs[i]) +
                       ", which is neither an arena's nor a donated input's");
      if (std::ranges::count_if(inputs, isThere) != 1 || std::ranges::any_of(outputs, isThere))
        return corrupt(which + " lets its region overwrite buffer " + std::to_string(inputs[i]) +
                       ", in whose memory another of its values lies");
      spent[memory] = true;
    }
  }
  return {};
}

} // namespace mortise::runtime
