// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "graph/expr.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace mortise::codegen {

int cost(const Expr &expr) {
  switch (expr.op) {
  case Op::Constant:
  case Op::Extent:
  case Op::Reshape:
  case Op::Transpose:
  case Op::Broadcast:
  case Op::Slice:
  case Op::Reverse:
  case Op::Iota:
  case Op::Window:
    return 0;
  case Op::Concatenate:
  case Op::Pad:
  case Op::Take:
  case Op::TakeAlong:
  case Op::TakeNd:
    return 5;
  default:
    return elementwiseCost(expr.op).value_or(1);
  }
}

namespace {

std::vector<int64_t> ints(const MortiseNode &node, const char *name) {
  auto span = intsAttribute(node, name);
  return {span.begin(), span.end()};
}

// Expands one node. The helpers append an expression and return its id.
class Expansion {
public:
  Expansion(Dag &dag, const MortiseNode &node, const std::vector<ExprId> &operands)
      : dag(dag), node(node), operands(operands) {}

  bool run(ExprId &result);

private:
  ExprId append(Expr expr) {
    for (ExprId operand : expr.operands)
      expr.reductions |= dag.exprs[operand].reductions;
    expr.reductions |= isReduction(expr.op) || isRunning(expr.op);
    for (std::vector<Dim> *list : {&expr.dims, &expr.starts})
      for (Dim &dim : *list)
        if (!dim.isNumber())
          dim = simplify(dim, dag.symbols);
    dag.exprs.push_back(std::move(expr));
    return static_cast<ExprId>(dag.exprs.size() - 1);
  }
  const Expr &at(ExprId id) const { return dag.exprs[id]; }
  // An elementwise op with the shape and dtype of its first operand.
  ExprId make(Op op, std::vector<ExprId> operands) {
    Expr expr;
    expr.op = op;
    expr.dtype = at(operands[0]).dtype;
    expr.dims = at(operands[0]).dims;
    expr.operands = std::move(operands);
    return append(std::move(expr));
  }
  ExprId literal(ExprId like, double value) {
    Expr expr;
    expr.op = Op::Constant;
    expr.dtype = at(like).dtype;
    expr.dims = at(like).dims;
    expr.real = value;
    expr.integer = static_cast<int64_t>(value);
    return append(std::move(expr));
  }
  ExprId literal(ExprId like, const Dim &extent) {
    if (extent.isNumber())
      return literal(like, static_cast<double>(*extent.number()));
    Expr expr;
    expr.op = Op::Extent;
    expr.dtype = at(like).dtype;
    expr.dims = at(like).dims;
    expr.extent = extent;
    return append(std::move(expr));
  }
  ExprId broadcast(ExprId operand, std::vector<Dim> dims, std::vector<int64_t> axes) {
    Expr expr;
    expr.op = Op::Broadcast;
    expr.dtype = at(operand).dtype;
    expr.dims = std::move(dims);
    expr.axes = std::move(axes);
    expr.operands = {operand};
    return append(std::move(expr));
  }
  ExprId reshape(ExprId operand, std::vector<Dim> dims) {
    Expr expr;
    expr.op = Op::Reshape;
    expr.dtype = at(operand).dtype;
    expr.dims = std::move(dims);
    expr.operands = {operand};
    return append(std::move(expr));
  }
  ExprId reduce(Op op, ExprId operand, const std::vector<int64_t> &axes, int32_t dtype = 0) {
    Expr expr;
    expr.op = op;
    expr.dtype = dtype ? dtype : at(operand).dtype;
    std::vector<bool> gone(at(operand).dims.size());
    for (int64_t axis : axes)
      gone[axis] = true;
    for (size_t i = 0; i < gone.size(); ++i)
      if (!gone[i])
        expr.dims.push_back(at(operand).dims[i]);
    expr.axes = axes;
    expr.operands = {operand};
    return append(std::move(expr));
  }
  // A reduction's result broadcast along the axes that were reduced.
  ExprId spread(ExprId reduced, const std::vector<Dim> &dims, const std::vector<int64_t> &axes) {
    std::vector<int64_t> kept;
    for (size_t i = 0, j = 0; i < dims.size(); ++i)
      if (j < axes.size() && axes[j] == static_cast<int64_t>(i))
        ++j;
      else
        kept.push_back(i);
    return broadcast(reduced, dims, kept);
  }
  // Composites of f16 and bf16 operands compute in f32.
  ExprId widened(ExprId operand) {
    return keepAs(operand, at(operand).dtype == MORTISE_F64 ? MORTISE_F64 : MORTISE_F32);
  }
  ExprId keepAs(ExprId operand, int32_t dtype) {
    if (at(operand).dtype == dtype)
      return operand;
    ExprId id = make(Op::Keep, {operand});
    dag.exprs[id].dtype = dtype;
    return id;
  }
  bool given(size_t i) const { return i < operands.size() && operands[i] != ~0u; }

