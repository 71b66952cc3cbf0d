// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the handles of an isolated plugin point to in the host: devices, kernels and constants, which a worker that is
// started again makes anew, and the calls of a kernel.
#pragma once

#include "connection.hpp"
#include <mortise/portable/graph.hpp>

#include <map>
#include <memory>
#include <span>
#include <vector>

namespace mortise::runtime::isolation {

struct DeviceProxy {
  Connection *connection;
  uint32_t number;
  uint64_t alignment; // of tensors in the shared memory

  // The program that computes the bytes of a value of `type`, a type of the graph's, in a layout.
  Result<Sized> sizeIn(const MortiseGraph &graph, const MortiseType &type, uint32_t layout) const;
};

struct KernelProxy {
  const DeviceProxy *device;
  Compile request;
  std::shared_ptr<const Graph> graph;
  std::string identity; // lowering, graph without names and forms: the same in every compilation
  uint64_t number = 0, generation = 0;
  std::vector<Step> texts; // of `steps`
  std::vector<MortiseStep> steps;
  std::vector<const MortiseStep *> stepPointers;
  std::map<uint32_t, std::vector<MortiseExprStep>> sizes; // of values that lie in a layout

  static Result<std::unique_ptr<KernelProxy>> compile(const DeviceProxy &device, Compile request,
                                                      std::shared_ptr<const Graph> graph);
  Connection &connection() const { return *device->connection; }
  // A worker that was started again has no kernel of an earlier one.
  Result<void> ensure();
  Result<uint64_t> bytesOf(const MortiseValue &value, std::span<const int64_t> symbols) const;
};

struct ConstantsProxy {
  KernelProxy *kernel;
  std::vector<MortiseAddress> inputs; // stay valid as long as the constants, so that they can be bound again
  uint64_t number = 0, generation = 0, packedBytes = 0;

  Result<void> ensure();
  // Copies inputs into the shared memory and outputs out of it. Two buffers with one address stay one.
  Result<void> run(const MortiseEnqueueArgs &args);
};

} // namespace mortise::runtime::isolation
