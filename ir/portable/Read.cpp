// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bytes to a Graph. Strings, extents, programs and literals are used in place, in the graph's own copy of the bytes;
// the C structs stand in a few arrays whose sizes are summed up, and bounded by the bytes, before anything is
// allocated.
#include "Expr.h"
#include "Limits.h"
#include <graph_generated.h>
#include <mortise/portable/Graph.h>

#include <algorithm>
#include <bit>

namespace mortise {
namespace {

namespace fb = flatbuffers;
using portable::noValue;

static_assert(std::endian::native == std::endian::little, "the format's arrays are used in place");
static_assert(sizeof(portable::ExprStep) == sizeof(MortiseExprStep) && sizeof(portable::Alias) == 8);

const char ownerTag = 0; // its address tells views of this library from those of another copy of it
constexpr uint32_t ownerKind = 0x7f01;

struct OwnerExtension {
  MortiseExtension base;
  const void *tag;
  const Graph *graph;
};

class ReadGraph final : public Graph {
public:
  const MortiseGraph &view() const override { return graph; }
  std::span<const std::byte> bytes() const override { return {data.get(), size}; }

  std::unique_ptr<std::byte[]> data;
  size_t size = 0;
  std::vector<MortiseType> types;
  std::vector<MortiseExpr> exprs;
  std::vector<MortiseValue> values;
  std::vector<MortiseNode> nodes;
  std::vector<MortiseAttribute> attributes;
  std::vector<MortiseSymbol> symbols;
  std::vector<MortiseAlias> aliases;
  std::vector<const MortiseValue *> valueLists; // values, inputs, outputs, then each node's operands and results
  std::vector<const MortiseNode *> nodeList;
  std::vector<const MortiseAttribute *> attributeList;
  std::vector<const MortiseSymbol *> symbolList;
  std::vector<const MortiseAlias *> aliasList;
  OwnerExtension extension{};
  MortiseGraph graph{};
};

template <typename T> size_t count(const T *vector) { return vector ? vector->size() : 0; }
template <typename T> std::string num(T value) { return std::to_string(value); }

class Reader {
public:
  explicit Reader(ReadGraph &graph) : out(graph) {}

  // On false `error` says what was found.
  bool read() {
    return verify() && sizes() && readSymbols() && readTypes() && readValues() && readInputs() && readNodes() &&
           readOutputs() && readAliases();
  }
  Error error;

private:
  bool corrupt(std::string message) {
    error = {MORTISE_CORRUPT, "the graph's bytes are damaged: " + std::move(message)};
    return false;
  }

  bool verify() {
    const auto *bytes = reinterpret_cast<const uint8_t *>(out.data.get());
    if (out.size < 16 || !fb::BufferHasIdentifier(bytes, portable::GraphIdentifier()))
      return corrupt("expected a portable graph (\"MRTG\" at byte 4), found something else of " + num(out.size) +
                     " bytes");
    // A table needs 4 bytes and a reference to it 4 more, so tables that are shared to make much of few bytes exceed
    // this.
    fb::Verifier verifier(bytes, out.size, /*max_depth=*/8, static_cast<fb::uoffset_t>(out.size / 8 + 16));
    if (!portable::VerifyGraphBuffer(verifier))
      return corrupt("an offset or a length points outside of them");
    in = portable::GetGraph(bytes);
    if (in->version() == 0)
      return corrupt("the format's version is missing");
    if (in->version() > portable::formatVersion)
      return mismatch("format version", in->version(), portable::formatVersion);
    if (in->opset() == 0)
      return corrupt("the opset is missing");
    if (in->opset() > MORTISE_OPSET)
      return mismatch("opset", in->opset(), MORTISE_OPSET);
    return true;
  }

  bool mismatch(const char *what, uint32_t found, uint32_t newest) {
    error = {MORTISE_VERSION_MISMATCH,
             std::string("expected a graph of ") + what + " 1 to " + num(newest) + ", found " + num(found) +
                 "; update mortise, or have the graph written for " + what + " " + num(newest)};
    return false;
  }