  ExprId gelu(ExprId x);
  bool isInnermost(ExprId id, int64_t axis) const;
  ExprId product(const std::vector<int64_t> &lhsBatch, const std::vector<int64_t> &rhsBatch,
                 const std::vector<int64_t> &lhsSummed, const std::vector<int64_t> &rhsSummed);
  ExprId linear();
  ExprId window(ExprId operand, std::vector<Dim> dims, std::vector<int64_t> axes, std::vector<int64_t> steps);
  ExprId padded(ExprId x, double real, int64_t integer);
  ExprId convolution(bool &known);
  ExprId pool(bool largest);
  ExprId softmax(bool log);
  ExprId normalise(ExprId x, const std::vector<int64_t> &axes, bool centred);
  ExprId affine(ExprId x, size_t scale, size_t bias, const std::vector<int64_t> &axes);
  ExprId groupNorm();
  ExprId batchNorm();
  ExprId extents();
  ExprId shaped(Op op, bool &known);

  Dag &dag;
  const MortiseNode &node;
  const std::vector<ExprId> &operands;
};

ExprId Expansion::softmax(bool log) {
  ExprId x = widened(operands[0]);
  std::vector<Dim> dims = at(x).dims;
  std::vector<int64_t> axes{intAttribute(node, "axis")};
  ExprId shifted = make(Op::Sub, {x, spread(reduce(Op::ReduceFastMax, x, axes), dims, axes)});
  ExprId e = make(Op::Exp, {shifted});
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

// Whether neighbours along this dimension are neighbours in memory, as far as transposes tell.
bool Expansion::isInnermost(ExprId id, int64_t axis) const {
  while (at(id).op == Op::Transpose) {
    axis = at(id).axes[axis];
    id = at(id).operands[0];
  }
  const bool isView = at(id).op == Op::Input && !at(id).strides.empty(); // supports() knows no memory
  return isView ? at(id).strides[axis] == 1 : axis + 1 == static_cast<int64_t>(at(id).dims.size());
}

// A sum of products over the space of the batch dimensions, those of one operand alone, and those that are summed:
// these are the innermost ones where rhs has them so in memory, else they stand before what only rhs has.
ExprId Expansion::product(const std::vector<int64_t> &lhsBatch, const std::vector<int64_t> &rhsBatch,
                          const std::vector<int64_t> &lhsSummed, const std::vector<int64_t> &rhsSummed) {
  dag.product = true;
  const ExprId lhs = operands[0], rhs = operands[1];
  std::vector<Dim> dims;
  std::vector<int64_t> lhsAxes(at(lhs).dims.size(), -1), rhsAxes(at(rhs).dims.size(), -1), summed;
  const auto place = [&](ExprId operand, std::vector<int64_t> &axes, int64_t axis) {
    axes[axis] = static_cast<int64_t>(dims.size());
    dims.push_back(at(operand).dims[axis]);
  };
  const auto placeRest = [&](ExprId operand, std::vector<int64_t> &axes, const std::vector<int64_t> &others) {
    for (size_t i = 0; i < axes.size(); ++i)
      if (axes[i] < 0 && std::ranges::find(others, static_cast<int64_t>(i)) == others.end())
        place(operand, axes, static_cast<int64_t>(i));
  };
  const auto placeSummed = [&] {
    for (size_t i = 0; i < lhsSummed.size(); ++i) {
      summed.push_back(static_cast<int64_t>(dims.size()));
      rhsAxes[rhsSummed[i]] = static_cast<int64_t>(dims.size());
      place(lhs, lhsAxes, lhsSummed[i]);
    }
  };
  for (size_t i = 0; i < lhsBatch.size(); ++i) {
    rhsAxes[rhsBatch[i]] = static_cast<int64_t>(dims.size());
    place(lhs, lhsAxes, lhsBatch[i]);
  }
  placeRest(lhs, lhsAxes, lhsSummed);
  const bool last = std::ranges::any_of(rhsSummed, [&](int64_t axis) { return isInnermost(rhs, axis); });
  if (!last)
    placeSummed();
  placeRest(rhs, rhsAxes, rhsSummed);
  if (last)
    placeSummed();
  const ExprId products = make(Op::Mul, {broadcast(lhs, dims, lhsAxes), broadcast(rhs, dims, rhsAxes)});
  if (summed.empty()) // a sum of one term, which begins at +0
    return make(Op::Add, {products, literal(products, 0.0)});
  return reduce(Op::ReduceSum, products, summed);
}

ExprId Expansion::linear() {
  const auto rank = static_cast<int64_t>(at(operands[0]).dims.size());
  const bool isTransposed = intAttribute(node, "weight_transposed") != 0; // stored [K, N]
  const ExprId sum = product({}, {}, {rank - 1}, {isTransposed ? 0 : 1});
  return given(2) ? make(Op::Add, {sum, broadcast(operands[2], at(sum).dims, {rank - 1})}) : sum;
}

ExprId Expansion::window(ExprId operand, std::vector<Dim> dims, std::vector<int64_t> axes, std::vector<int64_t> steps) {
  Expr expr;
  expr.op = Op::Window;
  expr.dtype = at(operand).dtype;
  expr.dims = std::move(dims);
  expr.axes = std::move(axes);
  expr.steps = std::move(steps);
  expr.operands = {operand};
  return append(std::move(expr));
}

// With the node's padding along the spatial dimensions, where it has any: the number of the two that fits the dtype.
ExprId Expansion::padded(ExprId x, double real, int64_t integer) {
  const std::vector<int64_t> low = ints(node, "low"), high = ints(node, "high");
  const auto isZero = [](int64_t pad) { return pad == 0; };
  if (std::ranges::all_of(low, isZero) && std::ranges::all_of(high, isZero))
    return x;
  Expr padding;
  padding.op = Op::Constant;
  padding.dtype = at(x).dtype;
  padding.real = real;
  padding.integer = integer;
  Expr pad;
  pad.op = Op::Pad;
  pad.dtype = at(x).dtype;
  pad.dims = at(x).dims;
  pad.starts.assign(pad.dims.size(), 0);
  pad.steps.assign(pad.dims.size(), 0);
  for (size_t i = 0; i < low.size(); ++i) {
    pad.starts[i + 2] = low[i];
    pad.dims[i + 2] += low[i] + high[i];
  }
  pad.operands = {x, append(std::move(padding))};
  return append(std::move(pad));
}

// A sum of products over the space N, groups, O / groups, C / groups, window, positions: the positions stand last,
// because that is how the tensors lie.
ExprId Expansion::convolution(bool &known) {
  const std::vector<Dim> result = dimsOf(*node.results[0]->type), weights = at(operands[1]).dims;
  const std::vector<int64_t> strides = ints(node, "strides"), dilations = ints(node, "dilations");
  const int64_t groups = intAttribute(node, "groups");
  const auto spatial = static_cast<int64_t>(strides.size());
  const std::optional<int64_t> outputs = result[1].number(), inputs = weights[1].number(); // `inputs`: of a group
  known = groups == 1 || (outputs && inputs);
  if (!known)
    return 0;
  dag.product = true;
  std::vector<Dim> dims{result[0]};
  std::vector<int64_t> xAxes{0, -1}, xSteps{1, 0}, weightAxes, weightSteps;
  if (groups > 1) {
    dims.insert(dims.end(), {groups, *outputs / groups, *inputs});
    xAxes.insert(xAxes.end(), {1, 3}), xSteps.insert(xSteps.end(), {*inputs, 1});
    weightAxes = {1, 2, 3, -1}, weightSteps = {*outputs / groups, 1, 1, 0};
  } else {
    dims.insert(dims.end(), {result[1], weights[1]});
    xAxes.insert(xAxes.end(), {2, -1}), xSteps.insert(xSteps.end(), {1, 0});
    weightAxes = {1, -1, 2, -1}, weightSteps = {1, 0, 1, 0};
  }
  const auto first = static_cast<int64_t>(dims.size()); // of the window
  std::vector<int64_t> summed{first - 1};
  for (int64_t i = 0; i < spatial; ++i) {
    summed.push_back(first + i);
    xAxes.insert(xAxes.end(), {first + spatial + i, first + i}),
        xSteps.insert(xSteps.end(), {strides[i], dilations[i]});
    weightAxes.insert(weightAxes.end(), {first + i, -1}), weightSteps.insert(weightSteps.end(), {1, 0});
  }
  dims.insert(dims.end(), weights.begin() + 2, weights.end());
  dims.insert(dims.end(), result.begin() + 2, result.end());
  const ExprId x = window(padded(operands[0], 0, 0), dims, xAxes, xSteps);
  const ExprId sum =
      reduce(Op::ReduceSum, make(Op::Mul, {x, window(operands[1], dims, weightAxes, weightSteps)}), summed);
  return groups > 1 ? reshape(sum, result) : sum;
}

// A reduction over the space N, C, window, positions.
ExprId Expansion::pool(bool largest) {
  const std::vector<Dim> result = dimsOf(*node.results[0]->type);
  const std::vector<int64_t> extents = ints(node, "window"), strides = ints(node, "strides"),
                             dilations = ints(node, "dilations");
  const auto spatial = static_cast<int64_t>(extents.size());
  std::vector<Dim> dims{result[0], result[1]};
  std::vector<int64_t> axes{0, -1, 1, -1}, steps{1, 0, 1, 0}, summed;
  for (int64_t i = 0; i < spatial; ++i) {
    summed.push_back(2 + i);
    dims.push_back(extents[i]);
    axes.insert(axes.end(), {2 + spatial + i, 2 + i}), steps.insert(steps.end(), {strides[i], dilations[i]});
  }
  dims.insert(dims.end(), result.begin() + 2, result.end());
  const int32_t dtype = at(operands[0]).dtype;
  const int64_t least = isUnsigned(dtype) || isFloat(dtype) ? 0 : -1 - (INT64_MAX >> (64 - dtypeBits(dtype)));
  const ExprId x =
      largest ? padded(operands[0], -std::numeric_limits<double>::infinity(), least) : padded(operands[0], 0, 0);
  return reduce(largest ? Op::ReduceMax : Op::ReduceSum, window(x, dims, axes, steps), summed);
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
  case Op::Put:
    expr.add = stringAttribute(node, "mode") == "add";
    [[fallthrough]];
  case Op::Iota:
  case Op::Concatenate:
  case Op::TakeAlong:
  case Op::Cumsum:
  case Op::Cumprod:
    expr.axes = {intAttribute(node, "axis")};
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
  default:
    result = shaped(op, known);
  }
  return known;
}

void describe(std::string &key, const Dim &dim) {
  auto raw = [&](const void *data, size_t size) { key.append(static_cast<const char *>(data), size); };
  if (auto number = dim.number()) {
    key += '#';
    raw(&*number, 8);
    return;
  }
  std::vector<MortiseExprStep> steps = dim.steps();
  uint32_t size = steps.size();
  key += '$';
  raw(&size, 4);
  for (const MortiseExprStep &step : steps)
    raw(&step.op, 4), raw(&step.value, 8);
}

void describe(std::string &key, const Expr &expr) {
  auto raw = [&](const void *data, size_t size) { key.append(static_cast<const char *>(data), size); };
  auto list = [&](const auto &items) {
    uint32_t size = items.size();
    raw(&size, 4);
    for (const auto &item : items)
      describe(key, Dim(item));
  };
  raw(&expr.op, sizeof(expr.op));
  key += static_cast<char>(expr.dtype);
  key += static_cast<char>(expr.direction);
  key += static_cast<char>(expr.add);
  uint32_t size = expr.operands.size();
  raw(&size, 4);
  raw(expr.operands.data(), size * 4);
  list(expr.dims), list(expr.axes), list(expr.starts), list(expr.steps), list(expr.strides);
  raw(&expr.real, 8), raw(&expr.integer, 8), raw(&expr.slot, 4), raw(&expr.bytes, 8);
  describe(key, expr.offset), describe(key, expr.extent);
  if (expr.bytes)
    raw(expr.data, expr.bytes);
}

} // namespace

