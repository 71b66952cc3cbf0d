// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "mutator.hpp"
#include "facts.hpp"

#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <tuple>

namespace mortise::mutants {

using namespace llvm;

namespace {

struct Row {
  const char *name;
};
constexpr Row table[] = {
#define X(Name, name, group, what) {name},
#include "operators.def"
#undef X
};

// The constant with each element changed; NULL where that is the same constant, or an element has no value.
template <typename Change> Constant *changed(Value *value, Change change) {
  auto *from = dyn_cast<Constant>(value);
  if (!from)
    return nullptr;
  const auto one = [&](Constant *element) -> Constant * {
    if (auto *integer = dyn_cast_or_null<ConstantInt>(element))
      return change(integer);
    if (auto *real = dyn_cast_or_null<ConstantFP>(element))
      return change(real);
    return nullptr;
  };
  Constant *made = nullptr;
  if (auto *vector = dyn_cast<FixedVectorType>(from->getType())) {
    SmallVector<Constant *> elements;
    for (unsigned i = 0; i < vector->getNumElements(); ++i) {
      elements.push_back(one(from->getAggregateElement(i)));
      if (!elements.back())
        return nullptr;
    }
    made = ConstantVector::get(elements);
  } else {
    made = one(from);
  }
  return made == from ? nullptr : made;
}

struct Added {
  int64_t number;
  Constant *operator()(ConstantInt *from) const {
    constexpr unsigned ofCounts = 32; // longer ones are patterns of bits, such as digits of 2 / pi
    if (from->getValue().getSignificantBits() > ofCounts + 1)
      return nullptr;
    return ConstantInt::get(from->getType(),
                            from->getValue() + APInt(64, number, true).sextOrTrunc(from->getBitWidth()));
  }
  Constant *operator()(ConstantFP *from) const {
    APFloat sum = from->getValueAPF(), one(sum.getSemantics(), number);
    sum.add(one, APFloat::rmNearestTiesToEven);
    return from->isNaN() ? nullptr : ConstantFP::get(from->getType(), sum);
  }
};
struct Negated {
  Constant *operator()(ConstantInt *) const { return nullptr; }
  // Of a zero only its sign would change, which most results do not have, and of NaN one that none has.
  Constant *operator()(ConstantFP *from) const {
    return from->isZero() || from->isNaN() ? nullptr : ConstantFP::get(from->getType(), neg(from->getValueAPF()));
  }
};
struct OtherDigit {
  Constant *operator()(ConstantInt *) const { return nullptr; }
  Constant *operator()(ConstantFP *from) const {
    APFloat factor(1 + 0x1p-10), product = from->getValueAPF();
    bool isExact = true;
    factor.convert(product.getSemantics(), APFloat::rmNearestTiesToEven, &isExact);
    product.multiply(factor, APFloat::rmNearestTiesToEven);
    return from->isNaN() ? nullptr : ConstantFP::get(from->getType(), product);
  }
};

Instruction::BinaryOps other(Instruction::BinaryOps op) {
  switch (op) {
  case Instruction::FAdd:
    return Instruction::FSub;
  case Instruction::FSub:
  case Instruction::FMul:
    return Instruction::FAdd;
  case Instruction::FDiv:
    return Instruction::FMul;
  case Instruction::Add:
    return Instruction::Sub;
  case Instruction::Sub:
  case Instruction::Mul:
    return Instruction::Add;
  case Instruction::SDiv:
    return Instruction::SRem;
  case Instruction::UDiv:
    return Instruction::URem;
  case Instruction::SRem:
    return Instruction::SDiv;
  case Instruction::URem:
    return Instruction::UDiv;
  case Instruction::And:
    return Instruction::Or;
  case Instruction::Or:
  case Instruction::Xor:
    return Instruction::And;
  case Instruction::Shl:
  case Instruction::AShr:
    return Instruction::LShr;
  case Instruction::LShr:
    return Instruction::AShr;
  default:
    return op;
  }
}

Intrinsic::ID otherExtreme(Intrinsic::ID id) {
  constexpr std::pair<Intrinsic::ID, Intrinsic::ID> pairs[] = {{Intrinsic::smin, Intrinsic::smax},
                                                               {Intrinsic::umin, Intrinsic::umax},
                                                               {Intrinsic::minnum, Intrinsic::maxnum},
                                                               {Intrinsic::minimum, Intrinsic::maximum}};
  for (const auto &[a, b] : pairs)
    if (id == a || id == b)
      return id == a ? b : a;
  return id;
}

// Of those that x86 has instructions for; one that differs from it for numbers of both signs.
Intrinsic::ID otherRounding(Intrinsic::ID id) {
  switch (id) {
  case Intrinsic::floor:
    return Intrinsic::ceil;
  case Intrinsic::ceil:
    return Intrinsic::floor;
  case Intrinsic::trunc:
    return Intrinsic::roundeven;
  case Intrinsic::roundeven:
  case Intrinsic::rint:
  case Intrinsic::nearbyint:
    return Intrinsic::trunc;
  default:
    return id;
  }
}

CmpInst::Predicate otherAtEqual(CmpInst::Predicate predicate) {
  if (!CmpInst::isRelational(predicate))
    return predicate;
  return CmpInst::isStrictPredicate(predicate) ? CmpInst::getNonStrictPredicate(predicate)
                                               : CmpInst::getStrictPredicate(predicate);
}

CmpInst::Predicate otherForNan(CmpInst::Predicate predicate) {
  if (predicate < CmpInst::FCMP_OEQ || predicate > CmpInst::FCMP_UNE || predicate == CmpInst::FCMP_ORD ||
      predicate == CmpInst::FCMP_UNO)
    return predicate;
  return CmpInst::isOrdered(predicate) ? CmpInst::getUnorderedPredicate(predicate)
                                       : CmpInst::getOrderedPredicate(predicate);
}

// One change of one instruction. Each function answers whether it can be made; with `isDone` it is.
class Change {
public:
  Change(Instruction &in, unsigned operand, bool isDone) : in(in), operand(operand), isDone(isDone) {}

