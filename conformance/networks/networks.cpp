// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "networks.hpp"

#include "given.hpp"

#include <mortise/reference/formats.hpp>
#include <mortise/reference/interpreter.hpp>
#include <mortise/symbols.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
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

namespace {

// Whether a result is NaN on the first set of inputs, which would hide what a device makes of it.
Result<bool> hasNan(const NetworkCase &of) {
  const MortiseGraph &view = of.graph->view();
  std::vector<const void *> sources;
  std::vector<std::vector<std::byte>> results;
  std::vector<void *> targets;
  for (const std::vector<std::byte> &input : of.inputs[0])
    sources.push_back(input.data());
  for (size_t i = 0; i < view.output_count; ++i)
    targets.push_back(results.emplace_back(byteSize(*view.outputs[i]->type)).data());
  if (auto done = reference::interpret(view, sources, targets); !done)
    return done.error();
  for (size_t i = 0; i < view.output_count; ++i) {
    const MortiseType &type = *view.outputs[i]->type;
    if (!isFloat(type.dtype))
      continue;
    const bool found = reference::visitFloat(type.dtype, [&](auto format) {
      using Format = decltype(format);
      const auto *x = reinterpret_cast<const typename Format::Storage *>(results[i].data());
      return std::any_of(x, x + elementCount(type),
                         [](auto element) { return std::isnan(static_cast<double>(Format::load(element))); });
    });
    if (found)
      return true;
  }
  return false;
}

// From 3 on, so that the interpreter computes bounds of large graphs soon.
std::vector<int64_t> smallValues(const MortiseGraph &graph) {
  std::vector<int64_t> values;
  for (const MortiseSymbol *symbol : std::span(graph.symbols, graph.symbol_count)) {
    const int64_t divisor = std::max<int64_t>(symbol->divisor, 1), least = std::max<int64_t>(symbol->min, 3);
    const int64_t value = (least + divisor - 1) / divisor * divisor;
    values.push_back(std::max(std::min(value, symbol->max / divisor * divisor), symbol->min));
  }
  return values;
}

// What the outputs depend on.
Result<Region> liveRegion(Tape &tape, const char *name) {
  MortiseGraph view = tape.builder.view();
  view.opset = MORTISE_OPSET;
  view.name = name;
  return extractRegion(view, liveNodes(view));
}

// `given`: what the leaves hold, for both sets; nullptr: numbers by the seed.
Result<NetworkCase> finished(Tape &tape, const char *name, uint64_t seed, const Given *given = nullptr) {
  const auto region = liveRegion(tape, name);
  if (!region)
    return region.error();
  NetworkCase made{region->graph, {}, given ? given->wrong : ""};
  std::mt19937_64 random(seed);
  for (size_t i = 0; i < tape.leaves.size(); ++i) {
    const Leaf &leaf = tape.leaves[i];
    const bool isEqual = given || leaf.value->flags & MORTISE_VALUE_CONSTANT;
    auto first = given ? given->inputs[i] : filled(leaf, random), second = isEqual ? first : filled(leaf, random);
    if (!std::ranges::binary_search(region->inputs, leaf.value->index))
      continue;
    made.inputs[0].push_back(std::move(first));
    made.inputs[1].push_back(std::move(second));
  }
  return made;
}

} // namespace

Result<NetworkCase> makeNetwork(const Network &network, int32_t dtype, uint64_t seed, const std::set<Op> &expanded) {
  Tape tape(dtype, expanded);
  network.make(tape);
  return finished(tape, network.name, seed);
}

Result<NetworkCase> networkOf(const MortiseGraph &graph, const std::vector<std::vector<std::byte>> &inputs,
                              const std::set<Op> &expanded) {
  Tape tape(MORTISE_F32, expanded);
  tape.record(graph);
  const auto region = liveRegion(tape, graph.name);
  if (!region)
    return region.error();
  NetworkCase made{region->graph, {}, ""};
  for (const uint32_t value : region->inputs)
    for (size_t i = 0; i < tape.leaves.size(); ++i)
      if (tape.leaves[i].value->index == value)
        made.inputs[0].push_back(inputs[i]);
  made.inputs[1] = made.inputs[0];
  return made;
}

Result<NetworkCase> loadNetwork(const std::string &path, uint64_t seed, const std::set<Op> &expanded) {
  std::ifstream file(path, std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(file)), {});
  if (!file)
    return Error{MORTISE_INVALID_ARGUMENT, path + ": expected a graph in the portable format, found no file to read"};
  auto graph = Graph::load(std::as_bytes(std::span(content)));
  if (!graph)
    return Error{graph.error().code, path + ": " + graph.error().message};
  if ((*graph)->view().symbol_count) {
    if (hasInputs(path))
      return Error{MORTISE_INVALID_ARGUMENT, path + ": expected a graph without symbols, because it has inputs"};
    auto fixed = specialise((*graph)->view(), smallValues((*graph)->view()));
    if (!fixed) // a guard does not hold
      fixed = specialise((*graph)->view(), typicalValues((*graph)->view()));
    if (!fixed)
      return Error{fixed.error().code, path + ": " + fixed.error().message};
    graph = std::move(fixed);
  }
  const MortiseGraph &view = (*graph)->view();
  const auto refusal = [&](const Error &error) { return Error{error.code, path + ": " + error.message}; };
  for (const MortiseNode *node : std::span(view.nodes, view.node_count))
    if (const auto refused = reference::refuse(*node))
      return Error{MORTISE_INVALID_ARGUMENT, path + ": node " + std::to_string(node->index) + " (" + node->op +
                                                 ") cannot be judged: " + refused.detail};
  Tape tape(MORTISE_F32, expanded);
  tape.record(view);
  const auto given = readGiven(path, view);
  if (!given)
    return given.error();
  auto made = finished(tape, view.name, seed, *given ? &**given : nullptr);
  if (!made)
    return refusal(made.error());
  if (*given)
    return made;
  const auto isBlind = hasNan(*made);
  if (!isBlind)
    return refusal(isBlind.error());
  if (!*isBlind)
    return made;
  // Roots and logarithms of what is below 0, as of variances.
  Tape positive(MORTISE_F32, expanded);
  positive.record(view);
  for (Leaf &leaf : positive.leaves)
    if (isFloat(leaf.value->type->dtype))
      leaf.low = 0.1;
  return finished(positive, view.name, seed);
}

} // namespace mortise::conformance
