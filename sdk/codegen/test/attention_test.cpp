// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention in one kernel, in the emulator, judged as the conformance kit judges it: around exact results, by bounds in
// closed form.
#include "oracle.hpp"

#include <mortise/conformance/op_bounds.hpp>

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;

namespace {

using Mask = AttentionCode::Mask;
using Split = AttentionCode::Split;

enum class Layout {
  Dense,
  Tokens, // [batch, rows, heads, elements], read as [batch, heads, rows, elements]
  Odd,    // behind 3 elements, with 3 more in each row and 5 more in each head: no address is a multiple of 16
};

struct Form {
  int64_t batch = 1, heads = 1, groups = 1, queries = 16, keys = 16, depth = 16, width = 16;
  int32_t dtype = MORTISE_BF16;
  Mask mask = Mask::None;
  bool causal = false;
  Dims maskDims = {}; // empty: those of the scores
  double scale = 0.25;
  Layout layout = Layout::Dense, resultLayout = Layout::Dense;
  unsigned subgroups = 0; // 0: as chosen
  std::optional<Split> split = std::nullopt;
  std::optional<bool> readsAhead = std::nullopt;

  std::string text() const {
    std::string all = dtypeName(dtype);
    for (const int64_t number : {batch, heads, groups, queries, keys, depth, width})
      all += " " + std::to_string(number);
    return all + (causal ? " causal" : "") + " mask " + std::to_string(static_cast<int>(mask)) + " layout " +
           std::to_string(static_cast<int>(layout)) + (split == Split::Keys ? " split keys" : "");
  }
};

// Where a tensor of 4 dimensions lies, and how many elements its memory has.
struct Placed {
  View view;
  int64_t span = 0;
};

Placed placed(const Dims &dims, Layout layout) {
  Placed made;
  made.view.dims.assign(dims.begin(), dims.end());
  Dims strides = denseStrides(dims);
  int64_t offset = 0;
  if (layout == Layout::Tokens) {
    strides = {dims[1] * dims[2] * dims[3], dims[3], dims[1] * dims[3], 1};
  } else if (layout == Layout::Odd) {
    offset = 3;
    strides = {0, 0, dims[3] + 3, 1};
    strides[1] = dims[2] * strides[2] + 5;
    strides[0] = dims[1] * strides[1];
  }
  made.view.offset = offset;
  made.view.strides.assign(strides.begin(), strides.end());
  made.span = offset + 1;
  for (size_t i = 0; i < 4; ++i) {
    if (dims[i] == 0)
      made.span = 0;
    made.span += made.span ? (dims[i] - 1) * strides[i] : 0;
  }
  return made;
}

// Calls `use` with the dense position of each element and its place.
template <typename Use> void forEachElement(const Dims &dims, const View &view, Use use) {
  const auto stride = [&](size_t i) { return *view.strides[i].number(); };
  int64_t dense = 0;
  for (int64_t b = 0; b < dims[0]; ++b)
    for (int64_t h = 0; h < dims[1]; ++h)
      for (int64_t i = 0; i < dims[2]; ++i)
        for (int64_t e = 0; e < dims[3]; ++e)
          use(dense++, *view.offset.number() + b * stride(0) + h * stride(1) + i * stride(2) + e * stride(3));
}

class Attention {
public:
  enum Operand : uint8_t { OfQ, OfK, OfV, OfMask };

  explicit Attention(const Form &form) : form(form) {
    dims = {{form.batch, form.heads, form.queries, form.depth},
            {form.batch, form.groups, form.keys, form.depth},
            {form.batch, form.groups, form.keys, form.width}};
    if (form.mask != Mask::None)
      dims.push_back(form.maskDims.empty() ? Dims{form.batch, form.heads, form.queries, form.keys} : form.maskDims);
    resultDims = {form.batch, form.heads, form.queries, form.width};
    for (size_t i = 0; i < dims.size(); ++i) {
      operands.push_back(builder.input(dtypeOf(i), dims[i]));
      places.push_back(placed(dims[i], form.layout));
      flatOperands.push_back(flat.input(dtypeOf(i), {std::max<int64_t>(places[i].span, 1)}));
    }
    builder.output(
        builder.op("attention", operands, form.dtype, resultDims, {{"scale", form.scale}, {"causal", form.causal}}));
    place = placed(resultDims, form.resultLayout);
    flatResult = flat.input(form.dtype, {std::max<int64_t>(place.span, 1)});
    dense.emplace(builder.view());
    memory.emplace(flat.view());
    for (size_t i = 0; i < dims.size(); ++i)
      fill(static_cast<Operand>(i), 0);
  }

