// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The report as one page of HTML. Everything is in the file: it loads nothing, and needs no script.
#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace mortise::conformance {
namespace {

constexpr const char *head = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Conformance report</title>
<style>
:root { color-scheme: light dark; --good: #2a7f4f; --some: #9a7400; --bad: #b3261e; --line: #8884; --quiet: #888; }
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
table { border-collapse: collapse; } th, td { padding: .15rem .5rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: middle; }
.matrix th { font-weight: 500; } .matrix td { text-align: right; font-variant-numeric: tabular-nums; border-left: 1px solid var(--line); min-width: 3rem; }
thead th { position: sticky; top: 0; background: Canvas; }
.good { color: var(--good); } .some { color: var(--some); } .bad { color: #fff; background: var(--bad); font-weight: 600; } .none { color: var(--quiet); }
.badge { display: inline-block; padding: .1rem .6rem; border-radius: .3rem; color: #fff; background: var(--bad); font-weight: 600; } .badge.pass { background: var(--good); }
code, pre { font: 12px/1.4 ui-monospace, monospace; } pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .1rem 0 .6rem; padding: .4rem .6rem; background: #8881; }
.facts td:first-child { color: var(--quiet); } .facts code { overflow-wrap: anywhere; }
svg { display: block; } svg rect { fill: var(--good); } svg rect.over { fill: var(--some); } svg line { stroke: var(--quiet); }
svg text { fill: var(--quiet); font-size: 11px; } svg circle { fill-opacity: .75; } svg line.wide { stroke: transparent; stroke-width: 9; }
#speeds td { white-space: nowrap; }
.scroll { overflow-x: auto; }
</style></head><body>
)";

std::string escaped(const std::string &text) {
  std::string made;
  for (const char c : text)
    made += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : std::string(1, c);
  return made;
}

std::string shortNumber(double value) {
  char text[32];
  snprintf(text, sizeof text, value >= 1000 ? "%.2g" : "%.3g", value);
  return text;
}

struct Cell {
  std::map<std::string, size_t> sums; // by outcome
  size_t excused = 0;
  double worst = 0, share = 0;
  Histogram histogram{};
  size_t count(const char *outcome) const {
    const auto found = sums.find(outcome);
    return found == sums.end() ? 0 : found->second;
  }
  size_t bad() const { return count("failed") + count("crashed") + count("hung") - excused; }
};

using Matrix = std::map<std::string, std::map<int32_t, Cell>>; // by op, by element type

// An op without its prefix, a network, or the name of a graph's file.
std::string rowNameOf(const Point &point) {
  if (!point.file.empty())
    return point.file.substr(point.file.rfind('/') + 1);
  const std::string name = subjectOf(point);
  return point.probe == Probe::Network ? name : name.substr(name.find('.') + 1);
}

std::string typeText(int32_t dtype) { return dtype ? dtypeName(dtype) : "as the graph has it"; }

Matrix matrixOf(const Json &report) {
  Matrix matrix;
  for (const Json &line : report["cases"]) {
    const auto point = pointOf(line["case"].get<std::string>());
    if (!point)
      continue;
    Cell &cell = matrix[rowNameOf(*point)][point->dtype];
    const std::string outcome = line["outcome"];
    ++cell.sums[outcome];
    cell.excused += line.value("expected", false) && outcome != "refused";
    if (outcome != "passed")
      continue;
    cell.worst = std::max(cell.worst, line.value("ulp", 0.0));
    cell.share = std::max(cell.share, line.value("share", 0.0));
    if (line.contains("histogram"))
      for (size_t i = 0; i < ulpBuckets; ++i)
        cell.histogram[i] += line["histogram"][i].get<uint64_t>();
  }
  return matrix;
}

std::string cellOf(const Cell &cell) {
  const size_t passed = cell.count("passed"), refused = cell.count("refused"), bad = cell.bad();
  const char *style = bad ? "bad" : passed == 0 ? "none" : refused || cell.excused ? "some" : "good";
  std::string title;
  for (const auto &[outcome, count] : cell.sums)
    title += (title.empty() ? "" : ", ") + std::to_string(count) + " " + outcome;
  const std::string text = bad ? std::to_string(bad) + " bad" : passed == 0 ? "refused" : std::to_string(passed);
  return std::string("<td class=\"") + style + "\" title=\"" + title + "\">" + text + "</td>";
}

std::string matrixText(const Matrix &matrix) {
  std::set<int32_t> dtypes;
  for (const auto &[op, cells] : matrix)
    for (const auto &[dtype, cell] : cells)
      dtypes.insert(dtype);
  std::string text =
      "<h2>Ops and element types</h2>\n<p>Cases that passed; <span class=\"some\">some were refused</span>, "
      "<span class=\"none\">all were</span>, or <span class=\"bad\">failed, crashed or hung</span>. An "
      "empty place is no case of the op.</p>\n<div class=\"scroll\"><table class=\"matrix\" id=\"matrix\">"
      "<thead><tr><th>op</th>";
  for (const int32_t dtype : dtypes)
    text += std::string("<th>") + typeText(dtype) + "</th>";
  text += "</tr></thead><tbody>\n";
  for (const auto &[op, cells] : matrix) {
    text += "<tr><th>" + op + "</th>";
    for (const int32_t dtype : dtypes) {
      const auto found = cells.find(dtype);
      text += found == cells.end() ? "<td></td>" : cellOf(found->second);
    }
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

// A bar for each bucket, with the logarithm of its elements as its height.
std::string histogramOf(const Histogram &histogram) {
  constexpr int width = 14, height = 26;
  double most = 1;
  for (const uint64_t count : histogram)
    most = std::max(most, std::log2(static_cast<double>(count) + 1));
  std::string text = "<svg width=\"" + std::to_string(width * static_cast<int>(ulpBuckets)) + "\" height=\"" +
                     std::to_string(height + 2) + "\" role=\"img\" aria-label=\"histogram of distances in ULP\">";
  for (size_t i = 0; i < ulpBuckets; ++i) {
    const int tall = static_cast<int>(std::lround(std::log2(static_cast<double>(histogram[i]) + 1) / most * height));
    const std::string label = i == 0               ? "equal"
                              : i < ulpBuckets - 1 ? "at most " + shortNumber(ulpBounds[i]) + " ULP"
                                                   : "more than " + shortNumber(ulpBounds[i - 1]) + " ULP";
    text += "<rect x=\"" + std::to_string(width * static_cast<int>(i) + 1) + "\" y=\"" + std::to_string(height - tall) +
            "\" width=\"" + std::to_string(width - 2) + "\" height=\"" + std::to_string(tall) + "\"" +
            (i > 3 ? " class=\"over\"" : "") + "><title>" + label + ": " + std::to_string(histogram[i]) +
            " elements</title></rect>";
  }
  return text + "<line x1=\"0\" x2=\"" + std::to_string(width * static_cast<int>(ulpBuckets)) + "\" y1=\"" +
         std::to_string(height) + "\" y2=\"" + std::to_string(height) + "\"/></svg>";
}

std::string errorsText(const Matrix &matrix) {
  std::string rows;
  for (const auto &[op, cells] : matrix)
    for (const auto &[dtype, cell] : cells)
      if (cell.worst > 0)
        rows += "<tr><th>" + op + "</th><td>" + typeText(dtype) + "</td><td>" + shortNumber(cell.worst) + "</td><td>" +
                shortNumber(100 * cell.share) + " %</td><td>" + histogramOf(cell.histogram) + "</td></tr>\n";
  if (rows.empty())
    return "";
  return "<h2>Worst errors</h2>\n<p>Of cases that passed: distance from the reference in units in the last place, and "
         "the largest share of its bound that an element takes. Bars: elements that are equal, then at most 1, 2, 4, "
         "8, "
         "16, 64, 1024 ULP away, and further; their heights are logarithms.</p>\n<div class=\"scroll\"><table "
         "id=\"errors\"><thead><tr><th>op</th><th>type</th><th>worst, ULP</th><th>of its "
         "bound</th><th>distances</th></tr>"
         "</thead><tbody>\n" +
         rows + "</tbody></table></div>\n";
}

std::string failuresText(const Json &report) {
  std::string text;
  for (const Json &line : report["cases"]) {
    const std::string outcome = line["outcome"], id = line["case"];
    if (outcome == "passed" || outcome == "refused" || line.value("expected", false))
      continue;
    text += "<div class=\"failure\"><b>" + escaped(id) + "</b>: " + outcome +
            (line.contains("kind") ? " (" + line["kind"].get<std::string>() + ")" : "") + ": " +
            escaped(line.value("why", "")) + "<pre>" + escaped(repeatOf(report, line)) + "</pre></div>\n";
  }
  return text.empty() ? "" : "<h2 id=\"failures\">What is wrong</h2>\n" + text;
}

std::string listText(const char *title, const Json &list) {
  if (list.empty())
    return "";
  std::string text = std::string("<h2>") + title + "</h2>\n<ul>";
  for (const Json &item : list)
    text += "<li>" + escaped(item.get<std::string>()) + "</li>\n";
  return text + "</ul>\n";
}

std::string refusalsText(const Json &report) {
  std::map<std::string, std::map<std::string, size_t>> reasons; // by reason, by op
  for (const Json &line : report["cases"])
    if (line["outcome"] == "refused")
      if (const auto point = pointOf(line["case"].get<std::string>()))
        ++reasons[line.value("reason", "")][rowNameOf(*point)];
  if (reasons.empty())
    return "";
  std::string text =
      "<h2>Refusals</h2>\n<table><thead><tr><th>reason</th><th>cases</th><th>ops</th></tr></thead><tbody>\n";
  for (const auto &[reason, ops] : reasons) {
    size_t all = 0;
    std::string names;
    for (const auto &[op, count] : ops) {
      all += count;
      names += (names.empty() ? "" : ", ") + op;
    }
    text += "<tr><th>" + reason + "</th><td>" + std::to_string(all) + "</td><td>" + names + "</td></tr>\n";
  }
  return text + "</tbody></table>\n";
}

std::string fact(const std::string &name, const std::string &value) {
  return "<tr><td>" + name + "</td><td><code>" + escaped(value) + "</code></td></tr>\n";
}

std::string factsText(const Json &report) {
  const Json &run = report["run"], &plugin = report["plugin"], &environment = report["environment"];
  std::string text = "<h2>What was run</h2>\n<table class=\"facts\">";
  text += fact("plugin", plugin["name"].get<std::string>() + " " + plugin["version"].get<std::string>() + " of " +
                             plugin["vendor"].get<std::string>());
  text += fact("library", plugin["library"]) + fact("its SHA-256", plugin["sha256"]);
  text += fact("kit's SHA-256", report["kit"]["sha256"]);
  text += fact("opset, ABI", std::to_string(report["kit"]["opset"].get<int>()) + ", " +
                                 std::to_string(report["kit"]["abi"].get<int>()));
  text += fact("device", report["device"]["name"].get<std::string>() + ", " +
                             report["device"]["hardware"].get<std::string>() + " " +
                             report["device"]["features"].get<std::string>());
  text += fact("levels", run["levels"].dump() + ", " + run["extent"].get<std::string>() + ", shard " +
                             run["shard"].get<std::string>());
  text += fact("seed", std::to_string(run["seed"].get<uint64_t>()));
  text += fact("took", shortNumber(run["seconds"].get<double>()) + " s with " + std::to_string(run["jobs"].get<int>()) +
                           " workers");
  text += fact("machine", environment["processor"].get<std::string>() + ", " +
                              std::to_string(environment["threads"].get<unsigned>()) + " threads, " +
                              environment["system"].get<std::string>());
  text += fact("time", environment["time"]) + "</table>\n";
  const Json &coverage = report["coverage"];
  if (coverage["possible"] == 0)
    return text;
  text += "<h2>Coverage</h2>\n<p>Pairs of values of two axes that the table's cases have.</p><table>";
  for (const auto &[name, pairs] : coverage["axes"].items())
    text += "<tr><th>" + name + "</th><td>" + std::to_string(pairs["covered"].get<uint64_t>()) + " of " +
            std::to_string(pairs["possible"].get<uint64_t>()) + "</td></tr>\n";
  return text + "</table>\n";
}

} // namespace

std::string pageOf(const Json &report) {
  const Matrix matrix = matrixOf(report);
  std::string totals;
  for (const auto &[name, count] : report["totals"].items())
    totals += std::to_string(count.get<size_t>()) + " " + name + ", ";
  const std::string result = report["result"];
  std::string text = head;
  text += "<h1>" + escaped(report["plugin"]["name"]) + " on " + escaped(report["device"]["name"]) +
          "</h1>\n<p><span id=\"result\" class=\"badge" + (result == "good" ? " pass" : "") + "\">" + result +
          "</span> " + totals + std::to_string(report["proven_pairs"].get<size_t>()) +
          " pairs of an op and an element type proven</p>\n";
  for (const char *key : {"shrunken", "broken"})
    if (const std::string why = report[key]; !why.empty())
      text += std::string("<p><b>") + key + "</b>: " + escaped(why) + "</p>\n";
  text += listText("Claims that no case proves", report["unproven"]);
  text += listText("Expectations that are not true", report["unexpected"]);
  text += failuresText(report) + matrixText(matrix) + rooflinesText(report) + errorsText(matrix) +
          refusalsText(report) + factsText(report);
  return text + "</body></html>\n";
}

} // namespace mortise::conformance
