// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention in one kernel: what both of its forms compute, and which nodes have one.
#include "attention_forms.hpp"

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;

namespace {

// Both kernels are right for all numbers of queries and keys.
class AttentionTest : public testing::TestWithParam<Split> {
protected:
  static Attention with(Form form) {
    form.split = GetParam();
    return Attention(form);
  }
  static void check(const Form &form) { with(form).check(); }
};
INSTANTIATE_TEST_SUITE_P(Attention, AttentionTest, testing::Values(Split::Queries, Split::Keys),
                         [](const auto &info) { return info.param == Split::Keys ? "SplitKeys" : "SplitQueries"; });

// Of queries and keys that fill tiles, or do not.
TEST_P(AttentionTest, AllLengths) {
  for (const int32_t dtype : dtypes)
    for (const int64_t queries : {16, 17, 33, 64, 70})
      for (const int64_t keys : {1, 15, 64, 65, 130}) {
        check({.batch = 2, .queries = queries, .keys = keys, .dtype = dtype});
        if (HasFatalFailure())
          return;
      }
}

TEST_P(AttentionTest, AllSizesOfVectors) {
  for (const int32_t dtype : dtypes)
    for (const auto &[depth, width] :
         {std::pair<int64_t, int64_t>{8, 8}, {8, 64}, {24, 40}, {40, 24}, {64, 64}, {72, 16}, {128, 128}, {120, 104}})
      for (const unsigned subgroups : {1U, 4U}) {
        if (subgroups == 1 && width > 64) // compiling them takes long
          continue;
        check({.queries = 50, .keys = 90, .depth = depth, .width = width, .dtype = dtype, .subgroups = subgroups});
        if (HasFatalFailure())
          return;
      }
}

TEST_P(AttentionTest, HeadsShareKeys) {
  for (const auto &[heads, groups] : {std::pair<int64_t, int64_t>{4, 4}, {6, 2}, {5, 1}}) {
    check({.batch = 3, .heads = heads, .groups = groups, .queries = 20, .keys = 40});
    if (HasFatalFailure())
      return;
  }
}

// Q and K differ both ways: query i sees keys 0 .. i.
TEST_P(AttentionTest, Causal) {
  for (const int32_t dtype : dtypes)
    for (const auto &[queries, keys] :
         {std::pair<int64_t, int64_t>{16, 16}, {64, 64}, {65, 65}, {130, 130}, {40, 100}, {100, 40}, {70, 1}})
      for (const unsigned subgroups : {1U, 4U}) {
        check({.batch = 2, .queries = queries, .keys = keys, .dtype = dtype, .causal = true, .subgroups = subgroups});
        if (HasFatalFailure())
          return;
      }
}

TEST_P(AttentionTest, Masks) {
  for (const int32_t dtype : dtypes)
    for (const Mask mask : {Mask::Hides, Mask::Adds})
      for (const bool causal : {false, true})
        for (const Dims &dims : {Dims{2, 3, 20, 70}, {2, 1, 1, 70}, {1, 1, 20, 70}, {1, 3, 20, 1}, {1, 1, 1, 1}}) {
          Form form{.batch = 2, .heads = 3, .groups = 3, .queries = 20, .keys = 70, .dtype = dtype};
          form.mask = mask, form.causal = causal, form.maskDims = dims;
          check(form);
          if (HasFatalFailure())
            return;
        }
}

TEST_P(AttentionTest, Layouts) {
  for (const int32_t dtype : dtypes)
    for (const Layout layout : {Layout::Dense, Layout::Tokens, Layout::Odd})
      for (const Layout resultLayout : {Layout::Dense, Layout::Tokens, Layout::Odd})
        for (const Mask mask : {Mask::None, Mask::Hides, Mask::Adds}) {
          Form form{.batch = 2, .heads = 4, .groups = 2, .queries = 35, .keys = 70, .depth = 24, .width = 16};
          form.dtype = dtype, form.mask = mask, form.layout = layout, form.resultLayout = resultLayout;
          check(form);
          if (HasFatalFailure())
            return;
        }
}

TEST_P(AttentionTest, WithoutKeysTheResultIsZero) {
  for (const Mask mask : {Mask::None, Mask::Hides, Mask::Adds}) {
    Attention attention = with({.queries = 20, .keys = 0, .mask = mask});
    for (const double number : attention.run())
      ASSERT_EQ(number, 0);
  }
}

// Rows that see nothing are 0, those whose scores are -inf otherwise are NaN.
TEST_P(AttentionTest, RowsThatSeeNothing) {
  for (const int32_t dtype : dtypes)
    for (const Mask mask : {Mask::Hides, Mask::Adds})
      for (const bool causal : {false, true}) {
        Attention attention = with({.queries = 20, .keys = 70, .dtype = dtype, .mask = mask, .causal = causal});
        for (int64_t i = 0; i < 20; ++i)
          for (int64_t j = 0; j < 70; ++j) {
            const bool hidden = i % 3 == 0 || (i % 3 == 1 && j < 66) || j > 68;
            attention.set(Attention::OfMask, i * 70 + j, mask == Mask::Hides ? !hidden : hidden ? -INFINITY : 0.5);
          }
        attention.check();
        if (HasFatalFailure())
          return;
      }
  for (const Mask mask : {Mask::None, Mask::Adds}) {
    Attention attention = with({.queries = 20, .keys = 70, .mask = mask});
    for (int64_t i = 0; i < attention.count(Attention::OfK); ++i)
      attention.set(Attention::OfK, i, i % 16 ? 1 : INFINITY);
    for (int64_t i = 0; i < attention.count(Attention::OfQ); ++i)
      attention.set(Attention::OfQ, i, i % 16 || i / 16 == 3 ? 1 : -1); // row 3: +inf
    attention.check();
  }
}

// As a cache has them that is filled in part: tiles of which a subgroup of 16 queries sees nothing, whatever lies
// there; of queries 32 to 47 first, in the middle and last ones. Masks are read two keys at once where that is
// possible.
TEST_P(AttentionTest, TilesThatNobodySees) {
  for (const int32_t dtype : dtypes)
    for (const int64_t keys : {300, 301})
      for (const bool causal : {false, true})
        for (const unsigned subgroups : {1U, 4U}) {
          Form form{.queries = 70, .keys = keys, .dtype = dtype, .mask = Mask::Hides, .subgroups = subgroups};
          form.causal = causal;
          Attention attention = with(form);
          for (int64_t i = 0; i < form.queries; ++i)
            for (int64_t j = 0; j < keys; ++j) {
              const bool isMiddle = i >= 32 && i < 48;
              attention.set(Attention::OfMask, i * keys + j, isMiddle ? j / 64 == 1 || j == 200 : j <= i + 100);
            }
          const conformance::ExactResult exact = attention.exact();
          for (int64_t j = 201; j < keys; ++j)
            attention.set(Attention::OfK, j * form.depth, NAN), attention.set(Attention::OfV, j * form.width, INFINITY);
          attention.compare(attention.run(), exact);
          if (HasFatalFailure())
            return;
        }
}

// As networks write them: the lowest finite number.
TEST_P(AttentionTest, AddedMasksOfTheLowestNumber) {
  for (const int32_t dtype : dtypes) {
    Attention attention = with({.queries = 20, .keys = 70, .dtype = dtype, .mask = Mask::Adds});
    for (int64_t i = 0; i < 20 * 70; ++i)
      attention.set(Attention::OfMask, i,
                    i / 70 == 4 || i % 3 ? -conformance::largestFinite(dtype) : 0); // row 4: all
    attention.check();
    if (HasFatalFailure())
      return;
  }
}

// What the interpreter makes NaN or infinite is so here, and nothing else is.
TEST_P(AttentionTest, HostileValues) {
  for (const int32_t dtype : dtypes)
    for (const Mask mask : {Mask::None, Mask::Adds})
      for (const unsigned special : {1, 5, 30}) {
        for (const auto operand : {Attention::OfQ, Attention::OfK, Attention::OfV, Attention::OfMask}) {
          if (operand == Attention::OfMask && mask == Mask::None)
            continue;
          Attention attention = with({.heads = 2, .queries = 34, .keys = 70, .dtype = dtype, .mask = mask});
          attention.fill(operand, special);
          attention.check();
          if (HasFatalFailure())
            return;
        }
        Attention all = with({.heads = 2, .queries = 34, .keys = 70, .dtype = dtype, .mask = mask});
        for (const auto operand : {Attention::OfQ, Attention::OfK, Attention::OfV})
          all.fill(operand, special);
        all.check();
        if (HasFatalFailure())
          return;
      }
}

// With infinities and NaN in q and k a hidden key stays hidden.
TEST_P(AttentionTest, HostileScoresOfHiddenKeys) {
  for (const int32_t dtype : dtypes)
    for (const Mask mask : {Mask::None, Mask::Hides})
      for (const unsigned special : {1, 5, 30}) {
        Attention attention =
            with({.heads = 2, .queries = 34, .keys = 70, .dtype = dtype, .mask = mask, .causal = true});
        attention.fill(Attention::OfQ, special);
        attention.fill(Attention::OfK, special);
        attention.check();
        if (HasFatalFailure())
          return;
      }
}

// Where the weight is 0 because another score is much larger, an infinite value gives NaN; where the weight is tiny,
// an infinity; also where its sum is scaled down when the larger score comes later.
TEST_P(AttentionTest, InfiniteValuesOfAllWeights) {
  for (const int32_t dtype : dtypes)
    for (const bool first : {false, true})
      for (const double difference : {1.0, 16.0, 40.0, 80.0, 95.0, 200.0, 1000.0}) {
        Attention attention = with({.queries = 16, .keys = 70, .dtype = dtype, .scale = 1});
        for (const auto operand : {Attention::OfQ, Attention::OfK})
          for (int64_t i = 0; i < attention.count(operand); ++i)
            attention.set(operand, i, i % 16 ? 0 : operand == Attention::OfQ ? 1 : -difference);
        attention.set(Attention::OfK, (first ? 2 : 68) * 16, 0);
        attention.set(Attention::OfV, 5 * 16 + 3, INFINITY);
        attention.set(Attention::OfV, 67 * 16 + 4, -INFINITY);
        attention.set(Attention::OfV, (first ? 2 : 68) * 16 + 5, INFINITY);
        attention.set(Attention::OfV, 9 * 16 + 6, NAN);
        attention.check();
        if (HasFatalFailure())
          return;
      }
}

// Their sum is finite, whatever the number of keys, and small ones are not lost.
TEST_P(AttentionTest, ValuesAtTheEndsOfTheRange) {
  for (const int32_t dtype : dtypes)
    for (const int64_t keys : {1, 70, 300}) {
      const double top = conformance::largestFinite(dtype),
                   bottom = std::ldexp(1.0, conformance::precisionOf(dtype).lowest);
      for (const double value : {top, bottom, 7 * bottom}) {
        Attention attention = with({.queries = 16, .keys = keys, .dtype = dtype});
        for (int64_t i = 0; i < attention.count(Attention::OfV); ++i)
          attention.set(Attention::OfV, i, i % 3 == 2 ? -value : value);
        attention.check();
        if (HasFatalFailure())
          return;
      }
    }
}

// Scores far from 0, whose differences count, and weights of all sizes.
TEST_P(AttentionTest, LargeScores) {
  for (const int32_t dtype : dtypes)
    for (const double deviation : {4.0, 15.0, 60.0, 200.0}) {
      Attention attention = with({.queries = 34, .keys = 150, .depth = 64, .dtype = dtype});
      attention.fill(Attention::OfQ, 0, deviation);
      attention.fill(Attention::OfK, 0, deviation);
      attention.check();
      if (HasFatalFailure())
        return;
    }
}

// The hardware's sums are rounded towards 0. That does not add up along the keys: errors of results are those of their
// own rounding, which are between -1/2 and 1/2 units in the last place, and have the mean 0.
TEST_P(AttentionTest, ManyKeys) {
  Attention attention = with({.queries = 16, .keys = 40000, .width = 32, .dtype = MORTISE_F16});
  for (int64_t i = 0; i < attention.count(Attention::OfV); ++i)
    attention.set(Attention::OfV, i, 1 + std::abs(attention.get(Attention::OfV, i)));
  const std::vector<double> found = attention.run();
  const conformance::ExactResult exact = attention.exact();
  attention.compare(found, exact);
  ASSERT_FALSE(HasFatalFailure());
  double sum = 0;
  for (size_t i = 0; i < found.size(); ++i)
    sum += (found[i] - exact.values[i]) / conformance::ulp(exact.values[i], MORTISE_F16);
  const auto count = static_cast<double>(found.size());
  EXPECT_LT(std::abs(sum / count), 4 / std::sqrt(12 * count));
}

// What no query sees has no effect.
TEST_P(AttentionTest, HiddenValuesHaveNoEffect) {
  for (const int32_t dtype : dtypes)
    for (const Mask mask : {Mask::None, Mask::Hides}) {
      Attention attention =
          with({.queries = 40, .keys = 100, .dtype = dtype, .mask = mask, .causal = mask == Mask::None});
      if (mask == Mask::Hides)
        for (int64_t i = 0; i < 40 * 100; ++i)
          attention.set(Attention::OfMask, i, i % 100 < 40);
      const conformance::ExactResult exact = attention.exact();
      for (int64_t j = 40; j < 100; ++j)
        for (int64_t e = 0; e < 16; ++e)
          attention.set(Attention::OfV, j * 16 + e, Attention::hostile[static_cast<size_t>((j + e) % 12)]);
      attention.compare(attention.run(), exact);
      if (HasFatalFailure())
        return;
    }
}

// Tiles of keys that no row of a block sees, some do, or all do, in this order and others.
TEST_P(AttentionTest, TilesThatSomeDoNotSee) {
  enum Seen : uint8_t { None, FirstRows, OddKeys, All };
  const std::vector<std::vector<Seen>> orders = {
      {None, FirstRows, None, All, OddKeys}, {All, All, None, None, FirstRows}, {FirstRows, None, All, None, None}};
  for (const bool readsAhead : {true, false})
    for (const int64_t keys : {320, 301})
      for (const auto &tiles : orders) {
        Attention attention = with({.queries = 40, .keys = keys, .mask = Mask::Hides, .readsAhead = readsAhead});
        for (int64_t i = 0; i < 40; ++i)
          for (int64_t j = 0; j < keys; ++j) {
            const Seen seen = tiles[static_cast<size_t>(j / 64)];
            attention.set(Attention::OfMask, i * keys + j,
                          seen == All || (seen == FirstRows && i < 16) || (seen == OddKeys && j % 2));
          }
        const conformance::ExactResult exact = attention.exact();
        for (int64_t j = 0; j < keys; ++j)
          for (int64_t e = 0; e < 16 && tiles[static_cast<size_t>(j / 64)] == None; ++e)
            attention.set(Attention::OfV, j * 16 + e, NAN);
        attention.compare(attention.run(), exact);
        if (HasFatalFailure())
          return;
      }
}

// Windows of keys far from the first and the last one, or at one of them: of all rows, or moving along with the rows.
TEST_P(AttentionTest, Windows) {
  struct Window {
    int64_t from, to;
  };
  for (const bool moves : {false, true})
    for (const int64_t keys : {1280, 1293})
      for (const Window window :
           {Window{0, 1}, {0, 200}, {5, 6}, {640, 700}, {700, 980}, {1216, 1280}, {keys - 1, keys}, {7, 7}}) {
        constexpr int64_t queries = 40;
        const int64_t rows = moves ? queries : 1;
        Attention attention =
            with({.queries = queries, .keys = keys, .mask = Mask::Hides, .maskDims = {1, 1, rows, keys}});
        std::vector<bool> isSeen(static_cast<size_t>(keys));
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < keys; ++j) {
            const bool sees = j >= window.from + i && j < window.to + i;
            attention.set(Attention::OfMask, i * keys + j, sees);
            isSeen[static_cast<size_t>(j)] = isSeen[static_cast<size_t>(j)] || sees;
          }
        const conformance::ExactResult exact = attention.exact();
        for (int64_t j = 0; j < keys; ++j)
          for (int64_t e = 0; e < 16 && !isSeen[static_cast<size_t>(j)]; ++e)
            attention.set(Attention::OfV, j * 16 + e, NAN);
        attention.compare(attention.run(), exact);
        if (HasFatalFailure())
          return;
      }
}

