// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads a module, runs passes on it and prints it. The lit tests use it.
#include "test_passes.hpp"

#include <mortise/ir/dialect.hpp>
#include <mortise/passes/passes.hpp>

#include <mlir/Tools/mlir-opt/MlirOptMain.h>
#include <mlir/Transforms/Passes.h>

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mortise::ir::registerDialect(registry);
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  mortise::registerTestPasses();
  mortise::passes::registerPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Mortise's optimiser driver\n", registry));
}
