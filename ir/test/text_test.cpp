// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Untrusted text: nesting that is too deep and expressions that are too large are refused with a message, before the
// stack overflows or memory runs out.
#include <mortise/dim.hpp>
#include <mortise/ir/dialect.hpp>

#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/Diagnostics.h>
#include <mlir/IR/MLIRContext.h>
#include <mlir/Parser/Parser.h>

#include <gtest/gtest.h>

namespace mortise::ir {
namespace {

std::string repeated(const std::string &text, size_t count) {
  std::string result;
  for (size_t i = 0; i < count; ++i)
    result += text;
  return result;
}

// The first diagnostic for a function whose argument has this extent; "" when there is none.
std::string messageAbout(const std::string &extent) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  mlir::DialectRegistry registry;
  registerDialect(registry);
  context.appendDialectRegistry(registry);
  std::string message;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    if (message.empty())
      message = diagnostic.str();
  });
  const auto module = mlir::parseSourceString<mlir::ModuleOp>(
      "func.func private @f(tensor<?xf32, #mortise.dims<#mortise.symbols<a in [1, 9], b in [1, 9]>, [" + extent +
          "]>>)",
      &context);
  EXPECT_EQ(static_cast<bool>(module), message.empty());
  return message;
}

TEST(Text, NestedExtents) {
  EXPECT_EQ(messageAbout(repeated("floordiv(", 100) + "a" + repeated(" + b, b)", 100)), "");
  for (size_t deep : {Dim::maxSize + 1, size_t(1000000)})
    EXPECT_EQ(messageAbout(repeated("floordiv(", deep) + "a" + repeated(", b)", deep)),
              "extents are nested at most 1024 deep")
        << deep;
  // Adjacent calls are not nested.
  EXPECT_EQ(messageAbout(repeated("floordiv(a, 7) + ", 5000) + "b"), "");
}

TEST(Text, ExtentsThatExpand) {
  std::string extent = "a";
  for (int i = 0; i < 60; ++i) // floordiv(x, 1) makes a factor of a sum; each level writes the one below twice
    extent = "floordiv(" + extent + "*floordiv(b + 1, 1), b)";
  EXPECT_EQ(messageAbout(extent), "an extent overflows, divides by 0 or is too large an expression");
}

TEST(Text, NumbersOutOfRange) {
  EXPECT_EQ(messageAbout("a*9223372036854775807*2"), "an extent overflows, divides by 0 or is too large an expression");
  EXPECT_EQ(messageAbout("floordiv(a, 0)"), "an extent overflows, divides by 0 or is too large an expression");
  EXPECT_EQ(messageAbout("mod(a, b - b)"), "an extent overflows, divides by 0 or is too large an expression");
  EXPECT_EQ(messageAbout("9223372036854775808"), "integer value too large");
  EXPECT_EQ(messageAbout("c"), "'c' is not a symbol of the table");
}

} // namespace
} // namespace mortise::ir
