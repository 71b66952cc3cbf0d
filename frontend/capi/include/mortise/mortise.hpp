// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// mortise.h for C++20: handles that free themselves, and Result instead of status. Header only. The wrapper itself
// throws nothing.
#pragma once

#include <mortise/dim.hpp>
#include <mortise/mortise.h>
#include <mortise/result.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace mortise::api {

// Takes ownership of a status.
inline Result<void> take(MortiseStatus *status) {
  if (!status)
    return {};
  Error error{static_cast<MortiseCode>(mortise_status_code(status)), mortise_status_message(status)};
  mortise_status_destroy(status);
  return error;
}

inline Result<std::string> takeString(MortiseStatus *status, char *&text) {
  if (Result<void> done = take(status); !done)
    return done.error();
  std::string copy(text);
  mortise_string_destroy(text);
  return copy;
}

using Options = std::vector<std::pair<std::string, std::string>>;

namespace detail {
inline std::vector<MortiseOption> view(const Options &options) {
  std::vector<MortiseOption> list;
  for (const auto &[key, value] : options)
    list.push_back({key.c_str(), value.c_str()});
  return list;
}
template <auto destroy> struct Destroy {
  template <typename Handle> void operator()(Handle *handle) const { destroy(handle); }
};
} // namespace detail

// An installed device of a session, which it does not keep alive.
class Device {
public:
  explicit Device(const MortiseSessionDevice *handle) : handle(handle) {}
  const MortiseSessionDevice *get() const { return handle; }
  // See mortise_device_set_allocator.
  Result<void> setAllocator(const MortiseDeviceAllocator *allocator) const {
    return take(mortise_device_set_allocator(handle, allocator));
  }

private:
  const MortiseSessionDevice *handle;
};

// Host memory that is ready for copies to and from a device, until this object ends. The session and the memory outlive
// it.
class RegisteredMemory {
public:
  static Result<RegisteredMemory> make(Device device, void *data, uint64_t bytes) {
    if (Result<void> done = take(mortise_memory_register(device.get(), data, bytes)); !done)
      return done.error();
    return RegisteredMemory(device, data);
  }
  RegisteredMemory(RegisteredMemory &&other) noexcept
      : device(other.device), start(std::exchange(other.start, nullptr)) {}
  RegisteredMemory &operator=(RegisteredMemory &&other) noexcept {
    std::swap(device, other.device);
    std::swap(start, other.start);
    return *this;
  }
  ~RegisteredMemory() {
    if (start)
      (void)take(mortise_memory_unregister(device.get(), start));
  }

private:
  RegisteredMemory(Device device, void *start) : device(device), start(start) {}
  Device device;
  void *start;
};

// Memory of a device, freed with this object; no work may use it then. The session outlives it.
class Memory {
public:
  static Result<Memory> allocate(Device device, uint64_t bytes) {
    void *data = nullptr;
    if (Result<void> done = take(mortise_memory_allocate(device.get(), bytes, &data)); !done)
      return done.error();
    return Memory(device, data);
  }
  Memory(Memory &&other) noexcept : device(other.device), start(std::exchange(other.start, nullptr)) {}
  Memory &operator=(Memory &&other) noexcept {
    std::swap(device, other.device);
    std::swap(start, other.start);
    return *this;
  }
  ~Memory() { (void)take(mortise_memory_free(device.get(), start)); }
  void *data() const { return start; }
  // Hands the memory over; it is freed by the DLPack tensor's deleter.
  Result<DLManagedTensorVersioned *> toDlpack(int32_t dtype, const std::vector<int64_t> &dims) && {
    const MortiseType type{sizeof(MortiseType), nullptr, dtype,  static_cast<int32_t>(dims.size()),
                           dims.data(),         nullptr, nullptr};
    DLManagedTensorVersioned *managed = nullptr;
    if (Result<void> done = take(mortise_memory_to_dlpack(device.get(), start, &type, &managed)); !done)
      return done.error();
    start = nullptr;
    return managed;
  }

private:
  Memory(Device device, void *start) : device(device), start(start) {}
  Device device;
  void *start;
};

