// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The one seam to MLIR: everything else in this folder sees no LLVM header.
#pragma once

#include <mortise/ir/builder.hpp>
#include <mortise/passes/compile.hpp>

namespace mortise::capi {

// A graph under construction, with a context of its own, so that builders share nothing.
class Compiler {
public:
  explicit Compiler(std::string_view name);
  ~Compiler();
  ir::Builder &builder();
  std::string text() const;
  // Consumes the graph. `uncovered`: as passes::compile fills it.
  Result<std::shared_ptr<const plan::PlanT>> compile(const runtime::Registry &registry, const runtime::Config &config,
                                                     passes::Timings &timings,
                                                     std::vector<passes::Uncovered> &uncovered);

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace mortise::capi
