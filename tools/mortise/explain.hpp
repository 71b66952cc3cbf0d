// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where each region of a graph runs and why: what was predicted and what was measured, what is copied, who refused
// what.
#pragma once

#include "execution.hpp"
#include "host.hpp"
#include "seam.hpp"

#include <string>

namespace mortise::tool {

// Runs the execution and writes text, or JSON, to standard output. `drawn`, unless NULL, is drawn on a page in this
// file.
Result<void> explain(Execution &execution, const Host &host, bool json, const Placed *drawn, const std::string &page);

} // namespace mortise::tool
