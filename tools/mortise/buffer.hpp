// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory of a kernel in the home of its device, which shows what is written beside it. In host memory one end lies at a
// page that nobody may touch; elsewhere there are bytes on both sides that are compared.
#pragma once

#include "guarded.hpp"

#include <mortise/runtime/device_memory.hpp>

#include <optional>
#include <vector>

namespace mortise::tool {

// Bytes to which a caller's tensor is aligned.
size_t elementAlignment(const MortiseType &type);

class Buffer {
public:
  // `alignment`: as Guarded takes it; in device memory the address is aligned as the space says.
  static Result<Buffer> make(const runtime::Device &device, std::span<const std::byte> content, size_t alignment,
                             Edge edge = Edge::End);
  // Full of bytes 0xff: NaN in every float format.
  static Result<Buffer> poisoned(const runtime::Device &device, size_t bytes, size_t alignment, Edge edge = Edge::End);

  MortiseAddress address() const;
  size_t size() const { return count; }
  struct Read {
    std::vector<std::byte> bytes;
    bool isIntact = true; // the bytes beside it are as they were
  };
  Result<Read> read() const; // copies, and waits for the copy; no work may use the memory

private:
  explicit Buffer(const runtime::Device &device, size_t bytes) : device(&device), count(bytes) {}

  const runtime::Device *device;
  size_t count, margin = 0; // margin: bytes on each side, in device memory
  std::optional<Guarded> host;
  runtime::DeviceMemory memory;
};

} // namespace mortise::tool
