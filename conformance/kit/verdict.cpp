// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "verdict.hpp"

#include <algorithm>

namespace mortise::conformance {

const char *reasonName(int32_t reason) {
  switch (reason) {
  case MORTISE_REASON_OP:
    return "op";
  case MORTISE_REASON_DTYPE:
    return "dtype";
  case MORTISE_REASON_RANK:
    return "rank";
  case MORTISE_REASON_ATTRIBUTE:
    return "attribute";
  case MORTISE_REASON_LAYOUT:
    return "layout";
  case MORTISE_REASON_NEEDS_STATIC:
    return "needs-static";
  case MORTISE_REASON_SIZE:
    return "size";
  case MORTISE_REASON_OPSET:
  case reasonOpset:
    return "opset";
  case MORTISE_REASON_MEMORY:
    return "memory";
  case MORTISE_REASON_OPTION:
    return "option";
  case MORTISE_REASON_HARDWARE:
    return "hardware";
  case MORTISE_REASON_ERROR:
    return "error";
  case MORTISE_REASON_COST:
    return "cost";
  case reasonCompile:
    return "compile";
  case reasonPartial:
    return "partial";
  case reasonForms:
    return "forms";
  case reasonNoPair:
    return "no-pair";
  default:
    return "unknown";
  }
}

Json Verdict::json() const {
  Json made = {{"case", id}, {"outcome", nameOf(outcome)}};
  if (!kind.empty())
    made["kind"] = kind;
  if (!reason.empty())
    made["reason"] = reason;
  if (!why.empty())
    made["why"] = why;
  if (outcome == Outcome::Passed || outcome == Outcome::Failed) {
    made["ulp"] = distances.worst;
    made["share"] = distances.share;
    made["bound"] = distances.bound;
    made["histogram"] = distances.histogram;
    made["cpu_seconds"] = cpuSeconds;
    made["run_seconds"] = runSeconds;
  }
  if (nodes) {
    made["nodes"] = nodes;
    made["regions"] = regions;
  }
  if (!region.empty())
    made["region"] = region;
  if (!bound.empty())
    made["bound_inputs"] = bound;
  if (speed)
    made["perf"] = speed->json();
  made["seconds"] = seconds;
  return made;
}

Verdict Verdict::read(const Json &json) {
  Verdict made;
  made.id = json.value("case", "");
  const std::string outcome = json.value("outcome", "");
  const auto *found = std::ranges::find(outcomeNames, outcome);
  made.outcome = static_cast<Outcome>(found == std::end(outcomeNames) ? 0 : found - std::begin(outcomeNames));
  made.kind = json.value("kind", "");
  made.reason = json.value("reason", "");
  made.why = json.value("why", "");
  made.distances.worst = json.value("ulp", 0.0);
  made.distances.share = json.value("share", 0.0);
  made.distances.bound = json.value("bound", 0.0);
  if (json.contains("histogram"))
    made.distances.histogram = json["histogram"].get<Histogram>();
  made.cpuSeconds = json.value("cpu_seconds", 0.0);
  made.runSeconds = json.value("run_seconds", 0.0);
  made.nodes = json.value("nodes", size_t{0});
  made.regions = json.value("regions", size_t{0});
  made.region = json.value("region", "");
  if (json.contains("bound_inputs"))
    made.bound = json["bound_inputs"].get<std::vector<std::string>>();
  if (json.contains("perf"))
    made.speed = Speed::read(json["perf"]);
  made.seconds = json.value("seconds", 0.0);
  return made;
}

} // namespace mortise::conformance
