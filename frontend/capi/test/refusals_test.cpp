// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a plugin offers and then refuses is placed again, within the bind or the call. The plugin `pocket` refuses as
// its option says; `reference` takes what is left.
#include "helpers.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace mortise::api {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

constexpr int32_t unsupported = MORTISE_UNSUPPORTED;

std::string failing(const std::string &slot, int32_t code, const std::string &op = "mortise.mul") {
  return slot + " " + op + " " + std::to_string(code);
}
Session with(const std::string &fails, const std::string &device = "pocket,reference", Options more = {},
             const std::string &library = POCKET_PLUGIN) {
  more.insert(more.end(), {{"device", device}, {"plugin_path", ":" + library}, {"pocket.fail", fails}});
  return session(more);
}

// The devices on which an op runs.
std::set<std::string> devicesOf(const Program &program, const std::string &op) {
  std::set<std::string> devices;
  const Json report = Json::parse(get(program.report()));
  for (const Json &region : report["placement"])
    if (region["ops"].contains(op))
      devices.insert(region["device"]);
  return devices;
}
// The words that a report's list ("declined", "uncovered") has from `pocket` for an op and a reason.
std::set<std::string> words(const Program &program, const char *list, const std::string &op = "mortise.mul") {
  std::set<std::string> found;
  const Json report = Json::parse(get(program.report()));
  for (const Json &refusal : report[list])
    if ((refusal.value("op", "") == op || refusal.value("ops", Json::object()).contains(op)) &&
        refusal["plugin"] == "pocket" && refusal["reason"] == "error")
      found.insert(refusal["detail"]);
  return found;
}

// y = -((x * w0 * w1 ...) + x), four elements.
struct Weighted {
  Program program;
  std::vector<std::vector<float>> weights;
  std::vector<float> y = std::vector<float>(4, -1);

  explicit Weighted(Session &s, size_t count = 1) : program(build(s, count)), weights(count, std::vector<float>(4)) {}
  static Program build(Session &s, size_t count) {
    Builder graph = builder(s);
    const uint32_t x = get(graph.input("x", MORTISE_F32, {4}));
    uint32_t value = x;
    for (size_t i = 0; i < count; ++i)
      value = get(graph.op("mortise.mul", {value, get(graph.input("w", MORTISE_F32, {4}, MORTISE_VALUE_CONSTANT))}));
    expectOk(graph.output(get(graph.op("mortise.neg", {get(graph.op("mortise.add", {value, x}))}))));
    return get(s.compile(graph));
  }
  Result<void> bind(float weight) {
    for (auto &values : weights)
      values.assign(4, weight);
    std::vector<Tensor> tensors;
    std::vector<MortiseTensor> views;
    std::vector<const MortiseTensor *> list = {nullptr};
    for (auto &values : weights)
      tensors.emplace_back(values.data(), MORTISE_F32, std::initializer_list<int64_t>{4});
    for (const Tensor &tensor : tensors)
      views.push_back(tensor.view());
    for (const MortiseTensor &view : views)
      list.push_back(&view);
    return program.bind(list);
  }
  // For x = 3.
  Result<void> run() {
    const float x[] = {3, 3, 3, 3};
    std::vector<const void *> inputs(weights.size() + 1);
    inputs[0] = x;
    void *outputs[] = {y.data()};
    return program.runPointers(inputs.data(), outputs);
  }
};

TEST(Refusals, ConstantsThatAreNotBoundAreBoundElsewhere) {
  Session s = with(failing("constants_bind", unsupported));
  Weighted net(s);
  EXPECT_EQ(devicesOf(net.program, "mortise.mul"), std::set<std::string>{"pocket"});
  expectOk(net.bind(2));
  expectOk(net.run());
  EXPECT_THAT(net.y, Each(-9.0f));
  EXPECT_EQ(devicesOf(net.program, "mortise.mul"), std::set<std::string>{"reference"});
  EXPECT_EQ(devicesOf(net.program, "mortise.neg"), std::set<std::string>{"pocket"});
  EXPECT_THAT(words(net.program, "declined"), Each(HasSubstr("has no room for mortise.mul")));
  EXPECT_EQ(words(net.program, "declined").size(), 1u);
  EXPECT_TRUE(words(net.program, "uncovered").empty());
}

