// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run_op.hpp"

using namespace mortise;
using namespace mortise::test;

TEST(Shape, Constant) {
  ViewBuilder b;
  const MortiseType *small = b.type(MORTISE_I4, {3}), *floats = b.type(MORTISE_F32, {1, 2});
  b.output(b.op("constant", {}, small, {tensor("value", small, {0x9f, 0x07})})); // -1, -7, 7
  b.output(b.op("constant", {}, floats, {tensor("value", floats, {0, 0, 128, 63, 0, 0, 0, 192})}));
  uint8_t nibbles[2] = {0xff, 0xff};
  float numbers[2];
  void *outputs[] = {nibbles, numbers};
  ASSERT_TRUE(reference::interpret(b.view(), {}, outputs));
  EXPECT_EQ(nibbles[0], 0x9f);
  EXPECT_EQ(nibbles[1], 0x07);
  EXPECT_EQ(numbers[0], 1);
  EXPECT_EQ(numbers[1], -2);
}

TEST(Shape, Iota) {
  auto iota = [](int32_t dtype, Dims dims, int64_t axis) {
    return runOp("iota", {}, dtype, dims,
                 {integers("shape", dims), string("dtype", dtypeName(dtype)), integer("axis", axis)});
  };
  expectValues(iota(i32, {2, 3}, 1), {0, 1, 2, 0, 1, 2});
  expectValues(iota(f16, {2, 3}, 0), {0, 0, 0, 1, 1, 1});
  EXPECT_EQ(iota(i8, {300}, 0).values[299], 43) << "wraps as convert does";
  EXPECT_EQ(iota(i4, {10}, 0).values[9], -7);
  EXPECT_EQ(iota(bf16, {300}, 0).values[257], 256) << "rounds as convert does";
  EXPECT_TRUE(std::isnan(iota(f8e4, {500}, 0).values[499]));
}

TEST(Shape, Reshape) {
  expectValues(runOp("reshape", {counting(i16, {2, 3})}, i16, {3, 2}, {integers("shape", {3, 2})}), {0, 1, 2, 3, 4, 5});
  expectValues(runOp("reshape", {vector(f32, {NaN})}, f32, {}, {integers("shape", {})}), {NaN});
  EXPECT_NE(opError("reshape", {counting(f32, {6})}, f32, {5}, {integers("shape", {5})}).find("as many elements"),
            std::string::npos);
}

TEST(Shape, Transpose) {
  for (int32_t dtype : {f64, f32, f16, i8}) {
    Data out = runOp("transpose", {counting(dtype, {2, 3, 4})}, dtype, {4, 2, 3}, {integers("permutation", {2, 0, 1})});
    for (int64_t a = 0; a < 4; ++a)
      for (int64_t b = 0; b < 2; ++b)
        for (int64_t c = 0; c < 3; ++c)
          EXPECT_EQ(out.values[static_cast<size_t>((a * 2 + b) * 3 + c)], static_cast<double>((b * 3 + c) * 4 + a));
  }
  EXPECT_NE(opError("transpose", {counting(f32, {2, 2})}, f32, {2, 2}, {integers("permutation", {0, 0})}), "");
}

TEST(Shape, Broadcast) {
  auto broadcast = [](Data x, Dims shape, Dims axes) {
    return runOp("broadcast", {x}, x.dtype, shape, {integers("shape", shape), integers("axes", axes)});
  };
  expectValues(broadcast(vector(i4, {1, 2, 3}), {2, 3}, {1}), {1, 2, 3, 1, 2, 3});
  expectValues(broadcast(vector(f32, {1, 2}), {2, 3}, {0}), {1, 1, 1, 2, 2, 2});
  expectValues(broadcast({f32, {2, 1}, {5, 6}}, {2, 2, 2}, {1, 2}), {5, 5, 6, 6, 5, 5, 6, 6});
  expectValues(broadcast(scalar(i64, 9), {3}, {}), {9, 9, 9});
  EXPECT_TRUE(broadcast(vector(f32, {1}), {0}, {0}).values.empty());
  EXPECT_NE(opError("broadcast", {vector(f32, {1, 2})}, f32, {3}, {integers("shape", {3}), integers("axes", {0})}), "");
  EXPECT_NE(
      opError("broadcast", {counting(f32, {2, 2})}, f32, {2, 2}, {integers("shape", {2, 2}), integers("axes", {1, 0})})
          .find("ascending"),
      std::string::npos);
}

TEST(Shape, Slice) {
  auto slice = [](Data x, Dims result, Dims starts, Dims limits, Dims strides) {
    return runOp("slice", {x}, x.dtype, result,
                 {integers("starts", starts), integers("limits", limits), integers("strides", strides)});
  };
  expectValues(slice(counting(i32, {4, 5}), {2, 2}, {1, 0}, {4, 5}, {2, 3}), {5, 8, 15, 18});
  expectValues(slice(counting(i4, {7}), {3}, {1}, {6}, {2}), {1, 3, 5});
  EXPECT_TRUE(slice(counting(i32, {4}), {0}, {4}, {4}, {1}).values.empty());
  expectValues(slice(counting(i32, {4}), {1}, {2}, {3}, {INT64_MAX}), {2});
  EXPECT_NE(opError("slice", {counting(f32, {4})}, f32, {3},
                    {integers("starts", {2}), integers("limits", {5}), integers("strides", {1})}),
            "");
}

TEST(Shape, Concatenate) {
  expectValues(runOp("concatenate", {counting(i32, {2, 1}), counting(i32, {2, 2}, 10), {i32, {2, 0}, {}}}, i32, {2, 3},
                     {integer("axis", 1)}),
               {0, 10, 11, 1, 12, 13});
  expectValues(runOp("concatenate", {vector(i4, {1, 2, 3}), vector(i4, {4, 5})}, i4, {5}, {integer("axis", 0)}),
               {1, 2, 3, 4, 5});
  EXPECT_NE(opError("concatenate", {counting(i32, {2, 1}), counting(i32, {3, 1})}, i32, {2, 2}, {integer("axis", 1)}),
            "");
}

TEST(Shape, Pad) {
  auto pad = [](Data x, double value, Dims result, Dims low, Dims high, Dims interior) {
    return runOp("pad", {x, scalar(x.dtype, value)}, x.dtype, result,
                 {integers("low", low), integers("high", high), integers("interior", interior)});
  };
  expectValues(pad(vector(f32, {1, 2, 3}), -1, {8}, {1}, {2}, {1}), {-1, 1, -1, 2, -1, 3, -1, -1});
  expectValues(pad(vector(f32, {1, 2, 3}), -1, {2}, {-1}, {0}, {0}), {2, 3});
  expectValues(pad(vector(f32, {1, 2, 3}), -1, {3}, {-1}, {-1}, {1}), {-1, 2, -1});
  expectValues(pad(counting(i4, {2, 2}), 7, {3, 2}, {1, 0}, {0, 0}, {0, 0}), {7, 7, 0, 1, 2, 3});
  expectValues(pad({f32, {0}, {}}, 5, {2}, {1}, {1}, {3}), {5, 5});
}

TEST(Shape, Reverse) {
  expectValues(runOp("reverse", {counting(i32, {2, 3})}, i32, {2, 3}, {integers("axes", {1})}), {2, 1, 0, 5, 4, 3});
  expectValues(runOp("reverse", {counting(f8e5, {2, 2})}, f8e5, {2, 2}, {integers("axes", {0, 1})}), {3, 2, 1, 0});
  EXPECT_TRUE(runOp("reverse", {{i32, {0}, {}}}, i32, {0}, {integers("axes", {0})}).values.empty());
}
