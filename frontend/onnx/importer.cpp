// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "importer.hpp"

#include <mortise/reference/interpreter.hpp>

#include <algorithm>

namespace mortise::onnx {
namespace {

constexpr int mostNodes = 1 << 20;
constexpr int deepest = 32; // graphs in graphs, and functions that call functions

std::string domainOf(const std::string &domain) { return domain == "ai.onnx" ? "" : domain; }

bool isKnown(const Value &value) { return !value || value.constant; }

// What the graph computes, which has weights alone as inputs.
std::vector<Tensor> computed(const Graph &graph, const std::vector<Tensor> &weights) {
  const MortiseGraph &view = graph.view();
  std::vector<const void *> sources;
  std::vector<void *> targets;
  std::vector<Tensor> made;
  for (const Tensor &weight : weights)
    sources.push_back(weight.bytes.data());
  for (const MortiseValue *output : std::span(view.outputs, view.output_count)) {
    const auto dims = mortise::dims(*output->type);
    made.push_back(
        {"", output->type->dtype, {dims.begin(), dims.end()}, std::vector<std::byte>(byteSize(*output->type))});
  }
  for (Tensor &tensor : made)
    targets.push_back(tensor.bytes.data());
  if (auto done = reference::interpret(view, sources, targets); !done)
    throw Refusal{done.error()};
  return made;
}

} // namespace

Importer::Importer(mlir::MLIRContext &context, const proto::ModelProto &model, const Options &options)
    : context(context), model(model), options(options), emitter(context), scopes(1) {}

void Importer::readOpsets() {
  for (const auto &entry : model.opset_import())
    opsets[domainOf(entry.domain())] = entry.version();
  const auto found = opsets.find("");
  if (found != opsets.end() && (found->second < oldestOpset || found->second > newestOpset))
    unsupported("opset", "expected an opset from " + std::to_string(oldestOpset) + " to " +
                             std::to_string(newestOpset) + ", found " + std::to_string(found->second) +
                             "; onnx.version_converter raises older models");
  for (const auto &function : model.functions())
    if (!functions.emplace(std::pair(domainOf(function.domain()), function.name()), &function).second)
      unsupported("functions", "the function '" + function.name() + "' has several definitions");
}

void Importer::define(const std::string &name, Value value) {
  if (name.empty())
    return;
  if (!scopes.back().emplace(name, std::move(value)).second)
    corrupt("expected each value to be computed once, found '" + name + "' twice");
}

Value Importer::find(const std::string &name, const std::string &reader) const {
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope)
    if (const auto found = scope->find(name); found != scope->end())
      return found->second;
  corrupt(reader + ": expected '" + name +
          "' to be an input, an initializer or a result of a node before it, found "
          "none; nodes stand in the order in which they run");
}

void Importer::readInitializers(const proto::GraphProto &graph) {
  if (graph.sparse_initializer_size())
    unsupported("sparse tensors", "the model has sparse initializers");
  for (const auto &initializer : graph.initializer())
    define(initializer.name(),
           emitter.constant(tensorFrom(initializer, options.folder, "initializer '" + initializer.name() + "'")));
}

void Importer::addInput(const proto::ValueInfoProto &info) {
  const std::string what = "input '" + info.name() + "'";
  if (!info.type().has_tensor_type())
    unsupported("type", what + " is no dense tensor");
  const auto &type = info.type().tensor_type();
  const int32_t dtype = dtypeOf(type.elem_type());
  const auto offered = std::ranges::find(options.values, info.name(), &Tensor::name);
  const bool isOffered = offered != options.values.end();
  if (isOffered && (offered->dtype != dtype ||
                    (type.has_shape() && type.shape().dim_size() != static_cast<int>(offered->dims.size()))))
    refuse(MORTISE_INVALID_ARGUMENT,
           what + ": expected a value of the input's type, found " + dtypeName(offered->dtype) + text(offered->dims));
  if (!type.has_shape() && !isOffered)
    unsupported("symbolic extent", what + " has no shape");
  Dims dims;
  for (int i = 0; i < (type.has_shape() ? type.shape().dim_size() : static_cast<int>(offered->dims.size())); ++i) {
    const auto number = options.extents.find(type.has_shape() ? type.shape().dim(i).dim_param() : "");
    if (type.has_shape() && type.shape().dim(i).has_dim_value())
      dims.push_back(type.shape().dim(i).dim_value());
    else if (type.has_shape() && number != options.extents.end() && !number->first.empty())
      dims.push_back(number->second);
    else if (isOffered)
      dims.push_back(offered->dims[static_cast<size_t>(i)]);
    else
      unsupported("symbolic extent", what + ": extent " + std::to_string(i) + " is '" +
                                         type.shape().dim(i).dim_param() +
                                         "'; expected a number for it (--extent NAME=NUMBER)");
  }
  checkedBytes(dtype, dims, what);
  if (isOffered && offered->dims != dims)
    refuse(MORTISE_INVALID_ARGUMENT,
           what + ": expected a value of shape " + text(dims) + ", found " + text(offered->dims));
  Value value = emitter.input(info.name(), dtype, dims);
  if (isOffered) {
    value.offered = std::make_shared<const Tensor>(*offered);
    value.sources = {info.name()};
  }
  define(info.name(), std::move(value));
}

