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
    addCopies(whole);
    addDeclined(whole);
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

  // The device in whose memory a buffer lies, or "host".
  std::string memoryOf(uint32_t buffer) const {
    const std::string &device = plan.spaces[plan.buffers[buffer]->space]->device;
    return device.empty() ? "host" : device;
  }

  void addCopies(Json &whole) {
    Json copies = Json::array();
    double sum = 0, bytes = 0;
    for (const auto &step : plan.steps) {
      const plan::CopyT *copy = step->instruction.AsCopy();
      if (!copy)
        continue;
      Json price; // null: the copy costs nothing, or the one before it includes it
      if (!copy->latency_source.empty())
        price = {{"ns", copy->latency_ns},
                 {"ns_source", copy->latency_source},
                 {"bytes_per_second", copy->bytes_per_second},
                 {"bytes_per_second_source", copy->bandwidth_source},
                 {"over_host", copy->over_host}};
      copies.push_back({{"from", memoryOf(copy->source)},
                        {"to", memoryOf(copy->target)},
                        {"bytes", copy->bytes},
                        {"predicted_us", copy->cost_ns / 1e3},
                        {"price", price}});
      sum += copy->cost_ns / 1e3;
      bytes += copy->bytes;
    }
    for (const auto &region : plan.regions)
      for (const auto &each : region->process_copies) { // in the plugin's own process
        copies.push_back({{"from", each->back ? region->device : "host"},
                          {"to", each->back ? "host" : region->device},
                          {"bytes", each->bytes},
                          {"predicted_us", each->cost_ns / 1e3},
                          {"price",
                           {{"ns", each->latency_ns},
                            {"ns_source", each->latency_source},
                            {"bytes_per_second", each->bytes_per_second},
                            {"bytes_per_second_source", each->bandwidth_source},
                            {"over_host", false}}}});
        sum += each->cost_ns / 1e3;
        bytes += each->bytes;
      }
    whole["copies"] = copies;
    whole["copied_bytes"] = bytes;
    whole["predicted_us"] = whole["predicted_us"].get<double>() + sum;
  }

  // Candidates that the host did not take; equal ones once.
  void addDeclined(Json &whole) {
    Json list = Json::array(), unlisted = Json::array();
    for (const auto &candidate : plan.declined) {
      Json entry{{"lowering", candidate->lowering},
                 {"device", candidate->device},
                 {"plugin", candidate->plugin},
                 {"nodes", candidate->nodes},
                 {"ops", opsOf(candidate->nodes, plan.node_ops)},
                 {"predicted_us", candidate->cost_ns / 1e3},
                 {"reason", candidate->reason},
                 {"detail", candidate->detail}};
      if (std::ranges::find(list, entry) == list.end())
        list.push_back(std::move(entry));
    }
    for (const auto &rest : plan.unlisted)
      unlisted.push_back({{"device", rest->device}, {"plugin", rest->plugin}, {"count", rest->count}});
    whole["declined"] = list;
    whole["unlisted"] = unlisted;
  }

  // Equal refusals of nodes once, with their number.
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

std::string text(const Json &value) { return value.get<std::string>(); }

std::string priceOf(const Json &copy) {
  const Json &price = copy["price"];
  if (price.is_null())
    return copy["from"] == copy["to"] ? "within one memory, not priced" : "with the copy before it";
  return passes::priceText(price["ns"], text(price["ns_source"]), price["bytes_per_second"],
                           text(price["bytes_per_second_source"]), price["over_host"]);
}

// "op, `cannot` excludes mortise.tanh"
std::string whyOf(const Json &answer) {
  const std::string detail = text(answer["detail"]);
  return text(answer["reason"]) + (detail.empty() ? "" : ", " + detail);
}

std::string textOf(const Json &whole) {
  std::ostringstream out;
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
        << " to " << text(copy["to"]) << ": predicted " << us(copy["predicted_us"]) << " (" << priceOf(copy) << ")\n";
  for (const Json &candidate : whole["declined"])
    out << (candidate["reason"] == "cost" ? "lost: " : "refused: ") << text(candidate["lowering"]) << " by "
        << text(candidate["plugin"]) << " on " << text(candidate["device"]) << ": " << text(candidate["ops"])
        << "; predicted " << us(candidate["predicted_us"]) << "; " << whyOf(candidate) << "\n";
  for (const Json &rest : whole["unlisted"])
    out << "lost: " << rest["count"] << " more candidates by " << text(rest["plugin"]) << " on " << text(rest["device"])
        << ", which are not listed\n";
  for (const Json &refusal : whole["refusals"])
    out << (refusal["reason"] == "cost" ? "lost: " : "refused: ") << text(refusal["op"])
        << (refusal["count"] == 1 ? "" : " (" + refusal["count"].dump() + " times)") << " by "
        << text(refusal["plugin"]) << " on " << text(refusal["device"]) << ": " << whyOf(refusal) << "\n";
  return out.str();
}

// A page of tables.
class Page {
public:
  Page(const Json &whole, const std::string &drawing) : whole(whole), drawing(drawing) {}

