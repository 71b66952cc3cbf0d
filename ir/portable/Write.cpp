// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A view to bytes, then to a Graph of its own: what was written is read back and so checked by the same code as a file.
#include "Limits.h"
#include <graph_generated.h>
#include <mortise/portable/Graph.h>

#include <map>

namespace mortise {
namespace {

namespace fb = flatbuffers;
using portable::noValue;

class Writer {
public:
  explicit Writer(const MortiseGraph &graph) : graph(graph), builder(4096 + graph.node_count * 256) {}

  Result<std::span<const std::byte>> write() {
    if (graph.struct_size < sizeof(MortiseGraph))
      return Error{MORTISE_INVALID_ARGUMENT, "expected a graph of struct_size " + std::to_string(sizeof(MortiseGraph)) +
                                                 ", found " + std::to_string(graph.struct_size)};
    std::vector<fb::Offset<portable::Value>> values;
    values.reserve(graph.value_count);
    for (const MortiseValue *value : view(graph.values, graph.value_count)) {
      uint32_t type = typeIndex(*value->type);
      values.push_back(portable::CreateValue(builder, type, value->flags, text(value->name)));
    }
    std::vector<fb::Offset<portable::Node>> nodes;
    nodes.reserve(graph.node_count);
    for (const MortiseNode *node : view(graph.nodes, graph.node_count))
      nodes.push_back(writeNode(*node));
    std::vector<fb::Offset<portable::Symbol>> symbols;
    for (const MortiseSymbol *symbol : view(graph.symbols, graph.symbol_count))
      symbols.push_back(portable::CreateSymbol(builder, builder.CreateString(symbol->name), symbol->min, symbol->max,
                                               symbol->divisor));
    std::vector<portable::Alias> aliases;
    for (const MortiseAlias *alias : view(graph.aliases, graph.alias_count))
      aliases.emplace_back(alias->input, alias->output);

    auto name = text(graph.name);
    auto types = builder.CreateVector(typeOffsets);
    auto valueVector = builder.CreateVector(values);
    auto nodeVector = builder.CreateVector(nodes);
    auto inputs = indices(graph.inputs, graph.input_count);
    auto outputs = indices(graph.outputs, graph.output_count);
    auto aliasVector = builder.CreateVectorOfStructs(aliases);
    auto symbolVector = builder.CreateVector(symbols);
    builder.Finish(portable::CreateGraph(builder, portable::formatVersion, graph.opset, name, types, valueVector,
                                         nodeVector, inputs, outputs, aliasVector, symbolVector),
                   portable::GraphIdentifier());
    if (foreign)
      return Error{MORTISE_INVALID_ARGUMENT, "an operand, result, input or output is not among the graph's values"};
    return std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  }

private:
  template <typename T> static std::span<T> view(T *data, size_t count) { return {data, count}; }

  fb::Offset<fb::String> text(const char *string) {
    return string && *string ? builder.CreateSharedString(string) : fb::Offset<fb::String>();
  }

  uint32_t index(const MortiseValue *value) {
    if (!value)
      return noValue;
    if (value->index >= graph.value_count || graph.values[value->index] != value)
      foreign = true;
    return value->index;
  }

  fb::Offset<fb::Vector<uint32_t>> indices(const MortiseValue *const *values, size_t count) {
    scratch.clear();
    for (const MortiseValue *value : view(values, count))
      scratch.push_back(index(value));
    return builder.CreateVector(scratch);
  }