bool expandsAlways(mortise::Op op) {
  return op == mortise::Op::Constant || has(op, Trait::View) ||
         (has(op, Trait::Reduction) && !has(op, Trait::Composite)) || op == mortise::Op::Dot ||
         op == mortise::Op::Linear || elementwiseCost(static_cast<Op>(op));
}

bool expandNode(Dag &dag, const MortiseNode &node, const std::vector<ExprId> &operands, ExprId &result) {
  return Expansion(dag, node, operands).run(result);
}

// Appends the ranges of the symbols that occur: the code relies on them, so they are part of the key.
static void describeSymbols(Dag &dag) {
  if (dag.symbols.empty())
    return;
  std::set<uint32_t> used;
  for (const Expr &expr : dag.exprs) {
    for (const std::vector<Dim> *list : {&expr.dims, &expr.starts, &expr.strides})
      for (const Dim &dim : *list)
        dim.collectSymbols(used);
    expr.offset.collectSymbols(used), expr.extent.collectSymbols(used);
  }
  for (uint32_t number : used)
    if (number < dag.symbols.size()) {
      dag.usedSymbols.push_back(number);
      const SymbolRange &range = dag.symbols[number];
      for (int64_t item : {int64_t(number), range.min, range.max, range.divisor})
        describe(dag.key, Dim(item));
    }
}

