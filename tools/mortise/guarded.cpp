// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "guarded.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace mortise::tool {
namespace {

constexpr std::byte mark{0xb5};
const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));

} // namespace

Guarded::Guarded(size_t bytes, size_t alignment, Edge edge) : size((bytes + page - 1) / page * page), count(bytes) {
  void *made = mmap(nullptr, size + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED)
    throw std::bad_alloc();
  pages = static_cast<std::byte *>(made) + page;
  if (size && mprotect(pages, size, PROT_READ | PROT_WRITE) != 0)
    throw std::bad_alloc();
  std::memset(pages, static_cast<int>(mark), size);
  data = pages + (edge == Edge::Begin ? 0 : (size - bytes) / alignment * alignment);
}

Guarded::~Guarded() {
  if (pages)
    munmap(pages - page, size + 2 * page);
}

Guarded::Guarded(Guarded &&other) noexcept
    : pages(std::exchange(other.pages, nullptr)), data(other.data), size(other.size), count(other.count) {}

bool Guarded::isIntact() const {
  const auto isMark = [](std::byte byte) { return byte == mark; };
  return std::all_of(pages, data, isMark) && std::all_of(data + count, pages + size, isMark);
}

} // namespace mortise::tool
