// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/codegen/simt_lowerings.hpp>
#include <mortise/symbols.hpp>

#include <algorithm>

namespace mortise::codegen {

namespace {

constexpr uint32_t none = UINT32_MAX;

bool isProduct(const MortiseNode &node) {
  return isOp(node, mortise::Op::Dot, mortise::Op::Linear, mortise::Op::Convolution, mortise::Op::FusedConvolution,
              mortise::Op::Attention);
}

// Nanoseconds of traffic, arithmetic and launches at typical values of the symbols.
class Estimate {
public:
  // `inside`: per node, the number of its region.
  Estimate(const MortiseGraph &graph, const SimtOffer &offer, const std::vector<uint32_t> &inside)
      : graph(graph), offer(offer), device(*offer.device), inside(inside), symbols(typicalValues(graph)),
        usesInside(graph.value_count) {
    for (size_t n = 0; n < graph.node_count; ++n)
      for (const MortiseValue *operand : operandsOf(*graph.nodes[n]))
        if (operand && isInside(*operand, inside[n]))
          ++usesInside[operand->index];
  }
  Candidate of(const std::vector<uint32_t> &nodes, uint32_t region) const;

private:
  static std::span<const MortiseValue *const> operandsOf(const MortiseNode &node) {
    return {node.operands, node.operand_count};
  }
  bool readsMemory(const MortiseNode &node) const { return offer.readsMemory && offer.readsMemory(node); }
  // Whose result has memory, whoever reads it.
  bool endsKernel(const MortiseNode &node) const {
    return has(node, Trait::Reduction, Trait::Running, Trait::Normalisation, Trait::Window, Trait::Sort) ||
           isOp(node, mortise::Op::Put, mortise::Op::ScatterAlong, mortise::Op::ScatterNd) || isProduct(node);
  }
  double elements(const MortiseValue &value) const { return elements(dimsOf(*value.type)); }
  double elements(const std::vector<Dim> &dims) const {
    double count = 1;
    for (const Dim &dim : dims) {
      const Result<int64_t> number = dim.evaluate(symbols);
      count *= number ? static_cast<double>(std::max<int64_t>(*number, 0)) : 1;
    }
    return count;
  }
  double bytes(const MortiseValue &value) const {
    return elements(value) * static_cast<double>(dtypeBits(value.type->dtype)) / 8;
  }
  double flopsOfProduct(const MortiseNode &node) const {
    if (isOp(node, mortise::Op::Convolution,
             mortise::Op::FusedConvolution)) { // a result's terms: a weight of each output channel
      const std::vector<Dim> weight = dimsOf(*node.operands[1]->type);
      return 2 * elements(*node.results[0]) * elements(*node.operands[1]) / std::max(elements({weight[0]}), 1.0);
    }
    const MortiseValue &lhs = *node.operands[0];
    const std::vector<Dim> dims = dimsOf(*lhs.type);
    if (isOp(node, mortise::Op::Attention)) { // scores, and weights times values
      const double keys = elements({dimsOf(*node.operands[1]->type)[2]});
      return 2 * keys * (elements(lhs) + elements(*node.results[0]));
    }
    std::vector<Dim> summed;
    if (isOp(node, mortise::Op::Linear))
      summed = {dims.back()};
    else
      for (const int64_t axis : intsAttribute(node, "lhs_contract"))
        summed.push_back(dims[static_cast<size_t>(axis)]);
    return 2 * elements(*node.results[0]) * elements(summed);
  }
  bool isInside(const MortiseValue &value, uint32_t region) const {
    return region != none && value.producer && inside[value.producer->index] == region;
  }

