// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "facts.hpp"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IntrinsicInst.h>

namespace mortise::mutants {

using namespace llvm;

Instruction *stepOf(PHINode &phi) {
  for (Value *incoming : phi.incoming_values())
    if (auto *add = dyn_cast<BinaryOperator>(incoming);
        add && add->getOpcode() == Instruction::Add && add->getOperand(0) == &phi)
      return add;
  return nullptr;
}

PHINode *counterOf(const Instruction &in) {
  const auto *compare = dyn_cast<ICmpInst>(&in);
  if (!compare)
    return nullptr;
  auto *phi = dyn_cast<PHINode>(compare->getOperand(0));
  const auto *end = dyn_cast<BranchInst>(in.getParent()->getTerminator());
  const bool ends = phi && end && end->isConditional() && end->getCondition() == compare;
  return ends && phi->getParent() == in.getParent() && stepOf(*phi) ? phi : nullptr;
}

bool isCounter(PHINode &phi) {
  return any_of(phi.users(), [](User *user) { return counterOf(*cast<Instruction>(user)) != nullptr; });
}

bool isStep(Instruction &in) {
  return any_of(in.operands(), [&](Value *operand) {
    auto *phi = dyn_cast<PHINode>(operand);
    return phi && stepOf(*phi) == &in && isCounter(*phi);
  });
}

// The same value, or a number put into all lanes a second time.
static bool areSame(const Value *one, const Value *other, int generations = 2) {
  const auto *a = dyn_cast<Instruction>(one), *b = dyn_cast<Instruction>(other);
  return one == other || (generations > 0 && a && b && isa<ShuffleVectorInst, InsertElementInst>(a) &&
                          a->isSameOperationAs(b) && all_of(zip(a->operands(), b->operands()), [&](const auto &pair) {
                            return areSame(std::get<0>(pair), std::get<1>(pair), generations - 1);
                          }));
}

bool choosesBetweenOperands(const Instruction &in) {
  const auto isOperand = [&](const Value *value) {
    return any_of(in.operands(), [&](const Use &operand) { return areSame(operand.get(), value); });
  };
  const auto isChoice = [&](const User *user) {
    const auto *select = dyn_cast<SelectInst>(user);
    return select && select->getTrueValue() != &in && isOperand(select->getTrueValue()) &&
           isOperand(select->getFalseValue());
  };
  const auto decidesTies = [&](const User *user) { // equal and earlier, or better
    const auto *both = dyn_cast<BinaryOperator>(user);
    if (!both || both->getOpcode() != Instruction::And || !both->hasOneUse())
      return false;
    const auto *either = dyn_cast<BinaryOperator>(*both->user_begin());
    return either && either->getOpcode() == Instruction::Or && any_of(either->users(), isChoice);
  };
  return isa<CmpInst>(in) && !in.use_empty() &&
         all_of(in.users(), [&](const User *user) { return isChoice(user) || decidesTies(user); });
}

bool choosesApproximation(const Instruction &in) {
  return isa<FCmpInst>(in) && any_of(in.operands(), [](const Use &operand) {
           const auto *constant = dyn_cast<Constant>(operand.get());
           const auto *number = dyn_cast_or_null<ConstantFP>(
               constant && constant->getType()->isVectorTy() ? constant->getSplatValue() : constant);
           return number && number->getValueAPF().isFinite() && !number->getValueAPF().isInteger();
         });
}

static bool isNumberOf(const fltSemantics &type, const Value &value, SmallPtrSetImpl<const Value *> &seen) {
  if (!seen.insert(&value).second)
    return true; // a choice of a loop's: what comes from outside it decides
  if (const auto *constant = dyn_cast<Constant>(&value)) {
    const auto *same = constant->getType()->isVectorTy() ? constant->getSplatValue() : constant;
    const auto *real = dyn_cast_or_null<ConstantFP>(same);
    APFloat number = real ? real->getValueAPF() : APFloat(0.0);
    bool isLost = isa_and_nonnull<UndefValue>(constant) || !real;
    if (real)
      number.convert(type, APFloat::rmNearestTiesToEven, &isLost);
    return !isLost;
  }
  const auto *in = dyn_cast<Instruction>(&value);
  if (!in)
    return false;
  const auto isOne = [&](const Value *operand) { return isNumberOf(type, *operand, seen); };
  const auto isZero = [](const Value *operand) {
    const auto *constant = dyn_cast<Constant>(operand);
    return constant && constant->isZeroValue();
  };
  switch (in->getOpcode()) {
  case Instruction::FPExt:
    return APFloat::isRepresentableBy(in->getOperand(0)->getType()->getScalarType()->getFltSemantics(), type) ||
           isOne(in->getOperand(0));
  case Instruction::BitCast: {
    // How bf16 is widened.
    const auto *shift = dyn_cast<BinaryOperator>(in->getOperand(0));
    const auto *wide =
        shift && shift->getOpcode() == Instruction::Shl ? dyn_cast<ZExtInst>(shift->getOperand(0)) : nullptr;
    if (wide && wide->getSrcTy()->getScalarSizeInBits() == 16 && in->getType()->getScalarType()->isFloatTy())
      return APFloat::isRepresentableBy(APFloat::BFloat(), type);
    return isOne(in->getOperand(0));
  }
  case Instruction::And: // with a constant it keeps bits
    return isOne(in->getOperand(0)) || isOne(in->getOperand(1));
  case Instruction::Or:
  case Instruction::Xor: {
    const auto isSign = [](const Value *operand) {
      const auto *constant = dyn_cast<Constant>(operand);
      const auto *number =
          constant
              ? dyn_cast_or_null<ConstantInt>(constant->getType()->isVectorTy() ? constant->getSplatValue() : constant)
              : nullptr;
      return number && number->getValue().isSignMask();
    };
    return all_of(in->operands(), [&](const Use &operand) { return isSign(operand) || isOne(operand); });
  }
  case Instruction::FNeg:
    return isOne(in->getOperand(0));
  case Instruction::FAdd:
  case Instruction::FSub:
    return isZero(in->getOperand(1)) && isOne(in->getOperand(0));
  case Instruction::Select:
    return isOne(in->getOperand(1)) && isOne(in->getOperand(2));
  case Instruction::PHI:
    return all_of(in->operands(), isOne);
  case Instruction::ExtractElement:
    return isOne(in->getOperand(0));
  case Instruction::InsertElement: // how one number becomes all lanes
    return isa<PoisonValue>(in->getOperand(0)) && isOne(in->getOperand(1));
  case Instruction::ShuffleVector:
    return isa<PoisonValue>(in->getOperand(1)) && isOne(in->getOperand(0));
  default:
    break;
  }
  const auto *call = dyn_cast<IntrinsicInst>(in);
  if (!call)
    return false;
  switch (call->getIntrinsicID()) {
  case Intrinsic::fabs:
  case Intrinsic::copysign:
    return isOne(call->getArgOperand(0));
  case Intrinsic::minnum:
  case Intrinsic::maxnum:
  case Intrinsic::minimum:
  case Intrinsic::maximum:
    return isOne(call->getArgOperand(0)) && isOne(call->getArgOperand(1));
  default:
    return false;
  }
}

bool isNumberOf(const fltSemantics &type, const Value &value) {
  SmallPtrSet<const Value *, 16> seen;
  return isNumberOf(type, value, seen);
}

bool addsZero(const Instruction &in) {
  const bool adds = in.getOpcode() == Instruction::FAdd || in.getOpcode() == Instruction::FSub;
  const auto *zero = adds ? dyn_cast<Constant>(in.getOperand(1)) : nullptr;
  return zero && zero->isZeroValue();
}

static bool readsSymbol(const LoadInst &load) {
  const Value *base = load.getPointerOperand();
  while (const auto *address = dyn_cast<GetElementPtrInst>(base))
    base = address->getPointerOperand();
  const auto *argument = dyn_cast<Argument>(base);
  return argument && argument->getArgNo() == 3;
}

static bool isCount(const Value &value, SmallPtrSetImpl<const Value *> &seen) {
  if (!seen.insert(&value).second)
    return true; // another turn's
  const auto areCounts = [&](auto &&operands) {
    return all_of(operands, [&](const Use &operand) { return isCount(*operand.get(), seen); });
  };
  if (isa<UndefValue>(value)) // what a vector is built from
    return true;
  if (const auto *number = dyn_cast<ConstantInt>(&value))
    return !number->isNegative();
  if (const auto *constant = dyn_cast<Constant>(&value); constant && constant->getType()->isVectorTy()) {
    const auto *vector = dyn_cast<FixedVectorType>(constant->getType());
    for (unsigned i = 0; vector && i < vector->getNumElements(); ++i)
      if (const Constant *element = constant->getAggregateElement(i); !element || !isCount(*element, seen))
        return false;
    return vector;
  }
  const auto *in = dyn_cast<Instruction>(&value);
  if (!in || !in->getType()->isIntOrIntVectorTy())
    return false;
  switch (in->getOpcode()) {
  case Instruction::Load:
    return readsSymbol(cast<LoadInst>(*in));
  case Instruction::Add:
    if (const auto *last = dyn_cast<ConstantInt>(in->getOperand(1)); last && last->isMinusOne())
      return isa<LoadInst>(in->getOperand(0)) && isCount(*in->getOperand(0), seen);
    [[fallthrough]];
  case Instruction::PHI:
  case Instruction::Mul:
  case Instruction::UDiv:
  case Instruction::URem:
  case Instruction::Trunc:
  case Instruction::ZExt:
  case Instruction::SExt:
  case Instruction::ShuffleVector:
    return areCounts(in->operands());
  case Instruction::And: // its sign is set where both are negative
    return any_of(in->operands(), [&](const Use &operand) { return isCount(*operand.get(), seen); });
  case Instruction::Select:
    return areCounts(drop_begin(in->operands()));
  case Instruction::ExtractElement:
    return isCount(*in->getOperand(0), seen);
  case Instruction::InsertElement:
    return isCount(*in->getOperand(0), seen) && isCount(*in->getOperand(1), seen);
  case Instruction::Call: {
    const auto *call = dyn_cast<IntrinsicInst>(in);
    const Intrinsic::ID id = call ? call->getIntrinsicID() : Intrinsic::not_intrinsic;
    if (id == Intrinsic::smin)
      return isCount(*call->getArgOperand(0), seen) && isCount(*call->getArgOperand(1), seen);
    return id == Intrinsic::smax && (isCount(*call->getArgOperand(0), seen) || isCount(*call->getArgOperand(1), seen));
  }
  default:
    return false;
  }
}

bool isCount(const Value &value) {
  SmallPtrSet<const Value *, 16> seen;
  return isCount(value, seen);
}

bool asksForWhole(const Instruction &in) {
  return !in.use_empty() && all_of(in.users(), [&](const User *user) {
    const auto *compare = dyn_cast<FCmpInst>(user);
    return compare && compare->isEquality() && is_contained(compare->operands(), in.getOperand(0));
  });
}

bool standsBesideMask(const CallBase &call, unsigned operand) {
  return is_contained({Intrinsic::masked_load, Intrinsic::masked_gather}, call.getIntrinsicID()) &&
         operand + 1 == call.arg_size();
}

bool countsWhatIsLeft(const PHINode &counter, const Value &bound) {
  return any_of(counter.users(), [&](const User *user) {
    const auto *left = dyn_cast<BinaryOperator>(user);
    return left && left->getOpcode() == Instruction::Sub && left->getOperand(0) == &bound &&
           left->getOperand(1) == &counter;
  });
}

bool choosesVersion(const Instruction &in) {
  if (isa<CmpInst>(in))
    return !in.use_empty() && all_of(in.users(), [](const User *user) {
      return isa<BranchInst>(user) && choosesVersion(*cast<Instruction>(user));
    });
  const auto *branch = dyn_cast<BranchInst>(&in);
  const Function &function = *in.getFunction();
  constexpr unsigned lastTask = 5;
  if (!branch || !branch->isConditional() || in.getParent() != &function.getEntryBlock() ||
      function.arg_size() <= lastTask)
    return false;
  const DominatorTree dominators(const_cast<Function &>(function));
  return all_of(branch->successors(), [&](const BasicBlock *version) {
    return any_of(function.getArg(lastTask)->users(), [&](const User *user) {
      const auto *end = dyn_cast<ICmpInst>(user);
      return end && dominators.dominates(version, end->getParent());
    });
  });
}

bool hasUnseenSign(const Instruction &in) {
  return !in.use_empty() && all_of(in.users(), [&](const User *user) {
    const auto *call = dyn_cast<IntrinsicInst>(user);
    const Intrinsic::ID id = call ? call->getIntrinsicID() : Intrinsic::not_intrinsic;
    if (id == Intrinsic::fabs || id == Intrinsic::copysign)
      return call->getArgOperand(0) == &in && (id == Intrinsic::fabs || call->getArgOperand(1) != &in);
    if (isa<FPTruncInst, FPExtInst, SelectInst>(user)) // of a selection it is no condition, being a float
      return hasUnseenSign(*cast<Instruction>(user));
    const bool multiplies = cast<Instruction>(user)->getOpcode() == Instruction::FMul ||
                            (id == Intrinsic::fma && call->getArgOperand(2) != &in);
    return multiplies && user->getOperand(0) == &in && user->getOperand(1) == &in;
  });
}

bool comparesData(const Instruction &in, int generations) {
  return any_of(in.operands(), [&](const Value *operand) {
    const auto *from = dyn_cast<Instruction>(operand);
    if (!from || generations == 0)
      return false;
    const auto *call = dyn_cast<IntrinsicInst>(from);
    if (call && is_contained({Intrinsic::masked_load, Intrinsic::masked_gather}, call->getIntrinsicID()))
      return true;
    const auto *load = dyn_cast<LoadInst>(from);
    return load ? !readsSymbol(*load) : comparesData(*from, generations - 1);
  });
}

} // namespace mortise::mutants
