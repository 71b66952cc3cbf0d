// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// put: in place where the region says so (a KV cache) or where nobody reads the old contents again. Mode "add" in f16
// and bf16 alone, whose sums need more bits than the element has; generated loops add in wider types.
#include "../claims.hpp"
#include "../device.hpp"
#include "../step_builder.hpp"

#include <mortise/plugin.hpp>

#include "narrow.hpp"
#include "offsets.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace mortise::cpu {

namespace {
struct UpdateLoop {
  size_t size = 0; // bytes of an element
  int64_t extent = 0, count = 0, outer = 0, inner = 0, indexStride = 0, axisStride = 0;
  int64_t threads = 1;                // of the process when memory was given to the loop
  bool wide = false;                  // i64 indices, else i32
  Offsets outerOffsets, innerOffsets; // in updates, elements

  // Negative indices count from the end. What is out of range then is dropped.
  int64_t indexOf(const void *indices, int64_t j) const {
    const int64_t index = wide ? static_cast<const int64_t *>(indices)[j * indexStride]
                               : static_cast<const int32_t *>(indices)[j * indexStride];
    return index < 0 ? index + extent : index;
  }
  bool isInRange(int64_t index) const { return index >= 0 && index < extent; }
};
} // namespace

// operands: indices, updates, the memory updated.
static void runUpdate(const UpdateLoop &update, void *const *operands) {
  const auto *updates = static_cast<const char *>(operands[1]);
  auto *target = static_cast<char *>(operands[2]);
  parallelFor(update.outer, std::max<int64_t>(1, 65536 / (update.count * update.inner + 1)),
              [&](int64_t begin, int64_t end) {
                for (int64_t o = begin; o < end; ++o) {
                  const int64_t row = update.outerOffsets[o];
                  for (int64_t j = 0; j < update.count; ++j) {
                    const int64_t index = update.indexOf(operands[0], j);
                    if (!update.isInRange(index))
                      continue;
                    const char *from = updates + (row + j * update.axisStride) * static_cast<int64_t>(update.size);
                    char *to = target + (o * update.extent + index) * update.inner * static_cast<int64_t>(update.size);
                    if (update.innerOffsets.areContiguous()) {
                      std::memcpy(to, from, static_cast<size_t>(update.inner) * update.size);
                      continue;
                    }
                    for (int64_t i = 0; i < update.inner; ++i)
                      std::memcpy(to + i * static_cast<int64_t>(update.size),
                                  from + update.innerOffsets[i] * static_cast<int64_t>(update.size), update.size);
                  }
                }
              });
}

// Neighbouring indices whose sums are made together, by one thread: a power of two of them, which spares divisions.
struct Buckets {
  static constexpr int64_t width = 4096; // elements at a time
  int shift;
  int64_t count;
  int64_t parts; // of the updates, which threads sort
  explicit Buckets(const UpdateLoop &update)
      : shift(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(1, width / update.inner))) - 1),
        count(of(std::max<int64_t>(update.extent, 1) - 1) + 1),
        parts(std::clamp<int64_t>(update.count / std::max(width, count), 1, update.threads)) {}
  int64_t of(int64_t index) const { return index >> shift; }

  // Numbers that sortByBuckets() finds: of 32 bits where they suffice.
  int64_t found(const UpdateLoop &update) const { return update.count + count + 1 + parts * count; }
  bool areNarrow(const UpdateLoop &update) const { return found(update) <= UINT32_MAX; }
};

template <typename Number> struct Sorted {
  Number *order;  // of the updates
  Number *begins; // of each bucket, and the end of the last
  Number *places; // of each part, the next of each bucket
  Sorted(const UpdateLoop &update, const Buckets &buckets, void *room)
      : order(static_cast<Number *>(room)), begins(order + update.count), places(begins + buckets.count + 1) {}
};

