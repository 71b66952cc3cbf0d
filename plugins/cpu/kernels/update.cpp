// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// put with mode "set": in place where the region says so (a KV cache) or where nobody reads the old contents again.
#include "../emitter.hpp"

#include <mortise/plugin.hpp>

#include <algorithm>

namespace mortise::cpu {

namespace {
struct Update {
  size_t size = 0; // bytes of an element
  int64_t extent = 0, count = 0, outer = 0, inner = 0, indexStride = 0, axisStride = 0;
  bool wide = false;                               // i64 indices, else i32
  bool rows = false;                               // the inner elements of updates are contiguous
  std::vector<int64_t> outerOffsets, innerOffsets; // in updates, elements
};
} // namespace

static void listOffsets(const FixedView &view, size_t from, size_t to, std::vector<int64_t> &offsets) {
  offsets = {0};
  for (size_t d = from; d < to; ++d) {
    std::vector<int64_t> next;
    for (int64_t offset : offsets)
      for (int64_t i = 0; i < view.dims[d]; ++i)
        next.push_back(offset + i * view.strides[d]);
    offsets = std::move(next);
  }
}

// operands: indices, updates, the memory updated.
static void runUpdate(const Update &update, void *const *operands) {
  const auto *updates = static_cast<const char *>(operands[1]);
  auto *target = static_cast<char *>(operands[2]);
  parallelFor(update.outer, std::max<int64_t>(1, 65536 / (update.count * update.inner + 1)),
              [&](int64_t begin, int64_t end) {
                for (int64_t o = begin; o < end; ++o)
                  for (int64_t j = 0; j < update.count; ++j) {
                    int64_t index = update.wide ? static_cast<const int64_t *>(operands[0])[j * update.indexStride]
                                                : static_cast<const int32_t *>(operands[0])[j * update.indexStride];
                    index += index < 0 ? update.extent : 0;
                    if (index < 0 || index >= update.extent)
                      continue; // writes out of range are dropped
                    const char *from =
                        updates + (update.outerOffsets[o] + j * update.axisStride) * static_cast<int64_t>(update.size);
                    char *to = target + (o * update.extent + index) * update.inner * static_cast<int64_t>(update.size);
                    if (update.rows) {
                      std::memcpy(to, from, static_cast<size_t>(update.inner) * update.size);
                      continue;
                    }
                    for (int64_t i = 0; i < update.inner; ++i)
                      std::memcpy(to + i * static_cast<int64_t>(update.size),
                                  from + update.innerOffsets[i] * static_cast<int64_t>(update.size), update.size);
                  }
              });
}

// The region writes `result`, or what further updates make of it, to the memory of `input`.
static bool endsIn(const Scheduler &scheduler, uint32_t result, uint32_t input) {
  while (!scheduler.overwrites(result, input)) {
    const MortiseNode *user = scheduler.soleUser(result);
    if (!user || !isOp(*user, "mortise.put") || user->operands[0]->index != result || !scheduler.isTaken(*user))
      return false;
    result = user->results[0]->index;
  }
  return true;
}

// The old contents of `input` are an output as well.
static bool copiedToOthers(Emitter &emitter, uint32_t input, uint32_t result) {
  for (size_t i = 0; i < emitter.graph.output_count; ++i)
    if (uint32_t output = emitter.graph.outputs[i]->index; output != result && emitter.viewOf(output).base == input)
      return true;
  return false;
}

static Update readUpdate(Emitter &emitter, const MortiseNode &node) {
  size_t axis = static_cast<size_t>(intAttribute(node, "axis"));
  const FixedView &indices = emitter.viewOf(node.operands[1]->index),
                  &updates = emitter.viewOf(node.operands[2]->index);
  Update update;
  update.size = dtypeBits(node.operands[0]->type->dtype) / 8;
  update.extent = emitter.extents(node.operands[0]->index)[axis];
  update.count = updates.dims[axis];
  update.axisStride = updates.strides[axis];
  update.wide = node.operands[1]->type->dtype == MORTISE_I64;
  update.indexStride = indices.strides.empty() ? 0 : indices.strides[0];
  listOffsets(updates, 0, axis, update.outerOffsets);
  listOffsets(updates, axis + 1, updates.dims.size(), update.innerOffsets);
  update.outer = static_cast<int64_t>(update.outerOffsets.size());
  update.inner = static_cast<int64_t>(update.innerOffsets.size());
  update.rows = true;
  for (int64_t k = 0; k < update.inner; ++k)
    update.rows &= update.innerOffsets[k] == k;
  return update;
}

static Result<void> emitUpdate(Emitter &emitter, const MortiseNode &node, const Unit &unit) {
  const FixedView &view = emitter.viewOf(node.operands[0]->index), &indices = emitter.viewOf(node.operands[1]->index),
                  &updates = emitter.viewOf(node.operands[2]->index);
  uint32_t base = view.base, result = node.results[0]->index;
  size_t bytes = emitter.bytes(result);
  bool whole = isDense(view) && emitter.elements(base) == emitter.elements(result);
  Operand old = emitter.read(base, view.offset);
  bool input = !emitter.value(base).producer;
  bool inPlace = whole && updates.base != base && indices.base != base;
  if (input)
    inPlace = inPlace && endsIn(emitter.plan, result, base) && !emitter.hasOutputMemory(result) &&
              !emitter.readLater(base, unit) && !copiedToOthers(emitter, base, result);
  else
    inPlace =
        inPlace && emitter.diesAt(base, unit) && emitter.memoryOf(base).offset == 0 && !emitter.hasOutputMemory(result);
  Operand target;
  if (inPlace) {
    emitter.memoryOf(result).dense = old.buffer;
    target = {old.buffer, 0, true};
  } else {
    target = emitter.write(result);
    emitter.addCopy("copy before put " + emitter.typeText(result), old, target, bytes);
  }
  Update update = readUpdate(emitter, node);
  if (update.outer * update.count * update.inner == 0)
    return {};
  Step step;
  step.name = "put " + emitter.typeText(node.operands[2]->index) + (inPlace ? " in place" : "");
  step.lowering = "cpu.put";
  step.nodes = {node.index};
  step.bytes = 2.0 * static_cast<double>(emitter.bytes(node.operands[2]->index));
  step.operands = {emitter.read(indices.base, indices.offset), emitter.read(updates.base, updates.offset), target};
  step.native = [update = std::move(update)](void *const *operands) { runUpdate(update, operands); };
  emitter.addStep(std::move(step));
  return {};
}

Result<void> claimUpdates(Scheduler &scheduler) {
  for (size_t i = 0; i < scheduler.graph.node_count; ++i) {
    const MortiseNode &node = *scheduler.graph.nodes[i];
    if (!isOp(node, "mortise.put") || stringAttribute(node, "mode") != "set" || scheduler.isTaken(node))
      continue;
    const View &old = scheduler.viewOf(node.operands[0]->index);
    if (!isDense(old) || dtypeBits(node.operands[0]->type->dtype) < 8)
      continue; // a group reads it through its view
    scheduler.take(node);
    Unit unit;
    unit.nodes = {node.index};
    unit.reads = {old.base, scheduler.viewOf(node.operands[1]->index).base,
                  scheduler.viewOf(node.operands[2]->index).base};
    unit.writes = {node.results[0]->index};
    unit.late = true;
    unit.emit = [&node](Emitter &emitter, const Unit &self) { return emitUpdate(emitter, node, self); };
    scheduler.addUnit(std::move(unit));
  }
  return {};
}

} // namespace mortise::cpu
