// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "rows.hpp"

#include <algorithm>

namespace mortise::conformance {
namespace {

// A key and an offset: any number, and in the class of extremes some near the ends of 64 bits.
std::pair<const MortiseValue *, const MortiseValue *> state(Draft &draft) {
  const auto *key = draft.input(MORTISE_I64, {});
  return {key, draft.input(MORTISE_I64, {})};
}

void drawn(Draft &draft) {
  const Dims dims = draft.extents(0, 6);
  if (draft.point.dtype == MORTISE_F8E4M3FN || draft.point.dtype == MORTISE_F8E5M2)
    draft.skip("the op draws no floats of 8 bits");
  const auto [key, offset] = state(draft);
  draft.node({key, offset}, {{draft.point.dtype, dims}},
             {string("dtype", dtypeName(draft.point.dtype)), integers("shape", dims)});
}

void bernoulli(Draft &draft) {
  const Dims dims = draft.extents(0, 6);
  const auto *p = draft.operand(draft.point.dtype, dims, draft.is(Values::Random) ? Fill{Fill::Unit} : Fill{});
  const auto [key, offset] = state(draft);
  draft.node({p, key, offset}, {{MORTISE_I1, dims}});
}

void dropout(Draft &draft) {
  constexpr double p[] = {0.25, 0, 1};
  const Dims dims = draft.extents(0, 6);
  const auto *x = draft.operand(draft.point.dtype, dims);
  const auto [key, offset] = state(draft);
  draft.node({x, key, offset}, {{draft.point.dtype, dims}, {MORTISE_I1, dims}}, {real("p", p[draft.point.variant])});
}

void permutation(Draft &draft) {
  const Dims dims = draft.extents(1, 1, 1, 5000);
  const auto [key, offset] = state(draft);
  draft.node({key, offset}, {{MORTISE_I64, dims}}, {integers("shape", dims)});
}

} // namespace

std::vector<Row> randomRows() {
  return {{Op::RandomBits, {""}, drawn, -1},
          {Op::Uniform, {""}, drawn, -1},
          {Op::Normal, {""}, drawn, -1},
          {Op::Bernoulli, {""}, bernoulli},
          {Op::Dropout, {"quarter", "none", "all"}, dropout},
          {Op::RandomPermutation, {""}, permutation, -1}};
}

} // namespace mortise::conformance