TEST(Refusals, AProgramWithoutConstantsIsPlacedAgainWhenItIsCompiled) {
  Session s = with(failing("constants_bind", unsupported, "mortise.neg"));
  Builder graph = builder(s);
  expectOk(graph.output(get(graph.op("mortise.neg", {get(graph.input("x", MORTISE_F32, {4}))}))));
  Program program = get(s.compile(graph));
  EXPECT_EQ(devicesOf(program, "mortise.neg"), std::set<std::string>{"reference"});
}

TEST(Refusals, EqualLayersAreStruckAtOnce) {
  Session s = with(failing("constants_bind", unsupported));
  Weighted net(s, 5);
  expectOk(net.bind(2));
  expectOk(net.run());
  EXPECT_THAT(net.y, Each(-99.0f));
  EXPECT_EQ(words(net.program, "declined").size(), 1u) << "the plugin was asked once";
  EXPECT_EQ(devicesOf(net.program, "mortise.mul"), std::set<std::string>{"reference"});
}

TEST(Refusals, OtherWeightsMayBeRefusedLater) {
  Session s = with(failing("negative_constants", unsupported));
  Weighted net(s);
  for (const auto &[weight, device] : {std::pair(2, "pocket"), {-5, "reference"}, {7, "reference"}}) {
    expectOk(net.bind(static_cast<float>(weight)));
    for (int call = 0; call < 2; ++call) {
      expectOk(net.run());
      EXPECT_THAT(net.y, Each(-3.0f * static_cast<float>(weight) - 3));
    }
    EXPECT_EQ(devicesOf(net.program, "mortise.mul"), std::set<std::string>{device});
  }
}

TEST(Refusals, WeightsThatNobodyTakesLeaveTheOldOnesBound) {
  Session s = with(failing("negative_constants", unsupported), "pocket");
  Weighted net(s);
  std::vector<float> old(4, 2);
  const Tensor tensor(old.data(), MORTISE_F32, {4});
  const MortiseTensor view = tensor.view();
  const MortiseTensor *list[] = {nullptr, &view};
  expectOk(net.program.bind(list));
  for (int attempt = 0; attempt < 3; ++attempt) {
    const Result<void> refused = net.bind(-5);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, MORTISE_UNSUPPORTED);
    EXPECT_THAT(refused.error().message,
                AllOf(HasSubstr("has no room for mortise.mul"), HasSubstr("placed again"), HasSubstr("1 of 3 nodes")));
    EXPECT_EQ(words(net.program, "uncovered").size(), 1u);
    expectOk(net.run());
    EXPECT_THAT(net.y, Each(-9.0f));
  }
  EXPECT_EQ(devicesOf(net.program, "mortise.mul"), std::set<std::string>{"pocket"});
}

TEST(Refusals, OtherErrorsStayErrors) {
  for (const char *slot : {"constants_bind", "negative_constants"})
    for (const MortiseCode code : {MORTISE_OUT_OF_MEMORY, MORTISE_INTERNAL, MORTISE_NEEDS_STATIC}) {
      Session s = with(failing(slot, code));
      Weighted net(s);
      const Result<void> failed = net.bind(-2);
      ASSERT_FALSE(failed);
      EXPECT_EQ(failed.error().code, code);
      EXPECT_THAT(failed.error().message, testing::Not(HasSubstr("placed again")));
      EXPECT_EQ(devicesOf(net.program, "mortise.mul"), std::set<std::string>{"pocket"});
    }
  // A plugin in this process that refuses what is under way broke the contract: nobody knows what has happened.
  Session s = with(failing("enqueue", unsupported));
  Weighted net(s);
  expectOk(net.bind(2));
  const Result<void> failed = net.run();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, MORTISE_UNSUPPORTED);
  EXPECT_EQ(devicesOf(net.program, "mortise.mul"), std::set<std::string>{"pocket"});
}

TEST(Refusals, ARequirementIsKept) {
  Session s = with(failing("constants_bind", unsupported), "pocket,reference", {{"require", "90% on pocket"}});
  Weighted net(s);
  const Result<void> refused = net.bind(2);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, MORTISE_UNSUPPORTED);
  EXPECT_THAT(refused.error().message, HasSubstr("required 90% on pocket"));
}

