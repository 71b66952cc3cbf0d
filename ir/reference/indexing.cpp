// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "kernels.hpp"

#include <algorithm>
#include <cstring>

namespace mortise::reference::inline MORTISE_ARITHMETIC {
namespace {

std::vector<int64_t> readIndices(const Tensor &indices) {
  std::vector<int64_t> all(static_cast<size_t>(indices.count()));
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = indices.dtype() == MORTISE_I64 ? indices.as<I64>()[i] : indices.as<I32>()[i];
  return all;
}

Refusal indexOperand(const Shapes &shapes, size_t i) {
  if (shapes.dtype(i) == MORTISE_I64 || shapes.dtype(i) == MORTISE_I32)
    return {};
  return shapes.fail("expected i64 or i32 indices, found " + typeString(shapes.type(i)), MORTISE_REASON_DTYPE);
}

// Reads clamp their indices, so the extent must be at least 1 when any element is read.
Refusal notEmpty(const Shapes &shapes, int64_t extent) {
  if (extent == 0 && elementCount(shapes.result()) != 0)
    return shapes.fail("nothing can be taken from a dimension of extent 0: " + typeString(shapes.type(0)));
  return {};
}

Refusal checkTakeAt(const Shapes &shapes, size_t axis) {
  std::span<const int64_t> dims = shapes.dims(0), indices = shapes.dims(1);
  Shape expected(dims.begin(), dims.begin() + static_cast<ptrdiff_t>(axis));
  expected.insert(expected.end(), indices.begin(), indices.end());
  expected.insert(expected.end(), dims.begin() + static_cast<ptrdiff_t>(axis) + 1, dims.end());
  return firstOf(indexOperand(shapes, 1), shapes.expect(shapes.dtype(0), expected), notEmpty(shapes, dims[axis]));
}
Refusal checkTake(const Shapes &shapes) {
  if (Refusal refusal = shapes.axis("axis", shapes.rank(0)))
    return refusal;
  return checkTakeAt(shapes, static_cast<size_t>(shapes.integer("axis")));
}
Refusal checkEmbedding(const Shapes &shapes) {
  if (shapes.rank(0) < 1)
    return shapes.fail("expected a table of rank 1 or more, found " + typeString(shapes.type(0)), MORTISE_REASON_RANK);
  return checkTakeAt(shapes, 0);
}
void runTake(const Call &call) { // embedding has no attribute 'axis', which reads as 0
  AxisView view(call.operand(0).dims(), call.integer("axis"));
  std::vector<int64_t> indices = readIndices(call.operand(1));
  size_t slice = static_cast<size_t>(view.inner) * storageBytes(call.result.dtype());
  std::byte *to = call.result.data;
  if (call.result.count() == 0)
    return;
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t index : indices) {
      int64_t row = o * view.extent + position(index, view.extent).index;
      std::memcpy(to, call.operand(0).data + static_cast<size_t>(row) * slice, slice);
      to += slice;
    }
}

// Checks take_along and scatter_along, whose indices are positions along `axis`.
Refusal checkAlong(const Shapes &shapes) {
  if (Refusal refusal = firstOf(shapes.axis("axis", shapes.rank(0)), indexOperand(shapes, 1)))
    return refusal;
  if (shapes.rank(1) != shapes.rank(0))
    return shapes.fail("expected indices of rank " + std::to_string(shapes.rank(0)) + ", found " +
                           typeString(shapes.type(1)),
                       MORTISE_REASON_RANK);
  for (size_t i = 0; i < shapes.dims(0).size(); ++i)
    if (static_cast<int64_t>(i) != shapes.integer("axis") && shapes.dims(1)[i] > shapes.dims(0)[i])
      return shapes.fail("indices " + typeString(shapes.type(1)) + " reach beyond the operand " +
                         typeString(shapes.type(0)) + " in dimension " + std::to_string(i));
  return {};
}
Refusal checkTakeAlong(const Shapes &shapes) {
  if (Refusal refusal = checkAlong(shapes))
    return refusal;
  return firstOf(shapes.expect(shapes.dtype(0), shapes.dims(1)),
                 notEmpty(shapes, shapes.dims(0)[static_cast<size_t>(shapes.integer("axis"))]));
}
void runTakeAlong(const Call &call) {
  auto axis = static_cast<size_t>(call.integer("axis"));
  Shape strides = denseStrides(call.operand(0).dims());
  int64_t stride = strides[axis], extent = call.operand(0).dims()[axis];
  strides[axis] = 0;
  std::vector<int64_t> base = offsets(call.operand(1).dims(), strides), indices = readIndices(call.operand(1));
  visitElement(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    for (size_t i = 0; i < base.size(); ++i)
      call.result.as<T>()[i] = call.operand(0).as<T>()[base[i] + position(indices[i], extent).index * stride];
  });
}

