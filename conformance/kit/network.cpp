// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "network.hpp"

#include "../one_node.hpp"
#include "call.hpp"

#include <mortise/conformance/error_bounds.hpp>
#include <mortise/conformance/op_bounds.hpp>
#include <mortise/reference/formats.hpp>

#include <algorithm>
#include <chrono>
#include <fstream>

namespace mortise::conformance {
namespace {

// ---- Which regions can be judged

// Ops whose result jumps where an operand changes by little.
bool jumps(const MortiseNode &node) {
  constexpr Op list[] = {Op::Compare, Op::Sign,   Op::Floor,        Op::Ceil,     Op::Round,
                         Op::Rem,     Op::Argmax, Op::Argmin,       Op::Sort,     Op::TopK,
                         Op::Cummax,  Op::Cummin, Op::Searchsorted, Op::Quantize, Op::DynamicQuantize};
  const Op op = opOf(node);
  return std::ranges::find(list, op) != std::end(list) || (op == Op::Convert && !isFloat(node.results[0]->type->dtype));
}

// Ops that round nothing, and so pass on what is exact.
bool selects(const MortiseNode &node) {
  constexpr Op list[] = {Op::Select,    Op::Relu,      Op::Neg,     Op::Abs,  Op::Max,      Op::Min,
                         Op::ReduceMax, Op::ReduceMin, Op::MaxPool, Op::Take, Op::Embedding};
  return has(node, Trait::Movement) || std::ranges::find(list, opOf(node)) != std::end(list);
}

// Cuts a graph where it has to be: a device may keep more bits between the nodes of a region than the interpreter, so
// that what jumps there is not known. By node its stage; no node reads what a later stage makes, and in a stage no node
// that jumps reads what the stage itself has rounded.
std::vector<uint32_t> stagesOf(const MortiseGraph &graph) {
  std::vector<uint32_t> stages(graph.node_count);
  std::vector<bool> isRounded(graph.value_count); // in the stage that makes it
  for (size_t n = 0; n < graph.node_count; ++n) {
    const MortiseNode &node = *graph.nodes[n];
    uint32_t stage = 0;
    const auto stageOf = [&](Value operand) {
      return operand && operand->producer ? stages[operand->producer->index] : 0;
    };
    const std::span operands(node.operands, node.operand_count);
    for (Value operand : operands)
      stage = std::max(stage, stageOf(operand));
    bool readsRounded = std::ranges::any_of(
        operands, [&](Value operand) { return operand && isRounded[operand->index] && stageOf(operand) == stage; });
    if (readsRounded && jumps(node)) {
      ++stage;
      readsRounded = false;
    }
    stages[n] = stage;
    for (size_t i = 0; i < node.result_count; ++i)
      isRounded[node.results[i]->index] = isFloat(node.results[i]->type->dtype) && (readsRounded || !selects(node));
  }
  return stages;
}

// ---- One region

std::vector<const void *> pointers(const Tensors &tensors) {
  std::vector<const void *> made;
  for (const std::vector<std::byte> &tensor : tensors)
    made.push_back(tensor.data());
  return made;
}

// How far a device's results may be from the exact ones. The bound of an op in closed form counts the roundings of the
// op alone; those of the nodes in front of it are measured.
class RegionJudge {
public:
  explicit RegionJudge(const RegionCase &region) : view(region.graph->view()), inputs(pointers(region.inputs)) {}

  Result<void> expect(Tensors &expected) {
    std::vector<void *> targets;
    for (size_t i = 0; i < view.output_count; ++i)
      targets.push_back(expected.emplace_back(byteSize(*view.outputs[i]->type)).data());
    return reference::interpret(view, inputs, targets);
  }

