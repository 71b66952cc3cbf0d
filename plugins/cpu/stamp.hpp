// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Repeats the units of one of several equal layers for the others (docs/decisions/0019).
#pragma once

#include "repeat.hpp"
#include "units.hpp"

namespace mortise::cpu {

// Runs between makeUnits() and assignOutputs(). `units` are those of `shorter`, a graph that `whole` becomes when
// copies of equal layers are left out; the result is what `whole` has. nullopt when the copies kept were not decided
// alike: then the whole graph has to be analysed.
std::optional<Units> stamp(const Units &units, const ShortGraph &shorter, const MortiseGraph &whole);

} // namespace mortise::cpu
