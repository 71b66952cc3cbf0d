// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors of tests, in the memory of a strict device and in the host's.
#pragma once

#include <mortise/runtime/device_memory.hpp>

#include <mortise/runtime/program.hpp>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace mortise::test {

[[noreturn]] void fail(const std::string &message); // ends the process: the test itself is faulty

const runtime::Device &deviceNamed(const std::string &name); // "strict:0"

// Throws std::runtime_error where a call of the test's own fails, which a fault may have been injected into.
template <typename T> T must(Result<T> result) {
  if (!result)
    throw std::runtime_error(result.error().message);
  if constexpr (!std::is_void_v<T>)
    return std::move(*result);
}

inline runtime::Place placeOf(std::vector<std::byte> &bytes) { return {nullptr, addressOf(bytes.data())}; }

inline runtime::Tensor hostTensor(std::vector<std::byte> &bytes, const MortiseType &type) {
  return {bytes.data(), type.dtype, type.rank, type.dims, nullptr};
}

// A tensor in device memory.
struct Resident {
  runtime::DeviceMemory memory;
  const MortiseType *type;
  const runtime::Device *device;

  Resident(const runtime::Device &device, const MortiseType &type)
      : memory(must(runtime::DeviceMemory::allocate(device, 0, byteSize(type)))), type(&type), device(&device) {}
  void write(std::vector<std::byte> &bytes) { must(copyNow(place(), placeOf(bytes), bytes.size())); }
  void read(std::vector<std::byte> &bytes, std::string &problem) const {
    if (auto copied = copyNow(placeOf(bytes), place(), bytes.size()); !copied && problem.empty())
      problem = "reading a result: " + copied.error().message;
  }
  runtime::Place place() const { return {device, memory.address()}; }
  runtime::Tensor tensor() const {
    return {pointer(memory.address()), type->dtype, type->rank, type->dims, nullptr, device};
  }
};

} // namespace mortise::test