  // "" when the output is as it should be.
  Result<std::string> compare(size_t output, std::span<const std::byte> found, std::span<const std::byte> expected,
                              Distances &distances) {
    const MortiseType &type = *view.outputs[output]->type;
    if (std::ranges::equal(found, expected))
      return std::string();
    if (!isFloat(type.dtype))
      return differences(type, found, expected);
    if (auto done = measure(); !done)
      return done.error();
    return reference::visitFloat(
        type.dtype, [&](auto format) { return compareFloats<decltype(format)>(output, found, expected, distances); });
  }

private:
  Result<void> measure() {
    if (!exact.empty())
      return {};
    auto results = exactResults(view, inputs);
    if (!results)
      return results.error();
    exact = std::move(*results);
    auto measured = standardErrors(view, inputs);
    if (!measured)
      return measured.error();
    errors = std::move(*measured);
    return {};
  }

  template <typename Format>
  std::string compareFloats(size_t output, std::span<const std::byte> found, std::span<const std::byte> expected,
                            Distances &distances) const {
    const MortiseType &type = *view.outputs[output]->type;
    const auto *x = reinterpret_cast<const typename Format::Storage *>(found.data());
    const auto *y = reinterpret_cast<const typename Format::Storage *>(expected.data());
    const auto count = static_cast<size_t>(elementCount(type));
    const ExactResult &closed = exact[output];
    size_t wrong = 0;
    std::string first;
    for (size_t i = 0; i < count; ++i) {
      const auto a = static_cast<double>(Format::load(x[i])), b = static_cast<double>(Format::load(y[i]));
      if (a == b || (std::isnan(a) && std::isnan(b)))
        continue;
      double most = allowed(errors[output][i], b, type.dtype), distance = std::abs(a - b);
      if (!closed.values.empty()) {
        most = view.node_count == 1 ? closed.bounds[i] : closed.bounds[i] + most;
        distance = std::abs(a - closed.values[i]);
      }
      if (!std::isfinite(most)) // rounding alone makes an intermediate result finite or not
        continue;
      const double unit = ulp(b, type.dtype);
      if (std::isfinite(distance) && distance <= most) {
        distances.worst = std::max(distances.worst, std::abs(a - b) / unit);
        if (distance / most > distances.share) {
          distances.share = distance / most;
          distances.bound = most / unit;
        }
        continue;
      }
      if (++wrong > 1)
        continue;
      char line[192];
      snprintf(line, sizeof line, "element %zu: expected %.9g, found %.9g, which is %.3g ULP away; at most %.3g", i, b,
               a, distance / unit, most / unit);
      first = line;
    }
    return wrong ? first + "; " + std::to_string(wrong) + " of " + std::to_string(count) + " elements of " +
                       typeString(type) + " are wrong"
                 : "";
  }

