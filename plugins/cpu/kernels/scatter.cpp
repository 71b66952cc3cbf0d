// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// scatter_along and scatter_nd. The place of each update comes first; then threads share out the elements of the
// result, and each takes the updates of its elements in their order, so that a sum has one value whatever the number of
// threads.
#include "../claims.hpp"
#include "../device.hpp"
#include "../step_builder.hpp"
#include "narrow.hpp"
#include "offsets.hpp"

#include <mortise/plugin.hpp>

#include <algorithm>
#include <cmath>

namespace mortise::cpu {

namespace {
enum class Mode { Set, Add, Mul, Max, Min };

Mode modeOf(std::string_view name) {
  return name == "set"   ? Mode::Set
         : name == "add" ? Mode::Add
         : name == "mul" ? Mode::Mul
         : name == "max" ? Mode::Max
                         : Mode::Min;
}

// Updates are slices of `slice` elements.
struct ScatterLoop {
  struct Coordinate {
    int64_t extent, stride;
  };
  Mode mode = Mode::Set;
  bool wide = false; // i64 indices, else i32
  int64_t updates = 0, slice = 1, elements = 0;
  std::vector<Coordinate> coordinates; // of each update, as indices hold them
  Offsets positions;                   // what else the number of the update adds to its place
  bool sumsApart = false;              // of f16 and bf16, in f32
  int64_t bands = 1, columns = 1;      // parts of the result for threads: of its slices, and of each slice

  // The first element of the result that the update goes to, or -1 for one that is dropped.
  int64_t placeOf(const void *indices, int64_t update) const {
    int64_t place = positions[update];
    const auto depth = static_cast<int64_t>(coordinates.size());
    for (int64_t c = 0; c < depth; ++c) {
      const auto &[extent, stride] = coordinates[static_cast<size_t>(c)];
      int64_t index = wide ? static_cast<const int64_t *>(indices)[update * depth + c]
                           : static_cast<const int32_t *>(indices)[update * depth + c];
      index += index < 0 ? extent : 0;
      if (index < 0 || index >= extent)
        return -1;
      place += index * stride;
    }
    return place;
  }
};

// Elements that combine in their own type. Integers wrap.
template <typename T> struct Plain {
  using Stored = T;
  static constexpr bool isRounded = false;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};
// f16 and bf16 combine in f32, and sums and products are rounded once.
template <typename Float> struct Rounded : Float {
  using Stored = uint16_t;
  static constexpr bool isRounded = true;
};

bool combine(Mode mode, bool old, bool update) {
  return mode == Mode::Add || mode == Mode::Max ? old || update : old && update;
}
template <std::integral T> T combine(Mode mode, T old, T update) {
  switch (mode) {
  case Mode::Add:
    return static_cast<T>(static_cast<uint64_t>(old) + static_cast<uint64_t>(update));
  case Mode::Mul:
    return static_cast<T>(static_cast<uint64_t>(old) * static_cast<uint64_t>(update));
  case Mode::Max:
    return std::max(old, update);
  default:
    return std::min(old, update);
  }
}
// A NaN wins over numbers, and +0 is above -0.
template <std::floating_point T> T combine(Mode mode, T old, T update) {
  if (mode == Mode::Add)
    return old + update;
  if (mode == Mode::Mul)
    return old * update;
  if (std::isnan(old) || std::isnan(update))
    return std::isnan(old) ? old : update;
  const bool isOldLess = old == update ? std::signbit(old) : old < update;
  return isOldLess == (mode == Mode::Max) ? update : old;
}

enum Operands { Indices, Updates, Output, Places, Sums, Touched };

template <typename Element> void applyPart(const ScatterLoop &loop, void *const *operands, int64_t part) {
  using Stored = typename Element::Stored;
  const auto *places = static_cast<const int64_t *>(operands[Places]);
  const auto *updates = static_cast<const Stored *>(operands[Updates]);
  auto *result = static_cast<Stored *>(operands[Output]);
  const int64_t band = part / loop.columns, column = part % loop.columns, slices = loop.elements / loop.slice;
  const int64_t first = slices * band / loop.bands * loop.slice, end = slices * (band + 1) / loop.bands * loop.slice;
  const int64_t from = loop.slice * column / loop.columns, to = loop.slice * (column + 1) / loop.columns;
  for (int64_t update = 0; update < loop.updates; ++update) {
    const int64_t place = places[update];
    if (place < first || place >= end)
      continue;
    const Stored *given = updates + update * loop.slice;
    Stored *at = result + place;
    if (loop.mode == Mode::Set) {
      std::copy(given + from, given + to, at + from);
    } else if (loop.sumsApart) {
      auto *sums = static_cast<float *>(operands[Sums]) + place;
      auto *touched = static_cast<uint16_t *>(operands[Touched]) + place;
      for (int64_t i = from; i < to; ++i) {
        const auto old = touched[i] ? sums[i] : static_cast<float>(Element::load(at[i]));
        sums[i] = combine(loop.mode, old, static_cast<float>(Element::load(given[i])));
        touched[i] = 0xffff;
      }
    } else {
      for (int64_t i = from; i < to; ++i)
        at[i] = Element::store(combine(loop.mode, Element::load(at[i]), Element::load(given[i])));
    }
  }
}

template <typename Element> void run(const ScatterLoop &loop, void *const *operands) {
  constexpr int64_t grain = 4096;
  auto *places = static_cast<int64_t *>(operands[Places]);
  uint16_t *touched = loop.sumsApart ? static_cast<uint16_t *>(operands[Touched]) : nullptr; // all bits, or none
  parallelFor(loop.updates, grain, [&](int64_t begin, int64_t end) {
    for (int64_t update = begin; update < end; ++update)
      places[update] = loop.placeOf(operands[Indices], update);
  });
  if (loop.sumsApart)
    std::fill_n(touched, loop.elements, 0);
  parallelFor(loop.bands * loop.columns, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part)
      applyPart<Element>(loop, operands, part);
  });
  if constexpr (Element::isRounded)
    if (loop.sumsApart)
      parallelFor(loop.elements, grain, [&](int64_t begin, int64_t end) {
        auto *result = static_cast<uint16_t *>(operands[Output]);
        for (int64_t i = begin; i < end; ++i)
          result[i] = chosen(touched[i], Element::store(static_cast<const float *>(operands[Sums])[i]), result[i]);
      });
}

