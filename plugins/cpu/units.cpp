// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "claims.hpp"
#include "device.hpp"

#include <mortise/plugin.hpp>

#include <algorithm>
#include <numeric>
#include <queue>

namespace mortise::cpu {

static bool isView(const MortiseNode &node) { return has(node, Trait::View); }

// ---- What runs when constants are bound

namespace {
struct BindTime {
  std::vector<bool> nodes;  // per node: computed when constants are bound
  std::vector<bool> values; // per value: kept from then on
};
} // namespace

// What the nodes that run with each call read of the others is kept as well.
static void keepWhatCallsRead(const Analysis &facts, Claims &claims, BindTime &bind) {
  for (size_t i = 0; i < facts.graph.node_count; ++i)
    if (const MortiseNode &node = *facts.graph.nodes[i]; !bind.nodes[i] && !claims.taken[i])
      for (size_t k = 0; k < node.operand_count; ++k)
        if (node.operands[k]) {
          uint32_t base = claims.viewOf(node.operands[k]->index).base;
          if (facts.value(base).producer && bind.nodes[facts.value(base).producer->index])
            bind.values[base] = true;
        }
}

// Nodes computed once, when constants are bound: those behind a value that depends on constants only and that a later
// node or claim reads. Literals and what is much larger than its inputs stay where they are used.
static BindTime chooseBindTime(const Analysis &facts, Claims &claims) {
  const MortiseGraph &graph = facts.graph;
  BindTime bind{std::vector<bool>(graph.node_count), std::vector<bool>(graph.value_count)};
  std::vector<uint32_t> todo;
  auto want = [&](uint32_t base, bool always) {
    const MortiseNode *producer = facts.value(base).producer;
    if (!facts.constant[base] || !producer || isOp(*producer, "mortise.constant") || claims.taken[producer->index] ||
        bind.values[base])
      return;
    if (isOp(*producer, "mortise.iota") && !always)
      return;
    int64_t inputs = 0;
    for (size_t k = 0; k < producer->operand_count; ++k)
      if (producer->operands[k])
        inputs += facts.sampleBytes(claims.viewOf(producer->operands[k]->index).base);
    if (!always && facts.sampleBytes(base) > 2 * inputs + (64 << 10))
      return;
    bind.values[base] = true;
    todo.push_back(base);
  };
  for (const Unit &unit : claims.units)
    for (uint32_t read : unit.reads)
      want(read, true); // in memory of its own; weights are packed when constants are bound
  for (size_t i = 0; i < graph.node_count; ++i)
    if (const MortiseNode &node = *graph.nodes[i];
        !claims.taken[i] && !isView(node) && !facts.constant[node.results[0]->index])
      for (size_t k = 0; k < node.operand_count; ++k)
        if (node.operands[k])
          want(claims.viewOf(node.operands[k]->index).base, false);
  for (size_t i = 0; i < graph.output_count; ++i)
    want(claims.viewOf(graph.outputs[i]->index).base, false);
  while (!todo.empty()) {
    const MortiseNode *node = facts.value(todo.back()).producer;
    todo.pop_back();
    if (!node || bind.nodes[node->index] || claims.taken[node->index])
      continue;
    bind.nodes[node->index] = true;
    for (size_t k = 0; k < node->operand_count; ++k)
      if (node->operands[k])
        todo.push_back(node->operands[k]->index);
  }
  keepWhatCallsRead(facts, claims, bind);
  return bind;
}

// ---- Generated groups

// What needs dense memory of its own: what claimed units read, and outputs. A strided output is made dense in `layout`.
static std::vector<bool> chooseMaterialised(const Analysis &facts, const Claims &claims, Layout &layout) {
  std::vector<bool> materialise(facts.graph.value_count);
  for (const Unit &unit : claims.units)
    for (uint32_t read : unit.reads)
      if (const MortiseNode *producer = facts.value(read).producer; producer && !isOp(*producer, "mortise.constant"))
        materialise[read] = true;
  for (size_t i = 0; i < facts.graph.output_count; ++i) {
    uint32_t index = facts.graph.outputs[i]->index;
    const View &view = layout.viewOf(index);
    bool whole = isDense(view) && layout.ownsRoot(view.base) &&
                 elementCount(facts.extents(index)) == elementCount(facts.extents(view.base));
    const MortiseNode *producer = facts.value(view.base).producer;
    bool plainSource = !producer || isOp(*producer, "mortise.constant") || claims.taken[producer->index] || whole;
    if (whole && plainSource) {
      materialise[view.base] = true;
    } else { // a group makes it dense
      layout.makeDense(index);
      materialise[index] = true;
    }
  }
  return materialise;
}

// What only claimed nodes used needs no group: they read through views or hold its value themselves. Nor does an output
// that is a view, for it is copied from its base.
static void skipDeadNodes(const Analysis &facts, const std::vector<bool> &materialise, std::vector<bool> &skip) {
  for (size_t i = facts.graph.node_count; i-- > 0;) {
    bool dead = !skip[i];
    for (size_t k = 0; k < facts.graph.nodes[i]->result_count && dead; ++k) {
      uint32_t result = facts.graph.nodes[i]->results[k]->index;
      dead = !materialise[result];
      for (uint32_t user : facts.users[result])
        dead &= skip[user];
    }
    if (dead)
      skip[i] = true;
  }
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

// Groups the nodes that are not in `skip`. Their units go to `into` and the groups, in the same order, to `groups`.
static Result<void> addGroups(const Analysis &facts, const Layout &layout, std::vector<bool> skip,
                              std::vector<bool> materialise, Units &units, std::vector<Unit> &into,
                              std::vector<codegen::Group> &groups) {
  codegen::FuseRequest request;
  request.graph = &facts.graph;
  request.taken = std::move(skip);
  request.materialise = std::move(materialise);
  request.layouts = layout.allRoots();
  Result<codegen::FuseResult> fused = codegen::fuse(request, target());
  if (!fused)
    return fused.error();
  // An output that became dense may make what was to be a copy of it a view.
  for (uint32_t i = 0; i < facts.graph.value_count; ++i)
    if (request.materialise[i] && fused->views[i] && fused->views[i]->base != i)
      units.partOf[i] = fused->views[i];
  for (codegen::Group &group : fused->groups) {
    Generated generated{group.kind, group.name, group.inputs, group.outputs, false, nullptr};
    for (uint32_t node : group.nodes)
      generated.hasSymbols |= hasSymbols(*facts.graph.nodes[node]);
    Unit unit;
    unit.nodes = group.nodes;
    unit.reads = group.inputs;
    unit.writes = group.outputs;
    unit.work = std::move(generated);
    groups.push_back(std::move(group));
    into.push_back(std::move(unit));
  }
  return {};
}

static Result<void> groupTheRest(const Analysis &facts, Claims &claims, Layout &layout, Units &units) {
  const size_t nodes = facts.graph.node_count, values = facts.graph.value_count;
  const BindTime bind = chooseBindTime(facts, claims);
  layout = claims.layout;
  std::vector<bool> materialise = chooseMaterialised(facts, claims, layout);
  units.runTime = std::move(claims.units);
  std::vector<bool> skip = claims.taken, others(nodes);
  for (size_t i = 0; i < nodes; ++i) {
    // What a call needs as well, but binding does not keep, is computed again.
    if (bind.nodes[i] && bind.values[facts.graph.nodes[i]->results[0]->index])
      skip[i] = true;
    others[i] = !bind.nodes[i];
  }
  std::vector<codegen::Group> groups;
  if (std::find(bind.nodes.begin(), bind.nodes.end(), true) != bind.nodes.end())
    if (Result<void> result = addGroups(facts, layout, others, bind.values, units, units.bindTime, groups); !result)
      return result;
  skipDeadNodes(facts, materialise, skip);
  for (size_t i = 0; i < values; ++i)
    if (bind.values[i])
      materialise[i] = false;
  if (Result<void> result = addGroups(facts, layout, skip, materialise, units, units.runTime, groups); !result)
    return result;
  Result<CompiledGroups> compiled = compileGroups(facts.graph, groups);
  if (!compiled)
    return compiled.error();
  units.code = compiled->code;
  size_t number = 0;
  for (std::vector<Unit> *list : {&units.bindTime, &units.runTime})
    for (Unit &unit : *list)
      if (auto *generated = std::get_if<Generated>(&unit.work))
        generated->function = std::make_shared<codegen::Function>(std::move(compiled->functions[number++]));
  return {};
}

// ---- Order

// Moves units that write more than they read, such as paddings, to their first readers, so that the larger values live
// shorter.
static void delayGrowth(const Analysis &facts, const std::vector<Unit> &list, std::vector<uint32_t> &positions) {
  const auto bytesOf = [&](std::vector<uint32_t> values) {
    std::ranges::sort(values);
    values.erase(std::ranges::unique(values).begin(), values.end());
    return std::accumulate(values.begin(), values.end(), int64_t{0},
                           [&](int64_t sum, uint32_t value) { return sum + facts.sampleBytes(value); });
  };
  std::vector<uint32_t> order(list.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, std::ranges::greater(), [&](uint32_t i) { return std::pair(positions[i], i); });
  std::vector<uint32_t> firstReader(facts.graph.value_count, none); // per value: its position
  for (const uint32_t i : order) {
    uint32_t first = none;
    for (uint32_t written : list[i].writes)
      first = std::min(first, firstReader[written]);
    if (first != none && bytesOf(list[i].writes) > bytesOf(list[i].reads))
      positions[i] = std::max(positions[i], first);
    for (uint32_t read : list[i].reads)
      firstReader[read] = std::min(firstReader[read], positions[i]);
  }
}

// Where each unit stands in the graph: at its last node, or later. An update in place stands behind the readers of what
// it overwrites, so that none of them needs a copy of the old contents.
static std::vector<std::pair<uint32_t, bool>> findPositions(const Analysis &facts, const std::vector<Unit> &list) {
  std::vector<uint32_t> positions;
  for (const Unit &unit : list)
    positions.push_back(unit.nodes.empty() ? 0 : unit.nodes.back());
  delayGrowth(facts, list, positions);
  std::vector<uint32_t> lastReader(facts.graph.value_count); // per value: the position of its last reader
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i].overwrites == none)
      for (uint32_t read : list[i].reads)
        lastReader[read] = std::max(lastReader[read], positions[i]);
  std::vector<std::pair<uint32_t, bool>> found;
  for (size_t i = 0; i < list.size(); ++i) {
    const uint32_t overwritten = list[i].overwrites;
    found.push_back(
        {overwritten == none ? positions[i] : std::max(positions[i], lastReader[overwritten]), overwritten != none});
  }
  return found;
}