  bool make(Operator change) {
    switch (change) {
    case Operator::Arithmetic:
      return arithmetic();
    case Operator::Operands:
      return operand == 0 && operands();
    case Operator::Dropped:
      return operand == 0 && dropped();
    case Operator::PlusOne:
      return constant(Added{1});
    case Operator::MinusOne:
      return in.getNumOperands() > operand && in.getOperand(operand)->getType()->isIntOrIntVectorTy() &&
             !in.getOperand(operand)->getType()->isIntOrIntVectorTy(1) && constant(Added{-1});
    case Operator::Negated: // of a selection the sign of the result changes
      return !(isa<SelectInst>(in) && hasUnseenSign(in)) && constant(Negated{});
    case Operator::Digit:
      return !choosesApproximation(in) && constant(OtherDigit{});
    case Operator::IndexAbove:
      return index(1);
    case Operator::IndexBelow:
      return index(-1);
    case Operator::Lanes:
      return operand == 0 && lanes();
    case Operator::Opposite:
      return predicate([](CmpInst::Predicate of) { return CmpInst::getInversePredicate(of); });
    case Operator::Boundary:
      return !choosesBetweenOperands(in) && !choosesApproximation(in) && predicate(otherAtEqual);
    case Operator::Signedness:
      return comparesData(in) && predicate([](CmpInst::Predicate of) {
               return ICmpInst::isIntPredicate(of) && ICmpInst::isRelational(of)
                          ? ICmpInst::getFlippedSignednessPredicate(of)
                          : of;
             });
    case Operator::Unordered:
      return predicate(otherForNan);
    case Operator::Branch:
      return operand == 0 && branch();
    case Operator::TowardZero:
      return operand == 0 && towardZero();
    case Operator::Rounding:
      return operand == 0 && rounding();
    case Operator::Extension:
      return operand == 0 && extension();
    case Operator::Precision:
      return operand == 0 && precision();
    case Operator::BoundAbove:
      return bound(1);
    case Operator::BoundBelow:
      return bound(-1);
    case Operator::Start:
      return start();
    case Operator::Step:
      return step();
    case Operator::AllLanes:
      return allLanes();
    case Operator::Arms:
      return operand == 0 && arms();
    }
    return false;
  }

private:
  Value *moved(Value *number, int64_t by) {
    IRBuilder<> b(&in);
    return b.CreateAdd(number, ConstantInt::get(number->getType(), static_cast<uint64_t>(by), true));
  }

  // Uses of the instruction become uses of another value, computed from it behind it.
  template <typename Make> bool replaced(Make make) {
    if (!isDone)
      return true;
    IRBuilder<> b(in.getParent(), std::next(in.getIterator()));
    SmallVector<Use *> uses;
    for (Use &use : in.uses())
      uses.push_back(&use);
    Value *made = make(b);
    for (Use *use : uses)
      use->set(made);
    return true;
  }