using Run = void (*)(const ScatterLoop &, void *const *);
// NULL for a type whose elements cannot be combined.
Run runOf(int32_t dtype) {
  switch (dtype) {
  case MORTISE_F64:
    return run<Plain<double>>;
  case MORTISE_F32:
    return run<Plain<float>>;
  case MORTISE_F16:
    return run<Rounded<Half>>;
  case MORTISE_BF16:
    return run<Rounded<Brain>>;
  case MORTISE_I1:
    return run<Plain<bool>>;
  default:
    return visitInteger(dtype, Run(), [](auto number) -> Run { return run<Plain<decltype(number)>>; });
  }
}

ScatterLoop readLoop(StepBuilder &builder, const Scatter &scatter) {
  const std::vector<int64_t> dims = builder.values(scatter.old.dims), strides = denseStrides(dims);
  const std::vector<int64_t> indices = builder.values(scatter.indices.dims);
  ScatterLoop loop;
  loop.mode = modeOf(scatter.mode);
  loop.wide = builder.type(scatter.indices.base).dtype == MORTISE_I64;
  loop.sumsApart =
      isNarrowFloat(builder.type(scatter.result).dtype) && (loop.mode == Mode::Add || loop.mode == Mode::Mul);
  loop.elements = elementCount(dims);
  loop.updates = elementCount(indices);
  if (scatter.axis) {
    const auto axis = static_cast<size_t>(*scatter.axis);
    loop.coordinates = {{dims[axis], strides[axis]}};
    FixedView lines{scatter.indices.base, 0, indices, strides};
    lines.strides[axis] = 0;
    loop.positions = Offsets(lines, 0, indices.size());
  } else {
    const auto depth = static_cast<size_t>(indices.back());
    for (size_t d = 0; d < depth; ++d)
      loop.coordinates.push_back({dims[d], strides[d]});
    for (size_t d = depth; d < dims.size(); ++d)
      loop.slice *= dims[d];
    loop.updates = elementCount(std::span(indices).first(indices.size() - 1));
  }
  constexpr int64_t smallest = 16384, widest = 1024; // elements: to divide at all, and of a column
  if (loop.updates * loop.slice >= smallest) {
    loop.columns = std::clamp<int64_t>(loop.slice / widest, 1, threadCount());
    loop.bands = loop.columns > 1 ? 1 : threadCount();
  }
  return loop;
}
} // namespace

