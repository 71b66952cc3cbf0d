// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "repeat.hpp"

#include <mortise/graph.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

namespace mortise::cpu {

namespace {

constexpr uint32_t none = Repetition::none;
constexpr uint32_t shortest = 8;  // a period of fewer nodes is part of one step, not a layer
constexpr uint32_t reach = 2;     // copies back that an operand may come from
constexpr size_t worthwhile = 48; // nodes left out

// ---- Equal nodes

bool equal(const char *a, const char *b) { return a == b || std::strcmp(a, b) == 0; }

bool equal(const MortiseExpr *a, const MortiseExpr *b, size_t count) {
  if (!a || !b)
    return a == b;
  for (size_t i = 0; i < count; ++i) {
    if (a[i].count != b[i].count)
      return false;
    for (size_t k = 0; k < a[i].count; ++k)
      if (a[i].steps[k].op != b[i].steps[k].op || a[i].steps[k].value != b[i].steps[k].value)
        return false;
  }
  return true;
}

bool equal(const MortiseType &a, const MortiseType &b) {
  if (&a == &b)
    return true;
  if (a.dtype != b.dtype || a.rank != b.rank || a.extension || b.extension ||
      (a.strides == nullptr) != (b.strides == nullptr))
    return false;
  size_t size = static_cast<size_t>(a.rank) * sizeof(int64_t);
  return (size == 0 || std::memcmp(a.dims, b.dims, size) == 0) && equal(a.dim_exprs, b.dim_exprs, a.rank) &&
         (!a.strides || size == 0 || std::memcmp(a.strides, b.strides, size) == 0);
}

bool equal(const MortiseAttribute &a, const MortiseAttribute &b) {
  if (&a == &b)
    return true;
  if (a.kind != b.kind || !equal(a.name, b.name) || a.extension || b.extension)
    return false;
  switch (a.kind) {
  case MORTISE_ATTRIBUTE_BOOL:
  case MORTISE_ATTRIBUTE_I64:
    return a.i64 == b.i64;
  case MORTISE_ATTRIBUTE_F64:
    return std::bit_cast<uint64_t>(a.f64) == std::bit_cast<uint64_t>(b.f64);
  case MORTISE_ATTRIBUTE_STRING:
    return equal(a.string, b.string);
  case MORTISE_ATTRIBUTE_I64_ARRAY:
    return a.count == b.count && (a.count == 0 || std::memcmp(a.i64s, b.i64s, a.count * sizeof(int64_t)) == 0) &&
           equal(exprsOf(a), exprsOf(b), a.count);
  case MORTISE_ATTRIBUTE_F64_ARRAY:
    return a.count == b.count && (a.count == 0 || std::memcmp(a.f64s, b.f64s, a.count * sizeof(double)) == 0);
  case MORTISE_ATTRIBUTE_TENSOR:
    return a.count == b.count && equal(*a.tensor_type, *b.tensor_type) &&
           (a.count == 0 || std::memcmp(a.tensor_data, b.tensor_data, a.count) == 0);
  default:
    return false; // of a kind that came later
  }
}

class Finder {
public:
  Finder(const MortiseGraph &graph, uint32_t kept) : graph(graph), kept(kept) {}
  std::optional<Repetition> find();

private:
  struct Run { // of nodes n for which n + period corresponds
    uint32_t begin = 0, end = 0;
  };
  void hash();
  std::vector<uint32_t> likelyPeriods() const;
  bool corresponds(uint32_t node, uint32_t period, uint32_t &begin) const;
  Run longest(uint32_t period) const;
  bool link(uint32_t from, uint32_t to, uint32_t copy);
  bool linkNode(uint32_t node);
  bool linkOutputs(uint32_t node);
  bool check();
  size_t saved(const Repetition &found) const {
    return found.copies > kept ? static_cast<size_t>(found.copies - kept) * found.period : 0;
  }

