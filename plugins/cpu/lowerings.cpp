// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the plugin takes: products, convolutions and pools by library or loops of our own; all else that can be
// generated.
#include "lowerings.h"

#include "device.h"

#include <algorithm>

namespace mortise::cpu {

using codegen::Support;

static Support refuse(MortiseReason reason, std::string detail) { return {false, reason, std::move(detail)}; }

static Support staticTypes(const MortiseNode &node) {
  for (size_t i = 0; i < node.operand_count; ++i)
    if (node.operands[i] && !isStatic(*node.operands[i]->type))
      return refuse(MORTISE_REASON_NEEDS_STATIC,
                    "the cpu plugin compiles static shapes, found " + typeString(*node.operands[i]->type));
  return {};
}

static Support judgeDot(const MortiseNode &node) {
  switch (int32_t dtype = node.results[0]->type->dtype) {
  case MORTISE_F64:
  case MORTISE_F32:
  case MORTISE_F16:
  case MORTISE_BF16:
  case MORTISE_I64:
  case MORTISE_I32:
  case MORTISE_I16:
  case MORTISE_I8:
  case MORTISE_UI8:
    return {};
  default:
    return refuse(MORTISE_REASON_DTYPE,
                  std::string("no product of ") + dtypeName(dtype) + ": convert the operands to f16 or i8 first");
  }
}

static Support judgeLinear(const MortiseNode &node) {
  int32_t dtype = node.results[0]->type->dtype;
  if (dtype != MORTISE_F32 && !(dtype == MORTISE_BF16 && hasBrainProducts()))
    return refuse(MORTISE_REASON_DTYPE, std::string("linear of ") + dtypeName(dtype) + " is taken as dot and add");
  if (elementCount(*node.operands[0]->type) == 0 || elementCount(*node.results[0]->type) == 0)
    return refuse(MORTISE_REASON_SIZE, "an empty linear is taken as dot and add");
  if (node.operands[0]->type->rank < 1)
    return refuse(MORTISE_REASON_RANK, "expected x of rank 1 or more");
  return {};
}

static Support judgeConvolution(const MortiseNode &node) {
  int32_t dtype = node.results[0]->type->dtype, rank = node.operands[0]->type->rank;
  if (rank < 3 || rank > 5)
    return refuse(MORTISE_REASON_RANK, "one to three spatial dimensions, found rank " + std::to_string(rank));
  if (dtype != MORTISE_F32 && dtype != MORTISE_F16 && dtype != MORTISE_BF16)
    return refuse(MORTISE_REASON_DTYPE,
                  std::string("oneDNN has no convolution of ") + dtypeName(dtype) + ": convert to f32 first");
  if (elementCount(*node.results[0]->type) != 0 &&
      (elementCount(*node.operands[0]->type) == 0 || elementCount(*node.operands[1]->type) == 0))
    return refuse(MORTISE_REASON_SIZE, "a convolution over nothing has no lowering here");
  return {};
}

static Support judgePool(const MortiseNode &node) {
  int32_t rank = node.operands[0]->type->rank, dtype = node.operands[0]->type->dtype;
  if (rank < 3 || rank > 5)
    return refuse(MORTISE_REASON_RANK, "one to three spatial dimensions, found rank " + std::to_string(rank));
  if (dtypeBits(dtype) < 8 || dtype == MORTISE_F8E4M3FN || dtype == MORTISE_F8E5M2 || dtype == MORTISE_I1)
    return refuse(MORTISE_REASON_DTYPE, std::string("no pooling of ") + dtypeName(dtype));
  return {};
}

Support judge(const MortiseNode &node) {
  if (Support known = staticTypes(node); !known.yes)
    return known;
  if (isOp(node, "mortise.dot"))
    return judgeDot(node);
  if (isOp(node, "mortise.linear"))
    return judgeLinear(node);
  if (isOp(node, "mortise.convolution"))
    return judgeConvolution(node);
  if (isOp(node, "mortise.max_pool") || isOp(node, "mortise.sum_pool"))
    return judgePool(node);
  if (isOp(node, "mortise.attention"))
    return refuse(MORTISE_REASON_COST, "taken as its products and softmax, which read and write each other's layout");
  return codegen::supports(node);
}

// Nanoseconds of arithmetic and traffic; a fused region is dearer than its largest part and cheaper than the sum.
static Candidate estimate(const MortiseGraph &graph, const std::vector<uint32_t> &nodes) {
  Candidate candidate;
  candidate.lowering = "cpu.region";
  candidate.nodes = nodes;
  const MortiseDeviceInfo &device = deviceInfo();
  std::vector<bool> inside(graph.node_count);
  for (uint32_t node : nodes)
    inside[node] = true;
  for (uint32_t index : nodes) {
    const MortiseNode &node = *graph.nodes[index];
    double bytes = 0, flops = 0;
    for (size_t i = 0; i < node.operand_count; ++i)
      if (const MortiseValue *operand = node.operands[i])
        if (!operand->producer || !inside[operand->producer->index])
          bytes += static_cast<double>(byteSize(*operand->type));
    for (size_t i = 0; i < node.result_count; ++i)
      flops += static_cast<double>(elementCount(*node.results[i]->type));
    double results = flops * static_cast<double>(dtypeBits(node.results[0]->type->dtype)) / 8, steps = 0;
    if (isOp(node, "mortise.dot") || isOp(node, "mortise.linear")) {
      double terms = 1;
      if (isOp(node, "mortise.linear"))
        terms = static_cast<double>(dims(*node.operands[0]->type).back());
      else
        for (int64_t axis : intsAttribute(node, "lhs_contract"))
          terms *= static_cast<double>(node.operands[0]->type->dims[axis]);
      flops *= 2 * terms;
      bytes += 2 * results;
      steps = 1;
    } else if (isOp(node, "mortise.convolution")) {
      flops *= 2 * static_cast<double>(elementCount(*node.operands[1]->type)) /
               std::max<double>(1, static_cast<double>(node.operands[1]->type->dims[0]));
      bytes += 2 * results;
      steps = 1;
    } else if (isOp(node, "mortise.embedding") || isOp(node, "mortise.take")) {
      bytes = 2 * results; // not the whole table
      flops = 0;
      steps = 0.5;
    } else if (std::string_view(node.op).find("norm") != std::string_view::npos || isOp(node, "mortise.softmax")) {
      bytes += 2 * results;
      flops *= 10;
      steps = 1;
    } else if (isOp(node, "mortise.reshape") || isOp(node, "mortise.broadcast") || isOp(node, "mortise.constant")) {
      bytes = flops = 0;
    } else {
      bytes += results; // half of it fused away
    }
    candidate.bytes += bytes;
    candidate.flops += flops;
    candidate.costNs += std::max(bytes / device.bandwidth, flops / device.peak_flops) * 1e9 + steps * 2000;
  }
  return candidate;
}

Result<void> propose(Proposal &proposal) {
  const MortiseGraph &graph = proposal.graph();
  std::vector<bool> supported(graph.node_count);
  for (size_t i = 0; i < graph.node_count; ++i) {
    Support verdict = judge(*graph.nodes[i]);
    supported[i] = verdict.yes;
    if (!verdict.yes)
      proposal.refuse(static_cast<uint32_t>(i), verdict.reason, verdict.detail);
  }
  for (const std::vector<uint32_t> &region : convexRegions(graph, supported))
    proposal.add(estimate(graph, region));
  return {};
}

} // namespace mortise::cpu
