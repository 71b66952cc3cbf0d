// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "networks.hpp"

#include <mortise/reference/formats.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace mortise::conformance {
namespace {

// The nodes that outputs depend on. Of the others, the uses of values are taken back.
std::vector<uint32_t> liveNodes(const MortiseGraph &view) {
  std::vector<bool> isLive(view.value_count);
  for (size_t i = 0; i < view.output_count; ++i)
    isLive[view.outputs[i]->index] = true;
  std::vector<uint32_t> live;
  for (size_t n = view.node_count; n-- > 0;) {
    const MortiseNode &node = *view.nodes[n];
    const bool isNeeded = std::any_of(node.results, node.results + node.result_count,
                                      [&](const MortiseValue *result) { return isLive[result->index]; });
    if (isNeeded)
      live.push_back(static_cast<uint32_t>(n));
    for (size_t i = 0; i < node.operand_count; ++i)
      if (const MortiseValue *operand = node.operands[i]) {
        if (isNeeded)
          isLive[operand->index] = true;
        else
          --const_cast<MortiseValue *>(operand)->use_count;
      }
  }
  std::ranges::reverse(live);
  return live;
}

} // namespace

std::vector<std::byte> filled(const Leaf &leaf, std::mt19937_64 &random) {
  const MortiseType &type = *leaf.value->type;
  std::vector<std::byte> bytes(byteSize(type));
  const auto next = [&] { // at least 0, below 1; not std::uniform_real_distribution, which differs between libraries
    return std::ldexp(static_cast<double>(random() >> 11), -53);
  };
  const auto count = static_cast<size_t>(elementCount(type));
  const auto draw = [&] {
    return isFloat(type.dtype) ? leaf.low + (leaf.high - leaf.low) * next()
                               : std::floor(leaf.low + (leaf.high - leaf.low + 1) * next());
  };
  if (dtypeBits(type.dtype) < 8) {
    for (size_t i = 0; i < count; ++i)
      bytes[i / 2] |= static_cast<std::byte>((static_cast<int>(draw()) & 15) << (i % 2 ? 4 : 0));
    return bytes;
  }
  reference::visitElement(type.dtype, [&](auto kind) {
    using Kind = decltype(kind);
    auto *to = reinterpret_cast<typename Kind::Storage *>(bytes.data());
    for (size_t i = 0; i < count; ++i)
      to[i] = Kind::store(static_cast<typename Kind::Compute>(draw()));
  });
  return bytes;
}

std::span<const Network> networks() {
  static const std::vector<Network> all = [] {
    std::vector<Network> made;
    for (auto list : {trainingNetworks, quantisedNetworks, models})
      std::ranges::move(list(), std::back_inserter(made));
    return made;
  }();
  return all;
}

std::vector<Point> networkPoints(Level level, Extent extent) {
  std::vector<Point> points;
  for (uint16_t i = 0; i < networks().size(); ++i)
    for (const int32_t dtype : networkTypes)
      for (int number = 1; number <= (extent == Extent::Full ? 3 : 1); ++number)
        if (networks()[i].level == level)
          points.push_back(
              {.dtype = dtype, .variant = i, .number = static_cast<uint16_t>(number), .probe = Probe::Network});
  return points;
}

Result<NetworkCase> makeNetwork(const Network &network, int32_t dtype, uint64_t seed, const std::set<Op> &expanded) {
  Tape tape(dtype, expanded);
  network.make(tape);
  MortiseGraph view = tape.builder.view();
  view.opset = MORTISE_OPSET;
  view.name = network.name;
  const auto region = extractRegion(view, liveNodes(view));
  if (!region)
    return region.error();
  NetworkCase made{region->graph, {}};
  std::mt19937_64 random(seed);
  for (const Leaf &leaf : tape.leaves) {
    const bool isUsed = std::ranges::binary_search(region->inputs, leaf.value->index);
    const bool isConstant = leaf.value->flags & MORTISE_VALUE_CONSTANT;
    auto first = filled(leaf, random), second = isConstant ? first : filled(leaf, random);
    if (!isUsed)
      continue;
    made.inputs[0].push_back(std::move(first));
    made.inputs[1].push_back(std::move(second));
  }
  return made;
}

} // namespace mortise::conformance
