// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a placement to a plan: buffers, steps, arenas. Links no LLVM.
#pragma once

#include "place.hpp"

#include <mortise/runtime/program.hpp>

namespace mortise::passes {

// What no plan can express. Errors (INVALID_ARGUMENT): a symbol that no call would know the value of, constants with
// symbolic extents, aliases that contradict each other.
Result<void> checkGraph(const MortiseGraph &graph);

// Where values live:
//  - An output that a region computes is written to the caller's buffer by that region.
//  - An aliased output is written to its input's buffer. When that input is still read by a later region, the region
//  works on a
//    copy, and the copy goes back at the end.
//  - An output that is an input, a literal or another output's value is a copy.
//  - An output that the region's plugin can write over one of its inputs takes that input's memory, where nobody reads
//  it later and it is the arena's or
//    a donated input's. What else has as many bytes as a donated input lies there once the input is read.
//  - Everything else lies in the arena of its memory space, and crosses spaces by copies.
// Errors: those of checkGraph, and of cutting out regions.
Result<std::shared_ptr<const plan::PlanT>> writePlan(const MortiseGraph &graph, const Placement &placement,
                                                     const std::vector<Target> &targets,
                                                     const std::vector<Lost> &decomposed = {});

} // namespace mortise::passes
