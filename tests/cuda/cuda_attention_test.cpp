// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the cuda plugin launches for attention, on a stand-in that computes nothing: which tensors, where they lie, and
// the numbers behind their addresses. What the kernel computes is tested in sdk/codegen/test/attention_test.cpp.
#include "session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace mortise::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

ValueId attention(Network &net, ValueId q, ValueId k, ValueId v, ValueId mask = ir::noValue) {
  return net.op("attention", {q, k, v, mask}, {real("scale", 0.5), boolean("causal", false)});
}

// [batch, rows, heads * size] as [batch, heads, rows, size].
ValueId split(Network &net, ValueId x, int64_t batch, int64_t rows, int64_t heads, int64_t size) {
  return net.transpose(net.reshape(x, {batch, rows, heads, size}), {0, 2, 1, 3});
}

// A call of a region, whose inputs and outputs take so many bytes, `skew` bytes behind a multiple of 256.
struct Seen {
  std::string steps;
  std::vector<std::string> work;
  std::vector<MortiseAddress> addresses; // of inputs, then of outputs
};
Seen seen(const std::shared_ptr<const Graph> &graph, std::vector<int64_t> symbols = {}, uint64_t skew = 0,
          size_t calls = 1, const char *graphs = "off") {
  constexpr uint64_t bytes = 1 << 20;
  const Session session;
  MortiseDevice *device = session.devices[0];
  MortiseStream *stream = makeStream(device);
  Seen made;
  {
    Region region(device, graph, Region::How{.options = {{"graphs", graphs}}});
    if (!symbols.empty())
      region.prepare(std::move(symbols));
    std::vector<MortiseAddress> in, out;
    for (size_t call = 0; call < calls; ++call) { // each with tensors of its own
      in.clear(), out.clear();
      for (size_t i = 0; i < graph->view().input_count + graph->view().output_count; ++i) {
        const MortiseAddress address = makeMemory(device, bytes);
        made.addresses.push_back(address);
        (i < graph->view().input_count ? in : out).push_back(address + skew);
      }
      session.configure("");
      const auto done = region.enqueue(stream, in, out);
      EXPECT_TRUE(done) << done.error().message;
      made.work = session.work();
    }
    made.steps = region.text();
    for (const MortiseAddress address : made.addresses)
      freeMemory(device, address, bytes);
    made.addresses = in;
    made.addresses.insert(made.addresses.end(), out.begin(), out.end());
  }
  destroyStream(stream);
  return made;
}

// The arguments of a kernel's launch, as the stand-in has written them down.
std::vector<uint64_t> argumentsOf(const std::string &work) {
  std::vector<uint64_t> list;
  std::istringstream text(work.substr(work.find("arguments=") + 10));
  for (std::string number; std::getline(text, number, ',');)
    list.push_back(std::stoull(number, nullptr, 16));
  return list;
}

std::string codeOf(const std::string &work) { return work.substr(0, work.find(" arguments")); }

// q, k and v as linear layers give them, and the result as the next one wants it.
std::shared_ptr<const Graph> layer(int32_t dtype = MORTISE_BF16, int64_t rows = 40) {
  Network net;
  std::vector<ValueId> parts;
  for (int i = 0; i < 3; ++i)
    parts.push_back(split(net, net.input(dtype, {2, rows, 64}), 2, rows, 4, 16));
  const ValueId y = attention(net, parts[0], parts[1], parts[2]);
  net.output(net.reshape(net.transpose(y, {0, 2, 1, 3}), {2, rows, 64}));
  return net.finish();
}

