// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions and pools.
#include "rows.hpp"

#include <algorithm>

namespace mortise::conformance {
namespace {

// How a window moves, in one to three dimensions: plain; strided; padded, in the first dimension on one side alone;
// dilated.
struct Window {
  std::vector<int64_t> size, strides, low, high, dilations;
  Dims to;
};
Window windowOf(Draft &draft, Dims &spatial, int variant) {
  Window made;
  for (size_t i = 0; i < spatial.size(); ++i) {
    int64_t &extent = spatial[i];
    const int64_t size = draft.point.shape == Shape::One ? 1 : draft.pick(2, 3, 3), dilation = variant == 3 ? 2 : 1;
    const int64_t low = variant == 2 ? 1 : 0, high = i % 2 ? low : 0;
    extent = std::max(extent, dilation * (size - 1) + 1);
    made.size.push_back(size);
    made.strides.push_back(variant == 1 ? 2 : 1);
    made.low.push_back(low);
    made.high.push_back(high);
    made.dilations.push_back(dilation);
    made.to.push_back((extent + low + high - dilation * (size - 1) - 1) / made.strides.back() + 1);
  }
  return made;
}

// Batch and channels, then 1 to 3 dimensions. Only batch or channels may be empty.
Dims operandOf(Draft &draft, int64_t elements) {
  Dims dims = draft.extents(3, 5, 4, elements);
  for (size_t i = 2; i < dims.size(); ++i)
    dims[i] = std::max<int64_t>(dims[i], 1);
  if (draft.point.shape == Shape::Zero)
    dims[0] = 0;
  return dims;
}

void pool(Draft &draft) {
  Dims dims = operandOf(draft, draft.unlessBulk(20000, 1 << 16));
  Dims spatial(dims.begin() + 2, dims.end());
  const Window window = windowOf(draft, spatial, draft.point.variant);
  std::ranges::copy(spatial, dims.begin() + 2);
  Dims to = {dims[0], dims[1]};
  to.insert(to.end(), window.to.begin(), window.to.end());
  draft.node({draft.operand(draft.point.dtype, dims)}, {{draft.point.dtype, to}},
             {integers("dilations", window.dilations), integers("high", window.high), integers("low", window.low),
              integers("strides", window.strides), integers("window", window.size)});
}

// The variants of windows, then grouped: two groups of channels; fused: each activation in turn.
constexpr int grouped = 4;
constexpr const char *activations[] = {"none", "relu", "silu", "gelu", "gelu_tanh"};

void convolution(Draft &draft) {
  const int32_t dtype = draft.point.dtype;
  const bool fused = draft.point.op == Op::FusedConvolution;
  const int variant = fused ? draft.point.variant % 4 : draft.point.variant;
  Dims dims = operandOf(draft, 6000);
  const int64_t groups = variant == grouped ? 2 : 1, channels = dims[1];
  dims[1] *= groups;
  Dims spatial(dims.begin() + 2, dims.end());
  const Window window = windowOf(draft, spatial, variant);
  if (variant == 2)
    draft.keepsFinite(); // a kernel may leave out what padding is multiplied by
  std::ranges::copy(spatial, dims.begin() + 2);
  const int64_t out = groups * (draft.point.shape == Shape::One ? 1 : draft.pick(1, 9, 32));
  Dims weight = {out, channels}, to = {dims[0], out};
  weight.insert(weight.end(), window.size.begin(), window.size.end());
  to.insert(to.end(), window.to.begin(), window.to.end());
  std::vector<const MortiseValue *> operands = {draft.operand(dtype, dims), draft.operand(dtype, weight)};
  std::vector<Attribute> attributes = {integers("dilations", window.dilations), integer("groups", groups),
                                       integers("high", window.high), integers("low", window.low),
                                       integers("strides", window.strides)};
  if (fused) {
    operands.push_back(variant == 1 ? nullptr : draft.input(dtype, {out}, plain));
    operands.push_back(variant == 2 ? nullptr : draft.input(dtype, {out}, plain));
    attributes.push_back(string("activation", activations[draft.point.variant]));
  }
  draft.node(operands, {{dtype, to}}, std::move(attributes));
}

} // namespace

std::vector<Row> windowRows() {
  return {{Op::MaxPool, {"plain", "strided", "padded", "dilated"}, pool},
          {Op::SumPool, {"plain", "strided", "padded", "dilated"}, pool},
          {Op::Convolution, {"plain", "strided", "padded", "dilated", "grouped"}, convolution},
          {Op::FusedConvolution, {"none", "relu", "silu", "gelu", "gelu-tanh"}, convolution}};
}

} // namespace mortise::conformance
