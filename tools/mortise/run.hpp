// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a graph on the configured devices, once or many times. Each function writes to standard output.
#pragma once

#include "files.hpp"
#include "host.hpp"

namespace mortise::tool {

// Runs a static graph once and says of each output its type, its range and mean, and how many elements are not finite.
// `output`: a file for the outputs' bytes, dense, one after the other; none when empty.
Result<void> runGraph(const Graph &graph, Tensors inputs, const Host &host, const std::string &output);

// Runs a static graph for about `seconds`, of which the first tenth is not counted; prints how long compilation,
// binding of constants and calls took, and the steps that take most of the time.
Result<void> benchGraph(const Graph &graph, Tensors inputs, const Host &host, double seconds, bool json);

} // namespace mortise::tool
