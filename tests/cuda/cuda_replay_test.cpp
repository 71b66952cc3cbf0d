// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls that are replayed as CUDA graphs do what calls do that queue their steps, on a stand-in whose graphs happen
// when they are launched.
#include "session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cuda.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>

namespace mortise::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

// Kernels, products that read and write tensors of the caller, and a copy.
std::shared_ptr<const Graph> mixedGraph() {
  Network net;
  const ValueId x = net.input(MORTISE_F32, {16, 32}), w = net.input(MORTISE_F32, {32, 32}),
                v = net.input(MORTISE_F32, {32, 32});
  const ValueId rows = net.op("softmax", {net.linear(x, w)}, {integer("axis", 1)});
  const ValueId y = net.linear(rows, v);
  net.output(y);
  net.output(net.op("reduce_sum", {net.op("exp", {y})}, {ints("axes", {1})}));
  net.output(x);
  return net.finish();
}
constexpr uint64_t mixedInputs[] = {2048, 4096, 4096}, mixedOutputs[] = {2048, 64, 2048};

// Products only, since kernels compute nothing here: the result depends on all of them.
std::shared_ptr<const Graph> chainGraph(int64_t links = 5) {
  Network net;
  ValueId x = net.input(MORTISE_F32, {8, 8});
  for (int64_t i = 0; i < links; ++i)
    x = net.linear(x, net.input(MORTISE_F32, {8, 8}));
  net.output(x);
  return net.finish();
}
constexpr uint64_t chainBytes = 256;

class Memory {
public:
  explicit Memory(MortiseDevice *device) : device(device) {}
  Memory(const Memory &) = delete;
  ~Memory() {
    for (const auto &[address, bytes] : owned)
      freeMemory(device, address, bytes);
  }
  MortiseAddress make(uint64_t bytes) {
    owned.push_back({makeMemory(device, bytes + 512), bytes + 512});
    std::memset(pointer(owned.back().first), 0, bytes + 512);
    return owned.back().first;
  }
  std::vector<MortiseAddress> make(std::span<const uint64_t> sizes) {
    std::vector<MortiseAddress> list;
    for (const uint64_t bytes : sizes)
      list.push_back(make(bytes));
    return list;
  }
  MortiseAddress filled(uint64_t bytes, uint32_t seed) {
    const MortiseAddress address = make(bytes);
    fill(address, bytes, seed);
    return address;
  }
  static void fill(MortiseAddress address, uint64_t bytes, uint32_t seed) {
    for (uint64_t i = 0; i < bytes / 4; ++i)
      pointer<float>(address)[i] = static_cast<float>((seed + i) * 2654435761u % 17) / 8 - 1;
  }

private:
  MortiseDevice *device;
  std::vector<std::pair<MortiseAddress, uint64_t>> owned;
};

std::vector<float> numbersAt(MortiseAddress address, uint64_t bytes) {
  return std::vector<float>(pointer<float>(address), pointer<float>(address) + bytes / 4);
}

// Two forms of a region, in one workspace.
struct Pair {
  Pair(const Session &session, const std::shared_ptr<const Graph> &graph, const char *graphs = "all")
      : session(session), replayed(session.devices[0], graph, Region::How{.options = {{"graphs", graphs}}}),
        queued(session.devices[0], graph, Region::How{.options = {{"graphs", "off"}}}),
        stream(makeStream(session.devices[0])) {}
  ~Pair() { destroyStream(stream); }
  // What happened in a call of each.
  void expectEqual(MortiseAddress workspace, const std::vector<MortiseAddress> &in,
                   const std::vector<MortiseAddress> &out) {
    session.configure("");
    const auto two = queued.enqueueIn(workspace, stream, in, out);
    ASSERT_TRUE(two) << two.error().message;
    const std::vector<std::string> expected = session.work();
    ASSERT_GE(expected.size(), 4u);
    session.configure("");
    const auto one = replayed.enqueueIn(workspace, stream, in, out);
    ASSERT_TRUE(one) << one.error().message;
    EXPECT_EQ(session.work(), expected);
    launches.push_back(session.callsOf("cuGraphLaunch"));
    records.push_back(session.callsOf("cuGraphInstantiateWithFlags"));
    changes.push_back(session.callsOf("cuGraphExecKernelNodeSetParams_v2") +
                      session.callsOf("cuGraphExecMemcpyNodeSetParams"));
    captures.push_back(session.callsOf("cuStreamBeginCapture_v2"));
  }
  const Session &session;
  const Region replayed, queued;
  MortiseStream *stream;
  std::vector<size_t> launches, records, changes, captures; // per call
};

