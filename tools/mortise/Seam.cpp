// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Seam.h"

#include <mortise/ir/Dialect.h>
#include <mortise/ir/Portable.h>
#include <mortise/passes/Compile.h>

#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/Diagnostics.h>
#include <mlir/IR/MLIRContext.h>
#include <mlir/IR/OwningOpRef.h>
#include <mlir/Parser/Parser.h>

namespace mortise::tool {
namespace {

struct Context {
  Context() { mlir.loadDialect<ir::MortiseDialect, mlir::func::FuncDialect>(); }
  mlir::MLIRContext mlir{mlir::MLIRContext::Threading::DISABLED};
};

} // namespace

Result<std::shared_ptr<const Graph>> parse(const std::string &text, const std::string &name) {
  Context context;
  std::string messages;
  mlir::ScopedDiagnosticHandler handler(&context.mlir, [&](mlir::Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error) {
      llvm::raw_string_ostream stream(messages);
      stream << (messages.empty() ? "" : "\n") << diagnostic.getLocation() << ": " << diagnostic;
    }
    return mlir::success();
  });
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context.mlir, name);
  if (!module)
    return Error{MORTISE_INVALID_ARGUMENT, messages.empty() ? name + " is no module" : messages};
  return ir::exportGraph(*module);
}

Result<std::string> print(const Graph &graph) {
  Context context;
  auto module = ir::importGraph(graph, context.mlir);
  if (!module)
    return module.error();
  std::string text;
  llvm::raw_string_ostream stream(text);
  (*module)->print(stream); // with the table of symbols named at the top, as `<<` would not
  return text;
}

Result<Placed> compile(const Graph &graph, const runtime::Registry &registry, const runtime::Config &config) {
  Context context;
  auto module = ir::importGraph(graph, context.mlir);
  if (!module)
    return module.error();
  auto plan = passes::compile(**module, registry, config);
  if (!plan)
    return plan.error();
  auto placed = ir::exportGraph(**module);
  if (!placed)
    return placed.error();
  return Placed{std::move(*placed), std::move(*plan)};
}

} // namespace mortise::tool
