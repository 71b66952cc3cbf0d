// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A graph of each family of kernels for GPUs.
#pragma once

#include "test_graph.hpp"

namespace mortise::codegen::test {

inline const std::vector<int32_t> floats = {MORTISE_F32, MORTISE_BF16, MORTISE_F16};

struct Family {
  const char *name;
  void (*make)(TestGraph &b, int32_t dtype, int64_t rows, int64_t length);
  std::vector<int32_t> dtypes = floats;
  std::vector<std::pair<int64_t, int64_t>> shapes = {{64, 4096}, {3, 37}, {5, 40000}};
};

inline void pointwise(TestGraph &b, int32_t dtype, int64_t rows, int64_t length) {
  V x = b.input(dtype, {rows, length}), bias = b.input(dtype, {length});
  V wide = b.op("broadcast", {bias}, dtype, {rows, length}, {{"shape", Dims{rows, length}}, {"axes", Dims{1}}});
  V sum = b.op("add", {x, wide}, dtype, {rows, length});
  b.output(b.op("gelu", {sum}, dtype, {rows, length}, {{"approximate", "none"}}));
}
inline void softmax(TestGraph &b, int32_t dtype, int64_t rows, int64_t length) {
  V x = b.input(dtype, {rows, length});
  b.output(b.op("softmax", {x}, dtype, {rows, length}, {{"axis", 1}}));
}
inline void columns(TestGraph &b, int32_t dtype, int64_t rows, int64_t length) {
  V x = b.input(dtype, {rows, length});
  b.output(b.op("reduce_sum", {x}, dtype, {length}, {{"axes", Dims{0}}}));
}
inline void largest(TestGraph &b, int32_t dtype, int64_t rows, int64_t length) {
  V x = b.input(dtype, {rows, length});
  b.output(b.op("argmax", {x}, MORTISE_I64, {rows}, {{"axis", 1}}));
}
inline void transposed(TestGraph &b, int32_t dtype, int64_t rows, int64_t length) {
  V x = b.input(dtype, {rows, length});
  V y = b.op("transpose", {x}, dtype, {length, rows}, {{"permutation", Dims{1, 0}}});
  b.output(b.op("neg", {y}, dtype, {length, rows}));
}
inline void product(TestGraph &b, int32_t dtype, int64_t rows, int64_t length) {
  V x = b.input(dtype, {rows, length}), weight = b.input(dtype, {rows, length}), bias = b.input(dtype, {rows});
  V y = b.op("linear", {x, weight, bias}, dtype, {rows, rows}, {{"weight_transposed", false}});
  b.output(b.op("relu", {y}, dtype, {rows, rows}));
}
inline void sine(TestGraph &b, int32_t dtype, int64_t rows, int64_t length) {
  V x = b.input(dtype, {rows, length});
  b.output(b.op("sin", {x}, dtype, {rows, length}));
}
inline void norm(TestGraph &b, int32_t dtype, int64_t rows, int64_t length) {
  V x = b.input(dtype, {rows, length}), scale = b.input(dtype, {length}), bias = b.input(dtype, {length});
  b.output(b.op("layer_norm", {x, scale, bias}, dtype, {rows, length}, {{"axis", 1}, {"epsilon", 1e-5}}));
}
inline void scan(TestGraph &b, int32_t dtype, int64_t rows, int64_t length) {
  V x = b.input(dtype, {rows, length});
  b.output(b.op("cumsum", {x}, dtype, {rows, length}, {{"axis", 1}}));
}
inline void extreme(TestGraph &b, int32_t dtype, int64_t rows, int64_t length) {
  V x = b.input(dtype, {rows, length});
  b.output(b.op("cummax", {x}, dtype, {rows, length}, {{"axis", 1}}));
  b.output(b.positions());
}
inline void logarithm(TestGraph &b, int32_t dtype, int64_t rows, int64_t length) {
  V x = b.input(dtype, {rows, length});
  b.output(b.op("cumlogsumexp", {x}, dtype, {rows, length}, {{"axis", 1}}));
}
inline void search(TestGraph &b, int32_t dtype, int64_t rows, int64_t length) {
  V sequence = b.input(dtype, {length}), x = b.input(dtype, {rows});
  b.output(b.op("searchsorted", {sequence, x}, MORTISE_I64, {rows}, {{"right", false}}));
}
inline void sorted(TestGraph &b, int32_t dtype, int64_t rows, int64_t length) {
  V x = b.input(dtype, {rows, length});
  b.output(b.op("sort", {x}, dtype, {rows, length}, {{"axis", 1}, {"descending", false}, {"stable", true}}));
  b.output(b.positions());
}
inline void scatter(TestGraph &b, int32_t dtype, int64_t rows, int64_t length) {
  V x = b.input(dtype, {length}), indices = b.input(MORTISE_I64, {rows, 1}), updates = b.input(dtype, {rows});
  b.output(b.op("scatter_nd", {x, indices, updates}, dtype, {length}, {{"mode", "add"}}));
}
inline void random(TestGraph &b, int32_t dtype, int64_t rows, int64_t length) {
  V key = b.input(MORTISE_I64, {}), offset = b.input(MORTISE_I64, {});
  b.output(b.op("random_bits", {key, offset}, dtype, {rows, length},
                {{"shape", Dims{rows, length}}, {"dtype", dtype == MORTISE_I64 ? "i64" : "i16"}}));
}
inline void gather(TestGraph &b, int32_t dtype, int64_t rows, int64_t length) {
  V table = b.input(dtype, {rows, length}), indices = b.input(MORTISE_I64, {9});
  b.output(b.op("embedding", {table, indices}, dtype, {9, length}));
}
inline void update(TestGraph &b, int32_t dtype, int64_t rows, int64_t length) {
  V x = b.input(dtype, {rows, length}), indices = b.input(MORTISE_I64, {6}), updates = b.input(dtype, {6, length});
  b.output(b.op("put", {x, indices, updates}, dtype, {rows, length}, {{"axis", 0}, {"mode", "set"}}));
}
inline void convolution(TestGraph &b, int32_t dtype, int64_t rows, int64_t length) {
  V x = b.input(dtype, {rows, 6, length}), weight = b.input(dtype, {12, 6, 3});
  const Dims one{1};
  b.output(b.op("convolution", {x, weight}, dtype, {rows, 12, length},
                {{"strides", one}, {"low", one}, {"high", one}, {"dilations", one}, {"groups", 1}}));
}
inline void pool(TestGraph &b, int32_t dtype, int64_t rows, int64_t length) {
  V x = b.input(dtype, {rows, 6, length});
  const Dims one{1};
  b.output(b.op("max_pool", {x}, dtype, {rows, 6, length},
                {{"window", Dims{3}}, {"strides", one}, {"low", one}, {"high", one}, {"dilations", one}}));
}
// Every function of emit/math.cpp, circular.cpp and power.cpp.
inline void functions(TestGraph &b, int32_t dtype, int64_t rows, int64_t length) {
  V x = b.input(dtype, {rows, length}), y = b.input(dtype, {rows, length});
  for (const char *op :
       {"exp",  "expm1", "log",  "log1p", "tanh",  "erf",   "erfc",  "logistic", "cos",   "tan", "asin",
        "acos", "atan",  "sinh", "cosh",  "asinh", "acosh", "atanh", "log2",     "log10", "exp2"})
    b.output(b.op(op, {x}, dtype, {rows, length}));
  for (const char *op : {"pow", "atan2", "rem"})
    b.output(b.op(op, {x, y}, dtype, {rows, length}));
  V i = b.input(MORTISE_I32, {rows, length});
  b.output(b.op("pow", {i, i}, MORTISE_I32, {rows, length}));
}

// Batch and length: a judge computes each element's sum of products one by one.
inline const std::vector<std::pair<int64_t, int64_t>> images = {{16, 512}, {3, 37}, {2, 5000}};
inline const std::vector<Family> families = {
    {"pointwise", pointwise},
    {"softmax", softmax},
    {"columns", columns},
    {"largest", largest},
    {"transposed", transposed},
    {"product", product, {MORTISE_F32, MORTISE_BF16, MORTISE_F16, MORTISE_F64}, {{64, 100}, {9, 37}, {1, 300}}},
    {"large product", product, {MORTISE_F32, MORTISE_BF16}, {{2048, 20}}},
    {"sine", sine},
    {"norm", norm},
    {"long rows", softmax, {MORTISE_F32, MORTISE_BF16}, {{3, 24000}}},
    {"scan", scan},
    {"extreme", extreme},
    {"logarithm", logarithm, {MORTISE_F32, MORTISE_F64}},
    {"search", search},
    {"sorted", sorted, {MORTISE_F32, MORTISE_BF16, MORTISE_I64}},
    {"scatter", scatter, floats, {{500, 37}, {5000, 37}}},
    {"random", random, {MORTISE_I64, MORTISE_I16}},
    {"gather", gather},
    {"update", update},
    {"convolution", convolution, floats, images},
    {"pool", pool, floats, images},
    {"functions", functions, {MORTISE_F32, MORTISE_F64}, {{3, 37}}}};

// Calls `use` with a name and a graph for each family, element type and shape.
template <typename Use> void forEachGraph(Use use) {
  for (const Family &family : families)
    for (const int32_t dtype : family.dtypes)
      for (const auto &[rows, length] : family.shapes) {
        TestGraph b;
        family.make(b, dtype, rows, length);
        use(std::string(family.name) + " " + dtypeName(dtype) + " " + std::to_string(rows) + "x" +
                std::to_string(length),
            b.view());
      }
}

} // namespace mortise::codegen::test
