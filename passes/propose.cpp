// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "propose.hpp"

#include "assign.hpp"
#include "layouts.hpp"
#include "measure.hpp"
#include "symbols.hpp"

#include <mortise/portable/graph.hpp>
#include <mortise/portable/older.hpp>
#include <mortise/portable/vendor_ops.hpp>
#include <mortise/runtime/call.hpp>
#include <mortise/runtime/guard.hpp>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <unordered_map>

namespace mortise::passes {
namespace {

// The newest opset of a node and of what its bodies contain.
uint32_t newestIn(const MortiseNode &node) {
  uint32_t since = node.since;
  for (const MortiseGraph *body : std::span(node.bodies, node.body_count))
    for (const MortiseNode *inner : std::span(body->nodes, body->node_count))
      since = std::max(since, newestIn(*inner));
  return since;
}

// Receives the answers of one plugin and validates them. A plugin may call from threads of its own.
struct ProposalSink {
  const MortiseGraph &graph; // as the plugin sees it: perhaps with numbers for the symbols
  const MortiseGraph &whole; // with its symbols
  const NodeGraph &nodes;
  uint32_t target;
  const runtime::Device &device;
  uint32_t opset; // the plugin's
  bool seesSymbols;
  Proposals &out;
  std::string specialised;
  std::mutex mutex;

  void refuse(uint32_t node, int32_t reason, std::string detail) {
    out.refusals.push_back({node, target, reason, std::move(detail)});
  }
  void decline(Candidate candidate, int32_t reason, std::string why) {
    std::vector<uint32_t> &nodes = candidate.nodes;
    std::erase_if(nodes, [&](uint32_t node) { return node >= graph.node_count; });
    std::ranges::sort(nodes);
    nodes.erase(std::ranges::unique(nodes).begin(), nodes.end());
    if (nodes.empty()) // people look for it at a node
      nodes.push_back(firstThatComputes());
    if (!std::isfinite(candidate.costNs))
      candidate.costNs = 0;
    out.declined.push_back(
        {target, std::move(candidate.lowering), std::move(nodes), candidate.costNs, reason, std::move(why)});
  }
  void reject(Candidate candidate, const std::string &why) {
    decline(std::move(candidate), MORTISE_REASON_ERROR, ignoredCandidate + why);
  }
  uint32_t firstThatComputes() const {
    uint32_t node = 0;
    while (node + 1 < graph.node_count && isLiteral(*graph.nodes[node]))
      ++node;
    return node;
  }

