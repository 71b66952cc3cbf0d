// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One node as expressions: what the files of expansions share (expand.cpp, expand_products.cpp, expand_updates.cpp).
#pragma once

#include "graph/expr.hpp"

namespace mortise::codegen {

inline std::vector<int64_t> ints(const MortiseNode &node, const char *name) {
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

} // namespace mortise::codegen