// A dense buffer of the caller, in host memory or in that of a device.
class Tensor {
public:
  Tensor(void *data, int32_t dtype, std::vector<int64_t> dims) : extents(std::move(dims)), data(data), dtype(dtype) {}
  Tensor(void *data, int32_t dtype, std::vector<int64_t> dims, Device device)
      : extents(std::move(dims)), data(data), dtype(dtype), device(device.get()) {}
  MortiseTensor view() const {
    return {sizeof(MortiseTensor), data, dtype, static_cast<int32_t>(extents.size()), extents.data(), nullptr, device};
  }

private:
  std::vector<int64_t> extents;
  void *data;
  int32_t dtype;
  const MortiseSessionDevice *device = nullptr;
};

// Returns when the bytes are there. Waits for no queue.
inline Result<void> copy(const Tensor &target, const Tensor &source) {
  const MortiseTensor to = target.view(), from = source.view();
  return take(mortise_tensor_copy(&to, &from));
}

// A stream of a device.
class Queue {
public:
  static Result<Queue> create(Device device) {
    MortiseQueue *queue = nullptr;
    if (Result<void> done = take(mortise_queue_create(device.get(), &queue)); !done)
      return done.error();
    return Queue(queue);
  }
  // Wraps a native stream, which stays the caller's.
  static Result<Queue> import(Device device, uint64_t native) {
    MortiseQueue *queue = nullptr;
    if (Result<void> done = take(mortise_queue_import(device.get(), native, &queue)); !done)
      return done.error();
    return Queue(queue);
  }
  // The native stream, valid as long as the queue.
  Result<uint64_t> native() const {
    uint64_t found = 0;
    if (Result<void> done = take(mortise_queue_export(handle.get(), &found)); !done)
      return done.error();
    return found;
  }
  Result<void> wait() { return take(mortise_queue_wait(handle.get())); }
  MortiseQueue *get() const { return handle.get(); }

private:
  explicit Queue(MortiseQueue *queue) : handle(queue) {}
  std::unique_ptr<MortiseQueue, detail::Destroy<mortise_queue_destroy>> handle;
};

// An attribute of an op. Strings and arrays are copied.
class Attribute {
public:
  Attribute(std::string name, bool value) : Attribute(std::move(name), MORTISE_ATTRIBUTE_BOOL) { view.i64 = value; }
  Attribute(std::string name, int64_t value) : Attribute(std::move(name), MORTISE_ATTRIBUTE_I64) { view.i64 = value; }
  Attribute(std::string name, int value) : Attribute(std::move(name), static_cast<int64_t>(value)) {}
  Attribute(std::string name, double value) : Attribute(std::move(name), MORTISE_ATTRIBUTE_F64) { view.f64 = value; }
  Attribute(std::string name, const char *value) : Attribute(std::move(name), MORTISE_ATTRIBUTE_STRING) {
    text = value;
  }
  Attribute(std::string name, std::vector<int64_t> value) : Attribute(std::move(name), MORTISE_ATTRIBUTE_I64_ARRAY) {
    integers = std::move(value);
  }
  // An array of extents or positions, expressions over the builder's symbols.
  static Attribute extents(std::string name, std::span<const Dim> value) {
    Attribute made(std::move(name), MORTISE_ATTRIBUTE_I64_ARRAY);
    for (const Dim &dim : value) {
      made.integers.push_back(dim.numberOrDynamic());
      made.programs.push_back(dim.steps());
    }
    return made;
  }
  // An array of floats, which only ops of vendors have.
  static Attribute floats(std::string name, std::vector<double> value) {
    Attribute made(std::move(name), MORTISE_ATTRIBUTE_F64_ARRAY);
    made.reals = std::move(value);
    return made;
  }
  // A dense literal.
  Attribute(std::string name, int32_t dtype, std::vector<int64_t> dims, std::span<const std::byte> bytes)
      : Attribute(std::move(name), MORTISE_ATTRIBUTE_TENSOR) {
    integers = std::move(dims);
    data.assign(bytes.begin(), bytes.end());
    type.struct_size = sizeof type;
    type.dtype = dtype;
  }
  // Valid until this object is moved or destroyed.
  const MortiseAttribute *get() {
    view.name = name.c_str();
    view.string = text.c_str();
    view.i64s = integers.data();
    view.f64s = reals.data();
    view.count = view.kind == MORTISE_ATTRIBUTE_F64_ARRAY ? reals.size() : integers.size();
    exprs.clear();
    for (const auto &program : programs)
      exprs.push_back({program.data(), program.size()});
    view.exprs = exprs.empty() ? nullptr : exprs.data();
    if (view.kind == MORTISE_ATTRIBUTE_TENSOR) {
      type.rank = static_cast<int32_t>(integers.size());
      type.dims = integers.data();
      view.tensor_type = &type;
      view.tensor_data = data.data();
      view.count = data.size();
    }
    return &view;
  }

private:
  Attribute(std::string name, MortiseAttributeKind kind) : name(std::move(name)) {
    view.struct_size = sizeof view;
    view.kind = kind;
  }
  std::string name, text;
  std::vector<int64_t> integers;
  std::vector<double> reals;
  std::vector<std::vector<MortiseExprStep>> programs;
  std::vector<MortiseExpr> exprs;
  std::vector<std::byte> data;
  MortiseType type{};
  MortiseAttribute view{};
};

