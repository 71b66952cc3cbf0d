// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The vulkan plugin on lavapipe, where each call of Vulkan fails once; and kernels that an earlier process has saved.
// Skipped where there is no lavapipe.
#include "../slots/scenario.hpp"
#include "failing_loader.hpp"

#include <vulkan/vulkan_core.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <unistd.h>

namespace mortise::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

// The plugin with a device of its own: those that other sessions have lost do not matter.
class Session {
public:
  // A link of its own: the plugin finds devices once for each path, and the library is one for all.
  Session() {
    static int number = 0;
    path = std::filesystem::temp_directory_path() /
           ("mortise-vulkan-" + std::to_string(getpid()) + "-" + std::to_string(number++) + ".so");
    std::filesystem::create_symlink(MORTISE_TEST_LOADER, path);
    handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle)
      throw std::runtime_error(dlerror());
    configure("");
    setenv("MORTISE_VULKAN_LOADER", path.c_str(), 1);
    const MortiseOption options[] = {{"loader", path.c_str()}, {"device", "llvmpipe"}};
    if (auto found = startPlugin(options))
      device = found->front()->device;
    else
      reason = found.error().message;
  }
  ~Session() {
    configure("");
    unsetenv("MORTISE_VULKAN_LOADER");
    std::filesystem::remove(path);
  }
  Session(const Session &) = delete;

  void configure(const std::string &settings) const {
    symbol<FailingLoaderConfigure>("failingLoaderConfigure")(settings.c_str());
  }
  std::map<std::string, size_t> calls() const { // since then, by function
    std::istringstream lines(symbol<FailingLoaderCalls>("failingLoaderCalls")());
    std::map<std::string, size_t> counts;
    for (std::string line; std::getline(lines, line);)
      ++counts[line];
    return counts;
  }
  std::map<std::string, long> living() const { // of what is not destroyed, by kind
    std::istringstream words(symbol<FailingLoaderLiving>("failingLoaderLiving")());
    std::map<std::string, long> counts;
    long count = 0;
    for (std::string kind; words >> kind >> count;)
      counts[kind] = count;
    return counts;
  }
  std::vector<Error> run() const { return Scenario(device, device).run(); }

  MortiseDevice *device = nullptr;
  std::string reason; // why there is none

private:
  template <typename Function> Function *symbol(const char *name) const {
    return reinterpret_cast<Function *>(dlsym(handle, name));
  }
  std::string path;
  void *handle = nullptr;
};

class VulkanFaults : public testing::Test {
protected:
  void SetUp() override {
    if (!session.device)
      GTEST_SKIP() << "no lavapipe: install mesa-vulkan-drivers (Debian); " << session.reason;
  }
  const Session session;
};

TEST_F(VulkanFaults, EverythingWorksAndNothingIsLeft) {
  ASSERT_THAT(messages(session.run()), IsEmpty());
  const std::map<std::string, long> before = session.living();
  session.configure("");
  Scenario scenario(session.device, session.device);
  EXPECT_THAT(messages(scenario.run()), IsEmpty());
  EXPECT_FLOAT_EQ(scenario.results()[0], std::exp(3.0f));
  EXPECT_EQ(session.living(), before);
  EXPECT_EQ(before.at("Device"), 1);
}

// The second time it is recorded to stay, and from the third on submitted as it is, with what its memory has then.
TEST_F(VulkanFaults, CallsThatComeAgainAreNotRecordedAgain) {
  const Region region(session.device, smallGraph());
  MortiseStream *stream = makeStream(session.device);
  constexpr size_t places = 20; // more than are kept
  const MortiseAddress from = makeMemory(session.device, smallBytes),
                       to = makeMemory(session.device, places * smallBytes);
  const auto recordedBy = [&](size_t place, float x) {
    const std::vector<float> numbers(smallBytes / 4, x);
    upload(session.device, stream, from, numbers.data(), smallBytes);
    std::vector<float> results(numbers.size());
    session.configure("");
    EXPECT_TRUE(region.enqueue(stream, {from}, {to + place * smallBytes}));
    const std::map<std::string, size_t> counts = session.calls();
    EXPECT_EQ(counts.at("vkQueueSubmit"), 1U);
    download(session.device, stream, results.data(), to + place * smallBytes, smallBytes);
    EXPECT_FLOAT_EQ(results.front(), std::exp(2 * x));
    EXPECT_FLOAT_EQ(results.back(), std::exp(2 * x));
    return counts.contains("vkBeginCommandBuffer");
  };
  EXPECT_TRUE(recordedBy(0, 1));
  EXPECT_TRUE(recordedBy(0, 2));
  EXPECT_FALSE(recordedBy(0, 3));
  EXPECT_TRUE(recordedBy(1, 4)); // another address
  EXPECT_FALSE(recordedBy(0, 5));
  for (size_t place = 2; place < places; ++place)
    EXPECT_TRUE(recordedBy(place, 1));
  EXPECT_TRUE(recordedBy(0, 2)); // forgotten meanwhile
  EXPECT_TRUE(recordedBy(0, 3));
  EXPECT_FALSE(recordedBy(0, 4));
  freeMemory(session.device, from, smallBytes), freeMemory(session.device, to, places * smallBytes);
  destroyStream(stream);
}

