// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Tensors.h"

#include "PlanCheck.h"
#include <mortise/graph.hpp>

#include <algorithm>
#include <cstring>

namespace mortise::runtime {
namespace {

Error wrong(const TensorSpec &spec, const std::string &rest) {
  return {MORTISE_INVALID_ARGUMENT, spec.role + ": " + rest};
}

std::string found(const Tensor &tensor) {
  if (tensor.rank < 0 || tensor.rank > 64 || (tensor.rank > 0 && tensor.dims == nullptr))
    return std::string(dtypeName(tensor.dtype)) + " of rank " + std::to_string(tensor.rank) + " without extents";
  return typeText(tensor.dtype, {tensor.dims, static_cast<size_t>(tensor.rank)});
}

bool stridesAreDense(const Tensor &tensor, const TensorSpec &spec) {
  if (tensor.strides == nullptr || spec.bytes == 0)
    return true;
  int64_t expected = 1;
  for (size_t i = spec.dims.size(); i-- > 0;) {
    if (spec.dims[i] != 1 && tensor.strides[i] != expected)
      return false;
    expected *= spec.dims[i];
  }
  return true;
}

// Copies along dimension `at` and those within it; `source` in bytes.
std::byte *copyFrom(const std::byte *source, const Tensor &tensor, const TensorSpec &spec, size_t at,
                    std::byte *target) {
  const size_t element = spec.elementBytes;
  const int64_t count = spec.dims[at], stride = tensor.strides[at] * static_cast<int64_t>(element);
  if (at + 1 < spec.dims.size()) {
    for (int64_t i = 0; i < count; ++i)
      target = copyFrom(source + i * stride, tensor, spec, at + 1, target);
    return target;
  }
  if (tensor.strides[at] == 1) {
    std::memcpy(target, source, static_cast<size_t>(count) * element);
    return target + static_cast<size_t>(count) * element;
  }
  for (int64_t i = 0; i < count; ++i, target += element)
    std::memcpy(target, source + i * stride, element);
  return target;
}

} // namespace

Result<void> checkTensor(const Tensor &tensor, const TensorSpec &spec) {
  const bool shapeFits = tensor.rank >= 0 && static_cast<size_t>(tensor.rank) == spec.dims.size() &&
                         (tensor.rank == 0 || tensor.dims) &&
                         std::equal(spec.dims.begin(), spec.dims.end(), tensor.dims);
  if (tensor.dtype != spec.dtype)
    return wrong(spec, "expected " + typeText(spec.dtype, spec.dims) + ", found " + found(tensor) + "; convert it to " +
                           dtypeName(spec.dtype) + ", or compile again for " + dtypeName(tensor.dtype));
  if (!shapeFits)
    return wrong(spec, "expected " + typeText(spec.dtype, spec.dims) + ", found " + found(tensor) +
                           "; pass a tensor of the expected shape, or compile again for this one");
  if (spec.bytes != 0 && tensor.data == nullptr)
    return wrong(spec, "expected " + std::to_string(spec.bytes) + " bytes of data, found NULL; set its data pointer");
  if (spec.dtype == MORTISE_I4 && !stridesAreDense(tensor, spec))
    return wrong(spec,
                 "expected a dense tensor, because i4 packs two elements to a byte, found strides; make it contiguous");
  return {};
}

bool isDense(const Tensor &tensor, const TensorSpec &spec) {
  return stridesAreDense(tensor, spec) && reinterpret_cast<uintptr_t>(tensor.data) % spec.elementBytes == 0;
}

void copyDense(const Tensor &tensor, const TensorSpec &spec, std::byte *target) {
  if (spec.bytes == 0)
    return;
  if (stridesAreDense(tensor, spec))
    std::memcpy(target, tensor.data, spec.bytes);
  else
    copyFrom(static_cast<const std::byte *>(tensor.data), tensor, spec, 0, target);
}

bool overlaps(const void *a, uint64_t aBytes, const void *b, uint64_t bBytes) {
  const auto left = reinterpret_cast<uintptr_t>(a), right = reinterpret_cast<uintptr_t>(b);
  return aBytes != 0 && bBytes != 0 && left < right + bBytes && right < left + aBytes;
}

} // namespace mortise::runtime