std::vector<uint32_t> depthFirst(const MortiseGraph &graph, std::span<const uint32_t> nodes,
                                 std::span<const uint32_t> outputs) {
  std::unordered_map<uint32_t, bool> met; // of `nodes`
  for (uint32_t node : nodes)
    met.emplace(node, false);
  std::vector<uint32_t> order;
  std::vector<std::pair<uint32_t, size_t>> path; // node, the operand to visit next
  auto visit = [&](const MortiseValue *value) {
    if (!value || !value->producer)
      return;
    if (auto found = met.find(value->producer->index); found != met.end() && !std::exchange(found->second, true))
      path.emplace_back(found->first, 0);
  };
  for (uint32_t output : outputs) {
    visit(graph.values[output]);
    while (!path.empty()) {
      auto &[number, next] = path.back();
      if (const MortiseNode &node = *graph.nodes[number]; next < node.operand_count) {
        visit(node.operands[next++]);
      } else {
        order.push_back(number);
        path.pop_back();
      }
    }
  }
  return order;
}

Result<Dag> buildDag(const MortiseGraph &graph, const Group &group) {
  Dag dag;
  dag.symbols = symbolRanges(graph);
  std::unordered_map<uint32_t, ExprId> known; // graph value -> expression
  for (size_t i = 0; i < group.inputs.size(); ++i) {
    const MortiseType &type = *graph.values[group.inputs[i]]->type;
    View view = i < group.inputViews.size() ? group.inputViews[i] : denseView(*graph.values[group.inputs[i]]);
    Expr expr;
    expr.op = Op::Input;
    expr.dtype = type.dtype;
    auto reduced = [&](const Dim &dim) { return dim.isNumber() ? dim : simplify(dim, dag.symbols); };
    for (const Dim &dim : view.dims)
      expr.dims.push_back(reduced(dim));
    for (const Dim &stride : view.strides)
      expr.strides.push_back(reduced(stride));
    expr.offset = reduced(view.offset);
    expr.slot = i;
    known[group.inputs[i]] = dag.exprs.size();
    dag.exprs.push_back(std::move(expr));
  }
  for (uint32_t n : depthFirst(graph, group.nodes, group.outputs)) {
    const MortiseNode &node = *graph.nodes[n];
    if (known.count(node.results[0]->index)) // an input that one of the group's nodes also computes
      continue;
    std::vector<ExprId> operands;
    for (size_t i = 0; i < node.operand_count; ++i) {
      if (!node.operands[i]) {
        operands.push_back(~0u);
        continue;
      }
      auto found = known.find(node.operands[i]->index);
      if (found == known.end())
        return Error{MORTISE_INVALID_ARGUMENT, "node " + std::to_string(n) + " (" + node.op +
                                                   ") reads a value that is neither an input of its "
                                                   "group nor computed in it"};
      operands.push_back(found->second);
    }
    ExprId result;
    if (Support support = supports(node, true); !support.yes || !expandNode(dag, node, operands, result))
      return Error{MORTISE_UNSUPPORTED, std::string("groups cannot compute ") + node.op + ": " + support.detail};
    known[node.results[0]->index] = result;
  }
  for (uint32_t output : group.outputs) {
    if (!known.count(output))
      return Error{MORTISE_INVALID_ARGUMENT, "a group does not compute its output value " + std::to_string(output)};
    dag.roots.push_back(known[output]);
  }
  for (const Expr &expr : dag.exprs)
    describe(dag.key, expr);
  describeSymbols(dag);
  dag.key.append(reinterpret_cast<const char *>(dag.roots.data()), dag.roots.size() * 4);
  if (dag.product) // which fuse() does not group as it does the same sum spelled out
    dag.key += 'p';
  return dag;
}

} // namespace mortise::codegen
