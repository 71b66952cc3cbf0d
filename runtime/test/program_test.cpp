// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "fixtures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace mortise::runtime::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

class ProgramTest : public testing::Test {
protected:
  void SetUp() override {
    folder.add("good");
    folder.add("queued", Folder::manifestFor("queued", "\"queued\", \"far\""));
    folder.add("pack", Folder::manifestFor("pack", "\"pack\", \"far\""));
    registry = loadFrom(folder.path());
    ASSERT_TRUE(registry->rejected().empty());
  }

  std::shared_ptr<Program> load(const PlanMaker &maker) {
    auto program = Program::load(maker.plan, registry);
    EXPECT_TRUE(program) << (program ? "" : program.error().message);
    return program ? *program : nullptr;
  }
  std::string loadFailure(const PlanMaker &maker) {
    auto program = Program::load(maker.plan, registry);
    EXPECT_FALSE(program);
    return program ? "" : program.error().message;
  }

  // y = x + 1 twice, through the arena.
  static PlanMaker plusTwo(std::vector<int64_t> dims) {
    PlanMaker maker(std::move(dims));
    const uint32_t x = maker.input(), y = maker.output(), between = maker.arena();
    maker.enqueue(maker.region({x}, {between}));
    maker.enqueue(maker.region({between}, {y}));
    return maker;
  }
  // y = x + w with the constant w.
  static PlanMaker plusWeight(std::vector<int64_t> dims) {
    PlanMaker maker(std::move(dims));
    const uint32_t x = maker.input(), w = maker.input(true), y = maker.output();
    maker.enqueue(maker.region({x, w}, {y}));
    return maker;
  }

  Folder folder;
  std::shared_ptr<Registry> registry;
  const std::vector<int64_t> dims{4, 3};
};

TEST_F(ProgramTest, RunsAPlan) {
  auto program = load(plusTwo(dims));
  std::vector<float> x(12, 5), y(12);
  const Tensor in = tensorOf(x, dims), out = tensorOf(y, dims);
  ASSERT_TRUE(program->run({&in, 1}, {&out, 1}));
  EXPECT_THAT(y, Each(7.0f));
  const void *inputs[] = {x.data()};
  void *outputs[] = {y.data()};
  std::ranges::fill(x, 1.0f);
  ASSERT_TRUE(program->runPointers(inputs, outputs));
  EXPECT_THAT(y, Each(3.0f));
  EXPECT_EQ(program->arenaBytes(), 256u + 100u);
}

TEST_F(ProgramTest, ProgramsThatDoNotRunAtOnceShareTheirArenas) {
  const std::vector<int64_t> many{1 << 20};
  auto small = load(plusTwo(dims)), large = load(plusTwo(many));
  std::vector<float> x(12, 5), y(12), xs(1 << 20, 1), ys(1 << 20);
  const Tensor in = tensorOf(x, dims), out = tensorOf(y, dims), ins = tensorOf(xs, many), outs = tensorOf(ys, many);
  EXPECT_EQ(processArenaBytes(), 0u) << "before the first call";
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(small->run({&in, 1}, {&out, 1}));
    ASSERT_TRUE(large->run({&ins, 1}, {&outs, 1}));
    EXPECT_THAT(y, Each(7.0f));
    EXPECT_EQ(std::ranges::count(ys, 3.0f), 1 << 20);
    std::ranges::fill(y, 0.0f);
    std::ranges::fill(ys, 0.0f);
  }
  EXPECT_GE(processArenaBytes(), large->arenaBytes());
  EXPECT_LT(processArenaBytes(), large->arenaBytes() + (64u << 10)) << "rounded";
  large.reset();
  EXPECT_LT(processArenaBytes(), 2u << 20) << "what the small program needs";
  ASSERT_TRUE(small->run({&in, 1}, {&out, 1}));
  EXPECT_THAT(y, Each(7.0f));
  small.reset();
  EXPECT_EQ(processArenaBytes(), 0u);
}

TEST_F(ProgramTest, RunsOnThePool) {
  const std::vector<int64_t> large{1 << 16};
  auto program = load(plusTwo(large));
  std::vector<float> x(1 << 16, 5), y(1 << 16);
  const Tensor in = tensorOf(x, large), out = tensorOf(y, large);
  ASSERT_TRUE(program->run({&in, 1}, {&out, 1}));
  EXPECT_THAT(y, Each(7.0f));
}

