// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops of vendors in the builder, in the portable format, and against their declarations.
#include <mortise/graph.hpp>
#include <mortise/ir/builder.hpp>
#include <mortise/ir/dialect.hpp>
#include <mortise/ir/portable.hpp>
#include <mortise/ir/vendor.hpp>
#include <mortise/reference/interpreter.hpp>

#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/MLIRContext.h>
#include <mlir/IR/OwningOpRef.h>
#include <mlir/Parser/Parser.h>

#include <gtest/gtest.h>

#include <functional>

namespace mortise::ir {
namespace {

// Declares acme.widen(x: i8 [...]) {times: i64 = 2} -> i32 [...], whose first extent is multiplied by `times`.
class Acme : public portable::VendorOps {
public:
  Result<const MortiseOpDeclaration *> declaration(std::string_view op) const override {
    if (op == widen.name)
      return &widen;
    return Error{MORTISE_UNSUPPORTED, "no installed plugin declares the op '" + std::string(op) + "'"};
  }
  Result<void> infer(const MortiseInferArgs &args) const override {
    if (answer)
      return answer(args);
    const MortiseType &x = *args.operands[0];
    if (x.dtype != MORTISE_I8 || x.rank == 0)
      return Error{MORTISE_INVALID_ARGUMENT, "acme.widen: expected i8 numbers, found " + typeString(x)};
    std::vector<int64_t> dims(x.dims, x.dims + x.rank);
    std::vector<MortiseExpr> exprs;
    std::vector<MortiseExprStep> steps;
    if (x.dim_exprs) {
      exprs.assign(x.dim_exprs, x.dim_exprs + x.rank);
      steps.assign(exprs[0].steps, exprs[0].steps + exprs[0].count);
      steps.push_back({MORTISE_EXPR_CONST, 0, args.attributes[0]->i64});
      steps.push_back({MORTISE_EXPR_MUL, 0, 0});
      exprs[0] = {steps.data(), steps.size()};
    } else {
      dims[0] *= args.attributes[0]->i64;
    }
    MortiseType result = x;
    result.dtype = MORTISE_I32;
    result.dims = dims.data();
    result.dim_exprs = x.dim_exprs ? exprs.data() : nullptr;
    args.add(args.sink, &result);
    return {};
  }
  std::function<Result<void>(const MortiseInferArgs &)> answer; // in place of what is above

private:
  MortiseAttribute two{.struct_size = sizeof two, .name = "times", .kind = MORTISE_ATTRIBUTE_I64, .i64 = 2};
  MortiseAttributeDeclaration times{sizeof times, nullptr, "times", MORTISE_ATTRIBUTE_I64, 0, &two};
  const MortiseAttributeDeclaration *list[1] = {&times};
  MortiseOpDeclaration widen{sizeof widen, nullptr, "acme.widen", "widens", 1, 1, list, 1};
};

class VendorTest : public testing::Test {
protected:
  ValueId input(std::vector<int64_t> dims, int32_t dtype = MORTISE_I8, const MortiseExpr *exprs = nullptr) {
    const MortiseType type{sizeof type, nullptr, dtype,   static_cast<int32_t>(dims.size()),
                           dims.data(), exprs,   nullptr, nullptr};
    auto id = builder.addInput("x", type, 0);
    EXPECT_TRUE(id) << id.error().message;
    return *id;
  }
  Result<std::vector<ValueId>> widen(ValueId x, std::vector<MortiseAttribute> attributes = {},
                                     std::string_view location = "") {
    std::vector<const MortiseAttribute *> pointers;
    for (const MortiseAttribute &each : attributes)
      pointers.push_back(&each);
    const ValueId operands[] = {x};
    return builder.addOp("acme.widen", operands, pointers, location);
  }
  std::string failure(ValueId x, std::vector<MortiseAttribute> attributes = {}, std::string_view location = "") {
    auto added = widen(x, std::move(attributes), location);
    EXPECT_FALSE(added);
    return added ? "" : added.error().message;
  }
  static MortiseAttribute attribute(const char *name, int32_t kind, int64_t value) {
    MortiseAttribute made{};
    made.struct_size = sizeof made;
    made.name = name;
    made.kind = kind;
    made.i64 = value;
    return made;
  }
  std::shared_ptr<const Graph> exported(ValueId output) {
    EXPECT_TRUE(builder.addOutput(output, -1));
    auto module = builder.finish();
    auto graph = module ? exportGraph(**module) : Result<std::shared_ptr<const Graph>>(module.error());
    EXPECT_TRUE(graph) << graph.error().message;
    return graph ? *graph : nullptr;
  }
  mlir::OwningOpRef<mlir::ModuleOp> parsed(const std::string &text) {
    context.loadDialect<MortiseDialect, mlir::func::FuncDialect>();
    return mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  }
  std::string wrong(const std::string &type, const std::string &parameters = "times = 2 : i64",
                    const std::string &op = "acme.widen") {
    auto module =
        parsed("func.func @f(%x: tensor<3xi8>) -> " + type + " { %0 = mortise.vendor \"" + op + "\"(%x) {" +
               parameters + "} : (tensor<3xi8>) -> " + type + " loc(\"model.py:3\") return %0 : " + type + " }");
    if (!module)
      return "does not parse";
    const Result<void> checked = checkVendorOps(*module, acme);
    return checked ? "" : checked.error().message;
  }

