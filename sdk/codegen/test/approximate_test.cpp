// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions whose results are rounded to f16 or bf16, of instructions that are as wrong as a machine's may be: within
// the bounds of docs/conformance/error-bounds.md for single ops.
#include "oracle.hpp"

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;

namespace {

constexpr double w = 0x1p-24;
double ulp(double y) { return conformance::ulp(y, MORTISE_F32); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Function {
  const char *op;
  double (*exact)(double);
  double (*error)(double x, double y); // in f32
  int64_t width = 1;                   // of rows: the argument, and zeros
};
const Function functions[] = {
    {"exp", [](double x) { return std::exp(x); }, [](double, double y) { return 4 * ulp(y); }},
    {"logistic", sigmoid, [](double, double y) { return 4 * ulp(y); }},
    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, [](double, double y) { return 4 * ulp(y); }},
    {"silu", [](double x) { return x * sigmoid(x); },
     [](double x, double y) { return std::fabs(x) * 4 * ulp(sigmoid(x)) + ulp(y) / 2; }},
    {"gelu", [](double x) { return x * std::erfc(-x * std::sqrt(0.5)) / 2; },
     [](double x, double y) { return 4.5 * w * std::fabs(x) + ulp(y); }},
    // e^x of x <= 0, the sum, whose error is at most that of its parts, and the quotient.
    {"softmax", [](double x) { return x == INFINITY ? NAN : sigmoid(x); }, [](double, double y) { return 8 * ulp(y); },
     2},
};

// All of bf16, and others between.
std::vector<float> numbers() {
  std::vector<float> all;
  for (uint32_t bits = 0; bits < 0x10000; ++bits)
    all.push_back(std::bit_cast<float>(bits << 16));
  std::mt19937 engine(5);
  std::normal_distribution<float> normal(0, 2);
  std::uniform_real_distribution<float> wide(-100, 100), small(-0.2F, 0.2F);
  for (int i = 0; i < 100000; ++i)
    all.insert(all.end(), {normal(engine), wide(engine), small(engine)});
  return all;
}

void checkFunctions() {
  const std::vector<float> inputs = numbers();
  const auto count = static_cast<int64_t>(inputs.size());
  for (const auto &[op, exact, error, width] : functions)
    for (const int32_t dtype : {MORTISE_BF16, MORTISE_F16}) {
      TestGraph b;
      V x = b.input(MORTISE_F32, {count, width});
      V y = std::string_view(op) == "gelu" ? b.op(op, {x}, MORTISE_F32, {count, width}, {{"approximate", "none"}})
            : width > 1                    ? b.op(op, {x}, MORTISE_F32, {count, width}, {{"axis", 1}})
                                           : b.op(op, {x}, MORTISE_F32, {count, width});
      V narrow = b.op("convert", {y}, dtype, {count, width});
      b.output(narrow);
      Oracle oracle(b);
      for (int64_t i = 0; i < count * width; ++i)
        setElement(oracle.memory.at(x->index), MORTISE_F32, i, i % width ? 0 : inputs[i / width]);
      const auto parts = fuse({&oracle.graph, {}, {}, {}}, simtFuseTarget());
      const auto kernels = Emulator::shared().compile(oracle.graph, parts->groups);
      ASSERT_TRUE(kernels) << kernels.error().message;
      runGroup(parts->groups.at(0), kernels->at(0), oracle.memory);
      for (int64_t i = 0; i < count; ++i) {
        const double at = inputs[i], want = exact(at);
        double found = element(oracle.memory.at(narrow->index), dtype, i * width);
        if (std::isnan(want) || std::isinf(want)) {
          ASSERT_TRUE(std::isnan(want) ? std::isnan(found) : found == want) << op << "(" << at << ") is " << found;
          continue;
        }
        const double largest = conformance::largestFinite(dtype);
        if (std::isinf(found)) // counts as the first number beyond the largest
          found = std::copysign(largest + conformance::ulp(largest, dtype), found);
        const double off = std::isinf(at) ? 0 : error(at, want);
        ASSERT_LE(std::fabs(found - std::clamp(want, -2 * largest, 2 * largest)),
                  off + conformance::ulp(std::fabs(want) + off, dtype) / 2 + (std::fabs(want) > largest ? largest : 0))
            << op << "(" << at << ") in " << dtypeName(dtype) << " is " << found << ", expected " << want;
      }
    }
}

TEST(Approximate, FunctionsStayWithinTheKitsBounds) { checkFunctions(); }
TEST(Approximate, FunctionsOfAnFmaThatFlushesDoSo) {
  const Emulator::FlushingFma machine;
  checkFunctions();
}

} // namespace
