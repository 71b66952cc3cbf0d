// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Kernels.h"

#include <cstring>

namespace mortise::reference {
namespace {

constexpr int32_t number = MORTISE_ATTRIBUTE_I64;

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

// Reads clamp, so that something has to be there.
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
void runTake(const Call &call) { // an embedding has no axis: 0
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

Refusal checkTakeAlong(const Shapes &shapes) {
  if (Refusal refusal = firstOf(shapes.axis("axis", shapes.rank(0)), indexOperand(shapes, 1)))
    return refusal;
  if (shapes.rank(1) != shapes.rank(0))
    return shapes.fail("expected indices of rank " + std::to_string(shapes.rank(0)) + ", found " +
                           typeString(shapes.type(1)),
                       MORTISE_REASON_RANK);
  auto axis = static_cast<size_t>(shapes.integer("axis"));
  for (size_t i = 0; i < shapes.dims(0).size(); ++i)
    if (i != axis && shapes.dims(1)[i] > shapes.dims(0)[i])
      return shapes.fail("indices " + typeString(shapes.type(1)) + " reach beyond the operand " +
                         typeString(shapes.type(0)) + " in dimension " + std::to_string(i));
  return firstOf(shapes.expect(shapes.dtype(0), shapes.dims(1)), notEmpty(shapes, shapes.dims(0)[axis]));
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

Refusal checkTakeNd(const Shapes &shapes) {
  if (Refusal refusal = indexOperand(shapes, 1))
    return refusal;
  if (shapes.rank(1) < 1 || shapes.dims(1).back() > shapes.rank(0))
    return shapes.fail("expected indices whose last extent is at most the operand's rank " +
                       std::to_string(shapes.rank(0)) + ", found " + typeString(shapes.type(1)));
  size_t depth = static_cast<size_t>(shapes.dims(1).back());
  Shape expected(shapes.dims(1).begin(), shapes.dims(1).end() - 1);
  expected.insert(expected.end(), shapes.dims(0).begin() + static_cast<ptrdiff_t>(depth), shapes.dims(0).end());
  if (Refusal refusal = shapes.expect(shapes.dtype(0), expected))
    return refusal;
  for (size_t i = 0; i < depth; ++i)
    if (Refusal refusal = notEmpty(shapes, shapes.dims(0)[i]))
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
  std::string_view mode = stringAttribute(shapes.node, "mode");
  if (mode != "set" && mode != "add")
    return shapes.fail("expected mode set or add, found '" + std::string(mode) + "'");
  if (Refusal refusal = firstOf(shapes.axis("axis", shapes.rank(0)), indexOperand(shapes, 1)))
    return refusal;
  if (shapes.rank(1) != 1)
    return shapes.fail("expected indices of rank 1, found " + typeString(shapes.type(1)), MORTISE_REASON_RANK);
  Shape updates(shapes.dims(0).begin(), shapes.dims(0).end());
  updates[static_cast<size_t>(shapes.integer("axis"))] = shapes.dims(1)[0];
  return firstOf(shapes.expectOperand(2, shapes.dtype(0), updates), shapes.expect(shapes.dtype(0), shapes.dims(0)));
}
// body(result element, update element) for each update in order; those out of range are dropped.
template <typename Body> void forUpdates(const Call &call, Body body) {
  AxisView view(call.operand(0).dims(), call.integer("axis"));
  std::vector<int64_t> indices = readIndices(call.operand(1));
  auto count = static_cast<int64_t>(indices.size());
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t k = 0; k < count; ++k) {
      Position place = position(indices[static_cast<size_t>(k)], view.extent);
      if (!place.inRange)
        continue;
      for (int64_t i = 0; i < view.inner; ++i)
        body((o * view.extent + place.index) * view.inner + i, (o * count + k) * view.inner + i);
    }
}
void runPut(const Call &call) {
  visitElement(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    const auto *operand = call.operand(0).as<T>(), *updates = call.operand(2).as<T>();
    auto *to = call.result.as<T>();
    auto count = static_cast<size_t>(call.result.count());
    if (stringAttribute(call.node, "mode") == "set") {
      if (count)
        std::memmove(to, operand, count * sizeof(*to));
      forUpdates(call, [&](int64_t target, int64_t source) { to[target] = updates[source]; });
      return;
    }
    std::vector<typename T::Compute> sums(count);
    for (size_t i = 0; i < count; ++i)
      sums[i] = T::load(operand[i]);
    forUpdates(call, [&](int64_t target, int64_t source) {
      auto &sum = sums[static_cast<size_t>(target)];
      sum = plus(sum, T::load(updates[source]));
    });
    for (size_t i = 0; i < count; ++i)
      to[i] = T::store(sums[i]);
  });
}

} // namespace

std::span<const OpSpec> indexingOps() {
  static const std::vector<OpSpec> ops = {
      {"take", 2, 2, 0, DTypes::any, {{"axis", number}}, checkTake, runTake},
      {"take_along", 2, 2, 0, DTypes::any, {{"axis", number}}, checkTakeAlong, runTakeAlong},
      {"take_nd", 2, 2, 0, DTypes::any, {}, checkTakeNd, runTakeNd},
      {"put", 3, 3, 0, DTypes::any, {{"axis", number}, {"mode", MORTISE_ATTRIBUTE_STRING}}, checkPut, runPut},
      {"embedding", 2, 2, 0, DTypes::any, {}, checkEmbedding, runTake},
  };
  return ops;
}

} // namespace mortise::reference
