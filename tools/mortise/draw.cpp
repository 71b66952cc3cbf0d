// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each graph and each body of its control flow ops is a sheet of boxes in layers. A node's layer is the length of the
// longest path to it; an input is in the layer above its first reader. Within a layer, a box is near the mean column of
// its sources.
#include "draw.hpp"

#include <mortise/dim.hpp>
#include <mortise/reference/interpreter.hpp>
#include <mortise/runtime/plan_generated.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

namespace mortise::tool {

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

namespace {

constexpr int boxWidth = 190, boxHeight = 58, gapX = 24, gapY = 40;
constexpr const char *palette[] = {"#2a9d5c", "#3a6fc4", "#c7742c", "#8f4cc0", "#b0a02a"};

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

// "3.1 M": three figures and a prefix.
std::string amount(double value) {
  constexpr const char *prefixes[] = {"", "k", "M", "G", "T", "P"};
  size_t prefix = 0;
  for (; value >= 999.5 && prefix + 1 < std::size(prefixes); ++prefix)
    value /= 1000;
  std::ostringstream text;
  text.precision(3);
  text << value << " " << prefixes[prefix];
  return text.str();
}

struct Box {
  std::string title, type, cost, about;
  std::string kind = "box"; // its CSS class: a node's, or "io"
  std::string colour = "#ddd";
  std::vector<size_t> sources; // the boxes that this one reads
  size_t layer = 0;
  int64_t column = 0;
};

// The plan's devices, regions and costs for the nodes of the graph.
class Devices {
public:
  Devices(const MortiseGraph &graph, const plan::PlanT *plan) : plan(plan), region(graph.node_count, -1) {
    for (size_t r = 0; plan && r < plan->regions.size(); ++r) {
      for (uint32_t node : plan->regions[r]->nodes)
        region.at(node) = static_cast<int>(r);
      colours.try_emplace(plan->regions[r]->device, palette[colours.size() % std::size(palette)]);
    }
  }

  void describe(uint32_t node, Box &box) const {
    if (!plan)
      return;
    std::ostringstream text;
    if (region[node] >= 0) {
      const plan::RegionT &entry = *plan->regions[static_cast<size_t>(region[node])];
      box.colour = colours.at(entry.device);
      text << "region " << region[node] << " on " << entry.device << " by " << entry.plugin << ", " << entry.lowering
           << ", predicted " << entry.cost_ns / 1e3 << " us\n";
    }
    for (const auto &refusal : plan->refusals)
      if (refusal->node == node)
        text << "refused by " << refusal->plugin << ": " << refusal->reason << " " << refusal->detail << "\n";
    for (const auto &candidate : plan->declined)
      if (std::ranges::find(candidate->nodes, node) != candidate->nodes.end())
        text << (candidate->reason == "cost" ? "lost: " : "refused: ") << candidate->lowering << " of "
             << candidate->nodes.size() << " nodes by " << candidate->plugin << ", predicted "
             << candidate->cost_ns / 1e3 << " us: " << candidate->detail << "\n";
    box.about += text.str();
  }

  std::string table() const {
    std::map<std::string, std::pair<size_t, double>> totals;
    for (size_t r = 0; plan && r < plan->regions.size(); ++r) {
      auto &[count, cost] = totals[plan->regions[r]->device];
      count += plan->regions[r]->nodes.size();
      cost += plan->regions[r]->cost_ns;
    }
    if (totals.empty())
      return "";
    std::ostringstream out;
    out << "<h3>Devices</h3><table>";
    for (const auto &[device, total] : totals)
      out << "<tr><td style=\"color:" << colours.at(device) << "\">&#9632; " << escaped(device) << "<td>" << total.first
          << " nodes<td>" << total.second / 1e3 << " us predicted";
    out << "</table>";
    return out.str();
  }

private:
  const plan::PlanT *plan;
  std::vector<int> region;                     // by node; -1: none
  std::map<std::string, const char *> colours; // by device
};

// The boxes of one graph: its inputs, its nodes, its outputs.
class Sheet {
public:
  Sheet(const MortiseGraph &graph, std::string title, const Devices *devices) : title(std::move(title)), graph(graph) {
    for (size_t i = 0; i < graph.input_count; ++i)
      boxes.push_back(inputBox(i));
    for (size_t n = 0; n < graph.node_count; ++n) {
      boxes.push_back(nodeBox(*graph.nodes[n]));
      if (devices)
        devices->describe(static_cast<uint32_t>(n), boxes.back());
    }
    for (size_t o = 0; o < graph.output_count; ++o) {
      Box box;
      box.kind = "io";
      box.title = "output " + std::to_string(o);
      box.type = typeText(graph, *graph.outputs[o]->type);
      box.about = box.title + ": " + box.type + "\n";
      box.sources = {boxOf(*graph.outputs[o])};
      boxes.push_back(std::move(box));
    }
    arrange();
  }

