// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Nodes as expressions, composites expanded.
#include "graph/expansion.hpp"

#include <algorithm>
#include <string_view>

namespace mortise::codegen {

ExprId Expansion::softmax(bool log) {
  ExprId x = widened(operands[0]);
  std::vector<Dim> dims = at(x).dims;
  std::vector<int64_t> axes{intAttribute(node, "axis")};
  ExprId shifted = make(Op::Sub, {x, spread(reduce(Op::ReduceFastMax, x, axes), dims, axes)});
  ExprId e = make(Op::ExpOfNonPositive, {shifted});
  ExprId sum = reduce(Op::ReduceSum, e, axes);
  if (log)
    return make(Op::Sub, {shifted, spread(make(Op::Log, {sum}), dims, axes)});
  return make(Op::Mul, {e, spread(make(Op::Div, {literal(sum, 1.0), sum}), dims, axes)});
}

ExprId Expansion::normalise(ExprId x, const std::vector<int64_t> &axes, bool centred) {
  std::vector<Dim> dims = at(x).dims;
  Dim n = 1;
  for (int64_t axis : axes)
    n *= dims[axis];
  if (centred) {
    ExprId sum = reduce(Op::ReduceSum, x, axes);
    x = make(Op::Sub, {x, spread(make(Op::Div, {sum, literal(sum, n)}), dims, axes)});
  }
  ExprId squares = reduce(Op::ReduceSum, make(Op::Mul, {x, x}), axes);
  ExprId variance = make(Op::Div, {squares, literal(squares, n)});
  ExprId inverse = make(Op::Rsqrt, {make(Op::Add, {variance, literal(variance, floatAttribute(node, "epsilon"))})});
  return make(Op::Mul, {x, spread(inverse, dims, axes)});
}

// x * scale + bias, where both have the extents of `axes` in x.
ExprId Expansion::affine(ExprId x, size_t scale, size_t bias, const std::vector<int64_t> &axes) {
  std::vector<Dim> dims = at(x).dims;
  auto operand = [&](size_t i) { return broadcast(keepAs(operands[i], at(x).dtype), dims, axes); };
  if (given(scale) && given(bias))
    return make(Op::MulAdd, {x, operand(scale), operand(bias)});
  if (given(scale))
    return make(Op::Mul, {x, operand(scale)});
  return given(bias) ? make(Op::Add, {x, operand(bias)}) : x;
}

ExprId Expansion::groupNorm() {
  ExprId x = widened(operands[0]);
  std::vector<Dim> dims = at(x).dims, split = dims;
  std::vector<int64_t> axes;
  int64_t groups = intAttribute(node, "groups");
  split[1] = groups;
  split.insert(split.begin() + 2, floorDiv(dims[1], groups));
  for (size_t i = 2; i < split.size(); ++i)
    axes.push_back(i);
  return affine(reshape(normalise(reshape(x, split), axes, true), dims), 1, 2, {1});
}

ExprId Expansion::batchNorm() {
  ExprId x = widened(operands[0]);
  std::vector<Dim> dims = at(x).dims;
  ExprId variance = widened(operands[4]), mean = widened(operands[3]);
  ExprId factor = make(Op::Rsqrt, {make(Op::Add, {variance, literal(variance, floatAttribute(node, "epsilon"))})});
  if (given(1))
    factor = make(Op::Mul, {factor, widened(operands[1])});
  ExprId centred = make(Op::Sub, {x, broadcast(mean, dims, {1})}), spreadFactor = broadcast(factor, dims, {1});
  if (given(2))
    return make(Op::MulAdd, {centred, spreadFactor, broadcast(widened(operands[2]), dims, {1})});
  return make(Op::Mul, {centred, spreadFactor});
}

// Ops that become one expression with the result's type and the op's attributes.
ExprId Expansion::shaped(Op op, bool &known) {
  Expr expr;
  const MortiseType &type = *node.results[0]->type;
  expr.op = op;
  expr.dtype = type.dtype;
  expr.dims = dimsOf(type);
  expr.operands = operands;
  switch (op) {
  case Op::Compare: {
    static constexpr std::string_view names[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    for (int i = 0; i < 6; ++i)
      if (stringAttribute(node, "direction") == names[i])
        expr.direction = static_cast<Direction>(i);
    break;
  }
  case Op::Reshape:
    break;
  case Op::Transpose:
    expr.axes = ints(node, "permutation");
    break;
  case Op::Broadcast:
  case Op::Reverse:
    expr.axes = ints(node, "axes");
    break;
  case Op::Slice:
    expr.starts = dimsAttribute(node, "starts");
    expr.steps = ints(node, "strides");
    break;
  case Op::Pad:
    expr.starts = dimsAttribute(node, "low");
    expr.steps = ints(node, "interior");
    break;
  case Op::Take:
  case Op::Embedding: // embedding has no axis attribute, which reads as 0
    expr.op = Op::Take;
    expr.axes = {intAttribute(node, "axis")};
    break;
  case Op::Iota:
  case Op::Concatenate:
  case Op::TakeAlong:
  case Op::Cumsum:
  case Op::Cumprod:
  case Op::Cumlogsumexp:
  case Op::Cummax:
  case Op::Cummin:
    expr.axes = {intAttribute(node, "axis")};
    break;
  case Op::RandomBits:
    break;
  case Op::Sort:
  case Op::TopK:
    expr.axes = {intAttribute(node, "axis")};
    expr.descending = intAttribute(node, op == Op::Sort ? "descending" : "largest") != 0;
    break;
  case Op::TakeNd:
    known = at(operands[1]).dims.back().isNumber();
    break;
  default:
    known = elementwiseCost(op).has_value();
  }
  return known ? append(std::move(expr)) : 0;
}

ExprId Expansion::gelu(ExprId x) {
  if (stringAttribute(node, "approximate") != "tanh")
    return make(Op::Gelu, {x});
  // Computed as x * logistic(2 u), because the equal x * (1 + tanh(u)) / 2 cancels for negative u.
  ExprId square = make(Op::Mul, {x, x});
  ExprId poly =
      make(Op::MulAdd, {square, literal(x, 2 * 0.7978845608028654 * 0.044715), literal(x, 2 * 0.7978845608028654)});
  return make(Op::Mul, {x, make(Op::Logistic, {make(Op::Mul, {x, poly})})});
}

// The i64[n] tensor of extents, as a concatenation of n numbers.
ExprId Expansion::extents() {
  Expr all;
  all.op = Op::Concatenate;
  all.dtype = MORTISE_I64;
  all.axes = {0};
  for (const Dim &dim : dimsAttribute(node, "shape")) {
    Expr one;
    one.op = Op::Extent;
    one.dtype = MORTISE_I64;
    one.dims = {1};
    one.extent = dim.isNumber() ? dim : simplify(dim, dag.symbols);
    all.operands.push_back(append(std::move(one)));
  }
  all.dims = {static_cast<int64_t>(all.operands.size())};
  return append(std::move(all));
}

bool Expansion::run(ExprId &result) {
  const Op op = static_cast<Op>(opOf(node));
  int32_t dtype = node.results[0]->type->dtype;
  bool known = true;
  auto lastAxes = [&] {
    std::vector<int64_t> axes;
    for (int64_t i = intAttribute(node, "axis"); i < static_cast<int64_t>(at(operands[0]).dims.size()); ++i)
      axes.push_back(i);
    return axes;
  };
  if (isReduction(op) && !has(op, Trait::Composite)) {
    std::vector<int64_t> axes = isArg(op) ? std::vector{intAttribute(node, "axis")} : ints(node, "axes");
    result = axes.empty() ? make(Op::Keep, {operands[0]}) : reduce(op, operands[0], axes, dtype);
    return true;
  }
  switch (op) {
  case Op::Constant: {
    const MortiseAttribute *value = findAttribute(node, "value");
    Expr expr;
    expr.op = Op::Constant;
    expr.dtype = dtype;
    expr.dims = dimsOf(*node.results[0]->type);
    expr.data = static_cast<const std::byte *>(value->tensor_data);
    expr.bytes = value->count;
    result = append(std::move(expr));
    break;
  }
  case Op::Dot:
    result = product(ints(node, "lhs_batch"), ints(node, "rhs_batch"), ints(node, "lhs_contract"),
                     ints(node, "rhs_contract"));
    break;
  case Op::Linear:
    result = linear();
    break;
  case Op::Convolution:
    result = convolution(known);
    break;
  case Op::MaxPool:
  case Op::SumPool:
    result = pool(op == Op::MaxPool);
    break;
  case Op::Mean: {
    ExprId x = widened(operands[0]);
    Dim n = 1;
    for (int64_t axis : ints(node, "axes"))
      n *= at(x).dims[axis];
    ExprId sum = ints(node, "axes").empty() ? x : reduce(Op::ReduceSum, x, ints(node, "axes"));
    result = keepAs(make(Op::Div, {sum, literal(sum, n)}), dtype);
    break;
  }
  case Op::Silu: {
    ExprId x = widened(operands[0]);
    result = keepAs(make(Op::Mul, {x, make(Op::Logistic, {x})}), dtype);
    break;
  }
  case Op::Gelu:
    result = keepAs(gelu(widened(operands[0])), dtype);
    break;
  case Op::Softmax:
  case Op::LogSoftmax:
    result = keepAs(softmax(op == Op::LogSoftmax), dtype);
    break;
  case Op::LayerNorm: {
    std::vector<int64_t> axes = lastAxes();
    result = keepAs(affine(normalise(widened(operands[0]), axes, true), 1, 2, axes), dtype);
    break;
  }
  case Op::RmsNorm: {
    std::vector<int64_t> axes = lastAxes();
    result = keepAs(affine(normalise(widened(operands[0]), axes, false), 1, ~0u, axes), dtype);
    break;
  }
  case Op::GroupNorm:
    result = keepAs(groupNorm(), dtype);
    break;
  case Op::BatchNorm:
    result = keepAs(batchNorm(), dtype);
    break;
  case Op::Extents:
    result = extents();
    break;
  case Op::Searchsorted:
    result = searchsorted(known);
    break;
  case Op::Put:
  case Op::ScatterAlong:
  case Op::ScatterNd:
    result = update(known);
    break;
  default:
    result = shaped(op, known);
  }
  return known;
}

bool expandsAlways(mortise::Op op) {
  return op == mortise::Op::Constant || has(op, Trait::View) ||
         (has(op, Trait::Reduction) && !has(op, Trait::Composite)) || op == mortise::Op::Dot ||
         op == mortise::Op::Linear || elementwiseCost(static_cast<Op>(op));
}

bool expandNode(Dag &dag, const MortiseNode &node, const std::vector<ExprId> &operands, ExprId &result) {
  return Expansion(dag, node, operands).run(result);
}

} // namespace mortise::codegen