// state += x * x, y = -state of n elements. `pocket` knows no symbols, so that its kernels are made for each n.
struct Counter {
  Program program;
  explicit Counter(Session &s) : program(build(s)) {}
  static Program build(Session &s) {
    Builder graph = builder(s);
    const Dim dims[] = {get(graph.symbol("n", 1, 64))};
    const uint32_t x = get(graph.symbolicInput("x", Type(MORTISE_F32, dims))),
                   state = get(graph.symbolicInput("state", Type(MORTISE_F32, dims), MORTISE_VALUE_STATE));
    const uint32_t sum = get(graph.op("mortise.add", {state, get(graph.op("mortise.mul", {x, x}))}));
    expectOk(graph.output(sum, 1));
    expectOk(graph.output(get(graph.op("mortise.neg", {sum}))));
    return get(s.compile(graph));
  }
  // For x = 2: the state grows by 4.
  Result<void> run(std::vector<float> &state, std::vector<float> &y) {
    const std::vector<float> x(state.size(), 2);
    y.assign(state.size(), 0);
    const void *inputs[] = {x.data(), state.data()};
    void *outputs[] = {nullptr, y.data()};
    const auto n = static_cast<int64_t>(state.size());
    return program.runPointers(inputs, outputs, &n);
  }
};

TEST(Refusals, KernelsOfACallArePlacedAgainInTheCall) {
  for (const char *op : {"mortise.mul", "mortise.add", "mortise.neg"}) {
    Session s = with(failing("kernel_compile", unsupported, op));
    Counter counter(s);
    EXPECT_EQ(devicesOf(counter.program, op), std::set<std::string>{"pocket"});
    std::vector<float> y;
    for (const size_t n : {3, 5}) {
      std::vector<float> state(n, 1);
      for (float expected : {5.0f, 9.0f}) {
        expectOk(counter.run(state, y));
        EXPECT_THAT(state, Each(expected)) << "updated once";
        EXPECT_THAT(y, Each(-expected));
      }
    }
    EXPECT_EQ(devicesOf(counter.program, op), std::set<std::string>{"reference"});
    EXPECT_EQ(words(counter.program, "declined", op).size(), 1u);
  }
}

TEST(Refusals, ACallThatNobodyTakesHasNotHappened) {
  for (const MortiseCode code : {MORTISE_UNSUPPORTED, MORTISE_INTERNAL}) {
    Session s = with(failing("kernel_compile", code), code == MORTISE_UNSUPPORTED ? "pocket" : "pocket,reference");
    Counter counter(s);
    std::vector<float> state(3, 1), y;
    for (int call = 0; call < 2; ++call) {
      const Result<void> failed = counter.run(state, y);
      ASSERT_FALSE(failed);
      EXPECT_EQ(failed.error().code, code);
      EXPECT_THAT(state, Each(1.0f));
      EXPECT_EQ(words(counter.program, "uncovered").size(), code == MORTISE_UNSUPPORTED);
    }
  }
}

TEST(Refusals, CallsOfManyThreads) {
  Session s = with(failing("kernel_compile", unsupported));
  Counter counter(s);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      std::vector<float> state(t % 4 + 1, 1), y;
      for (int call = 1; call <= 20; ++call)
        wrong += !counter.run(state, y) || state.back() != 4.0f * static_cast<float>(call) + 1;
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(words(counter.program, "declined").size(), 1u);
}

TEST(Refusals, WeightsAreSwappedBesideCalls) {
  Session s = with(failing("negative_constants", unsupported));
  Weighted net(s);
  expectOk(net.bind(2));
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      const float x[] = {3, 3, 3, 3};
      std::vector<float> y(4);
      const void *inputs[] = {x, nullptr};
      void *outputs[] = {y.data()};
      while (!stop) {
        wrong += !net.program.runPointers(inputs, outputs) || (y[0] != -9 && y[0] != 12) || y[0] != y[3];
      }
    });
  std::vector<float> other(4, -5);
  const Tensor tensor(other.data(), MORTISE_F32, {4});
  const MortiseTensor view = tensor.view();
  const MortiseTensor *list[] = {nullptr, &view};
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  expectOk(net.program.bind(list));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  stop = true;
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(devicesOf(net.program, "mortise.mul"), std::set<std::string>{"reference"});
}

// y = exp(x) * w, with x and y in the memory of the device strict:0, which computes exp; calls are queued there.
struct Queued {
  Session session;
  Device device = get(session.device("strict:0"));
  Program program = build();
  Memory x = get(Memory::allocate(device, 16)), y = get(Memory::allocate(device, 16));
  std::vector<float> w = std::vector<float>(4);
  Queue queue = get(Queue::create(device));

