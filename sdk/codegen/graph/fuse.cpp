// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Producer/consumer fusion. Nodes are visited in reverse order. A node joins the groups that use its result, or its
// result gets memory and starts a group of its own. Plans decide which nodes fit one loop nest.
#include "graph/order.hpp"
#include "space/plan.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

namespace mortise::codegen {

namespace {

constexpr double cheapCost = 4.5;     // up to this cost a value is recomputed in every group that uses it
constexpr double expensiveCost = 16;  // from this cost on a value is not recomputed for every repetition of a broadcast
constexpr int64_t smallGroup = 32768; // elements up to which one thread is enough

// Each result reads many elements, or the node first copies a whole tensor.
bool isHeavy(const MortiseNode &node) {
  return has(node, Trait::Reduction, Trait::Running, Trait::Normalisation, Trait::Window) || isUpdate(node) ||
         isProduct(node);
}

// Whether the group that has a product computes each of its results once, in its own order, and nothing else that looks
// at many elements: else tiles would not share what they read. Products without tiles may be several, if they sum over
// the same, and other sums may stand beside them (LoopPlan::product).
bool suitsProduct(const LoopPlan &plan) {
  if (plan.scan || plan.isUpdate() || (plan.reductions.size() > 1 && (!plan.product || plan.suitsTiles())))
    return false;
  if (plan.reductions.empty() || // a product that sums nothing, or that has no results
      elementCount(plan.dag.exprs[plan.dag.roots[0]].dims) == Dim(0))
    return true;
  std::vector<IndexId> kept;
  const std::vector<IndexId> &all = plan.space.tuple(plan.identity());
  for (size_t i = 0; i < all.size(); ++i)
    if (!plan.reduced[i])
      kept.push_back(all[i]);
  const bool isRow = std::ranges::all_of(plan.roots, &Root::row) || plan.rowLength == Dim(1);
  return isRow && std::ranges::all_of(plan.reductions, [&](const Reduction &reduction) {
           return plan.space.tuple(reduction.at) == kept || (plan.product && plan.space.loops(reduction.at, 0) == 0);
         });
}

GroupKind kindOf(const LoopPlan &plan) {
  if (plan.isSort())
    return GroupKind::Sort;
  if (plan.dag.product)
    return GroupKind::Product;
  if (plan.scan)
    return GroupKind::Scan;
  if (plan.reductions.empty())
    return GroupKind::Pointwise;
  return plan.reducesInnermost() ? GroupKind::Rows : GroupKind::Columns;
}

class Fuser {
public:
  Fuser(const FuseRequest &request, const FuseTarget &target)
      : request(request), graph(*request.graph), target(target) {}
  Result<FuseResult> run();

private:
  struct PendingGroup {
    std::set<uint32_t> nodes;
    std::vector<uint32_t> outputs;
    uint32_t earliest = ~0u; // the first node that makes one of the outputs
    bool closed = false;     // accepts no further node that needs a plan
  };

  // The facts about a plan that fusion needs, memoised because the layers of a network need equal plans.
  struct PlanFacts {
    std::optional<Error> error; // why the group does not fit one loop nest
    GroupKind kind = GroupKind::Pointwise;
    bool narrow = false; // several passes over a large space with fewer rows than threads
    double cost = 0;     // per point
  };

  void markLive();
  Result<void> findDemands();
  void demandBase(uint32_t value);
  void priceRecomputation();
  void place(uint32_t node);
  void startGroup(uint32_t node);
  bool fits(const PendingGroup &group, uint32_t node, bool output);
  bool joinsAsOutput(uint32_t node, uint32_t group);
  uint32_t furthest(uint32_t first, uint32_t node) const;
  bool reaches(uint32_t value, uint32_t group);
  bool feedsProduct(const PendingGroup &group, uint32_t node) const;
  std::vector<uint32_t> heavyBehind(uint32_t node) const;
  bool haveRoom(std::span<const uint32_t> all, std::span<const uint32_t> nodes);
  Result<const PlanFacts *> planFacts(const Group &group);
  std::optional<double> price(const PendingGroup &group);
  Group describe(const PendingGroup &building) const;
  Group groupAlone(uint32_t node) const;
  Result<void> finish(FuseResult &result);

