// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Composite ops as the core ops that they mean, each of which rounds to its type. For plugins that do not take the
// composites: the host's own decompositions need MLIR, which the kit does not link.
#pragma once

#include "tape.hpp"

namespace mortise::conformance::expansion {

Value softmax(Tape &t, Value x, int64_t axis, bool isLogarithm);
Value gelu(Tape &t, Value x, bool isTanh);
Value linear(Tape &t, Value x, Value weight, Value bias);
Value fusedConvolution(Tape &t, Value x, Value weight, Value bias, const Tape::Window &window,
                       std::string_view activation);
Value attention(Tape &t, Value q, Value k, Value v, Value mask, double scale, bool causal);
Value rope(Tape &t, Value x, Value cosine, Value sine);
Value norm(Tape &t, Value x, Value scale, Value bias, int64_t axis, bool isCentred, double epsilon);
Value groupNorm(Tape &t, Value x, Value scale, Value bias, int64_t groups, double epsilon);
Value batchNorm(Tape &t, Value x, Value scale, Value bias, Value mean, Value variance, double epsilon);
Value crossEntropy(Tape &t, Value logits, Value targets);
std::pair<Value, Value> topK(Tape &t, Value x, int64_t k, int64_t axis);
Value uniform(Tape &t, const Dims &dims, Value key, Value offset);
Value dropout(Tape &t, Value x, double p, Value key, Value offset);
Value quantize(Tape &t, Value x, Value scale, Value zero, int32_t to);
Value dequantize(Tape &t, Value x, Value scale, Value zero);
std::pair<Value, Value> dynamicQuantize(Tape &t, Value x, int32_t to);
Value quantizedLinear(Tape &t, Value x, Value weight, Value scale, Value zero, Value bias);

} // namespace mortise::conformance::expansion
