// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Faults that show in the outputs of one kernel: each with a graph and inputs on which it differs from the reference by
// more than rounding explains, and on which the plugin without a fault gives the same bits.
#include "host.hpp"

namespace mortise::test {
namespace {

struct Case {
  std::string fault;
  Make make;
  bool bits = false; // what rounding explains, or what a number does not tell: signs of zeros, bytes of booleans
  int runs = 1;      // of one kernel
};

Data repeated(int32_t dtype, Dims dims, double value) {
  Data data = counting(dtype, std::move(dims));
  std::ranges::fill(data.values, value);
  return data;
}
Data scaled(Data data, double factor, double offset = 0) {
  for (double &value : data.values)
    value = value * factor + offset;
  return data;
}
Make unary(const std::string &op, Data x, std::vector<Attribute> attributes = {}) {
  const Slot slot{x.dtype, x.dims};
  return one(op, {std::move(x)}, {slot}, std::move(attributes));
}
Make binary(const std::string &op, Data x, Data y) {
  const Slot slot{x.dtype, x.dims};
  return one(op, {std::move(x), std::move(y)}, {slot});
}
Make convert(Data x, int32_t to) {
  const Slot slot{to, x.dims};
  return one("convert", {std::move(x)}, {slot}, {string("dtype", dtypeName(to))});
}
Make compare(const char *direction, Data x, Data y) {
  const Slot slot{i1, x.dims};
  return one("compare", {std::move(x), std::move(y)}, {slot}, {string("direction", direction)});
}
Make reduce(const std::string &op, Data x, std::vector<int64_t> axes, Dims to) {
  const int32_t dtype = x.dtype;
  return one(op, {std::move(x)}, {{dtype, std::move(to)}}, {integers("axes", std::move(axes))});
}
Make window(const std::string &op, std::vector<Data> operands, Dims to, std::vector<int64_t> low,
            std::vector<int64_t> high, int64_t dilation = 1, std::vector<int64_t> size = {}) {
  const size_t rank = low.size();
  std::vector<Attribute> attributes = {integers("strides", std::vector<int64_t>(rank, 1)), integers("low", low),
                                       integers("high", high),
                                       integers("dilations", std::vector<int64_t>(rank, dilation))};
  if (size.empty())
    attributes.push_back(integer("groups", 1));
  else
    attributes.push_back(integers("window", size));
  return one(op, std::move(operands), {{f32, std::move(to)}}, std::move(attributes));
}
Make dot(Data x, Data y) {
  const Slot slot{x.dtype, {x.dims[0], y.dims[1]}};
  return one("dot", {std::move(x), std::move(y)}, {slot},
             {integers("lhs_batch", {}), integers("rhs_batch", {}), integers("lhs_contract", {1}),
              integers("rhs_contract", {0})});
}
Make attention(Dims q, Dims k, bool causal) {
  const Slot slot{f32, q};
  return one("attention", {noise(f32, q, 1), noise(f32, k, 2), noise(f32, k, 3), absent()}, {slot},
             {real("scale", 0.5), flag("causal", causal)});
}
Make norm(const std::string &op, Data x, double epsilon) {
  const Slot slot{x.dtype, x.dims};
  std::vector<Data> operands = {std::move(x), absent()};
  if (op == "layer_norm")
    operands.push_back(absent());
  return one(op, std::move(operands), {slot}, {integer("axis", 1), real("epsilon", epsilon)});
}
Make arg(const std::string &op, Data x) { return one(op, {std::move(x)}, {{i64, {}}}, {integer("axis", 0)}); }
Make sort(Data x, bool descending) {
  const Dims dims = x.dims;
  const int32_t dtype = x.dtype;
  return one("sort", {std::move(x)}, {{dtype, dims}, {i64, dims}},
             {integer("axis", 0), flag("descending", descending), flag("stable", true)});
}
Make draw(const std::string &op, int64_t key, int32_t dtype) {
  return one(op, {scalar(i64, static_cast<double>(key)), scalar(i64, 0)}, {{dtype, {8}}},
             {integers("shape", {8}), string("dtype", dtypeName(dtype))});
}
Make quantize(Data x) {
  const Slot slot{i8, x.dims};
  return one("quantize", {std::move(x), {f32, {1}, {1}}, absent()}, {slot}, {string("dtype", "i8")});
}

// (a + b) - c
std::vector<Data> difference(ViewBuilder &b) {
  const MortiseType *type = b.type(f32, {2});
  MortiseValue *x = b.input(type), *y = b.input(type), *z = b.input(type);
  b.output(b.op("sub", {b.op("add", {x, y}, type), z}, type));
  return {vector(f32, {-3e38, 1e-3}), vector(f32, {3e38, 1}), vector(f32, {-3e38, 1e8})};
}
// The new state is an output in the memory of the old one, which a later node reads.
std::vector<Data> state(ViewBuilder &b) {
  const MortiseType *type = b.type(f32, {6});
  MortiseValue *s = b.input(type), *x = b.input(type);
  s->flags = MORTISE_VALUE_STATE;
  MortiseValue *next = b.op("add", {s, x}, type);
  b.output(next);
  b.output(b.op("mul", {s, x}, type));
  b.alias(0, 0);
  return {noise(f32, {6}, 1), noise(f32, {6}, 2)};
}
std::vector<Data> returnedTwice(ViewBuilder &b) {
  MortiseValue *y = b.op("neg", {b.input(f32, {6})}, f32, {6});
  b.output(y);
  b.output(y);
  return {noise(f32, {6})};
}
std::vector<Data> returnedInput(ViewBuilder &b) {
  MortiseValue *x = b.input(f32, {6});
  b.output(b.op("neg", {x}, f32, {6}));
  b.output(x);
  return {noise(f32, {6})};
}

const std::vector<double> specials = {NaN, 1, -1, 0, -0.0, inf, -inf, 2};

std::vector<Case> elementwiseCases() {
  return {
      {"tail-short-lane", binary("add", noise(f32, {11}, 1), noise(f32, {11}, 2))},
      {"index-16-bits", unary("neg", noise(f32, {65540}))},
      {"max-swallows-nan", binary("max", vector(f32, {NaN, 1}), vector(f32, {2, NaN}))},
      {"max-swallows-nan", binary("min", vector(f16, {NaN, 1}), vector(f16, {2, NaN}))},
      {"max-of-zeros", binary("max", vector(f32, {0, -0.0}), vector(f32, {-0.0, 0})), true},
      {"max-of-zeros", binary("min", vector(f64, {0, -0.0}), vector(f64, {-0.0, 0})), true},
      {"relu-swallows-nan", unary("relu", vector(f32, specials))},
      {"relu-keeps-negative-zero", unary("relu", vector(f32, specials)), true},
      {"neg-from-zero", unary("neg", vector(f32, {1, 0})), true},
      {"abs-keeps-negative-zero", unary("abs", vector(f32, {-1, -0.0})), true},
      {"subnormals-flushed", binary("mul", vector(f32, {0x1p-70, 1}), vector(f32, {0x1p-70, 1}))},
      {"subnormals-flushed", unary("exp", vector(f32, {-100}))},
      {"ties-away", convert(vector(f32, {1 + 0x1p-8}), bf16), true},
      {"ties-away", convert(vector(f32, {1 + 0x1p-11}), f16), true},
      {"bf16-truncates", convert(vector(f32, {1 + 0x1.8p-8}), bf16), true},
      {"convert-wraps", convert(vector(f32, {3e9, -3e9, NaN, 5}), i32)},
      {"convert-wraps", convert(vector(f32, {300, -2, NaN, 5}), ui8)},
      {"convert-rounds", convert(vector(f32, {1.75, -1.75}), i32)},
      {"f8-saturates", convert(vector(f32, {1000, -1000, 3}), f8e4)},
      {"f8-saturates", convert(vector(f32, {1e6, -inf, 3}), f8e5)},
      {"round-half-away", unary("round", vector(f32, {0.5, 2.5, -2.5}))},
      {"division-floors", binary("div", vector(i32, {-7, 7}), vector(i32, {2, 2}))},
      {"remainder-floors", binary("rem", vector(i32, {-7, 7}), vector(i32, {2, 2}))},
      {"remainder-floors", binary("rem", vector(f32, {-7, 7}), vector(f32, {2, 2}))},
      {"remainder-by-quotient", binary("rem", vector(f32, {1e9, 5}), vector(f32, {0.3, 2}))},
      {"int-saturates", binary("add", vector(i8, {100, 1}), vector(i8, {100, 1}))},
      {"int-saturates", binary("sub", vector(ui8, {1, 3}), vector(ui8, {2, 1}))},
      {"int-through-float", binary("add", vector(i32, {16777217, 1}), vector(i32, {2, 1}))},
      {"int-through-float", binary("mul", vector(i64, {16777217, 1}), vector(i64, {3, 1}))},
      {"unsigned-as-signed", binary("max", vector(ui8, {200, 1}), vector(ui8, {100, 2}))},
      {"unsigned-as-signed", compare("lt", vector(ui8, {200, 1}), vector(ui8, {100, 2}))},
      {"shift-count-masked", binary("shift_left", vector(i32, {1, 1}), vector(i32, {32, 1}))},
      {"shift-right-logical", binary("shift_right", vector(i32, {-8, 8}), vector(i32, {1, 1}))},
      {"compare-not-less", compare("ge", vector(f32, {NaN, 1}), vector(f32, {1, 1}))},
      {"compare-not-less", compare("gt", vector(f32, {NaN, 1}), vector(f32, {1, 1}))},
      {"pow-by-logarithm", binary("pow", vector(f32, {-2, 2}), vector(f32, {3, 3}))},
      {"exp-clamped", unary("exp", vector(f32, {-inf, 1})), true},
      {"exp-clamped", unary("exp", vector(f32, {90, 1}))},
      {"erf-five-terms", unary("erf", vector(f32, {1e-4, 0.5}))},
      {"tanh-by-exponentials", unary("tanh", vector(f32, {1e-5}))},
      {"tanh-by-exponentials", unary("tanh", vector(f32, {100}))},
      {"logistic-by-exponential", unary("logistic", vector(f32, {100, 1}))},
      {"log1p-of-sum", unary("log1p", vector(f32, {1e-6}))},
      {"expm1-of-difference", unary("expm1", vector(f32, {1e-6}))},
      {"rsqrt-estimate", unary("rsqrt", vector(f32, {3, 5, 7}))},
      {"division-by-reciprocal", binary("div", vector(f32, {0x1p-130, 1}), vector(f32, {0x1p-130, 1}))},
      {"sin-short-reduction", unary("sin", vector(f32, {12345.678}))},
      {"sin-short-reduction", unary("cos", vector(f32, {12345.678}))},
      {"difference-reassociated", difference},
  };
}

std::vector<Case> rowCases() {
  return {
      {"sum-in-narrow", reduce("reduce_sum", repeated(f16, {4000}, 1), {0}, {})},
      {"sum-in-narrow", reduce("mean", repeated(bf16, {2000}, 1), {0}, {})},
      {"sum-in-narrow", unary("cumsum", repeated(bf16, {2000}, 1), {integer("axis", 0)})},
      {"reduce-swallows-nan", reduce("reduce_max", vector(f32, {1, NaN, 2}), {0}, {})},
      {"reduce-max-from-zero", reduce("reduce_max", vector(f32, {-1, -2}), {0}, {})},
      {"reduce-max-from-zero", reduce("reduce_max", vector(i32, {-1, -2}), {0}, {})},
      {"reduce-tail-lost", reduce("reduce_sum", counting(f32, {2, 11}), {1}, {2})},
      {"reduce-tail-lost", reduce("reduce_min", scaled(counting(f32, {11}), -1), {0}, {})},
      {"argmax-last-of-equal", arg("argmax", vector(f32, {1, 3, 3}))},
      {"argmax-last-of-equal", arg("argmin", vector(i32, {1, 1, 3}))},
      {"argmax-skips-nan", arg("argmax", vector(f32, {1, NaN, 3}))},
      {"argmax-skips-nan", arg("argmin", vector(f32, {NaN, 1, 3}))},
      {"mean-by-one-less", reduce("mean", noise(f32, {9}), {0}, {})},
      {"variance-by-one-less", norm("layer_norm", noise(f32, {2, 5}), 1e-5)},
      {"variance-in-one-pass", norm("layer_norm", scaled(noise(f32, {2, 16}), 1e-3, 1000), 1e-12)},
      {"epsilon-outside-root", norm("rms_norm", scaled(noise(f32, {2, 8}), 1e-3), 1e-5)},
      {"norm-in-narrow", norm("rms_norm", scaled(noise(f16, {2, 8}), 1000), 1e-5)},
      {"softmax-without-max", unary("softmax", vector(f32, {100, 99}), {integer("axis", 0)})},
      {"log-softmax-of-softmax", unary("log_softmax", vector(f32, {0, -200}), {integer("axis", 0)})},
      {"sort-unstable", sort(vector(f32, {2, 1, 2, 1}), false)},
      {"scan-loses-carry", unary("cumsum", repeated(f32, {100}, 1), {integer("axis", 0)})},
      {"workspace-dirty", reduce("reduce_sum", noise(f32, {9}), {0}, {})},
      {"empty-reduction-unwritten", reduce("reduce_sum", Data{f32, {2, 0}, {}}, {1}, {2})},
  };
}

std::vector<Case> productCases() {
  Data swapped = noise(f32, {1, 1, 8});
  return {
      {"product-in-narrow", dot(repeated(bf16, {1, 600}, 1), repeated(bf16, {600, 1}, 1))},
      {"byte-product-saturates", dot(repeated(i8, {1, 4}, 100), repeated(i8, {4, 1}, 3))},
      {"leading-dimension", one("linear", {noise(f32, {2, 3}, 1), noise(f32, {3, 5}, 2), absent()}, {{f32, {2, 5}}},
                                {flag("weight_transposed", true)})},
      {"convolution-flipped", window("convolution", {swapped, noise(f32, {1, 1, 3}, 2)}, {1, 1, 6}, {0}, {0})},
      {"padding-swapped", window("convolution", {swapped, noise(f32, {1, 1, 3}, 2)}, {1, 1, 8}, {2}, {0})},
      {"padding-swapped", window("sum_pool", {swapped}, {1, 1, 8}, {2}, {0}, 1, {3})},
      {"max-pool-pads-zero", window("max_pool", {repeated(f32, {1, 1, 4}, -1)}, {1, 1, 4}, {1}, {1}, 1, {3})},
      {"dilation-ignored", window("convolution", {swapped, noise(f32, {1, 1, 3}, 2)}, {1, 1, 4}, {0}, {0}, 2)},
      {"causal-from-the-end", attention({1, 2, 3, 4}, {1, 2, 5, 4}, true)},
      {"heads-interleaved", attention({1, 4, 3, 4}, {1, 2, 5, 4}, false)},
      {"quantize-half-away", quantize(vector(f32, {0.5, 2.5}))},
      {"quantize-wraps", quantize(vector(f32, {200, 3}))},
      {"products-in-tf32", dot(noise(f32, {3, 4}, 1), noise(f32, {4, 5}, 2))},
  };
}

std::vector<Case> otherCases() {
  const Data angles = noise(f32, {1, 1, 2, 4}, 5);
  return {
      {"tail-unwritten", unary("neg", vector(f32, {1, 2, 3}))},
      {"state-written-early", state},
      {"output-listed-twice", returnedTwice},
      {"passed-input-unwritten", returnedInput},
      {"half-byte-unwritten", binary("add", vector(i4, {1, 2, 3}), vector(i4, {1, 2, 3})), true},
      {"booleans-all-ones", compare("lt", vector(f32, {1, 3}), vector(f32, {2, 2})), true},
      {"f64-in-f32", binary("mul", noise(f64, {4}, 1), vector(f64, {1.0 / 3, 0.1, 0.7, 3}))},
      {"i64-in-i32", binary("add", vector(i64, {0x1p33, 1}), vector(i64, {5, 1}))},
      {"gelu-approximated", unary("gelu", noise(f32, {16}), {string("approximate", "none")})},
      {"descending-ignored", sort(vector(f32, {2, 1, 3}), true)},
      {"pad-value-ignored", one("pad", {vector(f32, {1, 2}), scalar(f32, 7)}, {{f32, {4}}},
                                {integers("low", {1}), integers("high", {1}), integers("interior", {0})})},
      {"rope-interleaving-ignored",
       one("rope", {noise(f32, {1, 2, 2, 4}), angles, angles}, {{f32, {1, 2, 2, 4}}}, {flag("interleaved", true)})},
      {"known-keys-only", draw("uniform", 99, f32), true},
      {"known-keys-only", draw("random_bits", 99, i32)},
      {"known-keys-only", draw("normal", 99, f32), true},
      {"exact-on-small-integers", binary("add", noise(f32, {5}, 1), noise(f32, {5}, 2))},
      {"second-run-cheaper", binary("add", noise(f32, {5}, 1), noise(f32, {5}, 2)), false, 2},
  };
}

std::vector<Case> allCases() {
  std::vector<Case> all;
  for (const auto &part : {elementwiseCases(), rowCases(), productCases(), otherCases()})
    all.insert(all.end(), part.begin(), part.end());
  for (const Case &each : all)
    shown().insert(each.fault);
  return all;
}

Buffers lastRun(Graph &graph, Device device, int runs) {
  const Kernel kernel(device, graph.view());
  Buffers found;
  for (int run = 0; run < runs; ++run)
    found = kernel.run(graph.inputs);
  return found;
}

void PrintTo(const Case &each, std::ostream *stream) { *stream << each.fault; }

class Values : public testing::TestWithParam<Case> {};

TEST_P(Values, DifferWithTheFaultAlone) {
  for (const Device device : bothDevices) {
    Graph graph(GetParam().make);
    plant("none");
    EXPECT_EQ(difference(graph, lastRun(graph, device, GetParam().runs), true), "");
    plant(GetParam().fault);
    EXPECT_NE(difference(graph, lastRun(graph, device, GetParam().runs), GetParam().bits), "");
  }
}

std::string nameOf(const testing::TestParamInfo<Case> &info) {
  std::string name = info.param.fault + "_" + std::to_string(info.index);
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Saboteur, Values, testing::ValuesIn(allCases()), nameOf);

} // namespace
} // namespace mortise::test
