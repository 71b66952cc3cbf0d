// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "rows.hpp"

namespace mortise::conformance {
namespace {

// A body that gives back its first input, or combines it with the second: bits pass as they are.
const MortiseGraph &chooses(Draft &draft, int32_t dtype, const Dims &dims, size_t inputs, size_t chosen) {
  ViewBuilder &body = draft.body();
  std::vector<MortiseValue *> values;
  for (size_t i = 0; i < inputs; ++i)
    values.push_back(body.input(dtype, dims));
  body.output(body.op("reshape", {values[chosen]}, dtype, dims, {integers("shape", dims)}));
  return body.view();
}

void branch(Draft &draft) {
  const Dims dims = draft.extents(0, 6);
  const int32_t dtype = draft.point.dtype;
  const auto *predicate = draft.input(MORTISE_I1, {}, between(draft.point.variant, draft.point.variant));
  const auto *x = draft.operand(dtype, dims), *y = draft.operand(dtype, dims);
  draft.node({predicate, x, y}, {{dtype, dims}}, {},
             {&chooses(draft, dtype, dims, 2, 0), &chooses(draft, dtype, dims, 2, 1)});
}

// Counts from a number up to `limit`, and turns the other state round in each step.
void loop(Draft &draft) {
  const Dims dims = draft.extents(1, 6);
  const int32_t dtype = draft.point.dtype;
  const int64_t limit = draft.point.variant == 0 ? 3 : 0; // three steps, or none
  const auto *count = draft.input(MORTISE_I64, {}, between(0, 0));
  const auto *x = draft.operand(dtype, dims);
  const auto literal = [&](ViewBuilder &body, int64_t number) {
    std::vector<uint8_t> bytes(8);
    for (int i = 0; i < 8; ++i)
      bytes[static_cast<size_t>(i)] = static_cast<uint8_t>(number >> (8 * i));
    const MortiseType *type = body.type(MORTISE_I64, {});
    return body.op("constant", {}, type, {test::tensor("value", type, bytes)});
  };
  ViewBuilder &condition = draft.body();
  auto *counted = condition.input(MORTISE_I64, {});
  condition.input(dtype, dims);
  condition.output(
      condition.op("compare", {counted, literal(condition, limit)}, MORTISE_I1, {}, {string("direction", "lt")}));
  ViewBuilder &step = draft.body();
  auto *number = step.input(MORTISE_I64, {});
  auto *state = step.input(dtype, dims);
  step.output(step.op("add", {number, literal(step, 1)}, MORTISE_I64, {}));
  step.output(step.op("reverse", {state}, dtype, dims, {integers("axes", {0})}));
  draft.node({count, x}, {{MORTISE_I64, {}}, {dtype, dims}}, {}, {&condition.view(), &step.view()});
}

// The state takes the place of each slice, and the slice that of the state.
void scan(Draft &draft) {
  const Dims dims = draft.extents(1, 6);
  const int32_t dtype = draft.point.dtype;
  const Dims row = without(dims, 0);
  const auto *start = draft.input(dtype, row), *stacked = draft.operand(dtype, dims);
  ViewBuilder &step = draft.body();
  auto *state = step.input(dtype, row);
  auto *slice = step.input(dtype, row);
  step.output(step.op("reshape", {slice}, dtype, row, {integers("shape", row)}));
  step.output(step.op("reshape", {state}, dtype, row, {integers("shape", row)}));
  draft.node({start, stacked}, {{dtype, row}, {dtype, dims}}, {integer("carried", 1), integers("trips", {dims[0]})},
             {&step.view()});
}

} // namespace

std::vector<Row> controlFlowRows() {
  return {{Op::If, {"second", "first"}, branch, 1}, {Op::While, {"steps", "none"}, loop}, {Op::Scan, {""}, scan}};
}

} // namespace mortise::conformance
