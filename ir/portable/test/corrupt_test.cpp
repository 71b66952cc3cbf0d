// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Damaged bytes give errors and never crash: random mutations, and one case for each check of the reader.
#include "samples.hpp"
#include <graph_generated.h>
#include <mortise/portable/graph.hpp>

#include <gtest/gtest.h>
#include <random>

using namespace mortise;
using namespace mortise::test;
namespace fb = flatbuffers;

namespace {

std::vector<std::byte> sample(int version) {
  ViewBuilder b;
  everything(b);
  EverythingNew newer;
  auto graph = Graph::copy(version == 1 ? b.view() : newer.view());
  return {(*graph)->bytes().begin(), (*graph)->bytes().end()};
}

// Walks all of a graph that was read from damaged bytes; it must be usable.
void walk(const MortiseGraph &view) {
  auto again = Graph::copy(view);
  EXPECT_TRUE(again) << again.error().message;
}
void tryRead(std::span<const std::byte> bytes) {
  if (auto graph = Graph::read(bytes))
    walk((*graph)->view());
  else
    EXPECT_TRUE(graph.error().code == MORTISE_CORRUPT || graph.error().code == MORTISE_VERSION_MISMATCH);
}

// Makes a minimal graph with one error.
struct Damage {
  fb::FlatBufferBuilder builder;
  uint32_t version = 1, opset = 1, since = 1, operand = 0, result = 1, output = 1, valueType = 0, flags = 0;
  int32_t dtype = MORTISE_F32, kind = MORTISE_ATTRIBUTE_I64;
  std::vector<int64_t> dims{2, 3}, strides;
  std::vector<uint32_t> stepCounts;
  std::vector<portable::ExprStep> steps;
  std::vector<std::string> attributeNames{"a", "b"};
  std::vector<uint8_t> data;
  std::vector<portable::Alias> aliases;
  std::string op = "mortise.relu";
  int64_t symbolMin = 1, symbolMax = 4, divisor = 1;
  const char *identifier = "MRTG";
  size_t nodes = 1;
  // Fields of version 2.
  std::vector<int64_t> i64s;
  std::vector<uint32_t> attributeCounts;
  std::vector<portable::ExprStep> attributeSteps, guardSteps;
  int32_t relation = 0;          // 0: no guard
  size_t bodies = 0, copies = 1; // `bodies` are nested in each other; each is referenced `copies` times
  uint32_t bodyOffset = 0;       // added to the indices of nested bodies
  uint32_t bodyFlags = 0, bodyOutput = 1;

  std::vector<uint32_t> bodiesOf(size_t position) const {
    return position ? std::vector<uint32_t>(copies, static_cast<uint32_t>(position - 1) + bodyOffset)
                    : std::vector<uint32_t>();
  }
  fb::Offset<portable::Body> body(size_t position) {
    std::vector<uint32_t> first{0}, second{1}, outputs{bodyOutput}, own = bodiesOf(position);
    std::vector<fb::Offset<portable::Value>> values{portable::CreateValueDirect(builder, valueType, bodyFlags, "x"),
                                                    portable::CreateValueDirect(builder, 0, 0, "y")};
    std::vector<fb::Offset<portable::Node>> list{portable::CreateNodeDirect(builder, "mortise.neg", 1, &first, &second,
                                                                            nullptr, "", own.empty() ? nullptr : &own)};
    return portable::CreateBodyDirect(builder, "b", &values, &list, &first, &outputs);
  }

  Result<std::shared_ptr<const Graph>> read() {
    std::vector<fb::Offset<portable::Attribute>> attributes;
    for (const std::string &name : attributeNames)
      attributes.push_back(portable::CreateAttributeDirect(
          builder, name.c_str(), kind, 1, 0, "s", i64s.empty() ? nullptr : &i64s, nullptr, 0, &data,
          attributeCounts.empty() ? nullptr : &attributeCounts, attributeSteps.empty() ? nullptr : &attributeSteps));
    std::vector<uint32_t> operands{operand}, results{result}, inputs{0}, outputs{output};
    std::vector<fb::Offset<portable::Body>> bodyList;
    for (size_t i = 0; i < bodies; ++i)
      bodyList.push_back(body(i));
    const std::vector<uint32_t> own = bodiesOf(bodies);
    auto node = portable::CreateNodeDirect(builder, op.c_str(), since, &operands, &results, &attributes, "",
                                           own.empty() ? nullptr : &own);
    std::vector<fb::Offset<portable::Node>> nodeList(nodes, node);
    std::vector<fb::Offset<portable::Type>> types{
        portable::CreateTypeDirect(builder, dtype, &dims, stepCounts.empty() ? nullptr : &stepCounts,
                                   steps.empty() ? nullptr : &steps, strides.empty() ? nullptr : &strides)};
    std::vector<fb::Offset<portable::Value>> values{portable::CreateValueDirect(builder, valueType, flags, "x"),
                                                    portable::CreateValueDirect(builder, 0, 0, "y")};
    std::vector<fb::Offset<portable::Symbol>> symbols{
        portable::CreateSymbolDirect(builder, "s", symbolMin, symbolMax, divisor)};
    std::vector<fb::Offset<portable::Guard>> guards;
    if (relation)
      guards.push_back(portable::CreateGuardDirect(builder, &guardSteps, relation, "why"));
    builder.Finish(portable::CreateGraphDirect(builder, version, opset, "g", &types, &values, &nodeList, &inputs,
                                               &outputs, &aliases, &symbols, relation ? &guards : nullptr,
                                               bodies ? &bodyList : nullptr),
                   identifier);
    return Graph::read(std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize())));
  }
};

