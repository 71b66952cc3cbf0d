// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads bytes into a Graph. Strings, extents, programs and literals are used in place, in the graph's own copy of the
// bytes. The C structs are in a few arrays; their sizes are computed, and bounded by the size of the bytes, before
// anything is allocated.
#include "limits.hpp"
#include "reading.hpp"
#include <graph_generated.h>
#include <mortise/portable/graph.hpp>
#include <mortise/rewrite.hpp>

#include <algorithm>
#include <bit>

namespace mortise {
namespace {

namespace fb = flatbuffers;
using portable::noValue;

static_assert(std::endian::native == std::endian::little, "the format's arrays are used in place");
static_assert(sizeof(portable::ExprStep) == sizeof(MortiseExprStep) && sizeof(portable::Alias) == 8);

const char ownerTag = 0; // its address distinguishes views of this library from those of another copy of it
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
  std::vector<MortiseGuard> guards;
  std::vector<MortiseGraph> bodies;
  // Values, inputs, each node's operands and results, outputs; first those of the bodies, then those of the graph.
  std::vector<const MortiseValue *> valueLists;
  std::vector<const MortiseNode *> nodeList;
  std::vector<const MortiseAttribute *> attributeList;
  std::vector<const MortiseSymbol *> symbolList;
  std::vector<const MortiseAlias *> aliasList;
  std::vector<const MortiseGuard *> guardList;
  std::vector<const MortiseGraph *> bodyList;
  OwnerExtension extension{};
  MortiseGraph graph{};
};

template <typename T> size_t count(const T *vector) { return vector ? vector->size() : 0; }
template <typename T> std::string num(T value) { return std::to_string(value); }

class Reader {
public:
  Reader(ReadGraph &graph, detail::Newest newest) : out(graph), newest(newest) {}

  // Returns false on failure and sets `error`.
  bool read() {
    if (!verify() || !sizes() || !readSymbols() || !readTypes() || !readGuards())
      return false;
    for (size_t i = 0; i < out.bodies.size(); ++i)
      if (!readBody(*in->bodies()->Get(static_cast<uint32_t>(i)), out.bodies[i]))
        return false;
    return readBody(*in, out.graph) && readAliases();
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
    // A table takes 4 bytes and a reference to it 4 more. Bytes that refer to shared tables many times, to make a small
    // file expand, exceed this limit.
    fb::Verifier verifier(bytes, out.size, /*max_depth=*/8, static_cast<fb::uoffset_t>(out.size / 8 + 16));
    if (!portable::VerifyGraphBuffer(verifier))
      return corrupt("an offset or a length points outside of them");
    in = portable::GetGraph(bytes);
    if (in->version() == 0)
      return corrupt("the format's version is missing");
    if (in->version() > newest.format)
      return mismatch("format version", in->version(), newest.format);
    if (in->opset() == 0)
      return corrupt("the opset is missing");
    if (in->opset() > newest.opset)
      return mismatch("opset", in->opset(), newest.opset);
    return true;
  }

  bool mismatch(const char *what, uint32_t found, uint32_t known) {
    error = {MORTISE_VERSION_MISMATCH, std::string("expected a graph of ") + what + " 1 to " + num(known) + ", found " +
                                           num(found) + "; update mortise, or have the graph written for " + what +
                                           " " + num(known)};
    return false;
  }

  // The sizes of the arrays, summed over the graph and its bodies.
  struct Sizes {
    size_t values = 0, nodes = 0, lists = 0, attributes = 0, exprs = 0, bodies = 0;
  };
  template <typename From> bool add(const From &from, Sizes &sizes) {
    sizes.values += count(from.values());
    sizes.nodes += count(from.nodes());
    sizes.lists += count(from.values()) + count(from.inputs()) + count(from.outputs());
    for (uint32_t i = 0; i < count(from.nodes()); ++i) {
      const portable::Node *node = from.nodes()->Get(i);
      sizes.lists += count(node->operands()) + count(node->results());
      sizes.attributes += count(node->attributes());
      sizes.bodies += count(node->bodies());
      for (uint32_t j = 0; j < count(node->attributes()); ++j)
        sizes.exprs += count(node->attributes()->Get(j)->step_counts());
      if (std::max({sizes.values, sizes.nodes, sizes.lists, sizes.attributes, sizes.exprs}) > out.size / 4)
        return corrupt("its lists share bytes");
    }
    return true;
  }

