// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Session(options) and Builder(session, name): graphs go through the C API op by op, without text or JSON in between.
#include "options.hpp"
#include "place.hpp"

#include <deque>

namespace mortise::torch_door {

//===-- Session --------------------------------------------------------------------------------===//

static PyObject *sessionNew(PyTypeObject *type, PyObject *arguments, PyObject *) {
  PyObject *pairs;
  Options options;
  if (!PyArg_ParseTuple(arguments, "O:Session", &pairs) || !options.read(pairs))
    return nullptr;
  MortiseSession *session = nullptr;
  MortiseStatus *status = withoutGil([&] { return mortise_session_create(options.data(), options.size(), &session); });
  if (!check(status))
    return nullptr;
  auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  PyObject *self = allocate(type, 0);
  if (self) {
    as<SessionObject>(self)->session = session;
    as<SessionObject>(self)->queues = new Queues;
  } else
    mortise_session_destroy(session);
  return self;
}

static void sessionDealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  delete as<SessionObject>(self)->queues;
  mortise_session_destroy(as<SessionObject>(self)->session);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

static PyObject *takeString(char *text) {
  PyObject *result = PyUnicode_FromString(text);
  mortise_string_destroy(text);
  return result;
}

static PyObject *sessionDescribe(PyObject *self, PyObject *) {
  char *json = nullptr;
  return check(mortise_session_describe(as<SessionObject>(self)->session, &json)) ? takeString(json) : nullptr;
}

// check_place((type, number)): an error where tensors of this device of DLPack cannot be passed.
static PyObject *sessionCheckPlace(PyObject *self, PyObject *object) {
  Place place;
  if (!readPlace(self, object, place) || (place.device && !currentQueue(self, place)))
    return nullptr;
  Py_RETURN_NONE;
}

// undeclared(name): "" if an installed plugin declares the op of a vendor, otherwise why it does not.
static PyObject *sessionUndeclared(PyObject *self, PyObject *object) {
  const char *name = PyUnicode_AsUTF8AndSize(object, nullptr);
  if (!name)
    return nullptr;
  const MortiseOpDeclaration *declaration = nullptr;
  MortiseStatus *status =
      withoutGil([&] { return mortise_session_op(as<SessionObject>(self)->session, name, &declaration); });
  if (mortise_status_code(status) != MORTISE_UNSUPPORTED)
    return check(status) ? PyUnicode_FromString("") : nullptr;
  PyObject *reason = PyUnicode_FromString(mortise_status_message(status));
  mortise_status_destroy(status);
  return reason;
}

//===-- Builder --------------------------------------------------------------------------------===//

static PyObject *builderNew(PyTypeObject *type, PyObject *arguments, PyObject *) {
  PyObject *session;
  const char *name;
  if (!PyArg_ParseTuple(arguments, "O!s:Builder", sessionType, &session, &name))
    return nullptr;
  MortiseBuilder *builder = nullptr;
  if (!check(mortise_builder_create(as<SessionObject>(session)->session, name, &builder)))
    return nullptr;
  auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  PyObject *self = allocate(type, 0);
  if (!self) {
    mortise_builder_destroy(builder);
    return nullptr;
  }
  as<BuilderObject>(self)->builder = builder;
  as<BuilderObject>(self)->session = Ref::borrow(session).release();
  return self;
}

static void builderDealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  mortise_builder_destroy(as<BuilderObject>(self)->builder);
  Py_XDECREF(as<BuilderObject>(self)->session);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

// (value, dtype, dims) of a value just made. A symbolic extent is a program.
static PyObject *describe(MortiseBuilder *builder, uint32_t value) {
  const MortiseType *type;
  if (!check(mortise_builder_type(builder, value, &type)))
    return nullptr;
  Ref dims(PyTuple_New(type->rank));
  for (int32_t i = 0; dims && i < type->rank; ++i)
    PyTuple_SetItem(dims.get(), i,
                    type->dims[i] == MORTISE_DYNAMIC ? programTuple(type->dim_exprs[i].steps, type->dim_exprs[i].count)
                                                     : PyLong_FromLongLong(type->dims[i]));
  return dims ? Py_BuildValue("IiO", value, type->dtype, dims.get()) : nullptr;
}

static PyObject *builderSymbol(PyObject *self, PyObject *arguments) {
  const char *name;
  long long min, max, divisor;
  uint32_t number;
  if (!PyArg_ParseTuple(arguments, "sLLL:symbol", &name, &min, &max, &divisor) ||
      !check(mortise_builder_symbol(as<BuilderObject>(self)->builder, name, min, max, divisor, &number)))
    return nullptr;
  return PyLong_FromUnsignedLong(number);
}

static PyObject *builderInput(PyObject *self, PyObject *arguments) {
  const char *name;
  int dtype;
  unsigned flags;
  PyObject *dims, *placeObject = Py_None;
  Extents extents;
  Place place;
  auto *object = as<BuilderObject>(self);
  if (!PyArg_ParseTuple(arguments, "siO!I|O:input", &name, &dtype, &PyTuple_Type, &dims, &flags, &placeObject) ||
      !extents.read(dims) || !readPlace(object->session, placeObject, place))
    return nullptr;
  MortiseType type{sizeof(MortiseType)};
  type.dtype = dtype;
  type.rank = static_cast<int32_t>(extents.size());
  type.dims = extents.data();
  type.dim_exprs = extents.exprs();
  uint32_t value;
  if (!check(mortise_builder_input(object->builder, name, &type, flags, &value)) ||
      (place.device && !check(mortise_builder_input_device(object->builder, object->inputs, place.device))))
    return nullptr;
  ++object->inputs;
  object->values = value + 1;
  return describe(object->builder, value);
}

// The attributes of one op, from a dictionary whose values are bool, int, float, str, a tuple of extents, a list of
// floats, or (dtype, dims, bytes) for a literal.
namespace {
class Attributes {
public:
  bool read(PyObject *dictionary) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(dictionary, &position, &key, &value)) {
      MortiseAttribute &attribute = attributes.emplace_back(MortiseAttribute{sizeof(MortiseAttribute)});
      attribute.name = PyUnicode_AsUTF8AndSize(key, nullptr);
      if (!attribute.name || !fill(attribute, value))
        return false;
      pointers.push_back(&attribute);
    }
    return true;
  }
  const MortiseAttribute *const *data() const { return pointers.data(); }
  size_t size() const { return pointers.size(); }

private:
  bool fill(MortiseAttribute &attribute, PyObject *value) {
    if (PyBool_Check(value)) {
      attribute.kind = MORTISE_ATTRIBUTE_BOOL;
      attribute.i64 = value == Py_True;
    } else if (PyLong_Check(value)) {
      attribute.kind = MORTISE_ATTRIBUTE_I64;
      attribute.i64 = PyLong_AsLongLong(value);
    } else if (PyFloat_Check(value)) {
      attribute.kind = MORTISE_ATTRIBUTE_F64;
      attribute.f64 = PyFloat_AsDouble(value);
    } else if (PyUnicode_Check(value)) {
      attribute.kind = MORTISE_ATTRIBUTE_STRING;
      attribute.string = PyUnicode_AsUTF8AndSize(value, nullptr);
    } else if (PyTuple_Check(value)) {
      if (PyTuple_Size(value) == 3 && PyBytes_Check(PyTuple_GetItem(value, 2)))
        return fillTensor(attribute, value);
      Extents &numbers = extents.emplace_back();
      if (!numbers.read(value))
        return false;
      attribute.kind = MORTISE_ATTRIBUTE_I64_ARRAY;
      attribute.i64s = numbers.data();
      attribute.exprs = numbers.exprs();
      attribute.count = numbers.size();
    } else if (PyList_Check(value)) {
      std::vector<double> &numbers = floats.emplace_back();
      for (Py_ssize_t i = 0; i < PyList_Size(value); ++i)
        numbers.push_back(PyFloat_AsDouble(PyList_GetItem(value, i)));
      attribute.kind = MORTISE_ATTRIBUTE_F64_ARRAY;
      attribute.f64s = numbers.data();
      attribute.count = numbers.size();
    } else {
      PyErr_Format(PyExc_TypeError, "attribute %s: expected bool, int, float, str, tuple or list, found %R",
                   attribute.name, value);
      return false;
    }
    return !PyErr_Occurred();
  }

