// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Extents as expressions: the normal form, proofs from ranges, and random programs compared with plain arithmetic.
#include <mortise/bounds.hpp>

#include <gtest/gtest.h>

#include <random>

namespace mortise {
namespace {

// The share of the random programs that run: with a sanitizer each of them takes about 30 times as long.
#ifdef MORTISE_SANITIZED
constexpr int share = 20;
#else
constexpr int share = 1;
#endif

const Dim b = Dim::symbol(0), s = Dim::symbol(1);
const SymbolRange ranges[] = {{2, 64, 1}, {8, INT64_MAX, 8}}; // of b and s

std::string text(const Dim &dim) {
  return dim.text([](uint32_t symbol) { return std::string(symbol ? "s" : "b"); });
}

TEST(Dim, EqualPolynomialsAreEqual) {
  EXPECT_EQ((b + 1) * (b - 1), b * b - 1);
  EXPECT_EQ(2 * (b + s) - b - b, 2 * s);
  EXPECT_EQ(b * s, s * b);
  EXPECT_EQ(b - b, Dim(0));
  EXPECT_NE(b, s);
  EXPECT_EQ(min(b, s), min(s, b));
  EXPECT_EQ(text((b + 1) * (s + 2) * 4 - 3), "4*b*s + 8*b + 4*s + 5");
  EXPECT_EQ(text(Dim(0) - b), "-b");
  EXPECT_EQ(text(floorDiv(s, 3) + max(b, 4)), text(max(b, 4) + floorDiv(s, 3)));
  EXPECT_EQ(text(ceilDiv(s, 2)), "floordiv(s + 1, 2)");
}

TEST(Dim, QuotientsComeOutExactly) {
  EXPECT_EQ(floorDiv(b * s * 384, s * 384), b);
  EXPECT_EQ(floorDiv((b + 1) * (s + 2), s + 2), b + 1);
  EXPECT_EQ(floorDiv(4 * s + 6, 4), s + 1);
  EXPECT_EQ(ceilDiv(4 * s + 6, 4), s + 2);
  EXPECT_EQ(mod(4 * s + 6, 4), Dim(2));
  EXPECT_EQ(floorDiv(Dim(-7), 2), Dim(-4));
  EXPECT_EQ(mod(Dim(-7), 2), Dim(1));
  EXPECT_FALSE(floorDiv(b, 0).isValid());
  EXPECT_FALSE(mod(b, 0).isValid());
}

TEST(Dim, QuotientsOfQuotientsAreOne) {
  EXPECT_EQ(floorDiv(floorDiv(s, 3), 5), floorDiv(s, 15));
  EXPECT_EQ(floorDiv(floorDiv(s, 3) + b, 5), floorDiv(s + 3 * b, 15));
  EXPECT_EQ(floorDiv(2 * s + 1, 4), floorDiv(s, 2));
  EXPECT_EQ(floorDiv(6 * s + 3 * b + 5, 9), floorDiv(2 * s + b + 1, 3));
  EXPECT_EQ(ceilDiv(ceilDiv(s, 4), 2), ceilDiv(s, 8));
  EXPECT_EQ(text(floorDiv(floorDiv(s, 3) + floorDiv(b, 2), 5)), "floordiv(floordiv(b, 2) + floordiv(s, 3), 5)");
  EXPECT_EQ(text(floorDiv(2 * floorDiv(s, 3), 5)), "floordiv(2*floordiv(s, 3), 5)");
  // The combined numbers would overflow 63 bits.
  const Dim far = floorDiv(floorDiv(s, INT64_MAX), 2);
  EXPECT_TRUE(far.isValid());
  EXPECT_EQ(*far.evaluate(std::vector<int64_t>{0, INT64_MIN}), -1);
  EXPECT_EQ(*floorDiv(floorDiv(s, 1LL << 62) + b, 4).evaluate(std::vector<int64_t>{INT64_MAX, INT64_MIN}),
            (INT64_MAX - 2) / 4);
}

TEST(Dim, RemaindersOfRemaindersAreOne) {
  EXPECT_EQ(mod(mod(s, 12), 4), mod(s, 4));
  EXPECT_EQ(mod(2 * mod(s, 6) + b, 4), mod(2 * s + b, 4));
  EXPECT_EQ(mod(b * mod(s, 6) + 1, 3), mod(b * s + 1, 3));
  EXPECT_EQ(mod(2 * s + 1, 4), 2 * mod(s, 2) + 1);
  EXPECT_EQ(text(mod(mod(s, 4), 6)), "mod(mod(s, 4), 6)"); // 6 is not a multiple of 4
}

// Checks values for positive and negative numbers and at the limits.
TEST(Dim, NestedQuotientsAndRemaindersAreExact) {
  const auto check = [](const Dim &dim, std::span<const int64_t> at, int64_t expected) {
    const Result<int64_t> value = dim.evaluate(at);
    ASSERT_TRUE(value) << text(dim);
    ASSERT_EQ(*value, expected) << text(dim) << " at " << at[0] << ", " << at[1];
  };
  const auto quotient = [](int64_t x, int64_t y) {
    int64_t result;
    EXPECT_TRUE(combine(MORTISE_EXPR_FLOORDIV, x, y, result));
    return result;
  };
  for (int64_t outer = 1; outer <= 12; ++outer)
    for (int64_t inner = 1; inner <= 12; ++inner)
      for (int64_t factor = -3; factor <= 3; ++factor)
        for (int64_t shift = -4; shift <= 4; ++shift) {
          const Dim nested = floorDiv(floorDiv(s * factor + shift, inner) + b + shift, outer);
          const Dim rest = mod(factor * mod(s + shift, inner) + b + shift, outer);
          const Dim scaled = floorDiv(inner * s * factor + outer * b + shift, inner * outer);
          for (int64_t x = -25; x <= 25; x += 1 + (shift & 1)) {
            const int64_t at[] = {x % 7, x};
            const int64_t sum = quotient(x * factor + shift, inner) + at[0] + shift;
            check(nested, at, quotient(sum, outer));
            const int64_t part = factor * (x + shift - inner * quotient(x + shift, inner)) + at[0] + shift;
            check(rest, at, part - outer * quotient(part, outer));
            check(scaled, at, quotient(inner * x * factor + outer * at[0] + shift, inner * outer));
          }
        }
}

// Extents behind strided windows, as in a residual network: the chain has one quotient, whatever its length.
TEST(Dim, ChainsOfWindowsStaySmall) {
  const auto slide = [](const Dim &extent, int64_t window, int64_t stride, int64_t padding) {
    return floorDiv(extent + 2 * padding - window, stride) + 1;
  };
  Dim height = slide(slide(s, 7, 2, 3), 3, 2, 1);
  EXPECT_EQ(text(height), "floordiv(s + 3, 4)");
  for (int stage = 0; stage < 3; ++stage) {
    const Dim shortcut = slide(height, 1, 2, 0);
    height = slide(slide(height, 3, 2, 1), 3, 1, 1);
    EXPECT_EQ(height, shortcut);
  }
  EXPECT_EQ(text(height), "floordiv(s + 31, 32)");
  EXPECT_EQ(*height.evaluate(std::vector<int64_t>{0, 224}), 7);
  EXPECT_EQ(*height.evaluate(std::vector<int64_t>{0, 225}), 8);
  const SymbolRange images[] = {{1, 64, 1}, {32, 4096, 1}};
  EXPECT_TRUE(isAtLeast(height, 1, images));
  EXPECT_EQ(slide(slide(s, 3, 2, 0), 3, 2, 0), floorDiv(s - 3, 4)); // the second is ((s - 3) / 2 + 1 - 3) / 2 + 1
}

TEST(Dim, OverflowIsNoExtent) {
  EXPECT_FALSE((Dim(INT64_MAX) + 1).isValid());
  EXPECT_FALSE((b * INT64_MAX * 2).isValid());
  EXPECT_FALSE(isAtLeast(Dim::invalid(), 0, ranges));
  EXPECT_FALSE(isAtLeast(Dim::invalid(), Dim::invalid(), ranges));
  EXPECT_FALSE((b * INT64_MAX).evaluate(std::vector<int64_t>{2, 8}));
}

TEST(Dim, TheLeastNumberHasNoQuotientByMinusOne) {
  const Dim s = Dim::symbol(0);
  for (const Dim &dividend : {Dim(INT64_MIN), s * INT64_MIN})
    for (const Dim &divisor : {Dim(-1), Dim(0) - s}) {
      const Dim quotient = floorDiv(dividend, divisor); // a valid extent or not, but no undefined behaviour
      (void)mod(dividend, divisor);
      if (quotient.isValid()) {
        const int64_t one[] = {1};
        EXPECT_FALSE(quotient.evaluate(one)) << "2^63 is no int64_t";
      }
    }
}

TEST(Dim, ProgramsThatExpandWithoutEndAreNoExtents) {
  std::vector<MortiseExprStep> steps; // (s0 + s1) * (s2 + s3) * ...: 2^n terms
  for (int64_t i = 0; i < 30; ++i) {
    steps.push_back({MORTISE_EXPR_SYMBOL, 0, 2 * i});
    steps.push_back({MORTISE_EXPR_SYMBOL, 0, 2 * i + 1});
    steps.push_back({MORTISE_EXPR_ADD, 0, 0});
    if (i)
      steps.push_back({MORTISE_EXPR_MUL, 0, 0});
  }
  EXPECT_FALSE(Dim::from(steps, 60));
  Dim power = 1;
  for (size_t i = 0; i < Dim::maxDegree; ++i)
    power *= Dim::symbol(0);
  EXPECT_TRUE(power.isValid());
  EXPECT_FALSE((power * Dim::symbol(0)).isValid());
}

// Expanded, (s0 + s1) * (s2 + s3) * ... would have 2^20 terms.
TEST(Dim, HostileProgramsCostLittle) {
  std::vector<MortiseExprStep> steps;
  for (int64_t i = 0; i < 20; ++i) {
    steps.push_back({MORTISE_EXPR_SYMBOL, 0, 2 * i});
    steps.push_back({MORTISE_EXPR_SYMBOL, 0, 2 * i + 1});
    steps.push_back({MORTISE_EXPR_ADD, 0, 0});
    if (i > 0)
      steps.push_back({MORTISE_EXPR_MUL, 0, 0});
  }
  EXPECT_FALSE(Dim::from(steps, 40));
  std::vector<MortiseExprStep> power(1, {MORTISE_EXPR_SYMBOL, 0, 0});
  for (int i = 0; i < 16; ++i) {
    EXPECT_TRUE(Dim::from(power, 1)) << i;
    power.push_back({MORTISE_EXPR_SYMBOL, 0, 0});
    power.push_back({MORTISE_EXPR_MUL, 0, 0});
  }
  EXPECT_FALSE(Dim::from(power, 1));
  Dim nested = Dim::symbol(0), sum = 0; // many atoms: proofs that take too long are given up
  for (uint32_t i = 0; i < 200; ++i) {
    if (i < 30) // the depth of a program from outside is bounded too
      nested = min(floorDiv(nested + Dim::symbol(i % 2), 2), mod(Dim::symbol(1) + i, 7) + 1);
    sum += floorDiv(Dim::symbol(i % 2) * 3 + i, i + 4);
  }
  EXPECT_TRUE(isAtLeast(sum, 0, ranges));
  (void)isAtLeast(nested, sum, ranges);
  EXPECT_TRUE(simplify(nested, ranges).isValid());
}

// Each step of x := floordiv(x * (s + 1), b) writes x twice, so 250 program steps would stand for 2^50 symbols.
TEST(Dim, SharedPartsCountAsOftenAsTheyAreWritten) {
  std::vector<MortiseExprStep> steps(1, {MORTISE_EXPR_SYMBOL, 0, 0});
  for (int i = 0; i < 50; ++i)
    steps.insert(steps.end(), {{MORTISE_EXPR_SYMBOL, 0, 1},
                               {MORTISE_EXPR_CONST, 0, 1},
                               {MORTISE_EXPR_ADD, 0, 0},
                               {MORTISE_EXPR_MUL, 0, 0},
                               {MORTISE_EXPR_SYMBOL, 0, 2},
                               {MORTISE_EXPR_FLOORDIV, 0, 0}});
  const Result<Dim> found = Dim::from(steps, 3);
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().message.find("too large"), std::string::npos) << found.error().message;
  for (size_t levels : {1, 4, 7}) { // smaller ones have as many symbols and operators as they report
    const Result<Dim> small = Dim::from(std::span(steps).first(1 + 6 * levels), 3);
    ASSERT_TRUE(small) << levels;
    EXPECT_LE(small->steps().size(), 4 * Dim::maxSize);
    EXPECT_EQ(*Dim::from(small->steps(), 3), *small);
  }
}

TEST(Dim, ProgramsThatAreWrong) {
  const MortiseExprStep lacks[] = {{MORTISE_EXPR_SYMBOL, 0, 0}, {MORTISE_EXPR_ADD, 0, 0}};
  const MortiseExprStep names[] = {{MORTISE_EXPR_SYMBOL, 0, 2}};
  const MortiseExprStep leaves[] = {{MORTISE_EXPR_CONST, 0, 1}, {MORTISE_EXPR_CONST, 0, 2}};
  const MortiseExprStep unknown[] = {{MORTISE_EXPR_CONST, 0, 1}, {MORTISE_EXPR_CONST, 0, 2}, {99, 0, 0}};
  EXPECT_NE(Dim::from(lacks, 2).error().message.find("lacks an operand"), std::string::npos);
  EXPECT_NE(Dim::from(names, 2).error().message.find("names symbol 2 of 2"), std::string::npos);
  EXPECT_NE(Dim::from(leaves, 2).error().message.find("leaves 2 values"), std::string::npos);
  EXPECT_NE(Dim::from(unknown, 2).error().message.find("unknown operator 99"), std::string::npos);
}

TEST(Dim, RangesAndDivisorsSimplify) {
  EXPECT_EQ(simplify(mod(s, 4), ranges), Dim(0));
  EXPECT_EQ(simplify(min(b, s * 100), ranges), b);
  EXPECT_EQ(simplify(max(b, 1), ranges), b);
  EXPECT_EQ(simplify(floorDiv(b, 65), ranges), Dim(0));
  EXPECT_EQ(simplify(mod(b, 65), ranges), b);
  EXPECT_EQ(knownDivisor(6 * s + 16, ranges), 16);
  EXPECT_EQ(simplify(2 * floorDiv(s, 2), ranges), s);
  EXPECT_EQ(simplify(12 * floorDiv(s, 4) * b, ranges), 3 * s * b);
  EXPECT_EQ(simplify(floorDiv(s - 3, 2) + 1, ranges), floorDiv(s, 2) - 1);
  EXPECT_EQ(simplify(ceilDiv(s - 3, 2), ranges), floorDiv(s, 2) - 1);
  EXPECT_EQ(simplify(2 * floorDiv(b, 2), ranges), 2 * floorDiv(b, 2));
  const SymbolRange fixed[] = {{3, 3, 1}};
  EXPECT_EQ(simplify(b + 1, fixed), Dim(4));
}

// The range of s has the divisor 8.
TEST(Dim, DivisorsAreArithmetic) {
  const Dim eighth = floorDiv(s, 8);
  EXPECT_EQ(simplify(8 * eighth, ranges), s);
  EXPECT_EQ(simplify(b * eighth * 8 * 64, ranges), 64 * b * s);
  EXPECT_EQ(simplify(64 * eighth * eighth, ranges), s * s);
  EXPECT_EQ(simplify(4 * eighth, ranges), floorDiv(s, 2));
  EXPECT_EQ(simplify(floorDiv(s, eighth), ranges), Dim(8)); // as a trace writes it
  EXPECT_EQ(simplify(mod(s, eighth), ranges), Dim(0));
  EXPECT_EQ(simplify(floorDiv(s + 7, 8), ranges), eighth);
  EXPECT_EQ(simplify(mod(s + 3, 8), ranges), Dim(3));
  EXPECT_EQ(simplify(floorDiv(eighth + 1, 4), ranges), floorDiv(s + 8, 32));
  EXPECT_EQ(simplify(floorDiv(s + 3, 5), ranges), floorDiv(s + 3, 5));
  EXPECT_EQ(simplify(min(s, 512), ranges), min(s, 512));
  EXPECT_EQ(simplify(8 * floorDiv(s + 16, 8), ranges), s + 16);
  EXPECT_EQ(simplify(8 * floorDiv(b, 8), ranges), 8 * floorDiv(b, 8)); // b has no divisor
  EXPECT_TRUE(isAtLeast(8 * eighth, s, ranges));
  EXPECT_TRUE(isAtLeast(eighth, 1, ranges));
  EXPECT_TRUE(isDifferent(s, 12, ranges));
  EXPECT_EQ(knownDivisor(floorDiv(s, 2), ranges), 4);
  const SymbolRange rounded[] = {{2, 100, 8}};
  EXPECT_EQ(bounds(Dim::symbol(0), rounded).low, 8);
  EXPECT_EQ(bounds(Dim::symbol(0), rounded).high, 96);
  const SymbolRange none[] = {{9, 15, 8}}; // a range without values must do no harm
  EXPECT_TRUE(simplify(floorDiv(Dim::symbol(0), 8), none).isValid());
  const SymbolRange wide[] = {{0, INT64_MAX, INT64_MAX}};
  EXPECT_TRUE(simplify(floorDiv(Dim::symbol(0) * 3, 8), wide).isValid());
}

TEST(Dim, AtLeast) {
  EXPECT_TRUE(isAtLeast(b, 2, ranges));
  EXPECT_FALSE(isAtLeast(b, 3, ranges));
  EXPECT_TRUE(isAtLeast(64, b, ranges));
  EXPECT_FALSE(isAtLeast(63, b, ranges));
  EXPECT_FALSE(isAtLeast(s, b, ranges));
  // Products: each factor is at least 1.
  EXPECT_TRUE(isAtLeast(b * s, b, ranges));
  EXPECT_TRUE(isAtLeast(b * s, s + b, ranges)); // (b - 1) (s - 1) >= 1
  EXPECT_FALSE(isAtLeast(s, b * 5, ranges));
  // Minima and maxima.
  EXPECT_TRUE(isAtLeast(b, min(b, s), ranges));
  EXPECT_TRUE(isAtLeast(s, min(b, s), ranges));
  EXPECT_TRUE(isAtLeast(max(b, s), b, ranges));
  EXPECT_TRUE(isAtLeast(min(b, s), 2, ranges));
  EXPECT_TRUE(isAtLeast(b + s, max(b, s), ranges));
  EXPECT_TRUE(isAtLeast(min(b, s) * 3, min(b, s), ranges));
  EXPECT_TRUE(isAtLeast(max(b, s) + 1, min(b, s), ranges));
  EXPECT_FALSE(isAtLeast(min(b, s), b, ranges));
  EXPECT_FALSE(isAtLeast(s, max(b, s), ranges));
  // Quotients and remainders.
  EXPECT_TRUE(isAtLeast(b, floorDiv(b, 3), ranges));
  EXPECT_TRUE(isAtLeast(b, 3 * floorDiv(b, 3), ranges));
  EXPECT_TRUE(isAtLeast(3 * floorDiv(b, 3) + 2, b, ranges));
  EXPECT_FALSE(isAtLeast(3 * floorDiv(b, 3) + 1, b, ranges));
  EXPECT_TRUE(isAtLeast(3 * ceilDiv(b, 3), b, ranges));
  EXPECT_TRUE(isAtLeast(b, mod(b, 5), ranges));
  EXPECT_TRUE(isAtLeast(4, mod(b, 5), ranges));
  EXPECT_FALSE(isAtLeast(3, mod(b, 5), ranges));
}

TEST(Dim, Different) {
  EXPECT_TRUE(isDifferent(b, 1, ranges));
  EXPECT_TRUE(isDifferent(s * b, 7, ranges));
  EXPECT_TRUE(isDifferent(b * s, b, ranges));
  EXPECT_TRUE(isDifferent(2 * b, 2 * s + 5, ranges)); // parity
  EXPECT_FALSE(isDifferent(b, s, ranges));
  EXPECT_FALSE(isDifferent(b, b, ranges));
}

// A random postfix program over two symbols, and its value by plain arithmetic.
class RandomProgram {
public:
  // Symbols are multiples of `step` below 20. With `limits`, symbols and numbers may be negative and as large as
  // int64_t allows.
  RandomProgram(std::mt19937 &random, int64_t step, bool limits = false) : random(random), limits(limits) {
    for (int64_t &value : values)
      value = limits ? number() : static_cast<int64_t>(random() % 20) / step * step;
    for (int i = 0; i < 12; ++i)
      stack.size() < 2 || random() % 3 != 0 ? push() : apply();
    while (stack.size() > 1)
      apply();
  }
  std::vector<MortiseExprStep> steps;
  std::vector<int64_t> stack;
  int64_t values[2];
  bool defined = true; // no overflow and no division by 0

private:
  int64_t number() {
    const int64_t small = static_cast<int64_t>(random() % 9) - 4;
    if (!limits || random() % 4 != 0)
      return small;
    return random() % 2 != 0 ? INT64_MIN + (small + 4) : INT64_MAX / (1 << random() % 3) - (small + 4);
  }
  void push() {
    if (random() % 2 != 0)
      steps.push_back({MORTISE_EXPR_CONST, 0, number()});
    else
      steps.push_back({MORTISE_EXPR_SYMBOL, 0, static_cast<int64_t>(random() % 2)});
    stack.push_back(steps.back().op == MORTISE_EXPR_CONST ? steps.back().value : values[steps.back().value]);
  }
  void apply() {
    constexpr int32_t operators[] = {MORTISE_EXPR_ADD, MORTISE_EXPR_SUB, MORTISE_EXPR_MUL, MORTISE_EXPR_FLOORDIV,
                                     MORTISE_EXPR_MOD, MORTISE_EXPR_MIN, MORTISE_EXPR_MAX};
    steps.push_back({operators[random() % 7], 0, 0});
    int64_t right = stack.back();
    stack.pop_back();
    defined = defined && combine(steps.back().op, stack.back(), right, stack.back());
  }
  std::mt19937 &random;
  bool limits;
};

TEST(Dim, RandomProgramsAtTheLimitsMeanWhatArithmeticSays) {
  std::mt19937 random(2); // NOLINT(bugprone-random-generator-seed): a test repeats itself
  int checked = 0;
  for (int round = 0; round < 50000 / share; ++round) {
    const RandomProgram program(random, 1, true);
    const Result<Dim> dim = Dim::from(program.steps, 2);
    if (!dim || !program.defined)
      continue;
    const Result<int64_t> value = dim->evaluate(program.values);
    if (!value) // an intermediate value overflows
      continue;
    ++checked;
    ASSERT_EQ(*value, program.stack[0]) << text(*dim);
    const Result<Dim> again = Dim::from(dim->steps(), 2);
    ASSERT_TRUE(again && *again == *dim) << text(*dim);
    const SymbolRange all[] = {{0, INT64_MAX, 1 + round % 7}, {INT64_MAX - round % 9, INT64_MAX, 1 + round % 5}};
    (void)simplify(*dim, all); // must not be undefined behaviour
    (void)knownDivisor(*dim, all);
    (void)isAtLeast(*dim, 0, all);
  }
  EXPECT_GT(checked, 10000 / share);
}

TEST(Dim, RandomProgramsMeanWhatArithmeticSays) {
  std::mt19937 random(1); // NOLINT(bugprone-random-generator-seed): a test repeats itself
  int checked = 0, proved = 0;
  for (int round = 0; round < 20000 / share; ++round) {
    const int64_t step = round % 4 + 1;
    const SymbolRange known[] = {{0, 19, step}, {0, 19, step}};
    const RandomProgram program(random, step);
    const Result<Dim> dim = Dim::from(program.steps, 2);
    if (!dim || !program.defined)
      continue;
    const Result<int64_t> value = dim->evaluate(program.values);
    if (!value) // the program multiplied a quotient by 0 with 0
      continue;
    ++checked;
    ASSERT_EQ(*value, program.stack[0]) << text(*dim);
    const Result<Dim> again = Dim::from(dim->steps(), 2);
    ASSERT_TRUE(again && *again == *dim) << text(*dim);
    const Interval interval = bounds(*dim, known);
    ASSERT_TRUE(interval.low <= *value && *value <= interval.high) << text(*dim);
    const Dim simple = simplify(*dim, known);
    if (const Result<int64_t> same = simple.evaluate(program.values)) {
      ASSERT_EQ(*same, *value) << text(*dim) << " -> " << text(simple);
    }
    const int64_t divisor = knownDivisor(*dim, known);
    ASSERT_TRUE(divisor == 0 ? *value == 0 : *value % divisor == 0) << text(*dim);
    for (int64_t other : {int64_t(-3), int64_t(0), int64_t(5)}) { // what is proved must be true
      const bool above = isAtLeast(*dim, other, known), below = isAtLeast(other, *dim, known);
      proved += above + below;
      ASSERT_TRUE(!above || *value >= other) << text(*dim) << " >= " << other;
      ASSERT_TRUE(!below || *value <= other) << text(*dim) << " <= " << other;
      ASSERT_TRUE(!isDifferent(*dim, other, known) || *value != other) << text(*dim) << " != " << other;
    }
  }
  EXPECT_GT(checked, 5000 / share);
  EXPECT_GT(proved, 1000 / share);
}

} // namespace
} // namespace mortise
