// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "report.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <set>
#include <sys/utsname.h>
#include <thread>

namespace mortise::conformance {
namespace {

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      return line.substr(line.find(':') + 2);
  return "unknown";
}

std::string nowText() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

Json environment() {
  utsname system{};
  uname(&system);
  return {{"processor", processor()},
          {"threads", std::thread::hardware_concurrency()},
          {"system", std::string(system.sysname) + " " + system.release + " " + system.machine},
          {"time", nowText()}};
}

constexpr const char *resultNames[] = {
    "good", "failed", "usage", "unusable", "nothing executed", "shrunken corpus", "unproven claim", "unexpected"};

Json casesOf(const Swept &swept, const Judgement &judgement) {
  Json cases = Json::array();
  for (const Verdict &verdict : swept.verdicts) {
    Json line = verdict.json();
    if (std::ranges::find(judgement.excused, &verdict) != judgement.excused.end())
      line["expected"] = true;
    cases.push_back(std::move(line));
  }
  return cases;
}

} // namespace

Json reportOf(const Options &options, const Subject &subject, const Swept &swept, const Judgement &judgement,
              const Coverage &coverage, double seconds) {
  const runtime::Manifest &manifest = subject.manifest;
  Json levels = Json::array(), sums = Json::object(), axes = Json::object();
  for (const Level level : options.levels)
    levels.push_back(levelNames[static_cast<size_t>(level)]);
  for (size_t i = 0; i < std::size(outcomeNames); ++i) {
    const auto found = judgement.sums.find(static_cast<Outcome>(i));
    sums[outcomeNames[i]] = found == judgement.sums.end() ? 0 : found->second;
  }
  for (const auto &[name, pairs] : coverage.axes)
    axes[name] = {{"possible", pairs.first}, {"covered", pairs.second}};
  return {{"schema", "mortise-conformance-report-1"},
          {"result", resultNames[judgement.exit]},
          {"exit", static_cast<int>(judgement.exit)},
          {"kit", {{"opset", MORTISE_OPSET}, {"abi", MORTISE_ABI_REVISION}, {"sha256", subject.kitSha256}}},
          {"plugin",
           {{"name", manifest.name},
            {"vendor", manifest.vendor},
            {"version", manifest.version},
            {"library", subject.library},
            {"beside", options.beside},
            {"sha256", subject.librarySha256}}},
          {"device", {{"name", subject.device}, {"hardware", subject.deviceName}, {"features", subject.features}}},
          {"environment", environment()},
          {"run",
           {{"levels", levels},
            {"extent", options.extent == Extent::Full ? "full" : "quick"},
            {"seed", options.seed},
            {"shard", std::to_string(options.shard) + "/" + std::to_string(options.shards)},
            {"jobs", options.jobs},
            {"resumed", swept.resumed},
            {"seconds", seconds}}},
          {"totals", sums},
          {"proven_pairs", judgement.provenPairs},
          {"coverage", {{"possible", coverage.pairs}, {"covered", coverage.covered}, {"axes", axes}}},
          {"unproven", judgement.unproven},
          {"unexpected", judgement.unexpected},
          {"shrunken", judgement.shrunken},
          {"broken", judgement.broken},
          {"cases", casesOf(swept, judgement)}};
}

std::string repeatOf(const Json &report, const Json &line) {
  std::string text = "mortise-conformance --plugin " + report["plugin"]["library"].get<std::string>();
  if (const std::string beside = report["plugin"]["beside"]; !beside.empty())
    text += " --beside " + beside;
  text += " --device " + report["device"]["name"].get<std::string>();
  if (line.contains("region"))
    return text + " --region '" + line["region"].get<std::string>() + "'";
  return text + " --seed " + std::to_string(report["run"]["seed"].get<uint64_t>()) + " --case '" +
         line["case"].get<std::string>() + "'";
}

