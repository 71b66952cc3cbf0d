// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels in host memory, copies there and its end are told to the strict plugin's checker, which otherwise sees only
// what its own devices use. So a wait of the host before them is found to be missing, whatever the time that work
// takes.
#pragma once

#include "../../sdk/examples/strict/control.h"

#include <mortise/runtime/registry.hpp>

namespace mortise::test {

// Puts slots that tell the checker in front of the plugin's, for the rest of the process. Before its first kernel, for
// one library without streams, which several registries may have loaded.
void watchKernels(runtime::Plugin &plugin, const StrictControl &control);

} // namespace mortise::test
