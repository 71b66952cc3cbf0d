// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plugins in a process of their own: right results, and what their ends leave behind. And the protocol, with a worker
// that lies.
#include "fixtures.hpp"
#include "isolation/message.hpp"

#include <gmock/gmock.h>

#include <fstream>
#include <random>
#include <sys/socket.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace mortise::runtime::isolation {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Proposed someAnswer() {
  return {{{"acme.mul", {1, 2, 3}, 1.5, 2.5, 3.5, {0, 4}, {{5, 6}}}, {"", {}, 0, 0, 0, {}, {}}},
          {{7, 3, "no such rank"}}};
}

TEST(Messages, AreReadAsTheyWereWritten) {
  const auto read = decode<Proposed>(encode(someAnswer()));
  ASSERT_TRUE(read);
  ASSERT_EQ(read->candidates.size(), 2u);
  EXPECT_EQ(read->candidates[0].lowering, "acme.mul");
  EXPECT_EQ(read->candidates[0].nodes, (std::vector<uint32_t>{1, 2, 3}));
  EXPECT_EQ(read->candidates[0].inPlace, (std::vector<uint32_t>{0, 4}));
  EXPECT_EQ(read->candidates[0].forms.at(0).layout, 6u);
  EXPECT_EQ(read->refusals.at(0).detail, "no such rank");
}

TEST(Messages, EveryCutIsAnError) {
  const std::string whole = encode(someAnswer());
  for (size_t count = 0; count < whole.size(); ++count)
    EXPECT_FALSE(decode<Proposed>(std::string_view(whole).substr(0, count))) << count;
  EXPECT_FALSE(decode<Proposed>(whole + "x"));
}

TEST(Messages, WildCountsAllocateNothing) {
  const std::string wild(16, '\xff');
  EXPECT_FALSE(decode<Proposed>(wild));
  EXPECT_FALSE(decode<Compiled>(wild));
  EXPECT_FALSE(decode<Answer>(wild));
  EXPECT_FALSE(decode<Loaded>(wild));
}

TEST(Messages, RandomBytesAreReadOrRefused) {
  std::mt19937 random(1);
  const std::string whole = encode(someAnswer());
  size_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = whole;
    for (int i = 0; i < 3; ++i)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    refused += !decode<Proposed>(bytes);
    decode<Loaded>(bytes) ? void() : void(++refused);
  }
  EXPECT_GT(refused, 20000u);
}

struct Pair {
  int ends[2];
  Pair() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0); }
  ~Pair() {
    shut();
    close(ends[0]);
  }
  void shut() {
    if (ends[1] >= 0)
      close(std::exchange(ends[1], -1));
  }
  void write(const std::string &bytes) {
    EXPECT_EQ(::write(ends[1], bytes.data(), bytes.size()), ssize_t(bytes.size()));
  }
};

TEST(Messages, CrossASocketInParts) {
  Pair pair;
  const std::string large(5 << 20, 'x');
  std::thread other([&] { EXPECT_TRUE(sendMessage(pair.ends[1], large, 10)); });
  const auto received = receiveMessage(pair.ends[0], 10);
  other.join();
  ASSERT_TRUE(received);
  EXPECT_TRUE(*received == large);
}

TEST(Messages, ASilentSideIsLeftBehind) {
  Pair pair;
  pair.write("abc");
  const auto received = receiveMessage(pair.ends[0], 0.05);
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code, MORTISE_CANCELLED);
}

TEST(Messages, AGoneSideIsSeen) {
  Pair pair;
  pair.write(encode(uint64_t(100)) + "only this");
  pair.shut();
  const auto received = receiveMessage(pair.ends[0], 10);
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code, MORTISE_DEVICE_LOST);
  EXPECT_FALSE(sendMessage(pair.ends[0], "more", 1));
}

TEST(Messages, AWildSizeIsNotAllocated) {
  Pair pair;
  pair.write(std::string(8, '\xff'));
  const auto received = receiveMessage(pair.ends[0], 10);
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code, MORTISE_CORRUPT);
}

// Of the fixture "queued": both devices work in streams, which do nothing before a wait, and the kernels of "far"
// refuse any memory but the device's own.
class Isolated : public testing::Test {
protected:
  void SetUp() override { folder.add("queued", test::Folder::manifestFor("queued", "\"queued\", \"far\"")); }

  std::shared_ptr<Registry> open(const char *isolate, const char *memoryLimit = "", const std::string &worker = "") {
    const std::string path = folder.path();
    const MortiseOption options[] = {{"plugin_path", path.c_str()},
                                     {"log_level", "off"},
                                     {"kernel_cache", "off"},
                                     {"isolate", isolate},
                                     {"probe", "off"},
                                     {"isolate_seconds", "20"},
                                     {"memory_limit", memoryLimit},
                                     {"isolate_worker", worker.c_str()}};
    auto config = Config::read(options);
    EXPECT_TRUE(config) << (config ? "" : config.error().message);
    auto registry = Registry::open(*config);
    registry->loadAll();
    return registry;
  }