  bool sizes() {
    size_t lists = count(in->values()) + count(in->inputs()) + count(in->outputs());
    size_t attributes = 0, exprs = 0;
    for (size_t i = 0; i < count(in->nodes()); ++i) {
      const portable::Node *node = in->nodes()->Get(static_cast<uint32_t>(i));
      lists += count(node->operands()) + count(node->results());
      attributes += count(node->attributes());
    }
    for (size_t i = 0; i < count(in->types()); ++i)
      exprs += count(in->types()->Get(static_cast<uint32_t>(i))->step_counts());
    if (std::max({lists, attributes, exprs}) > out.size / 4)
      return corrupt("its lists share bytes");
    out.types.resize(count(in->types()));
    out.exprs.resize(exprs);
    out.values.resize(count(in->values()));
    out.nodes.resize(count(in->nodes()));
    out.attributes.resize(attributes);
    out.symbols.resize(count(in->symbols()));
    out.aliases.resize(count(in->aliases()));
    out.valueLists.resize(lists);
    out.nodeList.resize(out.nodes.size());
    out.attributeList.resize(attributes);
    out.symbolList.resize(out.symbols.size());
    out.aliasList.resize(out.aliases.size());
    out.graph.struct_size = sizeof(MortiseGraph);
    out.graph.opset = in->opset();
    return text(in->name(), portable::maxName, out.graph.name);
  }

  // NULL becomes "".
  bool text(const fb::String *string, size_t limit, const char *&result) {
    result = string ? string->c_str() : "";
    if (string && string->size() > limit)
      return corrupt("expected a text of at most " + num(limit) + " characters, found one of " + num(string->size()));
    if (string && std::memchr(string->c_str(), 0, string->size()))
      return corrupt("a text holds a NUL character");
    return true;
  }

  // An array that is used in place. Some FlatBuffers verifiers leave the alignment of elements unchecked.
  template <typename T> static bool aligned(const T *array) {
    return reinterpret_cast<uintptr_t>(array) % alignof(T) == 0;
  }
  template <typename T> bool array(const fb::Vector<T> *vector, const T *&result) {
    result = vector && vector->size() ? reinterpret_cast<const T *>(vector->Data()) : nullptr;
    return aligned(result) || corrupt("an array is not aligned");
  }

  bool readSymbols() {
    for (size_t i = 0; i < out.symbols.size(); ++i) {
      const portable::Symbol *from = in->symbols()->Get(static_cast<uint32_t>(i));
      MortiseSymbol &symbol = out.symbols[i];
      symbol = {sizeof(MortiseSymbol), nullptr, nullptr, from->min(), from->max(), from->divisor()};
      if (!text(from->name(), portable::maxName, symbol.name))
        return false;
      if (symbol.min > symbol.max || symbol.divisor < 1)
        return corrupt(std::string("symbol ") + symbol.name + " has the range " + num(symbol.min) + " to " +
                       num(symbol.max) + " and the divisor " + num(symbol.divisor));
      out.symbolList[i] = &symbol;
    }
    out.graph.symbols = out.symbolList.data();
    out.graph.symbol_count = out.symbols.size();
    return true;
  }

  bool readTypes() {
    size_t expr = 0;
    for (size_t i = 0; i < out.types.size(); ++i) {
      const portable::Type *from = in->types()->Get(static_cast<uint32_t>(i));
      MortiseType &type = out.types[i];
      type.struct_size = sizeof(MortiseType);
      type.dtype = from->dtype();
      if (dtypeBits(type.dtype) == 0)
        return corrupt("type " + num(i) + " has the unknown dtype " + num(type.dtype));
      if (count(from->dims()) > static_cast<size_t>(portable::maxRank))
        return corrupt("type " + num(i) + " has rank " + num(count(from->dims())) + "; the most is " +
                       num(portable::maxRank));
      type.rank = static_cast<int32_t>(count(from->dims()));
      if (!array(from->dims(), type.dims) || !readDims(*from, type, expr) || !readStrides(*from, type))
        return false;
    }
    return true;
  }

