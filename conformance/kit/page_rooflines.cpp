// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Speeds as a roofline: a picture and a table for the page, and a few lines for a terminal.
#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

namespace mortise::conformance {
namespace {

struct Entry {
  Point point;
  std::string op; // with its attributes
  Speed speed;
  double intensity() const { return speed.work.flops / speed.work.bytes; }
  double rate() const { return speed.work.flops / speed.runSeconds; }
};

// Slowest first, by their shares.
std::vector<Entry> entriesOf(const Json &report) {
  std::vector<Entry> made;
  for (const Json &line : report["cases"]) {
    const auto point = pointOf(line["case"].get<std::string>());
    if (!point || !line.contains("perf"))
      continue;
    std::string op(nameOf(point->op).substr(sizeof "mortise." - 1));
    if (const std::string &variant = rowOf(point->op)->variants[point->variant]; !variant.empty())
      op += ", " + variant;
    made.push_back({*point, std::move(op), Speed::read(line["perf"])});
  }
  std::ranges::sort(made, {}, [](const Entry &entry) { return entry.speed.share(); });
  return made;
}

std::string withUnit(double value, std::span<const char *const> units, double step) {
  size_t unit = 0;
  for (; value >= step && unit + 1 < units.size(); ++unit)
    value /= step;
  char text[48];
  snprintf(text, sizeof text, "%.3g %s", value, units[unit]);
  return text;
}
std::string timeText(double seconds) {
  constexpr const char *units[] = {"ns", "us", "ms", "s"};
  return withUnit(seconds * 1e9, units, 1000);
}
std::string bytesText(double bytes) {
  constexpr const char *units[] = {"bytes", "KiB", "MiB", "GiB"};
  return withUnit(bytes, units, 1024);
}
std::string rateText(double rate, const char *of) {
  constexpr const char *units[] = {"", "k", "M", "G", "T", "P"};
  return withUnit(rate, units, 1000) + of + "/s";
}
std::string percent(double share) {
  char text[32];
  snprintf(text, sizeof text, "%.*f %%", share < 0.1 ? 1 : 0, 100 * share);
  return text;
}

// ---- The picture

constexpr double width = 960, height = 480, left = 70, right = 90, top = 15, bottom = 45;
constexpr const char *colours[] = {"#2a7fba", "#d1722a", "#2a9a5a", "#b8860b", "#8a5cc4",
                                   "#c2486f", "#4a9aa0", "#a0693c", "#6f7f2a", "#888888"};

std::string number(double value) {
  char text[32];
  snprintf(text, sizeof text, "%.1f", value);
  return text;
}

double powerOfTen(int64_t power) { return std::pow(10, static_cast<double>(power)); }

// Logarithms of a range of numbers as places on a line.
class Axis {
public:
  Axis(double from, double to) : from(from), to(to) {}
  void include(double value) {
    low = std::min(low, std::log10(value));
    high = std::max(high, std::log10(value));
  }
  double at(double value) const { return from + (std::log10(value) - first()) / (last() - first()) * (to - from); }
  double first() const { return std::floor(low); }
  double last() const { return std::max(std::ceil(high), first() + 1); }

private:
  const double from, to;
  double low = INFINITY, high = -INFINITY;
};

class Picture {
public:
  explicit Picture(const std::vector<Entry> &entries) : entries(entries) {
    for (const Entry &entry : entries) {
      xs.include(entry.intensity());
      ys.include(entry.rate());
      slowest = std::min(slowest, entry.speed.bandwidth);
      fastest = std::max(fastest, entry.speed.bandwidth);
      if (entry.speed.peak > 0)
        peaks[entry.point.dtype] = std::max(peaks[entry.point.dtype], entry.speed.peak);
      colourOf[entry.point.dtype] = colours[static_cast<size_t>(entry.point.dtype) % std::size(colours)];
    }
    for (const auto &[dtype, peak] : peaks) {
      ys.include(peak);
      xs.include(peak / fastest * 2); // where the roof is flat
    }
  }

  std::string text() {
    std::string made = "<svg id=\"rooflines\" viewBox=\"0 0 " + number(width) + " " + number(height) + "\" width=\"" +
                       number(width) +
                       "\" role=\"img\" aria-label=\"operations per second over operations per byte\">\n";
    made += grid();
    made += diagonal(fastest, "", "copies " + rateText(fastest, "B"));
    if (slowest < fastest)
      made += diagonal(slowest, " stroke-dasharray=\"5 4\"", "copies " + rateText(slowest, "B"));
    made += ceilings();
    for (const Entry &entry : entries)
      made += dot(entry);
    return made + "</svg>\n<p>" + legend() + "</p>\n";
  }

private:
  static std::string line(double x1, double y1, double x2, double y2, const std::string &style) {
    return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" + number(y2) +
           "\"" + style + "/>";
  }
  static std::string words(double x, double y, const std::string &style, const std::string &text) {
    return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\"" + style + ">" + text + "</text>\n";
  }

