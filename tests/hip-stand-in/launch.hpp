// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches of kernels: what GPUs would refuse, and what runs in their place.
#pragma once

#include "runtime.hpp"

namespace mortise::stand_in {

struct KernelCall {
  std::shared_ptr<ModuleObject> module;
  const FunctionObject *function;
  unsigned blocks, threads;
  std::vector<uint64_t> values;
};

constexpr size_t mostArguments = 128; // of an emulated kernel

// What no GPU would take, and what would be wrong there and is not seen here.
Status checkLaunch(Runtime &state, const FunctionObject &function, const unsigned (&grid)[3],
                   const unsigned (&block)[3], unsigned sharedBytes, int device);
// The work of a launch, when its turn has come.
void runKernel(Runtime &state, const KernelCall &kernel);

} // namespace mortise::stand_in
