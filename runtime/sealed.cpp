// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sealed.hpp"

#include <zlib.h>

#include <bit>
#include <cstring>
#include <string>

namespace mortise::runtime {
namespace {

static_assert(std::endian::native == std::endian::little);

struct Header {
  char magic[8];
  uint32_t version, checksum;
  uint64_t bytes;
};
static_assert(sizeof(Header) == 24);

uint32_t checksumOf(std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef *>(bytes.data()), bytes.size()));
}

} // namespace

std::vector<std::byte> seal(const FileKind &kind, std::initializer_list<std::span<const std::byte>> parts) {
  size_t size = sizeof(Header);
  for (const auto &part : parts)
    size += part.size();
  std::vector<std::byte> bytes;
  bytes.reserve(size);
  bytes.resize(sizeof(Header));
  for (const auto &part : parts)
    bytes.insert(bytes.end(), part.begin(), part.end());
  const auto content = std::span<const std::byte>(bytes).subspan(sizeof(Header));
  Header header{{}, kind.version, checksumOf(content), content.size()};
  std::memcpy(header.magic, kind.magic, sizeof header.magic);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

Result<std::span<const std::byte>> unseal(const FileKind &kind, std::span<const std::byte> bytes) {
  const auto corrupt = [&](const std::string &what) {
    return Error{MORTISE_CORRUPT, std::string("the ") + kind.name + "'s file is damaged: " + what};
  };
  Header header;
  if (bytes.size() < sizeof header || std::memcmp(bytes.data(), kind.magic, sizeof kind.magic) != 0)
    return Error{MORTISE_CORRUPT, std::string("expected a ") + kind.name + ", which begins with " +
                                      std::string(kind.magic, 7) + ", found another file"};
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version != kind.version)
    return Error{MORTISE_VERSION_MISMATCH, std::string("expected a ") + kind.name + " of format " +
                                               std::to_string(kind.version) + ", found format " +
                                               std::to_string(header.version) + "; " + kind.remedy};
  const auto content = bytes.subspan(sizeof header);
  if (header.bytes != content.size())
    return corrupt("expected " + std::to_string(header.bytes) + " bytes behind its header, found " +
                   std::to_string(content.size()));
  if (header.checksum != checksumOf(content))
    return corrupt("its checksum does not agree with its bytes");
  return content;
}

} // namespace mortise::runtime
