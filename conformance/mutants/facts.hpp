// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an instruction is to its function, which decides whether changing it is a fault.
#pragma once

#include <llvm/ADT/APFloat.h>
#include <llvm/IR/Instructions.h>

namespace mortise::mutants {

// The step of a counter, phi -> add -> the same phi; or NULL.
llvm::Instruction *stepOf(llvm::PHINode &phi);

// The counter whose comparison ends a loop: icmp(phi, bound) in the loop's first block, for its branch; or NULL.
llvm::PHINode *counterOf(const llvm::Instruction &in);
bool isCounter(llvm::PHINode &phi);
bool isStep(llvm::Instruction &in);

// A comparison for selections between the very operands that it compares, which are the same number where it is at its
// boundary; or one that decides ties of another comparison between them.
bool choosesBetweenOperands(const llvm::Instruction &in);

// A comparison with a float that is no whole number, which chooses between approximations: at the boundary both hold.
bool choosesApproximation(const llvm::Instruction &in);

// What is compared comes from tensors, and is no count, which is never negative. Looks so many generations back.
bool comparesData(const llvm::Instruction &in, int generations = 4);

// The value, or for an integer the bits of a float, is one of the narrower type's numbers, so that rounding it to that
// type changes nothing: it was widened from there, and since then only its sign was changed, or it was chosen.
bool isNumberOf(const llvm::fltSemantics &type, const llvm::Value &value);

// x + 0 or x - 0, which is x but for the sign of a zero, and sums do not promise that.
bool addsZero(const llvm::Instruction &in);

// The integer is made of loops' counters, symbols and constants that are not negative, by sums, products, quotients and
// choices, or nothing negative is left of it; or it is a symbol less 1, the last index of an extent.
bool isCount(const llvm::Value &value);

// A rounded number that is only compared with what it was before: whether that is whole, all roundings say alike.
bool asksForWhole(const llvm::Instruction &in);

// What a masked load gives for the lanes that it does not read: the generator counts on no value there.
bool standsBesideMask(const llvm::CallBase &call, unsigned operand);

// The body of the counter's loop has a mask of as many lanes as are left up to the bound, so that one turn more has
// none.
bool countsWhatIsLeft(const llvm::PHINode &counter, const llvm::Value &bound);

// The branch at a kernel's beginning that takes one of two versions of all of it, by its extents, or the comparison for
// that. Both do all tasks.
bool choosesVersion(const llvm::Instruction &in);

// The sign of the value does not matter: it is only multiplied with itself, or given another one, at once or after it
// was rounded or chosen.
bool hasUnseenSign(const llvm::Instruction &in);

} // namespace mortise::mutants
