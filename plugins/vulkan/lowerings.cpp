// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the plugin takes: all that kernels can be generated for, in types that the device has.
#include "lowerings.hpp"

#include "device.hpp"

#include <mortise/symbols.hpp>

#include <algorithm>

namespace mortise::vulkan {

namespace {

constexpr uint32_t none = UINT32_MAX;

// Nanoseconds of traffic, arithmetic and launches at typical values of the symbols.
class Estimate {
public:
  // `inside`: per node, the number of its region.
  Estimate(const MortiseGraph &graph, const MortiseDeviceInfo &device, const std::vector<uint32_t> &inside)
      : graph(graph), device(device), inside(inside), symbols(typicalValues(graph)), usesInside(graph.value_count) {
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
  double extent(const Dim &dim) const {
    const Result<int64_t> number = dim.evaluate(symbols);
    return number ? static_cast<double>(std::max<int64_t>(*number, 0)) : 1;
  }
  double elements(const MortiseValue &value) const {
    double count = 1;
    for (const Dim &dim : dimsOf(*value.type))
      count *= extent(dim);
    return count;
  }
  double bytes(const MortiseValue &value) const {
    return elements(value) * static_cast<double>(dtypeBits(value.type->dtype)) / 8;
  }
  double productFlops(const MortiseNode &node) const {
    const std::vector<Dim> dims = dimsOf(*node.operands[0]->type);
    double terms = 1;
    if (isOp(node, Op::Linear))
      terms = extent(dims.back());
    for (const int64_t axis : intsAttribute(node, "lhs_contract"))
      terms *= extent(dims[static_cast<size_t>(axis)]);
    if (isOp(node, Op::Convolution)) // the terms of one result are a weight of each output channel
      terms = elements(*node.operands[1]) / std::max(extent(dimsOf(*node.operands[1]->type)[0]), 1.0);
    return 2 * elements(*node.results[0]) * terms;
  }
  bool isInside(const MortiseValue &value, uint32_t region) const {
    return region != none && value.producer && inside[value.producer->index] == region;
  }

  const MortiseGraph &graph;
  const MortiseDeviceInfo &device;
  const std::vector<uint32_t> &inside;
  const std::vector<int64_t> symbols;
  std::vector<uint32_t> usesInside; // per value: by nodes of the region that makes it
};

// Fused nodes read what comes from outside once and write what others use. A node that looks at many elements ends a
// kernel, so that its result is written and read again.
Candidate Estimate::of(const std::vector<uint32_t> &nodes, uint32_t region) const {
  Candidate candidate;
  candidate.lowering = "vulkan.region";
  candidate.nodes = nodes;
  std::vector<bool> read(graph.value_count);
  double kernels = 0;
  for (const uint32_t n : nodes) {
    const MortiseNode &node = *graph.nodes[n];
    const MortiseValue &result = *node.results[0];
    const bool isProduct = isOp(node, Op::Dot, Op::Linear, Op::Convolution);
    const bool heavy = has(node, Trait::Reduction, Trait::Running, Trait::Normalisation, Trait::Window) ||
                       isOp(node, Op::Put) || isProduct;
    const bool free = has(node, Trait::View) || isOp(node, Op::Constant);
    const bool looksUp = isOp(node, Op::Embedding, Op::Take, Op::TakeAlong, Op::TakeNd);
    for (const MortiseValue *operand : operandsOf(node))
      if (operand && !isInside(*operand, region) && !read[operand->index]) {
        read[operand->index] = true;
        candidate.bytes += looksUp ? std::min(bytes(*operand), bytes(result)) : bytes(*operand); // not the whole table
      }
    const bool leaves = result.use_count > usesInside[result.index];
    if (leaves)
      candidate.bytes += bytes(result);
    else if (heavy)
      candidate.bytes += 2 * bytes(result);
    if (!free)
      candidate.flops += isProduct ? productFlops(node) : elements(result) * (heavy ? 10 : 1);
    kernels += heavy || (leaves && free) ? 1 : leaves ? 0.5 : 0; // several outputs often share a kernel
  }
  const double seconds = std::max(device.bandwidth > 0 ? candidate.bytes / device.bandwidth : 0,
                                  device.peak_flops > 0 ? candidate.flops / device.peak_flops : 0);
  candidate.costNs = seconds * 1e9 + std::max(kernels, 1.0) * device.launch_ns;
  return candidate;
}

template <typename Test> bool anyValue(const MortiseNode &node, Test test) {
  const auto holds = [&](const MortiseValue *value) { return value && test(*value->type); };
  return std::any_of(node.operands, node.operands + node.operand_count, holds) ||
         std::any_of(node.results, node.results + node.result_count, holds);
}

} // namespace

Result<void> propose(Proposal &proposal) {
  const MortiseGraph &graph = proposal.graph();
  const Device &device = Device::of(proposal.device());
  std::vector<bool> supported(graph.node_count);
  for (uint32_t i = 0; i < graph.node_count; ++i) {
    const MortiseNode &node = *graph.nodes[i];
    codegen::Support verdict = codegen::supportsSimt(node, true);
    // The type of a value may say that its elements lie otherwise than dense.
    if (!proposal.forms().empty())
      verdict = {false, MORTISE_REASON_LAYOUT, "the plugin has no layouts of its own"};
    else if (verdict.yes && anyValue(node, [](const MortiseType &type) { return type.strides != nullptr; }))
      verdict = {false, MORTISE_REASON_LAYOUT, "dense row-major tensors are taken, found strides"};
    else if (verdict.yes && !device.hasF64() &&
             anyValue(node, [](const MortiseType &type) { return type.dtype == MORTISE_F64; }))
      verdict = {false, MORTISE_REASON_HARDWARE,
                 "expected a device with f64 that rounds to nearest and keeps NaN, found none; use f32"};
    supported[i] = verdict.yes;
    if (!verdict.yes)
      proposal.refuse(i, verdict.reason, verdict.detail);
  }
  const std::vector<std::vector<uint32_t>> regions = convexRegions(graph, supported);
  std::vector<uint32_t> inside(graph.node_count, none);
  for (uint32_t number = 0; number < regions.size(); ++number)
    for (const uint32_t node : regions[number])
      inside[node] = number;
  const Estimate estimate(graph, device.info(), inside);
  for (uint32_t number = 0; number < regions.size(); ++number)
    proposal.add(estimate.of(regions[number], number));
  return {};
}

} // namespace mortise::vulkan
