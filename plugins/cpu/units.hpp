// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The plugin's own IR: a list of units. A unit is data: what computes some nodes of the region, the values that it
// reads and writes, and what its claim decided, for all values of the region's symbols. Values and nodes are numbers,
// never pointers, so that a unit can be compared with another and repeated for an equal layer (stamp.hpp).
#pragma once

#include "analysis.hpp"

#include <dnnl.hpp>

#include <variant>

namespace mortise::cpu {

// Something that the library applies to a result before it is stored.
struct PostOp {
  uint32_t node = none;
  std::string_view op; // of the node
  dnnl::algorithm algorithm = dnnl::algorithm::undef;
  float alpha = 0, beta = 0; // eltwise
  bool continues = false;    // part of an activation that the next post op completes: neither is applied alone
  uint32_t other = none; // binary: the value that is the other operand, seen through `view` with the result's extents
  View view;
  bool operator==(const PostOp &) const = default;
};

// A dot or linear, what is fused into it, and how its operands lie in memory.
struct Product {
  std::vector<uint32_t> nodes; // ascending: the node, its post ops and the views between
  uint32_t lhs = none, rhs = none, result = none;
  View a, b, c; // over values with memory; c is the result's extents in the memory of `target`
  std::vector<int64_t> lhsBatch, rhsBatch, lhsContract, rhsContract; // dimension numbers
  std::vector<PostOp> post;
  uint32_t target = none; // the value that is stored
  int32_t dtype = 0;
  bool weights = false;   // rhs is constant and may be packed
  bool byLibrary = false; // the library takes it for typical values; else a loop of the plugin's own computes it

  std::vector<SymbolicAxis> batch, m, n, k;
  bool operator==(const Product &) const = default;
};

// Products of one matrix by several constant ones, which lie side by side: `whole` computes all of them, and each of
// `parts` is a column slice of its result.
struct MergedProduct {
  struct Part {
    Product product;
    PostOp bias; // `other` is none without one
    bool operator==(const Part &) const = default;
  };
  std::vector<Part> parts;
  Product whole;
  bool biased = false;
  bool operator==(const MergedProduct &) const = default;
};

// One step of y = scale * x + shift per channel, from constants.
struct Affine {
  enum Kind { Add, Multiply, BatchNorm } kind = Add;
  uint32_t node = none;
  std::string_view op; // of the node
  double epsilon = 0;  // BatchNorm
  struct Part {        // a vector of channels; `value` is none for an operand that the node lacks
    uint32_t value = none;
    View view;
    bool operator==(const Part &) const = default;
  };
  std::vector<Part> operands; // Add, Multiply: one; BatchNorm: scale, bias, mean, variance
  bool operator==(const Affine &) const = default;
};

// What a convolution is the gradient of, when another call of the library computes it
// (kernels/convolution_gradient.cpp). OfInput: `weight` is not reversed, and the convolution reads x with `spread` - 1
// zeros between its elements. OfWeights: the views of x and of the result's gradient, `weight`, have the batch first.
enum class Gradient { None, OfInput, OfWeights };

struct Convolution {
  std::vector<uint32_t> nodes;
  uint32_t x = none, weight = none, result = none; // of the convolution's own node
  View xView, weightView;                          // where x and the weights lie
  uint32_t target = none;                          // the value that is stored
  std::vector<Affine> affine;                      // folded into the weights
  uint32_t residual = none;                        // added to the result
  std::vector<PostOp> activations;                 // of one activation, or none
  std::vector<uint32_t> activationNodes;           // its nodes
  uint32_t beforeActivation = none;                // the value that it is applied to
  bool byLoop = false;                             // a loop of the plugin's own computes it (kernels/depthwise.cpp)
  std::vector<PostOp> inputActivations;            // that the loop applies to x
  dnnl::memory::data_type type = dnnl::memory::data_type::undef, compute = dnnl::memory::data_type::undef;
  // Of the weights, and of a gradient of weights, in memory: reorders convert.
  dnnl::memory::data_type weightType = dnnl::memory::data_type::undef, targetType = dnnl::memory::data_type::undef;
  bool hasConstantWeight = false;
  int64_t groups = 1;
  Gradient gradient = Gradient::None;
  dnnl::memory::dims strides, low, high, dilations; // dilations as the library counts them, from 0
  dnnl::memory::dims spread;
  std::vector<int64_t> targetOrder; // OfWeights: the permutation of the result's dimensions in the target, if any
  bool operator==(const Convolution &) const = default;
};

// max_pool or sum_pool.
struct Pool {
  uint32_t x = none, result = none;
  bool maximum = false;
  std::vector<int64_t> window, strides, low, dilations;
  bool operator==(const Pool &) const = default;
};

// put: `result` is `old` with `updates` at `indices` along `axis`, or with them added.
struct Update {
  uint32_t old = none, indices = none, updates = none, result = none;
  int64_t axis = 0;
  bool adds = false;
  bool overwritesInput = false; // the region writes it, or what later updates make of it, to the input that `old` is of
  bool operator==(const Update &) const = default;
};

// scatter_along (at one coordinate: the axis) or scatter_nd (at those of the leading dimensions): dense views.
struct Scatter {
  View old, indices, updates;
  uint32_t result = none;
  std::optional<int64_t> axis; // of scatter_along
  std::string_view mode;
  bool operator==(const Scatter &) const = default;
};

// quantized_linear of few rows: dense views.
struct QuantizedLinear {
  View x, weight, scale;
  std::optional<View> zeroPoint, bias;
  uint32_t result = none;
  bool operator==(const QuantizedLinear &) const = default;
};

struct RandomBits {
  uint32_t key = none, offset = none, result = none;
  bool operator==(const RandomBits &) const = default;
};

// sort, top_k, cummax and cummin.
struct Sort {
  std::string_view op;
  uint32_t x = none, values = none, indices = none;
  int64_t axis = 0;
  bool descending = false;
  bool operator==(const Sort &) const = default;
};

struct Attention {
  uint32_t value = none, target = none; // the result, and the value in whose memory it is stored
  uint32_t sums = none;                 // the logarithms of the sums, where they are a result
  View q, k, v, result;                 // where they lie
  std::optional<View> mask;
  double scale = 1;
  bool causal = false;
  bool operator==(const Attention &) const = default;
};

struct AttentionGradient {
  View q, k, v, result, sums, gradient;
  std::optional<View> mask;
  uint32_t ofQ = none, ofK = none, ofV = none; // results
  double scale = 1;
  bool causal = false;
  bool operator==(const AttentionGradient &) const = default;
};

// A group of nodes that one generated function computes.
struct Generated {
  codegen::GroupKind kind = codegen::GroupKind::Pointwise;
  std::string name;                      // for people: "layer_norm+add 128x768"
  std::vector<uint32_t> inputs, outputs; // values, in the order in which the function takes them
  bool hasSymbols = false;               // what it computes depends on the symbols' values
  std::shared_ptr<const codegen::Function> function;
  bool operator==(const Generated &other) const { // equal groups share their machine code
    return kind == other.kind && name == other.name && inputs == other.inputs && outputs == other.outputs &&
           hasSymbols == other.hasSymbols && function->entry == other.function->entry &&
           function->tasks == other.function->tasks && function->grain == other.function->grain &&
           function->scratchBytes == other.function->scratchBytes && function->bytes == other.function->bytes &&
           function->flops == other.function->flops && function->over == other.function->over;
  }
};

struct Unit {
  std::vector<uint32_t> nodes;         // ascending
  std::vector<uint32_t> reads, writes; // values that have memory
  uint32_t overwrites = none;          // a value that an update may change in place, so that other readers come first
  int32_t order = -1;                  // position in its list, once sorted
  std::variant<Product, MergedProduct, QuantizedLinear, Convolution, Pool, Update, Scatter, RandomBits, Sort, Attention,
               AttentionGradient, Generated>
      work;
};

// Everything that is decided before the symbols have values. Steps are made of it alone (schedule.hpp), any number of
// times.
struct Units {
  const MortiseGraph *graph = nullptr; // has to outlive the units
  Values sample;                       // typical values of its symbols
  std::vector<Unit> bindTime, runTime; // in an order in which what is read comes before