TEST_F(ProgramTest, BindsAndRebindsConstants) {
  auto program = load(plusWeight(dims));
  std::vector<float> x(12, 5), w(12, 10), other(12, 20), y(12);
  const Tensor inputs[] = {tensorOf(x, dims), tensorOf(w, dims)}, out = tensorOf(y, dims);
  auto unbound = program->run(inputs, {&out, 1});
  ASSERT_FALSE(unbound);
  EXPECT_THAT(unbound.error().message, HasSubstr("bind them before the first run"));
  ASSERT_TRUE(program->bindConstants(inputs));
  EXPECT_EQ(program->packedBytes(), 16u);
  ASSERT_TRUE(program->run(inputs, {&out, 1}));
  EXPECT_THAT(y, Each(15.0f));
  const Tensor swapped[] = {{}, tensorOf(other, dims)};
  ASSERT_TRUE(program->bindConstants(swapped));
  const Tensor variable[] = {tensorOf(x, dims), {}};
  ASSERT_TRUE(program->run(variable, {&out, 1}));
  EXPECT_THAT(y, Each(25.0f));
}

TEST_F(ProgramTest, CopiesConstantsThatAreNotDense) {
  auto program = load(plusWeight({2, 3}));
  std::vector<float> x(6, 0), w{1, 2, 3, 4, 5, 6}, y(6);
  const int64_t shape[] = {2, 3}, strides[] = {1, 2};
  const Tensor inputs[] = {{x.data(), MORTISE_F32, 2, shape, nullptr}, {w.data(), MORTISE_F32, 2, shape, strides}};
  const Tensor out{y.data(), MORTISE_F32, 2, shape, nullptr};
  ASSERT_TRUE(program->bindConstants(inputs));
  std::ranges::fill(w, 0.0f);
  ASSERT_TRUE(program->run(inputs, {&out, 1}));
  EXPECT_THAT(y, testing::ElementsAre(1, 3, 5, 2, 4, 6));
}

TEST_F(ProgramTest, LiteralsAndCopies) {
  PlanMaker maker(dims);
  const uint32_t x = maker.input(), literal = maker.literal(40), y = maker.output(), z = maker.output(),
                 constant = maker.output();
  maker.enqueue(maker.region({x, literal}, {y}));
  maker.copy(x, z);
  maker.copy(literal, constant);
  auto program = load(maker);
  std::vector<float> in(12, 2), out(12), same(12), forty(12);
  const Tensor input = tensorOf(in, dims),
               outputs[] = {tensorOf(out, dims), tensorOf(same, dims), tensorOf(forty, dims)};
  ASSERT_TRUE(program->run({&input, 1}, outputs));
  EXPECT_THAT(out, Each(42.0f));
  EXPECT_THAT(same, Each(2.0f));
  EXPECT_THAT(forty, Each(40.0f));
}

TEST_F(ProgramTest, StateIsUpdatedInPlace) {
  PlanMaker maker(dims);
  const uint32_t cache = maker.input(false, true);
  maker.output(0);
  maker.enqueue(maker.region({cache}, {cache}));
  auto program = load(maker);
  std::vector<float> values(12, 1);
  const Tensor state = tensorOf(values, dims);
  Tensor out = tensorOf(values, dims);
  out.data = nullptr;
  ASSERT_TRUE(program->run({&state, 1}, {&out, 1}));
  ASSERT_TRUE(program->run({&state, 1}, {&state, 1}));
  EXPECT_THAT(values, Each(3.0f));
  std::vector<float> elsewhere(12);
  const Tensor wrong = tensorOf(elsewhere, dims);
  auto refused = program->run({&state, 1}, {&wrong, 1});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("expected NULL or the memory of input 0 'x0'"));
  const int64_t strides[] = {1, 4};
  Tensor strided = state;
  strided.strides = strides;
  EXPECT_THAT(program->run({&strided, 1}, {&out, 1}).error().message, HasSubstr("updated in place"));
}

