// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../lib/types.hpp"

#include <mortise/portable/vendor_ops.hpp>

#define GET_OP_CLASSES
#include <mortise/ir/vendor.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/vendor.cpp.inc>

using namespace mlir;

namespace mortise::ir {

void MortiseDialect::addVendorOps() {
  addOperations<
#define GET_OP_LIST
#include <mortise/ir/vendor.cpp.inc>
      >();
}

LogicalResult VendorOp::verify() {
  const Report report(getLoc(), getOperationName(), getInputs());
  if (!portable::isVendorOp(std::string_view(getOpName())))
    return report.at("vendor_c1")("expected a name such as \"acme.swizzle\", of a-z, 0-9 and '_', found \"" +
                                  getOpName() + "\"");
  for (NamedAttribute parameter : getParameters())
    if (const CAttribute made(parameter.getName(), parameter.getValue()); !made.error.empty())
      return report.at("vendor_c2")(made.error);
  return getNumResults() ? success() : report.at("vendor_c3")("expected at least one result, found none");
}

} // namespace mortise::ir
