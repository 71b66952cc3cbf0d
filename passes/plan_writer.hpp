// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a placement to a plan: buffers, steps, arenas. Links no LLVM.
#pragma once

#include "place.hpp"

#include <mortise/runtime/program.hpp>

namespace mortise::passes {

// Refuses graphs that no plan can express. Errors (INVALID_ARGUMENT): a symbol whose value cannot be read from the
// inputs of a call, constants with symbolic extents, aliases that contradict each other.
Result<void> checkGraph(const MortiseGraph &graph);

// Buffers of values:
//  - A graph output that a region computes: the region writes it to the caller's buffer.
//  - An aliased output: its input's buffer. When a later region still reads that input, the region works on a copy,
//    which is copied back at the end.
//  - A graph output that is an input, a literal or the value of another output: the caller's buffer, by a copy.
//  - A region's output that the plugin can write over one of the region's inputs: that input's memory, when
//    nothing reads the input later and the memory is an arena's or a donated input's. Other values of the same size in
//    bytes as a donated input take its memory after the last read of the input.
//  - A region's input in such memory that nothing reads later and no output lies in: the region's graph says that it is
//    donated, so that the kernel may overwrite it.
// The caller's buffers lie where `homes` says. A device writes to a caller's buffer in its own memory only, else to an
// arena, from which the value is copied at the end.
//  - Everything else: the arena of its memory space, with copies between spaces.
// Errors: those of checkGraph, of cutting out regions, and of a plugin that does not know the size of its own layout.
Result<std::shared_ptr<const plan::PlanT>> writePlan(const MortiseGraph &graph, const Placement &placement,
                                                     const std::vector<Target> &targets,
                                                     const std::vector<DecomposedRefusal> &decomposed = {},
                                                     const Homes &homes = {});

} // namespace mortise::passes