TEST_F(ProgramTest, DonatedInputsAreOverwritten) {
  PlanMaker maker(dims);
  const uint32_t x = maker.donated(), w = maker.input(), y = maker.output();
  maker.enqueue(maker.region({x, w}, {x}));
  maker.enqueue(maker.region({x, w}, {y}));
  auto program = load(maker);
  alignas(64) float in[12], weight[12];
  std::ranges::fill(in, 1.0f);
  std::ranges::fill(weight, 10.0f);
  std::vector<float> out(12);
  const Tensor inputs[] = {{in, MORTISE_F32, 2, dims.data(), nullptr}, {weight, MORTISE_F32, 2, dims.data(), nullptr}},
               output = tensorOf(out, dims);
  ASSERT_TRUE(program->run(inputs, {&output, 1}));
  EXPECT_THAT(out, Each(21.0f));
  EXPECT_THAT(in, Each(11.0f)) << "the caller's memory was used";

  // An overlapping input would be read after the donated one was overwritten.
  const Tensor twice[] = {inputs[1], inputs[1]};
  auto refused = program->run(twice, {&output, 1});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message,
              HasSubstr("input 0 'x0': expected memory of its own, because it is donated, found it "
                        "to overlap input 1 'x1'"));
  // An input that is not dense is copied, and the copy is overwritten.
  std::vector<float> columns(12, 1);
  const int64_t strides[] = {1, dims[0]};
  const Tensor strided[] = {{columns.data(), MORTISE_F32, 2, dims.data(), strides}, inputs[1]};
  for (int call = 0; call < 2; ++call) {
    ASSERT_TRUE(program->run(strided, {&output, 1}));
    EXPECT_THAT(out, Each(21.0f));
  }
  EXPECT_THAT(columns, Each(1.0f));
  // So is one that is less aligned than an arena: regions may use it as they do an arena's memory.
  std::vector<float> room(12 + 32, 1);
  float *aligned = room.data() + (64 - reinterpret_cast<uintptr_t>(room.data()) % 64) % 64 / sizeof(float);
  for (const bool isAligned : {false, true}) {
    float *data = isAligned ? aligned : aligned + 1;
    const Tensor placed[] = {{data, MORTISE_F32, 2, dims.data(), nullptr}, inputs[1]};
    ASSERT_TRUE(program->run(placed, {&output, 1}));
    EXPECT_THAT(out, Each(21.0f));
    EXPECT_EQ(data[0], isAligned ? 11.0f : 1.0f);
  }
}

TEST_F(ProgramTest, SharedMemoryOfAnotherSizeIsRefused) {
  const Dim n = Dim::symbol(0);
  for (const bool right : {true, false}) {
    PlanMaker maker(std::vector<Dim>{n}, {{"n", {0, 100, 1}}});
    const uint32_t x = maker.input(), y = maker.output(), between = maker.arena();
    maker.within(between, MORTISE_F16, {right ? n * 2 : n * n});
    maker.copy(x, between);
    maker.copy(between, y);
    auto program = load(maker);
    for (const int64_t length : {2, 3}) {
      const std::vector<int64_t> shape{length};
      std::vector<float> in(3, 1), out(3);
      const Tensor input = tensorOf(in, shape), output = tensorOf(out, shape);
      auto done = program->run({&input, 1}, {&output, 1});
      EXPECT_EQ(static_cast<bool>(done), right || length == 2);
      if (!done) {
        EXPECT_EQ(done.error().code, MORTISE_CORRUPT);
        EXPECT_THAT(done.error().message, HasSubstr("shares memory of 12 bytes and needs 18"));
      }
    }
  }
}

TEST_F(ProgramTest, StridedAndMisalignedInputsAreCopied) {
  auto program = load(plusTwo({2, 3}));
  const int64_t shape[] = {2, 3};
  std::vector<float> y(6);
  const Tensor out{y.data(), MORTISE_F32, 2, shape, nullptr};
  std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8};
  struct {
    int64_t strides[2];
    int offset;
    std::vector<float> expected;
  } cases[] = {{{1, 2}, 0, {3, 5, 7, 4, 6, 8}},
               {{0, 1}, 0, {3, 4, 5, 3, 4, 5}},
               {{0, 0}, 2, {5, 5, 5, 5, 5, 5}},
               {{-3, -1}, 5, {8, 7, 6, 5, 4, 3}},
               {{3, 1}, 2, {5, 6, 7, 8, 9, 10}}};
  for (auto &each : cases) {
    const Tensor in{x.data() + each.offset, MORTISE_F32, 2, shape, each.strides};
    ASSERT_TRUE(program->run({&in, 1}, {&out, 1}));
    EXPECT_EQ(y, each.expected);
  }
  std::vector<char> bytes(25);
  const float values[] = {1, 2, 3, 4, 5, 6};
  std::memcpy(bytes.data() + 1, values, 24);
  const Tensor odd{bytes.data() + 1, MORTISE_F32, 2, shape, nullptr};
  ASSERT_TRUE(program->run({&odd, 1}, {&out, 1}));
  EXPECT_EQ(y, (std::vector<float>{3, 4, 5, 6, 7, 8}));
}

