// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Packed constants, shared by everything in the process that packs equal contents in the same way. A hash finds
// candidates; it decides nothing. A block is shared
// - without packing again, when it was made by equal steps from the same tensors of the host, and the host still lends
//   them: the ABI says that they stay unchanged until the constants are destroyed; or
// - else when the contents have been packed again and are equal byte by byte; the new copy is dropped then.
// Other tensors are never compared with those that a block was made from, because the host may have freed those when it
// replaced them. The block itself lives as long as somebody shares it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mortise::cpu {

// A hash of 128 bits.
struct Key {
  uint64_t a = 0, b = 0;
  auto operator<=>(const Key &) const = default;
};
Key mix(Key key, uint64_t word);
Key mix(Key key, std::string_view text);
Key hashBytes(const void *data, size_t size); // on the pool's threads
// Fewer bits of the hash, so that tests can make different contents collide. 128: all.
Key weaken(Key key, uint32_t bits);

// How the contents of a buffer come about: a tensor that the host lends, or a step over other contents.
struct Recipe {
  std::string step; // all that the step does, and which of its results this is; empty for a tensor
  std::vector<std::shared_ptr<const Recipe>> operands;
  const void *tensor = nullptr;     // never read
  size_t bytes = 0;                 // of the tensor
  std::weak_ptr<const void> lender; // gone when the host may have taken the tensor back
  Key key;                          // equal for equal contents
};

// Zeroed pages, huge ones where that helps: packing is mostly page faults otherwise.
struct Slab {
  char *memory = nullptr;
  size_t mapped = 0;
  void *start = nullptr;
  static std::shared_ptr<Slab> make(size_t bytes); // NULL when there is no memory
  ~Slab();
};

// A part of a slab with the result of one recipe. Written once, before it is shared.
struct Block {
  Block(std::shared_ptr<Slab> slab, void *memory, size_t bytes, std::shared_ptr<const Recipe> recipe)
      : slab(std::move(slab)), memory(memory), bytes(bytes), recipe(std::move(recipe)) {}
  Block(const Block &) = delete;
  Block &operator=(const Block &) = delete;
  ~Block(); // the slab stays while one of its blocks is shared; the pages of the others go
  const std::shared_ptr<Slab> slab;
  void *const memory;
  const size_t bytes;
  const std::shared_ptr<const Recipe> recipe;
};

// A block that is certain to have these contents, without packing them; NULL when there is none.
std::shared_ptr<Block> findBlock(const Recipe &recipe);
// The block to use in place of `packed`: one with equal bytes, or `packed` itself, which others find from now on.
std::shared_ptr<Block> shareBlock(std::shared_ptr<Block> packed);

} // namespace mortise::cpu
