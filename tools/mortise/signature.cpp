// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "signature.hpp"

#include "files.hpp"

#include <mortise/runtime/plan_generated.h>
#include <mortise/symbols.hpp>

#include <span>

namespace mortise::tool {

Result<const MortiseValue *> Signature::add(const plan::TensorTypeT &type, const std::vector<int64_t> &symbols) {
  static_assert(sizeof(plan::ExprStep) == sizeof(MortiseExprStep)); // plan.fbs promises the layout
  std::vector<int64_t> &extents = dims.emplace_back(type.dims);
  auto steps = std::span(reinterpret_cast<const MortiseExprStep *>(type.steps.data()), type.steps.size());
  for (size_t i = 0; i < type.step_counts.size(); ++i) {
    const Result<int64_t> extent = evaluate({steps.data(), type.step_counts[i]}, symbols);
    if (!extent)
      return extent.error();
    extents[i] = *extent;
    steps = steps.subspan(type.step_counts[i]);
  }
  for (const int64_t extent : extents)
    if (extent < 0)
      return Error{MORTISE_INVALID_ARGUMENT,
                   "expected extents of at least 0, found " + std::to_string(extent) + "; choose other --symbols"};
  const MortiseType &made =
      types.emplace_back(MortiseType{sizeof(MortiseType), nullptr, type.dtype, static_cast<int32_t>(extents.size()),
                                     extents.data(), nullptr, nullptr});
  MortiseValue value{};
  value.struct_size = sizeof value;
  value.type = &made;
  value.index = static_cast<uint32_t>(values.size());
  value.name = "";
  values.push_back(&this->made.emplace_back(value));
  return values.back();
}

Result<std::unique_ptr<Signature>> Signature::make(const plan::PlanT &plan, const std::string &assignments) {
  std::deque<MortiseSymbol> symbols;
  std::vector<const MortiseSymbol *> list;
  for (const auto &symbol : plan.symbols)
    list.push_back(&symbols.emplace_back(MortiseSymbol{sizeof(MortiseSymbol), nullptr, symbol->name.c_str(),
                                                       symbol->min, symbol->max, symbol->divisor}));
  const Result<std::vector<int64_t>> numbers = readNumbers(list, assignments);
  if (!numbers)
    return numbers.error();
  auto signature = std::make_unique<Signature>();
  for (const auto &input : plan.inputs) {
    Result<const MortiseValue *> value = signature->add(*input->type, *numbers);
    if (!value)
      return value.error();
    signature->made.back().flags = (input->constant ? MORTISE_VALUE_CONSTANT : 0u) |
                                   (input->state ? MORTISE_VALUE_STATE : 0u) |
                                   (input->donated ? MORTISE_VALUE_DONATED : 0u);
    signature->inputs.push_back(*value);
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    Result<const MortiseValue *> value = signature->add(*plan.outputs[i]->type, *numbers);
    if (!value)
      return value.error();
    signature->outputs.push_back(*value);
    if (const int64_t alias = plan.outputs[i]->alias; alias >= 0)
      signature->aliases.push_back(&signature->madeAliases.emplace_back(
          MortiseAlias{sizeof(MortiseAlias), nullptr, static_cast<uint32_t>(alias), static_cast<uint32_t>(i)}));
  }
  MortiseGraph &graph = signature->graph;
  graph.struct_size = sizeof graph;
  graph.name = "";
  graph.values = signature->values.data();
  graph.value_count = signature->values.size();
  graph.inputs = signature->inputs.data();
  graph.input_count = signature->inputs.size();
  graph.outputs = signature->outputs.data();
  graph.output_count = signature->outputs.size();
  graph.aliases = signature->aliases.data();
  graph.alias_count = signature->aliases.size();
  return signature;
}

} // namespace mortise::tool
