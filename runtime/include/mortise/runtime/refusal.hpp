// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What plugins do not run, and why.
#pragma once

#include <cstdint>
#include <string>

namespace mortise::runtime {

// The name of a MortiseReason: "op", "dtype", ...; "unknown" for any other number.
const char *reasonName(int32_t reason);

// Why one device does not take one node of a program that could not be placed.
struct Uncovered {
  uint32_t node = 0;          // index in the graph that was placed, that is, after the passes and all decompositions
  std::string op, location;   // "mortise.add"; the location given to the builder, "" without one
  std::string device, plugin; // "cpu:0", "cpu"
  int32_t reason = 0;         // MortiseReason; 0 where the plugin gave none
  std::string detail;         // may be empty
};

// A region that its plugin offered and then cannot run, and the plugin's words: it answered MORTISE_UNSUPPORTED where
// the kernel was to be made or constants to be bound, or its process ended there or in a call.
struct RefusedRegion {
  uint32_t region = 0; // of the plan
  std::string reason;
};

} // namespace mortise::runtime
