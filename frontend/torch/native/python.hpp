// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared by the files of this extension: owned references, the objects that the Python side hands over, and errors.
#pragma once

#include "../../dlpack.hpp"
#include <Python.h>
#include <mortise/mortise.h>

#include <utility>

namespace mortise::torch_door {

class Ref { // owns one reference
public:
  Ref() = default;
  explicit Ref(PyObject *owned) : object(owned) {}
  Ref(Ref &&other) noexcept : object(std::exchange(other.object, nullptr)) {}
  Ref &operator=(Ref &&other) noexcept {
    std::swap(object, other.object);
    return *this;
  }
  ~Ref() { Py_XDECREF(object); }
  static Ref borrow(PyObject *borrowed) {
    Py_XINCREF(borrowed);
    return Ref(borrowed);
  }
  PyObject *get() const { return object; }
  PyObject *release() { return std::exchange(object, nullptr); }
  explicit operator bool() const { return object; }

private:
  PyObject *object = nullptr;
};

// Set once by `setup`, called from torch_mortise/_library.py. Valid until the process ends.
struct Helpers {
  PyObject *errorClass = nullptr;        // MortiseError(code, message)
  PyObject *tensorType = nullptr;        // torch.Tensor
  PyObject *versionDescriptor = nullptr; // of the attribute `_version`
  descrgetfunc readVersion = nullptr;
  PyObject *emptyStrided = nullptr;
  PyObject *asStrided = nullptr;        // (tensor, size, stride, offset from the tensor's own offset)
  PyObject *dense = nullptr;            // (tensor, size, stride) -> a copy with these strides
  PyObject *copyBack = nullptr;         // (tensor, copy)
  PyObject *incrementVersion = nullptr; // (tuple of tensors)
  PyObject *shared = nullptr;           // torch_mortise/donation.py: shared(arguments, positions)
  const dlpack::ExchangeApi *exchange = nullptr;
};
extern Helpers helpers;
struct Queues; // place.hpp
extern PyTypeObject *sessionType, *builderType, *programType;

struct SessionObject {
  PyObject_HEAD MortiseSession *session;
  Queues *queues;
};
struct BuilderObject {
  PyObject_HEAD MortiseBuilder *builder;
  PyObject *session;
  uint32_t values;        // the number of its values
  size_t inputs, outputs; // the numbers of those
};

// Sets a MortiseError and destroys `status`. Returns false, so that callers can return it.
bool raise(MortiseStatus *status);
bool raise(int32_t code, const char *format, ...) __attribute__((format(printf, 2, 3)));
inline bool check(MortiseStatus *status) { return !status || raise(status); }

PyObject *addSessionType(PyObject *module);
PyObject *addBuilderType(PyObject *module);
PyObject *addProgramType(PyObject *module);
PyObject *addEntryType(PyObject *module);
PyObject *addExtents(PyObject *module);
PyObject *addRepeats(PyObject *module);
PyObject *placeOf(PyObject *module, PyObject *tensor);
PyObject *versionsOf(PyObject *module, PyObject *tensors);
// Results, the number of an input with which it cannot run, or NULL with a Python error. `program`: a Program.
PyObject *runProgram(PyObject *program, PyObject *arguments);
PyObject *wrapProgram(MortiseProgram *program, PyObject *session);

template <typename T> T *as(PyObject *object) { return reinterpret_cast<T *>(object); }
template <typename F> void *slot(F *function) { return reinterpret_cast<void *>(function); }
// Runs `function` while other Python threads may run.
template <typename F> auto withoutGil(F function) {
  PyThreadState *state = PyEval_SaveThread();
  auto result = function();
  PyEval_RestoreThread(state);
  return result;
}

} // namespace mortise::torch_door
