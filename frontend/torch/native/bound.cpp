// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bound.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>

namespace mortise::torch_door {
namespace {

// Of libtorch_cpu. The first two are its stable C interface (torch/csrc/stable/c/shim.h and
// torch/csrc/inductor/aoti_torch/c/shim.h), whose handle is an at::Tensor *. That interface has no versions, so that
// the third is at::TensorBase::_version() const.
int32_t (*dataPointer)(void *handle, const void **address);
int32_t (*deleteHandle)(void *handle);
int64_t (*currentVersion)(const void *handle);
PyObject *handleMaker; // null while tensors are not read directly

template <typename F> bool find(void *library, const char *name, F &function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function;
}

// Whether the tensor behind the handle has this address and version.
bool isUnchanged(void *handle, const void *address, int64_t version) {
  const void *found = nullptr;
  if (dataPointer(handle, &found) != 0 || found != address)
    return false;
  try {
    return version < 0 || currentVersion(handle) == version;
  } catch (...) { // it has become a tensor without versions
    return false;
  }
}

bool isEmpty(const dlpack::Tensor &tensor) {
  return std::find(tensor.dims, tensor.dims + tensor.rank, 0) != tensor.dims + tensor.rank;
}

bool isContiguous(const dlpack::Tensor &tensor) {
  int64_t expected = 1;
  for (int32_t i = tensor.rank; i-- > 0; expected *= tensor.dims[i])
    if (tensor.dims[i] != 1 && tensor.strides[i] != expected)
      return false;
  return true;
}

size_t byteCount(const dlpack::Tensor &tensor) {
  int64_t count = tensor.dtype.bits / 8 * tensor.dtype.lanes;
  for (int32_t i = 0; i < tensor.rank; ++i)
    count *= tensor.dims[i];
  return static_cast<size_t>(count);
}

constexpr int32_t cpuType = 1; // kDLCPU

// The address of tensors without elements.
alignas(64) char emptyTensorAddress[64];

} // namespace

void BoundTensor::DeleteHandle::operator()(void *handle) const { deleteHandle(handle); }

BoundTensor::Handle BoundTensor::makeHandle(PyObject *tensor) {
  Ref capsule(PyObject_CallFunctionObjArgs(handleMaker, tensor, nullptr));
  return Handle(capsule ? PyCapsule_GetPointer(capsule.get(), nullptr) : nullptr);
}

bool BoundTensor::agreesWithPython(PyObject *probe) {
  dlpack::Tensor tensor;
  if (!readTensor(probe, tensor))
    return false;
  const Handle made = makeHandle(probe);
  if (!made)
    return false;
  auto *data = static_cast<char *>(torch_door::address(tensor));
  const int64_t before = readVersion(probe);
  if (!isUnchanged(made.get(), data, before) || isUnchanged(made.get(), data, before + 1) ||
      isUnchanged(made.get(), data + 1, before))
    return false;
  Ref done(PyObject_CallFunctionObjArgs(helpers.incrementVersion, probe, nullptr));
  return done && readVersion(probe) == before + 1 && isUnchanged(made.get(), data, before + 1);
}

bool BoundTensor::setup(PyObject *maker, PyObject *probe) {
  handleMaker = nullptr;
  if (maker == Py_None)
    return true;
  void *library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD); // never closed: its functions are kept
  if (!library || !find(library, "torch_get_const_data_ptr", dataPointer) ||
      !find(library, "aoti_torch_delete_tensor_object", deleteHandle) ||
      !find(library, "_ZNK2at10TensorBase8_versionEv", currentVersion))
    return true;
  handleMaker = Ref::borrow(maker).release();
  if (!agreesWithPython(probe))
    handleMaker = nullptr;
  return !PyErr_Occurred();
}

bool BoundTensor::readsDirectly() { return handleMaker; }

BoundTensor::BoundTensor(PyObject *tensor, void *address, int64_t version)
    : object(tensor), address(address), version(version) {
  if (handleMaker && address != emptyTensorAddress) // DLPack and the C interface differ for empty tensors
    handle = makeHandle(tensor);
  else
    reference = Ref::borrow(tensor);
  takeWord(tensor);
}

void BoundTensor::takeWord(PyObject *tensor) {
  dlpack::Tensor read;
  if (!readTensor(tensor, read) || read.device.type != cpuType || !isContiguous(read))
    return;
  const size_t bytes = byteCount(read);
  if (bytes < sizeof word)
    return;
  wordAt = static_cast<const char *>(address) + (bytes - sizeof word) / 2;
  std::memcpy(&word, wordAt, sizeof word);
}

bool BoundTensor::hasWord() const { return !wordAt || std::memcmp(wordAt, &word, sizeof word) == 0; }

bool BoundTensor::isSame(PyObject *tensor) const {
  if (handle && tensor == object)
    return isUnchanged(handle.get(), address, version) && hasWord();
  dlpack::Tensor read;
  return readTensor(tensor, read) && torch_door::address(read) == address &&
         (version < 0 || readVersion(tensor) == version) && hasWord();
}

int64_t readVersion(PyObject *tensor) {
  Ref version(helpers.readVersion(helpers.versionDescriptor, tensor, nullptr));
  if (!version) {
    PyErr_Clear();
    return -1;
  }
  return PyLong_AsLongLong(version.get());
}

bool readTensor(PyObject *object, dlpack::Tensor &tensor) {
  auto *type = reinterpret_cast<PyTypeObject *>(helpers.tensorType);
  if (Py_TYPE(object) != type && !PyType_IsSubtype(Py_TYPE(object), type)) {
    PyErr_Format(PyExc_TypeError, "expected a torch.Tensor, found %R", Py_TYPE(object));
    return false;
  }
  if (helpers.exchange->tensorFromObject(object, &tensor) != 0) {
    if (!PyErr_Occurred())
      raise(MORTISE_INVALID_ARGUMENT, "expected a strided tensor, found one that does not export its memory");
    return false;
  }
  if (!tensor.data && !isEmpty(tensor))
    return raise(MORTISE_INVALID_ARGUMENT, "expected a tensor with memory, found one whose memory was given back "
                                           "(untyped_storage().resize_(0)); give it memory before the call");
  return true;
}

void *address(const dlpack::Tensor &tensor) {
  auto *data = static_cast<char *>(tensor.data);
  return data ? data + tensor.byteOffset : emptyTensorAddress;
}

} // namespace mortise::torch_door
