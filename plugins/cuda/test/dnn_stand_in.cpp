// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// cuDNN without a GPU, for tests: convolutions of the process's memory, computed when they happen, as the documentation
// describes them. What the library leaves undefined, or answers wrongly without a word, such as attributes of another
// type, addresses that are less aligned than was promised or a workspace that is too small, is an error here.
#include "dnn_stand_in.hpp"
#include "dnn_program.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace mortise::cuda::cudnn;
using namespace mortise::cuda::stand_in;

namespace {

struct Engine {
  std::string name;
  std::vector<NumericalNote> notes;
  int64_t workspace = 1000;
  bool isFixed() const { return name.starts_with("fixed"); }
};

struct Object {
  struct Value {
    AttributeType type;
    int64_t count;
    std::vector<char> bytes;
  };
  DescriptorType type;
  bool isFinal = false;
  std::map<int, Value> values;
  std::optional<Program> program; // of a graph, a heuristic, a config or a plan
  std::optional<Engine> engine;   // of a config, an engine or a plan
};

struct AttributeRule {
  Attribute key;
  AttributeType type;
  size_t bytes; // of an element
};
constexpr AttributeRule rules[] = {{PointwiseModeKey, TypePointwiseMode, 4},
                                   {PointwiseMathPrecision, TypeDataType, 4},
                                   {PointwiseNanPropagation, TypeNanPropagation, 4},
                                   {ConvolutionComputeType, TypeDataType, 4},
                                   {ConvolutionModeKey, TypeConvolutionMode, 4},
                                   {ConvolutionDilations, TypeInt64, 8},
                                   {ConvolutionStrides, TypeInt64, 8},
                                   {ConvolutionPostPaddings, TypeInt64, 8},
                                   {ConvolutionPrePaddings, TypeInt64, 8},
                                   {ConvolutionSpatialDims, TypeInt64, 8},
                                   {HeuristicModeKey, TypeHeuristicMode, 4},
                                   {HeuristicGraph, TypeDescriptor, 8},
                                   {PlanHandle, TypeHandle, 8},
                                   {PlanConfig, TypeDescriptor, 8},
                                   {ForwardAlpha, TypeFloat, 4}, // a double is taken for 0, without a word
                                   {ForwardBeta, TypeFloat, 4},
                                   {ForwardConvolution, TypeDescriptor, 8},
                                   {ForwardWeight, TypeDescriptor, 8},
                                   {ForwardX, TypeDescriptor, 8},
                                   {ForwardResult, TypeDescriptor, 8},
                                   {PointwiseOperation, TypeDescriptor, 8},
                                   {PointwiseX, TypeDescriptor, 8},
                                   {PointwiseOther, TypeDescriptor, 8},
                                   {PointwiseResult, TypeDescriptor, 8},
                                   {GraphHandle, TypeHandle, 8},
                                   {GraphOperations, TypeDescriptor, 8},
                                   {TensorAlignment, TypeInt64, 8},
                                   {TensorDataType, TypeDataType, 4},
                                   {TensorDimensions, TypeInt64, 8},
                                   {TensorStrides, TypeInt64, 8},
                                   {TensorId, TypeInt64, 8},
                                   {TensorIsVirtual, TypeBoolean, 1},
                                   {PackIds, TypeInt64, 8},
                                   {PackPointers, TypeVoidPointer, 8},
                                   {PackWorkspace, TypeVoidPointer, 8}};

int64_t numberAt(const std::string &text, size_t at) { return std::strtoll(text.c_str() + at, nullptr, 10); }

struct StandIn {
  std::recursive_mutex mutex;
  std::vector<std::string> lines;
  std::map<std::string, int> counts;
  std::string failing;
  int failingCall = 0;
  int together = 0, met = 0;
  std::condition_variable_any meeting;
  Status status = Success;
  std::vector<Engine> engines;
  std::set<std::string> broken, refused;
  std::set<Object *> objects;
  std::map<void *, Stream> handles;
  StandInQueue queue = nullptr;

