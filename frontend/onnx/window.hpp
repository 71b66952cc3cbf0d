// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What convolutions and pools have in common: windows over the spatial dimensions of [N, C, ...].
#pragma once

#include "node.hpp"

namespace mortise::onnx {

struct Window {
  Dims size, strides, dilations, low, high;
  Dims more; // padding behind `high`, which ceil_mode adds and which counts for nothing
};
// `size`: that of a weight, or empty where the attribute kernel_shape has it.
Window windowOf(Node &node, const Dims &size);
// x [N, C, ...], weight [O, C / groups, ...] and bias [O], which may be left out.
Value convolved(Emitter &e, const Value &x, const Value &weight, const Value &bias, const Window &window,
                int64_t groups);
// Refuses a weight of another rank than x's, or without spatial dimensions.
void checkWeight(const Node &node, const Value &x, const Value &weight);
// In whole numbers: the sums are exact.
Value convolvedExactly(Emitter &e, const Value &x, const Value &weight, const Window &window, int64_t groups);

} // namespace mortise::onnx
