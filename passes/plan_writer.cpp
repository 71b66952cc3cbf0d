// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "plan_writer.hpp"

#include "donated.hpp"
#include "layouts.hpp"
#include "memory_plan.hpp"
#include "plan_report.hpp"
#include "symbols.hpp"

#include <mortise/graph.hpp>
#include <mortise/portable/graph.hpp>
#include <mortise/portable/older.hpp>
#include <mortise/runtime/plan_generated.h>

#include <algorithm>
#include <map>
#include <unordered_map>

namespace mortise::passes {
namespace {

constexpr uint32_t none = UINT32_MAX;

void addSteps(const MortiseExpr &expr, std::vector<plan::ExprStep> &into) {
  for (size_t i = 0; i < expr.count; ++i)
    into.emplace_back(expr.steps[i].op, 0, expr.steps[i].value);
}

std::unique_ptr<plan::TensorTypeT> typeOf(const MortiseType &type) {
  auto result = std::make_unique<plan::TensorTypeT>();
  result->dtype = type.dtype;
  const std::span<const int64_t> extents = dims(type);
  result->dims.assign(extents.begin(), extents.end());
  if (std::find(extents.begin(), extents.end(), MORTISE_DYNAMIC) == extents.end())
    return result;
  for (size_t i = 0; i < extents.size(); ++i) {
    const bool symbolic = extents[i] == MORTISE_DYNAMIC;
    if (symbolic)
      addSteps(type.dim_exprs[i], result->steps);
    else
      result->steps.emplace_back(MORTISE_EXPR_CONST, 0, extents[i]);
    result->step_counts.push_back(symbolic ? static_cast<uint32_t>(type.dim_exprs[i].count) : 1);
  }
  return result;
}

bool sameBufferType(const plan::TensorTypeT &a, const plan::TensorTypeT &b) {
  return a.dtype == b.dtype && a.dims == b.dims && a.step_counts == b.step_counts &&
         std::ranges::equal(a.steps, b.steps, [](const plan::ExprStep &left, const plan::ExprStep &right) {
           return left.op() == right.op() && left.value() == right.value();
         });
}

class Writer {
public:
  Writer(const MortiseGraph &graph, const Placement &placement, const std::vector<Target> &targets,
         const std::vector<DecomposedRefusal> &decomposed, const Homes &homes)
      : graph(graph), placement(placement), targets(targets), decomposed(decomposed), homes(homes),
        plan(std::make_shared<plan::PlanT>()), home(graph.value_count, none), lastReader(graph.value_count, -1),
        overwritten(graph.input_count) {}

  Result<std::shared_ptr<const plan::PlanT>> write() {
    if (Result<void> checked = checkGraph(graph); !checked)
      return checked.error();
    signature();
    if (Result<void> done = symbols(); !done)
      return done.error();
    if (Result<void> cut = cutRegions(); !cut)
      return cut.error();
    literals();
    passThroughs();
    for (uint32_t r = 0; r < regions.size(); ++r)
      enqueue(r);
    for (const auto &[source, target] : atEnd)
      copy(source, target);
    if (failure)
      return *failure;
    layOut();
    reportPlacement(graph, placement, targets, decomposed, *plan);
    reportCopies(graph, targets, spaceDevices, *plan);
    if (!targets.empty()) { // all are asked for the same
      plan->mode = targets[0].asked.mode;
      plan->precision = targets[0].asked.precision;
      plan->deterministic = targets[0].asked.deterministic;
    }
    return std::shared_ptr<const plan::PlanT>(std::move(plan));
  }

private:
  // ---- Buffers

  uint32_t addBuffer(plan::BufferKind kind, uint32_t index, uint32_t space, const MortiseType &type) {
    auto buffer = std::make_unique<plan::BufferT>();
    buffer->kind = kind;
    buffer->index = index;
    buffer->space = space;
    buffer->type = typeOf(type);
    return add(std::move(buffer));
  }
  uint32_t add(std::unique_ptr<plan::BufferT> buffer) {
    plan->buffers.push_back(std::move(buffer));
    first.push_back(none);
    last.push_back(0);
    return static_cast<uint32_t>(plan->buffers.size() - 1);
  }
  uint32_t addArena(uint32_t space, const MortiseType &type) {
    return addBuffer(plan::BufferKind::Arena, 0, space, type);
  }