  void configure(const std::string &settings) {
    lines.clear();
    counts.clear();
    failing.clear();
    engines.clear();
    broken.clear();
    refused.clear();
    together = met = 0;
    std::istringstream words(settings);
    for (std::string word; words >> word;) {
      const size_t equals = word.find('=');
      const std::string key = word.substr(0, equals), value = equals == word.npos ? "" : word.substr(equals + 1);
      const size_t first = value.find(':'), second = value.find(':', first + 1);
      if (key == "fail") {
        failing = value.substr(0, first);
        failingCall = static_cast<int>(numberAt(value, first + 1));
        status = static_cast<Status>(numberAt(value, second + 1));
      } else if (key == "engine") {
        Engine engine{value.substr(0, first), {}, numberAt(value, second + 1)};
        std::istringstream notes(value.substr(first + 1, second - first - 1));
        for (std::string note; std::getline(notes, note, '+');)
          if (note != "-")
            engine.notes.push_back(static_cast<NumericalNote>(numberAt(note, 0)));
        engines.push_back(engine);
      } else if (key == "broken") {
        broken.insert(value);
      } else if (key == "refuse") {
        refused.insert(value);
      } else if (key == "together") {
        together = static_cast<int>(numberAt(value, 0));
      } else {
        std::abort(); // the test is faulty
      }
    }
  }
  Status enter(const char *function) {
    return ++counts[function] == failingCall && failing == function ? status : Success;
  }
  Status wrong(const char *function, const std::string &what) {
    lines.push_back(std::string(function) + " WRONG: " + what);
    return BadParam;
  }
  void meet() {
    ++met;
    meeting.notify_all();
    if (!meeting.wait_for(mutex, std::chrono::seconds(10), [&] { return met >= together; }))
      throw std::string("nobody makes a plan at the same time");
  }
  std::vector<Engine> offered() const { return engines.empty() ? std::vector<Engine>{{"usual", {}, 1000}} : engines; }
};

StandIn &standIn() {
  static auto *made = new StandIn;
  return *made;
}

#define ENTER(function)                                                                                                \
  constexpr const char *name = function;                                                                               \
  std::lock_guard lock(standIn().mutex);                                                                               \
  if (const Status status = standIn().enter(name); status != Success)                                                  \
  return status

Object *known(Descriptor handle) {
  auto *object = static_cast<Object *>(handle);
  return standIn().objects.contains(object) ? object : nullptr;
}

// ---- Reading descriptors. What is missing is thrown as a text.

template <typename T> std::vector<T> listOf(const Object &object, Attribute key) {
  const auto found = object.values.find(key);
  if (found == object.values.end())
    return {};
  std::vector<T> list(static_cast<size_t>(found->second.count));
  if (list.size() * sizeof(T) != found->second.bytes.size())
    throw std::string("sizes of attribute " + std::to_string(key));
  std::memcpy(static_cast<void *>(list.data()), found->second.bytes.data(), found->second.bytes.size());
  return list;
}
template <typename T> T valueOf(const Object &object, Attribute key) {
  const std::vector<T> list = listOf<T>(object, key);
  if (list.size() != 1)
    throw std::string("no attribute " + std::to_string(key));
  return list[0];
}
const Object &objectOf(Descriptor handle, DescriptorType type) {
  const Object *object = known(handle);
  if (!object || object->type != type || !object->isFinal)
    throw std::string("no finalized descriptor of type " + std::to_string(type));
  return *object;
}
const Object &objectOf(const Object &object, Attribute key, DescriptorType type) {
  return objectOf(valueOf<Descriptor>(object, key), type);
}

Tensor tensorOf(const Object &object) {
  Tensor tensor;
  tensor.type = valueOf<DataType>(object, TensorDataType);
  tensor.id = valueOf<int64_t>(object, TensorId);
  tensor.isVirtual = valueOf<char>(object, TensorIsVirtual) != 0;
  tensor.dims = listOf<int64_t>(object, TensorDimensions);
  tensor.strides = listOf<int64_t>(object, TensorStrides);
  tensor.alignment = valueOf<int64_t>(object, TensorAlignment);
  return tensor;
}
Tensor tensorOf(const Object &object, Attribute key) { return tensorOf(objectOf(object, key, TensorDescriptor)); }

std::vector<int64_t> expectedDims(const Program &program) {
  std::vector<int64_t> dims{program.x.dims[0], program.weight.dims[0]};
  for (size_t i = 0; i < program.strides.size(); ++i)
    dims.push_back(
        (program.x.dims[i + 2] + 2 * program.padding[i] - program.dilations[i] * (program.weight.dims[i + 2] - 1) - 1) /
            program.strides[i] +
        1);
  return dims;
}

// Dense, with channels first or last.
void checkDense(const Tensor &tensor, bool isFirst) {
  std::vector<size_t> order{0};
  if (isFirst)
    order.push_back(1);
  for (size_t i = 2; i < tensor.dims.size(); ++i)
    order.push_back(i);
  if (!isFirst)
    order.push_back(1);
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0; stride *= tensor.dims[order[i]])
    if (tensor.dims[order[i]] != 1 && tensor.strides[order[i]] != stride)
      throw std::string("strides");
}

