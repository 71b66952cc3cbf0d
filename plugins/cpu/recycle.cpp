// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "recycle.hpp"

#include <oneapi/dnnl/dnnl.h>

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

namespace mortise::cpu {
namespace {

constexpr size_t largestObject = 4096, objectsPerClass = 64;
constexpr size_t smallestBuffer = 1024, bufferCount = 16, bufferBytes = size_t(64) << 20;

thread_local bool open = true; // false once this thread's cache is gone: trivially destructible, so readable to the end

// What one thread has freed. Objects come from operator new, by size class of 8 bytes; buffers from posix_memalign.
struct Cache {
  struct Free {
    Free *next;
  };
  Free *objects[largestObject / 8 + 1] = {};
  uint8_t counts[largestObject / 8 + 1] = {};
  void *buffers[bufferCount] = {};
  size_t oldest = 0; // the buffer to give up next when all places are taken
  size_t bytes = 0;

  ~Cache() {
    open = false;
    for (Free *&list : objects)
      while (list) {
        Free *next = list->next;
        ::operator delete(list);
        list = next;
      }
    for (void *buffer : buffers)
      std::free(buffer);
  }
};
thread_local Cache cache;

// What glibc's heap makes of a request.
constexpr size_t rounded(size_t size) { return size <= 24 ? 24 : ((size + 8 + 15) & ~size_t(15)) - 8; }

// Whether this process's heap rounds so; at times it adds 16 bytes that would be left over. Others (a preloaded
// allocator, a sanitizer) may hold a sized delete to the size that a block was made for, so there every request goes to
// the heap.
bool heapIsKnown() {
  for (size_t size : {1, 16, 24, 25, 40, 56, 100, 250, 1000, 4000}) {
    void *probe = ::operator new(size);
    size_t usable = malloc_usable_size(probe);
    ::operator delete(probe);
    if (usable != rounded(size) && usable != rounded(size) + 16)
      return false;
  }
  return true;
}

void *newObject(size_t size) {
  size_t exact = rounded(size) / 8;
  for (size_t index : {exact, exact + 2})
    if (open && index <= largestObject / 8)
      if (Cache::Free *found = cache.objects[index]) {
        cache.objects[index] = found->next;
        --cache.counts[index];
        return found;
      }
  return ::operator new(size);
}

void deleteObject(void *object) {
  size_t index = object ? malloc_usable_size(object) / 8 : 0;
  if (!open || index == 0 || index > largestObject / 8 || cache.counts[index] == objectsPerClass)
    return ::operator delete(object);
  cache.objects[index] = new (object) Cache::Free{cache.objects[index]};
  ++cache.counts[index];
}

int newBuffer(void **memory, size_t alignment, size_t size) {
  if (open)
    for (void *&buffer : cache.buffers) {
      size_t usable = buffer ? malloc_usable_size(buffer) : 0;
      if (usable >= size && usable <= 2 * size + smallestBuffer &&
          reinterpret_cast<uintptr_t>(buffer) % alignment == 0) {
        cache.bytes -= usable;
        *memory = std::exchange(buffer, nullptr);
        return 0;
      }
    }
  return posix_memalign(memory, alignment, size);
}

void freeBuffer(void *memory) {
  size_t usable = memory ? malloc_usable_size(memory) : 0;
  if (!open || usable < smallestBuffer || usable > bufferBytes)
    return std::free(memory);
  void **place = nullptr;
  for (void *&buffer : cache.buffers)
    if (!buffer)
      place = &buffer;
  while (!place || cache.bytes + usable > bufferBytes) {
    void *&given = cache.buffers[cache.oldest++ % bufferCount];
    cache.bytes -= given ? malloc_usable_size(given) : 0;
    std::free(std::exchange(given, nullptr));
    place = &given;
  }
  *place = memory;
  cache.bytes += usable;
}

struct Import {
  const char *name;
  void *replacement;
};
const Import imports[] = {{"_Znwm", reinterpret_cast<void *>(newObject)},
                          {"_ZdlPv", reinterpret_cast<void *>(deleteObject)},
                          {"posix_memalign", reinterpret_cast<void *>(newBuffer)},
                          {"free", reinterpret_cast<void *>(freeBuffer)}};

void point(void **slot, void *target) {
  uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  void *start = reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(slot) / page * page);
  if (mprotect(start, page, PROT_READ | PROT_WRITE))
    return;
  __atomic_store_n(slot, target, __ATOMIC_RELEASE);
  mprotect(start, page, PROT_READ); // as the loader left it (RELRO)
}

} // namespace

void recycleLibraryMemory() {
#if defined(__x86_64__)
  Dl_info info;
  link_map *map = nullptr;
  if (!heapIsKnown())
    return;
  if (!dladdr1(reinterpret_cast<void *>(&dnnl_primitive_execute), &info, reinterpret_cast<void **>(&map),
               RTLD_DL_LINKMAP) ||
      !map)
    return;
  const ElfW(Rela) *relocations = nullptr;
  const ElfW(Sym) *symbols = nullptr;
  const char *strings = nullptr;
  size_t bytes = 0;
  bool eager = false; // otherwise the loader could still write a slot after us
  for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; ++entry)
    switch (entry->d_tag) {
    case DT_JMPREL:
      relocations = reinterpret_cast<const ElfW(Rela) *>(entry->d_un.d_ptr);
      break;
    case DT_PLTRELSZ:
      bytes = entry->d_un.d_val;
      break;
    case DT_SYMTAB:
      symbols = reinterpret_cast<const ElfW(Sym) *>(entry->d_un.d_ptr);
      break;
    case DT_STRTAB:
      strings = reinterpret_cast<const char *>(entry->d_un.d_ptr);
      break;
    case DT_BIND_NOW:
      eager = true;
      break;
    case DT_FLAGS:
      eager |= (entry->d_un.d_val & DF_BIND_NOW) != 0;
      break;
    case DT_FLAGS_1:
      eager |= (entry->d_un.d_val & DF_1_NOW) != 0;
      break;
    default:
      break;
    }
  if (!relocations || !symbols || !strings || !eager)
    return;
  void **slots[std::size(imports)] = {};
  for (size_t i = 0; i < bytes / sizeof(*relocations); ++i)
    for (size_t k = 0; k < std::size(imports); ++k)
      if (!std::strcmp(strings + symbols[ELF64_R_SYM(relocations[i].r_info)].st_name, imports[k].name))
        slots[k] = reinterpret_cast<void **>(map->l_addr + relocations[i].r_offset);
  for (void **slot : slots)
    if (!slot)
      return; // a library built otherwise: all or nothing
  for (size_t k = 0; k < std::size(imports); ++k)
    point(slots[k], imports[k].replacement);
#endif
}

} // namespace mortise::cpu
