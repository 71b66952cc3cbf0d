// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shrinks a failing graph to a small region that still fails, with the inputs that it had.
#pragma once

#include "files.hpp"

#include <functional>

namespace mortise::tool {

struct Reduced {
  std::shared_ptr<const Graph> graph;
  Tensors inputs;
  size_t tried = 0; // regions
};

// `fails` is asked about regions with the values that the reference interpreter gives their inputs. Errors: the whole
// graph does not fail, or cannot be interpreted.
Result<Reduced> reduce(const Graph &graph, const Tensors &inputs,
                       const std::function<Result<bool>(const Graph &, const Tensors &)> &fails);

// Runs a command with a limit in seconds. 0: success; anything else, a signal or the limit reached: failure, said in
// words.
struct Ended {
  bool good;
  std::string how; // "exit status 1", "signal 11", "no end within 60 s"
};
Result<Ended> runCommand(const std::vector<std::string> &arguments, double seconds);

} // namespace mortise::tool
