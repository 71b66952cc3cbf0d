// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "kernel.hpp"

#include <mortise/runtime/call.hpp>

#include <algorithm>

namespace mortise::conformance {
namespace {

void add(void *sink, const MortiseCandidate *candidate) {
  const MortiseCandidate &from = *candidate;
  bool forms = false;
  for (size_t i = 0; i < from.form_count; ++i)
    forms |= from.forms[i].layout != MORTISE_PLAIN_LAYOUT || from.forms[i].space != 0;
  static_cast<Proposals *>(sink)->candidates.push_back({from.lowering ? from.lowering : "",
                                                        {from.nodes, from.nodes + from.node_count},
                                                        forms,
                                                        from.cost_ns,
                                                        {from.in_place, from.in_place + from.in_place_count}});
}

void refuse(void *sink, uint32_t node, int32_t reason, const char *detail) {
  static_cast<Proposals *>(sink)->refusals.push_back({node, {reason, runtime::legible(detail ? detail : "")}});
}

std::vector<MortiseOption> optionsOf(const std::vector<runtime::Setting> &settings) {
  std::vector<MortiseOption> options;
  for (const runtime::Setting &setting : settings)
    options.push_back({setting.key.c_str(), setting.value.c_str()});
  return options;
}

// The graph as a plugin of an older opset reads it.
Result<std::shared_ptr<const Graph>> forOpset(const std::shared_ptr<const Graph> &graph, uint32_t opset) {
  if (opset >= MORTISE_OPSET)
    return graph;
  auto bytes = graph->bytesFor(opset, 2);
  return bytes ? Graph::read(*bytes) : Result<std::shared_ptr<const Graph>>(bytes.error());
}

} // namespace

Result<Proposals> proposalsFor(Device &device, const MortiseGraph &graph, const MortiseCompileOptions &options) {
  const auto settings = device.settings().pluginOptions(device.info().plugin->name);
  const auto given = optionsOf(settings);
  Proposals made;
  MortiseProposeArgs args{.struct_size = sizeof args,
                          .device = device.handle(),
                          .graph = &graph,
                          .options = given.data(),
                          .option_count = given.size(),
                          .compile_options = &options,
                          .sink = &made,
                          .add = add,
                          .refuse = refuse};
  if (auto done = device.call("propose", device.table().propose, args); !done)
    return done.error();
  return made;
}

struct Kernel::Offer {
  Proposal candidate;
  MortiseCompileOptions options;
};

// Asks for a deterministic kernel first, and without that promise where the plugin refuses it for its sake.
Result<std::optional<Kernel::Offer>> Kernel::propose(Refused &refused) {
  const MortiseGraph &view = graph->view();
  for (const uint32_t wanted : {1u, 0u}) {
    Offer offer{{}, device.settings().compileOptions()};
    offer.options.deterministic = wanted;
    auto proposals = proposalsFor(device, view, offer.options);
    if (!proposals)
      return proposals.error();
    auto &candidates = proposals->candidates;
    std::erase_if(candidates, [&](const Proposal &candidate) { return candidate.nodes.size() != view.node_count; });
    const auto best = std::ranges::min_element(
        candidates, {}, [](const Proposal &candidate) { return std::pair(candidate.hasForms, candidate.cost); });
    if (best != candidates.end() && !best->hasForms) {
      offer.candidate = *best;
      deterministic = wanted != 0;
      return std::optional(std::move(offer));
    }
    if (best != candidates.end())
      refused = {reasonForms, "every candidate for the case wants layouts or spaces of the plugin's own"};
    else if (!proposals->refusals.empty())
      refused = proposals->refusals.front().second;
    else
      refused = {reasonPartial, "no candidate has all nodes of the case, and no node is refused"};
    if (refused.reason != MORTISE_REASON_OPTION)
      break;
  }
  return std::optional<Offer>();
}

Result<std::unique_ptr<Kernel>> Kernel::compile(Device &device, std::shared_ptr<const Graph> graph, Refused &refused) {
  return make(device, std::move(graph), nullptr, refused);
}

Result<std::unique_ptr<Kernel>> Kernel::load(Device &device, std::shared_ptr<const Graph> graph,
                                             std::span<const std::byte> saved, Refused &refused) {
  return make(device, std::move(graph), &saved, refused);
}

Result<std::vector<std::byte>> Kernel::save() const {
  std::vector<std::byte> bytes;
  MortiseKernelSaveArgs args{.struct_size = sizeof args, .kernel = handle, .sink = &bytes};
  args.write = [](void *sink, const void *from, uint64_t count) {
    const auto *begin = static_cast<const std::byte *>(from);
    static_cast<std::vector<std::byte> *>(sink)->insert(static_cast<std::vector<std::byte> *>(sink)->end(), begin,
                                                        begin + count);
  };
  if (auto done = device.call("kernel_save", device.table().kernel_save, args); !done)
    return done.error();
  return bytes;
}

Result<std::unique_ptr<Kernel>> Kernel::make(Device &device, std::shared_ptr<const Graph> graph,
                                             const std::span<const std::byte> *saved, Refused &refused) {
  if (graph->view().symbol_count && !device.info().plugin->seesSymbols()) {
    refused = {MORTISE_REASON_NEEDS_STATIC, "a plugin of opset 1 is shown graphs with numbers only"};
    return std::unique_ptr<Kernel>();
  }
  auto written = forOpset(graph, device.table().opset);
  if (!written) {
    refused = {reasonOpset, written.error().message};
    return std::unique_ptr<Kernel>();
  }
  std::unique_ptr<Kernel> made(new Kernel(device, std::move(*written)));
  auto offer = made->propose(refused);
  if (!offer)
    return offer.error();
  if (!*offer)
    return std::unique_ptr<Kernel>();
  made->pairs = (*offer)->candidate.pairs;
  auto settings = device.settings().pluginOptions(device.info().plugin->name);
  auto options = optionsOf(settings);
  std::string &lowering = (*offer)->candidate.lowering;
  MortiseCompileArgs args{.struct_size = sizeof args,
                          .device = device.handle(),
                          .region = &made->graph->view(),
                          .lowering = lowering.c_str(),
                          .options = options.data(),
                          .option_count = options.size(),
                          .compile_options = &(*offer)->options};
  if (saved) {
    args.saved = saved->data();
    args.saved_bytes = saved->size();
  }
  const auto &table = device.table();
  auto done = saved ? device.call("kernel_load", table.kernel_load, args)
                    : device.call("kernel_compile", table.kernel_compile, args);
  if (!done) {
    if (saved || done.error().code != MORTISE_UNSUPPORTED)
      return done.error();
    refused = {reasonCompile, done.error().message};
    return std::unique_ptr<Kernel>();
  }
  made->handle = args.kernel;
  if (!made->handle)
    return Error{MORTISE_INTERNAL,
                 std::string(saved ? "kernel_load" : "kernel_compile") + " succeeds and makes no kernel"};
  made->info = {.struct_size = sizeof made->info, .kernel = made->handle};
  if (done = device.call("kernel_info", table.kernel_info, made->info); !done)
    return done.error();
  // Of what the call was given only the region stays.
  const std::string before = made->described();
  std::ranges::fill(lowering, '?');
  for (runtime::Setting &setting : settings)
    std::ranges::fill(setting.value, '?');
  (*offer)->options = {};
  if (made->described() != before)
    return Error{MORTISE_INTERNAL, "kernel_info hands out what kernel_compile was given, which is gone: '" + before +
                                       "' became '" + made->described() + "'"};
  return made;
}

std::string Kernel::described() const {
  std::string text;
  for (size_t i = 0; i < info.step_count; ++i)
    for (const char *word : {info.steps[i]->name, info.steps[i]->lowering})
      text += std::string(text.empty() ? "" : ", ") + (word ? word : "");
  return text;
}

Kernel::~Kernel() {
  if (!handle)
    return;
  MortiseKernelArgs args{.struct_size = sizeof args, .kernel = handle};
  (void)device.call("kernel_destroy", device.table().kernel_destroy, args);
}

} // namespace mortise::conformance
