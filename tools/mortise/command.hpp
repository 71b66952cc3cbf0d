// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Commands in processes of their own, so that a crash or a hang is a result.
#pragma once

#include <mortise/result.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
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

// A command whose standard output is read line by line while it runs.
class Child {
public:
  static Result<std::unique_ptr<Child>> start(const std::vector<std::string> &arguments);
  ~Child(); // ends it
  Child(const Child &) = delete;

  // The next line, without its end. Nothing where the output ends, or no line comes within `seconds`: the command is
  // ended then.
  std::optional<std::string> readLine(double seconds);
  Ended end();        // after the last line
  std::string said(); // on standard error, so far

private:
  Child() = default;
  pid_t process = -1;
  int lines = -1, errors = -1; // descriptors of the two outputs
  std::string rest;            // read, and not yet a line
  std::optional<Ended> ended;
};

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
