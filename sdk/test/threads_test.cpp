// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/threads.hpp>

#include <gtest/gtest.h>

#include <barrier>
#include <mutex>
#include <set>

namespace {

TEST(Threads, AllWorkAtOnceAndTheCallerIsOneOfThem) {
  constexpr std::ptrdiff_t count = 4;
  std::barrier meeting(count); // nobody passes before all are there
  std::mutex mutex;
  std::set<std::thread::id> seen;
  mortise::inThreads(count, [&] {
    meeting.arrive_and_wait();
    std::lock_guard lock(mutex);
    seen.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(seen.size(), size_t{count});
  EXPECT_TRUE(seen.contains(std::this_thread::get_id()));
}

TEST(Threads, OneThreadIsTheCallers) {
  for (const size_t threads : {0, 1}) {
    int calls = 0;
    mortise::inThreads(threads, [&, caller = std::this_thread::get_id()] {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      ++calls;
    });
    EXPECT_EQ(calls, 1);
  }
}

TEST(Threads, CompilationHasAtLeastOneAndNotTooMany) {
  EXPECT_GE(mortise::compileThreads(), 1U);
  EXPECT_LE(mortise::compileThreads(), 16U);
}

} // namespace
