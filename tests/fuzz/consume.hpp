// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Everything that the parts of Mortise do with a graph that was read. A broken rule of the format aborts.
#pragma once

#include <mortise/bounds.hpp>
#include <mortise/portable/graph.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace mortise::fuzz {

inline void require(bool condition, const char *what, const std::string &detail = "") {
  if (condition)
    return;
  std::fprintf(stderr, "not so: %s: %s\n", what, detail.c_str());
  std::abort();
}

// Reads everything that a view points to, so that a sanitizer finds wrong pointers.
class Walk {
public:
  explicit Walk(const MortiseGraph &graph) : symbols(graph.symbol_count) {
    this->graph(graph, 0);
    for (size_t i = 0; i < graph.alias_count; ++i)
      require(graph.aliases[i]->input < graph.input_count && graph.aliases[i]->output < graph.output_count, "alias");
    for (size_t i = 0; i < graph.guard_count; ++i) {
      expr(graph.guards[i]->expr);
      text(graph.guards[i]->reason);
    }
  }
  uint64_t sum = 0;

private:
  void text(const char *string) { sum += std::strlen(string); }
  void expr(const MortiseExpr &program) {
    for (size_t i = 0; i < program.count; ++i)
      sum += static_cast<uint64_t>(program.steps[i].op) + static_cast<uint64_t>(program.steps[i].value);
    const std::vector<int64_t> values(symbols, 3);
    const Result<int64_t> value = evaluate(program, values);
    if (value)
      sum += static_cast<uint64_t>(*value);
    const Result<Dim> dim = Dim::from(program, symbols);
    if (!dim)
      return;
    const Result<int64_t> exact = dim->evaluate(values); // the polynomial may avoid a step that overflows, or need one
                                                         // that does
    require(!value || !exact || *value == *exact, "a program and its polynomial agree", std::to_string(program.count));
    sum += static_cast<uint64_t>(simplify(*dim, std::vector<SymbolRange>(symbols)).isValid());
  }
  void type(const MortiseType &type) {
    require(dtypeBits(type.dtype) != 0 && type.rank >= 0, "dtype");
    for (int32_t i = 0; i < type.rank; ++i) {
      require(type.dims[i] >= 0 || (type.dims[i] == MORTISE_DYNAMIC && type.dim_exprs), "extent");
      sum += static_cast<uint64_t>(type.strides ? type.strides[i] : 0);
      if (type.dim_exprs)
        expr(type.dim_exprs[i]);
    }
    if (isStatic(type))
      sum += byteSize(type);
    sum += typeString(type).size();
  }
  void attribute(const MortiseAttribute &attribute) {
    text(attribute.name);
    text(attribute.string);
    for (size_t i = 0; i < attribute.count; ++i) {
      if (attribute.kind == MORTISE_ATTRIBUTE_I64_ARRAY)
        sum += static_cast<uint64_t>(attribute.i64s[i]);
      if (attribute.kind == MORTISE_ATTRIBUTE_F64_ARRAY)
        sum += attribute.f64s[i] > 0;
      if (attribute.kind == MORTISE_ATTRIBUTE_TENSOR)
        sum += static_cast<const uint8_t *>(attribute.tensor_data)[i];
      if (attribute.exprs)
        expr(attribute.exprs[i]);
    }
    if (attribute.kind == MORTISE_ATTRIBUTE_TENSOR)
      type(*attribute.tensor_type);
  }
  void value(const MortiseGraph &graph, const MortiseValue *value) {
    require(!value || (value->index < graph.value_count && graph.values[value->index] == value), "value");
  }
  void graph(const MortiseGraph &graph, size_t depth) {
    require(depth <= 16, "nesting");
    require(graph.symbol_count == symbols, "symbols");
    text(graph.name);
    for (size_t i = 0; i < graph.value_count; ++i) {
      type(*graph.values[i]->type);
      text(graph.values[i]->name);
      require(graph.values[i]->index == i, "index");
    }
    for (size_t i = 0; i < graph.input_count; ++i)
      value(graph, graph.inputs[i]);
    for (size_t i = 0; i < graph.output_count; ++i)
      value(graph, graph.outputs[i]);
    for (size_t i = 0; i < graph.node_count; ++i) {
      const MortiseNode &node = *graph.nodes[i];
      text(node.op);
      text(node.location);
      for (size_t j = 0; j < node.operand_count; ++j) {
        value(graph, node.operands[j]);
        const MortiseNode *producer = node.operands[j] ? node.operands[j]->producer : nullptr;
        require(!producer || producer->index < i, "order");
      }
      for (size_t j = 0; j < node.result_count; ++j)
        require(node.results[j]->producer == &node && node.results[j]->result_index == j, "result");
      for (size_t j = 0; j < node.attribute_count; ++j)
        attribute(*node.attributes[j]);
      for (size_t j = 0; j < node.body_count; ++j)
        this->graph(*node.bodies[j], depth + 1);
    }
  }
  const size_t symbols;
};

