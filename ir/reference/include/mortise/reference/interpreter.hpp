// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reference interpreter: every op in plain loops, accumulating in f64, rounding once per op. The oracle.
#pragma once

#include <mortise/graph.hpp>
#include <mortise/reference/number.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mortise::reference::inline MORTISE_ARITHMETIC {

// Computes a static graph. Buffers are dense row-major in the layout of the ABI (an i4 is half a byte, an i1 a byte).
// An aliased output may share memory with its input; no other buffers may overlap. Errors: MORTISE_INVALID_ARGUMENT (an
// ill-formed op, a wrong number of buffers), MORTISE_UNSUPPORTED (an op of a vendor), MORTISE_NEEDS_STATIC,
// MORTISE_OUT_OF_MEMORY.
Result<void> interpret(const MortiseGraph &graph, std::span<const void *const> inputs, std::span<void *const> outputs);

// Computes the graph on several ranks in lock step, so collectives see the data of all ranks. `inputs[r]` and
// `outputs[r]` are those of rank r. Errors: also MORTISE_INVALID_ARGUMENT (a collective for another number of ranks).
Result<void> interpretRanks(const MortiseGraph &graph, std::span<const std::vector<const void *>> inputs,
                            std::span<const std::vector<void *>> outputs);

// Why a node cannot be interpreted.
struct Refusal {
  MortiseReason reason = MORTISE_REASON_OP;
  std::string detail; // "" when the node can be interpreted
  explicit operator bool() const { return !detail.empty(); }
};
Refusal refuse(const MortiseNode &node);

// The estimated cost of one run of a node.
struct Estimate {
  double flops = 0, bytes = 0, ns = 0;
};
Estimate estimate(const MortiseNode &node);

using ParallelFor = void (*)(int64_t count, int64_t grain, MortiseTask task, void *context);

// A checked graph with planned memory, to be run many times. Immutable; threads may share it.
class Interpreter {
public:
  // `graph` must outlive the program.
  static Result<std::unique_ptr<Interpreter>> compile(const MortiseGraph &graph);
  size_t workspaceBytes() const;
  // `parallelFor` may be NULL. `nodeNs` is NULL or has one element per node, to which the node's time in ns is added.
  // Throws std::bad_alloc only. Bodies of control flow allocate memory of their own in addition to the workspace.
  void run(std::span<const void *const> inputs, std::span<void *const> outputs, void *workspace,
           ParallelFor parallelFor, uint64_t *nodeNs) const;
  ~Interpreter();

private:
  friend Result<void> interpretRanks(const MortiseGraph &graph, std::span<const std::vector<const void *>> inputs,
                                     std::span<const std::vector<void *>> outputs);
  struct Impl;
  explicit Interpreter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace mortise::reference::inline MORTISE_ARITHMETIC