// A recorded copy names buffers, of which one may be gone while another one has its address.
TEST_F(VulkanFaults, RecordedCopiesEndWithTheMemoryThatTheyNamed) {
  Network net;
  net.output(net.op("reshape", {net.input(MORTISE_F32, {64, 128})}, {ints("shape", {8192})}));
  const Region region(session.device, net.finish());
  MortiseStream *stream = makeStream(session.device);
  const MortiseAddress from = makeMemory(session.device, smallBytes);
  const auto records = [&](MortiseAddress to, float x) {
    const std::vector<float> numbers(smallBytes / 4, x);
    upload(session.device, stream, from, numbers.data(), smallBytes);
    session.configure("");
    EXPECT_TRUE(region.enqueue(stream, {from}, {to}));
    const bool isRecorded = session.calls().contains("vkBeginCommandBuffer");
    std::vector<float> results(numbers.size());
    download(session.device, stream, results.data(), to, smallBytes);
    EXPECT_EQ(results, numbers);
    return isRecorded;
  };
  for (int round = 0; round < 2; ++round) {
    const MortiseAddress to = makeMemory(session.device, smallBytes);
    EXPECT_TRUE(records(to, 1));
    EXPECT_TRUE(records(to, 2));
    EXPECT_FALSE(records(to, 3));
    freeMemory(session.device, to, smallBytes);
  }
  freeMemory(session.device, from, smallBytes);
  destroyStream(stream);
}

constexpr struct {
  VkResult result;
  const char *name;
  MortiseCode code;
} injected[] = {{VK_ERROR_OUT_OF_HOST_MEMORY, "VK_ERROR_OUT_OF_HOST_MEMORY", MORTISE_OUT_OF_MEMORY},
                {VK_ERROR_OUT_OF_DEVICE_MEMORY, "VK_ERROR_OUT_OF_DEVICE_MEMORY", MORTISE_OUT_OF_MEMORY},
                {VK_ERROR_UNKNOWN, "VK_ERROR_UNKNOWN", MORTISE_INTERNAL}};

// Without them compiling takes longer, and the host keeps less.
const std::set<std::string> harmless = {"vkCreatePipelineCache", "vkGetPipelineCacheData"};

void expectSaid(const std::vector<Error> &errors, const std::string &function, const char *name, MortiseCode code) {
  ASSERT_FALSE(errors.empty());
  EXPECT_EQ(errors[0].code, code) << errors[0].message;
  const std::string bare = function.substr(0, function.rfind("KHR"));
  EXPECT_THAT(errors[0].message, AllOf(HasSubstr("vulkan:0"), HasSubstr(bare), HasSubstr(name), HasSubstr("; ")));
}

TEST_F(VulkanFaults, EveryFailureBecomesAStatusAndEverythingWorksAfterwards) {
  ASSERT_THAT(messages(session.run()), IsEmpty());
  std::map<std::string, long> before = session.living();
  session.configure("");
  ASSERT_THAT(messages(session.run()), IsEmpty());
  const std::map<std::string, size_t> functions = session.calls();
  EXPECT_GE(functions.size(), 12U);
  for (const auto &[function, count] : functions)
    for (size_t n = 1; n <= std::min<size_t>(count, 4); ++n)
      for (const auto &[result, name, code] : injected) {
        SCOPED_TRACE(function + ", call " + std::to_string(n) + ", " + name);
        session.configure("fail=" + function + ":" + std::to_string(n) + ":" + std::to_string(result));
        const std::vector<Error> errors = session.run();
        session.configure("");
        if (!harmless.contains(function))
          expectSaid(errors, function, name, code);
        if (function == "vkWaitSemaphores") // memory whose use has no known end stays
          before = session.living();
        EXPECT_EQ(session.living(), before);
        ASSERT_THAT(messages(session.run()), IsEmpty());
      }
}

