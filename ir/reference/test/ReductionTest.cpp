// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "RunOp.h"

using namespace mortise;
using namespace mortise::test;

namespace {
Data reduce(const std::string &op, Data x, Dims result, Dims axes) {
  return runOp(op, {x}, x.dtype, result, {integers("axes", axes)});
}
} // namespace

TEST(Reduction, AxesDisappear) {
  Data x = counting(i32, {2, 3, 2}, 1);
  expectValues(reduce("reduce_sum", x, {2, 2}, {1}), {9, 12, 27, 30});
  expectValues(reduce("reduce_sum", x, {3}, {0, 2}), {18, 26, 34});
  expectValues(reduce("reduce_sum", x, {}, {0, 1, 2}), {78});
  expectValues(reduce("reduce_sum", x, {2, 3, 2}, {}), x.values);
  expectValues(reduce("reduce_prod", x, {2}, {1, 2}), {720, 665280});
  expectValues(reduce("reduce_max", x, {3, 2}, {0}), {7, 8, 9, 10, 11, 12});
  expectValues(reduce("reduce_min", x, {3, 2}, {0}), {1, 2, 3, 4, 5, 6});
  expectValues(reduce("mean", counting(f16, {2, 3}), {2}, {1}), {1, 4});
}

TEST(Reduction, OfNothing) {
  for (int32_t dtype : {f64, f32, f16, bf16, f8e5}) {
    Data none{dtype, {2, 0}, {}};
    expectValues(reduce("reduce_sum", none, {2}, {1}), {0, 0});
    expectValues(reduce("reduce_prod", none, {2}, {1}), {1, 1});
    expectValues(reduce("reduce_max", none, {2}, {1}), {-inf, -inf});
    expectValues(reduce("reduce_min", none, {2}, {1}), {inf, inf});
    expectValues(reduce("mean", none, {2}, {1}), {NaN, NaN});
  }
  expectValues(reduce("reduce_max", {f8e4, {0}, {}}, {}, {0}), {-448});
  expectValues(reduce("reduce_min", {f8e4, {0}, {}}, {}, {0}), {448});
  expectValues(reduce("reduce_max", {i8, {0}, {}}, {}, {0}), {-128});
  expectValues(reduce("reduce_min", {i8, {0}, {}}, {}, {0}), {127});
  expectValues(reduce("reduce_max", {i4, {0}, {}}, {}, {0}), {-8});
  expectValues(reduce("reduce_min", {ui8, {0}, {}}, {}, {0}), {255});
  expectValues(reduce("reduce_max", {i64, {0}, {}}, {}, {0}), {-0x1p63});
  expectValues(reduce("reduce_max", {i1, {0}, {}}, {}, {0}), {0});
  expectValues(reduce("reduce_min", {i1, {0}, {}}, {}, {0}), {1});
  EXPECT_TRUE(reduce("reduce_sum", {f32, {0, 3}, {}}, {0}, {1}).values.empty());
}

TEST(Reduction, HostileValues) {
  expectValues(reduce("reduce_max", vector(f32, {1, NaN, inf}), {}, {0}), {NaN});
  expectValues(reduce("reduce_min", vector(f32, {1, NaN, -inf}), {}, {0}), {NaN});
  expectValues(reduce("reduce_max", vector(f32, {-0.0, 0.0, -0.0}), {}, {0}), {0.0});
  expectValues(reduce("reduce_min", vector(f32, {0.0, -0.0, 0.0}), {}, {0}), {-0.0});
  expectValues(reduce("reduce_sum", vector(f32, {inf, -inf}), {}, {0}), {NaN});
  expectValues(reduce("reduce_sum", vector(f32, {1e8, 1, -1e8}), {}, {0}), {1});
  expectValues(reduce("reduce_sum", vector(f16, {65504, 65504, -65504}), {}, {0}), {65504});
  expectValues(reduce("reduce_sum", vector(i8, {127, 1}), {}, {0}), {-128});
  expectValues(reduce("reduce_max", vector(i1, {0, 1, 0}), {}, {0}), {1});
  expectValues(reduce("reduce_min", vector(i1, {1, 1, 0}), {}, {0}), {0});
  expectValues(reduce("mean", vector(bf16, {256, 1, 1}), {}, {0}), {86});
}

TEST(Reduction, Argmax) {
  auto argmax = [](Data x, Dims result, int64_t axis) {
    return runOp("argmax", {x}, i64, result, {integer("axis", axis)});
  };
  expectValues(argmax({f32, {2, 3}, {1, 5, 5, -1, -3, -1}}, {2}, 1), {1, 0});
  expectValues(argmax({f32, {2, 3}, {1, 5, 5, 2, 4, 6}}, {3}, 0), {1, 0, 1});
  expectValues(argmax(vector(f32, {1, NaN, inf, NaN}), {}, 0), {1});
  expectValues(argmax(vector(f32, {-0.0, 0.0}), {}, 0), {0});
  expectValues(argmax(vector(ui8, {100, 200}), {}, 0), {1});
  EXPECT_TRUE(argmax({f32, {0, 2}, {}}, {0}, 1).values.empty());
  EXPECT_NE(opError("argmax", {{f32, {2, 0}, {}}}, i64, {2}, {integer("axis", 1)}).find("no largest"),
            std::string::npos);
}

TEST(Reduction, Cumsum) {
  auto cumsum = [](Data x, int64_t axis) { return runOp("cumsum", {x}, x.dtype, x.dims, {integer("axis", axis)}); };
  expectValues(cumsum(counting(i32, {2, 3}, 1), 1), {1, 3, 6, 4, 9, 15});
  expectValues(cumsum(counting(f32, {2, 3}, 1), 0), {1, 2, 3, 5, 7, 9});
  expectValues(cumsum(vector(i8, {100, 100}), 0), {100, -56});
  expectValues(cumsum(vector(f16, {2048, 1, 1}), 0), {2048, 2048, 2050}); // the running sum is not rounded
  expectValues(cumsum(vector(f32, {1, NaN, 1}), 0), {1, NaN, NaN});
}

TEST(Reduction, Refusals) {
  EXPECT_NE(opError("reduce_sum", {counting(f32, {2, 2})}, f32, {}, {integers("axes", {1, 0})}).find("ascending"),
            std::string::npos);
  EXPECT_NE(opError("reduce_sum", {counting(f32, {2})}, f32, {}, {integers("axes", {1})}), "");
  EXPECT_NE(opError("cumsum", {counting(f32, {2})}, f32, {2}, {integer("axis", -1)}), "");
  EXPECT_NE(opError("reduce_sum", {counting(f32, {2})}, f32, {}).find("'axes' is missing"), std::string::npos);
}