  uint32_t spaceOf(const runtime::Device &device, uint32_t number = 0) {
    if (device.inHostMemory() && number == 0)
      return 0;
    for (uint32_t s = 1; s < plan->spaces.size(); ++s)
      if (spaceDevices[s] == &device.owner() && plan->spaces[s]->number == number)
        return s;
    plan->spaces.push_back(std::make_unique<plan::SpaceT>());
    plan->spaces.back()->device = device.owner().name();
    plan->spaces.back()->number = number;
    spaceDevices.push_back(&device.owner());
    const auto made = static_cast<uint32_t>(plan->spaces.size() - 1);
    alignFor(made, *device.info.spaces[number]);
    return made;
  }
  void alignFor(uint32_t space, const MortiseSpace &wanted) {
    alignments.resize(std::max<size_t>(alignments.size(), space + 1), arenaAlignment);
    alignments[space] = std::max<uint64_t>(alignments[space], wanted.alignment);
  }

  uint32_t now() const { return static_cast<uint32_t>(plan->steps.size()); }
  // The buffer that owns the memory of `buffer`: itself, or the one that it shares memory with.
  uint32_t rootOf(uint32_t buffer) const {
    return plan->buffers[buffer]->shares == none ? buffer : plan->buffers[buffer]->shares;
  }
  void touch(uint32_t buffer) {
    buffer = rootOf(buffer);
    first[buffer] = std::min(first[buffer], now());
    last[buffer] = std::max(last[buffer], now());
  }

  bool reach(uint32_t from, uint32_t to) const {
    return runtime::linkBetween(*spaceDevices[from], *spaceDevices[to]).has_value();
  }

  // Between devices that do not reach each other, through the host's memory.
  void copy(uint32_t source, uint32_t target) {
    if (source == target)
      return;
    const uint32_t from = plan->buffers[source]->space, to = plan->buffers[target]->space;
    if (from != 0 && to != 0 && from != to && !reach(from, to)) {
      auto between = std::make_unique<plan::BufferT>();
      between->kind = plan::BufferKind::Arena;
      between->type = std::make_unique<plan::TensorTypeT>(*plan->buffers[source]->type);
      const uint32_t middle = add(std::move(between));
      copy(source, middle);
      return copy(middle, target);
    }
    touch(source);
    touch(target);
    plan::CopyT instruction;
    instruction.source = source;
    instruction.target = target;
    auto step = std::make_unique<plan::StepT>();
    step->instruction.Set(instruction);
    plan->steps.push_back(std::move(step));
  }

  static bool isPlain(const Place &place) { return place.layout == MORTISE_PLAIN_LAYOUT && place.space == 0; }

  uint32_t spaceOf(const Place &place) { return place.memory ? spaceOf(*place.memory, place.space) : 0; }

  // Where a value was produced, or passed in.
  Place homeOf(uint32_t v) const {
    if (const auto placed = placedAt.find(v); placed != placedAt.end())
      return placed->second;
    return {spaceDevices[plan->buffers[home[v]]->space]};
  }

  // A new buffer for value `v` in a place.
  uint32_t addPlaced(uint32_t v, const Place &place) {
    const uint32_t made = addIn(v, place);
    placedAt.emplace(v, place);
    return made;
  }
  uint32_t addIn(uint32_t v, const Place &place) {
    const MortiseType &type = *graph.values[v]->type;
    const uint32_t made = addArena(spaceOf(place), type);
    if (place.layout != MORTISE_PLAIN_LAYOUT) {
      plan::BufferT &buffer = *plan->buffers[made];
      const Target &target = targets[place.target];
      buffer.layout = place.layout;
      buffer.plugin = target.device->plugin->name;
      const auto size = target.layouts->size(graph, type, target, place.layout);
      if (!size)
        failure = failure.value_or(size.error());
      else
        for (const MortiseExprStep &step : size->bytes)
          buffer.bytes.emplace_back(step.op, 0, step.value);
    }
    return made;
  }