Program programOf(const Object &graph) {
  Program program;
  const std::vector<Descriptor> operations = listOf<Descriptor>(graph, GraphOperations);
  if (operations.empty())
    throw std::string("no operations");
  const Object &forward = objectOf(operations[0], ConvolutionForwardDescriptor);
  const Object &how = objectOf(forward, ForwardConvolution, ConvolutionDescriptor);
  if (valueOf<float>(forward, ForwardAlpha) != 1 || valueOf<float>(forward, ForwardBeta) != 0)
    throw std::string("scales");
  if (valueOf<DataType>(how, ConvolutionComputeType) != Float ||
      valueOf<ConvolutionMode>(how, ConvolutionModeKey) != CrossCorrelation)
    throw std::string("computation");
  program.x = tensorOf(forward, ForwardX);
  program.weight = tensorOf(forward, ForwardWeight);
  program.sums = tensorOf(forward, ForwardResult);
  program.strides = listOf<int64_t>(how, ConvolutionStrides);
  program.padding = listOf<int64_t>(how, ConvolutionPrePaddings);
  program.dilations = listOf<int64_t>(how, ConvolutionDilations);
  const size_t spatial = program.strides.size();
  if (valueOf<int64_t>(how, ConvolutionSpatialDims) != static_cast<int64_t>(spatial) || spatial < 2 ||
      program.padding.size() != spatial || program.dilations.size() != spatial ||
      listOf<int64_t>(how, ConvolutionPostPaddings) != program.padding)
    throw std::string("spatial dimensions");
  for (const Tensor *tensor : {&program.x, &program.weight, &program.sums})
    if (tensor->dims.size() != spatial + 2 || tensor->strides.size() != spatial + 2)
      throw std::string("rank");
  if (program.x.type != program.weight.type)
    throw std::string("types");
  if (program.weight.dims[1] == 0 || program.x.dims[1] % program.weight.dims[1] != 0 ||
      program.weight.dims[0] % (program.x.dims[1] / program.weight.dims[1]) != 0)
    throw std::string("groups");
  if (program.sums.dims != expectedDims(program))
    throw std::string("extents");
  std::set<int64_t> ids{program.x.id, program.weight.id, program.sums.id};
  const auto isNew = [&](const Tensor &tensor) {
    if (!ids.insert(tensor.id).second)
      throw std::string("equal numbers of tensors");
  };
  for (size_t i = 1; i < operations.size(); ++i) {
    const Object &operation = objectOf(operations[i], OperationPointwiseDescriptor);
    const Object &kind = objectOf(operation, PointwiseOperation, PointwiseDescriptor);
    Pointwise made;
    made.mode = valueOf<PointwiseMode>(kind, PointwiseModeKey);
    if (valueOf<DataType>(kind, PointwiseMathPrecision) != Float)
      throw std::string("precision");
    made.x = tensorOf(operation, PointwiseX);
    made.result = tensorOf(operation, PointwiseResult);
    if (made.mode != Relu) {
      made.other = tensorOf(operation, PointwiseOther);
      isNew(*made.other);
      for (size_t d = 0; d < spatial + 2; ++d)
        if (made.other->dims[d] != made.result.dims[d] && made.other->dims[d] != 1)
          throw std::string("extents of an operand");
    } else if (valueOf<NanPropagation>(kind, PointwiseNanPropagation) != PropagateNan) {
      throw std::string("NaN is lost");
    }
    isNew(made.result);
    if (made.x.id != program.result().id || !made.x.isVirtual || made.x.type != Float ||
        made.result.dims != program.sums.dims)
      throw std::string("order of operations");
    program.pointwise.push_back(made);
  }
  if (program.result().isVirtual)
    throw std::string("no result");
  // Where both are dense, either order will do.
  bool isFirst = true;
  try {
    for (const Tensor *tensor : std::initializer_list<const Tensor *>{&program.x, &program.weight, &program.result()})
      checkDense(*tensor, true);
  } catch (const std::string &) {
    isFirst = false;
  }
  for (const Tensor *tensor :
       std::initializer_list<const Tensor *>{&program.x, &program.weight, &program.sums, &program.result()})
    checkDense(*tensor, isFirst);
  for (const Pointwise &each : program.pointwise)
    if (each.other)
      checkDense(*each.other, isFirst);
  return program;
}