TEST(CudaAttention, TensorsAreReadAndWrittenWhereTheyLie) {
  for (const int32_t dtype : {MORTISE_BF16, MORTISE_F16}) {
    const Seen call = seen(layer(dtype));
    EXPECT_THAT(call.steps, AllOf(testing::StartsWith("cuda.attention attention"), HasSubstr(dtypeName(dtype))));
    ASSERT_THAT(call.work, SizeIs(1));
    EXPECT_THAT(call.work[0], HasSubstr("blocks=24 threads=64")); // of 16 queries, for each head
    std::vector<uint64_t> expected = call.addresses;
    expected.insert(expected.end(), {4, 1, 40, 40, 0x3f000000});
    for (int i = 0; i < 4; ++i)
      expected.insert(expected.end(), {0, 40 * 64 * 2, 16 * 2, 64 * 2});
    EXPECT_EQ(argumentsOf(call.work[0]), expected);
  }
}

// One product for q, k and v: slices of its result. Two query heads share one of k and v, and a mask serves all.
TEST(CudaAttention, SlicesMasksAndHeads) {
  for (const int32_t maskType : {MORTISE_I1, MORTISE_BF16}) {
    Network net;
    const ValueId packed = net.input(MORTISE_BF16, {2, 40, 128}), mask = net.input(maskType, {2, 1, 1, 40});
    const auto part = [&](int64_t first, int64_t heads) {
      const ValueId slice = net.op(
          "slice", {packed},
          {ints("starts", {0, 0, first}), ints("limits", {2, 40, first + heads * 16}), ints("strides", {1, 1, 1})});
      return split(net, slice, 2, 40, heads, 16);
    };
    net.output(attention(net, part(0, 4), part(64, 2), part(96, 2), mask));
    const Seen call = seen(net.finish());
    ASSERT_THAT(call.work, SizeIs(1)) << call.steps;
    const uint64_t x = call.addresses[0], row = 128 * 2, batch = 40 * row, one = maskType == MORTISE_I1 ? 1 : 2;
    EXPECT_THAT(argumentsOf(call.work[0]),
                ElementsAre(x, x, x, call.addresses[1], call.addresses[2],               // addresses
                            4, 2, 40, 40, 0x3f000000,                                    // extents and scale
                            0, batch, 32, row, 128, batch, 32, row, 192, batch, 32, row, // q, k and v
                            0, 4 * 40 * 32, 40 * 32, 32, 0, 40 * one, 0, 0, one));       // result and mask
  }
}

// What no row lies in one piece of is made dense first.
TEST(CudaAttention, OtherOperandsAreMadeDense) {
  Network net;
  const ValueId q = net.input(MORTISE_BF16, {2, 4, 40, 16}), k = net.input(MORTISE_BF16, {2, 4, 16, 40}),
                v = net.input(MORTISE_BF16, {2, 4, 40, 16});
  net.output(attention(net, net.op("exp", {q}), net.transpose(k, {0, 1, 3, 2}), v));
  const Seen call = seen(net.finish());
  ASSERT_THAT(call.work, SizeIs(2)) << call.steps; // q and k by one launch
  EXPECT_THAT(argumentsOf(call.work[0]), SizeIs(4));
  const std::vector<uint64_t> arguments = argumentsOf(call.work[1]);
  EXPECT_NE(arguments[0], call.addresses[0]);
  EXPECT_NE(arguments[1], call.addresses[1]);
  EXPECT_EQ(arguments[2], call.addresses[2]);
  EXPECT_EQ(arguments[3], call.addresses[3]);
}

// The product behind reads what the attention has written, without a copy between them.
TEST(CudaAttention, ProductsBeforeAndBehind) {
  Network net;
  const ValueId x = net.input(MORTISE_BF16, {2, 40, 64});
  std::vector<ValueId> parts;
  for (int i = 0; i < 3; ++i)
    parts.push_back(split(net, net.linear(x, net.input(MORTISE_BF16, {64, 64})), 2, 40, 4, 16));
  const ValueId y = attention(net, parts[0], parts[1], parts[2]);
  const ValueId rows = net.reshape(net.transpose(y, {0, 2, 1, 3}), {2, 40, 64});
  net.output(net.linear(rows, net.input(MORTISE_BF16, {64, 64})));
  const Seen call = seen(net.finish());
  EXPECT_EQ(call.work.size(), 5u) << call.steps;
  EXPECT_THAT(call.steps, Not(HasSubstr("cuda.pointwise")));
}

