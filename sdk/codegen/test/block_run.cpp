// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "block_run.hpp"

#include <mortise/conformance/error_bounds.hpp>
#include <mortise/reference/formats.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace mortise::codegen::test {

// ---- Threads

BlockRun &BlockRun::running() {
  static BlockRun instance;
  return instance;
}

void BlockRun::run(unsigned threads, unsigned blocks, Body body, void *argument) {
  this->body = body, this->argument = argument, count = threads * blocks, blockThreads = threads;
  fibers.resize(std::max<size_t>(fibers.size(), count));
  passed.assign(count, 0), passedNear.assign(count, 0), passedWhole.assign(count, 0);
  ended.assign(count, false);
  whole = {count, 0, count};
  this->blocks.assign(blocks, {threads, 0, threads});
  subgroups.clear();
  copies.clear();
  for (unsigned first = 0; first < count; first += subgroup) {
    const unsigned size = std::min(subgroup, count - first);
    subgroups.push_back({size, 0, size});
  }
  for (unsigned i = 0; i < count; ++i) {
    Fiber &fiber = fibers[i];
    if (!fiber.stack)
      fiber.stack = std::make_unique_for_overwrite<char[]>(stackBytes);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = stackBytes;
    fiber.context.uc_link = &scheduler;
    makecontext(&fiber.context, &BlockRun::start, 0);
  }
  for (unsigned left = count; left > 0;) {
    bool moved = false;
    const unsigned first = static_cast<unsigned>(random() % count);
    for (unsigned i = 0; i < count; ++i) {
      thread = (first + i * stride(count)) % count;
      if (ended[thread] || isHeld(thread))
        continue;
      moved = true;
      swapcontext(&scheduler, &fibers[thread].context);
      left -= ended[thread];
    }
    if (!moved) { // what a GPU would answer with a hang
      std::fprintf(stderr, "emulated kernel: a barrier that not all threads reach\n");
      std::abort();
    }
  }
}

void BlockRun::start() {
  BlockRun &run = running();
  const unsigned me = run.thread;
  run.body(run.argument);
  run.thread = me;
  run.end(me);
}

// Others do not wait for it any more.
void BlockRun::end(unsigned which) {
  ended[which] = true;
  for (Meeting *meeting : {&whole, &ofBlock(which), &near(which)}) {
    --meeting->live;
    meeting->leave();
  }
}

void BlockRun::wait(std::vector<unsigned> &places, Meeting &meeting) {
  const unsigned me = thread;
  ++places[me];
  meeting.leave();
  swapcontext(&fibers[me].context, &scheduler);
  thread = me;
}

uint32_t BlockRun::exchange(uint32_t bits, uint32_t mask) {
  const unsigned me = thread;
  values.resize(std::max<size_t>(values.size(), count));
  values[me] = bits;
  wait(passedNear, near(me));
  const uint32_t other = values[me ^ mask];
  wait(passedNear, near(me));
  return other;
}

namespace {
float halfOf(int32_t dtype, uint16_t bits) {
  return dtype == MORTISE_BF16 ? static_cast<float>(reference::BF16::load(bits))
                               : static_cast<float>(reference::F16::load(bits));
}
float roundedDown(double sum) { // towards 0
  auto result = static_cast<float>(sum);
  if (std::isfinite(sum) && std::abs(static_cast<double>(result)) > std::abs(sum))
    result = std::nextafter(result, 0.0F);
  return result;
}
} // namespace

void BlockRun::multiply(int32_t dtype, const Fragments &mine, float *results) {
  const unsigned me = thread, first = me / 32 * 32, group = me % 32 / 4, pair = me % 4;
  // Two sets by turns, so that one wait suffices: nobody writes a set before all have read it.
  std::vector<Fragments> &set = fragments[passedNear[me] % 2];
  set.resize(std::max<size_t>(set.size(), count));
  set[me] = mine;
  wait(passedNear, near(me));
  const auto half = [&](uint32_t word, unsigned which) {
    return halfOf(dtype, static_cast<uint16_t>(which ? word >> 16 : word));
  };
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = group + i / 2 * 8, column = pair * 2 + i % 2;
    double sum = mine.sums[i];
    for (unsigned term = 0; term < 16; ++term) {
      const unsigned owner = term % 8 / 2, word = term / 8;
      const float lhs = half(set[first + row % 8 * 4 + owner].lhs[word * 2 + row / 8], term % 2);
      const float rhs = half(set[first + column * 4 + owner].rhs[word], term % 2);
      sum += lhs * rhs;
    }
    results[i] = roundedDown(sum);
  }
}

