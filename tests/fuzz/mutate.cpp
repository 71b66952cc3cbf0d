// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The mutator of the portable format's reader. Half of the mutations are libFuzzer's, of bytes. The other half change
// the graph that the bytes contain and write it with valid offsets, so that it passes the verifier.
#include "consume.hpp"

#include <mortise/dtypes.h>

#include <graph_objects_generated.h>

#include <random>

namespace fb = flatbuffers;
using namespace mortise;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

namespace {

class Mutator {
public:
  Mutator(portable::GraphT &graph, unsigned seed) : graph(graph), random(seed) {}

  void mutate() {
    switch (pick(12)) {
    case 0:
      return type();
    case 1:
      return value();
    case 2:
      return symbol();
    case 3:
      return guard();
    case 4:
      return alias();
    case 5:
      return version();
    case 6:
      return body();
    case 7:
      return indices(coin() ? graph.inputs : graph.outputs, graph.values.size());
    case 8:
      return attribute();
    default:
      return node();
    }
  }

private:
  template <typename T> using List = std::vector<std::unique_ptr<T>>;

  uint32_t pick(size_t count) { return count ? static_cast<uint32_t>(random() % count) : 0; }
  bool coin() { return pick(2) != 0; }
  int64_t number() {
    constexpr int64_t odd[] = {0, 1, 2, 3, -1, 7, 64, MORTISE_DYNAMIC, INT64_MAX, INT64_C(1) << 32, INT64_C(1) << 56};
    return odd[pick(std::size(odd))];
  }
  uint32_t index(size_t count) { return pick(16) ? pick(count + 1) : pick(2) ? UINT32_MAX : pick(100000); }

  // An element of the list, after sometimes removing, duplicating or adding one; NULL if the list is empty.
  template <typename T> T *some(List<T> &list) {
    const uint32_t at = pick(list.size());
    if (list.empty() || pick(8) == 0)
      list.insert(list.begin() + at, std::make_unique<T>());
    else if (list.size() < 64 && pick(8) == 0)
      list.insert(list.begin() + at, std::make_unique<T>(*list[at]));
    else if (pick(8) == 0)
      list.erase(list.begin() + at);
    return list.empty() ? nullptr : list[pick(list.size())].get();
  }
  void indices(std::vector<uint32_t> &list, size_t count) {
    if (list.empty() || pick(3) == 0)
      list.insert(list.begin() + pick(list.size() + 1), index(count));
    else if (pick(3) == 0)
      list.erase(list.begin() + pick(list.size()));
    else
      list[pick(list.size())] = index(count);
  }
  void numbers(std::vector<int64_t> &list) {
    if (list.empty() || pick(3) == 0)
      list.insert(list.begin() + pick(list.size() + 1), number());
    else if (pick(3) == 0)
      list.erase(list.begin() + pick(list.size()));
    else
      list[pick(list.size())] = number();
  }

  // A program that is mostly valid.
  std::vector<portable::ExprStep> program(int64_t fixed) {
    if (fixed != MORTISE_DYNAMIC && pick(16))
      return {{MORTISE_EXPR_CONST, 0, fixed}};
    std::vector<portable::ExprStep> steps;
    const size_t operands = 1 + pick(pick(32) ? 4 : 80);
    for (size_t i = 0, depth = 0; i < operands || depth > 1;) {
      if (i < operands && (depth < 2 || coin())) {
        const bool constant = graph.symbols.empty() || coin();
        steps.emplace_back(constant ? MORTISE_EXPR_CONST : MORTISE_EXPR_SYMBOL, 0,
                           constant ? number() : pick(graph.symbols.size()));
        ++i, ++depth;
      } else {
        steps.emplace_back(MORTISE_EXPR_ADD + static_cast<int32_t>(pick(7)), 0, 0);
        --depth;
      }
    }
    if (pick(8) == 0)
      steps[pick(steps.size())] = portable::ExprStep(static_cast<int32_t>(pick(12)), 0, number());
    return steps;
  }
  void programs(const std::vector<int64_t> &of, std::vector<uint32_t> &counts, std::vector<portable::ExprStep> &steps) {
    counts.clear();
    steps.clear();
    for (const int64_t fixed : of) {
      const std::vector<portable::ExprStep> one = program(fixed);
      counts.push_back(static_cast<uint32_t>(one.size()));
      steps.insert(steps.end(), one.begin(), one.end());
    }
    if (!counts.empty() && pick(16) == 0)
      counts[pick(counts.size())] = index(8);
  }

