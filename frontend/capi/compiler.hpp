// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The only interface to MLIR: no other file in this folder includes an LLVM header.
#pragma once

#include <mortise/ir/builder.hpp>
#include <mortise/passes/compile.hpp>

namespace mortise::capi {

// A graph under construction. Each has its own context, so that builders share nothing.
class Compiler {
public:
  // The registry, which knows the ops of vendors, outlives it.
  Compiler(std::string_view name, const runtime::Registry &registry);
  ~Compiler();
  ir::Builder &builder();
  std::string text() const;
  // Consumes the graph. passes::compileAndLoad documents it.
  Result<std::shared_ptr<runtime::Program>> compile(const std::shared_ptr<const runtime::Registry> &registry,
                                                    const runtime::Config &config, passes::Timings &timings,
                                                    std::vector<passes::Uncovered> &uncovered,
                                                    const passes::Homes &homes);

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace mortise::capi