  bool sizes() {
    Sizes sizes;
    for (uint32_t i = 0; i < count(in->bodies()); ++i)
      if (!add(*in->bodies()->Get(i), sizes))
        return false;
    if (!add(*in, sizes))
      return false;
    for (uint32_t i = 0; i < count(in->types()); ++i)
      sizes.exprs += count(in->types()->Get(i)->step_counts()) + count(in->types()->Get(i)->stride_counts());
    if (std::max({sizes.values, sizes.lists, sizes.exprs}) > out.size / 4)
      return corrupt("its lists share bytes");
    if (sizes.bodies != count(in->bodies()))
      return corrupt("its nodes have " + num(sizes.bodies) + " bodies, and it holds " + num(count(in->bodies())));
    if (in->version() < 2 && (sizes.bodies != 0 || count(in->guards()) != 0))
      return corrupt("a graph of format version 1 holds bodies or guards");
    if (!checkNesting())
      return false;
    out.types.resize(count(in->types()));
    out.exprs.resize(sizes.exprs);
    out.values.resize(sizes.values);
    out.nodes.resize(sizes.nodes);
    out.attributes.resize(sizes.attributes);
    out.symbols.resize(count(in->symbols()));
    out.aliases.resize(count(in->aliases()));
    out.guards.resize(count(in->guards()));
    out.bodies.resize(sizes.bodies);
    out.valueLists.resize(sizes.lists);
    out.nodeList.resize(sizes.nodes);
    out.attributeList.resize(sizes.attributes);
    out.symbolList.resize(out.symbols.size());
    out.aliasList.resize(out.aliases.size());
    out.guardList.resize(out.guards.size());
    out.bodyList.resize(sizes.bodies);
    return true;
  }

  // Checks that bodies come before the body around them, which excludes cycles, and that each belongs to one node.
  bool checkNesting() {
    // The nesting depth of each body, 0 before a node claims it. The bytes bound the size.
    std::vector<uint8_t> depths(count(in->bodies()));
    std::vector<bool> claimed(depths.size());
    for (size_t i = 0; i <= depths.size(); ++i) {
      const bool whole = i == depths.size();
      const auto *nodes = whole ? in->nodes() : in->bodies()->Get(static_cast<uint32_t>(i))->nodes();
      size_t depth = whole ? 0 : 1;
      for (uint32_t j = 0; j < count(nodes); ++j)
        for (uint32_t k = 0; k < count(nodes->Get(j)->bodies()); ++k) {
          const uint32_t body = nodes->Get(j)->bodies()->Get(k);
          if (body >= i)
            return corrupt("a node has body " + num(body) + "; expected one of the " + num(i) + " that come before it");
          if (claimed[body])
            return corrupt("body " + num(body) + " belongs to two nodes");
          claimed[body] = true;
          depth = std::max(depth, size_t(depths[body]) + 1);
        }
      if (whole)
        break;
      if (depth > maxNesting)
        return corrupt("expected bodies nested at most " + num(maxNesting) + " deep, found more");
      depths[i] = static_cast<uint8_t>(depth);
    }
    return true;
  }

  // The text of `string`, "" for NULL; an error when it is longer than `limit`.
  bool text(const fb::String *string, size_t limit, const char *&result) {
    result = string ? string->c_str() : "";
    if (string && string->size() > limit)
      return corrupt("expected a text of at most " + num(limit) + " characters, found one of " + num(string->size()));
    if (string && std::memchr(string->c_str(), 0, string->size()))
      return corrupt("a text holds a NUL character");
    return true;
  }

  // Whether an array that is used in place is aligned. Some FlatBuffers verifiers do not check the alignment of
  // elements.
  template <typename T> static bool aligned(const T *array) {
    return reinterpret_cast<uintptr_t>(array) % alignof(T) == 0;
  }
  template <typename T> bool array(const fb::Vector<T> *vector, const T *&result) {
    result = vector && vector->size() ? reinterpret_cast<const T *>(vector->Data()) : nullptr;
    return aligned(result) || corrupt("an array is not aligned");
  }

  bool stepArray(const fb::Vector<const portable::ExprStep *> *vector, const MortiseExprStep *&result) {
    result = vector && vector->size() ? reinterpret_cast<const MortiseExprStep *>(vector->Data()) : nullptr;
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
    return true;
  }

