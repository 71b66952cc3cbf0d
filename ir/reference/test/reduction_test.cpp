// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run_op.hpp"

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

TEST(Reduction, Argmin) {
  auto argmin = [](Data x, Dims result, int64_t axis) {
    return runOp("argmin", {x}, i64, result, {integer("axis", axis)});
  };
  expectValues(argmin({f32, {2, 3}, {1, 5, 1, -1, -3, -3}}, {2}, 1), {0, 1});
  expectValues(argmin(vector(f32, {1, NaN, -inf, NaN}), {}, 0), {1});
  expectValues(argmin(vector(f32, {0.0, -0.0}), {}, 0), {0});
  expectValues(argmin(vector(ui8, {200, 100}), {}, 0), {1});
}

TEST(Reduction, Cumprod) {
  auto cumprod = [](Data x, int64_t axis) { return runOp("cumprod", {x}, x.dtype, x.dims, {integer("axis", axis)}); };
  expectValues(cumprod(counting(i32, {2, 3}, 1), 1), {1, 2, 6, 4, 20, 120});
  expectValues(cumprod(counting(f32, {2, 3}, 1), 0), {1, 2, 3, 4, 10, 18});
  expectValues(cumprod(vector(i8, {100, 2, 2}), 0), {100, -56, -112}); // wraps
  expectValues(cumprod(vector(f16, {1.0009765625, 1.0009765625, 0}), 0), {1.0009765625, 1.001953125, 0});
  expectValues(cumprod(vector(f32, {-0.0, 2, inf, 1, NaN}), 0), {-0.0, -0.0, NaN, NaN, NaN});
  EXPECT_TRUE(cumprod({f32, {0, 2}, {}}, 0).values.empty());
}

TEST(Reduction, Cumlogsumexp) {
  auto run = [](Data x) { return runOp("cumlogsumexp", {x}, x.dtype, x.dims, {integer("axis", 0)}); };
  Data x = noise(f64, {20});
  std::vector<double> expected;
  double sum = 0;
  for (double value : x.values)
    expected.push_back(std::log(sum += std::exp(value)));
  expectNear(run(x), expected, 1e-14);
  expectNear(run(vector(f64, {1000, 1000, -1000})), {1000, 1000 + std::log(2), 1000 + std::log(2)}, 1e-15);
  expectNear(run(vector(f64, {-1000, 1000})), {-1000, 1000}, 1e-15);
  expectValues(run(vector(f32, {-inf, -inf, 3, inf, inf, -inf, NaN, 1})), {-inf, -inf, 3, inf, inf, inf, NaN, NaN});
}

TEST(Reduction, RunningExtremes) {
  auto run = [](const char *op, Data x, int64_t axis) {
    return runOps(op, {x}, {{x.dtype, x.dims}, {i64, x.dims}}, {integer("axis", axis)});
  };
  auto largest = run("cummax", {f32, {2, 4}, {1, 3, 3, 2, NaN, 5, NaN, 9}}, 1);
  expectValues(largest[0], {1, 3, 3, 3, NaN, NaN, NaN, NaN});
  expectValues(largest[1], {0, 1, 2, 2, 0, 0, 2, 2});
  auto smallest = run("cummin", {i32, {3, 2}, {4, 1, 4, 2, 3, 0}}, 0);
  expectValues(smallest[0], {4, 1, 4, 1, 3, 0});
  expectValues(smallest[1], {0, 0, 1, 0, 2, 2});
  expectValues(run("cummax", vector(f32, {0.0, -0.0}), 0)[0], {0.0, -0.0}); // the element that is named
  expectValues(run("cummax", vector(i1, {0, 1, 0}), 0)[1], {0, 1, 1});
  EXPECT_NE(opsError("cummax", {counting(f32, {2})}, {{f32, {2}}, {i32, {2}}}, {integer("axis", 0)}), "");
  EXPECT_NE(opError("cummax", {counting(f32, {2})}, f32, {2}, {integer("axis", 0)}).find("2 results"),
            std::string::npos);
}

