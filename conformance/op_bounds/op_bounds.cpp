// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/conformance/op_bounds.hpp>

#include "formulas.hpp"

#include <map>

namespace mortise::conformance {
namespace {

using namespace formulas;

struct Formula {
  Formula(Bound bound = nullptr, bool ofAll = false) : bound(bound), ofAll(ofAll) {}
  Bound bound;
  bool ofAll; // results of the op, not of its first one alone
};

const std::map<std::string_view, Formula> &bounds() {
  static const std::map<std::string_view, Formula> all = [] {
    std::map<std::string_view, Formula> made = {{"add", arithmeticBound},
                                                {"sub", arithmeticBound},
                                                {"mul", arithmeticBound},
                                                {"div", arithmeticBound},
                                                {"erfc", erfcBound},
                                                {"silu", siluBound},
                                                {"swiglu", swigluBound},
                                                {"gelu", geluBound},
                                                {"dropout", dropoutBound},
                                                {"dot", dotBound},
                                                {"linear", dotBound},
                                                {"convolution", dotBound},
                                                {"fused_convolution", fusedBound},
                                                {"reduce_sum", reduceSumBound},
                                                {"cumsum", reduceSumBound},
                                                {"sum_pool", reduceSumBound},
                                                {"mean", meanBound},
                                                {"put", putBound},
                                                {"scatter_along", putBound},
                                                {"scatter_nd", putBound},
                                                {"all_reduce", reduceSumBound},
                                                {"reduce_scatter", reduceSumBound},
                                                {"reduce_prod", reduceProdBound},
                                                {"cumprod", reduceProdBound},
                                                {"softmax", softmaxBound},
                                                {"log_softmax", logSoftmaxBound},
                                                {"cumlogsumexp", cumlogsumexpBound},
                                                {"cross_entropy", crossEntropyBound},
                                                {"layer_norm", trailingNormBound},
                                                {"rms_norm", trailingNormBound},
                                                {"group_norm", groupNormBound},
                                                {"batch_norm", batchNormBound},
                                                {"rope", ropeBound},
                                                {"quantized_linear", quantizedLinearBound},
                                                {"normal", normalBound},
                                                {"attention", attentionBound},
                                                {"attention_forward", {attentionBound, true}},
                                                {"attention_gradient", {attentionGradientBound, true}},
                                                {"ragged_attention", raggedAttentionBound}};
    for (const char *name :
         {"exp",  "expm1", "log",  "log1p", "rsqrt", "sin",   "cos",  "tanh",  "erf",  "tan", "asin",  "acos",
          "atan", "sinh",  "cosh", "asinh", "acosh", "atanh", "log2", "log10", "exp2", "pow", "atan2", "logistic"})
      made[name] = function;
    return made;
  }();
  return all;
}

std::string_view bare(std::string_view op) {
  op.remove_prefix(std::min(op.find('.') + 1, op.size()));
  return op;
}

// The operands of the last node.
Result<std::vector<Bytes>> operandsOf(const MortiseGraph &graph, const MortiseNode &node, const OneNode &alone,
                                      std::span<const void *const> inputs) {
  std::vector<Bytes> values(graph.value_count);
  for (size_t i = 0; i < graph.input_count; ++i) {
    const auto *from = static_cast<const std::byte *>(inputs[i]);
    values[graph.inputs[i]->index].assign(from, from + byteSize(*graph.inputs[i]->type));
    values[graph.inputs[i]->index].resize(byteSize(*graph.inputs[i]->type) + 8);
  }
  for (size_t i = 0; i < graph.node_count && graph.nodes[i] != &node; ++i) {
    Result<std::unique_ptr<OneNode>> step = OneNode::make(graph, *graph.nodes[i], false);
    if (!step)
      return step.error();
    std::vector<const void *> from;
    std::vector<void *> to;
    for (const uint32_t value : (*step)->operandValues)
      from.push_back(values[value].data());
    for (size_t r = 0; r < graph.nodes[i]->result_count; ++r) {
      Bytes &result = values[graph.nodes[i]->results[r]->index];
      result.resize(byteSize(*graph.nodes[i]->results[r]->type) + 8);
      to.push_back(result.data());
    }
    (*step)->run(from, to);
  }
  std::vector<Bytes> made;
  for (const uint32_t value : alone.operandValues)
    made.push_back(values[value]);
  return made;
}

double rounded(double value, int32_t dtype) {
  return reference::visitFloat(dtype, [&](auto kind) {
    using Kind = decltype(kind);
    return static_cast<double>(Kind::load(Kind::store(value)));
  });
}

// Of output `output`, which is this result of `node`.
Result<ExactResult> exactResult(const MortiseGraph &graph, const MortiseNode &node, size_t result, size_t output,
                                std::span<const void *const> inputs) {
  Result<std::unique_ptr<OneNode>> alone = OneNode::make(graph, node, false);
  if (!alone)
    return alone.error();
  Result<std::vector<Bytes>> operands = operandsOf(graph, node, **alone, inputs);
  if (!operands)
    return operands.error();
  Subject subject(node, (*alone)->view(), std::move(*operands), result);
  Result<Doubles> exact = subject.exact();
  if (!exact)
    return exact.error();
  subject.y = std::move(*exact);
  const auto found = bounds().find(bare(node.op));
  if (found == bounds().end() || (found->second.bound == arithmeticBound && !isBehindArithmetic(node))) {
    auto measured = standardErrors(graph, inputs);
    if (!measured)
      return measured.error();
    Doubles &errors = (*measured)[output];
    for (size_t i = 0; i < subject.y.size(); ++i)
      errors[i] = allowed(errors[i], subject.y[i], subject.dtype);
    return ExactResult{std::move(subject.y), std::move(errors)};
  }
  Result<Doubles> errors = found->second.bound(subject);
  if (!errors)
    return errors.error();
  const bool wide = subject.dtype == MORTISE_F64, narrow = subject.dtype != subject.accumulator;
  for (size_t i = 0; i < errors->size(); ++i) {
    double &error = (*errors)[i];
    if (!std::isfinite(subject.y[i])) {
      error = isUndecided(subject, i) ? INFINITY : 0;
      continue;
    }
    // The device rounds to its type; and of f64 the exact result is rounded, too.
    if (error == 0)
      error = std::abs(rounded(subject.y[i], subject.dtype) - subject.y[i]);
    else if (narrow || wide)
      error += std::max(ulp(std::abs(subject.y[i]) + error, subject.dtype) / 2, wide ? subject.tiny : 0);
  }
  return ExactResult{subject.y, std::move(*errors)};
}

} // namespace

Result<std::vector<ExactResult>> exactResults(const MortiseGraph &graph, std::span<const void *const> inputs) {
  std::vector<ExactResult> made(graph.output_count);
  for (size_t i = 0; i < graph.output_count; ++i) {
    const MortiseValue &value = *graph.outputs[i];
    if (!value.producer || !isFloat(value.type->dtype))
      continue;
    const MortiseNode &producer = *value.producer;
    const auto result = static_cast<size_t>(
        std::find(producer.results, producer.results + producer.result_count, &value) - producer.results);
    const auto formula = bounds().find(bare(producer.op));
    if (result > 0 && (formula == bounds().end() || !formula->second.ofAll))
      continue;
    const auto before = std::find(graph.outputs, graph.outputs + i, &value);
    if (before != graph.outputs + i) {
      made[i] = made[static_cast<size_t>(before - graph.outputs)];
      continue;
    }
    auto found = exactResult(graph, producer, result, i, inputs);
    if (!found)
      return found.error();
    made[i] = std::move(*found);
  }
  return made;
}

} // namespace mortise::conformance