  int width() const { return static_cast<int>(columns) * (boxWidth + gapX); }
  int height() const { return static_cast<int>(layers.size()) * (boxHeight + gapY) + gapY; }

  void draw(std::ostringstream &out, int top) const {
    out << "<text class=\"title\" x=\"0\" y=\"" << top + gapY / 2 << "\">" << escaped(title) << "</text>\n";
    const auto x = [&](const Box &box) { return static_cast<int>(box.column) * (boxWidth + gapX); };
    const auto y = [&](const Box &box) { return top + gapY + static_cast<int>(box.layer) * (boxHeight + gapY); };
    for (const Box &to : boxes)
      for (size_t source : to.sources) {
        const Box &from = boxes[source];
        const int x1 = x(from) + boxWidth / 2, y1 = y(from) + boxHeight, x2 = x(to) + boxWidth / 2, y2 = y(to);
        const int bend = std::max(gapY, (y2 - y1) / 2);
        out << "<path class=\"edge\" d=\"M" << x1 << " " << y1 << " C" << x1 << " " << y1 + bend << " " << x2 << " "
            << y2 - bend << " " << x2 << " " << y2 << "\"/>\n";
      }
    for (const Box &box : boxes) {
      out << "<g class=\"" << box.kind << "\" data-about=\"" << escaped(box.about) << "\"><rect x=\"" << x(box)
          << "\" y=\"" << y(box) << "\" width=\"" << boxWidth << "\" height=\"" << boxHeight << "\" fill=\""
          << box.colour << "\" fill-opacity=\".35\"/>";
      int line = y(box) + 19;
      for (const std::string *text : {&box.title, &box.type, &box.cost}) {
        out << "<text" << (text == &box.title ? "" : " class=\"type\"") << " x=\"" << x(box) + 8 << "\" y=\"" << line
            << "\">" << escaped(*text) << "</text>";
        line += 16;
      }
      out << "</g>\n";
    }
  }

private:
  size_t boxOf(const MortiseValue &value) const {
    return value.producer ? graph.input_count + value.producer->index : value.result_index;
  }

  Box inputBox(size_t i) const {
    const MortiseValue &value = *graph.inputs[i];
    Box box;
    box.kind = "io";
    box.title = value.name && *value.name ? value.name : "input " + std::to_string(i);
    box.type = typeText(graph, *value.type);
    box.cost = value.flags & MORTISE_VALUE_CONSTANT  ? "constant"
               : value.flags & MORTISE_VALUE_STATE   ? "state"
               : value.flags & MORTISE_VALUE_DONATED ? "donated"
                                                     : "";
    box.about = "input " + std::to_string(i) + " " + (value.name ? value.name : "") + ": " + box.type + " " + box.cost;
    return box;
  }

  Box nodeBox(const MortiseNode &node) const {
    Box box;
    std::string_view op = node.op;
    if (op.starts_with("mortise."))
      op.remove_prefix(8);
    box.title = op;
    box.type = node.result_count ? typeText(graph, *node.results[0]->type) : "";
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
      box.sources.push_back(boxOf(*operand));
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
    if (node.body_count)
      text << node.body_count << " bodies, drawn below\n";
    if (std::all_of(node.results, node.results + node.result_count,
                    [](const MortiseValue *value) { return isStatic(*value->type); }) &&
        !reference::refuse(node)) {
      const reference::Estimate cost = reference::estimate(node);
      text << cost.flops << " operations, " << cost.bytes << " bytes\n";
      box.cost = amount(cost.flops) + "flop, " + amount(cost.bytes) + "B";
    }
    box.about = text.str();
    return box;
  }

  void place(Box &box, double column) {
    if (layers.size() <= box.layer)
      layers.resize(box.layer + 1);
    // The nearest free column from there on.
    box.column = std::llround(column);
    while (!layers[box.layer].insert(box.column).second)
      ++box.column;
  }

