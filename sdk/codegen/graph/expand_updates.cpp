// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Searches and updates as expressions: where an element belongs.
#include "graph/expansion.hpp"

#include <mortise/views.hpp>

#include <algorithm>
#include <bit>
#include <string_view>

namespace mortise::codegen {

ExprId Expansion::compare(ExprId lhs, Direction direction, ExprId rhs) {
  const ExprId id = make(Op::Compare, {lhs, rhs});
  dag.exprs[id].dtype = MORTISE_I1, dag.exprs[id].direction = direction;
  return id;
}

ExprId Expansion::choose(ExprId condition, ExprId then, ExprId otherwise) {
  const ExprId id = make(Op::Select, {condition, then, otherwise});
  dag.exprs[id].dtype = at(then).dtype;
  return id;
}

// In the order of sorts: a NaN is above all numbers, and equal to another.
ExprId Expansion::isBelow(ExprId lhs, ExprId rhs) {
  const ExprId less = compare(lhs, Direction::Lt, rhs);
  if (!isFloat(at(lhs).dtype))
    return less;
  return make(Op::And, {compare(lhs, Direction::Eq, lhs), make(Op::Or, {compare(rhs, Direction::Ne, rhs), less})});
}

// A binary search, whose steps are spelled out.
ExprId Expansion::searchsorted(bool &known) {
  const std::vector<Dim> sequence = at(operands[0]).dims, dims = at(operands[1]).dims;
  const Dim &length = sequence.back();
  const int64_t longest = bounds(length, dag.symbols).high;
  constexpr unsigned mostSteps = 40;                               // of what fits into a memory
  known = length == Dim(0) || bounds(length, dag.symbols).low > 0; // of nothing, nothing can be read
  Expr zeros;
  zeros.op = Op::Constant;
  zeros.dtype = MORTISE_I64;
  zeros.dims = dims;
  ExprId low = append(std::move(zeros)), high = literal(low, length);
  if (!known || length == Dim(0))
    return low;
  const bool isRight = intAttribute(node, "right") != 0;
  const ExprId zero = low, one = literal(low, 1.0), x = operands[1];
  const unsigned steps = longest > INT64_C(1) << mostSteps ? mostSteps + 1 : std::bit_width(uint64_t(longest));
  for (unsigned step = 0; step < steps; ++step) {
    const ExprId isOpen = compare(low, Direction::Lt, high);
    const ExprId middle = make(Op::ShiftRight, {make(Op::Add, {low, high}), one});
    Expr element;
    element.op = sequence.size() == 1 ? Op::Take : Op::TakeAlong;
    element.dtype = at(x).dtype;
    element.dims = dims;
    element.axes = {static_cast<int64_t>(sequence.size()) - 1};
    element.operands = {operands[0], choose(isOpen, middle, zero)};
    const ExprId there = append(std::move(element));
    const ExprId isBefore = isRight ? make(Op::Not, {isBelow(x, there)}) : isBelow(there, x);
    low = choose(make(Op::And, {isOpen, isBefore}), make(Op::Add, {middle, one}), low);
    high = choose(make(Op::And, {isOpen, make(Op::Not, {isBefore})}), middle, high);
  }
  return low;
}

// An index that counts from the end where it is negative, as i64. `isInside` becomes false where it is out of range.
ExprId Expansion::index(ExprId raw, const Dim &extent, ExprId &isInside) {
  const ExprId id = make(Op::Convert, {raw});
  dag.exprs[id].dtype = MORTISE_I64;
  const ExprId zero = literal(id, 0.0), end = literal(id, extent);
  const ExprId wrapped = choose(compare(id, Direction::Lt, zero), make(Op::Add, {id, end}), id);
  for (const ExprId condition : {compare(wrapped, Direction::Ge, zero), compare(wrapped, Direction::Lt, end)})
    isInside = isInside == ~0U ? condition : make(Op::And, {isInside, condition});
  return wrapped;
}

ExprId Expansion::update(bool &known) {
  static constexpr std::string_view modes[] = {"set", "add", "mul", "max", "min"};
  const std::vector<Dim> dims = at(operands[0]).dims, indexDims = at(operands[1]).dims;
  const std::vector<Dim> strides = denseStrides(std::span<const Dim>(dims));
  ExprId place = ~0U, isInside = ~0U;
  const auto add = [&](ExprId index, const Dim &step) {
    const ExprId moved = make(Op::Mul, {index, literal(index, step)});
    place = place == ~0U ? moved : make(Op::Add, {place, moved});
  };
  const Op op = static_cast<Op>(opOf(node));
  if (op == Op::ScatterNd) {
    known = indexDims.back().isNumber();
    const int64_t depth = known ? *indexDims.back().number() : 0;
    for (int64_t i = 0; i < depth; ++i) {
      Expr coordinate;
      coordinate.op = Op::Slice;
      coordinate.dtype = at(operands[1]).dtype;
      coordinate.dims = indexDims, coordinate.dims.back() = 1;
      coordinate.starts.assign(indexDims.size(), 0), coordinate.starts.back() = i;
      coordinate.steps.assign(indexDims.size(), 1);
      coordinate.operands = {operands[1]};
      const ExprId raw = append(std::move(coordinate));
      const auto axis = static_cast<size_t>(i);
      add(index(reshape(raw, {indexDims.begin(), indexDims.end() - 1}), dims[axis], isInside), strides[axis]);
    }
    if (depth == 0) { // every update goes to the whole operand
      Expr none;
      none.op = Op::Constant;
      none.dtype = MORTISE_I64;
      none.dims.assign(indexDims.begin(), indexDims.end() - 1);
      place = append(std::move(none));
    }
  } else {
    const auto axis = static_cast<size_t>(intAttribute(node, "axis"));
    add(index(operands[1], dims[axis], isInside), strides[axis]);
    for (size_t i = 0; op == Op::ScatterAlong && i < dims.size(); ++i) {
      if (i == axis)
        continue;
      Expr counter;
      counter.op = Op::Iota;
      counter.dtype = MORTISE_I64;
      counter.dims = indexDims;
      counter.axes = {static_cast<int64_t>(i)};
      add(append(std::move(counter)), strides[i]);
    }
  }
  if (isInside != ~0U)
    place = choose(isInside, place, literal(place, -1.0));
  Expr expr;
  expr.op = op;
  expr.dtype = node.results[0]->type->dtype;
  expr.dims = dims;
  expr.operands = {operands[0], operands[1], operands[2], place};
  if (op != Op::ScatterNd)
    expr.axes = {intAttribute(node, "axis")};
  expr.mode = static_cast<UpdateMode>(std::ranges::find(modes, stringAttribute(node, "mode")) - std::begin(modes));
  return append(std::move(expr));
}

} // namespace mortise::codegen
