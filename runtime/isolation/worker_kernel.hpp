// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A compiled kernel in its plugin's own process, its constants, and the calls of both. The host is shown neither
// streams nor instances nor frames, and no memory of the device: what is needed of them is made here.
#pragma once

#include "../kernels.hpp"
#include "message.hpp"
#include "worker_device.hpp"

#include <map>

namespace mortise::runtime::isolation {

// Options as a plugin reads them. Refers to the message.
struct Options {
  std::vector<MortiseOption> options;
  std::vector<MortiseForm> forms;
  MortiseCompileOptions compile;
  explicit Options(const Work &work);
};

struct WorkerKernel {
  Compile request; // the plugin's kernel may keep pointers to its options
  WorkerDevice *device = nullptr;
  Kernel kernel;

  static Result<std::shared_ptr<WorkerKernel>> compile(const Compile &request, WorkerDevice &device);
};

class WorkerConstants {
public:
  // `shared`: where the message's ranges lie.
  static Result<std::unique_ptr<WorkerConstants>> bind(std::shared_ptr<WorkerKernel> kernel, const Bind &bind,
                                                       const std::byte *shared);
  ~WorkerConstants();
  Result<Enqueued> run(const Enqueue &asked, std::byte *shared);

  uint64_t packedBytes = 0; // held by the plugin

private:
  // What the plugin makes ready for calls with one set of symbol values.
  struct Prepared {
    MortiseInstance *instance = nullptr;
    MortiseFrame *frame = nullptr;
    uint64_t workspace = 0;
    size_t steps = 0;
    std::vector<MortiseAddress> last; // of the frame's last run: inputs, outputs, workspace
    std::vector<uint64_t> unchanged;  // as MortiseEnqueueArgs has it
  };
  using Values = std::vector<int64_t>;

  explicit WorkerConstants(std::shared_ptr<WorkerKernel> kernel) : of(std::move(kernel)) {}
  Result<Prepared *> prepare(const Values &symbols);
  Result<void> makeInstance(Prepared &prepared, const Values &symbols);
  Result<void> makeFrame(Prepared &prepared);
  void destroy(const Values &symbols, Prepared &prepared);
  Result<void> queue(const Enqueue &asked, std::byte *shared, Prepared &prepared, MortiseStream *stream,
                     std::vector<uint64_t> &stepNs);

  const std::shared_ptr<WorkerKernel> of;
  std::vector<WorkerConstant> inputs; // stay as long as the constants
  MortiseConstants *constants = nullptr;
  uint64_t workspace = 0;
  std::map<Values, Prepared> known;
};

} // namespace mortise::runtime::isolation
