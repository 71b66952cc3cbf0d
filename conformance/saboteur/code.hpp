// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What runs for a region: its nodes one after the other, each by the reference interpreter or as the planted fault has
// it.
#pragma once

#include "node.hpp"
#include "patch.hpp"

#include <mortise/plugin.hpp>

#include <atomic>
#include <memory>

namespace saboteur {

// The memory of one call.
struct Buffers {
  std::vector<std::byte *> inputs, outputs;
  std::byte *workspace = nullptr;
  uint64_t *stepNs = nullptr;
};

class Code {
public:
  // `region` outlives the code.
  static Result<std::shared_ptr<Code>> make(const MortiseGraph &region);
  void run(const Buffers &buffers) const;

  const MortiseGraph &region;
  uint64_t workspaceBytes = 0;

private:
  // Where a value lies during a call.
  struct Place {
    enum { Nowhere, Input, Output, Workspace } kind = Nowhere;
    size_t at = 0; // number of the input or output, or offset
  };
  // A node alone in a graph, whose inputs are the node's operands, each once.
  struct Step {
    explicit Step(const MortiseNode &from) : patched(from) {}
    PatchedNode patched;
    MortiseGraph graph{};
    const MortiseNode *node = nullptr;
    std::vector<const MortiseValue *> inputs;
    std::vector<size_t> operands; // of each of `inputs`, the first operand that it is
    std::unique_ptr<mortise::reference::Interpreter> program;
    size_t kept = 0; // offset in the workspace
  };
  struct Copy { // at the end of a call
    Place from;
    Place to;
    size_t bytes;
  };

  explicit Code(const MortiseGraph &region) : region(region), places(region.value_count) {}
  Result<void> addStep(const MortiseNode &node);
  void planOutputs();
  void planWorkspace();
  void runStep(const Step &step, const Buffers &buffers) const;
  std::byte *at(const Place &place, const Buffers &buffers) const;
  Tensor tensor(const MortiseValue *value, const Buffers &buffers) const;

  std::vector<std::unique_ptr<Step>> steps;
  std::vector<Place> places; // by value
  std::vector<Copy> copies;
  size_t scratchBytes = 0; // of the interpreter, at the begin of the workspace
  mutable std::atomic<uint64_t> runs{0};
};

} // namespace saboteur
