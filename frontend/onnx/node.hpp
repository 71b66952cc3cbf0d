// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A node of a model as rows see it, and the table of rows.
#pragma once

#include "emitter.hpp"

#include <set>
#include <string_view>

namespace mortise::onnx {

class Node;
class Importer;

// An operator of ONNX's own domain. `since`: the oldest opset whose operator `make` knows (13, that of the importer, in
// most rows); older versions are refused. `op`: the op that a shared function stands for.
struct Row {
  const char *name;
  Values (*make)(Emitter &e, Node &node);
  OpName op = "mortise.add";
  int since = 13;
};
// NULL where there is none.
const Row *rowOf(std::string_view name);
std::span<const Row> rows();

class Node {
public:
  Node(const proto::NodeProto &message, Values inputs, int opset, Emitter &e, Importer &importer);

  const proto::NodeProto &message;
  const int opset;
  const Row *row = nullptr;
  Importer &importer; // for nodes that hold graphs

  // ---- Inputs
  size_t inputCount() const { return inputs.size(); }
  bool has(size_t i) const { return i < inputs.size() && inputs[i]; }
  const Value &operator[](size_t i) const; // refuses one that is missing
  Value optional(size_t i) const { return has(i) ? inputs[i] : Value(); }
  const Values &all() const { return inputs; }
  // What a constant operand holds.
  Dims integers(size_t i, const char *what) const;
  int64_t integer(size_t i, const char *what) const;
  double real(size_t i, const char *what) const;

  // ---- Outputs
  size_t outputCount() const { return static_cast<size_t>(message.output_size()); }
  bool wants(size_t i) const { return i < outputCount() && !message.output(static_cast<int>(i)).empty(); }

  // ---- Attributes. What no function has asked for is refused at the end.
  bool has(const char *name) const { return find(name); }
  int64_t integer(const char *name, std::optional<int64_t> otherwise = {});
  bool flag(const char *name, bool otherwise) { return integer(name, otherwise) != 0; }
  double real(const char *name, std::optional<double> otherwise = {});
  std::string text(const char *name, const char *otherwise);
  Dims list(const char *name, const Dims &otherwise);
  std::vector<double> reals(const char *name);
  int32_t dtype(const char *name, int32_t otherwise);
  const proto::AttributeProto *find(const char *name) const;
  const proto::AttributeProto *take(const char *name, int type);
  void ignore(const char *name) { seen.insert(name); } // of no effect on results here
  void checkAttributes() const;

  // ---- Axes, which count from the end where they are negative
  int64_t axis(int64_t of, int64_t rank) const;
  Dims axes(const Dims &of, int64_t rank) const; // ascending; refuses one that is named twice
  std::string place() const;                     // "Add 'name'"

private:
  const Values inputs;
  Emitter &e;
  std::set<std::string_view> seen;
};

} // namespace mortise::onnx
