// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "step_builder.hpp"

#include <mortise/plugin.hpp>

#include <algorithm>
#include <map>

namespace mortise::cpu {

dnnl::engine &engine() {
  static dnnl::engine *made = new dnnl::engine(dnnl::engine::kind::cpu, 0); // outlives every kernel
  return *made;
}

dnnl::memory::data_type libraryType(int32_t dtype) {
  using type = dnnl::memory::data_type;
  switch (dtype) {
  case MORTISE_F32:
    return type::f32;
  case MORTISE_BF16:
    return type::bf16;
  case MORTISE_F16:
    return type::f16;
  default:
    return type::undef;
  }
}

StepBuilder::StepBuilder(const Units &units, Values given)
    : units(units), graph(*units.graph), values(std::move(given)), memory(graph.value_count),
      extentsOf(graph.value_count), views(graph.value_count) {}

std::span<const int64_t> StepBuilder::extents(uint32_t value) {
  if (isStatic(type(value)))
    return dims(type(value));
  std::optional<std::vector<int64_t>> &found = extentsOf[value];
  if (!found)
    found = values(denseView(*graph.values[value]).dims);
  return *found;
}

std::string StepBuilder::typeText(uint32_t value) {
  std::string text = std::string(dtypeName(type(value).dtype)) + "[";
  for (int64_t extent : extents(value))
    text += (text.back() == '[' ? "" : ", ") + std::to_string(extent);
  return text + "]";
}

const FixedView &StepBuilder::viewOf(uint32_t value) {
  std::optional<FixedView> &view = views[value];
  if (!view)
    view = values(units.views[value]);
  return *view;
}

FixedView StepBuilder::rootOf(uint32_t index) {
  return values(units.roots[index] ? *units.roots[index] : denseView(value(index)));
}

bool StepBuilder::isWhole(const FixedView &view) {
  const FixedView root = rootOf(view.base);
  if (view.offset != 0 || view.dims != root.dims)
    return false;
  for (size_t i = 0; i < view.dims.size(); ++i)
    if (view.dims[i] != 1 && view.strides[i] != root.strides[i])
      return false;
  return true;
}

bool StepBuilder::diesAt(uint32_t index, const Unit &unit) const {
  return value(index).producer && !units.constant[index] && !units.partOf[index] && units.outputHome[index] == none &&
         !readLater(index, unit) && !units.copied[index];
}

// ---- Memory

BufferId StepBuilder::addBuffer(Buffer buffer) {
  schedule.buffers.push_back(buffer);
  return static_cast<BufferId>(schedule.buffers.size() - 1);
}

BufferId StepBuilder::allocate(size_t bytes) {
  if (binding)
    return keep(bytes);
  Buffer buffer;
  buffer.bytes = bytes;
  return addBuffer(buffer);
}

BufferId StepBuilder::keep(size_t bytes) {
  Buffer buffer;
  buffer.home = Home::Kept;
  buffer.bytes = bytes;
  return addBuffer(buffer);
}

BufferId StepBuilder::inputBuffer(uint32_t index) {
  const MortiseValue &input = value(index);
  Buffer buffer;
  buffer.home = input.flags & MORTISE_VALUE_CONSTANT ? Home::Bound : Home::Input;
  buffer.number = input.result_index;
  buffer.bytes = bytes(index);
  return addBuffer(buffer);
}

BufferId StepBuilder::literalBuffer(const MortiseNode &node) {
  const MortiseAttribute *literal = findAttribute(node, "value");
  const auto *data = static_cast<const std::byte *>(literal->tensor_data);
  schedule.literals.emplace_back(data, data + literal->count);
  Buffer buffer;
  buffer.home = Home::Literal;
  buffer.bytes = literal->count;
  buffer.literal = schedule.literals.back().data();
  return addBuffer(buffer);
}

Operand StepBuilder::read(uint32_t index, int64_t offset) {
  Memory &found = memory[index];
  const MortiseNode *producer = value(index).producer;
  if (found.dense == none) {
    if (const std::optional<View> &view = units.partOf[index]) {
      Operand whole = read(view->base, values(view->offset));
      found.dense = whole.buffer;
      found.offset = whole.offset;
    } else if (!producer)
      found.dense = inputBuffer(index);
    else if (isOp(*producer, "mortise.constant"))
      found.dense = literalBuffer(*producer);
    else if (found.blocked != none) {
      Operand source{found.blocked, 0, false}, target = write(index);
      const FixedView root = rootOf(index);
      const dnnl::memory::desc dense(root.dims, found.layout.get_data_type(), root.strides);
      reorder(units.roots[index] ? "to channels last" : "to row-major", memory[index].layout, source, dense, target);
    }
  }
  return {memory[index].dense, memory[index].offset + offset * static_cast<int64_t>(dtypeBits(type(index).dtype) / 8),
          false};
}

Operand StepBuilder::write(uint32_t index) {
  Memory &found = memory[index];
  if (found.dense == none) {
    size_t size = bytes(index);
    if (units.roots[index] && size != 0) {
      const FixedView view = rootOf(index);
      int64_t last = 0;
      for (size_t i = 0; i < view.dims.size(); ++i)
        last += (view.dims[i] - 1) * view.strides[i];
      size = static_cast<size_t>(last + 1) * dtypeBits(type(index).dtype) / 8;
    }
    found.dense = allocate(size);
    if (units.outputHome[index] != none && !binding) {
      schedule.buffers[found.dense].home = Home::Output;
      schedule.buffers[found.dense].number = units.outputHome[index];
    }
  }
  return {found.dense, 0, true};
}

// ---- Steps

Step &StepBuilder::addStep(Step step) {
  std::vector<Step> &list = binding ? schedule.binding : schedule.steps;
  step.unit = unitNumber;
  list.push_back(std::move(step));
  return list.back();
}

Step &StepBuilder::addLibraryStep(std::string name, const char *lowering, dnnl::primitive_desc_base description,
                                  std::vector<int> arguments, std::vector<dnnl::memory::desc> layouts,
                                  std::vector<Operand> operands) {
  Step step;
  step.name = std::move(name);
  step.lowering = lowering;
  for (size_t i = 0; i < layouts.size(); ++i)
    step.bytes += static_cast<double>(layouts[i].get_size());
  if (dnnl::memory::desc scratch = description.query_md(dnnl::query::scratchpad_md);
      scratch && scratch.get_size() > 0) {
    arguments.push_back(DNNL_ARG_SCRATCHPAD);
    layouts.push_back(scratch);
    operands.push_back({allocate(scratch.get_size()), 0, true});
  }
  step.operands = std::move(operands);
  step.action = LibraryCall{std::move(description), {}, std::move(arguments), std::move(layouts)};
  return addStep(std::move(step));
}

// The library converts by its loops for all layouts and types.
static bool isPlain(const dnnl::reorder::primitive_desc &description) {
  return description.src_desc().get_data_type() != description.dst_desc().get_data_type() &&
         !std::string_view(description.impl_info_str()).starts_with("jit");
}

// The layout of the side that has 16 bits, in f32, if the other side has f32 and nothing but elements lies in memory
// there; else none.
static std::optional<dnnl::memory::desc> inFloats(const dnnl::memory::desc &from, const dnnl::memory::desc &to) {
  using type = dnnl::memory::data_type;
  const auto isNarrow = [](const dnnl::memory::desc &layout) {
    return (layout.get_data_type() == type::bf16 || layout.get_data_type() == type::f16) &&
           layout.get_inner_nblks() == 0 &&
           layout.get_size() == 2 * static_cast<size_t>(elementCount(std::span<const int64_t>(layout.get_dims())));
  };
  for (const auto &[narrow, wide] : {std::pair(from, to), std::pair(to, from)})
    if (isNarrow(narrow) && wide.get_data_type() == type::f32)
      return dnnl::memory::desc(narrow.get_dims(), type::f32, narrow.get_strides());
  return {};
}

void StepBuilder::reorder(const char *what, const dnnl::memory::desc &from, Operand source,
                          const dnnl::memory::desc &to, Operand target) {
  auto found =
      std::find_if(reorders.begin(), reorders.end(), [&](const Reorder &x) { return x.from == from && x.to == to; });
  if (found == reorders.end()) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    reorders.push_back({from, to, dnnl::reorder::primitive_desc(engine(), from, engine(), to, attributes)});
    found = reorders.end() - 1;
  }
  target.written = true;
  const dnnl::reorder::primitive_desc description = found->description;
  if (const auto floats = isPlain(description) ? inFloats(from, to) : std::nullopt) {
    const dnnl::memory::desc &plain = *floats;
    const bool widens = to.get_data_type() == dnnl::memory::data_type::f32;
    const bool isAll = plain == (widens ? to : from);
    Operand between = isAll ? (widens ? target : source) : Operand{allocate(plain.get_size()), 0, true};
    if (!widens && !isAll)
      reorder(what, from, source, plain, between);
    between.written = widens;
    addConversion(what, from.get_data_type(), widens ? source : between, to.get_data_type(), widens ? between : target,
                  static_cast<int64_t>(plain.get_size() / 4));
    between.written = false;
    if (widens && !isAll)
      reorder(what, plain, between, to, target);
    return;
  }
  addLibraryStep(std::string("reorder ") + what, isPlain(description) ? "onednn.reorder.plain" : "onednn.reorder",
                 description, {DNNL_ARG_FROM, DNNL_ARG_TO}, {from, to}, {source, target});
}

