// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Program: one compiled region, called with PyTorch's tensors. A signature is a program with the extents for one set of
// shapes; all signatures of a program share its constants. `run` is the hot path: it reads the tensors through DLPack,
// checks constants by address and version (bound.hpp), allocates the outputs with eager's strides, and runs without the
// GIL. Where tensors lie on devices, the call is queued on PyTorch's current stream of each.
#include "bound.hpp"
#include "options.hpp"
#include "place.hpp"

#include <mortise/dtypes.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace mortise::torch_door {
namespace {

enum class Role : int { Plain = 0, Constant = 1, State = 2, Donated = 3 };

constexpr size_t donatedAlignment = 64; // as mortise_program_run_pointers has it

struct Input {
  Py_ssize_t argument; // position in the call's list; -1 for a tensor that the graph holds
  Role role;
  Place place;
  dlpack::DataType dtype;
  int32_t dtypeNumber;
  std::vector<int64_t> dims, strides; // those of the caller's tensor
  std::vector<int64_t> programDims;   // in memory order, as the program sees them
  Ref dimsTuple, stridesTuple;
  int64_t least, end; // of the indices that it may hold; any numbers if least == end
};

struct Output {
  int64_t aliasInput; // -1, or the number of the input that it updates
  Place place;
  Ref arguments, keywords; // for `allocate`
  Ref allocate;            // torch.empty_strided, or for host memory one of torch_mortise/pool.py
  std::vector<int64_t> programDims;
  int32_t dtypeNumber;
};

enum class Source : int { Output = 0, Argument = 1, OutputView = 2, ArgumentView = 3, Object = 4 };
struct Result {
  Source source;
  Py_ssize_t index;
  Ref object;               // Object
  Ref size, strides, shift; // views
};

// The state that all signatures of a program share. The program and its signatures own it together.
struct Shared {
  MortiseProgram *program;
  Ref session;
  struct Constant {
    Py_ssize_t input, argument; // the numbers of both
    BoundTensor bound;
  };
  std::vector<Constant> constants; // those that a call passes, side by side because each call looks at all of them
  // The memory of the constants. Assigning to `.data` would free it, and a later assignment could find its address
  // again.
  std::vector<Ref> keptAlive;
  bool bound = false;
  std::shared_mutex mutex; // shared by runs, exclusive for bind; taken only without the GIL

  ~Shared() { mortise_program_destroy(program); }
};

// What one call needs besides its tensors.
struct Frame {
  std::vector<const void *> pointers; // by input; those of constants stay NULL
  std::vector<void *> outputPointers;
  std::vector<Ref> copies; // in the order of `perCall`; of tensors that lie otherwise than the program expects
  std::vector<Ref> outputs;
};

struct Binding {
  std::shared_ptr<Shared> shared;
  std::vector<Input> inputs;
  std::vector<size_t> perCall; // the numbers of those that are not constant
  std::vector<size_t> donated; // the numbers of those that the program may overwrite
  Ref donatedArguments;        // their positions, as a tuple
  std::vector<Output> outputs;
  std::vector<Result> results;
  std::vector<int64_t> symbols; // in the order in which the builder made the symbols
  bool hasState = false;
  std::vector<std::unique_ptr<Frame>> frames; // those of no call, so that a warm call allocates none
  std::vector<Place> devices;                 // on which tensors of a call lie; none: all are in host memory