  bool readTypes() {
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
      if (!array(from->dims(), type.dims) || !readDims(*from, type) || !readStrides(*from, type))
        return false;
    }
    return true;
  }

  bool readDims(const portable::Type &from, MortiseType &type) {
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
    type.dim_exprs = &out.exprs[nextExpr];
    return programs(from.step_counts(), from.steps(), type.dims, rank, "the extents of " + typeString(type));
  }

  // Appends one program per number to `exprs`; it must be a single CONST where the number is not MORTISE_DYNAMIC.
  bool programs(const fb::Vector<uint32_t> *counts, const fb::Vector<const portable::ExprStep *> *all,
                const int64_t *numbers, size_t length, const std::string &whose) {
    const MortiseExprStep *steps = nullptr;
    if (!stepArray(all, steps))
      return false;
    size_t left = count(all);
    for (size_t i = 0; i < length; ++i) {
      uint32_t size = counts->Get(static_cast<uint32_t>(i));
      if (size > left)
        return corrupt("the programs of " + whose + " are cut short");
      out.exprs[nextExpr++] = {steps, size};
      if (Result<void> checked = checkExpr({steps, size}, out.symbols.size()); !checked)
        return corrupt(checked.error().message);
      if (numbers[i] != MORTISE_DYNAMIC && (size != 1 || steps->op != MORTISE_EXPR_CONST || steps->value != numbers[i]))
        return corrupt("a program of " + whose + " says otherwise than the number " + num(numbers[i]));
      steps += size;
      left -= size;
    }
    return left == 0 || corrupt("the programs of " + whose + " have steps left over");
  }

  bool readStrides(const portable::Type &from, MortiseType &type) {
    if (!array(from.strides(), type.strides))
      return false;
    if (count(from.strides()) != 0 && count(from.strides()) != static_cast<size_t>(type.rank))
      return corrupt("expected one stride per extent of " + typeString(type) + ", found " + num(count(from.strides())));
    int64_t reach = 0;
    bool dynamic = false;
    for (int32_t i = 0; type.strides && i < type.rank; ++i) {
      dynamic |= type.strides[i] == MORTISE_DYNAMIC;
      if (type.strides[i] == MORTISE_DYNAMIC)
        continue;
      int64_t extent = type.dims[i] == MORTISE_DYNAMIC ? 2 : std::max<int64_t>(type.dims[i], 1), span = 0;
      if (type.strides[i] < 0 || __builtin_mul_overflow(type.strides[i], extent - 1, &span) ||
          __builtin_add_overflow(reach, span, &reach) || reach > portable::maxElements)
        return corrupt("the strides of " + typeString(type) + " are negative or too large");
    }
    const size_t expected = dynamic ? static_cast<size_t>(type.rank) : 0;
    if (count(from.stride_counts()) != expected || (!dynamic && count(from.stride_steps()) != 0))
      return corrupt("expected " + num(expected) + " programs for the strides of " + typeString(type) + ", found " +
                     num(count(from.stride_counts())));
    if (!dynamic)
      return true;
    if (in->version() < 2)
      return corrupt("the strides of " + typeString(type) + " have programs in a graph of format version 1");
    type.stride_exprs = &out.exprs[nextExpr];
    return programs(from.stride_counts(), from.stride_steps(), type.strides, expected,
                    "the strides of " + typeString(type));
  }

  bool readGuards() {
    for (size_t i = 0; i < out.guards.size(); ++i) {
      const portable::Guard *from = in->guards()->Get(static_cast<uint32_t>(i));
      MortiseGuard &guard = out.guards[i];
      guard.struct_size = sizeof(MortiseGuard);
      guard.relation = from->relation();
      if (guard.relation != MORTISE_RELATION_ZERO && guard.relation != MORTISE_RELATION_AT_LEAST)
        return corrupt("guard " + num(i) + " has the unknown relation " + num(guard.relation));
      const MortiseExprStep *steps = nullptr;
      if (!stepArray(from->steps(), steps))
        return false;
      guard.expr = {steps, count(from->steps())};
      if (Result<void> checked = checkExpr({steps, guard.expr.count}, out.symbols.size()); !checked)
        return corrupt(checked.error().message);
      if (!text(from->reason(), portable::maxName, guard.reason))
        return false;
      out.guardList[i] = &guard;
    }
    out.graph.guards = out.guardList.data();
    out.graph.guard_count = out.guards.size();
    return true;
  }