void StepBuilder::addConversion(const char *what, dnnl::memory::data_type from, Operand source,
                                dnnl::memory::data_type to, Operand target, int64_t count) {
  Step step;
  step.name = std::string("convert ") + what;
  step.lowering = "cpu.conversion";
  step.bytes = 6.0 * static_cast<double>(count);
  step.operands = {source, target};
  step.action = NativeLoop{conversionLoop(from, to, count), "convert " + std::to_string(static_cast<int>(from)) +
                                                                " to " + std::to_string(static_cast<int>(to)) + " " +
                                                                std::to_string(count)};
  addStep(std::move(step));
}

void StepBuilder::addCopy(std::string name, Operand source, Operand target, size_t bytes) {
  Step step;
  step.name = std::move(name);
  step.lowering = "cpu.copy";
  step.bytes = 2.0 * static_cast<double>(bytes);
  target.written = true;
  step.operands = {source, target};
  step.action = Copy{bytes};
  if (bytes)
    addStep(std::move(step));
}

Result<void> addSteps(StepBuilder &builder, const Unit &unit, const Generated &generated) {
  const codegen::Function &function = *generated.function;
  const Values &values = builder.values;
  Step step;
  step.name = generated.name;
  if (generated.hasSymbols) { // its name has no numbers
    step.name = step.name.substr(0, step.name.find(' '));
    for (int64_t extent : builder.extents(generated.outputs[0]))
      step.name += (step.name.find(' ') == std::string::npos ? " " : "x") + std::to_string(extent);
  }
  static constexpr const char *lowerings[] = {"generated.pointwise", "generated.rows", "generated.columns",
                                              "generated.scan"};
  step.lowering = lowerings[static_cast<size_t>(generated.kind)];
  step.nodes = unit.nodes;
  for (uint32_t input : generated.inputs)
    step.operands.push_back(builder.read(input));
  for (uint32_t output : generated.outputs)
    step.operands.push_back(builder.write(output));
  GeneratedCall call{function.entry,
                     values(function.tasks),
                     std::max<int64_t>(values(function.grain), 1),
                     static_cast<size_t>(values(function.scratchBytes)),
                     generated.hasSymbols,
                     generated.inputs.size(),
                     {}};
  for (uint32_t output = 0; output < function.over.size(); ++output)
    for (uint32_t input : function.over[output])
      call.over.emplace_back(static_cast<uint32_t>(call.inputCount) + output, input);
  step.action = std::move(call);
  step.bytes = static_cast<double>(values(function.bytes));
  step.flops = static_cast<double>(values(function.flops));
  builder.addStep(std::move(step));
  return {};
}

