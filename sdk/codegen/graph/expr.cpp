// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "graph/expr.hpp"

#include <set>
#include <unordered_map>
#include <utility>

namespace mortise::codegen {

int cost(const Expr &expr) {
  switch (expr.op) {
  case Op::Constant:
  case Op::Extent:
  case Op::Reshape:
  case Op::Transpose:
  case Op::Broadcast:
  case Op::Slice:
  case Op::Reverse:
  case Op::Iota:
  case Op::Window:
  case Op::Position:
    return 0;
  case Op::Concatenate:
  case Op::Pad:
  case Op::Take:
  case Op::TakeAlong:
  case Op::TakeNd:
    return 5;
  case Op::RandomBits: // ten rounds make four elements
    return 30;
  case Op::Cumlogsumexp:
    return 40;
  default:
    return elementwiseCost(expr.op).value_or(1);
  }
}

namespace {

void describe(std::string &key, const Dim &dim) {
  auto raw = [&](const void *data, size_t size) { key.append(static_cast<const char *>(data), size); };
  if (auto number = dim.number()) {
    key += '#';
    raw(&*number, 8);
    return;
  }
  std::vector<MortiseExprStep> steps = dim.steps();
  uint32_t size = steps.size();
  key += '$';
  raw(&size, 4);
  for (const MortiseExprStep &step : steps)
    raw(&step.op, 4), raw(&step.value, 8);
}

void describe(std::string &key, const Expr &expr) {
  auto raw = [&](const void *data, size_t size) { key.append(static_cast<const char *>(data), size); };
  auto list = [&](const auto &items) {
    uint32_t size = items.size();
    raw(&size, 4);
    for (const auto &item : items)
      describe(key, Dim(item));
  };
  raw(&expr.op, sizeof(expr.op));
  key += static_cast<char>(expr.dtype);
  key += static_cast<char>(expr.direction);
  key += static_cast<char>(expr.mode);
  key += static_cast<char>(expr.descending);
  key += static_cast<char>(expr.stays);
  uint32_t size = expr.operands.size();
  raw(&size, 4);
  raw(expr.operands.data(), size * 4);
  list(expr.dims), list(expr.axes), list(expr.starts), list(expr.steps), list(expr.strides);
  raw(&expr.real, 8), raw(&expr.integer, 8), raw(&expr.slot, 4), raw(&expr.bytes, 8);
  describe(key, expr.offset), describe(key, expr.extent);
  if (expr.bytes)
    raw(expr.data, expr.bytes);
}

} // namespace

// Appends the ranges of the symbols that occur: the code relies on them, so they are part of the key.
static void describeSymbols(Dag &dag) {
  if (dag.symbols.empty())
    return;
  std::set<uint32_t> used;
  for (const Expr &expr : dag.exprs) {
    for (const std::vector<Dim> *list : {&expr.dims, &expr.starts, &expr.strides})
      for (const Dim &dim : *list)
        dim.collectSymbols(used);
    expr.offset.collectSymbols(used), expr.extent.collectSymbols(used);
  }
  for (const std::vector<Dim> &strides : dag.rootStrides)
    for (const Dim &stride : strides)
      stride.collectSymbols(used);
  for (uint32_t number : used)
    if (number < dag.symbols.size()) {
      dag.usedSymbols.push_back(number);
      const SymbolRange &range = dag.symbols[number];
      for (int64_t item : {int64_t(number), range.min, range.max, range.divisor})
        describe(dag.key, Dim(item));
    }
}

std::vector<uint32_t> depthFirst(const MortiseGraph &graph, std::span<const uint32_t> nodes,
                                 std::span<const uint32_t> outputs) {
  std::unordered_map<uint32_t, bool> met; // of `nodes`
  for (uint32_t node : nodes)
    met.emplace(node, false);
  std::vector<uint32_t> order;
  std::vector<std::pair<uint32_t, size_t>> path; // node, the operand to visit next
  auto visit = [&](const MortiseValue *value) {
    if (!value || !value->producer)
      return;
    if (auto found = met.find(value->producer->index); found != met.end() && !std::exchange(found->second, true))
      path.emplace_back(found->first, 0);
  };
  for (uint32_t output : outputs) {
    visit(graph.values[output]);
    while (!path.empty()) {
      auto &[number, next] = path.back();
      if (const MortiseNode &node = *graph.nodes[number]; next < node.operand_count) {
        visit(node.operands[next++]);
      } else {
        order.push_back(number);
        path.pop_back();
      }
    }
  }
  return order;
}

Result<Dag> buildDag(const MortiseGraph &graph, const Group &group) {
  Dag dag;
  dag.symbols = symbolRanges(graph);
  std::unordered_map<uint32_t, ExprId> known; // graph value -> expression
  const auto reduced = [&](const Dim &dim) { return dim.isNumber() ? dim : simplify(dim, dag.symbols); };
  for (size_t i = 0; i < group.inputs.size(); ++i) {
    const MortiseType &type = *graph.values[group.inputs[i]]->type;
    View view = i < group.inputViews.size() ? group.inputViews[i] : denseView(*graph.values[group.inputs[i]]);
    Expr expr;
    expr.op = Op::Input;
    expr.dtype = type.dtype;
    for (const Dim &dim : view.dims)
      expr.dims.push_back(reduced(dim));
    for (const Dim &stride : view.strides)
      expr.strides.push_back(reduced(stride));
    expr.offset = reduced(view.offset);
    expr.slot = i;
    expr.stays = (graph.values[group.inputs[i]]->flags & MORTISE_VALUE_CONSTANT) != 0;
    known[group.inputs[i]] = dag.exprs.size();
    dag.exprs.push_back(std::move(expr));
  }
  for (uint32_t n : depthFirst(graph, group.nodes, group.outputs)) {
    const MortiseNode &node = *graph.nodes[n];
    if (known.count(node.results[0]->index)) // an input that one of the group's nodes also computes
      continue;
    std::vector<ExprId> operands;
    for (size_t i = 0; i < node.operand_count; ++i) {
      if (!node.operands[i]) {
        operands.push_back(~0u);
        continue;
      }
      auto found = known.find(node.operands[i]->index);
      if (found == known.end())
        return Error{MORTISE_INVALID_ARGUMENT, "node " + std::to_string(n) + " (" + node.op +
                                                   ") reads a value that is neither an input of its "
                                                   "group nor computed in it"};
      operands.push_back(found->second);
    }
    ExprId result;
    if (Support support = supports(node, {.contractions = true, .sorts = true});
        !support.yes || !expandNode(dag, node, operands, result))
      return Error{MORTISE_UNSUPPORTED, std::string("groups cannot compute ") + node.op + ": " + support.detail};
    known[node.results[0]->index] = result;
    if (node.result_count > 1) { // where each of the values was
      Expr positions = dag.exprs[result];
      positions.dtype = MORTISE_I64;
      if (!isSort(node))
        positions.op = Op::Position, positions.operands = {result};
      known[node.results[1]->index] = dag.exprs.size();
      dag.exprs.push_back(std::move(positions));
    }
  }
  for (size_t i = 0; i < group.outputs.size(); ++i) {
    const uint32_t output = group.outputs[i];
    if (!known.count(output))
      return Error{MORTISE_INVALID_ARGUMENT, "a group does not compute its output value " + std::to_string(output)};
    dag.roots.push_back(known[output]);
    const View view = i < group.outputViews.size() ? group.outputViews[i] : denseView(*graph.values[output]);
    std::vector<Dim> &strides = dag.rootStrides.emplace_back();
    for (const Dim &stride : view.strides)
      strides.push_back(reduced(stride));
  }
  for (const Expr &expr : dag.exprs)
    describe(dag.key, expr);
  describeSymbols(dag);
  dag.key.append(reinterpret_cast<const char *>(dag.roots.data()), dag.roots.size() * 4);
  for (const std::vector<Dim> &strides : dag.rootStrides)
    for (const Dim &stride : strides)
      describe(dag.key, stride);
  if (dag.product) // which fuse() does not group as it does the same sum spelled out
    dag.key += 'p';
  return dag;
}

} // namespace mortise::codegen
