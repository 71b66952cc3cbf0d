// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Upgrade and downgrade, tested on two invented opsets. Opset M adds the op `mend`, the attribute `edge` of `warp` and
// the value "wide" of `warp.mode` to opset N, and retires `twist`.
#include "../changes.hpp"
#include "../reading.hpp"
#include "samples.hpp"
#include <mortise/portable/graph.hpp>
#include <mortise/portable/older.hpp>

#include <gtest/gtest.h>

using namespace mortise;
using namespace mortise::test;
using portable::AttributeValue;
using portable::Opset;

namespace {

constexpr uint32_t N = 7, M = 8;

Opset older() { // the opset of a reader of opset N
  Opset opset;
  opset.newest = N;
  opset.ops = portable::parseOps("mortise.scale 1 (operand,) by=F64\n"
                                 "mortise.twist 2 (operand,) angle=F64 loose=BOOL\n"
                                 "mortise.warp 3 (operand,map?,) axes=I64_ARRAY mode=STRING:near|far\n");
  return opset;
}
Opset newer() { // the opset of a reader of opset M
  Opset opset;
  opset.newest = M;
  opset.ops = portable::parseOps("mortise.mend 8 (operand,)\n"
                                 "mortise.scale 1 (operand,) by=F64\n"
                                 "mortise.warp 3 (operand,map?,) axes=I64_ARRAY edge=I64 mode=STRING:near|far|wide\n");
  opset.attributesAdded = {{"mortise.warp", "edge", M, AttributeValue::of(int64_t(-1))}};
  opset.valuesAdded = {{"mortise.warp", "mode", "wide", M}};
  opset.opsRetired = {
      {portable::parseOps("mortise.twist 2 (operand,) angle=F64 loose=BOOL\n")[0], M, [](const MortiseNode &node) {
         portable::Replacement scale, warp;
         scale.op = "mortise.scale";
         scale.operands = {{node.operands[0]}};
         scale.attributes = {{"by", AttributeValue::of(floatAttribute(node, "angle") * 2)}};
         scale.type = node.results[0]->type;
         warp.op = "mortise.warp";
         warp.operands = {{nullptr, 0}, {nullptr}};
         warp.attributes = {{"axes", AttributeValue::of(std::vector<int64_t>{0})},
                            {"edge", AttributeValue::of(int64_t(4))},
                            {"mode", AttributeValue::of(intAttribute(node, "loose") ? "far" : "near")}};
         return std::vector<portable::Replacement>{scale, warp};
       }}};
  return opset;
}

struct Sample {
  ViewBuilder b;
  MortiseGraph graph{};
  const MortiseType *type = b.type(MORTISE_F32, {2, 3});
  MortiseValue *last = b.input(type, 0, "x");

  Sample &op(const std::string &name, uint32_t since, std::vector<Attribute> attributes = {},
             std::vector<const MortiseValue *> more = {}) {
    std::vector<const MortiseValue *> operands{last};
    operands.insert(operands.end(), more.begin(), more.end());
    last = b.op(name, operands, type, std::move(attributes));
    b.lastNode().since = since;
    return *this;
  }
  Sample &warp(std::vector<Attribute> more = {}, const char *mode = "near") {
    more.push_back(integers("axes", {1}));
    more.push_back(string("mode", mode));
    return op("warp", 3, std::move(more), {nullptr});
  }
  const MortiseGraph &view(uint32_t opset) {
    b.output(last);
    graph = b.view();
    graph.opset = opset;
    return graph;
  }
  std::shared_ptr<const Graph> make(uint32_t opset) {
    auto copied = detail::copyView(view(opset), {portable::formatVersion, opset});
    EXPECT_TRUE(copied) << copied.error().message;
    return copied ? *copied : nullptr;
  }
  Result<std::shared_ptr<const Graph>> load(uint32_t saidOpset, const Opset &reader) {
    return Graph::load(make(saidOpset)->bytes(), reader);
  }
  std::string loadError(uint32_t saidOpset, const Opset &reader) {
    auto graph = load(saidOpset, reader);
    if (!graph)
      EXPECT_EQ(graph.error().code, MORTISE_UNSUPPORTED);
    return graph ? "" : graph.error().message;
  }
  std::string lowerError(uint32_t opset, uint32_t format = 1) {
    auto bytes = make(M)->bytesFor(opset, format, newer());
    if (!bytes)
      EXPECT_EQ(bytes.error().code, MORTISE_UNSUPPORTED);
    return bytes ? "" : bytes.error().message;
  }
};
#define EXPECT_HAS(text, part)                                                                                         \
  if (const std::string found = text; true)                                                                            \
  EXPECT_NE(found.find(part), std::string::npos) << found

} // namespace

