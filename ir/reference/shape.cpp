// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "kernels.hpp"

#include <algorithm>
#include <cstring>

namespace mortise::reference::inline MORTISE_ARITHMETIC {
namespace {

void copyAll(const Call &call, const void *from) {
  size_t bytes = static_cast<size_t>(call.result.count()) * storageBytes(call.result.dtype());
  if (bytes)
    std::memcpy(call.result.data, from, bytes);
}

Refusal checkConstant(const Shapes &shapes) {
  const MortiseAttribute *value = findAttribute(shapes.node, "value");
  if (value->count != byteSize(*value->tensor_type))
    return shapes.fail("the literal's bytes do not fit its type " + typeString(*value->tensor_type));
  return shapes.expect(value->tensor_type->dtype, dims(*value->tensor_type));
}
void runConstant(const Call &call) {
  const auto *data = static_cast<const uint8_t *>(findAttribute(call.node, "value")->tensor_data);
  if (call.result.dtype() != MORTISE_I4)
    return copyAll(call, data);
  for (int64_t i = 0; i < call.result.count(); ++i)
    call.result.as<I4>()[i] = I4::store(data[i / 2] >> (i % 2 * 4));
}

Refusal checkIota(const Shapes &shapes) {
  int32_t dtype = dtypeFromName(stringAttribute(shapes.node, "dtype"));
  if (!dtype || dtype == MORTISE_I1)
    return shapes.fail("'" + std::string(stringAttribute(shapes.node, "dtype")) + "' is no dtype to count in");
  return firstOf(shapes.axis("axis", static_cast<int64_t>(shapes.integers("shape").size())),
                 shapes.expect(dtype, shapes.integers("shape")));
}
void runIota(const Call &call) {
  AxisView view(call.result.dims(), call.integer("axis"));
  visitElement(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    auto *to = call.result.as<T>();
    for (int64_t o = 0; o < view.outer; ++o)
      for (int64_t i = 0; i < view.extent; ++i)
        std::fill_n(to + (o * view.extent + i) * view.inner, view.inner, convertElement<T, I64>(i));
  });
}

Refusal checkExtents(const Shapes &shapes) {
  auto count = static_cast<int64_t>(shapes.integers("shape").size());
  return shapes.expect(MORTISE_I64, Shape{count});
}
void runExtents(const Call &call) { std::ranges::copy(call.integers("shape"), call.result.as<I64>()); }

Refusal checkReshape(const Shapes &shapes) {
  if (Refusal refusal = shapes.expect(shapes.dtype(0), shapes.integers("shape")))
    return refusal;
  if (product(shapes.dims(0)) != elementCount(shapes.result()))
    return shapes.fail("expected as many elements as " + typeString(shapes.type(0)) + " has, found " +
                       typeString(shapes.result()));
  return {};
}

Refusal checkTranspose(const Shapes &shapes) {
  std::span<const int64_t> permutation = shapes.integers("permutation");
  if (Refusal refusal = shapes.length("permutation", shapes.dims(0).size()))
    return refusal;
  Shape sorted(permutation.begin(), permutation.end()), expected;
  std::ranges::sort(sorted);
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != static_cast<int64_t>(i))
      return shapes.fail("'permutation' does not name each dimension once");
  for (int64_t from : permutation)
    expected.push_back(shapes.dims(0)[static_cast<size_t>(from)]);
  return shapes.expect(shapes.dtype(0), expected);
}
void runTranspose(const Call &call) {
  Shape dense = denseStrides(call.operand(0).dims()), strides;
  for (int64_t from : call.integers("permutation"))
    strides.push_back(dense[static_cast<size_t>(from)]);
  copyStrided(call, call.operand(0), 0, strides);
}

Refusal checkBroadcast(const Shapes &shapes) {
  std::span<const int64_t> shape = shapes.integers("shape"), axes = shapes.integers("axes");
  if (Refusal refusal = firstOf(shapes.length("axes", shapes.dims(0).size()),
                                shapes.ascendingAxes("axes", static_cast<int64_t>(shape.size())),
                                shapes.expect(shapes.dtype(0), shape)))
    return refusal;
  for (size_t i = 0; i < axes.size(); ++i)
    if (int64_t extent = shapes.dims(0)[i]; extent != 1 && extent != shape[static_cast<size_t>(axes[i])])
      return shapes.fail("extent " + std::to_string(extent) + " of operand dimension " + std::to_string(i) +
                         " is neither 1 nor the result's " + std::to_string(shape[static_cast<size_t>(axes[i])]));
  return {};
}
void runBroadcast(const Call &call) {
  Shape dense = denseStrides(call.operand(0).dims()), strides(call.result.dims().size());
  std::span<const int64_t> axes = call.integers("axes");
  for (size_t i = 0; i < axes.size(); ++i)
    strides[static_cast<size_t>(axes[i])] = call.operand(0).dims()[i] == 1 ? 0 : dense[i];
  copyStrided(call, call.operand(0), 0, strides);
}

Refusal checkSlice(const Shapes &shapes) {
  size_t rank = shapes.dims(0).size();
  if (Refusal refusal = firstOf(shapes.length("starts", rank), shapes.length("limits", rank),
                                shapes.length("strides", rank), shapes.atLeast("strides", 1)))
    return refusal;
  Shape expected;
  for (size_t i = 0; i < rank; ++i) {
    int64_t start = shapes.integers("starts")[i], limit = shapes.integers("limits")[i];
    if (start < 0 || start > limit || limit > shapes.dims(0)[i])
      return shapes.fail("expected 0 <= start <= limit <= " + std::to_string(shapes.dims(0)[i]) + " in dimension " +
                         std::to_string(i) + ", found " + std::to_string(start) + " and " + std::to_string(limit));
    int64_t step = shapes.integers("strides")[i];
    expected.push_back((limit - start) / step + ((limit - start) % step != 0));
  }
  return shapes.expect(shapes.dtype(0), expected);
}
void runSlice(const Call &call) {
  Shape strides = denseStrides(call.operand(0).dims());
  int64_t start = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    start += call.integers("starts")[i] * strides[i];
    if (call.result.dims()[i] > 1)
      strides[i] *= call.integers("strides")[i];
  }
  copyStrided(call, call.operand(0), start, strides);
}

