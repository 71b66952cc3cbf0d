// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Language server for mortise IR: shows errors while typing, and definitions and uses of values.
#include <mortise/ir/dialect.hpp>

#include <mlir/Tools/mlir-lsp-server/MlirLspServerMain.h>

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mortise::ir::registerDialect(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
