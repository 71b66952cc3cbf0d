// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds graphs for tests without the IR, and runs groups on one thread in uneven ranges of tasks.
#pragma once

#include <mortise/codegen/codegen.hpp>
#include <mortise/graph.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <sys/mman.h>
#include <utility>

namespace mortise::codegen::test {

struct Attr {
  std::string name;
  int32_t kind = MORTISE_ATTRIBUTE_I64;
  int64_t i64 = 0;
  double f64 = 0;
  std::string string;
  std::vector<int64_t> i64s;
  std::vector<Dim> extents; // used instead, when not empty
  Attr(std::string name, int64_t value) : name(std::move(name)), i64(value) {}
  Attr(std::string name, int value) : name(std::move(name)), i64(value) {}
  Attr(std::string name, bool value) : name(std::move(name)), kind(MORTISE_ATTRIBUTE_BOOL), i64(value) {}
  Attr(std::string name, double value) : name(std::move(name)), kind(MORTISE_ATTRIBUTE_F64), f64(value) {}
  Attr(std::string name, const char *value) : name(std::move(name)), kind(MORTISE_ATTRIBUTE_STRING), string(value) {}
  Attr(std::string name, std::vector<int64_t> value)
      : name(std::move(name)), kind(MORTISE_ATTRIBUTE_I64_ARRAY), i64s(std::move(value)) {}
  Attr(std::string name, std::vector<Dim> value)
      : name(std::move(name)), kind(MORTISE_ATTRIBUTE_I64_ARRAY), extents(std::move(value)) {}
};

// The instruction set that the environment names for the cpu plugin, so that one variable restricts all tests; by
// default the host's.
inline Target testTarget(unsigned threads) {
  const char *level = std::getenv("MORTISE_CPU_ISA");
  Result<Target> target = Target::ofLevel(level && *level ? level : "native", threads);
  if (!target) {
    std::fprintf(stderr, "%s\n", target.error().message.c_str());
    std::abort();
  }
  return *target;
}

// False where x * y + z is rounded twice, which needs wider bounds.
inline bool roundsOnce() { return testTarget(1).vectorBits > 128; }

using Dims = std::vector<int64_t>;
using Extents = std::vector<Dim>; // over the graph's symbols
using V = const MortiseValue *;

class TestGraph {
public:
  V input(int32_t dtype, Dims dims, Dims strides = {}) {
    V value = make(dtype, std::move(dims), nullptr, inputs.size());
    if (!strides.empty()) {
      dimStore.push_back(std::move(strides));
      const_cast<MortiseType *>(value->type)->strides = dimStore.back().data();
    }
    inputs.push_back(value);
    return value;
  }
  V weight(int32_t dtype, Dims dims) { // bound once
    V value = input(dtype, std::move(dims));
    const_cast<MortiseValue *>(value)->flags = MORTISE_VALUE_CONSTANT;
    return value;
  }
  V symbolicInput(int32_t dtype, const Extents &extents) {
    V value = input(dtype, numbers(extents));
    setPrograms(value, extents);
    return value;
  }
  V symbolicOp(const std::string &name, std::vector<V> operands, int32_t dtype, const Extents &extents,
               std::vector<Attr> attributes = {}) {
    V value = op(name, std::move(operands), dtype, numbers(extents), std::move(attributes));
    setPrograms(value, extents);
    return value;
  }
  Dim symbol(const char *name, int64_t min, int64_t max = INT64_MAX, int64_t divisor = 1) {
    symbolStore.push_back({sizeof(MortiseSymbol), nullptr, name, min, max, divisor});
    symbols.push_back(&symbolStore.back());
    return Dim::symbol(static_cast<uint32_t>(symbols.size() - 1));
  }
  V op(const std::string &name, std::vector<V> operands, int32_t dtype, Dims dims, std::vector<Attr> attributes = {}) {
    names.push_back("mortise." + name);
    operandStore.push_back(std::move(operands));
    std::vector<const MortiseAttribute *> list;
    std::sort(attributes.begin(), attributes.end(), [](const Attr &a, const Attr &b) { return a.name < b.name; });
    for (Attr &attribute : attributes) {
      attrStore.push_back(std::move(attribute));
      Attr &kept = attrStore.back();
      if (!kept.extents.empty())
        kept.i64s = numbers(kept.extents);
      MortiseAttribute view{sizeof(MortiseAttribute)};
      view.name = kept.name.c_str(), view.kind = kept.kind, view.i64 = kept.i64, view.f64 = kept.f64;
      view.string = kept.string.c_str(), view.i64s = kept.i64s.data(), view.count = kept.i64s.size();
      view.exprs = programs(kept.extents);
      attributeViews.push_back(view);
      list.push_back(&attributeViews.back());
    }
    return finish(std::move(list), dtype, std::move(dims));
  }
  // The second result, of type i64, of the last op: where the elements of its first one were.
  V positions() {
    MortiseNode &node = nodeStore.back();
    std::vector<V> &results = resultStore.back();
    const MortiseType &type = *results[0]->type;
    results.push_back(make(MORTISE_I64, Dims(type.dims, type.dims + type.rank), &node, 1));
    if (type.dim_exprs)
      const_cast<MortiseType *>(results[1]->type)->dim_exprs = type.dim_exprs;
    node.results = results.data(), node.result_count = results.size();
    return results[1];
  }
  template <typename T> V constant(int32_t dtype, Dims dims, std::vector<T> elements) {
    names.push_back("mortise.constant");
    operandStore.push_back({});
    bytes.emplace_back(reinterpret_cast<const char *>(elements.data()), elements.size() * sizeof(T));
    MortiseAttribute view{sizeof(MortiseAttribute)};
    view.name = "value", view.kind = MORTISE_ATTRIBUTE_TENSOR;
    view.tensor_data = bytes.back().data(), view.count = bytes.back().size();
    attributeViews.push_back(view);
    V result = finish({&attributeViews.back()}, dtype, std::move(dims));
    attributeViews.back().tensor_type = result->type;
    return result;
  }
  void output(V value) { outputs.push_back(value); }
  const MortiseGraph &view() {
    for (const MortiseNode &node : nodeStore)
      for (size_t i = 0; i < node.operand_count; ++i)
        if (node.operands[i])
          ++const_cast<MortiseValue *>(node.operands[i])->use_count;
    for (V value : outputs)
      ++const_cast<MortiseValue *>(value)->use_count;
    graph = {sizeof(MortiseGraph)};
    graph.name = "test", graph.opset = MORTISE_OPSET;
    graph.nodes = nodes.data(), graph.node_count = nodes.size();
    graph.values = values.data(), graph.value_count = values.size();
    graph.inputs = inputs.data(), graph.input_count = inputs.size();
    graph.outputs = outputs.data(), graph.output_count = outputs.size();
    graph.symbols = symbols.data(), graph.symbol_count = symbols.size();
    return graph;
  }

private:
  static Dims numbers(const Extents &extents) {
    Dims dims;
    for (const Dim &extent : extents)
      dims.push_back(extent.numberOrDynamic());
    return dims;
  }
  // NULL when all extents are numbers.
  const MortiseExpr *programs(const Extents &extents) {
    if (std::all_of(extents.begin(), extents.end(), [](const Dim &extent) { return extent.isNumber(); }))
      return nullptr;
    std::vector<MortiseExpr> list;
    for (const Dim &extent : extents) {
      stepStore.push_back(extent.steps());
      list.push_back({stepStore.back().data(), stepStore.back().size()});
    }
    programStore.push_back(std::move(list));
    return programStore.back().data();
  }
  void setPrograms(V value, const Extents &extents) {
    const_cast<MortiseType *>(value->type)->dim_exprs = programs(extents);
  }
  V make(int32_t dtype, Dims dims, const MortiseNode *producer, size_t resultIndex) {
    dimStore.push_back(std::move(dims));
    typeStore.push_back(
        {sizeof(MortiseType), nullptr, dtype, static_cast<int32_t>(dimStore.back().size()), dimStore.back().data()});
    valueStore.push_back({sizeof(MortiseValue), nullptr, &typeStore.back(), producer,
                          static_cast<uint32_t>(values.size()), static_cast<uint32_t>(resultIndex), 0, 0, ""});
    values.push_back(&valueStore.back());
    return values.back();
  }
  V finish(std::vector<const MortiseAttribute *> list, int32_t dtype, Dims dims) {
    attributeStore.push_back(std::move(list));
    nodeStore.push_back({sizeof(MortiseNode), nullptr, static_cast<uint32_t>(nodes.size()), 1, names.back().c_str()});
    MortiseNode &node = nodeStore.back();
    node.operands = operandStore.back().data(), node.operand_count = operandStore.back().size();
    node.attributes = attributeStore.back().data(), node.attribute_count = attributeStore.back().size();
    node.location = "";
    nodes.push_back(&node);
    resultStore.push_back({make(dtype, std::move(dims), &node, 0)});
    node.results = resultStore.back().data(), node.result_count = 1;
    return resultStore.back()[0];
  }