// A type whose extents are expressions over the builder's symbols.
class Type {
public:
  Type(int32_t dtype, std::span<const Dim> extents) {
    for (const Dim &extent : extents) {
      dims.push_back(extent.numberOrDynamic());
      programs.push_back(extent.steps());
    }
    for (const auto &program : programs)
      exprs.push_back({program.data(), program.size()});
    const bool isStatic = std::find(dims.begin(), dims.end(), MORTISE_DYNAMIC) == dims.end();
    type = {
        sizeof type, nullptr, dtype, static_cast<int32_t>(dims.size()), dims.data(), isStatic ? nullptr : exprs.data(),
        nullptr};
  }
  Type(const Type &) = delete;
  Type &operator=(const Type &) = delete;
  const MortiseType *get() const { return &type; }

private:
  std::vector<int64_t> dims;
  std::vector<std::vector<MortiseExprStep>> programs;
  std::vector<MortiseExpr> exprs;
  MortiseType type{};
};

class Program {
public:
  explicit Program(MortiseProgram *handle) : handle(handle) {}
  Result<void> bind(std::span<const MortiseTensor *const> inputs) {
    return take(mortise_program_bind(handle.get(), inputs.data(), inputs.size()));
  }
  Result<void> run(std::span<const MortiseTensor *const> inputs, std::span<const MortiseTensor *const> outputs) {
    return take(mortise_program_run(handle.get(), inputs.data(), inputs.size(), outputs.data(), outputs.size()));
  }
  // Returns when the call is queued behind what the queue has.
  Result<void> enqueue(const Queue &queue, std::span<const MortiseTensor *const> inputs,
                       std::span<const MortiseTensor *const> outputs) {
    return take(mortise_program_enqueue(handle.get(), queue.get(), inputs.data(), inputs.size(), outputs.data(),
                                        outputs.size()));
  }
  // The same with a queue of each device on which tensors lie.
  Result<void> enqueueAcross(std::span<MortiseQueue *const> queues, std::span<const MortiseTensor *const> inputs,
                             std::span<const MortiseTensor *const> outputs) {
    return take(mortise_program_enqueue_across(handle.get(), queues.data(), queues.size(), inputs.data(), inputs.size(),
                                               outputs.data(), outputs.size()));
  }
  Result<void> runPointers(const void *const *inputs, void *const *outputs, const int64_t *symbols = nullptr) {
    return take(mortise_program_run_pointers(handle.get(), inputs, outputs, symbols));
  }
  // The symbols' values that these inputs give. The inputs' data may be NULL.
  Result<std::vector<int64_t>> symbols(std::span<const MortiseTensor *const> inputs) {
    size_t count = 0;
    std::vector<int64_t> values;
    for (;;) {
      Result<void> done = take(
          mortise_program_symbols(handle.get(), inputs.data(), inputs.size(), values.data(), values.size(), &count));
      if (!done && count <= values.size())
        return done.error();
      if (done) {
        values.resize(count);
        return values;
      }
      values.resize(count);
    }
  }
  Result<std::vector<int64_t>> outputShape(size_t output, std::span<const int64_t> symbols) {
    std::vector<int64_t> dims(64); // no tensor has a higher rank
    size_t rank = 0;
    if (Result<void> done = take(mortise_program_output_shape(handle.get(), symbols.data(), symbols.size(), output,
                                                              dims.data(), dims.size(), &rank));
        !done)
      return done.error();
    dims.resize(rank);
    return dims;
  }
  // Belongs to the program.
  const MortiseSignature &signature() const {
    const MortiseSignature *signature = nullptr;
    (void)take(mortise_program_signature(handle.get(), &signature)); // a program has one
    return *signature;
  }
  Result<void> save(const std::string &path) const { return take(mortise_program_save(handle.get(), path.c_str())); }
  Result<std::string> report() const {
    char *text = nullptr;
    return takeString(mortise_program_report(handle.get(), &text), text);
  }
  MortiseProgram *get() const { return handle.get(); }

private:
  std::unique_ptr<MortiseProgram, detail::Destroy<mortise_program_destroy>> handle;
};

