// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes expressions at symbolic indices: loads, constants, index maps.
#include "emit/emitter.hpp"

namespace mortise::codegen {

using namespace mlir;
using I = arith::CmpIPredicate;

// The outermost scope that knows these counters and, if `reductions`, the results of earlier passes.
size_t Emitter::scopeFor(uint64_t loops, bool reductions) const {
  for (size_t i = reductions ? rowScope : 0; i < scopes.size(); ++i)
    if (!(loops & ~scopes[i].loops))
      return i;
  return scopes.size() - 1;
}

Value Emitter::within(size_t scope, llvm::function_ref<Value()> make) {
  OpBuilder::InsertionGuard keep(b);
  for (; scope + 1 < scopes.size(); ++scope)
    if (scopes[scope].next) {
      b.setInsertionPoint(scopes[scope].next);
      break;
    }
  return make();
}

size_t Emitter::scopeOf(ExprId id, TupleId at, GuardId guard) {
  const Expr &expr = plan.dag.exprs[id];
  uint64_t loops = plan.space.loops(at, guard);
  bool reductions = expr.reductions;
  for (IndexId index : plan.space.tuple(at))
    reductions |= plan.space.reductions(index);
  if (expr.op == Op::Input && !guard) // dimensions of stride 0 do not matter
    loops = plan.space.loops(plan.space.dot(plan.space.tuple(at), expr.strides, expr.offset));
  return scopeFor(loops, reductions);
}

Value Emitter::value(ExprId id, TupleId at, GuardId guard) {
  size_t scope = scopeOf(id, at, guard);
  auto key = std::make_pair(id, std::make_pair(at, guard));
  auto &known = scopes[scope].values;
  if (auto found = known.find(key); found != known.end())
    return found->second;
  Value result = within(scope, [&] { return compute(id, at, guard); });
  scopes[scope].values[key] = result;
  return result;
}

// Splats scalars that meet vectors in the scope where the scalar is computed, outside the loop over lanes.
void Emitter::repeatScalars(const Expr &expr, TupleId at, GuardId guard, SmallVectorImpl<Value> &operands) {
  if (llvm::none_of(operands, Code::isVector))
    return;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (Code::isVector(operands[i]))
      continue;
    // Follows index maps to the expression that computes the value, so that all of them share one splat.
    ExprId id = expr.operands[i];
    TupleId where = at;
    GuardId condition = guard;
    while (has(plan.dag.exprs[id].op, Trait::View) || plan.dag.exprs[id].op == Op::Reverse) {
      Access access = plan.accesses(id, where, condition)[0];
      id = access.expr, where = access.at, condition = access.guard;
    }
    size_t scope = scopeOf(id, where, condition);
    Value &splat = scopes[scope].splats[{id, {where, condition}}];
    if (!splat)
      splat = within(scope, [&] { return c.splat(operands[i]); });
    operands[i] = splat;
  }
}

Value Emitter::compute(ExprId id, TupleId at, GuardId guard) {
  const Expr &expr = plan.dag.exprs[id];
  const Cached *kept = guard ? nullptr : plan.cached(id, at);
  if (kept && kept->pass < currentPass) {
    if (kept->root >= 0)
      return load(outputs[kept->root], expr.dtype, plan.roots[kept->root].address, 0, false);
    if (Value read = readKept(*kept))
      return read;
  }
  if (expr.op == Op::Input)
    return read(expr, plan.space.dot(plan.space.tuple(at), expr.strides, expr.offset), guard);
  if (expr.op == Op::Constant)
    return constantValue(expr, at, guard);
  if (expr.op == Op::Extent)
    return convert(extent(expr.extent), MORTISE_I64, expr.dtype);
  if (expr.op == Op::Iota) {
    IndexId index = plan.space.tuple(at)[expr.axes[0]];
    Value number =
        varies(plan.space.loops(index)) ? laneVector(index, guard, plan.space.isNarrow(index)) : scalarIndex(index);
    return convert(number, Code::element(number).isInteger(32) ? MORTISE_I32 : MORTISE_I64, expr.dtype);
  }
  if (expr.op == Op::RandomBits)
    return randomBits(expr, at, guard);
  if (isRunning(expr.op)) {
    const Carried &all = reached[{id, at}] = advance(expr, running[{id, at}], elementOf(expr, at));
    return resultOf(expr, all);
  }
  if (expr.op == Op::Position) {
    value(expr.operands[0], at, guard);
    return reached[{expr.operands[0], at}][1];
  }
  if (isElementwise(expr.op)) {
    SmallVector<Value> operands;
    for (ExprId operand : expr.operands)
      operands.push_back(value(operand, at, guard));
    repeatScalars(expr, at, guard, operands);
    return elementwise(expr, operands);
  }
  if (expr.op == Op::Pad || expr.op == Op::Concatenate)
    return choose(id, at, guard);
  std::vector<Access> accesses = plan.accesses(id, at, guard);
  return value(accesses[0].expr, accesses[0].at, accesses[0].guard);
}

