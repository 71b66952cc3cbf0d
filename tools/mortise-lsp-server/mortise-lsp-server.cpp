// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an editor asks while somebody writes mortise IR: errors as one types, what a value is and who uses it.
#include <mortise/ir/dialect.hpp>

#include <mlir/Tools/mlir-lsp-server/MlirLspServerMain.h>

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mortise::ir::registerDialect(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
