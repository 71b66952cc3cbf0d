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

// X(Name, name). Extents: Tail: the last one is one less or one more than a multiple of a vector's width; Large: more
// elements than 16 bits can count, where an op needs few steps for each, in every other one nearly all along one axis,
// if no axis has a meaning of its own; Bulk: still more of them, of even extents, for the level perf alone; Broadcast:
// an operand is repeated by a node of its own in front of the op.
#define MORTISE_FOR_EACH_SHAPE(X)                                                                                      \
  X(Zero, zero)                                                                                                        \
  X(One, one)                                                                                                          \
  X(Scalar, scalar)                                                                                                    \
  X(Prime, prime)                                                                                                      \
  X(Tail, tail)                                                                                                        \
  X(Large, large)                                                                                                      \
  X(Bulk, bulk)                                                                                                        \
  X(Rank1, rank1)                                                                                                      \
  X(Rank3, rank3)                                                                                                      \
  X(Rank4, rank4)                                                                                                      \
  X(Rank5, rank5)                                                                                                      \
  X(Rank6, rank6)                                                                                                      \
  X(Broadcast, broadcast)

// Transposed and Strided: the types of operands and results have strides. Misaligned: addresses are multiples of the
// element size alone. InPlace: an output lies in the memory of an input, where the plugin's candidate allows it. State:
// an output is an alias of an input in the graph's signature. Updated: so is it, and a second node, which is like the
// first, reads that input too. Twice: the first result is listed as two outputs. Passed: the first input is an output
// as well. Constant: all operands but the first are bound once.
#define MORTISE_FOR_EACH_LAYOUT(X)                                                                                     \
  X(Dense, dense)                                                                                                      \
  X(Transposed, transposed)                                                                                            \
  X(Strided, strided)                                                                                                  \
  X(Misaligned, misaligned)                                                                                            \
  X(InPlace, inplace)                                                                                                  \
  X(State, state)                                                                                                      \
  X(Updated, updated)                                                                                                  \
  X(Twice, twice)                                                                                                      \
  X(Passed, passed)                                                                                                    \
  X(Constant, constant)

// Nan: NaNs with payloads among numbers; in large tensors of 8 and 16 bits, whose elements do not meet, every number
// that the type has. Zeros: of both signs. Ties: halves, and numbers halfway between neighbours of a narrower type.
// Integers of all classes but zeros have some beside such numbers. Cancelling: sums whose terms nearly cancel. Offset:
// numbers that differ by little of what they have in common. The last axis of a test is what the numbers hide.
#define MORTISE_FOR_EACH_VALUES(X)                                                                                     \
  X(Random, random)                                                                                                    \
  X(Nan, nan)                                                                                                          \
  X(Infinity, infinity)                                                                                                \
  X(Zeros, zeros)                                                                                                      \
  X(Subnormal, subnormal)                                                                                              \
  X(Extreme, extreme)                                                                                                  \
  X(Ties, ties)                                                                                                        \
  X(Cancelling, cancelling)                                                                                            \
  X(Offset, offset)

// What is tried of a kernel and its device beside the result of a call. None: a case of an op. Threads: several call
// one kernel at once. Kernels: several of one graph and of other attributes are alive, and end in any order. Again:
// other numbers at the same addresses. Frames: a frame is used again, and several are in flight. Constants: several
// sets are bound at once, and at the same addresses as earlier ones. Saved: a kernel is saved and loaded, and what is
// damaged is refused. Cancelled: the host stops a compilation. Newer: structs are larger than this version has them,
// and have unknown extensions. Queues: streams and events. Errors: work that fails. Memory: the device's own. Leaks:
// what is made and destroyed many times. Repeats: equal bits, in whatever order threads get on. Flat: memory over a
// long time. Speed: how long it takes, against what the device can do. Network: no op, but a graph of several
// (networks/).
#define MORTISE_FOR_EACH_PROBE(X)                                                                                      \
  X(None, none)                                                                                                        \
  X(Threads, threads)                                                                                                  \
  X(Kernels, kernels)                                                                                                  \
  X(Again, again)                                                                                                      \
  X(Frames, frames)                                                                                                    \
  X(Constants, constants)                                                                                              \
  X(Saved, saved)                                                                                                      \
  X(Cancelled, cancelled)                                                                                              \
  X(Newer, newer)                                                                                                      \
  X(Queues, queues)                                                                                                    \
  X(Errors, errors)                                                                                                    \
  X(Memory, memory)                                                                                                    \
  X(Leaks, leaks)                                                                                                      \
  X(Repeats, repeats)                                                                                                  \
  X(Flat, flat)                                                                                                        \
  X(Speed, speed)                                                                                                      \
  X(Network, network)

#define MORTISE_CONFORMANCE_NAME(Name, name) Name,
enum class Shape : uint8_t { MORTISE_FOR_EACH_SHAPE(MORTISE_CONFORMANCE_NAME) };
enum class Layout : uint8_t { MORTISE_FOR_EACH_LAYOUT(MORTISE_CONFORMANCE_NAME) };
enum class Values : uint8_t { MORTISE_FOR_EACH_VALUES(MORTISE_CONFORMANCE_NAME) };
enum class Probe : uint8_t { MORTISE_FOR_EACH_PROBE(MORTISE_CONFORMANCE_NAME) };
#undef MORTISE_CONFORMANCE_NAME

#define MORTISE_CONFORMANCE_NAME(Name, name) #name,
inline constexpr const char *shapeNames[] = {MORTISE_FOR_EACH_SHAPE(MORTISE_CONFORMANCE_NAME)};
inline constexpr const char *layoutNames[] = {MORTISE_FOR_EACH_LAYOUT(MORTISE_CONFORMANCE_NAME)};
inline constexpr const char *valuesNames[] = {MORTISE_FOR_EACH_VALUES(MORTISE_CONFORMANCE_NAME)};
inline constexpr const char *probeNames[] = {MORTISE_FOR_EACH_PROBE(MORTISE_CONFORMANCE_NAME)};
#undef MORTISE_CONFORMANCE_NAME

struct Point {
  Op op = Op::Unknown;
  int32_t dtype = 0;
  Shape shape = Shape::Prime;
  Layout layout = Layout::Dense;
  Values values = Values::Random;
  uint16_t variant = 0; // of the op's attributes: an index into Row::variants; or into networks()
  uint16_t number = 1;  // of the cases that have all of these in common; each has extents and values of its own
  bool dynamic = false; // the extents are symbols
  Probe probe = Probe::None;
  std::string file;    // of a network that this kit does not have: its graph in the portable format; "": there is none
  bool isOnnx = false; // `file` is the folder of one of ONNX's tests: a model, inputs, and the results that are due

  bool operator==(const Point &) const = default;
};

// "add/f32/prime/strided/nan/#1", or with the variant's name behind the values: "reduce_sum/f32/.../nan/last/#1";
// dynamic points begin with "dynamic/", those with a probe with "abi/threads/" or its like, and "perf/speed/". A
// network's name is "models/encoder/f32/#1", with its level; one that lies in a file is "file/PATH/#1", and one of
// ONNX's tests "onnx/PATH/#1", with the number of its set of inputs.
std::string idOf(const Point &point);
// "mortise.add", or a network with its level.
std::string subjectOf(const Point &point);
// Errors: MORTISE_INVALID_ARGUMENT, with the part that is not known.
Result<Point> pointOf(std::string_view id);

} // namespace mortise::conformance