TEST(CudaReplay, FromTheSecondCallOnAGraphIsLaunched) {
  const Session session;
  Memory memory(session.devices[0]);
  Pair pair(session, mixedGraph());
  const auto in = memory.make(mixedInputs), out = memory.make(mixedOutputs);
  const MortiseAddress workspace = memory.make(pair.replayed.workspaceBytes);
  for (int call = 0; call < 4; ++call)
    pair.expectEqual(workspace, in, out);
  EXPECT_THAT(pair.launches, ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(pair.records, ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(pair.changes, Each(0));
  EXPECT_THAT(pair.captures, ElementsAre(0, 2, 0, 0)); // the products
  std::vector<std::string> calls = session.calls();
  std::erase_if(calls, [](const std::string &line) { return line.starts_with("cuCtx"); });
  EXPECT_THAT(calls, ElementsAre(StartsWith("cuStreamIsCapturing"), StartsWith("cuGraphLaunch")));
}

// What registers do not hold of long rows lies in memory of the block that each launch has to ask for, once the
// function may.
TEST(CudaReplay, LaunchesAskForTheMemoryOfTheirRows) {
  constexpr uint64_t row = 40000 * 4, kept = (40000 - 16384) * 4;
  const Session session;
  Memory memory(session.devices[0]);
  Network net;
  std::vector<MortiseAddress> in, out;
  for (int64_t rows = 1; rows <= 4; ++rows) {
    net.output(net.op("softmax", {net.input(MORTISE_F32, {rows, 40000})}, {integer("axis", 1)}));
    in.push_back(memory.make(rows * row)), out.push_back(memory.make(rows * row));
  }
  session.configure("");
  Pair pair(session, net.finish());
  EXPECT_THAT(session.calls(),
              Contains(AllOf(StartsWith("cuFuncSetAttribute"), HasSubstr("value=" + std::to_string(kept)))));
  const MortiseAddress workspace = memory.make(pair.replayed.workspaceBytes);
  for (int call = 0; call < 3; ++call)
    pair.expectEqual(workspace, in, out);
  EXPECT_THAT(pair.launches, ElementsAre(0, 1, 1));
  EXPECT_THAT(session.work(), AllOf(SizeIs(4), Each(HasSubstr(" shared=" + std::to_string(kept) + " "))));
  in[2] = memory.make(3 * row); // a node gets another address, and keeps its memory
  pair.expectEqual(workspace, in, out);
}

// Each of the caller's addresses alone, and the workspace's. A product whose address changes is captured no more.
TEST(CudaReplay, ChangedAddressesAreSeen) {
  const Session session;
  Memory memory(session.devices[0]);
  Pair pair(session, mixedGraph());
  auto in = memory.make(mixedInputs), out = memory.make(mixedOutputs);
  auto otherIn = memory.make(mixedInputs), otherOut = memory.make(mixedOutputs);
  MortiseAddress workspace = memory.make(pair.replayed.workspaceBytes);
  const auto call = [&] { pair.expectEqual(workspace, in, out); };
  const auto changeEach = [&] {
    for (size_t i = 0; i < in.size(); ++i) {
      std::swap(in[i], otherIn[i]);
      call();
    }
    for (size_t i = 0; i < out.size(); ++i) {
      std::swap(out[i], otherOut[i]);
      call();
    }
  };
  call();
  call();
  changeEach();
  EXPECT_EQ(std::ranges::count(pair.launches, 0), 1); // the first call
  EXPECT_THAT(pair.captures, ElementsAre(0, 2, 1, 0, 0, 0, 0, 0));
  pair.records.clear();
  pair.changes.clear();
  changeEach();
  EXPECT_THAT(pair.records, Each(0));
  EXPECT_GE(std::ranges::count_if(pair.changes, [](size_t count) { return count > 0; }), 4);
  workspace = memory.make(pair.replayed.workspaceBytes);
  call();
  EXPECT_GT(pair.records.back(), 0u);
  EXPECT_EQ(pair.captures.back(), 0u);
  changeEach();
  EXPECT_EQ(std::ranges::count(pair.launches, 0), 1);
}

// A captured product has the address of what it adds, too.
TEST(CudaReplay, ChangedAddendsAreSeen) {
  Network net;
  ValueId x = net.input(MORTISE_F32, {8, 8});
  for (int i = 0; i < 5; ++i)
    x = net.op("add", {net.linear(x, net.input(MORTISE_F32, {8, 8})), net.input(MORTISE_F32, {8, 8})});
  net.output(x);
  const Session session;
  Memory memory(session.devices[0]);
  Pair pair(session, net.finish());
  std::vector<MortiseAddress> in;
  for (uint32_t i = 0; i < 11; ++i)
    in.push_back(memory.filled(chainBytes, i));
  const MortiseAddress out = memory.make(chainBytes), workspace = memory.make(pair.replayed.workspaceBytes);
  pair.expectEqual(workspace, in, {out});
  pair.expectEqual(workspace, in, {out});
  EXPECT_THAT(pair.captures, ElementsAre(0, 5));
  for (size_t addend = 2; addend < in.size(); addend += 2) {
    const std::vector<float> before = numbersAt(out, chainBytes);
    in[addend] = memory.filled(chainBytes, 100 + static_cast<uint32_t>(addend));
    pair.expectEqual(workspace, in, {out});
    EXPECT_NE(numbersAt(out, chainBytes), before);
  }
}

// A wait for the whole device in another thread would be an error meanwhile.
TEST(CudaReplay, NothingIsCapturedUnlessThatIsWanted) {
  Network net;
  const auto rows = [&](ValueId x, int64_t axis) { return net.op("softmax", {x}, {integer("axis", axis)}); };
  const ValueId x = net.input(MORTISE_F32, {16, 32}), w = net.input(MORTISE_F32, {32, 32});
  const ValueId y = net.linear(rows(rows(x, 1), 0), w);
  net.output(rows(rows(y, 1), 0));
  net.output(net.linear(net.op("exp", {y}), w)); // one kernel before a product
  net.output(x);
  const Session session;
  Memory memory(session.devices[0]);
  Pair pair(session, net.finish(), "on");
  const uint64_t inputs[] = {2048, 4096}, outputs[] = {2048, 2048, 2048};
  const MortiseAddress workspace = memory.make(pair.replayed.workspaceBytes);
  const auto in = memory.make(inputs), one = memory.make(outputs), two = memory.make(outputs);
  for (int call = 0; call < 6; ++call)
    pair.expectEqual(workspace, call == 4 ? memory.make(inputs) : in, call % 2 ? one : two);
  EXPECT_THAT(pair.captures, Each(0));
  EXPECT_EQ(pair.launches[0], 0u);
  for (size_t call = 1; call < 6; ++call)
    EXPECT_GE(pair.launches[call], 1u);
  EXPECT_EQ(std::ranges::count_if(pair.records, [](size_t count) { return count > 0; }), 1);
  EXPECT_GT(std::ranges::count_if(pair.changes, [](size_t count) { return count > 0; }), 3);
}

TEST(CudaReplay, ResultsThatAlternateAreRecordedTwice) {
  const Session session;
  Memory memory(session.devices[0]);
  Pair pair(session, mixedGraph());
  const auto in = memory.make(mixedInputs), one = memory.make(mixedOutputs), two = memory.make(mixedOutputs);
  const MortiseAddress workspace = memory.make(pair.replayed.workspaceBytes);
  for (int call = 0; call < 8; ++call)
    pair.expectEqual(workspace, in, call % 2 ? one : two);
  EXPECT_THAT(pair.captures, ElementsAre(0, 2, 1, 0, 0, 0, 0, 0));
  EXPECT_THAT(pair.records, ElementsAre(0, 1, 2, 0, 0, 0, 0, 0)); // before and behind the product
  EXPECT_THAT(pair.launches, ElementsAre(0, 1, 2, 2, 2, 2, 2, 2));
}

// Contexts in flight and streams have workspaces of their own. There is an end to recording.
TEST(CudaReplay, SomeWorkspacesHaveGraphsAndOthersNot) {
  const Session session;
  Memory memory(session.devices[0]);
  Pair pair(session, mixedGraph());
  const auto in = memory.make(mixedInputs), out = memory.make(mixedOutputs);
  std::vector<MortiseAddress> workspaces;
  for (int i = 0; i < 5; ++i)
    workspaces.push_back(memory.make(pair.replayed.workspaceBytes));
  for (int call = 0; call < 13; ++call)
    pair.expectEqual(workspaces[static_cast<size_t>(call) % 4], in, out);
  EXPECT_EQ(std::ranges::count(pair.records, 1), 4);
  EXPECT_EQ(std::ranges::count(pair.launches, 1), 12);
  for (int call = 0; call < 50; ++call)
    pair.expectEqual(workspaces[static_cast<size_t>(call) % 5], in, out);
  EXPECT_EQ(std::ranges::count(pair.records, 1), 16);
  EXPECT_EQ(session.counts().find("executables=4 ") != std::string::npos, true) << session.counts();
}

TEST(CudaReplay, ConstantsThatAreBoundAnewAreSeen) {
  Network net;
  ValueId x = net.input(MORTISE_F32, {8, 8});
  for (int i = 0; i < 5; ++i)
    x = net.linear(x, net.input(MORTISE_F32, {8, 8}, MORTISE_VALUE_CONSTANT));
  net.output(x);
  const auto graph = net.finish();
  const Session session;
  MortiseDevice *device = session.devices[0];
  Memory memory(device);
  MortiseStream *stream = makeStream(device);
  {
    Region replayed(device, graph, Region::How{.options = {{"graphs", "all"}}}),
        queued(device, graph, Region::How{.options = {{"graphs", "off"}}});
    for (uint32_t binding = 0; binding < 3; ++binding) {
      std::vector<MortiseAddress> constants = {0};
      for (uint32_t i = 0; i < 5; ++i)
        constants.push_back(memory.filled(chainBytes, 10 * binding + i));
      replayed.bind(constants);
      queued.bind(constants);
      for (uint32_t call = 0; call < 4; ++call) {
        const std::vector<MortiseAddress> in = {memory.filled(chainBytes, 77 + call), 0, 0, 0, 0, 0};
        const MortiseAddress out = memory.make(chainBytes), expected = memory.make(chainBytes);
        ASSERT_TRUE(queued.enqueue(stream, in, {expected}));
        session.configure("");
        ASSERT_TRUE(replayed.enqueue(stream, in, {out}));
        EXPECT_EQ(numbersAt(out, chainBytes), numbersAt(expected, chainBytes));
        EXPECT_EQ(session.callsOf("cuGraphLaunch"), binding == 0 && call == 0 ? 0u : 1u);
        if (call > 2) // the first and the last product are not captured any more
          EXPECT_EQ(session.callsOf("cuStreamBeginCapture_v2"), 0u);
      }
    }
  }
  destroyStream(stream);
}

// Kernels have other code for addresses that are less aligned, and the library has other algorithms.
TEST(CudaReplay, AddressesOfLessAlignmentGetTheirCode) {
  const Session session;
  Memory memory(session.devices[0]);
  Pair pair(session, mixedGraph());
  const MortiseAddress workspace = memory.make(pair.replayed.workspaceBytes);
  const auto in = memory.make(mixedInputs), out = memory.make(mixedOutputs);
  for (int round = 0; round < 2; ++round)
    for (const uint64_t skew : {0, 4, 16, 8, 64, 12, 0, 32}) {
      auto skewedIn = in, skewedOut = out;
      for (MortiseAddress &address : skewedIn)
        address += skew;
      for (MortiseAddress &address : skewedOut)
        address += skew;
      pair.expectEqual(workspace, skewedIn, skewedOut);
    }
}

TEST(CudaReplay, NumbersAreThoseOfTheCallsOwnInputs) {
  const Session session;
  MortiseDevice *device = session.devices[0];
  Memory memory(device);
  Pair pair(session, chainGraph());
  std::vector<MortiseAddress> in;
  for (uint32_t i = 0; i < 6; ++i)
    in.push_back(memory.filled(chainBytes, i));
  for (uint32_t call = 0; call < 12; ++call) {
    Memory::fill(in[call % 6], chainBytes, 100 + call); // the same addresses, other contents
    if (call % 3 == 0)
      in[0] = memory.filled(chainBytes, 200 + call);
    const MortiseAddress out = memory.make(chainBytes), expected = memory.make(chainBytes);
    ASSERT_TRUE(pair.queued.enqueue(pair.stream, in, {expected}));
    ASSERT_TRUE(pair.replayed.enqueue(pair.stream, in, {out}));
    EXPECT_EQ(numbersAt(out, chainBytes), numbersAt(expected, chainBytes)) << call;
  }
}

TEST(CudaReplay, StatesThatChangePlacesDoSoInEachReplay) {
  const Session session;
  Memory memory(session.devices[0]);
  Network net;
  const ValueId a = net.input(MORTISE_F32, {64, 128}, MORTISE_VALUE_STATE);
  const ValueId b = net.input(MORTISE_F32, {64, 128}, MORTISE_VALUE_STATE);
  net.output(b, 0);
  net.output(a, 1);
  net.output(net.op("softmax", {net.op("neg", {a})}, {integer("axis", 1)}));
  net.output(net.op("softmax", {net.op("exp", {b})}, {integer("axis", 0)}));
  const Region region(session.devices[0], net.finish());
  MortiseStream *stream = makeStream(session.devices[0]);
  const MortiseAddress one = memory.filled(smallBytes, 1), two = memory.filled(smallBytes, 2);
  const auto first = numbersAt(one, smallBytes), second = numbersAt(two, smallBytes);
  const MortiseAddress outs[] = {memory.make(smallBytes), memory.make(smallBytes)};
  session.configure("");
  for (int call = 1; call <= 6; ++call) {
    ASSERT_TRUE(region.enqueue(stream, {one, two}, {one, two, outs[0], outs[1]}));
    EXPECT_EQ(numbersAt(one, smallBytes), call % 2 ? second : first);
    EXPECT_EQ(numbersAt(two, smallBytes), call % 2 ? first : second);
  }
  EXPECT_EQ(session.callsOf("cuGraphLaunch"), 5u);
  destroyStream(stream);
}

// Each set of symbol values has graphs of its own.
TEST(CudaReplay, InstancesHaveTheirOwnGraphs) {
  Network net;
  ValueId x = net.input(MORTISE_F32, {7919, 8});
  for (int i = 0; i < 5; ++i)
    x = net.linear(x, net.input(MORTISE_F32, {8, 8}));
  net.output(x);
  const auto graph = withSymbols(net.finish()->view(), {{7919, "n", 0}});
  const Session session;
  Memory memory(session.devices[0]);
  MortiseStream *stream = makeStream(session.devices[0]);
  {
    Region replayed(session.devices[0], graph, Region::How{.options = {{"graphs", "all"}}}),
        queued(session.devices[0], graph, Region::How{.options = {{"graphs", "off"}}});
    for (const int64_t n : {3, 1, 0, 20}) {
      const uint64_t bytes = static_cast<uint64_t>(n) * 32;
      replayed.prepare({n});
      queued.prepare({n});
      std::vector<MortiseAddress> in = {memory.filled(bytes, 7)};
      for (uint32_t i = 0; i < 5; ++i)
        in.push_back(memory.filled(256, i));
      for (int call = 0; call < 3; ++call) {
        const MortiseAddress out = memory.make(bytes), expected = memory.make(bytes);
        ASSERT_TRUE(queued.enqueue(stream, in, {expected}));
        session.configure("");
        ASSERT_TRUE(replayed.enqueue(stream, in, {out}));
        EXPECT_EQ(numbersAt(out, bytes), numbersAt(expected, bytes));
        EXPECT_EQ(session.callsOf("cuGraphLaunch"), call > 0 && n > 0 ? 1u : 0u);
      }
    }
  }
  destroyStream(stream);
}

TEST(CudaReplay, ThreadsWithStreamsOfTheirOwn) {
  const Session session;
  MortiseDevice *device = session.devices[0];
  constexpr uint32_t threads = 6, calls = 60;
  Memory memory(device);
  const Region region(device, chainGraph(), Region::How{.options = {{"graphs", "all"}}}),
      queued(device, chainGraph(), Region::How{.options = {{"graphs", "off"}}});
  struct Own {
    MortiseStream *stream;
    MortiseAddress workspace;
    std::vector<MortiseAddress> in, out, expected;
    std::string error;
  };
  std::vector<Own> all(threads);
  for (uint32_t t = 0; t < threads; ++t) {
    Own &own = all[t];
    own.stream = makeStream(device);
    own.workspace = memory.make(region.workspaceBytes);
    for (uint32_t i = 0; i < 6; ++i)
      own.in.push_back(memory.filled(chainBytes, 50 * t + i));
    for (uint32_t call = 0; call < calls; ++call) {
      own.out.push_back(memory.make(chainBytes));
      own.expected.push_back(memory.make(chainBytes));
      ASSERT_TRUE(queued.enqueue(own.stream, own.in, {own.expected.back()}));
    }
  }
  std::vector<std::thread> running;
  for (Own &own : all)
    running.emplace_back([&region, &own] {
      for (const MortiseAddress out : own.out)
        if (auto done = region.enqueueIn(own.workspace, own.stream, own.in, {out}); !done)
          own.error = done.error().message;
    });
  for (std::thread &thread : running)
    thread.join();
  for (const Own &own : all) {
    EXPECT_EQ(own.error, "");
    for (uint32_t call = 0; call < calls; ++call)
      ASSERT_EQ(numbersAt(own.out[call], chainBytes), numbersAt(own.expected[call], chainBytes));
    destroyStream(own.stream);
  }
}

// ---- When calls are not replayed

size_t launchesOf(const Session &session, const std::shared_ptr<const Graph> &graph, const Region::How &how,
                  std::span<const uint64_t> inputs, std::span<const uint64_t> outputs, bool profiled = false) {
  Memory memory(session.devices[0]);
  const Region region(session.devices[0], graph, how);
  MortiseStream *stream = makeStream(session.devices[0]);
  const auto in = memory.make(inputs), out = memory.make(outputs);
  std::vector<uint64_t> times(region.steps);
  session.configure("");
  for (int call = 0; call < 3; ++call)
    EXPECT_TRUE(region.enqueue(stream, in, out, profiled ? times.data() : nullptr));
  const size_t launches = session.callsOf("cuGraphLaunch");
  EXPECT_EQ(session.callsOf("cuLaunchKernel") == 0, false);
  destroyStream(stream);
  return launches;
}

TEST(CudaReplay, OnlyWhereItIsAskedForAndPays) {
  const Session session;
  const auto mixed = mixedGraph();
  const Region::How all{.options = {{"graphs", "all"}}};
  EXPECT_EQ(launchesOf(session, mixed, all, mixedInputs, mixedOutputs), 2u);
  EXPECT_EQ(launchesOf(session, mixed, {.mode = MORTISE_MODE_REDUCE_OVERHEAD}, mixedInputs, mixedOutputs), 2u);
  EXPECT_EQ(launchesOf(session, mixed, {}, mixedInputs, mixedOutputs), 0u); // single kernels between products
  EXPECT_EQ(launchesOf(session, mixed, {.options = {{"graphs", "off"}}}, mixedInputs, mixedOutputs), 0u);
  EXPECT_EQ(launchesOf(session, mixed, {.mode = MORTISE_MODE_REDUCE_OVERHEAD, .options = {{"graphs", "off"}}},
                       mixedInputs, mixedOutputs),
            0u);
  EXPECT_EQ(launchesOf(session, mixed, {.mode = MORTISE_MODE_MAX_AUTOTUNE_NO_REPLAY, .options = {{"graphs", "all"}}},
                       mixedInputs, mixedOutputs),
            0u);
  EXPECT_EQ(launchesOf(session, mixed, all, mixedInputs, mixedOutputs, true), 0u); // each step is timed
  const uint64_t small[] = {smallBytes};
  EXPECT_EQ(launchesOf(session, smallGraph(), all, small, small), 0u); // one kernel
  const Session old("", MORTISE_TEST_STAND_IN_OLD);
  EXPECT_EQ(launchesOf(old, mixed, all, mixedInputs, mixedOutputs), 0u);
}

TEST(CudaReplay, AnotherValueOfTheOptionIsAnError) {
  const Session session;
  try {
    const Region region(session.devices[0], smallGraph(), Region::How{.options = {{"graphs", "sometimes"}}});
    ADD_FAILURE();
  } catch (const Failed &failed) {
    EXPECT_EQ(failed.error.code, MORTISE_INVALID_ARGUMENT);
    EXPECT_THAT(failed.error.message, HasSubstr("option graphs: expected on, off or all, found sometimes"));
  }
}

// What an application does with a stream of ours, through the driver.
class Application {
public:
  Application(const Session &session, MortiseStream *stream) : session(session) {
    MortiseStreamArgs exported{};
    exported.stream = stream;
    EXPECT_TRUE(call(testedPlugin().stream_export, exported));
    native = pointer<CUstream_st>(exported.native);
    CUcontext context = nullptr;
    EXPECT_EQ(driver(&cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain")(&context, 0), CUDA_SUCCESS);
    EXPECT_EQ(driver(&cuCtxSetCurrent, "cuCtxSetCurrent")(context), CUDA_SUCCESS);
  }
  Application(const Application &) = delete;
  ~Application() {
    if (executable)
      EXPECT_EQ(driver(&cuGraphExecDestroy, "cuGraphExecDestroy")(executable), CUDA_SUCCESS);
    if (graph)
      EXPECT_EQ(driver(&cuGraphDestroy, "cuGraphDestroy")(graph), CUDA_SUCCESS);
    EXPECT_EQ(driver(&cuCtxSetCurrent, "cuCtxSetCurrent")(nullptr), CUDA_SUCCESS);
  }
  void begin() const {
    ASSERT_EQ(driver(&cuStreamBeginCapture, "cuStreamBeginCapture_v2")(native, CU_STREAM_CAPTURE_MODE_GLOBAL),
              CUDA_SUCCESS);
  }
  void endAndLaunch() {
    ASSERT_EQ(driver(&cuStreamEndCapture, "cuStreamEndCapture")(native, &graph), CUDA_SUCCESS);
    ASSERT_EQ(driver(&cuGraphInstantiate, "cuGraphInstantiateWithFlags")(&executable, graph, 0), CUDA_SUCCESS);
    ASSERT_EQ(driver(&cuGraphLaunch, "cuGraphLaunch")(executable, native), CUDA_SUCCESS);
  }

private:
  template <typename Function> Function *driver(Function *, const char *name) const {
    return reinterpret_cast<Function *>(session.symbol(name));
  }
  const Session &session;
  CUstream native = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
};

// The application's graph gets the steps themselves. Its capture goes on undisturbed.
TEST(CudaReplay, AStreamThatTheApplicationCaptures) {
  const Session session;
  MortiseDevice *device = session.devices[0];
  Memory memory(device);
  const Region region(device, mixedGraph(), Region::How{.options = {{"graphs", "all"}}});
  MortiseStream *stream = makeStream(device);
  const auto in = memory.make(mixedInputs), out = memory.make(mixedOutputs);
  for (int call = 0; call < 3; ++call)
    ASSERT_TRUE(region.enqueue(stream, in, out));
  {
    Application application(session, stream);
    session.configure("");
    ASSERT_TRUE(region.enqueue(stream, in, out));
    const std::vector<std::string> expected = session.work();
    session.configure("");
    application.begin();
    ASSERT_TRUE(region.enqueue(stream, in, out));
    EXPECT_THAT(session.work(), IsEmpty());
    EXPECT_EQ(session.callsOf("cuGraphLaunch"), 0u);
    application.endAndLaunch();
    EXPECT_EQ(session.work(), expected);
  }
  destroyStream(stream);
}

TEST(CudaReplay, ACaptureOfAnotherStreamGoesOnWhileWeRecord) {
  const Session session;
  MortiseDevice *device = session.devices[0];
  Memory memory(device);
  const Region region(device, mixedGraph(), Region::How{.options = {{"graphs", "all"}}});
  MortiseStream *captured = makeStream(device), *stream = makeStream(device);
  const auto in = memory.make(mixedInputs), out = memory.make(mixedOutputs);
  {
    Application application(session, captured);
    application.begin();
    session.configure("");
    for (int call = 0; call < 3; ++call)
      ASSERT_TRUE(region.enqueue(stream, in, out));
    EXPECT_EQ(session.callsOf("cuGraphLaunch"), 2u);
    application.endAndLaunch();
  }
  destroyStream(captured);
  destroyStream(stream);
}

TEST(CudaReplay, TheDefaultStreamIsReplayedOn) {
  const Session session;
  Memory memory(session.devices[0]);
  const Region region(session.devices[0], mixedGraph(), Region::How{.options = {{"graphs", "all"}}});
  MortiseStreamArgs imported{};
  imported.device = session.devices[0];
  ASSERT_TRUE(call(testedPlugin().stream_import, imported)); // the native handle 0
  const auto in = memory.make(mixedInputs), out = memory.make(mixedOutputs);
  session.configure("");
  for (int call = 0; call < 3; ++call)
    ASSERT_TRUE(region.enqueue(imported.stream, in, out));
  EXPECT_EQ(session.callsOf("cuGraphLaunch"), 2u);
  destroyStream(imported.stream);
}

// ---- Failures

// Calls of which the second and the third are recorded; the later ones change the graphs.
struct Outcome {
  std::vector<Error> errors;
  size_t wrong = 0, launches = 0;
};
Outcome runWith(const Session &session, const std::string &settings, const std::string &blasSettings = "") {
  MortiseDevice *device = session.devices[0];
  Outcome outcome;
  Memory memory(device);
  const Region region(device, mixedGraph(), Region::How{.options = {{"graphs", "all"}}}),
      queued(device, mixedGraph(), Region::How{.options = {{"graphs", "off"}}});
  MortiseStream *stream = makeStream(device);
  const auto in = memory.make(mixedInputs);
  const MortiseAddress workspace = memory.make(region.workspaceBytes);
  std::vector<std::vector<MortiseAddress>> outs;
  std::vector<std::vector<std::string>> expected;
  for (int call = 0; call < 8; ++call) {
    outs.push_back(memory.make(mixedOutputs));
    session.configure("");
    EXPECT_TRUE(queued.enqueueIn(workspace, stream, in, outs.back()));
    expected.push_back(session.work());
  }
  session.configure(settings);
  configureBlas(blasSettings);
  size_t seen = 0;
  for (size_t call = 0; call < outs.size(); ++call) {
    const auto done = region.enqueueIn(workspace, stream, in, outs[call]);
    const std::vector<std::string> all = session.work();
    if (!done)
      outcome.errors.push_back(done.error());
    else
      outcome.wrong +=
          std::vector<std::string>(all.begin() + static_cast<ptrdiff_t>(seen), all.end()) != expected[call];
    seen = all.size();
  }
  outcome.launches = session.callsOf("cuGraphLaunch");
  configureBlas("");
  session.configure("");
  destroyStream(stream);
  return outcome;
}

TEST(CudaReplay, WhatCannotBeRecordedIsQueuedWithAReason) {
  const Session session;
  session.warmUp();
  const size_t usual = runWith(session, "").launches;
  EXPECT_EQ(usual, 13u);
  const std::string before = session.counts();
  for (const char *function :
       {"cuGraphCreate", "cuGraphAddKernelNode_v2", "cuGraphAddMemcpyNode", "cuGraphAddChildGraphNode",
        "cuGraphInstantiateWithFlags", "cuStreamBeginCapture_v2", "cuStreamEndCapture"})
    for (const int n : {1, 2})
      for (const int result : {2, 801, 901, 999}) {
        SCOPED_TRACE(std::string(function) + " " + std::to_string(n) + " " + std::to_string(result));
        takeLog();
        const Outcome outcome =
            runWith(session, "fail=" + std::string(function) + ":" + std::to_string(n) + ":" + std::to_string(result));
        EXPECT_THAT(outcome.errors, IsEmpty());
        EXPECT_EQ(outcome.wrong, 0u);
        if (function == std::string("cuStreamEndCapture") && result == 901) { // another thread's doing: tried again
          EXPECT_EQ(outcome.launches, usual);
          EXPECT_EQ(takeLog(), "");
          continue;
        }
        EXPECT_LT(outcome.launches, usual);
        EXPECT_THAT(takeLog(), AllOf(HasSubstr("could not be recorded as a graph"),
                                     HasSubstr("CUDA_ERROR_" + std::to_string(result))));
        EXPECT_EQ(runWith(session, "").launches, usual); // all is well again
        EXPECT_EQ(session.counts(), before);
      }
}

TEST(CudaReplay, WhatCannotBeChangedIsRecordedAgain) {
  const Session session;
  session.warmUp();
  const size_t usual = runWith(session, "").launches;
  const std::string before = session.counts();
  for (const char *function : {"cuGraphExecKernelNodeSetParams_v2", "cuGraphExecMemcpyNodeSetParams"})
    for (const int result : {910, 999}) {
      SCOPED_TRACE(std::string(function) + " " + std::to_string(result));
      takeLog();
      const Outcome outcome = runWith(session, "fail=" + std::string(function) + ":1:" + std::to_string(result));
      EXPECT_THAT(outcome.errors, IsEmpty());
      EXPECT_EQ(outcome.wrong, 0u);
      EXPECT_EQ(outcome.launches, usual);
      EXPECT_THAT(takeLog(), AllOf(HasSubstr("recorded again"), HasSubstr("CUDA_ERROR_" + std::to_string(result))));
      EXPECT_EQ(session.counts(), before);
    }
}

// As if another thread had waited for the device meanwhile: the stream is then free again.
TEST(CudaReplay, AProductWhoseCaptureIsLostIsCapturedAgain) {
  const Session session;
  session.warmUp();
  const size_t usual = runWith(session, "").launches;
  const std::string before = session.counts();
  takeLog();
  const Outcome outcome = runWith(session, "", "fail=cublasLtMatmul:3:14"); // the first one that is captured
  EXPECT_THAT(outcome.errors, IsEmpty());
  EXPECT_EQ(outcome.wrong, 0u);
  EXPECT_EQ(outcome.launches, usual);
  EXPECT_EQ(takeLog(), "");
  EXPECT_EQ(session.counts(), before);
}

TEST(CudaReplay, AFailedLaunchIsTheStreamsError) {
  const Session session;
  for (const auto &[call, result, code] :
       {std::tuple{2, 2, MORTISE_OUT_OF_MEMORY}, {2, 999, MORTISE_INTERNAL}, {3, 999, MORTISE_INTERNAL}}) {
    const Outcome outcome =
        runWith(session, "fail=cuGraphLaunch:" + std::to_string(call) + ":" + std::to_string(result));
    ASSERT_THAT(outcome.errors, SizeIs(6)); // until a reset
    EXPECT_EQ(outcome.errors[0].code, code);
    EXPECT_THAT(outcome.errors[0].message, AllOf(HasSubstr("cuda:0"), HasSubstr("cuGraphLaunch")));
    EXPECT_EQ(outcome.wrong, 0u);
  }
}

} // namespace
} // namespace mortise::test
