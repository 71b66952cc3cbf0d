// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run_op.hpp"

using namespace mortise;
using namespace mortise::test;

namespace {
Data unary(const std::string &op, const Data &x) { return runOp(op, {x}, x.dtype, x.dims); }
Data binary(const std::string &op, const Data &x, const Data &y) { return runOp(op, {x, y}, x.dtype, x.dims); }
Data compare(const std::string &direction, const Data &x, const Data &y) {
  return runOp("compare", {x, y}, i1, x.dims, {string("direction", direction)});
}
} // namespace

TEST(Elementwise, FunctionsRoundTheExactValueOnce) {
  struct Case {
    const char *op;
    double (*function)(double);
  };
  const Case cases[] = {{"exp", std::exp},
                        {"expm1", std::expm1},
                        {"log", std::log},
                        {"log1p", std::log1p},
                        {"sqrt", std::sqrt},
                        {"sin", std::sin},
                        {"cos", std::cos},
                        {"tanh", std::tanh},
                        {"erf", std::erf},
                        {"erfc", std::erfc},
                        {"tan", std::tan},
                        {"asin", std::asin},
                        {"acos", std::acos},
                        {"atan", std::atan},
                        {"sinh", std::sinh},
                        {"cosh", std::cosh},
                        {"asinh", std::asinh},
                        {"acosh", std::acosh},
                        {"atanh", std::atanh},
                        {"log2", std::log2},
                        {"log10", std::log10},
                        {"exp2", std::exp2},
                        {"floor", std::floor},
                        {"ceil", std::ceil},
                        {"abs", std::fabs},
                        {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
                        {"logistic", [](double x) { return 0.5 + 0.5 * std::tanh(x / 2); }}};
  for (const Case &c : cases)
    for (int32_t dtype : floatTypes) {
      SCOPED_TRACE(std::string(c.op) + " of " + dtypeName(dtype));
      Data x = noise(dtype, {40});
      x.values.insert(x.values.end(), {0.0, -0.0, 1.0, NaN});
      x.dims = {44};
      Data found = unary(c.op, x);
      for (size_t i = 0; i < x.values.size(); ++i)
        EXPECT_TRUE(same(found.values[i], rounded(dtype, c.function(x.values[i]))) ||
                    std::abs(found.values[i] - c.function(x.values[i])) < 1e-15)
            << x.values[i] << " gives " << found.values[i];
    }
}

TEST(Elementwise, HostileValues) {
  Data x = vector(f32, {NaN, inf, -inf, -0.0, 0.0, 1e-45, -1.0});
  expectValues(unary("abs", x), {NaN, inf, inf, 0.0, 0.0, rounded(f32, 1e-45), 1.0});
  expectValues(unary("neg", x), {NaN, -inf, inf, 0.0, -0.0, -rounded(f32, 1e-45), 1.0});
  expectValues(unary("sign", x), {NaN, 1, -1, -0.0, 0.0, 1, -1});
  expectValues(unary("exp", x), {NaN, inf, 0.0, 1, 1, 1, rounded(f32, std::exp(-1))});
  expectValues(unary("log", x), {NaN, inf, NaN, -inf, -inf, rounded(f32, std::log(rounded(f32, 1e-45))), NaN});
  expectValues(unary("sqrt", x), {NaN, inf, NaN, -0.0, 0.0, rounded(f32, std::sqrt(rounded(f32, 1e-45))), NaN});
  expectValues(unary("rsqrt", vector(f32, {NaN, inf, -inf, -0.0, 0.0, 4.0})), {NaN, 0.0, NaN, -inf, inf, 0.5});
  expectValues(unary("sin", vector(f32, {inf, -inf, -0.0})), {NaN, NaN, -0.0});
  expectValues(unary("logistic", vector(f32, {inf, -inf, 0.0, 200, -200})),
               {1, 0, 0.5, 1, rounded(f32, std::exp(-200.0))});
  expectValues(unary("tanh", vector(f32, {inf, -inf, -0.0})), {1, -1, -0.0});
  expectValues(unary("erf", vector(f32, {inf, -inf})), {1, -1});
  expectValues(unary("erfc", vector(f32, {inf, -inf, 10})), {0, 2, rounded(f32, 2.0884875837625446e-45)});
  expectValues(unary("round", vector(f32, {0.5, 1.5, 2.5, -0.5, -1.5, -0.2})), {0, 2, 2, -0.0, -2, -0.0});
}

TEST(Elementwise, NegKeepsTheBitsOfNaN) {
  OpRun run;
  Data x = vector(f16, {NaN});
  ASSERT_TRUE(run.run("neg", {x}, {{f16, {1}}}, {}));
  EXPECT_EQ(run.outputs[0][1] & 0x80, 0x80);
  const uint16_t payload = 0xfe2a; // -NaN
  uint16_t result = 0;
  const void *input = &payload;
  void *output = &result;
  ASSERT_TRUE(reference::interpret(run.builder.view(), {&input, 1}, {&output, 1}));
  EXPECT_EQ(result, 0x7e2a);
}

TEST(Elementwise, IntegersWrap) {
  expectValues(unary("neg", vector(i8, {-128, 127, 0})), {-128, -127, 0});
  expectValues(unary("abs", vector(i8, {-128, -127})), {-128, 127});
  expectValues(unary("sign", vector(i32, {-7, 0, 9})), {-1, 0, 1});
  expectValues(unary("neg", vector(ui8, {1, 0})), {255, 0});
  expectValues(unary("abs", vector(i4, {-8, -3})), {-8, 3});
  expectValues(binary("add", vector(i8, {127, -128}), vector(i8, {1, -1})), {-128, 127});
  expectValues(binary("mul", vector(i16, {300, -300}), vector(i16, {300, 300})), {24464, -24464});
  expectValues(binary("sub", vector(ui8, {0, 5}), vector(ui8, {1, 3})), {255, 2});
  expectValues(binary("add", vector(i4, {7, -8, 3}), vector(i4, {1, -1, 2})), {-8, 7, 5});
  expectValues(binary("add", vector(i64, {-0x1p63}), vector(i64, {-1})), {0x1p63});
}

TEST(Elementwise, IntegerDivision) {
  Data x = vector(i32, {7, -7, 7, -7, 5, 0, -2147483648.0}), y = vector(i32, {2, 2, -2, -2, 0, 0, -1});
  expectValues(binary("div", x, y), {3, -3, -3, 3, -1, -1, -2147483648.0});
  expectValues(binary("rem", x, y), {1, -1, 1, -1, 5, 0, 0});
  expectValues(binary("div", vector(ui8, {200, 9}), vector(ui8, {0, 2})), {255, 4});
  expectValues(binary("div", vector(i64, {-0x1p63}), vector(i64, {-1})), {-0x1p63});
  expectValues(binary("div", vector(i8, {-128}), vector(i8, {-1})), {-128});
  expectValues(binary("rem", vector(i64, {-0x1p63}), vector(i64, {-1})), {0});
}

TEST(Elementwise, Powers) {
  expectValues(
      binary("pow", vector(i32, {2, -2, 3, 1, -1, -1, 2, 0, 0}), vector(i32, {10, 3, 0, -5, -5, -4, -1, 0, -1})),
      {1024, -8, 1, 1, -1, 1, 0, 1, 0});
  expectValues(binary("pow", vector(i8, {3}), vector(i8, {6})), {-39}); // 729
  expectValues(binary("pow", vector(f32, {2, 0, NaN, -8, -2, inf}), vector(f32, {0.5, 0, 0, 1.0 / 3, 3, -1})),
               {rounded(f32, std::sqrt(2.0)), 1, 1, NaN, -8, 0});
}

TEST(Elementwise, FloatArithmetic) {
  expectValues(binary("add", vector(f32, {inf, 1e38, 16777216, -0.0}), vector(f32, {-inf, 1e38, 1, 0.0})),
               {NaN, rounded(f32, 1e38 * 2.0), 16777216, 0.0});
  expectValues(binary("div", vector(f32, {1, -1, 0, 1}), vector(f32, {0.0, 0.0, 0, -inf})), {inf, -inf, NaN, -0.0});
  expectValues(binary("rem", vector(f32, {5.5, -5.5, 5, inf, 3}), vector(f32, {2, 2, 0, 2, inf})),
               {1.5, -1.5, NaN, NaN, 3});
  expectValues(binary("mul", vector(f16, {300, 1e-4}), vector(f16, {300, 1e-4})),
               {inf, rounded(f16, rounded(f16, 1e-4) * rounded(f16, 1e-4))});
  expectNear(binary("atan2", vector(f64, {1, -1, 0, -0.0}), vector(f64, {1, -1, -1, -1})),
             {0.7853981633974483, -2.356194490192345, 3.141592653589793, -3.141592653589793}, 1e-15);
}

TEST(Elementwise, MaximumAndMinimum) {
  for (int32_t dtype : floatTypes) {
    SCOPED_TRACE(dtypeName(dtype));
    Data x = vector(dtype, {1, NaN, 1, -0.0, 0.0, -2}), y = vector(dtype, {2, 1, NaN, 0.0, -0.0, -3});
    expectValues(binary("max", x, y), {2, NaN, NaN, 0.0, 0.0, -2});
    expectValues(binary("min", x, y), {1, NaN, NaN, -0.0, -0.0, -3});
  }
  expectValues(binary("max", vector(i8, {-128, 5}), vector(i8, {127, -5})), {127, 5});
  expectValues(binary("min", vector(ui8, {200, 5}), vector(ui8, {100, 255})), {100, 5});
}

TEST(Elementwise, Booleans) {
  Data x = vector(i1, {0, 0, 1, 1}), y = vector(i1, {0, 1, 0, 1});
  for (const char *op : {"add", "max", "or"})
    expectValues(binary(op, x, y), {0, 1, 1, 1});
  for (const char *op : {"mul", "min", "and"})
    expectValues(binary(op, x, y), {0, 0, 0, 1});
  expectValues(binary("xor", x, y), {0, 1, 1, 0});
  expectValues(unary("not", x), {1, 1, 0, 0});
  expectValues(unary("not", vector(i8, {0, -1, 5})), {-1, 0, -6});
  expectValues(unary("not", vector(i4, {0, 7})), {-1, -8});
  expectValues(binary("xor", vector(ui8, {0xf0}), vector(ui8, {0xff})), {0x0f});
}

TEST(Elementwise, Compare) {
  Data x = vector(f32, {1, 2, NaN, -0.0, inf}), y = vector(f32, {2, 2, NaN, 0.0, inf});
  expectValues(compare("eq", x, y), {0, 1, 0, 1, 1});
  expectValues(compare("ne", x, y), {1, 0, 1, 0, 0});
  expectValues(compare("lt", x, y), {1, 0, 0, 0, 0});
  expectValues(compare("le", x, y), {1, 1, 0, 1, 1});
  expectValues(compare("gt", x, y), {0, 0, 0, 0, 0});
  expectValues(compare("ge", x, y), {0, 1, 0, 1, 1});
  expectValues(compare("lt", vector(i1, {0, 1}), vector(i1, {1, 1})), {1, 0});
  expectValues(compare("gt", vector(ui8, {200}), vector(ui8, {100})), {1});
  EXPECT_NE(opError("compare", {x, y}, i1, {5}, {string("direction", "lessish")}).find("lessish"), std::string::npos);
}

TEST(Elementwise, Select) {
  for (int32_t dtype : {f32, i64, i4, i1, f8e4})
    expectValues(
        runOp("select", {vector(i1, {1, 0, 1}), vector(dtype, {1, 0, 1}), vector(dtype, {0, 1, 0})}, dtype, {3}),
        {1, 1, 1});
}

TEST(Elementwise, EmptyAndScalar) {
  EXPECT_TRUE(unary("exp", {f32, {0, 3}, {}}).values.empty());
  expectValues(unary("exp", scalar(f32, 0)), {1});
  expectValues(binary("add", scalar(i4, 7), scalar(i4, 2)), {-7});
}

TEST(Elementwise, Refusals) {
  EXPECT_NE(opError("add", {vector(f32, {1}), vector(f64, {1})}, f32, {1})
                .find("expected operand 1 of type f32[1], found f64[1]"),
            std::string::npos);
  EXPECT_NE(opError("add", {vector(f32, {1}), vector(f32, {1, 2})}, f32, {1}).find("operand 1"), std::string::npos);
  EXPECT_NE(opError("exp", {vector(i32, {1})}, i32, {1}).find("expected floats"), std::string::npos);
  EXPECT_NE(opError("not", {vector(f32, {1})}, f32, {1}).find("integers or booleans"), std::string::npos);
  EXPECT_NE(opError("sub", {vector(i1, {1}), vector(i1, {1})}, i1, {1}).find("expected numbers"), std::string::npos);
  EXPECT_NE(opError("add", {vector(f32, {1})}, f32, {1}).find("operands"), std::string::npos);
  EXPECT_NE(opError("add", {vector(f32, {1}), absent()}, f32, {1}).find("operand 1 is missing"), std::string::npos);
  EXPECT_NE(opError("exp", {vector(f32, {1})}, f32, {1}, {integer("axis", 0)}).find("'axis' is not known"),
            std::string::npos);
  EXPECT_NE(opError("frobnicate", {vector(f32, {1})}, f32, {1}).find("no op of this name"), std::string::npos);
}

// The functions of opset 2, as described in families/elementwise.td.
TEST(Elementwise, FunctionsAtZerosAndInfinities) {
  expectValues(unary("tan", vector(f32, {0.0, -0.0, inf, -inf})), {0.0, -0.0, NaN, NaN});
  expectValues(unary("asin", vector(f32, {0.0, -0.0, inf, 2, -2})), {0.0, -0.0, NaN, NaN, NaN});
  expectValues(unary("acos", vector(f32, {1, inf, 2, -2})), {0.0, NaN, NaN, NaN});
  expectValues(unary("atan", vector(f32, {0.0, -0.0, inf, -inf})),
               {0.0, -0.0, rounded(f32, M_PI / 2), rounded(f32, -M_PI / 2)});
  expectValues(unary("sinh", vector(f32, {0.0, -0.0, inf, -inf, 1000, -1000})), {0.0, -0.0, inf, -inf, inf, -inf});
  expectValues(unary("cosh", vector(f32, {0.0, -0.0, inf, -inf, 1000})), {1, 1, inf, inf, inf});
  expectValues(unary("asinh", vector(f32, {0.0, -0.0, inf, -inf})), {0.0, -0.0, inf, -inf});
  expectValues(unary("acosh", vector(f32, {1, inf, 0.5, -1})), {0.0, inf, NaN, NaN});
  expectValues(unary("atanh", vector(f32, {0.0, -0.0, 1, -1, 2, inf})), {0.0, -0.0, inf, -inf, NaN, NaN});
  expectValues(unary("log2", vector(f32, {0.0, -0.0, inf, 1, -1})), {-inf, -inf, inf, 0.0, NaN});
  expectValues(unary("log10", vector(f32, {0.0, -0.0, inf, 1, -1})), {-inf, -inf, inf, 0.0, NaN});
  expectValues(unary("exp2", vector(f32, {0.0, -0.0, inf, -inf, 128})), {1, 1, inf, 0.0, inf});
  for (const char *op :
       {"tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "log2", "log10", "exp2"})
    expectValues(unary(op, vector(f32, {NaN})), {NaN});
}

TEST(Elementwise, CopysignTakesTheSignBit) {
  for (int32_t dtype : floatTypes) {
    SCOPED_TRACE(dtypeName(dtype));
    expectValues(binary("copysign", vector(dtype, {1, -1, 0.0, -0.0, 2}), vector(dtype, {-0.0, 0.0, -1, 1, -NaN})),
                 {-1, 1, -0.0, 0.0, -2});
    EXPECT_TRUE(std::isnan(binary("copysign", vector(dtype, {NaN}), vector(dtype, {-1})).values[0]));
  }
  expectValues(binary("copysign", vector(f32, {inf, -inf}), vector(f32, {-2, 2})), {-inf, inf});
  EXPECT_NE(opError("copysign", {vector(i32, {1}), vector(i32, {1})}, i32, {1}).find("expected floats"),
            std::string::npos);
}

TEST(Elementwise, Shifts) {
  expectValues(binary("shift_left", vector(i8, {1, 1, 1, 1, -1, 3}), vector(i8, {0, 7, 8, -1, 1, 6})),
               {1, -128, 0, 0, -2, -64});
  expectValues(binary("shift_right", vector(i8, {-128, -128, 127, 127, -1, -3}), vector(i8, {7, 8, 8, -1, -1, 1})),
               {-1, -1, 0, 0, -1, -2});
  expectValues(binary("shift_right", vector(ui8, {255, 255, 255}), vector(ui8, {1, 7, 8})), {127, 1, 0});
  expectValues(binary("shift_left", vector(i64, {1, 1, 1}), vector(i64, {62, 63, 64})),
               {4611686018427387904.0, -9223372036854775808.0, 0});
}

// Edge cases that families/elementwise.td defines in addition to IEEE 754.
TEST(Elementwise, EdgesAsDescribed) {
  expectValues(unary("abs", vector(f32, {-0.0, -inf})), {0.0, inf});
  expectValues(unary("expm1", vector(f32, {-inf, -0.0})), {-1, -0.0});
  expectValues(unary("exp", vector(f32, {inf, -inf, 1000})), {inf, 0.0, inf});
  expectValues(unary("log", vector(f32, {0.0, -0.0, -1, inf})), {-inf, -inf, NaN, inf});
  expectValues(unary("log1p", vector(f32, {-1, -2, -0.0})), {-inf, NaN, -0.0});
  expectValues(unary("sqrt", vector(f32, {-1, -0.0})), {NaN, -0.0});
  expectValues(unary("rsqrt", vector(f32, {0.0, -0.0, inf, -1})), {inf, -inf, 0.0, NaN});
  expectValues(unary("floor", vector(f32, {-0.0, -inf, -0.5})), {-0.0, -inf, -1});
  expectValues(unary("ceil", vector(f32, {-0.5, inf})), {-0.0, inf});
  auto two = [](const char *op, double x, double y, int32_t dtype = f32) {
    return runOp(op, {scalar(dtype, x), scalar(dtype, y)}, dtype, {}).values[0];
  };
  EXPECT_TRUE(same(two("add", -0.0, -0.0), -0.0));
  EXPECT_TRUE(same(two("add", inf, -inf), NaN));
  EXPECT_TRUE(same(two("sub", 3, 3), 0.0));
  EXPECT_TRUE(same(two("mul", 0, inf), NaN));
  EXPECT_TRUE(same(two("div", -1, 0), -inf));
  EXPECT_TRUE(same(two("div", 0, 0), NaN));
  EXPECT_EQ(two("div", 7, 0, i8), -1);
  EXPECT_EQ(two("div", 7, 0, ui8), 255);
  EXPECT_EQ(two("div", -128, -1, i8), -128);
  EXPECT_EQ(two("div", -7, 2, i8), -3);
  EXPECT_EQ(two("rem", 7, 0, i8), 7);
  EXPECT_EQ(two("rem", -128, -1, i8), 0);
  EXPECT_EQ(two("rem", -7, 2, i8), -1);
  EXPECT_TRUE(same(two("rem", 7, 0), NaN));
  EXPECT_TRUE(same(two("rem", inf, 2), NaN));
  EXPECT_EQ(two("rem", 7, inf), 7);
  EXPECT_TRUE(same(two("rem", -4, 2), -0.0));
  EXPECT_EQ(two("pow", NaN, 0), 1);
  EXPECT_EQ(two("pow", 1, NaN), 1);
  EXPECT_EQ(two("pow", 2, -1, i32), 0);
  EXPECT_EQ(two("pow", 0, -1, i32), 0);
  EXPECT_EQ(two("pow", 1, -3, i32), 1);
  EXPECT_EQ(two("pow", -1, -3, i32), -1);
  EXPECT_TRUE(same(two("max", 0.0, -0.0), 0.0));
  EXPECT_TRUE(same(two("max", -0.0, 0.0), 0.0));
  EXPECT_TRUE(same(two("min", 0.0, -0.0), -0.0));
  EXPECT_TRUE(same(two("max", NaN, 1), NaN));
  EXPECT_EQ(two("atan2", 0.0, -0.0), rounded(f32, M_PI));
  EXPECT_TRUE(same(two("atan2", -0.0, 0.0), -0.0));
  EXPECT_EQ(two("atan2", inf, -inf), rounded(f32, 3 * M_PI / 4));
}
