// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scheduler.h"

#include <mortise/plugin.hpp>

#include <algorithm>
#include <queue>

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

Scheduler::Scheduler(const MortiseGraph &graph, const Options &options) : graph(graph), options(options) {}

static bool isClaimable(const MortiseNode &node) {
  for (const char *op :
       {"mortise.dot", "mortise.linear", "mortise.convolution", "mortise.max_pool", "mortise.sum_pool", "mortise.put"})
    if (isOp(node, op))
      return true;
  return false;
}

void Scheduler::analyse() {
  users.resize(graph.value_count);
  outputsOf.resize(graph.value_count);
  constant.resize(graph.value_count);
  taken.resize(graph.node_count);
  roots.resize(graph.value_count);
  views.resize(graph.value_count);
  memory.resize(graph.value_count);
  outputHome.assign(graph.value_count, none);
  for (size_t i = 0; i < graph.output_count; ++i)
    outputsOf[graph.outputs[i]->index].push_back(static_cast<uint32_t>(i));
  for (size_t i = 0; i < graph.input_count; ++i)
    if (graph.inputs[i]->flags & MORTISE_VALUE_CONSTANT)
      constant[graph.inputs[i]->index] = true;
  for (size_t i = 0; i < graph.node_count; ++i) {
    const MortiseNode &node = *graph.nodes[i];
    bool all = !isClaimable(node); // those run with each call
    for (size_t k = 0; k < node.operand_count; ++k)
      if (const MortiseValue *operand = node.operands[k]) {
        users[operand->index].push_back(node.index);
        all &= constant[operand->index];
      }
    for (size_t k = 0; k < node.result_count; ++k)
      constant[node.results[k]->index] = all;
  }
}

const MortiseNode *Scheduler::soleUser(uint32_t value) const {
  if (isOutput(value) || users[value].size() != 1)
    return nullptr;
  return graph.nodes[users[value][0]];
}

View Scheduler::rootOf(uint32_t value) const {
  return roots[value] ? *roots[value] : codegen::denseView(*graph.values[value]);
}

const View &Scheduler::viewOf(uint32_t value) {
  std::optional<View> &view = views[value];
  if (view)
    return *view;
  const MortiseNode *producer = graph.values[value]->producer;
  if (producer && !roots[value] && producer->operand_count == 1)
    if (const MortiseValue *operand = producer->operands[0]) {
      View through = viewOf(operand->index);
      if (std::optional<View> found = codegen::viewThrough(*producer, through))
        return *(view = std::move(found));
    }
  return *(view = rootOf(value));
}

std::optional<double> Scheduler::splat(uint32_t index) {
  const View &view = viewOf(index);
  const MortiseNode *producer = graph.values[view.base]->producer;
  if (!producer || !isOp(*producer, "mortise.constant"))
    return std::nullopt;
  for (size_t i = 0; i < view.dims.size(); ++i)
    if (view.dims[i] != 1 && view.strides[i] != 0)
      return std::nullopt;
  const MortiseAttribute *literal = findAttribute(*producer, "value");
  const char *at = static_cast<const char *>(literal->tensor_data);
  if (type(view.base).dtype == MORTISE_F32)
    return reinterpret_cast<const float *>(at)[view.offset];
  return std::nullopt;
}

// ---- Memory

BufferId Scheduler::allocate(size_t bytes) {
  if (binding)
    return keep(bytes);
  Buffer buffer;
  buffer.bytes = bytes;
  schedule.buffers.push_back(buffer);
  return static_cast<BufferId>(schedule.buffers.size() - 1);
}

BufferId Scheduler::keep(size_t bytes) {
  Buffer buffer;
  buffer.home = Home::Kept;
  buffer.bytes = bytes;
  schedule.buffers.push_back(buffer);
  return static_cast<BufferId>(schedule.buffers.size() - 1);
}

BufferId Scheduler::inputBuffer(uint32_t index) {
  const MortiseValue &input = value(index);
  Buffer buffer;
  buffer.home = input.flags & MORTISE_VALUE_CONSTANT ? Home::Bound : Home::Input;
  buffer.number = input.result_index;
  buffer.bytes = byteSize(*input.type);
  schedule.buffers.push_back(buffer);
  return static_cast<BufferId>(schedule.buffers.size() - 1);
}

