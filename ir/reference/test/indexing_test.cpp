// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run_op.hpp"

using namespace mortise;
using namespace mortise::test;

TEST(Indexing, Take) {
  Data table = counting(f16, {3, 2});
  for (int32_t type : {i64, i32})
    expectValues(runOp("take", {table, {type, {2, 2}, {2, 0, -1, -3}}}, f16, {2, 2, 2}, {integer("axis", 0)}),
                 {4, 5, 0, 1, 4, 5, 0, 1});
  expectValues(runOp("take", {table, vector(i64, {3, -4, 100, -100})}, f16, {4, 2}, {integer("axis", 0)}),
               {4, 5, 0, 1, 4, 5, 0, 1}); // out of range: the nearest
  expectValues(runOp("take", {counting(i4, {2, 3}), scalar(i64, 1)}, i4, {2}, {integer("axis", 1)}), {1, 4});
  expectValues(runOp("embedding", {table, vector(i32, {1})}, f16, {1, 2}), {2, 3});
  EXPECT_NE(opError("take", {{f32, {0}, {}}, vector(i64, {0})}, f32, {1}, {integer("axis", 0)}).find("extent 0"),
            std::string::npos);
  EXPECT_TRUE(runOp("take", {{f32, {0, 2}, {}}, {i64, {0}, {}}}, f32, {0, 2}, {integer("axis", 0)}).values.empty());
  EXPECT_NE(opError("take", {table, vector(f32, {0})}, f16, {1, 2}, {integer("axis", 0)}).find("i64 or i32"),
            std::string::npos);
}

TEST(Indexing, TakeAlong) {
  Data x{f32, {2, 3}, {10, 11, 12, 20, 21, 22}};
  expectValues(runOp("take_along", {x, {i64, {2, 2}, {2, 0, -1, 1}}}, f32, {2, 2}, {integer("axis", 1)}),
               {12, 10, 22, 21});
  expectValues(runOp("take_along", {x, {i64, {1, 2}, {1, 5}}}, f32, {1, 2}, {integer("axis", 0)}), {20, 21});
  EXPECT_NE(opError("take_along", {x, {i64, {3, 1}, {0, 0, 0}}}, f32, {3, 1}, {integer("axis", 1)}), "");
}

TEST(Indexing, TakeNd) {
  Data x = counting(i32, {2, 3, 2});
  expectValues(runOp("take_nd", {x, {i64, {2, 2}, {1, 2, 0, -1}}}, i32, {2, 2}), {10, 11, 4, 5});
  expectValues(runOp("take_nd", {x, {i64, {3}, {1, 1, 1}}}, i32, {}), {9});
  expectValues(runOp("take_nd", {counting(i32, {2}), {i64, {2, 0}, {}}}, i32, {2, 2}),
               {0, 1, 0, 1}); // no coordinates: all
  expectValues(runOp("take_nd", {x, {i32, {1, 2}, {5, -9}}}, i32, {1, 2}), {6, 7});
}

TEST(Indexing, Put) {
  auto put = [](Data x, Data indices, Data updates, int64_t axis, const char *mode) {
    return runOp("put", {x, indices, updates}, x.dtype, x.dims, {integer("axis", axis), string("mode", mode)});
  };
  expectValues(put(counting(f32, {3, 2}), vector(i64, {0, -1}), {f32, {2, 2}, {7, 8, 9, 10}}, 0, "set"),
               {7, 8, 2, 3, 9, 10});
  expectValues(put(counting(i8, {2, 3}), vector(i32, {1, 1}), {i8, {2, 2}, {50, 60, 70, 80}}, 1, "set"),
               {0, 60, 2, 3, 80, 5});
  expectValues(put(counting(i8, {3}), vector(i64, {1, 1, 3, -4}), vector(i8, {100, 100, 1, 1}), 0, "add"), {0, -55, 2});
  expectValues(put(counting(f32, {3}), vector(i64, {3, -4}), vector(f32, {1, 1}), 0, "set"), {0, 1, 2}); // dropped
  // f16 sums round once: 2048 + 1 + 1 is 2050, where rounding each time stays at 2048.
  expectValues(put(vector(f16, {2048}), vector(i64, {0, 0}), vector(f16, {1, 1}), 0, "add"), {2050});
  EXPECT_NE(opError("put", {counting(f32, {3}), vector(i64, {0}), vector(f32, {1})}, f32, {3},
                    {integer("axis", 0), string("mode", "mul")}),
            "");
}

