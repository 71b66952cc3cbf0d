// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/runtime/program_file.hpp>

#include "sealed.hpp"
#include <mortise/portable/graph.hpp>
#include <mortise/runtime/plan_generated.h>

namespace mortise::runtime {
namespace {

constexpr FileKind kind = {
    {'M', 'R', 'T', 'P', 'R', 'O', 'G', '\n'}, 2, "compiled program", "compile the graph again with this version"};
constexpr uint64_t most = (UINT64_C(1) << 31) - (UINT64_C(1) << 20); // a FlatBuffer has less than 2 GB

Error corrupt(const std::string &what) { return {MORTISE_CORRUPT, "the compiled program's file is damaged: " + what}; }

} // namespace

Result<std::vector<std::byte>> writeProgram(const plan::PlanT &plan, std::span<const SavedKernel> kernels) {
  uint64_t large = 0;
  for (const auto &buffer : plan.buffers)
    large += buffer->literal.size();
  for (const auto &region : plan.regions)
    large += region->graph.size();
  for (const SavedKernel &kernel : kernels)
    large += kernel.bytes.size();
  if (large > most)
    return Error{MORTISE_UNSUPPORTED,
                 "expected a program whose literals, graphs and kernels take less than 2 GB, found " +
                     std::to_string(large) + " bytes; make large literals constant inputs"};
  flatbuffers::FlatBufferBuilder builder;
  const auto packed = plan::Plan::Pack(builder, &plan);
  std::vector<flatbuffers::Offset<plan::SavedKernel>> saved;
  for (const SavedKernel &kernel : kernels) {
    const auto key = builder.CreateString(kernel.key);
    const auto bytes =
        builder.CreateVector(reinterpret_cast<const uint8_t *>(kernel.bytes.data()), kernel.bytes.size());
    saved.push_back(plan::CreateSavedKernel(builder, kernel.region, key, bytes));
  }
  builder.Finish(plan::CreateSavedProgram(builder, packed, builder.CreateVector(saved)),
                 plan::SavedProgramIdentifier());
  return seal(kind, {std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()))});
}

Result<SavedProgram> readProgram(std::span<const std::byte> bytes) {
  auto given = unseal(kind, bytes);
  if (!given)
    return given.error();
  // A copy, because the caller's bytes may lie at any address.
  const std::vector<std::byte> payload(given->begin(), given->end());
  const auto *data = reinterpret_cast<const uint8_t *>(payload.data());
  flatbuffers::Verifier verifier(data, payload.size(), /*max_depth=*/64, /*max_tables=*/100'000'000);
  if (!plan::VerifySavedProgramBuffer(verifier))
    return corrupt("its plan does not verify");
  const plan::SavedProgram &saved = *plan::GetSavedProgram(data);
  if (!saved.plan())
    return corrupt("it has no plan");
  std::shared_ptr<plan::PlanT> plan(saved.plan()->UnPack());
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
  std::vector<SavedKernel> kernels;
  if (saved.kernels())
    for (const plan::SavedKernel *kernel : *saved.kernels()) {
      if (!kernel->key() || !kernel->bytes() || kernel->region() >= plan->regions.size())
        return corrupt("a kernel is of no region");
      const auto *first = reinterpret_cast<const std::byte *>(kernel->bytes()->data());
      kernels.push_back({kernel->region(), kernel->key()->str(), {first, first + kernel->bytes()->size()}});
    }
  return SavedProgram{std::move(plan), std::move(kernels)};
}

} // namespace mortise::runtime
