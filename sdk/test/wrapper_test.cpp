// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// plugin.hpp against a host implemented in this file: every slot and every way to fail.
#include "view_builder.hpp"

#include <mortise/plugin.hpp>

#include <gtest/gtest.h>

#include <stdexcept>

struct MortiseStatus {
  int32_t code;
  std::string message;
};

namespace {
using mortise::Result;

int liveStatuses = 0;

const MortiseHost &testHost() {
  static const MortiseHost table = [] {
    auto host = mortise::sized<MortiseHost>();
    host.abi_revision = MORTISE_ABI_REVISION;
    host.status_create = [](int32_t code, const char *message) {
      ++liveStatuses;
      return new MortiseStatus{code, message};
    };
    host.status_code = [](const MortiseStatus *status) { return status ? status->code : int32_t(MORTISE_OK); };
    host.status_message = [](const MortiseStatus *status) { return status ? status->message.c_str() : ""; };
    host.status_destroy = [](MortiseStatus *status) {
      liveStatuses -= status != nullptr;
      delete status;
    };
    host.parallel_for = [](int64_t count, int64_t grain, MortiseTask task, void *context) {
      for (int64_t begin = 0; begin < count; begin += grain)
        task(context, begin, std::min(count, begin + grain));
    };
    return host;
  }();
  return table;
}

enum class Behaviour { Work, Fail, Throw, ThrowOdd, NoMemory };
Behaviour behaviour = Behaviour::Work;
int liveObjects = 0;

struct Counted {
  Counted() { ++liveObjects; }
  ~Counted() { --liveObjects; }
  Counted(const Counted &) = delete;
};

struct Sample : mortise::PluginAdaptor<Sample> {
  static constexpr mortise::PluginIdentity identity{"test", "tests", "1"};
  struct Kernel : Counted {
    mortise::ConstantExpr workspace{64};
    mortise::StepList steps;
  };
  struct Constants : Counted {};

  Result<void> behave() {
    switch (behaviour) {
    case Behaviour::Fail:
      return mortise::Error{MORTISE_UNSUPPORTED, "not this"};
    case Behaviour::Throw:
      throw std::runtime_error("thrown");
    case Behaviour::ThrowOdd:
      throw 7;
    case Behaviour::NoMemory:
      throw std::bad_alloc();
    case Behaviour::Work:
      break;
    }
    return {};
  }
  Result<void> initialize(const MortiseInitializeArgs &) { return behave(); }
  Result<std::span<const MortiseDeviceInfo *const>> devices() { return std::span<const MortiseDeviceInfo *const>(); }
  Result<void> propose(mortise::Proposal &) { return behave(); }
  Result<std::unique_ptr<Kernel>> compile(const MortiseCompileArgs &) {
    auto kernel = std::make_unique<Kernel>();
    kernel->steps.add("one", "test.one", {0, 1}, 8, 2);
    if (Result<void> result = behave(); !result)
      return result.error();
    return kernel;
  }
  Result<void> describe(const Kernel &kernel, MortiseKernelInfo &info) {
    info.workspace = kernel.workspace.expr();
    kernel.steps.fill(info);
    return {};
  }
  Result<mortise::Packed<Constants>> bind(const Kernel &, const MortiseAddress *) {
    return mortise::Packed<Constants>{std::make_unique<Constants>(), 12};
  }
  Result<void> enqueue(const Kernel &, const Constants *, const MortiseEnqueueArgs &) { return behave(); }