  void lies(const Place &place) {
    const auto same = [&](const Place &other) { return other.device == place.device; };
    if (place.device && std::none_of(devices.begin(), devices.end(), same))
      devices.push_back(place);
  }
};

// A compiled program, which has no inputs and cannot run, or one of its signatures.
struct ProgramObject {
  PyObject_HEAD Binding *binding;
};

// DLPack's type. A type of 0 lanes, which no tensor has, stands for a dtype that DLPack cannot represent.
dlpack::DataType dataType(int32_t dtype) { return dlpack::dataTypeOf(dtype).value_or(dlpack::DataType{0, 0, 0}); }

bool sameLayout(const dlpack::Tensor &tensor, const Input &input) {
  for (size_t i = 0; i < input.dims.size(); ++i)
    if (tensor.strides[i] != input.strides[i] && tensor.dims[i] > 1)
      return false;
  return true;
}

bool checkInput(const dlpack::Tensor &tensor, const Input &input, Py_ssize_t number) {
  if (!input.place.holds(tensor))
    return raise(MORTISE_INVALID_ARGUMENT,
                 "input %zd: expected a tensor on DLPack device %d:%d, found %d:%d; move it with .to()", number,
                 input.place.name.type, input.place.name.id, tensor.device.type, tensor.device.id);
  if (tensor.dtype.code != input.dtype.code || tensor.dtype.bits != input.dtype.bits)
    return raise(MORTISE_INVALID_ARGUMENT,
                 "input %zd: expected DLPack dtype %d of %d bits, found %d of %d bits; convert it with .to()", number,
                 input.dtype.code, input.dtype.bits, tensor.dtype.code, tensor.dtype.bits);
  bool same = tensor.rank == static_cast<int32_t>(input.dims.size());
  for (size_t i = 0; same && i < input.dims.size(); ++i)
    same = tensor.dims[i] == input.dims[i];
  if (same)
    return true;
  Ref found(PyTuple_New(tensor.rank));
  for (int32_t i = 0; found && i < tensor.rank; ++i)
    PyTuple_SetItem(found.get(), i, PyLong_FromLongLong(tensor.dims[i]));
  Ref message(
      PyUnicode_FromFormat("input %zd: expected shape %R, found %R", number, input.dimsTuple.get(), found.get()));
  const char *text = message ? PyUnicode_AsUTF8AndSize(message.get(), nullptr) : nullptr;
  return text && raise(MORTISE_INVALID_ARGUMENT, "%s", text);
}

// Whether all of the tensor's elements, which lie without gaps, are indices within the input's range.
template <typename Index> bool areWithin(const Index *found, const Input &input) {
  int64_t count = 1;
  for (const int64_t extent : input.dims)
    count *= extent;
  const auto isWithin = [&](Index index) { return index >= input.least && index < input.end; };
  const Index *wrong = std::find_if_not(found, found + count, isWithin);
  if (wrong == found + count)
    return true;
  PyErr_Format(PyExc_IndexError, "index out of range: input %zd: expected indices from %lld to %lld, found %lld",
               input.argument, static_cast<long long>(input.least), static_cast<long long>(input.end - 1),
               static_cast<long long>(*wrong));
  return false;
}

// Eager raises for other indices; programs would read the nearest element.
bool checkIndices(const void *data, const Input &input) {
  if (input.least == input.end || input.place.device) // indices on a device are not read
    return true;
  return input.dtype.bits == 64 ? areWithin(static_cast<const int64_t *>(data), input)
                                : areWithin(static_cast<const int32_t *>(data), input);
}

//===-- One call -------------------------------------------------------------------------------===//

class Call {
public:
  Call(ProgramObject &object, PyObject *arguments)
      : binding(*object.binding), shared(*binding.shared), arguments(arguments), frame(take(binding)) {}
  ~Call() {
    for (std::vector<Ref> *refs : {&frame->copies, &frame->outputs})
      for (Ref &ref : *refs)
        ref = Ref();
    binding.frames.push_back(std::move(frame));
  }
  Call(const Call &) = delete;

  PyObject *run(bool profile) {
    Py_ssize_t stale = -1;
    if (!readInputs(stale))
      return nullptr;
    if (stale >= 0)
      return PyLong_FromSsize_t(stale);
    std::vector<MortiseQueue *> queues;
    if (!allocateOutputs() || !findQueues(queues))
      return nullptr;
    MortiseStatus *status = withoutGil([&] {
      std::shared_lock lock(shared.mutex);
      if (profile || !queues.empty())
        return runDescribed(queues, profile);
      return mortise_program_run_pointers(shared.program, frame->pointers.data(), frame->outputPointers.data(),
                                          binding.symbols.empty() ? nullptr : binding.symbols.data());
    });
    if (!check(status) || !finishState())
      return nullptr;
    return results();
  }

private:
  static std::unique_ptr<Frame> take(Binding &binding) {
    if (!binding.frames.empty()) {
      std::unique_ptr<Frame> found = std::move(binding.frames.back());
      binding.frames.pop_back();
      return found;
    }
    auto made = std::make_unique<Frame>();
    made->pointers.resize(binding.inputs.size());
    made->outputPointers.resize(binding.outputs.size());
    made->copies.resize(binding.perCall.size());
    made->outputs.resize(binding.outputs.size());
    return made;
  }

  PyObject *argument(Py_ssize_t i) { return PyList_GetItem(arguments, i); } // borrowed

