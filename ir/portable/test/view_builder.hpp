// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes C views by hand, for tests: ViewBuilder b; auto *x = b.input(MORTISE_F32, {2, 3}); b.output(b.op("relu", {x},
// ...)).
#pragma once

#include <mortise/graph.hpp>

#include <algorithm>
#include <deque>
#include <initializer_list>
#include <string>
#include <vector>

namespace mortise::test {

struct Attribute {
  std::string name;
  int32_t kind = 0;
  int64_t i64 = 0;
  double f64 = 0;
  std::string string;
  std::vector<int64_t> i64s;
  std::vector<double> f64s;
  const MortiseType *type = nullptr;
  std::vector<uint8_t> bytes;
  std::vector<std::vector<MortiseExprStep>> programs; // one per entry of i64s; empty when all entries are numbers
};
inline Attribute flag(std::string name, bool value) { return {std::move(name), MORTISE_ATTRIBUTE_BOOL, value}; }
inline Attribute integer(std::string name, int64_t value) { return {std::move(name), MORTISE_ATTRIBUTE_I64, value}; }
inline Attribute real(std::string name, double value) { return {std::move(name), MORTISE_ATTRIBUTE_F64, 0, value}; }
inline Attribute string(std::string name, std::string value) {
  return {std::move(name), MORTISE_ATTRIBUTE_STRING, 0, 0, std::move(value)};
}
inline Attribute integers(std::string name, std::vector<int64_t> value) {
  return {std::move(name), MORTISE_ATTRIBUTE_I64_ARRAY, 0, 0, "", std::move(value)};
}
inline Attribute extents(std::string name, std::vector<int64_t> value,
                         std::vector<std::vector<MortiseExprStep>> programs) {
  return {std::move(name),    MORTISE_ATTRIBUTE_I64_ARRAY, 0, 0, "", std::move(value), {}, nullptr, {},
          std::move(programs)};
}
inline Attribute reals(std::string name, std::vector<double> value) {
  return {std::move(name), MORTISE_ATTRIBUTE_F64_ARRAY, 0, 0, "", {}, std::move(value)};
}
inline Attribute tensor(std::string name, const MortiseType *type, std::vector<uint8_t> bytes) {
  return {std::move(name), MORTISE_ATTRIBUTE_TENSOR, 0, 0, "", {}, {}, type, std::move(bytes)};
}

class ViewBuilder {
public:
  using Dims = std::vector<int64_t>;
  using Program = std::vector<MortiseExprStep>;

  // `programs`: one per extent; empty for static types.
  const MortiseType *type(int32_t dtype, Dims dims, std::vector<Program> programs = {}, Dims strides = {},
                          std::vector<Program> stridePrograms = {}) {
    MortiseType &type = types.emplace_back();
    type = {sizeof(MortiseType), nullptr, dtype, static_cast<int32_t>(dims.size()), keep(dims), nullptr, keep(strides)};
    const auto list = [&](const std::vector<Program> &from) -> const MortiseExpr * {
      if (from.empty())
        return nullptr;
      std::vector<MortiseExpr> &made = exprs.emplace_back();
      for (const Program &program : from)
        made.push_back({steps.emplace_back(program).data(), program.size()});
      return made.data();
    };
    type.dim_exprs = list(programs);
    type.stride_exprs = list(stridePrograms);
    return &type;
  }

  MortiseValue *input(const MortiseType *type, uint32_t flags = 0, const char *name = "") {
    MortiseValue *value = add(type);
    value->flags = flags;
    value->name = name;
    value->result_index = static_cast<uint32_t>(inputs.size());
    inputs.push_back(value);
    return value;
  }
  MortiseValue *input(int32_t dtype, Dims dims) { return input(type(dtype, std::move(dims))); }

  // A `name` without a dot gets the prefix "mortise.".
  MortiseValue *op(const std::string &name, const std::vector<const MortiseValue *> &operands, const MortiseType *type,
                   std::vector<Attribute> attributes = {}) {
    return ops(name, operands, {type}, std::move(attributes))[0];
  }
  // Adds an op with several results.
  std::vector<MortiseValue *> ops(const std::string &name, const std::vector<const MortiseValue *> &operands,
                                  const std::vector<const MortiseType *> &resultTypes,
                                  std::vector<Attribute> attributes = {}) {
    MortiseNode &node = nodes.emplace_back();
    node.struct_size = sizeof(MortiseNode);
    node.index = static_cast<uint32_t>(nodeList.size());
    node.since = 1;
    node.op = text(name.find('.') == std::string::npos ? "mortise." + name : name);
    node.location = "";
    lists.push_back(operands);
    node.operands = lists.back().data();
    node.operand_count = operands.size();
    for (const MortiseValue *operand : operands)
      if (operand)
        ++values[operand->index].use_count;
    std::vector<MortiseValue *> results;
    for (const MortiseType *type : resultTypes) {
      MortiseValue *result = add(type);
      result->producer = &node;
      result->result_index = static_cast<uint32_t>(results.size());
      results.push_back(result);
    }
    lists.emplace_back(results.begin(), results.end());
    node.results = lists.back().data();
    node.result_count = results.size();
    std::ranges::sort(attributes, {}, &Attribute::name);
    std::vector<const MortiseAttribute *> &list = attributeLists.emplace_back();
    for (Attribute &attribute : attributes)
      list.push_back(convert(std::move(attribute)));
    node.attributes = list.data();
    node.attribute_count = list.size();
    nodeList.push_back(&node);
    return results;
  }
  MortiseValue *op(const std::string &name, const std::vector<const MortiseValue *> &operands, int32_t dtype, Dims dims,
                   std::vector<Attribute> attributes = {}) {
    return op(name, operands, type(dtype, std::move(dims)), std::move(attributes));
  }

