// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops.hpp"

#include "../vendor_ops.hpp"
#include <mortise/portable/graph.hpp>

#include <memory>
#include <span>

namespace mortise::runtime::isolation {
namespace {

// A value for each type, none of which is the result of a node.
struct Values {
  std::vector<MortiseValue> values;
  std::vector<const MortiseValue *> pointers;

  void add(const MortiseType &type) {
    const auto index = static_cast<uint32_t>(values.size());
    values.push_back({.struct_size = sizeof(MortiseValue),
                      .type = &type,
                      .index = index,
                      .result_index = index,
                      .use_count = 1,
                      .name = ""});
  }
  void point() { // when no value is added any more
    for (const MortiseValue &value : values)
      pointers.push_back(&value);
  }
};

std::string bytesOf(const Graph &graph) {
  const std::span<const std::byte> bytes = graph.bytes();
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

MortiseGraph graphOver(const MortiseSymbol *const *symbols, size_t symbolCount) {
  return {.struct_size = sizeof(MortiseGraph),
          .name = "",
          .opset = MORTISE_OPSET,
          .symbols = symbols,
          .symbol_count = symbolCount};
}

// What `infer` adds, as a graph without nodes whose inputs and outputs have these types.
struct Types {
  const MortiseInferArgs &asked;
  std::vector<std::shared_ptr<const Graph>> kept{}; // one for each type: a type lives as long as its graph
  std::string wrong{};

  Result<std::shared_ptr<const Graph>> graphOf(std::span<const MortiseType *const> types) const {
    Values values;
    for (const MortiseType *type : types)
      values.add(*type);
    values.point();
    MortiseGraph graph = graphOver(asked.symbols, asked.symbol_count);
    graph.values = graph.inputs = graph.outputs = values.pointers.data();
    graph.value_count = graph.input_count = graph.output_count = values.pointers.size();
    return Graph::copy(graph);
  }
  void add(const MortiseType *type) {
    if (!wrong.empty())
      return;
    auto copy = graphOf({&type, 1});
    if (copy)
      kept.push_back(std::move(*copy));
    else
      wrong = "result " + std::to_string(kept.size()) + ": " + copy.error().message;
  }
  Result<std::shared_ptr<const Graph>> all() const {
    std::vector<const MortiseType *> types;
    for (const std::shared_ptr<const Graph> &each : kept)
      types.push_back(each->view().inputs[0]->type);
    return graphOf(types);
  }
};

} // namespace

std::vector<DeclaredOp> declaredOps(const MortisePlugin &table) {
  std::vector<DeclaredOp> ops;
  for (const MortiseOpDeclaration *op : std::span(table.ops, table.op_count)) {
    DeclaredOp &told = ops.emplace_back(DeclaredOp{op->name, op->summary, op->operands_min, op->operands_max, {}});
    for (const MortiseAttributeDeclaration *attribute : std::span(op->attributes, op->attribute_count)) {
      DeclaredAttribute &each = told.attributes.emplace_back(DeclaredAttribute{attribute->name, {}, attribute->kind});
      const MortiseAttribute *value = attribute->fallback;
      if (!value)
        continue;
      each.hasFallback = 1;
      each.i64 = value->i64;
      each.f64 = value->f64;
      if (value->kind == MORTISE_ATTRIBUTE_STRING)
        each.string = value->string;
      if (value->kind == MORTISE_ATTRIBUTE_I64_ARRAY)
        each.i64s.assign(value->i64s, value->i64s + value->count);
      if (value->kind == MORTISE_ATTRIBUTE_F64_ARRAY)
        each.f64s.assign(value->f64s, value->f64s + value->count);
    }
  }
  return ops;
}

OpDeclarations::OpDeclarations(std::vector<DeclaredOp> ops) : told(std::move(ops)) {
  for (const DeclaredOp &each : told) {
    Op &op = this->ops.emplace_back();
    op.fallbacks.reserve(each.attributes.size()); // the declarations point to them
    for (const DeclaredAttribute &attribute : each.attributes) {
      op.attributes.push_back(
          {.struct_size = sizeof(MortiseAttributeDeclaration), .name = attribute.name.c_str(), .kind = attribute.kind});
      if (!attribute.hasFallback)
        continue;
      const bool reals = attribute.kind == MORTISE_ATTRIBUTE_F64_ARRAY;
      op.fallbacks.push_back({.struct_size = sizeof(MortiseAttribute),
                              .name = attribute.name.c_str(),
                              .kind = attribute.kind,
                              .i64 = attribute.i64,
                              .f64 = attribute.f64,
                              .string = attribute.string.c_str(),
                              .i64s = attribute.i64s.data(),
                              .f64s = attribute.f64s.data(),
                              .count = reals ? attribute.f64s.size() : attribute.i64s.size()});
      op.attributes.back().fallback = &op.fallbacks.back();
    }
    for (const MortiseAttributeDeclaration &attribute : op.attributes)
      op.list.push_back(&attribute);
    op.declaration = {.struct_size = sizeof(MortiseOpDeclaration),
                      .name = each.name.c_str(),
                      .summary = each.summary.c_str(),
                      .operands_min = each.operandsMin,
                      .operands_max = each.operandsMax,
                      .attributes = op.list.data(),
                      .attribute_count = op.list.size()};
    list.push_back(&op.declaration);
  }
}

Result<Infer> inferQuestion(const MortiseInferArgs &args) {
  const MortiseType unknown{.struct_size = sizeof unknown, .dtype = MORTISE_I1, .rank = 0};
  Values values;
  for (size_t i = 0; i < args.operand_count; ++i)
    values.add(*args.operands[i]);
  values.add(unknown); // a node has a result, whose type is not known yet
  MortiseNode node{.struct_size = sizeof node, .op = args.op, .location = ""};
  MortiseValue &result = values.values.back();
  result.producer = &node;
  result.result_index = 0;
  values.point();
  node.since = MORTISE_OPSET;
  node.operands = values.pointers.data();
  node.operand_count = args.operand_count;
  node.results = values.pointers.data() + args.operand_count;
  node.result_count = 1;
  node.attributes = args.attributes;
  node.attribute_count = args.attribute_count;
  const MortiseNode *nodes[] = {&node};
  MortiseGraph graph = graphOver(args.symbols, args.symbol_count);
  graph.nodes = nodes;
  graph.node_count = 1;
  graph.values = graph.inputs = values.pointers.data();
  graph.value_count = values.pointers.size();
  graph.input_count = args.operand_count;
  graph.outputs = node.results;
  graph.output_count = 1;
  auto copy = Graph::copy(graph);
  if (!copy)
    return copy.error();
  return Infer{bytesOf(**copy)};
}

Result<Inferred> answerInfer(const MortisePlugin &table, const Infer &asked) {
  auto graph = Graph::read(std::as_bytes(std::span(asked.graph)));
  if (!graph)
    return graph.error();
  const MortiseGraph &view = (*graph)->view();
  if (table.infer == nullptr || view.node_count != 1)
    return Error{MORTISE_INVALID_ARGUMENT, "expected one node, and a plugin that declares ops"};
  const MortiseNode &node = *view.nodes[0];
  std::vector<const MortiseType *> operands;
  for (size_t i = 0; i < node.operand_count; ++i)
    operands.push_back(node.operands[i]->type);
  MortiseInferArgs args{.struct_size = sizeof(MortiseInferArgs),
                        .op = node.op,
                        .operands = operands.data(),
                        .operand_count = operands.size(),
                        .attributes = node.attributes,
                        .attribute_count = node.attribute_count,
                        .symbols = view.symbols,
                        .symbol_count = view.symbol_count};
  Types types{args};
  args.sink = &types;
  args.add = [](void *sink, const MortiseType *type) { static_cast<Types *>(sink)->add(type); };
  auto wrong = callInfer(table, args);
  if (!wrong)
    return wrong.error();
  if (wrong->empty())
    *wrong = types.wrong;
  if (!wrong->empty())
    return Inferred{"", *wrong};
  auto all = types.all();
  if (!all)
    return all.error();
  return Inferred{bytesOf(**all), ""};
}

Result<void> addInferred(const Inferred &inferred, const MortiseInferArgs &args) {
  if (!inferred.wrong.empty())
    return Error{MORTISE_INTERNAL, "what it infers is wrong: " + inferred.wrong};
  auto graph = Graph::read(std::as_bytes(std::span(inferred.graph)));
  if (!graph)
    return graph.error();
  const MortiseGraph &view = (*graph)->view();
  for (size_t i = 0; i < view.input_count; ++i)
    args.add(args.sink, view.inputs[i]->type);
  return {};
}

} // namespace mortise::runtime::isolation