TEST(Upgrade, AttributesAddedSinceGetWhatWasImplied) {
  const Opset reader = newer();
  auto graph = Sample().warp().load(N, reader);
  ASSERT_TRUE(graph) << graph.error().message;
  const MortiseGraph &view = (*graph)->view();
  EXPECT_EQ(view.opset, M);
  ASSERT_EQ(view.nodes[0]->attribute_count, 3u);
  EXPECT_EQ(intAttribute(*view.nodes[0], "edge"), -1);
  EXPECT_EQ(stringAttribute(*view.nodes[0], "mode"), "near");
  EXPECT_EQ(intsAttribute(*view.nodes[0], "axes")[0], 1);
}

TEST(Upgrade, RetiredOpsBecomeTheirReplacements) {
  const Opset reader = newer();
  auto graph = Sample()
                   .op("scale", 1, {real("by", 3)})
                   .op("twist", 2, {real("angle", 0.25), flag("loose", true)})
                   .warp()
                   .load(N, reader);
  ASSERT_TRUE(graph) << graph.error().message;
  const MortiseGraph &view = (*graph)->view();
  ASSERT_EQ(view.node_count, 4u);
  EXPECT_STREQ(view.nodes[1]->op, "mortise.scale");
  EXPECT_EQ(floatAttribute(*view.nodes[1], "by"), 0.5);
  EXPECT_EQ(view.nodes[1]->since, 1u);
  EXPECT_EQ(view.nodes[1]->operands[0], view.nodes[0]->results[0]);
  EXPECT_STREQ(view.nodes[2]->op, "mortise.warp");
  EXPECT_EQ(view.nodes[2]->operands[0], view.nodes[1]->results[0]);
  EXPECT_EQ(view.nodes[2]->operands[1], nullptr);
  EXPECT_EQ(stringAttribute(*view.nodes[2], "mode"), "far");
  EXPECT_EQ(intAttribute(*view.nodes[2], "edge"), 4) << "the replacement is of the newer set, and says so itself";
  EXPECT_EQ(view.nodes[3]->operands[0], view.nodes[2]->results[0]);
  EXPECT_EQ(intAttribute(*view.nodes[3], "edge"), -1);
}

TEST(Upgrade, BodiesToo) {
  Sample inner, outer;
  const MortiseGraph body = inner.warp().view(N);
  outer.op("acme.repeat", 1);
  outer.b.body(body);
  auto graph = outer.load(N, newer());
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(intAttribute(*(*graph)->view().nodes[0]->bodies[0]->nodes[0], "edge"), -1);
}

TEST(Upgrade, TheSetsOwnGraphStaysAsItIs) {
  Sample sample;
  sample.op("mend", M).warp({integer("edge", 2)}, "wide");
  auto written = sample.make(M);
  auto graph = Graph::load(written->bytes(), newer());
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_TRUE(std::ranges::equal((*graph)->bytes(), written->bytes()));
}

TEST(Upgrade, ErrorsNameWhatIsUnknown) {
  EXPECT_HAS(Sample().op("scael", 1, {real("by", 1)}).loadError(N, older()),
             "node 0 (mortise.scael): no opset up to 7 has this op; the nearest known is 'mortise.scale'");
  EXPECT_HAS(Sample().op("scale", 1, {real("by", 1), real("bye", 1)}).loadError(N, older()),
             "the op has no attribute 'bye'; the nearest known is 'by'");
  EXPECT_HAS(Sample().op("scale", 1).loadError(N, older()), "attribute 'by' is missing");
  EXPECT_HAS(Sample().op("scale", 1, {integer("by", 1)}).loadError(N, older()), "'by' to be a float, found an integer");
  EXPECT_HAS(Sample().op("scale", 1, {real("by", 1)}, {nullptr}).loadError(N, older()),
             "expected the operands (operand,)");
  Sample without;
  without.last = nullptr;
  without.op("scale", 1, {real("by", 1)});
  EXPECT_HAS(without.loadError(N, older()), "operand 0 of (operand,) is left out");
  EXPECT_HAS(Sample().warp({}, "wide").loadError(N, older()), "one of near, far; found 'wide'");
  EXPECT_EQ(Sample().op("acme.anything", 1).loadError(N, older()), "") << "a vendor's op is the vendor's affair";
  EXPECT_HAS(Sample().op("Acme.anything", 1).loadError(N, older()),
             "node 0 (Acme.anything): expected an op of the language, \"mortise.NAME\", or of a vendor");
}

