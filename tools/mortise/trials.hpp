// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cases of one device (try.hpp) in child processes, several at a time: a plugin that crashes or hangs ends its
// case.
#pragma once

#include "plugin.hpp"
#include "try.hpp"

#include <functional>
#include <string>
#include <vector>

namespace mortise::tool {

struct Answer {
  size_t number = 0; // of the case
  std::string name, op, dtype, why;
  int32_t rank = 0;
  size_t nodes = 1, fused = 0; // of the case; candidates of several nodes that were right
  Outcome outcome = Outcome::Wrong;
};

struct Trials {
  std::vector<Answer> answers; // in the order of the cases, as far as they were tried
  size_t count = 0;            // of the cases that there are
  int ends = 0;                // processes that crashed or hung
  bool givenUp = false;        // because of so many ends
  struct Fault {
    std::string check, text;
  };
  std::vector<Fault> faults; // beside those of cases
};

// `plugins`: as --plugins takes them. `progress`: called with a line of text, by one thread at a time.
Trials tryInChildren(const PluginCheck &asked, const std::string &plugins, const std::string &device,
                     const std::function<void(const std::string &)> &progress);

// The line that a crash leaves in what a child has said, or the end of that.
std::string crashIn(const std::string &said);

} // namespace mortise::tool
