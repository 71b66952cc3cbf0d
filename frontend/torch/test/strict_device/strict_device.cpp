// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A PyTorch device over the strict plugin (sdk/examples/strict), for tests of the door: its tensors lie in memory that
// the host must not touch, its streams are the plugin's. Loaded by torch.ops.load_library; __init__.py is its
// Python side. Operators run on the CPU and wait for the current stream first, as the operators of a device that
// queues them there would come behind it.
#include <mortise/mortise.hpp>

#include "../../../../sdk/examples/strict/control.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/Operators.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/set_cpu_dispatch.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <array>
#include <dlfcn.h>
#include <mutex>
#include <optional>
#include <vector>

namespace {
namespace api = mortise::api;

constexpr auto type = c10::DeviceType::PrivateUse1;
constexpr std::array names = {"strict:0", "strict:1", "aloof:0"}; // by DLPack's number, which is PyTorch's index

template <typename T> T get(mortise::Result<T> result) {
  TORCH_CHECK(bool(result), result.error().message);
  if constexpr (!std::is_void_v<T>)
    return std::move(*result);
}

// ---- The devices and their streams

struct State {
  std::optional<api::Session> session;
  const MortisePlugin *table = nullptr;
  std::array<MortiseDevice *, names.size()> devices{}; // as the plugin names them
  const StrictControl *control = nullptr;
  std::mutex mutex;                                                           // of `streams`
  std::array<std::vector<std::unique_ptr<api::Queue>>, names.size()> streams; // by device, by number
} state;

thread_local c10::DeviceIndex currentDevice = 0;
thread_local std::array<c10::StreamId, names.size()> currentStreams{};

api::Device deviceAt(c10::DeviceIndex index) {
  TORCH_CHECK(state.session, "strict_device: call open first");
  return get(state.session->device(names.at(static_cast<size_t>(index))));
}

api::Queue &queueOf(c10::DeviceIndex device, c10::StreamId number) {
  const std::lock_guard lock(state.mutex);
  auto &streams = state.streams.at(static_cast<size_t>(device));
  while (streams.size() <= static_cast<size_t>(number))
    streams.push_back(std::make_unique<api::Queue>(get(api::Queue::create(deviceAt(device)))));
  return *streams[static_cast<size_t>(number)];
}

c10::StreamId &currentStream(c10::DeviceIndex device) { return currentStreams.at(static_cast<size_t>(device)); }
void waitFor(c10::DeviceIndex device) { get(queueOf(device, currentStream(device)).wait()); }

void waitForAll(c10::DeviceIndex device) {
  size_t count = 0;
  {
    const std::lock_guard lock(state.mutex);
    count = state.streams.at(static_cast<size_t>(device)).size();
  }
  for (size_t i = 0; i < count; ++i)
    get(queueOf(device, static_cast<c10::StreamId>(i)).wait());
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return ::type; }
  c10::Device getDevice() const override { return {::type, currentDevice}; }
  void setDevice(c10::Device device) const override { currentDevice = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { currentDevice = device.index(); }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::DeviceIndex deviceCount() const noexcept override { return names.size(); }

  static c10::Stream stream(c10::Device device, c10::StreamId number) {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(::type, device.has_index() ? device.index() : currentDevice),
                       number);
  }
  c10::Stream getStream(c10::Device device) const override {
    return stream(device, currentStream(device.has_index() ? device.index() : currentDevice));
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream(device, 0); }
  c10::Stream getNewStream(c10::Device device, int) const override {
    const c10::Stream first = stream(device, 0);
    (void)queueOf(first.device_index(), 0); // the default stream
    const std::lock_guard lock(state.mutex);
    auto &streams = state.streams.at(static_cast<size_t>(first.device_index()));
    streams.push_back(std::make_unique<api::Queue>(get(api::Queue::create(deviceAt(first.device_index())))));
    return stream(first.device(), static_cast<c10::StreamId>(streams.size() - 1));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override { return getNewStream(device, 0); }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = getStream(stream.device());
    (void)queueOf(stream.device_index(), stream.id());
    currentStream(stream.device_index()) = stream.id();
    return before;
  }
  void *getStreamNativeHandle(const c10::Stream stream) const override {
    return reinterpret_cast<void *>(get(queueOf(stream.device_index(), stream.id()).native()));
  }
  bool queryStream(const c10::Stream &stream) const override {
    synchronizeStream(stream);
    return true;
  }
  void synchronizeStream(const c10::Stream &stream) const override {
    get(queueOf(stream.device_index(), stream.id()).wait());
  }
  void synchronizeDevice(const c10::DeviceIndex device) const override { waitForAll(device); }

