// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "memory.hpp"

#include <cstdlib>
#include <cstring>
#include <string>

namespace saboteur {
namespace {

constexpr uint64_t alignment = 256;
constexpr int unwritten = 0xcb; // what is read before it is written is wrong
uint64_t room(uint64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }
void *at(uint64_t address) { return reinterpret_cast<void *>(static_cast<uintptr_t>(address)); }

} // namespace

Result<uint64_t> Memory::allocate(uint64_t bytes) {
  const std::lock_guard lock(mutex);
  void *made = bytes <= limit - used ? std::aligned_alloc(alignment, room(bytes)) : nullptr;
  if (!made)
    return Error{MORTISE_OUT_OF_MEMORY, "the device has " + std::to_string(limit - used) +
                                            " bytes left, found a request for " + std::to_string(bytes)};
  std::memset(made, unwritten, room(bytes));
  const auto address = reinterpret_cast<uintptr_t>(made);
  live.emplace(address, bytes);
  used += bytes;
  return uint64_t{address};
}

Result<void> Memory::check(uint64_t address, uint64_t bytes) const {
  const std::lock_guard lock(mutex);
  const auto after = live.upper_bound(address);
  if (after != live.begin())
    if (const auto &[begin, size] = *std::prev(after); address - begin <= size && bytes <= size - (address - begin))
      return {};
  return Error{MORTISE_INVALID_ARGUMENT, "expected " + std::to_string(bytes) +
                                             " bytes within memory of the device, found an address in no allocation or "
                                             "too close to its end"};
}

Result<uint64_t> Memory::remove(uint64_t address) {
  const std::lock_guard lock(mutex);
  const auto found = live.find(address);
  if (found == live.end())
    return Error{MORTISE_INVALID_ARGUMENT,
                 "expected memory of the device that is still allocated, found another address"};
  const uint64_t bytes = found->second;
  live.erase(found);
  used -= bytes;
  return bytes;
}

void Memory::release(uint64_t address, uint64_t bytes) {
  explicit_bzero(at(address), bytes); // a memset before a free is left out by the compiler
  std::free(at(address));
}

Memory &memory() {
  static auto *made = new Memory; // threads of streams may outlive static destruction
  return *made;
}

} // namespace saboteur