  void add(const MortiseCandidate *candidate) {
    std::lock_guard lock(mutex);
    constexpr size_t least = sizeof(MortiseCandidate); // the size in the oldest ABI revision
    if (!runtime::holds(candidate) || candidate->struct_size < least)
      return reject({}, "expected a MortiseCandidate of at least " + std::to_string(least) + " bytes");
    if (!candidate->nodes || candidate->node_count == 0 || candidate->node_count > graph.node_count)
      return reject({}, "expected 1 to " + std::to_string(graph.node_count) + " nodes, found " +
                            std::to_string(candidate->nodes ? candidate->node_count : 0));
    if (!runtime::holds(candidate->nodes, candidate->node_count))
      return reject({}, "expected " + std::to_string(candidate->node_count) +
                            " node numbers, found memory that cannot be read");
    const std::optional<std::string> lowering = runtime::readPrefix(candidate->lowering);
    Candidate copy{target,
                   runtime::legible(lowering.value_or("")),
                   std::vector<uint32_t>(candidate->nodes, candidate->nodes + candidate->node_count),
                   candidate->cost_ns,
                   candidate->bytes,
                   candidate->flops,
                   specialised};
    if (copy.lowering.empty())
      return reject(std::move(copy),
                    candidate->lowering && !lowering ? "its lowering's name cannot be read" : "it names no lowering");
    for (size_t i = 0; i < copy.nodes.size(); ++i) {
      if (copy.nodes[i] >= graph.node_count)
        return reject(copy,
                      "node " + std::to_string(copy.nodes[i]) + " of a graph of " + std::to_string(graph.node_count));
      if (i && copy.nodes[i] <= copy.nodes[i - 1])
        return reject(std::move(copy), "its nodes are not strictly ascending");
    }
    if (!std::isfinite(copy.costNs) || copy.costNs < 0)
      return reject(copy, "expected a finite cost of at least 0 ns, found " + std::to_string(copy.costNs));
    for (uint32_t node : copy.nodes)
      if (graph.nodes[node]->body_count != 0 && !seesSymbols)
        return decline(std::move(copy), MORTISE_REASON_OPSET,
                       "the plugin took node " + std::to_string(node) + ", but its opset has no bodies");
    for (uint32_t node : copy.nodes)
      if (const uint32_t since = newestIn(*graph.nodes[node]); since > opset)
        return decline(std::move(copy), MORTISE_REASON_OPSET,
                       "the plugin took node " + std::to_string(node) + ", but knows opset " + std::to_string(opset) +
                           " and the op is of opset " + std::to_string(since) +
                           (graph.nodes[node]->attribute_count ? " at these attributes" : ""));
    if (!nodes.convex(copy.nodes))
      return reject(std::move(copy), "its nodes are not convex: a path leaves the set and comes back");
    if (const std::string wrong = takePairs(*candidate, copy); !wrong.empty())
      return reject(std::move(copy), wrong);
    if (const std::string wrong = takeForms(*candidate, copy); !wrong.empty())
      return reject(std::move(copy), wrong);
    out.candidates.push_back(std::move(copy));
  }

  // Validates the candidate's pairs of values to run in place and adds them to `into`. Returns what is wrong, or "".
  std::string takePairs(const MortiseCandidate &candidate, Candidate &into) const {
    if (candidate.in_place_count == 0)
      return "";
    if (!candidate.in_place)
      return "it counts pairs to run in place and has none";
    if (candidate.in_place_count > size_t{graph.value_count} * 8)
      return "it has " + std::to_string(candidate.in_place_count) + " pairs to run in place, more than 8 per value";
    if (!runtime::holds(candidate.in_place, candidate.in_place_count))
      return "its pairs to run in place cannot be read";
    const auto uses = usesIn(into.nodes);
    std::set<std::pair<uint32_t, uint32_t>> known;
    for (size_t i = 0; i < candidate.in_place_count; ++i) {
      const MortiseInPlace pair = candidate.in_place[i];
      if (std::string wrong = checkPair(pair, into.nodes, uses); !wrong.empty())
        return "its output " + std::to_string(pair.output) + " cannot be written over value " +
               std::to_string(pair.input) + ": " + wrong;
      if (!known.emplace(pair.input, pair.output).second)
        return "it lists output " + std::to_string(pair.output) + " over value " + std::to_string(pair.input) +
               " twice";
      // Types that are equal for the numbers that the plugin saw may differ for other values of the symbols.
      if (equalBytes(*whole.values[pair.input]->type, *whole.values[pair.output]->type, whole.symbol_count))
        into.inPlace.push_back(pair);
    }
    return "";
  }

  // By value: its uses in the region.
  std::unordered_map<uint32_t, uint32_t> usesIn(const std::vector<uint32_t> &region) const {
    std::unordered_map<uint32_t, uint32_t> uses;
    for (uint32_t node : region)
      for (size_t i = 0; i < graph.nodes[node]->operand_count; ++i)
        if (const MortiseValue *operand = graph.nodes[node]->operands[i])
          ++uses[operand->index];
    return uses;
  }
  static uint32_t usesOf(const MortiseValue &value, const std::unordered_map<uint32_t, uint32_t> &uses) {
    const auto found = uses.find(value.index);
    return found == uses.end() ? 0 : found->second;
  }
  static bool isInside(const MortiseValue &value, const std::vector<uint32_t> &region) {
    return value.producer && std::ranges::binary_search(region, value.producer->index);
  }
  static bool isRead(const MortiseValue &value, const std::vector<uint32_t> &region,
                     const std::unordered_map<uint32_t, uint32_t> &uses) {
    return usesOf(value, uses) && !isInside(value, region);
  }
  static bool isGiven(const MortiseValue &value, const std::vector<uint32_t> &region,
                      const std::unordered_map<uint32_t, uint32_t> &uses) {
    return isInside(value, region) && value.use_count > usesOf(value, uses);
  }
  bool isAliased(const MortiseValue &value) const {
    for (size_t a = 0; a < graph.alias_count; ++a)
      if (const MortiseAlias &alias = *graph.aliases[a];
          inRange(graph, alias) && (graph.outputs[alias.output] == &value || graph.inputs[alias.input] == &value))
        return true;
    return false;
  }

