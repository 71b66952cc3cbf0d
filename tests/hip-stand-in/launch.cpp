// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "launch.hpp"

#include "../../sdk/codegen/test/block_run.hpp"

#include <algorithm>

namespace mortise::stand_in {

static_assert(mostArguments == codegen::test::mostEmulatedArguments);

void runKernel(Runtime &state, const KernelCall &kernel) {
  using namespace codegen::test;
  const FunctionObject &function = *kernel.function;
  --kernel.module->launches;
  ++state.launches;
  for (size_t i = 0; i < kernel.values.size(); ++i)
    if (function.metadata.arguments[i].isAddress)
      state.checkArgument(function.name, kernel.values[i]);
  BlockRun::running().subgroup = static_cast<unsigned>(function.metadata.wave);
  runGrid(function.entry, kernel.values, kernel.blocks, kernel.threads, /*cluster=*/1,
          kernel.module->code.synchronises);
  if (takeMisaligned())
    state.complain(function.name + " accesses vectors that are not aligned");
}

Status checkLaunch(Runtime &state, const FunctionObject &function, const unsigned (&grid)[3],
                   const unsigned (&block)[3], unsigned sharedBytes, int device) {
  constexpr uint64_t mostShared = 64 << 10, mostBytes = 4096;
  const uint64_t threads = uint64_t{block[0]} * block[1] * block[2];
  if (std::ranges::find(grid, 0U) != std::end(grid) || threads == 0)
    return InvalidConfiguration;
  if (threads > 1024 || threads != function.metadata.blockThreads) {
    state.complain(function.name + ": launched with blocks of " + std::to_string(threads) + " threads, compiled for " +
                   std::to_string(function.metadata.blockThreads));
    return InvalidConfiguration;
  }
  for (unsigned i = 0; i < 3; ++i)
    if (uint64_t{grid[i]} * block[i] > UINT32_MAX)
      return InvalidConfiguration;
  if (function.metadata.sharedBytes + sharedBytes > mostShared)
    return InvalidValue;
  if (function.metadata.argumentBytes > mostBytes)
    return InvalidValue;
  if (function.module->device != device) {
    state.complain(function.name + ": launched on another device than it was loaded on");
    return InvalidDeviceFunction;
  }
  return Success;
}

} // namespace mortise::stand_in
