// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Many runs on the strict plugin: random graphs with delays by seed, waits that are left out, calls that fail. The
// tests run a few of them, the figures `strict-device` and `device-faults` many.
#pragma once

#include "strict.hpp"

#include <map>

namespace mortise::test {

// Devices, and the number of parts that a graph is split in for them.
struct Places {
  const char *devices;
  int split;
};

inline constexpr Places everyPlace[] = {{"strict:0", 1},
                                        {"strict:0,cpu", 2},
                                        {"strict:0,strict:1", 2},
                                        {"strict:0,aloof:0", 2}, // copies pass through the host
                                        {"strict:0,strict:1,aloof:0", 3}};

// With layouts and memory spaces of the plugin's own for every second pair of seeds.
std::string settings(uint64_t seed, int split, int delayUs);

// Runs of programs without a fault.
struct Sweep {
  uint64_t runs = 0; // of a program, from its load to its end
  uint64_t wrong = 0, missingWaits = 0, leaks = 0;
  std::vector<std::string> problems;
  void add(const Found &found, uint64_t loads, const std::string &what);
};
// Graphs by seed, each second one symbolic, once per seed of delays: with the host's tensors, and for each second seed
// with tensors of a device.
Sweep sweepGraphs(uint64_t first, uint64_t count, uint64_t delays, std::span<const Places> places);

// Faults that are planted one by one. Each has to be found.
struct Plants {
  std::map<std::string, uint64_t> planted;   // by slot
  std::map<std::string, uint64_t> redundant; // by slot: set aside, because nothing could come of them
  std::vector<std::string> missed;
  uint64_t count() const;
};
// Leaves out each wait, and each event, of calls that wait and of queued calls.
Plants leaveOutWaits(uint64_t first, uint64_t count, std::span<const Places> places);
// Has each call of each slot fail once, with the codes by turns. A fault is found when the error names the plugin and
// the call, and nothing is left behind; what ends something, and what is only a question, may fail without an error,
// and a kernel that cannot be saved or loaded is compiled.
Plants failEveryCall(uint64_t first, uint64_t count, std::span<const MortiseCode> codes,
                     std::span<const Places> places);

} // namespace mortise::test