class Builder {
public:
  explicit Builder(MortiseBuilder *handle) : handle(handle) {}
  Result<uint32_t> input(const std::string &name, int32_t dtype, std::vector<int64_t> dims, uint32_t flags = 0) {
    const MortiseType type{sizeof(MortiseType), nullptr, dtype,  static_cast<int32_t>(dims.size()),
                           dims.data(),         nullptr, nullptr};
    uint32_t value = 0;
    if (Result<void> done = take(mortise_builder_input(handle.get(), name.c_str(), &type, flags, &value)); !done)
      return done.error();
    return value;
  }
  Result<uint32_t> symbolicInput(const std::string &name, const Type &type, uint32_t flags = 0) {
    uint32_t value = 0;
    if (Result<void> done = take(mortise_builder_input(handle.get(), name.c_str(), type.get(), flags, &value)); !done)
      return done.error();
    return value;
  }
  // Adds a symbol and returns it as an extent.
  Result<Dim> symbol(const std::string &name, int64_t min = 0, int64_t max = INT64_MAX, int64_t divisor = 1) {
    uint32_t number = 0;
    if (Result<void> done = take(mortise_builder_symbol(handle.get(), name.c_str(), min, max, divisor, &number)); !done)
      return done.error();
    return Dim::symbol(number);
  }
  Result<void> guard(const Dim &dim, MortiseRelation relation, const std::string &reason) {
    const std::vector<MortiseExprStep> steps = dim.steps();
    const MortiseExpr expr{steps.data(), steps.size()};
    return take(mortise_builder_guard(handle.get(), &expr, relation, reason.c_str()));
  }
  // For ops of one result.
  Result<uint32_t> op(const std::string &name, std::initializer_list<uint32_t> operands,
                      std::vector<Attribute> attributes = {}, const std::string &location = "") {
    std::vector<const MortiseAttribute *> views;
    for (Attribute &attribute : attributes)
      views.push_back(attribute.get());
    uint32_t result = 0;
    if (Result<void> done = take(mortise_builder_op(handle.get(), name.c_str(), operands.begin(), operands.size(),
                                                    views.data(), views.size(), location.c_str(), &result, 1, nullptr));
        !done)
      return done.error();
    return result;
  }
  // For ops of several results.
  Result<std::vector<uint32_t>> ops(const std::string &name, std::initializer_list<uint32_t> operands,
                                    std::vector<Attribute> attributes = {}, const std::string &location = "") {
    std::vector<const MortiseAttribute *> views;
    for (Attribute &attribute : attributes)
      views.push_back(attribute.get());
    std::vector<uint32_t> results(64);
    size_t count = 0;
    if (Result<void> done =
            take(mortise_builder_op(handle.get(), name.c_str(), operands.begin(), operands.size(), views.data(),
                                    views.size(), location.c_str(), results.data(), results.size(), &count));
        !done)
      return done.error();
    results.resize(count);
    return results;
  }
  Result<void> output(uint32_t value, int64_t aliasInput = -1) {
    return take(mortise_builder_output(handle.get(), value, aliasInput));
  }
  // Where the tensors of an input or output will lie, by its number.
  Result<void> inputDevice(size_t input, Device device) {
    return take(mortise_builder_input_device(handle.get(), input, device.get()));
  }
  Result<void> outputDevice(size_t output, Device device) {
    return take(mortise_builder_output_device(handle.get(), output, device.get()));
  }
  Result<std::string> text() const {
    char *text = nullptr;
    return takeString(mortise_builder_text(handle.get(), &text), text);
  }
  // Empty unless the last Session::compile of this builder failed because no device takes some nodes. The entries
  // belong to the builder, until its next compilation or its destruction.
  Result<std::span<const MortiseRefusal *const>> refusals() const {
    const MortiseRefusal *const *list = nullptr;
    size_t count = 0;
    if (Result<void> done = take(mortise_builder_refusals(handle.get(), &list, &count)); !done)
      return done.error();
    return std::span(list, count);
  }
  MortiseBuilder *get() const { return handle.get(); }

private:
  std::unique_ptr<MortiseBuilder, detail::Destroy<mortise_builder_destroy>> handle;
};

