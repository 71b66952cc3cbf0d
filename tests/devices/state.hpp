// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A graph with states, such as a decoder with its cache, whose states and weights stay on a strict device.
#pragma once

#include <mortise/portable/graph.hpp>

#include <cstdint>
#include <string>

namespace mortise::test {

struct StateRun {
  uint64_t calls = 0, states = 0, stateBytes = 0;
  uint64_t callerBytes = 0; // per call: the host's inputs and outputs
  uint64_t copiedBytes = 0; // by all calls, to and from the device
  std::string problem;      // what was wrong, or ""
};

// Runs a static graph on "strict:0" with random inputs. Its states and weights lie in device memory, its other inputs
// and its outputs in the host's. Compares the outputs of each call, and the states after the last one, with the
// reference interpreter bit by bit.
StateRun runWithStates(const Graph &graph, int calls);

} // namespace mortise::test
