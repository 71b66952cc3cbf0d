// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The JSON that mortise.h documents.
#include "handles.hpp"

#include <mortise/graph.hpp>
#include <mortise/runtime/plan_generated.h>

#include <nlohmann/json.hpp>

namespace mortise::capi {
namespace {

using Json = nlohmann::ordered_json;

// {"mortise.add": 3}
Json opsOf(const std::vector<uint32_t> &nodes, const plan::PlanT &plan) {
  Json ops = Json::object();
  for (uint32_t node : nodes)
    if (node < plan.node_ops.size())
      ops[plan.node_ops[node]] = ops.value(plan.node_ops[node], 0) + 1;
  return ops;
}

Json placement(const runtime::Program &program) {
  const plan::PlanT &plan = program.plan();
  Json list = Json::array();
  for (const runtime::RegionReport &region : program.report()) {
    Json steps = Json::array();
    for (const runtime::StepReport &step : region.steps)
      steps.push_back({{"name", step.name},
                       {"lowering", step.lowering},
                       {"ns", step.ns},
                       {"bytes", step.bytes},
                       {"flops", step.flops}});
    list.push_back({{"device", region.device},
                    {"plugin", region.plugin},
                    {"lowering", region.lowering},
                    {"nodes", region.nodes},
                    {"ops", opsOf(region.nodes, plan)},
                    {"predicted_ns", region.predictedNs},
                    {"kernels", region.kernels},
                    {"kernel_cache", region.cached.empty() ? Json() : Json(region.cached)},
                    {"specialised", region.specialised.empty() ? Json() : Json(region.specialised)},
                    {"steps", steps}});
  }
  return list;
}

// Copies between memories, and what the dispatcher took them to cost.
Json copies(const plan::PlanT &plan) {
  Json list = Json::array();
  const auto memoryOf = [&](uint32_t buffer) {
    const std::string &device = plan.spaces[plan.buffers[buffer]->space]->device;
    return device.empty() ? std::string("host") : device;
  };
  for (const auto &step : plan.steps)
    if (const plan::CopyT *copy = step->instruction.AsCopy()) {
      const auto said = [](const std::string &source) { return source.empty() ? Json() : Json(source); };
      list.push_back({{"from", memoryOf(copy->source)},
                      {"to", memoryOf(copy->target)},
                      {"bytes", copy->bytes},
                      {"predicted_ns", copy->cost_ns},
                      {"latency_ns", copy->latency_ns},
                      {"latency_source", said(copy->latency_source)},
                      {"bytes_per_second", copy->bytes_per_second},
                      {"bandwidth_source", said(copy->bandwidth_source)},
                      {"over_host", copy->over_host}});
    }
  for (const auto &region : plan.regions)
    for (const auto &copies : region->process_copies) // all tensors of a call, in the plugin's own process
      list.push_back({{"from", copies->back ? region->device : "host"},
                      {"to", copies->back ? "host" : region->device},
                      {"tensors", copies->tensors},
                      {"bytes", copies->bytes},
                      {"predicted_ns", copies->cost_ns},
                      {"latency_ns", copies->latency_ns},
                      {"latency_source", copies->latency_source},
                      {"bytes_per_second", copies->bytes_per_second},
                      {"bandwidth_source", copies->bandwidth_source},
                      {"over_host", false}});
  return list;
}

// Candidates that the host did not take, and how many it does not list.
std::pair<Json, Json> candidates(const plan::PlanT &plan) {
  Json list = Json::array(), unlisted = Json::array();
  for (const auto &candidate : plan.declined)
    list.push_back({{"lowering", candidate->lowering},
                    {"device", candidate->device},
                    {"plugin", candidate->plugin},
                    {"nodes", candidate->nodes},
                    {"ops", opsOf(candidate->nodes, plan)},
                    {"predicted_ns", candidate->cost_ns},
                    {"reason", candidate->reason},
                    {"detail", candidate->detail}});
  for (const auto &rest : plan.unlisted)
    unlisted.push_back({{"device", rest->device}, {"plugin", rest->plugin}, {"count", rest->count}});
  return {std::move(list), std::move(unlisted)};
}

// Plugins write strings into reports, and bytes that are not UTF-8 must not make the whole report fail.
std::string dump(const Json &json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

} // namespace

std::string reportJson(const MortiseProgram &handle) {
  const runtime::Program &program = *handle.program;
  const plan::PlanT &plan = program.plan();
  Json refusals = Json::array(), inputs = Json::array(), outputs = Json::array();
  for (const auto &refusal : plan.refusals)
    refusals.push_back({{"node", refusal->node == UINT32_MAX ? Json() : Json(refusal->node)},
                        {"op", refusal->op},
                        {"device", refusal->device},
                        {"plugin", refusal->plugin},
                        {"reason", refusal->reason},
                        {"detail", refusal->detail}});
  Json uncovered = Json::array();
  for (const runtime::Uncovered &answer : program.uncovered())
    uncovered.push_back({{"node", answer.node},
                         {"op", answer.op},
                         {"location", answer.location},
                         {"device", answer.device},
                         {"plugin", answer.plugin},
                         {"reason", runtime::reasonName(answer.reason)},
                         {"detail", answer.detail}});
  for (const auto &input : plan.inputs)
    inputs.push_back({{"name", input->name},
                      {"type", runtime::typeText(plan, *input->type)},
                      {"constant", input->constant},
                      {"state", input->state},
                      {"donated", input->donated}});
  Json symbols = Json::array(), guards = Json::array();
  for (const auto &symbol : plan.symbols)
    symbols.push_back({{"name", symbol->name},
                       {"min", symbol->min},
                       {"max", symbol->max},
                       {"divisor", symbol->divisor},
                       {"input", symbol->input},
                       {"dimension", symbol->dimension}});
  for (const auto &guard : plan.guards)
    guards.push_back({{"expects", runtime::guardText(plan, *guard)}, {"reason", guard->reason}});
  const runtime::ValuesReport values = program.valuesReport();
  auto [declined, unlisted] = candidates(plan);
  for (const auto &output : plan.outputs)
    outputs.push_back({{"type", runtime::typeText(plan, *output->type)}, {"alias", output->alias}});
  return dump({{"name", plan.name},
               {"nodes", plan.node_ops.size()},
               {"compile_s",
                {{"passes", handle.passSeconds},
                 {"place", handle.placeSeconds},
                 {"kernels", handle.kernelSeconds},
                 {"bind", handle.bindSeconds.load()}}},
               {"arena_bytes", program.arenaBytes()},
               {"process_arena_bytes", runtime::processArenaBytes()},
               {"packed_bytes", program.packedBytes()},
               {"placement", placement(program)},
               {"symbols", symbols},
               {"guards", guards},
               {"values",
                {{"ready", values.ready},
                 {"limit", values.limit},
                 {"met", values.met},
                 {"dropped", values.dropped},
                 {"instances", values.instances},
                 {"kernels_specialised", values.specialised}}},
               {"copies", copies(plan)},
               {"refusals", refusals},
               {"declined", declined},
               {"unlisted", unlisted},
               {"uncovered", uncovered},
               {"inputs", inputs},
               {"outputs", outputs}});
}

} // namespace mortise::capi