  const MortiseGraph &view;
  const std::vector<const void *> inputs;
  std::vector<ExactResult> exact;
  std::vector<std::vector<double>> errors;
};

struct Found {
  std::string kind, why; // "" when nothing is wrong
  Tensors outputs;
};

Found callRegion(Kernel &kernel, const RegionCase &region, const std::string &id, Edge edge, std::byte poison,
                 Verdict &verdict) {
  const Case made{id, {}, region.graph, region.graph, region.inputs, {}, {}, {}};
  Call call(kernel, made, edge, poison);
  if (auto done = call.run(); !done)
    return {"status", done.error().message, {}};
  verdict.cpuSeconds += call.cpuSeconds;
  verdict.runSeconds += call.runSeconds;
  Found found;
  if (Wrong wrong = call.damage(); !wrong.kind.empty())
    found = {wrong.kind, wrong.why, {}};
  RegionJudge judge(region);
  Tensors expected;
  if (auto done = judge.expect(expected); !done)
    return {"kit", done.error().message, {}};
  for (size_t i = 0; i < call.outputs.size() && found.why.empty(); ++i) {
    const auto text = judge.compare(i, call.outputs[i], expected[i], verdict.distances);
    if (!text)
      return {"kit", text.error().message, {}};
    if (!text->empty())
      found = {"result", "output " + std::to_string(i) + ": " + *text, {}};
  }
  found.outputs = std::move(call.outputs);
  return found;
}

std::string opsOf(const MortiseGraph &graph) {
  std::string text;
  for (size_t i = 0; i < graph.node_count && i < 6; ++i)
    text += (i ? ", " : "") + std::string(graph.nodes[i]->op).substr(std::string("mortise.").size());
  return text + (graph.node_count > 6 ? " and " + std::to_string(graph.node_count - 6) + " more" : "");
}

// ---- The smallest part of a region that fails

// What each value holds, by the interpreter.
Result<Tensors> valuesOf(const RegionCase &region) {
  const MortiseGraph &view = region.graph->view();
  Tensors values(view.value_count);
  for (size_t i = 0; i < view.value_count; ++i)
    values[view.values[i]->index].resize(byteSize(*view.values[i]->type));
  for (size_t i = 0; i < view.input_count; ++i)
    values[view.inputs[i]->index] = region.inputs[i];
  for (size_t n = 0; n < view.node_count; ++n) {
    const auto node = OneNode::make(view, *view.nodes[n], false);
    if (!node)
      return node.error();
    std::vector<const void *> operands;
    std::vector<void *> results;
    for (const uint32_t operand : (*node)->operandValues)
      operands.push_back(values[operand].data());
    for (size_t i = 0; i < view.nodes[n]->result_count; ++i)
      results.push_back(values[view.nodes[n]->results[i]->index].data());
    (*node)->run(operands, results);
  }
  return values;
}

struct Smallest {
  RegionCase region;
  std::string why;
};

// Nodes of a region that stand together, on what the interpreter computes in front of them; the fewest that fail, as
// far as they are found in a minute: of n nodes nearly n^2 / 2 parts may have to be compiled.
Smallest smallestOf(Device &device, const RegionCase &whole, const std::string &why, const NetworkTask &task) {
  const MortiseGraph &view = whole.graph->view();
  const auto values = valuesOf(whole);
  constexpr std::chrono::seconds most(60);
  const auto begun = std::chrono::steady_clock::now();
  for (size_t length = 1; values && length < view.node_count; ++length)
    for (uint32_t begin = 0; begin + length <= view.node_count; ++begin) {
      if (std::chrono::steady_clock::now() - begun > most)
        return {whole, why};
      task.stillThere();
      std::vector<uint32_t> nodes;
      for (uint32_t n = begin; n < begin + length; ++n)
        nodes.push_back(n);
      auto part = extractRegion(view, nodes);
      if (!part)
        continue;
      RegionCase region{part->graph, {}};
      for (const uint32_t input : part->inputs)
        region.inputs.push_back((*values)[input]);
      if (const Verdict verdict = judgeRegion(device, region, ""); verdict.outcome == Outcome::Failed)
        return {std::move(region), verdict.why};
    }
  return {whole, why};
}

// ---- A network

class NetworkRun {
public:
  NetworkRun(Device &device, std::shared_ptr<const Graph> graph, Verdict &verdict, const NetworkTask &task)
      : device(device), graph(std::move(graph)), view(this->graph->view()), verdict(verdict), task(task) {}

  // Composites that no candidate has, and that may be taken as their parts.
  std::set<Op> missing;

  // False when the plugin does not take all nodes, or something is wrong.
  bool compile() {
    const std::vector<uint32_t> stages = stagesOf(view);
    covered.resize(view.node_count);
    for (uint32_t stage = 0, seen = 0; seen < stages.size(); ++stage) {
      std::vector<uint32_t> nodes;
      for (uint32_t node = 0; node < stages.size(); ++node)
        if (stages[node] == stage)
          nodes.push_back(node);
      seen += static_cast<uint32_t>(nodes.size());
      while (!nodes.empty())
        if (!takeSome(nodes))
          return false;
    }
    return true;
  }

