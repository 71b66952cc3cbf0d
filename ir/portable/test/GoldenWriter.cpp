// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// golden-writer FOLDER PREFIX FILE.mlir...: writes each function of the files, FOLDER/PREFIX-FUNCTION.mrtg. Run once
// for each opset, by hand, with the build that is released with it; what exists is left alone.
#include <mortise/ir/Dialect.h>
#include <mortise/ir/Portable.h>

#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/MLIRContext.h>
#include <mlir/IR/OwningOpRef.h>
#include <mlir/Parser/Parser.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

int main(int count, char **arguments) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<mortise::ir::MortiseDialect>();
  mlir::DialectRegistry registry;
  mortise::ir::registerDialect(registry);
  context.appendDialectRegistry(registry);
  int failures = 0;
  for (int i = 3; i < count; ++i) {
    auto whole = mlir::parseSourceFile<mlir::ModuleOp>(arguments[i], &context);
    if (!whole)
      return 1;
    for (auto function : whole->getOps<mlir::func::FuncOp>()) {
      mlir::OwningOpRef<mlir::ModuleOp> one = mlir::ModuleOp::create(function.getLoc());
      one->push_back(function.clone());
      auto graph = mortise::ir::exportGraph(*one);
      const std::string path =
          std::string(arguments[1]) + "/" + arguments[2] + "-" + function.getName().str() + ".mrtg";
      if (!graph) {
        std::fprintf(stderr, "%s: %s\n", path.c_str(), graph.error().message.c_str());
        ++failures;
      } else if (!std::filesystem::exists(path)) {
        const auto bytes = (*graph)->bytes();
        std::ofstream(path, std::ios::binary)
            .write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
      }
    }
  }
  return failures != 0;
}
