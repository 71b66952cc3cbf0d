// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes a view to bytes and reads them back into a Graph, so the same code checks written graphs and files.
#include "limits.hpp"
#include "reading.hpp"
#include <graph_generated.h>
#include <mortise/portable/graph.hpp>
#include <mortise/rewrite.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string_view>
#include <unordered_map>

namespace mortise {
namespace {

namespace fb = flatbuffers;
using portable::noValue;

class Writer {
public:
  explicit Writer(const MortiseGraph &graph) : root(graph), builder(4096 + graph.node_count * 256) {}

  Result<std::span<const std::byte>> write() {
    // Views of older plugins end before the members that ABI revision 2 added. Values and the other small structs have
    // not grown.
    if (root.struct_size < offsetof(MortiseGraph, guards))
      return Error{MORTISE_INVALID_ARGUMENT, "expected a graph of struct_size " +
                                                 std::to_string(offsetof(MortiseGraph, guards)) + " or more, found " +
                                                 std::to_string(root.struct_size)};
    const Parts parts = writeParts(root);
    std::vector<fb::Offset<portable::Symbol>> symbols;
    for (const MortiseSymbol *symbol : view(root.symbols, root.symbol_count))
      symbols.push_back(portable::CreateSymbol(builder, builder.CreateString(symbol->name), symbol->min, symbol->max,
                                               symbol->divisor));
    std::vector<portable::Alias> aliases;
    for (const MortiseAlias *alias : view(root.aliases, root.alias_count))
      aliases.emplace_back(alias->input, alias->output);
    std::vector<fb::Offset<portable::Guard>> guards;
    if (hasMember(root, &MortiseGraph::guard_count))
      for (const MortiseGuard *guard : view(root.guards, root.guard_count))
        guards.push_back(writeGuard(*guard));

    auto name = text(root.name);
    auto types = builder.CreateVector(typeOffsets);
    auto valueVector = builder.CreateVector(parts.values);
    auto nodeVector = builder.CreateVector(parts.nodes);
    auto inputs = indices(root, root.inputs, root.input_count);
    auto outputs = indices(root, root.outputs, root.output_count);
    auto aliasVector = builder.CreateVectorOfStructs(aliases);
    auto symbolVector = builder.CreateVector(symbols);
    auto guardVector = optional(guards);
    auto bodyVector = optional(bodies);
    newer |= !guards.empty() || !bodies.empty();
    builder.Finish(portable::CreateGraph(builder, newer ? 2 : 1, root.opset, name, types, valueVector, nodeVector,
                                         inputs, outputs, aliasVector, symbolVector, guardVector, bodyVector),
                   portable::GraphIdentifier());
    if (!error.empty())
      return Error{MORTISE_INVALID_ARGUMENT, error};
    return std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  }

private:
  struct Parts {
    std::vector<fb::Offset<portable::Value>> values;
    std::vector<fb::Offset<portable::Node>> nodes;
  };

  Parts writeParts(const MortiseGraph &graph) {
    Parts parts;
    parts.values.reserve(graph.value_count);
    for (const MortiseValue *value : view(graph.values, graph.value_count)) {
      uint32_t type = typeIndex(*value->type);
      newer |= (value->flags & MORTISE_VALUE_DONATED) != 0;
      parts.values.push_back(portable::CreateValue(builder, type, value->flags, text(value->name)));
    }
    parts.nodes.reserve(graph.node_count);
    for (const MortiseNode *node : view(graph.nodes, graph.node_count))
      parts.nodes.push_back(writeNode(graph, *node));
    return parts;
  }