  bool arithmetic() {
    if (operand != 0 || isStep(in) || addsZero(in))
      return false;
    if (auto *binary = dyn_cast<BinaryOperator>(&in)) {
      const auto op = other(binary->getOpcode());
      if (op == binary->getOpcode())
        return false;
      return replaced([&](IRBuilder<> &b) { return b.CreateBinOp(op, in.getOperand(0), in.getOperand(1)); });
    }
    auto *call = dyn_cast<IntrinsicInst>(&in);
    if (!call)
      return false;
    if (call->getIntrinsicID() == Intrinsic::fma) {
      if (isDone) {
        IRBuilder<> b(&in);
        call->setArgOperand(2, b.CreateFNeg(call->getArgOperand(2)));
      }
      return true;
    }
    const Intrinsic::ID id = otherExtreme(call->getIntrinsicID());
    if (id == call->getIntrinsicID())
      return false;
    if (isDone)
      call->setCalledFunction(Intrinsic::getOrInsertDeclaration(in.getModule(), id, {in.getType()}));
    return true;
  }

  bool operands() {
    const auto *call = dyn_cast<IntrinsicInst>(&in);
    const bool isCopySign = call && call->getIntrinsicID() == Intrinsic::copysign;
    if (!isCopySign && (!isa<BinaryOperator>(in) || in.isCommutative()))
      return false;
    if (in.getOperand(0) == in.getOperand(1) || (in.getOpcode() == Instruction::FSub && hasUnseenSign(in)))
      return false;
    if (isDone) {
      Value *first = in.getOperand(0);
      in.setOperand(0, in.getOperand(1));
      in.setOperand(1, first);
    }
    return true;
  }

  bool dropped() {
    if (isStep(in) || addsZero(in)) // a loop without end
      return false;
    const auto *call = dyn_cast<IntrinsicInst>(&in);
    const bool isSum = call && call->getIntrinsicID() == Intrinsic::fma;
    if (!isa<BinaryOperator, UnaryOperator>(in) &&
        (!call || !in.getType()->isFPOrFPVectorTy() || call->arg_size() == 0 ||
         call->getArgOperand(0)->getType() != in.getType()))
      return false;
    Value *kept = in.getOperand(isSum ? 2 : 0);
    if (isDone)
      in.replaceAllUsesWith(kept);
    return kept != &in;
  }

  template <typename How> bool constant(How how) {
    if (operand >= in.getNumOperands() || isStep(in) || counterOf(in) || choosesVersion(in))
      return false;
    if (auto *phi = dyn_cast<PHINode>(&in); phi && isCounter(*phi))
      return false;
    if (auto *call = dyn_cast<CallBase>(&in))
      if (operand >= call->arg_size() || call->paramHasAttr(operand, Attribute::ImmArg) ||
          call->getArgOperand(operand)->getType()->isIntOrIntVectorTy(1) || standsBesideMask(*call, operand))
        return false;
    if (!isa<BinaryOperator, CmpInst, SelectInst, CallBase, PHINode, StoreInst>(in))
      return false;
    Constant *made = changed(in.getOperand(operand), how);
    if (made && isDone)
      in.setOperand(operand, made);
    return made;
  }

  bool index(int64_t by) {
    auto *address = dyn_cast<GetElementPtrInst>(&in);
    if (!address || operand == 0 || operand + 1 != in.getNumOperands())
      return false;
    if (isDone)
      in.setOperand(operand, moved(in.getOperand(operand), by));
    return true;
  }

  bool lanes() {
    if (auto *shuffle = dyn_cast<ShuffleVectorInst>(&in)) {
      // One lane of the result, for all of them turned by one are the same to a reduction.
      SmallVector<int> mask(shuffle->getShuffleMask());
      const auto *from = dyn_cast<FixedVectorType>(shuffle->getOperand(0)->getType());
      if (!from || from->getNumElements() < 2 || mask[0] < 0 || (mask.size() > 1 && all_equal(mask)))
        return false;
      const int count = static_cast<int>(from->getNumElements()); // of each operand's lanes
      mask[0] = mask[0] / count * count + (mask[0] + 1) % count;
      if (isDone)
        shuffle->setShuffleMask(mask);
      return true;
    }
    auto *extract = dyn_cast<ExtractElementInst>(&in);
    auto *at = extract ? dyn_cast<ConstantInt>(extract->getIndexOperand()) : nullptr;
    const auto *from = extract ? dyn_cast<FixedVectorType>(extract->getVectorOperand()->getType()) : nullptr;
    if (!at || !from || from->getNumElements() < 2)
      return false;
    if (isDone)
      extract->setOperand(1, ConstantInt::get(at->getType(), (at->getZExtValue() + 1) % from->getNumElements()));
    return true;
  }

