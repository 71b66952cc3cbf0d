// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "plan_report.hpp"

#include "symbols.hpp"

#include <mortise/runtime/plan_generated.h>

#include <algorithm>
#include <set>

namespace mortise::passes {
namespace {

int64_t valueOf(std::span<const plan::ExprStep> steps, std::span<const int64_t> values) {
  std::vector<MortiseExprStep> program;
  for (const plan::ExprStep &step : steps)
    program.push_back({step.op(), 0, step.value()});
  const Result<int64_t> found = evaluate({program.data(), program.size()}, values);
  return found ? std::max<int64_t>(*found, 0) : 0; // checkLayouts and the graph's verifier have seen it
}

void addRefusal(const Refusal &refusal, const std::string &op, const std::vector<Target> &targets, plan::PlanT &plan) {
  auto entry = std::make_unique<plan::RefusalT>();
  entry->node = refusal.node;
  entry->op = op;
  entry->device = targets[refusal.target].device->name();
  entry->plugin = targets[refusal.target].device->plugin->name;
  entry->reason = reasonName(refusal.reason);
  entry->detail = refusal.detail;
  plan.refusals.push_back(std::move(entry));
}

// The copy that is the first to read the buffer which step `s` of the plan, a copy, writes; NULL where another
// instruction comes first, or none.
const plan::CopyT *firstReader(const plan::PlanT &plan, size_t s) {
  const uint32_t written = plan.steps[s]->instruction.AsCopy()->target;
  for (size_t i = s + 1; i < plan.steps.size(); ++i) {
    if (const plan::CopyT *copy = plan.steps[i]->instruction.AsCopy()) {
      if (copy->source == written)
        return copy;
    } else if (const auto &region = *plan.regions[plan.steps[i]->instruction.AsEnqueue()->region];
               std::ranges::find(region.inputs, written) != region.inputs.end()) {
      return nullptr;
    }
  }
  return nullptr;
}

} // namespace

uint64_t bytesOf(const plan::BufferT &buffer, std::span<const int64_t> values) {
  if (buffer.layout != MORTISE_PLAIN_LAYOUT)
    return static_cast<uint64_t>(valueOf(buffer.bytes, values));
  const plan::TensorTypeT &type = *buffer.type;
  uint64_t bits = dtypeBits(type.dtype);
  std::span<const plan::ExprStep> steps = type.steps; // of every extent, or none where all are numbers
  for (size_t i = 0; i < type.dims.size(); ++i) {
    const size_t count = type.step_counts.empty() ? 0 : type.step_counts[i];
    bits *= static_cast<uint64_t>(count ? valueOf(steps.first(count), values) : type.dims[i]);
    steps = steps.subspan(count);
  }
  return (bits + 7) / 8;
}

void reportPlacement(const MortiseGraph &graph, const Placement &placement, const std::vector<Target> &targets,
                     const std::vector<DecomposedRefusal> &decomposed, plan::PlanT &plan) {
  for (size_t n = 0; n < graph.node_count; ++n)
    plan.node_ops.push_back(graph.nodes[n]->op);
  for (const DecomposedRefusal &lost : decomposed)
    addRefusal(lost.refusal, lost.op, targets, plan);
  for (const Refusal &refusal : placement.refusals)
    addRefusal(refusal, graph.nodes[refusal.node]->op, targets, plan);
  for (const Declined &candidate : placement.declined) {
    const runtime::Device &device = *targets[candidate.target].device;
    auto entry = std::make_unique<plan::DeclinedT>();
    entry->device = device.name();
    entry->plugin = device.plugin->name;
    entry->lowering = candidate.lowering;
    entry->nodes = candidate.nodes;
    entry->cost_ns = candidate.costNs;
    entry->reason = reasonName(candidate.reason);
    entry->detail = candidate.detail;
    plan.declined.push_back(std::move(entry));
  }
  for (const auto &[target, count] : placement.unlisted) {
    auto entry = std::make_unique<plan::UnlistedT>();
    entry->device = targets[target].device->name();
    entry->plugin = targets[target].device->plugin->name;
    entry->count = count;
    plan.unlisted.push_back(std::move(entry));
  }
}

void reportProcessCopies(const MortiseGraph &region, const Target &target, plan::RegionT &into) {
  const auto [in, out] = target.prices->callCopies(region, *target.device);
  for (const auto &[each, back] : {std::pair(in, false), std::pair(out, true)}) {
    if (each.tensors == 0)
      continue;
    auto told = std::make_unique<plan::ProcessCopiesT>();
    told->back = back;
    told->tensors = static_cast<uint32_t>(each.tensors);
    told->bytes = each.bytes;
    told->cost_ns = each.costNs();
    told->latency_ns = each.price.ns;
    told->bytes_per_second = each.price.bytesPerSecond;
    told->latency_source = priceSourceName(each.price.nsSource);
    told->bandwidth_source = priceSourceName(each.price.bytesPerSecondSource);
    into.process_copies.push_back(std::move(told));
  }
}

void reportCopies(const MortiseGraph &graph, const std::vector<Target> &targets,
                  const std::vector<const runtime::Device *> &memories, plan::PlanT &plan) {
  std::vector<int64_t> values;
  if (graph.symbol_count)
    values = typicalValues(graph);
  std::set<const plan::CopyT *> paid; // with an earlier copy
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    plan::CopyT *copy = plan.steps[s]->instruction.AsCopy();
    if (!copy)
      continue;
    const plan::BufferT &source = *plan.buffers[copy->source], &target = *plan.buffers[copy->target];
    copy->bytes = static_cast<double>(bytesOf(source, values));
    const runtime::Device *from = memories[source.space], *to = memories[target.space];
    if ((!from && !to) || paid.contains(copy) || targets.empty())
      continue;
    if (from && !to && target.kind == plan::BufferKind::Arena)
      if (const plan::CopyT *next = firstReader(plan, s))
        if (const runtime::Device *end = memories[plan.buffers[next->target]->space]; end && end != from) {
          to = end; // the host's memory is on the way
          paid.insert(next);
        }
    const CopyPrice price = targets[0].prices->copy(from, to);
    copy->cost_ns = price.of(copy->bytes);
    copy->latency_ns = price.ns;
    copy->bytes_per_second = price.bytesPerSecond;
    copy->latency_source = priceSourceName(price.nsSource);
    copy->bandwidth_source = priceSourceName(price.bytesPerSecondSource);
    copy->over_host = price.overHost;
  }
}

} // namespace mortise::passes