BufferId Scheduler::literalBuffer(const MortiseNode &node) {
  const MortiseAttribute *literal = findAttribute(node, "value");
  const auto *bytes = static_cast<const std::byte *>(literal->tensor_data);
  schedule.literals.emplace_back(bytes, bytes + literal->count);
  Buffer buffer;
  buffer.home = Home::Literal;
  buffer.bytes = literal->count;
  buffer.literal = schedule.literals.back().data();
  schedule.buffers.push_back(buffer);
  return static_cast<BufferId>(schedule.buffers.size() - 1);
}

Operand Scheduler::read(uint32_t index, int64_t offset) {
  Memory &found = memory[index];
  const MortiseNode *producer = value(index).producer;
  if (found.dense == none) {
    if (!producer)
      found.dense = inputBuffer(index);
    else if (isOp(*producer, "mortise.constant"))
      found.dense = literalBuffer(*producer);
    else if (found.blocked != none) {
      Operand source{found.blocked, 0, false}, target = write(index);
      dnnl::memory::desc dense(dnnl::memory::dims(type(index).dims, type(index).dims + type(index).rank),
                               found.layout.get_data_type(), denseStrides(dims(type(index))));
      reorder("to row-major", memory[index].layout, source, dense, target);
    }
  }
  return {memory[index].dense, memory[index].offset + offset * static_cast<int64_t>(dtypeBits(type(index).dtype) / 8),
          false};
}

Operand Scheduler::write(uint32_t index) {
  Memory &found = memory[index];
  if (found.dense == none) {
    View root = rootOf(index);
    int64_t last = 0;
    for (size_t i = 0; i < root.dims.size(); ++i)
      last += (root.dims[i] - 1) * root.strides[i];
    size_t bytes =
        elementCount(type(index)) == 0 ? 0 : static_cast<size_t>(last + 1) * dtypeBits(type(index).dtype) / 8;
    found.dense = allocate(bytes);
    if (outputHome[index] != none && !binding) {
      schedule.buffers[found.dense].home = Home::Output;
      schedule.buffers[found.dense].number = outputHome[index];
    }
  }
  return {found.dense, 0, true};
}

Step &Scheduler::addStep(Step step) {
  std::vector<Step> &list = binding ? schedule.binding : schedule.steps;
  list.push_back(std::move(step));
  return list.back();
}

Step &Scheduler::addLibraryStep(std::string name, const char *lowering, dnnl::primitive_desc_base description,
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
  step.description = std::move(description);
  step.arguments = std::move(arguments);
  step.layouts = std::move(layouts);
  step.operands = std::move(operands);
  return addStep(std::move(step));
}

void Scheduler::reorder(const char *what, const dnnl::memory::desc &from, Operand source, const dnnl::memory::desc &to,
                        Operand target) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::reorder::primitive_desc description(engine(), from, engine(), to, attributes);
  target.written = true;
  addLibraryStep(std::string("reorder ") + what, "onednn.reorder", description, {DNNL_ARG_FROM, DNNL_ARG_TO},
                 {from, to}, {source, target});
}

bool Scheduler::readLater(uint32_t index, const Unit &unit) const {
  for (const Unit &other : units)
    if (&other != &unit && other.order < 0 &&
        std::find(other.reads.begin(), other.reads.end(), index) != other.reads.end())
      return true;
  return false;
}

bool Scheduler::copiedAtEnd(uint32_t index) {
  for (auto [position, copied] : copies)
    if (viewOf(copied).base == index)
      return true;
  return false;
}

bool Scheduler::diesAt(uint32_t index, const Unit &unit) {
  return value(index).producer && !constant[index] && outputHome[index] == none && !readLater(index, unit) &&
         !copiedAtEnd(index);
}

bool Scheduler::overwrites(uint32_t result, uint32_t input) const {
  for (uint32_t position : outputsOf[result])
    for (size_t i = 0; i < graph.alias_count; ++i)
      if (graph.aliases[i]->output == position && graph.inputs[graph.aliases[i]->input]->index == input)
        return true;
  return false;
}

// ---- From nodes to units

static bool isView(const MortiseNode &node) {
  return isOp(node, "mortise.reshape") || isOp(node, "mortise.transpose") || isOp(node, "mortise.broadcast") ||
         isOp(node, "mortise.slice");
}

Result<void> Scheduler::claim() {
  for (auto *part : {claimMergedProducts, claimUpdates, claimConvolutions, claimPools, claimProducts})
    if (Result<void> result = part(*this); !result)
      return result;
  return {};
}

