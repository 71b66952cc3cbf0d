// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layers by the longest path from an input; inside a layer nodes stand near the mean of what they read.
#include "Draw.h"

#include <mortise/dim.hpp>
#include <mortise/reference/Interpreter.h>
#include <mortise/runtime/plan_generated.h>

#include <algorithm>
#include <map>
#include <sstream>

namespace mortise::tool {
namespace {

constexpr int boxWidth = 190, boxHeight = 46, gapX = 24, gapY = 40;
constexpr const char *palette[] = {"#2a9d5c", "#3a6fc4", "#c7742c", "#8f4cc0", "#b0a02a"};

std::string escaped(std::string_view text) {
  std::string result;
  for (char c : text)
    switch (c) {
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '&':
      result += "&amp;";
      break;
    case '"':
      result += "&quot;";
      break;
    default:
      result += c;
    }
  return result;
}

std::string dimText(const MortiseGraph &graph, const MortiseExpr &expr) {
  Result<Dim> dim = Dim::from(expr, graph.symbol_count);
  return dim ? dim->text([&](uint32_t symbol) { return std::string(graph.symbols[symbol]->name); }) : "?";
}

// "f32[b, 4*s, 64]"
std::string typeText(const MortiseGraph &graph, const MortiseType &type) {
  std::string text = std::string(dtypeName(type.dtype)) + "[";
  for (int32_t i = 0; i < type.rank; ++i)
    text += (i ? ", " : "") +
            (type.dims[i] == MORTISE_DYNAMIC ? dimText(graph, type.dim_exprs[i]) : std::to_string(type.dims[i]));
  return text + "]";
}

std::string attributeText(const MortiseGraph &graph, const MortiseAttribute &attribute) {
  std::ostringstream text;
  text << attribute.name << " = ";
  switch (attribute.kind) {
  case MORTISE_ATTRIBUTE_BOOL:
    text << (attribute.i64 ? "true" : "false");
    break;
  case MORTISE_ATTRIBUTE_I64:
    text << attribute.i64;
    break;
  case MORTISE_ATTRIBUTE_F64:
    text << attribute.f64;
    break;
  case MORTISE_ATTRIBUTE_STRING:
    text << '"' << attribute.string << '"';
    break;
  case MORTISE_ATTRIBUTE_I64_ARRAY:
    text << "[";
    for (size_t i = 0; i < attribute.count; ++i)
      text << (i ? ", " : "")
           << (attribute.i64s[i] == MORTISE_DYNAMIC && exprsOf(attribute) ? dimText(graph, exprsOf(attribute)[i])
                                                                          : std::to_string(attribute.i64s[i]));
    text << "]";
    break;
  case MORTISE_ATTRIBUTE_F64_ARRAY:
    text << attribute.count << " numbers";
    break;
  default:
    text << typeText(graph, *attribute.tensor_type);
  }
  return text.str();
}

struct Box {
  int layer = 0;
  double order = 0;
  int x = 0, y = 0;
};

class Picture {
public:
  Picture(const MortiseGraph &graph, const plan::PlanT *plan)
      : graph(graph), plan(plan), boxes(graph.node_count), region(graph.node_count, -1) {
    for (size_t r = 0; plan && r < plan->regions.size(); ++r) {
      for (uint32_t node : plan->regions[r]->nodes)
        region.at(node) = static_cast<int>(r);
      colours.try_emplace(plan->regions[r]->device, palette[colours.size() % std::size(palette)]);
    }
  }