  bool readDims(const portable::Type &from, MortiseType &type, size_t &expr) {
    int64_t elements = 1;
    bool dynamic = false;
    for (int64_t dim : dims(type)) {
      dynamic |= dim == MORTISE_DYNAMIC;
      if (dim == MORTISE_DYNAMIC || dim == 0)
        continue;
      if (dim < 0 || dim > portable::maxElements / elements)
        return corrupt("a type's extents are negative or too large: " + typeString(type));
      elements *= dim;
    }
    auto rank = static_cast<size_t>(type.rank);
    if (count(from.step_counts()) != (dynamic ? rank : 0))
      return corrupt("expected " + num(dynamic ? rank : 0) + " programs for the extents of " + typeString(type) +
                     ", found " + num(count(from.step_counts())));
    if (!dynamic)
      return true;
    const auto *steps = from.steps() ? reinterpret_cast<const MortiseExprStep *>(from.steps()->Data()) : nullptr;
    if (!aligned(steps))
      return corrupt("an array is not aligned");
    size_t left = count(from.steps());
    type.dim_exprs = &out.exprs[expr];
    for (size_t i = 0; i < rank; ++i) {
      uint32_t length = from.step_counts()->Get(static_cast<uint32_t>(i));
      if (length > left)
        return corrupt("the extents' programs of " + typeString(type) + " are cut short");
      out.exprs[expr++] = {steps, length};
      if (Result<void> checked = portable::checkExpr({steps, length}, out.symbols.size()); !checked)
        return corrupt(checked.error().message);
      if (type.dims[i] != MORTISE_DYNAMIC &&
          (length != 1 || steps->op != MORTISE_EXPR_CONST || steps->value != type.dims[i]))
        return corrupt("a static extent of " + typeString(type) + " has a program that says otherwise");
      steps += length;
      left -= length;
    }
    return left == 0 || corrupt("the extents' programs of " + typeString(type) + " have steps left over");
  }

  bool readStrides(const portable::Type &from, MortiseType &type) {
    if (!array(from.strides(), type.strides))
      return false;
    if (count(from.strides()) != 0 && count(from.strides()) != static_cast<size_t>(type.rank))
      return corrupt("expected one stride per extent of " + typeString(type) + ", found " + num(count(from.strides())));
    int64_t reach = 0;
    for (int32_t i = 0; type.strides && i < type.rank; ++i) {
      int64_t extent = type.dims[i] == MORTISE_DYNAMIC ? 2 : std::max<int64_t>(type.dims[i], 1), span = 0;
      if (type.strides[i] < 0 || __builtin_mul_overflow(type.strides[i], extent - 1, &span) ||
          __builtin_add_overflow(reach, span, &reach) || reach > portable::maxElements)
        return corrupt("the strides of " + typeString(type) + " are negative or too large");
    }
    return true;
  }

  bool readValues() {
    for (size_t i = 0; i < out.values.size(); ++i) {
      const portable::Value *from = in->values()->Get(static_cast<uint32_t>(i));
      MortiseValue &value = out.values[i];
      value.struct_size = sizeof(MortiseValue);
      value.index = static_cast<uint32_t>(i);
      value.result_index = noValue; // until an input or a node claims it
      value.flags = from->flags();
      if (from->type() >= out.types.size())
        return corrupt("value " + num(i) + " has type " + num(from->type()) + " of " + num(out.types.size()));
      value.type = &out.types[from->type()];
      if (value.flags & ~uint32_t(MORTISE_VALUE_CONSTANT | MORTISE_VALUE_STATE))
        return corrupt("value " + num(i) + " has the unknown flags " + num(value.flags));
      if (!text(from->name(), portable::maxName, value.name))
        return false;
      out.valueLists[i] = &value;
    }
    out.graph.values = out.valueLists.data();
    out.graph.value_count = out.values.size();
    nextList = out.values.size();
    return true;
  }

  bool define(uint32_t index, const MortiseNode *producer, size_t position) {
    if (index >= out.values.size())
      return corrupt("a definition names value " + num(index) + " of " + num(out.values.size()));
    MortiseValue &value = out.values[index];
    if (value.result_index != noValue)
      return corrupt("value " + num(index) + " is defined twice");
    if (producer && value.flags)
      return corrupt("value " + num(index) + " is marked constant or state but is no graph input");
    value.producer = producer;
    value.result_index = static_cast<uint32_t>(position);
    return true;
  }

  bool use(uint32_t index) {
    if (index >= out.values.size())
      return corrupt("a use names value " + num(index) + " of " + num(out.values.size()));
    if (out.values[index].result_index == noValue)
      return corrupt("value " + num(index) + " is used before it is defined");
    ++out.values[index].use_count;
    return true;
  }