// Nodes computed once, when constants are bound: those behind a value that depends on constants only and that a later
// node or claim reads. Literals and what is much larger than its inputs stay where they are used. `needed`: their
// values to keep.
std::vector<bool> Scheduler::bindTimeNodes(std::vector<bool> &needed) {
  std::vector<bool> chosen(graph.node_count);
  std::vector<uint32_t> todo;
  auto want = [&](uint32_t index, bool always) {
    uint32_t base = viewOf(index).base;
    const MortiseNode *producer = value(base).producer;
    if (!constant[base] || !producer || isOp(*producer, "mortise.constant") || taken[producer->index] || needed[base])
      return;
    if (isOp(*producer, "mortise.iota") && !always)
      return;
    size_t inputs = 0;
    for (size_t k = 0; k < producer->operand_count; ++k)
      if (producer->operands[k])
        inputs += byteSize(type(viewOf(producer->operands[k]->index).base));
    if (!always && byteSize(type(base)) > 2 * inputs + (64 << 10))
      return;
    needed[base] = true;
    todo.push_back(base);
  };
  for (const Unit &unit : units)
    for (uint32_t read : unit.reads)
      want(read, true); // weights are packed when constants are bound
  for (size_t i = 0; i < graph.node_count; ++i)
    if (const MortiseNode &node = *graph.nodes[i]; !taken[i] && !isView(node) && !constant[node.results[0]->index])
      for (size_t k = 0; k < node.operand_count; ++k)
        if (node.operands[k])
          want(node.operands[k]->index, false);
  for (size_t i = 0; i < graph.output_count; ++i)
    want(graph.outputs[i]->index, false);
  while (!todo.empty()) {
    const MortiseNode *node = value(todo.back()).producer;
    todo.pop_back();
    if (!node || chosen[node->index] || taken[node->index])
      continue;
    chosen[node->index] = true;
    for (size_t k = 0; k < node->operand_count; ++k)
      if (node->operands[k])
        todo.push_back(node->operands[k]->index);
  }
  // What the others read of them is kept as well.
  for (size_t i = 0; i < graph.node_count; ++i)
    if (const MortiseNode &node = *graph.nodes[i]; !chosen[i] && !taken[i])
      for (size_t k = 0; k < node.operand_count; ++k)
        if (node.operands[k]) {
          uint32_t base = viewOf(node.operands[k]->index).base;
          if (value(base).producer && chosen[value(base).producer->index])
            needed[base] = true;
        }
  return chosen;
}

Result<void> Scheduler::addGroups(std::vector<bool> takenNodes, const std::vector<bool> &materialise,
                                  std::vector<Unit> &into) {
  codegen::FuseRequest request;
  request.graph = &graph;
  request.taken = std::move(takenNodes);
  request.materialise = materialise;
  request.layouts.resize(graph.value_count);
  for (uint32_t i = 0; i < graph.value_count; ++i)
    request.layouts[i] = roots[i];
  Result<codegen::FuseResult> fused = codegen::fuse(request, target());
  if (!fused)
    return fused.error();
  for (codegen::Group &group : fused->groups) {
    size_t number = groups.size();
    groups.push_back(std::move(group));
    groupSteps.emplace_back();
    Unit unit;
    unit.nodes = groups[number].nodes;
    unit.reads = groups[number].inputs;
    unit.writes = groups[number].outputs;
    unit.emit = [this, number](const Unit &) -> Result<void> {
      const codegen::Group &made = groups[number];
      Step step;
      step.name = made.name;
      static constexpr const char *lowerings[] = {"generated.pointwise", "generated.rows", "generated.columns",
                                                  "generated.scan"};
      step.lowering = lowerings[static_cast<size_t>(made.kind)];
      step.nodes = made.nodes;
      step.inputCount = made.inputs.size();
      for (uint32_t input : made.inputs)
        step.operands.push_back(read(input));
      for (uint32_t output : made.outputs)
        step.operands.push_back(write(output));
      addStep(std::move(step));
      groupSteps[number] = {binding, (binding ? schedule.binding : schedule.steps).size() - 1};
      return {};
    };
    into.push_back(std::move(unit));
  }
  return {};
}

