// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "proof.hpp"

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <vector>

namespace mortise::mutants {

using namespace llvm;

namespace {

bool isKernel(const Function &function) {
  constexpr unsigned tables = 4;
  if (function.arg_size() != tables + 2 || !function.getReturnType()->isVoidTy())
    return false;
  return all_of(function.args(), [](const Argument &argument) {
    return argument.getArgNo() < tables ? argument.getType()->isPointerTy() : argument.getType()->isIntegerTy(64);
  });
}

ElementCount lanesOf(const Value &value) {
  const auto *vector = dyn_cast<VectorType>(value.getType());
  return vector ? vector->getElementCount() : ElementCount::getFixed(1);
}

// Whether a lane of the result depends on that lane of the operands alone, and what the others hold does no harm.
bool isLaneWise(const Instruction &in) {
  if (const auto *call = dyn_cast<IntrinsicInst>(&in))
    return isTriviallyVectorizable(call->getIntrinsicID());
  if (in.isIntDivRem()) { // by 0 it ends the process, unless a selection takes another divisor then
    const auto *guard = dyn_cast<SelectInst>(in.getOperand(1));
    const auto *other = guard ? dyn_cast<Constant>(guard->getTrueValue()) : nullptr;
    return other && other->isOneValue();
  }
  return isa<BinaryOperator, UnaryOperator, CastInst, CmpInst, SelectInst, GetElementPtrInst>(in);
}

// Whether no lane beside the mask comes through `user`, which has `value` as an operand.
bool endsWith(const Value &mask, const Instruction &user, const Value &value) {
  // The mask itself, or one that has no lanes beside it.
  const auto isWithin = [&](const Value *other) {
    const auto *both = dyn_cast<BinaryOperator>(other);
    return other == &mask || (both && both->getOpcode() == Instruction::And && is_contained(both->operands(), &mask));
  };
  if (const auto *select = dyn_cast<SelectInst>(&user))
    return isWithin(select->getCondition()) && select->getTrueValue() == &value && select->getFalseValue() != &value;
  const auto *call = dyn_cast<IntrinsicInst>(&user);
  const Intrinsic::ID id = call ? call->getIntrinsicID() : Intrinsic::not_intrinsic;
  if (id == Intrinsic::masked_store || id == Intrinsic::masked_scatter) // value, addresses, mask
    return isWithin(call->getArgOperand(2)) && call->getArgOperand(2) != &value;
  if (id == Intrinsic::masked_gather) // addresses, mask, what stands beside it
    return isWithin(call->getArgOperand(1)) && call->getArgOperand(0) == &value && call->getArgOperand(2) != &value;
  return false;
}

// Whether the mask is the same in all turns of a loop that the phi belongs to.
bool isFixed(const Value &mask, const PHINode &phi, const DominatorTree &dominators) {
  const auto *in = dyn_cast<Instruction>(&mask);
  return !in || dominators.properlyDominates(in->getParent(), phi.getParent());
}

bool isSeenWithin(const Value &mask, const Value &value, const DominatorTree &dominators,
                  SmallPtrSetImpl<const Value *> &seen) {
  return !seen.insert(&value).second || all_of(value.users(), [&](const User *user) {
    const auto *in = cast<Instruction>(user);
    const auto *phi = dyn_cast<PHINode>(in);
    const bool keepsLanes = phi ? isFixed(mask, *phi, dominators) : isLaneWise(*in);
    return endsWith(mask, *in, value) ||
           (keepsLanes && lanesOf(*in) == lanesOf(value) && isSeenWithin(mask, *in, dominators, seen));
  });
}

// A step of those by which one number becomes all lanes of a vector.
bool isOneForAll(const Instruction &in) {
  if (const auto *shuffle = dyn_cast<ShuffleVectorInst>(&in)) {
    const auto *first = dyn_cast<InsertElementInst>(shuffle->getOperand(0));
    return first && isOneForAll(*first) && shuffle->isZeroEltSplat();
  }
  return isa<InsertElementInst>(in) && isa<PoisonValue>(in.getOperand(0));
}

// Whether all that is computed of the value is computed lane by lane, until it is stored.
bool isUsedByLanes(const Value &value, SmallPtrSetImpl<const Value *> &seen) {
  return !seen.insert(&value).second || all_of(value.users(), [&](const User *user) {
    const auto *in = cast<Instruction>(user);
    const auto *call = dyn_cast<IntrinsicInst>(in);
    if (isa<StoreInst>(in))
      return in->getOperand(0) == &value;
    if (call && call->getIntrinsicID() == Intrinsic::masked_store)
      return call->getArgOperand(0) == &value;
    if (isOneForAll(*in))
      return isUsedByLanes(*in, seen);
    return isLaneWise(*in) && !isa<GetElementPtrInst>(in) && lanesOf(*in) == lanesOf(value) && isUsedByLanes(*in, seen);
  });
}

std::vector<CmpInst *> comparisonsOf(Module &module) {
  std::vector<CmpInst *> all;
  for (Function &function : module)
    for (Instruction &in : instructions(function))
      if (auto *compare = dyn_cast<CmpInst>(&in))
        all.push_back(compare);
  return all;
}

// What the value was made of, which is NaN where the value is, and nowhere else: it was squared, doubled, widened or
// narrowed, or given another sign. Other code may have been made of it, too.
Value *originOfNan(Value *value) {
  while (auto *in = dyn_cast<Instruction>(value)) {
    const auto *call = dyn_cast<IntrinsicInst>(in);
    const bool keepsNan = isa<FPExtInst, FPTruncInst>(in) || in->getOpcode() == Instruction::FNeg ||
                          (call && is_contained({Intrinsic::fabs, Intrinsic::copysign}, call->getIntrinsicID()));
    const bool isOfOne =
        is_contained({Instruction::FMul, Instruction::FAdd}, in->getOpcode()) && in->getOperand(0) == in->getOperand(1);
    if (!keepsNan && !isOfOne)
      break;
    value = in->getOperand(0);
  }
  return value;
}

void assumeNan(CmpInst &compare, unsigned operand, bool isNegative) {
  Value *value = originOfNan(compare.getOperand(operand));
  value->replaceAllUsesWith(ConstantFP::getNaN(value->getType(), isNegative));
}

} // namespace

bool areEqualForNan(const Module &before, const Module &after, function_ref<bool(Module &, Module &)> areEqual) {
  // From version to version one comparison more decides as in `after`.
  std::unique_ptr<Module> version = CloneModule(before), last = CloneModule(after);
  const std::vector<CmpInst *> changed = comparisonsOf(*version), wanted = comparisonsOf(*last);
  if (changed.size() != wanted.size())
    return false;
  bool differs = false;
  for (size_t i = 0; i < changed.size(); ++i) {
    CmpInst &compare = *changed[i];
    if (compare.getPredicate() == wanted[i]->getPredicate())
      continue;
    differs = true;
    const CmpInst::Predicate old = compare.getPredicate();
    for (unsigned operand = 0; operand < 2; ++operand) {
      const Value *value = originOfNan(compare.getOperand(operand));
      SmallPtrSet<const Value *, 16> seen;
      if (isa<Constant>(value))
        continue;
      if (!isUsedByLanes(*value, seen))
        return false;
      for (const bool isNegative : {false, true}) {
        compare.setPredicate(old);
        const auto one = CloneModule(*version);
        compare.setPredicate(wanted[i]->getPredicate());
        const auto other = CloneModule(*version);
        assumeNan(*comparisonsOf(*one)[i], operand, isNegative);
        assumeNan(*comparisonsOf(*other)[i], operand, isNegative);
        if (!areEqual(*one, *other))
          return false;
      }
    }
    compare.setPredicate(wanted[i]->getPredicate());
  }
  return differs;
}

void assumeCalls(Function &function) {
  if (!isKernel(function))
    return;
  Value *symbols = function.getArg(3), *begin = function.getArg(4), *end = function.getArg(5);
  for (Instruction &in : instructions(function))
    if (auto *load = dyn_cast<LoadInst>(&in);
        load && load->getType()->isIntegerTy(64) && getUnderlyingObject(load->getPointerOperand()) == symbols)
      load->setMetadata(LLVMContext::MD_range,
                        MDBuilder(function.getContext()).createRange(APInt(64, 0), APInt::getSignedMaxValue(64)));
  IRBuilder<> b(&*function.getEntryBlock().getFirstInsertionPt());
  b.CreateAssumption(b.CreateICmpSGE(begin, b.getInt64(0)));
  b.CreateAssumption(b.CreateICmpSLT(begin, end));
}

void forgetUnseenLanes(Function &function) {
  const DominatorTree dominators(function);
  for (Instruction &in : instructions(function)) {
    auto *call = dyn_cast<IntrinsicInst>(&in);
    if (!call || call->getIntrinsicID() != Intrinsic::masked_load)
      continue;
    // The mask and what stands in the lanes beside it are the last two of its arguments.
    const unsigned passed = call->arg_size() - 1;
    SmallPtrSet<const Value *, 16> seen;
    if (isSeenWithin(*call->getArgOperand(passed - 1), in, dominators, seen))
      call->setArgOperand(passed, Constant::getNullValue(in.getType()));
  }
}

} // namespace mortise::mutants