  void type() {
    portable::TypeT *type = some(graph.types);
    if (!type)
      return;
    if (type->dtype == 0 || pick(3) == 0)
      type->dtype = static_cast<int32_t>(1 + pick(pick(16) ? MORTISE_DTYPE_COUNT : MORTISE_DTYPE_COUNT + 2));
    if (coin())
      numbers(type->dims);
    else if (pick(3) == 0)
      numbers(type->strides);
    const bool dynamic = std::ranges::find(type->dims, MORTISE_DYNAMIC) != type->dims.end();
    if (dynamic != (pick(16) == 0))
      programs(type->dims, type->step_counts, type->steps);
    else
      type->step_counts.clear(), type->steps.clear();
  }
  void value() {
    if (portable::ValueT *value = some(graph.values)) {
      value->type = index(graph.types.size());
      if (pick(4) == 0)
        value->flags = pick(4);
    }
  }
  void symbol() {
    if (portable::SymbolT *symbol = some(graph.symbols)) {
      (coin() ? symbol->min : symbol->max) = number();
      symbol->divisor = pick(8) ? 1 + pick(8) : number();
    }
  }
  void guard() {
    if (portable::GuardT *guard = some(graph.guards)) {
      guard->relation = static_cast<int32_t>(pick(8) ? 1 + pick(2) : pick(5));
      guard->steps = program(MORTISE_DYNAMIC);
      graph.version = pick(16) ? 2 : 1;
    }
  }
  void alias() {
    if (!graph.aliases.empty() && coin())
      graph.aliases.pop_back();
    else
      graph.aliases.emplace_back(index(graph.inputs.size()), index(graph.outputs.size()));
  }
  void version() {
    graph.version = pick(8) ? 1 + pick(2) : index(4);
    graph.opset = pick(8) ? 1 + pick(2) : index(4);
  }

  // The nodes of the graph or of one of its bodies.
  List<portable::NodeT> &nodes(std::vector<std::unique_ptr<portable::ValueT>> *&values) {
    if (!graph.bodies.empty() && coin()) {
      portable::BodyT &body = *graph.bodies[pick(graph.bodies.size())];
      values = &body.values;
      return body.nodes;
    }
    values = &graph.values;
    return graph.nodes;
  }

  void node() {
    List<portable::ValueT> *values = nullptr;
    List<portable::NodeT> &list = nodes(values);
    if (coin()) { // a valid node, with an operand and a value of its own
      auto added = std::make_unique<portable::NodeT>();
      added->since = 1;
      added->operands.push_back(pick(values->size()));
      added->results.push_back(static_cast<uint32_t>(values->size()));
      name(*added);
      auto result = std::make_unique<portable::ValueT>();
      result->type = pick(graph.types.size());
      values->push_back(std::move(result));
      list.push_back(std::move(added));
      return;
    }
    portable::NodeT *node = some(list);
    if (!node)
      return;
    switch (pick(5)) {
    case 0:
      return name(*node);
    case 1:
      return indices(node->operands, values->size());
    case 2:
      return indices(node->results, values->size());
    case 3:
      node->since = index(3);
      return;
    default:
      return indices(node->bodies, graph.bodies.size());
    }
  }
  void name(portable::NodeT &node) {
    const std::vector<portable::Op> &ops = portable::opset().ops;
    const portable::Op &op = ops[pick(ops.size())];
    node.op = pick(4) ? op.name : "acme.op";
    if (node.op != op.name || pick(4) == 0)
      return;
    node.since = op.since;
    node.attributes.clear();
    for (const portable::OpAttribute &known : op.attributes) {
      auto made = std::make_unique<portable::AttributeT>();
      made->name = known.name;
      made->kind = known.kind;
      made->string = known.values.empty() ? "f32" : known.values[pick(known.values.size())];
      node.attributes.push_back(std::move(made));
    }
    for (char c : op.operands)
      if (c == ',' && node.operands.size() < 8)
        node.operands.push_back(node.operands.empty() ? 0 : node.operands[0]);
  }
  void attribute() {
    List<portable::ValueT> *values = nullptr;
    List<portable::NodeT> &list = nodes(values);
    if (list.empty())
      return;
    portable::NodeT &node = *list[pick(list.size())];
    portable::AttributeT *attribute = some(node.attributes);
    if (!attribute)
      return;
    if (attribute->name.empty())
      attribute->name = std::string(1, static_cast<char>('a' + pick(26)));
    if (attribute->kind == 0 || pick(4) == 0)
      attribute->kind = static_cast<int32_t>(pick(16) ? 1 + pick(7) : pick(10));
    attribute->i64 = number();
    numbers(attribute->i64s);
    if (coin())
      programs(attribute->i64s, attribute->step_counts, attribute->steps), graph.version = 2;
    else
      attribute->step_counts.clear(), attribute->steps.clear();
    attribute->f64s.resize(pick(4), 0.5);
    attribute->tensor_type = index(graph.types.size());
    attribute->tensor_data.resize(pick(40), 1);
    std::ranges::sort(node.attributes, {}, [](const auto &each) { return each->name; });
  }

