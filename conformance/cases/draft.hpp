// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A case while a row of the table makes it: its graph, and what its inputs are filled with.
#pragma once

#include "point.hpp"

#include "view_builder.hpp"

#include <mortise/portable/graph.hpp>

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace mortise::conformance {

using Dims = std::vector<int64_t>;
using test::Attribute;
using test::ViewBuilder;

// What an input is filled with.
struct Fill {
  enum Kind {
    Numbers,   // of the point's class of values
    Plain,     // random ones whatever the class: what the op's definition wants finite and moderate
    Between,   // integers from `low` to `high`, both included
    Unit,      // floats from 0 to 1
    Positive,  // floats above 0
    Ascending, // sorted along the last dimension
    Steps,     // ascending integers from `low` to `high`: offsets
  };
  Kind kind = Numbers;
  int64_t low = 0, high = 0;
  int32_t rounds = 0;   // Numbers: the dtype that integers are rounded to, or 0
  bool repeats = false; // Numbers: in every other tensor a quarter are its largest or its smallest
  double other = 1;     // Numbers: what those of a case's other values are multiplied by
};

inline constexpr Fill plain{Fill::Plain};
inline constexpr Fill repeating{.repeats = true}; // for ops whose results say which of equal elements was taken
// So far apart that exp overflows where another number than a row's largest is taken away first.
inline constexpr Fill farApart{.other = 0x1p11};
inline Fill between(int64_t low, int64_t high) { return {Fill::Between, low, high}; }

struct Input {
  const MortiseValue *value = nullptr;
  Fill fill;
};

class Draft {
public:
  // `marked`: extents are markers, which no extent of the table is; see lift.hpp. `seed`: of the run; extents depend on
  // it and on the point's name but for its values, which share a kernel then, and its attributes: kernels of equal
  // types and other attributes are alive in one process.
  Draft(const Point &point, uint64_t seed, bool marked = false);

  const Point point;
  ViewBuilder builder;
  std::vector<Input> inputs;
  std::vector<int64_t> markers, numbers; // of each extent drawn: what stands for it when marked, and what it is
  std::string skipped;                   // why the op has no such case; "" when it has

  // The op has no case at this point. The rest of the row may make anything.
  void skip(std::string why) {
    if (skipped.empty())
      skipped = std::move(why);
  }

  // Extents of the shape's class. The rank is that of the class where `least` and `most` allow it; `usual` is that of
  // the classes that name none. Skips where the class cannot be. `elements`: of a large shape, by default more than
  // 16 bits can count; of a bulk the same sixteen times, and eight times in f64.
  Dims extents(int32_t least, int32_t most, int32_t usual = 2, int64_t elements = 70000);
  // `count` extents for an op of fixed rank: like extents(), but skips classes that are ranks.
  Dims fixed(int32_t count, int64_t elements = 30000) { return extents(count, count, count, elements); }
  int64_t pick(int64_t low, int64_t high) { return low + static_cast<int64_t>(random() % uint64_t(high - low + 1)); }
  // `bulk` in the class Bulk, whose tensors are to be as long in all that is read.
  int64_t pick(int64_t low, int64_t high, int64_t bulk) { return point.shape == Shape::Bulk ? bulk : pick(low, high); }
  int64_t unlessBulk(int64_t usual, int64_t bulk) const { return point.shape == Shape::Bulk ? bulk : usual; }

  MortiseValue *input(int32_t dtype, const Dims &dims, Fill fill = {});
  // An operand for the op: an input, or in the class Broadcast one that a node repeats along an axis.
  MortiseValue *operand(int32_t dtype, const Dims &dims, Fill fill = {});
  // The op itself; its results are the graph's outputs.
  void node(const std::vector<const MortiseValue *> &operands, const std::vector<std::pair<int32_t, Dims>> &results,
            std::vector<Attribute> attributes = {}, const std::vector<const MortiseGraph *> &bodies = {});

  bool is(Values values) const { return point.values == values; }
  // The op leaves open what becomes of NaN and infinities at this point, so that there are no cases of these values.
  void keepsFinite() { finite = true; }
  bool isFinite() const { return finite; }
  // A builder for a body of the op, which lives as long as the draft.
  ViewBuilder &body();

private:
  struct Axes {
    bool named; // their number is what the class of shapes is called by
    bool alike; // the op takes several ranks, so that no axis has a meaning of its own
  };
  void draw(Dims &dims, int32_t rank, Axes axes, int64_t elements);
  const bool marked;
  std::mt19937_64 random;
  std::vector<std::unique_ptr<ViewBuilder>> bodies;
  bool finite = false;
};

// A number that follows from a seed and a text alone, on every machine.
uint64_t seedOf(uint64_t seed, std::string_view text);

// What an op does with many elements, whose order inside is the device's own. No intermediate result may overflow there
// in one order and not in another: the extremes of what is added are kept apart from the largest number of a type that
// is as wide as its accumulator, and factors are near 1.
enum class Combines { Nothing, Sums, Products };

// The bytes of one dense tensor. `classes`: bits of Values; of several, each number has one by chance.
std::vector<std::byte> filled(const MortiseType &type, const Fill &fill, uint32_t classes, Combines combines,
                              std::mt19937_64 &random);
inline std::vector<std::byte> filled(const MortiseType &type, const Fill &fill, Values values, Combines combines,
                                     std::mt19937_64 &random) {
  return filled(type, fill, uint32_t(1) << static_cast<uint32_t>(values), combines, random);
}

} // namespace mortise::conformance
