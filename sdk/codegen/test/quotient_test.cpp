// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Quotients and square roots that emit/quotient.cpp computes, of reciprocals that are as wrong as a machine's may be,
// are the CPU's own.
#include "oracle.hpp"

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;

namespace {

uint32_t bitsOf(float x) { return std::bit_cast<uint32_t>(x); }
float number(uint32_t bits) { return std::bit_cast<float>(bits); }

// What the op makes of pairs, on a machine whose fma takes subnormal results for 0.
std::vector<float> computed(const char *op, const std::vector<std::vector<float>> &operands) {
  const auto count = static_cast<int64_t>(operands[0].size());
  TestGraph b;
  std::vector<V> inputs;
  for (size_t i = 0; i < operands.size(); ++i)
    inputs.push_back(b.input(MORTISE_F32, {count}));
  V result = b.op(op, inputs, MORTISE_F32, {count});
  b.output(result);
  const Emulator::FlushingFma machine;
  const MortiseGraph &graph = b.view();
  Memory memory(graph);
  for (size_t i = 0; i < operands.size(); ++i)
    std::memcpy(memory.at(inputs[i]->index), operands[i].data(), operands[i].size() * sizeof(float));
  const auto parts = fuse({&graph, {}, {}, {}}, simtFuseTarget());
  const auto kernels = Emulator::shared().compile(graph, parts->groups);
  std::vector<float> results(operands[0].size());
  EXPECT_TRUE(kernels) << kernels.error().message;
  if (kernels) {
    runGroup(parts->groups.at(0), kernels->at(0), memory);
    std::memcpy(results.data(), memory.at(result->index), results.size() * sizeof(float));
  }
  return results;
}

struct Pairs {
  std::vector<float> x, y;
  void add(float numerator, float divisor) { x.push_back(numerator), y.push_back(divisor); }
};

void checkQuotients(const Pairs &pairs) {
  const std::vector<float> found = computed("div", {pairs.x, pairs.y});
  for (size_t i = 0; i < found.size(); ++i) {
    const float want = pairs.x[i] / pairs.y[i];
    ASSERT_TRUE(std::isnan(want) ? std::isnan(found[i]) : bitsOf(found[i]) == bitsOf(want))
        << std::hexfloat << pairs.x[i] << " / " << pairs.y[i] << " is " << found[i] << ", expected " << want;
  }
}

// Zeros, subnormal numbers, the ends of the ranges that f32 arithmetic takes, infinities and NaN, of both signs.
std::vector<float> hostile() {
  std::vector<float> all;
  for (const float edge : {1.0F, 0x1p-70F, 0x1p70F, 0x1p-50F, 0x1p50F, 0x1p-126F, 0x1p126F, 0x1p-149F, 0x1p-148F, 3.0F,
                           0x1.fffffep-127F, 1000.0F, 0x1.fffffep127F, 0x1.fffffep0F})
    for (const int step : {-2, -1, 0, 1, 2})
      all.push_back(number(static_cast<uint32_t>(static_cast<int64_t>(bitsOf(edge)) + step)));
  all.insert(all.end(), {0.0F, INFINITY, NAN});
  const size_t count = all.size();
  for (size_t i = 0; i < count; ++i)
    all.push_back(-all[i]);
  return all;
}

TEST(Quotient, OfHostileNumbersIsExact) {
  Pairs pairs;
  const std::vector<float> all = hostile();
  for (const float x : all)
    for (const float y : all)
      pairs.add(x, y);
  checkQuotients(pairs);
}

TEST(Quotient, NearTheMiddleOfTwoNumbersIsExact) {
  Pairs pairs;
  std::mt19937 engine(7);
  for (int i = 0; i < 200000; ++i) {
    const float y = number(0x3f800000 | (engine() & 0x7fffff));
    const double middle = 1 + std::ldexp(static_cast<double>(2 * (engine() & 0x7fffff) + 1), -24);
    const auto x = static_cast<float>(middle * y);
    for (const int step : {-1, 0, 1})
      pairs.add(number(bitsOf(x) + step), i % 2 ? y : -y);
    pairs.add(number(engine()), number(engine()));
  }
  checkQuotients(pairs);
}

// Where the reciprocal's own rounding costs most: y that f32 arithmetic gets wrong, so that it does not take them, and
// the largest that it takes; the sign turns the error of the machine's reciprocal.
TEST(Quotient, OfTheLargestMantissasIsExact) {
  for (const float y : {0x1.fffffep0F, 0x1.ffffbep0F, 0x1.ffffbep-1F, 0x1.ffffbcp0F}) {
    Pairs pairs;
    for (uint32_t mantissa = 0; mantissa < 1 << 23; ++mantissa)
      pairs.add(number(0x3f800000 | mantissa), y);
    checkQuotients(pairs);
  }
}

TEST(Quotient, ByAPowerOfTwoIsExact) {
  const std::vector<float> all = hostile();
  const auto count = static_cast<int64_t>(all.size());
  for (const float divisor : {4096.0F, 0x1p-126F, 0x1p126F, 0x1p127F, -2.0F}) {
    TestGraph b;
    V x = b.input(MORTISE_F32, {count});
    V y = b.constant(MORTISE_F32, {count}, std::vector<float>(all.size(), divisor));
    V result = b.op("div", {x, y}, MORTISE_F32, {count});
    b.output(result);
    const Emulator::FlushingFma machine;
    const MortiseGraph &graph = b.view();
    Memory memory(graph);
    std::memcpy(memory.at(x->index), all.data(), all.size() * sizeof(float));
    const auto parts = fuse({&graph, {}, {}, {}}, simtFuseTarget());
    const auto kernels = Emulator::shared().compile(graph, parts->groups);
    ASSERT_TRUE(kernels) << kernels.error().message;
    runGroup(parts->groups.at(0), kernels->at(0), memory);
    for (int64_t i = 0; i < count; ++i) {
      const auto found = static_cast<float>(element(memory.at(result->index), MORTISE_F32, i));
      const float want = all[i] / divisor;
      ASSERT_TRUE(std::isnan(want) ? std::isnan(found) : bitsOf(found) == bitsOf(want)) << all[i] << " / " << divisor;
    }
  }
}

TEST(Quotient, RootsOfAllMantissasAreExact) {
  std::vector<float> all = hostile();
  for (uint32_t bits = bitsOf(1.0F); bits < bitsOf(4.0F); ++bits)
    all.push_back(number(bits));
  const std::vector<float> found = computed("sqrt", {all});
  for (size_t i = 0; i < all.size(); ++i) {
    const float want = std::sqrt(all[i]);
    ASSERT_TRUE(std::isnan(want) ? std::isnan(found[i]) : bitsOf(found[i]) == bitsOf(want))
        << std::hexfloat << "sqrt(" << all[i] << ") is " << found[i] << ", expected " << want;
  }
}

} // namespace
