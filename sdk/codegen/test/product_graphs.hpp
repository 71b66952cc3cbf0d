// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Graphs of products for the tests of their schedules (product_test.cpp, few_rows_test.cpp).
#pragma once

#include "oracle.hpp"

#include "schedule/simt.hpp"

namespace mortise::codegen::test {

inline const SimtTarget productTarget{"", "", "", 32, 1024, 1};
inline const SimtTarget matrixTarget{"", "", "", 32, 1024, 1, 132 * 2048, 16384, mmaLayout};

inline V transpose(TestGraph &b, V x, Dims permutation) {
  Dims dims;
  for (const int64_t axis : permutation)
    dims.push_back(x->type->dims[axis]);
  return b.op("transpose", {x}, x->type->dtype, dims, {{"permutation", permutation}});
}
inline V dot(TestGraph &b, V lhs, V rhs, const Dims &lhsBatch, const Dims &rhsBatch, const Dims &lhsSummed,
             const Dims &rhsSummed) {
  Dims dims;
  for (const int64_t axis : lhsBatch)
    dims.push_back(lhs->type->dims[axis]);
  const auto rest = [&](V operand, const Dims &batch, const Dims &summed) {
    for (int64_t axis = 0; axis < operand->type->rank; ++axis)
      if (std::ranges::find(batch, axis) == batch.end() && std::ranges::find(summed, axis) == summed.end())
        dims.push_back(operand->type->dims[axis]);
  };
  rest(lhs, lhsBatch, lhsSummed), rest(rhs, rhsBatch, rhsSummed);
  return b.op(
      "dot", {lhs, rhs}, lhs->type->dtype, dims,
      {{"lhs_batch", lhsBatch}, {"rhs_batch", rhsBatch}, {"lhs_contract", lhsSummed}, {"rhs_contract", rhsSummed}});
}
inline V matmul(TestGraph &b, V lhs, V rhs) { return dot(b, lhs, rhs, {}, {}, {1}, {0}); }
inline V unary(TestGraph &b, const char *op, V x, std::vector<Attr> attributes = {}) {
  return b.op(op, {x}, x->type->dtype, Dims(x->type->dims, x->type->dims + x->type->rank), std::move(attributes));
}
inline V add(TestGraph &b, V x, V y) {
  return b.op("add", {x, y}, x->type->dtype, Dims(x->type->dims, x->type->dims + x->type->rank));
}

// Of the graph's only group.
inline SimtSchedule scheduleOf(const MortiseGraph &graph, const SimtTarget &target = productTarget) {
  const std::vector<Group> groups = groupsOf(graph);
  EXPECT_EQ(groups.size(), 1U);
  auto plan = LoopPlan::make(std::move(*buildDag(graph, groups.at(0))), simtFuseTarget());
  EXPECT_TRUE(plan);
  return scheduleSimt(**plan, target);
}

inline V linear(TestGraph &b, V x, V w) {
  Dims dims(x->type->dims, x->type->dims + x->type->rank);
  dims.back() = w->type->dims[0];
  return b.op("linear", {x, w}, x->type->dtype, dims, {{"weight_transposed", false}});
}

using Sizes = std::vector<std::pair<int64_t, int64_t>>; // of two symbols

// One function for all values of two symbols, compared with the reference for each of these. `build` gives the inputs.
inline void checkExtents(const std::function<std::pair<V, V>(TestGraph &, const Dim &, const Dim &)> &build,
                         TestGraph &symbolic, std::span<const std::pair<int64_t, int64_t>> values) {
  const std::vector<Group> groups = groupsOf(symbolic.view());
  const std::vector<EmulatedFunction> functions = kernelsOf(symbolic.view(), groups);
  for (const auto &[first, second] : values) {
    TestGraph fixed;
    const auto [x, y] = build(fixed, first, second);
    Oracle oracle(fixed);
    oracle.fill(x, Fill::Small), oracle.fill(y, Fill::Small);
    const std::string what = std::to_string(first) + "x" + std::to_string(second);
    oracle.interpret(what);
    oracle.run(groups, functions, std::vector<int64_t>{first, second}, equal, what);
  }
}

} // namespace mortise::codegen::test
