// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../philox.hpp"
#include "run_op.hpp"

using namespace mortise;
using namespace mortise::test;

namespace {

constexpr int64_t key = 0x299f31d0a4093822, offset = 0x0123456789abcdef;

Data number(int64_t value) { // Data holds doubles, which cannot represent all of these numbers
  return {i64, {}, {static_cast<double>(value)}};
}

// Bits drawn with exact 64-bit key and offset.
std::vector<uint8_t> bits(int64_t keyBits, int64_t offsetBits, int32_t dtype, const Dims &dims) {
  ViewBuilder builder;
  auto *k = builder.input(i64, {}), *o = builder.input(i64, {});
  builder.output(
      builder.op("random_bits", {k, o}, dtype, dims, {integers("shape", dims), string("dtype", dtypeName(dtype))}));
  std::vector<uint8_t> out(byteSize(*builder.view().outputs[0]->type) + 8);
  const void *inputs[] = {&keyBits, &offsetBits};
  void *outputs[] = {out.data()};
  auto done = reference::interpret(builder.view(), inputs, outputs);
  EXPECT_TRUE(done) << done.error().message;
  return out;
}
template <typename T> T at(const std::vector<uint8_t> &bytes, size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
  return value;
}

} // namespace

// The known answers from Random123, the authors' library (kat_vectors, philox4x32 with 10 rounds).
TEST(Random, PhiloxKnownAnswers) {
  using Block = std::array<uint32_t, 4>;
  EXPECT_EQ(reference::philox4x32({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t ones = 0xffffffff;
  EXPECT_EQ(reference::philox4x32({ones, ones, ones, ones}, {ones, ones}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(reference::philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, BitsAreLanesOfBlocks) {
  auto words = bits(key, offset, i32, {2, 5});
  for (uint32_t i = 0; i < 10; ++i) {
    uint64_t counter = static_cast<uint64_t>(offset) + i / 4;
    auto block = reference::philox4x32({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0},
                                       {0xa4093822, 0x299f31d0});
    EXPECT_EQ(at<uint32_t>(words, i), block[i % 4]) << i;
  }
  EXPECT_EQ(at<uint32_t>(bits(0, 0, i32, {1}), 0), 0x6627e8d5u);
  auto wide = bits(key, offset, i64, {5});
  for (size_t i = 0; i < 5; ++i)
    EXPECT_EQ(at<uint64_t>(wide, i), at<uint32_t>(words, 2 * i) | static_cast<uint64_t>(at<uint32_t>(words, 2 * i + 1))
                                                                      << 32);
  auto bytes = bits(key, offset, ui8, {10}), halves = bits(key, offset, i16, {10});
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(bytes[i], at<uint32_t>(words, i) & 0xff);
    EXPECT_EQ(at<uint16_t>(halves, i), at<uint32_t>(words, i) & 0xffff);
  }
  auto later = bits(key, offset + 1, i32, {4}); // the offset of the next draw
  EXPECT_EQ(at<uint32_t>(later, 0), at<uint32_t>(words, 4));
  auto wrapped = bits(key, -1, i32, {8}); // the counter wraps at 64 bits
  EXPECT_EQ(at<uint32_t>(wrapped, 4), at<uint32_t>(bits(key, 0, i32, {4}), 0));
}

TEST(Random, Uniform) {
  auto draw = [](int32_t dtype, int64_t n) {
    return runOp("uniform", {number(7), number(3)}, dtype, {n},
                 {integers("shape", {n}), string("dtype", dtypeName(dtype))});
  };
  auto words = bits(7, 3, i32, {4});
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(draw(f32, 4).values[i], (at<uint32_t>(words, i) >> 8) / 16777216.0);
    EXPECT_EQ(draw(f16, 4).values[i], (at<uint32_t>(words, i) >> 21) / 2048.0);
    EXPECT_EQ(draw(bf16, 4).values[i], (at<uint32_t>(words, i) >> 24) / 256.0);
  }
  EXPECT_EQ(draw(f64, 1).values[0], std::ldexp(static_cast<double>(at<uint64_t>(words, 0) >> 11), -53));
  for (int32_t dtype : {f64, f32, f16, bf16}) {
    Data many = draw(dtype, 10000);
    double sum = 0;
    for (double value : many.values) {
      EXPECT_TRUE(value >= 0 && value < 1);
      sum += value;
    }
    EXPECT_NEAR(sum / 10000, 0.5, 5 * std::sqrt(1 / 12.0 / 10000)); // five standard errors
  }
  EXPECT_NE(opError("uniform", {number(7), number(3)}, f8e5, {1}, {integers("shape", {1}), string("dtype", "f8E5M2")}),
            "");
  EXPECT_NE(
      opError("uniform", {vector(i64, {7}), number(3)}, f32, {1}, {integers("shape", {1}), string("dtype", "f32")}),
      "");
}

TEST(Random, Normal) {
  constexpr int64_t n = 20000;
  Data draws = runOp("normal", {number(1), number(0)}, f32, {n}, {integers("shape", {n}), string("dtype", "f32")});
  double sum = 0, squares = 0, fourths = 0;
  for (double value : draws.values) {
    EXPECT_LE(std::abs(value), 5.8);
    sum += value;
    squares += value * value;
    fourths += value * value * value * value;
  }
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2.0 / n)); // x^2 and x^4 have the variances 2 and 96
  EXPECT_NEAR(fourths / n, 3, 5 * std::sqrt(96.0 / n));
}

TEST(Random, BernoulliAndDropout) {
  Data p = vector(f32, {0, 1, NaN, -1, 2, 0.5});
  Data drawn = runOp("bernoulli", {p, number(5), number(0)}, i1, {6});
  EXPECT_EQ(drawn.values[0] + drawn.values[2] + drawn.values[3], 0);
  EXPECT_EQ(drawn.values[1] + drawn.values[4], 2);
  Data x = counting(f16, {1000}, 1);
  x.values[999] = NaN;
  auto run = [&](double q) {
    return runOps("dropout", {x, number(5), number(0)}, {{f16, {1000}}, {i1, {1000}}}, {real("p", q)});
  };
  auto half = run(0.5), all = run(1), none = run(0);
  double kept = 0;
  for (size_t i = 0; i < 999; ++i) {
    EXPECT_EQ(half[0].values[i], half[1].values[i] != 0 ? 2 * x.values[i] : 0);
    kept += half[1].values[i];
  }
  EXPECT_NEAR(kept, 500, 5 * std::sqrt(250));
  expectValues(all[0], std::vector<double>(1000, 0.0)); // the NaN too
  expectValues(none[0], x.values);
  EXPECT_NE(opsError("dropout", {x, number(5), number(0)}, {{f16, {1000}}, {i1, {1000}}}, {real("p", NaN)})
                .find("expected p from 0 to 1"),
            std::string::npos);
}

TEST(Random, Permutation) {
  Data order = runOp("random_permutation", {number(9), number(2)}, i64, {100}, {integers("shape", {100})});
  auto drawn = bits(9, 2, i64, {100});
  std::vector<bool> seen(100);
  for (size_t i = 0; i < 100; ++i) {
    auto now = static_cast<size_t>(order.values[i]);
    EXPECT_FALSE(seen.at(now));
    seen[now] = true;
    if (i > 0)
      EXPECT_LT(at<int64_t>(drawn, static_cast<size_t>(order.values[i - 1])), at<int64_t>(drawn, now));
  }
}
