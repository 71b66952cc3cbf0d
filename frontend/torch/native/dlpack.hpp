// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of the DLPack 1.x binary interface that this extension reads: the description of a tensor, and the table
// that `torch.Tensor.__dlpack_c_exchange_api__` points to. Declared here so that the build does not need PyTorch.
#pragma once

#include <cstdint>

namespace mortise::torch_door::dlpack {

struct Version {
  uint32_t major, minor;
};
struct Device {
  int32_t type; // 1: ordinary host memory
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
struct ExchangeApi {
  Version version;
  ExchangeApi *previous;
  void *allocate, *managedFromObject, *managedToObject;
  int (*tensorFromObject)(void *object, Tensor *out); // borrows; 0 is success, else a Python error is set
  void *currentStream;
};

inline constexpr uint32_t majorVersion = 1;
inline constexpr int32_t hostDevice = 1;

} // namespace mortise::torch_door::dlpack
