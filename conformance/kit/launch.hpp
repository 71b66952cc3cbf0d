// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A kernel of a static case with its constants bound, for as many calls as a probe makes, in memory of the probe's
// choice.
#pragma once

#include "../../tools/mortise/stream.hpp"
#include "../cases/case.hpp"
#include "judge.hpp"
#include "kernel.hpp"

#include <span>

namespace mortise::conformance {

// The memory of calls. Aliases and pairs in place have no place here.
struct Operands {
  std::vector<Buffer> inputs, outputs;
  std::optional<Buffer> workspace;
};

class Launch {
public:
  // Binds the constants among the case's inputs. The kernel and the case outlive it.
  static Result<std::unique_ptr<Launch>> make(Kernel &kernel, const Case &of);
  ~Launch();
  Launch(const Launch &) = delete;

  Kernel &kernel;
  const Case *of;
  uint64_t workspaceBytes = 0, packedBytes = 0;
  uint64_t heldBytes = 0; // by which the heap grew as the constants were bound

  // With the case's inputs, and outputs and a workspace full of other bytes.
  Result<Operands> operands() const;
  // Writes the case's inputs, and other bytes to outputs and workspace.
  Result<void> refill(Operands &given) const;
  Result<void> spoil(Operands &given) const; // outputs and workspace alone
  // Ends the constants, and binds those of another case with the same graph at their addresses.
  Result<void> rebind(const Case &other);
  void fill(tool::Call &call, const Operands &given) const;

  Result<MortiseFrame *> makeFrame(); // NULL where the plugin makes none; lives as long as this object
  // In a frame of its own, if the plugin makes frames.
  Result<void> enqueue(tool::Call &call, MortiseStream *stream);
  // `unchanged`: as MortiseEnqueueArgs has it; empty: nothing is the same.
  Result<void> enqueueIn(MortiseFrame *frame, std::span<const uint64_t> unchanged, tool::Call &call,
                         MortiseStream *stream);
  Result<Tensors> read(Operands &given) const;
  // "" when outputs are as the case expects them, and nothing beside has been written.
  Result<std::string> wrongIn(Operands &given) const;
  // Of outputs that have been read already.
  Result<std::string> wrongWith(const Tensors &found) const;

  MortiseConstants *constants() const { return bound; }
  size_t wordsOfUnchanged() const;

private:
  Launch(Kernel &kernel, const Case &of) : kernel(kernel), of(&of) {}
  Result<void> bind();
  void unbind();

  std::vector<std::optional<Buffer>> weights;
  MortiseConstants *bound = nullptr;
  bool isBound = false;
  std::vector<MortiseFrame *> frames;
};

} // namespace mortise::conformance
