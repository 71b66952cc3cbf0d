// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "place.hpp"

namespace mortise::torch_door {

bool readPlace(PyObject *session, PyObject *object, Place &place) {
  place = {};
  if (object == Py_None)
    return true;
  return PyArg_ParseTuple(object, "ii:place", &place.name.type, &place.name.id) &&
         check(mortise_session_dlpack_device(as<SessionObject>(session)->session, place.name.type, place.name.id,
                                             &place.device));
}

MortiseQueue *currentQueue(PyObject *session, const Place &place) {
  void *native = nullptr;
  if (helpers.exchange->currentStream(place.name.type, place.name.id, &native) != 0) {
    if (!PyErr_Occurred())
      raise(MORTISE_UNSUPPORTED, "PyTorch gives no current stream for DLPack device type %d", place.name.type);
    return nullptr;
  }
  auto &queues = as<SessionObject>(session)->queues->all;
  const auto key = std::pair(place.device, native);
  if (const auto found = queues.find(key); found != queues.end())
    return found->second;
  MortiseQueue *queue = nullptr;
  if (!check(mortise_queue_import(place.device, reinterpret_cast<uintptr_t>(native), &queue)))
    return nullptr;
  return queues.emplace(key, queue).first->second;
}

} // namespace mortise::torch_door