  // Appends a body, after the bodies nested in it, and returns its index.
  uint32_t writeBody(const MortiseGraph &body, const std::string &op) {
    ++nesting;
    if (!error.empty()) {
      // The first error is reported. Stopping also bounds the work on views whose bodies are wrong.
    } else if (nesting > maxNesting) {
      error = op + ": expected bodies nested at most " + std::to_string(maxNesting) + " deep, found more";
    } else if (body.alias_count != 0 || (hasMember(body, &MortiseGraph::guard_count) && body.guard_count != 0)) {
      error = op + ": a body has no aliases and no guards of its own";
    } else if (!sameSymbols(body)) {
      error = op + ": expected a body with the symbols of the graph around it, in the same order";
    } else {
      const Parts parts = writeParts(body);
      auto name = text(body.name);
      auto values = builder.CreateVector(parts.values);
      auto nodes = builder.CreateVector(parts.nodes);
      auto inputs = indices(body, body.inputs, body.input_count);
      auto outputs = indices(body, body.outputs, body.output_count);
      bodies.push_back(portable::CreateBody(builder, name, values, nodes, inputs, outputs));
    }
    --nesting;
    return static_cast<uint32_t>(bodies.size() - 1);
  }

  bool sameSymbols(const MortiseGraph &body) {
    if (body.symbol_count != root.symbol_count)
      return false;
    for (size_t i = 0; i < body.symbol_count && body.symbols != root.symbols; ++i)
      if (std::strcmp(body.symbols[i]->name, root.symbols[i]->name) != 0)
        return false;
    return true;
  }

  fb::Offset<portable::Guard> writeGuard(const MortiseGuard &guard) {
    std::vector<portable::ExprStep> steps;
    for (const MortiseExprStep &step : view(guard.expr.steps, guard.expr.count))
      steps.emplace_back(step.op, 0, step.value);
    auto stepVector = builder.CreateVectorOfStructs(steps);
    return portable::CreateGuard(builder, stepVector, guard.relation, text(guard.reason));
  }

  // Whether struct_size covers the member, that is, whether the maker of the view knew it.
  template <typename Struct, typename Member> static bool hasMember(const Struct &object, Member Struct::*member) {
    const auto end = reinterpret_cast<const std::byte *>(&(object.*member)) + sizeof(Member);
    return object.struct_size >= static_cast<size_t>(end - reinterpret_cast<const std::byte *>(&object));
  }

  template <typename T> fb::Offset<fb::Vector<fb::Offset<T>>> optional(const std::vector<fb::Offset<T>> &list) {
    return list.empty() ? fb::Offset<fb::Vector<fb::Offset<T>>>() : builder.CreateVector(list);
  }

  template <typename T> static std::span<T> view(T *data, size_t count) { return {data, count}; }

  fb::Offset<fb::String> text(const char *string) {
    return string && *string ? shared(string) : fb::Offset<fb::String>();
  }

  // Writes each string once. The builder's CreateSharedString does the same, but searches a tree and is slower.
  fb::Offset<fb::String> shared(const char *string) {
    const auto [entry, fresh] = strings.try_emplace(string);
    if (fresh)
      entry->second = builder.CreateString(string);
    return entry->second;
  }

  uint32_t index(const MortiseGraph &graph, const MortiseValue *value) {
    if (!value)
      return noValue;
    if (value->index >= graph.value_count || graph.values[value->index] != value)
      error = "an operand, result, input or output is not among the graph's values";
    return value->index;
  }

  fb::Offset<fb::Vector<uint32_t>> indices(const MortiseGraph &graph, const MortiseValue *const *values, size_t count) {
    scratch.clear();
    for (const MortiseValue *value : view(values, count))
      scratch.push_back(index(graph, value));
    return builder.CreateVector(scratch);
  }