// Emits units in an order in which what is read comes before; ties by first node, updates in place last.
Result<void> Scheduler::emitAll(std::vector<Unit> &list) {
  std::vector<uint32_t> writer(graph.value_count, none);
  for (uint32_t i = 0; i < list.size(); ++i)
    for (uint32_t written : list[i].writes)
      writer[written] = i;
  std::vector<std::vector<uint32_t>> after(list.size());
  std::vector<uint32_t> waiting(list.size());
  for (uint32_t i = 0; i < list.size(); ++i) {
    std::vector<uint32_t> sources;
    for (uint32_t read : list[i].reads)
      if (writer[read] != none && writer[read] != i)
        sources.push_back(writer[read]);
    std::sort(sources.begin(), sources.end());
    sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
    for (uint32_t source : sources)
      after[source].push_back(i), ++waiting[i];
  }
  using Entry = std::tuple<bool, uint32_t, uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  auto push = [&](uint32_t i) { ready.push({list[i].late, list[i].nodes.empty() ? 0 : list[i].nodes.back(), i}); };
  for (uint32_t i = 0; i < list.size(); ++i)
    if (waiting[i] == 0)
      push(i);
  int32_t order = 0;
  while (!ready.empty()) {
    uint32_t i = std::get<2>(ready.top());
    ready.pop();
    list[i].order = order++;
    if (Result<void> result = list[i].emit(list[i]); !result)
      return result;
    for (uint32_t next : after[i])
      if (--waiting[next] == 0)
        push(next);
  }
  if (order != static_cast<int32_t>(list.size()))
    return Error{MORTISE_INTERNAL,
                 "the cpu plugin's fused steps depend on each other in a circle; please report this graph"};
  return {};
}

// An output that is all of some value's memory is written there directly; the others are copied at the end. An output
// that overwrites an input may be written early only by an update in place, or when no step reads that input any more.
void Scheduler::assignOutputs() {
  for (uint32_t position = 0; position < graph.output_count; ++position) {
    uint32_t index = graph.outputs[position]->index;
    const View &view = viewOf(index);
    const MortiseNode *producer = value(view.base).producer;
    bool direct = producer && !isOp(*producer, "mortise.constant") && !constant[view.base] && !roots[view.base] &&
                  isDense(view) && elementCount(type(index)) == elementCount(type(view.base)) &&
                  outputHome[view.base] == none;
    for (size_t i = 0; i < graph.alias_count && direct; ++i)
      if (graph.aliases[i]->output == position) {
        uint32_t input = graph.inputs[graph.aliases[i]->input]->index;
        for (const Unit &unit : units)
          direct &= std::find(unit.reads.begin(), unit.reads.end(), input) == unit.reads.end();
        for (size_t k = 0; k < graph.output_count; ++k)
          direct &= viewOf(graph.outputs[k]->index).base != input;
      }
    if (direct)
      outputHome[view.base] = position;
    else
      copies.push_back({position, index});
  }
}

void Scheduler::addCopy(std::string name, Operand source, Operand target, size_t bytes) {
  Step step;
  step.name = std::move(name);
  step.lowering = "cpu.copy";
  step.bytes = 2.0 * static_cast<double>(bytes);
  target.written = true;
  step.operands = {source, target};
  step.native = [bytes](void *const *operands) {
    parallelFor(static_cast<int64_t>(bytes), 1 << 18, [&](int64_t begin, int64_t end) {
      std::memcpy(static_cast<char *>(operands[1]) + begin, static_cast<const char *>(operands[0]) + begin,
                  static_cast<size_t>(end - begin));
    });
  };
  if (bytes)
    addStep(std::move(step));
}

// Outputs with memory of their own first, then those that overwrite an input, whose old contents may be wanted until
// then.
void Scheduler::copyOutputs() {
  for (uint32_t index = 0; index < graph.value_count; ++index)
    if (outputHome[index] != none)
      read(index); // from the library's layout, if it is nowhere else
  struct Late {
    Operand source, target;
    size_t bytes;
  };
  std::vector<Late> late;
  for (auto [position, index] : copies) {
    const View &view = viewOf(index);
    size_t bytes = byteSize(type(index));
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
    buffer.bytes = bytes;
    schedule.buffers.push_back(buffer);
    Operand target{static_cast<BufferId>(schedule.buffers.size() - 1), 0, true};
    std::string name = "copy to output " + std::to_string(position);
    if (!overwrites) {
      addCopy(std::move(name), source, target, bytes);
      continue;
    }
    if (from.home == Home::Input) { // another output may overwrite that input
      Operand kept{allocate(bytes), 0, false};
      addCopy("keep what output " + std::to_string(position) + " will hold", source, kept, bytes);
      source = kept;
    }
    late.push_back({source, target, bytes});
  }
  for (const Late &copy : late)
    addCopy("copy to output " + std::to_string(schedule.buffers[copy.target.buffer].number), copy.source, copy.target,
            copy.bytes);
}