  template <typename How> bool predicate(How how) {
    auto *compare = dyn_cast<CmpInst>(&in);
    if (!compare || operand != 0 || how(compare->getPredicate()) == compare->getPredicate() || choosesVersion(in))
      return false;
    if (isDone)
      compare->setPredicate(how(compare->getPredicate()));
    return true;
  }

  bool branch() {
    auto *end = dyn_cast<BranchInst>(&in);
    const auto *condition = end && end->isConditional() ? dyn_cast<Instruction>(end->getCondition()) : nullptr;
    if (!condition || counterOf(*condition) || choosesVersion(*end)) // that of a loop is the comparison's opposite
      return false;
    if (isDone)
      end->swapSuccessors();
    return true;
  }

  // Clears the lowest bits of a float, so that a conversion has nothing to round.
  static Value *cut(IRBuilder<> &b, Value *x, unsigned bits) {
    Type *type = x->getType(), *integer = b.getIntNTy(type->getScalarSizeInBits());
    if (auto *vector = dyn_cast<VectorType>(type))
      integer = VectorType::get(integer, vector->getElementCount());
    const uint64_t mask = ~((uint64_t(1) << bits) - 1);
    return b.CreateBitCast(b.CreateAnd(b.CreateBitCast(x, integer), ConstantInt::get(integer, mask)), type);
  }

  bool towardZero() {
    auto *conversion = dyn_cast<FPTruncInst>(&in);
    if (!conversion)
      return false;
    if (isNumberOf(conversion->getDestTy()->getScalarType()->getFltSemantics(), *conversion->getOperand(0)))
      return false;
    const unsigned from = conversion->getSrcTy()->getScalarType()->getFPMantissaWidth(),
                   to = conversion->getDestTy()->getScalarType()->getFPMantissaWidth();
    if (isDone) {
      IRBuilder<> b(&in);
      in.setOperand(0, cut(b, in.getOperand(0), from - to));
    }
    return true;
  }

  bool rounding() {
    auto *call = dyn_cast<IntrinsicInst>(&in);
    const Intrinsic::ID id = call ? otherRounding(call->getIntrinsicID()) : Intrinsic::not_intrinsic;
    if (!call || id == call->getIntrinsicID() || asksForWhole(in))
      return false;
    if (isDone)
      call->setCalledFunction(Intrinsic::getOrInsertDeclaration(in.getModule(), id, {in.getType()}));
    return true;
  }

  bool extension() {
    constexpr std::pair<Instruction::CastOps, Instruction::CastOps> pairs[] = {
        {Instruction::SExt, Instruction::ZExt},
        {Instruction::SIToFP, Instruction::UIToFP},
        {Instruction::FPToSI, Instruction::FPToUI}};
    auto *from = dyn_cast<CastInst>(&in);
    for (const auto &[a, b] : pairs)
      if (from && (from->getOpcode() == a || from->getOpcode() == b) && !isCount(*from->getOperand(0))) {
        const auto op = from->getOpcode() == a ? b : a;
        return replaced([&](IRBuilder<> &builder) { return builder.CreateCast(op, in.getOperand(0), in.getType()); });
      }
    return false;
  }

  bool precision() {
    const auto *call = dyn_cast<IntrinsicInst>(&in);
    const Type *element = in.getType()->getScalarType();
    if ((!isa<BinaryOperator>(in) && (!call || call->getIntrinsicID() != Intrinsic::fma)) ||
        (!element->isFloatTy() && !element->isDoubleTy()))
      return false;
    if (isNumberOf(APFloat::BFloat(), in) || (element->isDoubleTy() && isNumberOf(APFloat::IEEEhalf(), in)))
      return false;
    return replaced([&](IRBuilder<> &b) { return cut(b, &in, element->isFloatTy() ? 16 : 32); });
  }

  bool bound(int64_t by) {
    PHINode *counter = operand == 1 ? counterOf(in) : nullptr;
    if (!counter || (by > 0 && countsWhatIsLeft(*counter, *in.getOperand(1))))
      return false;
    // One turn, whose numbers may be several: a bound that is moved by less may leave the turns as they are.
    const auto *step = dyn_cast<ConstantInt>(stepOf(*counter)->getOperand(1));
    if (isDone)
      in.setOperand(1, moved(in.getOperand(1), step ? by * step->getSExtValue() : by));
    return true;
  }

  bool start() {
    auto *phi = dyn_cast<PHINode>(&in);
    if (!phi || !isCounter(*phi) || operand >= phi->getNumIncomingValues() ||
        phi->getIncomingValue(operand) == stepOf(*phi))
      return false;
    if (isDone) {
      IRBuilder<> b(phi->getIncomingBlock(operand)->getTerminator());
      Value *first = phi->getIncomingValue(operand);
      phi->setIncomingValue(operand, b.CreateAdd(first, ConstantInt::get(first->getType(), 1)));
    }
    return true;
  }