  // The buffer that holds value `v` in `to`. The first request adds the copies and conversions on the way.
  uint32_t at(uint32_t v, const Place &to) {
    uint32_t buffer = home[v];
    const Place from = homeOf(v);
    if (from == to || (graph.values[v]->flags & MORTISE_VALUE_CONSTANT))
      return buffer;
    for (const Hop &hop : route(graph, *graph.values[v]->type, targets, from, to)) {
      const auto [entry, fresh] = copies.try_emplace({v, hop.to}, none);
      if (fresh) {
        entry->second = addIn(v, hop.to);
        hop.conversion ? convert(hop, buffer, entry->second) : copy(buffer, entry->second);
      }
      buffer = entry->second;
    }
    return buffer;
  }
  // In the home of the device that has produced it, and plain.
  uint32_t inHome(uint32_t v) {
    const Place from = homeOf(v);
    return at(v, {from.memory && from.memory->inHostMemory() ? nullptr : from.memory});
  }

  void convert(const Hop &hop, uint32_t source, uint32_t target) {
    auto region = describe(hop.conversion->candidate, targets[hop.target], *hop.conversion->graph);
    region->inputs = {source};
    region->outputs = {target};
    run(std::move(region));
  }

  // ---- The graph's own inputs and outputs

  uint32_t homeSpace(const std::vector<const runtime::Device *> &list, size_t number) {
    return number < list.size() && list[number] ? spaceOf(*list[number]) : 0;
  }

  void signature() {
    plan->name = graph.name ? graph.name : "";
    plan->spaces.push_back(std::make_unique<plan::SpaceT>());
    for (uint32_t i = 0; i < graph.input_count; ++i) {
      const MortiseValue &value = *graph.inputs[i];
      auto input = std::make_unique<plan::InputT>();
      input->name = value.name ? value.name : "";
      input->type = typeOf(*value.type);
      input->constant = value.flags & MORTISE_VALUE_CONSTANT;
      input->state = value.flags & MORTISE_VALUE_STATE;
      input->donated = value.flags & MORTISE_VALUE_DONATED;
      if (input->donated) {
        plan->version = 2;
        donated.push_back(i);
      }
      input->space = input->constant ? 0 : homeSpace(homes.inputs, i);
      const uint32_t space = input->space;
      plan->inputs.push_back(std::move(input));
      home[value.index] = addBuffer(plan::BufferKind::Input, i, space, *value.type);
      inputBuffers.push_back(home[value.index]);
    }
    std::vector<int64_t> alias(graph.output_count, -1);
    for (size_t a = 0; a < graph.alias_count; ++a)
      alias[graph.aliases[a]->output] = graph.aliases[a]->input;
    for (uint32_t o = 0; o < graph.output_count; ++o) {
      const MortiseValue &value = *graph.outputs[o];
      auto output = std::make_unique<plan::OutputT>();
      output->type = typeOf(*value.type);
      output->alias = alias[o];
      output->space = alias[o] >= 0 ? plan->inputs[static_cast<size_t>(alias[o])]->space : homeSpace(homes.outputs, o);
      const uint32_t space = output->space;
      plan->outputs.push_back(std::move(output));
      outputsOf[value.index].push_back(o);
      outputBuffers.push_back(alias[o] >= 0 ? inputBuffers[static_cast<size_t>(alias[o])]
                                            : addBuffer(plan::BufferKind::Output, o, space, *value.type));
      if (alias[o] >= 0 && graph.inputs[alias[o]] != &value)
        overwritten[static_cast<size_t>(alias[o])] = true;
    }
  }

