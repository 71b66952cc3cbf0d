// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The runtime on devices with memory and queues of their own, which check what it does.
#include "../../passes/copy_times.hpp"
#include "../../tools/mortise/seam.hpp"
#include "../cpu/network.hpp"
#include "resident.hpp"
#include "sweeps.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mortise/graph.hpp>
#include <mortise/passes/prices.hpp>
#include <mortise/portable/graph.hpp>
#include <mortise/runtime/device_memory.hpp>
#include <mortise/runtime/plan_generated.h>

#include <algorithm>
#include <map>
#include <set>

extern "C" int omp_get_max_threads(void);
extern "C" void omp_set_num_threads(int);

namespace mortise::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

// The figures strict-device and device-faults run more graphs on all of these.
constexpr std::span<const Places> somePlaces = std::span(everyPlace).first(3);

TEST(Strict, RandomGraphsAreRightOnEveryCombinationOfDevices) {
  const Sweep sweep = sweepGraphs(0, 16, 2, everyPlace);
  EXPECT_THAT(sweep.problems, IsEmpty());
  EXPECT_EQ(sweep.runs, 16u * 5 * 2);
}

// A literal in a region that was chosen first is used by the rest, which has to come behind it.
TEST(Strict, RegionsOfTwoDevicesFormNoCycle) { EXPECT_THAT(sweepGraphs(77, 1, 1, somePlaces).problems, IsEmpty()); }

TEST(Strict, WhatStaysOnADeviceIsNotCopied) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    auto graph = randomGraph(seed, false);
    configureStrict(settings(seed, 1, 0));
    const Found found = runStrict(*graph, {.devices = "strict:0", .count = 3, .home = "strict:0"});
    EXPECT_EQ(found.text(), "") << "seed " << seed;
    EXPECT_EQ(found.copied, 0u) << "seed " << seed;
  }
}

// What one region gives in a layout another one gets so; elsewhere the host converts.
TEST(Strict, ValuesKeepTheLayoutsThatRegionsAgreeOn) {
  Network net;
  const ValueId x = net.input(MORTISE_F32, {6, 5});
  const ValueId a = net.op("abs", {x}), b = net.op("neg", {a});
  net.output(net.op("add", {a, b}));
  const auto graph = net.finish();
  // `a` passes from a region of strict:0 to another one of that device, and to strict:1.
  const char *place = "op=abs device=strict:0; op=neg device=strict:1; op=add device=strict:0";
  const MortiseOption options[] = {{"device", "strict:0,strict:1"}, {"place", place}};
  std::set<std::string> layouts; // of what is passed on as it is
  std::set<size_t> conversions;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    configureStrict("layouts=1 seed=" + std::to_string(seed));
    const auto compiled = must(tool::compile(*graph, *strictRegistry(), must(runtime::Config::read(options))));
    const auto &regions = compiled.plan->regions;
    conversions.insert(static_cast<size_t>(
        std::ranges::count(regions, "strict.conversion", [](const auto &region) { return region->lowering; })));
    const plan::BufferT &given = *compiled.plan->buffers[(*std::ranges::find_if(regions, [](const auto &region) {
                                                           return region->nodes == std::vector<uint32_t>{0};
                                                         }))->outputs[0]];
    const auto &taken = (*std::ranges::find_if(regions, [](const auto &region) {
                          return region->nodes == std::vector<uint32_t>{2};
                        }))->inputs;
    for (uint32_t buffer : taken)
      if (compiled.plan->buffers[buffer].get() == &given)
        layouts.insert(std::to_string(given.layout) + " in space " +
                       std::to_string(compiled.plan->spaces[given.space]->number));
    if (seed < 40)
      EXPECT_EQ(runStrict(*graph, {.devices = "strict:0,strict:1", .place = place, .count = 2}).text(), "")
          << "seed " << seed;
  }
  EXPECT_EQ(layouts.size(), 6u) << "three layouts in two spaces";
  EXPECT_TRUE(conversions.contains(0));
  EXPECT_GE(conversions.size(), 4u);
}