void Importer::readInputs() {
  for (const auto &info : model.graph().input()) // before weights, so that these are the last inputs of the graph
    if (std::ranges::none_of(model.graph().initializer(),
                             [&](const auto &initializer) { return initializer.name() == info.name(); }))
      addInput(info);
}

// A function's nodes, with the caller's attributes in place of those that they refer to.
Values Importer::call(const proto::FunctionProto &function, const proto::NodeProto &message, const Values &arguments) {
  if (arguments.size() > static_cast<size_t>(function.input_size()))
    corrupt(message.op_type() + ": expected at most " + std::to_string(function.input_size()) + " inputs, found " +
            std::to_string(arguments.size()));
  std::vector<Scope> callers(1); // a function sees nothing of its caller
  std::swap(scopes, callers);
  for (int i = 0; i < function.input_size(); ++i)
    define(function.input(i), static_cast<size_t>(i) < arguments.size() ? arguments[static_cast<size_t>(i)] : Value());
  google::protobuf::RepeatedPtrField<proto::NodeProto> nodes = function.node();
  for (auto &node : nodes)
    for (int i = node.attribute_size() - 1; i >= 0; --i) {
      const std::string name = node.attribute(i).name(), from = node.attribute(i).ref_attr_name();
      if (from.empty())
        continue;
      const auto isNamed = [&](const auto &attribute) { return attribute.name() == from; };
      const auto given = std::ranges::find_if(message.attribute(), isNamed);
      const auto otherwise = std::ranges::find_if(function.attribute_proto(), isNamed);
      node.mutable_attribute()->DeleteSubrange(i, 1);
      if (given == message.attribute().end() && otherwise == function.attribute_proto().end())
        continue; // the operator's default
      auto *made = node.add_attribute();
      *made = given != message.attribute().end() ? *given : *otherwise;
      made->set_name(name);
    }
  const auto outer = opsets;
  for (const auto &entry : function.opset_import())
    opsets[domainOf(entry.domain())] = entry.version();
  walk(nodes);
  Values results;
  for (const std::string &name : function.output())
    results.push_back(find(name, message.op_type()));
  opsets = outer;
  std::swap(scopes, callers);
  return results;
}

// Computes what depends on constants alone, such as shapes, so that it can stand where the language wants numbers.
// Nothing where that is large.
std::optional<Values> Importer::folded(const Row &row, const proto::NodeProto &message, const Values &operands) {
  constexpr size_t most = 1 << 16; // elements
  size_t count = 0;
  for (const Value &operand : operands)
    count += static_cast<size_t>(countOf(operand.dims));
  const auto isGraph = [](const auto &attribute) {
    return attribute.has_g();
  }; // whose nodes are part of the graph at hand
  if (operands.empty() || !std::ranges::all_of(operands, isKnown) || count > most ||
      std::ranges::any_of(message.attribute(), isGraph))
    return {};
  Emitter inner(context);
  Node node(message, operands, static_cast<int>(opsets[""]), inner, *this);
  node.row = &row;
  inner.place = node.place();
  Values results = row.make(inner, node), unknown;
  node.checkAttributes();
  for (const Value &result : results)
    if (!isKnown(result)) {
      unknown.push_back(result);
      count += static_cast<size_t>(countOf(result.dims));
    }
  if (count > most)
    return {};
  if (unknown.empty())
    return results;
  const auto graph = inner.finish(unknown);
  std::vector<Tensor> tensors = computed(*graph, inner.weights);
  size_t next = 0;
  for (Value &result : results)
    if (!isKnown(result))
      result = emitter.constant(std::move(tensors[next++]));
  return results;
}

