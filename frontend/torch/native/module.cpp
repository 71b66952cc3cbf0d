// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The module: the objects that Python hands over at import, errors, and the types.
#include "bound.hpp"

#include <cstdarg>
#include <cstdio>

namespace mortise::torch_door {

Helpers helpers;
PyTypeObject *sessionType, *builderType, *programType;

static void raiseNew(int32_t code, const char *message) {
  Ref error(PyObject_CallFunction(helpers.errorClass, "is", code, message));
  if (error)
    PyErr_SetObject(helpers.errorClass, error.get());
}

bool raise(MortiseStatus *status) {
  raiseNew(mortise_status_code(status), mortise_status_message(status));
  mortise_status_destroy(status);
  return false;
}

bool raise(int32_t code, const char *format, ...) {
  char message[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  raiseNew(code, message);
  return false;
}

static bool readExchange(PyObject *capsule) {
  auto *api = static_cast<const dlpack::ExchangeApi *>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
  if (!api)
    return false;
  while (api && api->version.major != dlpack::majorVersion)
    api = api->previous;
  if (!api || !api->tensorFromObject || !api->currentStream)
    return raise(MORTISE_VERSION_MISMATCH,
                 "expected a PyTorch with the DLPack exchange interface of major version %u, found another; install "
                 "torch 2.13 or newer",
                 dlpack::majorVersion);
  helpers.exchange = api;
  return true;
}

static PyObject *setup(PyObject *, PyObject *arguments) {
  PyObject *capsule, *makeHandle, *probe;
  PyObject **objects[] = {&helpers.errorClass,   &helpers.tensorType,       &helpers.versionDescriptor,
                          &helpers.emptyStrided, &helpers.asStrided,        &helpers.dense,
                          &helpers.copyBack,     &helpers.incrementVersion, &helpers.shared};
  if (!PyArg_ParseTuple(arguments, "OOOOOOOOOOOO:setup", &capsule, objects[0], objects[1], objects[2], objects[3],
                        objects[4], objects[5], objects[6], objects[7], objects[8], &makeHandle, &probe))
    return nullptr;
  for (PyObject **object : objects)
    Py_INCREF(*object);
  helpers.readVersion =
      reinterpret_cast<descrgetfunc>(PyType_GetSlot(Py_TYPE(helpers.versionDescriptor), Py_tp_descr_get));
  if (!helpers.readVersion) {
    raise(MORTISE_INTERNAL, "expected torch.Tensor._version to be a descriptor");
    return nullptr;
  }
  if (!readExchange(capsule) || !BoundTensor::setup(makeHandle, probe))
    return nullptr;
  Py_RETURN_NONE;
}

static PyObject *readsDirectly(PyObject *, PyObject *) { return PyBool_FromLong(BoundTensor::readsDirectly()); }

static PyMethodDef functions[] = {
    {"setup", setup, METH_VARARGS, "Hands over what the extension needs of PyTorch and of the package."},
    {"reads_directly", readsDirectly, METH_NOARGS, "Whether bound tensors are read by PyTorch's C functions."},
    {"place_of", placeOf, METH_O, "place_of(tensor) -> (DLPack's type, DLPack's number) of the device that holds it"},
    {"versions", versionsOf, METH_O, "versions(tensors) -> their versions, as Program.run compares them"},
    {}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_native", "libmortise for torch_mortise.", -1, functions};

} // namespace mortise::torch_door

PyMODINIT_FUNC PyInit__native() {
  using namespace mortise::torch_door;
  Ref module(PyModule_Create(&definition));
  if (!module || !addSessionType(module.get()) || !addBuilderType(module.get()) || !addProgramType(module.get()) ||
      !addEntryType(module.get()) || !addExtents(module.get()) || !addRepeats(module.get()))
    return nullptr;
  return module.release();
}
