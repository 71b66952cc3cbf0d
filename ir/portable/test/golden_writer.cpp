// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// golden-writer FOLDER PREFIX FILE.mlir...: writes each function of the files to FOLDER/PREFIX-FUNCTION.mrtg. Run by
// hand, once for each opset, with the build that is released with it. Existing files are not changed.
#include <mortise/ir/dialect.hpp>
#include <mortise/ir/portable.hpp>

#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/MLIRContext.h>
#include <mlir/IR/OwningOpRef.h>
#include <mlir/Parser/Parser.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace {

bool write(mlir::func::FuncOp function, const std::string &prefix) {
  const std::string path = prefix + "-" + function.getName().str() + ".mrtg";
  mlir::OwningOpRef<mlir::ModuleOp> one = mlir::ModuleOp::create(function.getLoc());
  one->push_back(function.clone());
  const auto graph = mortise::ir::exportGraph(*one);
  if (!graph) {
    std::fprintf(stderr, "%s: %s\n", path.c_str(), graph.error().message.c_str());
    return false;
  }
  if (std::filesystem::exists(path)) {
    std::fprintf(stderr, "%s exists\n", path.c_str());
    return true;
  }
  const auto bytes = (*graph)->bytes();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return true;
}

} // namespace

int main(int count, char **arguments) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<mortise::ir::MortiseDialect, mlir::func::FuncDialect>();
  context.getDiagEngine().registerHandler([](mlir::Diagnostic &) {});
  int failures = 0;
  for (int i = 3; i < count; ++i) {
    std::ifstream file(arguments[i]);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    llvm::SmallVector<llvm::StringRef> modules;
    llvm::StringRef(text).split(modules, "// -----");
    for (llvm::StringRef source : modules)
      if (auto module = mlir::parseSourceString<mlir::ModuleOp>(source, &context))
        for (auto function : module->getOps<mlir::func::FuncOp>())
          failures += !write(function, std::string(arguments[1]) + "/" + arguments[2]);
  }
  return failures != 0;
}