// Sets `addressed` to the shape of the addressed slices: the dimensions of `indices` but the last, then the operand's
// dimensions that coordinates do not address.
Refusal checkCoordinates(const Shapes &shapes, Shape &addressed) {
  if (Refusal refusal = indexOperand(shapes, 1))
    return refusal;
  std::span<const int64_t> indices = shapes.dims(1), dims = shapes.dims(0);
  if (indices.empty() || indices.back() > shapes.rank(0))
    return shapes.fail("expected indices whose last extent is at most the operand's rank " +
                       std::to_string(shapes.rank(0)) + ", found " + typeString(shapes.type(1)));
  addressed.assign(indices.begin(), indices.end() - 1);
  addressed.insert(addressed.end(), dims.begin() + static_cast<ptrdiff_t>(indices.back()), dims.end());
  return {};
}
Refusal checkTakeNd(const Shapes &shapes) {
  Shape expected;
  if (Refusal refusal = checkCoordinates(shapes, expected))
    return refusal;
  if (Refusal refusal = shapes.expect(shapes.dtype(0), expected))
    return refusal;
  for (int64_t extent : shapes.dims(0).first(static_cast<size_t>(shapes.dims(1).back())))
    if (Refusal refusal = notEmpty(shapes, extent))
      return refusal;
  return {};
}
void runTakeNd(const Call &call) {
  std::span<const int64_t> dims = call.operand(0).dims();
  auto depth = static_cast<size_t>(call.operand(1).dims().back());
  if (call.result.count() == 0)
    return;
  size_t slice = static_cast<size_t>(product(dims.subspan(depth))) * storageBytes(call.result.dtype());
  size_t rows = static_cast<size_t>(product(call.operand(1).dims().first(call.operand(1).dims().size() - 1)));
  std::vector<int64_t> indices = readIndices(call.operand(1));
  for (size_t r = 0; r < rows; ++r) {
    int64_t row = 0;
    for (size_t d = 0; d < depth; ++d)
      row = row * dims[d] + position(indices[r * depth + d], dims[d]).index;
    std::memcpy(call.result.data + r * slice, call.operand(0).data + static_cast<size_t>(row) * slice, slice);
  }
}

Refusal checkPut(const Shapes &shapes) {
  if (Refusal refusal = firstOf(shapes.axis("axis", shapes.rank(0)), indexOperand(shapes, 1)))
    return refusal;
  if (shapes.rank(1) != 1)
    return shapes.fail("expected indices of rank 1, found " + typeString(shapes.type(1)), MORTISE_REASON_RANK);
  Shape updates(shapes.dims(0).begin(), shapes.dims(0).end());
  updates[static_cast<size_t>(shapes.integer("axis"))] = shapes.dims(1)[0];
  return firstOf(shapes.expectOperand(2, shapes.dtype(0), updates), shapes.expect(shapes.dtype(0), shapes.dims(0)));
}
// Combines each update into the operand at its target. A target of -1 drops the update. Mode "set" moves values, so
// that NaNs keep their bits.
void runUpdates(const Call &call, const std::vector<int64_t> &targets, int64_t slice) {
  std::string_view mode = stringAttribute(call.node, "mode");
  visitElement(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    const auto *operand = call.operand(0).as<T>(), *updates = call.operand(2).as<T>();
    const auto count = static_cast<size_t>(call.result.count());
    if (mode == "set") {
      auto *result = call.result.as<T>();
      std::copy_n(operand, count, result);
      for (size_t u = 0; u < targets.size(); ++u)
        if (targets[u] >= 0)
          std::copy_n(updates + static_cast<int64_t>(u) * slice, slice, result + targets[u]);
      return;
    }
    std::vector<typename T::Compute> all(count);
    std::vector<bool> touched(count);
    for (size_t i = 0; i < all.size(); ++i)
      all[i] = T::load(operand[i]);
    for (size_t u = 0; u < targets.size(); ++u)
      for (int64_t i = 0; targets[u] >= 0 && i < slice; ++i) {
        auto at = static_cast<size_t>(targets[u] + i);
        auto old = all[at], update = T::load(updates[static_cast<int64_t>(u) * slice + i]);
        all[at] = mode == "add"   ? plus(old, update)
                  : mode == "mul" ? times(old, update)
                  : mode == "max" ? maximum(old, update)
                                  : minimum(old, update);
        touched[at] = true;
      }
    for (size_t i = 0; i < all.size(); ++i) // elements without an update keep their bits
      call.result.as<T>()[i] = touched[i] ? T::store(all[i]) : operand[i];
  });
}
void runPut(const Call &call) {
  AxisView view(call.operand(0).dims(), call.integer("axis"));
  std::vector<int64_t> indices = readIndices(call.operand(1)), targets;
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t index : indices) {
      Position place = position(index, view.extent);
      targets.push_back(place.inRange ? (o * view.extent + place.index) * view.inner : -1);
    }
  runUpdates(call, targets, view.inner);
}

