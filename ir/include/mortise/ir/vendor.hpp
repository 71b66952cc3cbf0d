// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops that plugins declare, in modules: mortise.vendor (ir/families/vendor.td).
#pragma once

#include <mortise/portable/vendor_ops.hpp>

#include <llvm/ADT/StringRef.h>

namespace mlir {
class ModuleOp;
class Operation;
} // namespace mlir

namespace mortise::ir {

// The name of an op as the portable format has it: "mortise.add", or a vendor's "acme.swizzle".
llvm::StringRef opName(mlir::Operation *op);

// Holds each op of a vendor in the module against its declaration, gives it the attributes that it leaves out, and
// compares its result types with those that its plugin infers. Errors name the op and its location.
Result<void> checkVendorOps(mlir::ModuleOp module, const portable::VendorOps &vendors);

} // namespace mortise::ir
