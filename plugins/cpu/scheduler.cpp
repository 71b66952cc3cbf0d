// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scheduler.hpp"

#include "emitter.hpp"

#include <mortise/plugin.hpp>

#include <algorithm>
#include <queue>

namespace mortise::cpu {

Scheduler::Scheduler(const MortiseGraph &graph, const Options &options, Values sample)
    : graph(graph), options(options), sample(std::move(sample)) {}

// Ops that have kernels of their own here.
static bool isClaimable(const MortiseNode &node) {
  return isOp(node, Op::Dot, Op::Linear, Op::Convolution, Op::MaxPool, Op::SumPool, Op::Put, Op::RandomBits, Op::Sort,
              Op::TopK, Op::Cummax, Op::Cummin);
}

Result<void> Scheduler::analyse() {
  users.resize(graph.value_count);
  outputsOf.resize(graph.value_count);
  constant.resize(graph.value_count);
  taken.resize(graph.node_count);
  roots.resize(graph.value_count);
  views.resize(graph.value_count);
  outputHome.assign(graph.value_count, none);
  held.resize(graph.value_count);
  for (size_t i = 0; i < graph.symbol_count; ++i)
    ranges.push_back({graph.symbols[i]->min, graph.symbols[i]->max, graph.symbols[i]->divisor});
  for (size_t i = 0; i < graph.value_count; ++i) {
    extentsOf.push_back(codegen::denseView(*graph.values[i]).dims);
    for (const Dim &dim : extentsOf.back())
      if (Result<int64_t> found = dim.evaluate(sample.symbols); !found || *found < 0)
        return Error{MORTISE_NEEDS_STATIC, "found no values of the symbols for which every extent is one: value " +
                                               std::to_string(i) + " is " + typeString(*graph.values[i]->type)};
  }
  for (size_t i = 0; i < graph.output_count; ++i)
    outputsOf[graph.outputs[i]->index].push_back(static_cast<uint32_t>(i));
  for (size_t i = 0; i < graph.input_count; ++i)
    if (graph.inputs[i]->flags & MORTISE_VALUE_CONSTANT)
      constant[graph.inputs[i]->index] = true;
  for (size_t i = 0; i < graph.node_count; ++i) {
    const MortiseNode &node = *graph.nodes[i];
    bool all = !isClaimable(node); // those run with each call
    for (size_t k = 0; k < node.operand_count; ++k)
      if (const MortiseValue *operand = node.operands[k]) {
        users[operand->index].push_back(node.index);
        all &= constant[operand->index];
      }
    for (size_t k = 0; k < node.result_count; ++k)
      constant[node.results[k]->index] = all;
  }
  return {};
}

const MortiseNode *Scheduler::soleUser(uint32_t value) const {
  if (isOutput(value) || users[value].size() != 1)
    return nullptr;
  return graph.nodes[users[value][0]];
}

View Scheduler::denseView(uint32_t value) const { return codegen::denseView(*graph.values[value]); }

View Scheduler::rootOf(uint32_t value) const { return roots[value] ? *roots[value] : denseView(value); }

const View &Scheduler::viewOf(uint32_t value) {
  std::optional<View> &view = views[value];
  if (view)
    return *view;
  const MortiseNode *producer = graph.values[value]->producer;
  if (producer && !roots[value] && producer->operand_count == 1)
    if (const MortiseValue *operand = producer->operands[0]) {
      View through = viewOf(operand->index);
      if (std::optional<View> found = codegen::viewThrough(*producer, through))
        return *(view = std::move(found));
    }
  return *(view = rootOf(value));
}

std::optional<double> Scheduler::splat(uint32_t index) {
  const View &view = viewOf(index);
  const MortiseNode *producer = graph.values[view.base]->producer;
  if (!producer || !isOp(*producer, "mortise.constant"))
    return std::nullopt;
  for (size_t i = 0; i < view.dims.size(); ++i)
    if (!(view.dims[i] == 1) && !(view.strides[i] == 0))
      return std::nullopt;
  std::optional<int64_t> offset = view.offset.number();
  const MortiseAttribute *literal = findAttribute(*producer, "value");
  const char *at = static_cast<const char *>(literal->tensor_data);
  if (type(view.base).dtype == MORTISE_F32 && offset)
    return reinterpret_cast<const float *>(at)[*offset];
  return std::nullopt;
}

bool Scheduler::overwrites(uint32_t result, uint32_t input) const {
  for (uint32_t position : outputsOf[result])
    for (size_t i = 0; i < graph.alias_count; ++i)
      if (graph.aliases[i]->output == position && graph.inputs[graph.aliases[i]->input]->index == input)
        return true;
  return false;
}

int64_t Scheduler::sampleBytes(uint32_t value) const {
  return (elementCount(sample(extents(value))) * static_cast<int64_t>(dtypeBits(type(value).dtype)) + 7) / 8;
}

// ---- From nodes to units

static bool isView(const MortiseNode &node) { return has(node, Trait::View); }

Result<void> Scheduler::claim() {
  for (auto *part :
       {claimMergedProducts, claimUpdates, claimRandom, claimSorts, claimConvolutions, claimPools, claimProducts})
    if (Result<void> result = part(*this); !result)
      return result;
  return {};
}

// Nodes computed once, when constants are bound: those behind a value that depends on constants only and that a later
// node or claim reads. Literals and what is much larger than its inputs stay where they are used. `needed`: their
// values to keep.
std::vector<bool> Scheduler::bindTimeNodes(std::vector<bool> &needed) {
  std::vector<bool> chosen(graph.node_count);
  std::vector<uint32_t> todo;
  auto want = [&](uint32_t index, bool always) {
    uint32_t base = viewOf(index).base;
    const MortiseNode *producer = value(base).producer;
    if (!constant[base] || !producer || isOp(*producer, "mortise.constant") || taken[producer->index] || needed[base])
      return;
    if (isOp(*producer, "mortise.iota") && !always)
      return;
    int64_t inputs = 0;
    for (size_t k = 0; k < producer->operand_count; ++k)
      if (producer->operands[k])
        inputs += sampleBytes(viewOf(producer->operands[k]->index).base);
    if (!always && sampleBytes(base) > 2 * inputs + (64 << 10))
      return;
    needed[base] = true;
    todo.push_back(base);
  };
  for (const Unit &unit : units)
    for (uint32_t read : unit.reads)
      want(read, true); // weights are packed when constants are bound
  for (size_t i = 0; i < graph.node_count; ++i)
    if (const MortiseNode &node = *graph.nodes[i]; !taken[i] && !isView(node) && !constant[node.results[0]->index])
      for (size_t k = 0; k < node.operand_count; ++k)
        if (node.operands[k])
          want(node.operands[k]->index, false);
  for (size_t i = 0; i < graph.output_count; ++i)
    want(graph.outputs[i]->index, false);
  while (!todo.empty()) {
    const MortiseNode *node = value(todo.back()).producer;
    todo.pop_back();
    if (!node || chosen[node->index] || taken[node->index])
      continue;
    chosen[node->index] = true;
    for (size_t k = 0; k < node->operand_count; ++k)
      if (node->operands[k])
        todo.push_back(node->operands[k]->index);
  }
  // What the others read of them is kept as well.
  for (size_t i = 0; i < graph.node_count; ++i)
    if (const MortiseNode &node = *graph.nodes[i]; !chosen[i] && !taken[i])
      for (size_t k = 0; k < node.operand_count; ++k)
        if (node.operands[k]) {
          uint32_t base = viewOf(node.operands[k]->index).base;
          if (value(base).producer && chosen[value(base).producer->index])
            needed[base] = true;
        }
  return chosen;
}

// What the node computes depends on the symbols' values.
static bool hasSymbols(const MortiseNode &node) {
  for (size_t i = 0; i < node.operand_count; ++i)
    if (node.operands[i] && !isStatic(*node.operands[i]->type))
      return true;
  for (size_t i = 0; i < node.result_count; ++i)
    if (!isStatic(*node.results[i]->type))
      return true;
  for (size_t i = 0; i < node.attribute_count; ++i)
    if (exprsOf(*node.attributes[i]))
      return true;
  return false;
}

Result<void> Scheduler::addGroups(std::vector<bool> takenNodes, const std::vector<bool> &materialise,
                                  std::vector<Unit> &into) {
  codegen::FuseRequest request;
  request.graph = &graph;
  request.taken = std::move(takenNodes);
  request.materialise = materialise;
  request.layouts.resize(graph.value_count);
  for (uint32_t i = 0; i < graph.value_count; ++i)
    request.layouts[i] = roots[i];
  Result<codegen::FuseResult> fused = codegen::fuse(request, target());
  if (!fused)
    return fused.error();
  // An output that became dense may make what was to be a copy of it a view.
  for (uint32_t i = 0; i < graph.value_count; ++i)
    if (materialise[i] && fused->views[i] && fused->views[i]->base != i)
      held[i] = fused->views[i];
  for (codegen::Group &group : fused->groups) {
    size_t number = groups.size();
    bool symbolic = false;
    for (uint32_t node : group.nodes)
      symbolic |= hasSymbols(*graph.nodes[node]);
    groupHasSymbols.push_back(symbolic);
    Unit unit;
    unit.nodes = group.nodes;
    unit.reads = group.inputs;
    unit.writes = group.outputs;
    unit.emit = [number](Emitter &emitter, const Unit &) -> Result<void> {
      emitter.addGroup(number);
      return {};
    };
    groups.push_back(std::move(group));
    into.push_back(std::move(unit));
  }
  return {};
}

// An order in which what is read comes before; ties by first node, updates in place last.
static Result<void> sortUnits(std::vector<Unit> &list, size_t valueCount) {
  std::vector<uint32_t> writer(valueCount, none);
  for (uint32_t i = 0; i < list.size(); ++i)
    for (uint32_t written : list[i].writes)
      writer[written] = i;
  std::vector<std::vector<uint32_t>> after(list.size());
  std::vector<uint32_t> waiting(list.size());
  for (uint32_t i = 0; i < list.size(); ++i) {
    std::vector<uint32_t> sources;
    for (uint32_t read : list[i].reads)
      if (writer[read] != none && writer[read] != i)
        sources.push_back(writer[read]);
    std::sort(sources.begin(), sources.end());
    sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
    for (uint32_t source : sources)
      after[source].push_back(i), ++waiting[i];
  }
  using Entry = std::tuple<bool, uint32_t, uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  auto push = [&](uint32_t i) { ready.push({list[i].late, list[i].nodes.empty() ? 0 : list[i].nodes.back(), i}); };
  for (uint32_t i = 0; i < list.size(); ++i)
    if (waiting[i] == 0)
      push(i);
  int32_t order = 0;
  while (!ready.empty()) {
    uint32_t i = std::get<2>(ready.top());
    ready.pop();
    list[i].order = order++;
    for (uint32_t next : after[i])
      if (--waiting[next] == 0)
        push(next);
  }
  if (order != static_cast<int32_t>(list.size()))
    return Error{MORTISE_INTERNAL,
                 "the cpu plugin's fused steps depend on each other in a circle; please report this graph"};
  std::sort(list.begin(), list.end(), [](const Unit &x, const Unit &y) { return x.order < y.order; });
  return {};
}

// ---- Outputs

// What needs dense memory of its own: what library calls read, and outputs.
void Scheduler::chooseMaterialised(std::vector<bool> &materialise) {
  for (const Unit &unit : units)
    for (uint32_t read : unit.reads)
      if (const MortiseNode *producer = value(read).producer; producer && !isOp(*producer, "mortise.constant"))
        materialise[read] = true;
  for (size_t i = 0; i < graph.output_count; ++i) {
    uint32_t index = graph.outputs[i]->index;
    const View &view = viewOf(index);
    bool whole = isDense(view) && !roots[view.base] && elementCount(extents(index)) == elementCount(extents(view.base));
    const MortiseNode *producer = value(view.base).producer;
    bool plainSource = !producer || isOp(*producer, "mortise.constant") || taken[producer->index] || whole;
    if (whole && plainSource) {
      materialise[view.base] = true;
    } else { // strided: a group makes it dense
      roots[index].reset();
      views[index] = denseView(index);
      materialise[index] = true;
    }
  }
}

// An output that is all of some value's memory is written there directly; the others are copied at the end. An output
// that overwrites an input may be written early only by an update in place, or when no step reads that input any more.
void Scheduler::assignOutputs() {
  for (uint32_t position = 0; position < graph.output_count; ++position) {
    uint32_t index = graph.outputs[position]->index;
    const View &view = viewOf(index);
    const MortiseNode *producer = value(view.base).producer;
    bool direct = producer && !isOp(*producer, "mortise.constant") && !constant[view.base] && !roots[view.base] &&
                  isDense(view) && elementCount(extents(index)) == elementCount(extents(view.base)) &&
                  outputHome[view.base] == none && !held[view.base];
    for (size_t i = 0; i < graph.alias_count && direct; ++i)
      if (graph.aliases[i]->output == position) {
        uint32_t input = graph.inputs[graph.aliases[i]->input]->index;
        direct &= lastRead[input] < 0;
        for (size_t k = 0; k < graph.output_count; ++k)
          direct &= viewOf(graph.outputs[k]->index).base != input;
      }
    if (direct)
      outputHome[view.base] = position;
    else
      copies.push_back({position, index});
  }
}

// What only claimed nodes used needs no group: they read through views or hold its value themselves.
void Scheduler::dropDead(std::vector<bool> &skip, const std::vector<bool> &materialise) const {
  for (size_t i = graph.node_count; i-- > 0;) {
    bool dead = !skip[i];
    for (size_t k = 0; k < graph.nodes[i]->result_count && dead; ++k) {
      uint32_t result = graph.nodes[i]->results[k]->index;
      dead = !materialise[result] && !isOutput(result);
      for (uint32_t user : users[result])
        dead &= skip[user];
    }
    if (dead)
      skip[i] = true;
  }
}

Result<void> Scheduler::plan() {
  if (Result<void> result = analyse(); !result)
    return result;
  if (Result<void> result = claim(); !result)
    return result;
  std::vector<bool> needed(graph.value_count), materialise(graph.value_count);
  std::vector<bool> atBind = bindTimeNodes(needed);
  chooseMaterialised(materialise);
  std::vector<bool> skip = taken, others(graph.node_count);
  for (size_t i = 0; i < graph.node_count; ++i) {
    // What a call needs as well, but binding does not keep, is computed again.
    if (atBind[i] && needed[graph.nodes[i]->results[0]->index])
      skip[i] = true;
    others[i] = !atBind[i];
  }
  if (std::find(atBind.begin(), atBind.end(), true) != atBind.end())
    if (Result<void> result = addGroups(others, needed, bindUnits); !result)
      return result;
  dropDead(skip, materialise);
  std::vector<bool> runTime = materialise;
  for (size_t i = 0; i < graph.value_count; ++i)
    if (needed[i])
      runTime[i] = false;
  if (Result<void> result = addGroups(skip, runTime, units); !result)
    return result;
  for (std::vector<Unit> *list : {&bindUnits, &units})
    for (Unit &unit : *list)
      for (size_t i = 0, count = unit.reads.size(); i < count; ++i)
        if (const std::optional<View> &view = held[unit.reads[i]])
          unit.reads.push_back(view->base);
  for (std::vector<Unit> *list : {&bindUnits, &units})
    if (Result<void> result = sortUnits(*list, graph.value_count); !result)
      return result;
  lastRead.assign(graph.value_count, -1);
  for (const Unit &unit : units)
    for (uint32_t read : unit.reads)
      lastRead[read] = std::max(lastRead[read], unit.order);
  assignOutputs();
  copied.assign(graph.value_count, false);
  for (auto [position, index] : copies) {
    uint32_t base = viewOf(index).base;
    copied[held[base] ? held[base]->base : base] = true;
  }
  for (uint32_t i = 0; i < graph.value_count; ++i)
    viewOf(i);
  return compileGroups(*this);
}

} // namespace mortise::cpu