  static Options options() { return {{"place", "op=mortise.exp device=strict; op=mortise.mul not_device=strict"}}; }
  explicit Queued(Session &&s) : session(std::move(s)) {
    std::vector<float> zeros(4);
    expectOk(copy(Tensor(x.data(), MORTISE_F32, {4}, device), Tensor(zeros.data(), MORTISE_F32, {4})));
  }
  Program build() {
    Builder graph = builder(session);
    const uint32_t in = get(graph.input("x", MORTISE_F32, {4})),
                   weight = get(graph.input("w", MORTISE_F32, {4}, MORTISE_VALUE_CONSTANT));
    expectOk(graph.output(get(graph.op("mortise.mul", {get(graph.op("mortise.exp", {in})), weight}))));
    expectOk(graph.inputDevice(0, device));
    expectOk(graph.outputDevice(0, device));
    return get(session.compile(graph));
  }
  Result<void> bind(float weight) {
    w.assign(4, weight);
    const Tensor tensor(w.data(), MORTISE_F32, {4});
    const MortiseTensor view = tensor.view();
    const MortiseTensor *list[] = {nullptr, &view};
    return program.bind(list);
  }
  Result<void> enqueue() {
    const Tensor in(x.data(), MORTISE_F32, {4}, device), out(y.data(), MORTISE_F32, {4}, device);
    const MortiseTensor inView = in.view(), outView = out.view();
    const MortiseTensor *inputs[] = {&inView, nullptr}, *outputs[] = {&outView};
    return program.enqueue(queue, inputs, outputs);
  }
  std::vector<float> read() {
    expectOk(queue.wait());
    std::vector<float> values(4);
    expectOk(copy(Tensor(values.data(), MORTISE_F32, {4}), Tensor(y.data(), MORTISE_F32, {4}, device)));
    return values;
  }
};
constexpr const char *withStrict = "strict:0,pocket,reference";
const std::string strictPlugin = ":" STRICT_PLUGIN;

TEST(Refusals, WeightsAreRefusedWhileCallsAreQueued) {
  Queued net(
      with(failing("negative_constants", unsupported), withStrict, Queued::options(), POCKET_PLUGIN + strictPlugin));
  expectOk(net.bind(2));
  EXPECT_EQ(devicesOf(net.program, "mortise.mul"), std::set<std::string>{"pocket"});
  for (int call = 0; call < 3; ++call)
    expectOk(net.enqueue());
  expectOk(net.bind(-5)); // waits for them
  for (int call = 0; call < 3; ++call)
    expectOk(net.enqueue());
  EXPECT_THAT(net.read(), Each(-5.0f));
  EXPECT_EQ(devicesOf(net.program, "mortise.mul"), std::set<std::string>{"reference"});
}

TEST(Refusals, AProgramFromAFileSaysWhyItIsNotPlacedAgain) {
  const Folder folder;
  Session s = with(failing("constants_bind", unsupported));
  Weighted net(s);
  expectOk(net.program.save(folder / "net.mrtp"));
  Program loaded = get(s.load(folder / "net.mrtp"));
  std::swap(net.program, loaded);
  const Result<void> refused = net.bind(2);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, MORTISE_UNSUPPORTED);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("has no room for mortise.mul"), HasSubstr("without its graph"),
                                             HasSubstr("compile the graph again")));
}

//===-- Faults of a plugin in a process of its own -------------------------------------------------===//

#ifndef MORTISE_SANITIZED // a sanitizer ends the worker in its own way
// A copy of the plugin, because a process starts only some workers for each file.
struct Copy {
  Folder folder;
  std::string library = folder / "libpocket.so";
  Copy() {
    const std::filesystem::path pocket = POCKET_PLUGIN;
    std::filesystem::copy(pocket, library);
    std::filesystem::copy(pocket.parent_path() / "libpocket.toml", folder / "libpocket.toml");
  }
  Session session(const std::string &fails, const std::string &device = "pocket,reference") const {
    return with(fails, device, {{"isolate", "pocket"}, {"log_level", "off"}}, library);
  }
};

TEST(Refusals, AFaultIsPlacedAgainWithinTheCall) {
  for (const char *slot : {"constants_bind", "enqueue"}) {
    const Copy copy;
    Session s = copy.session(std::string(slot) + " mortise.mul abort");
    Weighted net(s);
    EXPECT_EQ(devicesOf(net.program, "mortise.mul"), std::set<std::string>{"pocket"});
    expectOk(net.bind(2));
    for (int call = 0; call < 2; ++call) {
      net.y.assign(4, 0);
      expectOk(net.run());
      EXPECT_THAT(net.y, Each(-9.0f));
    }
    EXPECT_EQ(devicesOf(net.program, "mortise.mul"), std::set<std::string>{"reference"});
    EXPECT_EQ(devicesOf(net.program, "mortise.neg"), std::set<std::string>{"pocket"});
    EXPECT_THAT(words(net.program, "declined"), Each(HasSubstr("was ended by SIGABRT in " + std::string(slot))));
    expectOk(net.bind(4));
    expectOk(net.run());
    EXPECT_THAT(net.y, Each(-15.0f));
  }
}

