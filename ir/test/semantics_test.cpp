// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Constant folding gives bit for bit what the interpreter computes. (Decompositions: decompositions_test.cpp.)
#include "ranges.hpp"

#include <mortise/graph.hpp>
#include <mortise/ir/builder.hpp>
#include <mortise/ir/dialect.hpp>
#include <mortise/ir/portable.hpp>
#include <mortise/reference/formats.hpp>

#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/MLIRContext.h>
#include <mlir/IR/OwningOpRef.h>
#include <mlir/Pass/PassManager.h>
#include <mlir/Transforms/Passes.h>

#include <gtest/gtest.h>

#include <cmath>

namespace mortise::ir {
namespace {

mlir::MLIRContext &context() {
  static mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<MortiseDialect, mlir::func::FuncDialect>();
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

void canonicalise(mlir::ModuleOp module) {
  mlir::PassManager manager(&context());
  manager.addPass(mlir::createCanonicalizerPass());
  manager.addPass(mlir::createCSEPass());
  ASSERT_TRUE(mlir::succeeded(manager.run(module)));
}

class Folded : public testing::TestWithParam<int32_t> {
protected:
  static std::vector<double> specials(int32_t dtype) {
    if (isFloat(dtype))
      return {0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 100.0, -7.0, 1e-3, INFINITY, -INFINITY, NAN, 0.3, 300.7, -200.0};
    if (isBool(dtype))
      return {0, 1};
    std::vector<double> values{0, 1, 2, 3, 7, 100};
    if (!isUnsigned(dtype))
      values.insert(values.end(), {-1, -2, -7, -100});
    const int bits = static_cast<int>(dtypeBits(dtype));
    double highest = std::ldexp(1, isUnsigned(dtype) ? bits : bits - 1) - 1;
    if (dtypeBits(dtype) < 64)
      values.insert(values.end(), {highest, isUnsigned(dtype) ? highest - 55 : -highest - 1});
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

  // Applies `op` to every pair of special values; skips ops that do not take the type.
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
    Result<test::Buffers> expected = test::interpret((*before)->view(), {}),
                          found = test::interpret((*after)->view(), {});
    ASSERT_TRUE(expected && found);
    for (size_t i = 0; i < lhs.size(); ++i) {
      double x = load(type, (*expected)[0], i), y = load(type, (*found)[0], i);
      ASSERT_TRUE((std::isnan(x) && std::isnan(y)) || (x == y && std::signbit(x) == std::signbit(y)))
          << "for " << lhs[i] << ", " << rhs[i] << ": folded to " << y << ", the interpreter says " << x;
    }
    folded += (*after)->view().node_count == 1;
  }
  int folded = 0;
};

TEST_P(Folded, IsWhatTheInterpreterComputes) {
  for (int32_t op = 1; op < MORTISE_OP_COUNT; ++op)
    if (const MortiseOpInfo &info = *mortise_op_info(op);
        (info.traits & (MORTISE_TRAIT_ELEMENTWISE | MORTISE_TRAIT_COMPOSITE)) == MORTISE_TRAIT_ELEMENTWISE &&
        info.attribute_count == 0 && info.operand_count <= 2)
      check(info.name, info.operand_count);
  for (const char *direction : {"eq", "ne", "lt", "le", "gt", "ge"})
    check("mortise.compare", 2, "direction", direction);
  for (int32_t to = 1; to <= MORTISE_DTYPE_COUNT; ++to)
    if (dtypeBits(to) >= 8) // the test loads whole bytes
      check("mortise.convert", 1, "dtype", dtypeName(to));
  EXPECT_GE(folded, 20);
}

std::vector<int32_t> wholeByteTypes() {
  std::vector<int32_t> found;
  for (int32_t dtype = 1; dtype <= MORTISE_DTYPE_COUNT; ++dtype)
    if (dtypeBits(dtype) >= 8)
      found.push_back(dtype);
  return found;
}
INSTANTIATE_TEST_SUITE_P(Types, Folded, testing::ValuesIn(wholeByteTypes()),
                         [](const auto &info) { return std::string(dtypeName(info.param)); });

} // namespace
} // namespace mortise::ir
