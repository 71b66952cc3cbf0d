// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tries the streams and events of a device: work is queued behind other work that takes long, so that what a plugin
// does too early, or reads too late, is seen in the results.
#pragma once

#include "stream.hpp"

#include <cstddef>
#include <string>

namespace mortise::tool {

using Tensors = std::vector<std::vector<std::byte>>; // dense

// A kernel of a device with streams, ready to be called, with inputs.
class QueuedKernel {
public:
  virtual ~QueuedKernel() = default;
  virtual const runtime::Device &device() const = 0;
  virtual const MortiseGraph &graph() const = 0; // static, and without constants
  virtual const Tensors &inputs() const = 0;
  virtual Result<Tensors> resultsOf(const Tensors &inputs) const = 0; // by the reference interpreter
  // What is wrong with results of inputs(), or "".
  virtual std::string differences(const Tensors &found) const = 0;
  virtual uint64_t workspaceBytes() const = 0;
  // As Launch::enqueue: a call in flight has a frame of its own.
  virtual Result<void> enqueue(Call &call, MortiseStream *stream) = 0;
};

// What is wrong, or "". What a correct plugin may do is never called wrong, however slow the machine. A fault is missed
// where the queues are faster than this thread.
std::string tryQueues(QueuedKernel &kernel);

} // namespace mortise::tool
