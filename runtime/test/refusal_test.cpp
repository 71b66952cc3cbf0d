// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Programs whose plugin refuses a region, and what places them again: here a function that writes another plan.
#include "fixtures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <list>
#include <thread>

namespace mortise::runtime::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

class Refusal : public testing::Test {
protected:
  // y = x + w. `refuses`: whether the plugin refuses to bind constants: "always", "negative" (weights), or "".
  PlanMaker sum(const std::string &refuses, std::vector<int64_t> shape) {
    PlanMaker maker(std::move(shape));
    const uint32_t x = maker.input(), w = maker.input(true), y = maker.output();
    maker.enqueue(maker.region({x, w}, {y}));
    if (!refuses.empty()) {
      auto option = std::make_unique<plan::OptionT>();
      option->key = "refuse";
      option->value = refuses;
      maker.plan->regions[0]->options.push_back(std::move(option));
    }
    return maker;
  }
  std::shared_ptr<Program> load(const PlanMaker &maker) {
    auto program = Program::load(maker.plan, registry);
    EXPECT_TRUE(program) << (program ? "" : program.error().message);
    return program ? *program : nullptr;
  }
  // Places `program` again as `makers`, one after the other, and then in vain.
  void placeAgain(Program &program, std::vector<PlanMaker> makers) {
    program.setPlaceAgain([this, left = std::move(makers)](const plan::PlanT &, const RefusedRegion &refused,
                                                           std::vector<Uncovered> &uncovered) mutable {
      reasons.push_back(refused.reason);
      if (left.empty()) {
        uncovered.push_back({.node = 3, .op = "mortise.add", .location = {}, .device = {}, .plugin = {}, .detail = {}});
        return Result<std::shared_ptr<Program>>(Error{MORTISE_UNSUPPORTED, "nobody adds"});
      }
      auto made = Program::load(left.front().plan, registry);
      left.erase(left.begin());
      return made;
    });
  }
  Result<void> bind(Program &program, float weight) {
    weights.emplace_back(12, weight);
    const Tensor inputs[] = {{}, tensorOf(weights.back(), dims)};
    return program.bindConstants(inputs);
  }
  // For x = 1.
  Result<void> run(Program &program) {
    const std::vector<float> x(12, 1);
    const Tensor inputs[] = {tensorOf(x, dims), {}}, output = tensorOf(y, dims);
    return program.run(inputs, {&output, 1});
  }

  Folder folder;
  const std::string library = folder.add("good");
  std::shared_ptr<Registry> registry = loadFrom(library);
  const std::vector<int64_t> dims{4, 3};
  std::list<std::vector<float>> weights; // constants stay where they were bound
  std::vector<float> y = std::vector<float>(12);
  std::vector<std::string> reasons;
};

TEST_F(Refusal, WithoutAGraphIsAnErrorThatSaysWhy) {
  auto program = load(sum("always", dims));
  const auto refused = bind(*program, 10);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, MORTISE_UNSUPPORTED);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("region 0 (fixture.sum on fixture): expected room for weights"),
                    HasSubstr("a plan without its graph"), HasSubstr("compile the graph again")));
}

TEST_F(Refusal, IsPlacedAgainUntilItBinds) {
  auto program = load(sum("always", dims));
  placeAgain(*program, {sum("always", dims), sum("always", dims), sum("", dims)});
  const plan::PlanT &first = program->plan();
  ASSERT_TRUE(bind(*program, 10));
  EXPECT_EQ(reasons.size(), 3u);
  EXPECT_THAT(reasons, Each("expected room for weights"));
  ASSERT_TRUE(run(*program));
  EXPECT_THAT(y, Each(11.0f));
  EXPECT_TRUE(program->plan().regions[0]->options.empty());
  EXPECT_EQ(first.regions[0]->options.size(), 1u) << "the first plan stays valid";
}

TEST_F(Refusal, InVainLeavesWhatWasBound) {
  auto program = load(sum("negative", dims));
  placeAgain(*program, {sum("negative", dims)});
  ASSERT_TRUE(bind(*program, 10));
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto refused = bind(*program, -1);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, AllOf(HasSubstr("expected room for weights"), HasSubstr("nobody adds")));
    ASSERT_EQ(program->uncovered().size(), 1u);
    EXPECT_EQ(program->uncovered()[0].node, 3u);
    ASSERT_TRUE(run(*program));
    EXPECT_THAT(y, Each(11.0f));
  }
  placeAgain(*program, {sum("", dims)});
  ASSERT_TRUE(bind(*program, -1));
  EXPECT_TRUE(program->uncovered().empty());
  ASSERT_TRUE(run(*program));
  EXPECT_THAT(y, Each(0.0f));
}

TEST_F(Refusal, AnotherSignatureIsAnError) {
  auto program = load(sum("always", dims));
  placeAgain(*program, {sum("", {12})});
  const auto refused = bind(*program, 10);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, MORTISE_INTERNAL);
  EXPECT_THAT(refused.error().message, HasSubstr("takes other inputs"));
}

