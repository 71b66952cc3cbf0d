// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "cudnn.hpp"

#include "library.hpp"

#include <mortise/codegen/shared_library.hpp>

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <span>

namespace mortise::cuda {

namespace {

using namespace cudnn;

// X(member, type, exported symbol)
#define MORTISE_CUDNN_FUNCTIONS(X)                                                                                     \
  X(create, CreateFn, "cudnnCreate")                                                                                   \
  X(setStream, SetStreamFn, "cudnnSetStream")                                                                          \
  X(lastError, LastErrorFn, "cudnnGetLastErrorString")                                                                 \
  X(descriptorCreate, DescriptorCreateFn, "cudnnBackendCreateDescriptor")                                              \
  X(descriptorDestroy, DescriptorDestroyFn, "cudnnBackendDestroyDescriptor")                                           \
  X(finalize, FinalizeFn, "cudnnBackendFinalize")                                                                      \
  X(setAttribute, SetAttributeFn, "cudnnBackendSetAttribute")                                                          \
  X(getAttribute, GetAttributeFn, "cudnnBackendGetAttribute")                                                          \
  X(execute, ExecuteFn, "cudnnBackendExecute")

struct Functions {
#define MORTISE_CUDNN_MEMBER(member, type, symbol) type member = nullptr;
  MORTISE_CUDNN_FUNCTIONS(MORTISE_CUDNN_MEMBER)
#undef MORTISE_CUDNN_MEMBER
};

Result<Functions> findFunctions(const std::string &file) {
  const std::vector<std::string> names{file == anyLibrary ? "libcudnn.so.9" : file};
  Result<void *> handle = codegen::openShared(names);
  if (!handle)
    return Error{handle.error().code, "expected cuDNN (" + names[0] + "), found none (" + handle.error().message +
                                          "); install it (pip install nvidia-cudnn-cu13) and name the file in "
                                          "MORTISE_CUDA_CUDNN or its folder in LD_LIBRARY_PATH"};
  Functions functions;
  std::string missing;
#define MORTISE_CUDNN_FIND(member, type, symbol) codegen::findShared(*handle, symbol, functions.member, missing);
  MORTISE_CUDNN_FUNCTIONS(MORTISE_CUDNN_FIND)
#undef MORTISE_CUDNN_FIND
  if (!missing.empty())
    return Error{MORTISE_VERSION_MISMATCH,
                 "expected cuDNN to have " + missing + ", found none; install cuDNN 9 (pip install nvidia-cudnn-cu13)"};
  return functions;
}

// ---- Results

struct Meaning { // of a status, or of a category
  int status;
  MortiseCode code;
  const char *name, *remedy;
};
constexpr Meaning meanings[] = {
    {SublibraryLoadingFailed, MORTISE_NOT_FOUND, "CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED",
     "install all of cuDNN, and cuBLAS and NVRTC beside it (pip install nvidia-cudnn-cu13 nvidia-cublas "
     "nvidia-cuda-nvrtc), with their folders in LD_LIBRARY_PATH"},
    {SublibraryVersionMismatch, MORTISE_VERSION_MISMATCH, "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH",
     "install all libraries of cuDNN from one package"},
    {DeviceAllocationFailed, MORTISE_OUT_OF_MEMORY, "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
     "free memory of the device, use a smaller batch, or end other processes that use the device"},
    {NotInitialized / categorySize, MORTISE_VERSION_MISMATCH, "CUDNN_STATUS_NOT_INITIALIZED",
     "install a driver that is as new as the library, and look whether memory of the device is free"},
    {BadParam / categorySize, MORTISE_INTERNAL, "CUDNN_STATUS_BAD_PARAM", "please report this"},
    {NotSupported / categorySize, MORTISE_UNSUPPORTED, "CUDNN_STATUS_NOT_SUPPORTED",
     "the library has no kernel for this convolution on this device: use other extents or another element type"},
    {InternalError / categorySize, MORTISE_INTERNAL, "CUDNN_STATUS_INTERNAL_ERROR", "please report this"},
    {ExecutionFailed / categorySize, MORTISE_INTERNAL, "CUDNN_STATUS_EXECUTION_FAILED", "please report this"},
};

Result<void> check(const Functions &functions, Status status, const char *call) {
  if (status == Success)
    return {};
  char said[512] = {}; // about the last call of this thread that failed
  functions.lastError(said, sizeof said - 1);
  const std::string reason = said[0] ? std::string(said) + "; " : "";
  const auto *found = std::ranges::find(meanings, static_cast<int>(status), &Meaning::status);
  if (found == std::end(meanings))
    found = std::ranges::find(meanings, status / categorySize, &Meaning::status);
  const std::string number = std::to_string(static_cast<int>(status));
  if (found == std::end(meanings))
    return Error{MORTISE_INTERNAL, std::string(call) + ": failed (" + number + "); " + reason + "please report this"};
  return Error{found->code,
               std::string(call) + ": failed (" + found->name + ", " + number + "); " + reason + found->remedy};
}

// ---- Descriptors

// One descriptor of the library's, to be filled and finalized. The first error stays, and what follows it does nothing.
class Described {
public:
  Described(const Functions &functions, DescriptorType type) : functions(&functions) {
    outcome = check(functions, functions.descriptorCreate(type, &handle), "cudnnBackendCreateDescriptor");
    if (!outcome)
      handle = nullptr;
  }
  Described(Described &&other) noexcept
      : functions(other.functions), handle(std::exchange(other.handle, nullptr)), outcome(std::move(other.outcome)) {}
  Described &operator=(Described &&other) noexcept {
    std::swap(functions, other.functions);
    std::swap(handle, other.handle);
    std::swap(outcome, other.outcome);
    return *this;
  }
  ~Described() {
    if (handle)
      functions->descriptorDestroy(handle);
  }