bool isRefused(const Program &program) {
  const bool narrow = program.x.type != Float;
  const std::set<std::string> &refused = standIn().refused;
  return (refused.contains("fused") && !program.pointwise.empty()) ||
         (refused.contains("widened") && narrow && program.result().type == Float) ||
         (refused.contains("narrow") && narrow);
}

std::string textOf(const Program &program) {
  const auto dims = [](const Tensor &tensor) {
    std::string text;
    for (const int64_t dim : tensor.dims)
      text += (text.empty() ? "" : "x") + std::to_string(dim);
    return text;
  };
  const auto list = [](const std::vector<int64_t> &numbers) {
    std::string text;
    for (const int64_t number : numbers)
      text += (text.empty() ? "" : ",") + std::to_string(number);
    return text;
  };
  std::string text = dims(program.x) + " * " + dims(program.weight) + " strides=" + list(program.strides) +
                     " padding=" + list(program.padding) + " dilations=" + list(program.dilations) +
                     (program.x.strides[1] == 1 && program.x.dims[1] != 1 ? " last" : " first");
  for (const Pointwise &each : program.pointwise)
    text += each.mode == Multiply                                                                  ? " scale"
            : each.mode == Relu                                                                    ? " relu"
            : each.other->dims[0] == program.sums.dims[0] && each.other->dims == program.sums.dims ? " addend"
                                                                                                   : " bias";
  return text + (program.x.type != program.result().type ? " widened" : "");
}

// ---- Finalization

Status finalizeObject(Object &object) {
  switch (object.type) {
  case TensorDescriptor:
    tensorOf(object);
    break;
  case OperationGraphDescriptor:
    if (!standIn().handles.contains(valueOf<Handle>(object, GraphHandle)))
      throw std::string("no handle");
    object.program = programOf(object);
    break;
  case HeuristicDescriptor:
    valueOf<HeuristicMode>(object, HeuristicModeKey);
    object.program = *objectOf(object, HeuristicGraph, OperationGraphDescriptor).program;
    break;
  case ExecutionPlanDescriptor: {
    if (!standIn().handles.contains(valueOf<Handle>(object, PlanHandle)))
      throw std::string("no handle");
    const Object &config = objectOf(object, PlanConfig, EngineConfigDescriptor);
    object.program = config.program;
    object.engine = config.engine;
    standIn().lines.push_back("plan " + config.engine->name + " " + textOf(*config.program));
    standIn().meet();
    if (standIn().broken.contains(config.engine->name))
      return NotSupported;
    break;
  }
  default:
    break;
  }
  object.isFinal = true;
  return Success;
}

