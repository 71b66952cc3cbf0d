// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "handles.hpp"

#include <mortise/graph.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace mortise::capi {
namespace {

constexpr int32_t maxRank = 64; // far beyond any op; refuses a garbage rank before its dims are read

Error tooSmall(const std::string &what, size_t found, size_t expected) {
  return invalid(what + ": expected a struct_size of at least " + std::to_string(expected) + ", found " +
                 std::to_string(found) + "; set it to sizeof the struct");
}

Result<void> checkAttribute(const MortiseAttribute &attribute, const std::string &what) {
  const bool array = attribute.kind == MORTISE_ATTRIBUTE_I64_ARRAY || attribute.kind == MORTISE_ATTRIBUTE_F64_ARRAY;
  if (attribute.kind < MORTISE_ATTRIBUTE_BOOL || attribute.kind > MORTISE_ATTRIBUTE_TENSOR)
    return invalid(what + ": kind " + std::to_string(attribute.kind) + " is not a MortiseAttributeKind");
  if (attribute.kind == MORTISE_ATTRIBUTE_STRING && !attribute.string)
    return invalid(what + ": expected a string, found NULL");
  const void *elements = attribute.kind == MORTISE_ATTRIBUTE_I64_ARRAY ? static_cast<const void *>(attribute.i64s)
                                                                       : static_cast<const void *>(attribute.f64s);
  if (array && attribute.count && !elements)
    return invalid(what + ": expected " + std::to_string(attribute.count) + " elements, found NULL");
  for (size_t i = 0; attribute.kind == MORTISE_ATTRIBUTE_I64_ARRAY && i < attribute.count; ++i)
    if (attribute.i64s[i] == MORTISE_DYNAMIC && (!attribute.exprs || !attribute.exprs[i].steps))
      return invalid(what + ": element " + std::to_string(i) + " is MORTISE_DYNAMIC without a program");
  if (attribute.kind != MORTISE_ATTRIBUTE_TENSOR)
    return {};
  if (Result<void> checked = checkType(attribute.tensor_type, what); !checked)
    return checked;
  if (!isStatic(*attribute.tensor_type))
    return invalid(what + ": a literal has a static shape");
  const size_t bytes = byteSize(*attribute.tensor_type);
  if (attribute.count != bytes || (bytes && !attribute.tensor_data))
    return invalid(what + ": expected " + std::to_string(bytes) + " bytes for " + typeString(*attribute.tensor_type) +
                   ", found " + (attribute.tensor_data || !bytes ? std::to_string(attribute.count) : "NULL"));
  return {};
}

} // namespace

Result<void> checkOptions(const MortiseOption *options, size_t count) {
  if (count && !options)
    return nullError("list of options");
  for (size_t i = 0; i < count; ++i)
    if (!options[i].key || !options[i].value)
      return invalid("option " + std::to_string(i) + ": expected a key and a value, found NULL");
  return {};
}

Result<void> checkType(const MortiseType *type, const std::string &what) {
  if (!type)
    return invalid(what + ": expected a type, found NULL");
  if (type->struct_size < sizeof(MortiseType))
    return tooSmall(what + ": MortiseType", type->struct_size, sizeof(MortiseType));
  if (!dtypeBits(type->dtype))
    return invalid(what + ": dtype " + std::to_string(type->dtype) + " is not a MortiseDType");
  if (type->rank < 0 || type->rank > maxRank)
    return invalid(what + ": expected a rank of 0 to " + std::to_string(maxRank) + ", found " +
                   std::to_string(type->rank));
  if (type->rank && !type->dims)
    return invalid(what + ": expected " + std::to_string(type->rank) + " extents, found NULL");
  uint64_t elements = 1;
  for (int32_t i = 0; i < type->rank; ++i) {
    const int64_t extent = type->dims[i];
    if (extent == MORTISE_DYNAMIC && type->dim_exprs && type->dim_exprs[i].steps)
      continue;
    if (extent < 0)
      return invalid(what + ": extent " + std::to_string(i) + " is " +
                     (extent == MORTISE_DYNAMIC ? "MORTISE_DYNAMIC without a program" : std::to_string(extent)));
    if (__builtin_mul_overflow(elements, static_cast<uint64_t>(extent), &elements) || elements > (uint64_t(1) << 48))
      return invalid(what + ": more elements than memory can hold");
  }
  return {};
}

