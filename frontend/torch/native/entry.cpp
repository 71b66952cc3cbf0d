// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Entry: what PyTorch calls for a compiled graph: Dynamo with the arguments, or AOTAutograd's wrapper with one list of
// them. While one program serves every call of the graph, a call reaches it without a Python frame. Dynamo's guards
// have filled the processor's caches by then, so that a frame costs several times what it costs in a loop (`./dev
// figure call-overhead`).
#include "python.hpp"

#include <structmember.h>

#include <cstddef>

namespace mortise::torch_door {
namespace {

PyTypeObject *entryType;

struct EntryObject {
  PyObject_HEAD PyObject *program; // a signature that served the last call, or NULL
  PyObject *call, *fail;           // torch_mortise/graph.py: CompiledGraph.call and CompiledGraph.fail
  PyObject *collecting;            // a list: while it has elements, calls are measured
  PyObject *profiler;              // the names of torch.autograd.profiler: while it records, calls are recorded
  PyObject *dictionary;            // PyTorch's wrappers copy it, with `_boxed_call`, and read the name at each call
};

PyObject *isProfilerEnabled; // the name of a bool in `profiler`

bool isProfiled(const EntryObject *entry) {
  return PyDict_GetItemWithError(entry->profiler, isProfilerEnabled) == Py_True;
}

// Entry(call, fail, collecting, profiler)
PyObject *makeEntry(PyTypeObject *type, PyObject *arguments, PyObject *) {
  PyObject *call, *fail, *collecting, *profiler;
  if (!PyArg_ParseTuple(arguments, "OOO!O!:Entry", &call, &fail, &PyList_Type, &collecting, &PyDict_Type, &profiler))
    return nullptr;
  Ref dictionary(Py_BuildValue("{s:O,s:s}", "_boxed_call", Py_True, "__name__", "mortise_graph"));
  PyObject *self = dictionary ? reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc))(type, 0) : nullptr;
  if (!self)
    return nullptr;
  auto *entry = as<EntryObject>(self);
  entry->call = Ref::borrow(call).release();
  entry->fail = Ref::borrow(fail).release();
  entry->collecting = Ref::borrow(collecting).release();
  entry->profiler = Ref::borrow(profiler).release();
  entry->dictionary = dictionary.release();
  return self;
}

// What the graph makes of the error that is set: results, if the call can be repeated without what failed.
PyObject *afterError(PyObject *self, PyObject *list) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  const Ref ownType(type), ownValue(value), ownTraceback(traceback);
  if (traceback && PyException_SetTraceback(value, traceback))
    return nullptr;
  return PyObject_CallFunctionObjArgs(as<EntryObject>(self)->fail, self, list, value, nullptr);
}

// The list that is the only argument, or a new one of all arguments: no argument of a graph is a list.
Ref asList(PyObject *arguments) {
  PyObject *first = PyTuple_Size(arguments) == 1 ? PyTuple_GetItem(arguments, 0) : nullptr;
  return first && PyList_Check(first) ? Ref::borrow(first) : Ref(PySequence_List(arguments));
}

PyObject *callEntry(PyObject *self, PyObject *arguments, PyObject *) {
  auto *entry = as<EntryObject>(self);
  const Ref owned = asList(arguments);
  PyObject *list = owned.get();
  if (!list)
    return nullptr;
  if (entry->program && !PyList_Size(entry->collecting) && !isProfiled(entry)) {
    const Ref program = Ref::borrow(entry->program); // another thread may set another one
    Ref results(runProgram(program.get(), list));
    if (!results)
      return afterError(self, list);
    if (PyList_Check(results.get())) // otherwise the number of an input with which the program cannot run
      return results.release();
  }
  return PyObject_CallFunctionObjArgs(entry->call, self, list, nullptr);
}

PyObject *getProgram(PyObject *self, void *) {
  PyObject *program = as<EntryObject>(self)->program;
  return Ref::borrow(program ? program : Py_None).release();
}

int setProgram(PyObject *self, PyObject *value, void *) {
  const bool none = !value || value == Py_None;
  if (!none && Py_TYPE(value) != programType) {
    PyErr_Format(PyExc_TypeError, "expected a Program or None, found %R", Py_TYPE(value));
    return -1;
  }
  const Ref old(std::exchange(as<EntryObject>(self)->program, none ? nullptr : Ref::borrow(value).release()));
  return 0;
}

void deallocateEntry(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  auto *entry = as<EntryObject>(self);
  for (PyObject *owned :
       {entry->program, entry->call, entry->fail, entry->collecting, entry->profiler, entry->dictionary})
    Py_XDECREF(owned);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyGetSetDef attributes[] = {{"program", getProgram, setProgram, "The Program that calls try first, or None.", nullptr},
                            {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
                            {}};
PyMemberDef members[] = {{"__dictoffset__", T_PYSSIZET, offsetof(EntryObject, dictionary), READONLY, nullptr}, {}};
PyType_Slot slots[] = {{Py_tp_new, slot(makeEntry)},  {Py_tp_dealloc, slot(deallocateEntry)},
                       {Py_tp_call, slot(callEntry)}, {Py_tp_getset, attributes},
                       {Py_tp_members, members},      {}};
PyType_Spec spec = {"torch_mortise._native.Entry", sizeof(EntryObject), 0, Py_TPFLAGS_DEFAULT, slots};

} // namespace

PyObject *addEntryType(PyObject *module) {
  isProfilerEnabled = PyUnicode_InternFromString("_is_profiler_enabled");
  entryType = isProfilerEnabled ? reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&spec)) : nullptr;
  return entryType && PyModule_AddObjectRef(module, "Entry", reinterpret_cast<PyObject *>(entryType)) == 0 ? module
                                                                                                           : nullptr;
}

} // namespace mortise::torch_door
