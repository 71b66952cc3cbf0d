// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// SHA-256 (FIPS 180-4): `sha256sum` can verify the checksums of the golden files.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mortise::test {

// The first 32 bits of the fractional part of a root of the first primes.
template <size_t count> std::array<uint32_t, count> rootsOfPrimes(long double (*root)(long double)) {
  std::array<uint32_t, count> result{};
  size_t found = 0;
  for (unsigned candidate = 2; found < count; ++candidate) {
    bool prime = true;
    for (unsigned divisor = 2; divisor * divisor <= candidate; ++divisor)
      prime &= candidate % divisor != 0;
    if (!prime)
      continue;
    const long double value = root(candidate);
    result[found++] = static_cast<uint32_t>((value - std::floor(value)) * 4294967296.0L);
  }
  return result;
}

inline std::string sha256(std::span<const std::byte> data) {
  static const auto k = rootsOfPrimes<64>([](long double x) { return std::cbrt(x); });
  auto state = rootsOfPrimes<8>([](long double x) { return std::sqrt(x); });
  std::vector<uint8_t> message;
  for (const std::byte byte : data)
    message.push_back(static_cast<uint8_t>(byte));
  message.push_back(0x80);
  while (message.size() % 64 != 56)
    message.push_back(0);
  for (int shift = 56; shift >= 0; shift -= 8)
    message.push_back(static_cast<uint8_t>(static_cast<uint64_t>(data.size()) * 8 >> shift));
  for (size_t at = 0; at < message.size(); at += 64) {
    uint32_t w[64];
    for (size_t i = 0; i < 16; ++i)
      w[i] = uint32_t(message[at + 4 * i]) << 24 | uint32_t(message[at + 4 * i + 1]) << 16 |
             uint32_t(message[at + 4 * i + 2]) << 8 | message[at + 4 * i + 3];
    for (size_t i = 16; i < 64; ++i)
      w[i] = w[i - 16] + (std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
             (std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10);
    auto [a, b, c, d, e, f, g, h] = state;
    for (size_t i = 0; i < 64; ++i) {
      const uint32_t first =
          h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + k[i] + w[i];
      const uint32_t second = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
    }
    const uint32_t step[] = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < 8; ++i)
      state[i] += step[i];
  }
  std::string text;
  for (const uint32_t word : state)
    for (int shift = 28; shift >= 0; shift -= 4)
      text += "0123456789abcdef"[word >> shift & 15];
  return text;
}

} // namespace mortise::test