  uint32_t typeIndex(const MortiseType &type) {
    if (auto known = typesByAddress.find(&type); known != typesByAddress.end())
      return known->second;
    std::vector<int64_t> key{type.dtype, type.rank, type.strides != nullptr};
    key.insert(key.end(), type.dims, type.dims + type.rank);
    std::vector<uint32_t> counts;
    std::vector<portable::ExprStep> steps;
    bool dynamic = false;
    for (int64_t dim : dims(type))
      dynamic |= dim == MORTISE_DYNAMIC;
    for (int32_t i = 0; dynamic && i < type.rank; ++i) {
      MortiseExprStep constant{MORTISE_EXPR_CONST, 0, type.dims[i]};
      MortiseExpr expr{&constant, 1};
      if (type.dims[i] == MORTISE_DYNAMIC)
        expr = type.dim_exprs ? type.dim_exprs[i] : MortiseExpr{nullptr, 0};
      counts.push_back(static_cast<uint32_t>(expr.count));
      key.push_back(static_cast<int64_t>(expr.count));
      for (const MortiseExprStep &step : view(expr.steps, expr.count)) {
        steps.emplace_back(step.op, 0, step.value);
        key.insert(key.end(), {step.op, step.value});
      }
    }
    if (type.strides)
      key.insert(key.end(), type.strides, type.strides + type.rank);
    auto [entry, added] = typesByContent.try_emplace(std::move(key), static_cast<uint32_t>(typeOffsets.size()));
    if (added) {
      auto rank = static_cast<size_t>(type.rank);
      auto dimVector = builder.CreateVector(type.dims, rank);
      auto countVector = dynamic ? builder.CreateVector(counts) : fb::Offset<fb::Vector<uint32_t>>();
      auto stepVector =
          dynamic ? builder.CreateVectorOfStructs(steps) : fb::Offset<fb::Vector<const portable::ExprStep *>>();
      auto strideVector = type.strides ? builder.CreateVector(type.strides, rank) : fb::Offset<fb::Vector<int64_t>>();
      typeOffsets.push_back(
          portable::CreateType(builder, type.dtype, dimVector, countVector, stepVector, strideVector));
    }
    typesByAddress.emplace(&type, entry->second);
    return entry->second;
  }

  fb::Offset<portable::Attribute> writeAttribute(const MortiseAttribute &attribute) {
    auto name = builder.CreateSharedString(attribute.name);
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
      string = builder.CreateSharedString(attribute.string);
      break;
    case MORTISE_ATTRIBUTE_I64_ARRAY:
      i64s = builder.CreateVector(attribute.i64s, attribute.count);
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
      break; // the reader names the unknown kind
    }
    return portable::CreateAttribute(builder, name, attribute.kind, i64, f64, string, i64s, f64s, type, data);
  }

  fb::Offset<portable::Node> writeNode(const MortiseNode &node) {
    std::vector<fb::Offset<portable::Attribute>> attributes;
    attributes.reserve(node.attribute_count);
    for (const MortiseAttribute *attribute : view(node.attributes, node.attribute_count))
      attributes.push_back(writeAttribute(*attribute));
    auto op = builder.CreateSharedString(node.op);
    auto operands = indices(node.operands, node.operand_count);
    auto results = indices(node.results, node.result_count);
    auto attributeVector = builder.CreateVector(attributes);
    return portable::CreateNode(builder, op, node.since, operands, results, attributeVector, text(node.location));
  }

  const MortiseGraph &graph;
  fb::FlatBufferBuilder builder;
  std::vector<fb::Offset<portable::Type>> typeOffsets;
  std::map<const MortiseType *, uint32_t> typesByAddress;
  std::map<std::vector<int64_t>, uint32_t> typesByContent;
  std::vector<uint32_t> scratch;
  bool foreign = false;
};

} // namespace

Result<std::shared_ptr<const Graph>> Graph::copy(const MortiseGraph &view) {
  Writer writer(view);
  Result<std::span<const std::byte>> bytes = writer.write();
  if (!bytes)
    return bytes.error();
  Result<std::shared_ptr<const Graph>> graph = read(*bytes);
  // Bytes that we have just written are not corrupt: the view was wrong.
  if (!graph && graph.error().code == MORTISE_CORRUPT)
    graph.error().code = MORTISE_INVALID_ARGUMENT;
  return graph;
}

} // namespace mortise
