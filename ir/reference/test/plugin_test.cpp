// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reference plugin, called through the C ABI by a minimal host.
#include "view_builder.hpp"

#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <gtest/gtest.h>
#include <thread>

using namespace mortise;
using namespace mortise::test;

struct MortiseStatus {
  int32_t code;
  std::string message;
};

namespace {

template <typename T> T sized() {
  T value{};
  value.struct_size = sizeof(T);
  return value;
}

const MortiseHost &host() {
  static const MortiseHost table = [] {
    auto host = sized<MortiseHost>();
    host.abi_revision = MORTISE_ABI_REVISION;
    host.opset = 1;
    host.status_create = [](int32_t code, const char *message) { return new MortiseStatus{code, message}; };
    host.status_code = [](const MortiseStatus *status) { return status ? status->code : 0; };
    host.status_message = [](const MortiseStatus *status) { return status ? status->message.c_str() : ""; };
    host.status_destroy = [](MortiseStatus *status) { delete status; };
    host.log = [](int32_t, const char *) {};
    host.parallel_for = [](int64_t count, int64_t grain, MortiseTask task, void *context) {
      int64_t middle = std::min(count, std::max(count / 2, grain));
      std::thread other([&] { task(context, 0, middle); });
      if (middle < count)
        task(context, middle, count);
      other.join();
    };
    host.thread_count = [] { return int32_t(2); };
    host.cancelled = [] { return int32_t(0); };
    return host;
  }();
  return table;
}

const MortisePlugin &plugin() {
  static const MortisePlugin *table = [] {
    void *library = dlopen(MORTISE_PLUGIN_FILE, RTLD_NOW | RTLD_LOCAL);
    if (!library)
      ADD_FAILURE() << dlerror();
    auto entry = reinterpret_cast<MortisePluginFn>(dlsym(library, MORTISE_PLUGIN_SYMBOL));
    const MortisePlugin *plugin = entry();
    auto args = sized<MortiseInitializeArgs>();
    args.host = &host();
    EXPECT_EQ(plugin->initialize(&args), nullptr);
    return plugin;
  }();
  return *table;
}

struct Proposed {
  std::vector<std::vector<uint32_t>> candidates;
  std::vector<std::pair<uint32_t, int32_t>> refusals;
  double cost = 0;
};
Proposed propose(const MortiseGraph &graph) {
  Proposed found;
  auto args = sized<MortiseProposeArgs>();
  args.graph = &graph;
  args.sink = &found;
  args.add = [](void *sink, const MortiseCandidate *candidate) {
    static_cast<Proposed *>(sink)->candidates.emplace_back(candidate->nodes, candidate->nodes + candidate->node_count);
    static_cast<Proposed *>(sink)->cost += candidate->cost_ns;
    EXPECT_STREQ(candidate->lowering, "reference.region");
  };
  args.refuse = [](void *sink, uint32_t node, int32_t reason, const char *detail) {
    static_cast<Proposed *>(sink)->refusals.emplace_back(node, reason);
    EXPECT_STRNE(detail, "");
  };
  EXPECT_EQ(plugin().propose(&args), nullptr);
  return found;
}

std::string take(MortiseStatus *status) {
  std::string message = status ? status->message : "";
  delete status;
  return message;
}

} // namespace

TEST(Plugin, TableAndManifestAgree) {
  EXPECT_EQ(plugin().magic, MORTISE_PLUGIN_MAGIC);
  EXPECT_STREQ(plugin().name, "reference");
  EXPECT_EQ(plugin().layout_hashes[0], MORTISE_ABI_LAYOUT_HASH_3);
  std::string path = MORTISE_PLUGIN_FILE;
  std::ifstream file(path.substr(0, path.size() - 3) + ".toml");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find("name = \"reference\""), std::string::npos);
  EXPECT_NE(text.find(std::string("version = \"") + plugin().version + '"'), std::string::npos);
}

TEST(Plugin, TheDeviceIsNeverAutomatic) {
  auto args = sized<MortiseDevicesArgs>();
  ASSERT_EQ(plugin().devices(&args), nullptr);
  ASSERT_EQ(args.device_count, 1u);
  EXPECT_STREQ(args.devices[0]->kind, "reference");
  EXPECT_EQ(args.devices[0]->automatic, 0u);
  ASSERT_EQ(args.devices[0]->space_count, 1u);
  EXPECT_EQ(args.devices[0]->spaces[0]->kind, MORTISE_SPACE_HOST);
}

TEST(Plugin, ProposesConvexSetsAroundWhatItRefuses) {
  ViewBuilder b;
  const MortiseType *type = b.type(MORTISE_F32, {4});
  MortiseValue *x = b.input(type);
  MortiseValue *a = b.op("neg", {x}, type), *swizzled = b.op("acme.swizzle", {a}, type), *c = b.op("exp", {x}, type);
  b.output(b.op("add", {swizzled, c}, type));
  Proposed found = propose(b.view());
  EXPECT_EQ(found.candidates, (std::vector<std::vector<uint32_t>>{{0, 2}, {3}}));
  EXPECT_EQ(found.refusals, (std::vector<std::pair<uint32_t, int32_t>>{{1, MORTISE_REASON_OP}}));
  EXPECT_GT(found.cost, 1000);
}