// What a later region needs is copied beside the regions before it, and a result beside those behind it.
TEST(Strict, CopiesRunBesideKernels) {
  Network net;
  const ValueId x = net.input(MORTISE_F32, {64}), y = net.input(MORTISE_F32, {64});
  const ValueId a = net.op("relu", {x}), b = net.op("neg", {a}), c = net.op("mul", {b, y});
  net.output(a);
  net.output(c);
  const auto graph = net.finish();
  const auto beside = [&](const std::string &place) {
    configureStrict("delay_us=100");
    EXPECT_EQ(runStrict(*graph, {.devices = "strict:0,cpu", .place = place, .count = 1}).text(), "") << place;
    return strictReport()["beside"].get<int>();
  };
  EXPECT_EQ(beside("op=* device=strict:0"), 0) << "one region, to which all copies belong";
  EXPECT_GE(beside("op=neg device=cpu"), 1);
}

TEST(Strict, AQueuedCallWorksAfterOneThatFailed) { EXPECT_EQ(queueAgainAfterErrors().text(), ""); }

// Work behind a failure is dropped, and the memory that it was to free ends all the same.
TEST(Strict, MemoryFreedOnAStreamThatFailedIsGivenBack) {
  constexpr uint64_t bytes = 8 << 20, room = 12 << 20; // for one allocation
  const runtime::Device &device = *strictRegistry()->find("strict:0")->front();
  const MortisePlugin &table = *device.plugin->table;
  const std::vector<std::byte> source(bytes);
  for (const auto next : {table.stream_reset, table.stream_destroy}) {
    configureStrict("memory=" + std::to_string(room) + " fail=work:1:" + std::to_string(MORTISE_INTERNAL));
    MortiseStreamArgs stream{};
    ASSERT_TRUE(runtime::callOn(device, "stream_create", table.stream_create, stream));
    MortiseMemoryArgs first{}, second{};
    first.bytes = second.bytes = bytes;
    ASSERT_TRUE(runtime::callOn(device, "memory_allocate", table.memory_allocate, first));
    EXPECT_FALSE(runtime::callOn(device, "memory_allocate", table.memory_allocate, second)) << "there is no room";
    ASSERT_TRUE(runtime::queueCopy(device, stream.stream, {&device, first.address}, {nullptr, addressOf(source.data())},
                                   bytes));
    first.stream = stream.stream;
    ASSERT_TRUE(runtime::callOn(device, "memory_free", table.memory_free, first));
    EXPECT_FALSE(runtime::callOn(device, "stream_wait", table.stream_wait, stream)) << "the copy has failed";
    EXPECT_TRUE(runtime::callOn(device, "the end of the failure", next, stream));
    if (auto made = runtime::callOn(device, "memory_allocate", table.memory_allocate, second); made)
      EXPECT_TRUE(runtime::callOn(device, "memory_free", table.memory_free, second));
    else
      ADD_FAILURE() << made.error().message;
    if (next == table.stream_reset)
      EXPECT_TRUE(runtime::callOn(device, "stream_destroy", table.stream_destroy, stream));
  }
  configureStrict("");
}

TEST(Strict, WeightsAreSwappedBesideQueuedCalls) {
  configureStrict("delay_us=200");
  EXPECT_EQ(rebindBesideQueuedCalls(3, 60).text(), "");
}

// Values pass through the host between devices that do not reach each other.
TEST(Strict, MemoryThatValuesPassThroughIsRegistered) {
  Network net;
  net.output(net.op("neg", {net.op("abs", {net.input(MORTISE_F32, {64})})}));
  const auto graph = net.finish();
  const auto registered = [&](const char *place, const char *fault) {
    configureStrict(fault);
    EXPECT_EQ(runStrict(*graph, {.devices = "strict:0,aloof", .place = place}).text(), "") << place << fault;
    EXPECT_EQ(strictReport()["live"].value("registration", 0), 0);
    return strictReport()["calls"].value("host_register", 0);
  };
  const char *both = "op=abs device=strict:0; op=neg device=aloof";
  EXPECT_GE(registered(both, ""), 1);
  EXPECT_GE(registered(both, "fail=host_register:1:4"), 1); // what cannot be registered is copied all the same
  EXPECT_EQ(registered("op=* device=aloof", ""), 0);
}

