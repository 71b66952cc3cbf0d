// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <mortise/ir/builder.hpp>

#include <mlir/IR/Block.h>

#include <vector>

namespace mortise::ir {

// Implements Builder::repeat: appends the copies to `block`, and their results to `values`, which has the values of the
// builder by number. False, with both unchanged, when the two copies that exist differ, or when an own value does not
// exist or has another type. The arguments have been checked.
bool repeatOps(const Builder::Repetition &wanted, std::vector<mlir::Value> &values, mlir::Block &block);

} // namespace mortise::ir
