// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A graph compiled and loaded on the configured devices, with its tensors.
#pragma once

#include "files.hpp"

#include <mortise/runtime/program.hpp>

#include <memory>

namespace mortise::tool {

class Execution {
public:
  // Compiles a static graph, which has to outlive the execution, and binds its constants. The tensors are the
  // execution's own.
  static Result<Execution> make(const Graph &graph, Tensors inputs, std::shared_ptr<runtime::Registry> registry,
                                const runtime::Config &config);
  // Of a program that is loaded. `signature`: its inputs, outputs and aliases, static; has to outlive the execution.
  static Result<Execution> make(std::shared_ptr<runtime::Program> program, const MortiseGraph &signature,
                                Tensors inputs);

  // Computes the outputs. State and aliased inputs keep what a run writes to them.
  Result<void> run();
  Result<void> runProfiled();

  // The bytes of an output, dense; valid until the next run.
  std::span<const std::byte> output(size_t number) const;
  const runtime::Program &program() const { return *loaded; }
  double compileSeconds = 0, bindSeconds = 0;

private:
  Tensors inputs, outputs;
  std::vector<runtime::Tensor> sources, targets;
  std::vector<size_t> homes; // per output: the input that it is written to, or `none`
  static constexpr size_t none = SIZE_MAX;
  std::shared_ptr<runtime::Program> loaded;
};

} // namespace mortise::tool