// Kernels that clock no step are clocked by events in their stream.
TEST(Strict, RegionsAreClockedByEvents) {
  Network net;
  net.output(net.op("tanh", {net.input(MORTISE_F32, {8})}));
  const auto graph = net.finish();
  const MortiseOption options[] = {{"device", "strict:0"}};
  for (const char *clock : {"clock=1", "clock=0"}) {
    configureStrict(std::string("delay_us=4000 ") + clock);
    auto program = must(tool::compileAndLoad(*graph, strictRegistry(), must(runtime::Config::read(options))));
    std::vector<std::byte> x(32), y(32);
    const MortiseType &type = *graph->view().inputs[0]->type;
    const runtime::Tensor in = hostTensor(x, type), out = hostTensor(y, type);
    must(program->runProfiled({&in, 1}, {&out, 1}));
    const uint64_t ns = program->report().at(0).steps.at(0).ns;
    // Work is held back for 2 ms at least, the mark behind it, too.
    const bool byEvents = std::string(clock) == "clock=0";
    EXPECT_GE(ns, byEvents ? 2'000'000u : 1u);
    EXPECT_EQ(strictReport()["calls"].value("event_elapsed", 0), byEvents ? 1 : 0);
  }
}

// The plugin says that its work costs nothing, and interprets it. The cpu has one thread: where other processes keep
// all cores busy, several threads wait for each other longer than the interpreter takes.
class MaxAutotune : public testing::Test {
protected:
  void SetUp() override {
    omp_set_num_threads(1);
    forgetKernels();
    Network net;
    const ValueId x = net.input(MORTISE_F32, {256, 256});
    net.output(net.op("tanh", {net.linear(x, net.weight({256, 256}))}));
    graph = net.finish();
  }
  void TearDown() override {
    forgetKernels();
    omp_set_num_threads(threads);
  }

  // The devices that the program uses.
  std::set<std::string> placed(const char *mode, const std::string &settings = "",
                               const char *devices = "strict:0,cpu") {
    configureStrict(settings);
    const MortiseOption options[] = {{"device", devices}, {"mode", mode}, {"log_level", "off"}};
    const auto config = runtime::Config::read(options);
    const auto compiled = tool::compile(*graph, *strictRegistry(true), must(config));
    std::set<std::string> used;
    for (const auto &region : must(compiled).plan->regions)
      used.insert(region->device);
    return used;
  }
  static bool ranOnStrict() { return strictReport()["calls"].contains("enqueue"); }

  const int threads = omp_get_max_threads();
  const std::set<std::string> strict = {"strict:0"}, cpu = {"cpu"};
  std::shared_ptr<const Graph> graph;
};

TEST_F(MaxAutotune, DecidesByMeasuredTimes) {
  EXPECT_EQ(placed("default"), strict);
  EXPECT_FALSE(ranOnStrict());
  for (const char *mode : {"max-autotune", "max-autotune-no-cudagraphs"}) {
    forgetKernels();
    EXPECT_EQ(placed(mode), cpu) << mode;
    EXPECT_TRUE(ranOnStrict()) << mode;
  }
}

TEST_F(MaxAutotune, OtherModesKnowHowWrongPluginsWere) {
  EXPECT_EQ(placed("default"), strict);
  EXPECT_EQ(placed("max-autotune"), cpu);
  configureStrict("");
  EXPECT_EQ(placed("default"), cpu);
  EXPECT_FALSE(ranOnStrict());
  forgetKernels();
  EXPECT_EQ(placed("default"), strict);
}

TEST_F(MaxAutotune, MeasuresOncePerDeviceAndDriver) {
  EXPECT_EQ(placed("max-autotune"), cpu);
  EXPECT_EQ(placed("max-autotune"), cpu); // with all that a new process knows
  EXPECT_FALSE(ranOnStrict());
  forgetKernels();
  EXPECT_EQ(placed("max-autotune"), cpu);
  EXPECT_TRUE(ranOnStrict());
}

TEST_F(MaxAutotune, TimesOfADeviceWithoutAFingerprintAreNotKept) {
  EXPECT_EQ(placed("max-autotune", "", "reference,cpu"), cpu);
  size_t times = 0;
  for (const auto &entry : (*strictRegistry(true)->cache())->entries()) {
    times += entry.text.find("\"what\":\"time\"") != std::string::npos;
    EXPECT_EQ(entry.text.find("reference"), std::string::npos) << entry.text;
  }
  EXPECT_GT(times, 0u); // of the cpu
}

TEST_F(MaxAutotune, MeasuresEqualRegionsOnce) {
  const auto compiled = [&](int layers) {
    forgetKernels();
    Network net;
    ValueId x = net.input(MORTISE_F32, {64, 64});
    for (int i = 0; i < layers; ++i)
      x = net.op("tanh", {net.linear(x, net.weight({64, 64}))});
    net.output(x);
    graph = net.finish();
    placed("max-autotune");
    return strictReport()["calls"]["kernel_compile"].get<int>();
  };
  const int one = compiled(1), eight = compiled(8);
  EXPECT_LT(eight, one + 7) << one; // 16 nodes, of two kinds
}

