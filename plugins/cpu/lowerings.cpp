// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the plugin takes: products, convolutions and pools by library or loops of our own; all else that can be
// generated.
#include "lowerings.hpp"

#include "claims.hpp"
#include "device.hpp"

#include <algorithm>
#include <map>

namespace mortise::cpu {

using codegen::Support;

static Support refuse(MortiseReason reason, std::string detail) { return {false, reason, std::move(detail)}; }

// The extents of a value; not valid where an expression is none.
static std::vector<Dim> extents(const MortiseValue &value) { return denseView(value).dims; }
static bool isEmpty(const MortiseValue &value) { return elementCount(extents(value)) == Dim(0); }

static Support judgeDot(const MortiseNode &node) {
  const int32_t dtype = node.results[0]->type->dtype;
  if (!isBool(dtype) && dtypeBits(dtype) >= (isFloat(dtype) ? 16U : 8U))
    return {};
  return refuse(MORTISE_REASON_DTYPE,
                std::string("no product of ") + dtypeName(dtype) + ": convert the operands to f16 or i8 first");
}

static Support judgeLinear(const MortiseNode &node, std::span<const SymbolRange> symbols) {
  int32_t dtype = node.results[0]->type->dtype;
  if (dtype == MORTISE_BF16 && !hasBrainProducts())
    return refuse(MORTISE_REASON_HARDWARE, "without AVX-512, linear of bf16 is taken as dot and add");
  if (dtype != MORTISE_F32 && dtype != MORTISE_BF16)
    return refuse(MORTISE_REASON_DTYPE, std::string("linear of ") + dtypeName(dtype) + " is taken as dot and add");
  if (node.operands[0]->type->rank < 1)
    return refuse(MORTISE_REASON_RANK, "expected x of rank 1 or more");
  if (isEmpty(*node.operands[0]) || isEmpty(*node.results[0]) ||
      bounds(extents(*node.operands[0]).back(), symbols).low < 1)
    return refuse(MORTISE_REASON_SIZE, "a linear that is or may be empty is taken as dot and add");
  return {};
}

static Support judgeQuantizedLinear(const MortiseNode &node) {
  const auto byParts = [](MortiseReason reason, const std::string &detail) {
    return refuse(reason, detail + ": its weights are dequantised, and taken as those of linear");
  };
  const MortiseType &x = *node.operands[0]->type, &weight = *node.operands[1]->type;
  const bool isTaken = x.dtype == MORTISE_F32 || x.dtype == MORTISE_F16 || x.dtype == MORTISE_BF16;
  if (!isTaken || (weight.dtype != MORTISE_I8 && weight.dtype != MORTISE_UI8))
    return byParts(MORTISE_REASON_DTYPE,
                   std::string("no kernel of its own for ") + dtypeName(x.dtype) + " and " + dtypeName(weight.dtype));
  if (intAttribute(node, "weight_transposed"))
    return byParts(MORTISE_REASON_LAYOUT, "expected the weights of a result side by side, found them transposed");
  const std::vector<Dim> dims = dimsOf(x);
  const std::optional<int64_t> rows = elementCount(std::span(dims).first(dims.size() - 1)).number();
  if (!rows)
    return byParts(MORTISE_REASON_NEEDS_STATIC, "expected a number of rows");
  if (*rows < 1 || *rows > mostQuantizedRows)
    return byParts(MORTISE_REASON_SIZE, "more than " + std::to_string(mostQuantizedRows) + " rows, or none");
  if (isEmpty(*node.operands[1]) || !isStatic(weight))
    return byParts(MORTISE_REASON_SIZE, "weights that are or may be empty");
  return {};
}

// Windows and paddings are numbers, extents need not be.
static Support judgeWindow(const MortiseNode &node) {
  for (const char *name : {"strides", "low", "high", "dilations", "window"})
    for (int64_t number : intsAttribute(node, name))
      if (number == MORTISE_DYNAMIC)
        return refuse(MORTISE_REASON_NEEDS_STATIC,
                      std::string("expected numbers in ") + name + ", found an expression");
  return {};
}

static Support judgeConvolution(const MortiseNode &node) {
  int32_t dtype = node.results[0]->type->dtype, rank = node.operands[0]->type->rank;
  if (rank < 3 || rank > 5)
    return refuse(MORTISE_REASON_RANK, "one to three spatial dimensions, found rank " + std::to_string(rank));
  if (dtype != MORTISE_F32 && dtype != MORTISE_F16 && dtype != MORTISE_BF16)
    return refuse(MORTISE_REASON_DTYPE,
                  std::string("oneDNN has no convolution of ") + dtypeName(dtype) + ": convert to f32 first");
  if (!isEmpty(*node.results[0]) && (isEmpty(*node.operands[0]) || isEmpty(*node.operands[1])))
    return refuse(MORTISE_REASON_SIZE, "a convolution over nothing has no lowering here");
  return judgeWindow(node);
}

static Support judgePool(const MortiseNode &node) {
  int32_t rank = node.operands[0]->type->rank, dtype = node.operands[0]->type->dtype;
  if (rank < 3 || rank > 5)
    return refuse(MORTISE_REASON_RANK, "one to three spatial dimensions, found rank " + std::to_string(rank));
  if (isBool(dtype) || dtypeBits(dtype) < (isFloat(dtype) ? 16U : 8U))
    return refuse(MORTISE_REASON_DTYPE, std::string("no pooling of ") + dtypeName(dtype));
  return judgeWindow(node);
}

static Support judgeSort(const MortiseNode &node) {
  if (int32_t dtype = node.operands[0]->type->dtype; !hasOrder(dtype))
    return refuse(MORTISE_REASON_DTYPE,
                  std::string("no order of ") + dtypeName(dtype) + ": convert to f16 or i8 first");
  return {};
}

static Support judgeScatter(const MortiseNode &node) {
  if (int32_t dtype = node.operands[0]->type->dtype; !canScatter(dtype))
    return refuse(MORTISE_REASON_DTYPE,
                  std::string("no scatter of ") + dtypeName(dtype) + ": convert to f16 or i8 first");
  return {};
}

static Support judgeAttention(const MortiseNode &node) {
  const auto byParts = [](MortiseReason reason, const std::string &detail) {
    return refuse(reason, detail + ": its products and softmax are taken, in each other's layouts");
  };
  const MortiseType &q = *node.operands[0]->type, &k = *node.operands[1]->type, &v = *node.operands[2]->type;
  // The parts of bf16 are of f32, too.
  if (q.dtype != MORTISE_F32 && q.dtype != MORTISE_BF16)
    return byParts(MORTISE_REASON_DTYPE, std::string("no kernel of its own for ") + dtypeName(q.dtype));
  for (const Dim &size : {dimsOf(q)[3], dimsOf(v)[3]})
    if (const std::optional<int64_t> number = size.number(); !number || *number < 1)
      return byParts(MORTISE_REASON_NEEDS_STATIC, "expected a number of elements of a vector");
  // Fewer queries read k and v once, which products of few rows do faster; the scores of few keys stay in the cache
  // anyway.
  constexpr int64_t fewestQueries = 5, fewestKeys = 96;
  if (const std::optional<int64_t> queries = dimsOf(q)[2].number(); queries && *queries < fewestQueries)
    return byParts(MORTISE_REASON_SIZE, "fewer than " + std::to_string(fewestQueries) + " queries");
  if (const std::optional<int64_t> keys = dimsOf(v)[2].number(); keys && *keys < fewestKeys)
    return byParts(MORTISE_REASON_SIZE, "fewer than " + std::to_string(fewestKeys) + " keys");
  // The gradient's kernel divides its work by heads of keys.
  if (const std::optional<int64_t> heads = (dimsOf(k)[0] * dimsOf(k)[1]).number();
      isOp(node, Op::AttentionGradient) && heads && 2 * *heads <= threadCount())
    return byParts(MORTISE_REASON_SIZE, "at most half as many heads of keys as threads");
  return {};
}

Support judge(const MortiseNode &node, std::span<const SymbolRange> symbols) {
  switch (opOf(node)) {
  case Op::Dot:
    return judgeDot(node);
  case Op::Linear:
    return judgeLinear(node, symbols);
  case Op::QuantizedLinear:
    return judgeQuantizedLinear(node);
  case Op::Convolution:
    return judgeConvolution(node);
  case Op::MaxPool:
  case Op::SumPool:
    return judgePool(node);
  case Op::ScatterAlong:
  case Op::ScatterNd:
    return judgeScatter(node);
  case Op::RandomBits:
    return {};
  case Op::Sort:
  case Op::TopK:
  case Op::Cummax:
  case Op::Cummin:
    return judgeSort(node);
  case Op::Attention:
  case Op::AttentionForward:
  case Op::AttentionGradient:
    return judgeAttention(node);
  default:
    return codegen::supports(node);
  }
}

namespace {
// Nanoseconds of arithmetic and traffic, at typical values; a fused region is dearer than its largest part and cheaper
// than the sum.
class Estimate {
public:
  // `inside`: per node, the number of its region.
  Estimate(const MortiseGraph &graph, const std::vector<uint32_t> &inside)
      : graph(graph), inside(inside), sample(sampleOf(graph)), elements(graph.value_count),
        usesInside(graph.value_count) {
    for (size_t n = 0; n < graph.node_count; ++n)
      for (size_t i = 0; i < graph.nodes[n]->operand_count; ++i)
        if (const MortiseValue *operand = graph.nodes[n]->operands[i]; operand && isInside(*operand, inside[n]))
          ++usesInside[operand->index];
    for (size_t i = 0; i < graph.value_count; ++i) {
      elements[i] = 1;
      for (const Dim &dim : extents(*graph.values[i]))
        elements[i] *= number(dim);
    }
  }
  // The region with this number.
  Candidate of(const std::vector<uint32_t> &nodes, uint32_t number) const;

private:
  // 1 where the symbols' typical values give no extent.
  double number(const Dim &dim) const {
    Result<int64_t> found = dim.evaluate(sample.symbols);
    return found ? static_cast<double>(std::max<int64_t>(*found, 0)) : 1;
  }
  double bytes(const MortiseValue &value) const {
    return elements[value.index] * static_cast<double>(dtypeBits(value.type->dtype)) / 8;
  }
  double terms(const MortiseNode &node) const; // summed per element of a product or convolution
  bool isInside(const MortiseValue &value, uint32_t region) const {
    return value.producer && inside[value.producer->index] == region;
  }
  bool isCopy(const MortiseNode &node) const;
  bool isFolded(const MortiseNode &node) const;