Value Emitter::readRaw(uint32_t slot, int32_t dtype, IndexId address, GuardId guard) {
  Read read{slot, dtype, address, guard, {}};
  Value raw = loadRaw(inputs[slot], dtype, address, guard, inputsStay && !plan.isUpdate(), &read.loads);
  reads.push_back(std::move(read));
  return raw;
}

Value Emitter::read(const Expr &input, IndexId address, GuardId guard) {
  return c.fromMemory(readRaw(input.slot, input.dtype, address, guard), input.dtype);
}

// Pad and concatenate: selects the operand whose condition holds.
Value Emitter::choose(ExprId id, TupleId at, GuardId guard) {
  const Expr &expr = plan.dag.exprs[id];
  std::vector<Access> accesses = plan.accesses(id, at, guard);
  if (accesses.empty()) // an empty concatenation: the value is never stored
    return isFloat(expr.dtype) ? c.constant(c.registerType(expr.dtype), 0) : c.integer(c.registerType(expr.dtype), 0);
  Value result;
  for (size_t i = accesses.size(); i-- > 0;) {
    const Access &access = accesses[i];
    if (expr.op == Op::Pad && i == 0 && elementCount(plan.dag.exprs[access.expr].dims) == Dim(0))
      continue;
    Value operand = value(access.expr, access.at, access.guard);
    if (!result || access.guard == guard) {
      result = operand;
      continue;
    }
    bool lanes = varies(plan.space.loops(0, access.guard));
    result = c.select(mask(access.guard, lanes), operand, result);
  }
  return result;
}

Value Emitter::constantValue(const Expr &expr, TupleId at, GuardId guard) {
  Type type = c.registerType(expr.dtype);
  size_t size = dtypeBits(expr.dtype) / 8;
  const std::byte *data = expr.data;
  bool uniform = !data || expr.bytes <= size;
  for (size_t i = size; !uniform && i + size <= expr.bytes; i += size)
    if (std::memcmp(data, data + i, size) != 0)
      break;
    else
      uniform = i + 2 * size > expr.bytes;
  if (uniform) {
    if (!data)
      return isFloat(expr.dtype) ? c.constant(type, expr.real) : c.integer(type, expr.integer);
    int64_t raw = 0;
    if (expr.bytes)
      std::memcpy(&raw, data, size);
    switch (expr.dtype) {
    case MORTISE_F64:
    case MORTISE_F32:
    case MORTISE_F16:
    case MORTISE_BF16: {
      const llvm::fltSemantics &semantics = expr.dtype == MORTISE_F64   ? llvm::APFloat::IEEEdouble()
                                            : expr.dtype == MORTISE_F32 ? llvm::APFloat::IEEEsingle()
                                            : expr.dtype == MORTISE_F16 ? llvm::APFloat::IEEEhalf()
                                                                        : llvm::APFloat::BFloat();
      llvm::APFloat number(semantics, llvm::APInt(64, raw).trunc(size * 8));
      bool ignored;
      number.convert(cast<FloatType>(type).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &ignored);
      return arith::ConstantOp::create(b, c.loc, FloatAttr::get(type, number));
    }
    case MORTISE_I1:
      return c.truth(raw & 0xff);
    default:
      return c.integer(type, raw);
    }
  }
  // Other constants become a table in the module.
  std::string name = tables + std::to_string(&expr - plan.dag.exprs.data());
  if (!module.lookupSymbol(name)) {
    OpBuilder::InsertionGuard keep(b);
    b.setInsertionPointToStart(module.getBody());
    auto bytes = RankedTensorType::get({static_cast<int64_t>(expr.bytes)}, b.getI8Type());
    ArrayRef<char> raw(reinterpret_cast<const char *>(data), expr.bytes);
    LLVM::GlobalOp::create(b, c.loc, LLVM::LLVMArrayType::get(b.getI8Type(), expr.bytes), true, LLVM::Linkage::Internal,
                           name, DenseElementsAttr::getFromRawBuffer(bytes, raw), 64);
  }
  Value base = LLVM::AddressOfOp::create(b, c.loc, LLVM::LLVMPointerType::get(b.getContext()), name);
  return load(base, expr.dtype, plan.space.linearise(plan.space.tuple(at), expr.dims), guard, true);
}

