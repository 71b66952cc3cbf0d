// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops of our own are compiled three times: for the baseline, with AVX2 and with AVX-512. The machine, and the option
// isa, decide at run time.
#pragma once

#include "../device.hpp"

#include <mortise/plugin.hpp>

#define MORTISE_INLINE __attribute__((always_inline)) inline
#define MORTISE_INLINE_LAMBDA __attribute__((always_inline))

namespace mortise::cpu {

// Runs body(begin, end) over [0, count) on the pool. `body` has to be inlined all the way down to gain from it.
template <typename Body> void forEachOnBest(int64_t count, int64_t grain, Body &&body) {
#if defined(__x86_64__)
  if (vectors() == Vectors::Avx512)
    return parallelFor(count, grain,
                       [&](int64_t begin, int64_t end) __attribute__((
                           target("avx512f,avx512bw,avx512vl,avx512dq,fma,f16c"))) { body(begin, end); });
  if (vectors() == Vectors::Avx2)
    return parallelFor(count, grain,
                       [&](int64_t begin, int64_t end) __attribute__((target("avx2,fma,f16c"))) { body(begin, end); });
#endif
  parallelFor(count, grain, [&](int64_t begin, int64_t end) { body(begin, end); });
}

} // namespace mortise::cpu
