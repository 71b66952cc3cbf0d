// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The checks of one call's tensors. Errors: MORTISE_INVALID_ARGUMENT, with what was expected and found.
#pragma once

#include "context.hpp"

namespace mortise::runtime {

// Reads the symbols' values from the inputs' extents, without checking the values.
Result<void> readValues(const Layout &layout, std::span<const Tensor> tensors, std::span<int64_t> values);

// Checks ranges, divisors and guards before memory or kernels are made for the values.
Result<void> checkNewValues(const Layout &layout, std::span<const Tensor> tensors, std::span<const int64_t> values);

// Checks all tensors, and gives their pointers to the context. An input that is not dense is copied to its staging.
Result<void> takeTensors(const Layout &layout, const Shape &shape, std::span<const Tensor> inputs,
                         std::span<const Tensor> outputs, Context &context);

} // namespace mortise::runtime
