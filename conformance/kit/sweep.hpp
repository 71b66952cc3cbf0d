// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs cases in workers, several at a time.
#pragma once

#include "options.hpp"
#include "verdict.hpp"

#include <functional>
#include <map>

namespace mortise::conformance {

// A worker that ended between cases or before the first: which case it was is not known.
struct Swept {
  std::vector<Verdict> verdicts; // in the order of the points; one for each, unless `broken`
  std::string broken;            // why the sweep was given up; "" when it was not
  size_t resumed = 0;            // verdicts of an earlier run
};

// `device`: the name of the device. `known`: verdicts of an earlier run by id, which are not made again. `journal`: a
// file to which each verdict is appended; "": none. A case that ends its worker is Crashed, one that takes longer than
// the limit is Hung; another worker goes on behind it. `stops`: whether a verdict ends the sweep; may be empty.
Swept sweep(const Options &options, const std::string &device, const std::vector<Point> &points,
            const std::map<std::string, Verdict> &known, const std::string &journal,
            const std::function<bool(const Verdict &)> &stops = {});

} // namespace mortise::conformance