TEST(Reduction, Sort) {
  auto sort = [](Data x, int64_t axis, bool descending) {
    return runOps("sort", {x}, {{x.dtype, x.dims}, {i64, x.dims}},
                  {integer("axis", axis), flag("descending", descending), flag("stable", true)});
  };
  Data x = vector(f32, {3, NaN, -0.0, inf, 0.0, -inf, NaN, 3});
  auto up = sort(x, 0, false), down = sort(x, 0, true);
  expectValues(up[0], {-inf, -0.0, 0.0, 3, 3, inf, NaN, NaN});
  expectValues(up[1], {5, 2, 4, 0, 7, 3, 1, 6});
  expectValues(down[0], {NaN, NaN, inf, 3, 3, -0.0, 0.0, -inf});
  expectValues(down[1], {1, 6, 3, 0, 7, 2, 4, 5});
  auto columns = sort({i8, {3, 2}, {5, -1, 4, -1, 6, -2}}, 0, false);
  expectValues(columns[0], {4, -2, 5, -1, 6, -1});
  expectValues(columns[1], {1, 2, 0, 0, 2, 1});
  expectValues(sort(vector(i1, {1, 0, 1, 0}), 0, false)[1], {1, 3, 0, 2});
  EXPECT_TRUE(sort({f32, {0, 2}, {}}, 0, false)[0].values.empty());
  for (int32_t dtype : floatTypes) { // the result must be sorted, and a permutation
    Data wild = noise(dtype, {257});
    auto sorted = sort(wild, 0, false);
    std::vector<bool> seen(257);
    for (size_t i = 0; i < 257; ++i) {
      auto from = static_cast<size_t>(sorted[1].values[i]);
      EXPECT_FALSE(seen[from]);
      seen[from] = true;
      EXPECT_EQ(sorted[0].values[i], wild.values[from]);
      EXPECT_TRUE(i == 0 || sorted[0].values[i - 1] < sorted[0].values[i] ||
                  (sorted[0].values[i - 1] == sorted[0].values[i] && sorted[1].values[i - 1] < sorted[1].values[i]));
    }
  }
}

TEST(Reduction, TopK) {
  auto top = [](Data x, int64_t k, int64_t axis, bool largest) {
    Dims dims = x.dims;
    dims[static_cast<size_t>(axis)] = k;
    return runOps("top_k", {x}, {{x.dtype, dims}, {i64, dims}},
                  {integer("k", k), integer("axis", axis), flag("largest", largest), flag("sorted", true)});
  };
  Data x{f32, {2, 4}, {1, 7, 7, 3, NaN, 2, 9, 4}};
  auto largest = top(x, 2, 1, true), smallest = top(x, 2, 1, false), columns = top(x, 1, 0, true);
  expectValues(largest[0], {7, 7, NaN, 9});
  expectValues(largest[1], {1, 2, 0, 2});
  expectValues(smallest[0], {1, 3, 2, 4});
  expectValues(smallest[1], {0, 3, 1, 3});
  expectValues(columns[0], {NaN, 7, 9, 4});
  expectValues(columns[1], {1, 0, 1, 1});
  EXPECT_TRUE(top(x, 0, 1, true)[1].values.empty());
  EXPECT_NE(opsError("top_k", {x}, {{f32, {2, 5}}, {i64, {2, 5}}},
                     {integer("k", 5), integer("axis", 1), flag("largest", true), flag("sorted", true)})
                .find("expected k from 0 to 4, found 5"),
            std::string::npos);
}

TEST(Reduction, Refusals) {
  EXPECT_NE(opError("reduce_sum", {counting(f32, {2, 2})}, f32, {}, {integers("axes", {1, 0})}).find("ascending"),
            std::string::npos);
  EXPECT_NE(opError("reduce_sum", {counting(f32, {2})}, f32, {}, {integers("axes", {1})}), "");
  EXPECT_NE(opError("cumsum", {counting(f32, {2})}, f32, {2}, {integer("axis", -1)}), "");
  EXPECT_NE(opError("reduce_sum", {counting(f32, {2})}, f32, {}).find("'axes' is missing"), std::string::npos);
}