  // Normal numbers, `special` of a thousand of them special ones; booleans.
  void fill(Operand operand, unsigned special, double deviation = 1.5, const std::vector<double> &list = hostile) {
    std::mt19937 engine(operand + 7);
    std::normal_distribution<double> normal(0, deviation);
    for (int64_t i = 0; i < elementCount(*operands[operand]->type); ++i) {
      double number = dtypeOf(operand) == MORTISE_I1 ? engine() % 2 : normal(engine);
      if (engine() % 1000 < special)
        number = list[engine() % list.size()];
      set(operand, i, number);
    }
  }
  void set(Operand operand, int64_t i, double number) {
    setElement(dense->at(operands[operand]->index), dtypeOf(operand), i, number);
  }
  double get(Operand operand, int64_t i) { return element(dense->at(operands[operand]->index), dtypeOf(operand), i); }
  int64_t count(Operand operand) const { return elementCount(*operands[operand]->type); }

  // Runs the kernel. The result, dense.
  std::vector<double> run() {
    std::vector<View> views;
    std::vector<std::byte *> addresses;
    for (size_t i = 0; i < dims.size(); ++i) {
      views.push_back(places[i].view);
      addresses.push_back(memory->at(flatOperands[i]->index));
      const size_t bytes = dtypeBits(dtypeOf(i)) / 8;
      const std::byte *from = dense->at(operands[i]->index);
      forEachElement(dims[i], places[i].view, [&](int64_t at, int64_t to) {
        std::copy_n(from + static_cast<size_t>(at) * bytes, bytes, addresses[i] + static_cast<size_t>(to) * bytes);
      });
    }
    std::byte *to = memory->at(flatResult->index);
    addresses.push_back(to);
    const size_t bytes = byteSize(*flatResult->type);
    std::fill_n(to, bytes, std::byte(0xa5));
    const MortiseNode &node = *builder.view().nodes[0];
    EXPECT_TRUE(supportsAttention(node, Emulator::shared().target()).yes);
    AttentionCall call = attentionCall(node, views, place.view, {});
    if (form.split && call.code.split != *form.split)
      call.code.split = *form.split, call.code.subgroups = 2;
    if (form.subgroups)
      call.code.subgroups = form.subgroups;
    call.code.readsAhead = form.readsAhead.value_or(call.code.readsAhead);
    runAttention(call, addresses);
    std::vector<double> found;
    std::vector<bool> written(static_cast<size_t>(std::max<int64_t>(place.span, 1)));
    forEachElement(resultDims, place.view, [&](int64_t, int64_t from) {
      written[static_cast<size_t>(from)] = true;
      found.push_back(element(to, form.dtype, from));
    });
    for (size_t i = 0; i < written.size(); ++i)
      EXPECT_TRUE(written[i] || (to[2 * i] == std::byte(0xa5) && to[2 * i + 1] == std::byte(0xa5)))
          << form.text() << ": wrote behind a row, at " << i;
    EXPECT_TRUE(memory->intact(flatResult->index));
    return found;
  }

  conformance::ExactResult exact() {
    std::vector<const void *> inputs;
    for (V operand : operands)
      inputs.push_back(dense->at(operand->index));
    auto made = conformance::exactResults(builder.view(), inputs);
    EXPECT_TRUE(made) << made.error().message;
    return made ? made->front() : conformance::ExactResult{};
  }

  void check() { compare(run(), exact()); }

  void compare(const std::vector<double> &found, const conformance::ExactResult &exact) const {
    ASSERT_EQ(found.size(), exact.values.size()) << form.text();
    const double top = conformance::largestFinite(form.dtype), behind = top + conformance::ulp(top, form.dtype);
    for (size_t i = 0; i < found.size(); ++i) {
      const double want = exact.values[i], bound = exact.bounds[i];
      if (std::isnan(want) ? std::isnan(found[i]) : found[i] == want)
        continue;
      if (!std::isfinite(bound))
        continue; // rounding alone makes an intermediate result finite or not
      const double distance = std::isfinite(found[i])                       ? std::abs(found[i] - want)
                              : std::isinf(found[i]) && want * found[i] > 0 ? std::max(0.0, behind - std::abs(want))
                                                                            : INFINITY;
      ASSERT_TRUE(std::isfinite(want) && distance <= bound)
          << form.text() << ", element " << i << " of row " << i / static_cast<size_t>(form.width) << ": found "
          << found[i] << ", expected " << want << " within " << bound << ", is " << distance;
    }
  }