  static std::span<const MortiseOpDeclaration *const> ops() {
    static const MortiseOpDeclaration pair{sizeof pair, nullptr, "test.pair", "x, `times` times", 1, 1, nullptr, 0};
    static const MortiseOpDeclaration *const list[] = {&pair};
    return list;
  }
  Result<void> infer(mortise::Inference &inference) {
    if (Result<void> result = behave(); !result)
      return result;
    EXPECT_EQ(inference.op(), "test.pair");
    EXPECT_EQ(inference.attribute("none"), nullptr);
    for (int64_t i = 0; i < inference.attribute("times")->i64; ++i)
      inference.add(inference.operand(inference.operandCount() - 1));
    return {};
  }
};

class Wrapper : public testing::Test {
protected:
  void SetUp() override {
    behaviour = Behaviour::Work;
    auto args = mortise::sized<MortiseInitializeArgs>();
    args.host = &testHost();
    ASSERT_EQ(table.initialize(&args), nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(liveStatuses, 0);
    EXPECT_EQ(liveObjects, 0);
  }
  const MortisePlugin &table = *Sample::table();
};

TEST_F(Wrapper, FillsTheTable) {
  EXPECT_EQ(table.struct_size, sizeof(MortisePlugin));
  EXPECT_EQ(table.magic, MORTISE_PLUGIN_MAGIC);
  EXPECT_STREQ(table.name, "test");
  EXPECT_EQ(table.layout_hashes[0], MORTISE_ABI_LAYOUT_HASH_3);
  EXPECT_EQ(table.stream_create, nullptr); // the plugin has no streams
  EXPECT_EQ(table.memory_allocate, nullptr);
}

TEST_F(Wrapper, RefusesAHostOfAnotherRevision) {
  for (uint32_t revision : {MORTISE_ABI_OLDEST - 1, MORTISE_ABI_REVISION + 1}) {
    MortiseHost other = testHost();
    other.abi_revision = revision;
    auto args = mortise::sized<MortiseInitializeArgs>();
    args.host = &other;
    const mortise::Status status(table.initialize(&args));
    EXPECT_EQ(status.code(), MORTISE_VERSION_MISMATCH);
    EXPECT_NE(std::string(status.message()).find("found " + std::to_string(revision)), std::string::npos);
  }
  auto args = mortise::sized<MortiseInitializeArgs>();
  args.host = &testHost(); // the table of `other` is gone
  EXPECT_EQ(table.initialize(&args), nullptr);
}

TEST_F(Wrapper, KernelAndConstantsLiveUntilDestroyed) {
  auto compile = mortise::sized<MortiseCompileArgs>();
  ASSERT_EQ(table.kernel_compile(&compile), nullptr);
  auto info = mortise::sized<MortiseKernelInfo>();
  info.kernel = compile.kernel;
  ASSERT_EQ(table.kernel_info(&info), nullptr);
  ASSERT_EQ(info.step_count, 1u);
  EXPECT_STREQ(info.steps[0]->name, "one");
  EXPECT_EQ(info.steps[0]->node_count, 2u);
  ASSERT_EQ(info.workspace.count, 1u);
  EXPECT_EQ(info.workspace.steps[0].value, 64);
  auto bind = mortise::sized<MortiseConstantsBindArgs>();
  bind.kernel = compile.kernel;
  ASSERT_EQ(table.constants_bind(&bind), nullptr);
  EXPECT_EQ(bind.packed_bytes, 12u);
  EXPECT_EQ(liveObjects, 2);
  auto constants = mortise::sized<MortiseConstantsArgs>();
  constants.kernel = compile.kernel;
  constants.constants = bind.constants;
  EXPECT_EQ(table.constants_destroy(&constants), nullptr);
  auto kernel = mortise::sized<MortiseKernelArgs>();
  kernel.kernel = compile.kernel;
  EXPECT_EQ(table.kernel_destroy(&kernel), nullptr);
}

TEST_F(Wrapper, ErrorsAndExceptionsBecomeStatuses) {
  const struct {
    Behaviour behaviour;
    MortiseCode code;
    const char *message;
  } rows[] = {{Behaviour::Fail, MORTISE_UNSUPPORTED, "not this"},
              {Behaviour::Throw, MORTISE_INTERNAL, "thrown"},
              {Behaviour::ThrowOdd, MORTISE_INTERNAL, "the plugin threw something that is not a std::exception"},
              {Behaviour::NoMemory, MORTISE_OUT_OF_MEMORY, "the plugin ran out of host memory"}};
  for (const auto &row : rows) {
    behaviour = row.behaviour;
    auto compile = mortise::sized<MortiseCompileArgs>();
    mortise::Status status(table.kernel_compile(&compile));
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.code(), row.code);
    EXPECT_STREQ(status.message(), row.message);
    EXPECT_EQ(compile.kernel, nullptr);
    EXPECT_EQ(liveObjects, 0); // the unfinished kernel is destroyed
  }
}

TEST_F(Wrapper, InfersTheTypesOfItsOwnOps) {
  ASSERT_EQ(table.op_count, 1u);
  EXPECT_STREQ(table.ops[0]->name, "test.pair");
  auto type = mortise::sized<MortiseType>();
  auto times = mortise::sized<MortiseAttribute>();
  times.name = "times";
  times.i64 = 2;
  const MortiseType *operands[] = {&type};
  const MortiseAttribute *attributes[] = {&times};
  std::vector<const MortiseType *> results;
  auto args = mortise::sized<MortiseInferArgs>();
  args.op = "test.pair";
  args.operands = operands;
  args.attributes = attributes;
  args.operand_count = args.attribute_count = 1;
  args.sink = &results;
  args.add = [](void *sink, const MortiseType *added) {
    static_cast<std::vector<const MortiseType *> *>(sink)->push_back(added);
  };
  EXPECT_EQ(table.infer(&args), nullptr);
  EXPECT_EQ(results, (std::vector<const MortiseType *>{&type, &type}));
  behaviour = Behaviour::Fail;
  EXPECT_STREQ(mortise::Status(table.infer(&args)).message(), "not this");
}

TEST_F(Wrapper, RefusesStructsThatAreTooSmall) {
  auto compile = mortise::sized<MortiseCompileArgs>();
  compile.struct_size -= 8;
  EXPECT_EQ(mortise::Status(table.kernel_compile(&compile)).code(), MORTISE_VERSION_MISMATCH);
}

TEST_F(Wrapper, ParallelForCoversTheRange) {
  std::vector<int> seen(100);
  mortise::parallelFor(100, 7, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      ++seen[i];
  });
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), 100);
}