void BlockRun::multiply(const Lines &lines, const LineFragments &mine, float *results) {
  const unsigned me = thread, first = me / subgroup * subgroup, part = me % subgroup / 16, column = me % 16;
  std::vector<LineFragments> &set = lineFragments[passedNear[me] % 2]; // by turns, like fragments
  set.resize(std::max<size_t>(set.size(), count));
  set[me] = mine;
  wait(passedNear, near(me));
  for (unsigned i = 0; i < lines.results; ++i) {
    const unsigned row = lines.apart == 1 ? part * lines.results + i : part + i * lines.apart;
    double sum = mine.sums[i];
    for (unsigned term = 0; term < lines.terms; ++term) {
      // Where all threads of a line have all of its terms, each half of a wave takes its own.
      const unsigned owner = first + (lines.piece ? term / lines.piece : part) * 16, number = term % lines.factors();
      const auto dtype = static_cast<int32_t>(lines.dtype);
      sum += halfOf(dtype, set[owner + row].lhs[number]) * halfOf(dtype, set[owner + column].rhs[number]);
    }
    results[i] = roundedDown(sum);
  }
}

void BlockRun::readMatrices(const std::byte *row, bool transposed, uint32_t *words) {
  const unsigned me = thread, first = me / 32 * 32, group = me % 32 / 4, pair = me % 4;
  std::vector<const std::byte *> &set = matrixRows[passedNear[me] % 2]; // by turns, like fragments
  set.resize(std::max<size_t>(set.size(), count));
  set[me] = row;
  wait(passedNear, near(me));
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    uint16_t halves[2];
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned line = transposed ? pair * 2 + i : group, column = transposed ? group : pair * 2 + i;
      std::memcpy(&halves[i], set[first + matrix * 8 + line] + size_t(column) * 2, 2);
    }
    words[matrix] = halves[0] | uint32_t{halves[1]} << 16;
  }
}

void BlockRun::awaitCopies() {
  for (const auto &[to, from] : copies[thread])
    std::memcpy(to, from, 16);
  copies[thread].clear();
}

// ---- What kernels call

static bool isMisaligned = false;

bool takeMisaligned() { return std::exchange(isMisaligned, false); }

namespace {

const double exp2Error = std::exp2(-22.7); // as Approximations::exp2 may be

// The f32 that is furthest from a number within an error; above and below it by turns.
float wrong(float x, double exact, double error) {
  if (!std::isfinite(exact) || exact == 0)
    return static_cast<float>(exact);
  const float direction = std::bit_cast<uint32_t>(x) % 2 ? INFINITY : -INFINITY;
  auto result = static_cast<float>(exact), next = result;
  while (std::fabs(next - exact) <= error)
    next = std::nextafter(result = next, direction);
  return result;
}

uint32_t emulatedThread() { return BlockRun::running().thread % BlockRun::running().blockThreads; }
uint32_t emulatedBlock() {
  const BlockRun &run = BlockRun::running();
  return run.block + run.thread / run.blockThreads;
}
void emulatedBarrier() { BlockRun::running().barrier(); }
void emulatedClusterBarrier() { BlockRun::running().clusterBarrier(); }
uint32_t emulatedExchange(uint32_t bits, uint32_t mask) { return BlockRun::running().exchange(bits, mask); }
// `memory`: the fragments, which become the results.
void emulatedMultiply(uint32_t dtype, BlockRun::Fragments *memory) {
  const BlockRun::Fragments mine = *memory;
  BlockRun::running().multiply(static_cast<int32_t>(dtype), mine, memory->sums);
}
void emulatedMultiplyLines(const BlockRun::Lines *lines, BlockRun::LineFragments *memory) {
  const BlockRun::LineFragments mine = *memory;
  BlockRun::running().multiply(*lines, mine, memory->sums);
}
void emulatedAccess(uint64_t address, uint64_t alignment) { isMisaligned |= address % alignment != 0; }
void emulatedReadMatrices(const std::byte *row, uint32_t transposed, uint32_t *words) {
  emulatedAccess(reinterpret_cast<uint64_t>(row), 16);
  BlockRun::running().readMatrices(row, transposed != 0, words);
}
void emulatedCopyAside(std::byte *to, const std::byte *from) {
  emulatedAccess(reinterpret_cast<uint64_t>(to), 16), emulatedAccess(reinterpret_cast<uint64_t>(from), 16);
  BlockRun::running().copyAside(to, from);
}
void emulatedAwaitCopies() { BlockRun::running().awaitCopies(); }
float emulatedExp2(float x) {
  const double exact = std::exp2(static_cast<double>(x));
  return wrong(x, exact, std::min(exact * exp2Error, 2.05 * conformance::ulp(exact, MORTISE_F32)));
}
float emulatedExp2WithoutSubnormals(float x) { return x < -126 ? 0 : emulatedExp2(x); }
float emulatedReciprocal(float x) {
  const double exact = 1 / static_cast<double>(x);
  if (std::fabs(exact) < 0x1p-126)
    return 0;
  return wrong(x, exact, conformance::ulp(exact, MORTISE_F32));
}
float emulatedReciprocalRoot(float x) {
  const double exact = 1 / std::sqrt(static_cast<double>(x));
  return wrong(x, exact, 2 * conformance::ulp(exact, MORTISE_F32));
}
float emulatedFlushingFma(float x, float y, float z) {
  const float result = std::fma(x, y, z);
  return std::fpclassify(result) == FP_SUBNORMAL ? std::copysign(0.0F, result) : result;
}

} // namespace