// The next tile is read while one is computed, or only when its turn comes.
TEST(Attention, ReadsAheadOrNot) {
  for (const int32_t dtype : dtypes)
    for (const bool readsAhead : {true, false})
      for (const Mask mask : {Mask::None, Mask::Adds})
        for (const int64_t keys : {1, 64, 130})
          check({.queries = 40,
                 .keys = keys,
                 .dtype = dtype,
                 .mask = mask,
                 .split = Split::Queries,
                 .readsAhead = readsAhead});
  // Where blocks are more than two to a multiprocessor, three fit it without.
  const auto codeOf = [](int64_t batch) {
    TestGraph b;
    V q = b.input(MORTISE_BF16, {batch, 1, 64, 64});
    V y = b.op("attention", {q, q, q, nullptr}, MORTISE_BF16, {batch, 1, 64, 64}, {{"scale", 1.0}, {"causal", false}});
    b.output(y);
    const std::vector<View> views(3, denseView(*q));
    return attentionCall(*b.view().nodes[0], views, denseView(*y), {}, Emulator::shared().target()).code;
  };
  EXPECT_TRUE(codeOf(264).readsAhead);
  EXPECT_FALSE(codeOf(265).readsAhead);
  EXPECT_NE(codeOf(264).name(), codeOf(265).name());
}

