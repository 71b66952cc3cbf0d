// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The process that runs cases. It writes a line of JSON at the begin and at the end of each.
#pragma once

#include "options.hpp"
#include "verdict.hpp"

namespace mortise::conformance {

struct WorkerTask {
  std::string plugin, beside, device;
  uint64_t seed = 0, memory = 0;
  double seconds = 1; // of a case of the level stress
  std::string folder; // for regions of networks that fail; "": none
  std::string list;   // a file of ids, one a line
  size_t first = 0, count = 0;
  bool leaks = false; // whether the first case of each op that passes and has some work is tried for leaks
};

std::vector<std::string> argumentsOf(const WorkerTask &task); // behind the program's name
int work(const WorkerTask &task);

} // namespace mortise::conformance
