// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A region compiled, and its calls.
#pragma once

#include "function.hpp"
#include "stream.hpp"

namespace mortise::rocm {

class Kernel : public codegen::GeneratedRegion<Device, Function> {
public:
  static Result<std::unique_ptr<Kernel>> compile(Device &device, const MortiseGraph &region);

  // `instance`: the numbers for the call's symbol values; NULL where the region has no symbols.
  Result<void> enqueue(const codegen::BoundInputs *constants, const codegen::SimtNumbers *instance,
                       const MortiseEnqueueArgs &args) const;

private:
  using GeneratedRegion::GeneratedRegion;
  Result<void> queueStep(Stream &stream, size_t step, const codegen::CallAddresses &addresses) const;
  Result<void> queueLaunch(Stream &stream, const codegen::LaunchStep &launch, size_t step,
                           const codegen::CallAddresses &addresses) const;
};

} // namespace mortise::rocm
