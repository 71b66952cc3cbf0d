// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arithmetic on symbolic extents for torch_mortise/extents.py, on programs in the normal form of mortise/dim.hpp.
#include "options.hpp"
#include "python.hpp"

#include <mortise/bounds.hpp>

namespace mortise::torch_door {

// Reads a program and the minimum, maximum and divisor of each of its symbols, in one flat tuple.
static bool read(PyObject *arguments, const char *format, Dim &dim, std::vector<SymbolRange> &ranges) {
  PyObject *tuple, *rangeTuple;
  std::vector<MortiseExprStep> steps;
  Integers numbers;
  if (!PyArg_ParseTuple(arguments, format, &PyTuple_Type, &tuple, &PyTuple_Type, &rangeTuple) ||
      !Extents::readProgram(tuple, steps) || !numbers.read(rangeTuple))
    return false;
  for (size_t i = 0; i + 2 < numbers.size(); i += 3)
    ranges.push_back({numbers[i], numbers[i + 1], numbers[i + 2]});
  Result<Dim> found = Dim::from(steps, ranges.size());
  if (!found) {
    raise(found.error().code, "%s", found.error().message.c_str());
    return false;
  }
  dim = *found;
  return true;
}

// normalise(program, ranges) -> (number or program, low, high): the normal form and the bounds of its values.
static PyObject *normalise(PyObject *, PyObject *arguments) {
  Dim dim;
  std::vector<SymbolRange> ranges;
  if (!read(arguments, "O!O!:normalise", dim, ranges))
    return nullptr;
  const Dim simple = simplify(dim, ranges);
  const Interval interval = bounds(simple, ranges);
  const std::vector<MortiseExprStep> normal = simple.steps();
  PyObject *value =
      simple.isNumber() ? PyLong_FromLongLong(*simple.number()) : programTuple(normal.data(), normal.size());
  return value
             ? Py_BuildValue("NLL", value, static_cast<long long>(interval.low), static_cast<long long>(interval.high))
             : nullptr;
}

// proved(program, ranges) -> (low, high): bounds as from normalise, and the sign where a proof finds it although the
// bounds do not show it.
static PyObject *proved(PyObject *, PyObject *arguments) {
  Dim dim;
  std::vector<SymbolRange> ranges;
  if (!read(arguments, "O!O!:proved", dim, ranges))
    return nullptr;
  Interval interval = bounds(dim, ranges);
  for (int64_t number : {0, 1}) {
    if (interval.low < number && isAtLeast(dim, number, ranges))
      interval.low = number;
    if (interval.high > -number && isAtLeast(-number, dim, ranges))
      interval.high = -number;
  }
  return Py_BuildValue("LL", static_cast<long long>(interval.low), static_cast<long long>(interval.high));
}

// evaluate(program, values of the symbols) -> int
static PyObject *evaluate(PyObject *, PyObject *arguments) {
  PyObject *tuple, *valueTuple;
  std::vector<MortiseExprStep> steps;
  Integers values;
  if (!PyArg_ParseTuple(arguments, "O!O!:evaluate", &PyTuple_Type, &tuple, &PyTuple_Type, &valueTuple) ||
      !Extents::readProgram(tuple, steps) || !values.read(valueTuple))
    return nullptr;
  Result<Dim> dim = Dim::from(steps, values.size());
  Result<int64_t> value = dim ? dim->evaluate(std::span(values.data(), values.size())) : Result<int64_t>(dim.error());
  if (!value) {
    raise(value.error().code, "%s", value.error().message.c_str());
    return nullptr;
  }
  return PyLong_FromLongLong(*value);
}

PyObject *addExtents(PyObject *module) {
  static PyMethodDef functions[] = {
      {"normalise", normalise, METH_VARARGS, "normalise(program, ranges) -> (number or program, low, high)"},
      {"proved", proved, METH_VARARGS, "proved(program, ranges) -> (low, high)"},
      {"evaluate", evaluate, METH_VARARGS, "evaluate(program, values) -> int"},
      {}};
  return PyModule_AddFunctions(module, functions) == 0 ? module : nullptr;
}

} // namespace mortise::torch_door