  template <typename T> Described &set(Attribute key, AttributeType type, const T &value) {
    return setAll(key, type, std::span<const T>(&value, 1));
  }
  template <typename T> Described &setAll(Attribute key, AttributeType type, std::span<const T> values) {
    if (outcome)
      outcome = check(*functions,
                      functions->setAttribute(handle, key, type, static_cast<int64_t>(values.size()), values.data()),
                      "cudnnBackendSetAttribute");
    return *this;
  }
  Described &set(Attribute key, const std::vector<int64_t> &values) {
    return setAll(key, TypeInt64, std::span<const int64_t>(values));
  }
  Described &set(Attribute key, const Described &other) {
    if (outcome)
      outcome = other.outcome;
    return set(key, TypeDescriptor, other.handle);
  }
  Described &finalize() {
    if (outcome)
      outcome = check(*functions, functions->finalize(handle), "cudnnBackendFinalize");
    return *this;
  }
  // Reads at most values.size() elements. How many there are.
  template <typename T> Result<size_t> get(Attribute key, AttributeType type, std::span<T> values) const {
    int64_t count = 0;
    if (!outcome)
      return outcome.error();
    if (auto read = check(
            *functions,
            functions->getAttribute(handle, key, type, static_cast<int64_t>(values.size()), &count, values.data()),
            "cudnnBackendGetAttribute");
        !read)
      return read.error();
    return static_cast<size_t>(std::clamp<int64_t>(count, 0, static_cast<int64_t>(values.size())));
  }
  const Result<void> &result() const { return outcome; }
  Descriptor get() const { return handle; }

private:
  const Functions *functions;
  Descriptor handle = nullptr;
  Result<void> outcome;
};

// ---- The graph of a call

DataType typeOf(int32_t dtype) { return dtype == MORTISE_F16 ? Half : dtype == MORTISE_BF16 ? BFloat16 : Float; }

enum Id : int64_t { IdX = 1, IdWeight, IdResult, IdScale, IdBias, IdAddend, IdFirstVirtual };

// The library wants two spatial dimensions at least.
std::vector<int64_t> widened(std::vector<int64_t> dims, int64_t filling, size_t least) {
  if (dims.size() < least)
    dims.insert(dims.end() - 1, filling);
  return dims;
}

// Of [N, C, spatial...].
std::vector<int64_t> stridesOf(const std::vector<int64_t> &dims, bool channelsLast) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = 1;
  const auto take = [&](size_t i) {
    strides[i] = stride;
    stride *= dims[i];
  };
  if (channelsLast)
    take(1);
  for (size_t i = dims.size(); i-- > 2;)
    take(i);
  if (!channelsLast)
    take(1);
  take(0);
  return strides;
}

// Descriptors refer to each other without keeping each other.
class Operations {
public:
  Operations(const Functions &functions, const ConvolutionCall &call, Handle handle);
  const Described &graph() const { return *whole; }

private:
  const Described &keep(Described made) {
    all.push_back(std::move(made));
    return all.back();
  }
  const Described &tensor(int64_t id, DataType type, const std::vector<int64_t> &dims, bool isVirtual = false);
  const Described &pointwise(PointwiseMode mode, const Described &x, const Described *other, const Described &result);

