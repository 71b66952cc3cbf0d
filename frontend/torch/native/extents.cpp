// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arithmetic on symbolic extents for torch_mortise/extents.py: programs in the normal form of mortise/dim.hpp.
#include "options.hpp"
#include "python.hpp"

#include <mortise/bounds.hpp>

namespace mortise::torch_door {

// normalise(program, ranges) -> (number or program, low, high). `ranges`: minimum and maximum of each symbol, one after
// the other; low and high are the least and greatest values that the extent can have.
static PyObject *normalise(PyObject *, PyObject *arguments) {
  PyObject *tuple, *rangeTuple;
  std::vector<MortiseExprStep> steps;
  Integers numbers;
  if (!PyArg_ParseTuple(arguments, "O!O!:normalise", &PyTuple_Type, &tuple, &PyTuple_Type, &rangeTuple) ||
      !Extents::readProgram(tuple, steps) || !numbers.read(rangeTuple))
    return nullptr;
  std::vector<SymbolRange> ranges;
  for (size_t i = 0; i + 1 < numbers.size(); i += 2)
    ranges.push_back({numbers[i], numbers[i + 1], 1});
  Result<Dim> dim = Dim::from(steps, ranges.size());
  if (!dim) {
    raise(dim.error().code, "%s", dim.error().message.c_str());
    return nullptr;
  }
  const Dim simple = simplify(*dim, ranges);
  const Interval interval = bounds(simple, ranges);
  const std::vector<MortiseExprStep> normal = simple.steps();
  PyObject *value =
      simple.isNumber() ? PyLong_FromLongLong(*simple.number()) : programTuple(normal.data(), normal.size());
  return value
             ? Py_BuildValue("NLL", value, static_cast<long long>(interval.low), static_cast<long long>(interval.high))
             : nullptr;
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
      {"evaluate", evaluate, METH_VARARGS, "evaluate(program, values) -> int"},
      {}};
  return PyModule_AddFunctions(module, functions) == 0 ? module : nullptr;
}

} // namespace mortise::torch_door
