// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host side of the rocm plugin without a GPU: devices, errors of every call of HIP, and order.
#include "../../plugins/rocm/hip.hpp"
#include "../slots/scenario.hpp"
#include "session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mortise/runtime/registry.hpp>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <map>
#include <set>
#include <unistd.h>

namespace mortise::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::FloatNear;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// ---- Devices

TEST(RocmDevices, NoLibraryIsNoDeviceWithAReasonAndFast) {
  testedPlugin();
  double least = INFINITY; // a busy machine may take long over one of them
  for (const char *driver :
       {"/nowhere/libamdhip64.so", "/nowhere/2/libamdhip64.so", "/nowhere/3/libamdhip64.so", "auto"}) {
    const auto begin = std::chrono::steady_clock::now();
    const auto found = start(driver);
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    if (driver == std::string("auto") && found)
      continue; // there is a GPU
    ASSERT_FALSE(found);
    least = std::min(least, time.count());
    EXPECT_EQ(found.error().code, MORTISE_NOT_FOUND);
    const std::string &message = found.error().message, reason = "cannot open shared object file";
    EXPECT_THAT(message, HasSubstr("libamdhip64.so"));
    EXPECT_EQ(message.find(reason), message.rfind(reason)) << message; // once for all names
    EXPECT_THAT(message, HasSubstr(reason));
    const auto again = start(driver);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().message, found.error().message);
  }
  EXPECT_LT(least, 5);
}

TEST(RocmDevices, AnotherLibraryIsNoHip) {
  const auto found = start("libm.so.6");
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("expected libm.so.6 to have hipInit, "));
}

TEST(RocmDevices, UnknownVersionsAndNoGpuAreNoDevice) {
  const Session old("version=40421401");
  EXPECT_THAT(old.devices, IsEmpty());
  EXPECT_THAT(old.log, HasSubstr("expected HIP 5 to 10, found 4.4"));
  const Session newer("version=110000000");
  EXPECT_THAT(newer.devices, IsEmpty());
  EXPECT_THAT(newer.log, HasSubstr("expected HIP 5 to 10, found 11.0"));
  const Session none("devices=0");
  EXPECT_THAT(none.devices, IsEmpty());
  EXPECT_THAT(none.log, HasSubstr("/dev/kfd"));
}

TEST(RocmDevices, EachArchitectureIsFoundAndOthersAreRefusedByName) {
  const Session all("devices=6 arch=gfx90a,gfx942,gfx950,gfx1100,gfx1201,gfx1030");
  ASSERT_THAT(all.infos, SizeIs(5));
  const char *features[] = {"gfx90a,wave64", "gfx942,wave64", "gfx950,wave64", "gfx1100,wave32", "gfx1201,wave32"};
  for (size_t i = 0; i < 5; ++i)
    EXPECT_THAT(all.infos[i]->features, HasSubstr(features[i]));
  EXPECT_THAT(all.log, AllOf(HasSubstr("rocm:5 is not used"), HasSubstr("gfx90a, gfx942, gfx950, gfx1100, gfx1201"),
                             HasSubstr("found gfx1030")));
  const Session waves("arch=gfx1100 wave=64");
  EXPECT_THAT(waves.devices, IsEmpty());
  EXPECT_THAT(waves.log, HasSubstr("to have waves of 32 threads, found 64"));
}

TEST(RocmDevices, AreDescribedWithoutBeingStarted) {
  const Session session;
  ASSERT_THAT(session.devices, SizeIs(2));
  EXPECT_EQ(session.log, "");
  EXPECT_EQ(session.callsOf("hipStreamCreateWithFlags"), 0U);
  EXPECT_EQ(session.callsOf("hipSetDevice"), 0U);
  const MortiseDeviceInfo &second = *session.infos[1];
  EXPECT_STREQ(second.kind, "rocm");
  EXPECT_EQ(second.ordinal, 1U);
  EXPECT_EQ(second.automatic, 1U);
  EXPECT_EQ(second.dlpack_type, 10);
  EXPECT_EQ(second.dlpack_id, 1);
  EXPECT_EQ(second.uuid[0], 2);
  EXPECT_STREQ(second.fingerprint, "gfx942:sramecc+:xnack- hip 60232830");
  EXPECT_EQ(second.spaces[0]->kind, MORTISE_SPACE_DEVICE);
  EXPECT_EQ(second.spaces[0]->bytes, uint64_t{64} << 30);
}