  const Functions &functions;
  const ConvolutionCall &call;
  std::deque<Described> all;
  std::optional<Described> whole;
};

const Described &Operations::tensor(int64_t id, DataType type, const std::vector<int64_t> &dims, bool isVirtual) {
  Described made(functions, TensorDescriptor);
  made.set(TensorDataType, TypeDataType, type)
      .set(TensorDimensions, dims)
      .set(TensorStrides, stridesOf(dims, call.channelsLast))
      .set(TensorId, TypeInt64, id)
      .set(TensorAlignment, TypeInt64, static_cast<int64_t>(convolutionAlignment))
      .set(TensorIsVirtual, TypeBoolean, isVirtual)
      .finalize();
  return keep(std::move(made));
}

const Described &Operations::pointwise(PointwiseMode mode, const Described &x, const Described *other,
                                       const Described &result) {
  Described how(functions, PointwiseDescriptor);
  how.set(PointwiseModeKey, TypePointwiseMode, mode).set(PointwiseMathPrecision, TypeDataType, Float);
  if (mode == Relu)
    how.set(PointwiseNanPropagation, TypeNanPropagation, PropagateNan);
  how.finalize();
  Described made(functions, OperationPointwiseDescriptor);
  made.set(PointwiseOperation, keep(std::move(how))).set(PointwiseX, x);
  if (other)
    made.set(PointwiseOther, *other);
  made.set(PointwiseResult, result).finalize();
  return keep(std::move(made));
}

Operations::Operations(const Functions &functions, const ConvolutionCall &call, Handle handle)
    : functions(functions), call(call) {
  const DataType operands = typeOf(call.dtype), results = typeOf(call.resultDtype);
  const std::vector<int64_t> resultDims = widened(call.result, 1, 4);
  std::vector<int64_t> channelDims(resultDims.size(), 1);
  channelDims[1] = resultDims[1];
  const auto spatial = static_cast<int64_t>(resultDims.size()) - 2;

  Described how(functions, ConvolutionDescriptor);
  how.set(ConvolutionComputeType, TypeDataType, Float)
      .set(ConvolutionModeKey, TypeConvolutionMode, CrossCorrelation)
      .set(ConvolutionSpatialDims, TypeInt64, spatial)
      .set(ConvolutionDilations, widened(call.dilations, 1, 2))
      .set(ConvolutionStrides, widened(call.strides, 1, 2))
      .set(ConvolutionPrePaddings, widened(call.padding, 0, 2))
      .set(ConvolutionPostPaddings, widened(call.padding, 0, 2))
      .finalize();
  const Described &convolution = keep(std::move(how));

  int64_t nextId = IdFirstVirtual;
  size_t left = size_t{call.hasScale} + size_t{call.hasBias} + size_t{call.hasAddend} +
                size_t{call.activation != ConvolutionCall::None}; // pointwise operations to come
  const auto next = [&]() -> const Described & {
    return left == 0 ? tensor(IdResult, results, resultDims) : tensor(nextId++, Float, resultDims, true);
  };
  std::vector<Descriptor> operations;
  const Described *value = &next();
  constexpr float one = 1, zero = 0; // of another type some engines take them for 0
  Described forward(functions, ConvolutionForwardDescriptor);
  forward.set(ForwardConvolution, convolution)
      .set(ForwardX, tensor(IdX, operands, widened(call.x, 1, 4)))
      .set(ForwardWeight, tensor(IdWeight, operands, widened(call.weight, 1, 4)))
      .set(ForwardResult, *value)
      .set(ForwardAlpha, TypeFloat, one)
      .set(ForwardBeta, TypeFloat, zero)
      .finalize();
  operations.push_back(keep(std::move(forward)).get());
  const auto apply = [&](PointwiseMode mode, const Described *other) {
    --left;
    const Described &result = next();
    operations.push_back(pointwise(mode, *value, other, result).get());
    value = &result;
  };
  if (call.hasScale)
    apply(Multiply, &tensor(IdScale, operands, channelDims));
  if (call.hasBias)
    apply(Add, &tensor(IdBias, operands, channelDims));
  if (call.hasAddend)
    apply(Add, &tensor(IdAddend, operands, resultDims));
  if (call.activation == ConvolutionCall::Relu)
    apply(Relu, nullptr);

  whole.emplace(functions, OperationGraphDescriptor);
  const auto failed = std::ranges::find_if(all, [](const Described &each) { return !each.result(); });
  if (failed != all.end()) {
    whole.emplace(std::move(*failed)); // with its error
    return;
  }
  whole->set(GraphHandle, TypeHandle, handle)
      .setAll(GraphOperations, TypeDescriptor, std::span<const Descriptor>(operations))
      .finalize();
}

// ---- The choice of an engine

constexpr size_t mostConfigs = 32, mostNotes = 16;

template <typename Note> Result<std::vector<Note>> notesOf(const Described &engine, Attribute key, AttributeType type) {
  std::vector<Note> notes(mostNotes);
  Result<size_t> count = engine.get(key, type, std::span<Note>(notes));
  if (!count)
    return count.error();
  notes.resize(*count);
  return notes;
}

// Sums are of products of the operands, in f32: nothing that transforms them, or rounds parts of a sum to f16.
bool isExactEnough(const ConvolutionCall &call, std::span<const NumericalNote> notes) {
  return std::ranges::none_of(notes, [&](NumericalNote note) {
    switch (note) {
    case NoteReducedPrecisionReduction:
    case NoteFft:
    case NoteWinograd:
    case NoteWinograd4x4:
    case NoteWinograd6x6:
    case NoteWinograd13x13:
      return true;
    case NoteDownConvertInputs:
      return !call.tensorFloats || call.dtype != MORTISE_F32;
    case NoteTensorCore: // which have no f32
      return call.dtype == MORTISE_F32 && !call.tensorFloats;
    case NoteNondeterministic:
      return call.deterministic;
    default:
      return false;
    }
  });
}

// Engines that compile what a graph says compute it in f32 and round at its end. Of the others, some round sums to 16
// bits before they add a bias, and some lose subnormal results or infinities (cuDNN 9.19 on an H100).
bool roundsOnce(const ConvolutionCall &call, std::span<const BehaviorNote> notes) {
  return call.resultDtype == MORTISE_F32 || std::ranges::find(notes, NoteRuntimeCompilation) != notes.end();
}

struct Plan {
  Described plan;
  uint64_t workspace = 0;
};

// The library's first choice that is exact enough, needs no more workspace and can be prepared.
Result<Plan> choose(const Functions &functions, const ConvolutionCall &call, Handle handle, const Described &graph,
                    uint64_t mostWorkspace) {
  if (!graph.result())
    return graph.result().error();
  std::string reasons;
  const auto refused = [&](const std::string &reason) {
    if (reasons.find(reason) == reasons.npos)
      reasons += (reasons.empty() ? "" : "; ") + reason;
  };
  for (const HeuristicMode mode : {HeuristicA, HeuristicFallback}) {
    Described heuristic(functions, HeuristicDescriptor);
    heuristic.set(HeuristicGraph, graph).set(HeuristicModeKey, TypeHeuristicMode, mode).finalize();
    std::vector<Described> configs;
    std::vector<Descriptor> handles;
    for (size_t i = 0; i < mostConfigs; ++i) {
      configs.emplace_back(functions, EngineConfigDescriptor);
      if (!configs.back().result())
        return configs.back().result().error();
      handles.push_back(configs.back().get());
    }
    Result<size_t> count = heuristic.get(HeuristicResults, TypeDescriptor, std::span<Descriptor>(handles));
    if (!count) {
      if (count.error().code != MORTISE_UNSUPPORTED)
        return count.error();
      refused(count.error().message);
      continue;
    }
    for (size_t i = 0; i < *count; ++i) {
      Described engine(functions, EngineDescriptor);
      if (!engine.result())
        return engine.result().error();
      Descriptor engineHandle = engine.get();
      if (auto got = configs[i].get(ConfigEngine, TypeDescriptor, std::span(&engineHandle, 1)); !got)
        return got.error();
      auto notes = notesOf<NumericalNote>(engine, EngineNumericalNotes, TypeNumericalNote);
      if (!notes)
        return notes.error();
      auto behaviors = notesOf<BehaviorNote>(engine, EngineBehaviorNotes, TypeBehaviorNote);
      if (!behaviors)
        return behaviors.error();
      if (!isExactEnough(call, *notes) || !roundsOnce(call, *behaviors)) {
        refused("an engine is less exact than was asked for");
        continue;
      }
      Plan made{Described(functions, ExecutionPlanDescriptor)};
      made.plan.set(PlanHandle, TypeHandle, handle).set(PlanConfig, configs[i]).finalize();
      int64_t bytes = 0;
      auto read = made.plan.get(PlanWorkspaceBytes, TypeInt64, std::span(&bytes, 1));
      if (!read) {
        if (read.error().code == MORTISE_OUT_OF_MEMORY || read.error().code == MORTISE_NOT_FOUND)
          return read.error();
        refused(read.error().message);
        continue;
      }
      made.workspace = static_cast<uint64_t>(std::max<int64_t>(bytes, 0));
      if (made.workspace <= mostWorkspace)
        return made;
      refused("an engine needs " + std::to_string(made.workspace) + " bytes of workspace");
    }
  }
  return Error{MORTISE_UNSUPPORTED, "expected an engine of cuDNN for this convolution, found none (" + reasons +
                                        "); use other extents or another element type"};
}

// ---- Handles

// A handle serves one thread at a time, and has a stream. Handles are kept, like the device.
class Handles {
public:
  explicit Handles(const Functions &functions) : functions(functions) {}
  Handles(const Handles &) = delete;

