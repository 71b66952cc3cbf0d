// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The header of our binary files: what a file is, the version of its format, its length and a checksum.
#pragma once

#include <mortise/result.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace mortise::runtime {

struct FileKind {
  char magic[8];
  uint32_t version;
  const char *name, *remedy; // "compiled program", what to do about another version
};

// The header and the parts, one after the other. The first part begins at a multiple of 8 bytes.
std::vector<std::byte> seal(const FileKind &kind, std::initializer_list<std::span<const std::byte>> parts);
// What lies behind the header, without a copy. Errors: MORTISE_CORRUPT (damaged, or another kind of file),
// MORTISE_VERSION_MISMATCH.
Result<std::span<const std::byte>> unseal(const FileKind &kind, std::span<const std::byte> bytes);

} // namespace mortise::runtime