TEST_F(ProgramTest, ZeroSizedTensorsNeedNoData) {
  const std::vector<int64_t> empty{3, 0};
  auto program = load(plusTwo(empty));
  const Tensor nothing{nullptr, MORTISE_F32, 2, empty.data(), nullptr};
  EXPECT_TRUE(program->run({&nothing, 1}, {&nothing, 1}));
  const void *inputs[] = {nullptr};
  void *outputs[] = {nullptr};
  EXPECT_TRUE(program->runPointers(inputs, outputs));
}

TEST_F(ProgramTest, ScalarsWork) {
  auto program = load(plusTwo({}));
  float x = 1, y = 0;
  const Tensor in{&x, MORTISE_F32, 0, nullptr, nullptr}, out{&y, MORTISE_F32, 0, nullptr, nullptr};
  ASSERT_TRUE(program->run({&in, 1}, {&out, 1}));
  EXPECT_EQ(y, 3);
}

TEST_F(ProgramTest, BadTensorsAreErrorsThatSayWhatToDo) {
  auto program = load(plusTwo(dims));
  std::vector<float> x(12), y(12);
  const Tensor in = tensorOf(x, dims), out = tensorOf(y, dims);
  auto message = [&](Tensor input, Tensor output) {
    auto done = program->run({&input, 1}, {&output, 1});
    EXPECT_FALSE(done);
    EXPECT_EQ(done.error().code, MORTISE_INVALID_ARGUMENT);
    return done.error().message;
  };
  Tensor bad = in;
  bad.dtype = MORTISE_F64;
  EXPECT_EQ(message(bad, out),
            "input 0 'x0': expected f32[4, 3], found f64[4, 3]; convert it to f32, or compile again for f64");
  bad.dtype = 77;
  EXPECT_THAT(message(bad, out), HasSubstr("found ?[4, 3]"));
  const int64_t other[] = {3, 4, 1};
  bad = in;
  bad.dims = other;
  EXPECT_THAT(message(bad, out),
              AllOf(HasSubstr("expected f32[4, 3], found f32[3, 4]"), HasSubstr("compile again for this one")));
  bad.rank = 3;
  EXPECT_THAT(message(bad, out), HasSubstr("found f32[3, 4, 1]"));
  bad.rank = -2;
  EXPECT_THAT(message(bad, out), HasSubstr("rank -2"));
  bad = in;
  bad.dims = nullptr;
  EXPECT_THAT(message(bad, out), HasSubstr("without extents"));
  bad = in;
  bad.data = nullptr;
  EXPECT_THAT(message(bad, out), HasSubstr("expected 48 bytes of data, found NULL"));
  bad = out;
  const int64_t strides[] = {1, 4};
  bad.strides = strides;
  EXPECT_THAT(message(in, bad), AllOf(HasSubstr("output 0"), HasSubstr("pass a contiguous tensor")));
  EXPECT_THAT(message(in, in), AllOf(HasSubstr("output 0"), HasSubstr("overlap input 0")));
  EXPECT_THAT(program->run({}, {&out, 1}).error().message, HasSubstr("expected 1 inputs, found 0"));
  EXPECT_THAT(program->run({&in, 1}, {}).error().message, HasSubstr("expected 1 outputs, found 0"));
  EXPECT_TRUE(program->run({&in, 1}, {&out, 1})) << "errors leave the program as it was";
}

