// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is true of every call of a kernel and what nobody sees of it, written into its code: an optimiser that knows so
// much makes the same code of more versions that do the same.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Module.h>

namespace mortise::mutants {

// Kernels are called as void(inputs, outputs, scratch, symbols, begin, end) with 0 <= begin < end, and symbols are not
// negative. Functions of other types stay as they are.
void assumeCalls(llvm::Function &function);

// The lanes that a masked load does not read become 0 where nobody sees them: all that is computed of the load is
// computed lane by lane, and ends in masked accesses or selections that have the load's mask.
void forgetUnseenLanes(llvm::Function &function);

// Whether `after`, which differs from `before` in how comparisons decide for NaN, does the same where they compare NaN,
// of either sign, by the judgement of `areEqual`. What NaN's other bits are no result promises. Only of operands that
// are used lane by lane, so that a lane without NaN sees nothing of one with it; of others the answer is no.
bool areEqualForNan(const llvm::Module &before, const llvm::Module &after,
                    llvm::function_ref<bool(llvm::Module &, llvm::Module &)> areEqual);

} // namespace mortise::mutants
