// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the GPUs are and roughly how fast, from attributes: nothing here starts up a device.
#include "device.hpp"

#include "product_probe.hpp"

#include <mortise/codegen/simt_devices.hpp>
#include <mortise/threads.hpp>

#include <algorithm>
#include <cstring>

namespace mortise::cuda {

// ---- What a device is

Result<int> Device::attribute(CUdevice_attribute which) {
  int value = 0;
  if (auto asked = check(driver.deviceGetAttribute(&value, which, gpu), "cuDeviceGetAttribute"); !asked)
    return asked.error();
  return value;
}

// Units for f32 of one multiprocessor.
static int lanesOf(int major, int minor) { return major == 7 || (major == 8 && minor == 0) ? 64 : 128; }

static constexpr double reachable = 0.87; // of the memory's peak, by the best of our kernels (a copy, on an H200)

Result<void> Device::describe() {
  if (auto found = check(driver.deviceGet(&gpu, number), "cuDeviceGet"); !found)
    return found;
  int values[6] = {};
  constexpr CUdevice_attribute wanted[] = {
      CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
      CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,     CU_DEVICE_ATTRIBUTE_CLOCK_RATE,
      CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE,        CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH};
  for (size_t i = 0; i < std::size(wanted); ++i) {
    Result<int> value = attribute(wanted[i]);
    if (!value)
      return value.error();
    values[i] = std::max(0, *value);
  }
  const auto [major, minor, processors, clock, memoryClock, busBits] = values;
  auto known = codegen::SimtTarget::cuda(major, minor, compileThreads());
  if (!known)
    return known.error();
  chip = std::move(*known);

  char text[256] = {};
  if (auto asked = check(driver.deviceGetName(text, sizeof text - 1, gpu), "cuDeviceGetName"); !asked)
    return asked;
  size_t bytes = 0;
  if (auto asked = check(driver.deviceTotalMem(&bytes, gpu), "cuDeviceTotalMem"); !asked)
    return asked;
  CUuuid uuid{};
  if (driver.deviceGetUuid)
    if (auto asked = check(driver.deviceGetUuid(&uuid, gpu), "cuDeviceGetUuid"); !asked)
      return asked;

  name = text;
  capability = 10 * major + minor;
  const std::string chipName = "sm_" + std::to_string(capability);
  features = chipName + (driver.hasPools() ? ",memory_pools" : "") + (driver.hasLibraries() ? ",libraries" : "") +
             (driver.hasGraphs() ? ",graphs" : "");
  fingerprint = chipName + " driver " + std::to_string(driver.version);
  memory.name = "device memory";
  memory.kind = MORTISE_SPACE_DEVICE;
  memory.alignment = 256;
  memory.bytes = bytes;
  description.device = reinterpret_cast<MortiseDevice *>(this);
  description.kind = "cuda";
  description.name = name.c_str();
  description.ordinal = static_cast<uint32_t>(number);
  description.automatic = 1;
  description.threads = static_cast<uint32_t>(processors);
  description.spaces = spaces;
  description.space_count = 1;
  description.peak_flops = 2.0 * processors * lanesOf(major, minor) * clock * 1e3;
  description.bandwidth = reachable * 2 * memoryClock * 1e3 * busBits / 8; // two transfers a clock
  description.launch_ns = 3000;
  description.copy_bandwidth = major >= 9 ? 50e9 : 22e9; // sixteen lanes of PCI Express 5 or 4
  description.copy_ns = 8000;
  description.features = features.c_str();
  description.fingerprint = fingerprint.c_str();
  description.dlpack_type = 2; // kDLCUDA
  description.dlpack_id = number;
  static_assert(sizeof uuid.bytes == sizeof description.uuid);
  std::memcpy(description.uuid, uuid.bytes, sizeof uuid.bytes);
  return {};
}

Result<std::unique_ptr<Device>> Device::find(const Driver &driver, int ordinal, const Libraries &libraries) {
  std::unique_ptr<Device> device(new Device(driver, ordinal, libraries));
  if (auto described = device->describe(); !described)
    return described.error();
  return device;
}

// ---- Its state

Result<void> Device::check(CUresult result, const char *call) {
  Result<void> checked = driver.check(result, call);
  if (checked)
    return {};
  Error error{checked.error().code, "cuda:" + std::to_string(number) + ": " + checked.error().message};
  if (error.code == MORTISE_DEVICE_LOST)
    loss.keep(error);
  return error;
}

Result<CUcontext> Device::context() {
  if (CUcontext there = retained.load(std::memory_order_acquire))
    return there;
  std::lock_guard lock(mutex);
  if (CUcontext there = retained.load())
    return there;
  CUcontext made = nullptr;
  if (auto done = check(driver.devicePrimaryCtxRetain(&made, gpu), "cuDevicePrimaryCtxRetain"); !done)
    return done.error();
  findPool();
  retained.store(made, std::memory_order_release);
  return made;
}

// Keeps what was freed, so that the steady state asks the system for nothing. Without a pool memory comes from
// cuMemAlloc, which is slower, and right.
void Device::findPool() {
  if (!driver.hasPools())
    return;
  CUmemoryPool found = nullptr;
  cuuint64_t all = UINT64_MAX;
  Result<int> supported = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
  Result<void> done = supported ? Result<void>() : supported.error();
  if (done && *supported == 0)
    return;
  if (done)
    done = check(driver.deviceGetDefaultMemPool(&found, gpu), "cuDeviceGetDefaultMemPool");
  if (done)
    done = check(driver.memPoolSetAttribute(found, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all), "cuMemPoolSetAttribute");
  if (done)
    pool = found;
  else
    log(MORTISE_WARNING, "memory is allocated without the device's pool: " + done.error().message);
}

Result<CUstream> Device::serviceStream() {
  if (CUstream there = service.load(std::memory_order_acquire))
    return there;
  Result<Entered> entered = Entered::into(*this);
  if (!entered)
    return entered.error();
  std::lock_guard lock(mutex);
  if (CUstream there = service.load())
    return there;
  CUstream made = nullptr;
  if (auto done = check(driver.streamCreate(&made, CU_STREAM_NON_BLOCKING), "cuStreamCreate"); !done)
    return done.error();
  service.store(made, std::memory_order_release);
  return made;
}

// In the mode that forbids nothing to this thread. A thread that waits for the whole device meanwhile takes the capture
// from us, and says so, as this one does: that is over when it is tried again.
Result<CUgraph> Device::captured(const std::function<Result<void>(CUstream)> &body) {
  constexpr int attempts = 4;
  std::lock_guard lock(captureMutex);
  Result<CUgraph> made = captureOnce(body);
  for (int i = 1; i < attempts && !made && wasCaptureTaken; ++i)
    made = captureOnce(body);
  return made;
}

Result<CUgraph> Device::captureOnce(const std::function<Result<void>(CUstream)> &body) {
  wasCaptureTaken = false;
  if (!captureStream)
    if (auto made = check(driver.streamCreate(&captureStream, CU_STREAM_NON_BLOCKING), "cuStreamCreate"); !made) {
      captureStream = nullptr;
      return made.error();
    }
  const CUresult begun = driver.streamBeginCapture(captureStream, CU_STREAM_CAPTURE_MODE_RELAXED);
  if (auto done = check(begun, "cuStreamBeginCapture"); !done)
    return done.error();
  Result<void> queued = body(captureStream);
  CUgraph graph = nullptr;
  const CUresult end = driver.streamEndCapture(captureStream, &graph);
  const Result<void> ended = check(end, "cuStreamEndCapture");
  if (queued && ended)
    return graph;
  if (graph)
    driver.graphDestroy(graph);
  // A stream whose capture did not end may still be in it.
  if (!ended)
    driver.streamDestroy(std::exchange(captureStream, nullptr));
  wasCaptureTaken = end == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  return queued ? ended.error() : queued.error();
}

// Once. Who has switched a library off knows that it is not there.
static void sayWhatIsMissing(const Error &error, const char *what) {
  if (error.code != MORTISE_UNSUPPORTED)
    log(MORTISE_WARNING, std::string(what) + " are computed by generated kernels, which are slower: " + error.message);
}

Result<ProductLibrary *> Device::products() {
  std::lock_guard lock(libraryMutex);
  if (!productLibrary) {
    // As much as NVIDIA recommends for its library.
    const uint64_t workspace = uint64_t{capability >= 90 ? 32u : 4u} << 20;
    const auto probe = [this](const ProductCall &call, uint64_t workspaceBytes, const QueueProduct &kernel) {
      return roundsOnce(*this, call, workspaceBytes, kernel);
    };
    productLibrary =
        openProductLibrary(libraries.products, driver.version, workspace, "cuda:" + std::to_string(number), probe);
    if (!*productLibrary)
      sayWhatIsMissing(productLibrary->error(), "products");
  }
  if (!*productLibrary)
    return productLibrary->error();
  return (*productLibrary)->get();
}

Result<ConvolutionLibrary *> Device::convolutions() {
  std::lock_guard lock(libraryMutex);
  if (!convolutionLibrary) {
    constexpr uint64_t workspace = 256u << 20; // few of its kernels want any, and those transpose
    convolutionLibrary = openConvolutionLibrary(libraries.convolutions, workspace, "cuda:" + std::to_string(number));
    if (!*convolutionLibrary)
      sayWhatIsMissing(convolutionLibrary->error(), "convolutions");
  }
  if (!*convolutionLibrary)
    return convolutionLibrary->error();
  return (*convolutionLibrary)->get();
}

static bool isOfSingle(int32_t dtype) { return dtype == MORTISE_F32 || dtype == MORTISE_F16 || dtype == MORTISE_BF16; }

bool Device::hasProductsOf(int32_t dtype) { return (isOfSingle(dtype) || dtype == MORTISE_F64) && products(); }
bool Device::hasConvolutionsOf(int32_t dtype) { return isOfSingle(dtype) && convolutions(); }

// As a multiple of the peak for f32 without matrix units. Products reach about two thirds.
double Device::productFlops(int32_t dtype, bool tensorFloats) const {
  const bool large = capability == 80 || capability >= 90; // of data centres
  double factor = 1;
  if (dtype == MORTISE_F16 || dtype == MORTISE_BF16)
    factor = large ? 16 : capability == 75 ? 8 : 4;
  else if (dtype == MORTISE_F64)
    factor = large ? 1 : 1.0 / 32;
  else if (tensorFloats && capability >= 80)
    factor = large ? 8 : 2;
  return 0.67 * factor * description.peak_flops;
}

// Rough multiples of the peak for f32, for the choice between devices. The indices of convolutions take longer than
// their products (decision 0090); the figure cuda-generated has the times.
double Device::generatedFlops(int32_t dtype, bool isConvolution) const {
  const bool large = capability == 80 || capability >= 90;
  const double factor = isConvolution                                                      ? 0.2
                        : chip.matrices && (dtype == MORTISE_F16 || dtype == MORTISE_BF16) ? 1.3
                                                                                           : 0.45;
  return factor * (dtype == MORTISE_F64 ? (large ? 0.5 : 1.0 / 32) : 1) * description.peak_flops;
}

Result<Entered> Entered::into(Device &device) {
  if (auto alive = device.alive(); !alive)
    return alive.error();
  Result<CUcontext> context = device.context();
  if (!context)
    return context.error();
  const Driver &driver = device.driver;
  CUcontext before = nullptr;
  if (auto asked = device.check(driver.ctxGetCurrent(&before), "cuCtxGetCurrent"); !asked)
    return asked.error();
  if (before == *context)
    return Entered(nullptr, nullptr);
  if (auto set = device.check(driver.ctxSetCurrent(*context), "cuCtxSetCurrent"); !set)
    return set.error();
  return Entered(&driver, before);
}

// ---- All of them

using Found = codegen::FoundDevices<Driver, Device>;

static Result<void> fill(Found &found, const Libraries &libraries) {
  auto driver = Driver::open(libraries.driver);
  if (!driver)
    return driver.error();
  found.driver = std::move(*driver);
  int count = 0;
  if (auto asked = found.driver->check(found.driver->deviceGetCount(&count), "cuDeviceGetCount"); !asked)
    return asked;
  found.addAll(count, "cuda", [&](int ordinal) { return Device::find(*found.driver, ordinal, libraries); });
  if (count == 0)
    return Error{MORTISE_NOT_FOUND, "the driver has no GPU for this process; look at nvidia-smi, and at "
                                    "CUDA_VISIBLE_DEVICES"};
  return {};
}

Result<std::span<const MortiseDeviceInfo *const>> findDevices(const Libraries &libraries) {
  return codegen::findOnce<Found>(libraries, fill);
}

} // namespace mortise::cuda
