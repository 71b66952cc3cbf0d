// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Groups compiled once for a range of shapes, run at many shapes: compared with the reference, and with the same groups
// compiled for each shape.
#include "oracle.hpp"

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;

namespace {

// Builds the graph with the extents b and s, which may be symbols or numbers.
using Recipe = std::function<void(TestGraph &, const Dim &b, const Dim &s)>;

struct Case {
  const char *name;
  Recipe recipe;
  int64_t least = 2; // the least value of s
  Bound bound = equal;
  size_t groups = 1;
};
void PrintTo(const Case &test, std::ostream *out) { *out << test.name; }

V unary(TestGraph &g, const char *op, V x, const Extents &dims, std::vector<Attr> attributes = {}) {
  return g.symbolicOp(op, {x}, MORTISE_F32, dims, std::move(attributes));
}
V wide(TestGraph &g, V x, const Extents &dims, Dims axes) {
  return g.symbolicOp("broadcast", {x}, x->type->dtype, dims, {{"shape", dims}, {"axes", std::move(axes)}});
}

void gelu(TestGraph &g, const Dim &b, const Dim &s) {
  Extents dims{b, s, 48};
  V x = g.symbolicInput(MORTISE_F32, dims), bias = g.input(MORTISE_F32, {48});
  V sum = g.symbolicOp("add", {x, wide(g, bias, dims, {2})}, MORTISE_F32, dims);
  g.output(unary(g, "gelu", sum, dims, {{"approximate", "none"}}));
}
void oddWidth(TestGraph &g, const Dim &b, const Dim &s) {
  Extents dims{b, 3, s};
  V x = g.symbolicInput(MORTISE_F32, dims), y = g.symbolicInput(MORTISE_F32, {b, 1, s});
  g.output(g.symbolicOp("mul", {x, wide(g, y, dims, {0, 1, 2})}, MORTISE_F32, dims));
}
void layerNorm(TestGraph &g, const Dim &b, const Dim &s) {
  Extents dims{b, s, 40};
  V x = g.symbolicInput(MORTISE_F32, dims), r = g.symbolicInput(MORTISE_F32, dims);
  V scale = g.input(MORTISE_F32, {40}), bias = g.input(MORTISE_F32, {40});
  V sum = g.symbolicOp("add", {x, r}, MORTISE_F32, dims);
  g.output(sum);
  g.output(g.symbolicOp("layer_norm", {sum, scale, bias}, MORTISE_F32, dims, {{"axis", 2}, {"epsilon", 1e-5}}));
}
void rmsNormOfSymbolicRows(TestGraph &g, const Dim &b, const Dim &s) {
  Extents dims{b, s};
  V x = g.symbolicInput(MORTISE_F32, dims), scale = g.symbolicInput(MORTISE_F32, {s});
  g.output(g.symbolicOp("rms_norm", {x, scale}, MORTISE_F32, dims, {{"axis", 1}, {"epsilon", 1e-5}}));
}
void maskedSoftmax(TestGraph &g, const Dim &b, const Dim &s) {
  Extents dims{b, 4, s, s};
  V x = g.symbolicInput(MORTISE_F32, dims), mask = g.symbolicInput(MORTISE_F32, {b, 1, 1, s});
  V sum = g.symbolicOp("add", {x, wide(g, mask, dims, {0, 1, 2, 3})}, MORTISE_F32, dims);
  g.output(unary(g, "softmax", sum, dims, {{"axis", 3}}));
}
void softmaxOfColumns(TestGraph &g, const Dim &b, const Dim &s) {
  Extents dims{b, s, 20};
  g.output(unary(g, "softmax", g.symbolicInput(MORTISE_F32, dims), dims, {{"axis", 1}}));
}
void softmaxAcrossSymbolicColumns(TestGraph &g, const Dim &b, const Dim &s) {
  Extents dims{b, 5, s};
  g.output(unary(g, "log_softmax", g.symbolicInput(MORTISE_F32, dims), dims, {{"axis", 1}}));
}
void heads(TestGraph &g, const Dim &b, const Dim &s) {
  V x = g.symbolicInput(MORTISE_F32, {b, s, 64});
  Extents split{b, s, 4, 16}, turned{b, 4, s, 16};
  V y = unary(g, "reshape", x, split, {{"shape", split}});
  g.output(unary(g, "transpose", y, turned, {{"permutation", Dims{0, 2, 1, 3}}}));
}
void turnedHeads(TestGraph &g, const Dim &b, const Dim &s) {
  V x = g.symbolicInput(MORTISE_F32, {b, s, 4, 16});
  Extents turned{b, 4, 16, s};
  g.output(unary(g, "transpose", x, turned, {{"permutation", Dims{0, 2, 3, 1}}}));
}
void headsBack(TestGraph &g, const Dim &b, const Dim &s) {
  V x = g.symbolicInput(MORTISE_F32, {b, 4, s, 16});
  Extents turned{b, s, 4, 16}, flat{b * s, 64};
  V y = unary(g, "transpose", x, turned, {{"permutation", Dims{0, 2, 1, 3}}});
  g.output(unary(g, "reshape", y, flat, {{"shape", flat}}));
}
void flattened(TestGraph &g, const Dim &b, const Dim &s) {
  V x = g.symbolicInput(MORTISE_F32, {b, s, 6}), position = g.symbolicInput(MORTISE_F32, {s, 6});
  Extents dims{b, s, 6}, flat{b * s, 6}, odd{b * s * 2, 3}, all{b * s * 6};
  V sum = g.symbolicOp("add", {x, wide(g, position, dims, {1, 2})}, MORTISE_F32, dims);
  V y = unary(g, "reshape", sum, flat, {{"shape", flat}});
  y = unary(g, "neg", y, flat);
  y = unary(g, "reshape", y, odd, {{"shape", odd}});
  g.output(unary(g, "reshape", unary(g, "abs", y, odd), all, {{"shape", all}}));
}
void divided(TestGraph &g, const Dim &b, const Dim &s) { // lanes that cross symbolic rows
  V x = g.symbolicInput(MORTISE_F32, {s, b}), y = g.symbolicInput(MORTISE_F32, {b * s});
  V flat = unary(g, "reshape", unary(g, "transpose", x, {b, s}, {{"permutation", Dims{1, 0}}}), {b * s},
                 {{"shape", Extents{b * s}}});
  g.output(g.symbolicOp("sub", {flat, y}, MORTISE_F32, {b * s}));
}
void embedding(TestGraph &g, const Dim &b, const Dim &s) {
  V table = g.input(MORTISE_F32, {50, 32}), ids = g.symbolicInput(MORTISE_I64, {b, s});
  V position = g.input(MORTISE_F32, {512, 32});
  V x = g.symbolicOp("embedding", {table, ids}, MORTISE_F32, {b, s, 32});
  V p = g.symbolicOp("slice", {position}, MORTISE_F32, {s, 32},
                     {{"starts", Dims{0, 0}}, {"limits", Extents{s, 32}}, {"strides", Dims{1, 1}}});
  g.output(g.symbolicOp("add", {x, wide(g, p, {b, s, 32}, {1, 2})}, MORTISE_F32, {b, s, 32}));
}
void takeOfSymbolic(TestGraph &g, const Dim &b, const Dim &s) {
  V x = g.symbolicInput(MORTISE_F32, {b, s, 3}), at = g.input(MORTISE_I64, {4});
  g.output(g.symbolicOp("take", {x, at}, MORTISE_F32, {b, 4, 3}, {{"axis", 1}}));
}
void lastRow(TestGraph &g, const Dim &b, const Dim &s) {
  V x = g.symbolicInput(MORTISE_F32, {b, s, 8});
  V last = g.symbolicOp("slice", {x}, MORTISE_F32, {b, 1, 8},
                        {{"starts", Extents{0, s - 1, 0}}, {"limits", Extents{b, s, 8}}, {"strides", Dims{1, 1, 1}}});
  g.output(unary(g, "tanh", unary(g, "reshape", last, {b, 8}, {{"shape", Extents{b, 8}}}), {b, 8}));
}
void rope(TestGraph &g, const Dim &b, const Dim &s) {
  Extents dims{b, 2, s, 16}, half{b, 2, s, 8};
  V x = g.symbolicInput(MORTISE_F32, dims), c = g.symbolicInput(MORTISE_F32, {s, 16}),
    d = g.symbolicInput(MORTISE_F32, {s, 16});
  auto part = [&](int64_t from) {
    return g.symbolicOp(
        "slice", {x}, MORTISE_F32, half,
        {{"starts", Dims{0, 0, 0, from}}, {"limits", Extents{b, 2, s, from + 8}}, {"strides", Dims{1, 1, 1, 1}}});
  };
  V turned = g.symbolicOp("concatenate", {unary(g, "neg", part(8), half), part(0)}, MORTISE_F32, dims, {{"axis", 3}});
  V left = g.symbolicOp("mul", {x, wide(g, c, dims, {2, 3})}, MORTISE_F32, dims);
  V right = g.symbolicOp("mul", {turned, wide(g, d, dims, {2, 3})}, MORTISE_F32, dims);
  g.output(g.symbolicOp("add", {left, right}, MORTISE_F32, dims));
}
void appended(TestGraph &g, const Dim &b, const Dim &s) { // a cache of b rows and s new ones
  V past = g.symbolicInput(MORTISE_F32, {2, b, 8}), fresh = g.symbolicInput(MORTISE_F32, {2, s, 8});
  g.output(g.symbolicOp("concatenate", {past, fresh}, MORTISE_F32, {2, b + s, 8}, {{"axis", 1}}));
}
void padded(TestGraph &g, const Dim &b, const Dim &s) {
  V x = g.symbolicInput(MORTISE_F32, {b, s}), zero = g.constant<float>(MORTISE_F32, {}, {0.5f});
  g.output(g.symbolicOp("pad", {x, zero}, MORTISE_F32, {b + s, s + 3},
                        {{"low", Extents{s, 1}}, {"high", Dims{0, 2}}, {"interior", Dims{0, 0}}}));
}
void causalMask(TestGraph &g, const Dim &b, const Dim &s) {
  Extents dims{b, s};
  V rows = g.symbolicOp("iota", {}, MORTISE_I64, dims, {{"shape", dims}, {"axis", 0}, {"dtype", "i64"}});
  V columns = g.symbolicOp("iota", {}, MORTISE_I64, dims, {{"shape", dims}, {"axis", 1}, {"dtype", "i64"}});
  V seen = g.symbolicOp("compare", {columns, rows}, MORTISE_I1, dims, {{"direction", "le"}});
  V x = g.symbolicInput(MORTISE_F32, dims);
  g.output(g.symbolicOp("select", {seen, x, unary(g, "neg", x, dims)}, MORTISE_F32, dims));
}
void meanOfAll(TestGraph &g, const Dim &b, const Dim &s) {
  V x = g.symbolicInput(MORTISE_F32, {b, s, 8});
  g.output(unary(g, "mean", x, {b, 8}, {{"axes", Dims{1}}}));
}
void largest(TestGraph &g, const Dim &b, const Dim &s) {
  V x = g.symbolicInput(MORTISE_F32, {b, s});
  g.output(g.symbolicOp("argmax", {x}, MORTISE_I64, {b}, {{"axis", 1}}));
}
void runningSum(TestGraph &g, const Dim &b, const Dim &s) {
  V x = g.symbolicInput(MORTISE_I64, {b, s});
  g.output(g.symbolicOp("cumsum", {x}, MORTISE_I64, {b, s}, {{"axis", 1}}));
}
void reversed(TestGraph &g, const Dim &b, const Dim &s) {
  V x = g.symbolicInput(MORTISE_F32, {b, s});
  g.output(g.symbolicOp("reverse", {x}, MORTISE_F32, {b, s}, {{"axes", Dims{0, 1}}}));
}
void put(TestGraph &g, const Dim &b, const Dim &s) {
  V x = g.symbolicInput(MORTISE_F32, {3, s, 8}), at = g.input(MORTISE_I64, {4}), y = g.input(MORTISE_F32, {3, 4, 8});
  g.output(g.symbolicOp("put", {x, at, y}, MORTISE_F32, {3, s, 8}, {{"axis", 1}, {"mode", "add"}}));
  (void)b;
}
void putInARow(TestGraph &g, const Dim &b, const Dim &s) {
  V x = g.symbolicInput(MORTISE_F32, {3, b + s, 8}), start = g.input(MORTISE_I64, {});
  V numbers = g.symbolicOp("iota", {}, MORTISE_I64, {s}, {{"shape", Extents{s}}, {"axis", 0}, {"dtype", "i64"}});
  V at = g.symbolicOp("add", {numbers, wide(g, start, {s}, {})}, MORTISE_I64, {s});
  V y = g.symbolicInput(MORTISE_F32, {3, s, 8});
  g.output(g.symbolicOp("put", {x, at, y}, MORTISE_F32, {3, b + s, 8}, {{"axis", 1}, {"mode", "set"}}));
}
void narrow(TestGraph &g, const Dim &b, const Dim &s) {
  Extents dims{b, s};
  V x = g.symbolicInput(MORTISE_BF16, dims);
  V y = g.symbolicOp("convert", {x}, MORTISE_F32, dims, {{"dtype", "f32"}});
  g.output(g.symbolicOp("softmax", {x}, MORTISE_BF16, dims, {{"axis", 1}}));
  g.output(unary(g, "tanh", y, dims));
}

const Case cases[] = {
    {"gelu", gelu, 0, roundings},
    {"oddWidth", oddWidth, 0},
    {"layerNorm", layerNorm, 0, roundings},
    {"rmsNormOfSymbolicRows", rmsNormOfSymbolicRows, 1, roundings},
    {"maskedSoftmax", maskedSoftmax, 0, roundings},
    {"softmaxOfColumns", softmaxOfColumns, 0, roundings},
    {"softmaxAcrossSymbolicColumns", softmaxAcrossSymbolicColumns, 0, roundings},
    {"heads", heads, 0},
    {"turnedHeads", turnedHeads, 0},
    {"headsBack", headsBack, 0},
    {"flattened", flattened, 0},
    {"divided", divided, 0},
    {"embedding", embedding, 0},
    {"takeOfSymbolic", takeOfSymbolic, 1},
    {"lastRow", lastRow, 1, roundings},
    {"rope", rope, 0, roundings},
    {"appended", appended, 0},
    {"padded", padded, 0},
    {"causalMask", causalMask, 0},
    {"meanOfAll", meanOfAll, 1, roundings},
    {"largest", largest, 1},
    {"runningSum", runningSum, 0},
    {"reversed", reversed, 0},
    {"put", put, 1, roundings},
    {"putInARow", putInARow, 1},
    {"narrow", narrow, 0, roundings, 2},
};

class SymbolicTest : public testing::TestWithParam<Case> {
protected:
  static Compiler &compiler() {
    static auto instance = std::move(*Compiler::create(testTarget(2)));
    return *instance;
  }

