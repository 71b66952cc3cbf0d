// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "kernels.hpp"

#include <algorithm>

namespace mortise::reference::inline MORTISE_ARITHMETIC {
namespace {

std::string shapeString(int32_t dtype, std::span<const int64_t> dims) {
  MortiseType type{sizeof(MortiseType), nullptr, dtype,  static_cast<int32_t>(dims.size()),
                   dims.data(),         nullptr, nullptr};
  return typeString(type);
}
bool sameDims(const MortiseType &type, std::span<const int64_t> dims) {
  return std::ranges::equal(mortise::dims(type), dims);
}
std::string quoted(std::string_view name) { return "'" + std::string(name) + "'"; }

} // namespace

Refusal Shapes::expectResult(size_t i, int32_t dtype, std::span<const int64_t> dims) const {
  if (result(i).dtype == dtype && sameDims(result(i), dims))
    return {};
  return {result(i).dtype == dtype ? MORTISE_REASON_ATTRIBUTE : MORTISE_REASON_DTYPE,
          "expected the result " + shapeString(dtype, dims) + ", found " + typeString(result(i))};
}

Refusal Shapes::expectOperand(size_t i, int32_t dtype, std::span<const int64_t> dims) const {
  if (!has(i) || (type(i).dtype == dtype && sameDims(type(i), dims)))
    return {};
  return {type(i).dtype == dtype ? MORTISE_REASON_ATTRIBUTE : MORTISE_REASON_DTYPE,
          "expected operand " + std::to_string(i) + " of type " + shapeString(dtype, dims) + ", found " +
              typeString(type(i))};
}

Refusal Shapes::expectFloatOperand(size_t i, std::span<const int64_t> dims) const {
  if (has(i) && !isFloat(dtype(i)))
    return {MORTISE_REASON_DTYPE, "expected floats as operand " + std::to_string(i) + ", found " + typeString(type(i))};
  return has(i) ? expectOperand(i, dtype(i), dims) : Refusal();
}

Refusal Shapes::axis(std::string_view name, int64_t rank) const {
  if (int64_t found = integer(name); found < 0 || found >= rank)
    return fail("expected " + quoted(name) + " from 0 to below " + std::to_string(rank) + ", found " +
                std::to_string(found));
  return {};
}

Refusal Shapes::ascendingAxes(std::string_view name, int64_t rank) const {
  int64_t last = -1;
  for (int64_t axis : integers(name)) {
    if (axis <= last || axis >= rank)
      return fail("expected " + quoted(name) + " strictly ascending and below " + std::to_string(rank) + ", found " +
                  std::to_string(axis) + " after " + std::to_string(last));
    last = axis;
  }
  return {};
}

Refusal Shapes::length(std::string_view name, size_t count) const {
  if (integers(name).size() != count)
    return fail("expected " + std::to_string(count) + " numbers in " + quoted(name) + ", found " +
                std::to_string(integers(name).size()));
  return {};
}

Refusal Shapes::atLeast(std::string_view name, int64_t least) const {
  for (int64_t value : integers(name))
    if (value < least)
      return fail("expected " + quoted(name) + " to be at least " + std::to_string(least) + ", found " +
                  std::to_string(value));
  return {};
}

std::vector<int64_t> offsets(std::span<const int64_t> dims, std::span<const int64_t> strides) {
  std::vector<int64_t> all(static_cast<size_t>(product(dims)));
  if (all.empty())
    return all;
  size_t filled = 1; // all[0] is 0; each dimension, from the last, repeats the entries so far
  for (size_t d = dims.size(); d-- > 0;) {
    size_t block = filled;
    for (int64_t i = 1; i < dims[d]; ++i)
      for (size_t j = 0; j < block; ++j)
        all[filled++] = all[j] + i * strides[d];
  }
  return all;
}

void copyStrided(const Call &call, const Tensor &source, int64_t start, std::span<const int64_t> strides) {
  std::span<const int64_t> dims = call.result.dims();
  int64_t inner = dims.empty() ? 1 : dims.back(), innerStride = dims.empty() ? 0 : strides.back();
  if (call.result.count() == 0)
    return;
  size_t outerRank = dims.empty() ? 0 : dims.size() - 1;
  std::vector<int64_t> rows = offsets(dims.first(outerRank), strides.first(outerRank));
  auto copy = [&](auto unit) {
    using Unit = decltype(unit);
    const Unit *from = reinterpret_cast<const Unit *>(source.data) + start;
    Unit *to = reinterpret_cast<Unit *>(call.result.data);
    call.parallel(static_cast<int64_t>(rows.size()), 256, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        for (int64_t i = 0; i < inner; ++i)
          to[row * inner + i] = from[rows[static_cast<size_t>(row)] + i * innerStride];
    });
  };
  switch (storageBytes(call.result.dtype())) {
  case 1:
    return copy(uint8_t());
  case 2:
    return copy(uint16_t());
  case 4:
    return copy(uint32_t());
  default:
    return copy(uint64_t());
  }
}

std::vector<Number> toNumbers(const Tensor &tensor, int64_t count, Number otherwise) {
  std::vector<Number> all(static_cast<size_t>(count), otherwise);
  if (tensor)
    visitFloat(tensor.dtype(), [&](auto type) {
      using T = decltype(type);
      for (size_t i = 0; i < all.size(); ++i)
        all[i] = T::load(tensor.as<T>()[i]);
    });
  return all;
}

} // namespace mortise::reference::inline MORTISE_ARITHMETIC
