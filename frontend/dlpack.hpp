// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The DLPack 1.x binary interface, as far as the frontends use it: the description of a tensor, a tensor that is handed
// over, and the table that `torch.Tensor.__dlpack_c_exchange_api__` points to. Declared here so that the build needs
// neither PyTorch nor a package of DLPack, of which Debian's is older.
#pragma once

#include <mortise/dtypes.h>

#include <cstdint>
#include <optional>

namespace mortise::dlpack {

struct Version {
  uint32_t major, minor;
};
struct Device {
  int32_t type;
  int32_t id;
};
struct DataType {
  uint8_t code; // 0 signed, 1 unsigned, 2 float, 4 bfloat, 6 bool, 10 f8e4m3fn, 12 f8e5m2
  uint8_t bits;
  uint16_t lanes;
};
struct Tensor {
  void *data;
  Device device;
  int32_t rank;
  DataType dtype;
  int64_t *dims;
  int64_t *strides; // in elements
  uint64_t byteOffset;
};
struct ManagedTensor { // DLManagedTensorVersioned
  Version version;
  void *context;
  void (*deleter)(ManagedTensor *self); // may be NULL
  uint64_t flags;
  Tensor tensor;
};
struct ExchangeApi {
  Version version;
  ExchangeApi *previous;
  void *allocate, *managedFromObject, *managedToObject;
  int (*tensorFromObject)(void *object, Tensor *out); // borrows; 0 is success, else a Python error is set
  int (*currentStream)(int32_t deviceType, int32_t device, void **out); // the native handle; 0 is success
};

inline constexpr uint32_t majorVersion = 1, minorVersion = 0;
inline constexpr uint64_t readOnly = 1; // in `flags`
inline constexpr int32_t hostDevice = 1;
// Memory that the host reads and writes: ordinary, or pinned for a device.
inline bool isHostMemory(int32_t type) { return type == hostDevice || type == 3 || type == 11; }

// nullopt where DLPack has no such type, or we have none.
inline std::optional<DataType> dataTypeOf(int32_t dtype) {
  const MortiseDTypeInfo *info = mortise_dtype_info(dtype);
  if (!info || info->dlpack < 0)
    return std::nullopt;
  return DataType{static_cast<uint8_t>(info->dlpack), static_cast<uint8_t>(mortise_dtype_bits(dtype)), 1};
}
inline std::optional<int32_t> dtypeOf(const DataType &type) {
  for (int32_t dtype = 1; dtype <= MORTISE_DTYPE_COUNT; ++dtype)
    if (const auto known = dataTypeOf(dtype);
        known && known->code == type.code && known->bits == type.bits && type.lanes == 1)
      return dtype;
  return std::nullopt;
}

} // namespace mortise::dlpack
