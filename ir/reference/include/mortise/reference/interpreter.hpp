// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reference interpreter: every op in plain loops, accumulating in f64, rounding once per op. The oracle.
#pragma once

#include <mortise/graph.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mortise::reference {

// Computes a static graph. Buffers are dense row-major, as the ABI has them (an i4 is half a byte, an i1 a byte). An
// output may share memory with the input that it is an alias of; otherwise no two buffers overlap. Errors:
// MORTISE_INVALID_ARGUMENT (an ill-formed op, a wrong number of buffers), MORTISE_UNSUPPORTED (an op that is not ours),
// MORTISE_NEEDS_STATIC, MORTISE_OUT_OF_MEMORY.
Result<void> interpret(const MortiseGraph &graph, std::span<const void *const> inputs, std::span<void *const> outputs);

// The same on several ranks in lock step, which collectives join; `interpret` is the case of one. `inputs[r]` and
// `outputs[r]` are rank r's. Every collective has to be for this number of ranks (MORTISE_INVALID_ARGUMENT).
Result<void> interpretRanks(const MortiseGraph &graph, std::span<const std::vector<const void *>> inputs,
                            std::span<const std::vector<void *>> outputs);

// Why a node cannot be interpreted.
struct Refusal {
  MortiseReason reason = MORTISE_REASON_OP;
  std::string detail; // "" when it can
  explicit operator bool() const { return !detail.empty(); }
};
Refusal refuse(const MortiseNode &node);

// What one run of a node costs.
struct Estimate {
  double flops = 0, bytes = 0, ns = 0;
};
Estimate estimate(const MortiseNode &node);

using ParallelFor = void (*)(int64_t count, int64_t grain, MortiseTask task, void *context);

// A graph checked and its memory planned, to be run many times. Immutable; threads may share it.
class Program {
public:
  // `graph` has to outlive the program.
  static Result<std::unique_ptr<Program>> compile(const MortiseGraph &graph);
  size_t workspaceBytes() const;
  // `parallelFor` may be NULL; `nodeNs` NULL or one slot per node, added to. Throws std::bad_alloc only. Bodies of
  // control flow allocate what they need beside the workspace.
  void run(std::span<const void *const> inputs, std::span<void *const> outputs, void *workspace,
           ParallelFor parallelFor, uint64_t *nodeNs) const;
  ~Program();

private:
  friend Result<void> interpretRanks(const MortiseGraph &graph, std::span<const std::vector<const void *>> inputs,
                                     std::span<const std::vector<void *>> outputs);
  struct Impl;
  explicit Program(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace mortise::reference
