// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sharing.hpp"

#include <mortise/plugin.hpp>

#include <atomic>
#include <bit>
#include <cstring>
#include <map>
#include <set>
#include <sys/mman.h>

namespace mortise::cpu {

// ---- Hashes

Key mix(Key key, uint64_t word) {
  key.a = std::rotl(key.a ^ word, 31) * 0x9e3779b97f4a7c15;
  key.b = (std::rotl(key.b, 27) + (word ^ key.a)) * 0xc2b2ae3d27d4eb4f;
  return key;
}

static Key hashChunk(const char *data, size_t size) {
  uint64_t lanes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  size_t at = 0;
  for (; at + 64 <= size; at += 64)
    for (size_t i = 0; i < 8; ++i) {
      uint64_t word;
      std::memcpy(&word, data + at + 8 * i, 8);
      lanes[i] = std::rotl(lanes[i] ^ word, 31) * 0x9e3779b97f4a7c15;
    }
  Key key{size, ~size};
  for (uint64_t lane : lanes)
    key = mix(key, lane);
  for (; at < size; ++at)
    key = mix(key, static_cast<uint64_t>(static_cast<unsigned char>(data[at])));
  return key;
}

Key mix(Key key, std::string_view text) {
  const Key hash = hashChunk(text.data(), text.size());
  return mix(mix(key, hash.a), hash.b);
}

static constexpr size_t chunk = 1 << 20; // bytes that one thread reads at a time

Key hashBytes(const void *data, size_t size) {
  std::vector<Key> keys((size + chunk - 1) / chunk);
  parallelFor(static_cast<int64_t>(keys.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      keys[i] = hashChunk(static_cast<const char *>(data) + i * chunk, std::min(chunk, size - i * chunk));
  });
  Key whole{size, 1};
  for (Key key : keys)
    whole = mix(mix(whole, key.a), key.b);
  return whole;
}

Key weaken(Key key, uint32_t bits) {
  auto low = [](uint64_t word, uint32_t count) { return count >= 64 ? word : word & ((uint64_t(1) << count) - 1); };
  return {low(key.a, bits), low(key.b, bits > 64 ? bits - 64 : 0)};
}

static bool equalBytes(const void *a, const void *b, size_t size) {
  std::atomic<bool> same = true;
  parallelFor(static_cast<int64_t>((size + chunk - 1) / chunk), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end && same; ++i)
      if (std::memcmp(static_cast<const char *>(a) + i * chunk, static_cast<const char *>(b) + i * chunk,
                      std::min(chunk, size - i * chunk)) != 0)
        same = false;
  });
  return same;
}

namespace {
// Pairs found the same: contents that several steps read are compared once.
using Known = std::set<std::pair<const Recipe *, const Recipe *>>;
} // namespace

// Equal steps in the same order over the same tensors.
static bool isSame(const Recipe &a, const Recipe &b, Known &known) {
  if (&a == &b || known.contains({&a, &b}))
    return true;
  if (a.key != b.key || a.step != b.step || a.operands.size() != b.operands.size() || a.tensor != b.tensor ||
      a.bytes != b.bytes || (a.tensor && (a.lender.expired() || b.lender.expired())))
    return false;
  for (size_t i = 0; i < a.operands.size(); ++i)
    if (!isSame(*a.operands[i], *b.operands[i], known))
      return false;
  known.insert({&a, &b});
  return true;
}

// ---- Memory

std::shared_ptr<Slab> Slab::make(size_t bytes) {
  constexpr size_t huge = 2 << 20;
  auto slab = std::make_shared<Slab>();
  slab->mapped = bytes >= huge ? (bytes + huge - 1) / huge * huge + huge : (bytes + 4095) / 4096 * 4096;
  slab->start = mmap(nullptr, slab->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (slab->start == MAP_FAILED) {
    slab->start = nullptr;
    return nullptr;
  }
  auto at = reinterpret_cast<uintptr_t>(slab->start);
  if (bytes >= huge) {
    at = (at + huge - 1) / huge * huge;
    madvise(reinterpret_cast<void *>(at), slab->mapped - huge, MADV_HUGEPAGE); // a wish; nothing depends on it
  }
  slab->memory = reinterpret_cast<char *>(at);
  return slab;
}

Slab::~Slab() {
  if (start)
    munmap(start, mapped);
}

Block::~Block() {
  constexpr uintptr_t page = 4096;
  const auto start = (reinterpret_cast<uintptr_t>(memory) + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(memory) + bytes) / page * page;
  if (start < end && slab.use_count() > 1)
    madvise(reinterpret_cast<void *>(start), end - start, MADV_DONTNEED);
}

// ---- The process's blocks

namespace {
struct Table {
  std::mutex mutex;
  std::multimap<Key, std::weak_ptr<Block>> blocks; // equal keys: contents whose hashes collide
  size_t most = 16;                                // entries before those of blocks that have gone are removed
};
} // namespace

static Table &table() {
  static Table *made = new Table; // constants may outlive static destruction
  return *made;
}

static std::vector<std::shared_ptr<Block>> candidates(Key key) {
  std::vector<std::shared_ptr<Block>> found;
  std::lock_guard lock(table().mutex);
  auto [begin, end] = table().blocks.equal_range(key);
  for (auto entry = begin; entry != end; ++entry)
    if (std::shared_ptr<Block> block = entry->second.lock())
      found.push_back(std::move(block));
  return found;
}

std::shared_ptr<Block> findBlock(const Recipe &recipe) {
  for (std::shared_ptr<Block> &block : candidates(recipe.key)) {
    Known known;
    if (isSame(*block->recipe, recipe, known))
      return std::move(block);
  }
  return nullptr;
}

std::shared_ptr<Block> shareBlock(std::shared_ptr<Block> packed) {
  for (std::shared_ptr<Block> &block : candidates(packed->recipe->key))
    if (block->bytes == packed->bytes && equalBytes(block->memory, packed->memory, packed->bytes))
      return std::move(block);
  std::lock_guard lock(table().mutex);
  if (table().blocks.size() >= table().most) {
    std::erase_if(table().blocks, [](const auto &entry) { return entry.second.expired(); });
    table().most = 2 * table().blocks.size() + 16;
  }
  table().blocks.emplace(packed->recipe->key, packed);
  return packed;
}

} // namespace mortise::cpu