TEST_F(ProgramTest, ThreadsShareAProgramWhileItIsRebound) {
  auto program = load(plusWeight({1000}));
  const std::vector<int64_t> shape{1000};
  std::vector<float> first(1000, 1), second(1000, 2);
  const Tensor bindings[2][2] = {{{}, tensorOf(first, shape)}, {{}, tensorOf(second, shape)}};
  ASSERT_TRUE(program->bindConstants(bindings[0]));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number)
    threads.emplace_back([&, number] {
      std::vector<float> x(1000, static_cast<float>(number) * 10), y(1000);
      const Tensor inputs[] = {tensorOf(x, shape), {}}, out = tensorOf(y, shape);
      for (int i = 0; i < 500; ++i) {
        if (!program->run(inputs, {&out, 1}))
          ++wrong;
        for (float value : y)
          wrong += value != y[0];
        wrong += y[0] != x[0] + 1 && y[0] != x[0] + 2;
      }
    });
  for (int i = 0; i < 100; ++i)
    EXPECT_TRUE(program->bindConstants(bindings[i % 2]));
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(ProgramTest, StreamsAreWaitedForWhereDevicesMeet) {
  PlanMaker maker(dims);
  const uint32_t far = maker.addSpace("far");
  const uint32_t x = maker.input(), y = maker.output(), a = maker.arena(), b = maker.arena(), c = maker.arena(far),
                 d = maker.arena(far), e = maker.arena();
  maker.enqueue(maker.region({x}, {a}, "queued", "queued")); // x + 1, in a stream
  maker.enqueue(maker.region({a}, {b}));                     // + 1, synchronous
  maker.copy(b, c);                                          // to the device's own memory
  maker.enqueue(maker.region({c}, {d}, "far", "queued"));    // + 1
  maker.copy(d, e);
  maker.enqueue(maker.region({e}, {y}, "queued:0", "queued")); // + 1
  auto program = load(maker);
  for (int round = 0; round < 3; ++round) {
    std::vector<float> in(12, static_cast<float>(round)), out(12);
    const Tensor input = tensorOf(in, dims), output = tensorOf(out, dims);
    auto done = program->run({&input, 1}, {&output, 1});
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_THAT(out, Each(static_cast<float>(round) + 4));
  }
}

TEST_F(ProgramTest, AnOpPackComputesInTheMemoryOfAnotherPluginsDevice) {
  PlanMaker maker(dims);
  const uint32_t far = maker.addSpace("far");
  const uint32_t x = maker.input(), y = maker.output(), a = maker.arena(far), b = maker.arena(far),
                 c = maker.arena(far);
  maker.copy(x, a);
  maker.enqueue(maker.region({a}, {b}, "far", "queued")); // x + 1
  maker.enqueue(maker.region({b}, {c}, "far", "pack"));   // + 1, in a stream of its own
  maker.copy(c, y);
  auto program = load(maker);
  std::vector<float> in(12, 3), out(12);
  const Tensor input = tensorOf(in, dims), output = tensorOf(out, dims);
  auto done = program->run({&input, 1}, {&output, 1});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_THAT(out, Each(5));
}

TEST_F(ProgramTest, AFailedStreamIsReportedAndReset) {
  PlanMaker maker(dims);
  const uint32_t x = maker.input(), y = maker.output();
  maker.enqueue(maker.region({x}, {y}, "queued", "queued"));
  auto option = std::make_unique<plan::OptionT>();
  option->key = "fail";
  maker.plan->regions[0]->options.push_back(std::move(option));
  auto program = load(maker);
  std::vector<float> in(12), out(12);
  const Tensor input = tensorOf(in, dims), output = tensorOf(out, dims);
  for (int round = 0; round < 2; ++round) {
    auto done = program->run({&input, 1}, {&output, 1});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, MORTISE_DEVICE_LOST);
    EXPECT_THAT(done.error().message, AllOf(HasSubstr("device 'queued'"), HasSubstr("caught fire")))
        << "the stream was reset";
  }
}

TEST_F(ProgramTest, AFailedKernelNamesItsRegion) {
  PlanMaker maker = plusTwo(dims);
  auto option = std::make_unique<plan::OptionT>();
  option->key = "fail";
  maker.plan->regions[1]->options.push_back(std::move(option));
  auto program = load(maker);
  std::vector<float> in(12), out(12);
  const Tensor input = tensorOf(in, dims), output = tensorOf(out, dims);
  EXPECT_THAT(program->run({&input, 1}, {&output, 1}).error().message,
              HasSubstr("region 1 (fixture.sum on fixture): the device caught fire"));
}

class FaultyKernels : public ProgramTest {
protected:
  // What a run of y = x + 1 says with a fixture's kernels, at load or at the first call.
  std::string failure(const std::string &fixture) {
    Folder own;
    registry = loadFrom(own.add(fixture));
    EXPECT_TRUE(registry->rejected().empty());
    PlanMaker maker(dims);
    const uint32_t x = maker.input(), y = maker.output();
    maker.enqueue(maker.region({x}, {y}));
    auto program = Program::load(maker.plan, registry);
    if (!program)
      return program.error().message;
    std::vector<float> in(12), out(12);
    const Tensor input = tensorOf(in, dims), output = tensorOf(out, dims);
    const auto run = (*program)->run({&input, 1}, {&output, 1});
    EXPECT_FALSE(run);
    return run ? "" : run.error().message;
  }
};

