// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run_op.hpp"

namespace mortise::test {
namespace {

// Runs the graph and returns its outputs; fails the test when it does not run.
std::vector<std::vector<double>> run(ViewBuilder &builder, const std::vector<Data> &inputs) {
  const MortiseGraph &graph = builder.view();
  std::vector<std::vector<uint8_t>> buffers, results;
  std::vector<const void *> in;
  std::vector<void *> out;
  for (const Data &input : inputs) // moving a vector does not move its elements
    in.push_back(buffers.emplace_back(encode(input)).data());
  for (size_t i = 0; i < graph.output_count; ++i)
    results.emplace_back(byteSize(*graph.outputs[i]->type) + 8);
  for (auto &result : results)
    out.push_back(result.data());
  Result<void> done = reference::interpret(graph, in, out);
  EXPECT_TRUE(done) << done.error().message;
  std::vector<std::vector<double>> values;
  for (size_t i = 0; i < graph.output_count; ++i) {
    const MortiseType &type = *graph.outputs[i]->type;
    values.push_back(decode(type.dtype, results[i], static_cast<size_t>(elementCount(type))));
  }
  return values;
}
using Values = std::vector<std::vector<double>>;

MortiseValue *number(ViewBuilder &builder, double value) {
  const MortiseType *type = builder.type(i64, {});
  std::vector<uint8_t> bytes = encode(scalar(i64, value));
  bytes.resize(sizeof(int64_t));
  return builder.op("constant", {}, type, {tensor("value", type, bytes)});
}

TEST(If, RunsOneBody) {
  for (double predicate : {1.0, 0.0}) {
    ViewBuilder yes, no, outer;
    auto *a = yes.input(f32, {2});
    yes.output(yes.op("neg", {a}, f32, {2}));
    auto *b = no.input(f32, {2});
    no.output(b); // an argument handed through
    auto *p = outer.input(i1, {}), *x = outer.input(f32, {2});
    auto *result = outer.op("if", {p, x}, f32, {2});
    outer.body(yes.view());
    outer.body(no.view());
    outer.output(result);
    EXPECT_EQ(run(outer, {scalar(i1, predicate), vector(f32, {1, 2})}),
              predicate ? Values({{-1, -2}}) : Values({{1, 2}}));
  }
}

// Packed i4 goes in and out of bodies; a body inside a body.
TEST(If, NestedAndPacked) {
  ViewBuilder inner, yes, no, outer;
  auto *c = inner.input(i4, {3});
  inner.output(inner.op("neg", {c}, i4, {3}));
  auto *q = yes.input(i1, {}), *a = yes.input(i4, {3});
  auto *nested = yes.op("if", {q, a}, i4, {3});
  yes.body(inner.view());
  yes.body(inner.view());
  yes.output(nested);
  no.input(i1, {});
  no.output(no.input(i4, {3}));
  auto *p = outer.input(i1, {}), *x = outer.input(i4, {3});
  auto *result = outer.op("if", {p, p, x}, i4, {3});
  outer.body(yes.view());
  outer.body(no.view());
  outer.output(result);
  EXPECT_EQ(run(outer, {scalar(i1, 1), vector(i4, {1, -8, 7})}), Values({{-1, -8, -7}}));
  EXPECT_EQ(run(outer, {scalar(i1, 0), vector(i4, {1, -8, 7})}), Values({{1, -8, 7}}));
}

// Fibonacci numbers: each step swaps the two parts of the state.
TEST(While, StateIsReadBeforeItIsWritten) {
  for (int steps : {0, 1, 10}) {
    ViewBuilder condition, step, outer;
    auto *n = condition.input(i64, {});
    condition.input(i64, {});
    condition.input(i64, {});
    condition.output(condition.op("compare", {n, number(condition, 0)}, i1, {}, {string("direction", "gt")}));
    auto *m = step.input(i64, {}), *a = step.input(i64, {}), *b = step.input(i64, {});
    auto *less = step.op("sub", {m, number(step, 1)}, i64, {}), *sum = step.op("add", {a, b}, i64, {});
    step.output(less);
    step.output(b);
    step.output(sum);
    auto *count = outer.input(i64, {}), *zero = outer.input(i64, {}), *one = outer.input(i64, {});
    const MortiseType *type = outer.type(i64, {});
    auto results = outer.ops("while", {count, zero, one}, {type, type, type});
    outer.body(condition.view());
    outer.body(step.view());
    for (auto *result : results)
      outer.output(result);
    double fibonacci[] = {0, 1};
    for (int i = 0; i < steps; ++i) {
      double next = fibonacci[0] + fibonacci[1];
      fibonacci[0] = std::exchange(fibonacci[1], next);
    }
    EXPECT_EQ(run(outer, {scalar(i64, steps), scalar(i64, 0), scalar(i64, 1)}),
              Values({{0}, {fibonacci[0]}, {fibonacci[1]}}));
  }
}

TEST(Scan, CarriesAndStacks) {
  for (int64_t trips : {int64_t(3), int64_t(0)}) {
    ViewBuilder step, outer;
    auto *state = step.input(f32, {2}), *slice = step.input(f32, {2});
    auto *sum = step.op("add", {state, slice}, f32, {2});
    step.output(sum);
    step.output(step.op("mul", {sum, sum}, f32, {2}));
    auto *h = outer.input(f32, {2}), *x = outer.input(f32, {trips, 2});
    auto results = outer.ops("scan", {h, x}, {outer.type(f32, {2}), outer.type(f32, {trips, 2})},
                             {integers("trips", {trips}), integer("carried", 1)});
    outer.body(step.view());
    outer.output(results[0]);
    outer.output(results[1]);
    Data xs = counting(f32, {trips, 2});
    Values expected{{10, 20}, {}};
    for (size_t t = 0; t < static_cast<size_t>(trips); ++t)
      for (size_t i = 0; i < 2; ++i) {
        expected[0][i] += xs.values[t * 2 + i];
        expected[1].push_back(expected[0][i] * expected[0][i]);
      }
    EXPECT_EQ(run(outer, {vector(f32, {10, 20}), xs}), expected);
  }
}

TEST(ControlFlow, Refusals) {
  ViewBuilder yes, no, outer;
  auto *a = yes.input(f32, {2});
  yes.output(yes.op("neg", {a}, f32, {2}));
  auto *b = no.input(f32, {3});
  no.output(b);
  auto *p = outer.input(i1, {}), *x = outer.input(f32, {2});
  outer.output(outer.op("if", {p, x}, f32, {2}));
  outer.body(yes.view());
  outer.body(no.view());
  reference::Refusal refusal = reference::refuse(outer.lastNode());
  EXPECT_NE(refusal.detail.find("body 1"), std::string::npos) << refusal.detail;
  outer.lastNode().body_count = 1;
  EXPECT_NE(reference::refuse(outer.lastNode()).detail.find("2 bodies"), std::string::npos);

  ViewBuilder shared, caller;
  auto *c = shared.input(f32, {2});
  shared.output(shared.op("all_reduce", {c}, f32, {2},
                          {string("reduction", "sum"), integers("groups", {0}), integer("group_size", 1)}));
  auto *q = caller.input(i1, {}), *y = caller.input(f32, {2});
  caller.output(caller.op("if", {q, y}, f32, {2}));
  caller.body(shared.view());
  caller.body(shared.view());
  EXPECT_NE(reference::refuse(caller.lastNode()).detail.find("collective"), std::string::npos);
}

} // namespace
} // namespace mortise::test