  // `stale`: the number of an input whose bound constant is not the tensor that the caller passes, or of a donated one
  // that must not be overwritten; the number of inputs when nothing is bound; -1 otherwise.
  bool readInputs(Py_ssize_t &stale) {
    if (!shared.bound) {
      stale = static_cast<Py_ssize_t>(binding.inputs.size());
      return true;
    }
    for (const Shared::Constant &constant : shared.constants) {
      PyObject *tensorObject = argument(constant.argument);
      if (!tensorObject)
        return false;
      if (!constant.bound.isSame(tensorObject)) {
        stale = constant.input;
        return !PyErr_Occurred();
      }
    }
    for (size_t number = 0; number < binding.perCall.size(); ++number) {
      const size_t i = binding.perCall[number];
      const Input &input = binding.inputs[i];
      PyObject *tensorObject = argument(input.argument);
      dlpack::Tensor tensor;
      if (!tensorObject || !readTensor(tensorObject, tensor) || !checkInput(tensor, input, input.argument))
        return false;
      if (!sameLayout(tensor, input)) {
        Ref &copy = frame->copies[number];
        copy = Ref(PyObject_CallFunctionObjArgs(helpers.dense, tensorObject, input.dimsTuple.get(),
                                                input.stridesTuple.get(), nullptr));
        if (!copy || !readTensor(copy.get(), tensor))
          return false;
      }
      frame->pointers[i] = address(tensor);
      if (!checkIndices(frame->pointers[i], input))
        return false;
    }
    return binding.donated.empty() || findShared(stale);
  }

  // `stale`: the number of a donated input that the call does not hold alone, or that is not aligned as programs want.
  bool findShared(Py_ssize_t &stale) {
    for (const size_t i : binding.donated)
      if (reinterpret_cast<uintptr_t>(frame->pointers[i]) % donatedAlignment != 0) {
        stale = static_cast<Py_ssize_t>(i);
        return true;
      }
    const Ref found(PyObject_CallFunctionObjArgs(helpers.shared, arguments, binding.donatedArguments.get(), nullptr));
    const Py_ssize_t number = found ? PyLong_AsSsize_t(found.get()) : -1;
    if (number >= 0)
      stale = static_cast<Py_ssize_t>(binding.donated[static_cast<size_t>(number)]);
    return !PyErr_Occurred();
  }

  bool allocateOutputs() {
    for (size_t i = 0; i < binding.outputs.size(); ++i) {
      const Output &output = binding.outputs[i];
      if (output.aliasInput >= 0) {
        frame->outputPointers[i] = const_cast<void *>(frame->pointers[static_cast<size_t>(output.aliasInput)]);
        continue;
      }
      frame->outputs[i] = Ref(PyObject_Call(output.allocate.get(), output.arguments.get(), output.keywords.get()));
      dlpack::Tensor tensor;
      if (!frame->outputs[i] || !readTensor(frame->outputs[i].get(), tensor))
        return false;
      frame->outputPointers[i] = address(tensor);
    }
    return true;
  }

  // Copies updated state back into tensors that were not dense, and tells autograd that the tensors changed.
  bool finishState() {
    if (!binding.hasState)
      return true;
    for (size_t number = 0; number < binding.perCall.size(); ++number) {
      const Input &input = binding.inputs[binding.perCall[number]];
      if (input.role != Role::State)
        continue;
      PyObject *tensor = argument(input.argument);
      const Ref &copy = frame->copies[number];
      Ref done(copy ? PyObject_CallFunctionObjArgs(helpers.copyBack, tensor, copy.get(), nullptr)
                    : PyObject_CallFunctionObjArgs(helpers.incrementVersion, tensor, nullptr));
      if (!done)
        return false;
    }
    return true;
  }