TEST_F(FaultyKernels, StepsThatCannotBeReadAreErrors) {
  EXPECT_THAT(failure("garbage_step"),
              AllOf(HasSubstr("region 0 (fixture.sum on fixture)"), HasSubstr("expected a MortiseStep in place 0")));
  EXPECT_THAT(failure("garbage_step_name"), HasSubstr("step 0 to have a name and a lowering, found memory that"));
}

TEST_F(FaultyKernels, AWorkspaceThatIsTooLargeNamesPluginAndRegion) {
  EXPECT_THAT(failure("huge_workspace"),
              AllOf(HasSubstr("cannot allocate"),
                    HasSubstr("70368744177664 bytes are the workspace that plugin 'fixture' asks for in region 0")));
}

TEST_F(ProgramTest, PlansThatDoNotFitAreRefused) {
  PlanMaker unknown = plusTwo(dims);
  unknown.plan->regions[0]->device = "fixtuer";
  EXPECT_THAT(loadFailure(unknown), AllOf(HasSubstr("region 0"), HasSubstr("nearest is 'fixture'")));
  PlanMaker other = plusTwo(dims);
  other.plan->regions[0]->plugin = "gone";
  EXPECT_THAT(loadFailure(other), HasSubstr("expected plugin 'gone' to offer device 'fixture'"));
  PlanMaker corrupt = plusTwo(dims);
  corrupt.plan->regions[1]->graph.resize(20);
  EXPECT_THAT(loadFailure(corrupt), HasSubstr("region 1"));
  PlanMaker mistyped = plusTwo(dims);
  mistyped.plan->buffers[2]->type->dims = {3, 4};
  EXPECT_THAT(loadFailure(mistyped), HasSubstr("do not have the types"));
  PlanMaker misaligned = plusTwo(dims);
  misaligned.plan->buffers[2]->offset = 4;
  EXPECT_THAT(loadFailure(misaligned), HasSubstr("wants multiples of 64"));
  PlanMaker elsewhere(dims);
  const uint32_t x = elsewhere.input(), y = elsewhere.output();
  elsewhere.addSpace("far");
  elsewhere.enqueue(elsewhere.region({x}, {y}, "far", "queued"));
  EXPECT_THAT(loadFailure(elsewhere), HasSubstr("other memory than its device's"));
  EXPECT_FALSE(Program::load(nullptr, registry));
  EXPECT_FALSE(Program::load(plusTwo(dims).plan, nullptr));
}

TEST_F(ProgramTest, ProfilesItsSteps) {
  auto program = load(plusTwo(dims));
  std::vector<float> in(12), out(12);
  const Tensor input = tensorOf(in, dims), output = tensorOf(out, dims);
  ASSERT_TRUE(program->run({&input, 1}, {&output, 1}));
  ASSERT_TRUE(program->runProfiled({&input, 1}, {&output, 1}));
  ASSERT_TRUE(program->runProfiled({&input, 1}, {&output, 1}));
  auto report = program->report();
  ASSERT_EQ(report.size(), 2u);
  for (const RegionReport &region : report) {
    EXPECT_EQ(region.plugin, "fixture");
    EXPECT_EQ(region.predictedNs, 10);
    ASSERT_EQ(region.steps.size(), 1u);
    EXPECT_EQ(region.steps[0].lowering, "fixture.loop");
    EXPECT_EQ(region.steps[0].ns, 2000u);
  }
}

TEST_F(ProgramTest, AForkedChildGetsAnErrorNotAHang) {
  const std::vector<int64_t> large{1 << 16};
  auto program = load(plusTwo(large));
  std::vector<float> x(1 << 16, 5), y(1 << 16);
  const Tensor in = tensorOf(x, large), out = tensorOf(y, large);
  ASSERT_TRUE(program->run({&in, 1}, {&out, 1}));
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    auto done = program->run({&in, 1}, {&out, 1});
    const bool told =
        !done && done.error().code == MORTISE_UNSUPPORTED && done.error().message.find("'spawn'") != std::string::npos;
    _exit(told && !program->bindConstants({&in, 1}) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(program->run({&in, 1}, {&out, 1})) << "the parent goes on";
}

} // namespace
} // namespace mortise::runtime::test