  View layout(uint32_t value) const {
    if (value < request.layouts.size() && request.layouts[value])
      return *request.layouts[value];
    return denseView(*graph.values[value]);
  }
  double elements(const MortiseValue &value) const {
    return std::max(facts.typical(elementCount(dimsOf(*value.type))), 1.0);
  }
  // For which a group computes something: a put computes its updates.
  double points(const PendingGroup &group) const {
    const MortiseNode &last = *graph.nodes[*group.nodes.rbegin()];
    return elements(isUpdate(last) ? *last.operands[2] : *graph.values[group.outputs[0]]);
  }
  bool isElsewhere(uint32_t node) const { return node < request.taken.size() && request.taken[node]; }
  // Nothing joins what has a group of its own, so that it is like a node that the plugin computes.
  bool taken(uint32_t node) const { return isElsewhere(node) || isAlone(*graph.nodes[node]); }
  uint32_t resultOf(uint32_t node) const { return graph.nodes[node]->results[0]->index; }

  const FuseRequest &request;
  const MortiseGraph &graph;
  const FuseTarget &target;
  const Facts facts{symbolRanges(graph)};
  std::vector<bool> live, demanded, isOutput;
  std::vector<double> recomputeCost;           // per node: cost of one element, computed from values in memory
  std::vector<std::vector<uint32_t>> users;    // per value
  std::vector<std::vector<uint32_t>> groupsOf; // per node
  std::vector<std::optional<View>> views;
  std::vector<PendingGroup> groups;
  std::vector<uint32_t> lastOf; // per node: the last node of the groups whose first output it makes
  std::unordered_map<std::string, PlanFacts> knownPlans; // by Dag::key, which covers everything that a plan depends on
  // reaches(): the number of the last search that visited each group and each node.
  std::vector<uint32_t> metGroup, metNode;
  uint32_t search = 0;
};

void Fuser::markLive() {
  live.assign(graph.node_count, false);
  users.assign(graph.value_count, {});
  isOutput.assign(graph.value_count, false);
  std::vector<bool> needed(graph.value_count);
  for (size_t i = 0; i < graph.output_count; ++i)
    needed[graph.outputs[i]->index] = isOutput[graph.outputs[i]->index] = true;
  for (size_t v = 0; v < request.materialise.size(); ++v)
    if (request.materialise[v])
      needed[v] = true;
  for (size_t n = graph.node_count; n-- > 0;) {
    const MortiseNode &node = *graph.nodes[n];
    bool wanted = isElsewhere(n);
    for (size_t i = 0; i < node.result_count; ++i)
      wanted |= needed[node.results[i]->index];
    if (!wanted)
      continue;
    live[n] = true;
    for (size_t i = 0; i < node.operand_count; ++i)
      if (node.operands[i]) {
        needed[node.operands[i]->index] = true;
        std::vector<uint32_t> &list = users[node.operands[i]->index];
        if (list.empty() || list.back() != n)
          list.push_back(n);
      }
  }
}

// Gives memory to the value that `value` is a view of, and makes the nodes between them views.
void Fuser::demandBase(uint32_t value) {
  const MortiseNode *producer = graph.values[value]->producer;
  if (!producer || taken(producer->index) || demanded[value] || views[value])
    return;
  if (isView(*producer)) {
    uint32_t operand = producer->operands[0]->index;
    demandBase(operand);
    View base = views[operand] ? *views[operand] : layout(operand);
    if (auto view = viewThrough(*producer, base)) {
      views[value] = view;
      return;
    }
  }
  demanded[value] = true;
}

Result<void> Fuser::findDemands() {
  demanded.assign(graph.value_count, false);
  views.assign(graph.value_count, std::nullopt);
  for (size_t n = 0; n < graph.node_count; ++n) {
    if (!live[n] || isElsewhere(n))
      continue;
    const MortiseNode &node = *graph.nodes[n];
    if (Support support = supports(node, target); !support.yes)
      return Error{MORTISE_UNSUPPORTED, "node " + std::to_string(n) +
                                            " is neither taken nor something that groups compute: " + support.detail};
    if (taken(n))
      continue;
    uint32_t value = resultOf(n);
    demanded[value] = isOutput[value] || isUpdate(node);
  }
  // A value that needs dense memory may stay a view if that view is dense.
  for (size_t v = 0; v < graph.value_count; ++v) {
    const MortiseNode *producer = graph.values[v]->producer;
    if (v >= request.materialise.size() || !request.materialise[v] || demanded[v] || !producer ||
        taken(producer->index))
      continue;
    if (isView(*producer)) {
      demandBase(v);
      if (views[v]) {
        Dim stride = 1;
        bool dense = true;
        for (size_t i = views[v]->dims.size(); i-- > 0; stride *= views[v]->dims[i])
          dense &= views[v]->dims[i] == 1 || views[v]->strides[i] == stride;
        if (dense)
          continue;
        views[v].reset();
      }
    }
    demanded[v] = true;
  }
  for (size_t n = 0; n < graph.node_count; ++n) {
    const MortiseNode &node = *graph.nodes[n];
    if (live[n] && taken(n))
      for (size_t i = 0; i < node.operand_count; ++i)
        if (node.operands[i])
          demandBase(node.operands[i]->index);
    if (live[n] && isUpdate(node) && node.operands[0]->producer && isHeavy(*node.operands[0]->producer))
      demandBase(node.operands[0]->index);
  }
  return {};
}

void Fuser::priceRecomputation() {
  recomputeCost.assign(graph.node_count, 0);
  for (size_t n = 0; n < graph.node_count; ++n) {
    const MortiseNode &node = *graph.nodes[n];
    if (!live[n] || taken(n))
      continue;
    Dag dag;
    std::vector<ExprId> operands;
    for (size_t i = 0; i < node.operand_count; ++i) {
      const MortiseValue *operand = node.operands[i];
      operands.push_back(~0u);
      if (!operand)
        continue;
      Expr expr;
      expr.dtype = operand->type->dtype;
      expr.dims = dimsOf(*operand->type);
      operands.back() = dag.exprs.size();
      dag.exprs.push_back(std::move(expr));
      bool memory = !operand->producer || taken(operand->producer->index) || demanded[operand->index] ||
                    isHeavy(*operand->producer);
      recomputeCost[n] += memory ? 1 : recomputeCost[operand->producer->index];
    }
    size_t first = dag.exprs.size();
    ExprId result;
    expandNode(dag, node, operands, result);
    for (size_t i = first; i < dag.exprs.size(); ++i)
      recomputeCost[n] += cost(dag.exprs[i]);
  }
}

Group Fuser::describe(const PendingGroup &building) const {
  Group group;
  group.nodes.assign(building.nodes.begin(), building.nodes.end());
  group.outputs = building.outputs;
  for (const uint32_t output : group.outputs)
    group.outputViews.push_back(layout(output));
  std::set<uint32_t> made, seen;
  for (uint32_t n : group.nodes)
    made.insert(resultOf(n));
  for (uint32_t n : depthFirst(graph, group.nodes, group.outputs))
    for (size_t i = 0; i < graph.nodes[n]->operand_count; ++i)
      if (const MortiseValue *operand = graph.nodes[n]->operands[i]; operand && !made.count(operand->index))
        if (seen.insert(operand->index).second) {
          group.inputs.push_back(operand->index);
          group.inputViews.push_back(layout(operand->index));
        }
  return group;
}

// With the views through which the node reads its operand.
Group Fuser::groupAlone(uint32_t n) const {
  const MortiseNode &node = *graph.nodes[n];
  Group group;
  group.nodes = {n};
  const MortiseValue *operand = node.operands[0];
  for (; views[operand->index] && !demanded[operand->index]; operand = operand->producer->operands[0])
    group.nodes.insert(group.nodes.begin(), operand->producer->index);
  group.inputs = {operand->index};
  group.inputViews = {layout(operand->index)};
  for (size_t i = 0; i < node.result_count; ++i) {
    group.outputs.push_back(node.results[i]->index);
    group.outputViews.push_back(layout(node.results[i]->index));
  }
  return group;
}

Result<const Fuser::PlanFacts *> Fuser::planFacts(const Group &group) {
  auto dag = buildDag(graph, group);
  if (!dag)
    return dag.error();
  auto [found, fresh] = knownPlans.try_emplace(dag->key);
  PlanFacts &summary = found->second;
  if (!fresh)
    return &summary;
  auto made = LoopPlan::make(std::move(*dag), target);
  if (!made) {
    summary.error = made.error();
    return &summary;
  }
  const LoopPlan &plan = **made;
  if (plan.dag.product && !suitsProduct(plan)) {
    summary.error = Error{MORTISE_UNSUPPORTED, "a product does not share a group with this"};
    return &summary;
  }
  Dim kept = 1;
  for (size_t i = 0; i < plan.dims.size(); ++i)
    if (!plan.reduced[i])
      kept *= plan.dims[i];
  summary.kind = kindOf(plan);
  summary.narrow =
      plan.passes > 1 && plan.typical(elementCount(plan.dims)) > smallGroup && plan.typical(kept) < target.threads;
  summary.cost = plan.costPerPoint;
  return &summary;
}

// The cost of one point of the group's loops; nullopt when the nodes do not fit one loop nest, or would run on too few
// threads.
std::optional<double> Fuser::price(const PendingGroup &building) {
  Result<const PlanFacts *> summary = planFacts(describe(building));
  if (!summary || (*summary)->error)
    return std::nullopt;
  bool shared = building.outputs.size() > 1 || building.nodes.size() > 1;
  if (shared && (*summary)->narrow)
    return std::nullopt;
  return (*summary)->cost;
}

bool Fuser::fits(const PendingGroup &group, uint32_t node, bool output) {
  PendingGroup trial = group;
  trial.nodes.insert(node);
  std::optional<double> inlined = price(trial);
  if (!output || !inlined)
    return inlined.has_value();
  trial.outputs.push_back(resultOf(node));
  std::optional<double> both = price(trial);
  return both && *both <= *inlined + 1.5; // it is computed once for both uses
}

// The last node from which a path may lead back to `node` or to one before it. Paths follow the nodes' order but for
// groups, which need what their last node reads and make what their first output gives.
uint32_t Fuser::furthest(uint32_t first, uint32_t node) const {
  for (uint32_t n = first; n <= node && n < lastOf.size(); ++n)
    node = std::max(node, lastOf[n]);
  return node;
}

// Whether a path leads from a user of the value outside the group back into the group, so that the value must exist
// before the group runs. A path runs through whole groups, taken nodes, and views between them.
bool Fuser::reaches(uint32_t value, uint32_t group) {
  const uint32_t end = furthest(graph.values[value]->producer->index, *groups[group].nodes.rbegin());
  metGroup.resize(groups.size());
  metNode.resize(graph.node_count);
  ++search;
  auto meet = [&](uint32_t &met) { return std::exchange(met, search) != search; };
  std::vector<uint32_t> values{value};
  bool first = true;
  while (!values.empty()) {
    uint32_t current = values.back();
    values.pop_back();
    for (uint32_t user : users[current]) {
      for (uint32_t other : groupsOf[user]) {
        if (other == group && !first)
          return true;
        if (other != group && groups[other].earliest <= end && meet(metGroup[other]))
          values.insert(values.end(), groups[other].outputs.begin(), groups[other].outputs.end());
      }
      const MortiseNode &node = *graph.nodes[user];
      bool alone = groupsOf[user].empty() || (node.result_count == 1 && views[node.results[0]->index]);
      if (alone && user <= end && meet(metNode[user]))
        for (size_t i = 0; i < node.result_count; ++i)
          values.push_back(node.results[i]->index);
    }
    first = false;
  }
  return false;
}

// Whether the group has a product one of whose factors is made of the node's result.
bool Fuser::feedsProduct(const PendingGroup &group, uint32_t node) const {
  std::set<uint32_t> met;
  std::vector<uint32_t> left{node};
  while (!left.empty()) {
    const uint32_t current = left.back();
    left.pop_back();
    for (const uint32_t user : users[resultOf(current)]) {
      if (!group.nodes.contains(user))
        continue;
      if (isProduct(*graph.nodes[user]))
        return true;
      if (met.insert(user).second)
        left.push_back(user);
    }
  }
  return false;
}

// The nodes from this one back to a heavy one, whose group can have it as well, because it alone uses the result; none
// where there is no such node.
std::vector<uint32_t> Fuser::heavyBehind(uint32_t node) const {
  const MortiseNode &last = *graph.nodes[node];
  for (size_t i = 0; i < last.operand_count; ++i) {
    const MortiseValue *operand = last.operands[i];
    if (!operand || !operand->producer || taken(operand->producer->index) || demanded[operand->index] ||
        users[operand->index].size() > 1 || elements(*operand) < elements(*last.results[0]))
      continue;
    const uint32_t before = operand->producer->index;
    std::vector<uint32_t> chain = isHeavy(*operand->producer) ? std::vector{before} : heavyBehind(before);
    if (!chain.empty()) {
      chain.insert(chain.begin(), node);
      return chain;
    }
  }
  return {};
}

// Whether each of these groups can compute the nodes for itself.
bool Fuser::haveRoom(std::span<const uint32_t> all, std::span<const uint32_t> nodes) {
  return std::ranges::all_of(all, [&](uint32_t number) {
    PendingGroup trial = groups[number];
    trial.nodes.insert(nodes.begin(), nodes.end());
    return !trial.closed && price(trial).has_value();
  });
}

bool Fuser::joinsAsOutput(uint32_t node, uint32_t group) {
  return !groups[group].closed && !feedsProduct(groups[group], node) && !reaches(resultOf(node), group) &&
         fits(groups[group], node, true);
}

void Fuser::startGroup(uint32_t node) {
  PendingGroup fresh;
  fresh.nodes.insert(node);
  fresh.outputs.push_back(resultOf(node));
  fresh.earliest = node;
  fresh.closed = isUpdate(*graph.nodes[node]);
  lastOf[node] = node;
  groupsOf[node] = {static_cast<uint32_t>(groups.size())};
  groups.push_back(std::move(fresh));
  demanded[resultOf(node)] = true;
}

void Fuser::place(uint32_t n) {
  const MortiseNode &node = *graph.nodes[n];
  uint32_t value = resultOf(n);
  std::vector<uint32_t> userGroups;
  for (uint32_t user : users[value])
    for (uint32_t group : groupsOf[user])
      if (std::find(userGroups.begin(), userGroups.end(), group) == userGroups.end())
        userGroups.push_back(group);
  bool heavy = isHeavy(node), memory = demanded[value];
  if (!memory && userGroups.empty())
    return;                      // a view that only library calls read
  if (!memory && isView(node)) { // if anything is worth keeping, it is the operand: a view of memory costs nothing
    groupsOf[n] = userGroups;
    for (uint32_t group : userGroups)
      groups[group].nodes.insert(n);
    return;
  }
  if (!memory && !heavy) {
    bool cheap = recomputeCost[n] <= cheapCost;
    // An expensive value that its only group would recompute for each repetition is better kept.
    double own = elements(*node.results[0]);
    bool repeated = false;
    for (uint32_t group : userGroups)
      repeated |= points(groups[group]) >= 4 * own && recomputeCost[n] >= expensiveCost;
    // Tiles of a product compute their factors again and again.
    for (uint32_t group : userGroups)
      repeated |= recomputeCost[n] > cheapCost && feedsProduct(groups[group], n);
    // A conditional read (pad, concatenate) does not fit every loop nest.
    bool conditional = isOp(node, mortise::Op::Pad, mortise::Op::Concatenate);
    for (uint32_t group : userGroups)
      repeated |= conditional && !fits(groups[group], n, false);
    // A factor of a product is computed for many results, where it may be the end of another group, computed once: what
    // scales a norm, unless the products have the norm, too.
    const std::vector<uint32_t> behind = heavyBehind(n);
    const bool isEnd = !behind.empty() && std::ranges::any_of(userGroups, [&](uint32_t group) {
      return feedsProduct(groups[group], n);
    }) && !haveRoom(userGroups, behind);
    if (!isEnd && ((userGroups.size() == 1 && !repeated) || (cheap && !(conditional && repeated)))) {
      groupsOf[n] = userGroups;
      for (uint32_t group : userGroups)
        groups[group].nodes.insert(n);
      return;
    }
  }
  // Products of one row each compute the norm in front of them.
  if (!memory && heavy &&
      (userGroups.size() == 1 ||
       std::ranges::all_of(userGroups, [&](uint32_t group) { return feedsProduct(groups[group], n); })) &&
      haveRoom(userGroups, std::span(&n, 1))) {
    groupsOf[n] = userGroups;
    for (uint32_t group : userGroups)
      groups[group].nodes.insert(n);
    return;
  }
  if (!isUpdate(node) && !isView(node))
    for (size_t i = userGroups.size(); i-- > 0;)
      if (joinsAsOutput(n, userGroups[i])) {
        groupsOf[n] = {userGroups[i]};
        groups[userGroups[i]].nodes.insert(n);
        groups[userGroups[i]].outputs.push_back(value);
        groups[userGroups[i]].earliest = std::min(groups[userGroups[i]].earliest, n);
        lastOf[n] = *groups[userGroups[i]].nodes.rbegin();
        demanded[value] = true;
        return;
      }
  startGroup(n);
}

Result<void> Fuser::finish(FuseResult &result) {
  std::vector<Group> all;
  for (const PendingGroup &building : groups)
    all.push_back(describe(building));
  for (uint32_t n = 0; n < graph.node_count; ++n)
    if (live[n] && !isElsewhere(n) && isAlone(*graph.nodes[n]))
      all.push_back(groupAlone(n));
  for (Group &group : all) {
    Result<const PlanFacts *> summary = planFacts(group);
    if (!summary)
      return summary.error();
    if ((*summary)->error)
      return *(*summary)->error;
    group.kind = (*summary)->kind;
    group.name = nameOf(graph, group);
    group.inPlace = updatedInput(graph, group);
  }
  std::vector<uint32_t> others;
  for (size_t n = 0; n < graph.node_count; ++n)
    if (live[n] && isElsewhere(n))
      others.push_back(n);
  auto ordered = inOrder(graph, std::move(all), others, views);
  if (!ordered)
    return ordered.error();
  result.groups = std::move(*ordered);
  for (size_t v = 0; v < views.size(); ++v)
    if (demanded[v])
      views[v].reset();
  result.views = std::move(views);
  return {};
}

Result<FuseResult> Fuser::run() {
  markLive();
  if (auto found = findDemands(); !found)
    return found.error();
  priceRecomputation();
  groupsOf.assign(graph.node_count, {});
  lastOf.assign(graph.node_count, 0);
  for (size_t n = graph.node_count; n-- > 0;)
    if (live[n] && !taken(n))
      place(n);
  FuseResult result;
  if (auto done = finish(result); !done)
    return done.error();
  return result;
}

} // namespace

Result<FuseResult> fuse(const FuseRequest &request, const FuseTarget &target) { return Fuser(request, target).run(); }
Result<FuseResult> fuse(const FuseRequest &request, const Target &target) {
  return fuse(request, FuseTarget{std::max(1u, target.vectorBits / 32), target.threads});
}

} // namespace mortise::codegen
