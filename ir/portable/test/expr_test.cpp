// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/portable/graph.hpp>

#include <gtest/gtest.h>

using namespace mortise;

namespace {
MortiseExprStep constant(int64_t value) { return {MORTISE_EXPR_CONST, 0, value}; }
MortiseExprStep symbol(int64_t index) { return {MORTISE_EXPR_SYMBOL, 0, index}; }
MortiseExprStep apply(int32_t op) { return {op, 0, 0}; }
Result<int64_t> run(std::vector<MortiseExprStep> steps, std::vector<int64_t> symbols = {}) {
  return evaluate({steps.data(), steps.size()}, symbols);
}
int64_t binary(int32_t op, int64_t x, int64_t y) {
  auto result = run({constant(x), constant(y), apply(op)});
  EXPECT_TRUE(result) << result.error().message;
  return result ? *result : -12345;
}
bool fails(std::vector<MortiseExprStep> steps, std::vector<int64_t> symbols = {}) {
  auto result = run(std::move(steps), std::move(symbols));
  return !result && result.error().code == MORTISE_INVALID_ARGUMENT && !result.error().message.empty();
}
} // namespace

TEST(Expr, Operators) {
  EXPECT_EQ(binary(MORTISE_EXPR_ADD, 3, 4), 7);
  EXPECT_EQ(binary(MORTISE_EXPR_SUB, 3, 4), -1);
  EXPECT_EQ(binary(MORTISE_EXPR_MUL, -3, 4), -12);
  EXPECT_EQ(binary(MORTISE_EXPR_MIN, 3, 4), 3);
  EXPECT_EQ(binary(MORTISE_EXPR_MAX, 3, 4), 4);
  EXPECT_EQ(binary(MORTISE_EXPR_FLOORDIV, 7, 2), 3);
  EXPECT_EQ(binary(MORTISE_EXPR_FLOORDIV, -7, 2), -4);
  EXPECT_EQ(binary(MORTISE_EXPR_FLOORDIV, 7, -2), -4);
  EXPECT_EQ(binary(MORTISE_EXPR_FLOORDIV, -6, 2), -3);
  EXPECT_EQ(binary(MORTISE_EXPR_MOD, 7, 3), 1);
  EXPECT_EQ(binary(MORTISE_EXPR_MOD, -7, 3), 2);
  EXPECT_EQ(binary(MORTISE_EXPR_MOD, 7, -3), -2);
  EXPECT_EQ(binary(MORTISE_EXPR_MOD, INT64_MIN, -1), 0);
}

TEST(Expr, SymbolsAndNesting) {
  // (s0 + 15) floordiv 16 * s1
  EXPECT_EQ(*run({symbol(0), constant(15), apply(MORTISE_EXPR_ADD), constant(16), apply(MORTISE_EXPR_FLOORDIV),
                  symbol(1), apply(MORTISE_EXPR_MUL)},
                 {33, 7}),
            21);
}

TEST(Expr, Errors) {
  EXPECT_TRUE(fails({}));
  EXPECT_TRUE(fails({constant(1), constant(2)}));
  EXPECT_TRUE(fails({constant(1), apply(MORTISE_EXPR_ADD)}));
  EXPECT_TRUE(fails({apply(MORTISE_EXPR_ADD)}));
  EXPECT_TRUE(fails({symbol(1)}, {5}));
  EXPECT_TRUE(fails({symbol(-1)}, {5}));
  EXPECT_TRUE(fails({apply(0)}));
  EXPECT_TRUE(fails({constant(1), constant(1), apply(10)}));
  EXPECT_TRUE(fails({constant(INT64_MAX), constant(1), apply(MORTISE_EXPR_ADD)}));
  EXPECT_TRUE(fails({constant(INT64_MIN), constant(1), apply(MORTISE_EXPR_SUB)}));
  EXPECT_TRUE(fails({constant(INT64_MAX), constant(2), apply(MORTISE_EXPR_MUL)}));
  EXPECT_TRUE(fails({constant(INT64_MIN), constant(-1), apply(MORTISE_EXPR_FLOORDIV)}));
  EXPECT_TRUE(fails({constant(1), constant(0), apply(MORTISE_EXPR_FLOORDIV)}));
  EXPECT_TRUE(fails({constant(1), constant(0), apply(MORTISE_EXPR_MOD)}));
  std::vector<MortiseExprStep> deep(65, constant(1));
  deep.insert(deep.end(), 64, apply(MORTISE_EXPR_ADD));
  EXPECT_TRUE(fails(deep));
  deep.erase(deep.begin());
  deep.pop_back();
  EXPECT_EQ(*run(deep), 64);
  std::vector<MortiseExprStep> lengthy{constant(0)};
  for (int i = 0; i < 2048; ++i)
    lengthy.insert(lengthy.end(), {constant(1), apply(MORTISE_EXPR_ADD)});
  EXPECT_TRUE(fails(lengthy));
}