  bool run(const Tensors &inputs, Edge edge, std::byte poison) {
    std::vector<std::vector<std::byte>> values(view.value_count);
    for (size_t i = 0; i < view.input_count; ++i)
      values[view.inputs[i]->index] = inputs[i];
    for (const Part &part : parts) {
      task.stillThere();
      RegionCase region{part.region.graph, {}};
      for (const uint32_t input : part.region.inputs)
        region.inputs.push_back(values[input]);
      Found found = callRegion(*part.kernel, region, verdict.id, edge, poison, verdict);
      if (!found.why.empty())
        return blame(region, found);
      for (size_t i = 0; i < part.region.outputs.size(); ++i)
        values[part.region.outputs[i]] = std::move(found.outputs[i]);
    }
    return true;
  }

  size_t partCount() const { return parts.size(); }

private:
  struct Part {
    Region region;
    std::unique_ptr<Kernel> kernel;
  };

  bool fail(const std::string &kind, const std::string &why) {
    verdict.outcome = Outcome::Failed;
    verdict.kind = kind;
    verdict.why = why;
    return false;
  }

  static bool has(const Proposal &candidate, uint32_t node) {
    return !candidate.hasForms && std::ranges::binary_search(candidate.nodes, node);
  }

  // Shows the plugin nodes that read nothing which is not computed, as one graph, and takes of its candidates those
  // that can run one after the other. What is left is shown again. False when that leads nowhere.
  bool takeSome(std::vector<uint32_t> &nodes) {
    const auto part = extractRegion(view, nodes);
    if (!part)
      return fail("kit", part.error().message);
    auto proposals = proposalsFor(device, part->graph->view(), device.settings().compileOptions());
    if (!proposals)
      return fail("status", proposals.error().message);
    bool areThere = true; // the nodes that the plugin names
    const auto toWhole = [&](uint32_t &node) {
      areThere &= node < nodes.size();
      node = nodes[std::min<size_t>(node, nodes.size() - 1)];
    };
    for (Proposal &candidate : proposals->candidates)
      std::ranges::for_each(candidate.nodes, toWhole);
    for (auto &[node, refused] : proposals->refusals)
      toWhole(node);
    if (!areThere)
      return fail("status", "propose names a node that is none of the graph's " + std::to_string(nodes.size()));
    if (!areOffered(nodes, *proposals))
      return false;
    // The largest first, because what a plugin does with single nodes other levels show.
    std::ranges::sort(proposals->candidates, [](const Proposal &a, const Proposal &b) {
      return std::tuple(b.nodes.size(), a.cost, a.nodes) < std::tuple(a.nodes.size(), b.cost, b.nodes);
    });
    Refused refused{reasonPartial, "its candidates read what other candidates have not computed"};
    for (const uint32_t node : nodes)
      if (!covered[node] && !cover(node, proposals->candidates, refused))
        return false;
    const size_t before = nodes.size();
    std::erase_if(nodes, [&](uint32_t node) { return covered[node]; });
    return nodes.size() < before || refuse(nodes.front(), refused);
  }

  // Whether each node is in a candidate. Composites that are not are missing.
  bool areOffered(const std::vector<uint32_t> &nodes, const Proposals &proposals) {
    bool all = true;
    for (const uint32_t node : nodes) {
      const bool isOffered =
          std::ranges::any_of(proposals.candidates, [&](const Proposal &candidate) { return has(candidate, node); });
      if (isOffered)
        continue;
      if (const Op op = opOf(*view.nodes[node]); mortise::has(op, Trait::Composite))
        missing.insert(op);
      Refused refused{reasonPartial, "no candidate has the node, and it is not refused"};
      for (const auto &[refusedNode, reason] : proposals.refusals)
        if (refusedNode == node)
          refused = reason;
      if (all)
        refuse(node, refused);
      all = false;
    }
    return all;
  }

  bool refuse(uint32_t node, const Refused &refused) {
    verdict.outcome = Outcome::Refused;
    verdict.reason = reasonName(refused.reason);
    verdict.why = std::string(view.nodes[node]->op) + " (node " + std::to_string(node) + "): " + refused.why;
    return false;
  }