  bool step() {
    auto *by = operand == 1 && isStep(in) ? dyn_cast<ConstantInt>(in.getOperand(1)) : nullptr;
    if (by && isDone)
      in.setOperand(1, ConstantInt::get(by->getType(), by->getZExtValue() + 1));
    return by;
  }

  bool allLanes() {
    auto *call = dyn_cast<IntrinsicInst>(&in);
    if (!call || operand >= call->arg_size())
      return false;
    constexpr Intrinsic::ID masked[] = {Intrinsic::masked_load, Intrinsic::masked_store, Intrinsic::masked_gather,
                                        Intrinsic::masked_scatter};
    Value *mask = call->getArgOperand(operand);
    if (!is_contained(masked, call->getIntrinsicID()) || !mask->getType()->isVectorTy() ||
        !mask->getType()->isIntOrIntVectorTy(1))
      return false;
    Constant *all = Constant::getAllOnesValue(mask->getType());
    if (mask == all)
      return false;
    if (isDone)
      call->setArgOperand(operand, all);
    return true;
  }

  bool arms() {
    auto *select = dyn_cast<SelectInst>(&in);
    if (!select || select->getTrueValue() == select->getFalseValue())
      return false;
    if (isDone)
      select->swapValues();
    return true;
  }

  Instruction &in;
  const unsigned operand;
  const bool isDone;
};

} // namespace

std::string textOf(const Site &site) {
  return (site.instruction == everywhere ? "*" : std::to_string(site.instruction)) + "." +
         std::to_string(site.operand) + "/" + table[static_cast<size_t>(site.change)].name;
}

std::optional<Site> siteOf(std::string_view text) {
  Site site{};
  const size_t dot = text.find('.'), slash = text.find('/');
  if (dot == text.npos || slash == text.npos || dot > slash)
    return std::nullopt;
  const auto read = [&](size_t from, size_t to, uint32_t &into) {
    const auto [end, error] = std::from_chars(text.data() + from, text.data() + to, into);
    return error == std::errc() && end == text.data() + to;
  };
  if (text.substr(0, dot) == "*")
    site.instruction = everywhere;
  else if (!read(0, dot, site.instruction))
    return std::nullopt;
  if (!read(dot + 1, slash, site.operand))
    return std::nullopt;
  for (size_t i = 0; i < std::size(table); ++i)
    if (text.substr(slash + 1) == table[i].name) {
      site.change = static_cast<Operator>(i);
      return site;
    }
  return std::nullopt;
}

std::vector<Site> sitesOf(Function &function) {
  std::vector<Site> sites;
  uint32_t number = 0;
  for (Instruction &in : instructions(function)) {
    for (size_t change = 0; change < std::size(table); ++change)
      for (uint32_t operand = 0; operand < std::max(1U, in.getNumOperands()); ++operand)
        if (Change(in, operand, false).make(static_cast<Operator>(change)))
          sites.push_back({number, operand, static_cast<Operator>(change)});
    ++number;
  }
  return sites;
}

std::vector<std::pair<uint64_t, Site>> patternSitesOf(Function &function) {
  std::vector<Instruction *> all;
  for (Instruction &in : instructions(function))
    all.push_back(&in);
  std::vector<std::pair<uint64_t, Site>> sites;
  std::set<std::tuple<uint64_t, uint32_t, Operator>> known;
  for (const Site &site : sitesOf(function)) {
    const uint64_t pattern = patternOf(*all[site.instruction]);
    if (known.emplace(pattern, site.operand, site.change).second)
      sites.emplace_back(pattern, Site{everywhere, site.operand, site.change});
  }
  return sites;
}

std::vector<std::string> mutateEverywhere(Function &function, uint64_t pattern, const Site &site) {
  std::vector<Instruction *> all;
  std::vector<std::string> texts;
  for (Instruction &in : instructions(function))
    if (patternOf(in) == pattern && Change(in, site.operand, false).make(site.change)) {
      all.push_back(&in);
      raw_string_ostream(texts.emplace_back()) << in;
    }
  for (Instruction *in : all)
    Change(*in, site.operand, true).make(site.change);
  return texts;
}

bool mutate(Function &function, const Site &site) {
  uint32_t number = 0;
  for (Instruction &in : instructions(function))
    if (number++ == site.instruction)
      return Change(in, site.operand, false).make(site.change) && Change(in, site.operand, true).make(site.change);
  return false;
}

} // namespace mortise::mutants
