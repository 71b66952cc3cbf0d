// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One block of Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011).
#pragma once

#include <array>
#include <cstdint>

namespace mortise::reference::inline MORTISE_ARITHMETIC {

inline std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t even = uint64_t(0xD2511F53) * counter[0], odd = uint64_t(0xCD9E8D57) * counter[2];
    counter = {static_cast<uint32_t>(odd >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(odd),
               static_cast<uint32_t>(even >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(even)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

} // namespace mortise::reference::inline MORTISE_ARITHMETIC