  // y = x + w with the constant w, on the device; "" or what is wrong.
  static std::string runOn(const std::shared_ptr<Registry> &registry, const char *device, bool fails = false) {
    const std::vector<int64_t> dims{40, 3};
    test::PlanMaker maker(dims);
    const uint32_t x = maker.input(), w = maker.input(true), y = maker.output();
    maker.enqueue(maker.region({x, w}, {y}, device, "queued"));
    if (fails) {
      auto option = std::make_unique<plan::OptionT>();
      option->key = "fail";
      maker.plan->regions[0]->options.push_back(std::move(option));
    }
    auto program = Program::load(maker.plan, registry);
    if (!program)
      return program.error().message;
    std::vector<float> in(120), weight(120, 0.5f), out(120);
    const Tensor inputs[] = {test::tensorOf(in, dims), test::tensorOf(weight, dims)};
    const Tensor output = test::tensorOf(out, dims);
    if (auto bound = (*program)->bindConstants(inputs); !bound)
      return bound.error().message;
    for (int round = 0; round < 3; ++round) {
      std::ranges::fill(in, static_cast<float>(round));
      if (auto done = (*program)->run(inputs, {&output, 1}); !done)
        return done.error().message;
      if (!std::ranges::all_of(out, [&](float each) { return each == static_cast<float>(round) + 0.5f; }))
        return "wrong";
    }
    return "";
  }

  std::string worker() const { return folder.path() + "/worker"; }

  // Why the plugin is rejected where this shell script is the worker.
  Error rejection(const std::string &script) {
    std::ofstream(worker()) << "#!/bin/sh\n" << script << "\n";
    EXPECT_EQ(chmod(worker().c_str(), 0755), 0);
    const auto registry = open("queued", "", worker());
    return registry->rejected().empty() ? Error{MORTISE_OK, ""} : registry->rejected()[0].error;
  }

  test::Folder folder;
};

TEST_F(Isolated, TheWorkerUsesMemoryAndStreamsForTheHost) {
  const auto registry = open("queued");
  ASSERT_TRUE(registry->rejected().empty()) << registry->rejected()[0].error.message;
  for (const Device *device : registry->devices()) {
    EXPECT_TRUE(device->inHostMemory()) << device->name();
    EXPECT_FALSE(device->plugin->hasStreams());
    EXPECT_TRUE(device->plugin->isolated);
    EXPECT_EQ(device->hidesMemory(), device->name() == "far") << device->name();
    EXPECT_THAT(device->plugin->hidden, testing::IsSupersetOf({HasSubstr("memory of its own"), HasSubstr("streams")}));
  }
  for (const char *device : {"queued", "far"})
    EXPECT_EQ(runOn(registry, device), "") << device;
}

// A worker is no plugin's fault.
TEST_F(Isolated, AWorkerOfAnotherBuildIsToldFromAFaultyPlugin) {
  const Error error = rejection("printf '\\013\\0\\0\\0\\0\\0\\0\\0worker 0.1 ' >&3; sleep 60");
  EXPECT_EQ(error.code, MORTISE_VERSION_MISMATCH);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr("expected '" + worker() + "'"), HasSubstr(greeting()), HasSubstr("found 'worker 0.1 '"),
                    HasSubstr("isolate_worker"), Not(HasSubstr("vendor"))));
}

TEST_F(Isolated, AProgramThatIsNoWorkerIsToldFromAFaultyPlugin) {
  const Error error = rejection("exit 0");
  EXPECT_EQ(error.code, MORTISE_VERSION_MISMATCH);
  EXPECT_THAT(error.message, AllOf(HasSubstr("a program that does not say so"), Not(HasSubstr("vendor"))));
}

TEST_F(Isolated, AStreamThatFailedIsResetForTheNextCall) {
  const auto registry = open("queued");
  EXPECT_THAT(runOn(registry, "far", true),
              testing::AllOf(HasSubstr("device 'far' (plugin 'queued'): stream_wait"), HasSubstr("caught fire")));
  EXPECT_EQ(runOn(registry, "far"), "");
}

TEST_F(Isolated, TheLimitOfMemoryHoldsInTheWorker) {
  const std::string said = runOn(open("queued", "far=1000"), "far");
  EXPECT_THAT(said, testing::AllOf(HasSubstr("the 1000 bytes of the setting memory_limit"), HasSubstr("device 'far'")));
}

TEST_F(Isolated, AWorkerTellsWhyThereIsNoDevice) {
  folder.add("no_device");
  const auto found = open("fixture")->find("fixture");
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("has none here: expected a flux capacitor, found none; plug one in"));
}

TEST_F(Isolated, AnOpPackWithoutItsOwnersMemoryIsRejected) {
  folder.add("pack", test::Folder::manifestFor("pack", "\"pack\", \"far\""));
  EXPECT_THAT(test::onlyRejection(*open("pack")),
              testing::AllOf(HasSubstr("in the memory of 'far:0'"), HasSubstr("isolate")));
  EXPECT_THAT(test::onlyRejection(*open("queued")),
              testing::AllOf(HasSubstr("shares the memory of 'far:0'"), HasSubstr("isolate")));
}

} // namespace
} // namespace mortise::runtime::isolation