  PyObject *results() {
    Ref list(PyList_New(static_cast<Py_ssize_t>(binding.results.size())));
    for (size_t i = 0; list && i < binding.results.size(); ++i) {
      PyObject *value = result(binding.results[i]);
      if (!value)
        return nullptr;
      PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i), value);
    }
    return list.release();
  }

  PyObject *result(const Result &wanted) {
    auto view = [&](PyObject *base) {
      return PyObject_CallFunctionObjArgs(helpers.asStrided, base, wanted.size.get(), wanted.strides.get(),
                                          wanted.shift.get(), nullptr);
    };
    auto index = static_cast<size_t>(wanted.index);
    switch (wanted.source) {
    case Source::Output:
      return Ref::borrow(frame->outputs[index].get()).release();
    case Source::Argument:
      return Ref::borrow(argument(wanted.index)).release();
    case Source::OutputView:
      return view(frame->outputs[index].get());
    case Source::ArgumentView:
      return view(argument(wanted.index));
    case Source::Object:
      return Ref::borrow(wanted.object.get()).release();
    }
    return nullptr;
  }

  bool findQueues(std::vector<MortiseQueue *> &queues) {
    for (const Place &place : binding.devices) {
      queues.push_back(currentQueue(shared.session.get(), place));
      if (!queues.back())
        return false;
    }
    return true;
  }

  // With the tensors' types and places. A call is queued on the current stream of each of its devices; one that is
  // measured comes behind all of them and returns when it is done.
  MortiseStatus *runDescribed(const std::vector<MortiseQueue *> &queues, bool profile) {
    std::vector<MortiseTensor> tensors;
    tensors.reserve(binding.inputs.size() + binding.outputs.size());
    std::vector<const MortiseTensor *> inputPointers, outPointers;
    auto add = [&](void *data, int32_t dtype, const std::vector<int64_t> &dims, const Place &place) {
      return &tensors.emplace_back(MortiseTensor{sizeof(MortiseTensor), data, dtype, static_cast<int32_t>(dims.size()),
                                                 dims.data(), nullptr, place.device});
    };
    for (size_t i = 0; i < binding.inputs.size(); ++i) {
      const Input &input = binding.inputs[i];
      inputPointers.push_back(input.role == Role::Constant ? nullptr
                                                           : add(const_cast<void *>(frame->pointers[i]),
                                                                 input.dtypeNumber, input.programDims, input.place));
    }
    for (size_t i = 0; i < binding.outputs.size(); ++i) {
      const Output &output = binding.outputs[i];
      outPointers.push_back(add(frame->outputPointers[i], output.dtypeNumber, output.programDims, output.place));
    }
    if (!profile)
      return mortise_program_enqueue_across(shared.program, queues.data(), queues.size(), inputPointers.data(),
                                            inputPointers.size(), outPointers.data(), outPointers.size());
    for (MortiseQueue *queue : queues)
      if (MortiseStatus *status = mortise_queue_wait(queue))
        return status;
    return mortise_program_profile(shared.program, inputPointers.data(), inputPointers.size(), outPointers.data(),
                                   outPointers.size());
  }

  Binding &binding;
  Shared &shared;
  PyObject *arguments;
  std::unique_ptr<Frame> frame;
};

//===-- Methods --------------------------------------------------------------------------------===//

bool isList(PyObject *object) {
  if (PyList_Check(object))
    return true;
  PyErr_Format(PyExc_TypeError, "expected a list of arguments, found %R", Py_TYPE(object));
  return false;
}

PyObject *programRun(PyObject *self, PyObject *arguments) {
  return isList(arguments) ? Call(*as<ProgramObject>(self), arguments).run(false) : nullptr;
}
PyObject *programProfile(PyObject *self, PyObject *arguments) {
  return isList(arguments) ? Call(*as<ProgramObject>(self), arguments).run(true) : nullptr;
}

std::vector<int64_t> integers(PyObject *tuple) {
  Integers numbers;
  return numbers.read(tuple) ? std::vector<int64_t>(numbers.data(), numbers.data() + numbers.size())
                             : std::vector<int64_t>();
}

bool configureInputs(Binding &binding, PyObject *inputs) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(inputs); ++i) {
    Input input;
    int role;
    PyObject *dims, *strides, *programDims, *place;
    long long least, end;
    if (!PyArg_ParseTuple(PyTuple_GetItem(inputs, i), "niiOOOOLL", &input.argument, &role, &input.dtypeNumber, &dims,
                          &strides, &programDims, &place, &least, &end) ||
        !readPlace(binding.shared->session.get(), place, input.place))
      return false;
    input.role = static_cast<Role>(role);
    input.least = least;
    input.end = end;
    input.dtype = dataType(input.dtypeNumber);
    input.dims = integers(dims);
    input.strides = integers(strides);
    input.programDims = integers(programDims);
    input.dimsTuple = Ref::borrow(dims);
    input.stridesTuple = Ref::borrow(strides);
    binding.hasState |= input.role == Role::State;
    if (input.role != Role::Constant) {
      binding.lies(input.place);
      binding.perCall.push_back(binding.inputs.size());
    }
    if (input.role == Role::Donated)
      binding.donated.push_back(binding.inputs.size());
    binding.inputs.push_back(std::move(input));
  }
  binding.donatedArguments = Ref(PyTuple_New(static_cast<Py_ssize_t>(binding.donated.size())));
  for (size_t n = 0; binding.donatedArguments && n < binding.donated.size(); ++n)
    PyTuple_SetItem(binding.donatedArguments.get(), static_cast<Py_ssize_t>(n),
                    PyLong_FromSsize_t(binding.inputs[binding.donated[n]].argument));
  return !PyErr_Occurred();
}