// ---- Which nodes

TEST(Attention, WhatHasAKernel) {
  const auto verdict = [](const Form &form, const SimtTarget &target) {
    TestGraph b;
    V q = b.input(form.dtype, {1, 1, form.queries, form.depth}), k = b.input(form.dtype, {1, 1, form.keys, form.depth});
    V v = b.input(form.dtype, {1, 1, form.keys, form.width});
    b.output(b.op("attention", {q, k, v, nullptr}, form.dtype, {1, 1, form.queries, form.width},
                  {{"scale", form.scale}, {"causal", false}}));
    return supportsAttention(*b.view().nodes[0], target);
  };
  const SimtTarget &target = Emulator::shared().target();
  EXPECT_TRUE(verdict({}, target).yes);
  EXPECT_TRUE(verdict({.dtype = MORTISE_F16}, target).yes);
  EXPECT_TRUE(verdict({.keys = 1}, target).yes);
  EXPECT_EQ(verdict({.dtype = MORTISE_F32}, target).reason, MORTISE_REASON_DTYPE);
  for (const int64_t size : {0, 4, 12, 136})
    for (const bool ofValues : {false, true}) {
      const codegen::Support answer = verdict({.depth = ofValues ? 16 : size, .width = ofValues ? size : 16}, target);
      EXPECT_FALSE(answer.yes) << size;
      EXPECT_EQ(answer.reason, MORTISE_REASON_SIZE);
    }
  EXPECT_TRUE(verdict({.queries = 1}, target).yes);
  for (const double scale : {0.0, -0.25, 1e-40, 1e38, double(INFINITY), double(NAN)})
    EXPECT_EQ(verdict({.scale = scale}, target).reason, MORTISE_REASON_ATTRIBUTE) << scale;
  EXPECT_EQ(verdict({}, *SimtTarget::cuda(7, 5, 1)).reason, MORTISE_REASON_HARDWARE);
  EXPECT_EQ(verdict({}, *SimtTarget::rocm("gfx942", 1)).reason, MORTISE_REASON_HARDWARE);
  EXPECT_TRUE(verdict({}, *SimtTarget::cuda(8, 0, 1)).yes);
}