  bool fillTensor(MortiseAttribute &attribute, PyObject *literal) {
    Extents &dims = extents.emplace_back();
    char *bytes;
    Py_ssize_t length;
    if (!dims.read(PyTuple_GetItem(literal, 1)) ||
        PyBytes_AsStringAndSize(PyTuple_GetItem(literal, 2), &bytes, &length) < 0)
      return false;
    MortiseType &type = types.emplace_back(MortiseType{sizeof(MortiseType)});
    type.dtype = static_cast<int32_t>(PyLong_AsLong(PyTuple_GetItem(literal, 0)));
    type.rank = static_cast<int32_t>(dims.size());
    type.dims = dims.data();
    attribute.kind = MORTISE_ATTRIBUTE_TENSOR;
    attribute.tensor_type = &type;
    attribute.tensor_data = bytes;
    attribute.count = static_cast<size_t>(length);
    return !PyErr_Occurred();
  }

  std::deque<MortiseAttribute> attributes; // deques, because they do not move their elements
  std::deque<Extents> extents;
  std::deque<std::vector<double>> floats;
  std::deque<MortiseType> types;
  std::vector<const MortiseAttribute *> pointers;
};
} // namespace

// op(name, operands, attributes, location) -> tuple of results. Operands are value numbers, None for one left out.
constexpr size_t maxResults = 16; // results of one op; no op without bodies has more than three
static PyObject *builderOp(PyObject *self, PyObject *arguments) {
  const char *name, *location;
  PyObject *operandTuple, *dictionary;
  if (!PyArg_ParseTuple(arguments, "sO!O!z:op", &name, &PyTuple_Type, &operandTuple, &PyDict_Type, &dictionary,
                        &location))
    return nullptr;
  std::vector<uint32_t> operands(static_cast<size_t>(PyTuple_Size(operandTuple)));
  for (size_t i = 0; i < operands.size(); ++i) {
    PyObject *operand = PyTuple_GetItem(operandTuple, static_cast<Py_ssize_t>(i));
    operands[i] = operand == Py_None ? MORTISE_NO_VALUE : static_cast<uint32_t>(PyLong_AsUnsignedLong(operand));
  }
  Attributes attributes;
  if (PyErr_Occurred() || !attributes.read(dictionary))
    return nullptr;
  uint32_t results[maxResults];
  size_t count = 0;
  MortiseBuilder *builder = as<BuilderObject>(self)->builder;
  if (!check(mortise_builder_op(builder, name, operands.data(), operands.size(), attributes.data(), attributes.size(),
                                location, results, maxResults, &count)))
    return nullptr;
  if (count)
    as<BuilderObject>(self)->values = results[count - 1] + 1;
  Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; tuple && i < count; ++i) {
    PyObject *described = describe(builder, results[i]);
    if (!described)
      return nullptr;
    PyTuple_SetItem(tuple.get(), static_cast<Py_ssize_t>(i), described);
  }
  return tuple.release();
}