PyObject *makeProgram(std::shared_ptr<Shared> shared) {
  auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(programType, Py_tp_alloc));
  PyObject *self = allocate(programType, 0);
  if (!self)
    return nullptr;
  as<ProgramObject>(self)->binding = new Binding();
  as<ProgramObject>(self)->binding->shared = std::move(shared);
  return self;
}

bool configureOutputs(Binding &binding, PyObject *outputs) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(outputs); ++i) {
    Output output;
    long long alias;
    PyObject *positional, *keywords, *dims, *place, *allocate = helpers.emptyStrided;
    if (!PyArg_ParseTuple(PyTuple_GetItem(outputs, i), "LiOOOO|O", &alias, &output.dtypeNumber, &dims, &place,
                          &positional, &keywords, &allocate) ||
        !readPlace(binding.shared->session.get(), place, output.place))
      return false;
    binding.lies(output.place);
    output.aliasInput = alias;
    output.programDims = integers(dims);
    output.arguments = Ref::borrow(positional);
    output.keywords = Ref::borrow(keywords);
    output.allocate = Ref::borrow(allocate);
    binding.outputs.push_back(std::move(output));
  }
  return true;
}

// signature(inputs, outputs, results, symbols): torch_mortise/region.py documents the tuples.
PyObject *programSignature(PyObject *self, PyObject *arguments) {
  PyObject *inputs, *outputs, *results, *symbols;
  if (!PyArg_ParseTuple(arguments, "O!O!O!O!:signature", &PyTuple_Type, &inputs, &PyTuple_Type, &outputs, &PyTuple_Type,
                        &results, &PyTuple_Type, &symbols))
    return nullptr;
  Ref made(makeProgram(as<ProgramObject>(self)->binding->shared));
  if (!made)
    return nullptr;
  Binding &binding = *as<ProgramObject>(made.get())->binding;
  binding.symbols = integers(symbols);
  if (!configureInputs(binding, inputs) || !configureOutputs(binding, outputs))
    return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_Size(results); ++i) {
    Result result;
    int source;
    PyObject *object, *size, *strides, *shift;
    if (!PyArg_ParseTuple(PyTuple_GetItem(results, i), "inOOOO", &source, &result.index, &object, &size, &strides,
                          &shift))
      return nullptr;
    result.source = static_cast<Source>(source);
    result.object = Ref::borrow(object);
    result.size = Ref::borrow(size);
    result.strides = Ref::borrow(strides);
    result.shift = Ref::borrow(shift);
    binding.results.push_back(std::move(result));
  }
  return PyErr_Occurred() ? nullptr : made.release();
}

// bind(sources, memory, tensors, versions): per input, the caller's tensor; a tensor of ours on the same memory; the
// dense tensor to read (often the same as the last); and the version of the first before anything of it was read. None
// for an input that is not constant.
PyObject *programBind(PyObject *self, PyObject *arguments) {
  Binding &binding = *as<ProgramObject>(self)->binding;
  Shared &shared = *binding.shared;
  PyObject *sources, *memory, *tensors, *versionTuple;
  Integers versions;
  if (!PyArg_ParseTuple(arguments, "O!O!O!O!:bind", &PyList_Type, &sources, &PyList_Type, &memory, &PyList_Type,
                        &tensors, &PyTuple_Type, &versionTuple) ||
      !versions.read(versionTuple))
    return nullptr;
  size_t count = binding.inputs.size();
  for (PyObject *list : {sources, memory, tensors})
    if (versions.size() != count || PyList_Size(list) != static_cast<Py_ssize_t>(count)) {
      PyErr_Format(PyExc_ValueError, "bind: expected lists of %zu", count);
      return nullptr;
    }
  std::vector<MortiseTensor> described(count);
  std::vector<const MortiseTensor *> pointers(count, nullptr);
  std::vector<Shared::Constant> seen;
  std::vector<Ref> keep;
  for (size_t i = 0; i < count; ++i) {
    Input &input = binding.inputs[i];
    if (input.role != Role::Constant)
      continue;
    auto index = static_cast<Py_ssize_t>(i);
    PyObject *dense = PyList_GetItem(tensors, index), *held = PyList_GetItem(memory, index);
    dlpack::Tensor tensor;
    if (!readTensor(held, tensor))
      return nullptr;
    if (input.argument >= 0)
      seen.push_back(
          {index, input.argument, BoundTensor(PyList_GetItem(sources, index), address(tensor), versions.data()[i])});
    if (PyErr_Occurred() || !readTensor(dense, tensor) || !checkInput(tensor, input, input.argument))
      return nullptr;
    described[i] = {
        sizeof(MortiseTensor),    address(tensor), input.dtypeNumber, static_cast<int32_t>(input.programDims.size()),
        input.programDims.data(), nullptr,         input.place.device};
    pointers[i] = &described[i];
    keep.push_back(Ref::borrow(dense));
    keep.push_back(Ref::borrow(held));
  }
  MortiseStatus *status = withoutGil([&] {
    std::unique_lock lock(shared.mutex);
    return mortise_program_bind(shared.program, pointers.data(), count);
  });
  if (!check(status)) {
    shared.bound = false;
    return nullptr;
  }
  shared.constants.swap(seen);
  shared.keptAlive.swap(keep);
  shared.bound = true;
  Py_RETURN_NONE;
}

