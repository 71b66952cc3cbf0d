// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops of our own are compiled twice, once with AVX-512; the machine decides at run time.
#pragma once

#include <mortise/plugin.hpp>

#define MORTISE_INLINE __attribute__((always_inline)) inline
#define MORTISE_INLINE_LAMBDA __attribute__((always_inline))

namespace mortise::cpu {

// Runs body(begin, end) over [0, count) on the pool. `body` has to be inlined all the way down to gain from it.
template <typename Body> void forEachOnBest(int64_t count, int64_t grain, Body &&body) {
#if defined(__x86_64__)
  static const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (wide)
    return parallelFor(count, grain,
                       [&](int64_t begin, int64_t end) __attribute__((
                           target("avx512f,avx512bw,avx512vl,avx512dq,fma,f16c"))) { body(begin, end); });
#endif
  parallelFor(count, grain, [&](int64_t begin, int64_t end) { body(begin, end); });
}

} // namespace mortise::cpu
