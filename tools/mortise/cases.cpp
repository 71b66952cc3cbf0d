// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "cases.hpp"

#include "check.hpp"
#include "seam.hpp"

#include <algorithm>
#include <cmath>
#include <fnmatch.h>
#include <map>
#include <set>
#include <sstream>

namespace mortise::tool {

// Texts, made by CMakeLists.txt: of ir/test, and cases.mlir.
extern const std::vector<const char *> languageTests, toolCases;

namespace {

constexpr uint64_t seed = 1;

// The operands that are there, or the results where there is none.
std::vector<const MortiseValue *> valuesOf(const MortiseNode &node) {
  std::vector<const MortiseValue *> values;
  for (const MortiseValue *operand : std::span(node.operands, node.operand_count))
    if (operand)
      values.push_back(operand);
  if (values.empty())
    values.assign(node.results, node.results + node.result_count);
  return values;
}

std::string opsOf(const MortiseGraph &graph) {
  std::string text;
  for (size_t i = 0; i < graph.node_count; ++i)
    text += (i ? " + " : "") + std::string(graph.nodes[i]->op);
  return text;
}

std::string nameOf(const MortiseGraph &graph) {
  std::string name = opsOf(graph);
  const std::vector<const MortiseValue *> values =
      graph.node_count == 1 ? valuesOf(*graph.nodes[0]) : std::vector(graph.inputs, graph.inputs + graph.input_count);
  for (const MortiseValue *value : values)
    name += (name.ends_with("]") ? ", " : " ") + typeString(*value->type);
  return name + (graph.alias_count ? " in place" : "");
}

// Whether a wrong result would show: not all elements are NaN.
bool tellsApart(const MortiseGraph &view, const Tensors &expected) {
  for (size_t i = 0; i < view.output_count; ++i) {
    const MortiseType &type = *view.outputs[i]->type;
    if (!isFloat(type.dtype))
      return true;
    const std::vector<double> all = numbers(type, expected[i]);
    if (std::ranges::any_of(all, [](double number) { return !std::isnan(number); }))
      return true;
  }
  return false;
}

// Whether the graph is more than nodes that stand side by side.
bool isWhole(const MortiseGraph &graph) {
  for (size_t i = 0; i < graph.node_count; ++i)
    for (const MortiseValue *operand : std::span(graph.nodes[i]->operands, graph.nodes[i]->operand_count))
      if (operand && operand->producer)
        return true;
  return graph.alias_count != 0;
}

class Maker {
public:
  explicit Maker(const std::string &patterns) : patterns(patterns) {}

  // Each node of a graph, with operands of its own; but integers are those that it gets there, so that an index lies in
  // its range. `symbolic`: the graph with its symbols, or NULL.
  void addNodes(const Graph &whole, const Graph *symbolic) {
    const MortiseGraph &view = whole.view();
    const Tensors inputs = makeInputs(view, seed);
    const Result<Tensors> values = allValues(view, inputs);
    for (uint32_t i = 0; i < view.node_count; ++i) {
      const MortiseNode &node = *view.nodes[i];
      if (node.operand_count == 0 && std::string_view(node.op) == "mortise.constant")
        continue; // the host's own
      if (!isChosen(node.op, patterns))
        continue;
      auto region = extractRegion(view, {&i, 1});
      if (!region || region->graph->view().node_count != 1 || node.result_count == 0)
        continue;
      auto open = symbolic ? extractRegion(symbolic->view(), {&i, 1}) : Result<Region>(Region{});
      Tensors own = makeInputs(region->graph->view(), seed);
      for (size_t j = 0; values && j < own.size(); ++j)
        if (!isFloat(region->graph->view().inputs[j]->type->dtype))
          own[j] = (*values)[region->inputs[j]];
      addVariants(*region->graph, own, open ? open->graph : nullptr);
    }
  }

  // A graph as one case.
  void addWhole(const Graph &graph, const std::shared_ptr<const Graph> &symbolic) {
    const MortiseGraph &view = graph.view();
    for (size_t i = 0; i < view.node_count; ++i)
      if (!isChosen(view.nodes[i]->op, patterns))
        return;
    addVariants(graph, makeInputs(view, seed), symbolic);
  }

  std::vector<OpCase> cases;

private:
  void addVariants(const Graph &graph, const Tensors &inputs, const std::shared_ptr<const Graph> &symbolic) {
    add(graph.view(), inputs, symbolic, false);
    const Result<std::string> text = print(graph);
    if (!text || text->find("xf32") == std::string::npos)
      return;
    for (int32_t dtype = 1; dtype <= MORTISE_DTYPE_COUNT; ++dtype) {
      if (dtype == MORTISE_F32)
        continue;
      std::string changed = *text;
      const std::string other = "x" + std::string(dtypeName(dtype));
      for (size_t at = 0; (at = changed.find("xf32", at)) != std::string::npos; at += other.size())
        changed.replace(at, 4, other);
      const auto made = parse(changed, "case"); // which checks what the op allows
      if (!made || (*made)->view().node_count != graph.view().node_count)
        continue;
      Tensors own = makeInputs((*made)->view(), seed);
      for (size_t i = 0; i < own.size() && i < inputs.size(); ++i)
        if ((*made)->view().inputs[i]->type->dtype == graph.view().inputs[i]->type->dtype)
          own[i] = inputs[i];
      add((*made)->view(), own, nullptr, true);
    }
  }

  void add(const MortiseGraph &view, const Tensors &inputs, const std::shared_ptr<const Graph> &symbolic,
           bool isVariant) {
    auto graph = Graph::copy(view);
    const auto plain = canonical(view);
    if (!graph || !plain)
      return;
    const std::span<const std::byte> bytes = (*plain)->bytes();
    if (!seen.emplace(reinterpret_cast<const char *>(bytes.data()), bytes.size()).second)
      return;
    auto point = pointOf(std::move(*graph), {}, inputs);
    if (!point || !tellsApart(view, point->expected))
      return; // a collective of several ranks; an op of no use here
    OpCase made{opsOf(view), nameOf(view), 0, 0, view.node_count, std::move(*point), symbolic, isVariant};
    made.dtype = valuesOf(*view.nodes[0])[0]->type->dtype;
    for (size_t i = 0; i < view.value_count; ++i)
      made.rank = std::max(made.rank, view.values[i]->type->rank);
    if (const int number = ++names[made.name]; number > 1)
      made.name += " (" + std::to_string(number) + ")";
    cases.push_back(std::move(made));
  }

  const std::string &patterns;
  std::set<std::string> seen;
  std::map<std::string, int> names;
};

} // namespace

bool isChosen(const std::string &op, const std::string &patterns) {
  std::istringstream list(patterns);
  for (std::string pattern; std::getline(list, pattern, ',');)
    if (fnmatch(pattern.c_str(), op.c_str(), 0) == 0)
      return true;
  return patterns.empty();
}

std::vector<OpCase> opCases(const std::string &ops) {
  Maker maker(ops);
  for (const std::vector<const char *> *texts : {&languageTests, &toolCases})
    for (const char *text : *texts)
      for (const std::shared_ptr<const Graph> &graph : parseAll(text)) {
        const auto numbered = withNumbers(graph, "");
        const std::shared_ptr<const Graph> symbolic = graph->view().symbol_count ? graph : nullptr;
        if (numbered && texts == &toolCases && isWhole(graph->view()))
          maker.addWhole(**numbered, symbolic);
        else if (numbered)
          maker.addNodes(**numbered, symbolic.get());
      }
  return std::move(maker.cases);
}

} // namespace mortise::tool