// A topological order; of the units that are ready the first one in the graph comes next.
static Result<void> sortUnits(const Analysis &facts, std::vector<Unit> &list) {
  std::vector<uint32_t> writer(facts.graph.value_count, none);
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
  const std::vector<std::pair<uint32_t, bool>> position = findPositions(facts, list);
  using Entry = std::pair<std::pair<uint32_t, bool>, uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  auto push = [&](uint32_t i) { ready.push({position[i], i}); };
  for (uint32_t i = 0; i < list.size(); ++i)
    if (waiting[i] == 0)
      push(i);
  int32_t order = 0;
  while (!ready.empty()) {
    const uint32_t i = ready.top().second;
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

Result<Units> makeUnits(const Analysis &facts, Claims claims) {
  const size_t values = facts.graph.value_count;
  Units units;
  units.graph = &facts.graph;
  units.sample = facts.sample;
  units.constant = facts.constant;
  units.partOf.resize(values);
  Layout layout(facts.graph);
  if (Result<void> result = groupTheRest(facts, claims, layout, units); !result)
    return result.error();
  for (std::vector<Unit> *list : {&units.bindTime, &units.runTime}) {
    for (Unit &unit : *list)
      for (size_t i = 0, count = unit.reads.size(); i < count; ++i)
        if (const std::optional<View> &part = units.partOf[unit.reads[i]])
          unit.reads.push_back(part->base);
    if (Result<void> result = sortUnits(facts, *list); !result)
      return result.error();
  }
  for (uint32_t i = 0; i < values; ++i)
    units.views.push_back(layout.viewOf(i));
  units.roots = layout.allRoots();
  return units;
}

// ---- Outputs

// The output is all of the memory of a value that units write for each call, so that they may write the output itself.
static bool isWhole(const Units &units, uint32_t output) {
  const View &view = units.views[output];
  const MortiseNode *producer = units.graph->values[view.base]->producer;
  return producer && !isOp(*producer, "mortise.constant") && !units.constant[view.base] &&
         ownsRoot(*units.graph->values[view.base], units.roots[view.base]) && isDense(view) &&
         !units.partOf[view.base] &&
         elementCount(denseView(*units.graph->values[output]).dims) ==
             elementCount(denseView(*units.graph->values[view.base]).dims);
}

Units assignOutputs(Units units) {
  const MortiseGraph &graph = *units.graph;
  units.lastRead.assign(graph.value_count, -1);
  for (const Unit &unit : units.runTime)
    for (uint32_t read : unit.reads)
      units.lastRead[read] = std::max(units.lastRead[read], unit.order);
  units.outputHome.assign(graph.value_count, none);
  units.copied.assign(graph.value_count, false);
  std::vector<bool> isBase(graph.value_count); // of some output's view
  for (size_t k = 0; k < graph.output_count; ++k)
    isBase[units.views[graph.outputs[k]->index].base] = true;
  std::vector<bool> late(graph.output_count); // overwrites an input whose old contents are still wanted
  for (size_t i = 0; i < graph.alias_count; ++i) {
    uint32_t input = graph.inputs[graph.aliases[i]->input]->index;
    late[graph.aliases[i]->output] = late[graph.aliases[i]->output] || units.lastRead[input] >= 0 || isBase[input];
  }
  for (uint32_t position = 0; position < graph.output_count; ++position) {
    const uint32_t index = graph.outputs[position]->index, base = units.views[index].base;
    if (!late[position] && units.outputHome[base] == none && isWhole(units, index)) {
      units.outputHome[base] = position;
    } else {
      units.copies.push_back({position, index});
      units.copied[units.partOf[base] ? units.partOf[base]->base : base] = true;
    }
  }
  return units;
}

} // namespace mortise::cpu
