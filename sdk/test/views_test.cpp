// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks views against the listed positions of all their elements. reshapeView must find strides exactly when some
// exist, whether the view's strides are negative, 0 or overlapping.
#include "view_builder.hpp"

#include <mortise/views.hpp>

#include <gtest/gtest.h>

#include <random>

namespace mortise {
namespace {

using Numbers = std::vector<int64_t>;
using Dims = std::vector<Dim>;
const Dim b = Dim::symbol(0), s = Dim::symbol(1);

Numbers places(const FixedView &view) {
  Numbers all{view.offset};
  for (size_t d = 0; d < view.dims.size(); ++d) {
    Numbers next;
    for (int64_t place : all)
      for (int64_t i = 0; i < view.dims[d]; ++i)
        next.push_back(place + i * view.strides[d]);
    all = std::move(next);
  }
  return all;
}

FixedView fixed(const View &view, const Numbers &symbols) {
  Result<FixedView> found = evaluate(view, symbols);
  EXPECT_TRUE(found) << (found ? "" : found.error().message);
  return found ? *found : FixedView{};
}

FixedView dense(Numbers dims) {
  Numbers strides = denseStrides(dims);
  return {0, 0, std::move(dims), std::move(strides)};
}

// Brute force: takes strides from the positions of the first steps, if they are right for all elements.
std::optional<Numbers> stridesByForce(const FixedView &view, const Numbers &to) {
  const Numbers all = places(view);
  Numbers strides(to.size());
  const Numbers counts = denseStrides(to);
  for (size_t d = 0; d < to.size(); ++d)
    strides[d] = to[d] > 1 ? all[static_cast<size_t>(counts[d])] - all[0] : 0;
  return places({0, view.offset, to, strides}) == all ? std::optional(strides) : std::nullopt;
}

Numbers randomSplit(std::mt19937_64 &random, int64_t count) { // extents with the product `count`
  Numbers dims;
  while (count > 1) {
    Numbers divisors;
    for (int64_t d = 1; d <= count; ++d)
      if (count % d == 0)
        divisors.push_back(d);
    dims.push_back(divisors[random() % divisors.size()]);
    count /= dims.back();
  }
  return dims;
}

TEST(Views, ReshapesAreFoundExactlyWhereStridesServe) {
  std::mt19937_64 random(1);
  int found = 0, refused = 0;
  for (int round = 0; round < 20000; ++round) {
    const Numbers counts{1, 2, 6, 8, 12, 24, 36};
    const int64_t count = counts[random() % counts.size()];
    FixedView view = dense(randomSplit(random, count));
    view.offset = static_cast<int64_t>(random() % 5);
    for (int64_t &stride : view.strides) { // dense, not dense, reversed, repeated or overlapping
      const int kind = static_cast<int>(random() % 8);
      stride = kind == 0 ? -stride : kind == 1 ? 0 : kind == 2 ? static_cast<int64_t>(random() % 5) - 2 : stride;
    }
    const Numbers to = randomSplit(random, count);
    const std::optional<FixedView> reshaped = reshapeView(view, to);
    const std::optional<Numbers> strides = stridesByForce(view, to);
    ASSERT_EQ(reshaped.has_value(), strides.has_value()) << "round " << round;
    if (reshaped) {
      EXPECT_EQ(reshaped->dims, to);
      ASSERT_EQ(places(*reshaped), places(view)) << "round " << round;
    }
    ++(reshaped ? found : refused);
  }
  EXPECT_GT(found, 4000);
  EXPECT_GT(refused, 1000);
}

TEST(Views, ReshapesThatAreNone) {
  const FixedView view = dense({2, 3});
  for (const Numbers &to : {Numbers{}, Numbers{1}, Numbers{3}, Numbers{2}, Numbers{12}, Numbers{2, 2}, Numbers{6, 2},
                            Numbers{0}, Numbers{0, 6}, Numbers{-6}, Numbers{-2, -3}, Numbers{4, 2}})
    EXPECT_FALSE(reshapeView(view, to)) << to.size();
  EXPECT_FALSE(reshapeView(dense({}), Numbers{2}));
  EXPECT_TRUE(reshapeView(dense({}), Numbers{1, 1}));
  EXPECT_TRUE(reshapeView(dense({1, 1}), Numbers{}));
  // A sliding window: 3 windows of 2 over 4 elements are not one dimension of 6.
  EXPECT_FALSE(reshapeView(FixedView{0, 0, {3, 2}, {1, 1}}, Numbers{6}));
  EXPECT_TRUE(reshapeView(FixedView{0, 0, {3, 2}, {0, 0}}, Numbers{6})); // one element, repeated six times
  const FixedView reversed{0, 5, {2, 3}, {-3, -1}};
  ASSERT_TRUE(reshapeView(reversed, Numbers{6}));
  EXPECT_EQ(reshapeView(reversed, Numbers{6})->strides, Numbers{-1});
}

TEST(Views, WithoutElements) {
  const FixedView empty = dense({2, 0, 3});
  EXPECT_EQ(empty.strides, (Numbers{3, 3, 1}));
  EXPECT_TRUE(reshapeView(empty, Numbers{2, 0, 3}));
  EXPECT_FALSE(reshapeView(empty, Numbers{0}));
  EXPECT_TRUE(isDense(empty));
  EXPECT_TRUE(isDense(FixedView{0, 7, {0, 3}, {5, 2}}));
  EXPECT_TRUE(isDense(View{0, s, {Dim(0), s}, {Dim(7), Dim(2)}}));
  EXPECT_EQ(elementCount(Numbers{INT64_MAX, 3, 0}), 0);
  // Dense for all values of the symbols, which includes s = 0.
  const View view{0, 0, {Dim(3), s}, {s, Dim(1)}};
  EXPECT_TRUE(isDense(view));
  EXPECT_TRUE(isDense(fixed(view, {1, 0})));
}

TEST(Views, Density) {
  EXPECT_TRUE(isDense(dense({2, 3, 4})));
  EXPECT_TRUE(isDense(dense({})));
  EXPECT_TRUE(isDense(FixedView{0, 0, {2, 1, 3}, {3, 99, 1}})); // strides of extents of 1 do not matter
  EXPECT_FALSE(isDense(FixedView{0, 1, {2, 3}, {3, 1}}));
  EXPECT_FALSE(isDense(FixedView{0, 0, {2, 3}, {1, 2}}));
  EXPECT_FALSE(isDense(FixedView{0, 0, {2, 3}, {4, 1}}));
  EXPECT_FALSE(isDense(FixedView{0, 0, {2, 3}, {-3, -1}}));
  EXPECT_FALSE(isDense(FixedView{0, 0, {2, 3}, {0, 1}}));
  EXPECT_TRUE(isDense(View{0, 0, {b, s, Dim(4)}, {4 * s, Dim(4), Dim(1)}}));
  EXPECT_FALSE(isDense(View{0, 0, {b, s, Dim(4)}, {4 * b, Dim(4), Dim(1)}}));
  EXPECT_FALSE(isDense(View{0, b, {s}, {Dim(1)}}));
}

TEST(Views, NumbersThatLeave63Bits) {
  const int64_t half = INT64_C(1) << 62;
  EXPECT_EQ(denseStrides(Numbers{2, half, 4}), (Numbers{0, 4, 1}));
  EXPECT_EQ(elementCount(Numbers{half, 4}), INT64_MAX);
  EXPECT_FALSE(isDense(FixedView{0, 0, {2, half, 4}, {0, 4, 1}}));
  // The product of stride and extent is 2^63, not INT64_MIN.
  EXPECT_FALSE(reshapeView(FixedView{0, 0, {2, 2}, {INT64_MIN, half}}, Numbers{4}));
  EXPECT_FALSE(reshapeView(FixedView{0, 0, {half, 4}, {4, 1}}, Numbers{4, half}));
  EXPECT_FALSE(reshapeView(FixedView{0, 0, {8}, {half}}, Numbers{2, 2, 2})); // a stride of 2^63
  EXPECT_TRUE(reshapeView(FixedView{0, 0, {8}, {half}}, Numbers{8, 1}));
  EXPECT_FALSE(reshapeView(FixedView{0, 0, {2, 2}, {1, 3}}, Numbers{INT64_MIN, -1}));
  const View view{0, 0, {b, s}, {s, Dim(1)}};
  EXPECT_FALSE(evaluate(View{0, b * s, {}, {}}, Numbers{half, 4}));
  EXPECT_FALSE(evaluate(View{0, 0, {b * s}, {Dim(1)}}, Numbers{half, 4}));
  EXPECT_FALSE(evaluate(View{0, 0, {b}, {b * s}}, Numbers{half, 4}));
  EXPECT_FALSE(evaluate(view, Numbers{4})); // s has no value
  EXPECT_EQ(evaluate(view, Numbers{4}).error().code, MORTISE_INVALID_ARGUMENT);
}

TEST(Views, ReshapesForAllValues) {
  const auto reshaped = [](const Dims &from, const Dims &to) {
    View view{3, b, from, denseStrides(std::span<const Dim>(from))};
    return reshapeView(view, to);
  };
  const Dims heads{b, s, Dim(12), Dim(64)};
  struct Case {
    Dims from, to;
    bool serves;
  };
  const Case cases[] = {
      {{b, s, Dim(768)}, heads, true},
      {heads, {b * s, Dim(768)}, true},
      {{b * s, Dim(768)}, heads, true},
      {{b, s}, {s, b}, true}, // dense, so any extents with as many elements are possible
      {{b, s}, {b, s, Dim(1)}, true},
      {{b + 1, s}, {b * s + s}, true},
      {{floorDiv(s, 2) * 2}, {floorDiv(s, 2), Dim(2)}, true},
      {{s}, {floorDiv(s, 2), Dim(2)}, false}, // one element short for odd s
      {{s - mod(s, 4)}, {floorDiv(s - mod(s, 4), 4), Dim(4)}, true},
      {{b, s}, {b + s}, false},
      {{b}, {s}, false},
      {{Dim(0), s}, {s, Dim(0)}, false},
  };
  for (const Case &c : cases) {
    const std::optional<View> view = reshaped(c.from, c.to);
    ASSERT_EQ(view.has_value(), c.serves) << &c - cases;
    for (int64_t x : {0, 1, 2, 5})
      for (int64_t y : {0, 1, 3, 8})
        if (view) {
          EXPECT_EQ(view->base, 3u);
          const View from{3, b, c.from, denseStrides(std::span<const Dim>(c.from))};
          EXPECT_EQ(places(fixed(*view, {x, y})), places(fixed(from, {x, y}))) << &c - cases << " " << x << " " << y;
        }
  }
  // After a transpose that moves the heads to the front, rows are no longer contiguous.
  View view = *reshaped({b, s, Dim(768)}, heads);
  std::swap(view.dims[1], view.dims[2]);
  std::swap(view.strides[1], view.strides[2]);
  EXPECT_FALSE(reshapeView(view, Dims{b, 12 * s, Dim(64)}));
  EXPECT_TRUE(reshapeView(view, Dims{b, Dim(12), s, Dim(8), Dim(8)}));
}

// One op over a dense input, checked against the positions that the op's definition gives.
struct ViewOps : testing::Test {
  test::ViewBuilder builder;
  const MortiseNode &op(const char *name, Numbers from, Numbers to, std::vector<test::Attribute> attributes) {
    return *builder
                .op(name, {builder.input(MORTISE_F32, std::move(from))}, MORTISE_F32, std::move(to),
                    std::move(attributes))
                ->producer;
  }
  static std::optional<FixedView> through(const MortiseNode &node) {
    const std::optional<View> view = viewThrough(node, denseView(*node.operands[0]));
    if (!view)
      return std::nullopt;
    EXPECT_EQ(view->base, node.operands[0]->index);
    return fixed(*view, {});
  }
};

TEST_F(ViewOps, Through) {
  using test::integers;
  EXPECT_EQ(places(*through(op("transpose", {2, 3}, {3, 2}, {integers("permutation", {1, 0})}))),
            (Numbers{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(places(*through(op("broadcast", {1, 3}, {2, 2, 3}, {integers("axes", {0, 2})}))),
            (Numbers{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(places(*through(op("slice", {3, 8}, {2, 3},
                               {integers("starts", {1, 1}), integers("limits", {3, 7}), integers("strides", {1, 2})}))),
            (Numbers{9, 11, 13, 17, 19, 21}));
  EXPECT_EQ(places(*through(op("reshape", {2, 6}, {3, 4}, {integers("shape", {3, 4})}))), places(dense({12})));
  EXPECT_FALSE(through(op("relu", {2}, {2}, {})));
  EXPECT_FALSE(through(op("reverse", {2}, {2}, {integers("axes", {0})})));
}

TEST_F(ViewOps, AttributesThatDoNotFit) {
  using test::integers;
  EXPECT_FALSE(through(op("transpose", {2, 3}, {3, 2}, {})));
  EXPECT_FALSE(through(op("transpose", {2, 3}, {3, 2}, {integers("permutation", {1})})));
  EXPECT_FALSE(through(op("transpose", {2, 3}, {3, 2}, {integers("permutation", {1, 2})})));
  EXPECT_FALSE(through(op("transpose", {2, 3}, {3, 2}, {integers("permutation", {-1, 0})})));
  EXPECT_FALSE(through(op("transpose", {2, 3}, {3, 2, 1}, {integers("permutation", {1, 0, 2})})));
  EXPECT_FALSE(through(op("broadcast", {1, 3}, {2, 3}, {integers("axes", {0, 1, 2})})));
  EXPECT_FALSE(through(op("broadcast", {1, 3}, {2, 3}, {integers("axes", {0, 2})})));
  EXPECT_FALSE(through(op("slice", {3}, {2}, {integers("starts", {1})})));
  EXPECT_FALSE(through(op("slice", {3}, {2}, {integers("starts", {}), integers("strides", {1})})));
  // An offset of 2^65.
  EXPECT_FALSE(through(op("slice", {4, 4}, {1, 1}, {integers("starts", {INT64_MAX, 0}), integers("strides", {1, 1})})));
  const MortiseNode &two =
      *builder.op("reshape", {builder.input(MORTISE_F32, {2}), builder.input(MORTISE_F32, {2})}, MORTISE_F32, {2})
           ->producer;
  EXPECT_FALSE(viewThrough(two, denseView(*two.operands[0])));
}

TEST_F(ViewOps, BackIsTheInverse) {
  using test::integers;
  const MortiseNode &transpose = op("transpose", {2, 3, 4}, {4, 2, 3}, {integers("permutation", {2, 0, 1})});
  const Dims operand{Dim(2), Dim(3), Dim(4)};
  const std::optional<View> back = viewBack(transpose, denseView(*transpose.results[0]), operand);
  ASSERT_TRUE(back);
  // The operand, written through `back`, gives the result's strides again.
  EXPECT_EQ(viewThrough(transpose, *back)->strides, denseView(*transpose.results[0]).strides);
  const MortiseNode &reshape = op("reshape", {2, 6}, {3, 4}, {integers("shape", {3, 4})});
  EXPECT_EQ(viewBack(reshape, denseView(*reshape.results[0]), Dims{Dim(2), Dim(6)})->strides, (Dims{Dim(6), Dim(1)}));
  View columns = denseView(*reshape.results[0]);
  columns.strides = {Dim(1), Dim(3)};
  EXPECT_FALSE(viewBack(reshape, columns, Dims{Dim(2), Dim(6)}));
  EXPECT_FALSE(viewBack(transpose, denseView(*transpose.results[0]), Dims{Dim(2), Dim(3)}));
  EXPECT_FALSE(viewBack(op("relu", {2}, {2}, {}), columns, operand));
}

TEST(Views, RepeatedExtents) {
  EXPECT_EQ(repetition(Dim(1), s), Dim(0));
  EXPECT_EQ(repetition(s, s), Dim(1));
  EXPECT_EQ(repetition(Dim(5), Dim(5)), Dim(1));
  const Dim either = repetition(b, s); // b is 1 or s
  EXPECT_EQ(*either.evaluate(Numbers{1, 7}), 0);
  EXPECT_EQ(*either.evaluate(Numbers{7, 7}), 1);
}

TEST(Views, ATypesOwnStrides) {
  test::ViewBuilder builder;
  const MortiseValue *value = builder.input(builder.type(MORTISE_F32, {2, 3}, {}, {1, 2}));
  EXPECT_EQ(denseView(*value).strides, (Dims{Dim(1), Dim(2)}));
  EXPECT_FALSE(isDense(denseView(*value)));
}

} // namespace
} // namespace mortise