  void arrange() {
    const size_t inputs = graph.input_count, outputs = inputs + graph.node_count;
    std::vector<size_t> reader(inputs, boxes.size()); // the first box that reads an input
    for (size_t b = inputs; b < boxes.size(); ++b) {
      double sum = 0;
      int count = 0;
      boxes[b].layer = 1;
      for (size_t source : boxes[b].sources) {
        if (source < inputs) {
          reader[source] = std::min(reader[source], b);
          continue;
        }
        boxes[b].layer = std::max(boxes[b].layer, boxes[source].layer + 1);
        sum += static_cast<double>(boxes[source].column);
        ++count;
      }
      if (b < outputs || count)
        place(boxes[b], count ? sum / count : 0);
    }
    for (size_t i = 0; i < inputs; ++i) {
      const Box *first = reader[i] < boxes.size() ? &boxes[reader[i]] : nullptr;
      boxes[i].layer = first ? first->layer - 1 : 0;
      place(boxes[i], first ? static_cast<double>(first->column) : 0);
    }
    for (size_t o = outputs; o < boxes.size(); ++o)
      if (boxes[o].sources[0] < inputs) { // an output that is an input
        boxes[o].layer = boxes[boxes[o].sources[0]].layer + 1;
        place(boxes[o], static_cast<double>(boxes[boxes[o].sources[0]].column));
      }
    int64_t least = 0, most = 0;
    for (const Box &box : boxes) {
      least = std::min(least, box.column);
      most = std::max(most, box.column);
    }
    for (Box &box : boxes)
      box.column -= least;
    columns = most - least + 1;
  }

  std::string title;
  const MortiseGraph &graph;
  std::vector<Box> boxes;                // inputs, then nodes, then outputs
  std::vector<std::set<int64_t>> layers; // the occupied columns of each layer
  int64_t columns = 1;
};

// Appends sheets for all bodies. `where` names the nodes around the graph, for titles.
void addBodies(const MortiseGraph &graph, const std::string &where, std::vector<Sheet> &sheets) {
  for (size_t n = 0; n < graph.node_count; ++n) {
    const std::span<const MortiseGraph *const> bodies = bodiesOf(*graph.nodes[n]);
    for (size_t b = 0; b < bodies.size(); ++b) {
      const std::string title =
          where + graph.nodes[n]->op + " (node " + std::to_string(n) + "), body " + std::to_string(b);
      sheets.emplace_back(*bodies[b], title, nullptr);
      addBodies(*bodies[b], title + ": ", sheets);
    }
  }
}

std::string summary(const MortiseGraph &graph) {
  std::ostringstream out;
  out << "<table><tr><td>nodes<td>" << graph.node_count << "<tr><td>inputs<td>" << graph.input_count
      << "<tr><td>outputs<td>" << graph.output_count << "</table>";
  for (size_t i = 0; i < graph.symbol_count; ++i)
    out << "<p>" << escaped(graph.symbols[i]->name) << " in [" << graph.symbols[i]->min << ", "
        << (graph.symbols[i]->max == INT64_MAX ? "*" : std::to_string(graph.symbols[i]->max)) << "], step "
        << graph.symbols[i]->divisor;
  return out.str();
}

constexpr const char *script = R"(<script>
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
for (const g of document.querySelectorAll('.box, .io')) g.addEventListener('mouseenter', () => about.textContent = g.dataset.about);
</script>
)";

} // namespace

std::string draw(const MortiseGraph &graph, const plan::PlanT *plan) {
  const std::string name = graph.name && *graph.name ? graph.name : "graph";
  const Devices devices(graph, plan);
  std::vector<Sheet> sheets;
  sheets.emplace_back(graph, name, &devices);
  addBodies(graph, "", sheets);
  int width = 0, height = 0;
  std::ostringstream boxes;
  for (const Sheet &sheet : sheets) {
    sheet.draw(boxes, height);
    width = std::max(width, sheet.width());
    height += sheet.height();
  }
  std::ostringstream out;
  out << "<!doctype html><meta charset=\"utf-8\"><title>" << escaped(name) << "</title>\n<style>\n"
      << "body{margin:0;font:13px sans-serif;display:flex;height:100vh}#side{width:22em;padding:1em;overflow:auto;"
         "background:#f5f5f5;box-sizing:border-box}svg{flex:1;background:#fff;cursor:grab}"
         ".box rect{rx:6;stroke:#333;stroke-width:.6}svg text{font:12px sans-serif;pointer-events:none}"
         "svg .type{font-size:10px;fill:#333}svg .title{font-weight:bold}.edge{fill:none;stroke:#999}"
         ".io rect{fill:#fff;stroke:#777;stroke-dasharray:3}"
         "td{padding:.15em .8em .15em 0;vertical-align:top}pre{white-space:pre-wrap}\n</style>\n"
      << "<div id=\"side\"><h2>" << escaped(name) << "</h2>" << summary(graph) << devices.table()
      << "<h3>Node</h3><pre id=\"about\">point at a box</pre></div>\n<svg id=\"svg\" viewBox=\"" << -gapX << " "
      << -gapY << " " << width + 2 * gapX << " " << height + 2 * gapY << "\">\n"
      << boxes.str() << "</svg>\n"
      << script;
  return out.str();
}

} // namespace mortise::tool
