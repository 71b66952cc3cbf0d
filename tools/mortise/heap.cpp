// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "heap.hpp"

#ifdef MORTISE_SANITIZED
#include <sanitizer/allocator_interface.h>
#else
#include <malloc.h>
#endif

namespace mortise::tool {

uint64_t heapBytes() {
#ifdef MORTISE_SANITIZED
  return __sanitizer_get_current_allocated_bytes();
#else
  const struct mallinfo2 info = mallinfo2();
  return static_cast<uint64_t>(info.uordblks + info.hblkhd);
#endif
}

} // namespace mortise::tool
