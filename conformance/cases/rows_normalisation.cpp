// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "rows.hpp"

namespace mortise::conformance {
namespace {

// Such as networks have, or so large that results of all types show it.
double epsilon(Draft &draft) { return draft.pick(0, 1) ? 1e-5 : 0.125; }

void softmax(Draft &draft) {
  const Dims dims = draft.extents(1, 6);
  draft.node({draft.operand(draft.point.dtype, dims, farApart)}, {{draft.point.dtype, dims}},
             {integer("axis", draft.point.variant ? 0 : lastAxis(dims))});
}

// last: over the last dimension, with scale and bias; bare: without them; all: over all dimensions.
Dims normalised(Draft &draft, const Dims &dims, int64_t axis) { return Dims(dims.begin() + axis, dims.end()); }
void layerNorm(Draft &draft) {
  const Dims dims = draft.extents(1, 6);
  const int64_t axis = draft.point.variant == 2 ? 0 : lastAxis(dims);
  const Dims row = normalised(draft, dims, axis);
  const auto *x = draft.operand(draft.point.dtype, dims);
  const bool bare = draft.point.variant == 1;
  const auto *scale = bare ? nullptr : draft.input(draft.point.dtype, row, plain);
  std::vector<const MortiseValue *> operands = {x, scale};
  if (draft.point.op == Op::LayerNorm)
    operands.push_back(bare ? nullptr : draft.input(draft.point.dtype, row, plain));
  draft.node(operands, {{draft.point.dtype, dims}}, {integer("axis", axis), real("epsilon", epsilon(draft))});
}

// one, two: groups; each: a group for each channel, without scale and bias.
void groupNorm(Draft &draft) {
  Dims dims = draft.extents(2, 6, 3);
  if (draft.point.variant == 1)
    dims[1] *= 2;
  const int64_t groups = draft.point.variant == 2 ? std::max<int64_t>(dims[1], 1) : draft.point.variant + 1;
  const auto *x = draft.operand(draft.point.dtype, dims);
  const bool bare = draft.point.variant == 2;
  const auto *scale = bare ? nullptr : draft.input(draft.point.dtype, {dims[1]}, plain);
  const auto *bias = bare ? nullptr : draft.input(draft.point.dtype, {dims[1]}, plain);
  draft.node({x, scale, bias}, {{draft.point.dtype, dims}},
             {real("epsilon", epsilon(draft)), integer("groups", groups)});
}

void batchNorm(Draft &draft) {
  const Dims dims = draft.extents(2, 6, 3);
  const Dims channels = {dims[1]};
  const int32_t dtype = draft.point.dtype;
  const bool bare = draft.point.variant == 1;
  const auto *x = draft.operand(dtype, dims);
  const auto *scale = bare ? nullptr : draft.input(dtype, channels, plain);
  const auto *bias = bare ? nullptr : draft.input(dtype, channels, plain);
  const auto *mean = draft.input(dtype, channels, plain);
  const auto *variance = draft.input(dtype, channels, {Fill::Positive});
  draft.node({x, scale, bias, mean, variance}, {{dtype, dims}}, {real("epsilon", epsilon(draft))});
}

void crossEntropy(Draft &draft) {
  const Dims dims = draft.extents(1, 6);
  const Dims rows = without(dims, lastAxis(dims));
  const auto *logits = draft.operand(draft.point.dtype, dims, farApart);
  // -1 is the index that is left out, and the last two are no class.
  const auto *targets = draft.input(draft.point.number % 2 ? MORTISE_I64 : MORTISE_I32, rows,
                                    between(-1, dims.back() + (draft.is(Values::Extreme) ? 1 : -1)));
  const int variant = draft.point.variant; // none, mean, sum, smooth
  constexpr const char *reductions[] = {"none", "mean", "sum", "none"};
  draft.node({logits, targets}, {{draft.point.dtype, variant == 0 || variant == 3 ? rows : Dims{}}},
             {integer("ignore_index", -1), real("label_smoothing", variant == 3 ? 0.125 : 0),
              string("reduction", reductions[variant])});
}

} // namespace

std::vector<Row> normalisationRows() {
  return {{Op::Softmax, {"last", "first"}, softmax},
          {Op::LogSoftmax, {"last", "first"}, softmax},
          {Op::LayerNorm, {"last", "bare", "all"}, layerNorm},
          {Op::RmsNorm, {"last", "bare", "all"}, layerNorm},
          {Op::GroupNorm, {"one", "two", "each"}, groupNorm},
          {Op::BatchNorm, {"scaled", "bare"}, batchNorm},
          {Op::CrossEntropy, {"none", "mean", "sum", "smooth"}, crossEntropy}};
}

} // namespace mortise::conformance
