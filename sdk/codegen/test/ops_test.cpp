// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every op in every dtype that groups compute, with ordinary and special values, compared with the reference
// interpreter.
#include "oracle.hpp"

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;

namespace {

template <typename Wanted> std::vector<int32_t> dtypesThat(Wanted wanted) {
  std::vector<int32_t> found;
  for (int32_t dtype = 1; dtype <= MORTISE_DTYPE_COUNT; ++dtype)
    if (wanted(dtype) && dtypeBits(dtype) >= (isFloat(dtype) ? 16U : 8U)) // generated loops support no others
      found.push_back(dtype);
  return found;
}
const std::vector<int32_t> floats = dtypesThat(isFloat), ints = dtypesThat(isInteger),
                           numbers = dtypesThat([](int32_t dtype) { return !isBool(dtype); }),
                           everything = dtypesThat([](int32_t) { return true; });

// Error bounds of generated code in f32, in units in the last place. f64 has the same bounds, f16 and bf16 have one
// unit (they compute in f32). Every other op is exact.
const std::map<mortise::Op, double> errors = {
    {mortise::Op::Exp, 2},    {mortise::Op::Expm1, 3}, {mortise::Op::Log, 2},   {mortise::Op::Log1p, 3},
    {mortise::Op::Sqrt, 0.5}, {mortise::Op::Rsqrt, 2}, {mortise::Op::Sin, 2},   {mortise::Op::Cos, 2},
    {mortise::Op::Tanh, 3},   {mortise::Op::Erf, 3},   {mortise::Op::Erfc, 5},  {mortise::Op::Logistic, 3},
    {mortise::Op::Silu, 4},   {mortise::Op::Pow, 2},   {mortise::Op::Atan2, 2}, {mortise::Op::Tan, 4},
    {mortise::Op::Asin, 4},   {mortise::Op::Acos, 4},  {mortise::Op::Atan, 4},  {mortise::Op::Sinh, 4},
    {mortise::Op::Cosh, 4},   {mortise::Op::Asinh, 4}, {mortise::Op::Acosh, 4}, {mortise::Op::Atanh, 4},
    {mortise::Op::Log2, 4},   {mortise::Op::Log10, 4}, {mortise::Op::Exp2, 4},
};

struct Elementwise {
  std::string op;
  size_t arity;
  std::vector<int32_t> dtypes;
  double ulps;
};

// Every elementwise op of the dialect without attributes whose operands and result have one type, except for the ops
// that are expanded.
std::vector<Elementwise> elementwiseOps() {
  std::vector<Elementwise> found;
  for (int32_t number = 1; number < MORTISE_OP_COUNT; ++number) {
    const MortiseOpInfo &info = *mortise_op_info(number);
    const auto op = static_cast<mortise::Op>(number);
    const uint32_t allowed = info.results[0].dtypes;
    bool isPlain = has(op, Trait::Elementwise) && info.attribute_count == 0 && op != mortise::Op::Swiglu;
    for (size_t i = 0; i < info.operand_count; ++i)
      isPlain &= info.operands[i].dtypes == allowed;
    if (!isPlain)
      continue;
    const auto error = errors.find(op);
    found.push_back({std::string(nameOf(op).substr(8)), info.operand_count,
                     dtypesThat([&](int32_t dtype) { return (allowed >> dtype & 1) != 0; }),
                     error == errors.end() ? 0 : error->second});
  }
  return found;
}

void checkElementwise(const Elementwise &op, int32_t dtype, const Dims &dims) {
  for (Fill how : {Fill::Plain, Fill::Hostile}) {
    TestGraph b;
    std::vector<V> operands;
    for (size_t i = 0; i < op.arity; ++i)
      operands.push_back(b.input(dtype, dims));
    b.output(b.op(op.op, operands, dtype, dims));
    Oracle oracle(b);
    for (V operand : operands)
      oracle.fill(operand, how);
    const bool narrow = isNarrowFloat(dtype);
    oracle.check({narrow ? std::max(1.0, op.ulps / 4) : op.ulps}, dtypeName(dtype));
  }
}

class ElementwiseTest : public testing::TestWithParam<Elementwise> {};
TEST_P(ElementwiseTest, AgreesWithTheReference) {
  for (int32_t dtype : GetParam().dtypes)
    for (const Dims &dims : {Dims{}, Dims{1}, Dims{37}, Dims{5, 200}})
      if (checkElementwise(GetParam(), dtype, dims); HasFatalFailure())
        return;
}
TEST_P(ElementwiseTest, AgreesWhereTheFmaFlushes) {
  const Emulator::FlushingFma machine;
  for (int32_t dtype : GetParam().dtypes)
    if (dtype == MORTISE_F32 || isNarrowFloat(dtype))
      if (checkElementwise(GetParam(), dtype, {5, 200}); HasFatalFailure())
        return;
}
INSTANTIATE_TEST_SUITE_P(Ops, ElementwiseTest, testing::ValuesIn(elementwiseOps()),
                         [](const auto &i) { return i.param.op; });

// `fuses`: whether x * y + z is rounded once.
void checkGelu(bool fuses) {
  for (const char *form : {"none", "tanh"})
    for (int32_t dtype : floats)
      for (Fill how : {Fill::Plain, Fill::Hostile}) {
        TestGraph b;
        V x = b.input(dtype, {3, 50});
        b.output(b.op("gelu", {x}, dtype, {3, 50}, {{"approximate", form}}));
        Oracle oracle(b);
        oracle.fill(x, how);
        // Far from 0 the result multiplies the rounding error of the exponential's argument by that argument: half a
        // unit more in an argument of 32 is 16 units in the result.
        const double single = fuses ? 20 : 36;
        oracle.check({dtype == MORTISE_F64 ? 80.0 : dtype == MORTISE_F32 ? single : 1.0}, form);
      }
}
TEST(Ops, Gelu) { checkGelu(roundsOnce()); }
TEST(Ops, GeluWhereTheFmaFlushes) {
  const Emulator::FlushingFma machine;
  checkGelu(false);
}

TEST(Ops, CompareAndSelect) {
  for (int32_t dtype : everything)
    for (const char *direction : {"eq", "ne", "lt", "le", "gt", "ge"}) {
      TestGraph b;
      Dims dims{3, 41};
      V x = b.input(dtype, dims), y = b.input(dtype, dims);
      V test = b.op("compare", {x, y}, MORTISE_I1, dims, {{"direction", direction}});
      b.output(test);
      b.output(b.op("select", {test, x, y}, dtype, dims));
      Oracle oracle(b);
      oracle.fill(x, Fill::Hostile), oracle.fill(y, Fill::Hostile, 2);
      oracle.check(equal, direction);
    }
}

TEST(Ops, ConvertBetweenAllTypes) {
  for (int32_t from : everything)
    for (int32_t to : everything) {
      TestGraph b;
      V x = b.input(from, {203});
      b.output(b.op("convert", {x}, to, {203}, {{"dtype", dtypeName(to)}}));
      Oracle oracle(b);
      oracle.fill(x, Fill::Hostile);
      oracle.check(equal, std::string(dtypeName(from)) + " to " + dtypeName(to));
      if (HasFatalFailure())
        return;
    }
}

TEST(Ops, Shapes) {
  for (int32_t dtype : {MORTISE_F32, MORTISE_F64, MORTISE_BF16, MORTISE_I8, MORTISE_I64, MORTISE_I1}) {
    auto run = [&](const char *op, Dims from, Dims to, std::vector<Attr> attributes) {
      TestGraph b;
      V x = b.input(dtype, from);
      b.output(b.op(op, {x}, dtype, to, attributes));
      Oracle oracle(b);
      oracle.fill(x, Fill::Plain);
      oracle.check(equal, op);
    };
    run("reshape", {4, 6, 5}, {8, 15}, {{"shape", Dims{8, 15}}});
    run("reshape", {7}, {1, 7, 1}, {{"shape", Dims{1, 7, 1}}});
    run("transpose", {5, 33}, {33, 5}, {{"permutation", Dims{1, 0}}});
    run("transpose", {2, 3, 4, 20}, {2, 4, 3, 20}, {{"permutation", Dims{0, 2, 1, 3}}});
    run("transpose", {2, 3, 4, 20}, {20, 3, 2, 4}, {{"permutation", Dims{3, 1, 0, 2}}});
    run("broadcast", {3, 1}, {3, 40}, {{"shape", Dims{3, 40}}, {"axes", Dims{0, 1}}});
    run("broadcast", {40}, {3, 40}, {{"shape", Dims{3, 40}}, {"axes", Dims{1}}});
    run("broadcast", {}, {3, 4}, {{"shape", Dims{3, 4}}, {"axes", Dims{}}});
    run("slice", {9, 50}, {4, 24}, {{"starts", Dims{1, 2}}, {"limits", Dims{9, 50}}, {"strides", Dims{2, 2}}});
    run("slice", {9, 50}, {9, 17}, {{"starts", Dims{0, 33}}, {"limits", Dims{9, 50}}, {"strides", Dims{1, 1}}});
    run("slice", {9, 50}, {9, 0}, {{"starts", Dims{0, 3}}, {"limits", Dims{9, 3}}, {"strides", Dims{1, 1}}});
    run("reverse", {5, 37}, {5, 37}, {{"axes", Dims{0, 1}}});
    run("reverse", {5, 32}, {5, 32}, {{"axes", Dims{1}}});
    for (Dims low : {Dims{1, 2}, Dims{0, -3}, Dims{-1, 0}})
      for (int64_t interior : {0, 2}) {
        TestGraph b;
        Dims high{2, 1}, to;
        for (int i = 0; i < 2; ++i)
          to.push_back((i ? 30 : 4) + low[i] + high[i] + interior * ((i ? 30 : 4) - 1));
        V x = b.input(dtype, {4, 30}), v = b.input(dtype, {});
        b.output(
            b.op("pad", {x, v}, dtype, to, {{"low", low}, {"high", high}, {"interior", Dims{interior, interior}}}));
        Oracle oracle(b);
        oracle.fill(x, Fill::Plain), oracle.fill(v, Fill::Plain);
        oracle.check(equal, "pad");
      }
    for (int64_t axis : {0, 1}) {
      TestGraph b;
      std::vector<V> parts;
      Dims to{3, 20};
      to[axis] = 0;
      for (int64_t extent : {5, 0, 17, 1}) {
        Dims part{3, 20};
        part[axis] = extent;
        to[axis] += extent;
        parts.push_back(b.input(dtype, part));
      }
      b.output(b.op("concatenate", parts, dtype, to, {{"axis", axis}}));
      Oracle oracle(b);
      for (V part : parts)
        oracle.fill(part, Fill::Plain);
      oracle.check(equal, "concatenate");
    }
  }
}

TEST(Ops, IotaAndConstants) {
  for (int32_t dtype : numbers)
    for (int64_t axis : {0, 1}) {
      TestGraph b;
      V i = b.op("iota", {}, dtype, {5, 300}, {{"shape", Dims{5, 300}}, {"dtype", dtypeName(dtype)}, {"axis", axis}});
      b.output(i);
      V c = b.constant<float>(MORTISE_F32, {3}, {1.5f, -2, 7});
      b.output(b.op("neg", {c}, MORTISE_F32, {3}));
      V s = b.constant<int8_t>(MORTISE_I8, {}, {-3});
      b.output(b.op("abs", {s}, MORTISE_I8, {}));
      Oracle oracle(b);
      oracle.check(equal, dtypeName(dtype));
    }
}

TEST(Ops, Gathers) {
  for (int32_t dtype : {MORTISE_F32, MORTISE_BF16, MORTISE_I64, MORTISE_I1})
    for (int32_t indexType : {MORTISE_I64, MORTISE_I32})
      for (Fill how : {Fill::Small, Fill::Plain, Fill::Hostile}) {
        for (int64_t axis : {0, 1, 2}) {
          TestGraph b;
          V x = b.input(dtype, {4, 5, 18}), i = b.input(indexType, {3, 2}), j = b.input(indexType, {4, 3, 18});
          Dims taken{4, 5, 18};
          taken.erase(taken.begin() + axis);
          taken.insert(taken.begin() + axis, {3, 2});
          b.output(b.op("take", {x, i}, dtype, taken, {{"axis", axis}}));
          b.output(b.op("take_along", {x, j}, dtype, {4, 3, 18}, {{"axis", axis}}));
          Oracle oracle(b);
          oracle.fill(x, Fill::Plain), oracle.fill(i, how), oracle.fill(j, how);
          oracle.check(equal, "take");
        }
        TestGraph b;
        V x = b.input(dtype, {4, 5, 18}), i = b.input(indexType, {6, 2}), table = b.input(dtype, {50, 33});
        b.output(b.op("take_nd", {x, i}, dtype, {6, 18}));
        b.output(b.op("embedding", {table, i}, dtype, {6, 2, 33}));
        Oracle oracle(b);
        oracle.fill(x, Fill::Plain), oracle.fill(i, how), oracle.fill(table, Fill::Plain);
        oracle.check(equal, "take_nd");
      }
}

TEST(Ops, Put) {
  for (int32_t dtype : {MORTISE_F32, MORTISE_F64, MORTISE_I32})
    for (const char *mode : {"set", "add"})
      for (int64_t axis : {0, 1, 2})
        for (int64_t inner : {18, 37}) {
          TestGraph b;
          Dims dims{4, 5, inner}, part = dims;
          part[axis] = 6;
          V x = b.input(dtype, dims), i = b.input(MORTISE_I64, {6}), u = b.input(dtype, part);
          V y = b.op("put", {x, i, u}, dtype, dims, {{"axis", axis}, {"mode", mode}});
          b.output(y);
          Oracle oracle(b);
          oracle.fill(x, Fill::Plain), oracle.fill(i, Fill::Plain), oracle.fill(u, Fill::Plain);
          oracle.check(mode[0] == 'a' ? roundings : equal, mode);
          ASSERT_EQ(oracle.groups.size(), 1u);
          EXPECT_GE(oracle.groups[0].inPlace, 0);
        }
}

// Where the operand's elements lie in another order than the result's, each has to be copied to its place.
TEST(Ops, PutIntoAnotherLayoutIsNotInPlace) {
  TestGraph b;
  V x = b.input(MORTISE_F32, {4, 5}), i = b.input(MORTISE_I64, {1}), u = b.input(MORTISE_F32, {1, 5});
  V negated = b.op("neg", {x}, MORTISE_F32, {4, 5});
  V y = b.op("put", {negated, i, u}, MORTISE_F32, {4, 5}, {{"axis", 0}, {"mode", "set"}});
  b.output(negated), b.output(y);
  for (const bool isDense : {true, false}) {
    Oracle oracle(b);
    if (!isDense) {
      oracle.layouts.assign(oracle.graph.value_count, std::nullopt);
      oracle.layouts[negated->index] = denseView(*negated);
      oracle.layouts[negated->index]->strides = {1, 4};
    }
    oracle.fill(x, Fill::Plain), oracle.fill(i, Fill::Plain), oracle.fill(u, Fill::Plain);
    oracle.check(equal, isDense ? "dense" : "columns");
    const Group &last = oracle.groups.back();
    ASSERT_EQ(last.outputs.back(), y->index);
    EXPECT_EQ(last.inPlace >= 0, isDense);
  }
}

// Their updates happen at once. First positions: inside, in front (counted from the end), across both ends, outside,
// and where the sum of numbers wraps.
TEST(Ops, PutAtConsecutivePositions) {
  for (const int64_t first : {int64_t(0), int64_t(3), int64_t(-2), int64_t(-7), int64_t(5), int64_t(40), int64_t(-40),
                              INT64_MAX - 1, INT64_MIN})
    for (const int32_t dtype : {MORTISE_I64, MORTISE_I32})
      for (const int64_t axis : {0, 1, 2})
        for (const int64_t count : {1, 4, 7})
          for (const bool isOver : {false, true}) {
            TestGraph b;
            Dims dims{5, 5, 5}, part = dims;
            dims[axis] = 7, part[axis] = count;
            V x = b.input(MORTISE_F32, dims), start = b.input(dtype, {}), u = b.input(MORTISE_F32, part);
            V numbers =
                b.op("iota", {}, dtype, {count}, {{"shape", Dims{count}}, {"dtype", dtypeName(dtype)}, {"axis", 0}});
            V spread = b.op("broadcast", {start}, dtype, {count}, {{"shape", Dims{count}}, {"axes", Dims{}}});
            V at = b.op("add", {numbers, spread}, dtype, {count});
            V y = b.op("put", {x, at, u}, MORTISE_F32, dims, {{"axis", axis}, {"mode", "set"}});
            b.output(y);
            Oracle oracle(b);
            if (isOver)
              oracle.memory.writeOver(y->index, x->index);
            oracle.fill(x, Fill::Plain), oracle.fill(u, Fill::Plain);
            if (dtype == MORTISE_I64)
              *oracle.memory.as<int64_t>(start) = first;
            else
              *oracle.memory.as<int32_t>(start) =
                  static_cast<int32_t>(std::clamp<int64_t>(first, INT32_MIN, INT32_MAX - 1));
            oracle.check(equal, "from " + std::to_string(first) + (isOver ? " in place" : ""));
            ASSERT_EQ(oracle.groups.size(), 1u);
            EXPECT_GE(oracle.groups[0].inPlace, 0);
            if (HasFatalFailure())
              return;
          }
}

// More of them than the axis has are not all different, and of two updates of an element the later one counts; nor are
// those that a narrow sum makes, or a product.
TEST(Ops, PutAtPositionsThatMeet) {
  for (const char *how : {"many", "narrow", "product"})
    for (const bool isOver : {false, true}) {
      const std::string name = how;
      const int32_t dtype = name == "narrow" ? MORTISE_I8 : MORTISE_I64;
      const int64_t extent = name == "narrow" ? 250 : 5, count = name == "narrow" ? 250 : name == "many" ? 9 : 5;
      TestGraph b;
      V x = b.input(MORTISE_F32, {extent, 3}), start = b.input(dtype, {}), u = b.input(MORTISE_F32, {count, 3});
      V numbers = b.op("iota", {}, dtype, {count}, {{"shape", Dims{count}}, {"dtype", dtypeName(dtype)}, {"axis", 0}});
      V spread = b.op("broadcast", {start}, dtype, {count}, {{"shape", Dims{count}}, {"axes", Dims{}}});
      V at = b.op(name == "product" ? "mul" : "add", {numbers, spread}, dtype, {count});
      if (name == "narrow")
        at = b.op("convert", {at}, MORTISE_I64, {count}, {{"dtype", "i64"}});
      V y = b.op("put", {x, at, u}, MORTISE_F32, {extent, 3}, {{"axis", 0}, {"mode", "set"}});
      b.output(y);
      Oracle oracle(b);
      if (isOver)
        oracle.memory.writeOver(y->index, x->index);
      oracle.fill(x, Fill::Plain), oracle.fill(u, Fill::Plain);
      setElement(oracle.memory.at(start->index), dtype, 0, name == "many" ? -4 : 0);
      oracle.check(equal, name + (isOver ? " in place" : ""));
    }
}

// It would read the operand's elements where the updates are to be written.
TEST(Ops, APutIntoNothingIsRefused) {
  for (const int64_t rows : {0, 4}) {
    TestGraph b;
    b.output(b.op("put", {b.input(MORTISE_F32, {rows, 6}), b.input(MORTISE_I64, {5}), b.input(MORTISE_F32, {5, 6})},
                  MORTISE_F32, {rows, 6}, {{"axis", 0}, {"mode", "set"}}));
    const Support support = supports(*b.view().nodes[0]);
    EXPECT_EQ(support.yes, rows > 0) << support.detail;
    EXPECT_EQ(support.yes, support.reason != MORTISE_REASON_SIZE);
  }
}

TEST(Ops, Reductions) {
  struct Shape {
    Dims dims, axes;
  };
  const Shape shapes[] = {{{7, 50}, {1}},    {{7, 50}, {0}},         {{3, 4, 33}, {0, 2}}, {{3, 4, 33}, {0, 1, 2}},
                          {{3, 40, 5}, {1}}, {{2, 3, 4, 5}, {1, 3}}, {{129}, {0}},         {{5, 1}, {1}},
                          {{3, 0}, {1}},     {{0, 3}, {1}},          {{2, 700}, {1}},      {{3, 5, 64}, {1}},
                          {{6, 200}, {0}}};
  for (const Shape &shape : shapes)
    for (int32_t dtype : everything)
      for (const char *op : {"reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "mean", "argmax", "argmin"})
        for (Fill how : {Fill::Plain, Fill::Hostile}) {
          std::string name = op;
          bool mean = name == "mean", argmax = name == "argmax" || name == "argmin";
          bool numeric = name == "reduce_sum" || name == "reduce_prod" || argmax;
          if ((dtype == MORTISE_I1 && numeric) || (mean && !isFloat(dtype)) ||
              (argmax && (shape.axes.size() != 1 || shape.dims[shape.axes[0]] == 0)))
            continue;
          if (how == Fill::Hostile && (name == "reduce_sum" || name == "reduce_prod" || mean) && isFloat(dtype))
            continue; // the order of evaluation decides where infinities and cancellation meet
          Dims kept;
          for (size_t i = 0; i < shape.dims.size(); ++i)
            if (std::find(shape.axes.begin(), shape.axes.end(), static_cast<int64_t>(i)) == shape.axes.end())
              kept.push_back(shape.dims[i]);
          TestGraph b;
          V x = b.input(dtype, shape.dims);
          std::vector<Attr> attributes;
          if (argmax)
            attributes.emplace_back("axis", shape.axes[0]);
          else
            attributes.emplace_back("axes", shape.axes);
          b.output(b.op(op, {x}, argmax ? int32_t(MORTISE_I64) : dtype, kept, attributes));
          Oracle oracle(b);
          oracle.fill(x, how);
          bool exact = name == "reduce_max" || name == "reduce_min" || argmax;
          oracle.check(exact ? equal : roundings, name + " " + dtypeName(dtype) + " ");
          if (HasFatalFailure())
            return;
        }
}

// Bits of a block's words, whole blocks and parts of them, through shapes whose vectors begin inside a block.
TEST(Ops, RandomBits) {
  for (const int32_t dtype : {MORTISE_I64, MORTISE_I32, MORTISE_I16, MORTISE_I8, MORTISE_UI8})
    for (const Dims &dims : {Dims{}, Dims{7}, Dims{3, 5}, Dims{64, 16}, Dims{2, 300}, Dims{0, 4}})
      for (const int64_t offset : {INT64_C(0), INT64_C(0xfffffffe), INT64_C(-3)}) {
        TestGraph b;
        V key = b.input(MORTISE_I64, {}), counter = b.input(MORTISE_I64, {});
        V bits = b.op("random_bits", {key, counter}, dtype, dims, {{"shape", dims}, {"dtype", dtypeName(dtype)}});
        b.output(bits);
        if (dims.size() == 2) {
          const Dims turned{dims[1], dims[0]};
          b.output(b.op("transpose", {bits}, dtype, turned, {{"permutation", Dims{1, 0}}}));
        }
        Oracle oracle(b);
        *oracle.memory.as<int64_t>(key) = INT64_C(-0x123456789abcdef);
        *oracle.memory.as<int64_t>(counter) = offset;
        if (oracle.check(equal, dtypeName(dtype)); HasFatalFailure())
          return;
      }
}

TEST(Ops, RunningSums) {
  for (int32_t dtype : {MORTISE_F32, MORTISE_F64, MORTISE_I64, MORTISE_I32, MORTISE_UI8})
    for (int64_t axis : {0, 1, 2}) {
      TestGraph b;
      Dims dims{3, 20, 35};
      V x = b.input(dtype, dims);
      V y = b.op("cumsum", {x}, dtype, dims, {{"axis", axis}});
      b.output(y);
      b.output(b.op("neg", {y}, dtype, dims));
      Oracle oracle(b);
      oracle.fill(x, Fill::Plain);
      oracle.check(roundings, "cumsum");
      TestGraph products;
      V z = products.input(dtype, dims);
      products.output(products.op("cumprod", {z}, dtype, dims, {{"axis", axis}}));
      Oracle other(products);
      other.fill(z, Fill::Plain);
      other.check(roundings, "cumprod");
    }
}

TEST(Ops, Searchsorted) {
  for (const int32_t dtype : numbers)
    for (const bool right : {false, true})
      for (const auto &[sequence, values] : {std::pair{Dims{1}, Dims{5}},
                                             {Dims{300}, Dims{7, 40}},
                                             {Dims{0}, Dims{3}},
                                             {Dims{3, 33}, Dims{3, 50}},
                                             {Dims{2, 2, 16}, Dims{2, 2, 9}}}) {
        TestGraph b;
        V s = b.input(dtype, sequence), x = b.input(dtype, values);
        b.output(b.op("searchsorted", {s, x}, MORTISE_I64, values, {{"right", right}}));
        Oracle oracle(b);
        oracle.fill(s, Fill::Plain), oracle.fill(x, Fill::Hostile);
        // Ascending, with equal numbers, and a NaN at the end.
        const int64_t length = sequence.back(), count = elementCount(*s->type);
        for (int64_t i = 0; i < count; ++i)
          setElement(oracle.memory.at(s->index), dtype, i,
                     isFloat(dtype) && i % length > 1 && (i + 1) % length == 0 ? NAN : double(i % length / 3 % 100));
        if (oracle.check(equal, dtypeName(dtype)); HasFatalFailure())
          return;
      }
}

// Along rows that threads share, whole and in part, and along columns.
TEST(Ops, RunningLogarithmsAndExtremes) {
  for (const Dims &dims : {Dims{3, 20, 35}, Dims{2, 700}, Dims{9000}, Dims{600, 3}, Dims{4, 1}})
    for (const int32_t dtype : everything)
      for (int64_t axis = 0; axis < static_cast<int64_t>(dims.size()); ++axis)
        for (const Fill how : {Fill::Hostile, Fill::Small})
          for (const char *op : {"cumlogsumexp", "cummax", "cummin"}) {
            const bool isLogarithm = op[3] == 'l', isLong = dims[0] > 100;
            if ((isLogarithm && !isFloat(dtype)) || (isLong && (how != Fill::Hostile || dtypeBits(dtype) > 32)))
              continue;
            TestGraph b;
            V x = b.input(dtype, dims);
            b.output(b.op(op, {x}, dtype, dims, {{"axis", axis}}));
            if (!isLogarithm)
              b.output(b.positions());
            Oracle oracle(b);
            oracle.fill(x, how);
            if (oracle.check(isLogarithm ? roundings : equal, std::string(op) + " " + dtypeName(dtype));
                HasFatalFailure())
              return;
          }
}

TEST(Ops, RunningSumsOfLongRows) {
  for (const int32_t dtype : {MORTISE_F32, MORTISE_BF16, MORTISE_I64})
    for (const auto &[length, axis] : {std::pair{31, 1}, {32, 1}, {256, 1}, {1024, 1}, {9000, 1}, {2000, 0}}) {
      const Dims dims = axis ? Dims{3, length} : Dims{length, 3};
      TestGraph b;
      V x = b.input(dtype, dims), y = b.input(dtype, dims);
      V sum = b.op("cumsum", {b.op("mul", {x, y}, dtype, dims)}, dtype, dims, {{"axis", axis}});
      b.output(b.op("sub", {b.op("cumsum", {sum}, dtype, dims, {{"axis", axis}}), y}, dtype, dims));
      b.output(sum);
      b.output(b.op("cumsum", {y}, dtype, dims, {{"axis", axis}}));
      Oracle oracle(b);
      for (V each : {x, y})
        oracle.fill(each, Fill::Small);
      oracle.check(roundings, dtypeName(dtype));
    }
}

TEST(Ops, Normalisations) {
  for (int32_t dtype : floats)
    for (int64_t n : {1, 5, 16, 40, 300}) {
      Dims dims{2, 6, n};
      TestGraph b;
      V x = b.input(dtype, dims), s = b.input(dtype, {n}), t = b.input(dtype, {n}), c = b.input(dtype, {6}),
        d = b.input(dtype, {6}), m = b.input(dtype, {6}), v = b.input(dtype, {6});
      b.output(b.op("layer_norm", {x, s, t}, dtype, dims, {{"axis", 2}, {"epsilon", 1e-5}}));
      b.output(b.op("layer_norm", {x, nullptr, nullptr}, dtype, dims, {{"axis", 1}, {"epsilon", 1e-5}}));
      b.output(b.op("rms_norm", {x, s}, dtype, dims, {{"axis", 2}, {"epsilon", 1e-6}}));
      b.output(b.op("group_norm", {x, c, d}, dtype, dims, {{"groups", 3}, {"epsilon", 1e-5}}));
      b.output(b.op("batch_norm", {x, c, d, m, v}, dtype, dims, {{"epsilon", 1e-3}}));
      for (int64_t axis : {0, 1, 2}) {
        b.output(b.op("softmax", {x}, dtype, dims, {{"axis", axis}}));
        b.output(b.op("log_softmax", {x}, dtype, dims, {{"axis", axis}}));
      }
      Oracle oracle(b);
      for (V input : {x, s, t, c, d, m})
        oracle.fill(input, Fill::Plain);
      for (int i = 0; i < 6; ++i)
        setElement(oracle.memory.at(v->index), dtype, i, 0.5 + i);
      oracle.check(roundings, dtypeName(dtype));
    }
}

} // namespace
