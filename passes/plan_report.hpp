// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a plan tells people of its placement. Links no LLVM.
#pragma once

#include "place.hpp"

namespace mortise::plan {
struct BufferT;
struct RegionT;
} // namespace mortise::plan

namespace mortise::passes {

// The bytes that a buffer takes with these values of the symbols, none for a buffer without symbols.
uint64_t bytesOf(const plan::BufferT &buffer, std::span<const int64_t> values);

// Writes who refused what, and which candidates were declined.
void reportPlacement(const MortiseGraph &graph, const Placement &placement, const std::vector<Target> &targets,
                     const std::vector<DecomposedRefusal> &decomposed, plan::PlanT &plan);

// Writes into each copy of the plan what it was taken to cost. `memories`: the device of each of the plan's spaces,
// NULL for the host's.
void reportCopies(const MortiseGraph &graph, const std::vector<Target> &targets,
                  const std::vector<const runtime::Device *> &memories, plan::PlanT &plan);

// Writes what a call of the region copies in the process of an isolated plugin; nothing for other plugins.
void reportProcessCopies(const MortiseGraph &region, const Target &target, plan::RegionT &into);

} // namespace mortise::passes
