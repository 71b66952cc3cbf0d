// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/runtime/program_file.hpp>

#include <mortise/portable/graph.hpp>
#include <mortise/runtime/plan_generated.h>

#include <zlib.h>

#include <bit>
#include <cstring>

namespace mortise::runtime {
namespace {

static_assert(std::endian::native == std::endian::little);

struct Header {
  char magic[8] = {'M', 'R', 'T', 'P', 'R', 'O', 'G', '\n'};
  uint32_t version = 1;
  uint32_t checksum = 0;
  uint64_t bytes = 0;
};
static_assert(sizeof(Header) == 24 && sizeof(Header) % alignof(uint64_t) == 0); // the plan behind it is aligned

constexpr uint64_t most = (UINT64_C(1) << 31) - (UINT64_C(1) << 20); // a FlatBuffer has less than 2 GB

uint32_t checksumOf(std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef *>(bytes.data()), bytes.size()));
}

Error corrupt(const std::string &what) { return {MORTISE_CORRUPT, "the program's file is damaged: " + what}; }

} // namespace

Result<std::vector<std::byte>> writeProgram(const plan::PlanT &plan) {
  uint64_t large = 0;
  for (const auto &buffer : plan.buffers)
    large += buffer->literal.size();
  for (const auto &region : plan.regions)
    large += region->graph.size();
  if (large > most)
    return Error{MORTISE_UNSUPPORTED, "expected a program whose literals and graphs take less than 2 GB, found " +
                                          std::to_string(large) + " bytes; make large literals constant inputs"};
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(plan::Plan::Pack(builder, &plan), plan::PlanIdentifier());
  const std::span payload(reinterpret_cast<const std::byte *>(builder.GetBufferPointer()), builder.GetSize());
  Header header;
  header.checksum = checksumOf(payload);
  header.bytes = payload.size();
  std::vector<std::byte> bytes(sizeof header + payload.size());
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, payload.data(), payload.size());
  return bytes;
}

Result<std::shared_ptr<const plan::PlanT>> readProgram(std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() < sizeof header || std::memcmp(bytes.data(), header.magic, sizeof header.magic) != 0)
    return Error{MORTISE_CORRUPT, "expected a compiled program, which begins with MRTPROG, found another file"};
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version != Header().version)
    return Error{MORTISE_VERSION_MISMATCH, "expected a program of format " + std::to_string(Header().version) +
                                               ", found format " + std::to_string(header.version) +
                                               "; compile the graph again with this version"};
  const std::span<const std::byte> given = bytes.subspan(sizeof header);
  if (header.bytes != given.size())
    return corrupt("expected " + std::to_string(header.bytes) + " bytes behind its header, found " +
                   std::to_string(given.size()));
  if (header.checksum != checksumOf(given))
    return corrupt("its checksum does not agree with its bytes");
  // A copy, because the caller's bytes may lie at any address.
  const std::vector<std::byte> payload(given.begin(), given.end());
  const auto *data = reinterpret_cast<const uint8_t *>(payload.data());
  flatbuffers::Verifier verifier(data, payload.size(), /*max_depth=*/64, /*max_tables=*/100'000'000);
  if (!plan::VerifyPlanBuffer(verifier))
    return corrupt("its plan does not verify");
  std::shared_ptr<plan::PlanT> plan(plan::GetPlan(data)->UnPack());
  for (const auto &region : plan->regions) {
    if (!region)
      return corrupt("a region is missing");
    auto graph = Graph::load(std::as_bytes(std::span(region->graph)));
    if (!graph)
      return graph.error();
    const auto upgraded = (*graph)->bytes();
    region->graph.assign(reinterpret_cast<const uint8_t *>(upgraded.data()),
                         reinterpret_cast<const uint8_t *>(upgraded.data() + upgraded.size()));
  }
  return std::shared_ptr<const plan::PlanT>(std::move(plan));
}

} // namespace mortise::runtime