Value Emitter::pointer(Value base, Type element, Value index) {
  Type type = LLVM::LLVMPointerType::get(b.getContext());
  if (auto vector = dyn_cast<VectorType>(index.getType()))
    type = VectorType::get(vector.getShape(), type);
  return LLVM::GEPOp::create(b, c.loc, type, element, base, ValueRange{index});
}

Value Emitter::loadRaw(Value base, int32_t dtype, IndexId address, GuardId guard, bool invariant,
                       SmallVectorImpl<LLVM::LoadOp> *made) {
  Type element = c.memoryType(dtype);
  const unsigned alignment = dtypeBits(dtype) / 8;
  auto plain = [&](Type type, Value place, unsigned alignment) {
    auto op = LLVM::LoadOp::create(b, c.loc, type, place, alignment, false, false, invariant);
    if (made)
      made->push_back(op);
    return op;
  };
  if (!varies(plan.space.loops(address))) {
    Value index = scalarIndex(address, guard);
    if (Value inside = mask(guard, false)) {
      if (c.instructions.narrowIntegers && plan.space.isNarrow(address))
        index = c.resizeInt(index, b.getI32Type(), true);
      index = c.select(inside, index, c.integer(index.getType(), 0));
    }
    return plain(element, pointer(base, element, c.resizeInt(index, b.getI64Type(), true)), alignment);
  }
  Lanes lanes = laneIndex(address, guard);
  Value active = mask(guard, true);
  if (tailMask)
    active = active ? c.andI(active, tailMask) : tailMask;
  Type type = c.vectorOf(element);
  Value raw;
  if (!lanes.vector && lanes.step == 1) {
    Value place = pointer(base, element, lanes.scalar);
    if (active)
      raw = LLVM::MaskedLoadOp::create(b, c.loc, type, place, active,
                                       arith::ConstantOp::create(b, c.loc, b.getZeroAttr(type)),
                                       b.getI32IntegerAttr(alignment), UnitAttr());
    else
      raw = plain(type, place, alignmentOf(dtype, address));
  } else if (!lanes.vector && lanes.step == -1 && !active) {
    raw = c.reversed(
        plain(type, pointer(base, element, c.addI(lanes.scalar, c.i64(1 - int64_t(schedule.lanes)))), alignment));
  } else {
    Value places = lanes.vector
                       ? pointer(base, element, lanes.vector)
                       : pointer(pointer(base, element, lanes.scalar), element,
                                 stepsOf(plan.space.facts.isNarrow(lanes.step * 64) ? b.getI32Type() : b.getI64Type(),
                                         lanes.step));
    if (!active)
      active = c.splat(c.truth(true));
    raw = LLVM::masked_gather::create(b, c.loc, type, places, active,
                                      ValueRange{arith::ConstantOp::create(b, c.loc, b.getZeroAttr(type))},
                                      b.getI32IntegerAttr(alignment));
  }
  return raw;
}

void Emitter::store(Value value, Value base, int32_t dtype, IndexId address, Value active) {
  Type element = c.memoryType(dtype);
  unsigned alignment = dtypeBits(dtype) / 8;
  value = c.toMemory(value, dtype);
  if (!varies(plan.space.loops(address)) || schedule.lanes == 1) {
    LLVM::StoreOp::create(b, c.loc, value, pointer(base, element, scalarIndex(address)), alignment);
    return;
  }
  value = c.splat(value);
  Lanes lanes = laneIndex(address, 0);
  if (tailMask)
    active = active ? c.andI(active, tailMask) : tailMask;
  if (!lanes.vector && lanes.step == 1) {
    Value place = pointer(base, element, lanes.scalar);
    if (active)
      LLVM::MaskedStoreOp::create(b, c.loc, value, place, active, b.getI32IntegerAttr(alignment));
    else
      LLVM::StoreOp::create(b, c.loc, value, place, alignmentOf(dtype, address));
    return;
  }
  Value places = lanes.vector
                     ? pointer(base, element, lanes.vector)
                     : pointer(pointer(base, element, lanes.scalar), element, stepsOf(b.getI64Type(), lanes.step));
  LLVM::masked_scatter::create(b, c.loc, value, places, active ? active : c.splat(c.truth(true)),
                               b.getI32IntegerAttr(alignment));
}

