// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a test has asked of the plugin, and what it counts. See control.h.
#pragma once

#include <mortise/plugin.hpp>

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace strict {
using mortise::Error;
using mortise::Result;

struct SlowLink {
  std::string ends; // "host->strict:0"
  uint64_t ns = 0, bytesPerSecond = 1;
};

struct Settings {
  uint64_t seed = 0, delayUs = 0, split = 1, peer = 1, memory = UINT64_C(1) << 30, clock = 1, skew = 1, late = 0,
           layouts = 0;
  std::string cannot;
  std::vector<SlowLink> slow;
};

class Control {
public:
  std::string configure(std::string_view words); // "", or what is wrong
  Settings settings() const;

  // Counts a call. An error when this call is to fail.
  Result<void> enter(const std::string &slot);
  // Whether the call that enter() has just counted is to do nothing.
  bool isDropped(const std::string &slot) const;
  // Whether the checker is not to be told of it.
  bool isHidden(const std::string &slot) const;

  void add(const std::string &kind, int64_t count); // to the objects alive
  void copied(const std::string &where, uint64_t bytes);
  std::string report(const std::vector<std::string> &violations, uint64_t beside, bool news) const;

private:
  struct Fault {
    std::string slot;
    uint64_t number = 0;
    int32_t code = 0;
  };
  mutable std::mutex mutex;
  Settings current;
  std::optional<Fault> fails, drops, hides;
  std::map<std::string, uint64_t> calls, bytes;
  std::map<std::string, int64_t> live;
};

Control &control();

// A random number for a seed and a place: SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number
// Generators", OOPSLA 2014).
inline uint64_t mix(uint64_t seed, uint64_t place) {
  uint64_t x = seed * 0x9e3779b97f4a7c15 + (place + 1) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

} // namespace strict