// A result that somebody else reads, too, stays as the op has it.
TEST(CudaAttention, AResultOfTwoReaders) {
  Network net;
  const ValueId q = net.input(MORTISE_BF16, {2, 4, 40, 16});
  const ValueId y = attention(net, q, q, q);
  net.output(y);
  net.output(net.transpose(y, {0, 2, 1, 3}));
  const Seen call = seen(net.finish());
  ASSERT_THAT(call.work, SizeIs(2)) << call.steps;
  const std::vector<uint64_t> arguments = argumentsOf(call.work[0]);
  EXPECT_EQ(arguments[3], call.addresses[1]);
  const std::vector<uint64_t> result(arguments.end() - 4, arguments.end());
  EXPECT_THAT(result, ElementsAre(0, 4 * 40 * 32, 40 * 32, 32));
}

// Addresses that are no multiples of 16, or strides.
TEST(CudaAttention, TheCodeSuitsTheAlignment) {
  const std::string aligned = codeOf(seen(layer()).work[0]), moved = codeOf(seen(layer(), {}, 2).work[0]);
  EXPECT_NE(aligned, moved);
  EXPECT_EQ(codeOf(seen(layer(), {}, 16).work[0]), aligned);
  const auto withRows = [](int64_t row) {
    Network net;
    const ValueId x = net.input(MORTISE_BF16, {1, 2, 40, row});
    const ValueId part = net.op(
        "slice", {x}, {ints("starts", {0, 0, 0, 0}), ints("limits", {1, 2, 40, 16}), ints("strides", {1, 1, 1, 1})});
    const ValueId kv = net.input(MORTISE_BF16, {1, 2, 40, 16});
    net.output(attention(net, part, kv, kv));
    return codeOf(seen(net.finish()).work[0]);
  };
  EXPECT_NE(withRows(24), withRows(20));
  EXPECT_EQ(withRows(24), withRows(32));
}

// One kernel for all lengths; numbers and blocks follow.
TEST(CudaAttention, LengthsAreNumbersOfTheLaunch) {
  const std::shared_ptr<const Graph> fixed = layer(MORTISE_BF16, 7919);
  const auto graph = withSymbols(fixed->view(), {{7919, "length", 0}});
  std::string code;
  for (const int64_t length : {1, 40, 100}) {
    const Seen call = seen(graph, {length});
    ASSERT_THAT(call.work, SizeIs(1)) << call.steps;
    const std::vector<uint64_t> arguments = argumentsOf(call.work[0]);
    const auto rows = static_cast<uint64_t>(length);
    EXPECT_EQ(arguments[6], rows);
    EXPECT_EQ(arguments[7], rows);
    EXPECT_THAT(std::vector<uint64_t>(arguments.end() - 4, arguments.end()), ElementsAre(0, rows * 128, 32, 128));
    const std::string name = call.work[0].substr(0, call.work[0].find(" blocks"));
    EXPECT_TRUE(code.empty() || code == name);
    code = name;
    constexpr uint64_t queries = 16;
    EXPECT_THAT(call.work[0], HasSubstr("blocks=" + std::to_string(8 * ((rows + queries - 1) / queries)) + " "));
  }
  EXPECT_THROW((void)seen(graph, {INT64_C(1) << 31}), Failed);
}

