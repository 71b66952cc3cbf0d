// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a case has to move and to compute, and how long a device needs for that at least (the level perf).
#pragma once

#include "../cases/case.hpp"

#include <nlohmann/json.hpp>

namespace mortise::conformance {

// Of one run. `bytes`: each element that has to be read once, and each result once; elements that a gather, a slice or
// a branch leaves alone do not count. `flops`: two for each multiply-add of a product of matrices, a convolution or an
// attention, one for each element of a pool's window, and by convention one for each element that any other op reads
// or writes, whichever are more.
struct Work {
  double bytes = 0, flops = 0;
  bool ofProducts = false; // multiply-adds, which a device's rate of products bounds
};
Work workOf(const Case &of);

struct Speed {
  double coldSeconds = 0, warmSeconds = 0; // to propose and compile: the first time in the process, and again
  // Of a run: the fastest batch, as bandwidth and peak are those of the fastest, because what else a machine does only
  // adds to a time; and the median, which tells how much it did.
  double runSeconds = 0, medianSeconds = 0;
  uint64_t runs = 0;
  Work work;
  double bandwidth = 0; // bytes per second of a copy of the same footprint
  double peak = 0;      // operations per second of the fastest product in the case's element types; 0: none is known

  // The least time: of the bytes at that bandwidth, or of products at that rate.
  double roofSeconds() const;
  double share() const { return roofSeconds() / runSeconds; }
  bool isBoundByPeak() const;
  nlohmann::ordered_json json() const;
  static Speed read(const nlohmann::ordered_json &json);
};

} // namespace mortise::conformance
