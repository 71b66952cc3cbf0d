// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Raising keeps the results of a program. Every function of raise-*.mlir, including those that must not be raised, is
// interpreted as written and after the first half of the pipeline, on random inputs. Functions without mortise.differs
// (the pattern says where and why results differ) are also run on hostile inputs: infinities, NaN, zeros, huge and tiny
// numbers.
#include <mortise/graph.hpp>
#include <mortise/ir/dialect.hpp>
#include <mortise/ir/portable.hpp>
#include <mortise/passes/passes.hpp>
#include <mortise/reference/formats.hpp>
#include <mortise/reference/interpreter.hpp>

#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/OwningOpRef.h>
#include <mlir/Parser/Parser.h>
#include <mlir/Pass/PassManager.h>
#include <mlir/Transforms/Passes.h>

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>

namespace mortise::passes {
namespace {

mlir::MLIRContext &context() {
  static mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<ir::MortiseDialect, mlir::func::FuncDialect>();
  return context;
}

using Buffers = std::vector<std::vector<char>>;

void store(const MortiseType &type, std::vector<char> &bytes, size_t i, double value) {
  switch (type.dtype) {
  case MORTISE_F32:
    reinterpret_cast<float *>(bytes.data())[i] = static_cast<float>(value);
    break;
  case MORTISE_BF16:
    reinterpret_cast<uint16_t *>(bytes.data())[i] = reference::BF16::store(value);
    break;
  case MORTISE_I8:
    reinterpret_cast<int8_t *>(bytes.data())[i] = static_cast<int8_t>(std::lround(value * 20));
    break;
  case MORTISE_UI8:
    reinterpret_cast<uint8_t *>(bytes.data())[i] = static_cast<uint8_t>(std::lround(value * 20) + 128);
    break;
  case MORTISE_I16:
    reinterpret_cast<int16_t *>(bytes.data())[i] = static_cast<int16_t>(std::lround(value * 20));
    break;
  case MORTISE_I32:
    reinterpret_cast<int32_t *>(bytes.data())[i] = static_cast<int32_t>(std::lround(value * 20));
    break;
  case MORTISE_I64:
    reinterpret_cast<int64_t *>(bytes.data())[i] = std::lround(value * 20);
    break;
  case MORTISE_F8E4M3FN:
    reinterpret_cast<uint8_t *>(bytes.data())[i] = reference::F8E4M3FN::store(value);
    break;
  case MORTISE_I1:
    bytes[i] = value > -0.5;
    break;
  default:
    FAIL() << "the test makes no inputs of dtype " << type.dtype;
  }
}
double load(const MortiseType &type, const std::vector<char> &bytes, size_t i) {
  return type.dtype == MORTISE_BF16 ? reference::BF16::load(reinterpret_cast<const uint16_t *>(bytes.data())[i])
                                    : static_cast<double>(reinterpret_cast<const float *>(bytes.data())[i]);
}

// An input's name selects its values: "positive"; "holes", a mask with -infinity in some elements and some whole rows;
// "seen", a mask with some rows all false.
// The large numbers are chosen so that sums of products of two stay well inside f32. The interpreter computes a
// composite in f64, so it overflows later than ops that round to f32; such a difference would say nothing about the
// pattern.
Buffers inputsOf(const MortiseGraph &graph, unsigned seed, bool hostile) {
  static const double strange[] = {INFINITY, -INFINITY, NAN, 0.0, -0.0, 1e8, -1e8, 1e-40};
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Buffers buffers;
  for (size_t n = 0; n < graph.input_count; ++n) {
    const MortiseType &type = *graph.inputs[n]->type;
    const std::string_view name = graph.inputs[n]->name;
    const auto count = static_cast<size_t>(elementCount(type));
    const size_t row = type.rank ? static_cast<size_t>(type.dims[type.rank - 1]) : 1;
    std::vector<char> bytes(byteSize(type));
    for (size_t i = 0; i < count; ++i) {
      double value = normal(random);
      if (hostile && random() % 12 == 0)
        value = strange[random() % std::size(strange)];
      if (name == "positive")
        value = std::fabs(value) + 0.1;
      else if (name == "holes" && (i / row % 3 == 1 || random() % 4 == 0))
        value = -INFINITY;
      else if (name == "seen" && i / row % 3 == 1)
        value = -1;
      store(type, bytes, i, value);
    }
    buffers.push_back(std::move(bytes));
  }
  return buffers;
}

std::vector<char> interpret(const MortiseGraph &graph, const Buffers &inputs) {
  std::vector<const void *> in;
  for (const auto &buffer : inputs)
    in.push_back(buffer.data());
  std::vector<char> output(byteSize(*graph.outputs[0]->type));
  void *out[] = {output.data()};
  Result<void> done = reference::interpret(graph, in, out);
  EXPECT_TRUE(done) << done.error().message;
  return output;
}

mlir::OwningOpRef<mlir::ModuleOp> alone(mlir::func::FuncOp function) {
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(function.getLoc());
  module->push_back(function.clone());
  return module;
}

void raise(mlir::ModuleOp module) {
  mlir::PassManager manager(&context());
  manager.addPass(mlir::createCanonicalizerPass());
  manager.addPass(mlir::createCSEPass());
  manager.addPass(createRaiseComposites());
  manager.addPass(mlir::createCanonicalizerPass());
  ASSERT_TRUE(mlir::succeeded(manager.run(module)));
}

// Sums of at most some hundred terms, a dozen roundings each: 2^-20 of the largest number for f32. The single ops round
// a narrow float up to a dozen times, a composite once.
double toleranceOf(const MortiseType &type) { return type.dtype == MORTISE_F32 ? 0x1p-20 : 0x1p-5; }

void compare(const MortiseGraph &before, const MortiseGraph &after, unsigned seed, bool hostile) {
  const Buffers inputs = inputsOf(before, seed, hostile);
  const std::vector<char> expected = interpret(before, inputs), found = interpret(after, inputs);
  const MortiseType &type = *before.outputs[0]->type;
  const auto count = static_cast<size_t>(elementCount(type));
  double scale = 1e-30;
  for (size_t i = 0; i < count; ++i)
    if (const double x = std::fabs(load(type, expected, i)); std::isfinite(x))
      scale = std::max(scale, x);
  for (size_t i = 0; i < count; ++i) {
    const double x = load(type, expected, i), y = load(type, found, i);
    ASSERT_TRUE((std::isnan(x) && std::isnan(y)) || x == y || std::fabs(x - y) <= toleranceOf(type) * scale)
        << (hostile ? "hostile" : "random") << " inputs of seed " << seed << ": element " << i << " is " << y
        << " after raising, " << x << " before";
  }
}

class Raise : public testing::TestWithParam<std::string> {};

TEST_P(Raise, KeepsWhatIsComputed) {
  auto file = mlir::parseSourceFile<mlir::ModuleOp>(GetParam(), mlir::ParserConfig(&context()));
  ASSERT_TRUE(file);
  size_t functions = 0;
  for (auto function : file->getOps<mlir::func::FuncOp>()) {
    SCOPED_TRACE(function.getSymName().str());
    ++functions;
    auto module = alone(function);
    auto before = ir::exportGraph(*module);
    ASSERT_TRUE(before) << before.error().message;
    raise(*module);
    auto after = ir::exportGraph(*module);
    ASSERT_TRUE(after) << after.error().message;
    for (unsigned seed = 0; seed < 4; ++seed)
      compare((*before)->view(), (*after)->view(), seed, false);
    for (unsigned seed = 0; seed < 16 && !function->hasAttr("mortise.differs"); ++seed)
      compare((*before)->view(), (*after)->view(), seed, true);
  }
  EXPECT_GT(functions, 4u);
}

std::vector<std::string> files() {
  std::vector<std::string> list;
  for (const auto &entry : std::filesystem::directory_iterator(RAISE_TESTS))
    if (entry.path().filename().string().starts_with("raise-"))
      list.push_back(entry.path().string());
  std::sort(list.begin(), list.end());
  return list;
}
INSTANTIATE_TEST_SUITE_P(Files, Raise, testing::ValuesIn(files()), [](const auto &info) {
  std::string name = std::filesystem::path(info.param).stem().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

} // namespace
} // namespace mortise::passes