std::string error(auto change, MortiseCode expected = MORTISE_CORRUPT) {
  Damage damage;
  change(damage);
  auto graph = damage.read();
  if (graph)
    return "";
  EXPECT_EQ(graph.error().code, expected);
  return graph.error().message;
}
#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)
#define EXPECT_ERROR(change, text)                                                                                     \
  EXPECT_NE(error([](Damage &d) { change; }).find(text), std::string::npos) << error([](Damage &d) { change; })

class CorruptSample : public testing::TestWithParam<int> { // a version of the format
protected:
  static int version() { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Version, CorruptSample, testing::Values(1, 2));

} // namespace

TEST(Corrupt, TheUndamagedGraphReads) {
  EXPECT_EQ(error([](Damage &) {}), "");
}

TEST(Corrupt, EachCheckHasItsText) {
  EXPECT_ERROR(d.identifier = "ABCD", "MRTG");
  EXPECT_ERROR(d.version = 0, "version is missing");
  EXPECT_ERROR(d.opset = 0, "opset is missing");
  EXPECT_ERROR(d.dtype = MORTISE_DTYPE_COUNT + 1, "unknown dtype " + std::to_string(MORTISE_DTYPE_COUNT + 1));
  EXPECT_ERROR(d.dims = std::vector<int64_t>(33, 1), "rank 33");
  EXPECT_ERROR((d.dims = {-1, 3}), "negative");
  EXPECT_ERROR((d.dims = {int64_t(1) << 40, int64_t(1) << 40}), "too large");
  EXPECT_ERROR((d.dims = {0, INT64_MAX}), "too large");
  EXPECT_ERROR((d.dims = {MORTISE_DYNAMIC, 3}), "expected 2 programs");
  EXPECT_ERROR((d.stepCounts = {1, 1}), "expected 0 programs");
  EXPECT_ERROR((d.dims = {MORTISE_DYNAMIC, 3}, d.stepCounts = {1, 1}), "cut short");
  EXPECT_ERROR((d.dims = {MORTISE_DYNAMIC}, d.stepCounts = {1}, d.steps = {{MORTISE_EXPR_SYMBOL, 0, 1}}),
               "symbol 1 of 1");
  EXPECT_ERROR((d.dims = {MORTISE_DYNAMIC}, d.stepCounts = {1}, d.steps = {{MORTISE_EXPR_ADD, 0, 0}}), "operand");
  EXPECT_ERROR((d.dims = {MORTISE_DYNAMIC, 3}, d.stepCounts = {1, 1},
                d.steps = {{MORTISE_EXPR_SYMBOL, 0, 0}, {MORTISE_EXPR_CONST, 0, 4}}),
               "says otherwise");
  EXPECT_ERROR((d.dims = {MORTISE_DYNAMIC}, d.stepCounts = {1},
                d.steps = {{MORTISE_EXPR_SYMBOL, 0, 0}, {MORTISE_EXPR_CONST, 0, 4}}),
               "left over");
  EXPECT_ERROR((d.strides = {1}), "one stride per extent");
  EXPECT_ERROR((d.strides = {-3, 1}), "strides");
  EXPECT_ERROR((d.strides = {INT64_MAX, 1}), "strides");
  EXPECT_ERROR((d.strides = {MORTISE_DYNAMIC, 1}), "expected 2 programs for the strides");
  EXPECT_ERROR(d.valueType = 1, "type 1 of 1");
  EXPECT_ERROR(d.flags = 8, "unknown flags");
  EXPECT_ERROR(d.operand = 2, "value 2 of 2");
  EXPECT_ERROR(d.operand = 1, "before it is defined");
  EXPECT_ERROR(d.result = 0, "defined twice");
  EXPECT_ERROR(d.result = UINT32_MAX, "definition names value");
  EXPECT_ERROR(d.nodes = 0, "neither an input nor");
  EXPECT_ERROR(d.nodes = 2, "defined twice");
  EXPECT_ERROR(d.output = UINT32_MAX, "use names value");
  EXPECT_ERROR(d.since = 0, "opset 0");
  EXPECT_ERROR(d.since = 2, "opset 2");
  EXPECT_ERROR(d.op = "relu", "dialect.name");
  EXPECT_ERROR(d.op = std::string(5000, 'x'), "at most 4096");
  EXPECT_ERROR((d.attributeNames = {"b", "a"}), "not sorted");
  EXPECT_ERROR((d.attributeNames = {"a", "a"}), "not sorted");
  EXPECT_ERROR(d.kind = 0, "unknown kind 0");
  EXPECT_ERROR(d.kind = 8, "unknown kind 8");
  EXPECT_ERROR(d.kind = MORTISE_ATTRIBUTE_TENSOR, "expected a literal f32[2, 3] of 24 bytes, found 0");
  EXPECT_ERROR((d.aliases = {{1, 0}}), "an alias joins input 1");
  EXPECT_ERROR((d.aliases = {{0, 0}, {0, 0}}), "aliased twice");
  EXPECT_ERROR((d.aliases = {{0, 0}}, d.flags = MORTISE_VALUE_CONSTANT), "constant");
  EXPECT_ERROR((d.aliases = {{0, 0}}, d.flags = MORTISE_VALUE_DONATED, d.version = 2), "donated and yet written");
  EXPECT_ERROR(d.flags = MORTISE_VALUE_DONATED, "or the format is of version 1");
  EXPECT_ERROR((d.flags = MORTISE_VALUE_DONATED | MORTISE_VALUE_STATE, d.version = 2), "donated and also constant");
  EXPECT_ERROR(d.symbolMin = 5, "range 5 to 4");
  EXPECT_ERROR(d.divisor = 0, "divisor 0");
}