using Regions = std::vector<std::vector<uint32_t>>;

TEST(ConvexRegions, ChainSplitsAtAnUnsupportedNode) {
  mortise::test::ViewBuilder builder;
  auto *x = builder.input(MORTISE_F32, {4});
  auto *a = builder.op("a", {x}, MORTISE_F32, {4});
  auto *b = builder.op("b", {a}, MORTISE_F32, {4});
  auto *c = builder.op("c", {b}, MORTISE_F32, {4});
  builder.output(c);
  const MortiseGraph &graph = builder.view();
  EXPECT_EQ(mortise::convexRegions(graph, {true, true, true}), (Regions{{0, 1, 2}}));
  EXPECT_EQ(mortise::convexRegions(graph, {true, false, true}), (Regions{{0}, {2}}));
  EXPECT_EQ(mortise::convexRegions(graph, {false, true, true}), (Regions{{1, 2}}));
  EXPECT_EQ(mortise::convexRegions(graph, {false, false, false}), Regions{});
}

TEST(ConvexRegions, BesideAnUnsupportedBranchStaysWhole) {
  mortise::test::ViewBuilder builder;
  auto *x = builder.input(MORTISE_F32, {4});
  auto *a = builder.op("a", {x}, MORTISE_F32, {4});         // 0
  auto *other = builder.op("other", {a}, MORTISE_F32, {4}); // 1, unsupported, and an operand of d
  auto *b = builder.op("b", {a}, MORTISE_F32, {4});         // 2: independent of it, so in the region of a
  auto *d = builder.op("d", {b, other}, MORTISE_F32, {4});  // 3: depends on it
  builder.output(d);
  EXPECT_EQ(mortise::convexRegions(builder.view(), {true, false, true, true}), (Regions{{0, 2}, {3}}));
}

// Every region is convex, for random graphs and random choices of supported nodes.
TEST(ConvexRegions, AreConvex) {
  uint32_t state = 1;
  auto random = [&](uint32_t below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
  };
  for (int trial = 0; trial < 300; ++trial) {
    mortise::test::ViewBuilder builder;
    std::vector<const MortiseValue *> values{builder.input(MORTISE_F32, {4})};
    std::vector<bool> supported;
    for (int i = 0; i < 12; ++i) {
      const MortiseValue *left = values[random(uint32_t(values.size()))],
                         *right = values[random(uint32_t(values.size()))];
      values.push_back(builder.op("n", {left, right}, MORTISE_F32, {4}));
      supported.push_back(random(3) != 0);
    }
    const MortiseGraph &graph = builder.view();
    Regions regions = mortise::convexRegions(graph, supported);
    std::vector<int> region(graph.node_count, -1);
    for (size_t r = 0; r < regions.size(); ++r)
      for (uint32_t node : regions[r])
        region[node] = int(r);
    for (size_t r = 0; r < regions.size(); ++r) {
      std::vector<bool> left(graph.node_count); // a path from the region that has left it
      for (size_t i = 0; i < graph.node_count; ++i)
        for (size_t k = 0; k < 2; ++k)
          if (const MortiseNode *producer = graph.nodes[i]->operands[k]->producer) {
            bool after = left[producer->index];
            EXPECT_FALSE(after && region[i] == int(r)) << "region " << r << " is re-entered at node " << i;
            if (after || (region[producer->index] == int(r) && region[i] != int(r)))
              left[i] = true;
          }
    }
    EXPECT_EQ(std::count(supported.begin(), supported.end(), true),
              std::count_if(region.begin(), region.end(), [](int r) { return r >= 0; }));
  }
}

} // namespace