  // An event waits for its stream as soon as it is recorded.
  void record(void **, const c10::Stream &stream, const c10::DeviceIndex, const c10::EventFlag) const override {
    synchronizeStream(stream);
  }
  void block(void *, const c10::Stream &) const override {}
  bool queryEvent(void *) const override { return true; }
  void synchronizeEvent(void *) const override {}
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

// ---- Memory

void copyBytes(void *to, c10::Device toDevice, const void *from, c10::Device fromDevice, size_t bytes) {
  const auto tensor = [&](const void *data, c10::Device device) {
    const std::vector<int64_t> dims = {static_cast<int64_t>(bytes)};
    auto *writable = const_cast<void *>(data);
    return device.is_cpu() ? api::Tensor(writable, MORTISE_UI8, dims)
                           : api::Tensor(writable, MORTISE_UI8, dims, deviceAt(device.index()));
  };
  if (bytes)
    get(api::copy(tensor(to, toDevice), tensor(from, fromDevice)));
}

// Takes memory from the plugin, as PyTorch's allocators take theirs from a driver. As with a caching allocator, memory
// may be used in the stream that is current at its allocation, and again when that stream has come so far, not before.
class Allocator final : public c10::DeviceAllocator {
public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device device(type, currentDevice);
    if (bytes == 0)
      return {nullptr, device};
    auto block = std::make_unique<Block>(Block{device.index(), currentStream(device.index()), bytes, 0});
    MortiseMemoryArgs args = argumentsOf(*block);
    get(api::take(state.table->memory_allocate(&args)));
    block->address = args.address;
    const std::lock_guard lock(mutex);
    stats.at(static_cast<size_t>(device.index())).allocated_bytes[0].increase(bytes);
    return {reinterpret_cast<void *>(args.address), block.release(), free, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void *to, const void *from, size_t bytes) const override {
    const c10::Device device(type, currentDevice);
    waitFor(currentDevice);
    copyBytes(to, device, from, device, bytes);
  }

