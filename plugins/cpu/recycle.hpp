// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace mortise::cpu {

// oneDNN makes and frees memory with every execute: its argument map, closures, packing buffers. From this call on,
// what it frees waits, per thread, for its next request, so that a warm call takes nothing from the heap. Blocks are
// the heap's own throughout, so that a foreign free or delete of one stays right. Call once. Does nothing where the
// library's import table cannot be found, or the heap is not glibc's (docs/decisions/0005-recycle-library-memory.md).
void recycleLibraryMemory();

} // namespace mortise::cpu