class Session {
public:
  static Result<Session> create(const Options &options = {}) {
    const std::vector<MortiseOption> list = detail::view(options);
    MortiseSession *session = nullptr;
    if (Result<void> done = take(mortise_session_create(list.data(), list.size(), &session)); !done)
      return done.error();
    return Session(session);
  }
  Result<Device> device(const std::string &name) const {
    const MortiseSessionDevice *device = nullptr;
    if (Result<void> done = take(mortise_session_device(handle.get(), name.c_str(), &device)); !done)
      return done.error();
    return Device(device);
  }
  // Borrows memory, extents and strides of `managed`. `written`: whether the tensor will be.
  Result<MortiseTensor> fromDlpack(const DLManagedTensorVersioned *managed, bool written) const {
    MortiseTensor tensor{.struct_size = sizeof tensor};
    if (Result<void> done = take(mortise_tensor_from_dlpack(handle.get(), managed, written, &tensor)); !done)
      return done.error();
    return tensor;
  }
  Result<Builder> builder(const std::string &name) {
    MortiseBuilder *builder = nullptr;
    if (Result<void> done = take(mortise_builder_create(handle.get(), name.c_str(), &builder)); !done)
      return done.error();
    return Builder(builder);
  }
  Result<Program> compile(Builder &builder, const Options &options = {}) {
    const std::vector<MortiseOption> list = detail::view(options);
    MortiseProgram *program = nullptr;
    if (Result<void> done = take(mortise_compile(handle.get(), builder.get(), list.data(), list.size(), &program));
        !done)
      return done.error();
    return Program(program);
  }
  Result<Program> load(const std::string &path, const Options &options = {}) {
    const std::vector<MortiseOption> list = detail::view(options);
    MortiseProgram *program = nullptr;
    if (Result<void> done = take(mortise_program_load(handle.get(), path.c_str(), list.data(), list.size(), &program));
        !done)
      return done.error();
    return Program(program);
  }
  Result<std::string> describe() const {
    char *text = nullptr;
    return takeString(mortise_session_describe(handle.get(), &text), text);
  }
  MortiseSession *get() const { return handle.get(); }

private:
  explicit Session(MortiseSession *session) : handle(session) {}
  std::unique_ptr<MortiseSession, detail::Destroy<mortise_session_destroy>> handle;
};

} // namespace mortise::api