  std::string page() {
    arrange();
    std::ostringstream out;
    const std::string name = graph.name && *graph.name ? graph.name : "graph";
    out << "<!doctype html><meta charset=\"utf-8\"><title>" << escaped(name) << "</title>\n<style>\n"
        << "body{margin:0;font:13px sans-serif;display:flex;height:100vh}#side{width:22em;padding:1em;overflow:auto;"
           "background:#f5f5f5;box-sizing:border-box}svg{flex:1;background:#fff;cursor:grab}"
           ".box rect{rx:6;stroke:#333;stroke-width:.6}.box text{font:12px sans-serif;pointer-events:none}"
           ".box .type{font-size:10px;fill:#333}.edge{fill:none;stroke:#999}.io rect{fill:#eee;stroke-dasharray:3}"
           "td{padding:.15em .8em .15em 0;vertical-align:top}pre{white-space:pre-wrap}\n</style>\n"
        << "<div id=\"side\"><h2>" << escaped(name) << "</h2>" << summary()
        << "<h3>Node</h3><pre id=\"about\">point at a node</pre></div>\n<svg id=\"svg\" viewBox=\"" << -gapX << " "
        << -gapY << " " << width + 2 * gapX << " " << height + 2 * gapY << "\">\n";
    edges(out);
    nodes(out);
    out << "</svg>\n" << script;
    return out.str();
  }

private:
  void arrange() {
    std::vector<std::vector<uint32_t>> layers;
    for (size_t n = 0; n < graph.node_count; ++n) {
      const MortiseNode &node = *graph.nodes[n];
      double sum = 0;
      int count = 0;
      for (size_t k = 0; k < node.operand_count; ++k)
        if (node.operands[k] && node.operands[k]->producer) {
          const Box &from = boxes[node.operands[k]->producer->index];
          boxes[n].layer = std::max(boxes[n].layer, from.layer + 1);
          sum += from.order;
          ++count;
        }
      boxes[n].order = count ? sum / count : 0;
      if (layers.size() <= static_cast<size_t>(boxes[n].layer))
        layers.resize(static_cast<size_t>(boxes[n].layer) + 1);
      // Order counts from the middle of the layer, so that a chain stays straight.
      std::vector<uint32_t> &layer = layers[static_cast<size_t>(boxes[n].layer)];
      while (std::any_of(layer.begin(), layer.end(),
                         [&](uint32_t other) { return std::abs(boxes[other].order - boxes[n].order) < 1; }))
        boxes[n].order += 1;
      layer.push_back(static_cast<uint32_t>(n));
    }
    double least = 0, most = 0;
    for (const Box &box : boxes) {
      least = std::min(least, box.order);
      most = std::max(most, box.order);
    }
    for (Box &box : boxes) {
      box.x = static_cast<int>((box.order - least) * (boxWidth + gapX));
      box.y = box.layer * (boxHeight + gapY);
    }
    width = static_cast<int>((most - least + 1) * (boxWidth + gapX));
    height = static_cast<int>(std::max<size_t>(layers.size(), 1)) * (boxHeight + gapY);
  }

  std::string colour(size_t node) const {
    return region[node] < 0 ? "#ddd" : colours.at(plan->regions[static_cast<size_t>(region[node])]->device);
  }

  std::string about(const MortiseNode &node) const {
    std::ostringstream text;
    text << "node " << node.index << ": " << node.op << "\n";
    if (node.location && *node.location)
      text << "at " << node.location << "\n";
    for (size_t k = 0; k < node.operand_count; ++k) {
      const MortiseValue *operand = node.operands[k];
      text << "operand " << k << ": ";
      if (!operand) {
        text << "left out\n";
        continue;
      }
      text << typeText(graph, *operand->type);
      if (operand->producer)
        text << " from node " << operand->producer->index << "\n";
      else
        text << (operand->flags & MORTISE_VALUE_CONSTANT ? " constant " : " input ") << operand->result_index << " "
             << (operand->name ? operand->name : "") << "\n";
    }
    for (size_t k = 0; k < node.result_count; ++k)
      text << "result " << k << ": " << typeText(graph, *node.results[k]->type) << "\n";
    for (size_t k = 0; k < node.attribute_count; ++k)
      text << attributeText(graph, *node.attributes[k]) << "\n";
    if (std::all_of(node.results, node.results + node.result_count,
                    [](const MortiseValue *value) { return isStatic(*value->type); }) &&
        !reference::refuse(node)) {
      const reference::Estimate cost = reference::estimate(node);
      text << cost.flops << " operations, " << cost.bytes << " bytes\n";
    }
    if (region[node.index] >= 0) {
      const plan::RegionT &entry = *plan->regions[static_cast<size_t>(region[node.index])];
      text << "region " << region[node.index] << " on " << entry.device << " by " << entry.plugin << ", "
           << entry.lowering << ", predicted " << entry.cost_ns / 1e3 << " us\n";
    }
    if (plan)
      for (const auto &refusal : plan->refusals)
        if (refusal->node == node.index)
          text << "refused by " << refusal->plugin << ": " << refusal->reason << " " << refusal->detail << "\n";
    return text.str();
  }

