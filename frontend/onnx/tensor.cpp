// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tensor.hpp"

#include "external.hpp"

#include <mortise/reference/formats.hpp>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

namespace mortise::onnx {

void refuse(MortiseCode code, std::string message) { throw Refusal{{code, std::move(message)}}; }
void unsupported(const std::string &reason, const std::string &detail) {
  refuse(MORTISE_UNSUPPORTED, reason + ": " + detail);
}
void corrupt(std::string message) { refuse(MORTISE_CORRUPT, std::move(message)); }

std::string contentOf(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::string content((std::istreambuf_iterator<char>(file)), {});
  if (!file.is_open() || file.bad())
    refuse(MORTISE_NOT_FOUND, path + ": expected a file that can be read");
  return content;
}

std::string typeName(int type) {
  return proto::TensorProto::DataType_IsValid(type)
             ? proto::TensorProto::DataType_Name(static_cast<proto::TensorProto::DataType>(type))
             : std::to_string(type);
}

int32_t dtypeOf(int type) {
  switch (type) {
  case proto::TensorProto::DOUBLE:
    return MORTISE_F64;
  case proto::TensorProto::FLOAT:
    return MORTISE_F32;
  case proto::TensorProto::FLOAT16:
    return MORTISE_F16;
  case proto::TensorProto::BFLOAT16:
    return MORTISE_BF16;
  case proto::TensorProto::FLOAT8E4M3FN:
    return MORTISE_F8E4M3FN;
  case proto::TensorProto::FLOAT8E5M2:
    return MORTISE_F8E5M2;
  case proto::TensorProto::INT64:
    return MORTISE_I64;
  case proto::TensorProto::INT32:
    return MORTISE_I32;
  case proto::TensorProto::INT16:
    return MORTISE_I16;
  case proto::TensorProto::INT8:
    return MORTISE_I8;
  case proto::TensorProto::INT4:
    return MORTISE_I4;
  case proto::TensorProto::UINT16:
    return MORTISE_UI16;
  case proto::TensorProto::UINT8:
    return MORTISE_UI8;
  case proto::TensorProto::BOOL:
    return MORTISE_I1;
  default:
    unsupported("element type", "the language has no " + typeName(type));
  }
}

int64_t countOf(const Dims &dims) {
  int64_t count = 1;
  for (const int64_t dim : dims)
    count *= dim;
  return count;
}

std::string text(const Dims &dims) {
  std::string made = "[";
  for (size_t i = 0; i < dims.size(); ++i)
    made += (i ? ", " : "") + std::to_string(dims[i]);
  return made + "]";
}

size_t checkedBytes(int32_t dtype, const Dims &dims, const std::string &what) {
  constexpr int64_t most = int64_t{1} << 40; // elements; below it no product of an extent and a size overflows
  int64_t count = 1;
  bool isEmpty = false;
  for (const int64_t dim : dims) {
    if (dim < 0)
      corrupt(what + ": expected extents of at least 0, found " + text(dims));
    isEmpty |= dim == 0;
    if (dim > most || (dim > 0 && count > most / dim))
      unsupported("size", what + ": expected at most 2^40 elements, found " + text(dims));
    count *= std::max<int64_t>(dim, 1);
  }
  return isEmpty ? 0 : (static_cast<size_t>(count) * dtypeBits(dtype) + 7) / 8;
}

namespace {

// Values of a field whose entries each hold one element, or for types of 4 bits one byte of two.
template <typename Storage, typename Field>
std::vector<std::byte> packed(const Field &field, size_t bytes, const std::string &what) {
  const auto count = static_cast<size_t>(field.size());
  if (count * sizeof(Storage) != bytes)
    corrupt(what + ": expected " + std::to_string(bytes / sizeof(Storage)) + " elements, found " +
            std::to_string(count));
  std::vector<std::byte> made(bytes);
  for (size_t i = 0; i < count; ++i) {
    const auto element = static_cast<Storage>(field[static_cast<int>(i)]);
    std::memcpy(made.data() + i * sizeof element, &element, sizeof element);
  }
  return made;
}

std::vector<std::byte> typed(const proto::TensorProto &from, int32_t dtype, size_t bytes, const std::string &what) {
  switch (dtype) {
  case MORTISE_F64:
    return packed<double>(from.double_data(), bytes, what);
  case MORTISE_F32:
    return packed<float>(from.float_data(), bytes, what);
  case MORTISE_I64:
    return packed<int64_t>(from.int64_data(), bytes, what);
  case MORTISE_I32:
    return packed<int32_t>(from.int32_data(), bytes, what);
  case MORTISE_F16:
  case MORTISE_BF16:
  case MORTISE_I16:
  case MORTISE_UI16:
    return packed<uint16_t>(from.int32_data(), bytes, what);
  default:
    return packed<uint8_t>(from.int32_data(), bytes, what);
  }
}

int64_t fitted(int64_t number) { return number; }
int64_t fitted(double number) { return static_cast<int64_t>(std::clamp(number, -0x1p63, 0x1.fffffffffffffp62)); }

template <typename Numbers> Tensor stored(const Numbers &numbers, Dims dims, int32_t dtype) {
  Tensor made{"", dtype, std::move(dims), {}};
  made.bytes.resize((numbers.size() * dtypeBits(dtype) + 7) / 8);
  reference::visitElement(dtype, [&](auto kind) {
    using Kind = decltype(kind);
    auto *to = reinterpret_cast<typename Kind::Storage *>(made.bytes.data());
    for (size_t i = 0; i < numbers.size(); ++i)
      if constexpr (Kind::isFloat)
        to[i] = Kind::store(static_cast<typename Kind::Compute>(numbers[i]));
      else
        to[i] = Kind::store(fitted(numbers[i]));
  });
  return made;
}

} // namespace

Tensor tensorFrom(const proto::TensorProto &from, const std::string &folder, const std::string &what) {
  Tensor made{from.name(), dtypeOf(from.data_type()), {from.dims().begin(), from.dims().end()}, {}};
  if (from.has_segment())
    unsupported("segments", what + ": tensors in segments");
  const size_t bytes = checkedBytes(made.dtype, made.dims, what);
  if (from.data_location() == proto::TensorProto::EXTERNAL) {
    made.bytes = readExternal(from, folder, bytes, what);
  } else if (from.has_raw_data()) {
    const std::string &raw = from.raw_data();
    if (raw.size() != bytes)
      corrupt(what + ": expected " + std::to_string(bytes) + " bytes for " + dtypeName(made.dtype) + text(made.dims) +
              ", found " + std::to_string(raw.size()));
    const auto *data = reinterpret_cast<const std::byte *>(raw.data());
    made.bytes.assign(data, data + raw.size());
  } else {
    made.bytes = typed(from, made.dtype, bytes, what);
  }
  if (isBool(made.dtype)) // any other byte than 0 is true; ours are 0 and 1
    for (std::byte &byte : made.bytes)
      byte = byte == std::byte{0} ? std::byte{0} : std::byte{1};
  return made;
}

std::vector<int64_t> integersOf(const Tensor &tensor) {
  std::vector<int64_t> made;
  for (const double number : dtypeBits(tensor.dtype) < 64 ? numbersOf(tensor) : std::vector<double>())
    made.push_back(static_cast<int64_t>(number));
  if (tensor.dtype == MORTISE_I64) { // whose numbers need not fit a double
    made.resize(tensor.bytes.size() / sizeof(int64_t));
    std::memcpy(made.data(), tensor.bytes.data(), tensor.bytes.size());
  }
  return made;
}

std::vector<double> numbersOf(const Tensor &tensor) {
  std::vector<double> made(static_cast<size_t>(countOf(tensor.dims)));
  if (tensor.dtype == MORTISE_I4) {
    for (size_t i = 0; i < made.size(); ++i) {
      const int nibble = static_cast<int>(tensor.bytes[i / 2] >> (i % 2 ? 4 : 0)) & 15;
      made[i] = nibble < 8 ? nibble : nibble - 16;
    }
    return made;
  }
  reference::visitElement(tensor.dtype, [&](auto kind) {
    using Kind = decltype(kind);
    const auto *at = reinterpret_cast<const typename Kind::Storage *>(tensor.bytes.data());
    for (size_t i = 0; i < made.size(); ++i)
      made[i] = static_cast<double>(Kind::load(at[i]));
  });
  return made;
}

Tensor tensorOf(std::span<const int64_t> numbers, Dims dims, int32_t dtype) {
  return stored(numbers, std::move(dims), dtype);
}
Tensor tensorOf(std::span<const double> numbers, Dims dims, int32_t dtype) {
  return stored(numbers, std::move(dims), dtype);
}

Result<Tensor> readTensor(const std::string &path) {
  try {
    proto::TensorProto message;
    const std::string content = contentOf(path);
    if (content.size() > INT32_MAX || !message.ParseFromArray(content.data(), static_cast<int>(content.size())))
      corrupt(path + ": expected a TensorProto");
    return tensorFrom(message, "", path);
  } catch (const Refusal &refused) {
    return refused.error;
  } catch (const std::exception &) {
    return Error{MORTISE_OUT_OF_MEMORY, path + ": there is too little memory to read it"};
  }
}

} // namespace mortise::onnx
