// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random numbers of the cpu plugin are the reference interpreter's bits, for every type, size, number of threads and
// fusion. Outputs of products behind views must each be written.
#include "network.hpp"

#include <gtest/gtest.h>

extern "C" int omp_get_max_threads();
extern "C" void omp_set_num_threads(int count);

namespace mortise::test {
namespace {

const Check exactly{.exact = true};

// Fills keys and counters of all sizes; the second network input is near the largest counter, after which counters
// wrap.
Check seeded(uint64_t key, uint64_t offset) {
  Check how = exactly;
  how.fill = [=](const MortiseValue &value, size_t position, std::vector<std::byte> &bytes) {
    if (value.type->dtype != MORTISE_I64)
      return randomFill(value, position, bytes);
    uint64_t word = position == 0 ? key : offset;
    std::memcpy(bytes.data(), &word, sizeof word);
  };
  return how;
}

struct State {
  explicit State(Network &net) : key(net.input(MORTISE_I64, {})), offset(net.input(MORTISE_I64, {})) {}
  ValueId key, offset;
};
ValueId bits(Network &net, const State &state, std::vector<int64_t> shape, const char *dtype) {
  return net.op("random_bits", {state.key, state.offset}, {ints("shape", std::move(shape)), text("dtype", dtype)});
}
// The decomposition of uniform f32 numbers.
ValueId uniform(Network &net, const State &state, std::vector<int64_t> shape) {
  ValueId high = net.op("shift_right", {bits(net, state, shape, "i32"), net.splat(8, shape, MORTISE_I32)});
  ValueId masked = net.op("and", {high, net.splat(0xffffff, shape, MORTISE_I32)});
  return net.op("mul", {net.op("convert", {masked}, {text("dtype", "f32")}), net.splat(0x1p-24, shape)});
}

class Threads {
public:
  explicit Threads(int count) : before(omp_get_max_threads()) { omp_set_num_threads(count); }
  ~Threads() { omp_set_num_threads(before); }

private:
  const int before;
};

TEST(Random, BitsOfEveryTypeSizeAndState) {
  for (auto [key, offset] : {std::pair<uint64_t, uint64_t>{0, 0},
                             {0x243f6a8885a308d3, 0x13198a2e03707344},
                             {UINT64_MAX, UINT64_MAX - 3},
                             {42, 0xfffffffe}})
    for (int threads : {1, 2}) {
      Threads limit(threads);
      Network net;
      State state(net);
      for (const char *dtype : {"i32", "i16", "i8", "ui8"})
        for (const std::vector<int64_t> &shape :
             {std::vector<int64_t>{}, {1}, {3}, {64}, {65}, {7, 11, 3}, {0, 5}, {40961}})
          net.output(bits(net, state, shape, dtype));
      for (const std::vector<int64_t> &shape : {std::vector<int64_t>{}, {31}, {33}, {5, 13}, {20483}}) {
        ValueId wide = bits(net, state, shape, "i64"), half = net.splat(32, shape, MORTISE_I64);
        net.output(net.op("shift_right", {wide, half})); // halves, which f64 represents exactly in the comparison
        net.output(net.op("shift_left", {wide, half}));
      }
      auto compiled = check(net, seeded(key, offset));
      ASSERT_TRUE(compiled);
      EXPECT_TRUE(compiled->hasStep("cpu.random_bits"));
    }
}

TEST(Random, UniformNumbersAreTheReferencesBits) {
  Network net;
  State state(net);
  ValueId x = net.input(MORTISE_F32, {9, 37});
  ValueId u = uniform(net, state, {9, 37});
  net.output(u);
  net.output(net.op("compare", {u, net.splat(0.3, {9, 37})}, {text("direction", "ge")}));
  net.output(net.op("select", {net.op("compare", {u, net.splat(0.3, {9, 37})}, {text("direction", "ge")}), x,
                               net.splat(0, {9, 37})}));
  check(net, seeded(77, 5));
}

TEST(Random, StateFromASliceAndALiteral) {
  Network net;
  ValueId states = net.input(MORTISE_I64, {4});
  auto at = [&](int64_t i) {
    return net.reshape(net.op("slice", {states}, {ints("starts", {i}), ints("limits", {i + 1}), ints("strides", {1})}),
                       {});
  };
  auto draw = [&](ValueId key, ValueId offset) {
    return net.op("random_bits", {key, offset}, {ints("shape", {100}), text("dtype", "i32")});
  };
  net.output(draw(at(2), at(1)));
  net.output(draw(net.scalar(5, MORTISE_I64), at(3)));
  net.output(draw(net.scalar(5, MORTISE_I64), net.scalar(8, MORTISE_I64)));
  net.output(draw(net.op("add", {at(0), at(1)}), at(3)));
  check(net, exactly);
}

TEST(Random, SymbolicSizes) {
  auto build = [](Network &net, int64_t batch, int64_t tokens) {
    State state(net);
    ValueId x = net.input(MORTISE_F32, {batch, tokens, 3});
    net.output(net.op("add", {uniform(net, state, {batch, tokens, 3}), x}));
    net.output(bits(net, state, {tokens, batch}, "i16"));
  };
  auto compiled = checkShapes(build, {{2, 3}, {5, 2}, {3, 17}, {4, 64}, {16, 200}}, seeded(3, 9));
  ASSERT_TRUE(compiled);
  EXPECT_TRUE(compiled->hasStep("cpu.random_bits"));
}

// Few different numbers, so that many are equal, with NaN, infinities and both zeros.
void fillWithTies(const MortiseValue &value, size_t position, std::vector<std::byte> &bytes) {
  randomFill(value, position, bytes);
  auto set = [&](auto nan, auto infinity, auto zero) {
    auto *data = reinterpret_cast<decltype(nan) *>(bytes.data());
    for (size_t i = 0; i < bytes.size() / sizeof nan; ++i)
      if (size_t kind = i * 2654435761 % 16; kind < 8)
        data[i] = kind == 0   ? nan
                  : kind == 1 ? infinity
                  : kind == 2 ? static_cast<decltype(nan)>(infinity | zero)
                  : kind < 5  ? zero
                              : static_cast<decltype(nan)>(0);
  };
  if (int32_t dtype = value.type->dtype; dtype == MORTISE_F64)
    set(UINT64_C(0xfff8000000000001), UINT64_C(0x7ff0000000000000), UINT64_C(1) << 63);
  else if (dtype == MORTISE_F32)
    set(UINT32_C(0x7fc00001), UINT32_C(0x7f800000), UINT32_C(1) << 31);
  else if (dtype == MORTISE_F16)
    set(uint16_t(0xfe00), uint16_t(0x7c00), uint16_t(0x8000));
  else if (dtype == MORTISE_BF16)
    set(uint16_t(0x7fc0), uint16_t(0x7f80), uint16_t(0x8000));
}

void sortEverything(Network &net, int32_t dtype, const std::vector<int64_t> &shape) {
  ValueId x = net.input(dtype, shape);
  for (auto axis = static_cast<int64_t>(shape.size()); axis-- > 0;) {
    Attribute along = integer("axis", axis);
    for (bool down : {false, true}) {
      for (ValueId result : net.ops("sort", {x}, {along, boolean("descending", down), boolean("stable", true)}))
        net.output(result);
      for (int64_t k : {int64_t(0), shape[axis] / 2, shape[axis]})
        for (ValueId result :
             net.ops("top_k", {x}, {along, integer("k", k), boolean("largest", down), boolean("sorted", true)}))
          net.output(result);
    }
    for (const char *op : {"cummax", "cummin"})
      for (ValueId result : net.ops(op, {x}, {along}))
        net.output(result);
  }
}

TEST(Sorting, EveryTypeAndAxis) {
  for (int32_t dtype : {MORTISE_F64, MORTISE_F32, MORTISE_F16, MORTISE_BF16, MORTISE_I64, MORTISE_I32, MORTISE_I16,
                        MORTISE_I8, MORTISE_UI8, MORTISE_I1}) {
    SCOPED_TRACE(dtypeName(dtype));
    Network net;
    for (const std::vector<int64_t> &shape : {std::vector<int64_t>{37}, {5, 1, 7}, {3, 0}, {40, 131}, {1, 6000}})
      sortEverything(net, dtype, shape);
    Check how = exactly;
    how.fill = fillWithTies;
    ASSERT_TRUE(check(net, how));
  }
}

TEST(Sorting, ThroughViewsAndPartly) {
  Network net;
  ValueId x = net.input(MORTISE_F32, {6, 9, 11});
  ValueId turned = net.transpose(x, {2, 0, 1});
  net.output(net.ops("sort", {turned}, {integer("axis", 1), boolean("descending", true), boolean("stable", true)})[1]);
  ValueId some = net.ops("top_k", {net.op("exp", {turned})},
                         {integer("axis", 2), integer("k", 4), boolean("largest", true), boolean("sorted", true)})[0];
  net.output(net.op("add", {some, net.splat(1, {11, 6, 4})}));
  check(net);
}

TEST(Sorting, SymbolicSizes) {
  auto build = [](Network &net, int64_t batch, int64_t tokens) {
    ValueId x = net.input(MORTISE_F32, {batch, tokens, 3});
    for (ValueId result :
         net.ops("sort", {x}, {integer("axis", 1), boolean("descending", false), boolean("stable", true)}))
      net.output(result);
    for (ValueId result : net.ops(
             "top_k", {x}, {integer("axis", 1), integer("k", 2), boolean("largest", true), boolean("sorted", true)}))
      net.output(result);
    for (ValueId result : net.ops("cummin", {x}, {integer("axis", 0)}))
      net.output(result);
  };
  Check how = exactly;
  how.fill = fillWithTies;
  ASSERT_TRUE(checkShapes(build, {{2, 3}, {5, 2}, {3, 17}, {4, 64}, {16, 200}}, how));
}

// A product of every kind and the views behind it as outputs, alone or together with others.
TEST(Outputs, ProductsBehindViews) {
  struct Case {
    std::vector<int64_t> first, permutation, last; // reshape, transpose, reshape
  };
  for (const Case &views : {Case{{2, 4, 6, 1, 6}, {0, 1, 2, 4, 3}, {2, 4, 6, 6}}, Case{{8, 6, 6}, {0, 2, 1}, {8, 36}},
                            Case{{8, 36}, {1, 0}, {1, 36, 8}}, Case{{2, 4, 6, 6}, {0, 2, 1, 3}, {2, 6, 24}},
                            Case{{24, 12}, {1, 0}, {12, 24}}, Case{{1, 8, 36}, {1, 0, 2}, {288}}})
    for (int kind = 0; kind < 3; ++kind)
      for (int outputs = 1; outputs < 16; ++outputs) { // one bit each for the result, reshape, transpose, reshape
        SCOPED_TRACE(std::to_string(views.first.size()) + ": kind " + std::to_string(kind) + ", outputs " +
                     std::to_string(outputs));
        Network net;
        ValueId x = net.input(MORTISE_F32, {8, 6, 8});
        ValueId y = kind == 1 ? net.linear(x, net.weight({6, 8}), net.weight({6}))
                              : net.dot(x, net.input(MORTISE_F32, {8, 8, 6}), {0}, {0}, {2}, {1});
        if (kind == 2)
          y = net.op("tanh", {y});
        ValueId first = net.reshape(y, views.first), turned = net.transpose(first, views.permutation);
        int bit = 1;
        for (ValueId value : {y, first, turned, net.reshape(turned, views.last)}) {
          if (outputs & bit)
            net.output(value);
          bit *= 2;
        }
        ASSERT_TRUE(check(net));
      }
}

// The transposed product is an output, and another product and an update read it through views.
TEST(Outputs, ViewsReadByOthersAsWell) {
  for (int64_t rows : {1, 5}) {
    Network net;
    ValueId x = net.input(MORTISE_F32, {rows, 8});
    ValueId y =
        net.transpose(net.reshape(net.linear(x, net.weight({12, 8}), net.weight({12})), {rows, 3, 4}), {1, 0, 2});
    net.output(y);
    net.output(net.dot(y, y, {0}, {0}, {2}, {2}));
    net.output(net.linear(net.reshape(y, {3 * rows, 4}), net.weight({6, 4}), net.weight({6})));
    ValueId table = net.input(MORTISE_F32, {3, 9, 4});
    net.output(net.op("put", {table, net.input(MORTISE_I64, {rows}), y}, {integer("axis", 1), text("mode", "set")}));
    net.output(net.reshape(y, {1, 3, rows, 4}));
    net.output(net.op("exp", {y}));
    Check how;
    how.fill = [](const MortiseValue &value, size_t position, std::vector<std::byte> &bytes) {
      randomFill(value, position, bytes);
      if (value.type->dtype == MORTISE_I64)
        for (size_t i = 0; i < bytes.size() / 8; ++i)
          reinterpret_cast<int64_t *>(bytes.data())[i] = static_cast<int64_t>(i);
    };
    ASSERT_TRUE(check(net, how));
  }
}

} // namespace
} // namespace mortise::test