namespace {

bool isFailure(const Json &line) {
  const std::string outcome = line["outcome"];
  return outcome != "passed" && outcome != "refused" && !line.value("expected", false);
}

void addList(std::string &text, const char *title, const Json &list, size_t most) {
  if (list.empty())
    return;
  text += std::string(title) + " (" + std::to_string(list.size()) + "):\n";
  for (size_t i = 0; i < list.size() && i < most; ++i)
    text += "  " + list[i].get<std::string>() + "\n";
  if (list.size() > most)
    text += "  and " + std::to_string(list.size() - most) + " more, which the report lists\n";
}

// Of tests of ONNX's: how many are refused for which reason. An import's begins with the importer's word for it.
std::string refusalsText(const Json &report) {
  std::map<std::string, size_t> sums;
  size_t bound = 0;
  for (const Json &line : report["cases"]) {
    if (!line["case"].get<std::string>().starts_with("onnx/"))
      continue;
    bound += line.contains("bound_inputs");
    if (line["outcome"] != "refused")
      continue;
    const std::string reason = line.value("reason", ""), why = line.value("why", "");
    ++sums[reason == "import" ? reason + " (" + why.substr(0, why.find(':')) + ")" : reason];
  }
  std::string text;
  for (const auto &[reason, count] : sums)
    text += "  " + std::to_string(count) + " refused: " + reason + "\n";
  return bound ? text + "  " + std::to_string(bound) + " with inputs that became constants of the graph\n" : text;
}

} // namespace

std::string summaryOf(const Json &report) {
  constexpr size_t most = 20;
  std::string text;
  size_t failures = 0;
  for (const Json &line : report["cases"])
    if (isFailure(line) && ++failures <= most)
      text += line["outcome"].get<std::string>() + " " + line["case"].get<std::string>() + ": " +
              line.value("why", "") + "\n  repeat: " + repeatOf(report, line) + "\n";
  if (failures > most)
    text += "and " + std::to_string(failures - most) + " more, which the report lists\n";
  if (report["result"] == resultNames[Exit::nothing]) { // why, of the first of each reason
    std::set<std::string> reasons;
    for (const Json &line : report["cases"])
      if (line["outcome"] == "refused" && reasons.insert(line.value("reason", "")).second)
        text += "refused " + line["case"].get<std::string>() + ": " + line.value("reason", "") + ": " +
                line.value("why", "") + "\n";
  }
  addList(text, "claims that no case proves", report["unproven"], most);
  addList(text, "expectations that are not true", report["unexpected"], most);
  for (const char *key : {"shrunken", "broken"})
    if (const std::string why = report[key]; !why.empty())
      text += std::string(key) + ": " + why + "\n";
  text += refusalsText(report);
  text += speedsText(report);
  text += report["plugin"]["name"].get<std::string>() + " " + report["plugin"]["version"].get<std::string>() + " on " +
          report["device"]["name"].get<std::string>() + ": ";
  for (const auto &[name, count] : report["totals"].items())
    text += std::to_string(count.get<size_t>()) + " " + name + ", ";
  text += std::to_string(report["proven_pairs"].get<size_t>()) + " pairs of op and element type proven, seed " +
          std::to_string(report["run"]["seed"].get<uint64_t>()) + ": " + report["result"].get<std::string>() + "\n";
  return text;
}

std::string differenceOf(const Json &before, const Json &after, bool &worse) {
  std::map<std::string, const Json *> old;
  for (const Json &line : before["cases"])
    old[line["case"]] = &line;
  std::string text;
  std::map<std::string, size_t> sums;
  worse = false;
  for (const Json &line : after["cases"]) {
    const auto found = old.find(line["case"]);
    if (found == old.end()) {
      ++sums["new"];
      continue;
    }
    const std::string was = (*found->second)["outcome"], is = line["outcome"];
    if (was != is) {
      text += line["case"].get<std::string>() + ": " + was + " -> " + is +
              (line.value("why", "").empty() ? "" : ": " + line.value("why", "")) + "\n";
      ++sums[was + " -> " + is];
      worse |= was == "passed" || (is != "passed" && is != "refused");
    }
    old.erase(found);
  }
  for (const auto &[id, line] : old) {
    text += id + ": gone, was " + (*line)["outcome"].get<std::string>() + "\n";
    worse |= (*line)["outcome"] == "passed";
    ++sums["gone"];
  }
  for (const auto &[what, count] : sums)
    text += std::to_string(count) + " " + what + "\n";
  return text.empty() ? "no case differs\n" : text;
}

} // namespace mortise::conformance