  class Lease {
  public:
    Lease(Handles &owner, Handle handle) : owner(&owner), handle(handle) {}
    Lease(Lease &&other) noexcept : owner(std::exchange(other.owner, nullptr)), handle(other.handle) {}
    Lease &operator=(Lease &&) = delete;
    ~Lease() {
      if (!owner)
        return;
      std::lock_guard lock(owner->mutex);
      owner->idle.push_back(handle);
    }
    Handle get() const { return handle; }

  private:
    Handles *owner;
    Handle handle;
  };
  // The device's context is current.
  Result<Lease> take() {
    {
      std::lock_guard lock(mutex);
      if (!idle.empty()) {
        Lease lease(*this, idle.back());
        idle.pop_back();
        return lease;
      }
    }
    Handle made = nullptr;
    if (auto done = check(functions, functions.create(&made), "cudnnCreate"); !done)
      return done.error();
    return Lease(*this, made);
  }

private:
  const Functions &functions;
  std::mutex mutex;
  std::vector<Handle> idle;
};

// ---- One call

class CudnnConvolution : public LibraryConvolution {
public:
  CudnnConvolution(const Functions &functions, Handles &handles, ConvolutionCall call)
      : functions(functions), handles(handles), call(std::move(call)) {}
  // Once; other threads wait. That there is no engine stays so; other errors may pass.
  Result<void> describe(uint64_t mostWorkspace) {
    std::lock_guard lock(mutex);
    if (!described || (!*described && described->error().code != MORTISE_UNSUPPORTED))
      described = describeOnce(mostWorkspace);
    return *described;
  }
  uint64_t workspaceBytes() const override { return plan->workspace; }
  Result<void> enqueue(const ConvolutionAddresses &addresses, MortiseAddress memory, void *stream) override;

private:
  Result<void> describeOnce(uint64_t mostWorkspace) {
    Result<Handles::Lease> handle = handles.take();
    if (!handle)
      return handle.error();
    const Operations operations(functions, call, handle->get());
    Result<Plan> made = choose(functions, call, handle->get(), operations.graph(), mostWorkspace);
    if (!made)
      return made.error();
    plan = std::move(*made);
    return {};
  }
  Result<Described> packOf(const ConvolutionAddresses &addresses, MortiseAddress memory) const;

