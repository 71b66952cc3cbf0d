// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host side of the cuda plugin without a GPU: devices, errors of every call of the driver, and order.
#include "../slots/scenario.hpp"
#include "session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mortise/runtime/registry.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <unistd.h>

namespace mortise::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

// ---- Devices

TEST(CudaDevices, NoDriverIsNoDeviceWithAReasonAndFast) {
  testedPlugin();
  const auto begin = std::chrono::steady_clock::now();
  const auto found = start("/nowhere/libcuda.so.1");
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, MORTISE_NOT_FOUND);
  EXPECT_LT(time.count(), 5);
  EXPECT_THAT(found.error().message, AllOf(HasSubstr("/nowhere/libcuda.so.1"), HasSubstr("install the GPU's driver")));
  const auto again = start("/nowhere/libcuda.so.1");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().message, found.error().message);
}

TEST(CudaDevices, AnotherLibraryIsNoDriver) {
  const auto found = start("libm.so.6");
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("expected libm.so.6 to have cuInit, "));
}

TEST(CudaDevices, AnOldDriverOrNoGpuIsNoDevice) {
  const Session old("version=11010");
  EXPECT_THAT(old.devices, IsEmpty());
  EXPECT_THAT(old.log, HasSubstr("expected a driver of CUDA 11.2 or newer, found 11.1"));
  const Session none("devices=0");
  EXPECT_THAT(none.devices, IsEmpty());
  EXPECT_THAT(none.log, HasSubstr("CUDA_VISIBLE_DEVICES"));
}

TEST(CudaDevices, TheLoaderTakesThePluginAndItsManifest) {
  const Session session; // so that the stand-in has its devices
  setenv("MORTISE_CUDA_DRIVER", MORTISE_TEST_STAND_IN, 1);
  const MortiseOption options[] = {{"plugin_path", MORTISE_TEST_PLUGIN}, {"log_level", "off"}, {"kernel_cache", "off"}};
  const auto config = runtime::Config::read(options);
  ASSERT_TRUE(config) << config.error().message;
  const auto registry = runtime::Registry::open(*config);
  registry->loadAll();
  for (const runtime::Rejected &rejected : registry->rejected())
    ADD_FAILURE() << rejected.error.message;
  const auto found = registry->find("cuda:1");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_STREQ(found->front()->info.name, "stand-in");
  EXPECT_FALSE(found->front()->inHostMemory());
  EXPECT_THAT(registry->findDlpack(2, 1), SizeIs(1));
  EXPECT_THAT(*registry->find("auto"), SizeIs(1));
}

// The reason stands where somebody asks for the device.
TEST(CudaDevices, TheErrorWithoutADriverSaysWhy) {
  const Session session;
  setenv("MORTISE_CUDA_DRIVER", "/nowhere/for-the-loader.so", 1);
  const std::string folder = std::filesystem::temp_directory_path() / ("mortise-no-driver-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  for (const char *name : {"libmortise_cuda.so", "libmortise_cuda.toml"}) // a plugin starts once in a process
    std::filesystem::copy_file(std::filesystem::path(MORTISE_TEST_PLUGIN).parent_path() / name,
                               std::filesystem::path(folder) / name, std::filesystem::copy_options::overwrite_existing);
  const MortiseOption options[] = {{"plugin_path", folder.c_str()}, {"log_level", "off"}, {"kernel_cache", "off"}};
  const auto config = runtime::Config::read(options);
  ASSERT_TRUE(config) << config.error().message;
  const auto found = runtime::Registry::open(*config)->find("cuda");
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message,
              AllOf(HasSubstr("there is no device 'cuda'"), HasSubstr("/nowhere/for-the-loader.so"),
                    HasSubstr("install the GPU's driver")));
  std::filesystem::remove_all(folder);
}

// A project's settings may come with a clone, and a library's code runs in the process.
TEST(CudaDevices, OnlyTheEnvironmentNamesAnotherDriver) {
  (void)start("/nowhere/else.so");
  const MortiseOption options[] = {{"driver", "/tmp/from-a-clone.so"}};
  MortiseInitializeArgs args{};
  args.host = detail::hostTable;
  args.options = options;
  args.option_count = 1;
  const auto refused = call(testedPlugin().initialize, args);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, MORTISE_INVALID_ARGUMENT);
  EXPECT_THAT(refused.error().message, HasSubstr("MORTISE_CUDA_DRIVER"));
}

