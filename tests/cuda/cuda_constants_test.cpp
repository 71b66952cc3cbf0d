// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the cuda plugin computes of constants alone, when they are bound.
#include "session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace mortise::test {
namespace {

using testing::HasSubstr;

constexpr uint64_t bytes = 64 * 128 * 4;

// x + exp(w), for a weight w.
std::shared_ptr<const Graph> withWeight() {
  Network net;
  const ValueId x = net.input(MORTISE_F32, {64, 128});
  net.output(net.op("add", {x, net.op("exp", {net.weight({64, 128})})}));
  return net.finish();
}

TEST(CudaConstants, AreComputedWithWhenTheyAreBound) {
  const Session session;
  MortiseDevice *device = session.devices[0];
  Region region(device, withWeight());
  MortiseStream *stream = makeStream(device);
  const MortiseAddress x = makeMemory(device, bytes), w = makeMemory(device, bytes), y = makeMemory(device, bytes);
  EXPECT_EQ(region.steps, 1u);
  session.configure("");
  region.bind({0, w});
  EXPECT_EQ(session.callsOf("cuLaunchKernel"), 1u);
  EXPECT_EQ(region.packedBytes, bytes);
  for (int call = 0; call < 2; ++call) {
    session.configure("");
    ASSERT_TRUE(region.enqueue(stream, {x, 0}, {y}));
    EXPECT_EQ(session.callsOf("cuLaunchKernel"), 1u);
    const std::vector<std::string> work = session.work();
    EXPECT_TRUE(std::ranges::none_of(work, [&](const std::string &line) {
      return line.find(std::to_string(w)) != line.npos; // the weight itself is not read any more
    })) << testing::PrintToString(work);
  }
  for (const MortiseAddress address : {x, w, y})
    freeMemory(device, address, bytes);
  destroyStream(stream);
}

// What depends on a symbol is computed by the call, whether the constant's extent is one or the result's.
TEST(CudaConstants, WhatHasSymbolsWaitsForTheirValues) {
  const Session session;
  MortiseDevice *device = session.devices[0];
  for (const bool isLong : {true, false}) {
    Network net;
    const ValueId x = net.input(MORTISE_F32, {30011, 128});
    const ValueId w =
        net.op("exp", {net.weight(isLong ? std::vector<int64_t>{30011, 128} : std::vector<int64_t>{128})});
    net.output(net.op("add", {x, isLong ? w : net.broadcast(w, {30011, 128}, {1})}));
    Region region(device, withSymbols(net.finish()->view(), {{30011, "batch", 0}}));
    const MortiseAddress weight = makeMemory(device, bytes);
    session.configure("");
    region.bind({0, weight});
    EXPECT_EQ(session.callsOf("cuLaunchKernel"), isLong ? 0U : 1U);
    EXPECT_EQ(region.packedBytes, isLong ? 0U : 128 * sizeof(float));
    freeMemory(device, weight, bytes);
  }
}

TEST(CudaConstants, TheirMemoryIsFreedWithThem) {
  const Session session;
  MortiseDevice *device = session.devices[0];
  session.warmUp();
  const MortiseAddress w = makeMemory(device, bytes);
  const std::string before = session.counts();
  {
    Region region(device, withWeight());
    region.bind({0, w});
    const std::string bound = session.counts();
    region.bind({0, w}); // again, in the place of the first
    EXPECT_EQ(session.counts(), bound);
  }
  EXPECT_EQ(session.counts(), before);
  freeMemory(device, w, bytes);
}

TEST(CudaConstants, ACallWithoutThemIsAnError) {
  const Session session;
  Region region(session.devices[0], withWeight());
  MortiseStream *stream = makeStream(session.devices[0]);
  const auto called = region.enqueue(stream, {256, 0}, {512});
  ASSERT_FALSE(called);
  EXPECT_THAT(called.error().message, HasSubstr("bound constants"));
  destroyStream(stream);
}

TEST(CudaConstants, WhatFailsWhileTheyAreBoundLeavesNothing) {
  const Session session;
  MortiseDevice *device = session.devices[0];
  session.warmUp();
  const MortiseAddress w = makeMemory(device, bytes);
  Region region(device, withWeight());
  const std::string before = session.counts();
  for (const char *function : {"cuMemAllocAsync", "cuLaunchKernel"}) {
    session.configure("fail=" + std::string(function) + ":1:1");
    EXPECT_THROW(region.bind({0, w}), Failed) << function;
    EXPECT_EQ(session.counts(), before) << function;
  }
  session.configure("");
  freeMemory(device, w, bytes);
}

// What is much larger than the constants it was made of is computed in each call, in its users' kernel.
TEST(CudaConstants, LargeResultsTakeNoMemory) {
  const Session session;
  Network net;
  const ValueId x = net.input(MORTISE_F32, {512, 4096});
  const ValueId spread = net.broadcast(net.weight({4096}), {512, 4096}, {1});
  const ValueId rows = net.broadcast(net.weight({512}), {512, 4096}, {0});
  net.output(net.op("add", {x, net.op("mul", {spread, rows})}));
  Region region(session.devices[0], net.finish());
  session.configure("");
  region.bind({0, 4096, 1 << 20});
  EXPECT_EQ(region.packedBytes, 0u);
  EXPECT_EQ(session.callsOf("cuLaunchKernel"), 0u);
}

// An operand that the library cannot read in place is made dense once.
TEST(CudaConstants, OperandsOfProductsAreMadeDenseOnce) {
  const Session session;
  Network net;
  const ValueId x = net.input(MORTISE_F32, {8, 6, 16});
  const ValueId w = net.transpose(net.weight({16, 4, 6}), {0, 2, 1}); // [16, 6, 4]: summed over 16 and 6
  net.output(net.dot(x, net.transpose(w, {1, 0, 2}), {}, {}, {1, 2}, {0, 1}));
  Region region(session.devices[0], net.finish());
  EXPECT_THAT(region.text(), testing::StartsWith("cublaslt.matmul"));
  session.configure("");
  region.bind({0, 4096});
  EXPECT_EQ(session.callsOf("cuLaunchKernel"), 1u);
}

} // namespace
} // namespace mortise::test