  bool initialized() override { return state.session.has_value(); }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr &, c10::Stream) override {
    TORCH_CHECK(false, "strict_device: no record_stream");
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const std::lock_guard lock(mutex);
    return stats.at(static_cast<size_t>(device));
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {}

private:
  struct Block {
    c10::DeviceIndex device;
    c10::StreamId stream;
    size_t bytes;
    MortiseAddress address;
  };

  static MortiseMemoryArgs argumentsOf(const Block &block) {
    MortiseMemoryArgs args{};
    args.struct_size = sizeof args;
    args.device = state.devices.at(static_cast<size_t>(block.device));
    args.stream = reinterpret_cast<MortiseStream *>(get(queueOf(block.device, block.stream).native()));
    args.bytes = block.bytes;
    args.address = block.address;
    return args;
  }

  static void free(void *context);

  std::mutex mutex; // of `stats`
  std::array<c10::CachingDeviceAllocator::DeviceStats, names.size()> stats;
} allocator;

void Allocator::free(void *context) {
  const std::unique_ptr<Block> block(static_cast<Block *>(context));
  MortiseMemoryArgs args = argumentsOf(*block);
  (void)api::take(state.table->memory_free(&args)); // the checker tells of work that still uses it
  const std::lock_guard lock(allocator.mutex);
  allocator.stats.at(static_cast<size_t>(block->device)).allocated_bytes[0].decrease(block->bytes);
}
REGISTER_ALLOCATOR(type, &allocator)

// ---- Random numbers: a generator for each device

struct Generator final : at::CPUGeneratorImpl {
  explicit Generator(c10::DeviceIndex device) {
    device_ = c10::Device(type, device);
    key_set_ = c10::DispatchKeySet(c10::DispatchKey::PrivateUse1);
  }
};

const at::Generator &generatorOf(c10::DeviceIndex device) {
  static std::array<at::Generator, names.size()> made = {
      at::make_generator<Generator>(0), at::make_generator<Generator>(1), at::make_generator<Generator>(2)};
  return made.at(static_cast<size_t>(device < 0 ? currentDevice : device));
}

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  const at::Generator &getDefaultGenerator(c10::DeviceIndex device) const override { return generatorOf(device); }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return at::make_generator<Generator>(device < 0 ? currentDevice : device);
  }
  void resizePrivateUse1Bytes(const c10::Storage &storage, size_t bytes) const override {
    const c10::OptionalDeviceGuard guard(storage.device());
    at::DataPtr fresh = allocator.allocate(bytes);
    waitFor(storage.device().index());
    copyBytes(fresh.get(), storage.device(), storage.data(), storage.device(), std::min(bytes, storage.nbytes()));
    storage.set_data_ptr_noswap(std::move(fresh));
    storage.set_nbytes(bytes);
  }
};

// ---- Operators

at::Tensor emptyStrided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<c10::ScalarType> dtype,
                        std::optional<c10::Layout>, std::optional<c10::Device> device, std::optional<bool>) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(size, stride, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(dtype));
}

at::Tensor emptyTensor(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>,
                       std::optional<c10::Device> device, std::optional<bool>,
                       std::optional<c10::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(size, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), format);
}

// The bytes from a tensor's first element to its last, and the tensor over a copy of them in host memory.
struct Mirror {
  explicit Mirror(const at::Tensor &tensor) : device(tensor.device()) {
    int64_t last = tensor.numel() ? 1 : 0;
    for (int64_t i = 0; tensor.numel() && i < tensor.dim(); ++i)
      last += (tensor.size(i) - 1) * tensor.stride(i);
    data = const_cast<void *>(tensor.const_data_ptr());
    bytes.resize(static_cast<size_t>(last) * tensor.itemsize());
    host = at::from_blob(bytes.data(), tensor.sizes(), tensor.strides(), tensor.options().device(c10::DeviceType::CPU));
    waitFor(device.index());
    copyBytes(bytes.data(), c10::DeviceType::CPU, data, device, bytes.size());
  }
  void write() const { copyBytes(data, device, bytes.data(), c10::DeviceType::CPU, bytes.size()); }

  c10::Device device;
  void *data;
  std::vector<std::byte> bytes;
  at::Tensor host;
};

at::Tensor copyFrom(const at::Tensor &self, const at::Tensor &target, bool) {
  const auto onHost = [](const at::Tensor &tensor) { return tensor.is_cpu() ? tensor : Mirror(tensor).host.clone(); };
  if (target.is_cpu()) {
    target.copy_(onHost(self));
  } else {
    const Mirror mirror(target);
    mirror.host.copy_(onHost(self));
    mirror.write();
  }
  return target;
}

at::Tensor copyFromAndResize(const at::Tensor &self, const at::Tensor &target) {
  target.resize_(self.sizes());
  return copyFrom(self, target, false);
}

const at::Tensor &resize(const at::Tensor &self, c10::IntArrayRef size, std::optional<c10::MemoryFormat>) {
  if (self.sizes() == size)
    return self;
  at::TensorImpl *tensor = self.unsafeGetTensorImpl();
  tensor->set_sizes_contiguous(size);
  const auto bytes = static_cast<size_t>(self.numel() + self.storage_offset()) * self.itemsize();
  if (bytes > tensor->unsafe_storage().nbytes())
    at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(tensor->unsafe_storage(), bytes);
  return self;
}