  static inline const std::vector<double> hostile = {0.0,  -0.0, INFINITY, -INFINITY, NAN,  1.0,
                                                     -1.0, 0.5,  65504,    1e-30,     6e-8, -100};
  const Form form;

private:
  int32_t dtypeOf(size_t operand) const {
    return operand == OfMask && form.mask == Mask::Hides ? MORTISE_I1 : form.dtype;
  }
  TestGraph builder, flat;
  std::vector<Dims> dims;
  Dims resultDims;
  std::vector<V> operands, flatOperands;
  V flatResult = nullptr;
  std::vector<Placed> places;
  Placed place;
  std::optional<Memory> dense, memory;
};

void check(const Form &form) {
  Attention attention(form);
  attention.check();
}

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

constexpr int32_t dtypes[] = {MORTISE_BF16, MORTISE_F16};

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
    return attentionCall(*b.view().nodes[0], views, denseView(*y), {}).code;
  };
  EXPECT_TRUE(codeOf(264).readsAhead);
  EXPECT_FALSE(codeOf(265).readsAhead);
  EXPECT_NE(codeOf(264).name(), codeOf(265).name());
}

// ---- Few queries, as of a decode step

// Rows are queries of all heads that share a head of keys: one tile of 16, and several.
TEST(FewQueries, OfHeadsThatShareKeys) {
  for (const int32_t dtype : dtypes)
    for (const int64_t queries : {1, 2, 3, 5, 15})
      for (const int64_t shared : {1, 2, 4, 8})
        for (const int64_t keys : {1, 17, 64, 65, 300, 1030}) {
          if (queries * shared > 16 && keys != 300)
            continue;
          check({.heads = 2 * shared, .groups = 2, .queries = queries, .keys = keys, .dtype = dtype});
          if (HasFatalFailure())
            return;
        }
}

// Masks that differ along heads, queries and keys, or do not; of bytes that are read alone, or two at once.
TEST(FewQueries, Masks) {
  for (const int32_t dtype : dtypes)
    for (const Mask mask : {Mask::Hides, Mask::Adds})
      for (const bool causal : {false, true})
        for (const int64_t keys : {300, 301})
          for (const Dims &dims :
               {Dims{2, 4, 3, keys}, {2, 1, 1, keys}, {1, 4, 1, keys}, {1, 1, 3, keys}, {1, 4, 3, 1}})
            for (const Layout layout : {Layout::Dense, Layout::Odd}) {
              Form form{.batch = 2, .heads = 4, .groups = 2, .queries = 3, .keys = keys, .dtype = dtype};
              form.mask = mask, form.causal = causal, form.maskDims = dims, form.layout = layout;
              check(form);
              if (HasFatalFailure())
                return;
            }
}

TEST(FewQueries, SizesAndLayouts) {
  for (const int32_t dtype : dtypes)
    for (const auto &[depth, width] : {std::pair<int64_t, int64_t>{64, 64}, {128, 128}, {24, 40}})
      for (const Layout layout : {Layout::Dense, Layout::Tokens, Layout::Odd})
        for (const unsigned subgroups : {1U, 8U}) {
          if (subgroups == 1 && depth == 128) // compiling them takes long
            continue;
          Form form{.batch = 2, .heads = 8, .groups = 2, .queries = 2, .keys = 300, .depth = depth, .width = width};
          form.dtype = dtype, form.layout = form.resultLayout = layout, form.subgroups = subgroups;
          check(form);
          if (HasFatalFailure())
            return;
        }
}