  Result<void> symbols() {
    const Result<std::vector<SymbolSource>> sources = symbolSources(graph);
    if (!sources)
      return sources.error();
    if (graph.symbol_count)
      plan->version = 2;
    for (size_t i = 0; i < graph.symbol_count; ++i) {
      auto symbol = std::make_unique<plan::SymbolT>();
      symbol->name = graph.symbols[i]->name;
      symbol->min = graph.symbols[i]->min;
      symbol->max = graph.symbols[i]->max;
      symbol->divisor = graph.symbols[i]->divisor;
      symbol->input = (*sources)[i].input;
      symbol->dimension = (*sources)[i].dimension;
      plan->symbols.push_back(std::move(symbol));
    }
    for (size_t i = 0; i < graph.guard_count; ++i) {
      auto guard = std::make_unique<plan::GuardT>();
      addSteps(graph.guards[i]->expr, guard->steps);
      guard->relation = graph.guards[i]->relation;
      guard->reason = graph.guards[i]->reason ? graph.guards[i]->reason : "";
      plan->guards.push_back(std::move(guard));
    }
    return {};
  }

  Result<void> cutRegions() {
    for (uint32_t r = 0; r < placement.regions.size(); ++r) {
      Result<Region> region = extractRegion(graph, placement.regions[r].nodes);
      if (!region)
        return region.error();
      for (uint32_t v : region->inputs)
        lastReader[v] = r;
      regions.push_back(std::move(*region));
    }
    for (uint32_t i = 0; i < graph.input_count; ++i) {
      const uint32_t v = graph.inputs[i]->index;
      neededUntil.push_back(outputsFrom(v).empty() ? lastReader[v] : INT64_MAX);
    }
    return {};
  }

  void literals() {
    for (uint32_t n : placement.literals) {
      const MortiseNode &node = *graph.nodes[n];
      const MortiseAttribute *value = findAttribute(node, "value");
      const uint32_t buffer = addBuffer(plan::BufferKind::Literal, 0, 0, *node.results[0]->type);
      const auto *bytes = static_cast<const uint8_t *>(value->tensor_data);
      plan->buffers[buffer]->literal.assign(bytes, bytes + value->count);
      home[node.results[0]->index] = buffer;
    }
  }

  // Copies graph outputs that are themselves inputs or literals. An input that an aliased output overwrites is copied
  // first, all others after the regions.
  void passThroughs() {
    for (uint32_t o = 0; o < graph.output_count; ++o) {
      const MortiseValue &value = *graph.outputs[o];
      uint32_t source = home[value.index];
      if (source == none || source == outputBuffers[o])
        continue;
      if (!value.producer && overwritten[value.result_index]) {
        if (plan->outputs[o]->alias < 0) {
          copy(source, outputBuffers[o]);
          continue;
        }
        const uint32_t saved = addArena(plan->buffers[source]->space, *value.type);
        copy(source, saved);
        source = saved;
      }
      atEnd.emplace_back(source, outputBuffers[o]);
    }
  }

  // ---- Regions

  // Whether no region after r reads the input that the aliased output `o` overwrites.
  bool mayOverwrite(uint32_t o, uint32_t r) const {
    const int64_t alias = plan->outputs[o]->alias;
    return lastReader[graph.inputs[alias]->index] <= static_cast<int64_t>(r);
  }

  std::span<const uint32_t> outputsFrom(uint32_t v) const {
    const auto found = outputsOf.find(v);
    return found == outputsOf.end() ? std::span<const uint32_t>() : std::span<const uint32_t>(found->second);
  }

  // The caller's buffer (an output, or the input that an output aliases) that region r can write value `v` to, or none.
  uint32_t callersBuffer(uint32_t v, uint32_t r, uint32_t space) const {
    for (const bool aliased : {true, false})
      for (uint32_t o : outputsFrom(v))
        if (plan->outputs[o]->space == space && (plan->outputs[o]->alias >= 0) == aliased &&
            (!aliased || mayOverwrite(o, r)))
          return outputBuffers[o];
    return none;
  }

  // ---- Reuse of memory

