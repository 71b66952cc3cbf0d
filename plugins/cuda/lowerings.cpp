// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the plugin takes: all that kernels can be generated for, pools and attention among it, and products and
// convolutions where there are libraries for them.
#include "lowerings.hpp"

#include "device.hpp"
#include "product.hpp"
#include "window.hpp"

#include <mortise/symbols.hpp>

#include <algorithm>

namespace mortise::cuda {

namespace {

constexpr uint32_t none = UINT32_MAX;

bool isAttention(const MortiseNode &node) { return isOp(node, Op::Attention); }
// Its operands have memory, whatever makes them.
bool readsMemory(const MortiseNode &node) { return isProduct(node) || isAttention(node); }

// Nanoseconds of arithmetic and traffic at typical values of the symbols.
class Estimate {
public:
  // `inside`: per node, the number of its region.
  Estimate(const MortiseGraph &graph, const Device &where, const MortiseCompileOptions &options,
           const std::vector<uint32_t> &inside)
      : graph(graph), where(where), device(where.info()), options(options), inside(inside),
        symbols(typicalValues(graph)), usesInside(graph.value_count) {
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
  double elements(const MortiseValue &value) const { return elements(dimsOf(*value.type)); }
  double elements(const std::vector<Dim> &dims) const {
    double count = 1;
    for (const Dim &dim : dims) {
      const Result<int64_t> number = dim.evaluate(symbols);
      count *= number ? static_cast<double>(std::max<int64_t>(*number, 0)) : 1;
    }
    return count;
  }
  double callFlops(const MortiseNode &node) const {
    if (isConvolution(node)) {
      const std::vector<Dim> weight = dimsOf(*node.operands[1]->type);
      return 2 * elements(*node.results[0]) * elements(*node.operands[1]) / std::max(elements({weight[0]}), 1.0);
    }
    const MortiseValue &lhs = *node.operands[0];
    const std::vector<Dim> dims = dimsOf(*lhs.type);
    if (isAttention(node)) { // scores, and weights times values
      const double keys = elements({dimsOf(*node.operands[1]->type)[2]});
      return 2 * keys * (elements(lhs) + elements(*node.results[0]));
    }
    std::vector<Dim> summed;
    if (isOp(node, Op::Linear))
      summed = {dims.back()};
    else
      for (const int64_t axis : intsAttribute(node, "lhs_contract"))
        summed.push_back(dims[static_cast<size_t>(axis)]);
    return 2 * elements(*node.results[0]) * elements(summed);
  }
  double bytes(const MortiseValue &value) const {
    return elements(value) * static_cast<double>(dtypeBits(value.type->dtype)) / 8;
  }
  bool isInside(const MortiseValue &value, uint32_t region) const {
    return region != none && value.producer && inside[value.producer->index] == region;
  }

  const MortiseGraph &graph;
  const Device &where;
  const MortiseDeviceInfo &device;
  const MortiseCompileOptions &options;
  const std::vector<uint32_t> &inside;
  const std::vector<int64_t> symbols;
  std::vector<uint32_t> usesInside; // per value: by nodes of the region that makes it
};

// Whose result has memory, whoever reads it.
bool endsKernel(const MortiseNode &node) {
  return has(node, Trait::Reduction, Trait::Running, Trait::Normalisation, Trait::Window) || isOp(node, Op::Put) ||
         readsMemory(node);
}

// Fused nodes read what comes from outside once and write what others use. A node that looks at many elements ends a
// kernel, so that its result is written and read again.
Candidate Estimate::of(const std::vector<uint32_t> &nodes, uint32_t region) const {
  Candidate candidate;
  candidate.lowering = "cuda.region";
  candidate.nodes = nodes;
  std::vector<bool> read(graph.value_count);
  double kernels = 0, callSeconds = 0, callFlopsDone = 0;
  for (const uint32_t n : nodes) {
    const MortiseNode &node = *graph.nodes[n];
    const MortiseValue &result = *node.results[0];
    const bool heavy = endsKernel(node);
    const bool free = has(node, Trait::View) || isOp(node, Op::Constant);
    const bool looksUp = isOp(node, Op::Embedding, Op::Take, Op::TakeAlong, Op::TakeNd);
    const int32_t narrow = isProduct(node) ? narrowType(node) : 0; // read as it was before it was converted
    for (const MortiseValue *operand : operandsOf(node))           // what a product reads has memory
      if (operand && readsMemory(node) && !narrow && isInside(*operand, region) && !endsKernel(*operand->producer) &&
          !has(*operand->producer, Trait::View))
        candidate.bytes += 2 * bytes(*operand);
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
    if (readsMemory(node) || isConvolution(node)) {
      const double flops = callFlops(node);
      const double rate = where.productFlops(narrow ? narrow : node.results[0]->type->dtype,
                                             options.precision != MORTISE_PRECISION_HIGHEST);
      callFlopsDone += flops;
      callSeconds += rate > 0 ? flops / rate : 0;
    } else if (!free)
      candidate.flops += elements(result) * (heavy ? 10 : 1);
    kernels += heavy || (leaves && free) ? 1 : leaves ? 0.5 : 0; // several outputs often share a kernel
  }
  const double seconds = std::max(device.bandwidth > 0 ? candidate.bytes / device.bandwidth : 0,
                                  device.peak_flops > 0 ? candidate.flops / device.peak_flops + callSeconds : 0);
  candidate.flops += callFlopsDone;
  candidate.costNs = seconds * 1e9 + std::max(kernels, 1.0) * device.launch_ns;
  return candidate;
}

// Whether the type of a value says that its elements lie otherwise than dense.
bool hasStrides(const MortiseNode &node) {
  const auto lies = [](const MortiseValue *value) { return value && value->type->strides; };
  return std::any_of(node.operands, node.operands + node.operand_count, lies) ||
         std::any_of(node.results, node.results + node.result_count, lies);
}

// Without its library a call is refused with what to do about it.
template <typename Open> codegen::Support behind(codegen::Support verdict, Open &&open) {
  if (!verdict.yes)
    return verdict;
  const auto library = open();
  if (library)
    return verdict;
  return {false, library.error().code == MORTISE_UNSUPPORTED ? MORTISE_REASON_OPTION : MORTISE_REASON_HARDWARE,
          library.error().message};
}

codegen::Support judge(Device &device, const MortiseNode &node, std::span<const SymbolRange> ranges) {
  if (isProduct(node))
    return behind(supportsProduct(node), [&] { return device.products(); });
  if (isConvolution(node))
    return behind(supportsConvolution(node, ranges), [&] { return device.convolutions(); });
  if (isAttention(node))
    return codegen::supportsAttention(node, device.target());
  return isPool(node) ? supportsPool(node) : codegen::supportsSimt(node, /*contractions=*/false);
}

} // namespace

Result<void> propose(Proposal &proposal) {
  const MortiseGraph &graph = proposal.graph();
  Device &device = Device::of(proposal.device());
  const std::vector<SymbolRange> ranges = symbolRanges(graph);
  std::vector<bool> supported(graph.node_count);
  for (uint32_t i = 0; i < graph.node_count; ++i) {
    const MortiseNode &node = *graph.nodes[i];
    codegen::Support verdict = judge(device, node, ranges);
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
  const Estimate estimate(graph, device, proposal.compileOptions(), inside);
  for (uint32_t number = 0; number < regions.size(); ++number)
    proposal.add(estimate.of(regions[number], number));
  return {};
}

} // namespace mortise::cuda
