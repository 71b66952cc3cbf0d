// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The GPUs of this machine, and the contexts in which the driver works on them.
#pragma once

#include "driver.hpp"
#include "library.hpp"

#include <mortise/codegen/simt.hpp>
#include <mortise/codegen/simt_queue.hpp>
#include <mortise/plugin.hpp>

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mortise::cuda {

// The files of libraries that are opened at run time.
struct Libraries {
  std::string driver, products, convolutions;
  auto operator<=>(const Libraries &) const = default;
};

// One GPU. It lives until the process ends.
class Device {
public:
  // Reads attributes only. Errors: as the driver's; MORTISE_UNSUPPORTED for a GPU that code generation does not know.
  static Result<std::unique_ptr<Device>> find(const Driver &driver, int ordinal, const Libraries &libraries);
  Device(const Device &) = delete;

  static Device &of(MortiseDevice *handle) { return *reinterpret_cast<Device *>(handle); }
  const MortiseDeviceInfo &info() const { return description; }
  const codegen::SimtTarget &target() const { return chip; }
  int ordinal() const { return number; }
  CUdevice handle() const { return gpu; }

  // The primary context, which the CUDA run time of the application uses as well. Retained when it is first asked for,
  // and kept.
  Result<CUcontext> context();
  // Whether memory comes from the device's pool; decided with the context.
  bool hasPool() const { return pool != nullptr; }
  CUmemoryPool memoryPool() const { return pool; }
  // Orders what the host allocates and frees without a stream.
  Result<CUstream> serviceStream();
  // A graph of what `body` queues on the stream that it is given. One at a time. The caller destroys the graph.
  Result<CUgraph> captured(const std::function<Result<void>(CUstream)> &body);
  // What computes products, opened when it is first asked for. Errors: as openProductLibrary's, the same each time.
  Result<ProductLibrary *> products();
  // What computes convolutions, likewise.
  Result<ConvolutionLibrary *> convolutions();
  // Whether there is a library, and it computes them with results of this type. Generated kernels compute the others.
  bool hasProductsOf(int32_t dtype);
  bool hasConvolutionsOf(int32_t dtype);
  // Of products and convolutions of libraries, in operations a second.
  double productFlops(int32_t dtype, bool tensorFloats) const;
  // And of generated ones.
  double generatedFlops(int32_t dtype, bool isConvolution) const;

  const Driver &driver; // its functions want a context that is current: Entered
  // Driver::check, with the device's name in the message. Remembers when the device is lost.
  Result<void> check(CUresult result, const char *call);
  // The error with which the device was lost. It cannot be used again in this process.
  Result<void> alive() const { return loss.state(); }

private:
  Device(const Driver &driver, int ordinal, const Libraries &libraries)
      : driver(driver), number(ordinal), libraries(libraries) {}
  Result<int> attribute(CUdevice_attribute which);
  Result<void> describe();
  void findPool();
  Result<CUgraph> captureOnce(const std::function<Result<void>(CUstream)> &body);

  const int number;
  const Libraries libraries;
  int capability = 0; // 90 for sm_90
  CUdevice gpu = 0;
  codegen::SimtTarget chip;
  std::string name, features, fingerprint;
  MortiseSpace memory = sized<MortiseSpace>();
  const MortiseSpace *spaces[1] = {&memory};
  MortiseDeviceInfo description = sized<MortiseDeviceInfo>(); // points to the members before it

  std::mutex mutex; // of what follows
  std::atomic<CUcontext> retained = nullptr;
  std::atomic<CUstream> service = nullptr;
  std::mutex captureMutex;
  CUstream captureStream = nullptr;
  bool wasCaptureTaken = false; // the last one
  CUmemoryPool pool = nullptr;

  std::mutex libraryMutex;
  std::optional<Result<std::unique_ptr<ProductLibrary>>> productLibrary;
  std::optional<Result<std::unique_ptr<ConvolutionLibrary>>> convolutionLibrary;

  codegen::FirstError loss;
};

// The device's context is current on this thread as long as the object lives; afterwards the one that was before.
class Entered {
public:
  static Result<Entered> into(Device &device);
  Entered(Entered &&other) noexcept : driver(std::exchange(other.driver, nullptr)), before(other.before) {}
  Entered &operator=(Entered &&) = delete;
  ~Entered() {
    if (driver)
      driver->ctxSetCurrent(before); // what fails now failed for the calls before, which said so
  }

private:
  Entered(const Driver *driver, CUcontext before) : driver(driver), before(before) {}
  const Driver *driver; // NULL: there is nothing to restore
  CUcontext before;
};

// While the object lives, what this thread asks of the driver ends no capture of the application's in another thread.
class CaptureOfOthers {
public:
  explicit CaptureOfOthers(Device &device) : device(device) { exchange(); }
  CaptureOfOthers(const CaptureOfOthers &) = delete;
  ~CaptureOfOthers() { exchange(); }

private:
  void exchange() {
    if (device.driver.threadExchangeCaptureMode)
      (void)device.check(device.driver.threadExchangeCaptureMode(&mode), "cuThreadExchangeStreamCaptureMode");
  }
  Device &device;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
};

// The devices that the driver has. Found once for each choice of libraries. Errors: MORTISE_NOT_FOUND, with the reason,
// where there is none that can be used.
Result<std::span<const MortiseDeviceInfo *const>> findDevices(const Libraries &libraries);

} // namespace mortise::cuda
