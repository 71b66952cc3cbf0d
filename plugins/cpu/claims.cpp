// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "claims.hpp"

#include <algorithm>

namespace mortise::cpu {

View Layout::rootOf(uint32_t value) const { return roots[value] ? *roots[value] : denseView(*graph->values[value]); }

const View &Layout::viewOf(uint32_t value) {
  std::optional<View> &view = views[value];
  if (view)
    return *view;
  const MortiseNode *producer = graph->values[value]->producer;
  if (producer && !roots[value] && producer->operand_count == 1)
    if (const MortiseValue *operand = producer->operands[0]) {
      View through = viewOf(operand->index);
      if (std::optional<View> found = viewThrough(*producer, through))
        return *(view = std::move(found));
    }
  return *(view = rootOf(value));
}

// Some claims look at what is behind a value before another claim decides where the value lies.
void Layout::forgetBehind(uint32_t value) {
  if (!views[value]) // then nobody has asked for what is behind it
    return;
  const uint32_t base = views[value]->base;
  for (uint32_t i = 0; i < views.size(); ++i)
    if (i != base && views[i] && views[i]->base == base)
      views[i].reset();
}

void Layout::setRoot(uint32_t value, View view) {
  forgetBehind(value);
  views[value] = roots[value] = std::move(view);
}

void Layout::makeDense(uint32_t value) {
  forgetBehind(value);
  roots[value].reset();
  views[value] = denseView(*graph->values[value]);
}

bool Claims::isReadByUnit(uint32_t value) const {
  return std::ranges::any_of(
      units, [&](const Unit &unit) { return std::ranges::find(unit.reads, value) != unit.reads.end(); });
}

std::optional<double> Claims::splat(uint32_t index) {
  const View &view = viewOf(index);
  const MortiseNode *producer = facts.value(view.base).producer;
  if (!producer || !isOp(*producer, "mortise.constant"))
    return std::nullopt;
  for (size_t i = 0; i < view.dims.size(); ++i)
    if (!(view.dims[i] == 1) && !(view.strides[i] == 0))
      return std::nullopt;
  std::optional<int64_t> offset = view.offset.number();
  const MortiseAttribute *literal = findAttribute(*producer, "value");
  const char *at = static_cast<const char *>(literal->tensor_data);
  if (facts.type(view.base).dtype == MORTISE_F32 && offset)
    return reinterpret_cast<const float *>(at)[*offset];
  return std::nullopt;
}

Result<Claims> claim(const Analysis &facts) {
  Claims claims(facts);
  chooseLayouts(facts, claims.layout);
  for (auto *part :
       {claimConvolutionGradients, claimMergedProducts, claimUpdates, claimScatters, claimQuantizedLinears, claimRandom,
        claimSorts, claimAttentions, claimAttentionGradients, claimConvolutions, claimPools, claimProducts})
    if (Result<void> result = part(claims); !result)
      return result.error();
  return claims;
}

} // namespace mortise::cpu
