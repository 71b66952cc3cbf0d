// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The vulkan plugin's slots, called without the runtime.
#pragma once

#include "../cpu/network.hpp"

#include <mortise/graph.hpp>
#include <mortise/plugin.hpp>

#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace mortise::test {

const MortisePlugin &vulkanPlugin();

template <typename Args> Result<void> call(MortiseStatus *(*slot)(Args *), Args &args) {
  args.struct_size = sizeof args;
  const Status status(slot(&args));
  return status.result();
}

// Starts the plugin with these options. The devices that it finds. Errors: MORTISE_NOT_FOUND, where there is none.
Result<std::span<const MortiseDeviceInfo *const>> start(const std::string &device,
                                                        const std::string &loader = "libvulkan.so.1",
                                                        const std::string &arithmetic = "known",
                                                        const std::string &subgroups = "on");

struct Failed : std::runtime_error {
  explicit Failed(const Error &error) : std::runtime_error(error.message), error(error) {}
  Error error;
};

// A stream of a device, and memory. Each function throws a status as Failed.
class Stream {
public:
  explicit Stream(MortiseDevice *device);
  ~Stream();
  Stream(const Stream &) = delete;
  MortiseAddress allocate(uint64_t bytes); // until the object goes
  void upload(MortiseAddress target, const void *source, uint64_t bytes);
  void download(void *target, MortiseAddress source, uint64_t bytes);
  void copy(MortiseAddress target, MortiseAddress source, uint64_t bytes);
  Result<void> wait();

  template <typename T> MortiseAddress put(const std::vector<T> &values) {
    const MortiseAddress address = allocate(values.size() * sizeof(T));
    upload(address, values.data(), values.size() * sizeof(T));
    return address;
  }
  template <typename T> std::vector<T> take(MortiseAddress address, size_t count) {
    std::vector<T> values(count);
    download(values.data(), address, count * sizeof(T));
    return values;
  }

  MortiseDevice *const device;
  MortiseStream *handle = nullptr;

private:
  std::vector<std::pair<MortiseAddress, uint64_t>> memory;
};

// A compiled region without symbols.
class Region {
public:
  Region(MortiseDevice *device, std::shared_ptr<const Graph> graph);
  ~Region();
  Region(const Region &) = delete;
  Result<void> enqueue(Stream &stream, std::vector<MortiseAddress> inputs, std::vector<MortiseAddress> outputs,
                       uint64_t *stepNs = nullptr) const;
  size_t steps = 0;

private:
  std::shared_ptr<const Graph> graph;
  MortiseKernel *kernel = nullptr;
  uint64_t workspaceBytes = 0;
};

} // namespace mortise::test
