// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shrinks a failing graph to a small region that still fails, with the inputs that the region has in the graph.
#pragma once

#include "files.hpp"

#include <functional>

namespace mortise::tool {

struct Reduced {
  std::shared_ptr<const Graph> graph;
  Tensors inputs;
  size_t tried = 0; // regions
};

// `fails` is called with regions and the values that the reference interpreter computes for their inputs. Errors: the
// whole graph does not fail, or cannot be interpreted.
Result<Reduced> reduce(const Graph &graph, const Tensors &inputs,
                       const std::function<Result<bool>(const Graph &, const Tensors &)> &fails);

} // namespace mortise::tool