// The numbers of the updates, bucket by bucket and otherwise in their order. What is out of range is in none.
template <typename Number>
static void sortByBuckets(const UpdateLoop &update, const Buckets &buckets, const void *indices,
                          const Sorted<Number> &sorted) {
  const auto eachOf = [&](int64_t part, auto &&body) {
    Number *places = sorted.places + part * buckets.count;
    for (int64_t j = update.count * part / buckets.parts; j < update.count * (part + 1) / buckets.parts; ++j)
      if (const int64_t index = update.indexOf(indices, j); update.isInRange(index))
        body(places[buckets.of(index)], j);
  };
  const auto inParts = [&](auto &&body) {
    parallelFor(buckets.parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part)
        body(part);
    });
  };
  inParts([&](int64_t part) {
    std::fill_n(sorted.places + part * buckets.count, buckets.count, Number(0));
    eachOf(part, [](Number &count, int64_t) { ++count; });
  });
  Number at = 0;
  for (int64_t bucket = 0; bucket < buckets.count; ++bucket) {
    sorted.begins[bucket] = at;
    for (int64_t part = 0; part < buckets.parts; ++part)
      at += std::exchange(sorted.places[part * buckets.count + bucket], at);
  }
  sorted.begins[buckets.count] = at;
  inParts([&](int64_t part) {
    eachOf(part, [&](Number &place, int64_t j) { sorted.order[place++] = static_cast<Number>(j); });
  });
}

// operands: indices, updates, the memory updated, room for what sortByBuckets() finds. The updates of one element are
// added in their order, in f32, and rounded once.
template <typename Float, typename Number> static void addSorted(const UpdateLoop &update, void *const *operands) {
  const auto *updates = static_cast<const uint16_t *>(operands[1]);
  auto *target = static_cast<uint16_t *>(operands[2]);
  const Buckets buckets(update);
  const int64_t indices = int64_t{1} << buckets.shift; // of a bucket
  const Sorted<Number> sorted(update, buckets, operands[3]);
  sortByBuckets(update, buckets, operands[0], sorted);
  // Elements of one slice are read and written all together where many of them change: which do is not foreseeable.
  const auto addToAll = [&](std::span<const Number> group, int64_t first, int64_t o, int64_t count) {
    std::array<float, Buckets::width> sums;
    std::array<uint16_t, Buckets::width> touched{}; // all bits, or none
    uint16_t *elements = target + o * update.extent + first;
    const uint16_t *added = updates + update.outerOffsets[o];
    std::transform(elements, elements + count, sums.data(), Float::load);
    for (const int64_t j : group) {
      const int64_t at = update.indexOf(operands[0], j) - first;
      sums[at] += Float::load(added[j * update.axisStride]);
      touched[at] = 0xffff;
    }
    for (int64_t i = 0; i < count; ++i)
      elements[i] = chosen(touched[i], Float::store(sums[i]), elements[i]);
  };
  const auto addToSome = [&](std::span<const Number> group, int64_t first, int64_t o, int64_t from, int64_t length) {
    std::array<float, Buckets::width> sums;
    std::array<bool, Buckets::width> isTouched{};
    const auto element = [&](int64_t row) { return target + (o * update.extent + first + row) * update.inner + from; };
    const uint16_t *added = updates + update.outerOffsets[o];
    for (const int64_t j : group) {
      const int64_t row = update.indexOf(operands[0], j) - first;
      float *sum = sums.data() + row * length;
      const uint16_t *old = isTouched[row] ? nullptr : element(row);
      for (int64_t i = 0; i < length; ++i)
        sum[i] = (old ? Float::load(old[i]) : sum[i]) +
                 Float::load(added[j * update.axisStride + update.innerOffsets[from + i]]);
      isTouched[row] = true;
    }
    for (int64_t row = 0; row < std::min(indices, update.extent - first); ++row)
      if (isTouched[row])
        std::transform(sums.data() + row * length, sums.data() + (row + 1) * length, element(row), Float::store);
  };
  const int64_t work = update.count * update.outer * update.inner / buckets.count + 1; // of a bucket
  parallelFor(buckets.count, std::max<int64_t>(1, 16384 / work), [&](int64_t begin, int64_t end) {
    for (int64_t bucket = begin; bucket < end; ++bucket) {
      const std::span<const Number> group(sorted.order + sorted.begins[bucket],
                                          sorted.order + sorted.begins[bucket + 1]);
      const int64_t first = bucket * indices, count = std::min(indices, update.extent - first);
      const bool isDense = update.inner == 1 && static_cast<int64_t>(group.size()) * 8 >= count;
      for (int64_t o = 0; o < update.outer && !group.empty(); ++o)
        for (int64_t from = 0; from < update.inner; from += Buckets::width)
          if (isDense)
            addToAll(group, first, o, count);
          else
            addToSome(group, first, o, from, std::min(Buckets::width, update.inner - from));
    }
  });
}

