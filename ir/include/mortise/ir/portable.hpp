// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts between MLIR and the portable format.
#pragma once

#include <mortise/portable/graph.hpp>

#include <memory>

namespace mlir {
class MLIRContext;
class ModuleOp;
template <typename T> class OwningOpRef;
} // namespace mlir

namespace mortise::ir {

// `module` must hold one public function of mortise ops. Errors name the op that cannot be converted.
Result<std::shared_ptr<const Graph>> exportGraph(mlir::ModuleOp module);
Result<mlir::OwningOpRef<mlir::ModuleOp>> importGraph(const Graph &graph, mlir::MLIRContext &context);

} // namespace mortise::ir