bool canScatter(int32_t dtype) { return runOf(dtype) != nullptr; }

Result<void> addSteps(StepBuilder &builder, const Unit &unit, const Scatter &scatter) {
  const FixedView old = builder.values(scatter.old), indices = builder.values(scatter.indices),
                  updates = builder.values(scatter.updates);
  const Operand source = builder.read(old.base, old.offset);
  const bool inPlace = builder.mayTake(old, scatter.result) && updates.base != old.base && indices.base != old.base &&
                       builder.diesAt(old.base, unit) && source.offset == 0;
  Operand target{source.buffer, 0, true};
  if (inPlace) {
    builder.memoryOf(scatter.result).dense = source.buffer;
  } else {
    target = builder.write(scatter.result);
    builder.addCopy("copy before scatter " + builder.typeText(scatter.result), source, target,
                    builder.bytes(scatter.result));
  }
  ScatterLoop loop = readLoop(builder, scatter);
  if (loop.updates * loop.slice == 0)
    return {};
  const int32_t dtype = builder.type(scatter.result).dtype;
  const auto room = [&](int64_t count, size_t bytes) {
    return Operand{builder.allocate(static_cast<size_t>(count) * bytes), 0, true};
  };
  Step step;
  step.name = std::string(scatter.axis ? "scatter_along " : "scatter_nd ") + std::string(scatter.mode) + " of " +
              std::to_string(loop.updates * loop.slice) + " to " + builder.typeText(scatter.result) +
              (inPlace ? " in place" : "");
  step.lowering = "cpu.scatter";
  step.nodes = unit.nodes;
  step.bytes = 3.0 * static_cast<double>(loop.updates * loop.slice) * dtypeBits(dtype) / 8;
  step.operands = {builder.read(indices.base, indices.offset), builder.read(updates.base, updates.offset), target,
                   room(loop.updates, sizeof(int64_t))};
  if (loop.sumsApart) {
    step.operands.push_back(room(loop.elements, sizeof(float)));
    step.operands.push_back(room(loop.elements, sizeof(uint16_t)));
  }
  step.action =
      NativeLoop{[loop = std::move(loop), run = runOf(dtype)](void *const *operands) { run(loop, operands); }, {}};
  builder.addStep(std::move(step));
  return {};
}

Result<void> claimScatters(Claims &claims) {
  for (size_t i = 0; i < claims.facts.graph.node_count; ++i) {
    const MortiseNode &node = *claims.facts.graph.nodes[i];
    if (!isOp(node, Op::ScatterAlong, Op::ScatterNd))
      continue;
    claims.take(node);
    Scatter scatter{claims.denseViewOf(node, 0),
                    claims.denseViewOf(node, 1),
                    claims.denseViewOf(node, 2),
                    node.results[0]->index,
                    std::nullopt,
                    stringAttribute(node, "mode")};
    if (isOp(node, Op::ScatterAlong))
      scatter.axis = intAttribute(node, "axis");
    Unit unit;
    unit.nodes = {node.index};
    unit.reads = {scatter.old.base, scatter.indices.base, scatter.updates.base};
    unit.writes = {scatter.result};
    unit.overwrites = scatter.old.base;
    unit.work = std::move(scatter);
    claims.units.push_back(std::move(unit));
  }
  return {};
}

} // namespace mortise::cpu