  const MortiseGraph &graph;
  const std::vector<uint32_t> &inside;
  const Values sample;
  std::vector<double> elements;     // per value
  std::vector<uint32_t> usesInside; // per value: by nodes of the region that makes it
};
} // namespace

double Estimate::terms(const MortiseNode &node) const {
  std::vector<Dim> lhs = extents(*node.operands[0]);
  if (isOp(node, Op::Linear, Op::QuantizedLinear))
    return number(lhs.back());
  double terms = 1;
  if (isOp(node, Op::Dot))
    for (int64_t axis : intsAttribute(node, "lhs_contract"))
      terms *= number(lhs[axis]);
  else
    terms = elements[node.operands[1]->index] / std::max<double>(1, number(extents(*node.operands[1])[0]));
  return terms;
}

// Whether the node's region hands out another view of one of its inputs, which it has to copy.
bool Estimate::isCopy(const MortiseNode &node) const {
  const MortiseValue *at = node.results[0];
  const uint32_t region = inside[node.index];
  if (usesInside[at->index] == at->use_count)
    return false;
  while (isInside(*at, region) && isOp(*at->producer, Op::Reshape, Op::Broadcast))
    at = at->producer->operands[0];
  return !isInside(*at, region);
}

// Whether the node is a batch norm that becomes part of its convolution's weights.
bool Estimate::isFolded(const MortiseNode &node) const {
  if (!isOp(node, Op::BatchNorm))
    return false;
  const MortiseValue &operand = *node.operands[0];
  return isInside(operand, inside[node.index]) && isOp(*operand.producer, Op::Convolution) && operand.use_count == 1;
}

Candidate Estimate::of(const std::vector<uint32_t> &nodes, uint32_t number) const {
  Candidate candidate;
  candidate.lowering = "cpu.region";
  candidate.nodes = nodes;
  const MortiseDeviceInfo &device = deviceInfo();
  for (uint32_t index : nodes) {
    const MortiseNode &node = *graph.nodes[index];
    double traffic = 0, flops = 0, steps = 0;
    for (size_t i = 0; i < node.operand_count; ++i)
      if (const MortiseValue *operand = node.operands[i])
        if (!isInside(*operand, number))
          traffic += bytes(*operand);
    for (size_t i = 0; i < node.result_count; ++i)
      flops += elements[node.results[i]->index];
    double results = flops * static_cast<double>(dtypeBits(node.results[0]->type->dtype)) / 8;
    if (isOp(node, Op::Dot, Op::Linear, Op::QuantizedLinear, Op::Convolution)) {
      flops *= 2 * terms(node);
      traffic += 2 * results;
      steps = 1;
    } else if (isOp(node, Op::Attention, Op::AttentionForward, Op::AttentionGradient)) {
      const std::vector<Dim> q = extents(*node.operands[0]), v = extents(*node.operands[2]);
      const double pairs = this->number(q[0]) * this->number(q[1]) * this->number(q[2]) * this->number(v[2]);
      const bool isGradient = isOp(node, Op::AttentionGradient);
      flops = 2 * pairs * ((isGradient ? 3 : 1) * this->number(q[3]) + (isGradient ? 2 : 1) * this->number(v[3]));
      traffic += results;
      steps = 1;
    } else if (isOp(node, Op::Embedding, Op::Take)) {
      traffic = 2 * results; // not the whole table
      flops = 0;
      steps = 0.5;
    } else if (isFolded(node)) {
      traffic = flops = 0;
    } else if (has(node, Trait::Normalisation) || isOp(node, Op::BatchNorm)) {
      traffic += 2 * results;
      flops *= 10;
      steps = 1;
    } else if (isOp(node, Op::Reshape, Op::Broadcast)) {
      traffic = isCopy(node) ? 2 * results : 0;
      flops = 0;
    } else if (isOp(node, Op::Constant)) {
      traffic = flops = 0;
    } else {
      traffic += results; // half of it fused away
    }
    candidate.bytes += traffic;
    candidate.flops += flops;
    candidate.costNs += std::max(traffic / device.bandwidth, flops / device.peak_flops) * 1e9 + steps * 2000;
  }
  return candidate;
}

// The one output of a region over its inputs, where all nodes are pointwise and all values of one shape, so that one
// loop computes them; and of whole vectors, of which that loop computes none twice. planMemory() sees to it that the
// promise holds whatever becomes of the loop.
std::vector<MortiseInPlace> inPlacePairs(const MortiseGraph &graph, std::span<const uint32_t> nodes) {
  const int64_t vector = target().vectorBits / 32;
  const auto isInside = [&](const MortiseNode *node) {
    return node && std::binary_search(nodes.begin(), nodes.end(), node->index);
  };
  std::vector<const MortiseValue *> inputs;
  std::map<const MortiseValue *, uint32_t> uses;
  for (uint32_t n : nodes) {
    const MortiseNode &node = *graph.nodes[n];
    if (isOp(node, Op::Constant))
      continue;
    if (!has(node, Trait::Elementwise) || node.result_count != 1)
      return {};
    for (size_t i = 0; i < node.operand_count; ++i)
      if (const MortiseValue *operand = node.operands[i];
          operand && uses[operand]++ == 0 && !isInside(operand->producer))
        inputs.push_back(operand);
  }
  const MortiseValue *output = nullptr;
  for (uint32_t n : nodes)
    if (const MortiseValue *result = graph.nodes[n]->results[0]; result->use_count > uses[result]) {
      if (output || isOp(*graph.nodes[n], Op::Constant))
        return {};
      output = result;
    }
  if (!output)
    return {};
  const std::vector<Dim> shape = extents(*output);
  for (uint32_t n : nodes)
    if (!isOp(*graph.nodes[n], Op::Constant) && extents(*graph.nodes[n]->results[0]) != shape)
      return {};
  const std::optional<int64_t> count = elementCount(shape).number();
  if (count && (*count > vector && *count % vector != 0))
    return {};
  for (size_t a = 0; a < graph.alias_count; ++a)
    if (graph.outputs[graph.aliases[a]->output] == output)
      return {};
  std::vector<MortiseInPlace> pairs;
  for (const MortiseValue *input : inputs) {
    bool isAliased = false;
    for (size_t a = 0; a < graph.alias_count; ++a)
      isAliased |= graph.inputs[graph.aliases[a]->input] == input;
    if (!isAliased && !(input->flags & (MORTISE_VALUE_CONSTANT | MORTISE_VALUE_STATE)) && extents(*input) == shape &&
        dtypeBits(input->type->dtype) == dtypeBits(output->type->dtype))
      pairs.push_back({input->index, output->index});
  }
  return pairs;
}

namespace {
// Whether the type of a value says that its elements lie otherwise than dense.
bool hasStrides(const MortiseNode &node) {
  const auto lies = [](const MortiseValue *value) { return value && value->type->strides; };
  return std::any_of(node.operands, node.operands + node.operand_count, lies) ||
         std::any_of(node.results, node.results + node.result_count, lies);
}
} // namespace

Result<void> propose(Proposal &proposal) {
  const MortiseGraph &graph = proposal.graph();
  std::vector<SymbolRange> symbols;
  for (size_t i = 0; i < graph.symbol_count; ++i)
    symbols.push_back({graph.symbols[i]->min, graph.symbols[i]->max, graph.symbols[i]->divisor});
  std::vector<bool> supported(graph.node_count);
  for (size_t i = 0; i < graph.node_count; ++i) {
    Support verdict = judge(*graph.nodes[i], symbols);
    if (verdict.yes && hasStrides(*graph.nodes[i]))
      verdict = refuse(MORTISE_REASON_LAYOUT, "dense row-major tensors are taken, found strides");
    if (verdict.yes && graph.symbol_count && host().abi_revision < 2)
      verdict = refuse(MORTISE_REASON_NEEDS_STATIC, "symbols need a host of ABI revision 2");
    supported[i] = verdict.yes;
    if (!verdict.yes)
      proposal.refuse(static_cast<uint32_t>(i), verdict.reason, verdict.detail);
  }
  std::vector<std::vector<uint32_t>> regions = convexRegions(graph, supported);
  std::vector<uint32_t> inside(graph.node_count, none);
  for (uint32_t number = 0; number < regions.size(); ++number)
    for (uint32_t node : regions[number])
      inside[node] = number;
  const Estimate estimate(graph, inside);
  for (uint32_t number = 0; number < regions.size(); ++number) {
    Candidate candidate = estimate.of(regions[number], number);
    const std::vector<MortiseInPlace> pairs = inPlacePairs(graph, regions[number]);
    candidate.inPlace = pairs;
    proposal.add(candidate);
  }
  return {};
}

} // namespace mortise::cpu
