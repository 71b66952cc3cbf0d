// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One call of a kernel, with tensors of its own.
#pragma once

#include "kernel.hpp"

namespace mortise::conformance {

struct Wrong {
  std::string kind, why; // Verdict's; both "" when nothing is
};

class Call {
public:
  // `edge`: which end of each tensor lies at a page that nobody may touch. `poison`: what outputs, gaps and workspaces
  // hold before. `isClocked`: the kernel is asked for the time of each step.
  Call(Kernel &kernel, const Case &of, Edge edge, std::byte poison, bool isClocked = false)
      : kernel(kernel), of(of), view(kernel.graph->view()), edge(edge), poison(poison), isClocked(isClocked) {}
  ~Call();
  Call(const Call &) = delete;

  // Enqueues, waits, and reads everything back. Errors: a slot fails.
  Result<void> run();
  // What has been written that should not have been.
  Wrong damage() const;
  Tensors outputs; // dense
  double cpuSeconds = 0, runSeconds = 0;

private:
  struct Place { // of one tensor in memory
    const MortiseType *type = nullptr;
    std::optional<Buffer> buffer;
    std::vector<std::byte> before, after; // with the gaps
    bool isIntact = true;
    bool isWritten = false; // by the kernel: an output lies there
  };
  Result<void> place(Place &at, const MortiseType &type, uint32_t space, const std::vector<std::byte> *dense);
  Result<void> placeAll();
  Result<void> bind();
  Result<void> makeWorkspace();
  Result<void> makeFrame();
  Result<void> enqueue();
  Result<void> readBack();
  size_t homeOf(size_t output) const;
  const MortiseGraph &staticTypes() const;

  Kernel &kernel;
  const Case &of;
  const MortiseGraph &view;
  const Edge edge;
  const std::byte poison;
  const bool isClocked;
  std::optional<tool::Guarded> clocks; // nanoseconds of each step
  std::vector<Place> places;           // of the inputs, then of the outputs
  std::vector<size_t> outputPlaces;    // into `places`: an input's where it is written in place
  std::optional<Buffer> workspace;
  bool workspaceIntact = true;
  MortiseConstants *constants = nullptr;
  MortiseInstance *instance = nullptr;
  MortiseFrame *frame = nullptr;
  bool isBound = false;
  uint64_t workspaceBytes = 0;
};

} // namespace mortise::conformance