Refusal checkScatterAlong(const Shapes &shapes) {
  if (Refusal refusal = checkAlong(shapes))
    return refusal;
  return firstOf(shapes.expectOperand(2, shapes.dtype(0), shapes.dims(1)),
                 shapes.expect(shapes.dtype(0), shapes.dims(0)));
}
void runScatterAlong(const Call &call) {
  auto axis = static_cast<size_t>(call.integer("axis"));
  Shape strides = denseStrides(call.operand(0).dims());
  int64_t stride = strides[axis], extent = call.operand(0).dims()[axis];
  strides[axis] = 0;
  std::vector<int64_t> base = offsets(call.operand(1).dims(), strides), indices = readIndices(call.operand(1));
  for (size_t i = 0; i < base.size(); ++i) {
    Position place = position(indices[i], extent);
    base[i] = place.inRange ? base[i] + place.index * stride : -1;
  }
  runUpdates(call, base, 1);
}

Refusal checkScatterNd(const Shapes &shapes) {
  Shape updates;
  if (Refusal refusal = checkCoordinates(shapes, updates))
    return refusal;
  return firstOf(shapes.expectOperand(2, shapes.dtype(0), updates), shapes.expect(shapes.dtype(0), shapes.dims(0)));
}
void runScatterNd(const Call &call) {
  std::span<const int64_t> dims = call.operand(0).dims(), batch = call.operand(1).dims();
  auto depth = static_cast<size_t>(batch.back());
  int64_t slice = product(dims.subspan(depth));
  std::vector<int64_t> indices = readIndices(call.operand(1));
  std::vector<int64_t> targets(static_cast<size_t>(product(batch.first(batch.size() - 1))));
  for (size_t r = 0; r < targets.size(); ++r) {
    int64_t row = 0;
    bool inRange = true;
    for (size_t d = 0; d < depth; ++d) {
      Position place = position(indices[r * depth + d], dims[d]);
      inRange = inRange && place.inRange;
      row = row * dims[d] + place.index;
    }
    targets[r] = inRange ? row * slice : -1;
  }
  runUpdates(call, targets, slice);
}

Refusal checkSearchsorted(const Shapes &shapes) {
  std::span<const int64_t> sequence = shapes.dims(0), values = shapes.dims(1);
  bool fits = sequence.size() == 1 ||
              (!sequence.empty() && sequence.size() == values.size() &&
               std::ranges::equal(sequence.first(sequence.size() - 1), values.first(values.size() - 1)));
  if (!fits)
    return shapes.fail("the sequence " + typeString(shapes.type(0)) +
                       " has neither rank 1 nor the extents of the values " + typeString(shapes.type(1)));
  return firstOf(shapes.expectOperand(1, shapes.dtype(0), values), shapes.expect(MORTISE_I64, values));
}
void runSearchsorted(const Call &call) {
  bool right = call.integer("right") != 0, shared = call.operand(0).dims().size() == 1;
  int64_t extent = call.operand(0).dims().back(), columns = shared ? 1 : call.operand(1).dims().back();
  visitElement(call.operand(0).dtype(), [&](auto type) {
    using T = decltype(type);
    for (int64_t i = 0; i < call.result.count(); ++i) {
      const auto *row = call.operand(0).as<T>() + (shared ? 0 : i / columns * extent);
      auto value = T::load(call.operand(1).as<T>()[i]);
      call.result.as<I64>()[i] =
          std::partition_point(row, row + extent,
                               [&](auto stored) {
                                 auto element = T::load(stored);
                                 return right ? !isBelow(value, element) : isBelow(element, value);
                               }) -
          row;
    }
  });
}

} // namespace

std::span<const OpSpec> indexingOps() {
  static const std::vector<OpSpec> ops = {
      {Op::Take, checkTake, runTake},
      {Op::TakeAlong, checkTakeAlong, runTakeAlong},
      {Op::TakeNd, checkTakeNd, runTakeNd},
      {Op::Put, checkPut, runPut},
      {Op::ScatterAlong, checkScatterAlong, runScatterAlong},
      {Op::ScatterNd, checkScatterNd, runScatterNd},
      {Op::Searchsorted, checkSearchsorted, runSearchsorted},
      {Op::Embedding, checkEmbedding, runTake},
  };
  return ops;
}

} // namespace mortise::reference::inline MORTISE_ARITHMETIC
