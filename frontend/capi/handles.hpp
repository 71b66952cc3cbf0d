// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The structs behind the handles of mortise.h, but the builder's, and the checks that every entry does first.
#pragma once

#include <mortise/mortise.h>
#include <mortise/runtime/config.hpp>
#include <mortise/runtime/device_memory.hpp>
#include <mortise/runtime/program.hpp>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

namespace mortise::capi {

struct SessionState;

} // namespace mortise::capi

struct MortiseSessionDevice {
  mortise::capi::SessionState *session = nullptr; // that it belongs to
  const mortise::runtime::Device *device = nullptr;
};

namespace mortise::capi {

// What mortise_memory_allocate has made: one of the two.
struct Allocation {
  struct Free {
    void operator()(std::byte *data) const { std::free(data); }
  };
  runtime::DeviceMemory device;
  std::unique_ptr<std::byte, Free> host;
  uint64_t bytes = 0;
};

// Shared by a session and the objects made with it.
struct SessionState : std::enable_shared_from_this<SessionState> {
  std::vector<std::pair<std::string, std::string>> options;
  runtime::Config config;
  std::shared_ptr<runtime::Registry> registry;
  std::mutex mutex;
  std::map<const runtime::Device *, MortiseSessionDevice> devices;                            // guarded by `mutex`
  std::map<std::pair<const runtime::Device *, void *>, Allocation> allocations;               // guarded by `mutex`
  std::map<std::pair<const runtime::Device *, void *>, runtime::RegisteredMemory> registered; // likewise

  // The session's handle of a device of its registry: always the same one.
  const MortiseSessionDevice *handleOf(const runtime::Device *device);
};

MortiseStatus *statusOf(const Error &error);

// Runs the body of an entry. An exception becomes a status.
template <typename Body> MortiseStatus *guarded(Body body) noexcept {
  try {
    Result<void> done = body();
    return done ? nullptr : statusOf(done.error());
  } catch (const std::bad_alloc &) {
    return statusOf({MORTISE_OUT_OF_MEMORY, "out of memory"});
  } catch (const std::exception &fault) {
    return statusOf({MORTISE_INTERNAL, std::string("unexpected exception: ") + fault.what()});
  } catch (...) {
    return statusOf({MORTISE_INTERNAL, "unexpected exception"});
  }
}

inline Error invalid(std::string message) { return {MORTISE_INVALID_ARGUMENT, std::move(message)}; }
inline Error nullError(const char *what) { return invalid(std::string("expected a ") + what + ", found NULL"); }

// checks.cpp: checks structs from the caller before their pointers are followed.
Result<void> checkOptions(const MortiseOption *options, size_t count);
Result<void> checkType(const MortiseType *type, const std::string &what);
// Copies in this version's structs, because the caller may have been built with an earlier header.
Result<std::vector<MortiseAttribute>> readAttributes(const MortiseAttribute *const *attributes, size_t count);
// `session`: whose devices the tensors may lie on; NULL: any session's.
Result<runtime::Tensor> readTensor(const MortiseTensor &tensor, const std::string &name, const SessionState *session);
Result<std::vector<runtime::Tensor>> readTensors(const MortiseTensor *const *tensors, size_t count, size_t expected,
                                                 const char *what, const SessionState &session);

// The home of tensors as copies take it: NULL, the host, for a device that computes in host memory.
inline const runtime::Device *homeOf(const runtime::Device *device) {
  return device && !device->inHostMemory() ? &device->owner() : nullptr;
}
// Takes an allocation of at least so many bytes out of the session's table. After an error it is still there.
Result<Allocation> takeAllocation(const MortiseSessionDevice &device, void *data, uint64_t least = 0);

// A copy to be freed by mortise_string_destroy.
Result<char *> copyString(const std::string &text);

std::string reportJson(const MortiseProgram &program);

// The session's configuration, overridden by this call's options.
Result<runtime::Config> configFor(const SessionState &session, const MortiseOption *options, size_t count);

} // namespace mortise::capi

struct MortiseSession {
  std::shared_ptr<mortise::capi::SessionState> state;
};

struct MortiseQueue {
  std::shared_ptr<const mortise::capi::SessionState> session;
  const mortise::runtime::Device *device = nullptr; // the one that owns the memory (Device::owner)
  MortiseStream *stream = nullptr;
  ~MortiseQueue();
};

namespace mortise::capi {

// What MortiseSignature points to.
struct Signature {
  explicit Signature(const plan::PlanT &plan);
  Signature(const Signature &) = delete;
  MortiseSignature view{};

private:
  const MortiseType *typeOf(const plan::TensorTypeT &type);
  std::deque<MortiseType> types;
  std::deque<std::vector<MortiseExpr>> programs;
  std::vector<const char *> inputNames;
  std::vector<const MortiseType *> inputTypes, outputTypes;
  std::vector<uint32_t> inputFlags;
  std::vector<int64_t> outputAliases;
};

} // namespace mortise::capi

struct MortiseProgram {
  std::shared_ptr<const mortise::capi::SessionState> session;
  std::shared_ptr<mortise::runtime::Program> program;
  std::unique_ptr<mortise::capi::Signature> signature;
  double passSeconds = 0, placeSeconds = 0, kernelSeconds = 0;
  std::atomic<double> bindSeconds{0};

  void take(std::shared_ptr<mortise::runtime::Program> loaded); // with its signature
};