// One code for all lengths, batches, layouts and scales; more queries in a block where there are many.
TEST(Attention, WhatTheCodeDependsOn) {
  const auto codeOf = [](const Form &form, bool symbolic = false) {
    TestGraph b;
    const Dim length = symbolic ? b.symbol("length", 1, 4096) : Dim(form.queries);
    const Dim keys = symbolic ? b.symbol("keys", 1, 4096) : Dim(form.keys);
    V q = b.symbolicInput(form.dtype, {form.batch, form.heads, length, form.depth}),
      k = b.symbolicInput(form.dtype, {form.batch, form.groups, keys, form.depth}),
      v = b.symbolicInput(form.dtype, {form.batch, form.groups, keys, form.width});
    V y = b.symbolicOp("attention", {q, k, v, nullptr}, form.dtype, {form.batch, form.heads, length, form.width},
                       {{"scale", form.scale}, {"causal", form.causal}});
    b.output(y);
    const MortiseGraph &graph = b.view();
    EXPECT_TRUE(supportsAttention(*graph.nodes[0], Emulator::shared().target()).yes);
    const std::vector<View> views = {denseView(*q), denseView(*k), denseView(*v)};
    const std::vector<int64_t> typical{form.queries, form.keys};
    return attentionCall(*graph.nodes[0], views, denseView(*y), typical, Emulator::shared().target()).code;
  };
  const AttentionCode code = codeOf({.batch = 64, .queries = 512});
  EXPECT_EQ(code.subgroups, 4U);
  EXPECT_EQ(code, codeOf({.batch = 32, .heads = 8, .groups = 2, .queries = 300, .scale = 2}));
  EXPECT_EQ(code, codeOf({.batch = 64, .queries = 512}, true));
  EXPECT_EQ(codeOf({.batch = 1, .heads = 8, .queries = 512}).subgroups, 1U);
  // Or where tiles of queries are fewer than two for each multiprocessor.
  EXPECT_EQ(codeOf({.batch = 1, .heads = 12, .groups = 12, .queries = 128, .keys = 128}).split, Split::Keys);
  EXPECT_EQ(codeOf({.batch = 1, .heads = 12, .groups = 12, .queries = 128, .keys = 128}).subgroups, 4U);
  const auto ofQueries = [&](int64_t queries) {
    return codeOf({.batch = 1, .heads = 12, .groups = 12, .queries = queries, .keys = 512});
  };
  EXPECT_EQ(ofQueries(176).split, Split::Keys); // 132 tiles
  EXPECT_EQ(ofQueries(176).subgroups, 8U);
  EXPECT_EQ(ofQueries(177).split, Split::Keys);
  EXPECT_EQ(ofQueries(177).subgroups, 4U);
  EXPECT_FALSE(ofQueries(177).smallTiles);
  EXPECT_EQ(ofQueries(352).split, Split::Keys); // 264
  EXPECT_EQ(ofQueries(353).split, Split::Queries);
  EXPECT_EQ(codeOf({.batch = 1, .heads = 12, .queries = 512}).subgroups, 2U);
  EXPECT_EQ(codeOf({.batch = 500, .queries = 16}).subgroups, 1U);
  EXPECT_EQ(code.split, Split::Queries);
  // Subgroups share out the keys where there are few queries, whatever the batch.
  for (const bool symbolic : {false, true}) {
    const AttentionCode few = codeOf({.heads = 32, .groups = 8, .queries = 1, .keys = 1024}, symbolic);
    EXPECT_EQ(few.split, Split::Keys);
    EXPECT_EQ(few.subgroups, 8U);
    EXPECT_NE(few.name(), code.name());
    EXPECT_EQ(few.cluster, 4U);
    EXPECT_EQ(codeOf({.heads = 32, .groups = 8, .queries = 1, .keys = 256}, symbolic).cluster, 1U);
    EXPECT_EQ(codeOf({.heads = 32, .groups = 8, .queries = 1, .keys = 4000}, symbolic).cluster, 8U);
    // Tiles are small while there are subgroups for all keys.
    EXPECT_EQ(few.tileKeys(), 32U);
    EXPECT_EQ(codeOf({.heads = 32, .groups = 8, .queries = 1, .keys = 2048}, symbolic).tileKeys(), 32U);
    EXPECT_EQ(codeOf({.heads = 32, .groups = 8, .queries = 1, .keys = 2049}, symbolic).tileKeys(), 64U);
    EXPECT_EQ(codeOf({.batch = 8, .heads = 32, .groups = 8, .queries = 1, .keys = 4000}, symbolic).cluster, 2U);
    AttentionCode alone = few; // blocks are many
    alone.cluster = 1, alone.subgroups = 4, alone.smallTiles = false;
    EXPECT_EQ(alone, codeOf({.batch = 64, .heads = 3, .queries = 15, .keys = 449}, symbolic));
  }
  EXPECT_EQ(codeOf({.queries = 1, .keys = 32}).subgroups, 1U);
  EXPECT_EQ(codeOf({.queries = 1, .keys = 33}).subgroups, 2U);
  EXPECT_EQ(codeOf({.queries = 1, .keys = 128}).subgroups, 4U);
  for (const Form &other :
       {Form{.batch = 64, .queries = 512, .depth = 24}, Form{.batch = 64, .queries = 512, .width = 24},
        Form{.batch = 64, .queries = 512, .dtype = MORTISE_F16}, Form{.batch = 64, .queries = 512, .causal = true}})
    EXPECT_NE(codeOf(other), code);
}

