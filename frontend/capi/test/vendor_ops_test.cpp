// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops that a plugin declares: pocket.scale(x) {by = 2}, which it runs, and pocket.never(x), which it does not.
#include "helpers.hpp"

#include <cstdio>
#include <map>
#include <tuple>

namespace mortise::api {
namespace {

Session on(const std::string &device, const std::string &plugins = ":" POCKET_PLUGIN) {
  return session({{"device", device}, {"plugin_path", plugins}});
}

float run(Program &program, float x) {
  float y = 0;
  const void *in[] = {&x};
  void *out[] = {&y};
  expectOk(program.runPointers(in, out));
  return y;
}

std::string failure(Result<uint32_t> result) {
  EXPECT_FALSE(result);
  return result ? "" : result.error().message;
}

TEST(VendorOps, RunBetweenTheLanguagesOwn) {
  Session s = on("pocket,reference");
  for (const bool given : {false, true}) {
    Builder graph = builder(s);
    const uint32_t x = get(graph.op("mortise.exp", {get(graph.input("x", MORTISE_F32, {1}))}));
    const std::vector<Attribute> by = given ? std::vector<Attribute>{{"by", 0.5}} : std::vector<Attribute>{};
    const uint32_t y = get(graph.op("pocket.scale", {x}, by, "model.py:3"));
    expectOk(graph.output(get(graph.op("mortise.sin", {y}))));
    Program program = get(s.compile(graph));
    EXPECT_NEAR(run(program, 0.25f), std::sin((given ? 0.5 : 2) * std::exp(0.25)), 1e-6);
    const Json report = Json::parse(get(program.report()));
    std::map<std::string, std::string> placed;
    for (const Json &region : report["placement"])
      for (const auto &[op, count] : region["ops"].items())
        placed[op] = region["plugin"];
    EXPECT_EQ(placed["pocket.scale"], "pocket") << report.dump(1);
    EXPECT_EQ(placed["mortise.sin"], "reference") << report.dump(1);
  }
}

TEST(VendorOps, OverSymbols) {
  Session s = on("pocket");
  Builder graph = builder(s);
  const Dim n = get(graph.symbol("n", 1, 64));
  const uint32_t x = get(graph.symbolicInput("x", Type(MORTISE_F32, std::span(&n, 1))));
  expectOk(graph.output(get(graph.op("pocket.scale", {x}))));
  Program program = get(s.compile(graph));
  for (const int64_t count : {3, 5}) {
    std::vector<float> in(static_cast<size_t>(count), 1.5f), out(in.size());
    const void *inputs[] = {in.data()};
    void *outputs[] = {out.data()};
    expectOk(program.runPointers(inputs, outputs, &count));
    EXPECT_EQ(out, std::vector<float>(in.size(), 3.0f));
  }
}

TEST(VendorOps, WhatIsWrongIsSaidWhenTheOpIsAdded) {
  Session s = on("pocket");
  Builder graph = builder(s);
  const uint32_t x = get(graph.input("x", MORTISE_F32, {4})), i = get(graph.input("i", MORTISE_I64, {4}));
  EXPECT_EQ(failure(graph.op("pocket.scale", {i}, {}, "model.py:3")),
            "pocket.scale: plugin 'pocket': expected x to be f32; at model.py:3");
  EXPECT_EQ(failure(graph.op("pocket.scale", {x}, {{"by", 2}})),
            "pocket.scale: expected attribute 'by' to be a float, found an integer");
  EXPECT_EQ(failure(graph.op("pocket.scale", {x}, {{"to", 2.0}})),
            "pocket.scale: its plugin declares no attribute 'to'; the nearest known is 'by'");
  EXPECT_EQ(failure(graph.op("pocket.scale", {x, x})),
            "pocket.scale: expected 1 operands, as its plugin declares, found 2");
  EXPECT_NE(failure(graph.op("pocket.scael", {x}))
                .find("no installed plugin declares the op 'pocket.scael'; the nearest known is 'pocket.scale'"),
            std::string::npos);
}

TEST(VendorOps, WithoutThePluginNobodyDeclaresIt) {
  Session s = session({{"device", "reference"}, {"plugin_path", ""}});
  Builder graph = builder(s);
  const uint32_t x = get(graph.input("x", MORTISE_F32, {4}));
  const auto error = graph.op("pocket.scale", {x}).error();
  EXPECT_EQ(error.code, MORTISE_UNSUPPORTED);
  EXPECT_EQ(error.message, "no installed plugin declares the op 'pocket.scale'; install its vendor's, and name its "
                           "directory in plugin_path or MORTISE_PLUGIN_PATH");
}

TEST(VendorOps, WhatNoDeviceTakesIsAnErrorThatNamesIt) {
  for (const auto &[device, op, said] :
       {std::tuple{"pocket", "pocket.never", "pocket: op: the pocket calculator has no such key"},
        std::tuple{"reference", "pocket.scale", "reference: op: the plugin does not declare this op of a vendor"}}) {
    Session s = on(device);
    Builder graph = builder(s);
    expectOk(graph.output(get(graph.op(op, {get(graph.input("x", MORTISE_F32, {4}))}, {}, "model.py:9"))));
    const auto compiled = s.compile(graph);
    ASSERT_FALSE(compiled);
    EXPECT_EQ(compiled.error().code, MORTISE_UNSUPPORTED);
    EXPECT_NE(compiled.error().message.find(std::string(op) + "(f32[4]) at model.py:9"), std::string::npos)
        << compiled.error().message;
    EXPECT_NE(compiled.error().message.find(said), std::string::npos) << compiled.error().message;
  }
}

TEST(VendorOps, ASavedProgramRunsAgain) {
  Session s = on("pocket");
  Builder graph = builder(s);
  expectOk(graph.output(get(graph.op("pocket.scale", {get(graph.input("x", MORTISE_F32, {1}))}, {{"by", 3.0}}))));
  const std::string file = testing::TempDir() + "/scale.mrtp";
  expectOk(get(s.compile(graph)).save(file));
  Program program = get(s.load(file));
  EXPECT_EQ(run(program, 2), 6);
  std::remove(file.c_str());
}

TEST(VendorOps, WhatIsDeclaredIsTold) {
  Session s = on("pocket");
  const MortiseOpDeclaration *op = nullptr;
  ASSERT_EQ(mortise_session_op(s.get(), "pocket.scale", &op), nullptr);
  ASSERT_NE(op, nullptr);
  EXPECT_EQ(op->operands_min, 1u);
  ASSERT_EQ(op->attribute_count, 1u);
  EXPECT_STREQ(op->attributes[0]->name, "by");
  MortiseStatus *none = mortise_session_op(s.get(), "pocket.nothing", &op);
  EXPECT_EQ(mortise_status_code(none), MORTISE_UNSUPPORTED);
  EXPECT_EQ(op, nullptr);
  mortise_status_destroy(none);
  const Json described = Json::parse(get(s.describe()));
  for (const Json &plugin : described["plugins"])
    if (plugin["name"] == "pocket")
      EXPECT_EQ(plugin["ops"]["pocket.scale"], "x times `by`, of f32") << described.dump(1);
}

} // namespace
} // namespace mortise::api
