// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Equal groups are compiled once in a process; groups that differ in one attribute are not equal.
#include "oracle.hpp"

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;

namespace {

struct Pair {
  const char *what;
  std::vector<Attr> one, other; // attributes of the op that `what` begins with
  std::vector<Dims> operands;
  Dims result;
  int32_t resultType = MORTISE_F32;
  int64_t indices = -1; // the operand that holds indices
};
void PrintTo(const Pair &pair, std::ostream *out) { *out << pair.what; }

std::vector<Attr> with(std::vector<Attr> common, Attr own) {
  common.push_back(std::move(own));
  return common;
}

const Dims square{6, 6}, row{6}, none{};
const Pair pairs[] = {
    {"compare.direction", {{"direction", "lt"}}, {{"direction", "le"}}, {square, square}, square, MORTISE_I1},
    {"gelu.approximate", {{"approximate", "none"}}, {{"approximate", "tanh"}}, {square}, square},
    {"softmax.axis", {{"axis", 0}}, {{"axis", 1}}, {square}, square},
    {"log_softmax.axis", {{"axis", 0}}, {{"axis", 1}}, {square}, square},
    {"reduce_sum.axes", {{"axes", Dims{0}}}, {{"axes", Dims{1}}}, {square}, row},
    {"mean.axes", {{"axes", Dims{0}}}, {{"axes", Dims{1}}}, {square}, row},
    {"argmax.axis", {{"axis", 0}}, {{"axis", 1}}, {square}, row, MORTISE_I64},
    {"cumsum.axis", {{"axis", 0}}, {{"axis", 1}}, {square}, square},
    {"cumprod.axis", {{"axis", 0}}, {{"axis", 1}}, {square}, square},
    {"layer_norm.epsilon",
     with({{"axis", 1}}, {"epsilon", 1e-5}),
     with({{"axis", 1}}, {"epsilon", 0.5}),
     {square, row, row},
     square},
    {"rms_norm.epsilon",
     with({{"axis", 1}}, {"epsilon", 1e-5}),
     with({{"axis", 1}}, {"epsilon", 0.5}),
     {square, row},
     square},
    {"group_norm.groups",
     with({{"epsilon", 1e-5}}, {"groups", 2}),
     with({{"epsilon", 1e-5}}, {"groups", 3}),
     {square, row, row},
     square},
    {"group_norm.epsilon",
     with({{"groups", 2}}, {"epsilon", 1e-5}),
     with({{"groups", 2}}, {"epsilon", 0.5}),
     {square, row, row},
     square},
    {"transpose.permutation",
     {{"permutation", Dims{0, 2, 1}}},
     {{"permutation", Dims{2, 1, 0}}},
     {Dims{6, 6, 6}},
     Dims{6, 6, 6}},
    {"broadcast.axes",
     with({{"shape", square}}, {"axes", Dims{0}}),
     with({{"shape", square}}, {"axes", Dims{1}}),
     {row},
     square},
    {"reverse.axes", {{"axes", Dims{0}}}, {{"axes", Dims{1}}}, {square}, square},
    {"slice.starts",
     {{"starts", Dims{0, 0}}, {"limits", Dims{3, 3}}, {"strides", Dims{1, 1}}},
     {{"starts", Dims{0, 2}}, {"limits", Dims{3, 5}}, {"strides", Dims{1, 1}}},
     {square},
     Dims{3, 3}},
    {"slice.strides",
     {{"starts", Dims{0, 0}}, {"limits", Dims{3, 3}}, {"strides", Dims{1, 1}}},
     {{"starts", Dims{0, 0}}, {"limits", Dims{3, 6}}, {"strides", Dims{1, 2}}},
     {square},
     Dims{3, 3}},
    {"pad.low",
     {{"low", Dims{1, 0}}, {"high", Dims{0, 1}}, {"interior", Dims{0, 0}}},
     {{"low", Dims{0, 1}}, {"high", Dims{1, 0}}, {"interior", Dims{0, 0}}},
     {square, none},
     Dims{7, 7}},
    {"pad.interior",
     {{"low", Dims{0, 0}}, {"high", Dims{0, 0}}, {"interior", Dims{1, 1}}},
     {{"low", Dims{0, 0}}, {"high", Dims{5, 5}}, {"interior", Dims{0, 0}}},
     {square, none},
     Dims{11, 11}},
    {"take.axis", {{"axis", 0}}, {{"axis", 1}}, {square, row}, square, MORTISE_F32, 1},
    {"take_along.axis", {{"axis", 0}}, {{"axis", 1}}, {square, square}, square, MORTISE_F32, 1},
    {"put.axis",
     with({{"mode", "set"}}, {"axis", 0}),
     with({{"mode", "set"}}, {"axis", 1}),
     {square, row, square},
     square,
     MORTISE_F32,
     1},
    {"put.mode",
     with({{"axis", 0}}, {"mode", "set"}),
     with({{"axis", 0}}, {"mode", "add"}),
     {square, row, square},
     square,
     MORTISE_F32,
     1},
};

class KeyTest : public testing::TestWithParam<Pair> {};

TEST_P(KeyTest, OneAttributeMakesAnotherFunction) {
  const Pair &pair = GetParam();
  const std::string what = pair.what, op = what.substr(0, what.find('.'));
  auto compiler = std::move(*Compiler::create(testTarget(1)));
  std::vector<std::vector<double>> results;
  for (const std::vector<Attr> *attributes : {&pair.one, &pair.other, &pair.one}) {
    TestGraph b;
    std::vector<V> operands;
    for (const Dims &dims : pair.operands)
      operands.push_back(b.input(
          static_cast<int64_t>(operands.size()) == pair.indices ? int32_t(MORTISE_I64) : int32_t(MORTISE_F32), dims));
    V result = b.op(op, operands, pair.resultType, pair.result, *attributes);
    b.output(result);
    Oracle oracle(b);
    for (V operand : operands)
      oracle.fill(operand, Fill::Small, operand->index + 1);
    auto fused = fuse({&oracle.graph, {}, {}, {}}, testTarget(1));
    ASSERT_TRUE(fused) << fused.error().message;
    auto functions = compiler->compile(oracle.graph, fused->groups);
    ASSERT_TRUE(functions) << functions.error().message;
    oracle.interpret(what);
    oracle.run(fused->groups, *functions, {}, roundings, what);
    std::vector<double> &found = results.emplace_back();
    for (int64_t i = 0; i < elementCount(*result->type); ++i)
      found.push_back(element(oracle.memory.at(result->index), pair.resultType, i));
  }
  EXPECT_EQ(compiler->statistics().functions, 2u);
  EXPECT_EQ(compiler->statistics().reused, 1u);
  EXPECT_NE(results[0], results[1]) << "the pair shows nothing";
  EXPECT_EQ(results[0], results[2]);
}

INSTANTIATE_TEST_SUITE_P(Attributes, KeyTest, testing::ValuesIn(pairs), [](const auto &i) {
  std::string name = i.param.what;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

// Strides, offsets, constants and element types are part of the key too.
TEST(Key, LayoutsConstantsAndTypes) {
  auto compiler = std::move(*Compiler::create(testTarget(1)));
  const auto add = [&](int32_t dtype, float constant, int64_t start) {
    TestGraph b;
    V x = b.input(dtype, {8});
    V part =
        b.op("slice", {x}, dtype, {4}, {{"starts", Dims{start}}, {"limits", Dims{start + 4}}, {"strides", Dims{1}}});
    V literal = b.constant<float>(MORTISE_F32, {}, {constant});
    V wide = b.op("broadcast", {b.op("convert", {literal}, dtype, {}, {{"dtype", dtypeName(dtype)}})}, dtype, {4},
                  {{"shape", Dims{4}}, {"axes", Dims{}}});
    b.output(b.op("mul", {part, wide}, dtype, {4}));
    const MortiseGraph &graph = b.view();
    auto fused = fuse({&graph, {}, {}, {}}, testTarget(1));
    ASSERT_TRUE(fused && compiler->compile(graph, fused->groups));
  };
  size_t functions = 0;
  for (int32_t dtype : {MORTISE_F32, MORTISE_F64, MORTISE_F16, MORTISE_BF16})
    for (float constant : {2.0f, -2.0f, 0.0f, -0.0f})
      for (int64_t start : {0, 3}) {
        add(dtype, constant, start);
        EXPECT_EQ(compiler->statistics().functions, ++functions) << dtype << " " << constant << " " << start;
      }
  add(MORTISE_F32, 2.0f, 0);
  EXPECT_EQ(compiler->statistics().functions, functions);
}

// Empty tensors have no memory, so loops that never run must not read any.
TEST(Key, NothingIsReadOfEmptyTensors) {
  for (const Dims &dims :
       {Dims{0, 4}, Dims{4, 0}, Dims{0, 40}, Dims{40, 0}, Dims{0, 0}, Dims{3, 0, 20}, Dims{0, 3, 20}})
    for (int64_t axis = 0; axis < static_cast<int64_t>(dims.size()); ++axis) {
      TestGraph b;
      Dims kept = dims;
      kept.erase(kept.begin() + axis);
      V x = b.input(MORTISE_F32, dims), scale = b.input(MORTISE_F32, {dims.back()});
      V y = b.op("exp", {x}, MORTISE_F32, dims);
      b.output(y);
      for (const char *op : {"softmax", "log_softmax", "cumsum", "cumprod"})
        b.output(b.op(op, {y}, MORTISE_F32, dims, {{"axis", axis}}));
      for (const char *op : {"reduce_sum", "reduce_prod", "reduce_max", "mean"})
        b.output(b.op(op, {x}, MORTISE_F32, kept, {{"axes", Dims{axis}}}));
      Dims all;
      for (size_t i = 0; i < dims.size(); ++i)
        all.push_back(static_cast<int64_t>(i));
      b.output(b.op("reduce_sum", {x}, MORTISE_F32, {}, {{"axes", all}}));
      b.output(b.op("rms_norm", {x, scale}, MORTISE_F32, dims,
                    {{"axis", static_cast<int64_t>(dims.size()) - 1}, {"epsilon", 1e-5}}));
      Oracle oracle(b);
      oracle.check(equal, "empty");
    }
}

} // namespace
