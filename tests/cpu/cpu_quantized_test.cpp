// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// quantized_linear beside the reference: by the kernel of few rows, and by its parts where that refuses.
#include "network.hpp"

#include <mortise/graph.hpp>

#include <gtest/gtest.h>

namespace mortise::test {
namespace {

ValueId quantizedLinear(Network &net, std::vector<ValueId> operands, bool transposed = false) {
  operands.resize(5, ir::noValue);
  return net.op("quantized_linear", std::move(operands), {boolean("weight_transposed", transposed)});
}

// As randomFill(), but weights have all values of their type.
void fillWeights(const MortiseValue &value, size_t position, std::vector<std::byte> &bytes) {
  randomFill(value, position, bytes);
  for (size_t i = 0; position == 1 && i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i * 167 + i / 256);
}

class Quantized : public testing::TestWithParam<int32_t> {};

// Rows that the kernel has a function for each of, depths that fill vectors and that do not, and constant weights.
TEST_P(Quantized, RowsAndDepths) {
  for (const int64_t rows : {1, 2, 3, 4})
    for (const int64_t depth : {1, 24, 64, 331})
      for (const int32_t type : {MORTISE_I8, MORTISE_UI8}) {
        Network net;
        const ValueId x = net.input(GetParam(), {rows, depth});
        const ValueId weight = rows % 2 ? net.weight({37, depth}, type) : net.input(type, {37, depth});
        net.output(quantizedLinear(net, {x, weight, net.weight({37}, GetParam())}));
        auto compiled = check(net, {.fill = fillWeights});
        ASSERT_TRUE(compiled) << rows << " by " << depth;
        EXPECT_TRUE(compiled->hasStep("cpu.quantized_linear")) << compiled->text();
      }
}

// One scale, one for each result, and groups; zero points of the weights' type and of i32; with and without a bias.
TEST_P(Quantized, ScalesAndZeroPoints) {
  for (const int32_t type : {MORTISE_I8, MORTISE_UI8})
    for (const std::vector<int64_t> &scales : {std::vector<int64_t>{}, {70}, {70, 1}, {70, 4}})
      for (const int32_t zeros : {-1, type, int32_t(MORTISE_I32)})
        for (const bool hasBias : {false, true}) {
          Network net;
          const ValueId x = net.input(GetParam(), {2, 96}), weight = net.weight({70, 96}, type);
          const ValueId scale = net.weight(scales, scales.size() == 2 ? int32_t(MORTISE_F32) : GetParam());
          net.output(quantizedLinear(net, {x, weight, scale, zeros < 0 ? ir::noValue : net.weight(scales, zeros),
                                           hasBias ? net.weight({70}, GetParam()) : ir::noValue}));
          auto compiled = check(net, {.fill = fillWeights});
          ASSERT_TRUE(compiled);
          EXPECT_TRUE(compiled->hasStep("cpu.quantized_linear")) << compiled->text();
        }
}

// So many weights that threads share out the results.
TEST_P(Quantized, ManyWeights) {
  Network net;
  const ValueId x = net.input(GetParam(), {1, 1, 1024});
  net.output(quantizedLinear(net, {x, net.weight({1030, 1024}, MORTISE_I8), net.weight({1030, 8}, GetParam())}));
  check(net, {.fill = fillWeights});
}

INSTANTIATE_TEST_SUITE_P(Cpu, Quantized, testing::Values(MORTISE_F32, MORTISE_F16, MORTISE_BF16),
                         [](const auto &info) { return std::string(dtypeName(info.param)); });

// x is transposed and the weights are rows of a larger matrix; what follows reads the result through a view.
TEST(QuantizedLinear, OfViews) {
  Network net;
  const ValueId x = net.transpose(net.input(MORTISE_F32, {48, 3}), {1, 0});
  const ValueId weight = net.op("slice", {net.input(MORTISE_I8, {30, 48})},
                                {ints("starts", {10, 0}), ints("limits", {30, 48}), ints("strides", {1, 1})});
  const ValueId y = quantizedLinear(net, {x, weight, net.input(MORTISE_F32, {20})});
  net.output(net.op("exp", {net.transpose(y, {1, 0})}));
  check(net, {.fill = fillWeights});
}

} // namespace
} // namespace mortise::test
