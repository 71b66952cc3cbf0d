// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Models that contradict themselves, or mean harm: each is an error that says what was expected.
#include "models.hpp"

#include "../node.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

namespace mortise::onnx {
namespace {

namespace fs = std::filesystem;

Draft sound() {
  Draft draft;
  draft.input("x", {2, 3});
  draft.numbersAs("w", {3, 2}, {1, 2, 3, 4, 5, 6});
  draft.node("MatMul", {"x", "w"}, {"h"});
  draft.node("Softmax", {"h"}, {"y"});
  draft.output("y", {2, 2});
  return draft;
}

Result<Model> read(const std::string &bytes) { return importModel(std::as_bytes(std::span(bytes)), {}); }

TEST(OnnxHostile, EveryTruncationIsAnError) {
  const std::string whole = sound().bytes();
  ASSERT_TRUE(read(whole));
  for (size_t length = 0; length < whole.size(); ++length)
    if (const auto made = read(whole.substr(0, length)))
      ADD_FAILURE() << "a model was read from the first " << length << " of " << whole.size() << " bytes";
  EXPECT_THAT(read("").error().message, HasSubstr("expected a model in ONNX's format"));
  EXPECT_EQ(read("no model").error().code, MORTISE_CORRUPT);
}

// Nothing to hold against: that it ends, with a graph or with a word.
TEST(OnnxHostile, ArbitraryChangesDoNoHarm) {
  const std::string whole = sound().bytes();
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    std::string changed = whole;
    for (unsigned n = 1 + random() % 3; n-- > 0;)
      changed[random() % changed.size()] = static_cast<char>(random());
    if (const auto made = read(changed); !made)
      EXPECT_FALSE(made.error().message.empty());
  }
}

TEST(OnnxHostile, ACycleIsAnError) {
  Draft draft;
  draft.input("x", {2});
  draft.node("Add", {"x", "b"}, {"a"});
  draft.node("Add", {"x", "a"}, {"b"});
  draft.output("b");
  EXPECT_THAT(draft.failure(),
              HasSubstr("expected 'b' to be an input, an initializer or a result of a node before it"));
  Draft self;
  self.model.add_opset_import()->set_domain("own");
  auto &function = *self.model.add_functions();
  function.set_domain("own");
  function.set_name("Again");
  function.add_input("a");
  function.add_output("b");
  function.add_opset_import()->set_version(18);
  Draft::fill(*function.add_node(), "Again", {"a"}, {"b"});
  function.mutable_node(0)->set_domain("own");
  self.input("x", {2});
  self.node("Again", {"x"}, {"y"}).set_domain("own");
  self.output("y");
  EXPECT_THAT(self.failure(), HasSubstr("nested at most 32 deep"));
}

TEST(OnnxHostile, ShapesThatDoNotFit) {
  Draft draft = sound();
  draft.model.mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(1)
      ->set_dim_value(4);
  EXPECT_THAT(draft.failure(), HasSubstr("MatMul"));
  Draft stated = sound();
  stated.model.mutable_graph()
      ->mutable_output(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_value(3);
  EXPECT_THAT(stated.failure(),
              HasSubstr("output 'y': expected the type that the model states, found that its nodes give f32[2, 2]"));
  Draft twice = sound();
  twice.node("Relu", {"h"}, {"y"});
  EXPECT_THAT(twice.failure(), HasSubstr("expected each value to be computed once, found 'y' twice"));
  Draft negative;
  negative.input("x", {-2});
  negative.node("Relu", {"x"}, {"y"});
  negative.output("y");
  EXPECT_THAT(negative.failure(), HasSubstr("expected extents of at least 0"));
  Draft none;
  none.input("x", {2});
  EXPECT_THAT(none.failure(), HasSubstr("expected a graph with outputs"));
}

// A few bytes that mean more memory than there is.
TEST(OnnxHostile, HugeExtents) {
  const Dims shapes[] = {
      {INT64_MAX}, {INT64_MAX, INT64_MAX}, {int64_t{1} << 40, 2}, {int64_t{1} << 33, int64_t{1} << 31}};
  for (const Dims &dims : shapes) {
    Draft draft;
    draft.input("x", dims);
    draft.node("Relu", {"x"}, {"y"});
    draft.output("y");
    EXPECT_THAT(draft.failure(), HasSubstr("size: input 'x': expected at most 2^40 elements"));
    Draft weight = sound();
    weight.initializer("v", dims, proto::TensorProto::FLOAT).set_raw_data("1234");
    EXPECT_THAT(weight.failure(), HasSubstr("expected at most 2^40 elements"));
    Draft filled;
    filled.integersAs("shape", dims);
    filled.node("ConstantOfShape", {"shape"}, {"y"});
    filled.output("y");
    EXPECT_THAT(filled.failure(), HasSubstr("expected at most 2^40 elements"));
  }
  Draft grown; // of extents that are each small
  grown.input("x", {1 << 20});
  grown.integersAs("repeats", {int64_t{1} << 62});
  grown.node("Tile", {"x", "repeats"}, {"y"});
  grown.output("y");
  EXPECT_THAT(grown.failure(), HasSubstr("expected at most 2^40 elements"));
}

TEST(OnnxHostile, InitializersThatAreTooShort) {
  Draft draft = sound();
  draft.initializer("v", {4}, proto::TensorProto::FLOAT).set_raw_data("1234");
  EXPECT_THAT(draft.failure(), HasSubstr("initializer 'v': expected 16 bytes for f32[4], found 4"));
  Draft typed = sound();
  typed.initializer("v", {4}, proto::TensorProto::FLOAT).add_float_data(1);
  EXPECT_THAT(typed.failure(), HasSubstr("initializer 'v': expected 4 elements, found 1"));
}

// Every operator with no, one and two operands, and numbers that no attribute should have.
TEST(OnnxHostile, OperatorsWithoutWhatTheyNeed) {
  for (const Row &row : rows())
    for (size_t count = 0; count <= 4; ++count)
      for (const int64_t extreme : {int64_t{0}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
        Draft draft(28);
        Names operands;
        for (size_t i = 0; i < count; ++i) {
          operands.push_back("x" + std::to_string(i));
          if (i == 0)
            draft.input("x0", {1, 4, 3, 3});
          else
            draft.integersAs(operands.back(), {extreme, 1});
        }
        auto &node = draft.node(row.name, operands, {"y"});
        for (const char *name :
             {"axis", "k", "p", "group", "num_groups", "blocksize", "size", "batch_dims", "block_size", "q_num_heads",
              "kv_num_heads", "num_heads", "rotary_embedding_dim", "start", "end", "to", "value_int", "batch_axis"})
          if (count % 2 == 0)
            Draft::integer(node, name, extreme);
        for (const char *name : {"axes", "pads", "strides", "kernel_shape", "dilations", "perm", "output_shape"})
          if (count >= 2)
            Draft::integers(node, name, {extreme, 1, extreme, 1});
        draft.output("y");
        (void)draft.failure(); // no crash; what it says depends on the operator
      }
}

class OnnxExternal : public testing::Test {
protected:
  void SetUp() override {
    char name[] = "/tmp/onnx-XXXXXX";
    ASSERT_TRUE(mkdtemp(name));
    root = name;
    folder = root + "/model";
    fs::create_directories(folder + "/part");
    write(folder + "/part/data.bin", "0123456789abcdef");
    write(root + "/secret.bin", "0123456789abcdef");
    fs::create_symlink("../secret.bin", folder + "/link.bin");
    fs::create_directory_symlink("..", folder + "/out");
    fs::create_directories(folder + "/folder.bin");
  }
  void TearDown() override { fs::remove_all(root); }

  static void write(const std::string &path, const std::string &text) { std::ofstream(path) << text; }

  Result<Model> with(const std::string &location, const std::string &offset = "", const std::string &length = "") {
    Draft draft;
    draft.input("x", {2});
    auto &weight = draft.initializer("w", {2}, proto::TensorProto::FLOAT);
    weight.set_data_location(proto::TensorProto::EXTERNAL);
    const std::pair<const char *, std::string> entries[] = {
        {"location", location}, {"offset", offset}, {"length", length}};
    for (const auto &[key, value] : entries)
      if (!value.empty()) {
        auto &entry = *weight.add_external_data();
        entry.set_key(key);
        entry.set_value(value);
      }
    draft.node("Add", {"x", "w"}, {"y"});
    draft.output("y");
    write(folder + "/model.onnx", draft.bytes());
    return importFile(folder + "/model.onnx", {});
  }
  std::string failure(const std::string &location, const std::string &offset = "", const std::string &length = "") {
    const auto made = with(location, offset, length);
    return made ? "read" : made.error().message;
  }

  std::string root, folder;
};

TEST_F(OnnxExternal, IsReadBelowTheModel) {
  EXPECT_TRUE(with("part/data.bin", "8", "8"));
  EXPECT_TRUE(with("./part/data.bin"));
}

TEST_F(OnnxExternal, NoPathLeadsOutOfTheFolder) {
  for (const std::string &path : {"../secret.bin", "part/../../secret.bin", "part/.."})
    EXPECT_THAT(failure(path),
                HasSubstr("expected external data below the model's folder, found the path '" + path + "'"));
  EXPECT_THAT(failure(root + "/secret.bin"), HasSubstr("expected external data at a path below the model's folder"));
  for (const std::string &path : {"link.bin", "out/secret.bin"})
    EXPECT_THAT(failure(path), HasSubstr("links are not followed"));
}

TEST_F(OnnxExternal, WhatIsMissingOrShortIsNamed) {
  EXPECT_THAT(failure("none.bin"), HasSubstr("expected external data in 'none.bin' in the model's folder"));
  EXPECT_THAT(failure(""), HasSubstr("expected external data at a path below the model's folder"));
  EXPECT_THAT(failure("folder.bin"), HasSubstr("expected a file of external data, found that 'folder.bin' is none"));
  EXPECT_THAT(failure("part/data.bin", "12"),
              HasSubstr("expected 8 bytes of external data, found 8 at 12 of the 16 bytes"));
  EXPECT_THAT(failure("part/data.bin", "0", "16"), HasSubstr("expected 8 bytes of external data, found 16"));
  EXPECT_THAT(failure("part/data.bin", "18446744073709551615", "8"), HasSubstr("expected 8 bytes of external data"));
  EXPECT_THAT(failure("part/data.bin", "-8"), HasSubstr("expected the number of bytes in 'offset'"));
}

} // namespace
} // namespace mortise::onnx
