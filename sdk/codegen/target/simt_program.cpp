// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/codegen/simt_program.hpp>

namespace mortise::codegen {

static constexpr uint32_t none = UINT32_MAX;

Dim bytesOf(const MortiseValue &value) {
  const std::vector<Dim> dims = dimsOf(*value.type);
  return elementCount(std::span<const Dim>(dims)) * static_cast<int64_t>(dtypeBits(value.type->dtype) / 8);
}

// ---- Where values lie

Placement::Placement(const MortiseGraph &region, std::vector<Buffer> &buffers)
    : region(region), buffers(buffers), places(region.value_count), aliased(region.output_count, none) {
  for (uint32_t i = 0; i < region.input_count; ++i)
    places[region.inputs[i]->index] = Place{Place::Input, i};
  for (size_t i = 0; i < region.alias_count; ++i)
    aliased[region.aliases[i]->output] = region.inputs[region.aliases[i]->input]->index;
}

// Whether the unit may have the memory of one of its inputs, of which it makes something else, for this output.
static bool mayWriteOver(const Placement::Unit &unit, uint32_t output, uint32_t input) {
  if (!unit.group)
    return false;
  const std::vector<std::vector<uint32_t>> &over = unit.code->over;
  if (output < over.size() && std::ranges::find(over[output], input) != over[output].end())
    return true;
  const auto updates = [](const Group &group, size_t at, size_t of) {
    return at == 0 && group.inPlace >= 0 && of == static_cast<size_t>(group.inPlace);
  };
  size_t firstOutput = 0, firstInput = 0;
  for (const Group &part : unit.group->parts) {
    if (output >= firstOutput && input >= firstInput && updates(part, output - firstOutput, input - firstInput))
      return true;
    firstOutput += part.outputs.size(), firstInput += part.inputs.size();
  }
  return updates(*unit.group, output, input);
}

// Whether what makes `value` may write it where the state lies that `output` updates: nobody wants the old contents any
// more.
bool Placement::mayUpdate(std::span<const Unit> units, uint32_t output, uint32_t value) const {
  const uint32_t state = aliased[output];
  for (uint32_t other = 0; other < region.output_count; ++other)
    if (other != output && region.outputs[other]->index == state)
      return false;
  bool made = false;
  for (const Unit &unit : units) {
    const bool before = made;
    const auto at = std::ranges::find(unit.outputs, value);
    made |= at != unit.outputs.end();
    for (uint32_t read = 0; made && read < unit.inputs.size(); ++read) // several parts of a bundle may read it
      if (unit.inputs[read] == state &&
          (before || !mayWriteOver(unit, static_cast<uint32_t>(at - unit.outputs.begin()), read)))
        return false;
  }
  return made;
}

void Placement::placeOutputs(std::span<const Unit> units) {
  for (uint32_t o = 0; o < region.output_count; ++o) {
    const MortiseValue &value = *region.outputs[o];
    if (aliased[o] == value.index)
      continue; // the state as it was
    if (places[value.index] || (aliased[o] != none && !mayUpdate(units, o, value.index)))
      ends.push_back({o, value.index});
    else
      places[value.index] = Place{Place::Output, o};
  }
}

Place Placement::workspace(Dim bytes) {
  buffers.push_back({std::move(bytes)});
  return {Place::Workspace, static_cast<uint32_t>(buffers.size() - 1)};
}

Result<Place> Placement::of(uint32_t value) const {
  if (!places[value])
    return Error{MORTISE_INTERNAL, "a step reads value " + std::to_string(value) + " (" +
                                       typeString(*region.values[value]->type) +
                                       "), which no step writes; please report this graph"};
  return *places[value];
}

Place Placement::forResult(uint32_t value) {
  if (!places[value])
    places[value] = workspace(bytesOf(*region.values[value]));
  return *places[value];
}

Placement::Copy Placement::copyOf(uint32_t output, uint32_t value, Place source, Place target) const {
  const MortiseNode *producer = region.values[value]->producer;
  return {output,
          value,
          source,
          target,
          bytesOf(*region.values[value]),
          producer ? std::vector<uint32_t>{producer->index} : std::vector<uint32_t>{}};
}

// First what is copied elsewhere, then the states, which others may have been copied from. A state that becomes another
// one is kept in the workspace meanwhile: the two may change places.
Result<std::vector<Placement::Copy>> Placement::copies() {
  std::vector<Copy> list, updates;
  for (const End &end : ends) {
    Result<Place> source = of(end.value);
    if (!source)
      return source.error();
    const Place target{Place::Output, end.output};
    if (aliased[end.output] == none) {
      list.push_back(copyOf(end.output, end.value, *source, target));
      continue;
    }
    if (std::ranges::find(aliased, end.value) != aliased.end()) {
      const Place kept = workspace(bytesOf(*region.values[end.value]));
      list.push_back(copyOf(end.output, end.value, *source, kept));
      *source = kept;
    }
    updates.push_back(copyOf(end.output, end.value, *source, target));
  }
  std::ranges::move(updates, std::back_inserter(list));
  return list;
}

void Placement::use(const Place &place, uint32_t step) {
  if (place.kind != Place::Workspace)
    return;
  Buffer &buffer = buffers[place.index];
  buffer.first = std::min(buffer.first, step);
  buffer.last = std::max(buffer.last, step);
}

void Placement::use(std::span<const KernelArgument> arguments, uint32_t step) {
  for (const KernelArgument &argument : arguments)
    if (argument.kind == KernelArgument::Address)
      use(argument.place, step);
}

Result<std::vector<KernelArgument>> argumentsOf(const SimtFunction &code, const Group &group, Placement &placement,
                                                const std::function<Place(Dim)> &scratch) {
  std::vector<KernelArgument> list;
  for (const SimtArgument &argument : code.arguments) {
    switch (argument.kind) {
    case SimtArgument::Symbol:
      list.push_back({KernelArgument::Symbol, argument.index, {}});
      break;
    case SimtArgument::Constant:
      list.push_back({KernelArgument::Constant, argument.index, {}});
      break;
    case SimtArgument::Scratch:
      list.push_back({KernelArgument::Address, 0, scratch(code.scratchBytes)});
      break;
    case SimtArgument::Output:
      list.push_back({KernelArgument::Address, 0, placement.forResult(group.outputs[argument.index])});
      break;
    case SimtArgument::Input: {
      Result<Place> place = placement.of(group.inputs[argument.index]);
      if (!place)
        return place.error();
      list.push_back({KernelArgument::Address, 0, *place});
      break;
    }
    case SimtArgument::Number:
    case SimtArgument::Stride:
      return Error{MORTISE_INTERNAL, "expected arguments of a group, found one of an attention"};
    }
  }
  return list;
}

// ---- Steps

const char *LoweringNames::of(GroupKind kind) const {
  switch (kind) {
  case GroupKind::Pointwise:
    return pointwise;
  case GroupKind::Rows:
    return rows;
  case GroupKind::Columns:
    return columns;
  case GroupKind::Scan:
    return scan;
  case GroupKind::Product:
    return product;
  case GroupKind::Sort:
    return sort;
  }
  return pointwise;
}

Result<std::vector<Group>> groupsOf(const MortiseGraph &region) {
  FuseRequest request;
  request.graph = &region;
  request.taken.assign(region.node_count, false);
  request.materialise.assign(region.value_count, false);
  for (size_t i = 0; i < region.output_count; ++i)
    request.materialise[region.outputs[i]->index] = true;
  Result<FuseResult> fused = fuse(request, simtFuseTarget());
  if (!fused)
    return fused.error();
  return std::move(fused->groups);
}

Result<SimtProgram> SimtProgram::make(const MortiseGraph &region, std::span<const Group> groups,
                                      std::span<const SimtFunction *const> codes, const LoweringNames &names) {
  SimtProgram program;
  Placement placement(region, program.buffers);
  std::vector<Placement::Unit> units;
  for (size_t i = 0; i < groups.size(); ++i)
    units.push_back({groups[i].inputs, groups[i].outputs, &groups[i], codes[i]});
  placement.placeOutputs(units);
  for (uint32_t i = 0; i < groups.size(); ++i) {
    auto arguments =
        argumentsOf(*codes[i], groups[i], placement, [&](Dim bytes) { return placement.workspace(std::move(bytes)); });
    if (!arguments)
      return arguments.error();
    placement.use(*arguments, static_cast<uint32_t>(program.steps.size()));
    program.steps.push_back(
        {LaunchStep{i, codes[i], std::move(*arguments)}, groups[i].name, names.of(groups[i].kind), groups[i].nodes});
  }
  auto copies = placement.copies();
  if (!copies)
    return copies.error();
  for (Placement::Copy &copy : *copies) {
    for (const Place &place : {copy.source, copy.target})
      placement.use(place, static_cast<uint32_t>(program.steps.size()));
    program.steps.push_back({CopyStep{copy.source, copy.target, std::move(copy.bytes)},
                             "copy to output " + std::to_string(copy.output), names.copy, std::move(copy.nodes)});
  }
  return program;
}

// ---- Numbers

Result<uint64_t> countOf(const Dim &dim, std::span<const int64_t> symbols) {
  const Result<int64_t> number = dim.evaluate(symbols);
  if (!number)
    return number.error();
  return static_cast<uint64_t>(std::max<int64_t>(*number, 0));
}

Result<std::vector<uint64_t>> sizesOf(std::span<const Buffer> buffers, std::span<const int64_t> symbols) {
  std::vector<uint64_t> sizes;
  for (const Buffer &buffer : buffers) {
    Result<uint64_t> size = countOf(buffer.bytes, symbols);
    if (!size)
      return size.error();
    sizes.push_back(*size);
  }
  return sizes;
}

static Result<std::vector<uint64_t>> gridsOf(const SimtFunction &code, const AttentionCall *attention,
                                             const LaunchLimits &limits, std::span<const int64_t> symbols) {
  std::vector<uint64_t> grids;
  for (const SimtLaunch &each : code.launches) {
    Result<uint64_t> blocks = countOf(attention ? attention->blocks() : each.blocks, symbols);
    if (!blocks)
      return blocks.error();
    const uint64_t most = std::min(limits.blocks, limits.threads / each.threads);
    if (*blocks > most)
      return Error{MORTISE_UNSUPPORTED, "expected a grid of at most " + std::to_string(most) + " blocks, found " +
                                            std::to_string(*blocks) + "; run the graph on smaller tensors"};
    grids.push_back(*blocks);
    if (limits.iterations == UINT64_MAX)
      continue;
    Result<uint64_t> iterations = countOf(each.iterations, symbols);
    if (!iterations)
      return iterations.error();
    if (*iterations > limits.iterations)
      return Error{MORTISE_UNSUPPORTED, "expected at most " + std::to_string(limits.iterations) +
                                            " iterations of loops in a thread, where this device's driver leaves "
                                            "them, found up to " +
                                            std::to_string(*iterations) +
                                            "; run the graph on smaller tensors or another device"};
  }
  return grids;
}

static Result<std::vector<int64_t>> numbersOf(const AttentionCall &attention, std::span<const int64_t> symbols) {
  Result<std::vector<int64_t>> numbers = evaluate(std::span<const Dim>(attention.numbers()), symbols);
  if (!numbers)
    return numbers;
  constexpr int64_t most = INT32_MAX - 256; // positions are i32, and go to the end of a tile
  const bool sharesRows = attention.code.split == AttentionCode::Split::Keys;
  const int64_t rows =
      (*numbers)[AttentionNumber::Queries] * (sharesRows ? (*numbers)[AttentionNumber::HeadsPerKey] : 1);
  for (const int64_t count : {rows, (*numbers)[AttentionNumber::Keys]})
    if (count > most)
      return Error{MORTISE_UNSUPPORTED, "expected at most " + std::to_string(most) + " rows and keys, found " +
                                            std::to_string(count) + "; run the graph on smaller tensors"};
  return numbers;
}

Result<void> SimtNumbers::addLaunch(const Naming &naming, const SimtFunction &code, const AttentionCall *attention,
                                    const LaunchLimits &limits, std::span<const int64_t> symbols) {
  const auto failed = [&](const Error &error) { return Error{error.code, naming.name + ": " + error.message}; };
  const size_t step = amounts.size();
  Result<std::vector<uint64_t>> blocks = gridsOf(code, attention, limits, symbols);
  if (!blocks)
    return failed(blocks.error());
  if (attention) {
    Result<std::vector<int64_t>> given = numbersOf(*attention, symbols);
    if (!given)
      return failed(given.error());
    numbers[step] = std::move(*given);
  }
  // What explain shows may be missing.
  const auto shown = [&](const Dim &dim) {
    const Result<int64_t> found = dim.evaluate(symbols);
    return found ? static_cast<double>(*found) : 0;
  };
  amounts.push_back(std::ranges::max(*blocks));
  grids[step] = std::move(*blocks);
  steps.add(naming.name, naming.lowering, naming.nodes, shown(attention ? attention->bytes() : code.bytes),
            shown(attention ? attention->flops() : code.flops));
  return {};
}

Result<void> SimtNumbers::addCopy(const Naming &naming, const Dim &bytes, std::span<const int64_t> symbols) {
  Result<uint64_t> amount = countOf(bytes, symbols);
  if (!amount)
    return Error{amount.error().code, naming.name + ": " + amount.error().message};
  amounts.push_back(*amount);
  steps.add(naming.name, naming.lowering, naming.nodes, 2.0 * static_cast<double>(*amount), 0);
  return {};
}

void SimtNumbers::addCall(const Naming &naming, uint64_t writtenBytes, double bytes, double flops) {
  amounts.push_back(writtenBytes);
  steps.add(naming.name, naming.lowering, naming.nodes, bytes, flops);
}

Result<void> SimtNumbers::place(std::span<const Buffer> buffers, std::span<const uint64_t> sizes) {
  Result<uint64_t> bytes = placeBuffers(buffers, sizes, offsets);
  if (!bytes)
    return bytes.error();
  workspaceBytes = *bytes;
  workspace = ConstantExpr(static_cast<int64_t>(*bytes));
  return {};
}

Result<std::unique_ptr<SimtNumbers>> SimtProgram::numbersFor(std::span<const int64_t> symbols,
                                                             const LaunchLimits &limits) const {
  auto numbers = std::make_unique<SimtNumbers>(steps.size());
  for (const ProgramStep &step : steps) {
    const SimtNumbers::Naming naming{step.name, step.lowering, step.nodes};
    const auto *launch = std::get_if<LaunchStep>(&step.work);
    if (auto added = launch ? numbers->addLaunch(naming, *launch->code, nullptr, limits, symbols)
                            : numbers->addCopy(naming, std::get<CopyStep>(step.work).bytes, symbols);
        !added)
      return added.error();
  }
  Result<std::vector<uint64_t>> sizes = sizesOf(buffers, symbols);
  if (!sizes)
    return sizes.error();
  if (auto placed = numbers->place(buffers, *sizes); !placed)
    return placed.error();
  return numbers;
}

// ---- Calls

bool fillValues(std::span<const KernelArgument> arguments, size_t step, const SimtFunction &code,
                const CallAddresses &addresses, std::span<const uint64_t> constants, uint64_t *values) {
  uint64_t bits = 0; // of all addresses and strides
  for (const KernelArgument &argument : arguments) {
    uint64_t &value = *values++;
    switch (argument.kind) {
    case KernelArgument::Address:
      value = addresses(argument.place);
      bits |= value;
      break;
    case KernelArgument::Symbol:
      value = static_cast<uint64_t>(addresses.args.symbols[argument.index]);
      break;
    case KernelArgument::Constant:
      value = constants[argument.index];
      break;
    case KernelArgument::Stride:
    case KernelArgument::Number:
      value = static_cast<uint64_t>(addresses.numbers.numbers[step][argument.index]);
      bits |= argument.kind == KernelArgument::Stride ? value : 0;
      break;
    }
  }
  return bits % code.alignment == 0; // a power of two
}

} // namespace mortise::codegen