TEST(Upgrade, WhatAGraphSaysOfItselfHasToBeSo) {
  EXPECT_HAS(Sample().op("mend", 1).loadError(N, newer()), "the op is of opset 8, and the graph says it is of opset 7");
  EXPECT_HAS(Sample().warp({integer("edge", 2)}).loadError(N, newer()), "attribute 'edge' is of opset 8");
  EXPECT_HAS(Sample().warp().loadError(M, newer()), "attribute 'edge' is missing");
  EXPECT_HAS(Sample().op("twist", 2, {real("angle", 1), flag("loose", true)}).loadError(M, newer()),
             "the op was retired in opset 8, and the graph is of opset 8");
}

TEST(Upgrade, NewerSetsAndFormatsAreRefused) {
  auto graph = Sample().warp().load(M, older());
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().code, MORTISE_VERSION_MISMATCH);
  EXPECT_HAS(graph.error().message, "opset 1 to 7, found 8; update mortise, or have the graph written for opset 7");
  EverythingNew sample;
  auto newFormat = Graph::copy(sample.view());
  auto read = detail::readBytes((*newFormat)->bytes(), {1, MORTISE_OPSET});
  ASSERT_FALSE(read) << "as a reader of format version 1 sees it";
  EXPECT_EQ(read.error().code, MORTISE_VERSION_MISMATCH);
  EXPECT_HAS(read.error().message, "format version 1 to 1, found 2");
}

uint32_t sinceOfLast(Sample &sample) {
  const MortiseNode &node = *sample.view(M).nodes[0];
  return portable::sinceOf(node.op, node.since, std::span(node.attributes, node.attribute_count), newer());
}

TEST(OlderPlugins, AnOpIsAsNewAsItsAttributes) {
  Sample implied, other, wide;
  EXPECT_EQ(sinceOfLast(implied.warp({integer("edge", -1)})), 3u);
  EXPECT_EQ(sinceOfLast(other.warp({integer("edge", 2)})), M);
  EXPECT_EQ(sinceOfLast(wide.warp({integer("edge", -1)}, "wide")), M);
}

TEST(OlderPlugins, AreShownNoAttributeThatTheyImply) {
  Sample sample;
  sample.warp({integer("edge", -1)}).warp({integer("edge", 2)});
  const auto shown = portable::withoutImplied(sample.view(M), N, newer());
  ASSERT_TRUE(shown && *shown);
  const MortiseGraph &view = (*shown)->view();
  EXPECT_EQ(findAttribute(*view.nodes[0], "edge"), nullptr);
  EXPECT_EQ(stringAttribute(*view.nodes[0], "mode"), "near");
  EXPECT_EQ(intAttribute(*view.nodes[1], "edge"), 2) << "another value is never left out";
}

TEST(OlderPlugins, InBodiesToo) {
  Sample inner, outer;
  const MortiseGraph body = inner.warp({integer("edge", -1)}).view(M);
  outer.op("acme.repeat", 1);
  outer.b.body(body);
  const auto shown = portable::withoutImplied(outer.view(M), N, newer());
  ASSERT_TRUE(shown && *shown);
  EXPECT_EQ(findAttribute(*(*shown)->view().nodes[0]->bodies[0]->nodes[0], "edge"), nullptr);
}

TEST(OlderPlugins, AGraphWithoutSuchAttributesStaysAsItIs) {
  Sample other, implied;
  const auto kept = portable::withoutImplied(other.warp({integer("edge", 2)}).view(M), N, newer()),
             known = portable::withoutImplied(implied.warp({integer("edge", -1)}).view(M), M, newer());
  EXPECT_TRUE(kept && !*kept);
  EXPECT_TRUE(known && !*known);
}