  // One program per number, where at least one is MORTISE_DYNAMIC; otherwise empty.
  struct Programs {
    std::vector<uint32_t> counts;
    std::vector<portable::ExprStep> steps;
  };
  // Adds numbers and programs to `key`.
  static Programs programs(std::span<const int64_t> numbers, const MortiseExpr *exprs, std::vector<int64_t> &key) {
    Programs result;
    key.insert(key.end(), numbers.begin(), numbers.end());
    if (std::ranges::find(numbers, MORTISE_DYNAMIC) == numbers.end())
      return result;
    for (size_t i = 0; i < numbers.size(); ++i) {
      MortiseExprStep constant{MORTISE_EXPR_CONST, 0, numbers[i]};
      MortiseExpr expr{&constant, 1};
      if (numbers[i] == MORTISE_DYNAMIC)
        expr = exprs ? exprs[i] : MortiseExpr{nullptr, 0};
      result.counts.push_back(static_cast<uint32_t>(expr.count));
      key.push_back(static_cast<int64_t>(expr.count));
      for (const MortiseExprStep &step : view(expr.steps, expr.count)) {
        result.steps.emplace_back(step.op, 0, step.value);
        key.insert(key.end(), {step.op, step.value});
      }
    }
    return result;
  }
  std::pair<fb::Offset<fb::Vector<uint32_t>>, fb::Offset<fb::Vector<const portable::ExprStep *>>>
  write(const Programs &programs) {
    if (programs.counts.empty())
      return {};
    auto counts = builder.CreateVector(programs.counts);
    return {counts, builder.CreateVectorOfStructs(programs.steps)};
  }

  uint32_t typeIndex(const MortiseType &type) {
    if (auto known = typesByAddress.find(&type); known != typesByAddress.end())
      return known->second;
    const MortiseExpr *strideExprs = copyStruct(type).stride_exprs;
    std::vector<int64_t> key{type.dtype, type.rank, type.strides != nullptr};
    const Programs extents = programs(dims(type), type.dim_exprs, key);
    Programs strides;
    if (type.strides)
      strides = programs({type.strides, static_cast<size_t>(type.rank)}, strideExprs, key);
    newer |= !strides.counts.empty();
    auto [entry, added] = typesByContent.try_emplace(std::move(key), static_cast<uint32_t>(typeOffsets.size()));
    if (added) {
      auto rank = static_cast<size_t>(type.rank);
      auto dimVector = builder.CreateVector(type.dims, rank);
      const auto [countVector, stepVector] = write(extents);
      auto strideVector = type.strides ? builder.CreateVector(type.strides, rank) : fb::Offset<fb::Vector<int64_t>>();
      const auto [strideCounts, strideSteps] = write(strides);
      typeOffsets.push_back(portable::CreateType(builder, type.dtype, dimVector, countVector, stepVector, strideVector,
                                                 strideCounts, strideSteps));
    }
    typesByAddress.emplace(&type, entry->second);
    return entry->second;
  }

  fb::Offset<portable::Attribute> writeAttribute(const MortiseAttribute &attribute) {
    auto name = shared(attribute.name);
    fb::Offset<fb::Vector<uint32_t>> counts;
    fb::Offset<fb::Vector<const portable::ExprStep *>> steps;
    fb::Offset<fb::String> string;
    fb::Offset<fb::Vector<int64_t>> i64s;
    fb::Offset<fb::Vector<double>> f64s;
    fb::Offset<fb::Vector<uint8_t>> data;
    int64_t i64 = 0;
    double f64 = 0;
    uint32_t type = 0;
    switch (attribute.kind) {
    case MORTISE_ATTRIBUTE_BOOL:
    case MORTISE_ATTRIBUTE_I64:
      i64 = attribute.i64;
      break;
    case MORTISE_ATTRIBUTE_F64:
      f64 = attribute.f64;
      break;
    case MORTISE_ATTRIBUTE_STRING:
      string = shared(attribute.string);
      break;
    case MORTISE_ATTRIBUTE_I64_ARRAY:
      i64s = builder.CreateVector(attribute.i64s, attribute.count);
      if (isSymbolic(attribute))
        writePrograms(attribute, counts, steps);
      break;
    case MORTISE_ATTRIBUTE_F64_ARRAY:
      f64s = builder.CreateVector(attribute.f64s, attribute.count);
      break;
    case MORTISE_ATTRIBUTE_TENSOR:
      type = typeIndex(*attribute.tensor_type);
      builder.ForceVectorAlignment(attribute.count, 1, 16); // readers use the data in place
      data = builder.CreateVector(static_cast<const uint8_t *>(attribute.tensor_data), attribute.count);
      break;
    default:
      break; // the reader reports the unknown kind
    }
    return portable::CreateAttribute(builder, name, attribute.kind, i64, f64, string, i64s, f64s, type, data, counts,
                                     steps);
  }

