// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares a graph's results on a device with those of the reference interpreter.
#pragma once

#include "files.hpp"

#include <mortise/runtime/registry.hpp>

namespace mortise::tool {

// The outcome of a comparison. A result may differ from the reference's, relative to the largest finite magnitude of
// its output, by `tolerance` or 256 units in the last place of its dtype, whichever is larger. NaN and infinities must
// be in the same places; integers and booleans must be equal.
struct Verdict {
  bool good = true;
  std::string detail; // the failure: output, worst element, expected and found
};

// Compiles and runs a static graph. Errors: it does not compile, or the run fails.
Result<Verdict> check(const Graph &graph, const Tensors &inputs, std::shared_ptr<runtime::Registry> registry,
                      const runtime::Config &config, double tolerance);

// The elements of a dense tensor of a float dtype.
std::vector<double> numbers(const MortiseType &type, std::span<const std::byte> bytes);

// The outputs of a static graph, by the reference interpreter.
Result<Tensors> interpreted(const MortiseGraph &graph, const Tensors &inputs);

// The value of every MortiseValue of a static graph, by the reference interpreter.
Result<Tensors> allValues(const MortiseGraph &graph, const Tensors &inputs);

} // namespace mortise::tool
