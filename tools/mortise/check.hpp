// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Does a graph compute on a device what the reference interpreter says?
#pragma once

#include "files.hpp"

#include <mortise/runtime/registry.hpp>

namespace mortise::tool {

// How far a result may lie from the reference's, relative to the largest finite magnitude of its output: `tolerance`,
// or 256 units in the last place of its dtype where that is more. Not-a-numbers and infinities have to be in the same
// places, integers and booleans are exact.
struct Verdict {
  bool good = true;
  std::string detail; // what failed: the output, the worst element, expected and found
};

// Compiles and runs a static graph. Errors: it does not compile, or the run fails.
Result<Verdict> check(const Graph &graph, const Tensors &inputs, std::shared_ptr<runtime::Registry> registry,
                      const runtime::Config &config, double tolerance);

// The value of every MortiseValue of a static graph, by the reference interpreter.
Result<Tensors> allValues(const MortiseGraph &graph, const Tensors &inputs);

} // namespace mortise::tool
