// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "layout.hpp"

#include "settings.hpp"
#include <mortise/reference/interpreter.hpp>

#include <algorithm>
#include <cstring>

namespace strict {
using namespace mortise;

namespace {

// Calls `copy(place of an element in the dense value, its place in the layout)` for each element.
template <typename Copy> void forEach(const Elements &elements, uint32_t layout, Copy copy) {
  for (uint64_t i = 0; i < elements.count; ++i)
    copy(i, layout == Reversed ? elements.count - 1 - i : layout == Padded ? i + i / elements.columns : i);
}

} // namespace

const char *nameOf(uint32_t layout) {
  constexpr const char *names[layoutCount] = {"plain", "reversed", "padded"};
  return layout < layoutCount ? names[layout] : nullptr;
}

bool hasLayouts(const MortiseType &type) { return dtypeBits(type.dtype) >= 8; }

Elements elementsOf(const MortiseType &type) {
  return {static_cast<uint64_t>(elementCount(type)), type.rank ? static_cast<uint64_t>(type.dims[type.rank - 1]) : 1,
          dtypeBits(type.dtype)};
}

uint64_t bytesOf(const Elements &elements, uint32_t layout) {
  const uint64_t padding = layout == Padded && elements.count ? elements.count / elements.columns : 0;
  return ((elements.count + padding) * elements.bits + 7) / 8;
}

std::vector<MortiseExprStep> sizeOf(const MortiseType &type, uint32_t layout) {
  std::vector<MortiseExprStep> steps{{MORTISE_EXPR_CONST, 0, static_cast<int64_t>(dtypeBits(type.dtype) / 8)}};
  for (int32_t i = 0; i < type.rank; ++i) {
    if (type.dims[i] == MORTISE_DYNAMIC)
      steps.insert(steps.end(), type.dim_exprs[i].steps, type.dim_exprs[i].steps + type.dim_exprs[i].count);
    else
      steps.push_back({MORTISE_EXPR_CONST, 0, type.dims[i]});
    if (layout == Padded && i + 1 == type.rank)
      steps.insert(steps.end(), {{MORTISE_EXPR_CONST, 0, 1}, {MORTISE_EXPR_ADD, 0, 0}});
    steps.push_back({MORTISE_EXPR_MUL, 0, 0});
  }
  if (layout == Padded && type.rank == 0)
    steps.insert(steps.end(), {{MORTISE_EXPR_CONST, 0, 2}, {MORTISE_EXPR_MUL, 0, 0}});
  return steps;
}

void pack(const Elements &elements, uint32_t layout, const std::byte *dense, std::byte *into) {
  const size_t size = elements.bits / 8;
  std::memset(into, 0xcb, bytesOf(elements, layout)); // padding is never zero by chance
  forEach(elements, layout,
          [&](uint64_t from, uint64_t to) { std::memcpy(into + to * size, dense + from * size, size); });
}

void unpack(const Elements &elements, uint32_t layout, const std::byte *from, std::byte *dense) {
  const size_t size = elements.bits / 8;
  forEach(elements, layout, [&](uint64_t to, uint64_t at) { std::memcpy(dense + to * size, from + at * size, size); });
}

void proposeConversion(Proposal &proposal) {
  const MortiseGraph &graph = proposal.graph();
  const bool inHome = std::ranges::all_of(proposal.forms(), [](const MortiseForm &form) { return form.space == 0; });
  if (graph.node_count != 1 || std::string_view(graph.nodes[0]->op) != "mortise.convert" || !inHome)
    return proposal.refuse(0, MORTISE_REASON_LAYOUT, "only conversions are taken in forms that the host chooses");
  if (const reference::Refusal refusal = reference::refuse(*graph.nodes[0]))
    return proposal.refuse(0, refusal.reason, refusal.detail);
  const uint32_t node = 0;
  proposal.add({"strict.conversion", {&node, 1}, 1e-3, 0, 0, {}, proposal.forms()});
}

std::vector<MortiseForm> randomForms(const MortiseGraph &graph, const std::vector<uint32_t> &nodes, uint64_t seed) {
  std::vector<MortiseForm> forms;
  std::vector<uint32_t> uses(graph.value_count);
  std::vector<bool> aliased(graph.value_count);
  for (size_t i = 0; i < graph.alias_count; ++i) {
    aliased[graph.inputs[graph.aliases[i]->input]->index] = true;
    aliased[graph.outputs[graph.aliases[i]->output]->index] = true;
  }
  const auto add = [&](const MortiseValue &value, uint64_t end) {
    const uint64_t random = mix(seed, 2 * uint64_t{value.index} + end);
    const bool fixed = value.flags & (MORTISE_VALUE_CONSTANT | MORTISE_VALUE_STATE) || aliased[value.index] ||
                       !hasLayouts(*value.type);
    const MortiseForm form{value.index, static_cast<uint32_t>(random % layoutCount), random / 8 % 2 ? 1u : 0u, 0};
    const bool known = std::ranges::find(forms, value.index, &MortiseForm::value) != forms.end();
    if (!fixed && !known)
      forms.push_back(form);
  };
  for (uint32_t n : nodes)
    for (size_t i = 0; i < graph.nodes[n]->operand_count; ++i)
      if (const MortiseValue *value = graph.nodes[n]->operands[i]) {
        ++uses[value->index];
        if (!value->producer || !std::ranges::binary_search(nodes, value->producer->index))
          add(*value, 0);
      }
  for (uint32_t n : nodes)
    for (size_t i = 0; i < graph.nodes[n]->result_count; ++i)
      if (const MortiseValue &value = *graph.nodes[n]->results[i]; value.use_count > uses[value.index])
        add(value, seed % 2); // with an even seed, what a region gives is what the next one wants
  return forms;
}

} // namespace strict
