// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of few rows, which groups compute, and groups that share a launch.
#include "session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mortise::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string stepsOf(Network &net, Region::How how = {}) {
  const Session session;
  configureBlas("");
  return Region(session.devices[0], net.finish(), std::move(how)).text();
}
size_t count(const std::string &text, const std::string &part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

// ---- Who computes a product

struct Shape {
  int32_t dtype;
  std::vector<int64_t> x, w;
  bool isGroup;
};

TEST(CudaFewRows, GroupsHaveThoseThatReadTheWeightsOnce) {
  const Shape shapes[] = {{MORTISE_BF16, {1, 64}, {40, 64}, true},
                          {MORTISE_F16, {1, 1, 64}, {40, 64}, true},
                          {MORTISE_F32, {64}, {40, 64}, true},
                          {MORTISE_BF16, {4, 64}, {40, 64}, true},
                          {MORTISE_BF16, {2, 2, 64}, {40, 64}, true},
                          {MORTISE_BF16, {5, 64}, {40, 64}, false},
                          {MORTISE_BF16, {1, 4096}, {65536, 4096}, true},
                          {MORTISE_BF16, {2, 4096}, {65536, 4096}, false}, // multiplications would take longer
                          {MORTISE_BF16, {300, 64}, {3, 64}, true},        // few columns
                          {MORTISE_BF16, {3, 64}, {3, 64}, false},         // as many of both
                          {MORTISE_BF16, {1, 60}, {40, 60}, false},        // no whole vectors
                          {MORTISE_F32, {1, 60}, {40, 60}, true},
                          {MORTISE_F64, {1, 64}, {40, 64}, false}};
  for (const auto &[dtype, x, w, isGroup] : shapes) {
    Network net;
    net.output(net.linear(net.input(dtype, x), net.input(dtype, w)));
    const std::string steps = stepsOf(net);
    EXPECT_EQ(count(steps, "cuda.product"), isGroup ? 1u : 0u) << testing::PrintToString(x) << steps;
    EXPECT_EQ(count(steps, "cublaslt.matmul"), isGroup ? 0u : 1u) << testing::PrintToString(x) << steps;
  }
}

TEST(CudaFewRows, TheLibraryHasWhatLiesOtherwise) {
  Network turned; // neighbours are columns
  turned.output(turned.linear(turned.input(MORTISE_BF16, {1, 64}), turned.input(MORTISE_BF16, {64, 40}), ir::noValue,
                              /*transposed=*/true));
  EXPECT_THAT(stepsOf(turned), HasSubstr("cublaslt.matmul"));
  Network view; // rows that begin anywhere
  const ValueId part = view.op("slice", {view.input(MORTISE_BF16, {40, 65})},
                               {ints("starts", {0, 1}), ints("limits", {40, 65}), ints("strides", {1, 1})});
  view.output(view.linear(view.input(MORTISE_BF16, {1, 64}), part));
  EXPECT_THAT(stepsOf(view), HasSubstr("cublaslt.matmul"));
  Network transposed; // whose transpose lies right
  transposed.output(transposed.linear(transposed.input(MORTISE_BF16, {1, 64}),
                                      transposed.transpose(transposed.input(MORTISE_BF16, {40, 64}), {1, 0}),
                                      ir::noValue, /*transposed=*/true));
  EXPECT_THAT(stepsOf(transposed), AllOf(HasSubstr("cuda.product"), Not(HasSubstr("cublaslt"))));
}

TEST(CudaFewRows, TheLibraryHasAllWhereTheUserWants) {
  const auto build = [](Network &net) {
    net.output(net.linear(net.input(MORTISE_BF16, {1, 64}), net.input(MORTISE_BF16, {40, 64})));
  };
  Network asked, wrong;
  build(asked), build(wrong);
  EXPECT_THAT(stepsOf(asked, Region::How{.options = {{"products", "library"}}}), HasSubstr("cublaslt.matmul"));
  try {
    stepsOf(wrong, Region::How{.options = {{"products", "sometimes"}}});
    FAIL() << "expected an error";
  } catch (const Failed &failed) {
    EXPECT_THAT(failed.error.message, HasSubstr("option products: expected auto or library, found sometimes"));
  }
}

// ---- What is one kernel with it

TEST(CudaFewRows, AGatedLayerIsTwoKernels) {
  Network net;
  const ValueId x = net.input(MORTISE_BF16, {1, 1, 64}), residual = net.input(MORTISE_BF16, {1, 1, 64});
  const auto weight = [&](int64_t rows, int64_t columns) { return net.weight({rows, columns}, MORTISE_BF16); };
  const ValueId gate = net.op("silu", {net.linear(x, weight(256, 64))}), up = net.linear(x, weight(256, 64));
  net.output(net.op("add", {residual, net.linear(net.op("mul", {gate, up}), weight(64, 256))}));
  const std::string steps = stepsOf(net);
  EXPECT_EQ(count(steps, "\n"), 2u) << steps;
  EXPECT_EQ(count(steps, "cuda.product"), 2u) << steps;
}

// The norm in front of a layer is computed by each of its products, which share a launch.
TEST(CudaFewRows, TheNormIsInTheProductsOfOneRow) {
  for (const int64_t rows : {1, 2}) {
    Network net;
    const ValueId x = net.input(MORTISE_BF16, {1, rows, 64});
    const ValueId norm = net.op("rms_norm", {x}, {integer("axis", 2), real("epsilon", 1e-5)});
    const ValueId scaled = net.op("mul", {norm, net.broadcast(net.weight({64}, MORTISE_BF16), {1, rows, 64}, {2})});
    for (const int64_t columns : {128, 32, 32})
      net.output(net.linear(scaled, net.weight({columns, 64}, MORTISE_BF16)));
    const std::string steps = stepsOf(net);
    EXPECT_EQ(count(steps, "\n"), rows == 1 ? 1u : 2u) << steps;
    EXPECT_EQ(count(steps, "rms_norm"), rows == 1 ? 2u : 1u) << steps; // "rms_norm+linear 1x1x32 (2)"
  }
}

// The bias of narrow numbers is added to the sum before it is rounded, and no weight is kept a second time.
TEST(CudaFewRows, ConvertedOperandsAreReadAsTheyWere) {
  Network net;
  const ValueId x = net.input(MORTISE_BF16, {2, 64}), w = net.weight({40, 64}, MORTISE_BF16),
                bias = net.weight({40}, MORTISE_BF16);
  const auto wide = [&](ValueId value) { return net.op("convert", {value}, {text("dtype", "f32")}); };
  const ValueId sum = net.op("add", {net.linear(wide(x), wide(w)), net.broadcast(wide(bias), {2, 40}, {1})});
  net.output(net.op("convert", {sum}, {text("dtype", "bf16")}));
  const Session session;
  const Region region(session.devices[0], net.finish());
  EXPECT_THAT(region.text(), AllOf(HasSubstr("cuda.product"), Not(HasSubstr("cublaslt"))));
  EXPECT_EQ(region.steps, 1u) << region.text();
}

TEST(CudaFewRows, ABiasOfNarrowNumbersIsTheGroups) {
  Network net;
  net.output(net.op("tanh", {net.linear(net.input(MORTISE_BF16, {2, 64}), net.input(MORTISE_BF16, {40, 64}),
                                        net.input(MORTISE_BF16, {40}))}));
  const std::string steps = stepsOf(net);
  EXPECT_THAT(steps, AllOf(HasSubstr("cuda.product"), Not(HasSubstr("cublaslt"))));
  EXPECT_EQ(count(steps, "\n"), 1u) << steps;
  EXPECT_THAT(blasCalls("cublasLtMatmul"), testing::IsEmpty()); // nothing is tried, either
}

// A graph of such products is recorded without a capture.
TEST(CudaFewRows, NothingIsCaptured) {
  Network net;
  ValueId x = net.input(MORTISE_F32, {1, 64});
  for (int i = 0; i < 6; ++i)
    x = net.linear(x, net.input(MORTISE_F32, {64, 64}));
  net.output(x);
  const Session session;
  MortiseDevice *device = session.devices[0];
  const Region region(device, net.finish());
  EXPECT_EQ(region.steps, 6u);
  MortiseStream *stream = makeStream(device);
  std::vector<MortiseAddress> inputs;
  for (int i = 0; i < 7; ++i)
    inputs.push_back(makeMemory(device, 64 * 64 * 4));
  const MortiseAddress output = makeMemory(device, 64 * 4);
  session.configure("");
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(region.enqueue(stream, inputs, {output}));
  EXPECT_EQ(session.callsOf("cuGraphLaunch"), 2u);
  EXPECT_EQ(session.callsOf("cuStreamBeginCapture_v2"), 0u);
  for (const MortiseAddress input : inputs)
    freeMemory(device, input, 64 * 64 * 4);
  freeMemory(device, output, 64 * 4);
  destroyStream(stream);
}

// ---- Groups that share a launch

TEST(CudaBundles, ProductsOfOneFactorShareALaunch) {
  Network net;
  const ValueId x = net.input(MORTISE_BF16, {1, 64});
  for (const int64_t columns : {128, 32, 32})
    net.output(net.linear(x, net.input(MORTISE_BF16, {columns, 64})));
  const std::string steps = stepsOf(net);
  EXPECT_EQ(count(steps, "\n"), 1u) << steps;
  EXPECT_THAT(steps, HasSubstr("linear 1x128 | linear 1x32 (2)"));
}

// A group joins no launch before its operands are there, also where a call makes them.
TEST(CudaBundles, NothingComesBeforeWhatItReads) {
  Network net;
  const ValueId x = net.input(MORTISE_F32, {64, 64}), y = net.op("exp", {net.transpose(x, {1, 0})});
  const ValueId product = net.linear(y, x), sum = net.op("reduce_sum", {product}, {ints("axes", {0})});
  net.output(net.op("exp", {sum}));
  net.output(net.op("neg", {x}));
  const std::string steps = stepsOf(net);
  const size_t first = steps.find("exp 64x64"), call = steps.find("cublaslt"), last = steps.find("reduce_sum");
  EXPECT_TRUE(first < call && call < last && last != std::string::npos) << steps;
  EXPECT_EQ(count(steps, "\n"), 3u) << steps;
}

// Counters of a cache are updated together, behind all that reads them, where they lie.
TEST(CudaBundles, UpdatesOfStatesComeLast) {
  Network net;
  for (int64_t i = 0; i < 3; ++i) {
    const ValueId state = net.input(MORTISE_I64, {8}, MORTISE_VALUE_STATE);
    net.output(net.op("add", {state, net.splat(1, {8}, MORTISE_I64)}), 2 * i);
    const ValueId table = net.input(MORTISE_F32, {100, 16});
    net.output(net.op("reduce_sum", {net.op("embedding", {table, state})}, {ints("axes", {1})}));
  }
  const std::string steps = stepsOf(net);
  EXPECT_EQ(count(steps, "copy"), 0u) << steps;
  EXPECT_EQ(count(steps, "\n"), 2u) << steps;
  EXPECT_THAT(steps, HasSubstr("(3)"));
  EXPECT_LT(steps.find("embedding"), steps.find("add")) << steps;
}

// One launch does not update what another part of it reads.
TEST(CudaBundles, AReaderOfAStateIsInAnotherLaunch) {
  Network net;
  const ValueId state = net.input(MORTISE_F32, {40, 7}, MORTISE_VALUE_STATE), x = net.input(MORTISE_F32, {40, 7});
  net.output(net.op("add", {state, net.op("exp", {x})}), 0);
  net.output(net.op("neg", {net.transpose(state, {1, 0})}));
  const std::string steps = stepsOf(net);
  EXPECT_EQ(count(steps, "\n"), 2u) << steps;
  EXPECT_EQ(count(steps, "copy to output"), 0u) << steps;
  EXPECT_LT(steps.find("neg"), steps.find("add")) << steps;
}

// Those that fill the device gain nothing.
TEST(CudaBundles, LargeGroupsStandAlone) {
  Network net;
  for (int i = 0; i < 2; ++i)
    net.output(net.op("neg", {net.input(MORTISE_F32, {4096, 4096})}));
  const std::string steps = stepsOf(net);
  EXPECT_EQ(count(steps, "\n"), 2u) << steps;
}

} // namespace
} // namespace mortise::test
