// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Symbols of a graph: which values are permitted, and which are typical.
#include "view_builder.hpp"

#include <mortise/symbols.hpp>

#include <gtest/gtest.h>

namespace mortise {
namespace {

using Numbers = std::vector<int64_t>;
const Dim b = Dim::symbol(0), s = Dim::symbol(1);

struct Symbols : testing::Test {
  test::ViewBuilder builder;
  // An input with these extents.
  const MortiseValue *value(const std::vector<Dim> &dims) {
    Numbers numbers;
    std::vector<std::vector<MortiseExprStep>> programs;
    for (const Dim &dim : dims) {
      numbers.push_back(dim.numberOrDynamic());
      programs.push_back(dim.steps());
    }
    return builder.input(builder.type(MORTISE_F32, numbers, programs));
  }
  void guard(const Dim &dim, int32_t relation = MORTISE_RELATION_ZERO) { builder.guard(dim.steps(), relation, "why"); }
  Numbers typical() { return typicalValues(builder.view()); }
  std::string refusal(const Numbers &values) {
    const Result<void> checked = checkSymbols(builder.view(), values);
    return checked ? "" : checked.error().message;
  }
};

TEST(Ranges, NearestIsAMultipleInTheRange) {
  EXPECT_EQ((SymbolRange{0, INT64_MAX, 1}.nearest(64)), 64);
  EXPECT_EQ((SymbolRange{0, INT64_MAX, 48}.nearest(64)), 48);
  EXPECT_EQ((SymbolRange{65, INT64_MAX, 48}.nearest(64)), 96);
  EXPECT_EQ((SymbolRange{0, 60, 8}.nearest(64)), 56);
  EXPECT_EQ((SymbolRange{100, 200, 1}.nearest(64)), 100);
  EXPECT_EQ((SymbolRange{3, 5, 8}.nearest(64)), 5); // the range has no multiple
  EXPECT_EQ((SymbolRange{-5, -3, 4}.nearest(64)), -4);
  EXPECT_EQ((SymbolRange{-5, 5, 4}.nearest(-1)), -4);
  EXPECT_EQ((SymbolRange{INT64_MAX - 1, INT64_MAX, 8}.nearest(64)), INT64_MAX - 1);
  EXPECT_EQ((SymbolRange{INT64_MIN, INT64_MAX, 1000}.nearest(INT64_MIN)) % 1000, 0);
  for (int64_t min = -20; min <= 20; ++min)
    for (int64_t max = min; max <= 20; ++max)
      for (int64_t divisor = 1; divisor <= 9; ++divisor)
        for (int64_t target : {-64, -7, 0, 3, 10, 64}) {
          const SymbolRange range{min, max, divisor};
          bool any = false;
          for (int64_t value = min; value <= max; ++value)
            any |= range.contains(value);
          const int64_t found = range.nearest(target);
          EXPECT_TRUE(found >= min && found <= max);
          EXPECT_EQ(range.contains(found), any) << min << " " << max << " " << divisor << " " << target;
        }
  EXPECT_FALSE((SymbolRange{0, 8, 0}.contains(4))); // the divisor is 0
}

TEST_F(Symbols, ReadsExtents) {
  builder.symbol("b", 1, 8);
  builder.symbol("s", 1, 8);
  const MortiseValue *x = value({b, Dim(3), b * s + 1});
  EXPECT_EQ(dimsOf(*x->type), (std::vector<Dim>{b, Dim(3), b * s + 1}));
  EXPECT_FALSE(dimsOf(*x->type, 1)[2].isValid()); // the graph has one symbol
  EXPECT_FALSE(dimOf(MORTISE_DYNAMIC, nullptr).isValid());
  EXPECT_EQ(elementCount(dimsOf(*x->type)), 3 * b * (b * s + 1));
  const MortiseNode &node =
      *builder
           .op("slice", {x}, MORTISE_F32, {2},
               {test::extents("starts", {MORTISE_DYNAMIC, 5}, {s.steps(), Dim(5).steps()}), test::integer("axis", 1)})
           ->producer;
  EXPECT_EQ(dimsAttribute(node, "starts"), (std::vector<Dim>{s, Dim(5)}));
  EXPECT_TRUE(dimsAttribute(node, "limits").empty());
  EXPECT_TRUE(dimsAttribute(node, "axis").empty()); // an attribute of another kind
  EXPECT_EQ(symbolRanges(builder.view()), (std::vector<SymbolRange>{{1, 8, 1}, {1, 8, 1}}));
}

// A host of revision 1 wrote a struct that ends before `exprs`; nothing behind it is read.
TEST_F(Symbols, OlderAttributesHaveNoPrograms) {
  MortiseAttribute attribute =
      *builder.op("slice", {value({Dim(4)})}, MORTISE_F32, {2}, {test::integers("starts", {7})})
           ->producer->attributes[0];
  attribute.struct_size = offsetof(MortiseAttribute, exprs);
  attribute.exprs = reinterpret_cast<const MortiseExpr *>(16);
  const MortiseAttribute *list[] = {&attribute};
  MortiseNode node{};
  node.attributes = list;
  node.attribute_count = 1;
  EXPECT_EQ(dimsAttribute(node, "starts"), std::vector<Dim>{Dim(7)});
}

TEST_F(Symbols, ChecksValues) {
  builder.symbol("b", 2, 64, 4);
  builder.symbol("s", 1, INT64_MAX);
  guard(b - s, MORTISE_RELATION_AT_LEAST);
  guard(mod(s, 3));
  EXPECT_EQ(refusal({8, 6}), "");
  EXPECT_NE(refusal({8}).find("each of the graph's 2 symbols, found 1"), std::string::npos);
  EXPECT_NE(refusal({68, 6}).find("'b' to be at least 2 and at most 64, found 68"), std::string::npos);
  EXPECT_NE(refusal({6, 6}).find("'b' to be a multiple of 4, found 6"), std::string::npos);
  EXPECT_NE(refusal({8, 0}).find("'s' to be at least 1, found 0"), std::string::npos);
  EXPECT_NE(refusal({8, 9}).find("guard 0 (why) does not hold: expected 0 or more, found -1"), std::string::npos);
  EXPECT_NE(refusal({8, 7}).find("guard 1 (why) does not hold: expected 0, found 1"), std::string::npos);
  EXPECT_NE(refusal({8, INT64_MAX}), "");
}

TEST_F(Symbols, AGuardThatOverflowsOrIsUnknownDoesNotHold) {
  builder.symbol("b", 0, INT64_MAX);
  builder.guard((b * b).steps(), MORTISE_RELATION_AT_LEAST, "");
  EXPECT_EQ(refusal({3}), "");
  EXPECT_NE(refusal({INT64_MAX}).find("overflows"), std::string::npos);
  builder.guard(b.steps(), 7, "");
  EXPECT_NE(refusal({3}), "");
}

TEST_F(Symbols, TypicalIsNear64) {
  EXPECT_EQ(typical(), Numbers{});
  builder.symbol("b", 1, 8);
  builder.symbol("s", 0, INT64_MAX, 24);
  value({b, s});
  EXPECT_EQ(typical(), (Numbers{8, 48}));
}

TEST_F(Symbols, TypicalValuesHoldGuards) {
  builder.symbol("h", 1, 4096);
  builder.symbol("w", 1, 4096);
  builder.symbol("c", 1, 4096);
  value({Dim::symbol(0), Dim::symbol(1), Dim::symbol(2)});
  guard(Dim::symbol(0) - 2 * Dim::symbol(1)); // one number for both symbols does not satisfy it
  guard(Dim::symbol(2) - 300, MORTISE_RELATION_AT_LEAST);
  const Numbers found = typical();
  EXPECT_EQ(refusal(found), "") << found[0] << " " << found[1] << " " << found[2];
}

TEST_F(Symbols, TypicalExtentsAreExtents) {
  builder.symbol("b", 0, INT64_MAX);
  builder.symbol("s", 0, INT64_MAX);
  value({b - 200, floorDiv(s, 128)});
  const Numbers found = typical();
  EXPECT_GE(found[0] - 200, 1);
  EXPECT_GE(found[1] / 128, 1);
}

TEST_F(Symbols, TypicalExtentsOfBodiesAreExtents) {
  builder.symbol("b", 0, INT64_MAX);
  test::ViewBuilder inner;
  inner.symbol("b", 0, INT64_MAX);
  inner.input(inner.type(MORTISE_F32, {MORTISE_DYNAMIC}, {(b - 1000).steps()}));
  builder.op("while", {value({b})}, MORTISE_F32, {1});
  builder.body(inner.view());
  EXPECT_GE(typical()[0], 1000);
}

// Guards come before extents that should not be empty; values are given even if none satisfy all guards.
TEST_F(Symbols, TypicalValuesWhereNoneServe) {
  builder.symbol("b", 0, 10);
  value({b - 10});
  EXPECT_EQ(typical(), Numbers{10}); // an empty extent is still valid
  guard(b - 3);
  const Numbers found = typical(); // one of the two guards is broken
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0] >= 0 && found[0] <= 10);
}

TEST(Programs, EvaluateSeveral) {
  const std::vector<Dim> dims{b + 1, Dim(3), floorDiv(s, b)};
  EXPECT_EQ(*evaluate(dims, Numbers{2, 7}), (Numbers{3, 3, 3}));
  EXPECT_FALSE(evaluate(dims, Numbers{0, 7}));
  EXPECT_FALSE(evaluate(dims, Numbers{2}));
  EXPECT_EQ(evaluate(dims, Numbers{0, 7}).error().code, MORTISE_INVALID_ARGUMENT);
}

} // namespace
} // namespace mortise
