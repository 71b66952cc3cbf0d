// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "explain.hpp"

#include "draw.hpp"

#include <mortise/passes/prices.hpp>
#include <mortise/runtime/plan_generated.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <map>
#include <sstream>
#include <tuple>

namespace mortise::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr int runs = 20;

std::string number(const char *format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}
std::string us(double value) { return number("%.1f us", value); }

// "3 add, relu"
std::string opsOf(const std::vector<uint32_t> &nodes, const std::vector<std::string> &ops) {
  std::map<std::string, int> counts;
  for (const uint32_t node : nodes)
    ++counts[ops[node].substr(ops[node].find('.') + 1)];
  std::string text;
  for (const auto &[op, count] : counts)
    text += (text.empty() ? "" : ", ") + (count > 1 ? std::to_string(count) + " " : "") + op;
  return text;
}

class Explainer {
public:
  Explainer(Execution &execution, const Host &host)
      : execution(execution), host(host), plan(execution.program().plan()) {}

  Result<Json> make() {
    std::vector<double> calls;
    if (auto done = execution.run(); !done) // the first call is no call like the others
      return done.error();
    for (int i = 0; i < runs; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      if (auto done = execution.run(); !done)
        return done.error();
      calls.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
    }
    std::ranges::sort(calls);
    for (int i = 0; i < runs; ++i)
      if (auto done = execution.runProfiled(); !done)
        return done.error();
    Json whole{{"name", plan.name}, {"nodes", plan.node_ops.size()}, {"call_us", calls[calls.size() / 2]}};
    addRegions(whole);
    if (auto added = addCopies(whole); !added)
      return added.error();
    addRefusals(whole);
    return whole;
  }

private:
  void addRegions(Json &whole) {
    Json regions = Json::array(), shares = Json::object();
    double measured = 0, predicted = 0;
    size_t placed = 0;
    for (const runtime::RegionReport &region : execution.program().report()) {
      Json steps = Json::array();
      double sum = 0;
      for (const runtime::StepReport &step : region.steps) {
        const double each = static_cast<double>(step.ns) / runs / 1e3;
        sum += each;
        steps.push_back({{"lowering", step.lowering},
                         {"name", step.name},
                         {"us", each},
                         {"bytes", step.bytes},
                         {"flops", step.flops}});
      }
      const auto found = host.registry->find(region.device);
      const double launch = found ? passes::launchNs(*found->front()) / 1e3 : 0;
      regions.push_back({{"device", region.device},
                         {"plugin", region.plugin},
                         {"lowering", region.lowering},
                         {"ops", opsOf(region.nodes, plan.node_ops)},
                         {"nodes", region.nodes.size()},
                         {"predicted_us", region.predictedNs / 1e3},
                         {"launch_us", launch},
                         {"measured_us", sum},
                         {"kernel_cache", region.cached},
                         {"steps", steps}});
      measured += sum;
      predicted += region.predictedNs / 1e3 + launch;
      placed += region.nodes.size();
      shares[region.device] = shares.value(region.device, size_t{0}) + region.nodes.size();
    }
    for (Json &region : regions)
      region["share"] = measured > 0 ? region["measured_us"].get<double>() / measured : 0.0;
    whole["predicted_us"] = predicted;
    whole["nodes_by_device"] = shares;
    whole["placed"] = placed;
    whole["regions"] = regions;
  }

  // The device in whose memory a buffer lies; NULL for the host's, and for a device that computes there.
  Result<const runtime::Device *> homeOf(const plan::BufferT &buffer) const {
    const uint32_t space = buffer.kind == plan::BufferKind::Input    ? plan.inputs[buffer.index]->space
                           : buffer.kind == plan::BufferKind::Output ? plan.outputs[buffer.index]->space
                                                                     : buffer.space;
    const std::string &name = plan.spaces[space]->device;
    if (name.empty())
      return nullptr;
    auto found = host.registry->find(name);
    if (!found)
      return found.error();
    return found->front();
  }