template <typename Float> static void runAddition(const UpdateLoop &update, void *const *operands) {
  Buckets(update).areNarrow(update) ? addSorted<Float, uint32_t>(update, operands)
                                    : addSorted<Float, int64_t>(update, operands);
}

// The old contents of `input` are an output as well.
static bool copiedToOthers(StepBuilder &builder, uint32_t input, uint32_t result) {
  for (size_t i = 0; i < builder.graph.output_count; ++i)
    if (uint32_t output = builder.graph.outputs[i]->index; output != result && builder.viewOf(output).base == input)
      return true;
  return false;
}

static UpdateLoop readLoop(StepBuilder &builder, const Update &update) {
  const size_t axis = static_cast<size_t>(update.axis);
  const FixedView &indices = builder.viewOf(update.indices), &updates = builder.viewOf(update.updates);
  UpdateLoop loop;
  loop.size = dtypeBits(builder.type(update.old).dtype) / 8;
  loop.threads = threadCount();
  loop.extent = builder.extents(update.old)[axis];
  loop.count = updates.dims[axis];
  loop.axisStride = updates.strides[axis];
  loop.wide = builder.type(update.indices).dtype == MORTISE_I64;
  loop.indexStride = indices.strides.empty() ? 0 : indices.strides[0];
  loop.outerOffsets = Offsets(updates, 0, axis);
  loop.innerOffsets = Offsets(updates, axis + 1, updates.dims.size());
  loop.outer = loop.outerOffsets.size();
  loop.inner = loop.innerOffsets.size();
  return loop;
}

// Nobody needs the old contents afterwards, and the result may lie where they are.
static bool canUpdateInPlace(StepBuilder &builder, const Unit &unit, const Update &update) {
  const FixedView &view = builder.viewOf(update.old);
  const uint32_t base = view.base;
  if (builder.viewOf(update.updates).base == base || builder.viewOf(update.indices).base == base ||
      !builder.mayTake(view, update.result))
    return false;
  if (!builder.value(base).producer) // an input
    return update.overwritesInput && !builder.readLater(base, unit) && !copiedToOthers(builder, base, update.result);
  return builder.diesAt(base, unit) && builder.memoryOf(base).offset == 0;
}

// Makes elements of 16 bits dense.
static void addGather(StepBuilder &builder, const Unit &unit, std::string name, const FixedView &view, Operand from,
                      Operand to) {
  const Offsets offsets(view, 0, view.dims.size());
  Step step;
  step.name = std::move(name);
  step.lowering = "cpu.put";
  step.nodes = unit.nodes;
  step.bytes = 4.0 * static_cast<double>(offsets.size());
  step.operands = {from, to};
  step.action = NativeLoop{[offsets](void *const *operands) {
                             const auto *source = static_cast<const uint16_t *>(operands[0]);
                             auto *target = static_cast<uint16_t *>(operands[1]);
                             for (int64_t i = 0; i < offsets.size(); ++i)
                               target[i] = source[offsets[i]];
                           },
                           {}};
  builder.addStep(std::move(step));
}

