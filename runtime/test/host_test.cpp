// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "host.hpp"
#include <mortise/runtime/call.hpp>
#include <mortise/runtime/guard.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cfenv>
#include <stdexcept>
#include <sys/mman.h>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mortise::runtime {
namespace {

using testing::HasSubstr;

TEST(Host, StatusesCarryCodeAndMessage) {
  const MortiseHost &table = host();
  MortiseStatus *status = table.status_create(MORTISE_CANCELLED, "stopped");
  EXPECT_EQ(table.status_code(status), MORTISE_CANCELLED);
  EXPECT_STREQ(table.status_message(status), "stopped");
  table.status_destroy(status);
  EXPECT_EQ(table.status_code(nullptr), MORTISE_OK);
  EXPECT_STREQ(table.status_message(nullptr), "");
  table.status_destroy(nullptr);
  status = table.status_create(MORTISE_INTERNAL, nullptr);
  EXPECT_STREQ(table.status_message(status), "");
  table.status_destroy(status);
}

TEST(Host, TakeTurnsStatusesIntoErrors) {
  EXPECT_TRUE(take(nullptr));
  auto taken = take(host().status_create(MORTISE_UNSUPPORTED, "no"));
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, MORTISE_UNSUPPORTED);
  EXPECT_EQ(taken.error().message, "no");
  for (int32_t code : {0, -3, 1000})
    EXPECT_EQ(take(host().status_create(code, "odd")).error().code, MORTISE_INTERNAL);
  alignas(16) char garbage[64] = {};
  EXPECT_THAT(take(reinterpret_cast<MortiseStatus *>(garbage)).error().message,
              HasSubstr("status_create did not make"));
  EXPECT_THAT(take(reinterpret_cast<MortiseStatus *>(uintptr_t{0x10})).error().message,
              HasSubstr("status_create did not make"));
}

TEST(Host, CallContainsExceptions) {
  MortiseDevicesArgs args{};
  EXPECT_THAT(call<MortiseDevicesArgs>(
                  "devices", [](MortiseDevicesArgs *) -> MortiseStatus * { throw std::runtime_error("boo"); }, args)
                  .error()
                  .message,
              HasSubstr("threw 'boo' from devices"));
  EXPECT_THAT(call<MortiseDevicesArgs>(
                  "devices", [](MortiseDevicesArgs *) -> MortiseStatus * { throw 1; }, args)
                  .error()
                  .message,
              HasSubstr("something unknown"));
}

#if defined(__x86_64__)
constexpr uint32_t flushing = 0x8040; // subnormals to zero, in and out
void flush() { _mm_setcsr(_mm_getcsr() | flushing); }

TEST(Host, APluginDoesNotChangeFloatingPoint) {
  MortiseDevicesArgs args{};
  EXPECT_TRUE(call<MortiseDevicesArgs>(
      "devices",
      [](MortiseDevicesArgs *) -> MortiseStatus * {
        flush();
        std::fesetround(FE_UPWARD);
        return nullptr;
      },
      args));
  EXPECT_EQ(_mm_getcsr() & flushing, 0u);
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  host().parallel_for(1000, 1, [](void *, int64_t, int64_t) { flush(); }, nullptr);
  std::atomic<uint32_t> found = 0;
  host().parallel_for(
      1000, 1,
      [](void *all, int64_t, int64_t) { *static_cast<std::atomic<uint32_t> *>(all) |= _mm_getcsr() & flushing; },
      &found);
  EXPECT_EQ(found, 0u);
}
#endif

TEST(Host, TextOfPluginsIsLegible) {
  EXPECT_EQ(legible("f\xc3\xbcr n\tm\n"), "f\xc3\xbcr n\tm\n");
  EXPECT_EQ(legible("\x1b[31mred\x07\x7f"), "\\x1b[31mred\\x07\\x7f");
  EXPECT_EQ(legible("a\xff\xfe"
                    "b"),
            "a\xef\xbf\xbd\xef\xbf\xbd"
            "b");
  EXPECT_EQ(legible("\xc2\x9b"
                    "1m \xc2\xa0"),
            "\\u009b1m \xc2\xa0");
  const std::string shown = legible(std::string(20 << 20, 'x'));
  EXPECT_LT(shown.size(), 5000u);
  EXPECT_THAT(shown, HasSubstr("(20967424 more bytes)"));
  // A character that the limit divides is no UTF-8 any more.
  EXPECT_THAT(legible(std::string(4095, 'x') + "\xc3\xbc"), HasSubstr("x\xef\xbf\xbd ... (1 more bytes)"));
  EXPECT_EQ(take(host().status_create(MORTISE_UNSUPPORTED, "\xff\x1b")).error().message, "\xef\xbf\xbd\\x1b");
}

