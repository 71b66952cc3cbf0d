// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory of tensors with pages beside it that nobody may touch: a read or write past an end raises SIGSEGV there.
#pragma once

#include <cstddef>
#include <span>

namespace mortise::tool {

enum class Edge { Begin, End }; // which end lies at a page that nobody may touch

class Guarded {
public:
  // `alignment`: of the first byte, a power of 2 that is at most a page. At the end, up to `alignment` - 1 bytes that
  // no tensor needs come before the page.
  Guarded(size_t bytes, size_t alignment, Edge edge);
  ~Guarded();
  Guarded(Guarded &&other) noexcept;
  Guarded(const Guarded &) = delete;

  std::span<std::byte> bytes() const { return {data, count}; }
  // Whether the bytes between the pages that no tensor has are as they were.
  bool isIntact() const;

private:
  std::byte *pages = nullptr, *data = nullptr;
  size_t size = 0, count = 0; // of the pages between, and of the tensor
};

} // namespace mortise::tool