// What follows from the values of inputs may be bound like these: a shape, say, that is a part of one that is given.
void Importer::offer(const Row &row, const proto::NodeProto &message, const Values &operands, Values &results) {
  constexpr int64_t most = 64; // elements, as shapes have them
  Values given = operands;
  std::vector<std::string> sources;
  int64_t count = 0;
  for (Value &operand : given) {
    if (!isKnown(operand) && !operand.offered)
      return;
    sources.insert(sources.end(), operand.sources.begin(), operand.sources.end());
    count += operand ? countOf(operand.dims) : 0;
    if (!isKnown(operand))
      operand.constant = operand.offered;
  }
  if (sources.empty() || count > most)
    return;
  try {
    const auto known = folded(row, message, given);
    for (size_t i = 0; known && i < results.size() && i < known->size(); ++i)
      if (!isKnown(results[i]) && (*known)[i].constant) {
        results[i].offered = (*known)[i].constant;
        results[i].sources = sources;
      }
  } catch (const Refusal &) {
    return; // then there is nothing to offer
  }
}

Values Importer::make(const Row &row, const proto::NodeProto &message, const Values &operands) {
  if (!opsets.contains(""))
    corrupt("expected a model that names the opset of ONNX's own domain, found none");
  if (opsets[""] < row.since)
    unsupported("opset", message.op_type() + ": expected an opset from " + std::to_string(row.since) + " on, found " +
                             std::to_string(opsets[""]));
  if (auto known = folded(row, message, operands))
    return std::move(*known);
  Node node(message, operands, static_cast<int>(opsets[""]), emitter, *this);
  node.row = &row;
  emitter.place = node.place();
  Values results = row.make(emitter, node);
  node.checkAttributes();
  offer(row, message, operands, results);
  return results;
}

void Importer::importNode(const proto::NodeProto &message) {
  const std::string domain = domainOf(message.domain());
  Values operands;
  for (const std::string &name : message.input())
    operands.push_back(name.empty() ? Value() : find(name, message.op_type()));
  Values results;
  const auto function = functions.find({domain, message.op_type()});
  const Row *row = domain.empty() ? rowOf(message.op_type()) : nullptr;
  if (function != functions.end())
    results = call(*function->second, message, operands);
  else if (row)
    results = make(*row, message, operands);
  else
    unsupported("operator", (domain.empty() ? "" : domain + ".") + message.op_type() + " is not known to the importer");
  for (int i = 0; i < message.output_size(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (message.output(i).empty())
      continue;
    if (at >= results.size() || !results[at])
      unsupported("result", message.op_type() + ": the importer does not compute output " + std::to_string(i));
    define(message.output(i), results[at]);
  }
}

void Importer::walk(const google::protobuf::RepeatedPtrField<proto::NodeProto> &nodes) {
  nodeCount += nodes.size();
  if (nodeCount > mostNodes)
    unsupported("size", "expected at most " + std::to_string(mostNodes) + " nodes with those of functions, found more");
  if (++depth > deepest)
    corrupt("expected graphs and functions nested at most " + std::to_string(deepest) + " deep, found more");
  for (const auto &message : nodes)
    importNode(message);
  --depth;
}

Values Importer::inlined(const proto::GraphProto &graph) {
  if (graph.input_size())
    unsupported("control flow", "a graph with inputs of its own");
  scopes.emplace_back();
  readInitializers(graph);
  walk(graph.node());
  Values results;
  for (const auto &output : graph.output())
    results.push_back(find(output.name(), "graph '" + graph.name() + "'"));
  scopes.pop_back();
  return results;
}

void Importer::checkOutput(const proto::ValueInfoProto &info, const Value &value) const {
  const std::string what = "output '" + info.name() + "'";
  if (info.type().value_case() == proto::TypeProto::VALUE_NOT_SET)
    return;
  if (!info.type().has_tensor_type())
    unsupported("type", what + " is no dense tensor");
  const auto &type = info.type().tensor_type();
  bool fits = dtypeOf(type.elem_type()) == value.dtype;
  if (type.has_shape()) {
    fits &= type.shape().dim_size() == static_cast<int>(value.dims.size());
    for (int i = 0; fits && i < type.shape().dim_size(); ++i)
      fits &=
          !type.shape().dim(i).has_dim_value() || type.shape().dim(i).dim_value() == value.dims[static_cast<size_t>(i)];
  }
  if (!fits)
    corrupt(what + ": expected the type that the model states, found that its nodes give " + typeText(value));
}

Model Importer::run() {
  readOpsets();
  readInputs();
  readInitializers(model.graph());
  walk(model.graph().node());
  Values results;
  Model made;
  for (const auto &info : model.graph().output()) {
    results.push_back(find(info.name(), "output"));
    if (!results.back())
      corrupt("output '" + info.name() + "': expected a value, found one that is left out");
    checkOutput(info, results.back());
    made.outputs.push_back(info.name());
  }
  if (results.empty())
    corrupt("expected a graph with outputs, found none");
  made.graph = emitter.finish(results);
  made.inputs = std::move(emitter.inputs);
  made.weights = std::move(emitter.weights);
  made.bound = std::move(emitter.bound);
  return made;
}

} // namespace mortise::onnx