  const Functions &functions;
  Handles &handles;
  const ConvolutionCall call;
  std::mutex mutex; // of what describe() does
  std::optional<Result<void>> described;
  std::optional<Plan> plan;
};

Result<Described> CudnnConvolution::packOf(const ConvolutionAddresses &addresses, MortiseAddress memory) const {
  std::vector<int64_t> ids{IdX, IdWeight, IdResult};
  std::vector<void *> pointers{pointer<void>(addresses.x), pointer<void>(addresses.weight),
                               pointer<void>(addresses.result)};
  const auto add = [&](bool has, int64_t id, MortiseAddress address) {
    if (!has)
      return;
    ids.push_back(id);
    pointers.push_back(pointer<void>(address));
  };
  add(call.hasScale, IdScale, addresses.scale);
  add(call.hasBias, IdBias, addresses.bias);
  add(call.hasAddend, IdAddend, addresses.addend);
  Described pack(functions, VariantPackDescriptor);
  pack.set(PackIds, ids)
      .setAll(PackPointers, TypeVoidPointer, std::span<void *const>(pointers))
      .set(PackWorkspace, TypeVoidPointer, plan->workspace ? pointer<void>(memory) : nullptr)
      .finalize();
  if (!pack.result())
    return pack.result().error();
  return pack;
}

Result<void> CudnnConvolution::enqueue(const ConvolutionAddresses &addresses, MortiseAddress memory, void *stream) {
  Result<Described> pack = packOf(addresses, memory);
  if (!pack)
    return pack.error();
  Result<Handles::Lease> handle = handles.take();
  if (!handle)
    return handle.error();
  if (auto set = check(functions, functions.setStream(handle->get(), stream), "cudnnSetStream"); !set)
    return set;
  return check(functions, functions.execute(handle->get(), plan->plan.get(), pack->get()), "cudnnBackendExecute");
}

// ---- One device

class CudnnLibrary : public ConvolutionLibrary {
public:
  CudnnLibrary(const Functions &functions, uint64_t mostWorkspace, std::string device)
      : functions(functions), mostWorkspace(mostWorkspace), device(std::move(device)), handles(this->functions) {}
  Result<std::shared_ptr<LibraryConvolution>> prepare(const ConvolutionCall &call) override;

private:
  std::shared_ptr<CudnnConvolution> find(const ConvolutionCall &call);

