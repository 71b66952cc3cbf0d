// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// scatter_along and scatter_nd beside the reference: modes, types, indices that repeat, count from the end or are out
// of range, results that threads share out, and memory that is used again.
#include "network.hpp"

#include <mortise/graph.hpp>

#include <gtest/gtest.h>

namespace mortise::test {
namespace {

// Indices of the input at `position` from -extent - 1 to extent, so that the first and the last are out of range.
Fill indicesOver(int64_t extent, size_t position = 1) {
  return [=](const MortiseValue &value, size_t at, std::vector<std::byte> &bytes) {
    randomFill(value, at, bytes);
    const auto count = static_cast<size_t>(elementCount(*value.type));
    for (size_t i = 0; at == position && i < count; ++i) {
      const int64_t index = static_cast<int64_t>(i * i * 7919) % (2 * extent + 2) - extent - 1;
      if (value.type->dtype == MORTISE_I64)
        reinterpret_cast<int64_t *>(bytes.data())[i] = index;
      else
        reinterpret_cast<int32_t *>(bytes.data())[i] = static_cast<int32_t>(index);
    }
  };
}

Attribute mode(const char *name) { return text("mode", name); }
constexpr const char *modes[] = {"set", "add", "mul", "max", "min"};

class Scatter : public testing::TestWithParam<int32_t> {};

TEST_P(Scatter, AlongAnAxis) {
  for (const int64_t axis : {0, 1, 2})
    for (const char *how : modes) {
      Network net;
      std::vector<int64_t> dims = {3, 7, 5}, indices = {2, 6, 4};
      indices[static_cast<size_t>(axis)] = 9;
      const ValueId old = net.input(GetParam(), dims), at = net.input(axis == 1 ? MORTISE_I32 : MORTISE_I64, indices);
      net.output(
          net.op("scatter_along", {old, at, net.input(GetParam(), indices)}, {integer("axis", axis), mode(how)}));
      auto compiled = check(net, {.fill = indicesOver(dims[static_cast<size_t>(axis)])});
      ASSERT_TRUE(compiled) << how << " along " << axis;
      EXPECT_TRUE(compiled->hasStep("cpu.scatter")) << compiled->text();
    }
}

// No coordinate (the whole operand), one, and all.
TEST_P(Scatter, AtCoordinates) {
  for (const int64_t depth : {0, 1, 3})
    for (const char *how : modes) {
      Network net;
      const std::vector<int64_t> dims = {4, 4, 4};
      std::vector<int64_t> updates = {2, 5};
      updates.insert(updates.end(), dims.begin() + depth, dims.end());
      const ValueId old = net.input(GetParam(), dims), at = net.input(MORTISE_I64, {2, 5, depth});
      net.output(net.op("scatter_nd", {old, at, net.input(GetParam(), updates)}, {mode(how)}));
      ASSERT_TRUE(check(net, {.fill = indicesOver(4)})) << how << " at " << depth;
    }
}

// So many updates that threads share out the result: by single elements, by slices, and by parts of each slice.
TEST_P(Scatter, ResultsOfManyThreads) {
  for (const int64_t slice : {1, 96, 3000})
    for (const char *how : {"set", "add", "max"}) {
      Network net;
      const int64_t rows = slice == 3000 ? 5 : 701, updates = 40000 / slice;
      const ValueId old = net.input(GetParam(), {rows, slice}), at = net.input(MORTISE_I32, {updates, 1});
      net.output(net.op("scatter_nd", {old, at, net.input(GetParam(), {updates, slice})}, {mode(how)}));
      ASSERT_TRUE(check(net, {.fill = indicesOver(rows)})) << how << " of " << slice;
    }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Scatter,
                         testing::Values(MORTISE_F64, MORTISE_F32, MORTISE_F16, MORTISE_BF16, MORTISE_I64, MORTISE_I32,
                                         MORTISE_I16, MORTISE_I8, MORTISE_UI8, MORTISE_UI16, MORTISE_I1),
                         [](const auto &info) { return std::string(dtypeName(info.param)); });

// The operand, the indices and the updates are views: transposed, repeated and cut out.
TEST(Scatters, OfViews) {
  Network net;
  const ValueId old = net.transpose(net.input(MORTISE_F32, {6, 4}), {1, 0});
  const ValueId at = net.broadcast(net.input(MORTISE_I64, {5}), {3, 5}, {1});
  const ValueId updates = net.op("slice", {net.input(MORTISE_F32, {8, 5})},
                                 {ints("starts", {2, 0}), ints("limits", {8, 5}), ints("strides", {2, 1})});
  net.output(net.op("scatter_along", {old, at, updates}, {integer("axis", 1), mode("add")}));
  check(net, {.fill = indicesOver(6)});
}

TEST(Scatters, ReuseWhatNobodyReads) {
  Network net;
  const ValueId x = net.input(MORTISE_F32, {40, 8}), at = net.input(MORTISE_I64, {20, 8});
  const ValueId zero = net.op("exp", {x});
  const ValueId sums =
      net.op("scatter_along", {zero, at, net.input(MORTISE_F32, {20, 8})}, {integer("axis", 0), mode("add")});
  net.output(net.op("neg", {sums}));
  auto compiled = check(net, {.fill = indicesOver(40)});
  ASSERT_TRUE(compiled);
  EXPECT_TRUE(compiled->hasStep("in place")) << compiled->text();
  EXPECT_FALSE(compiled->hasStep("copy")) << compiled->text();
}

TEST(Scatters, LeaveWhatIsReadAgain) {
  Network net;
  const ValueId x = net.input(MORTISE_F32, {40, 8}), at = net.input(MORTISE_I64, {40, 8});
  const ValueId old = net.op("exp", {x});
  net.output(net.op("scatter_along", {x, at, x}, {integer("axis", 0), mode("set")}));
  const ValueId y = net.op("scatter_along", {old, at, old}, {integer("axis", 0), mode("max")});
  net.output(net.op("add", {y, old}));
  check(net, {.fill = indicesOver(40)});
}

TEST(Scatters, OfNothing) {
  Network net;
  net.output(net.op("scatter_along",
                    {net.input(MORTISE_F32, {3, 4}), net.input(MORTISE_I64, {0, 4}), net.input(MORTISE_F32, {0, 4})},
                    {integer("axis", 0), mode("add")}));
  net.output(net.op("scatter_nd",
                    {net.input(MORTISE_BF16, {0, 4}), net.input(MORTISE_I64, {2, 1}), net.input(MORTISE_BF16, {2, 4})},
                    {mode("add")}));
  check(net);
}

TEST(Scatters, OfSymbolicExtents) {
  for (const int32_t dtype : {MORTISE_F32, MORTISE_BF16}) {
    auto compiled = checkShapes(
        [&](Network &net, int64_t batch, int64_t tokens) {
          const ValueId old = net.input(dtype, {batch, tokens, 8}), at = net.input(MORTISE_I64, {batch, tokens, 8});
          const ValueId y = net.op("scatter_along", {net.op("tanh", {old}), at, net.input(dtype, {batch, tokens, 8})},
                                   {integer("axis", 1), mode("add")});
          net.output(net.op("scatter_nd", {y, net.input(MORTISE_I32, {3, 1}), net.input(dtype, {3, tokens, 8})},
                            {mode("mul")}));
        },
        {{2, 8}, {3, 5}, {7, 300}}, {.fill = indicesOver(5)});
    ASSERT_TRUE(compiled);
    EXPECT_TRUE(compiled->hasStep("cpu.scatter")) << compiled->text();
  }
}

} // namespace
} // namespace mortise::test