// HIP 5 has another struct of properties, and no pools.
TEST(RocmDevices, OfHip5HaveTheirArchitectureElsewhere) {
  const Session session("version=50221153", MORTISE_TEST_STAND_IN_OLD);
  ASSERT_THAT(session.devices, SizeIs(2)) << session.log;
  EXPECT_STREQ(session.infos[0]->fingerprint, "gfx942:sramecc+:xnack- hip 50221153");
}

// A project's settings may come with a clone, and a library's code runs in the process.
TEST(RocmDevices, OnlyTheEnvironmentNamesAnotherLibrary) {
  (void)start("/nowhere/else.so");
  const MortiseOption options[] = {{"driver", "/tmp/from-a-clone.so"}};
  const auto refused = startPlugin(options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, MORTISE_INVALID_ARGUMENT);
  EXPECT_THAT(refused.error().message, HasSubstr("MORTISE_ROCM_DRIVER"));
}

// PyTorch's wheels have a copy of HIP in their folder, under a name of their own. In a process of its own: the plugin
// finds devices once.
TEST(RocmDevices, ACopyThatIsLoadedIsTaken) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string copy = std::filesystem::temp_directory_path() / ("libamdhip64-" + std::to_string(getpid()) + ".so");
  std::filesystem::copy_file(MORTISE_TEST_STAND_IN, copy, std::filesystem::copy_options::overwrite_existing);
  EXPECT_EXIT(
      {
        setenv("MORTISE_TEST_HIP_STAND_IN", "devices=3", 1);
        void *there = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
        unsetenv("MORTISE_ROCM_DRIVER");
        const auto found = startPlugin({});
        std::exit(there && found && found->size() == 3 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  std::filesystem::remove(copy);
}

TEST(RocmDevices, TheLoaderTakesThePluginAndItsManifest) {
  const Session session; // so that the stand-in has its devices
  setenv("MORTISE_ROCM_DRIVER", MORTISE_TEST_STAND_IN, 1);
  const MortiseOption options[] = {
      {"plugin_path", MORTISE_TEST_REAL_PLUGIN}, {"log_level", "off"}, {"kernel_cache", "off"}};
  const auto config = runtime::Config::read(options);
  ASSERT_TRUE(config) << config.error().message;
  const auto registry = runtime::Registry::open(*config);
  registry->loadAll();
  for (const runtime::Rejected &rejected : registry->rejected())
    ADD_FAILURE() << rejected.error.message;
  const auto found = registry->find("rocm:1");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_STREQ(found->front()->info.name, "stand-in");
  EXPECT_FALSE(found->front()->inHostMemory());
  EXPECT_THAT(registry->findDlpack(10, 1), SizeIs(1));
}

TEST(RocmDevices, EveryFailureWhileDevicesAreFoundIsAReason) {
  for (const char *function :
       {"hipInit", "hipRuntimeGetVersion", "hipGetDeviceCount", "hipDeviceGet", "hipDeviceGetName", "hipDeviceTotalMem",
        "hipDeviceGetAttribute", "hipGetDevicePropertiesR0600", "hipDeviceGetUuid"})
    for (const int result : {3, 35, 100, 101, 999, 1052}) {
      const Session session("devices=1 fail=" + std::string(function) + ":1:" + std::to_string(result));
      EXPECT_THAT(session.devices, IsEmpty()) << function << " " << result;
      EXPECT_THAT(session.log, HasSubstr(std::string(function).substr(0, 20)));
    }
}

// ---- Errors of HIP

TEST(RocmDriver, EverythingWorksAndNothingIsLeft) {
  for (const char *library : {MORTISE_TEST_STAND_IN, MORTISE_TEST_STAND_IN_OLD})
    for (const char *order : {"order=lazy", "order=random seed=1", "order=random seed=2", "order=eager"}) {
      const bool isOld = library == std::string(MORTISE_TEST_STAND_IN_OLD);
      SCOPED_TRACE(std::string(order) + (isOld ? ", HIP 5" : ""));
      const Session session((isOld ? "version=50221153 " : "") + std::string(order), library);
      session.warmUp();
      const std::string before = session.counts();
      session.configure("");
      Scenario scenario(session.devices[0], session.devices[1]);
      EXPECT_THAT(messages(scenario.run()), IsEmpty());
      EXPECT_THAT(scenario.results(), Each(FloatNear(std::exp(3.0F), 1e-5F)));
      EXPECT_THAT(session.problems(), IsEmpty());
      EXPECT_EQ(session.counts(), before);
      EXPECT_EQ(session.callsOf("hipMalloc") > 0, isOld);
      EXPECT_EQ(session.callsOf("hipMallocAsync") > 0, !isOld);
      EXPECT_EQ(session.callsOf("hipModuleLaunchKernel"), Scenario::calls);
    }
}

struct Injected {
  int result;
  MortiseCode code;
};
constexpr Injected injected[] = {{1, MORTISE_INVALID_ARGUMENT},
                                 {2, MORTISE_OUT_OF_MEMORY},
                                 {209, MORTISE_UNSUPPORTED},
                                 {700, MORTISE_DEVICE_LOST},
                                 {999, MORTISE_INTERNAL}};

std::vector<Error> runAll(const Session &session) { return Scenario(session.devices[0], session.devices[1]).run(); }

// What no failure excuses: a handle or memory that was given back and is used, or given back again.
bool isMisuse(const std::string &problem) {
  return problem.find("no longer") != problem.npos || problem.find("freed") != problem.npos ||
         problem.find("was written") != problem.npos || problem.find("unloaded") != problem.npos;
}

// The n-th call fails, and the host is told so, except where a failure has no effect. Nothing is left behind where HIP
// takes it back, and where the device is not lost everything works afterwards.
void failOnce(const std::string &function, size_t n, Injected failure) {
  static const std::set<std::string> harmless = {"hipDeviceEnablePeerAccess", "hipMemPoolSetAccess", "hipModuleUnload"};
  static const std::set<std::string> leaves = {"hipStreamDestroy",     "hipEventDestroy", "hipFreeAsync",
                                               "hipHostUnregister",    "hipModuleUnload", "hipGetDevice",
                                               "hipStreamSynchronize", "hipSetDevice",    "hipFree"};
  SCOPED_TRACE(function + ", call " + std::to_string(n) + ", result " + std::to_string(failure.result));
  const Session session("order=lazy");
  session.warmUp();
  const std::string before = session.counts();
  session.configure("fail=" + function + ":" + std::to_string(n) + ":" + std::to_string(failure.result));
  Scenario scenario(session.devices[0], session.devices[1]); // its memory is there until all work is done
  const std::vector<Error> errors = scenario.run();
  for (const std::string &problem : session.problems())
    EXPECT_FALSE(isMisuse(problem)) << problem;
  EXPECT_EQ(session.symbol<rocm::hip::Status()>("hipGetLastError")(), 0) << "the application would find our error";
  session.configure("");
  const bool restores = function == "hipSetDevice" && n % 2 == 0; // the device that was the thread's before
  if (!harmless.contains(function) && !restores) {
    ASSERT_FALSE(errors.empty());
    EXPECT_EQ(errors[0].code, failure.code) << errors[0].message;
    EXPECT_THAT(errors[0].message, AllOf(HasSubstr("rocm:"), HasSubstr(function),
                                         HasSubstr(", " + std::to_string(failure.result) + "); ")));
  }
  if (failure.code == MORTISE_DEVICE_LOST)
    return;
  if (!leaves.contains(function))
    EXPECT_EQ(session.counts(), before);
  Scenario again(session.devices[0], session.devices[1]);
  EXPECT_THAT(messages(again.run()), IsEmpty());
  EXPECT_THAT(again.results(), Each(FloatNear(std::exp(3.0F), 1e-5F)));
}

TEST(RocmDriver, EveryFailureBecomesAStatus) {
  const Region kept([] { return Session().devices[0]; }(), smallGraph()); // its code is generated once for all
  std::map<std::string, size_t> functions;
  {
    const Session session("order=lazy");
    session.warmUp();
    session.configure("");
    ASSERT_THAT(messages(runAll(session)), IsEmpty());
    for (const std::string &function : session.calls())
      ++functions[function];
  }
  EXPECT_GE(functions.size(), 24U);
  for (const auto &[function, count] : functions)
    for (size_t n = 1; n <= std::min<size_t>(count, 3); ++n)
      for (const Injected &failure : injected)
        failOnce(function, n, failure);
}

// All that hipError_t has, and one that it has not.
TEST(RocmDriver, EveryErrorCodeIsAStatusWithWhatToDo) {
  std::set<MortiseCode> codes;
  for (const int result : {1,   2,   3,   4,   9,   17,  21,  35,  98,  100, 101, 200, 201, 205,  209,  214, 217,
                           218, 301, 302, 303, 304, 400, 401, 500, 600, 700, 701, 702, 705, 709,  710,  712, 713,
                           719, 720, 801, 900, 901, 902, 903, 904, 905, 906, 907, 908, 999, 1052, 1053, 4711}) {
    const Session session("order=lazy");
    session.warmUp();
    session.configure("fail=hipMallocAsync:1:" + std::to_string(result));
    try {
      makeMemory(session.devices[0], 256);
      ADD_FAILURE() << result << " is no error";
    } catch (const Failed &failed) {
      codes.insert(failed.error.code);
      EXPECT_THAT(failed.error.message, AllOf(HasSubstr("rocm:0: hipMallocAsync: "),
                                              testing::ContainsRegex(", " + std::to_string(result) + "\\); [A-Za-z]")));
    }
  }
  EXPECT_THAT(codes, AllOf(SizeIs(testing::Ge(7U)), testing::Not(Contains(MORTISE_OK))));
}

TEST(RocmDriver, WithoutItsPoolADeviceWorks) {
  for (const char *settings : {"pools=0", "fail=hipMemPoolSetAttribute:1:999"}) {
    const Session session(settings);
    EXPECT_THAT(messages(runAll(session)), IsEmpty());
    EXPECT_GT(session.callsOf("hipMalloc"), 0U);
  }
  EXPECT_THAT(takeLog(), HasSubstr("memory is allocated without the device's pool"));
}

TEST(RocmDriver, CodeForAnotherGpuIsRefusedWithWhatToDo) {
  const Session session("arch=gfx942");
  session.configure("arch=gfx90a"); // as HSA_OVERRIDE_GFX_VERSION would have it
  EXPECT_THAT(messages(runAll(session)),
              Contains(AllOf(HasSubstr("hipErrorNoBinaryForGpu"), HasSubstr("HSA_OVERRIDE"))));
}

// ---- Order and errors of streams

TEST(RocmStreams, EventsOrderWorkWhateverComesFirst) {
  for (const char *order : {"order=lazy", "order=random seed=3", "order=random seed=4", "order=random seed=5"}) {
    const Session session(order);
    MortiseDevice *device = session.devices[0];
    MortiseStream *first = makeStream(device), *second = makeStream(device);
    MortiseEvent *event = makeEvent(device);
    const MortiseAddress a = makeMemory(device, smallBytes), b = makeMemory(device, smallBytes);
    const std::vector<float> zeros(64 * 128, 0.0F);
    std::vector<float> got(64 * 128);
    {
      const Region compiled(device, smallGraph());
      upload(device, first, a, zeros.data(), smallBytes);
      ASSERT_TRUE(compiled.enqueue(first, {a}, {b})); // exp(0) = 1
      ASSERT_TRUE(record(event, first));
      ASSERT_TRUE(wait(event, second));
      ASSERT_TRUE(compiled.enqueue(second, {b}, {a})); // exp(2)
      download(device, second, got.data(), a, smallBytes);
    }
    EXPECT_THAT(got, Each(FloatNear(std::exp(2.0F), 1e-5F))) << order;
    destroyEvent(event);
    destroyStream(first);
    destroyStream(second);
    for (const MortiseAddress address : {a, b})
      freeMemory(device, address, smallBytes);
    EXPECT_THAT(session.problems(), IsEmpty());
  }
}

TEST(RocmStreams, AFailureStaysUntilAReset) {
  const Session session;
  MortiseDevice *device = session.devices[0];
  MortiseStream *stream = makeStream(device);
  const MortiseAddress a = makeMemory(device, smallBytes), b = makeMemory(device, smallBytes);
  const Region compiled(device, smallGraph());
  session.configure("fail=hipModuleLaunchKernel:1:701");
  EXPECT_FALSE(compiled.enqueue(stream, {a}, {b}));
  const auto refused = compiled.enqueue(stream, {a}, {b});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("hipModuleLaunchKernel"));
  EXPECT_EQ(session.callsOf("hipModuleLaunchKernel"), 1U);
  MortiseStreamArgs args{};
  args.stream = stream;
  EXPECT_FALSE(call(testedPlugin().stream_wait, args));
  EXPECT_TRUE(call(testedPlugin().stream_reset, args));
  EXPECT_TRUE(compiled.enqueue(stream, {a}, {b}));
  EXPECT_TRUE(call(testedPlugin().stream_wait, args));
  destroyStream(stream);
  for (const MortiseAddress address : {a, b})
    freeMemory(device, address, smallBytes);
}

TEST(RocmStreams, TheApplicationsStreamIsUsedAndKept) {
  const Session session;
  MortiseDevice *device = session.devices[0];
  MortiseStream *own = makeStream(device);
  MortiseStreamArgs exported{};
  exported.stream = own;
  ASSERT_TRUE(call(testedPlugin().stream_export, exported));
  MortiseStreamArgs imported{};
  imported.device = device;
  imported.native = exported.native;
  ASSERT_TRUE(call(testedPlugin().stream_import, imported));
  destroyStream(imported.stream);
  EXPECT_EQ(session.callsOf("hipStreamDestroy"), 0U);
  destroyStream(own);
  EXPECT_EQ(session.callsOf("hipStreamDestroy"), 1U);
}

TEST(RocmStreams, StepsAreTimed) {
  const Session session;
  MortiseDevice *device = session.devices[0];
  MortiseStream *stream = makeStream(device);
  const MortiseAddress a = makeMemory(device, smallBytes), b = makeMemory(device, smallBytes);
  const Region compiled(device, smallGraph());
  const std::string before = session.counts();
  std::vector<uint64_t> times(compiled.steps);
  ASSERT_TRUE(compiled.enqueue(stream, {a}, {b}, times.data()));
  EXPECT_THAT(times, Each(testing::Gt(0U)));
  EXPECT_EQ(session.counts(), before); // its events are gone
  destroyStream(stream);
  for (const MortiseAddress address : {a, b})
    freeMemory(device, address, smallBytes);
}

} // namespace
} // namespace mortise::test