  void SetUp() override {
    const Case &test = GetParam();
    test.recipe(symbolic, symbolic.symbol("b", test.least), symbolic.symbol("s", test.least));
    auto found = fuse({&symbolic.view(), {}, {}, {}}, testTarget(2));
    ASSERT_TRUE(found) << found.error().message;
    fused = std::move(*found);
  }

  // Runs the functions of `fused` with these numbers in place of the symbols, and compares with the interpreter.
  template <typename Function>
  void expectRight(const std::vector<Group> &groups, const std::vector<Function> &functions, int64_t b, int64_t s) {
    const Case &test = GetParam();
    TestGraph numbers;
    test.recipe(numbers, b, s);
    Oracle oracle(numbers);
    for (size_t i = 0; i < symbolic.view().input_count; ++i)
      oracle.fill(oracle.graph.inputs[i], isFloat(oracle.graph.inputs[i]->type->dtype) ? Fill::Plain : Fill::Small);
    const std::string what = "b " + std::to_string(b) + " s " + std::to_string(s) + " ";
    oracle.interpret(what);
    oracle.run(groups, functions, std::vector<int64_t>{b, s}, test.bound, what);
  }

  TestGraph symbolic;
  FuseResult fused;
};

TEST_P(SymbolicTest, OneCompileServesAllShapes) {
  const Case &test = GetParam();
  EXPECT_LE(fused.groups.size(), test.groups);
  const size_t before = compiler().statistics().functions;
  auto functions = compiler().compile(symbolic.view(), fused.groups);
  ASSERT_TRUE(functions) << functions.error().message;
  EXPECT_EQ(compiler().statistics().functions - before, fused.groups.size());
  for (int64_t b : {0, 1, 2, 3})
    for (int64_t s : {0, 1, 2, 3, 7, 15, 16, 17, 33, 64, 129})
      if (b >= test.least && s >= test.least && !HasFailure())
        expectRight(fused.groups, *functions, b, s);
  auto again = compiler().compile(symbolic.view(), fused.groups);
  ASSERT_TRUE(again);
  EXPECT_EQ(compiler().statistics().functions - before, fused.groups.size());
}

TEST_P(SymbolicTest, OneKernelServesAllShapes) {
  const Case &test = GetParam();
  if (!Emulator::supports(symbolic.view()))
    GTEST_SKIP() << "kernels of GPUs do not have one of the ops yet";
  auto parts = fuse({&symbolic.view(), {}, {}, {}}, simtFuseTarget());
  ASSERT_TRUE(parts) << parts.error().message;
  auto kernels = Emulator::shared().compile(symbolic.view(), parts->groups);
  ASSERT_TRUE(kernels) << kernels.error().message;
  for (int64_t b : {0, 1, 2, 3})
    for (int64_t s : {0, 1, 2, 3, 7, 16, 33, 64, 129})
      if (b >= test.least && s >= test.least && !HasFailure())
        expectRight(parts->groups, *kernels, b, s);
}

std::vector<Function::Entry> entriesOf(const std::vector<Function> &functions) {
  std::vector<Function::Entry> entries;
  for (const Function &function : functions)
    entries.push_back(function.entry);
  return entries;
}

// A second compiler stands for a later process.
TEST_P(SymbolicTest, SavedCodeIsNotCompiledAgain) {
  auto first = compiler().compile(symbolic.view(), fused.groups);
  ASSERT_TRUE(first) << first.error().message;
  auto saved = compiler().save(entriesOf(*first));
  ASSERT_TRUE(saved) << saved.error().message;

  auto later = std::move(*Compiler::create(testTarget(2)));
  const Result<void> loaded = later->load(*saved);
  ASSERT_TRUE(loaded) << loaded.error().message;
  auto functions = later->compile(symbolic.view(), fused.groups);
  ASSERT_TRUE(functions) << functions.error().message;
  EXPECT_EQ(later->statistics().functions, 0u);
  EXPECT_EQ(later->statistics().loaded + later->statistics().reused, fused.groups.size());
  auto again = later->save(entriesOf(*functions));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, *saved);
  for (int64_t b : {1, 3})
    for (int64_t s : {2, 16, 33})
      expectRight(fused.groups, *functions, b, s);
}