static PyObject *builderValueCount(PyObject *self, PyObject *) {
  return PyLong_FromUnsignedLong(as<BuilderObject>(self)->values);
}

static PyObject *builderRepeat(PyObject *self, PyObject *arguments) {
  unsigned first, count, copies;
  PyObject *ownTuple, *locationTuple;
  if (!PyArg_ParseTuple(arguments, "IIIO!O!:repeat", &first, &count, &copies, &PyTuple_Type, &ownTuple, &PyTuple_Type,
                        &locationTuple))
    return nullptr;
  std::vector<uint32_t> own(static_cast<size_t>(PyTuple_Size(ownTuple)));
  for (size_t i = 0; i < own.size(); ++i)
    own[i] = static_cast<uint32_t>(PyLong_AsUnsignedLong(PyTuple_GetItem(ownTuple, static_cast<Py_ssize_t>(i))));
  std::vector<const char *> locations(static_cast<size_t>(PyTuple_Size(locationTuple)));
  for (size_t i = 0; i < locations.size(); ++i) {
    locations[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(locationTuple, static_cast<Py_ssize_t>(i)), nullptr);
    if (!locations[i])
      return nullptr;
  }
  if (PyErr_Occurred())
    return nullptr;
  const size_t lists = size_t{copies} + 1;
  if (own.size() % (lists + 1) != 0 || locations.size() % lists != 0) {
    PyErr_Format(PyExc_ValueError,
                 "repeat: expected own values for %zu copies and locations for %zu, found %zu and %zu", lists + 1,
                 lists, own.size(), locations.size());
    return nullptr;
  }
  int32_t repeated = 0;
  if (!check(mortise_builder_repeat(as<BuilderObject>(self)->builder, first, count, copies, own.data(),
                                    own.size() / (lists + 1), locations.data(), locations.size() / lists, &repeated)))
    return nullptr;
  if (repeated)
    as<BuilderObject>(self)->values += count * copies;
  return PyBool_FromLong(repeated);
}

static PyObject *builderOutput(PyObject *self, PyObject *arguments) {
  unsigned value;
  long long alias;
  PyObject *placeObject = Py_None;
  Place place;
  auto *object = as<BuilderObject>(self);
  if (!PyArg_ParseTuple(arguments, "IL|O:output", &value, &alias, &placeObject) ||
      !readPlace(object->session, placeObject, place) ||
      !check(mortise_builder_output(object->builder, value, alias)) ||
      (place.device && !check(mortise_builder_output_device(object->builder, object->outputs, place.device))))
    return nullptr;
  ++object->outputs;
  Py_RETURN_NONE;
}