inline std::shared_ptr<const Graph> written(const MortiseGraph &view) {
  Result<std::shared_ptr<const Graph>> copy = Graph::copy(view);
  require(static_cast<bool>(copy), "what was read can be written", copy ? "" : copy.error().message);
  return *copy;
}

inline void region(const MortiseGraph &graph, const std::vector<uint32_t> &nodes, bool always) {
  Result<Region> region = extractRegion(graph, nodes);
  require(region || !always, "all nodes are a region", region ? "" : region.error().message);
  if (region)
    Walk walk(region->graph->view());
}

inline void specialised(const MortiseGraph &graph) {
  for (const int64_t wanted : {INT64_C(0), INT64_C(7), INT64_MAX / 2}) {
    std::vector<int64_t> symbols;
    for (size_t i = 0; i < graph.symbol_count; ++i) {
      const MortiseSymbol &symbol = *graph.symbols[i];
      const int64_t value = std::clamp(wanted, symbol.min, symbol.max);
      symbols.push_back(value - value % symbol.divisor);
    }
    Result<std::shared_ptr<const Graph>> fixed = specialise(graph, symbols);
    if (!fixed)
      continue;
    const MortiseGraph &view = (*fixed)->view();
    require(view.symbol_count == 0 && view.guard_count == 0, "a specialised graph has no symbols");
    for (size_t i = 0; i < view.value_count; ++i)
      require(isStatic(*view.values[i]->type), "a specialised graph is static");
    Walk walk(view);
  }
}

// Writes the graph for other opsets and formats, and reads the result.
inline void versions(const Graph &graph) {
  for (const uint32_t opset : {1, MORTISE_OPSET})
    for (const uint32_t format : {1, 2})
      if (Result<std::vector<std::byte>> bytes = graph.bytesFor(opset, format)) {
        Result<std::shared_ptr<const Graph>> lowered = Graph::read(*bytes);
        require(lowered && (*lowered)->view().opset == opset, "a lowered graph is read");
      }
}

inline void consume(std::span<const std::byte> bytes) {
  Result<std::shared_ptr<const Graph>> graph = Graph::read(bytes);
  if (!graph) {
    const Error &error = graph.error();
    require(error.code == MORTISE_CORRUPT || error.code == MORTISE_VERSION_MISMATCH, "the kind of an error");
    require(!error.message.empty(), "an error says something");
    return;
  }
  const MortiseGraph &view = (*graph)->view();
  Walk walk(view);
  const std::shared_ptr<const Graph> first = written(view), second = written(first->view());
  require(std::ranges::equal(first->bytes(), second->bytes()), "writing again gives the same bytes");
  std::vector<uint32_t> all(view.node_count), half;
  for (uint32_t i = 0; i < all.size(); ++i)
    all[i] = i;
  half.assign(all.begin() + static_cast<ptrdiff_t>(all.size() / 2), all.end());
  region(view, all, true);
  region(view, half, true); // the later half depends on the earlier, not the reverse
  if (all.size() > 1)
    region(view, {all.front(), all.back()}, all.size() == 2);
  specialised(view);
  Result<std::shared_ptr<const Graph>> loaded = Graph::load(bytes);
  if (loaded) {
    Walk again((*loaded)->view());
    require((*loaded)->view().opset == MORTISE_OPSET, "a loaded graph is up to date");
    versions(**loaded);
  }
}

} // namespace mortise::fuzz
