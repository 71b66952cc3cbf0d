// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A graph of numbers made one of symbols.
#include "network.hpp"

#include <mortise/dim.hpp>

#include <cstdlib>

namespace mortise::test {

namespace {
// Deques do not move their elements.
class Lifted {
public:
  Lifted(const MortiseGraph &graph, const std::vector<StandIn> &standIns);
  std::shared_ptr<const Graph> copy() const;

private:
  const MortiseType *lift(const MortiseType &type);
  const MortiseAttribute *lift(const MortiseAttribute &attribute);
  // NULL where all are numbers.
  const MortiseExpr *lift(const int64_t *&numbers, size_t count);

  const std::vector<StandIn> &standIns;
  MortiseGraph graph;
  std::deque<std::vector<MortiseExprStep>> programs;
  std::deque<std::vector<MortiseExpr>> expressions;
  std::deque<std::vector<int64_t>> numberLists;
  std::deque<MortiseType> types;
  std::deque<MortiseAttribute> attributes;
  std::deque<std::vector<const MortiseAttribute *>> attributeLists;
  std::deque<std::vector<const MortiseValue *>> valueLists;
  std::deque<MortiseNode> nodes;
  std::deque<MortiseValue> values;
  std::deque<MortiseSymbol> symbols;
  std::vector<const MortiseNode *> nodeList;
  std::vector<const MortiseValue *> valueList, inputs, outputs;
  std::vector<const MortiseSymbol *> symbolList;
};
} // namespace

const MortiseExpr *Lifted::lift(const int64_t *&numbers, size_t count) {
  std::vector<MortiseExpr> list;
  std::vector<int64_t> known;
  bool symbolic = false;
  for (size_t i = 0; i < count; ++i) {
    int64_t rest = numbers[i];
    Dim dim(1);
    for (uint32_t s = 0; s < standIns.size(); ++s)
      for (; rest != 0 && rest % standIns[s].number == 0; rest /= standIns[s].number)
        dim *= standIns[s].min == standIns[s].max ? Dim(standIns[s].min) : Dim::symbol(s);
    dim *= Dim(rest);
    for (uint32_t s = 0; s < standIns.size() && dim.isNumber(); ++s) // a little more or less
      if (standIns[s].min != standIns[s].max && std::abs(numbers[i] - standIns[s].number) <= 200)
        dim = Dim::symbol(s) + (numbers[i] - standIns[s].number);
    symbolic |= !dim.isNumber();
    programs.push_back(dim.steps());
    list.push_back({programs.back().data(), programs.back().size()});
    known.push_back(dim.numberOrDynamic());
  }
  if (!symbolic)
    return nullptr;
  numbers = numberLists.emplace_back(std::move(known)).data();
  return expressions.emplace_back(std::move(list)).data();
}

const MortiseType *Lifted::lift(const MortiseType &type) {
  MortiseType &made = types.emplace_back(type);
  made.dim_exprs = lift(made.dims, static_cast<size_t>(made.rank));
  return &made;
}

const MortiseAttribute *Lifted::lift(const MortiseAttribute &attribute) {
  MortiseAttribute &made = attributes.emplace_back(attribute);
  made.exprs = made.kind == MORTISE_ATTRIBUTE_I64_ARRAY ? lift(made.i64s, made.count) : nullptr;
  return &made;
}

Lifted::Lifted(const MortiseGraph &from, const std::vector<StandIn> &standIns) : standIns(standIns), graph(from) {
  for (size_t i = 0; i < from.value_count; ++i) {
    MortiseValue &value = values.emplace_back(*from.values[i]);
    value.type = lift(*value.type);
    valueList.push_back(&value);
  }
  auto moved = [&](const MortiseValue *const *list, size_t count) {
    std::vector<const MortiseValue *> &made = valueLists.emplace_back();
    for (size_t i = 0; i < count; ++i)
      made.push_back(list[i] ? valueList[list[i]->index] : nullptr);
    return made.data();
  };
  for (size_t i = 0; i < from.node_count; ++i) {
    MortiseNode &node = nodes.emplace_back(*from.nodes[i]);
    node.operands = moved(node.operands, node.operand_count);
    node.results = moved(node.results, node.result_count);
    for (size_t k = 0; k < node.result_count; ++k)
      values[node.results[k]->index].producer = &node;
    std::vector<const MortiseAttribute *> &list = attributeLists.emplace_back();
    for (size_t k = 0; k < node.attribute_count; ++k)
      list.push_back(lift(*node.attributes[k]));
    node.attributes = list.data();
    nodeList.push_back(&node);
  }
  for (const StandIn &standIn : standIns) // those for numbers stand last
    if (standIn.min != standIn.max)
      symbols.push_back({sizeof(MortiseSymbol), nullptr, standIn.name, standIn.min, standIn.max, standIn.divisor});
  for (const MortiseSymbol &symbol : symbols)
    symbolList.push_back(&symbol);
  graph.nodes = nodeList.data();
  graph.values = valueList.data();
  graph.inputs = moved(from.inputs, from.input_count);
  graph.outputs = moved(from.outputs, from.output_count);
  graph.symbols = symbolList.data();
  graph.symbol_count = symbolList.size();
}

std::shared_ptr<const Graph> Lifted::copy() const {
  Result<std::shared_ptr<const Graph>> made = Graph::copy(graph);
  if (!made) {
    fprintf(stderr, "%s\n", made.error().message.c_str());
    abort(); // a fault of the test itself
  }
  return std::move(*made);
}

std::shared_ptr<const Graph> withSymbols(const MortiseGraph &graph, const std::vector<StandIn> &standIns) {
  return Lifted(graph, standIns).copy();
}

} // namespace mortise::test
