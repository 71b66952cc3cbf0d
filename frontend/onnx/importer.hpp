// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Walks a model.
#pragma once

#include "node.hpp"

namespace mortise::onnx {

inline constexpr int oldestOpset = 13, newestOpset = 28;

class Importer {
public:
  Importer(mlir::MLIRContext &context, const proto::ModelProto &model, const Options &options);
  Model run();

  // The results of a graph that a node holds, as part of the graph at hand.
  Values inlined(const proto::GraphProto &graph);

private:
  using Scope = std::map<std::string, Value>; // by name
  void readOpsets();
  void readInputs();
  void readInitializers(const proto::GraphProto &graph);
  void addInput(const proto::ValueInfoProto &info);
  void walk(const google::protobuf::RepeatedPtrField<proto::NodeProto> &nodes);
  void importNode(const proto::NodeProto &message);
  Values call(const proto::FunctionProto &function, const proto::NodeProto &message, const Values &arguments);
  Values make(const Row &row, const proto::NodeProto &message, const Values &operands);
  std::optional<Values> folded(const Row &row, const proto::NodeProto &message, const Values &operands);
  void offer(const Row &row, const proto::NodeProto &message, const Values &operands, Values &results);
  void checkOutput(const proto::ValueInfoProto &info, const Value &value) const;
  void define(const std::string &name, Value value);
  Value find(const std::string &name, const std::string &reader) const;

  mlir::MLIRContext &context;
  const proto::ModelProto &model;
  const Options &options;
  Emitter emitter;
  std::vector<Scope> scopes; // the innermost last
  std::map<std::string, int64_t> opsets;
  std::map<std::pair<std::string, std::string>, const proto::FunctionProto *> functions; // by domain and name
  int nodeCount = 0;                                                                     // walked so far
  int depth = 0;                                                                         // of graphs and functions
};

} // namespace mortise::onnx