TEST_F(VulkanFaults, FailuresWhileTheDeviceStartsAreStatusesAndTriedAgain) {
  std::map<std::string, size_t> functions;
  std::map<std::string, long> started; // what a device consists of
  {
    const Session other;
    const std::map<std::string, long> before = other.living();
    other.configure("");
    freeMemory(other.device, makeMemory(other.device, 256), 256);
    functions = other.calls();
    started = other.living();
    for (const auto &[kind, count] : before)
      started[kind] -= count;
  }
  EXPECT_EQ(started.at("Device"), 1);
  EXPECT_TRUE(functions.contains("vkCreateDevice"));
  for (const auto &[function, count] : functions)
    for (size_t n = 1; n <= count; ++n) {
      SCOPED_TRACE(function + ", call " + std::to_string(n));
      const Session other;
      std::map<std::string, long> all = other.living();
      other.configure("fail=" + function + ":" + std::to_string(n) + ":" + std::to_string(VK_ERROR_OUT_OF_HOST_MEMORY));
      try {
        freeMemory(other.device, makeMemory(other.device, 256), 256);
        ADD_FAILURE() << "expected an error";
      } catch (const Failed &failed) {
        expectSaid({failed.error}, function, "VK_ERROR_OUT_OF_HOST_MEMORY", MORTISE_OUT_OF_MEMORY);
      }
      other.configure("");
      EXPECT_THAT(messages(other.run()), IsEmpty());
      for (const auto &[kind, count] : started)
        all[kind] += count;
      EXPECT_EQ(other.living(), all);
    }
}

// Behind the first error nothing is tried with a device that is lost.
TEST_F(VulkanFaults, ALostDeviceStaysLost) {
  ASSERT_THAT(messages(session.run()), IsEmpty());
  session.configure("");
  ASSERT_THAT(messages(session.run()), IsEmpty());
  for (const auto &[function, count] : session.calls()) {
    SCOPED_TRACE(function);
    const Session other;
    ASSERT_THAT(messages(other.run()), IsEmpty());
    other.configure("fail=" + function + ":1:" + std::to_string(VK_ERROR_DEVICE_LOST));
    const std::vector<Error> errors = other.run();
    other.configure("");
    const std::vector<Error> later = other.run();
    if (harmless.contains(function) && errors.empty())
      continue;
    expectSaid(errors, function, "VK_ERROR_DEVICE_LOST", MORTISE_DEVICE_LOST);
    EXPECT_THAT(errors[0].message, HasSubstr("start the process again"));
    ASSERT_FALSE(later.empty());
    EXPECT_EQ(later[0].code, MORTISE_DEVICE_LOST) << later[0].message;
    EXPECT_THAT(errors[0].message, HasSubstr(later[0].message)); // which says where it was met, too
  }
}

// ---- Saved kernels

// Where the driver's pipelines begin in what was saved.
size_t headerIn(std::span<const std::byte> saved) {
  const VkPipelineCacheHeaderVersionOne wanted{.headerSize = sizeof wanted,
                                               .headerVersion = VK_PIPELINE_CACHE_HEADER_VERSION_ONE};
  for (size_t at = 0; at + sizeof wanted <= saved.size(); ++at)
    if (std::memcmp(saved.data() + at, &wanted, 2 * sizeof(uint32_t)) == 0)
      return at;
  return SIZE_MAX;
}

TEST_F(VulkanFaults, SavedKernelsAreLoadedWithTheirPipelines) {
  const Region region(session.device, smallGraph());
  const std::vector<std::byte> saved = region.save();
  ASSERT_NE(headerIn(saved), SIZE_MAX);
  Region loaded(session.device, smallGraph(), Region::How{.saved = saved});
  EXPECT_EQ(loaded.text(), region.text());
  runAndCompare(session.device, loaded, smallGraph()->view());
}

TEST_F(VulkanFaults, PipelinesOfAnotherDriverOrDamagedOnesAreRefused) {
  const std::vector<std::byte> saved = Region(session.device, smallGraph()).save();
  const size_t header = headerIn(saved);
  ASSERT_NE(header, SIZE_MAX);
  for (const size_t at :
       {offsetof(VkPipelineCacheHeaderVersionOne, headerSize) + 3,
        offsetof(VkPipelineCacheHeaderVersionOne, headerVersion), offsetof(VkPipelineCacheHeaderVersionOne, vendorID),
        offsetof(VkPipelineCacheHeaderVersionOne, deviceID),
        offsetof(VkPipelineCacheHeaderVersionOne, pipelineCacheUUID) + 7}) {
    SCOPED_TRACE(at);
    std::vector<std::byte> damaged = saved;
    damaged[header + at] ^= std::byte{0x5a};
    try {
      const Region region(session.device, smallGraph(), Region::How{.saved = damaged});
      ADD_FAILURE() << "expected an error";
    } catch (const Failed &failed) {
      EXPECT_EQ(failed.error.code, MORTISE_CORRUPT);
      EXPECT_THAT(failed.error.message, AllOf(HasSubstr("vulkan:0"), HasSubstr("compiled again")));
    }
  }
  for (size_t size = 1; size < saved.size(); size += 13)
    EXPECT_THROW(Region(session.device, smallGraph(), Region::How{.saved = std::span(saved).first(size)}), Failed)
        << size;
  EXPECT_THAT(messages(session.run()), IsEmpty());
}

} // namespace
} // namespace mortise::test
