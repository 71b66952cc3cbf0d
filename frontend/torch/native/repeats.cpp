// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares FX nodes for torch_mortise/repeats.py, in C++ because a network of many layers has thousands of nodes.
#include "python.hpp"

#include <bit>

namespace mortise::torch_door {
namespace {

enum class Answer { Yes, No, Failed };

// Compares the nodes of one copy of a layer with the nodes of another copy.
class Comparison {
public:
  Comparison(PyObject *index, PyTypeObject *nodeType, PyObject *same, Py_ssize_t modelBase, Py_ssize_t base,
             PyObject *outside)
      : index(index), nodeType(nodeType), same(same), modelBase(modelBase), base(base), outside(outside) {}

  Answer nodes(PyObject *model, PyObject *other) {
    for (const char *name : {"target", "_args", "_kwargs"}) {
      Ref a(PyObject_GetAttrString(model, name)), b(PyObject_GetAttrString(other, name));
      if (!a || !b)
        return Answer::Failed;
      const Answer answer =
          name[0] == 't' ? (a.get() == b.get() ? Answer::Yes : Answer::No) : arguments(a.get(), b.get());
      if (answer != Answer::Yes)
        return answer;
    }
    return Answer::Yes;
  }

private:
  Answer arguments(PyObject *a, PyObject *b) {
    if (Py_TYPE(a) != Py_TYPE(b))
      return Answer::No;
    if (Py_TYPE(a) == nodeType)
      return readNode(a, b);
    if (a == Py_None || PyBool_Check(a))
      return a == b ? Answer::Yes : Answer::No;
    if (PyTuple_Check(a) || PyList_Check(a))
      return sequences(a, b);
    if (PyDict_Check(a))
      return dictionaries(a, b);
    if (PyFloat_Check(a)) { // compared by bits, because 0.0 and -0.0 differ
      const double x = PyFloat_AsDouble(a), y = PyFloat_AsDouble(b);
      return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y) ? Answer::Yes : Answer::No;
    }
    if (PyLong_Check(a) || PyUnicode_Check(a))
      return fromC(PyObject_RichCompareBool(a, b, Py_EQ));
    if (a == b)
      return Answer::Yes;
    Ref answer(PyObject_CallFunctionObjArgs(same, a, b, nullptr));
    return answer ? fromC(PyObject_IsTrue(answer.get())) : Answer::Failed;
  }

  Answer sequences(PyObject *a, PyObject *b) {
    const Py_ssize_t count = PySequence_Size(a);
    if (PySequence_Size(b) != count)
      return Answer::No;
    for (Py_ssize_t i = 0; i < count; ++i) {
      Ref x(PySequence_GetItem(a, i)), y(PySequence_GetItem(b, i));
      if (!x || !y)
        return Answer::Failed;
      if (const Answer answer = arguments(x.get(), y.get()); answer != Answer::Yes)
        return answer;
    }
    return Answer::Yes;
  }

  // Keywords must be in the same order, as they are in a graph of equal layers.
  Answer dictionaries(PyObject *a, PyObject *b) {
    PyObject *keyA, *keyB, *x, *y;
    Py_ssize_t atA = 0, atB = 0;
    if (PyDict_Size(a) != PyDict_Size(b))
      return Answer::No;
    while (PyDict_Next(a, &atA, &keyA, &x) && PyDict_Next(b, &atB, &keyB, &y)) {
      if (const Answer answer = fromC(PyObject_RichCompareBool(keyA, keyB, Py_EQ)); answer != Answer::Yes)
        return answer;
      if (const Answer answer = arguments(x, y); answer != Answer::Yes)
        return answer;
    }
    return Answer::Yes;
  }

  // Both nodes must be at the same position in their copies, or both outside.
  Answer readNode(PyObject *a, PyObject *b) {
    const Py_ssize_t x = place(a) - modelBase, y = place(b) - base;
    if (PyErr_Occurred())
      return Answer::Failed;
    if (x >= 0 || y >= 0)
      return x == y ? Answer::Yes : Answer::No;
    return PyList_Append(outside, b) == 0 ? Answer::Yes : Answer::Failed;
  }
  Py_ssize_t place(PyObject *node) const {
    PyObject *found = PyDict_GetItemWithError(index, node);
    return found ? PyLong_AsSsize_t(found) : -1;
  }

  static Answer fromC(int answer) { return answer < 0 ? Answer::Failed : answer ? Answer::Yes : Answer::No; }

  PyObject *index; // node -> its number among the region's nodes
  PyTypeObject *nodeType;
  PyObject *same; // compares values of other types
  Py_ssize_t modelBase, base;
  PyObject *outside;
};

// alike(nodes, index, node type, same, model, start, period): the nodes before `start` that the `period` nodes from
// `start` on read, in the order of reading; None if those nodes are not like the ones from `model` on.
PyObject *alike(PyObject *, PyObject *arguments) {
  PyObject *nodes, *index, *nodeType, *same;
  Py_ssize_t model, start, period;
  if (!PyArg_ParseTuple(arguments, "O!O!OOnnn:alike", &PyList_Type, &nodes, &PyDict_Type, &index, &nodeType, &same,
                        &model, &start, &period))
    return nullptr;
  const Py_ssize_t count = PyList_Size(nodes);
  if (!PyType_Check(nodeType) || model < 0 || start < 0 || period < 0 || period > count || model > count - period ||
      start > count - period) {
    PyErr_SetString(PyExc_ValueError, "alike: expected a type and two parts of the list");
    return nullptr;
  }
  Ref outside(PyList_New(0));
  if (!outside)
    return nullptr;
  Comparison comparison(index, as<PyTypeObject>(nodeType), same, model, start, outside.get());
  for (Py_ssize_t i = 0; i < period; ++i)
    switch (comparison.nodes(PyList_GetItem(nodes, model + i), PyList_GetItem(nodes, start + i))) {
    case Answer::Failed:
      return nullptr;
    case Answer::No:
      Py_RETURN_NONE;
    case Answer::Yes:
      break;
    }
  return outside.release();
}

} // namespace

PyObject *addRepeats(PyObject *module) {
  static PyMethodDef functions[] = {
      {"alike", alike, METH_VARARGS,
       "alike(nodes, index, node type, same, model, start, period) -> nodes read from outside, or None"},
      {}};
  return PyModule_AddFunctions(module, functions) == 0 ? module : nullptr;
}

} // namespace mortise::torch_door