TEST(CudaDevices, AreDescribedWithoutBeingStarted) {
  const Session session;
  ASSERT_THAT(session.devices, SizeIs(2));
  EXPECT_EQ(session.log, "");
  EXPECT_EQ(session.callsOf("cuDevicePrimaryCtxRetain"), 0u);
  EXPECT_EQ(session.callsOf("cuStreamCreate"), 0u);
  MortiseDevicesArgs found{};
  ASSERT_TRUE(call(testedPlugin().devices, found));
  const MortiseDeviceInfo &second = *found.devices[1];
  EXPECT_STREQ(second.kind, "cuda");
  EXPECT_EQ(second.ordinal, 1u);
  EXPECT_EQ(second.automatic, 1u);
  EXPECT_EQ(second.dlpack_type, 2);
  EXPECT_EQ(second.dlpack_id, 1);
  EXPECT_EQ(second.uuid[0], 2);
  EXPECT_THAT(second.features, StartsWith("sm_90"));
  EXPECT_STREQ(second.fingerprint, "sm_90 driver 13000");
  EXPECT_EQ(second.spaces[0]->kind, MORTISE_SPACE_DEVICE);
  EXPECT_EQ(second.spaces[0]->alignment, 256u);
  EXPECT_EQ(second.spaces[0]->bytes, uint64_t{80} << 30);
  EXPECT_NEAR(second.bandwidth, 2.9e12, 1e11);
  EXPECT_NEAR(second.peak_flops, 66.9e12, 1e11);
}

TEST(CudaDevices, EveryFailureWhileDevicesAreFoundIsAReason) {
  for (const char *function : {"cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName",
                               "cuDeviceTotalMem_v2", "cuDeviceGetAttribute", "cuDeviceGetUuid_v2"})
    for (const int result : {3, 34, 46, 100, 101, 802, 803, 999}) {
      const Session session("fail=" + std::string(function) + ":1:" + std::to_string(result));
      EXPECT_LT(session.devices.size(), 2u) << function;
      EXPECT_THAT(session.log, HasSubstr("CUDA_ERROR_" + std::to_string(result))) << function;
    }
}

// ---- One of everything

std::vector<Error> runAll(const Session &session) { return Scenario(session.devices[0], session.devices[1]).run(); }

TEST(CudaDriver, EverythingWorksAndNothingIsLeft) {
  for (const char *library : {MORTISE_TEST_STAND_IN, MORTISE_TEST_STAND_IN_OLD}) {
    const Session session("", library);
    session.warmUp();
    const std::string before = session.counts();
    session.configure("");
    EXPECT_THAT(messages(runAll(session)), IsEmpty());
    EXPECT_EQ(session.counts(), before);
    const bool old = library == std::string(MORTISE_TEST_STAND_IN_OLD);
    EXPECT_EQ(session.callsOf("cuModuleLoadDataEx") > 0, old);
    EXPECT_EQ(session.callsOf("cuLibraryLoadData") > 0, !old);
    EXPECT_EQ(session.callsOf("cuMemAlloc_v2") > 0, old);
    EXPECT_EQ(session.callsOf("cuMemAllocAsync") > 0, !old);
    EXPECT_EQ(session.callsOf("cuLaunchKernel"), Scenario::calls);
  }
}

struct Injected {
  int result;
  MortiseCode code;
};
constexpr Injected injected[] = {
    {2, MORTISE_OUT_OF_MEMORY}, {400, MORTISE_INVALID_ARGUMENT}, {700, MORTISE_DEVICE_LOST}, {999, MORTISE_INTERNAL}};

// The n-th call fails, and the host is told so, except where a failure has no effect. Nothing is left behind where the
// driver takes it back, and where the device is not lost everything works afterwards.
void failOnce(const std::string &function, size_t n, Injected failure) {
  static const std::set<std::string> harmless = {"cuCtxSetCurrent", "cuCtxEnablePeerAccess", "cuMemPoolSetAccess",
                                                 "cuLibraryUnload"};
  static const std::set<std::string> leaves = {"cuStreamDestroy_v2",  "cuEventDestroy_v2",  "cuMemFreeAsync",
                                               "cuMemHostUnregister", "cuLibraryUnload",    "cuCtxGetCurrent",
                                               "cuCtxSetCurrent",     "cuStreamSynchronize"};
  SCOPED_TRACE(function + ", call " + std::to_string(n) + ", result " + std::to_string(failure.result));
  const Session session;
  session.warmUp();
  const std::string before = session.counts();
  session.configure("fail=" + function + ":" + std::to_string(n) + ":" + std::to_string(failure.result));
  const std::vector<Error> errors = runAll(session);
  session.configure("");
  if (!harmless.contains(function)) {
    ASSERT_FALSE(errors.empty());
    EXPECT_EQ(errors[0].code, failure.code) << errors[0].message;
    EXPECT_THAT(errors[0].message, AllOf(HasSubstr("cuda:"), HasSubstr(function.substr(0, function.find("_v2"))),
                                         HasSubstr("CUDA_ERROR_" + std::to_string(failure.result))));
  }
  if (failure.code == MORTISE_DEVICE_LOST)
    return;
  if (!leaves.contains(function))
    EXPECT_EQ(session.counts(), before);
  EXPECT_THAT(messages(runAll(session)), IsEmpty());
}