  std::string grid() const {
    const std::string faint = " stroke-opacity=\".25\"", middle = " text-anchor=\"middle\"";
    std::string made;
    for (int64_t power = std::llround(xs.first()); power <= std::llround(xs.last()); ++power) {
      const double x = xs.at(powerOfTen(power));
      made += line(x, top, x, height - bottom, faint) +
              words(x, height - bottom + 16, middle,
                    (power < 0 ? "1/" : "") + std::to_string(std::llround(powerOfTen(std::abs(power)))));
    }
    for (int64_t power = std::llround(ys.first()); power <= std::llround(ys.last()); ++power) {
      const double y = ys.at(powerOfTen(power));
      made += line(left, y, width - right, y, faint) +
              words(left - 6, y + 4, " text-anchor=\"end\"", rateText(powerOfTen(power), ""));
    }
    return made + words((left + width - right) / 2, height - 8, middle, "operations for each byte (logarithmic)");
  }

  // What a bandwidth allows, up to the top of the picture.
  std::string diagonal(double bandwidth, const std::string &style, const std::string &label) const {
    const double most = peaks.empty() ? std::pow(10, ys.last()) : mostOf(peaks);
    const double begin = std::max(std::pow(10, xs.first()), std::pow(10, ys.first()) / bandwidth);
    const double end = std::min(std::pow(10, xs.last()), most / bandwidth);
    if (end <= begin)
      return "";
    return line(xs.at(begin), ys.at(begin * bandwidth), xs.at(end), ys.at(end * bandwidth), style) + "\n" +
           "<line class=\"wide\" x1=\"" + number(xs.at(begin)) + "\" y1=\"" + number(ys.at(begin * bandwidth)) +
           "\" x2=\"" + number(xs.at(end)) + "\" y2=\"" + number(ys.at(end * bandwidth)) + "\"><title>" + label +
           "</title></line>\n";
  }

  static double mostOf(const std::map<int32_t, double> &of) {
    return std::ranges::max_element(of, {}, [](const auto &pair) { return pair.second; })->second;
  }

  // What products allow; the words of ceilings that lie close together stand below each other.
  std::string ceilings() const {
    constexpr double lineHeight = 11;
    std::vector<std::pair<double, int32_t>> falling;
    for (const auto &[dtype, peak] : peaks)
      falling.emplace_back(peak, dtype);
    std::ranges::sort(falling, std::greater());
    std::string made;
    double free = 0;
    for (const auto &[peak, dtype] : falling) {
      const double begin = std::max(peak / fastest, std::pow(10, xs.first())), y = ys.at(peak);
      const std::string colour = colourOf.at(dtype);
      const double at = std::max(free, y + 4);
      free = at + lineHeight;
      made += line(xs.at(begin), y, width - right, y, " style=\"stroke:" + colour + "\"") +
              words(width - right + 4, at, " style=\"fill:" + colour + "\"",
                    std::string(dtypeName(dtype)) + "<title>products of " + dtypeName(dtype) + ": " +
                        rateText(peak, "") + "</title>");
    }
    return made;
  }

  std::string dot(const Entry &entry) const {
    const Speed &speed = entry.speed;
    return "<circle cx=\"" + number(xs.at(entry.intensity())) + "\" cy=\"" + number(ys.at(entry.rate())) +
           "\" r=\"4\" style=\"fill:" + colourOf.at(entry.point.dtype) + "\"><title>" + entry.op + " in " +
           dtypeName(entry.point.dtype) + ": " + percent(speed.share()) + " of its roof, which " +
           (speed.isBoundByPeak() ? "products make" : "copies make") + "; " + timeText(speed.runSeconds) + ", " +
           rateText(entry.rate(), "") + ", " + rateText(speed.work.bytes / speed.runSeconds, "B") +
           "</title></circle>\n";
  }

  std::string legend() const {
    std::string made;
    for (const auto &[dtype, colour] : colourOf)
      made += "<span style=\"color:" + std::string(colour) + "\">&#9679; " + dtypeName(dtype) + "</span> ";
    return made;
  }