TEST(Indexing, PutOfNewValuesKeepsTheBitsOfNaN) {
  OpRun run;
  ASSERT_TRUE(run.run("put", {vector(f16, {1, 2}), vector(i64, {1}), vector(f16, {3})}, {{f16, {2}}},
                      {integer("axis", 0), string("mode", "set")}));
  const uint16_t x[] = {0x7c01, 0}, update = 0xfe2a; // a signalling NaN, and one with a payload
  const int64_t index = 1;
  uint16_t result[2] = {};
  const void *inputs[] = {x, &index, &update};
  void *output = result;
  ASSERT_TRUE(reference::interpret(run.builder.view(), inputs, {&output, 1}));
  EXPECT_EQ(result[0], 0x7c01);
  EXPECT_EQ(result[1], 0xfe2a);
}

TEST(Indexing, ScatterAlong) {
  auto scatter = [](Data x, Data indices, Data updates, int64_t axis, const char *mode) {
    return runOp("scatter_along", {x, indices, updates}, x.dtype, x.dims,
                 {integer("axis", axis), string("mode", mode)});
  };
  Data x = counting(f32, {3, 2}), indices{i64, {2, 2}, {0, -1, 2, 2}}, updates{f32, {2, 2}, {10, 20, 30, 40}};
  expectValues(scatter(x, indices, updates, 0, "set"), {10, 1, 2, 3, 30, 40}); // 20 is overwritten by 40
  expectValues(scatter(x, indices, updates, 0, "add"), {10, 1, 2, 3, 34, 65});
  expectValues(scatter(x, indices, updates, 0, "mul"), {0, 1, 2, 3, 120, 4000});
  expectValues(scatter(x, indices, {f32, {2, 2}, {-1, 20, NaN, 3}}, 0, "max"), {0, 1, 2, 3, NaN, 20});
  expectValues(scatter(x, indices, {f32, {2, 2}, {-1, 20, 30, NaN}}, 0, "min"), {-1, 1, 2, 3, 4, NaN});
  expectValues(scatter(vector(f32, {0.0}), vector(i64, {0}), vector(f32, {-0.0}), 0, "max"), {0.0});
  expectValues(scatter(vector(f32, {0.0}), vector(i64, {0}), vector(f32, {-0.0}), 0, "min"), {-0.0});
  expectValues(scatter(x, {i32, {1, 1}, {1}}, {f32, {1, 1}, {7}}, 1, "set"), {0, 7, 2, 3, 4, 5});
  expectValues(scatter(x, {i32, {2, 1}, {2, -3}}, {f32, {2, 1}, {7, 8}}, 1, "set"), x.values); // out of range: dropped
  expectValues(scatter(vector(i8, {100}), vector(i64, {0, 0}), vector(i8, {100, 2}), 0, "mul"), {32});
  expectValues(scatter(vector(i1, {0, 1}), vector(i64, {0, 1}), vector(i1, {1, 0}), 0, "add"), {1, 1});
  expectValues(scatter(vector(f16, {2048}), vector(i64, {0, 0}), vector(f16, {1, 1}), 0, "add"), {2050}); // rounds once
  expectValues(scatter(counting(i4, {3}), vector(i64, {1}), vector(i4, {7}), 0, "set"), {0, 7, 2});
  EXPECT_TRUE(scatter({f32, {0}, {}}, vector(i64, {0}), vector(f32, {1}), 0, "set").values.empty());
  auto error = [&](Data indices, Data updates, const char *mode) {
    return opError("scatter_along", {x, indices, updates}, f32, {3, 2}, {integer("axis", 0), string("mode", mode)});
  };
  EXPECT_NE(error(indices, updates, "sum").find("expected mode to be one of set, add, mul, max, min"),
            std::string::npos);
  EXPECT_NE(error({i64, {1, 3}, {0, 0, 0}}, {f32, {1, 3}, {0, 0, 0}}, "set").find("reach beyond"), std::string::npos);
  EXPECT_NE(error(indices, {f32, {1, 2}, {0, 0}}, "set"), "");
  EXPECT_NE(error(vector(i64, {0}), vector(f32, {0}), "set").find("rank"), std::string::npos);
}