TEST(CudaDriver, EveryFailureBecomesAStatus) {
  const Region kept([] { return Session().devices[0]; }(), smallGraph()); // its code is generated once for all
  std::map<std::string, size_t> functions;
  {
    const Session session;
    session.warmUp();
    session.configure("");
    ASSERT_THAT(messages(runAll(session)), IsEmpty());
    for (const std::string &line : session.calls())
      ++functions[line.substr(0, line.find(' '))];
  }
  EXPECT_GE(functions.size(), 25u);
  for (const auto &[function, count] : functions)
    for (size_t n = 1; n <= std::min<size_t>(count, 3); ++n)
      for (const Injected &failure : injected)
        failOnce(function, n, failure);
}

TEST(CudaDriver, FailuresWhileADeviceStartsAreStatusesAndTriedAgain) {
  for (const int result : {2, 46, 999}) {
    const Session session;
    session.configure("fail=cuDevicePrimaryCtxRetain:1:" + std::to_string(result));
    EXPECT_THAT(messages(runAll(session)), Contains(HasSubstr("cuDevicePrimaryCtxRetain")));
    EXPECT_THAT(messages(runAll(session)), IsEmpty());
  }
  const Session session; // without its pool a device is slower, and works
  session.configure("fail=cuMemPoolSetAttribute:1:999");
  EXPECT_THAT(messages(runAll(session)), IsEmpty());
  EXPECT_THAT(takeLog(), HasSubstr("memory is allocated without the device's pool"));
  EXPECT_GT(session.callsOf("cuMemAlloc_v2"), 0u);
}

TEST(CudaDriver, WhatItsCompilerSaysStandsInTheMessage) {
  const Session session;
  session.configure("fail=cuLibraryLoadData:1:218");
  EXPECT_THAT(messages(runAll(session)), Contains(HasSubstr("ptxas of the stand-in refuses line 1")));
}

// ---- Order and errors of streams

TEST(CudaStreams, EventsOrderCalls) {
  const Session session;
  MortiseDevice *device = session.devices[0];
  MortiseStream *first = makeStream(device), *second = makeStream(device);
  MortiseEvent *event = makeEvent(device);
  const MortiseAddress in = makeMemory(device, smallBytes), out = makeMemory(device, smallBytes);
  {
    const Region compiled(device, smallGraph());
    session.configure("");
    ASSERT_TRUE(wait(event, second)); // without a mark it is nothing
    ASSERT_TRUE(compiled.enqueue(first, {in}, {out}));
    ASSERT_TRUE(record(event, first));
    ASSERT_TRUE(wait(event, second));
    ASSERT_TRUE(compiled.enqueue(second, {out}, {in}));
  }
  std::vector<std::string> order;
  for (const std::string &line : session.calls())
    if (line.starts_with("cuLaunchKernel") || line.starts_with("cuEventRecord") ||
        line.starts_with("cuStreamWaitEvent"))
      order.push_back(line.substr(0, line.find(" blocks")));
  ASSERT_THAT(order, SizeIs(4));
  const std::string one = order[0].substr(order[0].find(' ') + 1), two = order[3].substr(order[3].find(' ') + 1);
  EXPECT_NE(one, two);
  EXPECT_THAT(order[1], AllOf(StartsWith("cuEventRecord"), HasSubstr(one)));
  EXPECT_THAT(order[2], AllOf(StartsWith("cuStreamWaitEvent"), HasSubstr(two)));
  EXPECT_THAT(order[3], StartsWith("cuLaunchKernel"));
  freeMemory(device, in, smallBytes);
  freeMemory(device, out, smallBytes);
  destroyEvent(event);
  destroyStream(first);
  destroyStream(second);
}

TEST(CudaStreams, WorkThatHasNotHappenedIsNoError) {
  const Session session;
  MortiseStream *stream = makeStream(session.devices[0]);
  MortiseEvent *event = makeEvent(session.devices[0]);
  ASSERT_TRUE(record(event, stream));
  session.configure("hold");
  MortiseEventArgs asked{};
  asked.event = event;
  ASSERT_TRUE(call(testedPlugin().event_query, asked));
  EXPECT_EQ(asked.happened, 0u);
  MortiseStreamArgs status{};
  status.stream = stream;
  EXPECT_TRUE(call(testedPlugin().stream_status, status));
  session.configure("");
  ASSERT_TRUE(call(testedPlugin().event_query, asked));
  EXPECT_EQ(asked.happened, 1u);
  destroyEvent(event);
  destroyStream(stream);
}