  // A buffer for value `v` in the memory of `buffer`, which has the same size in bytes.
  uint32_t within(uint32_t buffer, uint32_t v, uint32_t space) {
    const MortiseType &type = *graph.values[v]->type;
    if (sameBufferType(*plan->buffers[buffer]->type, *typeOf(type)))
      return buffer;
    const uint32_t made = addArena(space, type);
    plan->buffers[made]->shares = rootOf(buffer);
    plan->version = 2;
    return made;
  }

  // Donated memory is guaranteed to be aligned for its own element type only.
  bool isAlignedFor(const plan::BufferT &memory, uint32_t v) const {
    return memory.kind == plan::BufferKind::Arena ||
           dtypeBits(graph.values[v]->type->dtype) <= dtypeBits(memory.type->dtype);
  }

  // Whether value `v` in `buffer` is last read by region r and the memory may be reused: it belongs to an arena or to a
  // donated input.
  bool diesAt(uint32_t r, uint32_t v, uint32_t buffer) const {
    if (lastReader[v] > static_cast<int64_t>(r) || (buffer == home[v] && !outputsFrom(v).empty()))
      return false;
    const plan::BufferT &memory = *plan->buffers[rootOf(buffer)];
    return memory.kind == plan::BufferKind::Arena ||
           (memory.kind == plan::BufferKind::Input && plan->inputs[memory.index]->donated);
  }

  // For each output of region r, the buffer of a dying input that the plugin promised to overwrite in place, or none.
  std::vector<uint32_t> inPlace(uint32_t r, const plan::RegionT &region, uint32_t space) {
    const Region &cut = regions[r];
    const MortiseGraph &view = cut.graph->view();
    std::vector<uint32_t> chosen(cut.outputs.size(), none);
    std::vector<bool> taken(cut.inputs.size());
    for (size_t a = 0; a < view.alias_count; ++a)
      taken[view.aliases[a]->input] = true;
    const auto position = [](const std::vector<uint32_t> &list, uint32_t value) {
      return static_cast<size_t>(std::lower_bound(list.begin(), list.end(), value) - list.begin());
    };
    for (const MortiseInPlace &pair : placement.regions[r].inPlace) {
      const size_t from = position(cut.inputs, pair.input), to = position(cut.outputs, pair.output);
      const uint32_t buffer = region.inputs[from];
      if (taken[from] || chosen[to] != none || callersBuffer(pair.output, r, space) != none ||
          !diesAt(r, pair.input, buffer) || !isAlignedFor(*plan->buffers[rootOf(buffer)], pair.output))
        continue;
      taken[from] = true;
      chosen[to] = within(buffer, pair.output, space);
      occupy(rootOf(buffer), pair.output);
    }
    return chosen;
  }

  // A buffer for value `v` in the memory of a donated input that no region from r on reads and that has the same size
  // in bytes, or none.
  uint32_t donatedFor(uint32_t v, uint32_t r, uint32_t space) {
    if (!outputsFrom(v).empty())
      return none;
    for (uint32_t i : donated)
      if (plan->inputs[i]->space == space && neededUntil[i] < static_cast<int64_t>(r) &&
          isAlignedFor(*plan->buffers[inputBuffers[i]], v) &&
          equalBytes(*graph.inputs[i]->type, *graph.values[v]->type, graph.symbol_count)) {
        occupy(inputBuffers[i], v);
        return within(inputBuffers[i], v, space);
      }
    return none;
  }
  void occupy(uint32_t root, uint32_t v) {
    if (plan->buffers[root]->kind == plan::BufferKind::Input)
      neededUntil[plan->buffers[root]->index] = outputsFrom(v).empty() ? lastReader[v] : INT64_MAX;
  }

  // The buffer that region r writes value `v` to: the caller's, `over` (in place), donated memory, or a new arena
  // buffer.
  uint32_t place(uint32_t v, uint32_t r, uint32_t space, uint32_t over) {
    for (const uint32_t chosen : {callersBuffer(v, r, space), over})
      if (chosen != none)
        return chosen;
    const uint32_t given = donatedFor(v, r, space);
    return given != none ? given : addArena(space, *graph.values[v]->type);
  }