void *emulatedFunction(EmulatedCall call) {
  switch (call) {
  case EmulatedCall::Thread:
    return reinterpret_cast<void *>(&emulatedThread);
  case EmulatedCall::Block:
    return reinterpret_cast<void *>(&emulatedBlock);
  case EmulatedCall::Barrier:
    return reinterpret_cast<void *>(&emulatedBarrier);
  case EmulatedCall::Exchange:
    return reinterpret_cast<void *>(&emulatedExchange);
  case EmulatedCall::Multiply:
    return reinterpret_cast<void *>(&emulatedMultiply);
  case EmulatedCall::MultiplyLines:
    return reinterpret_cast<void *>(&emulatedMultiplyLines);
  case EmulatedCall::ReadMatrices:
    return reinterpret_cast<void *>(&emulatedReadMatrices);
  case EmulatedCall::Access:
    return reinterpret_cast<void *>(&emulatedAccess);
  case EmulatedCall::Exp2:
    return reinterpret_cast<void *>(&emulatedExp2);
  case EmulatedCall::Exp2WithoutSubnormals:
    return reinterpret_cast<void *>(&emulatedExp2WithoutSubnormals);
  case EmulatedCall::Reciprocal:
    return reinterpret_cast<void *>(&emulatedReciprocal);
  case EmulatedCall::ReciprocalRoot:
    return reinterpret_cast<void *>(&emulatedReciprocalRoot);
  case EmulatedCall::FlushingFma:
    return reinterpret_cast<void *>(&emulatedFlushingFma);
  case EmulatedCall::CopyAside:
    return reinterpret_cast<void *>(&emulatedCopyAside);
  case EmulatedCall::AwaitCopies:
    return reinterpret_cast<void *>(&emulatedAwaitCopies);
  case EmulatedCall::ClusterBarrier:
    return reinterpret_cast<void *>(&emulatedClusterBarrier);
  case EmulatedCall::Count:
    break;
  }
  return nullptr;
}

// ---- Grids

namespace {
struct Launch {
  void *entry;
  std::array<uint64_t, mostEmulatedArguments> arguments;
  template <size_t... I> void call(std::index_sequence<I...>) const {
    using Entry = void (*)(decltype(I)...);
    reinterpret_cast<Entry>(entry)(arguments[I]...);
  }
  template <size_t Count> static void run(void *launch) {
    static_cast<const Launch *>(launch)->call(std::make_index_sequence<Count>());
  }
};
} // namespace

void runGrid(void *entry, std::span<const uint64_t> arguments, uint64_t blocks, unsigned threads, unsigned cluster,
             bool synchronises) {
  if (arguments.size() > mostEmulatedArguments) {
    std::fprintf(stderr, "emulated kernel: more than %zu arguments\n", mostEmulatedArguments);
    std::abort();
  }
  Launch launch{entry, {}};
  std::ranges::copy(arguments, launch.arguments.begin());
  // Fewer are passed faster.
  const BlockRun::Body body = arguments.size() <= 6 ? &Launch::run<6> : &Launch::run<mostEmulatedArguments>;
  BlockRun &run = BlockRun::running();
  run.blockThreads = threads;
  for (uint64_t block = 0; block < blocks; block += cluster) {
    run.block = static_cast<unsigned>(block);
    if (synchronises)
      run.run(threads, cluster, body, &launch);
    else
      for (run.thread = 0; run.thread < threads; ++run.thread)
        body(&launch);
  }
}

} // namespace mortise::codegen::test