TEST(CudaStreams, AFailureStaysUntilAReset) {
  const Session session;
  MortiseDevice *device = session.devices[0];
  MortiseStream *failing = makeStream(device), *waiting = makeStream(device);
  MortiseEvent *event = makeEvent(device);
  const MortiseAddress in = makeMemory(device, smallBytes), out = makeMemory(device, smallBytes);
  {
    const Region compiled(device, smallGraph());
    session.configure("fail=cuLaunchKernel:1:701");
    const auto refused = compiled.enqueue(failing, {in}, {out});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, MORTISE_UNSUPPORTED);
    const auto later = compiled.enqueue(failing, {in}, {out});
    ASSERT_FALSE(later);
    EXPECT_EQ(later.error().message, refused.error().message);
    EXPECT_EQ(session.callsOf("cuLaunchKernel"), 1u);

    ASSERT_TRUE(record(event, failing)); // a mark in a failed stream counts as happened
    MortiseEventArgs asked{};
    asked.event = event;
    EXPECT_FALSE(call(testedPlugin().event_query, asked));
    EXPECT_EQ(asked.happened, 1u);
    EXPECT_FALSE(call(testedPlugin().event_synchronize, asked));
    ASSERT_TRUE(wait(event, waiting));
    MortiseStreamArgs args{};
    for (MortiseStream *stream : {failing, waiting}) {
      args.stream = stream;
      for (auto *slot : {testedPlugin().stream_wait, testedPlugin().stream_status, testedPlugin().stream_wait}) {
        const auto told = call(slot, args);
        ASSERT_FALSE(told);
        EXPECT_EQ(told.error().message, refused.error().message);
      }
      ASSERT_TRUE(call(testedPlugin().stream_reset, args));
      ASSERT_TRUE(call(testedPlugin().stream_wait, args));
      EXPECT_TRUE(compiled.enqueue(stream, {in}, {out}));
    }
  }
  freeMemory(device, in, smallBytes);
  freeMemory(device, out, smallBytes);
  destroyEvent(event);
  destroyStream(failing);
  destroyStream(waiting);
}

TEST(CudaStreams, ALostDeviceStaysLost) {
  const Session session;
  MortiseStream *stream = makeStream(session.devices[0]);
  session.configure("fail=cuStreamSynchronize:1:700");
  MortiseStreamArgs args{};
  args.stream = stream;
  const auto lost = call(testedPlugin().stream_wait, args);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, MORTISE_DEVICE_LOST);
  EXPECT_THAT(lost.error().message, HasSubstr("start the process again"));
  const auto reset = call(testedPlugin().stream_reset, args);
  ASSERT_FALSE(reset);
  EXPECT_EQ(reset.error().code, MORTISE_DEVICE_LOST);
  args.device = session.devices[0];
  EXPECT_FALSE(call(testedPlugin().stream_create, args));
  args.stream = stream;
  EXPECT_FALSE(call(testedPlugin().stream_destroy, args)); // says why, and is gone all the same
}

TEST(CudaStreams, NoStreamIsAClearError) {
  const Session session;
  const Region compiled(session.devices[0], smallGraph());
  const auto refused = compiled.enqueue(nullptr, {256}, {256});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, MORTISE_INVALID_ARGUMENT);
  EXPECT_THAT(refused.error().message, HasSubstr("expected a stream, found NULL"));
  MortiseCopyArgs copy{};
  copy.device = copy.target_device = session.devices[0];
  copy.bytes = 4;
  EXPECT_FALSE(call(testedPlugin().copy, copy));
}

TEST(CudaStreams, TheDefaultStreamIsImportedAndExported) {
  const Session session;
  for (const uint64_t native : {uint64_t{0}, uint64_t{2}}) {
    MortiseStreamArgs args{};
    args.device = session.devices[0];
    args.native = native;
    ASSERT_TRUE(call(testedPlugin().stream_import, args));
    ASSERT_NE(args.stream, nullptr);
    args.native = 77;
    ASSERT_TRUE(call(testedPlugin().stream_export, args));
    EXPECT_EQ(args.native, native);
    session.configure("");
    destroyStream(args.stream);
    EXPECT_EQ(session.callsOf("cuStreamDestroy_v2"), 0u); // the handle is the application's
  }
}

} // namespace
} // namespace mortise::test
