// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads models in ONNX's format, opset 13 and up, as graphs. Models are data from anywhere: all is checked, and no
// exception leaves these functions.
#pragma once

#include <mortise/portable/graph.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mortise::onnx {

// Dense, row-major, in the ABI's layout.
struct Tensor {
  std::string name;
  int32_t dtype = 0;
  std::vector<int64_t> dims;
  std::vector<std::byte> bytes;
};

struct Options {
  std::string folder;                     // of the model, for external data; "": there may be none
  std::map<std::string, int64_t> extents; // of symbolic dimensions ("batch")
  // What inputs hold. Where an operand has to be constant (a shape, say) and is an input, the value is taken from
  // here, and the graph is one for that value alone.
  std::vector<Tensor> values;
};

struct Model {
  std::shared_ptr<const Graph> graph;
  std::vector<std::string> inputs;  // of the graph, in its order; those that no node reads are left out
  std::vector<Tensor> weights;      // the graph's last inputs, which are constants
  std::vector<std::string> outputs; // in the model's order
  std::vector<std::string> bound;   // inputs whose values, as Options had them, have become part of the graph
};

// Errors: MORTISE_CORRUPT: no model, or one that contradicts itself; MORTISE_UNSUPPORTED: a model that this version
// does not take, and the message begins with the reason, before a colon; MORTISE_NOT_FOUND: external data;
// MORTISE_INVALID_ARGUMENT: what the options say; MORTISE_OUT_OF_MEMORY.
Result<Model> importModel(std::span<const std::byte> bytes, const Options &options);
// The file's folder is that of external data.
Result<Model> importFile(const std::string &path, Options options);

// A file of one TensorProto, as ONNX's own tests have their inputs and outputs.
Result<Tensor> readTensor(const std::string &path);

} // namespace mortise::onnx