std::vector<Function> compileAll(Compiler &compiler, TestGraph &graph, std::vector<Group> &groups) {
  const MortiseGraph &view = graph.view();
  auto fused = fuse({&view, {}, {}, {}}, testTarget(2));
  EXPECT_TRUE(fused) << fused.error().message;
  groups = fused->groups;
  auto functions = compiler.compile(view, groups);
  EXPECT_TRUE(functions) << functions.error().message;
  return *functions;
}

TEST(Symbolic, EqualLayersShareCode) {
  auto compiler = std::move(*Compiler::create(testTarget(2)));
  TestGraph g;
  Dim b = g.symbol("b", 1), s = g.symbol("s", 2);
  for (int layer = 0; layer < 3; ++layer)
    layerNorm(g, b, s);
  std::vector<Group> groups;
  EXPECT_EQ(compileAll(*compiler, g, groups).size(), 3u);
  EXPECT_EQ(compiler->statistics().functions, 1u);
}

TEST(Symbolic, DamagedCodeIsRefused) {
  auto compiler = std::move(*Compiler::create(testTarget(2)));
  TestGraph g;
  layerNorm(g, g.symbol("b", 1), g.symbol("s", 2));
  std::vector<Group> groups;
  auto saved = compiler->save(entriesOf(compileAll(*compiler, g, groups)));
  ASSERT_TRUE(saved) << saved.error().message;
  auto later = std::move(*Compiler::create(testTarget(2)));
  for (size_t size = 1; size < saved->size(); size += 11) {
    const Result<void> loaded = later->load(std::span(*saved).first(size));
    ASSERT_FALSE(loaded) << size;
    EXPECT_EQ(loaded.error().code, MORTISE_CORRUPT);
  }
  for (size_t at = 0; at < 8; ++at) { // the length of the key
    std::vector<std::byte> damaged = *saved;
    damaged[at] ^= std::byte(0x40);
    EXPECT_FALSE(later->load(damaged)) << at;
  }
  EXPECT_FALSE(later->save(entriesOf({Function{}}))) << "a function that it has not made";
}