TEST(Refusals, AFaultInAQueuedCallIsPlacedAgainWithinTheCall) {
  const Copy copy;
  Queued net(with("enqueue mortise.mul abort", withStrict,
                  {{"isolate", "pocket"}, {"log_level", "off"}, Queued::options().front()},
                  copy.library + strictPlugin));
  expectOk(net.bind(2));
  for (int call = 0; call < 3; ++call)
    expectOk(net.enqueue());
  EXPECT_THAT(net.read(), Each(2.0f));
  EXPECT_EQ(devicesOf(net.program, "mortise.mul"), std::set<std::string>{"reference"});
  EXPECT_EQ(devicesOf(net.program, "mortise.exp"), std::set<std::string>{"strict:0"});
}

TEST(Refusals, AFaultThatNobodyElseCanTakeIsAnError) {
  const Copy copy;
  Session s = copy.session("enqueue mortise.mul abort", "pocket");
  Weighted net(s);
  expectOk(net.bind(2));
  for (int call = 0; call < 2; ++call) {
    const Result<void> failed = net.run();
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, MORTISE_UNSUPPORTED);
    EXPECT_THAT(failed.error().message, HasSubstr("was ended by SIGABRT in enqueue"));
    EXPECT_EQ(words(net.program, "uncovered").size(), 1u);
  }
}

TEST(Refusals, AFaultBehindAnUpdateOfStateIsAnErrorOnce) {
  const Copy copy;
  Session s = copy.session("enqueue mortise.neg abort"); // which comes behind the sum that is the state
  Counter counter(s);
  std::vector<float> state(3, 1), y;
  const Result<void> failed = counter.run(state, y);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, MORTISE_DEVICE_LOST);
  EXPECT_THAT(failed.error().message,
              AllOf(HasSubstr("was ended by SIGABRT in enqueue"), HasSubstr("cannot be repeated"),
                    HasSubstr("the next call does without it")));
  EXPECT_THAT(state, Each(5.0f)) << "updated once, not twice";
  expectOk(counter.run(state, y));
  EXPECT_THAT(state, Each(9.0f));
  EXPECT_THAT(y, Each(-9.0f));
  EXPECT_EQ(devicesOf(counter.program, "mortise.neg"), std::set<std::string>{"reference"});
}

TEST(Refusals, AFaultBeforeAnUpdateOfStateIsRepaired) {
  const Copy copy;
  Session s = copy.session("enqueue mortise.mul abort");
  Counter counter(s);
  std::vector<float> state(3, 1), y;
  expectOk(counter.run(state, y));
  EXPECT_THAT(state, Each(5.0f));
  EXPECT_THAT(y, Each(-5.0f));
}

// y = -x, z = y * y, where the caller has y and x in one place, which only the pointers tell.
TEST(Refusals, AnInputThatAnOutputHasOverwrittenIsNotReadAgain) {
  for (const bool overlap : {false, true}) {
    const Copy copy;
    Session s = copy.session("enqueue mortise.mul abort");
    Builder graph = builder(s);
    const uint32_t y = get(graph.op("mortise.neg", {get(graph.input("x", MORTISE_F32, {4}))}));
    expectOk(graph.output(y));
    expectOk(graph.output(get(graph.op("mortise.mul", {y, y}))));
    Program program = get(s.compile(graph));
    std::vector<float> x(4, 3), out(4), square(4);
    const void *inputs[] = {x.data()};
    void *outputs[] = {overlap ? x.data() : out.data(), square.data()};
    const Result<void> done = program.runPointers(inputs, outputs);
    if (overlap) {
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().code, MORTISE_DEVICE_LOST);
      EXPECT_THAT(x, Each(-3.0f));
    } else {
      expectOk(done);
      EXPECT_THAT(out, Each(-3.0f));
      EXPECT_THAT(square, Each(9.0f));
    }
  }
}

#endif

} // namespace
} // namespace mortise::api