  // Validates the candidate's forms, but for what the plugin says of its layouts, and adds them to `into`. Returns what
  // is wrong, or "".
  std::string takeForms(const MortiseCandidate &candidate, Candidate &into) const {
    if (candidate.form_count == 0)
      return "";
    if (!candidate.forms)
      return "it counts forms and has none";
    if (candidate.form_count > graph.value_count)
      return "it has " + std::to_string(candidate.form_count) + " forms for " + std::to_string(graph.value_count) +
             " values";
    if (!runtime::holds(candidate.forms, candidate.form_count))
      return "its forms cannot be read";
    const auto uses = usesIn(into.nodes);
    for (size_t i = 0; i < candidate.form_count; ++i) {
      const MortiseForm form = candidate.forms[i];
      if (std::string wrong = checkForm(form, into, uses); !wrong.empty())
        return "its form of value " + std::to_string(form.value) + ": " + wrong;
      if (form.layout != MORTISE_PLAIN_LAYOUT || form.space != 0)
        into.forms.push_back(form);
    }
    return "";
  }

  std::string checkForm(const MortiseForm &form, const Candidate &into,
                        const std::unordered_map<uint32_t, uint32_t> &uses) const {
    if (form.value >= graph.value_count)
      return "the graph has " + std::to_string(graph.value_count) + " values";
    const MortiseValue &value = *graph.values[form.value];
    if (!isRead(value, into.nodes, uses) && !isGiven(value, into.nodes, uses))
      return "expected a value that the region reads from outside, or produces and others use";
    if (value.flags & (MORTISE_VALUE_CONSTANT | MORTISE_VALUE_STATE))
      return "it is constant or state, which has no form";
    if (isAliased(value) || std::ranges::any_of(into.inPlace, [&](const MortiseInPlace &pair) {
          return pair.input == form.value || pair.output == form.value;
        }))
      return "it is aliased or to run in place, and has no form then";
    if (std::ranges::find(into.forms, form.value, &MortiseForm::value) != into.forms.end())
      return "the candidate has two";
    if (form.layout != MORTISE_PLAIN_LAYOUT && !device.plugin->table->layout)
      return "it names layout " + std::to_string(form.layout) + ", and the plugin has no slot layout";
    if (form.space == 0)
      return "";
    if (form.space >= device.info.space_count || device.info.spaces[form.space]->kind == MORTISE_SPACE_HOST ||
        !device.owner().plugin->table->memory_allocate)
      return "expected a space of the device, of a kind other than host, found " + std::to_string(form.space);
    return "";
  }

  std::string checkPair(MortiseInPlace pair, const std::vector<uint32_t> &region,
                        const std::unordered_map<uint32_t, uint32_t> &uses) const {
    if (pair.input >= graph.value_count || pair.output >= graph.value_count)
      return "the graph has " + std::to_string(graph.value_count) + " values";
    const MortiseValue &input = *graph.values[pair.input], &output = *graph.values[pair.output];
    if (!isRead(input, region, uses))
      return "expected a value that the region reads from outside";
    if (!isGiven(output, region, uses))
      return "expected a value that the region produces and others use";
    if (input.flags & (MORTISE_VALUE_CONSTANT | MORTISE_VALUE_STATE))
      return "the latter is constant or state; a state is overwritten through an alias";
    if (isAliased(input) || isAliased(output))
      return "one of them is aliased already";
    if (!equalBytes(*input.type, *output.type, graph.symbol_count))
      return "expected as many bytes for all values of the symbols, found " + typeString(*output.type) + " over " +
             typeString(*input.type);
    return "";
  }