// Outputs with memory of their own first, then those that overwrite an input, whose old contents may be wanted until
// then.
void StepBuilder::copyOutputs() {
  for (uint32_t index = 0; index < graph.value_count; ++index)
    if (units.outputHome[index] != none)
      read(index); // from the library's layout, if it is nowhere else
  struct Late {
    Operand source, target;
    size_t bytes;
  };
  std::vector<Late> late;
  for (auto [position, index] : units.copies) {
    const FixedView &view = viewOf(index);
    size_t size = bytes(index);
    Operand source = read(view.base, view.offset);
    bool inPlace = false, overwrites = false; // an update in place has written the output already
    const Buffer from = schedule.buffers[source.buffer];
    for (size_t i = 0; i < graph.alias_count; ++i)
      if (graph.aliases[i]->output == position) {
        overwrites = true;
        inPlace |= from.home == Home::Input && from.number == graph.aliases[i]->input && source.offset == 0;
      }
    if (inPlace)
      continue;
    Buffer buffer;
    buffer.home = Home::Output;
    buffer.number = position;
    buffer.bytes = size;
    Operand target{addBuffer(buffer), 0, true};
    std::string name = "copy to output " + std::to_string(position);
    if (!overwrites) {
      addCopy(std::move(name), source, target, size);
      continue;
    }
    if (from.home == Home::Input) { // another output may overwrite that input
      Operand kept{allocate(size), 0, false};
      addCopy("keep what output " + std::to_string(position) + " will hold", source, kept, size);
      source = kept;
    }
    late.push_back({source, target, size});
  }
  for (const Late &copy : late)
    addCopy("copy to output " + std::to_string(schedule.buffers[copy.target.buffer].number), copy.source, copy.target,
            copy.bytes);
}