  void output(MortiseValue *value) {
    ++value->use_count;
    outputs.push_back(value);
  }
  void alias(uint32_t input, uint32_t output) {
    aliases.push_back({sizeof(MortiseAlias), nullptr, input, output});
    aliasList.push_back(&aliases.back());
  }
  void guard(const Program &program, int32_t relation, const char *reason) {
    const Program &kept = steps.emplace_back(program);
    guards.push_back({sizeof(MortiseGuard), nullptr, {kept.data(), kept.size()}, relation, 0, reason});
    guardList.push_back(&guards.back());
  }
  // Adds a body to the last node. `graph` must outlive this object.
  void body(const MortiseGraph &graph) {
    MortiseNode &node = nodes.back();
    std::vector<const MortiseGraph *> list(node.bodies, node.bodies + node.body_count);
    list.push_back(&graph);
    bodyLists.push_back(list);
    node.bodies = bodyLists.back().data();
    node.body_count = list.size();
  }
  void symbol(const char *name, int64_t min, int64_t max, int64_t divisor = 1) {
    symbols.push_back({sizeof(MortiseSymbol), nullptr, name, min, max, divisor});
    symbolList.push_back(&symbols.back());
  }
  MortiseNode &lastNode() { return nodes.back(); }

  const MortiseGraph &view() {
    graph = {};
    graph.struct_size = sizeof(MortiseGraph);
    graph.name = "test";
    graph.opset = 1;
    fill(graph.nodes, graph.node_count, nodeList);
    fill(graph.values, graph.value_count, valueList);
    fill(graph.inputs, graph.input_count, inputs);
    fill(graph.outputs, graph.output_count, outputs);
    fill(graph.aliases, graph.alias_count, aliasList);
    fill(graph.symbols, graph.symbol_count, symbolList);
    fill(graph.guards, graph.guard_count, guardList);
    return graph;
  }

private:
  template <typename T> static void fill(const T *const *&list, size_t &count, const std::vector<const T *> &from) {
    list = from.data();
    count = from.size();
  }
  const int64_t *keep(const Dims &numbers) { return numbers.empty() ? nullptr : arrays.emplace_back(numbers).data(); }
  const char *text(std::string string) { return texts.emplace_back(std::move(string)).c_str(); }

  MortiseValue *add(const MortiseType *type) {
    MortiseValue &value = values.emplace_back();
    value.struct_size = sizeof(MortiseValue);
    value.type = type;
    value.index = static_cast<uint32_t>(valueList.size());
    value.name = "";
    valueList.push_back(&value);
    return &value;
  }

  const MortiseAttribute *convert(Attribute from) {
    Attribute &kept = kept_.emplace_back(std::move(from));
    MortiseAttribute &to = attributes.emplace_back();
    to.struct_size = sizeof(MortiseAttribute);
    to.name = kept.name.c_str();
    to.kind = kept.kind;
    to.i64 = kept.i64;
    to.f64 = kept.f64;
    to.string = kept.string.c_str();
    to.i64s = kept.i64s.data();
    to.f64s = kept.f64s.data();
    if (!kept.programs.empty()) {
      std::vector<MortiseExpr> &list = exprs.emplace_back();
      for (const Program &program : kept.programs)
        list.push_back({program.data(), program.size()});
      to.exprs = list.data();
    }
    to.tensor_type = kept.type;
    to.tensor_data = kept.bytes.data();
    to.count = std::max({kept.i64s.size(), kept.f64s.size(), kept.bytes.size()});
    return &to;
  }

  // Deques, because they do not move their elements.
  std::deque<MortiseType> types;
  std::deque<std::vector<MortiseExpr>> exprs;
  std::deque<Program> steps;
  std::deque<Dims> arrays;
  std::deque<std::string> texts;
  std::deque<MortiseValue> values;
  std::deque<MortiseNode> nodes;
  std::deque<MortiseAttribute> attributes;
  std::deque<Attribute> kept_;
  std::deque<MortiseAlias> aliases;
  std::deque<MortiseSymbol> symbols;
  std::deque<std::vector<const MortiseValue *>> lists;
  std::deque<std::vector<const MortiseAttribute *>> attributeLists;
  std::deque<MortiseGuard> guards;
  std::deque<std::vector<const MortiseGraph *>> bodyLists;
  std::vector<const MortiseGuard *> guardList;
  std::vector<const MortiseNode *> nodeList;
  std::vector<const MortiseValue *> valueList, inputs, outputs;
  std::vector<const MortiseAlias *> aliasList;
  std::vector<const MortiseSymbol *> symbolList;
  MortiseGraph graph{};
};

} // namespace mortise::test
