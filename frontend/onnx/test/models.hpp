// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Models as the tests write them: Draft d; d.input("x", {2, 3}); d.node("Relu", {"x"}, {"y"}); d.output("y").
#pragma once

#include <mortise/onnx/import.hpp>
#include <mortise/reference/interpreter.hpp>

#include <onnx-ml.pb.h>

#include <gmock/gmock.h>

#include <cstring>

namespace mortise::onnx {

namespace proto = ::onnx;
using Dims = std::vector<int64_t>;
using Names = std::vector<std::string>;
using testing::HasSubstr;

template <typename T> std::vector<std::byte> bytesOf(const std::vector<T> &numbers) {
  std::vector<std::byte> made(numbers.size() * sizeof(T));
  if (!made.empty())
    std::memcpy(made.data(), numbers.data(), made.size());
  return made;
}

class Draft {
public:
  explicit Draft(int64_t opset = 18) {
    model.set_ir_version(8);
    model.add_opset_import()->set_version(opset);
    model.mutable_graph()->set_name("graph");
  }

  void input(const std::string &name, const Dims &dims, int type = proto::TensorProto::FLOAT) {
    describe(*model.mutable_graph()->add_input(), name, type, dims);
  }
  void output(const std::string &name) { model.mutable_graph()->add_output()->set_name(name); }
  void output(const std::string &name, const Dims &dims, int type = proto::TensorProto::FLOAT) {
    describe(*model.mutable_graph()->add_output(), name, type, dims);
  }
  proto::NodeProto &node(const std::string &op, const Names &inputs, const Names &outputs) {
    proto::NodeProto &made = *model.mutable_graph()->add_node();
    fill(made, op, inputs, outputs);
    return made;
  }
  static void fill(proto::NodeProto &made, const std::string &op, const Names &inputs, const Names &outputs) {
    made.set_op_type(op);
    made.mutable_input()->Add(inputs.begin(), inputs.end());
    made.mutable_output()->Add(outputs.begin(), outputs.end());
  }
  static void integer(proto::NodeProto &node, const std::string &name, int64_t value) {
    auto &made = *node.add_attribute();
    made.set_name(name);
    made.set_type(proto::AttributeProto::INT);
    made.set_i(value);
  }
  static void integers(proto::NodeProto &node, const std::string &name, const Dims &values) {
    auto &made = *node.add_attribute();
    made.set_name(name);
    made.set_type(proto::AttributeProto::INTS);
    made.mutable_ints()->Add(values.begin(), values.end());
  }
  proto::TensorProto &initializer(const std::string &name, const Dims &dims, int type) {
    proto::TensorProto &made = *model.mutable_graph()->add_initializer();
    made.set_name(name);
    made.set_data_type(type);
    made.mutable_dims()->Add(dims.begin(), dims.end());
    return made;
  }
  void integersAs(const std::string &name, const Dims &values) {
    auto &made = initializer(name, {static_cast<int64_t>(values.size())}, proto::TensorProto::INT64);
    made.mutable_int64_data()->Add(values.begin(), values.end());
  }
  void numbersAs(const std::string &name, const Dims &dims, const std::vector<float> &values) {
    initializer(name, dims, proto::TensorProto::FLOAT).mutable_float_data()->Add(values.begin(), values.end());
  }

  std::string bytes() const { return model.SerializeAsString(); }
  Result<Model> import(const Options &options = {}) const {
    const std::string made = bytes();
    return importModel(std::as_bytes(std::span(made)), options);
  }
  // "" when it is no error.
  std::string failure(const Options &options = {}) const {
    const auto made = import(options);
    return made ? "" : made.error().message;
  }

  proto::ModelProto model;

private:
  static void describe(proto::ValueInfoProto &info, const std::string &name, int type, const Dims &dims) {
    info.set_name(name);
    auto &tensor = *info.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(type);
    tensor.mutable_shape();
    for (const int64_t dim : dims)
      tensor.mutable_shape()->add_dim()->set_dim_value(dim);
  }
};

// What the interpreter computes of a model in f32; inputs in the graph's order, weights behind them.
inline std::vector<std::vector<float>> computed(const Model &model, const std::vector<std::vector<float>> &inputs) {
  const MortiseGraph &view = model.graph->view();
  std::vector<const void *> sources;
  for (const auto &input : inputs)
    sources.push_back(input.data());
  for (const Tensor &weight : model.weights)
    sources.push_back(weight.bytes.data());
  std::vector<std::vector<float>> made(view.output_count);
  std::vector<void *> targets;
  for (size_t i = 0; i < view.output_count; ++i) {
    made[i].resize(static_cast<size_t>(elementCount(*view.outputs[i]->type)));
    targets.push_back(made[i].data());
  }
  const auto done = reference::interpret(view, sources, targets);
  EXPECT_TRUE(done) << done.error().message;
  return made;
}

} // namespace mortise::onnx