// What is known of the symbols is part of the key, because a narrower range may have other code.
TEST(Symbolic, RangesArePartOfAGroup) {
  auto compiler = std::move(*Compiler::create(testTarget(2)));
  for (int64_t divisor : {1, 16, 1}) {
    TestGraph g;
    maskedSoftmax(g, g.symbol("b", 1), g.symbol("s", 16, 512, divisor));
    std::vector<Group> groups;
    compileAll(*compiler, g, groups);
  }
  EXPECT_EQ(compiler->statistics().functions, 2u);
}

// u is 1, in which case its row repeats, or s.
TEST(Symbolic, AnExtentThatMayBeOneRepeatsWhereItIs) {
  auto compiler = std::move(*Compiler::create(testTarget(2)));
  auto recipe = [](TestGraph &g, const Dim &u, const Dim &s) {
    Extents dims{s, 8};
    V x = g.symbolicInput(MORTISE_F32, {u, 8}), y = g.symbolicInput(MORTISE_F32, dims);
    g.output(g.symbolicOp("add", {wide(g, x, dims, {0, 1}), y}, MORTISE_F32, dims));
  };
  TestGraph symbolic;
  recipe(symbolic, symbolic.symbol("u", 1), symbolic.symbol("s", 1));
  std::vector<Group> groups;
  std::vector<Function> functions = compileAll(*compiler, symbolic, groups);
  for (auto [u, s] : {std::pair<int64_t, int64_t>{1, 1}, {1, 5}, {5, 5}, {1, 40}, {40, 40}}) {
    TestGraph numbers;
    recipe(numbers, u, s);
    Oracle oracle(numbers);
    for (size_t i = 0; i < 2; ++i)
      oracle.fill(oracle.graph.inputs[i], Fill::Plain);
    oracle.interpret("");
    oracle.run(groups, functions, std::vector<int64_t>{u, s}, equal, std::to_string(u) + " of " + std::to_string(s));
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, SymbolicTest, testing::ValuesIn(cases),
                         [](const auto &i) { return std::string(i.param.name); });

} // namespace
