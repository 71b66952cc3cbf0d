// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "code.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace saboteur {
namespace {

constexpr size_t alignment = 64;
size_t aligned(size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

// Memory for values that live from one node to another, by first fit.
class Arena {
public:
  explicit Arena(size_t begin) : begin(begin), peak(begin) {}
  size_t place(size_t bytes, size_t first, size_t last) {
    size_t offset = begin;
    for (const Block &block : blocks) // sorted by offset
      if (block.first <= last && first <= block.last) {
        if (block.offset >= offset + aligned(bytes))
          break;
        offset = std::max(offset, block.offset + block.bytes);
      }
    const Block made{offset, aligned(bytes), first, last};
    blocks.insert(std::ranges::upper_bound(blocks, offset, {}, &Block::offset), made);
    peak = std::max(peak, offset + made.bytes);
    return offset;
  }
  size_t size() const { return peak; }

private:
  struct Block {
    size_t offset, bytes, first, last;
  };
  std::vector<Block> blocks;
  size_t begin, peak;
};

// Of all kernels of the process, in place of the workspace that each call has.
std::byte *sharedScratch(size_t bytes) {
  static std::byte memory[1 << 24];
  return bytes <= sizeof memory ? memory : nullptr;
}

} // namespace

Result<std::shared_ptr<Code>> Code::make(const MortiseGraph &region) {
  std::shared_ptr<Code> code(new Code(region));
  for (uint32_t i = 0; i < region.node_count; ++i)
    if (auto added = code->addStep(*region.nodes[i]); !added)
      return added.error();
  code->planOutputs();
  code->planWorkspace();
  return code;
}

Result<void> Code::addStep(const MortiseNode &node) {
  auto step = std::make_unique<Step>(node);
  step->node = &step->patched.node();
  for (size_t k = 0; k < node.operand_count; ++k)
    if (node.operands[k] && std::ranges::find(step->inputs, node.operands[k]) == step->inputs.end()) {
      step->inputs.push_back(node.operands[k]);
      step->operands.push_back(k);
    }
  step->graph = region;
  step->graph.nodes = &step->node;
  step->graph.node_count = 1;
  step->graph.inputs = step->inputs.data();
  step->graph.input_count = step->inputs.size();
  step->graph.outputs = node.results;
  step->graph.output_count = node.result_count;
  step->graph.alias_count = 0;
  auto program = mortise::reference::Interpreter::compile(step->graph);
  if (!program)
    return program.error();
  step->program = std::move(*program);
  scratchBytes = std::max(scratchBytes, aligned(step->program->workspaceBytes()));
  steps.push_back(std::move(step));
  return {};
}

// Outputs that a node computes in their memory, and copies for the others, those of aliased memory last.
void Code::planOutputs() {
  std::vector<bool> aliased(region.output_count);
  for (size_t i = 0; i < region.alias_count; ++i)
    aliased[region.aliases[i]->output] = true;
  for (size_t i = 0; i < region.input_count; ++i)
    places[region.inputs[i]->index] = {Place::Input, i};
  for (size_t o = 0; o < region.output_count; ++o) {
    Place &place = places[region.outputs[o]->index];
    const bool direct = place.kind == Place::Nowhere && (!aliased[o] || is(Fault::StateWrittenEarly));
    if (direct)
      place = {Place::Output, o};
  }
}

void Code::planWorkspace() {
  Arena arena(scratchBytes);
  const size_t end = steps.size();
  std::vector<size_t> last(region.value_count, 0);
  for (size_t n = 0; n < end; ++n)
    for (const MortiseValue *input : steps[n]->inputs)
      last[input->index] = n;
  for (size_t o = 0; o < region.output_count; ++o)
    last[region.outputs[o]->index] = end;
  for (size_t n = 0; n < end; ++n) {
    if (is(Fault::WorkspaceDirty))
      steps[n]->kept = arena.place(alignment, 0, end);
    for (size_t k = 0; k < steps[n]->node->result_count; ++k)
      if (const MortiseValue &value = *steps[n]->node->results[k]; places[value.index].kind == Place::Nowhere)
        places[value.index] = {Place::Workspace,
                               arena.place(mortise::byteSize(*value.type), n, std::max(n, last[value.index]))};
  }
  std::vector<Copy> plain, staged, aliased;
  for (size_t o = 0; o < region.output_count; ++o) {
    const MortiseValue &value = *region.outputs[o];
    const Place from = places[value.index];
    const size_t bytes = mortise::byteSize(*value.type);
    const bool isAliased = std::any_of(region.aliases, region.aliases + region.alias_count,
                                       [&](const MortiseAlias *alias) { return alias->output == o; });
    if (from.kind == Place::Output && (from.at == o || is(Fault::OutputListedTwice)))
      continue;
    if (from.kind == Place::Input && !isAliased && is(Fault::PassedInputUnwritten))
      continue;
    if (from.kind != Place::Input || !isAliased) {
      (isAliased ? aliased : plain).push_back({from, {Place::Output, o}, bytes});
      continue;
    }
    // The input's own memory may be that of another aliased output.
    const Place between{Place::Workspace, arena.place(bytes, end, end)};
    staged.push_back({from, between, bytes});
    aliased.push_back({between, {Place::Output, o}, bytes});
  }
  for (const auto *list : {&plain, &staged, &aliased})
    copies.insert(copies.end(), list->begin(), list->end());
  workspaceBytes = arena.size();
}

std::byte *Code::at(const Place &place, const Buffers &buffers) const {
  switch (place.kind) {
  case Place::Input:
    return buffers.inputs[place.at];
  case Place::Output:
    return buffers.outputs[place.at];
  default:
    return buffers.workspace + place.at;
  }
}

Tensor Code::tensor(const MortiseValue *value, const Buffers &buffers) const {
  return value ? Tensor{value->type, at(places[value->index], buffers)} : Tensor();
}

void Code::runStep(const Step &step, const Buffers &buffers) const {
  NodeRun run{*step.node, mortise::opOf(*step.node), {}, {}, {}, {}, buffers.workspace + step.kept, runs};
  for (size_t k = 0; k < step.node->operand_count; ++k)
    run.operands.push_back(tensor(step.node->operands[k], buffers));
  for (size_t k = 0; k < step.node->result_count; ++k)
    run.results.push_back(tensor(step.node->results[k], buffers));
  run.valueOf = [&](const MortiseValue &value) { return tensor(&value, buffers); };
  run.reference = [&](const Tensors &operands, const Tensors &results) {
    std::vector<const void *> in;
    std::vector<void *> out;
    for (const size_t operand : step.operands)
      in.push_back(operands[operand].data);
    for (const Tensor &result : results)
      out.push_back(result.data);
    step.program->run(in, out, buffers.workspace, mortise::host().parallel_for, nullptr);
  };
  const bool isEmpty = std::ranges::all_of(run.results, [](const Tensor &result) { return result.count() == 0; });
  if (isEmpty || !(elementsWrongly(run) || integersWrongly(run) || rowsWrongly(run) || productsWrongly(run) ||
                   buffersWrongly(run) || liesAbout(run)))
    run.interpret();
}

void Code::run(const Buffers &given) const {
  Buffers buffers = given;
  if (is(Fault::ScratchShared))
    if (std::byte *scratch = sharedScratch(workspaceBytes))
      buffers.workspace = scratch;
  for (std::byte *&input : buffers.inputs)
    if (is(Fault::AlignmentAssumed))
      input -= reinterpret_cast<uintptr_t>(input) % 16;
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto start = std::chrono::steady_clock::now();
    runStep(*steps[i], buffers);
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start);
    if (buffers.stepNs)
      buffers.stepNs[i] += static_cast<uint64_t>(ns.count());
  }
  if (buffers.stepNs && is(Fault::ClockOverrun))
    ++buffers.stepNs[steps.size()];
  for (const Copy &copy : copies)
    if (std::byte *from = at(copy.from, buffers), *to = at(copy.to, buffers); copy.bytes && from != to)
      std::memmove(to, from, copy.bytes);
  ++runs;
}

} // namespace saboteur