TEST(Corrupt, EachCheckOfVersionTwoHasItsText) {
  const auto programs = [](Damage &d, std::vector<uint32_t> counts, std::vector<portable::ExprStep> steps) {
    d.version = 2;
    d.kind = MORTISE_ATTRIBUTE_I64_ARRAY;
    d.i64s = {MORTISE_DYNAMIC, 3};
    d.attributeCounts = std::move(counts);
    d.attributeSteps = std::move(steps);
  };
  const auto attribute = [&](auto counts, std::vector<portable::ExprStep> steps, auto more) {
    return error([&](Damage &d) {
      programs(d, counts, steps);
      more(d);
    });
  };
  using Counts = std::vector<uint32_t>;
  const auto nothing = [](Damage &) {};
  const portable::ExprStep first{MORTISE_EXPR_SYMBOL, 0, 0}, three{MORTISE_EXPR_CONST, 0, 3},
      four{MORTISE_EXPR_CONST, 0, 4};
  EXPECT_EQ(attribute(Counts{1, 1}, {first, three}, nothing), "");
  EXPECT_HAS(attribute(Counts{1, 1}, {first, three}, [](Damage &d) { d.version = 1; }), "format version 1");
  EXPECT_HAS(attribute(Counts{1}, {first}, nothing), "found 1 for 2");
  EXPECT_HAS(attribute(Counts{1, 1}, {first, three}, [](Damage &d) { d.i64s = {1, 3}; }), "one of them symbolic");
  EXPECT_HAS(attribute(Counts{}, {first}, nothing), "no length");
  EXPECT_HAS(attribute(Counts{1, 2}, {first, three}, nothing), "cut short");
  EXPECT_HAS(attribute(Counts{1, 1}, {first, three, three}, nothing), "left over");
  EXPECT_HAS(attribute(Counts{1, 1}, {first, four}, nothing), "says otherwise than the number 3");
  EXPECT_HAS(attribute(Counts{1, 1}, {{MORTISE_EXPR_SYMBOL, 0, 1}, three}, nothing), "symbol 1 of 1");
  EXPECT_HAS(attribute(Counts{1, 1}, {{MORTISE_EXPR_SYMBOL, 0, -1}, three}, nothing), "symbol -1 of 1");
  EXPECT_HAS(attribute(Counts{1, 1}, {{10, 0, 0}, three}, nothing), "unknown operator 10");

  EXPECT_EQ(error([](Damage &d) { d.version = 2, d.relation = 1, d.guardSteps = {{MORTISE_EXPR_SYMBOL, 0, 0}}; }), "");
  EXPECT_ERROR((d.relation = 1, d.guardSteps = {{MORTISE_EXPR_SYMBOL, 0, 0}}), "version 1 holds bodies or guards");
  EXPECT_ERROR((d.version = 2, d.relation = 3, d.guardSteps = {{MORTISE_EXPR_SYMBOL, 0, 0}}), "unknown relation 3");
  EXPECT_ERROR((d.version = 2, d.relation = 1), "leaves one value");
  EXPECT_ERROR((d.version = 2, d.relation = 1, d.guardSteps = {{MORTISE_EXPR_SYMBOL, 0, 2}}), "symbol 2 of 1");

  EXPECT_EQ(error([](Damage &d) { d.version = 2, d.bodies = 16; }), "");
  EXPECT_ERROR(d.bodies = 1, "version 1 holds bodies or guards");
  EXPECT_ERROR((d.version = 2, d.bodies = 17), "nested at most 16");
  EXPECT_ERROR((d.version = 2, d.bodies = 1, d.copies = 0), "its nodes have 0 bodies, and it holds 1");
  EXPECT_ERROR((d.version = 2, d.bodies = 1, d.copies = 2), "its nodes have 2 bodies, and it holds 1");
  EXPECT_ERROR((d.version = 2, d.bodies = 2, d.bodyOffset = 1), "expected one of the 1 that come before");
  EXPECT_ERROR((d.version = 2, d.bodies = 1, d.bodyOffset = UINT32_MAX), "has body");
  EXPECT_ERROR((d.version = 2, d.bodies = 1, d.nodes = 2), "its nodes have 2 bodies");
  EXPECT_ERROR((d.version = 2, d.bodies = 1, d.bodyFlags = 8), "unknown flags");
  EXPECT_ERROR((d.version = 2, d.bodies = 1, d.bodyOutput = 2), "value 2 of 2");
}