TEST_F(MaxAutotune, MeasuresRegionsThatUpdateState) {
  Network net;
  const ValueId x = net.input(MORTISE_F32, {256, 256}), state = net.input(MORTISE_F32, {256, 256}, MORTISE_VALUE_STATE);
  net.output(net.dot(x, state, {}, {}, {1}, {0}), 1);
  graph = net.finish();
  EXPECT_EQ(placed("max-autotune"), cpu);
}

TEST_F(MaxAutotune, WhatCannotBeMeasuredCostsWhatItsPluginSays) {
  EXPECT_EQ(placed("max-autotune", "memory=1"), strict); // no tensor of a measurement has room
  EXPECT_FALSE(ranOnStrict());
}

// Prices of copies, over the two equal devices of kind strict: where nothing else tells them apart, all runs on the
// first one.
class CopyPrices : public testing::Test {
protected:
  void SetUp() override {
    forgetKernels();
    Network net;
    net.output(net.op("abs", {net.input(MORTISE_F32, {64, 64})}));
    graph = net.finish();
  }
  void TearDown() override {
    forgetKernels();
    logs("off");
  }

  // The least severity that this process writes, which a registry sets when it is opened.
  static void logs(const char *level) {
    const MortiseOption options[] = {{"log_level", level}};
    runtime::Registry::open(must(runtime::Config::read(options)));
  }
  Result<tool::Placed> compiled(const char *mode, const std::string &settings = "", const char *transfer = "",
                                const char *devices = "strict:0,strict:1") {
    configureStrict(settings);
    const MortiseOption options[] = {{"device", devices}, {"mode", mode}, {"transfer", transfer}};
    return tool::compile(*graph, *strictRegistry(true), must(runtime::Config::read(options)));
  }
  // The device of the region, and where the price of the copy to it comes from.
  std::string placed(const char *mode, const std::string &settings = "", const char *transfer = "") {
    const auto found = compiled(mode, settings, transfer);
    if (!found)
      return found.error().message;
    const plan::CopyT *copy = found->plan->steps.at(0)->instruction.AsCopy();
    return found->plan->regions.at(0)->device + ", " + (copy ? copy->latency_source : "no copy");
  }
  static uint64_t copied() { return copiedBytes(); }
  static const runtime::Device *memory(const char *device) { return must(strictRegistry(true)->find(device)).front(); }

  const std::string slowThere = "slow=host->strict:0=20000000:1000000000", // 20 ms
      slowBack = "slow=strict:0->host=20000000:1000000000";
  std::shared_ptr<const Graph> graph;
};

TEST_F(CopyPrices, MeasuredOnesMoveRegionsAndAreKept) {
  for (const std::string &slow : {slowThere, slowBack}) {
    forgetKernels();
    EXPECT_EQ(placed("default", slow), "strict:0, stated");
    EXPECT_EQ(copied(), 0u) << "nothing is measured in this mode";
    EXPECT_EQ(placed("max-autotune", slow), "strict:1, measured");
    EXPECT_GT(copied(), 0u);
    EXPECT_EQ(placed("default", slow), "strict:1, measured");
    EXPECT_EQ(copied(), 0u);
    EXPECT_EQ(placed("max-autotune-no-cudagraphs", slow), "strict:1, measured"); // regions of that mode are measured
    forgetKernels();
    EXPECT_EQ(placed("default", slow), "strict:0, stated");
  }
}

TEST_F(CopyPrices, SetOnesAreStronger) {
  EXPECT_EQ(placed("default", "", "host->strict:0=1e6:1e9"), "strict:1, stated");
  EXPECT_EQ(placed("default", "", "host->strict=1e6:1e9, host->strict:0=5:1e9"), "strict:0, set");
  EXPECT_EQ(placed("max-autotune", slowThere), "strict:1, measured");
  const char *cheap = "host->strict:0=0:1e18, strict:0->host=0:1e18, host->strict:1=1e9:1e9";
  EXPECT_EQ(placed("default", slowThere, cheap), "strict:0, set");
  EXPECT_EQ(placed("max-autotune", slowThere, cheap), "strict:0, set");
}