TEST_F(Refusal, CallsGoOnBesideBindingsThatAreRefused) {
  auto program = load(sum("negative", dims));
  ASSERT_TRUE(bind(*program, 10));
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      const std::vector<float> x(12, 1);
      std::vector<float> mine(12);
      const Tensor inputs[] = {tensorOf(x, dims), {}}, output = tensorOf(mine, dims);
      while (!stop)
        wrong += !program->run(inputs, {&output, 1}) || mine[0] != mine[11];
    });
  for (int round = 0; round < 50; ++round) {
    placeAgain(*program, {sum("negative", dims), sum("", dims), sum("negative", dims)});
    EXPECT_TRUE(bind(*program, -static_cast<float>(round)));
    EXPECT_TRUE(bind(*program, 10));
    while (weights.size() > 1)
      weights.pop_front(); // no call may read them any more
  }
  stop = true;
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

#ifndef MORTISE_SANITIZED // a sanitizer ends the worker in its own way

// y = w + w, after w was copied over the donated x.
PlanMaker overwrites(const std::vector<int64_t> &dims, const std::string &plugin, const std::string &device) {
  PlanMaker maker(dims);
  const uint32_t x = maker.donated(), w = maker.input(), y = maker.output();
  maker.copy(w, x);
  maker.enqueue(maker.region({x, w}, {y}, device, plugin));
  return maker;
}

// y = (x + w) + w, where the first region, of `twins`, may overwrite the donated x.
PlanMaker mayOverwrite(const std::vector<int64_t> &dims, bool mayOverwrite) {
  PlanMaker maker(dims);
  const uint32_t x = maker.donated(), w = maker.input(), y = maker.output(), a = maker.arena();
  maker.enqueue(maker.regionThatMayOverwrite({mayOverwrite, false}, {x, w}, {a}));
  maker.plan->regions[0]->plugin = "twins";
  maker.plan->regions[0]->device = "twins:0";
  maker.enqueue(maker.region({a, w}, {y}));
  return maker;
}

TEST_F(Refusal, ADonatedInputIsTakenAgainWhereACopyWasOverwritten) {
  setenv("MORTISE_TEST_CRASH", "enqueue abort", 1);
  setenv("MORTISE_ISOLATE", "fixture", 1);
  setenv("MORTISE_LOG_LEVEL", "off", 1);
  const int64_t columns[] = {1, 4};
  for (const int64_t *strides : {static_cast<const int64_t *>(nullptr), columns}) {
    Folder own; // a process starts only some workers for each file
    const std::string crashes = own.add("crashes"), twins = own.add("twins", Folder::manifestFor("twins"));
    registry = loadFrom(crashes + ":" + twins);
    ASSERT_TRUE(registry->rejected().empty()) << registry->rejected()[0].error.message;
    auto program = load(overwrites(dims, "fixture", "fixture"));
    ASSERT_TRUE(program);
    placeAgain(*program, {overwrites(dims, "twins", "twins:0")});
    alignas(64) float x[12];
    std::ranges::fill(x, 1.0f);
    std::vector<float> w(12, 10);
    const Tensor inputs[] = {{x, MORTISE_F32, 2, dims.data(), strides}, tensorOf(w, dims)};
    const Tensor output = tensorOf(y, dims);
    const auto done = program->run(inputs, {&output, 1});
    if (!strides) {
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().code, MORTISE_DEVICE_LOST);
      ASSERT_TRUE(program->run(inputs, {&output, 1})); // the next call does without the kernel
    } else {
      ASSERT_TRUE(done) << done.error().message;
      EXPECT_THAT(x, Each(1.0f));
    }
    EXPECT_THAT(y, Each(20.0f));
    EXPECT_THAT(reasons, Each(HasSubstr("was ended by SIGABRT in enqueue")));
  }
  for (const char *variable : {"MORTISE_TEST_CRASH", "MORTISE_ISOLATE", "MORTISE_LOG_LEVEL"})
    unsetenv(variable);
}

TEST_F(Refusal, ACallIsNotRepeatedWhereARegionMayHaveOverwrittenADonatedInput) {
  setenv("MORTISE_TEST_CRASH", "enqueue abort", 1);
  setenv("MORTISE_ISOLATE", "fixture", 1);
  setenv("MORTISE_LOG_LEVEL", "off", 1);
  for (const bool overwritten : {true, false}) {
    Folder own;
    const std::string crashes = own.add("crashes"), twins = own.add("twins", Folder::manifestFor("twins"));
    registry = loadFrom(crashes + ":" + twins);
    ASSERT_TRUE(registry->rejected().empty()) << registry->rejected()[0].error.message;
    auto program = load(mayOverwrite(dims, overwritten));
    ASSERT_TRUE(program);
    placeAgain(*program, {overwrites(dims, "twins", "twins:0")});
    alignas(64) float x[12];
    std::ranges::fill(x, 1.0f);
    std::vector<float> w(12, 10);
    const Tensor inputs[] = {{x, MORTISE_F32, 2, dims.data(), nullptr}, tensorOf(w, dims)}, output = tensorOf(y, dims);
    const auto done = program->run(inputs, {&output, 1});
    EXPECT_EQ(bool(done), !overwritten);
    if (!done)
      EXPECT_EQ(done.error().code, MORTISE_DEVICE_LOST) << done.error().message;
  }
  for (const char *variable : {"MORTISE_TEST_CRASH", "MORTISE_ISOLATE", "MORTISE_LOG_LEVEL"})
    unsetenv(variable);
}

#endif

} // namespace
} // namespace mortise::runtime::test
