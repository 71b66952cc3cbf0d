// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which ops only rename elements, and what groups can compute.
#include "expr.hpp"

#include <algorithm>

namespace mortise::codegen {

Dim dimOf(int64_t number, const MortiseExpr *expr) {
  if (number != MORTISE_DYNAMIC)
    return number;
  Result<Dim> dim = expr ? Dim::from(*expr, SIZE_MAX) : Result<Dim>(Error{MORTISE_INVALID_ARGUMENT, ""});
  return dim ? *dim : Dim::invalid();
}

std::vector<Dim> dimsOf(const MortiseType &type) {
  std::vector<Dim> dims;
  dims.reserve(type.rank);
  for (int32_t i = 0; i < type.rank; ++i)
    dims.push_back(dimOf(type.dims[i], type.dim_exprs ? type.dim_exprs + i : nullptr));
  return dims;
}

std::vector<SymbolRange> symbolsOf(const MortiseGraph &graph) {
  std::vector<SymbolRange> ranges;
  for (size_t i = 0; i < graph.symbol_count; ++i)
    ranges.push_back({graph.symbols[i]->min, graph.symbols[i]->max, graph.symbols[i]->divisor});
  return ranges;
}

std::vector<Dim> dimsAttribute(const MortiseNode &node, std::string_view name) {
  std::vector<Dim> dims;
  if (const MortiseAttribute *found = findAttribute(node, name))
    for (size_t i = 0; i < found->count; ++i)
      dims.push_back(dimOf(found->i64s[i], found->exprs ? found->exprs + i : nullptr));
  return dims;
}

// min(extent - 1, 1) steps, where the extent may be 1 or that of the result.
Dim repetition(const Dim &from, const Dim &to) {
  return from == 1 ? Dim(0) : from == to || from.isNumber() ? Dim(1) : min(from - 1, Dim(1));
}

View denseView(const MortiseValue &value) {
  View view;
  view.base = value.index;
  view.dims = dimsOf(*value.type);
  view.strides.resize(view.dims.size());
  if (value.type->strides) {
    view.strides.assign(value.type->strides, value.type->strides + value.type->rank);
  } else {
    Dim stride = 1;
    for (size_t i = view.dims.size(); i-- > 0; stride *= view.dims[i] == 0 ? Dim(1) : view.dims[i])
      view.strides[i] = stride;
  }
  return view;
}

// Splits and merges dimensions block by block; merging needs outer stride = inner stride * inner extent.
static bool reshapeStrides(const View &from, const std::vector<Dim> &to, std::vector<Dim> &strides) {
  strides.assign(to.size(), 0);
  std::vector<Dim> dims,
      steps; // from, without extents of 1, merged where contiguous
  for (size_t i = 0; i < from.dims.size(); ++i) {
    if (from.dims[i] == 0)
      return false;
    if (from.dims[i] == 1)
      continue;
    if (!dims.empty() && steps.back() == from.strides[i] * from.dims[i]) {
      dims.back() *= from.dims[i];
      steps.back() = from.strides[i];
    } else {
      dims.push_back(from.dims[i]);
      steps.push_back(from.strides[i]);
    }
  }
  size_t block = dims.size();
  Dim left = 1, stride = 0;
  for (size_t j = to.size(); j-- > 0;) {
    if (to[j] == 1) {
      strides[j] = 0;
      continue;
    }
    if (left == 1) {
      if (block == 0)
        return false;
      --block;
      left = dims[block];
      stride = steps[block];
    }
    if (!(mod(left, to[j]) == 0)) // also where that is not known, and where to[j] is 0
      return false;
    strides[j] = stride;
    stride *= to[j];
    left = floorDiv(left, to[j]);
  }
  return left == 1;
}

std::optional<View> viewThrough(const MortiseNode &node, const View &operand) {
  if (node.operand_count != 1 || node.result_count != 1)
    return std::nullopt;
  View view = operand;
  const MortiseType &type = *node.results[0]->type;
  view.dims = dimsOf(type);
  view.strides.assign(view.dims.size(), 0);
  if (isOp(node, mortise::Op::Reshape)) {
    if (!reshapeStrides(operand, view.dims, view.strides))
      return std::nullopt;
  } else if (isOp(node, mortise::Op::Transpose)) {
    auto permutation = intsAttribute(node, "permutation");
    for (size_t i = 0; i < view.dims.size(); ++i)
      view.strides[i] = operand.strides[permutation[i]];
  } else if (isOp(node, mortise::Op::Broadcast)) {
    auto axes = intsAttribute(node, "axes");
    for (size_t i = 0; i < axes.size(); ++i)
      view.strides[axes[i]] = operand.strides[i] * repetition(operand.dims[i], view.dims[axes[i]]);
  } else if (isOp(node, mortise::Op::Slice)) {
    std::vector<Dim> starts = dimsAttribute(node, "starts");
    auto steps = intsAttribute(node, "strides");
    for (size_t i = 0; i < view.dims.size(); ++i) {
      view.strides[i] = operand.strides[i] * steps[i];
      view.offset += operand.strides[i] * starts[i];
    }
  } else {
    return std::nullopt;
  }
  return view;
}

static Support refuse(MortiseReason reason, std::string detail) { return {false, reason, std::move(detail)}; }

Support supports(const MortiseNode &node) {
  const mortise::Op op = opOf(node);
  if (op == mortise::Op::Unknown)
    return refuse(MORTISE_REASON_OP, std::string("generated groups know the mortise ops only, found ") + node.op);
  if (has(op, Trait::Contraction, Trait::Window))
    return refuse(MORTISE_REASON_OP,
                  std::string("no generated loop for ") + node.op + ": use a library call or its decomposition");
  if (node.result_count != 1)
    return refuse(MORTISE_REASON_OP, "expected one result, found " + std::to_string(node.result_count));
  auto check = [&](const MortiseValue *value) -> Support {
    if (!value)
      return {};
    int32_t dtype = value->type->dtype;
    if (dtypeBits(dtype) < (isFloat(dtype) ? 16U : 8U)) // unknown ones too
      return refuse(MORTISE_REASON_DTYPE,
                    std::string("generated loops have no ") + dtypeName(dtype) + ": convert to f16 or i8 first");
    if (value->type->rank > 16)
      return refuse(MORTISE_REASON_RANK, "at most 16 dimensions, found " + std::to_string(value->type->rank));
    for (int32_t i = 0; i < value->type->rank; ++i)
      if (!dimOf(value->type->dims[i], value->type->dim_exprs ? value->type->dim_exprs + i : nullptr).isValid())
        return refuse(MORTISE_REASON_NEEDS_STATIC, "an extent's expression is none in " + typeString(*value->type));
    return {};
  };
  for (size_t i = 0; i < node.operand_count; ++i)
    if (Support support = check(node.operands[i]); !support.yes)
      return support;
  if (Support support = check(node.results[0]); !support.yes)
    return support;
  if (expandsAlways(op))
    return {};
  // What `expandNode` knows, by asking it.
  Dag dag;
  std::vector<ExprId> operands;
  for (size_t i = 0; i < node.operand_count; ++i) {
    if (!node.operands[i]) {
      operands.push_back(~0u);
      continue;
    }
    Expr expr;
    expr.dtype = node.operands[i]->type->dtype;
    expr.dims = dimsOf(*node.operands[i]->type);
    operands.push_back(dag.exprs.size());
    dag.exprs.push_back(std::move(expr));
  }
  ExprId result;
  if (!expandNode(dag, node, operands, result))
    return refuse(MORTISE_REASON_OP, std::string("no generated loop for ") + node.op);
  return {};
}

} // namespace mortise::codegen