  // What the kernel may overwrite: inputs that nothing reads after region r, in an arena or in memory of the host that
  // the caller donates, which the runtime aligns as arenas are.
  std::vector<bool> donatedTo(uint32_t r, const plan::RegionT &region, const Target &target) const {
    const Region &cut = regions[r];
    const MortiseGraph &view = cut.graph->view();
    std::vector<bool> found(cut.inputs.size());
    for (size_t i = 0; i < cut.inputs.size(); ++i) {
      const uint32_t buffer = region.inputs[i], root = rootOf(buffer);
      const plan::BufferT &memory = *plan->buffers[root];
      const bool isAligned = memory.kind == plan::BufferKind::Arena ||
                             (memory.space == 0 && target.device->home().alignment <= arenaAlignment);
      const bool isPlainInput = !(view.inputs[i]->flags & (MORTISE_VALUE_CONSTANT | MORTISE_VALUE_STATE));
      found[i] = isPlainInput && isAligned && outputsFrom(cut.inputs[i]).empty() && diesAt(r, cut.inputs[i], buffer) &&
                 std::ranges::none_of(region.outputs, [&](uint32_t output) { return rootOf(output) == root; });
    }
    for (size_t a = 0; a < view.alias_count; ++a)
      found[view.aliases[a]->input] = false;
    return found;
  }

  // Plugins that know opset 2 read the flag, which came with version 2 of the portable format.
  void donate(plan::RegionT &region, uint32_t r, const Target &target) {
    const std::vector<bool> which = donatedTo(r, region, target);
    if (target.device->plugin->table->opset < 2 || std::ranges::find(which, true) == which.end())
      return;
    const auto changed = withDonated(regions[r].graph->view(), which);
    if (!changed) {
      failure = failure.value_or(changed.error());
      return;
    }
    show(region, target, **changed);
    plan->version = 2;
  }

  // Sets the region's graph, in the form for its plugin.
  static void show(plan::RegionT &region, const Target &target, const Graph &graph) {
    const auto shown = portable::withoutImplied(graph.view(), target.device->plugin->table->opset);
    const std::span<const std::byte> bytes = (shown && *shown ? **shown : graph).bytes();
    region.graph.resize(bytes.size());
    std::ranges::transform(bytes, region.graph.begin(), [](std::byte b) { return static_cast<uint8_t>(b); });
  }

  std::unique_ptr<plan::RegionT> describe(const Candidate &candidate, const Target &target, const Graph &graph) {
    auto region = std::make_unique<plan::RegionT>();
    region->plugin = target.device->plugin->name;
    region->device = target.device->name();
    region->lowering = candidate.lowering;
    region->cost_ns = std::max(candidate.costNs - candidate.copiesNs, 0.0);
    reportProcessCopies(graph.view(), target, *region);
    region->specialise = !candidate.specialised.empty();
    region->specialise_reason = candidate.specialised;
    alignFor(spaceOf(*target.device), target.device->home());
    show(*region, target, graph);
    for (const runtime::Setting &setting : target.options) {
      auto option = std::make_unique<plan::OptionT>();
      option->key = setting.key;
      option->value = setting.value;
      region->options.push_back(std::move(option));
    }
    return region;
  }

  // Adds the region, and the step that runs it. Its buffers are known.
  void run(std::unique_ptr<plan::RegionT> region) {
    for (uint32_t buffer : region->inputs)
      touch(buffer);
    for (uint32_t buffer : region->outputs)
      touch(buffer);
    plan::EnqueueT instruction;
    instruction.region = static_cast<uint32_t>(plan->regions.size());
    plan->regions.push_back(std::move(region));
    auto step = std::make_unique<plan::StepT>();
    step->instruction.Set(instruction);
    for (uint32_t buffer : std::exchange(leaving, {}))
      touch(buffer);
    plan->steps.push_back(std::move(step));
  }