Result<std::vector<MortiseAttribute>> readAttributes(const MortiseAttribute *const *attributes, size_t count) {
  constexpr size_t sizeOfOldest = offsetof(MortiseAttribute, exprs);
  if (count && !attributes)
    return nullError("list of attributes");
  std::vector<MortiseAttribute> copies(count);
  for (size_t i = 0; i < count; ++i) {
    std::string what = "attribute " + std::to_string(i);
    if (!attributes[i])
      return invalid(what + " is NULL");
    if (attributes[i]->struct_size < sizeOfOldest)
      return tooSmall(what, attributes[i]->struct_size, sizeOfOldest);
    std::memcpy(&copies[i], attributes[i], std::min(attributes[i]->struct_size, sizeof copies[i]));
    copies[i].struct_size = sizeof copies[i];
    if (!copies[i].name)
      return invalid(what + " has no name");
    what = std::string("attribute ") + copies[i].name;
    if (Result<void> checked = checkAttribute(copies[i], what); !checked)
      return checked.error();
  }
  return copies;
}

Result<runtime::Tensor> readTensor(const MortiseTensor &given, const std::string &name, const SessionState *session) {
  constexpr size_t sizeOfOldest = offsetof(MortiseTensor, device);
  if (given.struct_size < sizeOfOldest)
    return tooSmall(name + ": MortiseTensor", given.struct_size, sizeOfOldest);
  MortiseTensor tensor{};
  std::memcpy(&tensor, &given, std::min(given.struct_size, sizeof tensor));
  if (tensor.rank < 0 || tensor.rank > maxRank || (tensor.rank && !tensor.dims))
    return invalid(name + ": expected a rank of 0 to " + std::to_string(maxRank) + " and as many extents, found rank " +
                   std::to_string(tensor.rank) + (tensor.dims ? "" : " and NULL"));
  if (tensor.device && session && tensor.device->session != session)
    return invalid(name + ": expected a device of the program's session, found another session's '" +
                   tensor.device->device->name() + "'");
  return runtime::Tensor{tensor.data, tensor.dtype,   tensor.rank,
                         tensor.dims, tensor.strides, tensor.device ? tensor.device->device : nullptr};
}

Result<std::vector<runtime::Tensor>> readTensors(const MortiseTensor *const *tensors, size_t count, size_t expected,
                                                 const char *what, const SessionState &session) {
  if (count != expected)
    return invalid("expected " + std::to_string(expected) + " " + what + "s, found " + std::to_string(count));
  if (count && !tensors)
    return invalid(std::string("expected ") + std::to_string(count) + " " + what + "s, found NULL");
  std::vector<runtime::Tensor> result(count);
  for (size_t i = 0; i < count; ++i) {
    if (!tensors[i]) // a constant or an aliased output; the runtime refuses NULL elsewhere
      continue;
    Result<runtime::Tensor> tensor = readTensor(*tensors[i], std::string(what) + " " + std::to_string(i), &session);
    if (!tensor)
      return tensor.error();
    result[i] = *tensor;
  }
  return result;
}

Result<char *> copyString(const std::string &text) {
  char *copy = static_cast<char *>(std::malloc(text.size() + 1));
  if (!copy)
    return Error{MORTISE_OUT_OF_MEMORY, "out of memory"};
  text.copy(copy, text.size());
  copy[text.size()] = 0;
  return copy;
}

} // namespace mortise::capi
