// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run_op.hpp"

#include <bit>

using namespace mortise;
using namespace mortise::test;

namespace {
Data convert(const Data &from, int32_t to) {
  return runOp("convert", {from}, to, from.dims, {string("dtype", dtypeName(to))});
}
} // namespace

TEST(Convert, FloatsToIntegersTruncateAndSaturate) {
  Data from = vector(f64, {0.9, -0.9, 1.5, -1.5, NaN, inf, -inf, 1e30, -1e30, -0.0});
  expectValues(convert(from, i8), {0, 0, 1, -1, 0, 127, -128, 127, -128, 0});
  expectValues(convert(from, ui8), {0, 0, 1, 0, 0, 255, 0, 255, 0, 0});
  expectValues(convert(from, i4), {0, 0, 1, -1, 0, 7, -8, 7, -8, 0});
  expectValues(convert(from, i16), {0, 0, 1, -1, 0, 32767, -32768, 32767, -32768, 0});
  expectValues(convert(from, i32), {0, 0, 1, -1, 0, 2147483647, -2147483648.0, 2147483647, -2147483648.0, 0});
  expectValues(convert(from, i64), {0, 0, 1, -1, 0, 0x1p63, -0x1p63, 0x1p63, -0x1p63, 0}); // INT64_MAX as a double
  expectValues(convert(vector(f64, {126.999, 127.5, 128, -128.999, -129}), i8), {126, 127, 127, -128, -128});
}

TEST(Convert, IntegersKeepTheLowBits) {
  Data from = vector(i32, {300, -1, 128, 255, 2147483647, -2147483648.0, 8, 7});
  expectValues(convert(from, i8), {44, -1, -128, -1, -1, 0, 8, 7});
  expectValues(convert(from, ui8), {44, 255, 128, 255, 255, 0, 8, 7});
  expectValues(convert(from, i4), {-4, -1, 0, -1, -1, 0, -8, 7});
  expectValues(convert(vector(i8, {-1, -128}), i64), {-1, -128});
  expectValues(convert(vector(ui8, {255, 128}), i8), {-1, -128});
}

TEST(Convert, UnsignedSixteenBits) {
  constexpr int32_t ui16 = MORTISE_UI16;
  expectValues(convert(vector(f64, {0.9, -0.9, -1.5, NaN, inf, -inf, 65535.9, 65536}), ui16),
               {0, 0, 0, 0, 65535, 0, 65535, 65535});
  expectValues(convert(vector(i32, {65536, -1, 32768, 65537}), ui16), {0, 65535, 32768, 1});
  expectValues(convert(vector(ui16, {65535, 32768, 1}), i16), {-1, -32768, 1});
  expectValues(convert(vector(ui16, {65535, 32768}), i64), {65535, 32768});
  expectValues(convert(vector(ui16, {65535, 32767}), f32), {65535, 32767});
  expectValues(convert(vector(ui16, {65535}), bf16), {65536});
  expectValues(runOp("max", {vector(ui16, {65535, 1}), vector(ui16, {1, 2})}, ui16, {2}), {65535, 2});
  expectValues(runOp("div", {vector(ui16, {7, 65534}), vector(ui16, {0, 2})}, ui16, {2}), {65535, 32767});
  expectValues(runOp("reduce_sum", {vector(ui16, {65535, 3})}, ui16, {}, {integers("axes", {0})}), {2});
}

TEST(Convert, Booleans) {
  expectValues(convert(vector(f32, {0, -0.0, 1e-45, NaN, -3, inf}), i1), {0, 0, 1, 1, 1, 1});
  expectValues(convert(vector(i16, {0, 256, -1}), i1), {0, 1, 1});
  for (int32_t to : floatTypes)
    expectValues(convert(vector(i1, {0, 1}), to), {0, 1});
  for (int32_t to : intTypes)
    expectValues(convert(vector(i1, {0, 1}), to), {0, 1});
}

TEST(Convert, WideIntegersRoundOnce) {
  // By way of a double, 2^62 + 2^54 + 1 would become a tie and round down.
  ViewBuilder b;
  MortiseValue *x = b.input(MORTISE_I64, {2});
  b.output(b.op("convert", {x}, MORTISE_BF16, {2}, {string("dtype", "bf16")}));
  b.output(b.op("convert", {x}, MORTISE_F32, {2}, {string("dtype", "f32")}));
  int64_t values[] = {(int64_t(1) << 62) + (int64_t(1) << 54) + 1, (int64_t(1) << 62) + (int64_t(1) << 38) + 1};
  uint16_t halves[2];
  float floats[2];
  const void *inputs[] = {values};
  void *outputs[] = {halves, floats};
  ASSERT_TRUE(reference::interpret(b.view(), inputs, outputs));
  EXPECT_EQ(reference::BF16::load(halves[0]), 0x1.02p62);
  EXPECT_EQ(floats[1], 0x1.000002p62f);
  EXPECT_EQ(floats[0], static_cast<float>(values[0]));
}

TEST(Convert, FloatsOverflow) {
  Data from = vector(f32, {1e38, -1e38, 448, 60000, NaN});
  expectValues(convert(from, f16), {inf, -inf, 448, 60000, NaN});
  expectValues(convert(from, f8e5), {inf, -inf, 448, 57344, NaN});
  expectValues(convert(from, f8e4), {NaN, NaN, 448, NaN, NaN});
  expectValues(convert(vector(f64, {1e300, -1e300, 5e-324}), f32), {inf, -inf, 0});
}

TEST(Convert, EveryPairKeepsSmallIntegers) {
  std::vector<int32_t> all = floatTypes;
  all.insert(all.end(), intTypes.begin(), intTypes.end());
  for (int32_t from : all)
    for (int32_t to : all) {
      SCOPED_TRACE(std::string(dtypeName(from)) + " to " + dtypeName(to));
      expectValues(convert(vector(from, {0, 1, 2, 3, 5, 7, 6}), to), {0, 1, 2, 3, 5, 7, 6});
    }
}

TEST(Convert, Refusals) {
  EXPECT_NE(opError("convert", {vector(f32, {1})}, f16, {1}, {string("dtype", "f17")}).find("f17"), std::string::npos);
  EXPECT_NE(
      opError("convert", {vector(f32, {1})}, f32, {1}, {string("dtype", "f16")}).find("expected the result f16[1]"),
      std::string::npos);
}
