// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of cases: one row for each op of the SDK's op table, and the points that are tried of each row.
#pragma once

#include "draft.hpp"

#include <map>
#include <span>

namespace mortise::conformance {

// A level's row: an op, and how its cases are made.
struct Row {
  Op op;
  std::vector<std::string> variants; // of the attributes; "" where there is one
  void (*make)(Draft &);             // makes the case of Draft::point, or skips it
  // Which slot of the op a point's element type is that of: an operand, or results where it is negative.
  int32_t slot = 0;
};

// In the order of the op table. Made once.
std::span<const Row> rows();
const Row *rowOf(Op op); // NULL where there is none, which a test refuses

// What a row can be at an element type, a shape and a variant.
struct Facts {
  std::string skipped;
  uint32_t layouts = 0; // bits of Layout
  uint32_t values = 0;  // bits of Values
  uint32_t rank = 0;    // the largest of its inputs and outputs
};
Facts factsOf(const Point &point);

// Why the row's graph at a point has no form over symbols with the extents of this seed; "" when it has one.
std::string whyStatic(const Row &row, const Point &point, uint64_t seed);

enum class Level { Core, Composite, Dynamic, Training, Quantised, Models, Abi, Stress, Perf };
inline constexpr const char *levelNames[] = {"core",   "composite", "dynamic", "training", "quantised",
                                             "models", "abi",       "stress",  "perf"};
// Whether the level has cases of the op alone. Static ones are at one level each: core, composite or quantised.
bool isAt(Op op, Level level);

// Pairs of values of two axes: how many there can be, and how many the points have.
struct Coverage {
  uint64_t pairs = 0, covered = 0;
  std::map<std::string, std::pair<uint64_t, uint64_t>> axes; // "dtype x shape": of all, covered
};

enum class Extent {
  Quick, // for an op each value of each axis once, and each element type with each shape
  Full,  // all pairs, element type and shape with each class of values
};

// The points of the levels Abi, Stress and Perf: probes, each of a few cases of each op.
std::vector<Point> probePoints(Level level, Extent extent);

// Always the same points in the same order; those of one graph stand together. `coverage` may be NULL.
std::vector<Point> pointsOf(Level level, Extent extent, Coverage *coverage = nullptr);

} // namespace mortise::conformance
