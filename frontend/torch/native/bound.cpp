// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bound.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>

namespace mortise::torch_door {
namespace {

// Of libtorch_cpu. All but the last are its stable C interface (torch/csrc/stable/c/shim.h and
// torch/csrc/inductor/aoti_torch/c/shim.h), whose handle is an at::Tensor *. That interface has no versions, so that
// the last is at::TensorBase::_version() const.
int32_t (*dataPointer)(void *handle, const void **address);
int32_t (*rankOf)(void *handle, int64_t *rank);
int32_t (*sizesOf)(void *handle, int64_t **sizes);     // not owned by the caller
int32_t (*stridesOf)(void *handle, int64_t **strides); // not owned by the caller
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

// `layout`: sizes, then strides. Strides of dimensions of size 1 mean nothing.
bool hasLayout(const std::vector<int64_t> &layout, size_t rank, const int64_t *sizes, const int64_t *strides) {
  if (layout.size() != 2 * rank)
    return false;
  for (size_t i = 0; i < rank; ++i)
    if (sizes[i] != layout[i] || (sizes[i] != 1 && strides[i] != layout[rank + i]))
      return false;
  return true;
}

bool hasLayout(const std::vector<int64_t> &layout, void *handle) {
  int64_t rank = 0, *sizes = nullptr, *strides = nullptr;
  return rankOf(handle, &rank) == 0 && sizesOf(handle, &sizes) == 0 && stridesOf(handle, &strides) == 0 &&
         hasLayout(layout, static_cast<size_t>(rank), sizes, strides);
}

std::vector<int64_t> layoutOf(const dlpack::Tensor &tensor) {
  std::vector<int64_t> layout(tensor.dims, tensor.dims + tensor.rank);
  layout.insert(layout.end(), tensor.strides, tensor.strides + tensor.rank);
  return layout;
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
      isUnchanged(made.get(), data + 1, before) || !hasLayout(layoutOf(tensor), made.get()))
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
      !find(library, "aoti_torch_get_dim", rankOf) || !find(library, "aoti_torch_get_sizes", sizesOf) ||
      !find(library, "aoti_torch_get_strides", stridesOf) ||
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
  takeLayoutAndWord(tensor);
}

void BoundTensor::takeLayoutAndWord(PyObject *tensor) {
  dlpack::Tensor read;
  if (!readTensor(tensor, read))
    return;
  layout = layoutOf(read);
  if (read.device.type != cpuType || !isContiguous(read))
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
    return isUnchanged(handle.get(), address, version) && hasLayout(layout, handle.get()) && hasWord();
  dlpack::Tensor read;
  return readTensor(tensor, read) && torch_door::address(read) == address &&
         hasLayout(layout, static_cast<size_t>(read.rank), read.dims, read.strides) &&
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
