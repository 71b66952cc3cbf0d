// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A region compiled, and its calls.
#pragma once

#include "function.hpp"
#include "recordings.hpp"
#include "stream.hpp"

#include <mortise/codegen/simt_program.hpp>

namespace mortise::vulkan {

class Kernel : public codegen::GeneratedRegion<Device, Function> {
public:
  static Result<std::unique_ptr<Kernel>> compile(Device &device, const MortiseGraph &region);

  // `instance`: the numbers for the call's symbol values; NULL where the region has no symbols.
  Result<void> enqueue(const codegen::BoundInputs *constants, const codegen::SimtNumbers *instance,
                       const MortiseEnqueueArgs &args) const;

private:
  using GeneratedRegion::GeneratedRegion;
  Recordings::Key keyOf(const codegen::CallAddresses &addresses) const;

  bool hasCopies = false;
  mutable Recordings recordings{device};
};

} // namespace mortise::vulkan
