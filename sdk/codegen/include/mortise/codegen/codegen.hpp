// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The code generation toolkit, which a plugin may link: region -> fused groups -> structured loops -> machine code. A
// plugin marks the nodes that it computes with library calls, `fuse` groups the remaining nodes, and `Compiler` turns
// the groups into functions.
#pragma once

#include <mortise/result.hpp>
#include <mortise/views.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace llvm {
class Module;
}

namespace mortise::codegen {

struct Target {
  std::string triple, cpu, features;
  unsigned vectorBits = 0; // 512 with AVX-512, 256 with AVX2, else 128
  unsigned threads = 1;
  static Target host(unsigned threads);
  // The host restricted to one x86-64 level ("x86-64-v2", "x86-64-v3", "x86-64-v4"), or unrestricted ("native").
  // Errors: MORTISE_UNSUPPORTED, naming the instruction sets that the host lacks; MORTISE_INVALID_ARGUMENT for another
  // name.
  static Result<Target> ofLevel(std::string_view level, unsigned threads);
};

// Rows: reductions over trailing dimensions, vectorised along them. Columns: reductions over outer dimensions,
// vectorised along those that are kept. Scan: running sums or products. Rows and Columns include producers and
// consumers. Product: a product of tensors, with what is computed of its operands and its result. Sort: one node that
// sorts, and views in front of it.
enum class GroupKind { Pointwise, Rows, Columns, Scan, Product, Sort };

// The nodes that one generated function computes. `inputs` and `outputs` are the values in memory at its border:
// `inputViews[i]` and `outputViews[i]` describe the memory of inputs[i] and outputs[i], dense where there is no view.
struct Group {
  GroupKind kind = GroupKind::Pointwise;
  std::vector<uint32_t> nodes; // ascending
  std::vector<uint32_t> inputs, outputs;
  std::vector<View> inputViews, outputViews;
  // The position of the input that a put may update in place: outputs[0] may then be the memory of inputs[inPlace], and
  // only the updated elements are written. -1: no output may overlap an input.
  int inPlace = -1;
  std::string name; // for people: "layer_norm+add 128x768"
  // Of a bundle: groups that do not need each other, which share a launch on a GPU. Inputs and outputs are those of the
  // parts, one behind the other; `inPlace` is each part's own.
  std::vector<Group> parts;
};

struct FuseRequest {
  const MortiseGraph *graph = nullptr;
  std::vector<bool> taken;       // per node: the plugin computes it, or has folded it away
  std::vector<bool> materialise; // per value: it needs dense memory of its own, because a library call reads it so
  // View ops between a value and a library call that reads it in place through these views are not materialised.

  // Per value, or empty: the layout of a result that is not dense (`base` is the value itself). Those of puts are.
  std::vector<std::optional<View>> layouts;
};

// `views[v]` is the view through which a value without memory of its own is read. Groups are ordered so that each comes
// after those it reads from. Every node is taken, in a group, a pure view, or dead. A cheap node may be recomputed in
// several groups.
struct FuseResult {
  std::vector<Group> groups;
  std::vector<std::optional<View>> views; // per value
};
// What fusion has to know of a machine.
struct FuseTarget {
  unsigned lanes = 1;        // elements of a 4-byte type side by side
  unsigned threads = 1;      // that share the rows of a group
  bool contractions = false; // groups compute products, convolutions and pools, too
  bool sorts = false;        // and sort, top_k and scatters; many updates of a put are sorted by where they go
};
Result<FuseResult> fuse(const FuseRequest &request, const FuseTarget &target);
Result<FuseResult> fuse(const FuseRequest &request, const Target &target);

// `yes` when groups can compute the node, with static or symbolic extents; otherwise the reason for a refusal.
struct Support {
  bool yes = true;
  MortiseReason reason = MORTISE_REASON_OP;
  std::string detail;
};
Support supports(const MortiseNode &node);

// entry(inputs, outputs, scratch, symbols, begin, end) computes the tasks [begin, end) out of `tasks`, which is 0 when
// there is nothing to compute. Tasks are independent. Pointers need the alignment of the element type, `scratch` 64
// bytes. Constants of the graph (mortise.constant) are part of the code. Outputs overlap nothing else, except as
// Group::inPlace and `over` allow. One function serves all values of the graph's symbols: `symbols` points to the
// values (NULL when the graph has no symbols), and the members below are expressions to evaluate for each set of
// values.
struct Function {
  using Entry = void (*)(const void *const *inputs, void *const *outputs, void *scratch, const int64_t *symbols,
                         int64_t begin, int64_t end);
  Entry entry = nullptr;
  Dim tasks = 1;
  Dim grain = 1;        // tasks that are worth handing to a thread together
  Dim scratchBytes = 0; // per thread, 64-byte aligned
  Dim bytes, flops;     // of one run over all tasks
  // Per output: the inputs, as positions in Group::inputs, whose memory it may reuse; at most one output may reuse an
  // input. Every read of such an input is at the element that the output writes, in the same task and before the write.
  std::vector<std::vector<uint32_t>> over;
};

// A change of each function's LLVM IR before machine code is made of it: counters for a profiler, checks, experiments.
struct Transform {
  std::string name; // what tells its code from that of another transform in saved bytes; "" is for none
  std::function<Result<void>(llvm::Module &)> run; // called by several threads; an error ends the compilation
};

// Owns the machine code. Functions live as long as the compiler. Thread safe.
class Compiler {
public:
  static Result<std::unique_ptr<Compiler>> create(const Target &target, Transform transform = {});
  // Groups with the same ops, shapes, strides and symbol ranges are compiled once, also across calls. Compilation uses
  // up to Target::threads threads.
  Result<std::vector<Function>> compile(const MortiseGraph &graph, std::span<const Group> groups);
  // The code of functions that this compiler made, as bytes for another compiler with an equal target in the same
  // build. Errors: MORTISE_INVALID_ARGUMENT (not a function of this compiler).
  Result<std::vector<std::byte>> save(std::span<const Function::Entry> entries) const;
  // `compile` then links the functions in these bytes instead of compiling them. The bytes are trusted: they hold
  // machine code. Errors: MORTISE_CORRUPT.
  Result<void> load(std::span<const std::byte> bytes);
  ~Compiler();

  // Functions compiled so far (equal groups count once), those linked from loaded bytes, and the time of each stage,
  // summed over threads.
  struct Statistics {
    size_t functions = 0, reused = 0, loaded = 0, codeBytes = 0;
    double planSeconds = 0, mlirSeconds = 0, llvmSeconds = 0, linkSeconds = 0;
  };
  Statistics statistics() const;

private:
  struct Impl;
  explicit Compiler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace mortise::codegen