  void refuseNode(uint32_t node, int32_t reason, const char *detail) {
    std::lock_guard lock(mutex);
    if (node < graph.node_count)
      refuse(node, reason,
             detail ? runtime::legible(runtime::readPrefix(detail).value_or("(the plugin's reason cannot be read)"))
                    : "");
    else
      refuse(firstThatComputes(), MORTISE_REASON_ERROR,
             "the plugin refused node " + std::to_string(node) + " of a graph of " + std::to_string(graph.node_count));
  }
};

// The least time that the traffic and arithmetic of a candidate take on its device, by what the plugin says of both.
// Caches are less than 64 times as fast as memory, and so are the matrix units for small types beside f32's peak: a
// cost below that is a mistake.
double leastNs(const Candidate &candidate, const runtime::Device &device) {
  constexpr double margin = 64;
  const auto ns = [](double amount, double perSecond) {
    return std::isfinite(amount) && amount > 0 && std::isfinite(perSecond) && perSecond > 0
               ? amount / (perSecond * margin) * 1e9
               : 0;
  };
  return std::max(ns(candidate.bytes, device.info.bandwidth), ns(candidate.flops, device.info.peak_flops));
}

// Takes candidates away, from `first` on, whose layouts the plugin does not stand by.
void dropUnknownLayouts(const MortiseGraph &graph, const Target &target, size_t first, Proposals &result) {
  for (size_t i = first; i < result.candidates.size();) {
    const Candidate &candidate = result.candidates[i];
    const std::string wrong = checkLayouts(graph, target, candidate);
    if (wrong.empty()) {
      ++i;
      continue;
    }
    result.declined.push_back({candidate.target, candidate.lowering, candidate.nodes, candidate.costNs,
                               MORTISE_REASON_LAYOUT, ignoredCandidate + wrong});
    result.candidates.erase(result.candidates.begin() + static_cast<ptrdiff_t>(i));
  }
}

// The copies in the process of an isolated plugin, which no plan has as instructions.
void addCopies(const MortiseGraph &graph, const Target &target, Candidate &candidate) {
  if (!target.device->hidesMemory())
    return;
  const Result<Region> region = extractRegion(graph, candidate.nodes);
  if (!region)
    return; // the candidate is valid, so that it can be extracted; the plan writer says why not
  const auto [in, out] = target.prices->callCopies(region->graph->view(), *target.device);
  candidate.copiesNs = in.costNs() + out.costNs();
  candidate.costNs += candidate.copiesNs;
}

void ask(const MortiseGraph &graph, const MortiseGraph &whole, const NodeGraph &nodes,
         const std::vector<Target> &targets, uint32_t t, const std::string &specialised, Proposals &result,
         std::span<const MortiseForm> forms = {}) {
  const runtime::Plugin &plugin = *targets[t].device->plugin;
  const size_t first = result.candidates.size();
  ProposalSink sink{graph,  whole,       nodes, t, *targets[t].device, plugin.table->opset, plugin.seesSymbols(),
                    result, specialised, {}};
  const std::vector<MortiseOption> options = targets[t].optionViews();
  MortiseProposeArgs args{};
  args.struct_size = sizeof args;
  args.device = targets[t].device->info.device;
  const auto shown = portable::withoutImplied(graph, plugin.table->opset);
  args.graph = shown && *shown ? &(*shown)->view() : &graph;
  args.options = options.data();
  args.option_count = options.size();
  args.compile_options = &targets[t].asked;
  args.forms = forms.data();
  args.form_count = forms.size();
  args.sink = &sink;
  args.add = [](void *context, const MortiseCandidate *candidate) {
    static_cast<ProposalSink *>(context)->add(candidate);
  };
  args.refuse = [](void *context, uint32_t node, int32_t reason, const char *detail) {
    static_cast<ProposalSink *>(context)->refuseNode(node, reason, detail);
  };
  if (Result<void> done = runtime::call("propose", plugin.table->propose, args); !done)
    for (uint32_t node = 0; node < graph.node_count; ++node)
      if (!isLiteral(*graph.nodes[node]))
        result.refusals.push_back({node, t, MORTISE_REASON_ERROR, done.error().message});
  if (forms.empty()) // otherwise they are being checked
    dropUnknownLayouts(whole, targets[t], first, result);
  for (Candidate &candidate : std::span(result.candidates).subspan(first)) {
    candidate.costNs = std::max(candidate.costNs * targets[t].bias, leastNs(candidate, *targets[t].device));
    addCopies(whole, targets[t], candidate);
  }
}

// Shows target `t` the graph with typical numbers for its symbols.
class Specialised {
public:
  Specialised(const MortiseGraph &graph, const NodeGraph &nodes) : graph(graph), nodes(nodes) {}