TEST(Downgrade, AnImpliedValueIsDropped) {
  Sample sample;
  sample.op("scale", 1, {real("by", 2)}).warp({integer("edge", -1)});
  auto bytes = sample.make(M)->bytesFor(N, 1, newer());
  ASSERT_TRUE(bytes) << bytes.error().message;
  auto graph = Graph::load(*bytes, older());
  ASSERT_TRUE(graph) << "the older reader takes it: " << graph.error().message;
  EXPECT_EQ((*graph)->view().opset, N);
  EXPECT_EQ((*graph)->view().nodes[1]->attribute_count, 2u);
  auto back = Graph::load(*bytes, newer());
  ASSERT_TRUE(back);
  EXPECT_EQ(intAttribute(*(*back)->view().nodes[1], "edge"), -1);
}

TEST(Downgrade, WhatIsTooNewIsNamed) {
  EXPECT_HAS(Sample().op("mend", M).lowerError(N), "node 0 (mortise.mend): the op is of opset 8, expected at most 7");
  EXPECT_HAS(Sample().warp({integer("edge", 2)}).lowerError(N),
             "(mortise.warp): attribute 'edge' at this value is of opset 8, expected at most 7");
  EXPECT_HAS(Sample().warp({integer("edge", -1)}, "wide").lowerError(N), "'mode' = \"wide\" is of opset 8");
  EXPECT_HAS(Sample().warp({integer("edge", -1)}).lowerError(2), "the op is of opset 3, expected at most 2");
  EXPECT_EQ(Sample().warp({integer("edge", -1)}).lowerError(3), "");
  EXPECT_EQ(Sample().op("mend", M).lowerError(M), "");
  EXPECT_HAS(Sample().op("mended", 1).lowerError(N),
             "no opset up to 8 has this op; the nearest known is 'mortise.mend'");
}

TEST(Downgrade, TheFormatToo) {
  enum New { nothing, programs, guards, bodies };
  const auto lower = [](New used) {
    ViewBuilder b, inner;
    for (ViewBuilder *each : {&b, &inner})
      each->symbol("n", 1, 8);
    inner.output(inner.input(MORTISE_F32, {2}));
    const MortiseGraph body = inner.view();
    std::vector<Attribute> attributes;
    if (used == programs)
      attributes.push_back(extents("e", {MORTISE_DYNAMIC}, {{symbol(0)}}));
    b.output(b.op("acme.op", {b.input(MORTISE_F32, {2})}, MORTISE_F32, {2}, attributes));
    if (used == bodies)
      b.body(body);
    if (used == guards)
      b.guard({symbol(0)}, MORTISE_RELATION_AT_LEAST, "why");
    auto bytes = (*Graph::copy(b.view()))->bytesFor(1, 1);
    return bytes ? std::string() : bytes.error().message;
  };
  EXPECT_EQ(lower(nothing), "");
  EXPECT_HAS(lower(programs), "attribute 'e' is symbolic, which is of format version 2, expected at most 1");
  EXPECT_HAS(lower(guards), "guards are of format version 2, expected at most 1");
  EXPECT_HAS(lower(bodies), "the bodies of the op are of format version 2, expected at most 1");
}

TEST(Downgrade, ADonatedInputIsAnOrdinaryOneInVersionOne) {
  ViewBuilder b;
  b.output(b.input(b.type(MORTISE_F32, {2}), MORTISE_VALUE_DONATED));
  auto graph = Graph::copy(b.view());
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ((*graph)->view().inputs[0]->flags, uint32_t(MORTISE_VALUE_DONATED));
  auto bytes = (*graph)->bytesFor(1, 1);
  ASSERT_TRUE(bytes) << bytes.error().message;
  auto older = Graph::load(*bytes);
  ASSERT_TRUE(older) << older.error().message;
  EXPECT_EQ((*older)->view().inputs[0]->flags, 0u);
}

TEST(Downgrade, VersionsBelowOneAreRefused) {
  Sample sample;
  auto graph = sample.make(M);
  EXPECT_FALSE(graph->bytesFor(0, 1, newer()));
  EXPECT_FALSE(graph->bytesFor(1, 0, newer()));
}