  std::string make() {
    const std::string name = escaped(text(whole["name"]));
    out << "<!doctype html><meta charset=\"utf-8\"><title>" << name << "</title>\n<style>\n"
        << "body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}th{text-align:left;color:#666}"
           "td,th{padding:.2em .9em .2em 0;vertical-align:top}td.n{text-align:right;white-space:nowrap}"
           "td.wide{max-width:36em}tr+tr td{border-top:1px solid #eee}.bar{height:.8em;margin:2px 0}"
           ".p{background:#bcd}.m{background:#2a9d5c}summary{cursor:pointer}"
           "iframe{width:100%;height:80vh;border:1px solid #ccc}\n</style>\n<h1>"
        << name << "</h1>\n<p>A call: predicted " << us(whole["predicted_us"]) << ", measured " << us(whole["call_us"])
        << "; " << tool::number("%.0f", whole["copied_bytes"].get<double>()) << " bytes are copied.\n";
    regions();
    copies();
    declined();
    refusals();
    out << "<h2>The graph</h2>\n<iframe srcdoc=\"" << escaped(drawing) << "\"></iframe>\n";
    return out.str();
  }

private:
  void heading(const char *title, std::initializer_list<const char *> columns) {
    out << "<h2>" << title << "</h2>\n<table><tr>";
    for (const char *column : columns)
      out << "<th>" << column;
    out << "\n";
  }
  void cell(const std::string &content, const char *kind = "") {
    out << "<td" << (*kind ? std::string(" class=\"") + kind + "\"" : "") << ">" << escaped(content);
  }
  void cell(const Json &content, const char *kind = "") { cell(text(content), kind); }

  void regions() {
    double longest = 1e-3;
    for (const Json &region : whole["regions"])
      longest = std::max({longest, region["predicted_us"].get<double>(), region["measured_us"].get<double>()});
    heading("Regions", {"", "device", "lowering", "ops", "predicted", "measured", ""});
    size_t number = 0;
    for (const Json &region : whole["regions"]) {
      out << "<tr>";
      cell(std::to_string(number++));
      cell(region["device"]);
      cell(region["lowering"]);
      out << "<td class=\"wide\">" << escaped(text(region["ops"])) << "<details><summary>" << region["steps"].size()
          << " steps</summary>";
      for (const Json &step : region["steps"])
        out << escaped(us(step["us"]) + ": " + text(step["name"])) << "<br>";
      out << "</details>";
      cell(us(region["predicted_us"]), "n");
      cell(us(region["measured_us"]), "n");
      out << "<td>";
      for (const auto &[kind, key] : {std::pair("p", "predicted_us"), std::pair("m", "measured_us")})
        out << "<div class=\"bar " << kind
            << "\" style=\"width:" << tool::number("%.1f", region[key].get<double>() / longest * 400) << "px\"></div>";
      out << "\n";
    }
    out << "</table>\n";
  }

  void copies() {
    heading("Copies", {"from", "to", "bytes", "predicted", "price"});
    for (const Json &copy : whole["copies"]) {
      out << "<tr>";
      cell(copy["from"]);
      cell(copy["to"]);
      cell(tool::number("%.0f", copy["bytes"].get<double>()), "n");
      cell(us(copy["predicted_us"]), "n");
      cell(priceOf(copy));
      out << "\n";
    }
    out << "</table>\n";
  }

  void declined() {
    heading("Candidates that lost or were refused", {"lowering", "device", "ops", "predicted", "reason", "detail"});
    for (const Json &candidate : whole["declined"]) {
      out << "<tr>";
      cell(candidate["lowering"]);
      cell(candidate["device"]);
      cell(candidate["ops"], "wide");
      cell(us(candidate["predicted_us"]), "n");
      cell(candidate["reason"]);
      cell(candidate["detail"], "wide");
      out << "\n";
    }
    out << "</table>\n";
    for (const Json &rest : whole["unlisted"])
      out << "<p>" << rest["count"] << " more lost on " << escaped(text(rest["device"])) << ".\n";
  }

  void refusals() {
    heading("Nodes that were refused", {"op", "times", "device", "plugin", "reason", "detail"});
    for (const Json &refusal : whole["refusals"]) {
      out << "<tr>";
      cell(refusal["op"]);
      cell(refusal["count"].dump(), "n");
      cell(refusal["device"]);
      cell(refusal["plugin"]);
      cell(refusal["reason"]);
      cell(refusal["detail"], "wide");
      out << "\n";
    }
    out << "</table>\n";
  }

  const Json &whole;
  const std::string &drawing;
  std::ostringstream out;
};

} // namespace

Result<void> explain(Execution &execution, const Host &host, bool json, const Placed *drawn, const std::string &page) {
  auto whole = Explainer(execution, host).make();
  if (!whole)
    return whole.error();
  if (drawn) {
    const std::string content = Page(*whole, draw(drawn->graph->view(), drawn->plan.get())).make();
    if (auto saved = writeFile(page, std::as_bytes(std::span(content))); !saved)
      return saved;
  }
  std::cout << (json ? whole->dump(2, ' ', false, Json::error_handler_t::replace) + "\n" : textOf(*whole));
  return {};
}

} // namespace mortise::tool