  // Appends to valueLists what `from` names, after `check(index, position)` of each.
  template <typename Check>
  bool list(const fb::Vector<uint32_t> *from, const MortiseValue *const *&result, size_t &length, Check check) {
    result = out.valueLists.data() + nextList;
    length = count(from);
    for (uint32_t i = 0; i < length; ++i) {
      uint32_t index = from->Get(i);
      if (!check(index, i))
        return false;
      out.valueLists[nextList++] = index == noValue ? nullptr : &out.values[index];
    }
    return true;
  }

  bool readInputs() {
    return list(in->inputs(), out.graph.inputs, out.graph.input_count,
                [&](uint32_t index, uint32_t i) { return define(index, nullptr, i); });
  }

  bool readNodes() {
    for (size_t i = 0; i < out.nodes.size(); ++i) {
      const portable::Node *from = in->nodes()->Get(static_cast<uint32_t>(i));
      MortiseNode &node = out.nodes[i];
      node.struct_size = sizeof(MortiseNode);
      node.index = static_cast<uint32_t>(i);
      node.since = from->since();
      if (!text(from->op(), portable::maxName, node.op) || !text(from->location(), portable::maxName, node.location))
        return false;
      const char *dot = std::strchr(node.op, '.');
      if (!dot || dot == node.op || dot[1] == 0)
        return corrupt("node " + num(i) + " has the op name '" + node.op + "'; expected \"dialect.name\"");
      if (node.since < 1 || node.since > in->opset())
        return corrupt("node " + num(i) + " (" + node.op + ") says it is of opset " + num(node.since) +
                       " in a graph of opset " + num(in->opset()));
      bool listed = list(from->operands(), node.operands, node.operand_count,
                         [&](uint32_t index, uint32_t) { return index == noValue || use(index); }) &&
                    list(from->results(), node.results, node.result_count,
                         [&](uint32_t index, uint32_t position) { return define(index, &node, position); });
      if (!listed || !readAttributes(*from, node))
        return false;
      out.nodeList[i] = &node;
    }
    out.graph.nodes = out.nodeList.data();
    out.graph.node_count = out.nodes.size();
    return true;
  }

  bool readAttributes(const portable::Node &from, MortiseNode &node) {
    node.attributes = out.attributeList.data() + nextAttribute;
    node.attribute_count = count(from.attributes());
    const char *last = "";
    for (uint32_t i = 0; i < node.attribute_count; ++i) {
      MortiseAttribute &attribute = out.attributes[nextAttribute];
      if (!readAttribute(*from.attributes()->Get(i), attribute))
        return false;
      if (std::strcmp(last, attribute.name) >= 0)
        return corrupt("the attributes of node " + num(node.index) + " (" + node.op + ") are not sorted by name: '" +
                       attribute.name + "' comes after '" + last + "'");
      last = attribute.name;
      out.attributeList[nextAttribute++] = &attribute;
    }
    return true;
  }

  bool readAttribute(const portable::Attribute &from, MortiseAttribute &attribute) {
    attribute.struct_size = sizeof(MortiseAttribute);
    attribute.kind = from.kind();
    attribute.string = "";
    if (!text(from.name(), portable::maxName, attribute.name))
      return false;
    switch (attribute.kind) {
    case MORTISE_ATTRIBUTE_BOOL:
      attribute.i64 = from.i64();
      return (attribute.i64 | 1) == 1 ||
             corrupt(std::string("the boolean '") + attribute.name + "' is neither 0 nor 1");
    case MORTISE_ATTRIBUTE_I64:
      attribute.i64 = from.i64();
      return true;
    case MORTISE_ATTRIBUTE_F64:
      attribute.f64 = from.f64();
      return true;
    case MORTISE_ATTRIBUTE_STRING:
      return text(from.string(), portable::maxString, attribute.string);
    case MORTISE_ATTRIBUTE_I64_ARRAY:
      attribute.count = count(from.i64s());
      return array(from.i64s(), attribute.i64s);
    case MORTISE_ATTRIBUTE_F64_ARRAY:
      attribute.count = count(from.f64s());
      return array(from.f64s(), attribute.f64s);
    case MORTISE_ATTRIBUTE_TENSOR:
      return readTensor(from, attribute);
    default:
      return corrupt(std::string("attribute '") + attribute.name + "' has the unknown kind " + num(attribute.kind));
    }
  }