  // Whether a candidate can be the next region: what it reads has been computed.
  bool isNext(const Proposal &candidate, uint32_t node) const {
    const std::vector<uint32_t> &nodes = candidate.nodes;
    return has(candidate, node) && std::ranges::all_of(nodes, [&](uint32_t member) {
             const MortiseNode &of = *view.nodes[member];
             return !covered[member] && std::all_of(of.operands, of.operands + of.operand_count, [&](Value operand) {
               return !operand || !operand->producer || covered[operand->producer->index] ||
                      std::ranges::binary_search(nodes, operand->producer->index);
             });
           });
  }

  // Compiles the first candidate that has the node and can be the next. False when something is wrong.
  bool cover(uint32_t node, const std::vector<Proposal> &candidates, Refused &refused) {
    for (const Proposal &candidate : candidates) {
      if (!isNext(candidate, node))
        continue;
      auto region = extractRegion(view, candidate.nodes);
      if (!region)
        continue; // not convex, which the host finds as well
      auto kernel = Kernel::compile(device, region->graph, refused);
      if (!kernel)
        return fail("status", kernel.error().message);
      if (!*kernel)
        continue;
      for (const uint32_t member : candidate.nodes)
        covered[member] = true;
      parts.push_back({std::move(*region), std::move(*kernel)});
      return true;
    }
    return true;
  }

  bool blame(const RegionCase &region, const Found &found) {
    const Smallest smallest = smallestOf(device, region, found.why, task);
    const MortiseGraph &least = smallest.region.graph->view();
    std::string why = "region of " + std::to_string(region.graph->view().node_count) + " nodes: " + found.why +
                      "; the smallest part that fails: " + opsOf(least) + ": " + smallest.why;
    if (!task.folder.empty()) {
      const bool isPath = verdict.id.starts_with("file/") || verdict.id.starts_with("onnx/");
      std::string name = verdict.id.substr(isPath ? verdict.id.rfind('/', verdict.id.rfind('/') - 1) + 1 : 0);
      std::ranges::replace(name, '/', '-');
      std::erase(name, '#');
      const std::string path = task.folder + "/" + name + ".region";
      if (auto saved = saveRegion(smallest.region, smallest.why, path); saved)
        verdict.region = path;
      else
        why += "; " + saved.error().message;
    }
    return fail(found.kind, why);
  }