  // Per value:
  std::vector<View> views;                 // on a value that has memory
  std::vector<std::optional<View>> roots;  // memory that is not dense: the value's own strides
  std::vector<std::optional<View>> partOf; // had to have dense memory, and turned out to be a dense part of another's
  std::vector<bool> constant;              // as Analysis::constant
  std::shared_ptr<codegen::Compiler> code; // owns the machine code

  // What assignOutputs() adds. Per value:
  std::vector<int32_t> lastRead;    // order of the last of `runTime` that reads it, or -1
  std::vector<uint32_t> outputHome; // the output whose memory it is written to, or none
  std::vector<bool> copied;         // an output is copied from its memory at the end
  // Output position, value: copied when all units have run.
  std::vector<std::pair<uint32_t, uint32_t>> copies;
};

struct Claims;

// Runs after claim(), because generated groups compute what no claim took: moves what depends on constants only to bind
// time, groups and compiles the rest, and sorts the units.
Result<Units> makeUnits(const Analysis &facts, Claims claims);

// Runs when the list of units is complete, because an output that overwrites an input may be written early only by an
// update in place, or when no unit reads that input any more. An output that is all of some value's memory is written
// there directly; the others are copied at the end.
Units assignOutputs(Units units);

// Makes the compiler of generated groups. Alone in compiler.cpp, because conformance/mutants links the plugin with
// another.
Result<std::unique_ptr<codegen::Compiler>> makeCompiler();

// Machine code for groups of the graph, one function each. codegen.cpp
struct CompiledGroups {
  std::shared_ptr<codegen::Compiler> code; // NULL when there are no groups
  std::vector<codegen::Function> functions;
};
Result<CompiledGroups> compileGroups(const MortiseGraph &graph, std::span<const codegen::Group> groups);
// Functions that codegen::Compiler::save wrote in an earlier process: compileGroups links them. Errors:
// MORTISE_CORRUPT.
Result<void> loadFunctions(std::span<const std::byte> saved);

} // namespace mortise::cpu