// As causal decoders have it: query i of Q sees what lies in the cache so far and queries 0 .. i. What lies behind is
// not read, whatever it is; some subgroups have no tile that anybody sees, or have their largest scores where the
// others have few.
TEST(FewQueries, CachesThatAreFilledInPart) {
  for (const int32_t dtype : dtypes)
    for (const int64_t queries : {1, 3})
      for (const int64_t used : {4, 64, 100, 300, 700, 1000})
        for (const bool rises : {false, true}) {
          constexpr int64_t keys = 1024;
          Form form{.heads = 8, .groups = 2, .queries = queries, .keys = keys, .dtype = dtype, .mask = Mask::Hides};
          form.maskDims = {1, 1, queries, keys};
          Attention attention(form);
          for (int64_t i = 0; i < queries; ++i)
            for (int64_t j = 0; j < keys; ++j)
              attention.set(Attention::OfMask, i * keys + j, j < used - queries + 1 + i);
          for (int64_t j = 0; rises && j < 2 * keys; ++j)
            for (int64_t e = 0; e < form.depth; ++e)
              attention.set(Attention::OfK, j * form.depth + e, static_cast<double>(j % keys) / 100 * (e % 3 ? 1 : -2));
          const conformance::ExactResult exact = attention.exact();
          for (int64_t head = 0; head < 2; ++head)
            for (int64_t j = used; j < keys; ++j)
              for (int64_t e = 0; e < form.depth; ++e) {
                attention.set(Attention::OfK, (head * keys + j) * form.depth + e, NAN);
                attention.set(Attention::OfV, (head * keys + j) * form.width + e, e % 2 ? NAN : INFINITY);
              }
          attention.compare(attention.run(), exact);
          if (HasFatalFailure())
            return;
        }
}

// Keys whose weights are tiny beside those of another subgroup: their infinite values are NaN where the weight is 0.
TEST(FewQueries, WeightsOfSubgroupsDiffer) {
  for (const int32_t dtype : dtypes)
    for (const int64_t largest : {3, 200, 510})
      for (const double difference : {1.0, 16.0, 80.0, 95.0, 200.0}) {
        Attention attention({.heads = 4, .groups = 1, .queries = 2, .keys = 512, .dtype = dtype, .scale = 1});
        for (const auto operand : {Attention::OfQ, Attention::OfK})
          for (int64_t i = 0; i < attention.count(operand); ++i)
            attention.set(operand, i, i % 16 ? 0 : operand == Attention::OfQ ? 1 : -difference);
        attention.set(Attention::OfK, largest * 16, 0);
        for (const int64_t infinite : {5, 67, 140, 260, 400, 511})
          attention.set(Attention::OfV, infinite * 16 + infinite % 7, infinite % 2 ? INFINITY : -INFINITY);
        attention.check();
        if (HasFatalFailure())
          return;
      }
}

// ---- Which nodes