// The index at the vector's first lane.
Value Emitter::scalarIndex(IndexId id, GuardId guard) {
  if (!plan.space.reads(id))
    guard = 0;
  size_t scope = scopeFor(plan.space.loops(id) | plan.space.loops(0, guard), plan.space.reductions(id));
  auto key = std::make_pair(id, guard);
  if (auto found = scopes[scope].indices.find(key); found != scopes[scope].indices.end())
    return found->second;
  Value result = within(scope, [&] {
    const Index &index = plan.space.index(id);
    Value sum;
    for (const auto &[atom, factor] : Index(index).terms) {
      Value term = scalarAtom(atom, guard);
      if (!term)
        continue;
      if (!(factor == 1))
        term = c.mulI(term, extent(factor));
      sum = sum ? c.addI(sum, term) : term;
    }
    if (!sum || !(index.constant == 0))
      sum = sum ? c.addI(sum, extent(index.constant)) : extent(index.constant);
    return sum;
  });
  scopes[scope].indices[key] = result;
  return result;
}

// Null for a counter that stays 0, because a merged loop drives another one.
Value Emitter::scalarAtom(AtomId id, GuardId guard) {
  Atom atom = plan.space.atom(id);
  switch (atom.kind) {
  case Atom::Loop: {
    auto found = counters.find(atom.loop);
    return found == counters.end() ? Value() : found->second;
  }
  case Atom::Loaded: {
    Value raw = value(atom.expr, atom.at, guard);
    return c.resizeInt(wrapIndex(raw, atom.divisor), b.getI64Type(), true);
  }
  default: {
    Value argument = scalarIndex(atom.argument, guard), divisor = positive(atom.divisor);
    bool natural = plan.space.isNatural(atom.argument);
    if (c.instructions.narrowIntegers && natural && plan.space.isNarrow(atom.argument) &&
        plan.space.facts.isNarrow(atom.divisor)) {
      argument = c.resizeInt(argument, b.getI32Type(), false), divisor = c.resizeInt(divisor, b.getI32Type(), false);
      Value result = atom.kind == Atom::Quotient ? c.two<arith::DivUIOp>(argument, divisor)
                                                 : c.two<arith::RemUIOp>(argument, divisor);
      return c.resizeInt(result, b.getI64Type(), false);
    }
    if (atom.kind == Atom::Quotient)
      return natural ? c.two<arith::DivUIOp>(argument, divisor) : c.two<arith::DivSIOp>(argument, divisor);
    return natural ? c.two<arith::RemUIOp>(argument, divisor) : c.two<arith::RemSIOp>(argument, divisor);
  }
  }
}

// Negative indices count from the end. The result is clamped to the extent.
Value Emitter::wrapIndex(Value raw, const Dim &dim) {
  if (Code::element(raw).getIntOrFloatBitWidth() == 32 && !plan.space.facts.isNarrow(dim))
    raw = c.resizeInt(raw, b.getI64Type(), true);
  Value zero = c.integer(raw.getType(), 0);
  Value moved = c.select(c.compareI(I::slt, raw, zero), c.addI(raw, extentLike(raw, dim)), raw);
  return c.two<arith::MinSIOp>(c.two<arith::MaxSIOp>(moved, zero), extentLike(raw, dim - 1));
}

Emitter::Lanes Emitter::laneIndex(IndexId id, GuardId guard) {
  Lanes lanes;
  bool general = false;
  for (const auto &[atomId, factor] : plan.space.index(id).terms) {
    const Atom &atom = plan.space.atom(atomId);
    if (atom.kind == Atom::Loop) {
      if (!schedule.loops.empty() && atom.loop == schedule.loops.back().number && laneMask)
        lanes.step = factor;
    } else {
      general |= varies(atom.loops);
    }
  }
  if (general)
    lanes.vector = laneVector(id, guard, plan.space.isNarrow(id));
  else
    lanes.scalar = scalarIndex(id, guard);
  return lanes;
}

