// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where tensors lie: in host memory, or on an installed device that PyTorch has, too. Calls on such a device are queued
// on PyTorch's current stream.
#pragma once

#include "python.hpp"

#include <map>
#include <utility>

namespace mortise::torch_door {

struct Place {
  dlpack::Device name{dlpack::hostDevice, 0};   // PyTorch's
  const MortiseSessionDevice *device = nullptr; // Mortise's; NULL: host memory

  bool holds(const dlpack::Tensor &tensor) const {
    return device ? tensor.device.type == name.type && tensor.device.id == name.id
                  : dlpack::isHostMemory(tensor.device.type);
  }
};

// The queues of a session that wrap streams of PyTorch, by device and native handle. PyTorch keeps the streams of its
// pools until the process ends; a stream of somebody else (an ExternalStream) has to live as long. Used with
// the GIL.
struct Queues {
  std::map<std::pair<const MortiseSessionDevice *, void *>, MortiseQueue *> all;

  Queues() = default;
  Queues(const Queues &) = delete;
  ~Queues() {
    for (const auto &[stream, queue] : all)
      mortise_queue_destroy(queue);
  }
};

// `object`: None for host memory, or (DLPack's type, DLPack's number). False with a Python error.
bool readPlace(PyObject *session, PyObject *object, Place &place);

// The queue that wraps PyTorch's current stream on a device; belongs to the session. NULL with a Python error.
MortiseQueue *currentQueue(PyObject *session, const Place &place);

} // namespace mortise::torch_door