  Result<void> addCopies(Json &whole) {
    Json copies = Json::array();
    double sum = 0, bytes = 0;
    for (const auto &step : plan.steps) {
      const plan::CopyT *copy = step->instruction.AsCopy();
      if (!copy)
        continue;
      const plan::BufferT &source = *plan.buffers[copy->source], &target = *plan.buffers[copy->target];
      const auto from = homeOf(source), to = homeOf(target);
      if (!from || !to)
        return (from ? to : from).error();
      double size = static_cast<double>(dtypeBits(source.type->dtype)) / 8;
      for (const int64_t extent : source.type->dims)
        size *= static_cast<double>(extent);
      const auto name = [](const runtime::Device *device) { return device ? device->name() : std::string("host"); };
      const auto [ns, how] = price(*from, *to, size);
      copies.push_back(
          {{"from", name(*from)}, {"to", name(*to)}, {"bytes", size}, {"predicted_us", ns / 1e3}, {"priced", how}});
      sum += ns / 1e3;
      bytes += size;
    }
    whole["copies"] = copies;
    whole["copied_bytes"] = bytes;
    whole["predicted_us"] = whole["predicted_us"].get<double>() + sum;
    return {};
  }

  static std::pair<double, std::string> price(const runtime::Device *from, const runtime::Device *to, double bytes) {
    double latency = 0, bandwidth = 0;
    std::string whose;
    if (from && to) {
      const auto link = runtime::linkBetween(from->owner(), to->owner());
      latency = link ? link->copyNs : 0;
      bandwidth = link ? link->bandwidth : 0;
      whose = "the link between them";
    } else if (const runtime::Device *device = from ? from : to) {
      latency = device->owner().info.copy_ns;
      bandwidth = device->owner().info.copy_bandwidth;
      whose = "device " + device->name();
    } else {
      return {0, "within the host's memory: not priced"};
    }
    const bool known = latency > 0 && bandwidth > 0;
    const std::string how = number("%.4g us", (latency > 0 ? latency : passes::copyLatencyNs) / 1e3) + " and " +
                            number("%.4g GB/s", (bandwidth > 0 ? bandwidth : passes::copyBandwidth) / 1e9) +
                            (known ? ", as " + whose + " says" : ", because " + whose + " does not say");
    return {passes::copyNs(latency, bandwidth, bytes), how};
  }

  // Equal refusals once, with their number.
  void addRefusals(Json &whole) {
    std::map<std::tuple<std::string, std::string, std::string, std::string, std::string>, int> counts;
    for (const auto &refusal : plan.refusals)
      ++counts[{refusal->device, refusal->plugin, refusal->op, refusal->reason, refusal->detail}];
    Json refusals = Json::array();
    for (const auto &[key, count] : counts) {
      const auto &[device, plugin, op, reason, detail] = key;
      refusals.push_back({{"op", op},
                          {"device", device},
                          {"plugin", plugin},
                          {"reason", reason},
                          {"detail", detail},
                          {"count", count}});
    }
    whole["refusals"] = refusals;
  }

  Execution &execution;
  const Host &host;
  const plan::PlanT &plan;
};

std::string textOf(const Json &whole) {
  std::ostringstream out;
  const auto text = [](const Json &value) { return value.get<std::string>(); };
  out << text(whole["name"]) << ": " << whole["nodes"] << " nodes";
  for (const auto &[device, count] : whole["nodes_by_device"].items())
    out << ", " << count << " on " << device;
  out << "\na call: predicted " << us(whole["predicted_us"]) << ", measured " << us(whole["call_us"]) << "\n";
  size_t number = 0;
  for (const Json &region : whole["regions"]) {
    out << "region " << number++ << " on " << text(region["device"]) << " (" << text(region["lowering"])
        << "): " << text(region["ops"]) << "\n    predicted " << us(region["predicted_us"]) << " and "
        << us(region["launch_us"]) << " to start it, measured " << us(region["measured_us"])
        << tool::number(", %.1f %% of all regions\n", 100 * region["share"].get<double>());
    for (const Json &step : region["steps"])
      out << "    " << tool::number("%9.1f us  ", step["us"].get<double>()) << text(step["lowering"]) << ": "
          << text(step["name"]) << "\n";
  }
  for (const Json &copy : whole["copies"])
    out << "copy of " << tool::number("%.0f", copy["bytes"].get<double>()) << " bytes from " << text(copy["from"])
        << " to " << text(copy["to"]) << ": predicted " << us(copy["predicted_us"]) << " (" << text(copy["priced"])
        << ")\n";
  for (const Json &refusal : whole["refusals"])
    out << (refusal["reason"] == "cost" ? "lost: " : "refused: ") << text(refusal["op"])
        << (refusal["count"] == 1 ? "" : " (" + refusal["count"].dump() + " times)") << " by "
        << text(refusal["plugin"]) << " on " << text(refusal["device"]) << ": " << text(refusal["reason"])
        << (text(refusal["detail"]).empty() ? "" : ", " + text(refusal["detail"])) << "\n";
  return out.str();
}