Refusal checkConcatenate(const Shapes &shapes) {
  if (shapes.node.operand_count == 0)
    return shapes.fail("expected at least one operand, found none");
  if (Refusal refusal = shapes.axis("axis", shapes.rank(0)))
    return refusal;
  auto axis = static_cast<size_t>(shapes.integer("axis"));
  Shape expected(shapes.dims(0).begin(), shapes.dims(0).end());
  for (size_t i = 1; i < shapes.node.operand_count; ++i) {
    if (shapes.rank(i) != shapes.rank(0))
      return shapes.fail("operand " + std::to_string(i) + " has another rank than operand 0");
    Shape wanted(shapes.dims(0).begin(), shapes.dims(0).end());
    wanted[axis] = shapes.dims(i)[axis];
    if (Refusal refusal = shapes.expectOperand(i, shapes.dtype(0), wanted))
      return refusal;
    expected[axis] += wanted[axis];
  }
  return shapes.expect(shapes.dtype(0), expected);
}
void runConcatenate(const Call &call) {
  AxisView whole(call.result.dims(), call.integer("axis"));
  size_t unit = static_cast<size_t>(whole.inner) * storageBytes(call.result.dtype());
  size_t row = static_cast<size_t>(whole.extent) * unit, at = 0;
  for (const Tensor &operand : call.operands) {
    size_t part = static_cast<size_t>(AxisView(operand.dims(), call.integer("axis")).extent) * unit;
    for (size_t o = 0; part && o < static_cast<size_t>(whole.outer); ++o)
      std::memcpy(call.result.data + o * row + at, operand.data + o * part, part);
    at += part;
  }
}

Refusal checkPad(const Shapes &shapes) {
  size_t rank = shapes.dims(0).size();
  if (Refusal refusal =
          firstOf(shapes.expectOperand(1, shapes.dtype(0), {}), shapes.length("low", rank), shapes.length("high", rank),
                  shapes.length("interior", rank), shapes.atLeast("interior", 0)))
    return refusal;
  Shape expected;
  for (size_t i = 0; i < rank; ++i) {
    int64_t extent = shapes.dims(0)[i], between = 0, sum = 0;
    if (__builtin_mul_overflow(std::max<int64_t>(extent - 1, 0), shapes.integers("interior")[i], &between) ||
        __builtin_add_overflow(shapes.integers("low")[i], shapes.integers("high")[i], &sum) ||
        __builtin_add_overflow(sum, between, &sum) || __builtin_add_overflow(sum, extent, &sum) || sum < 0)
      return shapes.fail("the padding makes dimension " + std::to_string(i) + " negative or too large");
    expected.push_back(sum);
  }
  return shapes.expect(shapes.dtype(0), expected);
}
void runPad(const Call &call) {
  std::span<const int64_t> from = call.operand(0).dims(), to = call.result.dims();
  Shape toStrides = denseStrides(to);
  visitElement(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    auto *out = call.result.as<T>();
    std::fill_n(out, call.result.count(), *call.operand(1).as<T>());
    const auto *in = call.operand(0).as<T>();
    Shape index(from.size());
    for (int64_t n = call.operand(0).count(), i = 0; i < n; ++i) {
      int64_t target = 0;
      bool inside = true;
      for (size_t d = 0; d < from.size(); ++d) {
        int64_t place = call.integers("low")[d] + index[d] * (call.integers("interior")[d] + 1);
        inside &= place >= 0 && place < to[d];
        target += inside ? place * toStrides[d] : 0;
      }
      if (inside)
        out[target] = in[i];
      for (size_t d = from.size(); d > 0; --d) {
        if (++index[d - 1] < from[d - 1])
          break;
        index[d - 1] = 0;
      }
    }
  });
}

Refusal checkReverse(const Shapes &shapes) {
  return firstOf(shapes.ascendingAxes("axes", shapes.rank(0)), shapes.expect(shapes.dtype(0), shapes.dims(0)));
}
void runReverse(const Call &call) {
  Shape strides = denseStrides(call.operand(0).dims());
  int64_t start = 0;
  for (int64_t axis : call.integers("axes")) {
    int64_t &stride = strides[static_cast<size_t>(axis)];
    start += stride * (call.operand(0).dims()[static_cast<size_t>(axis)] - 1);
    stride = -stride;
  }
  copyStrided(call, call.operand(0), start, strides);
}

} // namespace

std::span<const OpSpec> shapeOps() {
  static const std::vector<OpSpec> ops = {
      {Op::Constant, checkConstant, runConstant},
      {Op::Iota, checkIota, runIota},
      {Op::Extents, checkExtents, runExtents},
      {Op::Reshape, checkReshape, [](const Call &call) { copyAll(call, call.operand(0).data); }},
      {Op::Transpose, checkTranspose, runTranspose},
      {Op::Broadcast, checkBroadcast, runBroadcast},
      {Op::Slice, checkSlice, runSlice},
      {Op::Concatenate, checkConcatenate, runConcatenate},
      {Op::Pad, checkPad, runPad},
      {Op::Reverse, checkReverse, runReverse},
  };
  return ops;
}

} // namespace mortise::reference::inline MORTISE_ARITHMETIC