  const MortiseGraph &graph;
  const uint32_t kept;
  std::vector<uint64_t> hashes;                 // per node: op, attributes' numbers, result types
  std::vector<std::vector<uint32_t>> outputsOf; // per value
  Repetition repetition;
  std::vector<uint32_t> aliasOf;        // per output: the input that it overwrites, or none
  std::vector<uint32_t> previous, uses; // per input: whose counterpart it is; uses by nodes of the copies
  std::vector<bool> shared;             // per input: used by all copies alike
};

uint64_t mix(uint64_t hash, uint64_t word) { return std::rotl(hash ^ word, 29) * 0x9e3779b97f4a7c15; }

// Of its numbers, as far as they are quickly read.
uint64_t numbersOf(const MortiseAttribute &attribute) {
  uint64_t hash = static_cast<uint64_t>(attribute.kind);
  switch (attribute.kind) {
  case MORTISE_ATTRIBUTE_BOOL:
  case MORTISE_ATTRIBUTE_I64:
    return mix(hash, static_cast<uint64_t>(attribute.i64));
  case MORTISE_ATTRIBUTE_F64:
    return mix(hash, std::bit_cast<uint64_t>(attribute.f64));
  case MORTISE_ATTRIBUTE_I64_ARRAY:
    for (size_t i = 0; i < attribute.count; ++i)
      hash = mix(hash, static_cast<uint64_t>(attribute.i64s[i]));
    return hash;
  case MORTISE_ATTRIBUTE_TENSOR:
    for (size_t i = 0; i < std::min<size_t>(attribute.count, 16); ++i)
      hash = mix(hash, static_cast<const unsigned char *>(attribute.tensor_data)[i]);
    return hash;
  default:
    return hash;
  }
}

void Finder::hash() {
  hashes.reserve(graph.node_count);
  for (size_t i = 0; i < graph.node_count; ++i) {
    const MortiseNode &node = *graph.nodes[i];
    uint64_t hash = node.operand_count;
    for (const char *letter = node.op; *letter; ++letter)
      hash = mix(hash, static_cast<unsigned char>(*letter));
    for (size_t k = 0; k < node.result_count; ++k) {
      const MortiseType &type = *node.results[k]->type;
      hash = mix(hash, static_cast<uint64_t>(type.dtype));
      for (int64_t extent : dims(type))
        hash = mix(hash, static_cast<uint64_t>(extent));
    }
    for (size_t k = 0; k < node.attribute_count; ++k)
      hash = mix(hash, numbersOf(*node.attributes[k]));
    hashes.push_back(hash);
  }
}

// Distances at which the same sequences of nodes come back, the most frequent first.
std::vector<uint32_t> Finder::likelyPeriods() const {
  constexpr size_t window = shortest, most = 3;
  std::unordered_map<uint64_t, uint32_t> last;
  std::unordered_map<uint32_t, uint32_t> votes;
  for (uint32_t end = window; end <= hashes.size(); ++end) {
    uint64_t hash = 0;
    for (uint32_t i = end - window; i < end; ++i)
      hash = mix(hash, hashes[i]);
    auto [found, fresh] = last.try_emplace(hash, end);
    if (!fresh) {
      ++votes[end - found->second];
      found->second = end;
    }
  }
  std::vector<std::pair<uint32_t, uint32_t>> ranked;
  for (auto [distance, count] : votes)
    if (distance >= shortest && count >= 2 * shortest)
      ranked.push_back({count, distance});
  std::sort(ranked.begin(), ranked.end(), std::greater<>());
  std::vector<uint32_t> periods;
  for (size_t i = 0; i < std::min(most, ranked.size()); ++i)
    periods.push_back(ranked[i].second);
  return periods;
}

// `begin`: of the run that the node continues; moves behind a node that is shared by later copies.
bool Finder::corresponds(uint32_t number, uint32_t period, uint32_t &begin) const {
  if (hashes[number] != hashes[number + period])
    return false;
  const MortiseNode &a = *graph.nodes[number], &b = *graph.nodes[number + period];
  if (!equal(a.op, b.op) || a.since != b.since || a.extension || b.extension || a.operand_count != b.operand_count ||
      a.result_count != b.result_count || a.attribute_count != b.attribute_count || !bodiesOf(a).empty() ||
      !bodiesOf(b).empty())
    return false;
  for (size_t i = 0; i < a.attribute_count; ++i)
    if (!equal(*a.attributes[i], *b.attributes[i]))
      return false;
  for (size_t i = 0; i < a.result_count; ++i) {
    const MortiseValue &x = *a.results[i], &y = *b.results[i];
    if (!equal(*x.type, *y.type) || x.extension || y.extension || x.flags != y.flags)
      return false;
    const std::vector<uint32_t> &p = outputsOf[x.index], &q = outputsOf[y.index];
    if (p.size() != q.size())
      return false;
    for (size_t k = 0; k < p.size(); ++k)
      if ((aliasOf[p[k]] == none) != (aliasOf[q[k]] == none))
        return false;
  }
  for (size_t i = 0; i < a.operand_count; ++i) {
    const MortiseValue *x = a.operands[i], *y = b.operands[i];
    if (!x || !y) {
      if (x != y)
        return false;
    } else if (x == y) {
      if (x->producer)
        begin = std::max(begin, x->producer->index + 1);
    } else if (!x->producer || !y->producer) {
      // Which inputs are donated matters once the steps of all layers are there (memory.cpp).
      if (x->producer || y->producer || ((x->flags ^ y->flags) & ~uint32_t(MORTISE_VALUE_DONATED)) ||
          !equal(*x->type, *y->type))
        return false;
    } else if (y->producer->index - x->producer->index != period || x->result_index != y->result_index ||
               number - x->producer->index > reach * period || !equal(*x->type, *y->type)) {
      return false;
    }
  }
  return true;
}

Finder::Run Finder::longest(uint32_t period) const {
  Run best, run;
  for (uint32_t n = 0; n + period < graph.node_count; ++n) {
    if (corresponds(n, period, run.begin))
      run.end = n + 1;
    else
      run = {n + 1, n + 1};
    if (run.end > run.begin && run.end - run.begin > best.end - best.begin)
      best = run;
  }
  return best;
}

// ---- What belongs to which copy

// `to` is to `copy` + 1 what `from` is to `copy`.
bool Finder::link(uint32_t from, uint32_t to, uint32_t copy) {
  uint32_t &next = repetition.next[from], &before = previous[to];
  if ((next != none && next != to) || (before != none && before != from))
    return false;
  next = to, before = from;
  for (auto [input, owner] : {std::pair{from, copy}, std::pair{to, copy + 1}}) {
    uint32_t &copyOf = repetition.copyOf[input];
    if (copyOf != none && copyOf != owner)
      return false;
    copyOf = owner;
  }
  return true;
}

bool Finder::linkOutputs(uint32_t number) {
  const MortiseNode &a = *graph.nodes[number], &b = *graph.nodes[number + repetition.period];
  uint32_t copy = (number - repetition.first) / repetition.period;
  for (size_t i = 0; i < a.result_count; ++i) {
    const std::vector<uint32_t> &p = outputsOf[a.results[i]->index], &q = outputsOf[b.results[i]->index];
    for (size_t k = 0; k < p.size(); ++k) {
      repetition.nextOutput[p[k]] = q[k];
      if (aliasOf[p[k]] != none && !link(aliasOf[p[k]], aliasOf[q[k]], copy))
        return false;
    }
  }
  return true;
}

bool Finder::linkNode(uint32_t number) {
  const MortiseNode &node = *graph.nodes[number];
  uint32_t copy = (number - repetition.first) / repetition.period;
  bool last = copy + 1 == repetition.copies;
  for (size_t i = 0; i < node.operand_count; ++i) {
    const MortiseValue *operand = node.operands[i];
    if (!operand || operand->producer)
      continue;
    uint32_t input = operand->result_index;
    ++uses[input];
    if (last)
      continue; // linked from the copy before
    const MortiseValue *other = graph.nodes[number + repetition.period]->operands[i];
    if (other == operand)
      shared[input] = true;
    else if (!link(input, other->result_index, copy))
      return false;
  }
  return last || linkOutputs(number);
}

// Links the copies' inputs and outputs. False when something that a copy owns has other users.
bool Finder::check() {
  repetition.next.assign(graph.input_count, none);
  repetition.copyOf.assign(graph.input_count, none);
  repetition.nextOutput.assign(graph.output_count, none);
  previous.assign(graph.input_count, none);
  uses.assign(graph.input_count, 0);
  shared.assign(graph.input_count, false);
  uint32_t begin = repetition.first, end = begin + repetition.copies * repetition.period;
  for (uint32_t n = begin; n < end; ++n)
    if (!linkNode(n))
      return false;
  for (size_t i = 0; i < graph.input_count; ++i)
    if (repetition.copyOf[i] != none && (shared[i] || uses[i] != graph.inputs[i]->use_count))
      return false;
  for (size_t o = 0; o < graph.output_count; ++o) {
    const MortiseNode *producer = graph.outputs[o]->producer;
    bool inside = producer && producer->index >= begin && producer->index < end;
    if (aliasOf[o] != none && repetition.copyOf[aliasOf[o]] != none &&
        (!inside || repetition.copyOf[aliasOf[o]] != (producer->index - begin) / repetition.period))
      return false;
  }
  // What follows may read the last two copies only: the others are like those left out.
  for (uint32_t n = end; n < graph.node_count; ++n)
    for (size_t i = 0; i < graph.nodes[n]->operand_count; ++i)
      if (const MortiseValue *operand = graph.nodes[n]->operands[i]; operand && operand->producer)
        if (uint32_t made = operand->producer->index; made >= begin && made + 2 * repetition.period < end)
          return false;
  return true;
}

std::optional<Repetition> Finder::find() {
  if (graph.node_count < worthwhile + static_cast<size_t>(kept) * shortest)
    return std::nullopt;
  outputsOf.resize(graph.value_count);
  for (uint32_t i = 0; i < graph.output_count; ++i)
    outputsOf[graph.outputs[i]->index].push_back(i);
  aliasOf.assign(graph.output_count, none);
  for (size_t i = 0; i < graph.alias_count; ++i)
    aliasOf[graph.aliases[i]->output] = graph.aliases[i]->input;
  hash();
  Repetition best;
  for (uint32_t period : likelyPeriods()) {
    Run run = longest(period);
    Repetition found;
    found.first = run.begin;
    found.period = period;
    found.copies = (run.end - run.begin) / period + 1;
    if (saved(found) > saved(best))
      best = std::move(found);
  }
  if (saved(best) < worthwhile)
    return std::nullopt;
  repetition = std::move(best);
  repetition.aliasOf = aliasOf;
  if (!check())
    return std::nullopt;
  return std::move(repetition);
}

template <typename T> T shallow(const T &from) {
  T to{};
  std::memcpy(static_cast<void *>(&to), &from, std::min(from.struct_size, sizeof to));
  to.struct_size = sizeof to;
  return to;
}

} // namespace

std::optional<Repetition> findRepetition(const MortiseGraph &graph, uint32_t kept) {
  return Finder(graph, kept).find();
}

ShortGraph::ShortGraph(const MortiseGraph &whole, Repetition found, uint32_t kept)
    : repetition(std::move(found)), kept(kept), cut(repetition.first + kept * repetition.period) {
  const uint32_t gap = left() * repetition.period;
  auto leftOut = [&](const MortiseNode *node) { return node && node->index >= cut && node->index < cut + gap; };
  std::vector<uint32_t> &local = locals;
  local.assign(whole.value_count, Repetition::none);
  values.reserve(whole.value_count);
  for (size_t i = 0; i < whole.value_count; ++i) {
    if (leftOut(whole.values[i]->producer))
      continue;
    local[i] = static_cast<uint32_t>(values.size());
    originals.push_back(static_cast<uint32_t>(i));
    MortiseValue &value = values.emplace_back(shallow(*whole.values[i]));
    value.index = local[i];
    value.use_count = 0;
    valueList.push_back(&value);
  }
  // A value of a copy left out that is read from behind is that of the copy kept that takes its place.
  auto mapped = [&](const MortiseValue *value) -> MortiseValue * {
    if (!value)
      return nullptr;
    const MortiseNode *producer = value->producer;
    if (producer && producer->index >= repetition.first && producer->index < cut + gap)
      value = whole.nodes[producer->index - gap]->results[value->result_index];
    return &values[local[value->index]];
  };
  size_t lists = 0;
  for (size_t i = 0; i < whole.node_count; ++i)
    lists += whole.nodes[i]->operand_count + whole.nodes[i]->result_count;
  nodeValues.reserve(lists);
  nodes.reserve(whole.node_count - gap);
  for (uint32_t i = 0; i < whole.node_count; ++i) {
    if (leftOut(whole.nodes[i]))
      continue;
    MortiseNode &node = nodes.emplace_back(shallow(*whole.nodes[i]));
    node.index = static_cast<uint32_t>(nodes.size() - 1);
    const MortiseNode &old = *whole.nodes[i];
    node.operands = nodeValues.data() + nodeValues.size();
    for (size_t k = 0; k < old.operand_count; ++k) {
      MortiseValue *operand =
          i < cut ? (old.operands[k] ? &values[local[old.operands[k]->index]] : nullptr) : mapped(old.operands[k]);
      if (operand)
        ++operand->use_count;
      nodeValues.push_back(operand);
    }
    node.results = nodeValues.data() + nodeValues.size();
    for (size_t k = 0; k < old.result_count; ++k) {
      MortiseValue &result = values[local[old.results[k]->index]];
      result.producer = &node;
      nodeValues.push_back(&result);
    }
    nodeList.push_back(&node);
  }
  for (size_t i = 0; i < whole.input_count; ++i)
    inputList.push_back(&values[local[whole.inputs[i]->index]]);
  std::vector<uint32_t> position(whole.output_count, Repetition::none);
  for (uint32_t i = 0; i < whole.output_count; ++i) {
    if (leftOut(whole.outputs[i]->producer))
      continue;
    position[i] = static_cast<uint32_t>(outputList.size());
    MortiseValue &value = values[local[whole.outputs[i]->index]];
    ++value.use_count;
    outputList.push_back(&value);
  }
  aliases.reserve(whole.alias_count);
  for (size_t i = 0; i < whole.alias_count; ++i)
    if (uint32_t output = position[whole.aliases[i]->output]; output != Repetition::none) {
      aliases.push_back({sizeof(MortiseAlias), nullptr, whole.aliases[i]->input, output});
      aliasList.push_back(&aliases.back());
    }
  graph = shallow(whole);
  graph.extension = nullptr;
  graph.nodes = nodeList.data(), graph.node_count = nodeList.size();
  graph.values = valueList.data(), graph.value_count = valueList.size();
  graph.inputs = inputList.data(), graph.input_count = inputList.size();
  graph.outputs = outputList.data(), graph.output_count = outputList.size();
  graph.aliases = aliasList.data(), graph.alias_count = aliasList.size();
}

} // namespace mortise::cpu