  Device &device;
  const std::shared_ptr<const Graph> graph;
  const MortiseGraph &view;
  Verdict &verdict;
  const NetworkTask &task;
  std::vector<bool> covered; // by node
  std::vector<Part> parts;   // in an order in which they can run
};

} // namespace

Verdict judgeNetwork(Device &device, const std::string &id, const MakeNetwork &make, const NetworkTask &task) {
  const auto begin = std::chrono::steady_clock::now();
  Verdict verdict;
  std::set<Op> expanded;
  for (bool isDone = false; !isDone;) {
    verdict = {.id = id};
    const auto made = make(expanded);
    if (!made) {
      verdict.outcome = Outcome::Failed;
      verdict.kind = "kit";
      verdict.why = made.error().message;
      break;
    }
    if (!made->wrong.empty()) {
      verdict.outcome = Outcome::Failed;
      verdict.kind = "kit";
      verdict.why = made->wrong;
      break;
    }
    NetworkRun run(device, made->graph, verdict, task);
    if (run.compile() && run.run(made->inputs[0], Edge::End, std::byte{0x5a}))
      run.run(made->inputs[1], Edge::Begin, std::byte{0xff});
    verdict.nodes = made->graph->view().node_count;
    verdict.regions = run.partCount();
    isDone = std::ranges::includes(expanded, run.missing); // nothing more can be taken as its parts
    expanded.merge(run.missing);
  }
  verdict.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return verdict;
}

Verdict judgeNetwork(Device &device, const Point &point, const NetworkTask &task) {
  const std::string id = idOf(point);
  const uint64_t seed = seedOf(task.seed, id);
  bool isUnread = false; // somebody else's graph
  const auto make = [&](const std::set<Op> &expanded) {
    if (point.file.empty())
      return makeNetwork(networks()[point.variant], point.dtype, seed, expanded);
    auto loaded = loadNetwork(point.file, seed, expanded);
    isUnread = !loaded;
    return loaded;
  };
  Verdict verdict = judgeNetwork(device, id, make, task);
  if (isUnread) {
    verdict.outcome = Outcome::Refused;
    verdict.kind = "";
    verdict.reason = "not-judged";
  }
  return verdict;
}

Verdict judgeRegion(Device &device, const RegionCase &region, const std::string &path) {
  Verdict verdict{.id = path};
  Refused refused;
  const auto kernel = Kernel::compile(device, region.graph, refused);
  if (!kernel) {
    verdict.outcome = Outcome::Failed;
    verdict.kind = "status";
    verdict.why = kernel.error().message;
  } else if (!*kernel) {
    verdict.outcome = Outcome::Refused;
    verdict.reason = reasonName(refused.reason);
    verdict.why = refused.why;
  } else if (const Found found = callRegion(**kernel, region, path, Edge::End, std::byte{0x5a}, verdict);
             !found.why.empty()) {
    verdict.outcome = Outcome::Failed;
    verdict.kind = found.kind;
    verdict.why = found.why;
  }
  return verdict;
}

Result<void> saveRegion(const RegionCase &region, const std::string &why, const std::string &path) {
  std::ofstream file(path, std::ios::binary);
  const std::span<const std::byte> graph = region.graph->bytes();
  Json line = {{"format", "mortise-region-1"}, {"why", why}, {"graph", graph.size()}, {"inputs", Json::array()}};
  for (const std::vector<std::byte> &input : region.inputs)
    line["inputs"].push_back(input.size());
  file << line.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  const auto put = [&](std::span<const std::byte> bytes) {
    file.write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  };
  put(graph);
  std::ranges::for_each(region.inputs, put);
  file.close();
  return file ? Result<void>() : Error{MORTISE_INVALID_ARGUMENT, path + ": cannot be written; is there room?"};
}

Result<RegionCase> readRegion(const std::string &path) {
  const auto wrong = [&](const std::string &why) { return Error{MORTISE_INVALID_ARGUMENT, path + ": " + why}; };
  std::ifstream file(path, std::ios::binary);
  std::string first;
  std::getline(file, first);
  const Json line = Json::parse(first, nullptr, false);
  if (!line.is_object() || line.value("format", "") != "mortise-region-1" || !line["graph"].is_number_unsigned() ||
      !line["inputs"].is_array())
    return wrong("expected a region that this kit has saved");
  const std::string rest((std::istreambuf_iterator<char>(file)), {});
  const auto *at = reinterpret_cast<const std::byte *>(rest.data());
  size_t left = rest.size();
  bool isShort = false;
  const auto take = [&](const Json &size) {
    const auto bytes = size.is_number_unsigned() ? size.get<size_t>() : SIZE_MAX;
    isShort |= bytes > left;
    const std::span<const std::byte> taken(at, isShort ? 0 : bytes);
    at += taken.size();
    left -= taken.size();
    return taken;
  };
  auto graph = Graph::read(take(line["graph"]));
  if (!graph)
    return wrong(graph.error().message);
  RegionCase made{*graph, {}};
  const MortiseGraph &view = made.graph->view();
  for (const Json &size : line["inputs"]) {
    const auto bytes = take(size);
    made.inputs.emplace_back(bytes.begin(), bytes.end());
  }
  bool fits = !isShort && made.inputs.size() == view.input_count && view.symbol_count == 0;
  for (size_t i = 0; fits && i < view.input_count; ++i)
    fits = made.inputs[i].size() == byteSize(*view.inputs[i]->type);
  return fits ? Result<RegionCase>(std::move(made)) : wrong("its inputs are not those of its graph");
}

} // namespace mortise::conformance
