// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs what is compiled, once or many times. Each function writes to standard output.
#pragma once

#include "execution.hpp"
#include "host.hpp"

namespace mortise::tool {

// Runs it once and says of each output its type, its range and mean, and how many elements are not finite.
// `view`: its inputs and outputs. `output`: a file for the outputs' bytes, dense, one after the other; none when empty.
Result<void> runOnce(Execution &execution, const MortiseGraph &view, const std::string &output);

// Runs it for about `seconds`, of which the first tenth is not counted; prints how long compilation,
// binding of constants and calls took, and the steps that take most of the time.
Result<void> bench(Execution &execution, const Host &host, double seconds, bool json);

} // namespace mortise::tool
