// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which nodes groups can compute.
#include "graph/expr.hpp"

#include <mortise/codegen/simt.hpp>

namespace mortise::codegen {

static Support refuse(MortiseReason reason, std::string detail) { return {false, reason, std::move(detail)}; }

// Appends the expressions of the node, over operands that are inputs. False when there are none.
static bool expandAlone(Dag &dag, const MortiseNode &node, ExprId &result) {
  std::vector<ExprId> operands;
  for (size_t i = 0; i < node.operand_count; ++i) {
    if (!node.operands[i]) {
      operands.push_back(~0U);
      continue;
    }
    Expr expr;
    expr.dtype = node.operands[i]->type->dtype;
    expr.dims = dimsOf(*node.operands[i]->type);
    operands.push_back(dag.exprs.size());
    dag.exprs.push_back(std::move(expr));
  }
  return expandNode(dag, node, operands, result);
}

bool isProduct(const MortiseNode &node) {
  return isOp(node, mortise::Op::Dot, mortise::Op::Linear, mortise::Op::Convolution);
}

Support supports(const MortiseNode &node) { return supports(node, FuseTarget()); }

Support supports(const MortiseNode &node, FuseTarget target) {
  const mortise::Op op = opOf(node);
  if (op == mortise::Op::Unknown)
    return refuse(MORTISE_REASON_OP, std::string("generated groups know the mortise ops only, found ") + node.op);
  const bool isKnown = isProduct(node) || isOp(node, mortise::Op::MaxPool, mortise::Op::SumPool);
  if ((has(op, Trait::Contraction, Trait::Window) && !(target.contractions && isKnown)) ||
      ((isSort(node) || (isUpdate(node) && op != mortise::Op::Put)) && !target.sorts))
    return refuse(MORTISE_REASON_OP,
                  std::string("no generated loop for ") + node.op + ": use a library call or its decomposition");
  if (node.result_count != 1 && !isSort(node) && !has(op, Trait::Running))
    return refuse(MORTISE_REASON_OP, "expected one result, found " + std::to_string(node.result_count));
  auto check = [&](const MortiseValue *value) -> Support {
    if (!value)
      return {};
    int32_t dtype = value->type->dtype;
    if (dtypeBits(dtype) < (isFloat(dtype) ? 16U : 8U)) // also refuses unknown dtypes, which have 0 bits
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
  // The loop of a put runs over the updates, and reads the operand's elements where they are to be written.
  if (isUpdate(node) && std::ranges::count(std::span(node.operands[0]->type->dims, node.operands[0]->type->rank), 0))
    return refuse(MORTISE_REASON_SIZE, "no generated loop updates a tensor without elements");
  if (expandsAlways(op))
    return {};
  Dag dag;
  ExprId result;
  return expandAlone(dag, node, result) ? Support()
                                        : refuse(MORTISE_REASON_OP, std::string("no generated loop for ") + node.op);
}

Support supportsSimt(const MortiseNode &node) { return supports(node, simtFuseTarget()); }

} // namespace mortise::codegen
