// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Nodes as expressions: composites expanded, products and windows over index maps.
#include "graph/expr.hpp"

#include <mortise/codegen/simt.hpp>

#include <algorithm>
#include <bit>
#include <limits>
#include <string_view>

namespace mortise::codegen {

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
  ExprId withoutCommon(ExprId id, std::vector<ExprId> &common);
  ExprId product(const std::vector<int64_t> &lhsBatch, const std::vector<int64_t> &rhsBatch,
                 const std::vector<int64_t> &lhsSummed, const std::vector<int64_t> &rhsSummed);
  ExprId linear();
  ExprId window(ExprId operand, std::vector<Dim> dims, std::vector<int64_t> axes, std::vector<int64_t> steps);
  ExprId padded(ExprId x, double real, int64_t integer, size_t firstSpatial = 2);
  ExprId convolution(bool &known);
  ExprId convolutionOfLast();
  ExprId pool(bool largest);
  ExprId softmax(bool log);
  ExprId normalise(ExprId x, const std::vector<int64_t> &axes, bool centred);
  ExprId affine(ExprId x, size_t scale, size_t bias, const std::vector<int64_t> &axes);
  ExprId groupNorm();
  ExprId batchNorm();
  ExprId extents();
  ExprId compare(ExprId lhs, Direction direction, ExprId rhs);
  ExprId choose(ExprId condition, ExprId then, ExprId otherwise);
  ExprId isBelow(ExprId lhs, ExprId rhs);
  ExprId searchsorted(bool &known);
  ExprId index(ExprId raw, const Dim &extent, ExprId &isInside);
  ExprId update(bool &known);
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

// What is left of an operand of a product without factors that are one number for all of it, which are appended to
// `common`. Only what a reduction of the group leads to is such a factor: the scale of a row's norm, so that
// sum(w * (x * f)) becomes f * sum(w * x), and f is computed beside the sum, not before it.
ExprId Expansion::withoutCommon(ExprId id, std::vector<ExprId> &common) {
  const Op op = at(id).op;
  if (!at(id).reductions || (op != Op::Keep && op != Op::Reshape && op != Op::Mul))
    return id;
  const std::vector<ExprId> operands = at(id).operands;
  const size_t before = common.size();
  std::vector<ExprId> left;
  for (const ExprId operand : operands)
    if (op == Op::Mul && at(operand).op == Op::Broadcast && at(operand).reductions &&
        elementCount(at(at(operand).operands[0]).dims) == Dim(1))
      common.push_back(at(operand).operands[0]);
    else
      left.push_back(withoutCommon(operand, common));
  if (left.empty())
    common.resize(before);
  if (common.size() == before)
    return id;
  if (op == Op::Reshape)
    return reshape(left[0], at(id).dims);
  return left.size() == 1 ? left[0] : make(Op::Mul, left); // Keep rounds nothing
}

// A sum of products over the space of the batch dimensions, those of one operand alone, and those that are summed:
// these are the innermost ones where rhs has them so in memory, else they stand before what only rhs has.
ExprId Expansion::product(const std::vector<int64_t> &lhsBatch, const std::vector<int64_t> &rhsBatch,
                          const std::vector<int64_t> &lhsSummed, const std::vector<int64_t> &rhsSummed) {
  dag.product = true;
  std::vector<ExprId> common;
  const bool isSum = !lhsSummed.empty();
  const ExprId lhs = isSum ? withoutCommon(operands[0], common) : operands[0],
               rhs = isSum ? withoutCommon(operands[1], common) : operands[1];
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
  // Plugins rewrite products of converted numbers, whose result is wider than its operands.
  const int32_t dtype = node.results[0]->type->dtype;
  const ExprId products =
      make(Op::Mul, {broadcast(keepAs(lhs, dtype), dims, lhsAxes), broadcast(keepAs(rhs, dtype), dims, rhsAxes)});
  if (summed.empty()) // a sum of one term, which begins at +0
    return make(Op::Add, {products, literal(products, 0.0)});
  ExprId sum = reduce(Op::ReduceSum, products, summed);
  for (const ExprId factor : common)
    sum = make(Op::Mul, {sum, broadcast(keepAs(reshape(factor, {}), dtype), at(sum).dims, {})});
  return sum;
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
ExprId Expansion::padded(ExprId x, double real, int64_t integer, size_t firstSpatial) {
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
    pad.starts[i + firstSpatial] = low[i];
    pad.dims[i + firstSpatial] += low[i] + high[i];
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

// Of channels last (channelsLastAttribute), over the space N, positions, O, window, C.
ExprId Expansion::convolutionOfLast() {
  const std::vector<Dim> result = dimsOf(*node.results[0]->type), weights = at(operands[1]).dims;
  const std::vector<int64_t> strides = ints(node, "strides"), dilations = ints(node, "dilations");
  const auto spatial = static_cast<int64_t>(strides.size());
  const int64_t outputs = spatial + 1, inputs = 2 * spatial + 2; // axes of the space
  dag.product = true;
  std::vector<Dim> dims = result;
  dims.insert(dims.end(), weights.begin() + 1, weights.end());
  std::vector<int64_t> xAxes{0, -1}, xSteps{1, 0}, weightAxes{outputs, -1}, weightSteps{1, 0}, summed;
  for (int64_t i = 0; i < spatial; ++i) {
    const int64_t offset = outputs + 1 + i;
    summed.push_back(offset);
    xAxes.insert(xAxes.end(), {1 + i, offset}), xSteps.insert(xSteps.end(), {strides[i], dilations[i]});
    weightAxes.insert(weightAxes.end(), {offset, -1}), weightSteps.insert(weightSteps.end(), {1, 0});
  }
  summed.push_back(inputs);
  for (auto *axes : {&xAxes, &weightAxes})
    axes->insert(axes->end(), {inputs, -1});
  for (auto *steps : {&xSteps, &weightSteps})
    steps->insert(steps->end(), {1, 0});
  const int32_t dtype = node.results[0]->type->dtype;
  const ExprId x = window(padded(operands[0], 0, 0, 1), dims, xAxes, xSteps),
               weight = window(operands[1], dims, weightAxes, weightSteps);
  return reduce(Op::ReduceSum, make(Op::Mul, {keepAs(x, dtype), keepAs(weight, dtype)}), summed);
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
  const size_t bits = std::clamp<size_t>(dtypeBits(dtype), 1, 64); // clang-analyzer takes 0 for possible
  const int64_t least = isUnsigned(dtype) || isFloat(dtype) ? 0 : -1 - (INT64_MAX >> (64 - bits));
  const ExprId x =
      largest ? padded(operands[0], -std::numeric_limits<double>::infinity(), least) : padded(operands[0], 0, 0);
  return reduce(largest ? Op::ReduceMax : Op::ReduceSum, window(x, dims, axes, steps), summed);
}

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
  std::vector<Dim> strides(dims.size());
  Dim stride = 1;
  for (size_t i = dims.size(); i-- > 0; stride *= dims[i])
    strides[i] = stride;
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
    result = intAttribute(node, channelsLastAttribute) ? convolutionOfLast() : convolution(known);
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

} // namespace

bool expandsAlways(mortise::Op op) {
  return op == mortise::Op::Constant || has(op, Trait::View) ||
         (has(op, Trait::Reduction) && !has(op, Trait::Composite)) || op == mortise::Op::Dot ||
         op == mortise::Op::Linear || elementwiseCost(static_cast<Op>(op));
}

bool expandNode(Dag &dag, const MortiseNode &node, const std::vector<ExprId> &operands, ExprId &result) {
  return Expansion(dag, node, operands).run(result);
}

} // namespace mortise::codegen