TEST(Indexing, ScatterNd) {
  auto scatter = [](Data x, Data indices, Data updates, const char *mode) {
    return runOp("scatter_nd", {x, indices, updates}, x.dtype, x.dims, {string("mode", mode)});
  };
  Data x = counting(f32, {2, 3});
  expectValues(scatter(x, {i64, {2, 2}, {0, -1, 1, 0}}, vector(f32, {10, 20}), "set"), {0, 1, 10, 20, 4, 5});
  expectValues(scatter(x, {i64, {3, 2}, {1, 1, 1, 1, 1, 3}}, vector(f32, {1, 2, 99}), "add"), {0, 1, 2, 3, 7, 5});
  expectValues(scatter(x, {i32, {2, 1}, {0, 2}}, {f32, {2, 3}, {7, 8, 9, 1, 1, 1}}, "set"), {7, 8, 9, 3, 4, 5});
  expectValues(scatter(x, {i64, {2, 0}, {}}, {f32, {2, 2, 3}, {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}}, "add"),
               {1, 2, 3, 4, 5, 6}); // no coordinates: all of it
  expectValues(scatter(x, {i64, {2}, {1, 2}}, scalar(f32, -1), "mul"), {0, 1, 2, 3, 4, -5});
  EXPECT_NE(opError("scatter_nd", {x, {i64, {1, 3}, {0, 0, 0}}, vector(f32, {0})}, f32, {2, 3}, {string("mode", "set")})
                .find("at most the operand's rank"),
            std::string::npos);
  EXPECT_NE(opError("scatter_nd", {x, {i64, {1, 1}, {0}}, vector(f32, {0})}, f32, {2, 3}, {string("mode", "set")}), "");
}

TEST(Indexing, Searchsorted) {
  auto search = [](Data sequence, Data values, bool right) {
    return runOp("searchsorted", {sequence, values}, i64, values.dims, {flag("right", right)});
  };
  Data sequence = vector(f32, {-inf, 1, 3, 3, inf, NaN, NaN}), values{f32, {2, 4}, {-inf, 0, 3, 4, inf, NaN, 3, -0.0}};
  expectValues(search(sequence, values, false), {0, 1, 2, 4, 4, 5, 2, 1});
  expectValues(search(sequence, values, true), {1, 1, 4, 4, 5, 7, 4, 1});
  expectValues(search(vector(f32, {-0.0, 0.0}), vector(f32, {0.0, -0.0}), false), {0, 0});
  expectValues(search({i32, {2, 3}, {1, 2, 3, 10, 20, 30}}, {i32, {2, 2}, {2, 9, 9, 30}}, true), {2, 3, 0, 3});
  expectValues(search({f32, {0}, {}}, vector(f32, {1}), true), {0});
  expectValues(search(sequence, scalar(f32, 1), true), {2});
  EXPECT_NE(opError("searchsorted", {{f32, {2, 2}, {0, 1, 0, 1}}, vector(f32, {0})}, i64, {1}, {flag("right", true)}),
            "");
  EXPECT_NE(opError("searchsorted", {sequence, vector(f64, {0})}, i64, {1}, {flag("right", true)}), "");
}