  // Adds a valid body to the last node of the graph, or nested in the previous body.
  void body() {
    auto body = std::make_unique<portable::BodyT>();
    auto value = std::make_unique<portable::ValueT>();
    value->type = pick(graph.types.size());
    body->values.push_back(std::move(value));
    body->inputs = body->outputs = {0};
    graph.version = pick(16) ? 2 : 1;
    const auto number = static_cast<uint32_t>(graph.bodies.size());
    graph.bodies.push_back(std::move(body));
    if (number == 0 || coin() || pick(8) == 0) {
      if (!graph.nodes.empty())
        graph.nodes[pick(graph.nodes.size())]->bodies.push_back(index(number));
      if (!graph.nodes.empty() && pick(8))
        graph.nodes.back()->bodies = {number};
      return;
    }
    auto inner = std::make_unique<portable::NodeT>(); // the chain grows inwards: the new body contains the previous one
    inner->op = "acme.call";
    inner->since = 1;
    inner->operands = {0};
    inner->results = {1};
    inner->bodies = {number - 1};
    auto result = std::make_unique<portable::ValueT>();
    result->type = graph.bodies[number]->values[0]->type;
    graph.bodies[number]->values.push_back(std::move(result));
    graph.bodies[number]->nodes.push_back(std::move(inner));
    for (auto &node : graph.nodes)
      for (uint32_t &each : node->bodies)
        each = each == number - 1 ? number : each;
  }

  portable::GraphT &graph;
  std::minstd_rand random;
};

// The verifier does not check the alignment of elements, but unpacking requires it.
template <typename T> bool isAligned(const T *vector) {
  return !vector || vector->size() == 0 || reinterpret_cast<uintptr_t>(vector->Data()) % 8 == 0;
}
template <typename Nodes> bool areAligned(const Nodes *nodes) {
  for (uint32_t i = 0; nodes && i < nodes->size(); ++i)
    for (uint32_t j = 0; nodes->Get(i)->attributes() && j < nodes->Get(i)->attributes()->size(); ++j) {
      const portable::Attribute &attribute = *nodes->Get(i)->attributes()->Get(j);
      if (!isAligned(attribute.i64s()) || !isAligned(attribute.f64s()) || !isAligned(attribute.steps()))
        return false;
    }
  return true;
}
bool isAligned(const portable::Graph &graph) {
  bool aligned = areAligned(graph.nodes());
  for (uint32_t i = 0; graph.bodies() && i < graph.bodies()->size(); ++i)
    aligned &= areAligned(graph.bodies()->Get(i)->nodes());
  for (uint32_t i = 0; graph.guards() && i < graph.guards()->size(); ++i)
    aligned &= isAligned(graph.guards()->Get(i)->steps());
  for (uint32_t i = 0; graph.types() && i < graph.types()->size(); ++i) {
    const portable::Type &type = *graph.types()->Get(i);
    aligned &= isAligned(type.dims()) && isAligned(type.steps()) && isAligned(type.strides());
  }
  return aligned;
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  if (seed % 2 == 0)
    return LLVMFuzzerMutate(data, size, most);
  const std::vector<uint8_t> copy(data, data + size); // a copy, because `data` need not be aligned
  fb::Verifier verifier(copy.data(), size, 8, static_cast<fb::uoffset_t>(size / 8 + 16));
  if (size < 16 || !portable::VerifyGraphBuffer(verifier) || !isAligned(*portable::GetGraph(copy.data())))
    return LLVMFuzzerMutate(data, size, most);
  portable::GraphT graph;
  portable::GetGraph(copy.data())->UnPackTo(&graph);
  Mutator mutator(graph, seed / 2);
  for (unsigned i = 0; i <= seed / 2 % 3; ++i)
    mutator.mutate();
  fb::FlatBufferBuilder builder;
  builder.Finish(portable::Graph::Pack(builder, &graph), portable::GraphIdentifier());
  if (builder.GetSize() > most)
    return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, builder.GetBufferPointer(), builder.GetSize());
  return builder.GetSize();
}