// Nothing is read, and no output handed out, that no step has written: whoever decided otherwise is wrong, and says so
// here instead of computing with what happened to be in memory.
Result<void> StepBuilder::checkWritten() {
  std::vector<bool> written(schedule.buffers.size());
  auto fail = [&](const std::string &what) {
    return Error{MORTISE_INTERNAL,
                 "the cpu plugin schedules no step that writes " + what + "; please report this graph"};
  };
  for (const std::vector<Step> *list : {&schedule.binding, &schedule.steps})
    for (const Step &step : *list) {
      for (const Operand &operand : step.operands) {
        if (operand.buffer == none)
          return fail("what \"" + step.name + "\" reads");
        const Buffer &buffer = schedule.buffers[operand.buffer];
        bool given = buffer.home == Home::Input || buffer.home == Home::Bound || buffer.home == Home::Literal;
        if (!operand.written && !given && !written[operand.buffer] && buffer.bytes && buffer.sharing == none)
          return fail("what \"" + step.name + "\" reads");
      }
      for (const Operand &operand : step.operands)
        if (operand.written)
          written[operand.buffer] = true;
    }
  std::vector<bool> done(graph.output_count);
  for (size_t i = 0; i < schedule.buffers.size(); ++i)
    if (schedule.buffers[i].home == Home::Output && written[i])
      done[schedule.buffers[i].number] = true;
  for (size_t i = 0; i < graph.alias_count; ++i)
    done[graph.aliases[i]->output] = true; // may be updated in place, or have nothing to update
  for (uint32_t i = 0; i < graph.output_count; ++i)
    if (uint32_t index = graph.outputs[i]->index; !done[i] && bytes(index))
      return fail("output " + std::to_string(i) + " of the region, " + typeText(index) + " of " +
                  (value(index).producer ? value(index).producer->op : "an input"));
  return {};
}

// Machine code of library calls, in parallel: it is what takes their time. Equal descriptions share theirs.
Result<void> StepBuilder::makePrimitives() {
  std::map<const_dnnl_primitive_desc_t, size_t> known;
  std::vector<const dnnl::primitive_desc_base *> descriptions;
  std::vector<const Step *> firsts;
  for (const Step &step : schedule.steps)
    if (const LibraryCall *call = step.libraryCall();
        call && known.emplace(call->description.get(), descriptions.size()).second) {
      descriptions.push_back(&call->description);
      firsts.push_back(&step);
    }
  std::vector<dnnl::primitive> primitives(descriptions.size());
  std::vector<std::string> failures(descriptions.size());
  parallelFor(static_cast<int64_t>(descriptions.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      try {
        primitives[i] = dnnl::primitive(descriptions[i]->get());
      } catch (const std::exception &error) {
        failures[i] = error.what();
      }
  });
  for (size_t i = 0; i < failures.size(); ++i)
    if (!failures[i].empty())
      return Error{MORTISE_INTERNAL, "oneDNN could not make \"" + firsts[i]->name + "\": " + failures[i]};
  for (Step &step : schedule.steps)
    if (auto *call = std::get_if<LibraryCall>(&step.action))
      call->primitive = primitives[known[call->description.get()]];
  return {};
}

Result<void> StepBuilder::checkExtents() {
  for (uint32_t i = 0; i < graph.value_count; ++i) {
    if (isStatic(type(i)))
      continue;
    for (const Dim &dim : denseView(*graph.values[i]).dims)
      if (Result<int64_t> found = dim.evaluate(values.symbols); !found || *found < 0)
        return found ? Error{MORTISE_INVALID_ARGUMENT, "an extent of value " + std::to_string(i) + " is " +
                                                           std::to_string(*found) + " for these symbols' values"}
                     : found.error();
  }
  return {};
}

Result<Schedule> StepBuilder::build() {
  schedule.symbols = values.symbols;
  schedule.code = units.code;
  if (Result<void> result = checkExtents(); !result)
    return result.error();
  for (const std::vector<Unit> *list : {&units.bindTime, &units.runTime}) {
    binding = list == &units.bindTime;
    for (const Unit &unit : *list) {
      if (Result<void> result = std::visit([&](const auto &work) { return addSteps(*this, unit, work); }, unit.work);
          !result)
        return result.error();
      ++unitNumber;
    }
  }
  copyOutputs();
  if (Result<void> result = checkWritten(); !result)
    return result.error();
  if (Result<void> result = makePrimitives(); !result)
    return result.error();
  return std::move(schedule);
}

Result<Schedule> makeSchedule(const Units &units, Values values) {
  return StepBuilder(units, std::move(values)).build();
}

} // namespace mortise::cpu
