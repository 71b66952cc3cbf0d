// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace mortise {

// Registers --test-decompose and --test-portable-round-trip.
void registerTestPasses();

} // namespace mortise
