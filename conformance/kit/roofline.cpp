// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "roofline.hpp"

#include <mortise/reference/interpreter.hpp>

#include <algorithm>
#include <cstring>
#include <set>

namespace mortise::conformance {
namespace {

double countOf(const MortiseValue &value) { return static_cast<double>(elementCount(*value.type)); }
double extentOf(const MortiseNode &node, size_t operand, size_t axis) {
  return static_cast<double>(node.operands[operand]->type->dims[axis]);
}

// Where the segments of a ragged operand begin and end.
std::vector<int64_t> offsetsOf(const Case &of, const MortiseValue &value) {
  const MortiseGraph &view = of.plain->view();
  const auto *const found = std::find(view.inputs, view.inputs + view.input_count, &value);
  const std::vector<std::byte> &bytes = of.inputs[static_cast<size_t>(found - view.inputs)];
  std::vector<int64_t> made(bytes.size() / sizeof(int64_t));
  std::memcpy(made.data(), bytes.data(), made.size() * sizeof(int64_t));
  return made;
}

// Pairs of a query and a key of which the query sees the key. A causal mask counts from the start, and in ragged
// sequences from the end.
double pairsOf(const MortiseNode &node, int64_t queries, int64_t keys) {
  if (!intAttribute(node, "causal"))
    return static_cast<double>(queries) * static_cast<double>(keys);
  double pairs = 0;
  for (int64_t i = 0; i < queries; ++i)
    pairs +=
        static_cast<double>(isOp(node, Op::RaggedAttention) ? std::max(keys - i, int64_t(0)) : std::min(i + 1, keys));
  return pairs;
}

double raggedProducts(const Case &of, const MortiseNode &node) {
  const auto queries = offsetsOf(of, *node.operands[3]), keys = offsetsOf(of, *node.operands[4]);
  double pairs = 0;
  for (size_t i = 1; i < queries.size(); ++i)
    pairs += pairsOf(node, queries[i] - queries[i - 1], keys[i] - keys[i - 1]);
  return pairs * extentOf(node, 0, 1) * (extentOf(node, 0, 2) + extentOf(node, 2, 2));
}

// Multiply-adds; 0 for an op that has none.
double productsOf(const Case &of, const MortiseNode &node) {
  const double results = countOf(*node.results[0]);
  switch (opOf(node)) {
  case Op::Dot:
  case Op::Linear:
  case Op::Convolution:
    return reference::estimate(node).flops / 2;
  case Op::FusedConvolution:
    return extentOf(node, 1, 0) == 0 ? 0 : results * countOf(*node.operands[1]) / extentOf(node, 1, 0);
  case Op::QuantizedLinear:
    return results * extentOf(node, 0, static_cast<size_t>(node.operands[0]->type->rank - 1));
  case Op::Attention:
  case Op::AttentionForward:
  case Op::AttentionGradient: {
    const bool isGradient = opOf(node) == Op::AttentionGradient;
    return pairsOf(node, node.operands[0]->type->dims[2], node.operands[1]->type->dims[2]) * extentOf(node, 0, 0) *
           extentOf(node, 0, 1) *
           ((isGradient ? 3 : 1) * extentOf(node, 0, 3) + (isGradient ? 2 : 1) * extentOf(node, 2, 3));
  }
  case Op::RaggedAttention:
    return raggedProducts(of, node);
  default:
    return 0;
  }
}

// Of an operand's elements those that have to be read.
double elementsRead(const Case &of, const MortiseNode &node, size_t operand) {
  const double all = countOf(*node.operands[operand]), results = countOf(*node.results[0]);
  switch (opOf(node)) {
  case Op::Take:
  case Op::Embedding:
  case Op::TakeAlong:
  case Op::TakeNd:
  case Op::Slice:
    return operand == 0 ? std::min(all, results) : all;
  case Op::If: // one branch, and so one of its two operands
    return operand == 0 ? all : all / 2;
  case Op::RaggedAttention: { // what lies between the first offset and the last
    if (operand > 2)
      return all;
    const auto offsets = offsetsOf(of, *node.operands[operand == 0 ? 3 : 4]);
    const double rows = extentOf(node, operand, 0);
    return rows == 0 ? 0 : all * static_cast<double>(offsets.back() - offsets.front()) / rows;
  }
  default:
    return all;
  }
}

double window(const MortiseNode &node) {
  double made = 1;
  for (const int64_t extent : intsAttribute(node, "window"))
    made *= static_cast<double>(extent);
  return made;
}

} // namespace

Work workOf(const Case &of) {
  const MortiseGraph &view = of.plain->view();
  Work work;
  std::set<const MortiseValue *> seen;
  for (const MortiseNode *node : std::span(view.nodes, view.node_count)) {
    const double products = productsOf(of, *node);
    double most = 0;
    for (size_t i = 0; i < node->operand_count; ++i) {
      const MortiseValue *operand = node->operands[i];
      if (!operand || countOf(*operand) == 0)
        continue;
      const double elements = elementsRead(of, *node, i);
      most = std::max(most, elements);
      if (!operand->producer && seen.insert(operand).second)
        work.bytes += elements * static_cast<double>(byteSize(*operand->type)) / countOf(*operand);
    }
    for (size_t i = 0; i < node->result_count; ++i)
      most = std::max(most, countOf(*node->results[i]));
    work.ofProducts |= products > 0;
    const bool isPool = isOp(*node, Op::MaxPool, Op::SumPool);
    work.flops += products > 0 ? 2 * products : isPool ? countOf(*node->results[0]) * window(*node) : most;
  }
  for (const MortiseValue *output : std::span(view.outputs, view.output_count))
    work.bytes += static_cast<double>(byteSize(*output->type));
  return work;
}

double Speed::roofSeconds() const { return isBoundByPeak() ? work.flops / peak : work.bytes / bandwidth; }

// What is no product may run at a higher rate than products do, and a convention counted it.
bool Speed::isBoundByPeak() const { return work.ofProducts && peak > 0 && work.flops / peak > work.bytes / bandwidth; }

nlohmann::ordered_json Speed::json() const {
  nlohmann::ordered_json made = {{"compile_cold_seconds", coldSeconds},
                                 {"compile_warm_seconds", warmSeconds},
                                 {"run_seconds", runSeconds},
                                 {"median_seconds", medianSeconds},
                                 {"runs", runs},
                                 {"bytes", work.bytes},
                                 {"flops", work.flops},
                                 {"products", work.ofProducts},
                                 {"bandwidth", bandwidth}};
  if (peak > 0)
    made["peak"] = peak;
  made["roof_seconds"] = roofSeconds();
  made["share"] = share();
  return made;
}

Speed Speed::read(const nlohmann::ordered_json &json) {
  Speed made;
  made.coldSeconds = json.value("compile_cold_seconds", 0.0);
  made.warmSeconds = json.value("compile_warm_seconds", 0.0);
  made.runSeconds = json.value("run_seconds", 0.0);
  made.medianSeconds = json.value("median_seconds", 0.0);
  made.runs = json.value("runs", uint64_t(0));
  made.work = {json.value("bytes", 0.0), json.value("flops", 0.0), json.value("products", false)};
  made.bandwidth = json.value("bandwidth", 0.0);
  made.peak = json.value("peak", 0.0);
  return made;
}

} // namespace mortise::conformance