TEST_F(CopyPrices, WaysOverTheHostAreMeasuredAsOne) {
  const auto between = [&] {
    const MortiseOption options[] = {{"device", "strict:0,aloof"}};
    const auto registry = strictRegistry(true);
    const auto prices = must(passes::Prices::make(*registry, must(runtime::Config::read(options))));
    return prices->copy(memory("strict:0"), memory("aloof"));
  };
  (void)must(compiled("max-autotune", "slow=strict:0->host=3000000:1000000000 slow=host->aloof:0=5000000:1000000000",
                      "", "strict:0,aloof"));
  const passes::CopyPrice price = between();
  EXPECT_TRUE(price.overHost);
  EXPECT_EQ(price.nsSource, passes::PriceSource::Measured);
  EXPECT_GE(price.ns, 8e6);
  EXPECT_LT(price.ns, 8e7); // a busy machine
}

TEST_F(CopyPrices, WhatMakesNoSenseChangesNothingAndIsLogged) {
  logs("warning");
  testing::internal::CaptureStderr();
  // The other device is slow, too, so that a busy machine does not decide; the refused copy would be slower still.
  const std::string slowToTheOther = " slow=host->strict:1=10000000:1000000000"; // 10 ms
  const std::string refused = placed("max-autotune", slowThere + slowToTheOther + " fail=copy:1:10");
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, AllOf(HasSubstr("copies from 'host' to 'strict:0' cannot be measured"), HasSubstr("injected")));
  EXPECT_EQ(refused, "strict:0, stated");

  forgetKernels();
  EXPECT_EQ(placed("max-autotune", slowThere), "strict:1, measured");
  for (const char *device : {"strict:0", "strict:1"}) {
    passes::keepCopyTime(nullptr, memory(device), {0, 1e9}, strictRegistry(true)->cache());
    passes::keepCopyTime(memory(device), nullptr, {1e3, 0}, strictRegistry(true)->cache());
  }
  testing::internal::CaptureStderr();
  const std::string ignored = placed("default", slowThere);
  said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("makes no sense"));
  EXPECT_EQ(ignored, "strict:0, stated");
}

TEST_F(CopyPrices, MemoriesWithoutRoomAreNotMeasured) {
  logs("warning");
  testing::internal::CaptureStderr();
  EXPECT_EQ(placed("max-autotune", slowThere + " memory=1"), "strict:0, stated");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("cannot be measured, and cost what they did"));
}

TEST_F(CopyPrices, EndsThatAreNoMemoryAreErrors) {
  const std::pair<const char *, const char *> cases[] = {
      {"hots->strict:0=1:1", "did you mean 'host'"},
      {"host->strct:0=1:1", "(the nearest is 'strict:0')"},
      {"host->strict:7=1:1", "there is no device 'strict:7'"},
      {"cpu->strict:0=1:1", "computes in the host's; write 'host'"},
  };
  for (const auto &[transfer, why] : cases) {
    const auto found = compiled("default", "", transfer, "strict:0,cpu");
    ASSERT_FALSE(found) << transfer;
    EXPECT_EQ(found.error().code, MORTISE_INVALID_ARGUMENT);
    EXPECT_THAT(found.error().message, AllOf(HasSubstr("transfer '"), HasSubstr(why))) << transfer;
  }
}

// The ops of each device in the program that the graph becomes.
Result<std::map<std::string, std::multiset<std::string>>> opsByDevice(const Graph &graph, const char *devices) {
  const MortiseOption options[] = {{"device", devices}, {"log_level", "off"}};
  auto program = tool::compileAndLoad(graph, strictRegistry(), must(runtime::Config::read(options)));
  if (!program)
    return program.error();
  const plan::PlanT &plan = (*program)->plan();
  std::map<std::string, std::multiset<std::string>> found;
  for (const auto &region : plan.regions)
    for (const uint32_t node : region->nodes)
      found[region->device].insert(plan.node_ops[node]);
  return found;
}

