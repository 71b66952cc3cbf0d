// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which cases of an op are probed: the levels abi and stress.
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

// In f32 where the op has it, otherwise in its first element type. `first`: of the attributes that may be.
std::optional<Point> pointOf(const Row &row, const Spec &spec, uint16_t first) {
  const MortiseOpInfo &info = *infoOf(row.op);
  const uint32_t dtypes = row.slot < 0 ? info.results[0].dtypes : info.operands[row.slot].dtypes;
  std::vector<int32_t> order = {MORTISE_F32};
  for (int32_t dtype = 1; dtype <= MORTISE_DTYPE_COUNT; ++dtype)
    order.push_back(dtype);
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

} // namespace

std::vector<Point> probePoints(Level level, Extent extent) {
  std::vector<Point> all;
  if (level == Level::Abi) // a matter of the device alone
    all.push_back({.op = Op::Add, .dtype = MORTISE_F32, .probe = Probe::Memory});
  // A quick run has each probe with every fourth op, and each op with every fourth probe.
  constexpr size_t part = 4;
  for (size_t r = 0; r < rows().size(); ++r)
    for (size_t s = 0; s < std::size(specs); ++s)
      if (specs[s].level == level && (extent == Extent::Full || (r + s) % part == 0))
        for (uint16_t first = 0; const auto point = pointOf(rows()[r], specs[s], first);) {
          all.push_back(*point);
          if (point->probe != Probe::Repeats) // order counts with some attributes alone
            break;
          first = point->variant + 1;
        }
  return all;
}

} // namespace mortise::conformance
