// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Commands in processes of their own, so that a crash or a hang is a result.
#pragma once

#include <mortise/result.hpp>

#include <string>
#include <vector>

namespace mortise::tool {

// How a command ended. `good` is true for exit status 0; any other status, a signal or reaching the limit is a failure,
// which `how` describes.
struct Ended {
  bool good;
  std::string how; // "exit status 1", "signal 11", "no end within 60 s"
};

// Runs a command with a limit in seconds. `said`: receives what it writes to standard output and standard error, which
// are this program's own when it is NULL.
Result<Ended> runCommand(const std::vector<std::string> &arguments, double seconds, std::string *said = nullptr);

// The file of the program that runs.
std::string self();

// A temporary folder, removed at the end of its life. `folder` is empty when none can be made.
struct Scratch {
  Scratch();
  ~Scratch();
  Scratch(const Scratch &) = delete;
  std::string folder;
};

} // namespace mortise::tool