  Acme acme;
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  Builder builder{context, "test", &acme};
};

TEST_F(VendorTest, TypesComeFromThePlugin) {
  const ValueId x = input({3, 4});
  auto two = widen(x), five = widen(x, {attribute("times", MORTISE_ATTRIBUTE_I64, 5)});
  ASSERT_TRUE(two && five);
  EXPECT_EQ(typeString(**builder.typeOf((*two)[0])), "i32[6, 4]");
  EXPECT_EQ(typeString(**builder.typeOf((*five)[0])), "i32[15, 4]");
  const auto graph = exported((*two)[0]);
  ASSERT_TRUE(graph);
  const MortiseNode &node = *graph->view().nodes[0];
  EXPECT_STREQ(node.op, "acme.widen");
  ASSERT_EQ(node.attribute_count, 1u) << "what was left out is there";
  EXPECT_EQ(node.attributes[0]->i64, 2);
}

TEST_F(VendorTest, TypesAreOverSymbolsToo) {
  ASSERT_TRUE(builder.addSymbol("n", 1, 64, 1));
  const MortiseExprStep step{MORTISE_EXPR_SYMBOL, 0, 0};
  const MortiseExpr expr{&step, 1};
  auto made = widen(input({MORTISE_DYNAMIC}, MORTISE_I8, &expr));
  ASSERT_TRUE(made) << made.error().message;
  const MortiseType &type = **builder.typeOf((*made)[0]);
  ASSERT_TRUE(type.dim_exprs);
  const auto extent = Dim::from(type.dim_exprs[0], 1);
  ASSERT_TRUE(extent);
  EXPECT_EQ(*extent, Dim::symbol(0) * Dim(2));
}

TEST_F(VendorTest, WhatIsNotAsDeclared) {
  const ValueId x = input({3}), f = input({3}, MORTISE_F32);
  EXPECT_EQ(failure(f), "acme.widen: expected i8 numbers, found f32[3]");
  EXPECT_EQ(failure(f, {}, "model.py:7"), "acme.widen: expected i8 numbers, found f32[3]; at model.py:7");
  EXPECT_EQ(failure(x, {attribute("times", MORTISE_ATTRIBUTE_BOOL, 1)}),
            "acme.widen: expected attribute 'times' to be an integer, found a boolean");
  EXPECT_EQ(failure(x, {attribute("time", MORTISE_ATTRIBUTE_I64, 1)}),
            "acme.widen: its plugin declares no attribute 'time'; the nearest known is 'times'");
  const ValueId twice[] = {x, x}, none[] = {noValue};
  EXPECT_EQ(builder.addOp("acme.widen", twice, {}, "").error().message,
            "acme.widen: expected 1 operands, as its plugin declares, found 2");
  EXPECT_EQ(builder.addOp("acme.widen", none, {}, "").error().message,
            "acme.widen: an operand is left out, and ops of vendors have no optional operands");
  EXPECT_EQ(builder.addOp("acme.wide", {}, {}, "").error().message, "no installed plugin declares the op 'acme.wide'");
  Builder alone(context, "alone");
  EXPECT_EQ(alone.addOp("acme.widen", {}, {}, "").error().code, MORTISE_UNSUPPORTED);
}

TEST_F(VendorTest, WhatAPluginInfersIsChecked) {
  const ValueId x = input({3});
  const auto infers = [&](MortiseType type) {
    acme.answer = [type](const MortiseInferArgs &args) -> Result<void> {
      args.add(args.sink, &type);
      return {};
    };
    return failure(x);
  };
  const int64_t negative[] = {-3}, huge[] = {INT64_MAX, 2};
  EXPECT_NE(infers({sizeof(MortiseType), nullptr, 99, 0, nullptr, nullptr, nullptr, nullptr})
                .find("acme.widen: the result 0 that its plugin infers: dtype 99 is none of MortiseDType"),
            std::string::npos);
  EXPECT_NE(infers({sizeof(MortiseType), nullptr, MORTISE_I8, 1, negative, nullptr, nullptr, nullptr})
                .find("extent 0 of i8[-3] is negative"),
            std::string::npos);
  EXPECT_NE(infers({sizeof(MortiseType), nullptr, MORTISE_I8, 2, huge, nullptr, nullptr, nullptr})
                .find("more bytes than a machine can address"),
            std::string::npos);
  const MortiseExprStep step{MORTISE_EXPR_SYMBOL, 0, 7};
  const MortiseExpr expr{&step, 1};
  const int64_t dynamic[] = {MORTISE_DYNAMIC};
  EXPECT_NE(infers({sizeof(MortiseType), nullptr, MORTISE_I8, 1, dynamic, &expr, nullptr, nullptr}).find("symbol"),
            std::string::npos);
}

TEST_F(VendorTest, AGraphComesBackWithoutAPlugin) {
  auto made = widen(input({3}), {}, "model.py:3");
  ASSERT_TRUE(made);
  const auto graph = exported((*made)[0]);
  ASSERT_TRUE(graph);
  auto loaded = Graph::load(graph->bytes());
  ASSERT_TRUE(loaded) << loaded.error().message;
  auto module = importGraph(**loaded, context);
  ASSERT_TRUE(module) << module.error().message;
  auto again = exportGraph(**module);
  ASSERT_TRUE(again);
  EXPECT_TRUE(std::ranges::equal((*again)->bytes(), graph->bytes()));
  EXPECT_TRUE(checkVendorOps(**module, acme));
}

TEST_F(VendorTest, AModuleIsHeldAgainstTheDeclarations) {
  EXPECT_EQ(wrong("tensor<6xi32>"), "");
  EXPECT_EQ(wrong("tensor<6x1xi32>"), "acme.widen at model.py:3: its plugin infers tensor<6xi32>, and the graph says "
                                      "tensor<6x1xi32>");
  EXPECT_EQ(wrong("tensor<6xi8>"), "acme.widen at model.py:3: its plugin infers tensor<6xi32>, and the graph says "
                                   "tensor<6xi8>");
  EXPECT_EQ(wrong("tensor<6xi32>", "times = 2.0 : f64"),
            "acme.widen: expected attribute 'times' to be an integer, found a float; at model.py:3");
  EXPECT_EQ(wrong("tensor<6xi32>", "", "acme.other"),
            "no installed plugin declares the op 'acme.other'; at model.py:3");
}

TEST_F(VendorTest, AModuleGetsTheAttributesThatItLeavesOut) {
  auto module = parsed("func.func @f(%x: tensor<3xi8>) -> tensor<6xi32> { %0 = mortise.vendor \"acme.widen\"(%x) {} : "
                       "(tensor<3xi8>) -> tensor<6xi32> return %0 : tensor<6xi32> }");
  ASSERT_TRUE(module);
  ASSERT_TRUE(checkVendorOps(*module, acme));
  auto graph = exportGraph(*module);
  ASSERT_TRUE(graph);
  ASSERT_EQ((*graph)->view().nodes[0]->attribute_count, 1u);
  EXPECT_EQ((*graph)->view().nodes[0]->attributes[0]->i64, 2);
}

TEST_F(VendorTest, LayersThatHoldItAreRepeated) {
  const ValueId x = input({3});
  std::vector<ValueId> made;
  for (int copy = 0; copy < 2; ++copy)
    made.push_back((*widen(x, {attribute("times", MORTISE_ATTRIBUTE_I64, 3)}))[0]);
  const Result<bool> repeated = builder.repeat({made[0], 1, 2, {}, {}});
  ASSERT_TRUE(repeated && *repeated);
  EXPECT_EQ(typeString(**builder.typeOf(made[1] + 2)), "i32[9]");
}

TEST_F(VendorTest, TheReferenceRefusesIt) {
  auto made = widen(input({3}));
  ASSERT_TRUE(made);
  const auto graph = exported((*made)[0]);
  ASSERT_TRUE(graph);
  const auto compiled = reference::Interpreter::compile(graph->view());
  ASSERT_FALSE(compiled);
  EXPECT_NE(compiled.error().message.find("acme.widen"), std::string::npos) << compiled.error().message;
  EXPECT_NE(compiled.error().message.find("the op of a vendor, which only its plugin defines"), std::string::npos)
      << compiled.error().message;
}

} // namespace
} // namespace mortise::ir
