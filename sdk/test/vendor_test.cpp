// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds the template and the example out of tree, loads them with the runtime's registry, and checks their results.
#include "view_builder.hpp"

#include <mortise/plugin.hpp>
#include <mortise/portable/graph.hpp>
#include <mortise/runtime/registry.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

namespace {
using mortise::Result;

std::shared_ptr<mortise::runtime::Registry> registry() {
  static const MortiseOption options[] = {{"plugin_path", VENDOR_PLUGINS}};
  static auto made = [] {
    auto config = mortise::runtime::Config::read(options);
    EXPECT_TRUE(config) << config.error().message;
    auto opened = mortise::runtime::Registry::open(*config);
    opened->loadAll();
    return opened;
  }();
  return made;
}

struct Refusal {
  uint32_t node;
  int32_t reason;
};
struct Proposed {
  std::vector<std::vector<uint32_t>> candidates;
  std::vector<Refusal> refusals;
};

Proposed propose(const mortise::runtime::Device &device, const MortiseGraph &graph) {
  Proposed found;
  auto args = mortise::sized<MortiseProposeArgs>();
  args.device = device.info.device;
  args.graph = &graph;
  args.sink = &found;
  args.add = [](void *sink, const MortiseCandidate *candidate) {
    static_cast<Proposed *>(sink)->candidates.emplace_back(candidate->nodes, candidate->nodes + candidate->node_count);
  };
  args.refuse = [](void *sink, uint32_t node, int32_t reason, const char *) {
    static_cast<Proposed *>(sink)->refusals.push_back({node, reason});
  };
  Result<void> result = mortise::runtime::take(device.plugin->table->propose(&args));
  EXPECT_TRUE(result) << result.error().message;
  return found;
}

// Compiles a region and runs it once, after binding the inputs that are marked constant.
std::vector<float> run(const mortise::runtime::Device &device, const mortise::Region &region,
                       const std::vector<std::vector<float>> &inputs, size_t count) {
  const MortisePlugin &table = *device.plugin->table;
  const MortiseGraph &graph = region.graph->view();
  auto compile = mortise::sized<MortiseCompileArgs>();
  compile.device = device.info.device;
  compile.region = &graph;
  compile.lowering = "";
  Result<void> compiled = mortise::runtime::take(table.kernel_compile(&compile));
  EXPECT_TRUE(compiled) << compiled.error().message;
  if (!compiled)
    return {};

  auto info = mortise::sized<MortiseKernelInfo>();
  info.kernel = compile.kernel;
  EXPECT_EQ(table.kernel_info(&info), nullptr);
  EXPECT_GE(info.step_count, 1u);
  auto bytes = info.workspace.count ? mortise::evaluate(info.workspace, {}) : Result<int64_t>(int64_t(0));
  EXPECT_TRUE(bytes);
  std::vector<std::byte> workspace(static_cast<size_t>(*bytes) + 64);

  std::vector<MortiseAddress> constant, changing;
  for (size_t i = 0; i < graph.input_count; ++i) {
    bool isConstant = graph.inputs[i]->flags & MORTISE_VALUE_CONSTANT;
    const MortiseAddress address = mortise::addressOf(inputs[region.inputs[i]].data());
    constant.push_back(isConstant ? address : 0);
    changing.push_back(isConstant ? 0 : address);
  }
  auto bind = mortise::sized<MortiseConstantsBindArgs>();
  bind.kernel = compile.kernel;
  bind.inputs = constant.data();
  EXPECT_EQ(table.constants_bind(&bind), nullptr);

  std::vector<float> output(count);
  const MortiseAddress outputs[] = {mortise::addressOf(output.data())};
  auto enqueue = mortise::sized<MortiseEnqueueArgs>();
  enqueue.kernel = compile.kernel;
  enqueue.constants = bind.constants;
  enqueue.inputs = changing.data();
  enqueue.outputs = outputs;
  enqueue.workspace = mortise::addressOf(workspace.data());
  EXPECT_EQ(table.enqueue(&enqueue), nullptr);

  auto constants = mortise::sized<MortiseConstantsArgs>();
  constants.kernel = compile.kernel;
  constants.constants = bind.constants;
  EXPECT_EQ(table.constants_destroy(&constants), nullptr);
  auto kernel = mortise::sized<MortiseKernelArgs>();
  kernel.kernel = compile.kernel;
  EXPECT_EQ(table.kernel_destroy(&kernel), nullptr);
  return output;
}

const mortise::runtime::Device *device(const char *name) {
  auto found = registry()->find(name);
  EXPECT_TRUE(found) << found.error().message;
  return found ? found->front() : nullptr;
}

TEST(Vendor, BothLoad) {
  for (const auto &rejected : registry()->rejected())
    ADD_FAILURE() << rejected.path << ": " << rejected.error.message;
  ASSERT_EQ(registry()->plugins().size(), 2u);
  EXPECT_TRUE(registry()->find("acme"));
  EXPECT_TRUE(registry()->find("pointwise"));
  EXPECT_FALSE(registry()->find("auto")); // neither is automatic
}

TEST(Vendor, ManifestsSayWhatTheTablesSpeak) {
  for (const auto &plugin : registry()->plugins()) {
    std::ifstream file(std::filesystem::path(plugin->path).replace_extension(".toml"));
    const std::string manifest((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const MortisePlugin &table = *plugin->table;
    const std::string abi =
        "abi = [" + std::to_string(table.abi_oldest) + ", " + std::to_string(table.abi_newest) + "]";
    EXPECT_NE(manifest.find(abi), std::string::npos) << plugin->path << ": expected " << abi;
    const std::string opset = "opset = " + std::to_string(table.opset) + "\n";
    EXPECT_NE(manifest.find(opset), std::string::npos) << plugin->path << ": expected " << opset;
  }
}

TEST(Vendor, TemplateAddsAndMultiplies) {
  const auto *acme = device("acme");
  ASSERT_TRUE(acme);
  constexpr int64_t count = 100'003; // not a multiple of any grain
  mortise::test::ViewBuilder builder;
  const MortiseType *type = builder.type(MORTISE_F32, {count});
  auto *x = builder.input(type), *weight = builder.input(type, MORTISE_VALUE_CONSTANT);
  auto *sum = builder.op("add", {x, weight}, type);
  auto *product = builder.op("mul", {sum, sum}, type);
  builder.output(builder.op("sqrt", {product}, type));
  auto whole = mortise::Graph::copy(builder.view());
  ASSERT_TRUE(whole) << whole.error().message;

  Proposed proposed = propose(*acme, (*whole)->view());
  ASSERT_EQ(proposed.candidates, (std::vector<std::vector<uint32_t>>{{0}, {1}}));
  ASSERT_EQ(proposed.refusals.size(), 1u);
  EXPECT_EQ(proposed.refusals[0].node, 2u);
  EXPECT_EQ(proposed.refusals[0].reason, MORTISE_REASON_OP);

  std::vector<std::vector<float>> values(3, std::vector<float>(count));
  for (size_t i = 0; i < count; ++i) {
    values[0][i] = static_cast<float>(i) * 0.5f;
    values[1][i] = 3.f - static_cast<float>(i);
    values[2][i] = values[0][i] + values[1][i];
  }
  auto add = mortise::extractRegion((*whole)->view(), std::vector<uint32_t>{0});
  auto mul = mortise::extractRegion((*whole)->view(), std::vector<uint32_t>{1});
  ASSERT_TRUE(add && mul);
  EXPECT_EQ(run(*acme, *add, values, count), values[2]);
  std::vector<float> squares = run(*acme, *mul, values, count);
  for (size_t i = 0; i < count; ++i)
    ASSERT_EQ(squares[i], values[2][i] * values[2][i]) << i;

  // A region that was not proposed is refused.
  auto compile = mortise::sized<MortiseCompileArgs>();
  compile.region = &(*whole)->view();
  auto result = mortise::runtime::take(acme->plugin->table->kernel_compile(&compile));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, MORTISE_INVALID_ARGUMENT);
}

TEST(Vendor, ExampleFusesARegion) {
  const auto *pointwise = device("pointwise");
  ASSERT_TRUE(pointwise);
  constexpr int64_t count = 1000;
  mortise::test::ViewBuilder builder;
  const MortiseType *type = builder.type(MORTISE_F32, {10, 100});
  auto *x = builder.input(type), *weight = builder.input(type, MORTISE_VALUE_CONSTANT);
  auto *sum = builder.op("add", {builder.op("exp", {x}, type), weight}, type);
  builder.output(builder.op("mul", {builder.op("tanh", {sum}, type), x}, type));
  auto whole = mortise::Graph::copy(builder.view());
  ASSERT_TRUE(whole) << whole.error().message;
  Proposed proposed = propose(*pointwise, (*whole)->view());
  ASSERT_EQ(proposed.candidates, (std::vector<std::vector<uint32_t>>{{0, 1, 2, 3}}));
  auto region = mortise::extractRegion((*whole)->view(), proposed.candidates[0]);
  ASSERT_TRUE(region);
  std::vector<std::vector<float>> values(2, std::vector<float>(count));
  for (size_t i = 0; i < count; ++i) {
    values[0][i] = static_cast<float>(i) / 500 - 1;
    values[1][i] = 0.25f * static_cast<float>(i % 7);
  }
  std::vector<float> found = run(*pointwise, *region, values, count);
  for (size_t i = 0; i < count; ++i)
    ASSERT_NEAR(found[i], std::tanh(std::exp(values[0][i]) + values[1][i]) * values[0][i], 1e-6) << i;
}

} // namespace
