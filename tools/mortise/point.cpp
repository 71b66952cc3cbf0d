// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "point.hpp"

#include "check.hpp"
#include "seam.hpp"

#include <mortise/conformance/error_bounds.hpp>

#include <algorithm>

namespace mortise::tool {
namespace {

constexpr uint64_t seed = 1, mostBytes = 1 << 18; // of all values of a graph: the interpreter is slow

uint64_t bytesOf(const MortiseGraph &graph) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < graph.value_count; ++i)
    bytes += byteSize(*graph.values[i]->type);
  return bytes;
}

// The language refuses some graphs whose tensors have no elements, such as to take from nothing.
bool isLegal(const Graph &graph) {
  const MortiseGraph &view = graph.view();
  for (size_t i = 0; i < view.value_count; ++i)
    if (byteSize(*view.values[i]->type) == 0) {
      const auto text = print(graph);
      return text && parse(*text, "case");
    }
  return true;
}

} // namespace

Result<Point> pointOf(std::shared_ptr<const Graph> graph, std::vector<int64_t> symbols, Tensors inputs) {
  auto expected = interpreted(graph->view(), inputs);
  if (!expected)
    return expected.error();
  return Point{std::move(symbols), std::move(graph), std::move(inputs), std::move(*expected)};
}

std::vector<Point> pointsOf(const MortiseGraph &graph) {
  std::vector<Point> points;
  std::vector<std::vector<int64_t>> known;
  // The last comes after others, and is smaller: a kernel may keep what it has made for larger ones.
  constexpr int64_t wanted[][2] = {{2, 3}, {1, 1}, {0, 0}, {33, 17}, {7, 5}};
  for (const auto &[first, second] : wanted) {
    std::vector<int64_t> values;
    for (size_t i = 0; i < graph.symbol_count; ++i)
      values.push_back(rangeOf(*graph.symbols[i]).nearest(i % 2 ? second : first));
    if (std::ranges::find(known, values) != known.end() || !checkSymbols(graph, values))
      continue;
    known.push_back(values);
    auto numbered = specialise(graph, values);
    if (!numbered || bytesOf((*numbered)->view()) > mostBytes || !isLegal(**numbered))
      continue;
    Tensors inputs = makeInputs((*numbered)->view(), seed);
    if (auto point = pointOf(std::move(*numbered), std::move(values), std::move(inputs)))
      points.push_back(std::move(*point));
  }
  return points;
}

std::string symbolsText(const MortiseGraph &graph, const std::vector<int64_t> &symbols) {
  std::string text;
  for (size_t i = 0; i < symbols.size(); ++i)
    text += (i ? ", " : "with ") + std::string(graph.symbols[i]->name) + " = " + std::to_string(symbols[i]);
  return text.empty() ? "" : text + ": ";
}

std::string differences(const Point &point, const Tensors &found) {
  const MortiseGraph &graph = point.graph->view();
  for (size_t i = 0; i < found.size(); ++i) {
    const MortiseType &type = *graph.outputs[i]->type;
    std::string text = conformance::differences(type, found[i], point.expected[i]);
    if (!text.empty() && isFloat(type.dtype)) {
      Rounding &rounding = *point.rounding;
      std::call_once(rounding.once, [&] {
        std::vector<const void *> inputs;
        for (const std::vector<std::byte> &input : point.inputs)
          inputs.push_back(input.data());
        rounding.standardErrors = conformance::standardErrors(graph, inputs);
      });
      if (!rounding.standardErrors)
        return rounding.standardErrors.error().message;
      text = conformance::differences(type, found[i], point.expected[i], (*rounding.standardErrors)[i]);
    }
    if (!text.empty())
      return "output " + std::to_string(i) + ": " + text;
  }
  return "";
}

} // namespace mortise::tool
