// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversions between f32 and 16 bits. The library's reorders convert as well, by plain loops where the processor has
// no AVX-512: 16 images of 64 channels of 16 x 16 take it milliseconds.
#include "../schedule.hpp"
#include "bf16.hpp"

namespace mortise::cpu {

using type = dnnl::memory::data_type;

namespace {
struct Brain {
  using Stored = uint16_t;
  MORTISE_INLINE static float widen(uint16_t bits) { return fromBrain(bits); }
  MORTISE_INLINE static uint16_t narrow(float value) { return toBrain(value); }
};
struct Half {
  using Stored = _Float16;
  MORTISE_INLINE static float widen(_Float16 value) { return static_cast<float>(value); }
  MORTISE_INLINE static _Float16 narrow(float value) { return static_cast<_Float16>(value); }
};

constexpr int64_t grain = 1 << 14;
} // namespace

template <typename Kind> static std::function<void(void *const *)> loopOf(bool widens, int64_t count) {
  using Stored = typename Kind::Stored;
  if (widens)
    return [count](void *const *operands) {
      const auto *source = static_cast<const Stored *>(operands[0]);
      auto *target = static_cast<float *>(operands[1]);
      forEachOnBest(count, grain, [&](int64_t begin, int64_t end) MORTISE_INLINE_LAMBDA {
        for (int64_t i = begin; i < end; ++i)
          target[i] = Kind::widen(source[i]);
      });
    };
  return [count](void *const *operands) {
    const auto *source = static_cast<const float *>(operands[0]);
    auto *target = static_cast<Stored *>(operands[1]);
    forEachOnBest(count, grain, [&](int64_t begin, int64_t end) MORTISE_INLINE_LAMBDA {
      for (int64_t i = begin; i < end; ++i)
        target[i] = Kind::narrow(source[i]);
    });
  };
}

std::function<void(void *const *)> conversionLoop(type from, type to, int64_t count) {
  const bool widens = to == type::f32;
  return (widens ? from : to) == type::bf16 ? loopOf<Brain>(widens, count) : loopOf<Half>(widens, count);
}

} // namespace mortise::cpu