  void ask(const std::vector<Target> &targets, uint32_t t, const std::string &reason, Proposals &result,
           std::span<const MortiseForm> forms = {}) {
    if (!copy)
      copy = specialise(graph, typicalValues(graph));
    if (*copy)
      return passes::ask((**copy)->view(), graph, nodes, targets, t, reason, result, forms);
    for (uint32_t node = 0; node < graph.node_count; ++node)
      if (!isLiteral(*graph.nodes[node]))
        result.refusals.push_back({node, t, MORTISE_REASON_NEEDS_STATIC,
                                   reason + ", and there are no typical numbers: " + copy->error().message});
  }

private:
  const MortiseGraph &graph;
  const NodeGraph &nodes;
  std::optional<Result<std::shared_ptr<const Graph>>> copy;
};

// Why the plugin should be asked again with numbers for the symbols; "" when it should not.
std::string reasonToSpecialise(const MortiseGraph &graph, const Proposals &result, size_t candidates, size_t refusals,
                               const runtime::Plugin &plugin) {
  if (!plugin.seesSymbols())
    return "the plugin knows opset " + std::to_string(plugin.table->opset) + ", which has no symbolic attributes";
  // Symbolic candidates are kept; place.cpp proposes the other nodes again as graphs of their own. A candidate of
  // literals alone does not count.
  for (size_t i = candidates; i < result.candidates.size(); ++i)
    for (uint32_t node : result.candidates[i].nodes)
      if (!isLiteral(*graph.nodes[node]))
        return "";
  for (size_t i = refusals; i < result.refusals.size(); ++i)
    if (result.refusals[i].reason == MORTISE_REASON_NEEDS_STATIC)
      return "needs static" + (result.refusals[i].detail.empty() ? "" : ": " + result.refusals[i].detail);
  return "";
}

void askForAll(const MortiseGraph &graph, const NodeGraph &nodes, Specialised &specialised,
               const std::vector<Target> &targets, uint32_t t, Proposals &result) {
  const runtime::Plugin &plugin = *targets[t].device->plugin;
  const size_t candidates = result.candidates.size(), refusals = result.refusals.size(),
               declined = result.declined.size();
  if (graph.symbol_count == 0 || plugin.seesSymbols())
    ask(graph, graph, nodes, targets, t, "", result);
  if (graph.symbol_count == 0)
    return;
  const std::string reason = reasonToSpecialise(graph, result, candidates, refusals, plugin);
  if (reason.empty())
    return;
  // The plugin will give its other answers again for the graph with numbers.
  result.declined.resize(declined);
  result.refusals.erase(
      std::remove_if(result.refusals.begin() + static_cast<ptrdiff_t>(refusals), result.refusals.end(),
                     [](const Refusal &refusal) { return refusal.reason != MORTISE_REASON_NEEDS_STATIC; }),
      result.refusals.end());
  specialised.ask(targets, t, reason, result);
}

// Asks target `t` for some nodes of the graph as for a graph of their own.
void askForPart(const MortiseGraph &graph, const std::vector<Target> &targets, uint32_t t,
                std::span<const uint32_t> nodes, Proposals &result) {
  const Result<Region> region = extractRegion(graph, nodes);
  if (!region) {
    for (const uint32_t node : nodes)
      result.refusals.push_back({node, t, MORTISE_REASON_ERROR, region.error().message});
    return;
  }
  Proposals part = propose(region->graph->view(), {targets[t]});
  for (Candidate &candidate : part.candidates) {
    candidate.target = t;
    result.candidates.push_back(inWhole(std::move(candidate), graph, nodes, *region));
  }
  for (Refusal &refusal : part.refusals)
    result.refusals.push_back({nodes[refusal.node], t, refusal.reason, std::move(refusal.detail)});
  for (Declined &candidate : part.declined) {
    candidate.target = t;
    for (uint32_t &node : candidate.nodes)
      node = nodes[node];
    result.declined.push_back(std::move(candidate));
  }
}

// The offer among those that could not be compiled which the candidate repeats, or NULL.
const RefusedOffer *repeated(const MortiseGraph &graph, const Candidate &candidate,
                             const std::vector<RefusedOffer> &refused) {
  std::shared_ptr<const Graph> form;
  for (const RefusedOffer &offer : refused) {
    if (offer.lowering != candidate.lowering || offer.region->view().node_count != candidate.nodes.size())
      continue;
    if (!form) {
      const Result<Region> region = extractRegion(graph, candidate.nodes);
      auto made = region ? canonical(region->graph->view()) : Result<std::shared_ptr<const Graph>>(region.error());
      if (!made)
        return nullptr;
      form = std::move(*made);
    }
    if (std::ranges::equal(form->bytes(), offer.region->bytes()))
      return &offer;
  }
  return nullptr;
}

// Takes offers that could not be compiled out of those from `first` on, and asks for the halves of their nodes instead.
void askForHalves(const MortiseGraph &graph, const std::vector<Target> &targets, uint32_t t, size_t first,
                  Proposals &result) {
  std::vector<Candidate> gone;
  for (size_t i = first; i < result.candidates.size();) {
    const RefusedOffer *offer = repeated(graph, result.candidates[i], targets[t].refused);
    if (!offer) {
      ++i;
      continue;
    }
    const Candidate &candidate = result.candidates[i];
    result.declined.push_back(
        {t, candidate.lowering, candidate.nodes, candidate.costNs, MORTISE_REASON_ERROR, offer->reason});
    gone.push_back(std::move(result.candidates[i]));
    result.candidates.erase(result.candidates.begin() + static_cast<ptrdiff_t>(i));
  }
  for (const Candidate &candidate : gone) {
    const std::span<const uint32_t> nodes = candidate.nodes; // in execution order, so that both halves are convex
    if (nodes.size() < 2)
      continue;
    askForPart(graph, targets, t, nodes.first(nodes.size() / 2), result);
    askForPart(graph, targets, t, nodes.subspan(nodes.size() / 2), result);
  }
}

// Asks target `t` for the runs of nodes that are open to it: no rule keeps them off, and they are no ops of vendors
// that its plugin does not declare. False, and nothing asked, if no node is closed.
bool askForOpenNodes(const MortiseGraph &graph, const std::vector<Target> &targets, uint32_t t, Proposals &result) {
  constexpr uint32_t open = 0, closed = 1;
  std::vector<uint32_t> sides(graph.node_count, open);
  bool any = false;
  for (uint32_t n = 0; n < graph.node_count; ++n) {
    const MortiseNode &node = *graph.nodes[n];
    if (portable::isVendorOp(node.op) && !targets[t].device->plugin->declared(node.op)) {
      sides[n] = closed;
      any = true;
      result.refusals.push_back({n, t, MORTISE_REASON_OP, "the plugin does not declare this op of a vendor"});
      continue;
    }
    const auto rule = std::ranges::find_if(targets[t].closed, [&](const runtime::PlaceRule &each) {
      return !isLiteral(node) && each.matches(node.op, node.location ? node.location : "");
    });
    if (rule == targets[t].closed.end())
      continue;
    sides[n] = closed;
    any = true;
    result.refusals.push_back({n, t, MORTISE_REASON_OPTION, "the place rule '" + rule->text + "'"});
  }
  if (!any)
    return false;
  for (const Run &run : runsOf(graph, sides)) {
    if (run.target == open)
      askForPart(graph, targets, t, run.nodes, result);
  }
  return true;
}

} // namespace

Candidate inWhole(Candidate candidate, const MortiseGraph &graph, std::span<const uint32_t> nodes,
                  const Region &region) {
  const auto value = [&](uint32_t v) {
    const MortiseValue &inside = *region.graph->view().values[v];
    return inside.producer ? graph.nodes[nodes[inside.producer->index]]->results[inside.result_index]->index
                           : region.inputs[inside.result_index];
  };
  for (MortiseInPlace &pair : candidate.inPlace)
    pair = {value(pair.input), value(pair.output)};
  for (MortiseForm &form : candidate.forms)
    form.value = value(form.value);
  for (uint32_t &node : candidate.nodes)
    node = nodes[node];
  return candidate;
}

std::string nsText(double ns) {
  std::ostringstream text;
  text << std::setprecision(15) << std::floor(ns) << " ns";
  return text.str();
}

std::vector<Refusal> answersFor(uint32_t node, uint32_t target, std::span<const Refusal> refusals,
                                std::span<const Declined> declined) {
  std::vector<Refusal> answers;
  for (const Refusal &refusal : refusals)
    if (refusal.node == node && refusal.target == target)
      answers.push_back(refusal);
  for (const Declined &candidate : declined)
    if (candidate.target == target && std::ranges::binary_search(candidate.nodes, node))
      answers.push_back({node, target, candidate.reason, candidate.detail});
  return answers;
}

Proposals propose(const MortiseGraph &graph, const std::vector<Target> &targets) {
  Proposals result;
  if (std::all_of(graph.nodes, graph.nodes + graph.node_count,
                  [](const MortiseNode *node) { return isLiteral(*node); }))
    return result; // the host copies inputs and literals itself
  const NodeGraph nodes(graph);
  Specialised specialised(graph, nodes);
  for (uint32_t t = 0; t < targets.size(); ++t) {
    if (askForOpenNodes(graph, targets, t, result))
      continue;
    const size_t first = result.candidates.size();
    askForAll(graph, nodes, specialised, targets, t, result);
    if (!targets[t].refused.empty())
      askForHalves(graph, targets, t, first, result);
    if (targets[t].measurements)
      targets[t].measurements->correct(graph, targets[t], std::span(result.candidates).subspan(first));
  }
  return result;
}

std::optional<Candidate> proposeInForms(const MortiseGraph &graph, const Target &target,
                                        std::span<const MortiseForm> forms) {
  Proposals result;
  const NodeGraph nodes(graph);
  if (graph.symbol_count == 0 || target.device->plugin->seesSymbols())
    ask(graph, graph, nodes, {target}, 0, "", result, forms);
  if (graph.symbol_count != 0 && result.candidates.empty())
    Specialised(graph, nodes).ask({target}, 0, "the plugin converts only tensors of known extents", result, forms);
  std::optional<Candidate> best;
  for (Candidate &candidate : result.candidates)
    if (candidate.nodes.size() == graph.node_count && (!best || candidate.costNs < best->costNs) &&
        std::ranges::all_of(forms, [&](const MortiseForm &form) {
          const MortiseForm found = formOf(candidate, form.value);
          return found.layout == form.layout && found.space == form.space;
        }))
      best = std::move(candidate);
  return best;
}

} // namespace mortise::passes