  void enqueue(uint32_t r) {
    const Candidate &candidate = placement.regions[r];
    const Target &target = targets[candidate.target];
    const uint32_t space = spaceOf(*target.device);
    const MortiseGraph &view = regions[r].graph->view();
    auto region = describe(candidate, target, *regions[r].graph);
    region->nodes = candidate.nodes;
    for (uint32_t v : regions[r].inputs)
      region->inputs.push_back(at(v, placeOf(targets, candidate, v)));
    fetchAhead(r + 1);
    const std::vector<uint32_t> over = inPlace(r, *region, space);
    for (size_t i = 0; i < over.size(); ++i) {
      const uint32_t v = regions[r].outputs[i];
      const Place given = placeOf(targets, candidate, v);
      region->outputs.push_back(home[v] = isPlain(given) ? place(v, r, space, over[i]) : addPlaced(v, given));
    }
    for (size_t a = 0; a < view.alias_count; ++a)
      unite(*region, *view.aliases[a], regions[r], r, space);
    donate(*region, r, target);

    run(std::move(region));

    std::vector<uint32_t> done; // a region lists each output value once; the graph may return it several times
    for (uint32_t v : regions[r].outputs)
      if (std::find(done.begin(), done.end(), v) == done.end()) {
        done.push_back(v);
        for (uint32_t o : outputsFrom(v))
          if (outputBuffers[o] != home[v])
            giveBack(o, inHome(v));
      }
  }

  // Copies a result out, beside the next region: that must not write where the copy reads. What an aliased output
  // overwrites may still be read.
  void giveBack(uint32_t output, uint32_t source) {
    if (plan->outputs[output]->alias >= 0) {
      atEnd.emplace_back(source, outputBuffers[output]);
      return;
    }
    copy(source, outputBuffers[output]);
    if (plan->buffers[source]->space != 0)
      leaving.push_back(source);
  }

  // Copies what region r needs and is there already before the region that runs before r, so that it is copied beside
  // that one. Not earlier: what was copied takes memory.
  void fetchAhead(uint32_t r) {
    if (r == regions.size())
      return;
    for (uint32_t v : regions[r].inputs)
      if (home[v] != none)
        at(v, placeOf(targets, placement.regions[r], v));
  }

  // Gives a region's aliased input and output one buffer: the caller's when it may be overwritten; the copy in the
  // device's space when this region is the last to read it; otherwise a new copy.
  void unite(plan::RegionT &region, const MortiseAlias &alias, const Region &cut, uint32_t r, uint32_t space) {
    uint32_t &input = region.inputs[alias.input], &output = region.outputs[alias.output];
    if (input == output)
      return;
    const uint32_t v = cut.outputs[alias.output], from = cut.inputs[alias.input];
    const bool dies = plan->buffers[input]->kind == plan::BufferKind::Arena && home[from] != input &&
                      lastReader[from] <= static_cast<int64_t>(r);
    const uint32_t work = dies ? input : addArena(space, *graph.values[v]->type);
    copy(input, work);
    for (uint32_t o = 0; o < region.outputs.size(); ++o)
      if (cut.outputs[o] == v)
        region.outputs[o] = work;
    input = work;
    home[v] = work;
  }

  // ---- The rest

  void layOut() {
    alignments.resize(plan->spaces.size(), arenaAlignment);
    std::vector<std::vector<Block>> blocks(plan->spaces.size());
    std::vector<std::vector<uint32_t>> which(plan->spaces.size());
    for (uint32_t b = 0; b < plan->buffers.size(); ++b) {
      plan::BufferT &buffer = *plan->buffers[b];
      if (buffer.kind != plan::BufferKind::Arena || first[b] == none)
        continue; // a buffer that shares memory has no range of its own: `touch` extends its root's
      buffer.first = first[b];
      buffer.last = last[b];
      if (graph.symbol_count)
        continue; // sizes, and with them offsets, are known at run time only
      blocks[buffer.space].push_back({bytesOf(buffer, {}), first[b], last[b], 0});
      which[buffer.space].push_back(b);
    }
    for (uint32_t s = 0; s < plan->spaces.size(); ++s) {
      plan->spaces[s]->bytes = assignOffsets(blocks[s], alignments[s]);
      for (size_t i = 0; i < blocks[s].size(); ++i)
        plan->buffers[which[s][i]]->offset = blocks[s][i].offset;
    }
  }

