// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One op of a vendor between MLIR and its plugin, for the builder and the check of a module.
#pragma once

#include "types.hpp"

#include <mortise/portable/vendor_ops.hpp>

#include <span>

namespace mortise::ir {

struct VendorQuestion {
  llvm::StringRef op;
  llvm::ArrayRef<mlir::Type> operands;
  std::span<const MortiseAttribute *const> attributes; // as far as given
  SymbolsAttr symbols;                                 // the function's; NULL when there are none
  mlir::MLIRContext *context;
};
struct VendorAnswer {
  mlir::DictionaryAttr parameters; // with those that were left out
  std::vector<mlir::RankedTensorType> results;
};
// Errors: nobody declares the op; operands or attributes are not as declared; what the plugin says; results that are no
// types of ours.
Result<VendorAnswer> askVendor(const VendorQuestion &question, const portable::VendorOps &vendors);

Result<mlir::DictionaryAttr> vendorParameters(std::span<const MortiseAttribute *const> attributes, SymbolsAttr symbols,
                                              mlir::MLIRContext *context);

} // namespace mortise::ir
