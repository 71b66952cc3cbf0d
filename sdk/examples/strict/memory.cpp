// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "memory.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace strict {
namespace {

constexpr uint64_t alignment = 256, gap = 4096;

struct sigaction previous;

// Says what happened where the host touches device memory, then lets the process end as it would have.
void onFault(int signal, siginfo_t *info, void *context) {
  if (memory().contains(reinterpret_cast<uintptr_t>(info->si_addr))) {
    char text[160];
    const int length = std::snprintf(text, sizeof text, "strict: the host touched device memory at %p; copy it first\n",
                                     info->si_addr);
    if (length > 0 && write(STDERR_FILENO, text, static_cast<size_t>(length)) < 0)
      _exit(3);
  }
  sigaction(signal, &previous, nullptr);
  if (previous.sa_flags & SA_SIGINFO && previous.sa_sigaction)
    previous.sa_sigaction(signal, info, context);
}

} // namespace

bool Memory::reserve() {
  void *range = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED)
    return false;
  start = reinterpret_cast<uintptr_t>(range);
  next = (start + gap) / gap * gap;
  struct sigaction action{};
  action.sa_sigaction = onFault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &previous);
  return true;
}

Result<Allocation> Memory::allocate(uint32_t device, uint32_t space, uint64_t bytes, uint64_t limit) {
  const std::lock_guard lock(mutex);
  if (start == 0 && !reserve())
    return Error{MORTISE_OUT_OF_MEMORY, "cannot reserve addresses"};
  if (bytes > limit || used[device] > limit - bytes || next + bytes + gap > start + size)
    return Error{MORTISE_OUT_OF_MEMORY, "the device has " + std::to_string(limit - std::min(limit, used[device])) +
                                            " bytes left, found a request for " + std::to_string(bytes)};
  const uint64_t room = (bytes + alignment - 1) / alignment * alignment;
  auto *data = static_cast<std::byte *>(std::aligned_alloc(alignment, room));
  if (data == nullptr)
    return Error{MORTISE_OUT_OF_MEMORY, "cannot allocate " + std::to_string(bytes) + " bytes"};
  std::memset(data, 0xcb, room); // what is read before it is written is wrong
  const Allocation made{++count, next, bytes, device, space, false, {data, std::free}};
  next = (next + room + gap) / gap * gap; // a gap between allocations
  used[device] += bytes;
  live.emplace(made.address, made);
  return made;
}

Result<Allocation> Memory::free(uint32_t device, uint64_t address, bool stays) {
  const std::lock_guard lock(mutex);
  const auto found = live.find(address);
  if (found == live.end() || found->second.device != device || found->second.isFreed)
    return Error{MORTISE_INVALID_ARGUMENT,
                 "expected memory of this device that is still allocated, found another address"};
  Allocation gone = found->second;
  found->second.isFreed = true;
  if (!stays)
    live.erase(found);
  used[device] -= gone.bytes;
  return gone;
}

void Memory::end(uint64_t address) {
  const std::lock_guard lock(mutex);
  live.erase(address);
}

Result<std::shared_ptr<std::byte>> Memory::find(uint32_t device, uint64_t address, uint64_t bytes,
                                                std::optional<uint32_t> space) const {
  const std::lock_guard lock(mutex);
  auto after = live.upper_bound(address);
  if (after != live.begin()) {
    const Allocation &allocation = std::prev(after)->second;
    const uint64_t offset = address - allocation.address;
    if (offset < allocation.bytes || (bytes == 0 && offset == allocation.bytes)) {
      const std::string which = "allocation " + std::to_string(allocation.number);
      if (allocation.device != device)
        return Error{MORTISE_INVALID_ARGUMENT, which + " belongs to another device"};
      if (space && allocation.space != *space)
        return Error{MORTISE_INVALID_ARGUMENT, which + " lies in space " + std::to_string(allocation.space) +
                                                   ", expected space " + std::to_string(*space)};
      if (bytes > allocation.bytes - offset)
        return Error{MORTISE_INVALID_ARGUMENT, "bytes " + std::to_string(offset) + " to " +
                                                   std::to_string(offset + bytes) + " reach past " + which + " of " +
                                                   std::to_string(allocation.bytes)};
      return std::shared_ptr<std::byte>(allocation.data, allocation.data.get() + offset);
    }
  }
  return Error{MORTISE_INVALID_ARGUMENT, contains(address)
                                             ? "the address lies in no allocation, or in one that was freed"
                                             : "the address is not in device memory"};
}

Memory &memory() {
  static auto *made = new Memory;
  return *made;
}

} // namespace strict
