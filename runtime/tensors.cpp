// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tensors.hpp"

#include "plan_check.hpp"
#include <mortise/views.hpp>

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

// "f32[2, 16]"; "f32[b, 2*s] = f32[2, 16] (b = 2, s = 8)" once the symbols have values.
std::string expectedText(const TensorSpec &spec) {
  if (spec.formulas.empty())
    return typeText(spec.dtype, spec.dims);
  std::string text = std::string(dtypeName(spec.dtype)) + "[";
  for (size_t i = 0; i < spec.dims.size(); ++i)
    text += (i ? ", " : "") + (spec.formulas[i].empty() ? std::to_string(spec.dims[i]) : spec.formulas[i]);
  return text + "]" + (spec.values.empty() ? "" : " = " + typeText(spec.dtype, spec.dims) + " (" + spec.values + ")");
}

// Says which extents of a symbolic shape differ, and from what.
std::string differenceText(const Tensor &tensor, const TensorSpec &spec) {
  std::string text;
  for (size_t i = 0; i < spec.formulas.size(); ++i)
    if (spec.dims[i] != MORTISE_DYNAMIC && tensor.dims[i] != spec.dims[i])
      text += (text.empty() ? ": dimension " : ", dimension ") + std::to_string(i) + " is " +
              std::to_string(tensor.dims[i]) + " and not " +
              (spec.formulas[i].empty() ? "" : spec.formulas[i] + " = ") + std::to_string(spec.dims[i]);
  return text;
}

// Copies along dimension `at` and all inner dimensions; strides of `source` are in bytes.
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
  const bool rankFits =
      tensor.rank >= 0 && static_cast<size_t>(tensor.rank) == spec.dims.size() && (tensor.rank == 0 || tensor.dims);
  if (tensor.dtype != spec.dtype)
    return wrong(spec, "expected " + expectedText(spec) + ", found " + found(tensor) + "; convert it to " +
                           dtypeName(spec.dtype) + ", or compile again for " + dtypeName(tensor.dtype));
  // Symbolic extents without values are checked when the symbols' values are known.
  const auto fits = [](int64_t expected, int64_t extent) { return expected == extent || expected == MORTISE_DYNAMIC; };
  if (!rankFits || !std::equal(spec.dims.begin(), spec.dims.end(), tensor.dims, fits))
    return wrong(spec, "expected " + expectedText(spec) + ", found " + found(tensor) +
                           (rankFits ? differenceText(tensor, spec) : "") +
                           "; pass a tensor of the expected shape, or compile again for this one");
  if (spec.dtype == MORTISE_I4 && !stridesAreDense(tensor, spec))
    return wrong(spec,
                 "expected a dense tensor, because i4 packs two elements to a byte, found strides; make it contiguous");
  return {};
}

Result<void> checkHome(const Tensor &tensor, const TensorSpec &spec) {
  if (tensor.device == spec.device || (tensor.device && spec.device && tensor.device->sharesMemory(*spec.device)))
    return {};
  const auto name = [](const Device *device) {
    return device && !device->inHostMemory() ? "the memory of device '" + device->name() + "'"
                                             : std::string("host memory");
  };
  if (name(tensor.device) == name(spec.device))
    return {};
  return wrong(spec, "expected a tensor in " + name(spec.device) + ", found one in " + name(tensor.device) +
                         "; copy it there, or compile again for where it lies");
}

Result<void> checkData(const Tensor &tensor, const TensorSpec &spec) {
  if (spec.bytes != 0 && tensor.data == nullptr)
    return wrong(spec, "expected " + std::to_string(spec.bytes) + " bytes of data, found NULL; set its data pointer");
  return {};
}

bool stridesAreDense(const Tensor &tensor, const TensorSpec &spec) {
  return tensor.strides == nullptr || mortise::isDense(spec.dims, {tensor.strides, spec.dims.size()});
}

bool isDense(const Tensor &tensor, const TensorSpec &spec) {
  return stridesAreDense(tensor, spec) && reinterpret_cast<uintptr_t>(tensor.data) % spec.alignment == 0;
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
