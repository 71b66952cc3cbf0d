// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which cases of an op are probed: the levels abi, stress and perf.
#include "table.hpp"

#include <algorithm>
#include <optional>

namespace mortise::conformance {
namespace {

struct Spec {
  Level level;
  Probe probe;
  Layout layout;
  Shape shape;
};

constexpr Spec specs[] = {
    {Level::Abi, Probe::Threads, Layout::Dense, Shape::Prime},
    {Level::Abi, Probe::Threads, Layout::Dense, Shape::Broadcast}, // of several nodes, and so with a workspace
    {Level::Abi, Probe::Threads, Layout::Constant, Shape::Prime},
    {Level::Abi, Probe::Kernels, Layout::Dense, Shape::Prime},
    {Level::Abi, Probe::Again, Layout::Dense, Shape::Prime},
    {Level::Abi, Probe::Frames, Layout::Dense, Shape::Prime},
    {Level::Abi, Probe::Constants, Layout::Constant, Shape::Prime},
    {Level::Abi, Probe::Constants, Layout::Constant, Shape::Large}, // of more bytes than all else that is kept
    {Level::Abi, Probe::Saved, Layout::Dense, Shape::Prime},
    {Level::Abi, Probe::Cancelled, Layout::Dense, Shape::Prime},
    {Level::Abi, Probe::Newer, Layout::Dense, Shape::Prime},
    {Level::Abi, Probe::Newer, Layout::Constant, Shape::Prime},
    {Level::Abi, Probe::Queues, Layout::Dense, Shape::Prime},
    {Level::Abi, Probe::Errors, Layout::Dense, Shape::Prime},
    {Level::Abi, Probe::Leaks, Layout::Dense, Shape::Prime},
    {Level::Abi, Probe::Leaks, Layout::Constant, Shape::Prime},
    {Level::Abi, Probe::Repeats, Layout::Dense, Shape::Large},
    {Level::Stress, Probe::Flat, Layout::Dense, Shape::Prime},
    {Level::Stress, Probe::Flat, Layout::Constant, Shape::Prime},
};

// F32 where an op has it, otherwise its first element type.
std::vector<int32_t> usualOrder() {
  std::vector<int32_t> order = {MORTISE_F32};
  for (int32_t dtype = 1; dtype <= MORTISE_DTYPE_COUNT; ++dtype)
    order.push_back(dtype);
  return order;
}

// In the first of the element types that the op has. `first`: of the attributes that may be.
std::optional<Point> pointOf(const Row &row, const Spec &spec, uint16_t first, const std::vector<int32_t> &order) {
  const MortiseOpInfo &info = *infoOf(row.op);
  const uint32_t dtypes = row.slot < 0 ? info.results[0].dtypes : info.operands[row.slot].dtypes;
  for (const int32_t dtype : order)
    for (uint16_t variant = first; dtypes >> dtype & 1 && variant < row.variants.size(); ++variant) {
      const Point point{.op = row.op,
                        .dtype = dtype,
                        .shape = spec.shape,
                        .layout = spec.layout,
                        .variant = variant,
                        .probe = spec.probe};
      const Facts facts = factsOf(point);
      if (facts.skipped.empty() && facts.layouts >> static_cast<unsigned>(spec.layout) & 1)
        return point;
    }
  return std::nullopt;
}

// What elements the speed of an op is measured in: all floats, and two integers. A quick run has the first that the op
// has.
constexpr int32_t clocked[] = {MORTISE_F32,      MORTISE_F16,    MORTISE_BF16, MORTISE_F64,
                               MORTISE_F8E4M3FN, MORTISE_F8E5M2, MORTISE_I8,   MORTISE_I32};

void addSpeeds(std::vector<Point> &all, const Row &row, Extent extent) {
  if (row.op == Op::Constant || row.op == Op::Extents || row.op == Op::Rank)
    return; // known when they are compiled, and of a few bytes
  const auto add = [&](int32_t dtype) {
    for (const Shape shape : {Shape::Bulk, Shape::Large})
      if (const auto point = pointOf(row, {Level::Perf, Probe::Speed, Layout::Dense, shape}, 0, {dtype})) {
        all.push_back(*point);
        return true;
      }
    return false;
  };
  bool any = false;
  for (const int32_t dtype : clocked)
    if ((!any || extent == Extent::Full) && add(dtype))
      any = true;
  for (int32_t dtype = 1; dtype <= MORTISE_DTYPE_COUNT && !any; ++dtype) // of truth values, or numbers of 64 bits
    any = add(dtype);
}

} // namespace

std::vector<Point> probePoints(Level level, Extent extent) {
  std::vector<Point> all;
  if (level == Level::Perf)
    for (const Row &row : rows())
      addSpeeds(all, row, extent);
  if (level == Level::Abi) // a matter of the device alone
    all.push_back({.op = Op::Add, .dtype = MORTISE_F32, .probe = Probe::Memory});
  // A quick run has each probe with every fourth op, and each op with every fourth probe.
  constexpr size_t part = 4;
  for (size_t r = 0; r < rows().size(); ++r)
    for (size_t s = 0; s < std::size(specs); ++s)
      if (specs[s].level == level && (extent == Extent::Full || (r + s) % part == 0))
        for (uint16_t first = 0; const auto point = pointOf(rows()[r], specs[s], first, usualOrder());) {
          all.push_back(*point);
          if (point->probe != Probe::Repeats) // order counts with some attributes alone
            break;
          first = point->variant + 1;
        }
  return all;
}

} // namespace mortise::conformance
