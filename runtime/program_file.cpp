// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/runtime/program_file.hpp>

#include "sealed.hpp"
#include <mortise/portable/graph.hpp>
#include <mortise/runtime/plan_generated.h>

namespace mortise::runtime {
namespace {

constexpr FileKind kind = {
    {'M', 'R', 'T', 'P', 'R', 'O', 'G', '\n'}, 1, "compiled program", "compile the graph again with this version"};
constexpr uint64_t most = (UINT64_C(1) << 31) - (UINT64_C(1) << 20); // a FlatBuffer has less than 2 GB

Error corrupt(const std::string &what) { return {MORTISE_CORRUPT, "the compiled program's file is damaged: " + what}; }

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
  return seal(kind, {std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()))});
}

Result<std::shared_ptr<const plan::PlanT>> readProgram(std::span<const std::byte> bytes) {
  auto given = unseal(kind, bytes);
  if (!given)
    return given.error();
  // A copy, because the caller's bytes may lie at any address.
  const std::vector<std::byte> payload(given->begin(), given->end());
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