// The numbers of a launch follow from the symbols.
TEST(Attention, SymbolsAreNumbersOfTheLaunch) {
  TestGraph b;
  const Dim length = b.symbol("length", 1, 4096);
  const Extents dims{2, 4, length, 16}, keys{2, 2, length, 16};
  V q = b.symbolicInput(MORTISE_F16, dims), k = b.symbolicInput(MORTISE_F16, keys),
    v = b.symbolicInput(MORTISE_F16, keys), mask = b.symbolicInput(MORTISE_I1, {2, 1, 1, length});
  V y = b.symbolicOp("attention", {q, k, v, mask}, MORTISE_F16, dims, {{"scale", 0.5}, {"causal", false}});
  b.output(y);
  const MortiseGraph &graph = b.view();
  const std::vector<View> views = {denseView(*q), denseView(*k), denseView(*v), denseView(*mask)};
  const std::vector<int64_t> symbols{100};
  const AttentionCall call = attentionCall(*graph.nodes[0], views, denseView(*y), symbols, Emulator::shared().target());
  EXPECT_EQ(call.code.split, Split::Keys); // tiles are few
  EXPECT_EQ(call.code.subgroups, 4U);
  EXPECT_EQ(*call.blocks().evaluate(symbols), 2 * 2 * 13);
  std::vector<int64_t> numbers;
  for (const Dim &number : call.numbers())
    numbers.push_back(*number.evaluate(symbols));
  const int64_t row = 32, head = 100 * row;
  EXPECT_EQ(numbers, (std::vector<int64_t>{4,        2,        100,  100, 0x3f000000, 0,        4 * head, head, row,
                                           0,        2 * head, head, row, 0,          2 * head, head,     row,  0,
                                           4 * head, head,     row,  0,   100,        0,        0,        1}));
  EXPECT_EQ(numbers.size(), AttentionNumber::count(call.code));
  EXPECT_EQ(*call.bytes().evaluate(symbols), 2 * (4 + 2 + 2 + 4) * head + 2 * 100);
  EXPECT_EQ(*call.flops().evaluate(symbols), 2 * 4 * 100 * 100 * 2 * (16 + 16));
}

} // namespace
