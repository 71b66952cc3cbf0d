// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Small cases for the ops that a plugin declares. No reference knows them: a case has no expected results.
#pragma once

#include "cases.hpp"
#include "host.hpp"

namespace mortise::tool {

// For each op that the plugin of the host's device declares: operands of some small types, as far as its infer accepts
// them, and 1, "" or the like for attributes without a fallback. `ops`: as opCases() takes them. `lies`: receives, once
// for each op, what its infer answers that is no list of types.
std::vector<OpCase> ownCases(const Host &host, const std::string &ops, std::vector<std::string> &lies);

} // namespace mortise::tool
