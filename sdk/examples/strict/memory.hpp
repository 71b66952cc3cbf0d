// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The devices' memory. Its addresses lie in a reserved range without rights, so that a host that touches one is stopped
// with a message; the bytes lie elsewhere. No address is given out twice, so that memory used after its end is found.
#pragma once

#include <mortise/result.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace strict {
using mortise::Error;
using mortise::Result;

struct Allocation {
  uint64_t number = 0; // in the order of allocation
  uint64_t address = 0, bytes = 0;
  uint32_t device = 0, space = 0;
  bool isFreed = false; // on a stream: work before may still use it
  std::shared_ptr<std::byte> data;
};

class Memory {
public:
  // Errors: OUT_OF_MEMORY beyond `limit` bytes on the device.
  Result<Allocation> allocate(uint32_t device, uint32_t space, uint64_t bytes, uint64_t limit);
  // Errors: INVALID_ARGUMENT for what is no allocation of the device, or not any more.
  // `stays`: work that is queued already may still find it, until end().
  Result<Allocation> free(uint32_t device, uint64_t address, bool stays);
  void end(uint64_t address);
  // Where `bytes` bytes of the device's memory lie; they stay while the pointer is held. The error says how the range
  // misses. `space`: where they have to lie, nullopt: in any.
  Result<std::shared_ptr<std::byte>> find(uint32_t device, uint64_t address, uint64_t bytes,
                                          std::optional<uint32_t> space = std::nullopt) const;
  bool contains(uint64_t address) const { return address >= start && address < start + size; }

private:
  bool reserve();

  static constexpr uint64_t size = UINT64_C(1) << 36;
  mutable std::mutex mutex;
  uint64_t start = 0, next = 0, count = 0;
  std::map<uint64_t, Allocation> live; // by address
  std::map<uint32_t, uint64_t> used;   // by device
};

Memory &memory();

} // namespace strict
