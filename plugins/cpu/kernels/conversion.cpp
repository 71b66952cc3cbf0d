// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversions between f32 and 16 bits. The library's reorders convert as well, by plain loops where the processor has
// no AVX-512: 16 images of 64 channels of 16 x 16 take it milliseconds.
#include "../schedule.hpp"
#include "narrow.hpp"

namespace mortise::cpu {

using type = dnnl::memory::data_type;

static constexpr int64_t grain = 1 << 14;

MORTISE_INLINE static float fromHalf(_Float16 value) { return static_cast<float>(value); }
MORTISE_INLINE static _Float16 toHalf(float value) { return static_cast<_Float16>(value); }

template <typename From, typename To, To (*convert)(From)>
static std::function<void(void *const *)> loopOf(int64_t count) {
  return [count](void *const *operands) {
    const auto *source = static_cast<const From *>(operands[0]);
    auto *target = static_cast<To *>(operands[1]);
    forEachOnBest(count, grain, [&](int64_t begin, int64_t end) MORTISE_INLINE_LAMBDA {
      for (int64_t i = begin; i < end; ++i)
        target[i] = convert(source[i]);
    });
  };
}

std::function<void(void *const *)> conversionLoop(type from, type to, int64_t count) {
  if (to == type::f32)
    return from == type::bf16 ? loopOf<uint16_t, float, fromBrain>(count) : loopOf<_Float16, float, fromHalf>(count);
  return to == type::bf16 ? loopOf<float, uint16_t, toBrain>(count) : loopOf<float, _Float16, toHalf>(count);
}

} // namespace mortise::cpu
