// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "layouts.hpp"

#include <mortise/graph.hpp>
#include <mortise/runtime/call.hpp>
#include <mortise/runtime/guard.hpp>
#include <mortise/symbols.hpp>

#include <algorithm>

namespace mortise::passes {
namespace {

constexpr int64_t mostBytes = INT64_C(1) << 47;

// A graph that converts a value of `type` to the type that it has: only its forms differ.
Result<std::shared_ptr<const Graph>> conversionGraph(const MortiseGraph &graph, const MortiseType &type) {
  MortiseAttribute dtype{
      .struct_size = sizeof dtype, .name = "dtype", .kind = MORTISE_ATTRIBUTE_STRING, .string = dtypeName(type.dtype)};
  MortiseNode node{.struct_size = sizeof node, .since = 1, .op = "mortise.convert", .location = ""};
  MortiseValue input{.struct_size = sizeof input, .type = &type, .index = 0, .use_count = 1, .name = ""};
  MortiseValue output{
      .struct_size = sizeof output, .type = &type, .producer = &node, .index = 1, .use_count = 1, .name = ""};
  const MortiseAttribute *attributes[] = {&dtype};
  const MortiseValue *inputs[] = {&input}, *outputs[] = {&output}, *values[] = {&input, &output};
  const MortiseNode *nodes[] = {&node};
  node.attributes = attributes;
  node.operands = inputs;
  node.results = outputs;
  node.attribute_count = node.operand_count = node.result_count = 1;
  MortiseGraph whole{.struct_size = sizeof whole, .name = "", .opset = graph.opset};
  whole.nodes = nodes;
  whole.values = values;
  whole.inputs = inputs;
  whole.outputs = outputs;
  whole.node_count = whole.input_count = whole.output_count = 1;
  whole.value_count = 2;
  whole.symbols = graph.symbols;
  whole.symbol_count = graph.symbol_count;
  return Graph::copy(whole);
}

std::string layoutText(uint32_t layout) {
  return layout == MORTISE_PLAIN_LAYOUT ? "plain" : "layout " + std::to_string(layout);
}

} // namespace

std::shared_ptr<Layouts> makeLayouts() { return std::make_shared<Layouts>(); }

MortiseForm formOf(const Candidate &candidate, uint32_t value) {
  const auto found = std::ranges::find(candidate.forms, value, &MortiseForm::value);
  return found == candidate.forms.end() ? MortiseForm{value, MORTISE_PLAIN_LAYOUT, 0, 0} : *found;
}

Result<LayoutSize> Layouts::size(const MortiseGraph &graph, const MortiseType &type, const Target &target,
                                 uint32_t layout) {
  const std::string which = "layout " + std::to_string(layout) + " of plugin '" + target.device->plugin->name + "': ";
  MortiseLayoutArgs args{.struct_size = sizeof(MortiseLayoutArgs),
                         .device = target.device->info.device,
                         .graph = &graph,
                         .type = &type,
                         .layout = layout};
  if (auto asked = runtime::call("layout", target.device->plugin->table->layout, args); !asked)
    return Error{asked.error().code, which + asked.error().message};
  constexpr size_t most = 4096;
  if (args.bytes.count == 0 || args.bytes.count > most || !runtime::holds(args.bytes.steps, args.bytes.count))
    return Error{MORTISE_INTERNAL, which + "expected 1 to " + std::to_string(most) +
                                       " steps that compute its bytes, found " + std::to_string(args.bytes.count)};
  const auto name = runtime::readPrefix(args.name);
  if (!name)
    return Error{MORTISE_INTERNAL, which + "expected a name, found none that can be read"};
  return LayoutSize{runtime::legible(*name), {args.bytes.steps, args.bytes.steps + args.bytes.count}};
}

const Conversion *Layouts::conversion(const MortiseGraph &graph, const MortiseType &type, const Target &target,
                                      uint32_t from, uint32_t to) {
  auto made = conversionGraph(graph, type);
  if (!made)
    return nullptr;
  const std::span<const std::byte> bytes = (*made)->bytes();
  const std::lock_guard lock(mutex);
  const auto [entry, fresh] =
      known.try_emplace({std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size()), {from, to}}, nullptr);
  if (!fresh)
    return entry->second.get();
  const MortiseForm forms[] = {{0, from, 0, 0}, {1, to, 0, 0}};
  if (auto offer = proposeInForms((*made)->view(), target, forms))
    entry->second = std::make_unique<Conversion>(Conversion{std::move(*made), std::move(*offer)});
  return entry->second.get();
}

