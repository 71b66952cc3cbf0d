// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace mortise {

// --test-decompose, --test-portable-round-trip
void registerTestPasses();

} // namespace mortise