at::Tensor &setStorage(at::Tensor &self, at::Storage source, int64_t offset, c10::IntArrayRef size,
                       c10::IntArrayRef stride) {
  return at::cpu::set_(self, source, offset, size, stride);
}

at::Scalar localScalar(const at::Tensor &self) { return Mirror(self).host.item(); }

at::Tensor &randomFrom(at::Tensor &self, int64_t from, std::optional<int64_t> to, std::optional<at::Generator> given) {
  const at::Generator generator = given ? *given : generatorOf(self.device().index());
  auto *numbers = static_cast<at::CPUGeneratorImpl *>(generator.unsafeGetGeneratorImpl());
  const std::lock_guard lock(numbers->mutex_);
  at::Tensor host = at::empty(self.sizes(), self.options().device(c10::DeviceType::CPU).dtype(at::kLong));
  for (int64_t i = 0; i < host.numel(); ++i) {
    const uint64_t drawn = numbers->random64();
    const uint64_t range = to ? static_cast<uint64_t>(*to) - static_cast<uint64_t>(from) : 0;
    host.data_ptr<int64_t>()[i] = static_cast<int64_t>(static_cast<uint64_t>(from) + (range ? drawn % range : drawn));
  }
  self.copy_(host);
  return self;
}

void fallback(const c10::OperatorHandle &op, torch::jit::Stack *stack) { at::native::cpu_fallback(op, stack); }

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", emptyTensor);
  m.impl("empty_strided", emptyStrided);
  m.impl("_copy_from", copyFrom);
  m.impl("_copy_from_and_resize", copyFromAndResize);
  m.impl("resize_", resize);
  m.impl("set_.source_Storage_storage_offset", setStorage);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("_local_scalar_dense", localScalar);
  m.impl("random_.from", randomFrom);
}

// ---- What __init__.py calls

void open(const std::string &plugin) {
  state.session = get(api::Session::create({{"device", "strict"}, {"plugin_path", ":" + plugin}}));
  (void)deviceAt(0); // loads the plugin
  void *library = dlopen(plugin.c_str(), RTLD_NOW | RTLD_NOLOAD);
  TORCH_CHECK(library, "strict_device: ", plugin, " is not loaded");
  state.table = reinterpret_cast<const MortisePlugin *(*)()>(dlsym(library, "mortise_plugin"))();
  state.control = reinterpret_cast<const StrictControl *>(state.table->extension);
  MortiseDevicesArgs args{};
  args.struct_size = sizeof args;
  get(api::take(state.table->devices(&args)));
  for (size_t i = 0; i < args.device_count; ++i)
    state.devices.at(static_cast<size_t>(args.devices[i]->dlpack_id)) = args.devices[i]->device;
  at::RegisterPrivateUse1HooksInterface(new Hooks);
}

std::string configure(const std::string &settings) {
  const char *wrong = state.control->configure(settings.c_str());
  return wrong ? wrong : "";
}

TORCH_LIBRARY(strict_device, m) {
  m.def("open(str plugin) -> ()", open);
  m.def("configure(str settings) -> str", configure);
  m.def("report() -> str", []() -> std::string { return state.control->report(); });
  m.def("device_count() -> int", []() -> int64_t { return static_cast<int64_t>(names.size()); });
  m.def("current_device() -> int", []() -> int64_t { return currentDevice; });
  m.def("set_device(int device) -> ()", [](int64_t device) { currentDevice = static_cast<c10::DeviceIndex>(device); });
  m.def("manual_seed(int device, int seed) -> ()", [](int64_t device, int64_t seed) {
    at::Generator generator = generatorOf(static_cast<c10::DeviceIndex>(device));
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(static_cast<uint64_t>(seed));
  });
}

} // namespace
