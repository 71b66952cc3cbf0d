// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The code generation toolkit that a plugin may link: region -> fused groups -> structured loops -> machine code.
// A plugin marks the nodes it computes with library calls; `fuse` groups the rest; `Compiler` turns groups into
// functions.
#pragma once

#include <mortise/result.hpp>
#include <mortise/views.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mortise::codegen {

struct Target {
  std::string triple, cpu, features;
  unsigned vectorBits = 0; // 512 where the target has AVX-512, 256 where it has AVX2, else 128
  unsigned threads = 1;
  static Target host(unsigned threads);
  // The host restricted to an x86-64 level ("x86-64-v2", "x86-64-v3", "x86-64-v4"), or all of it ("native"). An error
  // names the instructions that the host lacks.
  static Result<Target> ofLevel(std::string_view level, unsigned threads);
};

using mortise::denseView;
using mortise::View;
using mortise::viewThrough;

enum class GroupKind {
  Pointwise,
  Rows,
  Columns,
  Scan
}; // Rows: reductions over trailing dimensions, with producers and consumers

// Nodes computed by one generated function. `inputs` and `outputs` are values with memory at the border; an input's
// memory is described by `inputViews[i]`, and outputs are written densely.
struct Group {
  GroupKind kind = GroupKind::Pointwise;
  std::vector<uint32_t> nodes; // ascending
  std::vector<uint32_t> inputs, outputs;
  std::vector<View> inputViews;
  // A put that may work in place: outputs[0] of the function may be the memory of inputs[inPlace], and then nothing but
  // the updates is written. -1: no output may overlap an input.
  int inPlace = -1;
  std::string name; // for people: "layer_norm+add 128x768"
};

struct FuseRequest {
  const MortiseGraph *graph = nullptr;
  std::vector<bool> taken;       // per node: computed by the plugin itself, or folded away by it
  std::vector<bool> materialise; // per value: must have dense memory of its own (a library call reads it so)
  // Values that a library call reads in place through these views need no materialising of the view ops between.

  // Per value, or empty: the memory of a taken node's result that is not dense (base is the value itself).
  std::vector<std::optional<View>> layouts;
};

// `views[v]` says, for every value that needs no memory of its own, what it is a view of. Groups come in a valid order.
// Every node is in exactly one of: taken, a group, a pure view, dead. A cheap node may be recomputed in several groups.
struct FuseResult {
  std::vector<Group> groups;
  std::vector<std::optional<View>> views; // per value
};
Result<FuseResult> fuse(const FuseRequest &request, const Target &target);

// True when groups can compute this node; else the reason, for a refusal. Extents may be symbolic.
struct Support {
  bool yes = true;
  MortiseReason reason = MORTISE_REASON_OP;
  std::string detail;
};
Support supports(const MortiseNode &node);

// entry(inputs, outputs, scratch, symbols, begin, end) computes tasks [begin, end) of `tasks` (0 when there is nothing
// to compute). Tasks are independent. Pointers need the alignment of the element only, scratch 64 bytes. Constants of
// the graph (mortise.constant) are part of the code. Outputs overlap nothing, except as Group::inPlace and `over` say.
// One function serves all values of the graph's symbols: `symbols` points to them (NULL where the graph has none), and
// the numbers below are extents over them, to be evaluated per set of values.
struct Function {
  using Entry = void (*)(const void *const *inputs, void *const *outputs, void *scratch, const int64_t *symbols,
                         int64_t begin, int64_t end);
  Entry entry = nullptr;
  Dim tasks = 1;
  Dim grain = 1;        // tasks worth one hand-over to a thread
  Dim scratchBytes = 0; // per thread, 64-byte aligned
  Dim bytes, flops;     // of one run over all tasks
  // Per output: the inputs (positions in Group::inputs) in whose memory it may be written, one output in each. All
  // reads of an element are then at the place where the output's stands, in the same task and before it is written.
  std::vector<std::vector<uint32_t>> over;
};

// Owns the machine code. Functions live as long as the compiler. Thread safe.
class Compiler {
public:
  static Result<std::unique_ptr<Compiler>> create(const Target &target);
  // Equal groups (same ops, shapes, strides, and ranges of the symbols in them) compile once, also across calls.
  // Compiles in parallel threads.
  Result<std::vector<Function>> compile(const MortiseGraph &graph, std::span<const Group> groups);
  ~Compiler();

  // Functions made so far (equal groups count once) and the time each took, summed over threads.
  struct Statistics {
    size_t functions = 0, reused = 0, codeBytes = 0;
    double planSeconds = 0, mlirSeconds = 0, llvmSeconds = 0, linkSeconds = 0;
  };
  Statistics statistics() const;

private:
  struct Impl;
  explicit Compiler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace mortise::codegen