  bool readTensor(const portable::Attribute &from, MortiseAttribute &attribute) {
    if (from.tensor_type() >= out.types.size())
      return corrupt("a literal has type " + num(from.tensor_type()) + " of " + num(out.types.size()));
    attribute.tensor_type = &out.types[from.tensor_type()];
    if (!isStatic(*attribute.tensor_type) || attribute.tensor_type->strides)
      return corrupt("a literal's type is not static and dense: " + typeString(*attribute.tensor_type));
    attribute.count = count(from.tensor_data());
    if (attribute.count != byteSize(*attribute.tensor_type))
      return corrupt("expected a literal " + typeString(*attribute.tensor_type) + " of " +
                     num(byteSize(*attribute.tensor_type)) + " bytes, found " + num(attribute.count));
    attribute.tensor_data = attribute.count ? from.tensor_data()->Data() : nullptr;
    return reinterpret_cast<uintptr_t>(attribute.tensor_data) % 8 == 0 || corrupt("a literal is not aligned");
  }

  bool readOutputs() {
    for (const MortiseValue &value : out.values)
      if (value.result_index == noValue)
        return corrupt("value " + num(value.index) + " is neither an input nor a node's result");
    return list(in->outputs(), out.graph.outputs, out.graph.output_count,
                [&](uint32_t index, uint32_t) { return use(index); });
  }

  bool readAliases() {
    std::vector<bool> inputs(out.graph.input_count), outputs(out.graph.output_count);
    for (size_t i = 0; i < out.aliases.size(); ++i) {
      const portable::Alias *from = in->aliases()->Get(static_cast<uint32_t>(i));
      out.aliases[i] = {sizeof(MortiseAlias), nullptr, from->input(), from->output()};
      out.aliasList[i] = &out.aliases[i];
      if (from->input() >= inputs.size() || from->output() >= outputs.size())
        return corrupt("an alias joins input " + num(from->input()) + " and output " + num(from->output()) + " of " +
                       num(inputs.size()) + " and " + num(outputs.size()));
      if (inputs[from->input()] || outputs[from->output()])
        return corrupt("an input or an output is aliased twice");
      if (out.graph.inputs[from->input()]->flags & MORTISE_VALUE_CONSTANT)
        return corrupt("input " + num(from->input()) + " is constant and yet written by an output");
      inputs[from->input()] = outputs[from->output()] = true;
      // Types stand once each, so that equal ones have one address.
      if (out.graph.inputs[from->input()]->type != out.graph.outputs[from->output()]->type)
        return corrupt("an alias joins " + typeString(*out.graph.inputs[from->input()]->type) + " and " +
                       typeString(*out.graph.outputs[from->output()]->type));
    }
    out.graph.aliases = out.aliasList.data();
    out.graph.alias_count = out.aliases.size();
    return true;
  }

  ReadGraph &out;
  const portable::Graph *in = nullptr;
  size_t nextList = 0, nextAttribute = 0;
};

} // namespace

Result<std::shared_ptr<const Graph>> Graph::read(std::span<const std::byte> bytes) {
  if (bytes.size() > portable::maxBytes)
    return Error{MORTISE_CORRUPT, "expected a graph of at most " + num(portable::maxBytes) + " bytes, found " +
                                      num(bytes.size()) + "; weights belong outside of it"};
  auto graph = std::make_shared<ReadGraph>();
  graph->data.reset(new std::byte[bytes.size()]); // aligned for every type
  graph->size = bytes.size();
  std::copy(bytes.begin(), bytes.end(), graph->data.get());
  Reader reader(*graph);
  if (!reader.read())
    return reader.error;
  graph->extension = {{sizeof(OwnerExtension), nullptr, ownerKind, 0}, &ownerTag, graph.get()};
  graph->graph.extension = &graph->extension.base;
  return std::shared_ptr<const Graph>(std::move(graph));
}

const Graph *Graph::owner(const MortiseGraph &view) {
  for (const MortiseExtension *extension = view.extension; extension; extension = extension->next) {
    if (extension->kind != ownerKind || extension->struct_size < sizeof(OwnerExtension))
      continue;
    const auto *found = reinterpret_cast<const OwnerExtension *>(extension);
    if (found->tag == &ownerTag && &found->graph->view() == &view) // a copied view has other lists, maybe
      return found->graph;
  }
  return nullptr;
}

} // namespace mortise