std::string checkLayouts(const MortiseGraph &graph, const Target &target, const Candidate &candidate) {
  for (const MortiseForm &form : candidate.forms) {
    if (form.layout == MORTISE_PLAIN_LAYOUT)
      continue;
    const MortiseValue &value = *graph.values[form.value];
    const auto size = target.layouts->size(graph, *value.type, target, form.layout);
    if (!size)
      return size.error().message;
    const auto bytes = evaluate({size->bytes.data(), size->bytes.size()}, typicalValues(graph));
    if (!bytes || *bytes < 0 || *bytes > mostBytes)
      return layoutText(form.layout) + ": expected the bytes that value " + std::to_string(form.value) +
             " takes, found " + (bytes ? std::to_string(*bytes) : bytes.error().message);
    const bool produced = value.producer && std::ranges::binary_search(candidate.nodes, value.producer->index);
    const uint32_t from = produced ? form.layout : MORTISE_PLAIN_LAYOUT,
                   to = produced ? MORTISE_PLAIN_LAYOUT : form.layout;
    if (target.layouts->conversion(graph, *value.type, target, from, to) == nullptr)
      return "it has value " + std::to_string(form.value) + " in " + layoutText(form.layout) +
             ", and the plugin offers no conversion of " + typeString(*value.type) + " from " + layoutText(from) +
             " to " + layoutText(to);
  }
  return "";
}

Place placeOf(const std::vector<Target> &targets, const Candidate &candidate, uint32_t value) {
  const runtime::Device &device = *targets[candidate.target].device;
  const MortiseForm form = formOf(candidate, value);
  return {device.inHostMemory() && form.space == 0 ? nullptr : &device.owner(), form.space, form.layout,
          form.layout == MORTISE_PLAIN_LAYOUT ? 0 : candidate.target};
}

std::vector<Hop> route(const MortiseGraph &graph, const MortiseType &type, const std::vector<Target> &targets,
                       Place from, const Place &to) {
  std::vector<Hop> hops;
  const auto copyTo = [&](const Place &place) {
    if (place != from)
      hops.push_back({from, place});
    from = place;
  };
  const auto convertTo = [&](uint32_t layout, uint32_t target) {
    const Place place{from.memory, 0, layout, layout == MORTISE_PLAIN_LAYOUT ? 0 : target};
    hops.push_back(
        {from, place, targets[target].layouts->conversion(graph, type, targets[target], from.layout, layout), target});
    from = place;
  };
  // Kernels that convert work in the home of their device, and devices copy between their homes.
  const auto homeOf = [](Place place) {
    if (place.memory && place.memory->inHostMemory())
      place.memory = nullptr;
    place.space = 0;
    return place;
  };
  if (from == to)
    return hops;
  const Place target = homeOf(to);
  copyTo(homeOf(from));
  const bool sameLayout = from.layout == to.layout && from.target == to.target;
  if (!sameLayout && from.layout != MORTISE_PLAIN_LAYOUT) {
    const bool direct =
        to.layout != MORTISE_PLAIN_LAYOUT && from.target == to.target && from.memory == target.memory &&
        targets[from.target].layouts->conversion(graph, type, targets[from.target], from.layout, to.layout) != nullptr;
    convertTo(direct ? to.layout : MORTISE_PLAIN_LAYOUT, from.target);
  }
  if (from.memory && target.memory && from.memory != target.memory &&
      !runtime::linkBetween(*from.memory, *target.memory))
    copyTo({nullptr, 0, from.layout, from.target}); // through the host
  copyTo({target.memory, 0, from.layout, from.target});
  if (from.layout != to.layout)
    convertTo(to.layout, to.target);
  copyTo(to);
  return hops;
}

bool leadsOverHost(std::span<const Hop> hops, size_t i) {
  return i + 1 < hops.size() && !hops[i].conversion && !hops[i + 1].conversion && hops[i].from.memory &&
         !hops[i].to.memory && hops[i + 1].to.memory && hops[i].from.memory != hops[i + 1].to.memory;
}

} // namespace mortise::passes
