// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A crash within a plugin leaves a line that names it. Each one is a process of its own.
#include "fixtures.hpp"

#include <gmock/gmock.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace mortise::runtime::test {
namespace {

class Crash : public testing::Test {
protected:
  Crash() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  // Loads the plugin and computes y = x + 1 in a region over `count` elements, with a crash at "PLACE KIND".
  void run(const std::string &crash, int64_t count = 12) const {
    setenv("MORTISE_TEST_CRASH", crash.c_str(), 1);
    const auto registry = loadFrom(library);
    const std::vector<int64_t> dims{count};
    PlanMaker maker(dims);
    const uint32_t x = maker.input(), y = maker.output();
    maker.enqueue(maker.region({x}, {y}));
    auto program = Program::load(maker.plan, registry);
    if (!program) {
      std::fprintf(stderr, "%s\n", program.error().message.c_str());
      return;
    }
    std::vector<float> in(static_cast<size_t>(count)), out(in.size());
    const Tensor input = tensorOf(in, dims), output = tensorOf(out, dims);
    if (auto done = (*program)->run({&input, 1}, {&output, 1}); !done)
      std::fprintf(stderr, "%s\n", done.error().message.c_str());
  }

  Folder folder;
  const std::string library = folder.add("crashes");
  // In "mortise: SIGSEGV at address 0x10 in enqueue of plugin 'fixture' (/tmp/x/libcrashes.so), region 0 (...)".
  const std::string plugin = "plugin 'fixture' \\(.*/libcrashes.so\\)",
                    region = ", region 0 \\(fixture.sum on fixture\\)";
};

TEST_F(Crash, NamesPluginSlotAndRegion) {
  EXPECT_DEATH(run("enqueue null"), "mortise: SIGSEGV at address 0x10 in enqueue of " + plugin + region);
  EXPECT_DEATH(run("kernel_compile null"), "SIGSEGV at address 0x10 in kernel_compile of " + plugin + region);
  EXPECT_DEATH(run("enqueue abort"), "mortise: SIGABRT in enqueue of " + plugin + region);
}

TEST_F(Crash, NamesThePluginWhileItLoads) {
  EXPECT_DEATH(run("start abort"), "SIGABRT in the start, .*/libcrashes.so");
  EXPECT_DEATH(run("initialize null"), "SIGSEGV at address 0x10 in initialize of " + plugin);
  EXPECT_DEATH(run("devices null"), "SIGSEGV at address 0x10 in devices of " + plugin);
}

TEST_F(Crash, NamesThePluginInOtherThreads) {
  EXPECT_DEATH(run("task null", 100000), "SIGSEGV at address 0x10 in enqueue of " + plugin + region);
  EXPECT_DEATH(run("enqueue thread"), "SIGSEGV at address 0x10 in a thread of " + plugin);
}

// A plugin that hangs: whoever ends the process asks for the line with SIGABRT.
TEST_F(Crash, NamesTheSlotThatDoesNotReturn) {
#ifdef MORTISE_THREAD_SANITIZED
  GTEST_SKIP() << "the thread sanitizer holds signals back until the thread calls something";
#endif
  const auto hang = [&] {
    signal(SIGALRM, [](int) { abort(); });
    alarm(2);
    run("enqueue loop");
  };
  EXPECT_DEATH(hang(), "SIGABRT in enqueue of " + plugin + region);
}

// What handles signals already still does, and what is no plugin's leaves no line.
TEST_F(Crash, PassesSignalsOn) {
  const auto handled = [&](const char *crash) {
    signal(SIGSEGV, [](int) {
      const char text[] = "the application's own handler";
      if (write(STDERR_FILENO, text, sizeof text) > 0)
        _exit(7);
    });
    run(crash);
    raise(SIGSEGV);
  };
  EXPECT_EXIT(handled("enqueue null"), testing::ExitedWithCode(7), plugin + region + "\nthe application's own handler");
  EXPECT_EXIT(handled("nowhere null"), testing::ExitedWithCode(7), "^the application's own handler");
}

TEST_F(Crash, TheSettingLeavesSignalsAlone) {
  setenv("MORTISE_CRASH_REPORT", "off", 1);
  EXPECT_DEATH(run("enqueue abort"), testing::Not(testing::HasSubstr("mortise: SIGABRT")));
  unsetenv("MORTISE_CRASH_REPORT");
}

} // namespace
} // namespace mortise::runtime::test
