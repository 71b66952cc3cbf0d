// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "seam.hpp"

#include <mortise/ir/dialect.hpp>
#include <mortise/ir/portable.hpp>
#include <mortise/passes/compile.hpp>

#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/Diagnostics.h>
#include <mlir/IR/MLIRContext.h>
#include <mlir/IR/OwningOpRef.h>
#include <mlir/Parser/Parser.h>

#include <algorithm>

namespace mortise::tool {
namespace {

struct Context {
  Context() { mlir.loadDialect<ir::MortiseDialect, mlir::func::FuncDialect>(); }
  mlir::MLIRContext mlir{mlir::MLIRContext::Threading::DISABLED};
};

// Refuses text whose brackets are nested so deeply that MLIR's recursive parser, which has no limit, would exhaust the
// stack.
Result<void> checkNesting(const std::string &text, const std::string &name) {
  constexpr int deepest = 1100; // above the limit of an extent, 1024
  int depth = 0, line = 1;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n')
      ++line;
    else if (c == '"') // skips a string, which ends at an unescaped quote or with the line
      for (++i; i < text.size() && text[i] != '"' && text[i] != '\n'; ++i)
        i += text[i] == '\\';
    else if (c == '/' && i + 1 < text.size() && text[i + 1] == '/')
      i = std::min(text.find('\n', i), text.size()) - 1;
    else if (c == '(' || c == '[' || c == '{' || c == '<')
      ++depth;
    else if (c == ')' || c == ']' || c == '}' || (c == '>' && text[i - (i > 0)] != '-'))
      depth = std::max(depth - 1, 0);
    if (depth > deepest)
      return Error{MORTISE_INVALID_ARGUMENT, name + ":" + std::to_string(line) + ": expected brackets nested at most " +
                                                 std::to_string(deepest) + " deep, found more"};
  }
  return {};
}

} // namespace

Result<std::shared_ptr<const Graph>> parse(const std::string &text, const std::string &name) {
  if (Result<void> nesting = checkNesting(text, name); !nesting)
    return nesting.error();
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

std::vector<std::shared_ptr<const Graph>> parseAll(const std::string &text) {
  Context context;
  mlir::ScopedDiagnosticHandler quiet(&context.mlir, [](mlir::Diagnostic &) { return mlir::success(); });
  std::vector<std::shared_ptr<const Graph>> graphs;
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(text).split(parts, "// -----");
  for (const llvm::StringRef part : parts) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(part, &context.mlir);
    if (!module)
      continue;
    for (auto function : module->getOps<mlir::func::FuncOp>()) {
      mlir::OwningOpRef<mlir::ModuleOp> alone = mlir::ModuleOp::create(function.getLoc());
      alone->push_back(function.clone());
      if (auto graph = ir::exportGraph(*alone))
        graphs.push_back(std::move(*graph));
    }
  }
  return graphs;
}

Result<std::string> print(const Graph &graph) {
  Context context;
  auto module = ir::importGraph(graph, context.mlir);
  if (!module)
    return module.error();
  std::string text;
  llvm::raw_string_ostream stream(text);
  (*module)->print(stream); // print() defines the table of symbols at the top; `<<` does not
  return text;
}

Result<Placed> compile(const Graph &graph, const runtime::Registry &registry, const runtime::Config &config,
                       const passes::Homes &homes) {
  Context context;
  auto module = ir::importGraph(graph, context.mlir);
  if (!module)
    return module.error();
  auto plan = passes::compile(**module, registry, config, nullptr, nullptr, homes);
  if (!plan)
    return plan.error();
  auto placed = ir::exportGraph(**module);
  if (!placed)
    return placed.error();
  return Placed{std::move(*placed), std::move(*plan)};
}

Result<std::shared_ptr<runtime::Program>> compileAndLoad(const Graph &graph,
                                                         const std::shared_ptr<const runtime::Registry> &registry,
                                                         const runtime::Config &config) {
  Context context;
  auto module = ir::importGraph(graph, context.mlir);
  if (!module)
    return module.error();
  return passes::compileAndLoad(**module, registry, config);
}

} // namespace mortise::tool