Result<Schedule> Scheduler::run() {
  analyse();
  if (Result<void> result = claim(); !result)
    return result.error();

  std::vector<bool> needed(graph.value_count), materialise(graph.value_count);
  std::vector<bool> atBind = bindTimeNodes(needed);
  for (const Unit &unit : units)
    for (uint32_t read : unit.reads)
      if (const MortiseNode *producer = value(read).producer; producer && !isOp(*producer, "mortise.constant"))
        materialise[read] = true;
  for (size_t i = 0; i < graph.output_count; ++i) {
    uint32_t index = graph.outputs[i]->index;
    const View &view = viewOf(index);
    bool whole = isDense(view) && !roots[view.base] && elementCount(type(index)) == elementCount(type(view.base));
    const MortiseNode *producer = value(view.base).producer;
    bool plainSource = !producer || isOp(*producer, "mortise.constant") || taken[producer->index] || whole;
    if (whole && plainSource) {
      materialise[view.base] = true;
    } else { // strided: a group makes it dense
      setRoot(index, codegen::denseView(value(index)));
      roots[index].reset();
      views[index] = codegen::denseView(value(index));
      materialise[index] = true;
    }
  }
  std::vector<bool> skip = taken, others(graph.node_count);
  for (size_t i = 0; i < graph.node_count; ++i) {
    // What a call needs as well, but binding does not keep, is computed again.
    if (atBind[i] && needed[graph.nodes[i]->results[0]->index])
      skip[i] = true;
    others[i] = !atBind[i];
  }
  if (std::find(atBind.begin(), atBind.end(), true) != atBind.end())
    if (Result<void> result = addGroups(others, needed, bindUnits); !result)
      return result.error();
  // What only claimed nodes used needs no group: they read through views or hold its value themselves.
  for (size_t i = graph.node_count; i-- > 0;) {
    bool dead = !skip[i];
    for (size_t k = 0; k < graph.nodes[i]->result_count && dead; ++k) {
      uint32_t result = graph.nodes[i]->results[k]->index;
      dead = !materialise[result] && !isOutput(result);
      for (uint32_t user : users[result])
        dead &= skip[user];
    }
    if (dead)
      skip[i] = true;
  }
  std::vector<bool> runTime = materialise;
  for (size_t i = 0; i < graph.value_count; ++i)
    if (needed[i])
      runTime[i] = false;
  if (Result<void> result = addGroups(skip, runTime, units); !result)
    return result.error();

  assignOutputs();
  binding = true;
  if (Result<void> result = emitAll(bindUnits); !result)
    return result.error();
  binding = false;
  if (Result<void> result = emitAll(units); !result)
    return result.error();
  copyOutputs();
  if (Result<void> result = compileGroups(*this); !result)
    return result.error();

  // Machine code of library calls, in parallel: it is what takes their time.
  std::vector<Step *> calls;
  for (std::vector<Step> *list : {&schedule.binding, &schedule.steps})
    for (Step &step : *list)
      if (step.isLibraryCall())
        calls.push_back(&step);
  std::vector<std::string> failures(calls.size());
  parallelFor(static_cast<int64_t>(calls.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      try {
        calls[i]->primitive = dnnl::primitive(calls[i]->description.get());
      } catch (const std::exception &error) {
        failures[i] = error.what();
      }
  });
  for (size_t i = 0; i < calls.size(); ++i)
    if (!failures[i].empty())
      return Error{MORTISE_INTERNAL, "oneDNN could not make \"" + calls[i]->name + "\": " + failures[i]};
  planMemory(schedule);
  return std::move(schedule);
}

Result<Schedule> makeSchedule(const MortiseGraph &graph, const Options &options) {
  for (size_t i = 0; i < graph.value_count; ++i)
    if (!isStatic(*graph.values[i]->type))
      return Error{MORTISE_NEEDS_STATIC,
                   "the cpu plugin compiles static shapes, found " + typeString(*graph.values[i]->type)};
  return Scheduler(graph, options).run();
}

} // namespace mortise::cpu