  // Reads the part that graphs and bodies have in common. Values and nodes are numbered from 0 in each.
  template <typename From> bool readBody(const From &from, MortiseGraph &graph) {
    graph.struct_size = sizeof(MortiseGraph);
    graph.opset = in->opset();
    graph.symbols = out.symbolList.data();
    graph.symbol_count = out.symbols.size();
    values = {out.values.data() + nextValue, count(from.values())};
    nextValue += values.size();
    if (!text(from.name(), portable::maxName, graph.name) || !readValues(from.values(), graph) ||
        !list(from.inputs(), graph.inputs, graph.input_count,
              [&](uint32_t index, uint32_t i) { return define(index, nullptr, i); }) ||
        !readNodes(from.nodes(), graph))
      return false;
    for (const MortiseValue &value : values)
      if (value.result_index == noValue)
        return corrupt("value " + num(value.index) + " is neither an input nor a node's result");
    return list(from.outputs(), graph.outputs, graph.output_count,
                [&](uint32_t index, uint32_t) { return use(index); });
  }

  bool readValues(const fb::Vector<fb::Offset<portable::Value>> *list, MortiseGraph &graph) {
    graph.values = out.valueLists.data() + nextList;
    graph.value_count = values.size();
    for (size_t i = 0; i < values.size(); ++i) {
      const portable::Value *from = list->Get(static_cast<uint32_t>(i));
      MortiseValue &value = values[i];
      value.struct_size = sizeof(MortiseValue);
      value.index = static_cast<uint32_t>(i);
      value.result_index = noValue; // until an input or a node is found to define the value
      value.flags = from->flags();
      if (from->type() >= out.types.size())
        return corrupt("value " + num(i) + " has type " + num(from->type()) + " of " + num(out.types.size()));
      value.type = &out.types[from->type()];
      if (value.flags & ~uint32_t(MORTISE_VALUE_CONSTANT | MORTISE_VALUE_STATE | MORTISE_VALUE_DONATED))
        return corrupt("value " + num(i) + " has the unknown flags " + num(value.flags));
      if ((value.flags & MORTISE_VALUE_DONATED) && (value.flags != MORTISE_VALUE_DONATED || in->version() < 2))
        return corrupt("value " + num(i) + " is donated and also constant or state, or the format is of version 1");
      if (!text(from->name(), portable::maxName, value.name))
        return false;
      out.valueLists[nextList++] = &value;
    }
    return true;
  }

  bool define(uint32_t index, const MortiseNode *producer, size_t position) {
    if (index >= values.size())
      return corrupt("a definition names value " + num(index) + " of " + num(values.size()));
    MortiseValue &value = values[index];
    if (value.result_index != noValue)
      return corrupt("value " + num(index) + " is defined twice");
    if (producer && value.flags)
      return corrupt("value " + num(index) + " is marked constant or state but is no graph input");
    value.producer = producer;
    value.result_index = static_cast<uint32_t>(position);
    return true;
  }

  bool use(uint32_t index) {
    if (index >= values.size())
      return corrupt("a use names value " + num(index) + " of " + num(values.size()));
    if (values[index].result_index == noValue)
      return corrupt("value " + num(index) + " is used before it is defined");
    ++values[index].use_count;
    return true;
  }

  // Appends the values that `from` lists to valueLists, after `check(index, position)` of each.
  template <typename Check>
  bool list(const fb::Vector<uint32_t> *from, const MortiseValue *const *&result, size_t &length, Check check) {
    result = out.valueLists.data() + nextList;
    length = count(from);
    for (uint32_t i = 0; i < length; ++i) {
      uint32_t index = from->Get(i);
      if (!check(index, i))
        return false;
      out.valueLists[nextList++] = index == noValue ? nullptr : &values[index];
    }
    return true;
  }

