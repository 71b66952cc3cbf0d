// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What groups can compute.
#include "expr.hpp"

namespace mortise::codegen {

static Support refuse(MortiseReason reason, std::string detail) { return {false, reason, std::move(detail)}; }

Support supports(const MortiseNode &node) {
  std::string_view op = node.op;
  static constexpr std::string_view elsewhere[] = {"attention", "linear", "dot", "convolution", "max_pool", "sum_pool"};
  if (!op.starts_with("mortise."))
    return refuse(MORTISE_REASON_OP, "generated groups know the mortise ops only, found " + std::string(op));
  for (std::string_view name : elsewhere)
    if (op.substr(8) == name)
      return refuse(MORTISE_REASON_OP,
                    "no generated loop for " + std::string(name) + ": use a library call or its decomposition");
  if (node.result_count != 1)
    return refuse(MORTISE_REASON_OP, "expected one result, found " + std::to_string(node.result_count));
  auto check = [&](const MortiseValue *value) -> Support {
    if (!value)
      return {};
    int32_t dtype = value->type->dtype;
    if (dtype == MORTISE_F8E4M3FN || dtype == MORTISE_F8E5M2 || dtype == MORTISE_I4 || !dtypeBits(dtype))
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
    return refuse(MORTISE_REASON_OP, "no generated loop for " + std::string(op));
  return {};
}

} // namespace mortise::codegen