  std::deque<std::string> names, bytes;
  std::deque<std::vector<V>> operandStore, resultStore;
  std::deque<std::vector<const MortiseAttribute *>> attributeStore;
  std::deque<Dims> dimStore;
  std::deque<std::vector<MortiseExprStep>> stepStore;
  std::deque<std::vector<MortiseExpr>> programStore;
  std::deque<MortiseSymbol> symbolStore;
  std::vector<const MortiseSymbol *> symbols;
  std::deque<MortiseType> typeStore;
  std::deque<MortiseValue> valueStore;
  std::deque<MortiseNode> nodeStore;
  std::deque<Attr> attrStore;
  std::deque<MortiseAttribute> attributeViews;
  std::vector<V> values, inputs, outputs;
  std::vector<const MortiseNode *> nodes;
  MortiseGraph graph{};
};

// Memory for every value, with guard bytes before it and an inaccessible page behind its last byte. Empty values have
// none.
class Memory {
public:
  explicit Memory(const MortiseGraph &graph) : graph(graph) {}
  Memory(Memory &&) = default;
  std::byte *at(uint32_t value) {
    if (const auto other = places.find(value); other != places.end())
      return at(other->second);
    const size_t bytes = size(value);
    if (bytes == 0)
      return nullptr;
    Pages &pages = buffers[value];
    if (!pages.start)
      pages.map(bytes + 2 * guard);
    return pages.end - (aligned ? (bytes + guard - 1) / guard * guard : bytes);
  }
  template <typename T> T *as(V value) { return reinterpret_cast<T *>(at(value->index)); }
  bool intact(uint32_t value) {
    const std::byte *data = at(value);
    for (size_t i = 1; data && i <= guard; ++i)
      if (data[-static_cast<ptrdiff_t>(i)] != std::byte(0xa5))
        return false;
    return true;
  }
  void poison() {
    for (auto &[value, pages] : buffers)
      std::fill(pages.start, pages.end, std::byte(0xa5));
  }
  void writeOver(uint32_t value, uint32_t other) { places[value] = other; } // `value` has the memory of `other`
  bool aligned = false; // to cache lines, for benchmarks; otherwise to elements
  size_t extra = 0;     // more memory per value, for strided inputs

private:
  static constexpr size_t guard = 64, page = 4096;
  struct Pages {
    std::byte *start = nullptr, *end = nullptr;
    void map(size_t bytes) {
      const size_t room = (bytes + page - 1) / page * page;
      void *made = mmap(nullptr, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (made == MAP_FAILED)
        std::abort();
      start = static_cast<std::byte *>(made), end = start + room;
      mprotect(end, page, PROT_NONE);
      std::fill(start, end, std::byte(0xa5));
    }
    Pages() = default;
    Pages(Pages &&other) : start(std::exchange(other.start, nullptr)), end(other.end) {}
    ~Pages() {
      if (start)
        munmap(start, static_cast<size_t>(end - start) + page);
    }
  };
  size_t size(uint32_t value) const {
    const size_t bytes = byteSize(*graph.values[value]->type);
    return bytes ? bytes + extra : 0;
  }
  const MortiseGraph &graph;
  std::map<uint32_t, Pages> buffers;
  std::map<uint32_t, uint32_t> places;
};

inline void runGroup(const Group &group, const Function &function, Memory &memory,
                     std::span<const int64_t> symbols = {}) {
  std::vector<const void *> inputs;
  std::vector<void *> outputs;
  for (uint32_t value : group.inputs)
    inputs.push_back(memory.at(value));
  for (uint32_t value : group.outputs)
    outputs.push_back(memory.at(value));
  int64_t tasks = *function.tasks.evaluate(symbols);
  void *scratch = std::aligned_alloc(64, (*function.scratchBytes.evaluate(symbols) + 127) / 64 * 64);
  for (int64_t begin = 0, piece = 1; begin < tasks; piece = piece * 2 + 1) {
    int64_t end = std::min(begin + piece, tasks);
    function.entry(inputs.data(), outputs.data(), scratch, symbols.data(), begin, end);
    begin = end;
  }
  std::free(scratch);
}

} // namespace mortise::codegen::test