  const MortiseGraph &graph;
  const Placement &placement;
  const std::vector<Target> &targets;
  const std::vector<DecomposedRefusal> &decomposed;
  const Homes &homes;
  std::shared_ptr<plan::PlanT> plan;
  std::vector<Region> regions;
  std::vector<uint32_t> home;       // by value: the buffer that its producer writes
  std::vector<int64_t> lastReader;  // by value: the last region that reads it, or -1
  std::vector<uint32_t> donated;    // inputs
  std::vector<bool> overwritten;    // by input: whether an output is written to its buffer
  std::vector<int64_t> neededUntil; // by input: the last region that reads what its memory holds
  std::vector<uint32_t> inputBuffers, outputBuffers;
  std::unordered_map<uint32_t, std::vector<uint32_t>> outputsOf; // value to the graph outputs that return it
  std::map<std::pair<uint32_t, Place>, uint32_t> copies;         // value and place to buffer
  std::map<uint32_t, Place> placedAt;                            // values whose home is not plain
  std::vector<std::pair<uint32_t, uint32_t>> atEnd;              // source and target buffers
  std::vector<uint32_t> leaving;     // buffers of devices that are copied to outputs beside the next region
  std::vector<uint32_t> first, last; // by buffer: the first and last step that use it
  std::optional<Error> failure;      // of a plugin that was asked about its layouts
  std::vector<const runtime::Device *> spaceDevices{nullptr}; // by memory space; NULL for the host's
  std::vector<uint64_t> alignments;                           // by memory space
};

} // namespace

Result<void> checkGraph(const MortiseGraph &graph) {
  if (const Result<std::vector<SymbolSource>> sources = symbolSources(graph); !sources)
    return sources.error();
  std::vector<bool> input(graph.input_count), output(graph.output_count);
  for (size_t a = 0; a < graph.alias_count; ++a) {
    const MortiseAlias &alias = *graph.aliases[a];
    if (alias.input >= graph.input_count || alias.output >= graph.output_count)
      return Error{MORTISE_INVALID_ARGUMENT, "alias of output " + std::to_string(alias.output) + " to input " +
                                                 std::to_string(alias.input) + ": there are " +
                                                 std::to_string(graph.output_count) + " outputs and " +
                                                 std::to_string(graph.input_count) + " inputs"};
    const MortiseValue &from = *graph.inputs[alias.input], &to = *graph.outputs[alias.output];
    const std::string where =
        "output " + std::to_string(alias.output) + " aliases input " + std::to_string(alias.input);
    if (input[alias.input] || output[alias.output])
      return Error{MORTISE_INVALID_ARGUMENT,
                   where + ", and one of them is aliased already; expected at most one alias for each"};
    if (from.flags & (MORTISE_VALUE_CONSTANT | MORTISE_VALUE_DONATED))
      return Error{MORTISE_INVALID_ARGUMENT, where + ", which is constant or donated; expected a state input"};
    if (!equalTypes(*from.type, *to.type, graph.symbol_count))
      return Error{MORTISE_INVALID_ARGUMENT,
                   where + ": expected equal types, found " + typeString(*to.type) + " and " + typeString(*from.type)};
    input[alias.input] = output[alias.output] = true;
  }
  return {};
}

Result<std::shared_ptr<const plan::PlanT>> writePlan(const MortiseGraph &graph, const Placement &placement,
                                                     const std::vector<Target> &targets,
                                                     const std::vector<DecomposedRefusal> &decomposed,
                                                     const Homes &homes) {
  return Writer(graph, placement, targets, decomposed, homes).write();
}

} // namespace mortise::passes
