// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads Python sequences of strings and of integers into C arrays.
#pragma once

#include "python.hpp"

#include <vector>

namespace mortise::torch_door {

// A tuple of (key, value) strings; points into the Python strings, which outlive the call.
class Options {
public:
  bool read(PyObject *pairs) {
    if (!PyTuple_Check(pairs)) {
      PyErr_SetString(PyExc_TypeError, "options: expected a tuple of (key, value)");
      return false;
    }
    for (Py_ssize_t i = 0; i < PyTuple_Size(pairs); ++i) {
      MortiseOption option;
      if (!PyArg_ParseTuple(PyTuple_GetItem(pairs, i), "ss", &option.key, &option.value))
        return false;
      options.push_back(option);
    }
    return true;
  }
  const MortiseOption *data() const { return options.data(); }
  size_t size() const { return options.size(); }

private:
  std::vector<MortiseOption> options;
};

class Integers {
public:
  bool read(PyObject *tuple) {
    if (!PyTuple_Check(tuple)) {
      PyErr_Format(PyExc_TypeError, "expected a tuple of int, found %R", tuple);
      return false;
    }
    numbers.resize(static_cast<size_t>(PyTuple_Size(tuple)));
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, static_cast<Py_ssize_t>(i)));
    return !PyErr_Occurred();
  }
  const int64_t *data() const { return numbers.data(); }
  size_t size() const { return numbers.size(); }
  int64_t operator[](size_t i) const { return numbers[i]; }

private:
  std::vector<int64_t> numbers;
};

} // namespace mortise::torch_door
