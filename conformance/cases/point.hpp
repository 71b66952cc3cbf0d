// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a case varies: an op, an element type, and one value of each of the axes below. A point has a stable name,
// "add/f32/prime/strided/nan/#1"; point and seed determine a case completely.
#pragma once

#include <mortise/ops.hpp>
#include <mortise/result.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mortise::conformance {

// X(Name, name). Extents: Tail: the last one is one less or one more than a multiple of a vector's width; Large: some
// ten thousand elements; Broadcast: an operand is repeated by a node of its own in front of the op.
#define MORTISE_FOR_EACH_SHAPE(X)                                                                                      \
  X(Zero, zero)                                                                                                        \
  X(One, one)                                                                                                          \
  X(Scalar, scalar)                                                                                                    \
  X(Prime, prime)                                                                                                      \
  X(Tail, tail)                                                                                                        \
  X(Large, large)                                                                                                      \
  X(Rank1, rank1)                                                                                                      \
  X(Rank3, rank3)                                                                                                      \
  X(Rank4, rank4)                                                                                                      \
  X(Rank5, rank5)                                                                                                      \
  X(Rank6, rank6)                                                                                                      \
  X(Broadcast, broadcast)

// Transposed and Strided: the types of operands and results have strides. Misaligned: addresses are multiples of the
// element size alone. InPlace: an output lies in the memory of an input, where the plugin's candidate allows it. State:
// an output is an alias of an input in the graph's signature. Constant: all operands but the first are bound once.
#define MORTISE_FOR_EACH_LAYOUT(X)                                                                                     \
  X(Dense, dense)                                                                                                      \
  X(Transposed, transposed)                                                                                            \
  X(Strided, strided)                                                                                                  \
  X(Misaligned, misaligned)                                                                                            \
  X(InPlace, inplace)                                                                                                  \
  X(State, state)                                                                                                      \
  X(Constant, constant)

// Zeros: of both signs. Ties: halves, and numbers halfway between neighbours of a narrower type. Cancelling: sums whose
// terms nearly cancel. The last axis of a test is what the numbers hide.
#define MORTISE_FOR_EACH_VALUES(X)                                                                                     \
  X(Random, random)                                                                                                    \
  X(Nan, nan)                                                                                                          \
  X(Infinity, infinity)                                                                                                \
  X(Zeros, zeros)                                                                                                      \
  X(Subnormal, subnormal)                                                                                              \
  X(Extreme, extreme)                                                                                                  \
  X(Ties, ties)                                                                                                        \
  X(Cancelling, cancelling)

#define MORTISE_CONFORMANCE_NAME(Name, name) Name,
enum class Shape : uint8_t { MORTISE_FOR_EACH_SHAPE(MORTISE_CONFORMANCE_NAME) };
enum class Layout : uint8_t { MORTISE_FOR_EACH_LAYOUT(MORTISE_CONFORMANCE_NAME) };
enum class Values : uint8_t { MORTISE_FOR_EACH_VALUES(MORTISE_CONFORMANCE_NAME) };
#undef MORTISE_CONFORMANCE_NAME

#define MORTISE_CONFORMANCE_NAME(Name, name) #name,
inline constexpr const char *shapeNames[] = {MORTISE_FOR_EACH_SHAPE(MORTISE_CONFORMANCE_NAME)};
inline constexpr const char *layoutNames[] = {MORTISE_FOR_EACH_LAYOUT(MORTISE_CONFORMANCE_NAME)};
inline constexpr const char *valuesNames[] = {MORTISE_FOR_EACH_VALUES(MORTISE_CONFORMANCE_NAME)};
#undef MORTISE_CONFORMANCE_NAME

struct Point {
  Op op = Op::Unknown;
  int32_t dtype = 0;
  Shape shape = Shape::Prime;
  Layout layout = Layout::Dense;
  Values values = Values::Random;
  uint16_t variant = 0; // of the op's attributes: an index into Row::variants
  uint16_t number = 1;  // of the cases that have all of these in common; each has extents and values of its own
  bool dynamic = false; // the extents are symbols

  bool operator==(const Point &) const = default;
};

// "add/f32/prime/strided/nan/#1", or with the variant's name behind the values: "reduce_sum/f32/.../nan/last/#1";
// dynamic points begin with "dynamic/".
std::string idOf(const Point &point);
// Errors: MORTISE_INVALID_ARGUMENT, with the part that is not known.
Result<Point> pointOf(std::string_view id);

} // namespace mortise::conformance