static PyObject *builderText(PyObject *self, PyObject *) {
  char *text = nullptr;
  return check(mortise_builder_text(as<BuilderObject>(self)->builder, &text)) ? takeString(text) : nullptr;
}

static PyObject *builderCompile(PyObject *self, PyObject *arguments) {
  PyObject *pairs;
  Options options;
  if (!PyArg_ParseTuple(arguments, "O:compile", &pairs) || !options.read(pairs))
    return nullptr;
  auto *object = as<BuilderObject>(self);
  MortiseProgram *program = nullptr;
  MortiseStatus *status = withoutGil([&] {
    return mortise_compile(as<SessionObject>(object->session)->session, object->builder, options.data(), options.size(),
                           &program);
  });
  return check(status) ? wrapProgram(program, object->session) : nullptr;
}

// refusals() -> ((node, op, location, device, plugin, reason, detail), ...) of the last compilation.
static PyObject *builderRefusals(PyObject *self, PyObject *) {
  const MortiseRefusal *const *refusals;
  size_t count;
  if (!check(mortise_builder_refusals(as<BuilderObject>(self)->builder, &refusals, &count)))
    return nullptr;
  Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; tuple && i < count; ++i) {
    const MortiseRefusal &refusal = *refusals[i];
    PyObject *entry = Py_BuildValue("Issssss", refusal.node, refusal.op, refusal.location, refusal.device,
                                    refusal.plugin, mortise_reason_name(refusal.reason), refusal.detail);
    if (!entry)
      return nullptr;
    PyTuple_SetItem(tuple.get(), static_cast<Py_ssize_t>(i), entry);
  }
  return tuple.release();
}

//===-- Types ----------------------------------------------------------------------------------===//

static PyMethodDef sessionMethods[] = {
    {"describe", sessionDescribe, METH_NOARGS, "JSON: plugins, devices, configuration."},
    {"undeclared", sessionUndeclared, METH_O,
     "undeclared(op) -> \"\" if an installed plugin declares the op of a vendor, otherwise why it does not"},
    {"check_place", sessionCheckPlace, METH_O, "Raises where tensors of a device of DLPack cannot be passed."},
    {}};
static PyMethodDef builderMethods[] = {
    {"symbol", builderSymbol, METH_VARARGS, "symbol(name, min, max, divisor) -> its number; before any input"},
    {"input", builderInput, METH_VARARGS, "input(name, dtype, dims, flags, place=None) -> (value, dtype, dims)"},
    {"op", builderOp, METH_VARARGS, "op(name, operands, attributes, location) -> ((value, dtype, dims), ...)"},
    {"value_count", builderValueCount, METH_NOARGS, "How many values there are: the number of the next."},
    {"repeat", builderRepeat, METH_VARARGS, "repeat(first, count, copies, own, locations) -> whether it could"},
    {"output", builderOutput, METH_VARARGS, "output(value, alias_input, place=None)"},
    {"text", builderText, METH_NOARGS, "The graph so far as MLIR text."},
    {"compile", builderCompile, METH_VARARGS, "compile(options) -> Program; empties the builder"},
    {"refusals", builderRefusals, METH_NOARGS,
     "refusals() -> ((node, op, location, device, plugin, reason, detail), ...): why the last compile failed, by node; "
     "empty when it succeeded or failed for another reason"},
    {}};

static PyType_Slot sessionSlots[] = {
    {Py_tp_new, slot(sessionNew)}, {Py_tp_dealloc, slot(sessionDealloc)}, {Py_tp_methods, sessionMethods}, {}};
static PyType_Slot builderSlots[] = {
    {Py_tp_new, slot(builderNew)}, {Py_tp_dealloc, slot(builderDealloc)}, {Py_tp_methods, builderMethods}, {}};
static PyType_Spec sessionSpec = {"torch_mortise._native.Session", sizeof(SessionObject), 0, Py_TPFLAGS_DEFAULT,
                                  sessionSlots};
static PyType_Spec builderSpec = {"torch_mortise._native.Builder", sizeof(BuilderObject), 0, Py_TPFLAGS_DEFAULT,
                                  builderSlots};

static PyObject *addType(PyObject *module, PyType_Spec *spec, const char *name, PyTypeObject *&type) {
  type = as<PyTypeObject>(PyType_FromSpec(spec));
  return type && PyModule_AddObjectRef(module, name, reinterpret_cast<PyObject *>(type)) == 0 ? module : nullptr;
}
PyObject *addSessionType(PyObject *module) { return addType(module, &sessionSpec, "Session", sessionType); }
PyObject *addBuilderType(PyObject *module) { return addType(module, &builderSpec, "Builder", builderType); }

} // namespace mortise::torch_door