TEST(Attention, WhatHasAKernel) {
  const auto verdict = [](const Form &form, const SimtTarget &target) {
    TestGraph b;
    V q = b.input(form.dtype, {1, 1, form.queries, form.depth}), k = b.input(form.dtype, {1, 1, form.keys, form.depth});
    V v = b.input(form.dtype, {1, 1, form.keys, form.width});
    b.output(b.op("attention", {q, k, v, nullptr}, form.dtype, {1, 1, form.queries, form.width},
                  {{"scale", 1.0}, {"causal", false}}));
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
    return attentionCall(*graph.nodes[0], views, denseView(*y), typical).code;
  };
  const AttentionCode code = codeOf({.batch = 64, .queries = 512});
  EXPECT_EQ(code.subgroups, 4U);
  EXPECT_EQ(code, codeOf({.batch = 32, .heads = 8, .groups = 2, .queries = 300, .scale = 2}));
  EXPECT_EQ(code, codeOf({.batch = 64, .queries = 512}, true));
  EXPECT_EQ(codeOf({.batch = 1, .heads = 8, .queries = 512}).subgroups, 1U);
  // Or where tiles of queries are fewer than multiprocessors.
  EXPECT_EQ(codeOf({.batch = 1, .heads = 12, .groups = 12, .queries = 128, .keys = 128}).split, Split::Keys);
  EXPECT_EQ(codeOf({.batch = 1, .heads = 12, .groups = 12, .queries = 128, .keys = 128}).subgroups, 2U);
  EXPECT_EQ(codeOf({.batch = 1, .heads = 12, .groups = 12, .queries = 176}).split, Split::Queries); // 132
  EXPECT_EQ(codeOf({.batch = 1, .heads = 12, .queries = 512}).subgroups, 2U);
  EXPECT_EQ(codeOf({.batch = 500, .queries = 16}).subgroups, 1U);
  EXPECT_EQ(code.split, Split::Queries);
  // Subgroups share out the keys where there are few queries, whatever the batch.
  for (const bool symbolic : {false, true}) {
    const AttentionCode few = codeOf({.heads = 32, .groups = 8, .queries = 1, .keys = 1024}, symbolic);
    EXPECT_EQ(few.split, Split::Keys);
    EXPECT_EQ(few.subgroups, 8U);
    EXPECT_NE(few.name(), code.name());
    EXPECT_EQ(few, codeOf({.batch = 64, .heads = 3, .queries = 15, .keys = 449}, symbolic));
  }
  EXPECT_EQ(codeOf({.queries = 1, .keys = 64}).subgroups, 1U);
  EXPECT_EQ(codeOf({.queries = 1, .keys = 65}).subgroups, 2U);
  EXPECT_EQ(codeOf({.queries = 1, .keys = 256}).subgroups, 4U);
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
  const AttentionCall call = attentionCall(*graph.nodes[0], views, denseView(*y), symbols);
  EXPECT_EQ(call.code.split, Split::Keys); // tiles are few
  EXPECT_EQ(call.code.subgroups, 2U);
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

// A graph over symbols that is typically a decode step, also where there are many queries.
TEST(FewQueries, SymbolsAreNumbersOfTheLaunch) {
  TestGraph b;
  const Dim queries = b.symbol("queries", 0, 64), length = b.symbol("length", 0, 4096);
  V q = b.symbolicInput(MORTISE_F16, {2, 4, queries, 16}), k = b.symbolicInput(MORTISE_F16, {2, 2, length, 16});
  V y = b.symbolicOp("attention", {q, k, k, nullptr}, MORTISE_F16, {2, 4, queries, 16},
                     {{"scale", 0.5}, {"causal", false}});
  b.output(y);
  const MortiseGraph &graph = b.view();
  ASSERT_TRUE(supportsAttention(*graph.nodes[0], Emulator::shared().target()).yes);
  const std::vector<View> views = {denseView(*q), denseView(*k), denseView(*k)};
  const AttentionCall call = attentionCall(*graph.nodes[0], views, denseView(*y), std::vector<int64_t>{1, 1000});
  EXPECT_EQ(call.code.split, Split::Keys);
  for (const auto &[most, keys, blocks] : {std::tuple<int64_t, int64_t, int64_t>{1, 1000, 4},
                                           {8, 70, 4},
                                           {9, 513, 8},
                                           {40, 33, 20},
                                           {3, 0, 4},
                                           {0, 9, 0}}) {
    const std::vector<int64_t> symbols{most, keys};
    EXPECT_EQ(*call.blocks().evaluate(symbols), blocks);
    Form form{.batch = 2, .heads = 4, .groups = 2, .queries = most, .keys = keys, .dtype = MORTISE_F16};
    form.scale = call.scale, form.split = Split::Keys;
    std::vector<std::vector<std::byte>> memory;
    for (const View *view : {&call.q, &call.k, &call.v, &call.result}) {
      int64_t count = 1;
      for (const Dim &dim : view->dims)
        count *= *dim.evaluate(symbols);
      memory.emplace_back(static_cast<size_t>(std::max<int64_t>(count, 8)) * 2, std::byte(0xa5));
    }
    Attention attention(form);
    const Attention::Operand operands[] = {Attention::OfQ, Attention::OfK, Attention::OfV};
    for (const Attention::Operand operand : operands)
      for (int64_t i = 0; i < attention.count(operand); ++i)
        setElement(memory[operand].data(), MORTISE_F16, i, attention.get(operand, i));
    std::vector<std::byte *> addresses;
    for (std::vector<std::byte> &each : memory)
      addresses.push_back(each.data());
    runAttention(call, addresses, symbols);
    std::vector<double> found;
    for (int64_t i = 0; i < attention.count(Attention::OfQ); ++i)
      found.push_back(element(addresses[3], MORTISE_F16, i));
    attention.compare(found, attention.exact());
    if (HasFatalFailure())
      return;
  }
}

} // namespace
