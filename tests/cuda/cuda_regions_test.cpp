// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What calls of the cuda plugin's kernels queue, on a stand-in that copies and computes nothing.
#include "session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mortise::test {
namespace {

// Memory with one number in all elements.
MortiseAddress filled(MortiseDevice *device, MortiseStream *stream, float number) {
  const MortiseAddress address = makeMemory(device, smallBytes);
  std::vector<float> data(smallBytes / 4, number);
  MortiseCopyArgs args{};
  args.device = args.target_device = device;
  args.stream = stream;
  args.target = address;
  args.source = addressOf(data.data());
  args.bytes = smallBytes;
  EXPECT_TRUE(call(testedPlugin().copy, args));
  return address;
}

float firstOf(MortiseAddress address) { return *pointer<float>(address); } // the stand-in's memory is the process's

TEST(CudaRegions, OutputsThatAreInputsAreCopied) {
  const Session session;
  MortiseDevice *device = session.devices[0];
  MortiseStream *stream = makeStream(device);
  Network net;
  const ValueId x = net.input(MORTISE_F32, {64, 128}), y = net.op("exp", {x});
  net.output(y);
  net.output(x);
  net.output(y);
  {
    const Region compiled(device, net.finish());
    EXPECT_EQ(compiled.steps, 3u);
    const MortiseAddress in = filled(device, stream, 5);
    const std::vector<MortiseAddress> outs = {filled(device, stream, 7), filled(device, stream, 8),
                                              filled(device, stream, 9)};
    std::vector<uint64_t> times(compiled.steps, 1);
    ASSERT_TRUE(compiled.enqueue(stream, {in}, outs, times.data()));
    EXPECT_EQ(firstOf(outs[0]), 7); // launches compute nothing
    EXPECT_EQ(firstOf(outs[1]), 5);
    EXPECT_EQ(firstOf(outs[2]), 7);
    EXPECT_THAT(times, testing::Each(1'000'001u)); // added to what was there
    for (const MortiseAddress address : {in, outs[0], outs[1], outs[2]})
      freeMemory(device, address, smallBytes);
  }
  destroyStream(stream);
}

TEST(CudaRegions, StatesThatChangePlacesAreKeptMeanwhile) {
  const Session session;
  MortiseDevice *device = session.devices[0];
  MortiseStream *stream = makeStream(device);
  Network net;
  const ValueId a = net.input(MORTISE_F32, {64, 128}, MORTISE_VALUE_STATE);
  const ValueId b = net.input(MORTISE_F32, {64, 128}, MORTISE_VALUE_STATE);
  net.output(b, 0);
  net.output(a, 1);
  net.output(net.op("neg", {a}));
  {
    const Region compiled(device, net.finish());
    const MortiseAddress one = filled(device, stream, 1), two = filled(device, stream, 2),
                         out = makeMemory(device, smallBytes);
    ASSERT_TRUE(compiled.enqueue(stream, {one, two}, {one, two, out}));
    EXPECT_EQ(firstOf(one), 2);
    EXPECT_EQ(firstOf(two), 1);
    for (const MortiseAddress address : {one, two, out})
      freeMemory(device, address, smallBytes);
  }
  destroyStream(stream);
}

// The old contents are read after the update: the update is made elsewhere, and copied at the end.
TEST(CudaRegions, AStateThatIsStillReadIsUpdatedAtTheEnd) {
  const Session session;
  MortiseDevice *device = session.devices[0];
  MortiseStream *stream = makeStream(device);
  Network net;
  const ValueId state = net.input(MORTISE_F32, {64, 128}, MORTISE_VALUE_STATE);
  net.output(net.op("exp", {state}), 0);
  net.output(state);
  {
    const Region compiled(device, net.finish());
    const MortiseAddress memory = filled(device, stream, 3), out = filled(device, stream, 4);
    session.configure("");
    ASSERT_TRUE(compiled.enqueue(stream, {memory}, {memory, out}));
    EXPECT_EQ(firstOf(out), 3);
    EXPECT_EQ(session.callsOf("cuLaunchKernel"), 1u);
    EXPECT_EQ(session.callsOf("cuMemcpyDtoDAsync_v2"), 2u);
    for (const MortiseAddress address : {memory, out})
      freeMemory(device, address, smallBytes);
  }
  destroyStream(stream);
}

// One kernel for all values; the numbers of an instance are for its values.
TEST(CudaRegions, InstancesHaveTheNumbersOfTheirSymbols) {
  Network net;
  const ValueId x = net.input(MORTISE_F32, {7919, 128});
  const ValueId rows = net.op("softmax", {x}, {integer("axis", 1)});
  net.output(net.op("reduce_sum", {rows}, {ints("axes", {0})}));
  net.output(net.op("exp", {x}));
  const auto graph = withSymbols(net.finish()->view(), {{7919, "n", 0}});
  const Session session;
  MortiseDevice *device = session.devices[0];
  MortiseStream *stream = makeStream(device);
  std::vector<uint64_t> workspaces;
  std::vector<size_t> launches;
  for (const int64_t n : {0, 1, 1000}) {
    Region region(device, graph);
    region.prepare({n});
    const uint64_t bytes = 512 + static_cast<uint64_t>(n) * 512;
    const MortiseAddress in = makeMemory(device, bytes), sums = makeMemory(device, 512),
                         out = makeMemory(device, bytes);
    session.configure("");
    ASSERT_TRUE(region.enqueue(stream, {in}, {sums, out}));
    workspaces.push_back(region.workspaceBytes);
    launches.push_back(session.callsOf("cuLaunchKernel"));
    EXPECT_EQ(session.callsOf("cuLibraryLoadData"), 0u);
    freeMemory(device, in, bytes);
    freeMemory(device, sums, 512);
    freeMemory(device, out, bytes);
  }
  EXPECT_LT(launches[0], launches[1]); // an empty grid is not launched, an empty sum is
  EXPECT_GE(launches[0], 1u);
  EXPECT_EQ(launches[1], launches[2]);
  EXPECT_LE(workspaces[1], workspaces[2]);
  EXPECT_LE(workspaces[2], 1000u * 512 + 2048); // one value between kernels, at most
  destroyStream(stream);
}

TEST(CudaRegions, CodeForAnyAddressIsLoadedWhenACallNeedsIt) {
  const Session session;
  MortiseDevice *device = session.devices[0];
  MortiseStream *stream = makeStream(device);
  {
    const Region compiled(device, smallGraph());
    const size_t loaded = session.callsOf("cuLibraryLoadData");
    const MortiseAddress in = makeMemory(device, smallBytes + 256), out = makeMemory(device, smallBytes + 256);
    ASSERT_TRUE(compiled.enqueue(stream, {in}, {out}));
    EXPECT_EQ(session.callsOf("cuLibraryLoadData"), loaded);
    for (int round = 0; round < 2; ++round)
      ASSERT_TRUE(compiled.enqueue(stream, {in + 4}, {out}));
    EXPECT_LE(session.callsOf("cuLibraryLoadData"), loaded + 1); // once, or never where alignment makes no difference
    const Region again(device, smallGraph());
    EXPECT_LE(session.callsOf("cuLibraryLoadData"), loaded + 1); // equal kernels are loaded once
    freeMemory(device, in, smallBytes + 256);
    freeMemory(device, out, smallBytes + 256);
  }
  destroyStream(stream);
}

} // namespace
} // namespace mortise::test