// A decode step: a block for each head of k and v and 16 rows, which are queries of all heads that share it, or a
// cluster of blocks where there are many keys; their subgroups share out the keys.
TEST(CudaAttention, FewQueries) {
  for (const auto &[queries, keys, blocks, threads] :
       {std::tuple<int64_t, int64_t, const char *, const char *>{1, 500, "8", "256"},
        {1, 600, "16", "256"},
        {1, 4100, "32", "256"},
        {2, 256, "4", "256"},
        {3, 64, "4", "64"},
        {9, 600, "48", "256"}}) {
    Network net;
    const ValueId q = net.input(MORTISE_BF16, {2, 8, queries, 16}), k = net.input(MORTISE_BF16, {2, 2, keys, 16}),
                  v = net.input(MORTISE_BF16, {2, 2, keys, 16}), mask = net.input(MORTISE_I1, {1, 1, queries, keys});
    net.output(attention(net, q, k, v, mask));
    const Seen call = seen(net.finish());
    EXPECT_THAT(call.steps, HasSubstr("keys by"));
    ASSERT_THAT(call.work, SizeIs(1)) << call.steps;
    EXPECT_THAT(call.work[0], HasSubstr(std::string("blocks=") + blocks + " threads=" + threads + " "));
    const auto rows = static_cast<uint64_t>(queries), of = static_cast<uint64_t>(keys);
    EXPECT_THAT(argumentsOf(call.work[0]),
                ElementsAre(call.addresses[0], call.addresses[1], call.addresses[2], call.addresses[3],
                            call.addresses[4], 8, 4, rows, of, 0x3f000000,                // extents and scale
                            0, 8 * rows * 32, rows * 32, 32, 0, 2 * of * 32, of * 32, 32, // q and k
                            0, 2 * of * 32, of * 32, 32, 0, 8 * rows * 32, rows * 32, 32, // v and the result
                            0, 0, 0, queries > 1 ? of : 0, 1));                           // mask
  }
}

// Recorded launches get the addresses of each call, and keep their numbers.
TEST(CudaAttention, Replayed) {
  const auto graph = [] {
    Network net;
    ValueId x = net.input(MORTISE_BF16, {2, 4, 40, 16});
    for (int i = 0; i < 4; ++i)
      x = attention(net, net.op("softmax", {x}, {integer("axis", 3)}), x, x);
    net.output(x);
    return net.finish();
  };
  const Seen queued = seen(graph()), replayed = seen(graph(), {}, 0, 3, "on");
  ASSERT_EQ(queued.work.size(), 8u) << queued.steps;
  ASSERT_EQ(replayed.work.size(), 8u);
  for (size_t i = 0; i < 8; ++i)
    EXPECT_EQ(codeOf(queued.work[i]), codeOf(replayed.work[i]));
  const std::vector<uint64_t> first = argumentsOf(replayed.work[1]), last = argumentsOf(replayed.work[7]);
  EXPECT_EQ(first[1], replayed.addresses[0]);
  EXPECT_EQ(last[3], replayed.addresses[1]);
  EXPECT_THAT(std::vector<uint64_t>(last.begin() + 4, last.end()),
              ElementsAreArray(std::vector<uint64_t>(first.begin() + 4, first.end())));
  EXPECT_THAT(std::vector<uint64_t>(last.begin() + 4, last.begin() + 9), ElementsAre(4, 1, 40, 40, 0x3f000000));
}

TEST(CudaAttention, WhatIsRefused) {
  const Session session;
  const auto answer = [&](int32_t dtype, int64_t rows, int64_t size) {
    Network net;
    const ValueId q = net.input(dtype, {2, 4, rows, size}), k = net.input(dtype, {2, 4, 40, size});
    net.output(attention(net, q, k, k));
    return propose(session.devices[0], net.finish()->view());
  };
  const Answer taken = answer(MORTISE_BF16, 40, 64);
  EXPECT_EQ(taken.candidates, 1u) << taken.detail;
  EXPECT_EQ(taken.flops, 2 * 2 * 4 * 40.0 * 40 * (64 + 64));
  EXPECT_EQ(answer(MORTISE_BF16, 1, 64).candidates, 1u);
  for (const Answer &refused : {answer(MORTISE_F32, 40, 64), answer(MORTISE_F16, 40, 60)}) {
    EXPECT_EQ(refused.candidates, 0u);
    EXPECT_THAT(refused.detail, HasSubstr("use its decomposition"));
  }
}

} // namespace
} // namespace mortise::test