Result<void> addSteps(StepBuilder &builder, const Unit &unit, const Update &update) {
  const FixedView &view = builder.viewOf(update.old), &indices = builder.viewOf(update.indices),
                  &updates = builder.viewOf(update.updates);
  Operand old = builder.read(view.base, view.offset);
  const bool inPlace = canUpdateInPlace(builder, unit, update);
  Operand target;
  if (inPlace) {
    builder.memoryOf(update.result).dense = old.buffer;
    target = {old.buffer, 0, true};
  } else {
    target = builder.write(update.result);
    const std::string name = "copy before put " + builder.typeText(update.result);
    if (isDense(view))
      builder.addCopy(name, old, target, builder.bytes(update.result));
    else
      addGather(builder, unit, name, view, old, target);
  }
  UpdateLoop loop = readLoop(builder, update);
  if (loop.outer * loop.count * loop.inner == 0)
    return {};
  Step step;
  step.name = "put " + builder.typeText(update.updates) + (update.adds ? " added" : "") + (inPlace ? " in place" : "");
  step.lowering = "cpu.put";
  step.nodes = unit.nodes;
  step.bytes = 2.0 * static_cast<double>(builder.bytes(update.updates));
  step.operands = {builder.read(indices.base, indices.offset), builder.read(updates.base, updates.offset), target};
  const bool isHalf = builder.type(update.old).dtype == MORTISE_F16;
  if (const Buckets buckets(loop); update.adds)
    step.operands.push_back(
        {builder.allocate(static_cast<size_t>(buckets.found(loop)) * (buckets.areNarrow(loop) ? 4 : 8)), 0, true});
  step.action = NativeLoop{
      [loop = std::move(loop), run = !update.adds ? runUpdate
                                     : isHalf     ? runAddition<Half>
                                                  : runAddition<Brain>](void *const *operands) { run(loop, operands); },
      {}};
  builder.addStep(std::move(step));
  return {};
}

// The region writes `result`, or what further claimed updates make of it, to the memory of `input`.
static bool endsIn(const Claims &claims, uint32_t result, uint32_t input) {
  while (!claims.facts.overwrites(result, input)) {
    const MortiseNode *user = claims.facts.soleUser(result);
    if (!user || !isOp(*user, "mortise.put") || user->operands[0]->index != result || !claims.isTaken(*user))
      return false;
    result = user->results[0]->index;
  }
  return true;
}

Result<void> claimUpdates(Claims &claims) {
  for (size_t i = 0; i < claims.facts.graph.node_count; ++i) {
    const MortiseNode &node = *claims.facts.graph.nodes[i];
    if (!isOp(node, "mortise.put") || claims.isTaken(node))
      continue;
    const int32_t dtype = node.operands[0]->type->dtype;
    const bool adds = stringAttribute(node, "mode") == "add";
    if (adds && dtype != MORTISE_F16 && dtype != MORTISE_BF16)
      continue;
    const View &old = claims.viewOf(node.operands[0]->index);
    if ((!isDense(old) && !adds) || dtypeBits(dtype) < 8)
      continue; // a group reads it through its view
    claims.take(node);
    Unit unit;
    unit.nodes = {node.index};
    unit.reads = {old.base, claims.viewOf(node.operands[1]->index).base, claims.viewOf(node.operands[2]->index).base};
    unit.writes = {node.results[0]->index};
    unit.overwrites = old.base;
    unit.work = Update{node.operands[0]->index,
                       node.operands[1]->index,
                       node.operands[2]->index,
                       node.results[0]->index,
                       intAttribute(node, "axis"),
                       adds,
                       false};
    claims.units.push_back(std::move(unit));
  }
  for (Unit &unit : claims.units) // when all updates are claimed
    if (auto *update = std::get_if<Update>(&unit.work))
      update->overwritesInput = endsIn(claims, update->result, claims.viewOf(update->old).base);
  return {};
}

} // namespace mortise::cpu
