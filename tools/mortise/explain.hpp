// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where each region of a graph runs and why: what was predicted and what was measured, what is copied, who refused
// what.
#pragma once

#include "execution.hpp"
#include "host.hpp"
#include "seam.hpp"

#include <string>

namespace mortise::tool {

// Runs the execution and writes text, or JSON, to standard output. `page`: a file for a drawn page, or "". `placed`:
// what is drawn there.
Result<void> explain(Execution &execution, const Host &host, const Placed &placed, bool json, const std::string &page);

} // namespace mortise::tool