  bool readNodes(const fb::Vector<fb::Offset<portable::Node>> *nodes, MortiseGraph &graph) {
    graph.nodes = out.nodeList.data() + nextNode;
    graph.node_count = count(nodes);
    for (size_t i = 0; i < graph.node_count; ++i) {
      const portable::Node *from = nodes->Get(static_cast<uint32_t>(i));
      MortiseNode &node = out.nodes[nextNode];
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
      node.bodies = out.bodyList.data() + nextBody;
      node.body_count = count(from->bodies());
      for (uint32_t j = 0; j < node.body_count; ++j)
        out.bodyList[nextBody++] = &out.bodies[from->bodies()->Get(j)]; // checkNesting checked the range
      out.nodeList[nextNode++] = &node;
    }
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
      return array(from.i64s(), attribute.i64s) && readPrograms(from, attribute);
    case MORTISE_ATTRIBUTE_F64_ARRAY:
      attribute.count = count(from.f64s());
      return array(from.f64s(), attribute.f64s);
    case MORTISE_ATTRIBUTE_TENSOR:
      return readTensor(from, attribute);
    default:
      return corrupt(std::string("attribute '") + attribute.name + "' has the unknown kind " + num(attribute.kind));
    }
  }

  bool readPrograms(const portable::Attribute &from, MortiseAttribute &attribute) {
    const std::string whose = std::string("attribute '") + attribute.name + "'";
    if (count(from.step_counts()) == 0)
      return count(from.steps()) == 0 || corrupt(whose + " has programs of no length");
    if (in->version() < 2)
      return corrupt(whose + " has programs in a graph of format version 1");
    if (count(from.step_counts()) != attribute.count || std::find(attribute.i64s, attribute.i64s + attribute.count,
                                                                  MORTISE_DYNAMIC) == attribute.i64s + attribute.count)
      return corrupt("expected a program per entry of " + whose + ", one of them symbolic, found " +
                     num(count(from.step_counts())) + " for " + num(attribute.count));
    attribute.exprs = &out.exprs[nextExpr];
    return programs(from.step_counts(), from.steps(), attribute.i64s, attribute.count, whose);
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
      if (out.graph.inputs[from->input()]->flags & MORTISE_VALUE_DONATED)
        return corrupt("input " + num(from->input()) + " is donated and yet written by an output");
      inputs[from->input()] = outputs[from->output()] = true;
      // Types are distinct, so equal types have equal addresses.
      if (out.graph.inputs[from->input()]->type != out.graph.outputs[from->output()]->type)
        return corrupt("an alias joins " + typeString(*out.graph.inputs[from->input()]->type) + " and " +
                       typeString(*out.graph.outputs[from->output()]->type));
    }
    out.graph.aliases = out.aliasList.data();
    out.graph.alias_count = out.aliases.size();
    return true;
  }

  ReadGraph &out;
  const detail::Newest newest;
  const portable::Graph *in = nullptr;
  std::span<MortiseValue> values; // those of the graph or body that is being read
  size_t nextValue = 0, nextNode = 0, nextList = 0, nextAttribute = 0, nextExpr = 0, nextBody = 0;
};

} // namespace

Result<std::shared_ptr<const Graph>> detail::readBytes(std::span<const std::byte> bytes, Newest newest) {
  if (bytes.size() > portable::maxBytes)
    return Error{MORTISE_CORRUPT, "expected a graph of at most " + num(portable::maxBytes) + " bytes, found " +
                                      num(bytes.size()) + "; weights belong outside of it"};
  auto graph = std::make_shared<ReadGraph>();
  graph->data.reset(new std::byte[bytes.size()]); // aligned for every type
  graph->size = bytes.size();
  std::copy(bytes.begin(), bytes.end(), graph->data.get());
  Reader reader(*graph, newest);
  if (!reader.read())
    return reader.error;
  graph->extension = {{sizeof(OwnerExtension), nullptr, ownerKind, 0}, &ownerTag, graph.get()};
  graph->graph.extension = &graph->extension.base;
  return std::shared_ptr<const Graph>(std::move(graph));
}

Result<std::shared_ptr<const Graph>> Graph::read(std::span<const std::byte> bytes) {
  return detail::readBytes(bytes, {});
}

const Graph *Graph::owner(const MortiseGraph &view) {
  for (const MortiseExtension *extension = view.extension; extension; extension = extension->next) {
    if (extension->kind != ownerKind || extension->struct_size < sizeof(OwnerExtension))
      continue;
    const auto *found = reinterpret_cast<const OwnerExtension *>(extension);
    if (found->tag == &ownerTag && &found->graph->view() == &view) // a copy of a view may have other lists
      return found->graph;
  }
  return nullptr;
}

} // namespace mortise