PyObject *programInvalidate(PyObject *self, PyObject *) {
  as<ProgramObject>(self)->binding->shared->bound = false;
  Py_RETURN_NONE;
}

PyObject *programReport(PyObject *self, PyObject *) {
  char *json = nullptr;
  if (!check(mortise_program_report(as<ProgramObject>(self)->binding->shared->program, &json)))
    return nullptr;
  PyObject *result = PyUnicode_FromString(json);
  mortise_string_destroy(json);
  return result;
}

PyObject *programHandle(PyObject *self, void *) {
  return PyLong_FromVoidPtr(as<ProgramObject>(self)->binding->shared->program);
}

void programDealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  delete as<ProgramObject>(self)->binding;
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyMethodDef methods[] = {
    {"signature", programSignature, METH_VARARGS,
     "signature(inputs, outputs, results, symbols) -> the program for these numbers, to bind and run"},
    {"bind", programBind, METH_VARARGS, "bind(sources, memory, tensors, versions): packs constants"},
    {"invalidate", programInvalidate, METH_NOARGS, "The next call binds again."},
    {"run", programRun, METH_O,
     "run(arguments) -> results, or the number of a stale constant or a shared donated input"},
    {"profile", programProfile, METH_O, "run with a clock per step"},
    {"report", programReport, METH_NOARGS, "JSON: placement, refusals, times."},
    {}};
PyGetSetDef attributes[] = {{"handle", programHandle, nullptr, "The MortiseProgram's address.", nullptr}, {}};
PyType_Slot slots[] = {{Py_tp_dealloc, slot(programDealloc)}, {Py_tp_methods, methods}, {Py_tp_getset, attributes}, {}};
PyType_Spec spec = {"torch_mortise._native.Program", sizeof(ProgramObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

} // namespace

// versions(tensors) -> their versions, as run() compares them; 0 where the list has None.
PyObject *versionsOf(PyObject *, PyObject *tensors) {
  if (!isList(tensors))
    return nullptr;
  const Py_ssize_t count = PyList_Size(tensors);
  Ref versions(PyTuple_New(count));
  for (Py_ssize_t i = 0; versions && i < count; ++i) {
    PyObject *tensor = PyList_GetItem(tensors, i);
    PyObject *version = PyLong_FromLongLong(tensor == Py_None ? 0 : readVersion(tensor));
    if (!version)
      return nullptr;
    PyTuple_SetItem(versions.get(), i, version);
  }
  return versions.release();
}

// place_of(tensor) -> (DLPack's type, DLPack's number) of the device that holds it.
PyObject *placeOf(PyObject *, PyObject *object) {
  dlpack::Tensor tensor;
  return readTensor(object, tensor) ? Py_BuildValue("ii", tensor.device.type, tensor.device.id) : nullptr;
}

PyObject *runProgram(PyObject *program, PyObject *arguments) { return programRun(program, arguments); }

PyObject *wrapProgram(MortiseProgram *program, PyObject *session) {
  auto shared = std::make_shared<Shared>();
  shared->program = program;
  shared->session = Ref::borrow(session);
  return makeProgram(std::move(shared));
}

PyObject *addProgramType(PyObject *module) {
  programType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&spec));
  return programType && PyModule_AddObjectRef(module, "Program", reinterpret_cast<PyObject *>(programType)) == 0
             ? module
             : nullptr;
}

} // namespace mortise::torch_door