TEST(Strict, WhatItCannotCompileRunsElsewhere) {
  Network net;
  ValueId x = net.input(MORTISE_F32, {8, 8});
  for (const char *op : {"abs", "neg", "tanh", "neg", "exp", "tanh", "abs"})
    x = net.op(op, {x});
  net.output(x);
  const auto graph = net.finish();
  configureStrict("cannot=mortise.tanh");
  const auto found = opsByDevice(*graph, "strict:0,cpu");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(*found, ElementsAre(Pair("cpu", ElementsAre("mortise.tanh", "mortise.tanh")),
                                  Pair("strict:0", ElementsAre("mortise.abs", "mortise.abs", "mortise.exp",
                                                               "mortise.neg", "mortise.neg"))));
  const auto alone = opsByDevice(*graph, "strict:0");
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().code, MORTISE_UNSUPPORTED);
  EXPECT_THAT(alone.error().message,
              AllOf(HasSubstr("mortise.tanh"), HasSubstr("`cannot` excludes"), Not(HasSubstr("mortise.exp"))));
}

// neg(abs(x)) - abs(x), in turn on two devices that overwrite what they may.
std::shared_ptr<const Graph> readTwice() {
  Network net;
  const ValueId x = net.input(MORTISE_F32, {64}), a = net.op("abs", {x}), b = net.op("neg", {a});
  net.output(net.op("sub", {b, a}));
  return net.finish();
}
const char *const inTurn = "op=abs device=strict:0; op=neg device=strict:1; op=sub device=strict:0";

// For each region, which of its inputs it may overwrite.
std::vector<std::vector<bool>> donatedInputs(const Graph &graph, const char *devices, const char *place) {
  const MortiseOption options[] = {{"device", devices}, {"place", place}};
  const auto compiled = must(tool::compile(graph, *strictRegistry(), must(runtime::Config::read(options))));
  std::vector<std::vector<bool>> donated;
  for (const auto &region : compiled.plan->regions) {
    const auto read = must(Graph::read(std::as_bytes(std::span(region->graph))));
    auto &marks = donated.emplace_back();
    for (size_t i = 0; i < read->view().input_count; ++i)
      marks.push_back(read->view().inputs[i]->flags & MORTISE_VALUE_DONATED);
  }
  return donated;
}

TEST(Strict, RegionsOverwriteWhatNothingReadsLater) {
  configureStrict("delay_us=200");
  EXPECT_EQ(runStrict(*readTwice(), {.devices = "strict:0,strict:1", .place = inTurn, .count = 3}).text(), "");
  // The copy of x; not the copy of a, which is still to be read on strict:0; a and the copy of b.
  EXPECT_THAT(donatedInputs(*readTwice(), "strict:0,strict:1", inTurn),
              ElementsAre(ElementsAre(true), ElementsAre(false), ElementsAre(true, true)));
}

// The copy of `a` for strict:1 leads to nothing that the last region reads, which nevertheless comes behind it.
TEST(Strict, ARegionOverwritesAnInputBehindItsCopies) {
  Network net;
  const ValueId x = net.input(MORTISE_F32, {64}), a = net.op("abs", {x}), b = net.op("floor", {a});
  net.output(net.op("neg", {a}));
  net.output(net.op("sub", {a, b}));
  const auto graph = net.finish();
  const char *place = "op=abs device=strict:0; op=floor device=cpu; op=neg device=strict:1; op=sub device=strict:0";
  EXPECT_THAT(donatedInputs(*graph, "strict:0,strict:1,cpu", place),
              ElementsAre(ElementsAre(true), ElementsAre(false), ElementsAre(false), ElementsAre(true, true)));
  for (int seed = 0; seed < 8; ++seed) {
    configureStrict("delay_us=300 skew=4 seed=" + std::to_string(seed));
    EXPECT_EQ(runStrict(*graph, {.devices = "strict:0,strict:1,cpu", .place = place, .count = 3}).text(), "");
  }
}

// Every wait, and every event, is needed: without it the checker finds a race, or an output is wrong.
TEST(Strict, EveryWaitIsNeeded) {
  const Plants plants = leaveOutWaits(0, 1, everyPlace);
  EXPECT_GE(plants.planted.at("event_query"), 1u) << "wrong answers are found";
  EXPECT_FALSE(plants.redundant.contains("event_wait")) << "a stream waits for nothing that it knows";
  EXPECT_GE(plants.count(), 15u);
  EXPECT_THAT(plants.missed, IsEmpty());
}

TEST(Strict, EveryFailureIsAStatusThatNamesThePlugin) {
  constexpr MortiseCode codes[] = {MORTISE_OUT_OF_MEMORY};
  const Plants plants = failEveryCall(1, 1, codes, somePlaces);
  EXPECT_GE(plants.count(), 100u);
  EXPECT_THAT(plants.missed, IsEmpty());
}

} // namespace
} // namespace mortise::test