Status resultsOf(const Object &heuristic, int64_t wanted, int64_t *count, Descriptor *into) {
  *count = 0;
  if (isRefused(*heuristic.program))
    return NotSupported;
  for (const Engine &engine : standIn().offered()) {
    if (*count == wanted)
      break;
    Object *config = known(into[*count]);
    if (!config || config->type != EngineConfigDescriptor)
      throw std::string("no descriptor for a config");
    config->program = heuristic.program;
    config->engine = engine;
    config->isFinal = true;
    ++*count;
  }
  return Success;
}

} // namespace

#pragma GCC visibility push(default)
extern "C" {

void dnnStandInConfigure(const char *settings) {
  std::lock_guard lock(standIn().mutex);
  standIn().configure(settings);
}
const char *dnnStandInReport() {
  static thread_local std::string report;
  std::lock_guard lock(standIn().mutex);
  report = "descriptors=" + std::to_string(standIn().objects.size()) +
           " handles=" + std::to_string(standIn().handles.size());
  for (const std::string &line : standIn().lines)
    report += "\n" + line;
  return report.c_str();
}
void dnnStandInUse(StandInQueue queue) {
  std::lock_guard lock(standIn().mutex);
  standIn().queue = queue;
}

Status cudnnCreate(Handle *handle) {
  ENTER("cudnnCreate");
  *handle = new int;
  standIn().handles[*handle] = nullptr;
  standIn().lines.push_back(name);
  return Success;
}
Status cudnnSetStream(Handle handle, Stream stream) {
  ENTER("cudnnSetStream");
  const auto found = standIn().handles.find(handle);
  if (found == standIn().handles.end())
    return standIn().wrong(name, "handle");
  found->second = stream;
  return Success;
}
void cudnnGetLastErrorString(char *message, size_t bytes) {
  constexpr char said[] = "the stand-in says so";
  if (bytes < sizeof said)
    std::abort();
  std::memcpy(message, said, sizeof said);
}

Status cudnnBackendCreateDescriptor(DescriptorType type, Descriptor *descriptor) {
  ENTER("cudnnBackendCreateDescriptor");
  auto *made = new Object{type, false, {}, {}, {}};
  standIn().objects.insert(made);
  *descriptor = made;
  return Success;
}
Status cudnnBackendDestroyDescriptor(Descriptor descriptor) {
  ENTER("cudnnBackendDestroyDescriptor");
  Object *object = known(descriptor);
  if (!object)
    return standIn().wrong(name, "descriptor");
  standIn().objects.erase(object);
  delete object;
  return Success;
}
Status cudnnBackendSetAttribute(Descriptor descriptor, Attribute key, AttributeType type, int64_t count,
                                const void *elements) {
  ENTER("cudnnBackendSetAttribute");
  Object *object = known(descriptor);
  const auto *rule = std::ranges::find(rules, key, &AttributeRule::key);
  if (!object || object->isFinal || rule == std::end(rules) || rule->type != type || count < 0)
    return standIn().wrong(name, "attribute " + std::to_string(key) + " of type " + std::to_string(type));
  const char *first = static_cast<const char *>(elements);
  object->values[key] = {type, count, {first, first + static_cast<size_t>(count) * rule->bytes}};
  return Success;
}
Status cudnnBackendFinalize(Descriptor descriptor) {
  ENTER("cudnnBackendFinalize");
  Object *object = known(descriptor);
  if (!object || object->isFinal)
    return standIn().wrong(name, "descriptor");
  try {
    return finalizeObject(*object);
  } catch (const std::string &what) {
    return standIn().wrong(name, what);
  }
}
Status cudnnBackendGetAttribute(Descriptor descriptor, Attribute key, AttributeType type, int64_t wanted,
                                int64_t *count, void *elements) {
  ENTER("cudnnBackendGetAttribute");
  const Object *object = known(descriptor);
  if (!object || !object->isFinal)
    return standIn().wrong(name, "descriptor");
  try {
    if (key == HeuristicResults && type == TypeDescriptor)
      return resultsOf(*object, wanted, count, static_cast<Descriptor *>(elements));
    if (key == ConfigEngine && type == TypeDescriptor && wanted == 1) {
      Object *engine = known(*static_cast<Descriptor *>(elements));
      if (!engine || engine->type != EngineDescriptor)
        return standIn().wrong(name, "no descriptor for an engine");
      engine->engine = object->engine;
      engine->isFinal = true;
      *count = 1;
      return Success;
    }
    if (key == EngineNumericalNotes && type == TypeNumericalNote) {
      const std::vector<NumericalNote> &notes = object->engine->notes;
      *count = std::min(wanted, static_cast<int64_t>(notes.size()));
      std::copy_n(notes.begin(), *count, static_cast<NumericalNote *>(elements));
      return Success;
    }
    if (key == EngineBehaviorNotes && type == TypeBehaviorNote && wanted >= 1) {
      *count = object->engine->isFixed() ? 0 : 1;
      *static_cast<BehaviorNote *>(elements) = NoteRuntimeCompilation;
      return Success;
    }
    if (key == PlanWorkspaceBytes && type == TypeInt64 && wanted == 1) {
      *static_cast<int64_t *>(elements) = object->engine->workspace;
      *count = 1;
      return Success;
    }
  } catch (const std::string &what) {
    return standIn().wrong(name, what);
  }
  return standIn().wrong(name, "attribute " + std::to_string(key));
}
Status cudnnBackendExecute(Handle handle, Descriptor plan, Descriptor variantPack) {
  ENTER("cudnnBackendExecute");
  try {
    const auto found = standIn().handles.find(handle);
    if (found == standIn().handles.end())
      throw std::string("handle");
    const Object &what = objectOf(plan, ExecutionPlanDescriptor), &pack = objectOf(variantPack, VariantPackDescriptor);
    Queued queued{
        *what.program, {}, valueOf<void *>(pack, PackWorkspace), what.engine->workspace, what.engine->isFixed()};
    const std::vector<int64_t> ids = listOf<int64_t>(pack, PackIds);
    const std::vector<void *> pointers = listOf<void *>(pack, PackPointers);
    if (ids.size() != pointers.size())
      throw std::string("pointers");
    for (size_t i = 0; i < ids.size(); ++i)
      queued.pointers[ids[i]] = pointers[i];
    std::vector<const Tensor *> tensors{&what.program->x, &what.program->weight, &what.program->result()};
    for (const Pointwise &each : what.program->pointwise)
      if (each.other)
        tensors.push_back(&*each.other);
    for (const Tensor *tensor : tensors) {
      if (!queued.pointers.contains(tensor->id))
        throw std::string("no pointer");
      if (tensor->alignment < 1 ||
          reinterpret_cast<uintptr_t>(queued.pointers[tensor->id]) % static_cast<uint64_t>(tensor->alignment) != 0)
        throw std::string("alignment");
    }
    if (queued.pointers.size() != tensors.size())
      throw std::string("a pointer too many");
    if (queued.workspaceBytes && (!queued.workspace || reinterpret_cast<uintptr_t>(queued.workspace) % 256 != 0))
      throw std::string("workspace");
    standIn().lines.push_back("execute " + what.engine->name + " " + textOf(*what.program));
    if (!standIn().queue) {
      queued.run();
      return Success;
    }
    std::ostringstream line;
    line << "convolution";
    for (const auto &[id, address] : queued.pointers)
      line << " " << address;
    line << " " << queued.workspace;
    standIn().queue(
        found->second, line.str().c_str(), [](void *context) { static_cast<Queued *>(context)->run(); },
        [](void *context) { delete static_cast<Queued *>(context); }, new Queued(queued));
    return Success;
  } catch (const std::string &what) {
    return standIn().wrong(name, what);
  }
}
}
#pragma GCC visibility pop
