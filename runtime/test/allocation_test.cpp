// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The steady state allocates nothing. Functions that count replace malloc and related functions in the whole process,
// plugins and the C++ library included.
#include "fixtures.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cerrno>
#include <cstdlib>
#include <thread>

#ifndef MORTISE_SANITIZED
namespace {
std::atomic<uint64_t> allocations{0};
}

extern "C" {
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

#define COUNTED __attribute__((visibility("default")))
COUNTED void *malloc(size_t bytes) {
  ++allocations;
  return __libc_malloc(bytes);
}
COUNTED void *calloc(size_t count, size_t bytes) {
  ++allocations;
  return __libc_calloc(count, bytes);
}
COUNTED void *realloc(void *memory, size_t bytes) {
  ++allocations;
  return __libc_realloc(memory, bytes);
}
COUNTED void *aligned_alloc(size_t alignment, size_t bytes) {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}
COUNTED int posix_memalign(void **memory, size_t alignment, size_t bytes) {
  ++allocations;
  *memory = __libc_memalign(alignment, bytes);
  return *memory ? 0 : ENOMEM;
}
}

namespace mortise::runtime::test {
namespace {

class AllocationTest : public testing::Test {
protected:
  void SetUp() override {
    folder.add("good");
    folder.add("queued", Folder::manifestFor("queued", "\"queued\", \"far\""));
    registry = loadFrom(folder.path());
  }
  // x + w on two devices, through arenas, with the thread pool in use.
  std::shared_ptr<Program> make() {
    PlanMaker maker(dims);
    const uint32_t x = maker.input(), w = maker.input(true), y = maker.output(), between = maker.arena();
    maker.enqueue(maker.region({x, w}, {between}));
    maker.enqueue(maker.region({between, w}, {y}, "queued", "queued"));
    auto program = Program::load(maker.plan, registry);
    EXPECT_TRUE(program) << (program ? "" : program.error().message);
    const Tensor bound[] = {{}, tensorOf(weight, dims)};
    EXPECT_TRUE((*program)->bindConstants(bound));
    return *program;
  }

  Folder folder;
  std::shared_ptr<Registry> registry;
  const std::vector<int64_t> dims{200, 100};
  std::vector<float> weight = std::vector<float>(20000, 3);
};

TEST_F(AllocationTest, CounterCounts) {
  const uint64_t before = allocations;
  void *volatile kept = ::operator new(100); // volatile, because the compiler would remove both calls otherwise
  const uint64_t after = allocations;
  ::operator delete(kept);
  EXPECT_GT(after, before);
}

TEST_F(AllocationTest, NoneInTheSteadyState) {
  auto program = make();
  std::vector<float> x(20000, 1), y(20000);
  const int64_t strides[] = {1, 200};
  Tensor strided = tensorOf(x, dims);
  strided.strides = strides;
  const Tensor inputs[] = {tensorOf(x, dims), {}}, transposed[] = {strided, {}}, out = tensorOf(y, dims);
  const void *inputPointers[] = {x.data(), nullptr};
  void *outputPointers[] = {y.data()};
  bool good = program->run(inputs, {&out, 1}) && program->run(transposed, {&out, 1});
  const uint64_t before = allocations;
  for (int i = 0; i < 100; ++i) {
    good &= bool(program->run(inputs, {&out, 1}));
    good &= bool(program->run(transposed, {&out, 1}));
    good &= bool(program->runPointers(inputPointers, outputPointers));
  }
  EXPECT_EQ(allocations - before, 0u);
  EXPECT_TRUE(good);
  EXPECT_EQ(y[0], 7);
}

TEST_F(AllocationTest, NoneForKnownShapes) {
  Folder plugins;
  plugins.add("instances");
  auto with = loadFrom(plugins.path());
  PlanMaker maker({Dim::symbol(0), Dim::symbol(1)}, {{"b", {1, 64, 1}}, {"s", {2, 512, 1}}});
  const uint32_t in = maker.input(), out = maker.output(), between = maker.arena();
  maker.enqueue(maker.region({in}, {between}));
  maker.enqueue(maker.region({between}, {out}));
  auto program = Program::load(maker.plan, with);
  ASSERT_TRUE(program) << program.error().message;
  std::vector<float> x(20000, 1), y(20000);
  uint64_t before = 0;
  bool good = true;
  for (int round = 0; round < 5; ++round) {
    if (round == 1)
      before = allocations;
    for (int64_t rows : {1, 9, 2, 30})
      for (int64_t columns : {2, 500, 3, 64, 7}) {
        const int64_t extents[] = {rows, columns}, strides[] = {1, rows};
        Tensor source{x.data(), MORTISE_F32, 2, extents, nullptr}, target{y.data(), MORTISE_F32, 2, extents, nullptr};
        const void *inputPointers[] = {x.data()};
        void *outputPointers[] = {y.data()};
        good &= bool((*program)->run({&source, 1}, {&target, 1}));
        source.strides = strides;
        good &= bool((*program)->run({&source, 1}, {&target, 1}));
        good &= bool((*program)->runPointers(inputPointers, outputPointers, extents));
        int64_t values[2];
        good &= bool((*program)->symbolValues({&source, 1}, values));
      }
  }
  EXPECT_EQ(allocations - before, 0u);
  EXPECT_TRUE(good);
  EXPECT_EQ(y[0], 3);
  EXPECT_EQ((*program)->valuesReport().met, 20u);
}

TEST_F(AllocationTest, NoneInTwoThreads) {
  auto program = make();
  constexpr int rounds = 5;
  std::barrier<> meet(3);
  std::atomic<int> bad{0};
  auto work = [&] {
    std::vector<float> x(20000, 1), y(20000);
    const void *inputs[] = {x.data(), nullptr};
    void *outputs[] = {y.data()};
    for (int round = 0; round < rounds; ++round) {
      meet.arrive_and_wait();
      for (int i = 0; i < 200; ++i)
        bad += !program->runPointers(inputs, outputs);
      meet.arrive_and_wait();
    }
    meet.arrive_and_wait(); // ending a thread allocates, so it waits until main has read the counter
  };
  std::thread first(work), second(work);
  uint64_t last = 0;
  for (int round = 0; round < rounds; ++round) {
    const uint64_t before = allocations;
    meet.arrive_and_wait();
    meet.arrive_and_wait();
    // Earlier rounds allocate the threads' pools, and a second context when two calls first overlap.
    last = allocations - before;
  }
  meet.arrive_and_wait();
  first.join();
  second.join();
  EXPECT_EQ(bad, 0);
  EXPECT_EQ(last, 0u);
}

} // namespace
} // namespace mortise::runtime::test
#endif
