// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The runtime on devices with memory and queues of their own, which check what it does.
#include "strict.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mortise/graph.hpp>

#include <algorithm>

namespace mortise::test {
namespace {

using testing::HasSubstr;

struct Places {
  const char *devices;
  int split;
};
constexpr Places places[] = {{"strict:0", 1},
                             {"strict:0,cpu", 2},
                             {"strict:0,strict:1", 2},
                             {"strict:0,aloof:0", 2},
                             {"strict:0,strict:1,aloof:0", 3}};

std::string settings(uint64_t seed, int split, int delay) {
  return "seed=" + std::to_string(seed) + " split=" + std::to_string(split) + " delay_us=" + std::to_string(delay);
}

TEST(Strict, RandomGraphsAreRightOnEveryCombinationOfDevices) {
  for (uint64_t seed = 0; seed < 12; ++seed)
    for (const Places &place : places) {
      auto graph = randomGraph(seed, false);
      configureStrict(settings(seed, place.split, 100));
      EXPECT_EQ(runStrict(*graph, {.devices = place.devices, .rebinds = seed % 3 == 0}), "")
          << "seed " << seed << " on " << place.devices;
    }
}

TEST(Strict, SymbolicGraphsAreRight) {
  for (uint64_t seed = 0; seed < 6; ++seed)
    for (const Places &place : places) {
      auto graph = randomGraph(seed, true);
      configureStrict(settings(seed, place.split, 50));
      EXPECT_EQ(runStrict(*graph, {.devices = place.devices, .values = {{3}, {5}, {3}, {1}}}), "")
          << "seed " << seed << " on " << place.devices;
    }
}

// Tensors lie in the device's memory, and the calls return before their work has happened.
TEST(Strict, QueuedCallsAreRight) {
  for (uint64_t seed = 0; seed < 12; ++seed)
    for (const Places &place : places) {
      auto graph = randomGraph(seed, seed % 4 == 3);
      configureStrict(settings(seed, place.split, 100));
      const Runs runs{.devices = place.devices,
                      .values = seed % 4 == 3 ? std::vector<std::vector<int64_t>>{{3}, {5}}
                                              : std::vector<std::vector<int64_t>>{{}},
                      .count = 4,
                      .home = "strict:0"};
      EXPECT_EQ(runStrict(*graph, runs), "") << "seed " << seed << " on " << place.devices;
      // A constant that is returned is copied from the host in every call.
      const MortiseGraph &view = graph->view();
      const bool returnsConstant = std::any_of(view.outputs, view.outputs + view.output_count, [](const auto *value) {
        return (value->flags & MORTISE_VALUE_CONSTANT) != 0;
      });
      if (place.split == 1 && !returnsConstant)
        EXPECT_EQ(copiedByQueuedRuns(), 0u) << "all stays on the device, seed " << seed;
    }
}

#ifdef MORTISE_THREAD_SANITIZED
constexpr bool underThreadSanitizer = true;
#else
constexpr bool underThreadSanitizer = false;
#endif

TEST(Strict, WeightsAreSwappedBesideQueuedCalls) {
  configureStrict("delay_us=200");
  EXPECT_EQ(rebindBesideQueuedCalls(3, 60), "");
}

// Every wait, and every mark, is needed: without it the checker finds a race, or an output is wrong. What the cpu
// plugin reads the checker does not see, so there the wait is left out for real, and work is held back for long.
TEST(Strict, EveryWaitIsNeeded) {
  size_t planted = 0, caught = 0;
  for (uint64_t seed = 0; seed < 2; ++seed)
    for (const char *home : {"", "strict:0"})
      for (const Places &place : places) {
        const bool withCpu = std::string(place.devices).ends_with("cpu"), queued = *home != 0;
        if (queued && withCpu)
          continue; // a wait left out for real would let work write to memory that is gone
        if (withCpu && underThreadSanitizer)
          continue; // it would report the race that is planted
        auto graph = randomGraph(seed, false);
        const std::string how = settings(seed, place.split, withCpu ? 2000 : 200);
        const Runs runs{.devices = place.devices, .home = home};
        configureStrict(how);
        ASSERT_EQ(runStrict(*graph, runs), "");
        const nlohmann::json calls = strictReport()["calls"];
        for (const std::string slot : {"event_wait", "event_record", "event_synchronize", "event_query", "stream_wait"})
          for (uint64_t n = 1; n <= calls.value(slot, uint64_t{0}); ++n) {
            if (queued && slot == "stream_wait")
              continue; // the test's own
            const char *kind = withCpu || slot == "event_query" ? " drop=" : " hide=";
            configureStrict(how + kind + slot + ":" + std::to_string(n));
            const bool found = !runStrict(*graph, runs).empty();
            ++planted;
            caught += found;
            // The begin of a queued call holds other streams back for the sake of a context that may still be in
            // flight; where it was idle, that wait does nothing.
            if (!queued || slot != "event_wait")
              EXPECT_TRUE(found) << slot << " " << n << " of seed " << seed << " on " << place.devices << ", home '"
                                 << home << "'";
          }
      }
  EXPECT_GE(planted, 15u);
  EXPECT_GE(10 * caught, 9 * planted);
}

TEST(Strict, EveryFailureIsAStatusThatNamesThePlugin) {
  auto graph = randomGraph(1, false);
  const std::string how = settings(1, 2, 20);
  configureStrict(how);
  ASSERT_EQ(runStrict(*graph, {.devices = "strict:0,strict:1"}), "");
  const nlohmann::json calls = strictReport()["calls"];
  for (const auto &[slot, count] : calls.items())
    for (uint64_t n = 1; n <= count.get<uint64_t>(); ++n) {
      if (slot == "peer")
        continue; // asked at compile time; a failure means that values pass through the host
      configureStrict(how + " fail=" + slot + ":" + std::to_string(n) + ":" + std::to_string(MORTISE_OUT_OF_MEMORY));
      const std::string problem = runStrict(*graph, {.devices = "strict:0,strict:1"});
      if (slot.ends_with("_destroy") || slot == "memory_free")
        EXPECT_EQ(problem, "") << slot << ": what ends is only logged";
      else
        EXPECT_THAT(problem, testing::AllOf(HasSubstr("strict"), HasSubstr("injected into call"), HasSubstr(slot)))
            << slot << " " << n;
      EXPECT_THAT(problem, testing::Not(HasSubstr("leaked"))) << slot << " " << n;
    }
}

} // namespace
} // namespace mortise::test
