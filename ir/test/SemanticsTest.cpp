// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What rewrites must keep: interpret(op) == interpret(decompose(op)) == interpret(canonicalise(decompose(op))), and
// folded constants are bit for bit what the interpreter computes.
#include <mortise/graph.hpp>
#include <mortise/ir/Builder.h>
#include <mortise/ir/Decompose.h>
#include <mortise/ir/Dialect.h>
#include <mortise/ir/Portable.h>
#include <mortise/reference/Formats.h>
#include <mortise/reference/Interpreter.h>

#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/MLIRContext.h>
#include <mlir/IR/OwningOpRef.h>
#include <mlir/IR/PatternMatch.h>
#include <mlir/Parser/Parser.h>
#include <mlir/Pass/PassManager.h>
#include <mlir/Transforms/Passes.h>

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace mortise::ir {
namespace {

using Buffers = std::vector<std::vector<char>>;

mlir::MLIRContext &context() {
  static mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<MortiseDialect>();
  mlir::DialectRegistry registry;
  registerDialect(registry);
  context.appendDialectRegistry(registry);
  return context;
}

double load(const MortiseType &type, const std::vector<char> &bytes, size_t i) {
  return reference::visitElement(type.dtype, [&]<typename T>(T) {
    typename T::Storage stored;
    std::memcpy(&stored, bytes.data() + i * sizeof stored, sizeof stored);
    return static_cast<double>(T::load(stored));
  });
}
void store(const MortiseType &type, std::vector<char> &bytes, size_t i, double value) {
  reference::visitElement(type.dtype, [&]<typename T>(T) {
    auto stored = T::store(static_cast<typename T::Compute>(value));
    std::memcpy(bytes.data() + i * sizeof stored, &stored, sizeof stored);
  });
}

// Random numbers; 1 in 16 elements of a "holes" float input is -inf, and its first row wholly (a mask).
Buffers randomInputs(const MortiseGraph &graph) {
  std::mt19937 random(7); // NOLINT(bugprone-random-generator-seed): a test repeats itself
  std::normal_distribution<double> normal;
  Buffers buffers;
  for (size_t n = 0; n < graph.input_count; ++n) {
    const MortiseType &type = *graph.inputs[n]->type;
    std::string_view name = graph.inputs[n]->name;
    auto count = static_cast<size_t>(elementCount(type));
    size_t row = type.rank ? static_cast<size_t>(type.dims[type.rank - 1]) : 1;
    std::vector<char> bytes(byteSize(type));
    for (size_t i = 0; i < count; ++i) {
      double value = normal(random);
      if (name == "positive")
        value = std::fabs(value) + 0.1;
      else if (name == "holes")
        value = i < row || random() % 16 == 0 ? -INFINITY : value;
      else if (name == "seen")
        value = i < row ? 0 : random() % 4 != 0;
      else if (!isFloat(type.dtype))
        value = static_cast<double>(random() % 3);
      store(type, bytes, i, value);
    }
    buffers.push_back(std::move(bytes));
  }
  return buffers;
}

Buffers interpret(const MortiseGraph &graph, const Buffers &inputs) {
  std::vector<const void *> in;
  std::vector<void *> out;
  for (const auto &buffer : inputs)
    in.push_back(buffer.data());
  Buffers outputs;
  for (size_t n = 0; n < graph.output_count; ++n)
    outputs.emplace_back(byteSize(*graph.outputs[n]->type));
  for (auto &buffer : outputs)
    out.push_back(buffer.data());
  Result<void> done = reference::interpret(graph, in, out);
  EXPECT_TRUE(done) << done.error().message;
  return outputs;
}

void canonicalise(mlir::ModuleOp module) {
  mlir::PassManager manager(&context());
  manager.addPass(mlir::createCanonicalizerPass());
  manager.addPass(mlir::createCSEPass());
  ASSERT_TRUE(mlir::succeeded(manager.run(module)));
}

void decomposeAll(mlir::ModuleOp module) {
  mlir::IRRewriter rewriter(&context());
  for (bool found = true; found;) {
    found = false;
    module.walk([&](mlir::Operation *op) {
      if (isComposite(op)) {
        found = true;
        EXPECT_TRUE(mlir::succeeded(decompose(op, rewriter)));
        return mlir::WalkResult::interrupt();
      }
      return mlir::WalkResult::advance();
    });
  }
}

// `tolerance` is relative to the largest magnitude of the output.
void expectNear(const MortiseType &type, const std::vector<char> &expected, const std::vector<char> &found,
                double tolerance, const char *what) {
  double scale = 1e-30;
  auto count = static_cast<size_t>(elementCount(type));
  for (size_t i = 0; i < count; ++i)
    if (double x = std::fabs(load(type, expected, i)); std::isfinite(x))
      scale = std::max(scale, x);
  for (size_t i = 0; i < count; ++i) {
    double x = load(type, expected, i), y = load(type, found, i);
    ASSERT_TRUE((std::isnan(x) && std::isnan(y)) || x == y || std::fabs(x - y) <= tolerance * scale)
        << what << ": element " << i << " is " << y << ", expected " << x;
  }
}

class Composite : public testing::TestWithParam<const char *> {};

TEST_P(Composite, MeansItsDecomposition) {
  auto module = mlir::parseSourceString<mlir::ModuleOp>(GetParam(), mlir::ParserConfig(&context()));
  ASSERT_TRUE(module);
  auto whole = exportGraph(*module);
  ASSERT_TRUE(whole) << whole.error().message;
  Buffers inputs = randomInputs((*whole)->view());
  Buffers expected = interpret((*whole)->view(), inputs);
  const MortiseType &type = *(*whole)->view().outputs[0]->type;
  double tolerance = type.dtype == MORTISE_F64   ? 1e-14
                     : type.dtype == MORTISE_F32 ? 1e-6
                     : type.dtype == MORTISE_F16 ? 1e-3
                                                 : 8e-3;
  decomposeAll(*module);
  auto parts = exportGraph(*module);
  ASSERT_TRUE(parts) << parts.error().message;
  for (size_t i = 0; i < (*parts)->view().node_count; ++i)
    EXPECT_STRNE((*parts)->view().nodes[i]->op, (*whole)->view().nodes[0]->op);
  expectNear(type, expected[0], interpret((*parts)->view(), inputs)[0], tolerance, "decomposed");
  canonicalise(*module);
  auto small = exportGraph(*module);
  ASSERT_TRUE(small) << small.error().message;
  expectNear(type, expected[0], interpret((*small)->view(), inputs)[0], tolerance, "canonicalised");
}

#define ONE(ARGUMENTS, OP, RESULT)                                                                                     \
  "func.func @f(" ARGUMENTS ") -> " RESULT " {\n %0 = mortise." OP " -> " RESULT "\n return %0 : " RESULT "\n}"
#define X(TYPE) "%x: " TYPE
INSTANTIATE_TEST_SUITE_P(
    All, Composite,
    testing::Values(
        ONE(X("tensor<40xf32>"), "relu %x : (tensor<40xf32>)", "tensor<40xf32>"),
        ONE(X("tensor<40xi32>"), "relu %x : (tensor<40xi32>)", "tensor<40xi32>"),
        ONE(X("tensor<400xf32>"), "silu %x : (tensor<400xf32>)", "tensor<400xf32>"),
        ONE(X("tensor<400xf16>"), "silu %x : (tensor<400xf16>)", "tensor<400xf16>"),
        ONE(X("tensor<400xf32>"), "gelu %x {approximate = \"none\"} : (tensor<400xf32>)", "tensor<400xf32>"),
        ONE(X("tensor<400xbf16>"), "gelu %x {approximate = \"none\"} : (tensor<400xbf16>)", "tensor<400xbf16>"),
        ONE(X("tensor<400xf64>"), "gelu %x {approximate = \"tanh\"} : (tensor<400xf64>)", "tensor<400xf64>"),
        ONE(X("tensor<3x5x7xf32>"), "softmax %x {axis = 1 : i64} : (tensor<3x5x7xf32>)", "tensor<3x5x7xf32>"),
        ONE(X("tensor<3x5xf16>"), "softmax %x {axis = 1 : i64} : (tensor<3x5xf16>)", "tensor<3x5xf16>"),
        ONE("%x: tensor<3x5xf32> {mortise.name = \"holes\"}", "softmax %x {axis = 1 : i64} : (tensor<3x5xf32>)",
            "tensor<3x5xf32>"),
        ONE(X("tensor<3x5xf32>"), "log_softmax %x {axis = 0 : i64} : (tensor<3x5xf32>)", "tensor<3x5xf32>"),
        ONE(X("tensor<3x4x6xf32>") ", %s: tensor<4x6xf32>, %b: tensor<4x6xf32>",
            "layer_norm %x scale %s bias %b {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<3x4x6xf32>, "
            "tensor<4x6xf32>, tensor<4x6xf32>)",
            "tensor<3x4x6xf32>"),
        ONE(X("tensor<3x8xf16>") ", %b: tensor<8xf16>",
            "layer_norm %x bias %b {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<3x8xf16>, tensor<8xf16>)",
            "tensor<3x8xf16>"),
        ONE(X("tensor<3x8xf32>") ", %s: tensor<8xf32>",
            "rms_norm %x, %s {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<3x8xf32>, tensor<8xf32>)",
            "tensor<3x8xf32>"),
        ONE(X("tensor<3x8xbf16>"), "rms_norm %x {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<3x8xbf16>)",
            "tensor<3x8xbf16>"),
        ONE(X("tensor<2x6x3x5xf32>") ", %s: tensor<6xf32>, %b: tensor<6xf32>",
            "group_norm %x scale %s bias %b {groups = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x6x3x5xf32>, "
            "tensor<6xf32>, tensor<6xf32>)",
            "tensor<2x6x3x5xf32>"),
        ONE(X("tensor<2x6x5xf32>") ", %s: tensor<6xf32>, %b: tensor<6xf32>, %m: tensor<6xf32>, %v: tensor<6xf32> "
                                   "{mortise.name = \"positive\"}",
            "batch_norm %x scale %s bias %b mean %m variance %v {epsilon = 1.0e-5 : f64} : (tensor<2x6x5xf32>, "
            "tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>)",
            "tensor<2x6x5xf32>"),
        ONE(X("tensor<2x6xf16>") ", %m: tensor<6xf16>, %v: tensor<6xf16> {mortise.name = \"positive\"}",
            "batch_norm %x mean %m variance %v {epsilon = 1.0e-5 : f64} : (tensor<2x6xf16>, tensor<6xf16>, "
            "tensor<6xf16>)",
            "tensor<2x6xf16>"),
        ONE(X("tensor<2x6x5xf32>"), "mean %x {axes = array<i64: 0, 2>} : (tensor<2x6x5xf32>)", "tensor<6xf32>"),
        ONE(X("tensor<2x600xf16>"), "mean %x {axes = array<i64: 1>} : (tensor<2x600xf16>)", "tensor<2xf16>"),
        ONE(X("tensor<2x0xf32>"), "mean %x {axes = array<i64: 1>} : (tensor<2x0xf32>)", "tensor<2xf32>"),
        ONE(X("tensor<7x4xf32>") ", %i: tensor<2x3xi64>", "embedding %x, %i : (tensor<7x4xf32>, tensor<2x3xi64>)",
            "tensor<2x3x4xf32>"),
        ONE(X("tensor<2x3x8xf32>") ", %w: tensor<5x8xf32>, %b: tensor<5xf32>",
            "linear %x, %w, %b {weight_transposed = false} : (tensor<2x3x8xf32>, tensor<5x8xf32>, tensor<5xf32>)",
            "tensor<2x3x5xf32>"),
        ONE(X("tensor<8xf32>") ", %w: tensor<8x5xf32>",
            "linear %x, %w {weight_transposed = true} : (tensor<8xf32>, tensor<8x5xf32>)", "tensor<5xf32>")));

#define ATTENTION(ELEMENT, KEYS, MASK, MASKTYPE, CAUSAL)                                                               \
  ONE("%q: tensor<2x6x5x4x" ELEMENT ">, %k: tensor<2x3x" KEYS "x4x" ELEMENT ">, %v: tensor<2x3x" KEYS "x7x" ELEMENT    \
      ">, %m: " MASKTYPE " {mortise.name = \"" MASK "\"}",                                                             \
      "attention %q, %k, %v, %m {scale = 0.5 : f64, causal = " CAUSAL "} : (tensor<2x6x5x4x" ELEMENT                   \
      ">, tensor<2x3x" KEYS "x4x" ELEMENT ">, tensor<2x3x" KEYS "x7x" ELEMENT ">, " MASKTYPE ")",                      \
      "tensor<2x6x5x7x" ELEMENT ">")
INSTANTIATE_TEST_SUITE_P(Attention, Composite,
                         testing::Values(ATTENTION("f32", "9", "seen", "tensor<2x1x1x9xi1>", "false"),
                                         ATTENTION("f32", "9", "seen", "tensor<2x6x5x9xi1>", "true"),
                                         ATTENTION("f32", "9", "holes", "tensor<2x1x5x9xf32>", "false"),
                                         ATTENTION("f32", "9", "holes", "tensor<1x6x1x9xf32>", "true"),
                                         ATTENTION("f32", "5", "holes", "tensor<1x1x5x1xf32>", "false"),
                                         ATTENTION("bf16", "9", "holes", "tensor<2x1x5x9xbf16>", "true"),
                                         ATTENTION("f16", "9", "seen", "tensor<1x1x5x9xi1>", "false"),
                                         ONE("%q: tensor<2x6x5x4xf32>, %k: tensor<2x3x9x4xf32>",
                                             "attention %q, %k, %k {scale = 1.0 : f64, causal = true} : "
                                             "(tensor<2x6x5x4xf32>, tensor<2x3x9x4xf32>, tensor<2x3x9x4xf32>)",
                                             "tensor<2x6x5x4xf32>"),
                                         ONE("%q: tensor<2x6x5x4xf32>, %k: tensor<2x3x0x4xf32>",
                                             "attention %q, %k, %k {scale = 1.0 : f64, causal = true} : "
                                             "(tensor<2x6x5x4xf32>, tensor<2x3x0x4xf32>, tensor<2x3x0x4xf32>)",
                                             "tensor<2x6x5x4xf32>")));

// ---- Folding ----------------------------------------------------------------------------------------------------

class Folded : public testing::TestWithParam<int32_t> {
protected:
  static std::vector<double> specials(int32_t dtype) {
    if (isFloat(dtype))
      return {0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 100.0, -7.0, 1e-3, INFINITY, -INFINITY, NAN, 0.3, 300.7, -200.0};
    if (dtype == MORTISE_I1)
      return {0, 1};
    std::vector<double> values{0, 1, 2, 3, 7, 100};
    if (dtype != MORTISE_UI8)
      values.insert(values.end(), {-1, -2, -7, -100});
    double highest = dtype == MORTISE_UI8 ? 255 : std::ldexp(1, static_cast<int>(dtypeBits(dtype)) - 1) - 1;
    if (dtypeBits(dtype) < 64)
      values.insert(values.end(), {highest, dtype == MORTISE_UI8 ? 200.0 : -highest - 1});
    return values;
  }

  ValueId literal(Builder &builder, int32_t dtype, const std::vector<double> &values) {
    int64_t extent = static_cast<int64_t>(values.size());
    MortiseType type{};
    type.struct_size = sizeof type;
    type.dtype = dtype;
    type.rank = 1;
    type.dims = &extent;
    std::vector<char> bytes(byteSize(type));
    for (size_t i = 0; i < values.size(); ++i)
      store(type, bytes, i, values[i]);
    MortiseAttribute value{};
    value.struct_size = sizeof value;
    value.name = "value";
    value.kind = MORTISE_ATTRIBUTE_TENSOR;
    value.tensor_type = &type;
    value.tensor_data = bytes.data();
    value.count = bytes.size();
    const MortiseAttribute *attributes[] = {&value};
    return (*builder.addOp("mortise.constant", {}, attributes, ""))[0];
  }

  // Every pair of special values through `op`; ops that do not take the type are skipped.
  void check(const char *op, size_t operands, const char *name = nullptr, const char *text = nullptr) {
    SCOPED_TRACE(std::string(op) + " " + dtypeName(GetParam()) + " " + (text ? text : ""));
    std::vector<double> values = specials(GetParam()), lhs, rhs;
    for (double x : values)
      for (double y : values) {
        lhs.push_back(x);
        rhs.push_back(y);
      }
    Builder builder(context(), "f");
    std::vector<ValueId> ids{literal(builder, GetParam(), lhs)};
    if (operands == 2)
      ids.push_back(literal(builder, GetParam(), rhs));
    MortiseAttribute attribute{};
    attribute.struct_size = sizeof attribute;
    attribute.name = name;
    attribute.kind = MORTISE_ATTRIBUTE_STRING;
    attribute.string = text;
    const MortiseAttribute *attributes[] = {&attribute};
    auto made = builder.addOp(op, ids, {attributes, name ? 1u : 0u}, "");
    if (!made)
      return;
    ASSERT_TRUE(builder.addOutput((*made)[0], -1));
    auto module = builder.finish();
    ASSERT_TRUE(module);
    auto before = exportGraph(**module);
    ASSERT_TRUE(before);
    canonicalise(**module);
    auto after = exportGraph(**module);
    ASSERT_TRUE(after);
    const MortiseType &type = *(*before)->view().outputs[0]->type;
    std::vector<char> expected = interpret((*before)->view(), {})[0], found = interpret((*after)->view(), {})[0];
    for (size_t i = 0; i < lhs.size(); ++i) {
      double x = load(type, expected, i), y = load(type, found, i);
      ASSERT_TRUE((std::isnan(x) && std::isnan(y)) || (x == y && std::signbit(x) == std::signbit(y)))
          << "for " << lhs[i] << ", " << rhs[i] << ": folded to " << y << ", the interpreter says " << x;
    }
    folded += (*after)->view().node_count == 1;
  }
  int folded = 0;
};

TEST_P(Folded, IsWhatTheInterpreterComputes) {
  for (const char *op :
       {"abs",   "neg",   "sign", "exp",      "expm1", "log",   "log1p", "sqrt",  "rsqrt", "sin",  "cos",
        "tanh",  "erf",   "erfc", "logistic", "tan",   "asin",  "acos",  "atan",  "sinh",  "cosh", "asinh",
        "acosh", "atanh", "log2", "log10",    "exp2",  "floor", "ceil",  "round", "not"})
    check(("mortise." + std::string(op)).c_str(), 1);
  for (const char *op : {"add", "sub", "mul", "div", "rem", "pow", "max", "min", "atan2", "and", "or", "xor",
                         "shift_left", "shift_right"})
    check(("mortise." + std::string(op)).c_str(), 2);
  for (const char *direction : {"eq", "ne", "lt", "le", "gt", "ge"})
    check("mortise.compare", 2, "direction", direction);
  for (int32_t to = MORTISE_F64; to <= MORTISE_I1; ++to)
    if (to != MORTISE_I4) // packed: the test's loads are of whole bytes
      check("mortise.convert", 1, "dtype", dtypeName(to));
  EXPECT_GE(folded, 20);
}

INSTANTIATE_TEST_SUITE_P(Types, Folded,
                         testing::Values(MORTISE_F64, MORTISE_F32, MORTISE_F16, MORTISE_BF16, MORTISE_F8E4M3FN,
                                         MORTISE_F8E5M2, MORTISE_I64, MORTISE_I32, MORTISE_I16, MORTISE_I8, MORTISE_UI8,
                                         MORTISE_I1),
                         [](const auto &info) { return std::string(dtypeName(info.param)); });

} // namespace
} // namespace mortise::ir