  static bool isSymbolic(const MortiseAttribute &attribute) {
    if (!hasMember(attribute, &MortiseAttribute::exprs) || !attribute.exprs)
      return false;
    auto entries = view(attribute.i64s, attribute.count);
    return std::find(entries.begin(), entries.end(), MORTISE_DYNAMIC) != entries.end();
  }

  void writePrograms(const MortiseAttribute &attribute, fb::Offset<fb::Vector<uint32_t>> &counts,
                     fb::Offset<fb::Vector<const portable::ExprStep *>> &steps) {
    std::vector<uint32_t> lengths;
    std::vector<portable::ExprStep> all;
    for (size_t i = 0; i < attribute.count; ++i) {
      const MortiseExprStep constant{MORTISE_EXPR_CONST, 0, attribute.i64s[i]};
      const bool symbolic = attribute.i64s[i] == MORTISE_DYNAMIC;
      const MortiseExpr expr = symbolic ? attribute.exprs[i] : MortiseExpr{&constant, 1};
      lengths.push_back(static_cast<uint32_t>(expr.count));
      for (const MortiseExprStep &step : view(expr.steps, expr.count))
        all.emplace_back(step.op, 0, step.value);
    }
    counts = builder.CreateVector(lengths);
    steps = builder.CreateVectorOfStructs(all);
    newer = true;
  }

  fb::Offset<portable::Node> writeNode(const MortiseGraph &graph, const MortiseNode &node) {
    std::vector<uint32_t> bodyIndices;
    if (hasMember(node, &MortiseNode::body_count))
      for (const MortiseGraph *body : view(node.bodies, node.body_count))
        bodyIndices.push_back(writeBody(*body, node.op));
    std::vector<fb::Offset<portable::Attribute>> attributes;
    attributes.reserve(node.attribute_count);
    for (const MortiseAttribute *attribute : view(node.attributes, node.attribute_count))
      attributes.push_back(writeAttribute(*attribute));
    auto op = shared(node.op);
    auto operands = indices(graph, node.operands, node.operand_count);
    auto results = indices(graph, node.results, node.result_count);
    auto attributeVector = builder.CreateVector(attributes);
    auto location = text(node.location);
    auto bodyVector = bodyIndices.empty() ? fb::Offset<fb::Vector<uint32_t>>() : builder.CreateVector(bodyIndices);
    return portable::CreateNode(builder, op, node.since, operands, results, attributeVector, location, bodyVector);
  }

  const MortiseGraph &root;
  fb::FlatBufferBuilder builder;
  std::vector<fb::Offset<portable::Type>> typeOffsets;
  std::unordered_map<std::string_view, fb::Offset<fb::String>> strings; // the keys point into the view
  std::unordered_map<const MortiseType *, uint32_t> typesByAddress;
  std::map<std::vector<int64_t>, uint32_t> typesByContent;
  std::vector<uint32_t> scratch;
  std::vector<fb::Offset<portable::Body>> bodies;
  size_t nesting = 0;
  bool newer = false; // the graph needs format version 2
  std::string error;
};

} // namespace

Result<std::shared_ptr<const Graph>> detail::copyView(const MortiseGraph &view, Newest newest) {
  Writer writer(view);
  Result<std::span<const std::byte>> bytes = writer.write();
  if (!bytes)
    return bytes.error();
  Result<std::shared_ptr<const Graph>> graph = readBytes(*bytes, newest);
  // The bytes were just written, so the view was wrong.
  if (!graph && graph.error().code == MORTISE_CORRUPT)
    graph.error().code = MORTISE_INVALID_ARGUMENT;
  return graph;
}

Result<std::shared_ptr<const Graph>> Graph::copy(const MortiseGraph &view) { return detail::copyView(view, {}); }

} // namespace mortise