TEST(Corrupt, NewerVersionsSaySo) {
  EXPECT_NE(error([](Damage &d) { d.version = 3; }, MORTISE_VERSION_MISMATCH).find("found 3"), std::string::npos);
  EXPECT_NE(error([](Damage &d) { d.opset = MORTISE_OPSET + 1; }, MORTISE_VERSION_MISMATCH).find("opset"),
            std::string::npos);
}

TEST(Corrupt, SharedTablesDoNotMultiply) {
  // A few hundred bytes whose 4-byte references would make a thousand nodes of many attributes each.
  Damage damage;
  damage.nodes = 1000;
  damage.attributeNames.clear();
  for (int i = 0; i < 100; ++i)
    damage.attributeNames.push_back("n" + std::to_string(100 + i));
  auto graph = damage.read();
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().code, MORTISE_CORRUPT);
}

TEST_P(CorruptSample, EveryTruncation) {
  std::vector<std::byte> bytes = sample(version());
  for (size_t size = 0; size < bytes.size(); ++size) {
    std::vector<std::byte> cut(bytes.begin(),
                               // An exact allocation, so sanitizers detect reads past the end.
                               bytes.begin() + static_cast<ptrdiff_t>(size));
    tryRead(cut);
  }
}

TEST_P(CorruptSample, EveryByteChanged) {
  std::vector<std::byte> bytes = sample(version());
  for (size_t i = 0; i < bytes.size(); ++i)
    for (int value : {0, 1, 0x7f, 0x80, 0xff}) {
      std::vector<std::byte> damaged = bytes;
      damaged[i] = static_cast<std::byte>(value);
      tryRead(damaged);
    }
}

TEST_P(CorruptSample, RandomMutations) {
  std::vector<std::byte> bytes = sample(version());
  uint32_t seed = std::random_device()();
  RecordProperty("seed", static_cast<int>(seed));
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> damaged = bytes;
    for (unsigned n = 1 + random() % 8; n > 0; --n) {
      size_t at = random() % damaged.size() & ~size_t(3);
      auto word = static_cast<uint32_t>(random() % 3 ? random() % 64 : random());
      std::memcpy(&damaged[at], &word, std::min<size_t>(4, damaged.size() - at));
    }
    tryRead(damaged);
  }
}

TEST(Corrupt, Garbage) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::byte> garbage(random() % 200);
    for (std::byte &byte : garbage)
      byte = static_cast<std::byte>(random());
    if (garbage.size() > 8)
      std::memcpy(&garbage[4], "MRTG", 4);
    tryRead(garbage);
  }
}