  const std::vector<Entry> &entries;
  Axis xs{left, width - right}, ys{height - bottom, top};
  double slowest = INFINITY, fastest = 0;
  std::map<int32_t, double> peaks;
  std::map<int32_t, const char *> colourOf;
};

// ---- The table

std::string bar(double share) {
  constexpr double whole = 80;
  return "<svg width=\"80\" height=\"10\"><rect x=\"0\" y=\"1\" height=\"8\" width=\"" +
         number(std::min(share, 1.0) * whole) + "\"/><line x1=\"79.5\" x2=\"79.5\" y1=\"0\" y2=\"10\"/></svg>";
}

std::string lineOf(const Entry &entry) {
  const Speed &speed = entry.speed;
  std::string made = "<tr><th>" + entry.op + "</th>";
  for (const std::string &text :
       {std::string(dtypeName(entry.point.dtype)), percent(speed.share()), bar(speed.share()),
        std::string(speed.isBoundByPeak() ? "products" : "copies"), timeText(speed.runSeconds),
        timeText(speed.medianSeconds), timeText(speed.roofSeconds()), bytesText(speed.work.bytes),
        rateText(speed.work.bytes / speed.runSeconds, "B"), rateText(speed.bandwidth, "B"), rateText(entry.rate(), ""),
        timeText(speed.coldSeconds), timeText(speed.warmSeconds)})
    made += "<td>" + text + "</td>";
  return made + "</tr>\n";
}

// ---- For a terminal

const char *familyOf(Op op) {
  constexpr std::pair<Trait, const char *> families[] = {{Trait::Contraction, "contraction"},
                                                         {Trait::Window, "window"},
                                                         {Trait::Normalisation, "normalisation"},
                                                         {Trait::Quantisation, "quantisation"},
                                                         {Trait::Reduction, "reduction"},
                                                         {Trait::Running, "running reduction"},
                                                         {Trait::Sort, "sorting"},
                                                         {Trait::Indexing, "indexing"},
                                                         {Trait::Random, "random"},
                                                         {Trait::Collective, "collective"},
                                                         {Trait::ControlFlow, "control flow"},
                                                         {Trait::Elementwise, "elementwise"},
                                                         {Trait::Movement, "movement"},
                                                         {Trait::Creation, "creation"}};
  for (const auto &[trait, name] : families)
    if (has(op, trait))
      return name;
  return "other";
}

} // namespace

std::string rooflinesText(const Json &report) {
  const std::vector<Entry> entries = entriesOf(report);
  if (entries.empty())
    return "";
  std::string text =
      "<h2>Rooflines</h2>\n<p>A point is a case of the level perf. Lines that rise are what copies of the same "
      "footprint allow: the fastest of all cases, and dashed the slowest. Flat ones are the rate of the fastest "
      "product "
      "in an element type. Each element of an op without products counts as one operation. A case's own roof, which "
      "its "
      "share is of, is the copy of its footprint, or the products.</p>\n<div class=\"scroll\">" +
      Picture(entries).text() +
      "</div>\n<div class=\"scroll\"><table id=\"speeds\"><thead><tr><th>op</th><th>type</th><th>of its "
      "roof</th><th></th><th>roof is "
      "of</th><th>run</th><th>median</th><th>roof</th><th>moves</th><th>at</th><th>copies "
      "at</th><th>operations</th><th>cold compile</th><th>warm compile</th></tr></thead><tbody>\n";
  for (const Entry &entry : entries)
    text += lineOf(entry);
  return text + "</tbody></table></div>\n";
}

std::string speedsText(const Json &report) {
  const std::vector<Entry> entries = entriesOf(report);
  if (entries.empty())
    return "";
  std::map<std::string, std::vector<double>> families; // shares, ascending
  for (const Entry &entry : entries)
    families[familyOf(entry.point.op)].push_back(entry.speed.share());
  std::string text = "median share of the roofline:";
  const char *separator = " ";
  for (const auto &[name, shares] : families) {
    text += separator + name + " " + percent(shares[shares.size() / 2]) + " (" + std::to_string(shares.size()) + ")";
    separator = ", ";
  }
  text += "\nslowest:";
  constexpr size_t most = 5;
  for (size_t i = 0; i < std::min(most, entries.size()); ++i)
    text += (i ? ", " : " ") + entries[i].op + " in " + dtypeName(entries[i].point.dtype) + " " +
            percent(entries[i].speed.share()) + " (" + timeText(entries[i].speed.runSeconds) + ")";
  return text + "\n";
}

} // namespace mortise::conformance