struct Coverage {
  std::vector<std::atomic<int>> seen;
  std::atomic<int64_t> ranges{0}, shortest{INT64_MAX};
};
void cover(void *context, int64_t begin, int64_t end) {
  auto &coverage = *static_cast<Coverage *>(context);
  ++coverage.ranges;
  int64_t shortest = coverage.shortest;
  while (end - begin < shortest && !coverage.shortest.compare_exchange_weak(shortest, end - begin))
    ;
  for (int64_t i = begin; i < end; ++i)
    ++coverage.seen[static_cast<size_t>(i)];
}

TEST(Host, ParallelForVisitsEachTaskOnceInRangesOfTheGrain) {
  for (int64_t count : {0, 1, 2, 7, 64, 1000, 100003})
    for (int64_t grain : {0, 1, 3, 1000, 200000}) {
      Coverage coverage{std::vector<std::atomic<int>>(static_cast<size_t>(count))};
      host().parallel_for(count, grain, cover, &coverage);
      for (const auto &seen : coverage.seen)
        ASSERT_EQ(seen, 1);
      EXPECT_LE(coverage.ranges, host().thread_count());
      if (count)
        EXPECT_GE(coverage.shortest, std::min(count, std::max<int64_t>(grain, 1)));
    }
}

TEST(Host, NestedParallelForRunsOnTheCallingThread) {
  static std::atomic<int> mostRanges{0};
  host().parallel_for(
      8, 1,
      [](void *, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          static thread_local int inner;
          inner = 0;
          host().parallel_for(1000, 1, [](void *, int64_t, int64_t) { ++inner; }, nullptr);
          int most = mostRanges;
          while (inner > most && !mostRanges.compare_exchange_weak(most, inner))
            ;
        }
      },
      nullptr);
  if (host().thread_count() > 1)
    EXPECT_EQ(mostRanges, 1);
}

TEST(Host, GraphBytesWantsTheHostsOwnGraph) {
  MortiseGraph graph{.struct_size = sizeof(MortiseGraph), .name = ""};
  const void *bytes;
  size_t size;
  EXPECT_THAT(take(host().graph_bytes(&graph, &bytes, &size)).error().message,
              HasSubstr("expected a graph that the host made"));
  EXPECT_FALSE(take(host().graph_bytes(nullptr, &bytes, &size)));
}

TEST(Host, CancelledFollowsItsScope) {
  std::atomic<bool> stop{false};
  EXPECT_EQ(host().cancelled(), 0);
  {
    CancelScope scope(stop);
    EXPECT_EQ(host().cancelled(), 0);
    stop = true;
    EXPECT_EQ(host().cancelled(), 1);
  }
  EXPECT_EQ(host().cancelled(), 0);
}

TEST(Guard, TellsReadableMemoryFromOther) {
  auto *pages = static_cast<char *>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(mprotect(pages + 4096, 4096, PROT_NONE), 0);
  EXPECT_TRUE(isReadable(pages, 4096));
  EXPECT_FALSE(isReadable(pages, 4097));
  EXPECT_FALSE(isReadable(pages + 4096, 1));
  EXPECT_FALSE(isReadable(nullptr, 1));
  EXPECT_FALSE(isReadable(reinterpret_cast<void *>(UINTPTR_MAX - 3), 100));
  std::copy_n("end", 4, pages + 4092);
  EXPECT_EQ(readString(pages + 4092), "end");
  pages[4095] = 'x';
  EXPECT_EQ(readString(pages + 4092), std::nullopt) << "runs into memory that is not there";
  munmap(pages, 8192);
}

} // namespace
} // namespace mortise::runtime