TEST(Plugin, RefusesDynamicShapes) {
  ViewBuilder b;
  b.symbol("n", 1, 8);
  const MortiseType *type = b.type(MORTISE_F32, {MORTISE_DYNAMIC}, {{MortiseExprStep{MORTISE_EXPR_SYMBOL, 0, 0}}});
  b.output(b.op("neg", {b.input(type)}, type));
  Proposed found = propose(b.view());
  EXPECT_TRUE(found.candidates.empty());
  EXPECT_EQ(found.refusals, (std::vector<std::pair<uint32_t, int32_t>>{{0, MORTISE_REASON_NEEDS_STATIC}}));
}

// All types are static, but an attribute is symbolic.
TEST(Plugin, RefusesDynamicAttributes) {
  ViewBuilder b;
  b.symbol("n", 1, 8);
  b.output(b.op("extents", {}, MORTISE_I64, {1},
                {extents("shape", {MORTISE_DYNAMIC}, {{MortiseExprStep{MORTISE_EXPR_SYMBOL, 0, 0}}})}));
  Proposed found = propose(b.view());
  EXPECT_TRUE(found.candidates.empty());
  EXPECT_EQ(found.refusals, (std::vector<std::pair<uint32_t, int32_t>>{{0, MORTISE_REASON_NEEDS_STATIC}}));
}

TEST(Plugin, CompilesBindsAndRuns) {
  ViewBuilder b;
  const MortiseType *type = b.type(MORTISE_F32, {200, 100});
  MortiseValue *x = b.input(type), *w = b.input(b.type(MORTISE_F32, {300, 100}), MORTISE_VALUE_CONSTANT);
  MortiseValue *y = b.op("linear", {x, w, nullptr}, MORTISE_F32, {200, 300}, {flag("weight_transposed", false)});
  b.output(b.op("relu", {y}, MORTISE_F32, {200, 300}));

  auto compile = sized<MortiseCompileArgs>();
  compile.region = &b.view();
  compile.lowering = "reference.region";
  ASSERT_EQ(take(plugin().kernel_compile(&compile)), "");
  auto info = sized<MortiseKernelInfo>();
  info.kernel = compile.kernel;
  ASSERT_EQ(take(plugin().kernel_info(&info)), "");
  ASSERT_EQ(info.step_count, 2u);
  EXPECT_EQ(info.steps[0]->flops, 2.0 * 200 * 300 * 100);
  ASSERT_EQ(info.workspace.count, 1u);

  std::vector<float> in(20000, 1), weight(30000, 0.5f), out(60000);
  const MortiseAddress constants[] = {0, mortise::addressOf(weight.data())},
                       inputs[] = {mortise::addressOf(in.data()), 0}, outputs[] = {mortise::addressOf(out.data())};
  auto bind = sized<MortiseConstantsBindArgs>();
  bind.kernel = compile.kernel;
  bind.inputs = constants;
  ASSERT_EQ(take(plugin().constants_bind(&bind)), "");
  std::vector<std::byte> workspace(static_cast<size_t>(info.workspace.steps[0].value) + 64);
  uint64_t ns[2] = {0, 0};
  auto enqueue = sized<MortiseEnqueueArgs>();
  enqueue.kernel = compile.kernel;
  enqueue.constants = bind.constants;
  enqueue.inputs = inputs;
  enqueue.outputs = outputs;
  enqueue.workspace = (mortise::addressOf(workspace.data()) + 63) / 64 * 64;
  enqueue.step_ns = ns;
  ASSERT_EQ(take(plugin().enqueue(&enqueue)), "");
  for (float value : out)
    ASSERT_EQ(value, 50);
  EXPECT_GT(ns[0], 0u);

  auto free = sized<MortiseConstantsArgs>();
  free.kernel = compile.kernel;
  free.constants = bind.constants;
  EXPECT_EQ(plugin().constants_destroy(&free), nullptr);
  auto destroy = sized<MortiseKernelArgs>();
  destroy.kernel = compile.kernel;
  EXPECT_EQ(plugin().kernel_destroy(&destroy), nullptr);
}

TEST(Plugin, CompileErrorsAreStatuses) {
  ViewBuilder b;
  b.output(b.op("exp", {b.input(MORTISE_I32, {1})}, MORTISE_I32, {1}));
  auto compile = sized<MortiseCompileArgs>();
  compile.region = &b.view();
  compile.lowering = "reference.region";
  EXPECT_NE(take(plugin().kernel_compile(&compile)).find("expected floats"), std::string::npos);
  compile.lowering = "cpu.region";
  EXPECT_NE(take(plugin().kernel_compile(&compile)).find("cpu.region"), std::string::npos);
}