  const Functions functions;
  const uint64_t mostWorkspace;
  const std::string device;
  Handles handles;
  std::mutex mutex;
  // Kept, also what it has no engine for: to prepare a call takes up to a second, and leaves memory behind each time.
  static constexpr size_t mostKept = 1024;
  std::map<ConvolutionCall, std::shared_ptr<CudnnConvolution>> known;
};

std::shared_ptr<CudnnConvolution> CudnnLibrary::find(const ConvolutionCall &call) {
  std::lock_guard lock(mutex);
  if (known.size() >= mostKept)
    std::erase_if(known, [](const auto &each) { return each.second.use_count() == 1; });
  std::shared_ptr<CudnnConvolution> &place = known[call];
  if (!place)
    place = std::make_shared<CudnnConvolution>(functions, handles, call);
  return place;
}

Result<std::shared_ptr<LibraryConvolution>> CudnnLibrary::prepare(const ConvolutionCall &call) {
  std::shared_ptr<CudnnConvolution> found = find(call);
  if (auto described = found->describe(mostWorkspace); !described)
    return Error{described.error().code, device + ": " + described.error().message};
  return std::shared_ptr<LibraryConvolution>(std::move(found));
}

} // namespace

Result<std::unique_ptr<ConvolutionLibrary>> openConvolutionLibrary(const std::string &file, uint64_t mostWorkspace,
                                                                   std::string device) {
  if (file == noLibrary)
    return Error{MORTISE_UNSUPPORTED, "the option cudnn is off: set it to auto for convolutions on this device"};
  Result<Functions> functions = findFunctions(file);
  if (!functions)
    return functions.error();
  return std::unique_ptr<ConvolutionLibrary>(
      std::make_unique<CudnnLibrary>(*functions, mostWorkspace, std::move(device)));
}

} // namespace mortise::cuda
