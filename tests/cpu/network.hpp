// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Small networks for tests, built op by op, computed by the cpu plugin as one region and by the reference interpreter.
#pragma once

#include <mortise/ir/builder.hpp>
#include <mortise/portable/graph.hpp>
#include <mortise/runtime/registry.hpp>

#include <cstring>
#include <deque>
#include <functional>
#include <map>

namespace mortise::test {

using ir::ValueId;

// An attribute that owns its data.
struct Attribute {
  std::string name, text;
  std::vector<int64_t> ints;
  std::vector<std::byte> bytes;
  std::vector<int64_t> dims;
  MortiseType type{};
  MortiseAttribute view{};
};
Attribute ints(std::string name, std::vector<int64_t> values);
Attribute integer(std::string name, int64_t value);
Attribute boolean(std::string name, bool value);
Attribute real(std::string name, double value);
Attribute text(std::string name, std::string value);

class Network {
public:
  Network();
  ~Network();
  ValueId input(int32_t dtype, std::vector<int64_t> dims, uint32_t flags = 0);
  ValueId weight(std::vector<int64_t> dims, int32_t dtype = MORTISE_F32) {
    return input(dtype, std::move(dims), MORTISE_VALUE_CONSTANT);
  }
  ValueId scalar(double value, int32_t dtype = MORTISE_F32);                           // a literal
  ValueId splat(double value, std::vector<int64_t> dims, int32_t dtype = MORTISE_F32); // a broadcast literal
  ValueId op(const std::string &name, std::vector<ValueId> operands, std::vector<Attribute> attributes = {});
  std::vector<ValueId> ops(const std::string &name, std::vector<ValueId> operands,
                           std::vector<Attribute> attributes = {}); // returns all results
  std::vector<int64_t> dims(ValueId value) const;
  int64_t inputCount() const;
  void output(ValueId value, int64_t alias = -1);
  std::shared_ptr<const Graph> finish();

  // Conveniences like those of frontends.
  ValueId reshape(ValueId x, std::vector<int64_t> shape) {
    return op("reshape", {x}, {ints("shape", std::move(shape))});
  }
  ValueId transpose(ValueId x, std::vector<int64_t> permutation) {
    return op("transpose", {x}, {ints("permutation", std::move(permutation))});
  }
  ValueId broadcast(ValueId x, std::vector<int64_t> shape, std::vector<int64_t> axes) {
    return op("broadcast", {x}, {ints("shape", std::move(shape)), ints("axes", std::move(axes))});
  }
  ValueId dot(ValueId x, ValueId y, std::vector<int64_t> xBatch, std::vector<int64_t> yBatch, std::vector<int64_t> xSum,
              std::vector<int64_t> ySum) {
    return op("dot", {x, y},
              {ints("lhs_batch", std::move(xBatch)), ints("rhs_batch", std::move(yBatch)),
               ints("lhs_contract", std::move(xSum)), ints("rhs_contract", std::move(ySum))});
  }
  ValueId linear(ValueId x, ValueId w, ValueId b = ir::noValue, bool transposed = false) {
    return op("linear", {x, w, b}, {boolean("weight_transposed", transposed)});
  }
  ValueId addRow(ValueId x, ValueId row); // x + row, broadcast along all but the last dimension
  ValueId convolution(ValueId x, ValueId w, std::vector<int64_t> strides, std::vector<int64_t> pad, int64_t groups = 1,
                      std::vector<int64_t> dilations = {});
  ValueId attention(ValueId q, ValueId k, ValueId v, double scale); // decomposed: dot, mul, softmax, dot

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

// Fills one buffer with values.
using Fill = std::function<void(const MortiseValue &value, size_t position, std::vector<std::byte> &bytes)>;
void randomFill(const MortiseValue &value, size_t position,
                std::vector<std::byte> &bytes); // about -1 .. 1; integers 0 .. 7

// The plugin's device, loaded once. If it cannot be loaded, null, with the reason on stderr.
const runtime::Device *cpuDevice();

// One region compiled by the plugin.
class Compiled {
public:
  static Result<std::unique_ptr<Compiled>> make(std::shared_ptr<const Graph> graph,
                                                std::vector<MortiseOption> options = {});
  Result<void> bind(std::span<const void *const> inputs);
  Result<void> run(std::span<const void *const> inputs, std::span<void *const> outputs, uint64_t *stepTimes = nullptr,
                   std::span<std::byte> workspace = {}); // threads that share a kernel pass a workspace each
  std::vector<const MortiseStep *> steps() const;
  bool hasStep(std::string_view name) const; // compares with a part of a step's name or lowering
  std::string text() const;                  // the steps, one per line
  size_t workspaceBytes() const { return workspace.size(); }
  // For a graph with symbols, once bound: sets the values for the following runs. Values set before cost nothing.
  Result<void> prepare(const std::vector<int64_t> &symbols);
  // Runs with an instance of its own; may be called from any thread.
  Result<void> runOnce(const std::vector<int64_t> &symbols, std::span<const void *const> inputs,
                       std::span<void *const> outputs) const;
  uint64_t codeBytes() const; // machine code held by the plugin
  size_t instanceCount() const { return instances.size(); }
  ~Compiled();
  std::shared_ptr<const Graph> graph;
  uint64_t packedBytes = 0;   // of the last bind
  uint64_t instanceBytes = 0; // packed for single sets of symbol values

private:
  struct Instance {
    MortiseInstance *handle = nullptr;
    uint64_t workspaceBytes = 0;
  };
  MortiseKernelInfo info() const;
  void forgetInstances();
  MortiseKernel *kernel = nullptr;
  MortiseConstants *constants = nullptr;
  std::map<std::vector<int64_t>, Instance> instances;
  std::vector<int64_t> symbols; // of the instance in use
  std::vector<std::byte> workspace;
};

// A large prime in a graph, found nowhere else, that stands for a symbol, or for a smaller number if min and max both
// equal that. Stand-ins for symbols come first.
struct StandIn {
  int64_t number;
  const char *name;
  int64_t min = 2, max = INT64_MAX, divisor = 1;
};
// The graph with extents and entries of attributes replaced by expressions over the symbols, where they are multiples
// of stand-ins or within 200 of one.
std::shared_ptr<const Graph> withSymbols(const MortiseGraph &graph, const std::vector<StandIn> &standIns);

// Whether the plugin takes `linear` of the type, which it may leave to the decomposition.
bool takesLinear(int32_t dtype);

struct Check {
  bool exact = false; // compares bits; otherwise within what rounding explains (conformance/error_bounds.hpp)
  Fill fill = randomFill;
  std::vector<MortiseOption> options;
};
// Runs both, twice, and reports differences to GoogleTest. Returns the kernel for further checks, or null after a
// failure.
std::unique_ptr<Compiled> check(Network &network, const Check &how = {});

// Compiles the network once, for symbols, runs it at each of these sets of values, and compares with the interpreter on
// the same network built with the numbers. Null after a failure.
using Build = std::function<void(Network &network, int64_t batch, int64_t tokens)>;
using Shapes = std::vector<std::pair<int64_t, int64_t>>; // batch, tokens
// The number of rows of a table of positions, of which `tokens` are used.
int64_t tableRows(int64_t tokens);
inline constexpr int64_t mostTokens = 512;
std::unique_ptr<Compiled> checkShapes(const Build &build, const Shapes &shapes, const Check &how = {},
                                      int64_t smallest = 2);
Result<std::unique_ptr<Compiled>> compileForShapes(const Build &build, int64_t smallest = 2,
                                                   std::vector<MortiseOption> options = {});

} // namespace mortise::test
