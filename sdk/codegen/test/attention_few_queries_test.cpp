// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention of few queries, as of a decode step: the form whose subgroups share out the keys, in what it has of its
// own.
#include "attention_forms.hpp"

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;

namespace {

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

// Each block of a cluster has tiles of its own: none, fewer than subgroups, or several for each. Two passes over the
// columns, rows that are no tile, and those that see keys of one block only, or none.
TEST(FewQueries, ClustersShareOutTheKeys) {
  for (const int32_t dtype : dtypes)
    for (const unsigned cluster : {2U, 4U, 8U})
      for (const int64_t keys : {1, 100, 700, 2100}) {
        const int64_t width = cluster == 2 ? 128 : 40;
        Form form{.batch = 2, .heads = 3, .groups = 1, .queries = 6, .keys = keys, .width = width, .dtype = dtype};
        form.cluster = cluster;
        if (keys == 700)
          form.mask = Mask::Hides, form.causal = cluster == 4;
        Attention attention(form);
        for (int64_t row = 0; form.mask != Mask::None && row < 2 * 3 * 6; ++row)
          for (int64_t key = 0; key < keys; ++key)
            attention.set(Attention::OfMask, row * keys + key, row % 3 ? key / 100 == row % 8 : 0);
        attention.fill(Attention::OfV, /*special=*/keys == 2100 ? 3 : 0);
        attention.check();
        if (HasFatalFailure())
          return;
      }
}

// Keys whose weights are tiny beside those of another subgroup: their infinite values are NaN where the weight is 0.
TEST(FewQueries, WeightsOfSubgroupsDiffer) {
  for (const int32_t dtype : dtypes)
    for (const auto &[largest, cluster] : {std::pair<int64_t, unsigned>{3, 0}, {200, 0}, {510, 0}, {200, 2}})
      for (const double difference : {1.0, 16.0, 80.0, 95.0, 200.0}) {
        Attention attention(
            {.heads = 4, .groups = 1, .queries = 2, .keys = 512, .dtype = dtype, .scale = 1, .cluster = cluster});
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
  const AttentionCall call =
      attentionCall(*graph.nodes[0], views, denseView(*y), std::vector<int64_t>{1, 1000}, Emulator::shared().target());
  EXPECT_EQ(call.code.split, Split::Keys);
  EXPECT_EQ(call.code.cluster, 4U);
  for (const auto &[most, keys, blocks] : {std::tuple<int64_t, int64_t, int64_t>{1, 1000, 4},
                                           {8, 70, 4},
                                           {9, 513, 8},
                                           {40, 33, 20},
                                           {3, 0, 4},
                                           {0, 9, 0}}) {
    const std::vector<int64_t> symbols{most, keys};
    EXPECT_EQ(*call.blocks().evaluate(symbols), 4 * blocks);
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
