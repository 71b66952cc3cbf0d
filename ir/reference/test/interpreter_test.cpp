// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whole graphs: memory planning, aliases, outputs that are inputs, errors.
#include "run_op.hpp"

#include <cfenv>

using namespace mortise;
using namespace mortise::test;

namespace {
Result<void> run(ViewBuilder &b, std::vector<const void *> inputs, std::vector<void *> outputs) {
  return reference::interpret(b.view(), inputs, outputs);
}
} // namespace

TEST(Interpreter, ValuesAliveTogetherDoNotOverlap) {
  // Every partial sum is used again at the end, in reverse.
  ViewBuilder b;
  const MortiseType *type = b.type(MORTISE_F32, {33});
  MortiseValue *x = b.input(type);
  std::vector<MortiseValue *> steps{x};
  for (int i = 0; i < 20; ++i)
    steps.push_back(b.op("add", {steps.back(), x}, type));
  MortiseValue *sum = steps.back();
  for (int i = 19; i >= 0; --i)
    sum = b.op("add", {sum, steps[size_t(i)]}, type);
  b.output(sum);
  std::vector<float> in(33, 1), out(33);
  ASSERT_TRUE(run(b, {in.data()}, {out.data()}));
  for (float value : out)
    EXPECT_EQ(value, 21 * 22 / 2);
}

TEST(Interpreter, WorkspaceIsReused) {
  ViewBuilder b;
  const MortiseType *type = b.type(MORTISE_F32, {1024});
  MortiseValue *x = b.input(type);
  for (int i = 0; i < 50; ++i)
    x = b.op("neg", {x}, type);
  b.output(x);
  auto program = reference::Interpreter::compile(b.view());
  ASSERT_TRUE(program);
  EXPECT_EQ((*program)->workspaceBytes(), 2 * 4096u);
}

TEST(Interpreter, UnusedResultsAndOutputsOfAllKinds) {
  ViewBuilder b;
  const MortiseType *type = b.type(MORTISE_F32, {2});
  MortiseValue *x = b.input(type), *y = b.op("neg", {x}, type);
  b.op("exp", {x}, type); // has no users
  b.output(y);
  b.output(x);
  b.output(y);
  float in[] = {1, 2}, first[2], second[2], third[2];
  ASSERT_TRUE(run(b, {in}, {first, second, third}));
  EXPECT_EQ(first[1], -2);
  EXPECT_EQ(second[1], 2);
  EXPECT_EQ(third[1], -2);
}

TEST(Interpreter, StateIsUpdatedInPlace) {
  ViewBuilder b;
  const MortiseType *type = b.type(MORTISE_F32, {3});
  MortiseValue *state = b.input(type, MORTISE_VALUE_STATE), *update = b.input(type);
  MortiseValue *next = b.op("add", {state, update}, type);
  MortiseValue *seen = b.op("mul", {state, state}, type); // must read the old state, although it runs after the update
  b.output(next);
  b.output(seen);
  b.alias(0, 0);
  float memory[] = {1, 2, 3}, in[] = {10, 10, 10}, out[3];
  ASSERT_TRUE(run(b, {memory, in}, {memory, out}));
  EXPECT_EQ(memory[2], 13);
  EXPECT_EQ(out[2], 9);
}

TEST(Interpreter, StatesThatSwap) {
  ViewBuilder b;
  const MortiseType *type = b.type(MORTISE_I32, {2});
  MortiseValue *x = b.input(type, MORTISE_VALUE_STATE), *y = b.input(type, MORTISE_VALUE_STATE);
  b.output(y);
  b.output(x);
  b.output(x);
  b.alias(0, 0);
  b.alias(1, 1);
  int32_t first[] = {1, 2}, second[] = {3, 4}, old[2];
  ASSERT_TRUE(run(b, {first, second}, {first, second, old}));
  EXPECT_EQ(first[0], 3);
  EXPECT_EQ(second[0], 1);
  EXPECT_EQ(old[1], 2);
}

TEST(Interpreter, PackedNibblesPassThrough) {
  ViewBuilder b;
  MortiseValue *x = b.input(MORTISE_I4, {3});
  b.output(x);
  b.output(b.op("reverse", {x}, MORTISE_I4, {3}, {integers("axes", {0})}));
  uint8_t in[] = {0x21, 0x03}, same[2], reversed[2];
  ASSERT_TRUE(run(b, {in}, {same, reversed}));
  EXPECT_EQ(same[0], 0x21);
  EXPECT_EQ(same[1], 0x03);
  EXPECT_EQ(reversed[0], 0x23);
  EXPECT_EQ(reversed[1], 0x01);
}

TEST(Interpreter, EmptyTensorsMayHaveNoMemory) {
  ViewBuilder b;
  MortiseValue *x = b.input(MORTISE_F32, {0, 4});
  b.output(b.op("softmax", {x}, MORTISE_F32, {0, 4}, {integer("axis", 1)}));
  b.output(b.op("reduce_sum", {x}, MORTISE_F32, {4}, {integers("axes", {0})}));
  float sums[4] = {1, 1, 1, 1};
  ASSERT_TRUE(run(b, {nullptr}, {nullptr, sums}));
  EXPECT_EQ(sums[3], 0);
}

TEST(Interpreter, TheCallersRoundingModeDoesNotMatter) {
  ViewBuilder b;
  MortiseValue *x = b.input(MORTISE_F32, {1});
  b.output(b.op("div", {x, b.input(MORTISE_F32, {1})}, MORTISE_F32, {1}));
  float one = 1, three = 3, out;
  std::fesetround(FE_UPWARD);
  auto result = run(b, {&one, &three}, {&out});
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
  std::fesetround(FE_TONEAREST);
  ASSERT_TRUE(result);
  EXPECT_EQ(out, 1.0f / 3.0f);
}

TEST(Interpreter, Errors) {
  ViewBuilder b;
  MortiseValue *x = b.input(MORTISE_F32, {2});
  b.output(b.op("acme.swizzle", {x}, MORTISE_F32, {2}));
  float data[2];
  auto result = run(b, {data}, {data});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, MORTISE_UNSUPPORTED);
  EXPECT_NE(result.error().message.find("acme.swizzle"), std::string::npos);
  EXPECT_EQ(run(b, {}, {data}).error().code, MORTISE_INVALID_ARGUMENT);

  ViewBuilder dynamic;
  dynamic.symbol("n", 1, 8);
  MortiseExprStep step{MORTISE_EXPR_SYMBOL, 0, 0};
  const MortiseType *type = dynamic.type(MORTISE_F32, {MORTISE_DYNAMIC}, {{step}});
  MortiseValue *y = dynamic.input(type);
  dynamic.output(dynamic.op("neg", {y}, type));
  EXPECT_EQ(run(dynamic, {data}, {data}).error().code, MORTISE_NEEDS_STATIC);
}