Value Emitter::laneVector(IndexId id, GuardId guard, bool narrow) {
  size_t scope = scopeFor(plan.space.loops(id) | plan.space.loops(0, guard), plan.space.reductions(id));
  auto key = std::make_pair(id, narrow);
  if (auto found = scopes[scope].vectors.find(key); !guard && found != scopes[scope].vectors.end())
    return found->second;
  Type type = narrow ? b.getI32Type() : b.getI64Type();
  Value result = within(scope, [&] {
    Index index = plan.space.index(id);
    IndexId base = plan.space.constant(index.constant);
    Value sum;
    Dim step = 0;
    for (const auto &[atomId, factor] : index.terms) {
      Atom atom = plan.space.atom(atomId);
      if (atom.kind != Atom::Loop && varies(atom.loops)) {
        Value term = laneAtom(atomId, guard, narrow);
        if (!(factor == 1))
          term = c.mulI(term, extentLike(term, factor));
        sum = sum ? c.addI(sum, term) : term;
      } else {
        if (atom.kind == Atom::Loop && atom.loop == schedule.loops.back().number && laneMask)
          step = factor;
        base = plan.space.add(base, plan.space.atomIndex(atomId), factor);
      }
    }
    Value scalar = c.splat(c.resizeInt(scalarIndex(base, guard), type, true));
    sum = sum ? c.addI(sum, scalar) : scalar;
    return step == 0 ? sum : c.addI(sum, stepsOf(type, step));
  });
  if (!guard)
    scopes[scope].vectors[key] = result;
  return result;
}

Value Emitter::laneAtom(AtomId id, GuardId guard, bool narrow) {
  Atom atom = plan.space.atom(id);
  Type type = narrow ? b.getI32Type() : b.getI64Type();
  if (atom.kind == Atom::Loaded)
    return c.resizeInt(wrapIndex(value(atom.expr, atom.at, guard), atom.divisor), type, true);
  bool natural = plan.space.isNatural(atom.argument);
  Value argument = laneVector(atom.argument, guard, plan.space.isNarrow(atom.argument)), result;
  if (!atom.divisor.isNumber()) {
    Value quotient = laneQuotient(argument, atom.divisor);
    result =
        atom.kind == Atom::Quotient ? quotient : c.subI(argument, c.mulI(quotient, extentLike(quotient, atom.divisor)));
    return c.resizeInt(result, type, true);
  }
  Value divisor = extentLike(argument, atom.divisor);
  if (atom.kind == Atom::Quotient)
    result = natural ? c.two<arith::DivUIOp>(argument, divisor) : c.two<arith::DivSIOp>(argument, divisor);
  else
    result = natural ? c.two<arith::RemUIOp>(argument, divisor) : c.two<arith::RemSIOp>(argument, divisor);
  return c.resizeInt(result, type, true);
}

Value Emitter::condition(const Condition &check, GuardId outer) {
  const Facts &facts = plan.space.facts;
  const bool small = plan.space.isNarrow(check.index) && facts.isNarrow(check.low) && facts.isNarrow(check.high);
  const bool isVector = varies(plan.space.loops(check.index));
  Value index = isVector ? laneVector(check.index, 0, small) : scalarIndex(check.index);
  const Range range = plan.space.range(check.index);
  const bool mayBeBelow = !facts.atLeast(range.low, check.low), mayBeAbove = !facts.atLeast(check.high - 1, range.high);
  if (!isVector && small && c.instructions.narrowIntegers) {
    index = c.resizeInt(index, b.getI32Type(), true);
    if (mayBeBelow && mayBeAbove && facts.isNarrow(range.low - check.low) && facts.isNarrow(range.high - check.low))
      return c.compareI(I::ult, c.subI(index, extentLike(index, check.low)),
                        extentLike(index, check.high - check.low)); // what is below is a large natural number
  }
  Value result;
  if (mayBeBelow)
    result = c.compareI(I::sge, index, extentLike(index, check.low));
  if (mayBeAbove) {
    Value below = c.compareI(I::slt, index, extentLike(index, check.high));
    result = result ? c.andI(result, below) : below;
  }
  return result;
}

// The conjunction of the guard's conditions; null when nothing needs checking. With `lanes` it is a vector over all
// conditions, else a scalar over the uniform ones.
Value Emitter::mask(GuardId guard, bool lanes) {
  Value all;
  for (const Condition &check : std::vector<Condition>(plan.space.guard(guard))) {
    if (!lanes && varies(plan.space.loops(check.index)))
      continue;
    Value one = condition(check, guard);
    all = all ? c.andI(all, one) : one;
  }
  return all && lanes ? c.splat(all) : all;
}

} // namespace mortise::codegen