  const MortiseGraph &graph;
  const SimtOffer &offer;
  const MortiseDeviceInfo &device;
  const std::vector<uint32_t> &inside;
  const std::vector<int64_t> symbols;
  std::vector<uint32_t> usesInside; // per value: by nodes of the region that makes it
};

Candidate Estimate::of(const std::vector<uint32_t> &nodes, uint32_t region) const {
  Candidate candidate;
  candidate.lowering = offer.lowering;
  candidate.nodes = nodes;
  std::vector<bool> read(graph.value_count);
  double kernels = 0, productSeconds = 0, productFlops = 0;
  for (const uint32_t n : nodes) {
    const MortiseNode &node = *graph.nodes[n];
    const MortiseValue &result = *node.results[0];
    const bool heavy = endsKernel(node);
    const bool free = has(node, Trait::View) || isOp(node, mortise::Op::Constant);
    const bool looksUp =
        isOp(node, mortise::Op::Embedding, mortise::Op::Take, mortise::Op::TakeAlong, mortise::Op::TakeNd);
    const bool wantsMemory = readsMemory(node);
    for (const MortiseValue *operand : operandsOf(node)) {
      if (!operand)
        continue;
      if (wantsMemory && isInside(*operand, region) && !endsKernel(*operand->producer) &&
          !has(*operand->producer, Trait::View))
        candidate.bytes += 2 * bytes(*operand);
      if (!isInside(*operand, region) && !read[operand->index]) {
        read[operand->index] = true;
        candidate.bytes += looksUp ? std::min(bytes(*operand), bytes(result)) : bytes(*operand); // not the whole table
      }
    }
    bool leaves = false;
    for (const MortiseValue *made : std::span(node.results, node.result_count)) {
      const bool isRead = made->use_count > usesInside[made->index];
      candidate.bytes += isRead ? bytes(*made) : heavy ? 2 * bytes(*made) : 0;
      leaves |= isRead;
    }
    if (isProduct(node)) {
      const double flops = flopsOfProduct(node),
                   rate = offer.productFlops ? offer.productFlops(node) : device.peak_flops;
      productFlops += flops;
      productSeconds += rate > 0 ? flops / rate : 0;
    } else if (!free)
      candidate.flops += elements(result) * (heavy ? 10 : 1);
    kernels += heavy || (leaves && free) ? 1 : leaves ? 0.5 : 0; // several outputs often share a kernel
  }
  const double seconds = std::max(device.bandwidth > 0 ? candidate.bytes / device.bandwidth : 0,
                                  (device.peak_flops > 0 ? candidate.flops / device.peak_flops : 0) + productSeconds);
  candidate.flops += productFlops;
  candidate.costNs = seconds * 1e9 + std::max(kernels, 1.0) * device.launch_ns;
  return candidate;
}

// Whether the type of a value says that its elements lie otherwise than dense.
bool hasStrides(const MortiseNode &node) {
  const auto lies = [](const MortiseValue *value) { return value && value->type->strides; };
  return std::any_of(node.operands, node.operands + node.operand_count, lies) ||
         std::any_of(node.results, node.results + node.result_count, lies);
}

} // namespace

Result<void> propose(Proposal &proposal, const SimtOffer &offer) {
  const MortiseGraph &graph = proposal.graph();
  std::vector<bool> supported(graph.node_count);
  for (uint32_t i = 0; i < graph.node_count; ++i) {
    const MortiseNode &node = *graph.nodes[i];
    Support verdict = offer.supports(node);
    if (!proposal.forms().empty())
      verdict = {false, MORTISE_REASON_LAYOUT, "the plugin has no layouts of its own"};
    else if (verdict.yes && hasStrides(node))
      verdict = {false, MORTISE_REASON_LAYOUT, "dense row-major tensors are taken, found strides"};
    supported[i] = verdict.yes;
    if (!verdict.yes)
      proposal.refuse(i, verdict.reason, verdict.detail);
  }
  const std::vector<std::vector<uint32_t>> regions = convexRegions(graph, supported);
  std::vector<uint32_t> inside(graph.node_count, none);
  for (uint32_t number = 0; number < regions.size(); ++number)
    for (const uint32_t node : regions[number])
      inside[node] = number;
  const Estimate estimate(graph, offer, inside);
  for (uint32_t number = 0; number < regions.size(); ++number)
    proposal.add(estimate.of(regions[number], number));
  return {};
}

} // namespace mortise::codegen
