// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The plugins `reference` and `pocket` (a folder here, for tests) in one session.
#include "helpers.hpp"

#include <algorithm>

namespace mortise::api {
namespace {

Session both(const std::string &device) { return session({{"device", device}, {"plugin_path", ":" POCKET_PLUGIN}}); }

// silu(-x) + softmax(x)
void build(Builder &graph) {
  const uint32_t x = get(graph.input("x", MORTISE_F32, {8}));
  const uint32_t silu = get(graph.op("mortise.silu", {get(graph.op("mortise.neg", {x}))}, {}, "model.py:1"));
  const uint32_t soft = get(graph.op("mortise.softmax", {x}, {{"axis", 0}}, "model.py:2"));
  expectOk(graph.output(get(graph.op("mortise.add", {silu, soft}))));
}

TEST(TwoPlugins, ShareAGraph) {
  Session s = both("pocket,reference");
  Builder graph = builder(s);
  build(graph);
  Program program = get(s.compile(graph));
  float x[8], y[8];
  double total = 0;
  for (int i = 0; i < 8; ++i)
    total += std::exp(x[i] = 0.25f * static_cast<float>(i) - 1);
  const void *in[] = {x};
  void *out[] = {y};
  expectOk(program.runPointers(in, out));
  for (int i = 0; i < 8; ++i)
    EXPECT_NEAR(y[i], -x[i] / (1 + std::exp(x[i])) + std::exp(x[i]) / total, 1e-6);
  const Json report = Json::parse(get(program.report()));
  std::set<std::string> plugins;
  for (const Json &region : report["placement"])
    plugins.insert(region["plugin"]);
  EXPECT_EQ(plugins, (std::set<std::string>{"pocket", "reference"})) << report.dump(1);
  bool explained = false;
  for (const Json &refusal : report["refusals"])
    explained =
        explained || (refusal["op"] == "mortise.softmax" && refusal["plugin"] == "pocket" && refusal["reason"] == "op");
  EXPECT_TRUE(explained) << report["refusals"].dump(1);
  const auto lost = std::ranges::find_if(report["declined"], [](const Json &candidate) {
    return candidate["plugin"] == "reference" && candidate["ops"].value("mortise.neg", 0) == 1;
  });
  ASSERT_NE(lost, report["declined"].end()) << report["declined"].dump(1);
  EXPECT_EQ((*lost)["reason"], "cost");
  EXPECT_EQ((*lost)["device"], "reference");
  EXPECT_EQ((*lost)["nodes"].size(), 5u); // of the whole graph, silu in parts
  EXPECT_GT((*lost)["predicted_ns"].get<double>(), 0);
  EXPECT_FALSE((*lost)["lowering"].get<std::string>().empty());
  EXPECT_TRUE(report["copies"].empty()); // both compute in the host's memory
}

TEST(TwoPlugins, ACompositeThatNobodyTakesIsDecomposed) {
  Session s = both("pocket");
  Builder graph = builder(s);
  const uint32_t x = get(graph.input("x", MORTISE_F32, {4}));
  expectOk(graph.output(get(graph.op("mortise.silu", {x}, {}, "model.py:9"))));
  Program program = get(s.compile(graph));
  float in[] = {-1, 0, 1, 2}, out[4];
  const void *inputs[] = {in};
  void *outputs[] = {out};
  expectOk(program.runPointers(inputs, outputs));
  for (int i = 0; i < 4; ++i)
    EXPECT_NEAR(out[i], in[i] / (1 + std::exp(-in[i])), 1e-6);
  const Json report = Json::parse(get(program.report()));
  EXPECT_EQ(report["nodes"], 2);
  bool kept = false; // the refusal of the composite itself
  for (const Json &refusal : report["refusals"])
    kept = kept || (refusal["op"] == "mortise.silu" && refusal["node"].is_null());
  EXPECT_TRUE(kept) << report["refusals"].dump(1);
}

TEST(TwoPlugins, ACompositeGivesWayToCheaperParts) {
  Session s = both("pocket,reference");
  Builder graph = builder(s);
  const uint32_t x = get(graph.input("x", MORTISE_F32, {1 << 16}));
  expectOk(graph.output(get(graph.op("mortise.silu", {x}, {}, "model.py:9"))));
  Program program = get(s.compile(graph)); // `reference` would take it whole, `pocket` its two parts at 1 ns each
  std::vector<float> in(1 << 16, 2), out(1 << 16);
  const void *inputs[] = {in.data()};
  void *outputs[] = {out.data()};
  expectOk(program.runPointers(inputs, outputs));
  EXPECT_NEAR(out.back(), 2 / (1 + std::exp(-2.0)), 1e-6);
  const Json report = Json::parse(get(program.report()));
  for (const Json &region : report["placement"])
    EXPECT_EQ(region["plugin"], "pocket") << report.dump(1);
  bool explained = false;
  for (const Json &refusal : report["refusals"])
    explained = explained ||
                (refusal["op"] == "mortise.silu" && refusal["plugin"] == "reference" && refusal["reason"] == "cost");
  EXPECT_TRUE(explained) << report["refusals"].dump(1);
}

TEST(TwoPlugins, WhatNobodyTakesIsAnErrorWithReasons) {
  Session s = both("pocket");
  Builder graph = builder(s);
  build(graph);
  const Result<Program> program = s.compile(graph);
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().code, MORTISE_UNSUPPORTED);
  for (const char *part : {"model.py:2", "pocket: op: the pocket calculator has no such key"})
    EXPECT_NE(program.error().message.find(part), std::string::npos) << program.error().message;
}

TEST(TwoPlugins, EveryRefusalIsData) {
  constexpr size_t nodes = 20; // more than the message lists
  Session s = both("pocket");
  Builder graph = builder(s);
  EXPECT_TRUE(get(graph.refusals()).empty());
  uint32_t value = get(graph.input("x", MORTISE_F32, {4}));
  for (size_t i = 0; i < nodes; ++i) {
    value = get(graph.op("mortise.sin", {value}, {}, "model.py:" + std::to_string(i)));
    value = get(graph.op("mortise.neg", {value})); // the device takes this op
  }
  expectOk(graph.output(value));
  ASSERT_FALSE(s.compile(graph));
  const auto refusals = get(graph.refusals());
  ASSERT_EQ(refusals.size(), nodes);
  for (size_t i = 0; i < nodes; ++i) {
    EXPECT_GE(refusals[i]->struct_size, sizeof(MortiseRefusal));
    EXPECT_STREQ(refusals[i]->op, "mortise.sin");
    EXPECT_EQ(refusals[i]->location, "model.py:" + std::to_string(i));
    EXPECT_STREQ(refusals[i]->plugin, "pocket");
    EXPECT_STREQ(refusals[i]->device, "pocket");
    EXPECT_EQ(refusals[i]->reason, MORTISE_REASON_OP);
    EXPECT_STREQ(refusals[i]->detail, "the pocket calculator has no such key");
    EXPECT_TRUE(i == 0 || refusals[i]->node > refusals[i - 1]->node);
  }
  EXPECT_STREQ(mortise_reason_name(MORTISE_REASON_OP), "op");
  EXPECT_STREQ(mortise_reason_name(0), "unknown");
  EXPECT_STREQ(mortise_reason_name(-7), "unknown");
}

TEST(TwoPlugins, RefusalsAreOfTheLastCompilation) {
  Session s = both("pocket");
  Builder graph = builder(s);
  build(graph);
  ASSERT_FALSE(s.compile(graph));
  EXPECT_FALSE(get(graph.refusals()).empty());
  expectOk(graph.output(get(graph.op("mortise.neg", {get(graph.input("x", MORTISE_F32, {4}))}))));
  get(s.compile(graph));
  EXPECT_TRUE(get(graph.refusals()).empty());
  build(graph);
  ASSERT_FALSE(s.compile(graph, {{"device", "nowhere"}})); // an error that does not concern nodes
  EXPECT_TRUE(get(graph.refusals()).empty());
}

TEST(TwoPlugins, EveryDeviceAnswersForItself) {
  Session s = both("pocket,reference");
  Builder graph = builder(s);
  const uint32_t x = get(graph.input("x", MORTISE_F32, {4}));
  expectOk(graph.output(get(graph.op("mortise.neg", {x}))));
  expectOk(graph.output(get(graph.op("mortise.sin", {x}, {}, "model.py:3"))));
  get(s.compile(graph)); // `reference` takes what `pocket` refuses
  EXPECT_TRUE(get(graph.refusals()).empty());
}

TEST(TwoPlugins, DevicesDoNotDisturbEachOther) {
  Session s = both("reference");
  for (const char *device : {"reference", "pocket", "reference"}) {
    Builder graph = builder(s);
    const uint32_t x = get(graph.input("x", MORTISE_F32, {4}));
    const uint32_t w = get(graph.input("w", MORTISE_F32, {4}, MORTISE_VALUE_CONSTANT));
    expectOk(graph.output(get(graph.op("mortise.mul", {x, w}))));
    Program program = get(s.compile(graph, {{"device", device}}));
    float in[] = {1, 2, 3, 4}, weight[] = {2, 2, 2, 2}, out[4];
    const Tensor tw(weight, MORTISE_F32, {4});
    const MortiseTensor view = tw.view();
    const MortiseTensor *constants[] = {nullptr, &view};
    expectOk(program.bind(constants));
    const void *inputs[] = {in, nullptr};
    void *outputs[] = {out};
    expectOk(program.runPointers(inputs, outputs));
    EXPECT_EQ(out[3], 8);
    EXPECT_EQ(Json::parse(get(program.report()))["placement"][0]["device"], device);
  }
}

TEST(TwoPlugins, RequirementsCountNodes) {
  Session s = both("pocket,reference");
  for (const auto &[require, met] : {std::pair("50% on pocket", true), std::pair("90% on pocket", false)}) {
    Builder graph = builder(s);
    build(graph);
    const Result<Program> program = s.compile(graph, {{"require", require}});
    EXPECT_EQ(static_cast<bool>(program), met) << require;
  }
}

} // namespace
} // namespace mortise::api
