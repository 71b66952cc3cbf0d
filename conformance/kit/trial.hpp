// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs cases on a device. For a process of its own: a plugin that is judged may crash or hang.
#pragma once

#include "kernel.hpp"

#include <functional>

namespace mortise::conformance {

struct TrialTask {
  uint64_t seed = 0;
  double seconds = 1;               // of a case of the level stress
  std::string folder;               // for regions of networks that fail; "": none
  std::function<void()> stillThere; // called while something takes long
};

class Trials {
public:
  Trials(Device &device, TrialTask task) : device(device), task(std::move(task)) {}

  // Compiles the case, unless its graph is that of the case before. Runs it three times: twice with the last byte of
  // each tensor beside a page that nobody may touch, and once with the first; workspaces lie alike. Outputs and
  // workspaces hold other bytes in each run, and the last is clocked. Afterwards outputs have to be as expected, and as
  // in the run before where the plugin promises determinism; inputs, the gaps of strided tensors and all memory beside
  // have to be as they were.
  Verdict run(const Point &point);

  // Bytes of ordinary memory that are not given back each time that the case is compiled, run and destroyed; of runs
  // alone where `compiles` is false.
  uint64_t leakOf(const Point &point, bool compiles);

private:
  Result<void> prepare(const Case &made, Refused &refused);

  Device &device;
  const TrialTask task;
  std::unique_ptr<Kernel> kernel; // of the last case
};

} // namespace mortise::conformance