// Bars of predicted and measured time for each region, the text, and the drawn graph.
std::string pageOf(const Json &whole, const std::string &drawing) {
  double longest = 1e-3;
  for (const Json &region : whole["regions"])
    longest = std::max({longest, region["predicted_us"].get<double>(), region["measured_us"].get<double>()});
  std::ostringstream out;
  out << "<!doctype html><meta charset=\"utf-8\"><title>" << escaped(whole["name"].get<std::string>())
      << "</title>\n<style>\n"
      << "body{font:14px sans-serif;margin:2em}td{padding:.15em .8em .15em 0;vertical-align:middle;white-space:nowrap}"
         ".bar{height:.8em;margin:1px "
         "0}.p{background:#bcd}.m{background:#2a9d5c}pre{background:#f5f5f5;padding:1em;overflow:auto}"
         "iframe{width:100%;height:80vh;border:1px solid #ccc}\n</style>\n<h1>"
      << escaped(whole["name"].get<std::string>()) << "</h1>\n<p>A call: predicted " << us(whole["predicted_us"])
      << ", measured " << us(whole["call_us"]) << "; " << tool::number("%.0f", whole["copied_bytes"].get<double>())
      << " bytes are copied.\n<table><tr><th>region<th>device<th>ops<th>us<th><span "
         "style=\"color:#68a\">predicted</span>, "
         "<span style=\"color:#2a9d5c\">measured</span>\n";
  size_t number = 0;
  for (const Json &region : whole["regions"]) {
    const auto bar = [&](const char *kind, const char *key) {
      out << "<div class=\"bar " << kind
          << "\" style=\"width:" << tool::number("%.1f", region[key].get<double>() / longest * 400) << "px\"></div>";
    };
    std::string ops = region["ops"];
    if (ops.size() > 80)
      ops = ops.substr(0, 77) + "...";
    out << "<tr><td>" << number++ << "<td>" << escaped(region["device"].get<std::string>()) << "<td>" << escaped(ops)
        << "<td>" << tool::number("%.1f", region["predicted_us"].get<double>()) << "<br>"
        << tool::number("%.1f", region["measured_us"].get<double>()) << "<td>";
    bar("p", "predicted_us");
    bar("m", "measured_us");
    out << "\n";
  }
  out << "</table>\n<h2>Regions, copies, refusals</h2>\n<pre>" << escaped(textOf(whole))
      << "</pre>\n<h2>The graph</h2>\n"
      << "<iframe srcdoc=\"" << escaped(drawing) << "\"></iframe>\n";
  return out.str();
}

} // namespace

Result<void> explain(Execution &execution, const Host &host, bool json, const Placed *drawn, const std::string &page) {
  auto whole = Explainer(execution, host).make();
  if (!whole)
    return whole.error();
  if (drawn) {
    const std::string content = pageOf(*whole, draw(drawn->graph->view(), drawn->plan.get()));
    if (auto saved = writeFile(page, std::as_bytes(std::span(content))); !saved)
      return saved;
  }
  std::cout << (json ? whole->dump(2, ' ', false, Json::error_handler_t::replace) + "\n" : textOf(*whole));
  return {};
}

} // namespace mortise::tool
