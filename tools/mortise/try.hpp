// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs cases on one device and compares them with the reference interpreter. For a process of its own: a plugin that is
// tried may crash or hang.
#pragma once

#include "cases.hpp"
#include "host.hpp"

#include <functional>
#include <set>

namespace mortise::tool {

enum class Outcome { Right, Refused, Wrong, Folded }; // Folded: the compiler leaves nothing for a device

struct Tried {
  Outcome outcome = Outcome::Right;
  std::string why;  // what is wrong, or the plugin's reason
  size_t fused = 0; // candidates of several nodes that were right
};

// Runs a case on the device of the host's configuration: with each end of its tensors beside a page that nobody may
// touch, outputs full of other bytes, from several threads at once, with operands as constants that are bound twice,
// and with symbols in its extents, at several values of them. Inputs have to stay as they are, and so have the thread's
// floating-point settings. Then each candidate is tried alone (try_offers.hpp, which says what `queued` is); of a chain
// that the device refuses, those for its parts. For the op of a vendor the first run's outputs become the expected
// ones, and neither symbols nor candidates are tried.
Tried tryCase(OpCase &given, const Host &host, std::set<std::string> &queued);

// Bytes of ordinary memory that are not given back each time that the case is compiled, run and destroyed.
// `stillThere` is called at least every second or two.
uint64_t leakOf(const OpCase &given, const Host &host, const std::function<void()> &stillThere);

// `mortise plugin try`, which `mortise plugin check` runs: a line of JSON at the begin and at the end of each case from
// number `first`, and of each `every`th behind it, and one when all is done.
int tryCases(const Host &host, const std::string &ops, size_t first, size_t every);

} // namespace mortise::tool
