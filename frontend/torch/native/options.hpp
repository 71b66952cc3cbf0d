// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads Python sequences of strings, of integers and of extents into C arrays.
#pragma once

#include "python.hpp"

#include <vector>

namespace mortise::torch_door {

// A tuple of (key, value) strings. Points into the Python strings, which outlive the call.
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

// A tuple of numbers and of postfix programs over symbols, which are tuples op, value, op, value, ...
class Extents {
public:
  bool read(PyObject *tuple) {
    if (!PyTuple_Check(tuple)) {
      PyErr_Format(PyExc_TypeError, "expected a tuple of int or of programs, found %R", tuple);
      return false;
    }
    const auto count = static_cast<size_t>(PyTuple_Size(tuple));
    numbers.resize(count);
    steps.resize(count);
    bool symbolic = false;
    for (size_t i = 0; i < count; ++i) {
      PyObject *entry = PyTuple_GetItem(tuple, static_cast<Py_ssize_t>(i));
      if (!PyTuple_Check(entry)) {
        numbers[i] = PyLong_AsLongLong(entry);
        steps[i] = {{MORTISE_EXPR_CONST, 0, numbers[i]}};
        continue;
      }
      symbolic = true;
      numbers[i] = MORTISE_DYNAMIC;
      if (!readProgram(entry, steps[i]))
        return false;
    }
    if (symbolic)
      for (const std::vector<MortiseExprStep> &program : steps)
        programs.push_back({program.data(), program.size()});
    return !PyErr_Occurred();
  }
  static bool readProgram(PyObject *tuple, std::vector<MortiseExprStep> &steps) {
    Integers numbers;
    if (!numbers.read(tuple))
      return false;
    for (size_t i = 0; i + 1 < numbers.size(); i += 2)
      steps.push_back({static_cast<int32_t>(numbers[i]), 0, numbers[i + 1]});
    return true;
  }
  const int64_t *data() const { return numbers.data(); }
  size_t size() const { return numbers.size(); }
  const MortiseExpr *exprs() const { return programs.empty() ? nullptr : programs.data(); } // NULL when all are numbers

private:
  std::vector<int64_t> numbers;
  std::vector<std::vector<MortiseExprStep>> steps;
  std::vector<MortiseExpr> programs;
};

// A program as a tuple, in the form that Extents reads.
inline PyObject *programTuple(const MortiseExprStep *steps, size_t count) {
  PyObject *tuple = PyTuple_New(static_cast<Py_ssize_t>(2 * count));
  for (size_t i = 0; tuple && i < count; ++i) {
    PyTuple_SetItem(tuple, static_cast<Py_ssize_t>(2 * i), PyLong_FromLong(steps[i].op));
    PyTuple_SetItem(tuple, static_cast<Py_ssize_t>(2 * i + 1), PyLong_FromLongLong(steps[i].value));
  }
  return tuple;
}

} // namespace mortise::torch_door
