// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "draft.hpp"

#include <algorithm>
#include <cmath>

namespace mortise::conformance {
namespace {

std::optional<int32_t> rankOf(Shape shape) {
  switch (shape) {
  case Shape::Scalar:
    return 0;
  case Shape::Rank1:
    return 1;
  case Shape::Rank3:
    return 3;
  case Shape::Rank4:
    return 4;
  case Shape::Rank5:
    return 5;
  case Shape::Rank6:
    return 6;
  default:
    return std::nullopt;
  }
}

constexpr int64_t primes[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
constexpr int64_t firstMarker = 100003;          // odd, so that halves are no markers
constexpr int64_t widths[] = {4, 8, 16, 32, 64}; // of vectors, in elements

} // namespace

uint64_t seedOf(uint64_t seed, std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325 ^ seed; // FNV-1a, and then a mix that spreads the last characters
  for (const char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  hash = (hash ^ (hash >> 31)) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 29);
}

Draft::Draft(const Point &point, uint64_t seed, bool marked) : point(point), marked(marked) {
  Point named = point;
  named.values = Values::Random;
  named.variant = 0;
  named.probe = Probe::None;
  // Speeds of two runs are compared, so their extents are equal.
  random.seed(seedOf(point.shape == Shape::Bulk ? 0 : seed, idOf(named) + " extents"));
}

Dims Draft::extents(int32_t least, int32_t most, int32_t usual, int64_t elements) {
  const std::optional<int32_t> named = rankOf(point.shape);
  const int32_t rank = named.value_or(usual);
  if (rank < least || rank > most) {
    skip("the op has no operand of rank " + std::to_string(rank));
    return Dims(static_cast<size_t>(usual), 1);
  }
  Dims dims(static_cast<size_t>(rank));
  draw(dims, rank, {.named = named.has_value(), .alike = least != most}, elements);
  for (int64_t &dim : dims) {
    numbers.push_back(dim);
    markers.push_back(firstMarker + 2 * static_cast<int64_t>(markers.size()));
    if (marked)
      dim = markers.back();
  }
  return dims;
}

void Draft::draw(Dims &dims, int32_t rank, Axes axes, int64_t elements) {
  for (int64_t &dim : dims)
    dim = point.shape == Shape::One ? 1 : pick(2, rank > 4 ? 3 : 5);
  if (dims.empty())
    return;
  const auto any = static_cast<size_t>(pick(0, rank - 1));
  if (axes.named && pick(0, 1)) // more of them would leave nothing to do along most axes
    dims[any] = 1;
  switch (point.shape) {
  case Shape::Zero:
    dims[point.dynamic ? 0 : any] = 0; // some ops want elements along an axis, and then no symbol can stand there
    break;
  case Shape::Prime:
    for (int64_t &dim : dims)
      dim = primes[static_cast<size_t>(pick(0, rank > 2 ? 5 : 11))];
    break;
  case Shape::Tail:
    dims.back() = widths[static_cast<size_t>(pick(0, 4))] * pick(1, 2) + (pick(0, 1) ? 1 : -1);
    break;
  case Shape::Large: {
    // In every other one an axis has nearly all elements: a row longer than any tile, or as many rows.
    if (axes.alike && rank > 1 && pick(0, 1)) {
      int64_t rows = 1;
      for (int64_t &dim : dims)
        rows *= dim = pick(2, 3);
      dims[any] = elements * dims[any] / rows;
      break;
    }
    const double side = std::pow(static_cast<double>(elements), 1.0 / rank);
    for (int64_t &dim : dims)
      dim = static_cast<int64_t>(side) + pick(0, 3);
    break;
  }
  case Shape::Bulk: {
    // In 4 bytes or more a tensor of few steps for each element has 4 MiB. The expected values of more take too long,
    // those of f64 above all, whose bounds are computed in software.
    const auto wanted = static_cast<double>(elements * (point.dtype == MORTISE_F64 ? 8 : 16));
    constexpr int64_t even = 16;
    for (int64_t &dim : dims)
      dim = std::max<int64_t>(std::llround(std::pow(wanted, 1.0 / rank) / even), 1) * even;
    break;
  }
  case Shape::Rank1: // others are short
    dims.back() = pick(1, 70);
    break;
  default:
    break;
  }
}

MortiseValue *Draft::input(int32_t dtype, const Dims &dims, Fill fill) {
  MortiseValue *value = builder.input(dtype, dims);
  inputs.push_back({value, fill});
  return value;
}

MortiseValue *Draft::operand(int32_t dtype, const Dims &dims, Fill fill) {
  if (point.shape != Shape::Broadcast)
    return input(dtype, dims, fill);
  const size_t turn = inputs.size();
  Dims narrow = dims;
  std::vector<int64_t> axes;
  for (size_t i = 0; i < dims.size(); ++i)
    axes.push_back(static_cast<int64_t>(i));
  if (!narrow.empty())
    narrow[(turn + 1) % narrow.size()] = 1; // the first operand along one axis, the second along another
  return builder.op("broadcast", {input(dtype, narrow, fill)}, dtype, dims,
                    {test::integers("axes", axes), test::integers("shape", dims)});
}

void Draft::node(const std::vector<const MortiseValue *> &operands,
                 const std::vector<std::pair<int32_t, Dims>> &results, std::vector<Attribute> attributes,
                 const std::vector<const MortiseGraph *> &graphs) {
  for (int nodes = point.layout == Layout::Updated ? 2 : 1; nodes > 0; --nodes) {
    std::vector<const MortiseType *> types;
    for (const auto &[dtype, dims] : results)
      types.push_back(builder.type(dtype, dims));
    const auto made = builder.ops(std::string(nameOf(point.op)), operands, types, attributes);
    builder.lastNode().since = infoOf(point.op)->since;
    for (const MortiseGraph *graph : graphs)
      builder.body(*graph);
    for (MortiseValue *value : made)
      builder.output(value);
    if (point.layout == Layout::Twice)
      builder.output(made[0]);
  }
  if (point.layout == Layout::Passed)
    builder.output(const_cast<MortiseValue *>(inputs[0].value));
}

ViewBuilder &Draft::body() { return *bodies.emplace_back(std::make_unique<ViewBuilder>()); }

} // namespace mortise::conformance
