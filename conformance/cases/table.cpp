// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "table.hpp"

#include "lift.hpp"
#include "rows.hpp"

#include <algorithm>
#include <iterator>

namespace mortise::conformance {
namespace {

std::vector<Row> makeRows() {
  std::vector<Row> all;
  for (auto family : {elementwiseRows, movementRows, indexingRows, contractionRows, reductionRows, normalisationRows,
                      windowRows, randomRows, quantisationRows, controlFlowRows, collectiveRows})
    std::ranges::move(family(), std::back_inserter(all));
  std::ranges::sort(all, {}, &Row::op);
  return all;
}

template <typename Axis> uint32_t bit(Axis axis) { return uint32_t(1) << static_cast<unsigned>(axis); }

uint32_t valuesFor(int32_t dtype) {
  const uint32_t all = bit(Values::Random) | bit(Values::Zeros);
  if (isBool(dtype))
    return all;
  if (!isFloat(dtype))
    return all | bit(Values::Extreme) | bit(Values::Ties);
  const uint32_t floats = (uint32_t(1) << std::size(valuesNames)) - 1;
  return dtype == MORTISE_F8E4M3FN ? floats & ~bit(Values::Infinity) : floats; // it has none
}

bool sameType(const MortiseType &a, const MortiseType &b) {
  return a.dtype == b.dtype && std::ranges::equal(dims(a), dims(b));
}

uint32_t layoutsOf(Draft &draft) {
  const MortiseGraph &view = draft.builder.view();
  uint32_t layouts = bit(Layout::Dense);
  const auto look = [&](const MortiseType &type) {
    const bool moves = dtypeBits(type.dtype) >= 8 && elementCount(type) > 1;
    if (moves && type.rank >= 1)
      layouts |= bit(Layout::Strided);
    if (moves && type.rank >= 2)
      layouts |= bit(Layout::Transposed);
    if (dtypeBits(type.dtype) > 8)
      layouts |= bit(Layout::Misaligned);
  };
  for (size_t i = 0; i < view.input_count; ++i)
    look(*view.inputs[i]->type);
  for (size_t i = 0; i < view.output_count; ++i)
    look(*view.outputs[i]->type);
  for (size_t i = 0; i < view.input_count; ++i)
    if (sameType(*view.inputs[i]->type, *view.outputs[0]->type) && view.inputs[i]->use_count == 1)
      layouts |= bit(Layout::InPlace) | bit(Layout::State) | bit(Layout::Updated);
  layouts |= bit(Layout::Twice);
  if (view.input_count >= 1)
    layouts |= bit(Layout::Passed);
  if (view.input_count >= 2)
    layouts |= bit(Layout::Constant);
  return layouts;
}

} // namespace

std::span<const Row> rows() {
  static const std::vector<Row> all = makeRows();
  return all;
}

const Row *rowOf(Op op) {
  const auto found = std::ranges::lower_bound(rows(), op, {}, &Row::op);
  return found != rows().end() && found->op == op ? &*found : nullptr;
}

std::string whyStatic(const Row &row, const Point &point, uint64_t seed) {
  Draft actual(point, seed), marked(point, seed, true);
  row.make(actual);
  row.make(marked);
  const auto graph =
      lifted(marked.builder, actual.builder.view(), marked.markers, marked.numbers, point.shape == Shape::Zero);
  return graph ? "" : graph.error().message;
}

Facts factsOf(const Point &point) {
  const Row *row = rowOf(point.op);
  if (!row)
    return {"there is no row for the op"};
  Draft draft(point, 1);
  row->make(draft);
  if (!draft.skipped.empty())
    return {draft.skipped};
  Facts facts;
  facts.layouts = layoutsOf(draft);
  if (point.dynamic) {
    for (const uint64_t seed : {1, 2, 3}) // numbers may be such that what is computed is equal
      if (std::string why = whyStatic(*row, point, seed); !why.empty())
        return {why};
    facts.layouts &= ~(bit(Layout::Transposed) | bit(Layout::Strided)); // whose strides would be expressions
  }
  facts.values = bit(Values::Random);
  const MortiseGraph &view = draft.builder.view();
  for (const auto list : {std::span(view.inputs, view.input_count), std::span(view.outputs, view.output_count)})
    for (const MortiseValue *value : list)
      facts.rank = std::max(facts.rank, static_cast<uint32_t>(value->type->rank));
  for (const Input &input : draft.inputs)
    if (input.fill.kind == Fill::Numbers || input.fill.kind == Fill::Ascending)
      facts.values |= valuesFor(input.value->type->dtype);
  if (point.op == Op::Constant)
    facts.values |= valuesFor(point.dtype);
  if ((point.op == Op::ReduceProd || point.op == Op::Cumprod) && isFloat(point.dtype)) // whose factors are near 1
    facts.values &= bit(Values::Random) | bit(Values::Nan) | bit(Values::Infinity) | bit(Values::Zeros);
  if (point.dynamic)
    facts.values &= bit(Values::Random) | bit(Values::Nan) | bit(Values::Extreme);
  if (draft.isFinite())
    facts.values &= ~(bit(Values::Nan) | bit(Values::Infinity));
  return facts;
}

bool isAt(Op op, Level level) {
  switch (level) {
  case Level::Core:
    return !has(op, Trait::Composite);
  case Level::Composite:
    return has(op, Trait::Composite) && !has(op, Trait::Quantisation);
  case Level::Quantised:
    return has(op, Trait::Quantisation);
  default:
    return level == Level::Dynamic;
  }
}

} // namespace mortise::conformance
