// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What kernels and instructions are alike.
#include "mutator.hpp"

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Support/xxhash.h>

#include <algorithm>

namespace mortise::mutants {

using namespace llvm;

uint64_t kindOf(const Function &function) {
  std::string text;
  raw_string_ostream out(text);
  DenseMap<const Value *, unsigned> numbers;
  for (const Argument &argument : function.args())
    numbers.try_emplace(&argument, numbers.size());
  for (const BasicBlock &block : function) {
    numbers.try_emplace(&block, numbers.size());
    for (const Instruction &in : block)
      numbers.try_emplace(&in, numbers.size());
  }
  for (const Instruction &in : instructions(function)) {
    out << in.getOpcodeName() << ' ' << *in.getType();
    if (const auto *compare = dyn_cast<CmpInst>(&in))
      out << ' ' << CmpInst::getPredicateName(compare->getPredicate());
    if (const auto *address = dyn_cast<GetElementPtrInst>(&in))
      out << ' ' << *address->getSourceElementType();
    if (const auto *shuffle = dyn_cast<ShuffleVectorInst>(&in))
      for (const int lane : shuffle->getShuffleMask())
        out << ' ' << lane;
    for (const Use &operand : in.operands()) {
      if (const auto found = numbers.find(operand.get()); found != numbers.end())
        out << " %" << found->second;
      else if (const auto *called = dyn_cast<Function>(operand.get()))
        out << " @" << called->getName();
      else if (operand->getType()->isFPOrFPVectorTy())
        out << ' ' << *operand.get();
      else
        out << " #" << *operand->getType(); // an integer or a table
    }
    if (const auto *phi = dyn_cast<PHINode>(&in))
      for (const BasicBlock *block : phi->blocks())
        out << " %" << numbers.lookup(block);
    out << '\n';
  }
  return xxh3_64bits(text);
}

// The value in words, with so many generations of operands.
static void describe(raw_ostream &out, const Value &value, int generations) {
  const Type *type = value.getType()->getScalarType();
  out << '(' << *type;
  if (const auto *in = dyn_cast<Instruction>(&value)) {
    out << ' ' << in->getOpcodeName();
    if (const auto *compare = dyn_cast<CmpInst>(in))
      out << ' ' << CmpInst::getPredicateName(compare->getPredicate());
    if (const auto *address = dyn_cast<GetElementPtrInst>(in))
      out << ' ' << *address->getSourceElementType();
    if (const auto *call = dyn_cast<IntrinsicInst>(in))
      out << ' ' << Intrinsic::getBaseName(call->getIntrinsicID());
    for (const Use &operand : in->operands()) {
      if (generations == 0 || isa<PHINode>(in))
        break;
      if (in->getOpcode() == Instruction::FDiv && operand.getOperandNo() == 1 && isa<Constant>(operand.get()))
        out << "(count)"; // of the elements of a mean, which is an extent
      else if (!isa<BasicBlock>(operand.get()) && !isa<Function>(operand.get()))
        describe(out, *operand.get(), generations - 1);
    }
  } else if (isa<Constant>(value)) {
    const auto *constant = cast<Constant>(&value);
    if (const Constant *same = value.getType()->isVectorTy() ? constant->getSplatValue() : constant)
      if (isa<ConstantFP>(same) || (isa<ConstantInt>(same) && !type->isIntegerTy(64)))
        same->printAsOperand(out << ' ', false);
  }
  out << ')';
}

uint64_t patternOf(const Instruction &in) {
  std::string text;
  raw_string_ostream out(text);
  describe(out, in, 1);
  std::vector<std::string> uses;
  for (const User *user : in.users())
    if (const auto *by = dyn_cast<Instruction>(user))
      uses.emplace_back(by->getOpcodeName());
  std::ranges::sort(uses);
  const auto same = std::ranges::unique(uses);
  uses.erase(same.begin(), same.end());
  for (const std::string &use : uses)
    out << ' ' << use;
  return xxh3_64bits(text);
}

} // namespace mortise::mutants