  std::string summary() const {
    std::ostringstream out;
    out << "<table><tr><td>nodes<td>" << graph.node_count << "<tr><td>inputs<td>" << graph.input_count
        << "<tr><td>outputs<td>" << graph.output_count << "</table>";
    for (size_t i = 0; i < graph.symbol_count; ++i)
      out << "<p>" << escaped(graph.symbols[i]->name) << " in [" << graph.symbols[i]->min << ", "
          << (graph.symbols[i]->max == INT64_MAX ? "*" : std::to_string(graph.symbols[i]->max)) << "], step "
          << graph.symbols[i]->divisor;
    std::map<std::string, std::pair<size_t, double>> totals;
    if (plan)
      for (const auto &entry : plan->regions) {
        auto &[count, cost] = totals[entry->device];
        count += entry->nodes.size();
        cost += entry->cost_ns;
      }
    if (!totals.empty())
      out << "<h3>Devices</h3><table>";
    for (const auto &[device, total] : totals)
      out << "<tr><td style=\"color:" << colours.at(device) << "\">&#9632; " << escaped(device) << "<td>" << total.first
          << " nodes<td>" << total.second / 1e3 << " us predicted";
    if (!totals.empty())
      out << "</table>";
    return out.str();
  }

  void edges(std::ostringstream &out) const {
    for (size_t n = 0; n < graph.node_count; ++n)
      for (size_t k = 0; k < graph.nodes[n]->operand_count; ++k) {
        const MortiseValue *operand = graph.nodes[n]->operands[k];
        if (!operand || !operand->producer)
          continue;
        const Box &from = boxes[operand->producer->index], &to = boxes[n];
        const int x1 = from.x + boxWidth / 2, y1 = from.y + boxHeight, x2 = to.x + boxWidth / 2, y2 = to.y;
        const int bend = std::max(gapY, (y2 - y1) / 2);
        out << "<path class=\"edge\" d=\"M" << x1 << " " << y1 << " C" << x1 << " " << y1 + bend << " " << x2 << " "
            << y2 - bend << " " << x2 << " " << y2 << "\"/>\n";
      }
  }

  void nodes(std::ostringstream &out) const {
    for (size_t n = 0; n < graph.node_count; ++n) {
      const MortiseNode &node = *graph.nodes[n];
      const Box &box = boxes[n];
      std::string_view op = node.op;
      if (op.starts_with("mortise."))
        op.remove_prefix(8);
      out << "<g class=\"box\" data-about=\"" << escaped(about(node)) << "\"><rect x=\"" << box.x << "\" y=\"" << box.y
          << "\" width=\"" << boxWidth << "\" height=\"" << boxHeight << "\" fill=\"" << colour(n)
          << "\" fill-opacity=\".35\"/><text x=\"" << box.x + 8 << "\" y=\"" << box.y + 19 << "\">" << escaped(op)
          << "</text><text class=\"type\" x=\"" << box.x + 8 << "\" y=\"" << box.y + 36 << "\">"
          << escaped(node.result_count ? typeText(graph, *node.results[0]->type) : "") << "</text></g>\n";
    }
  }

  static constexpr const char *script = R"(<script>
const svg = document.getElementById('svg'), about = document.getElementById('about');
let [x, y, w, h] = svg.getAttribute('viewBox').split(' ').map(Number), drag = null;
const show = () => svg.setAttribute('viewBox', `${x} ${y} ${w} ${h}`);
svg.addEventListener('wheel', e => {
  e.preventDefault();
  const box = svg.getBoundingClientRect(), f = e.deltaY > 0 ? 1.15 : 1 / 1.15;
  const px = x + w * (e.clientX - box.left) / box.width, py = y + h * (e.clientY - box.top) / box.height;
  x = px - (px - x) * f; y = py - (py - y) * f; w *= f; h *= f; show();
}, {passive: false});
svg.addEventListener('pointerdown', e => drag = [e.clientX, e.clientY]);
window.addEventListener('pointerup', () => drag = null);
window.addEventListener('pointermove', e => {
  if (!drag) return;
  const box = svg.getBoundingClientRect(), scale = Math.max(w / box.width, h / box.height);
  x -= (e.clientX - drag[0]) * scale; y -= (e.clientY - drag[1]) * scale; drag = [e.clientX, e.clientY]; show();
});
for (const g of document.querySelectorAll('.box')) g.addEventListener('mouseenter', () => about.textContent = g.dataset.about);
</script>
)";

  const MortiseGraph &graph;
  const plan::PlanT *plan;
  std::vector<Box> boxes;
  std::vector<int> region;                     // of a node; -1: none
  std::map<std::string, const char *> colours; // of devices
  int width = 0, height = 0;
};

} // namespace

std::string draw(const MortiseGraph &graph, const plan::PlanT *plan) { return Picture(graph, plan).page(); }

} // namespace mortise::tool
