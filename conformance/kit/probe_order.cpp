// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Threads, frames, streams and events: what may happen at once, and in which order.
#include "probe.hpp"

#include "../../runtime/host.hpp"
#include "../../tools/mortise/try_queues.hpp"

#include <mortise/reference/interpreter.hpp>
#include <mortise/runtime/device_memory.hpp>

#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>

namespace mortise::conformance {
namespace {

using Clock = std::chrono::steady_clock;

// Holds threads of the host's pool back, each for another time.
void dawdle(int64_t) {
  thread_local std::minstd_rand random(static_cast<uint32_t>(std::hash<std::thread::id>()(std::this_thread::get_id())));
  const auto drawn = random() % 4;
  if (drawn == 0)
    std::this_thread::yield();
  else if (drawn == 1)
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
}

class Disturbed {
public:
  Disturbed() { runtime::beforeRanges(dawdle); }
  ~Disturbed() { runtime::beforeRanges(nullptr); }
  Disturbed(const Disturbed &) = delete;
};

tool::Stream stream(ProbeRun &run) { return must(tool::Stream::create(run.device.info())); }

} // namespace

// ---- Threads

namespace {

// A thread's own: one of the two sets of values.
struct Caller {
  Launch *by = nullptr;
  std::optional<Operands> given;
  MortiseFrame *frame = nullptr;
  std::optional<tool::Stream> stream;
  const Tensors *before = nullptr; // results of a call without others
};

// What is wrong with one call, or "".
Result<std::string> callOnce(Caller &caller, std::mutex &memory) {
  {
    const std::lock_guard lock(memory); // copies of the kit's go through one stream
    if (auto done = caller.by->spoil(*caller.given); !done)
      return done.error();
  }
  tool::Call args;
  caller.by->fill(args, *caller.given);
  if (auto done = caller.by->enqueueIn(caller.frame, {}, args, caller.stream->get()); !done)
    return done.error();
  if (auto done = caller.stream->wait(); !done)
    return done.error();
  const std::lock_guard lock(memory);
  auto found = caller.by->read(*caller.given);
  if (!found)
    return found.error();
  return *found == *caller.before ? std::string() : caller.by->wrongWith(*found);
}

} // namespace

void tryThreads(ProbeRun &run) {
  constexpr size_t count = 4;
  constexpr auto time = std::chrono::milliseconds(60);
  run.needDifference();
  const auto a = run.launch(*run.kernel, run.a), b = run.launch(*run.kernel, run.b);
  Caller callers[count];
  Tensors results[2];
  for (size_t i = 0; i < count; ++i) {
    Caller &caller = callers[i];
    caller.by = i % 2 ? b.get() : a.get();
    caller.given.emplace(must(caller.by->operands()));
    caller.frame = must(caller.by->makeFrame());
    caller.stream.emplace(stream(run));
    if (i < 2) {
      run.call(*caller.by, *caller.given, "before threads call it");
      results[i] = must(caller.by->read(*caller.given));
    }
    caller.before = &results[i % 2];
  }
  std::mutex memory, wrongMutex;
  std::string wrong;
  std::atomic<bool> ends = false;
  {
    const Disturbed disturbed;
    std::vector<std::thread> threads;
    const Clock::time_point end = Clock::now() + time;
    for (Caller &caller : callers)
      threads.emplace_back([&] {
        for (int i = 0; !ends && (i < 4 || Clock::now() < end); ++i) {
          auto text = callOnce(caller, memory);
          if (text && text->empty())
            continue;
          const std::lock_guard lock(wrongMutex);
          wrong = text ? *text : text.error().message;
          ends = true;
        }
      });
    for (std::thread &thread : threads)
      thread.join();
  }
  if (!wrong.empty())
    fail("threads", "called by " + std::to_string(count) + " threads at once: " + wrong);
}

void tryRepeats(ProbeRun &run) {
  if (!run.kernel->deterministic)
    refuse("option", "the plugin takes no option deterministic for the case");
  constexpr int times = 16;
  const auto launch = run.launch(*run.kernel, run.a);
  Operands given = must(launch->operands());
  const Disturbed disturbed;
  Tensors first;
  for (int i = 0; i < times; ++i) {
    tool::Call args;
    must(launch->spoil(given));
    launch->fill(args, given);
    must(launch->enqueue(args, run.device.stream()));
    must(run.device.wait());
    Tensors found = must(launch->read(given));
    if (i == 0) {
      run.judge(*launch, given, "where threads of the pool are held back");
      first = std::move(found);
    } else if (found != first) {
      fail("determinism", "run " + std::to_string(i + 1) +
                              " with equal inputs gives other bits where threads of the pool are held back, though it "
                              "takes the option deterministic");
    }
  }
}

// ---- Frames

namespace {

void inOneFrame(ProbeRun &run, Launch &a, Launch &b, Operands &ofA, Operands &ofB) {
  MortiseFrame *frame = must(a.makeFrame());
  const auto callIn = [&](Launch &values, Operands &given, bool isSame, const std::string &when) {
    std::vector<uint64_t> bits(a.wordsOfUnchanged());
    const size_t count = given.inputs.size() + given.outputs.size() + 1;
    for (size_t i = 0; isSame && i < count; ++i)
      bits[i / 64] |= uint64_t(1) << i % 64;
    must(values.refill(given));
    tool::Call args;
    a.fill(args, given);
    must(a.enqueueIn(frame, bits, args, run.device.stream()));
    must(run.device.wait());
    run.judge(values, given, when);
  };
  callIn(a, ofA, false, "in a fresh frame");
  callIn(b, ofB, false, "in a frame that is used again with other addresses");
  callIn(a, ofA, false, "in a frame that is used again with the addresses of its first run");
  callIn(b, ofA, true, "in a frame that is used again with the addresses of its last run");
}

void inFlight(ProbeRun &run, Launch &a, Launch &b, Operands &ofA, Operands &ofB) {
  constexpr int times = 24;
  MortiseFrame *frames[] = {must(a.makeFrame()), must(a.makeFrame())};
  const tool::Stream one = stream(run), other = stream(run);
  for (int i = 0; i < times; ++i) {
    must(a.refill(ofA));
    must(b.refill(ofB));
    tool::Call ofFirst, ofSecond;
    a.fill(ofFirst, ofA);
    b.fill(ofSecond, ofB);
    must(a.enqueueIn(frames[0], {}, ofFirst, one.get()));
    must(a.enqueueIn(frames[1], {}, ofSecond, i % 2 ? one.get() : other.get()));
    must(one.wait());
    must(other.wait());
    run.judge(a, ofA, "with two frames in flight");
    run.judge(b, ofB, "with two frames in flight");
  }
}

} // namespace

void tryFrames(ProbeRun &run) {
  if (!run.device.info().plugin->hasFrames())
    refuse("no-frames", "the plugin has no frame_create");
  run.needDifference();
  const auto a = run.launch(*run.kernel, run.a), b = run.launch(*run.kernel, run.b);
  Operands ofA = must(a->operands()), ofB = must(b->operands());
  inOneFrame(run, *a, *b, ofA, ofB);
  inFlight(run, *a, *b, ofA, ofB);
}

// ---- Streams and events

namespace {

class Queued : public tool::QueuedKernel {
public:
  Queued(Device &owner, Launch &launch) : owner(owner), launch(launch) {}
  const runtime::Device &device() const override { return owner.info(); }
  const MortiseGraph &graph() const override { return launch.kernel.graph->view(); }
  const Tensors &inputs() const override { return launch.of->inputs; }
  Result<Tensors> resultsOf(const Tensors &inputs) const override {
    std::vector<const void *> sources;
    std::vector<void *> targets;
    Tensors results;
    for (const std::vector<std::byte> &input : inputs)
      sources.push_back(input.data());
    for (const std::vector<std::byte> &output : launch.of->expected)
      results.emplace_back(output.size());
    for (std::vector<std::byte> &result : results)
      targets.push_back(result.data());
    if (auto done = reference::interpret(graph(), sources, targets); !done)
      return done.error();
    return results;
  }
  std::string differences(const Tensors &found) const override {
    const auto text = launch.wrongWith(found);
    return text ? *text : text.error().message;
  }
  uint64_t workspaceBytes() const override { return launch.workspaceBytes; }
  Result<void> enqueue(tool::Call &call, MortiseStream *stream) override { return launch.enqueue(call, stream); }

private:
  Device &owner;
  Launch &launch;
};

} // namespace

void tryQueues(ProbeRun &run) {
  if (!run.hasStreams())
    refuse("no-streams", "the plugin's devices are synchronous");
  run.needDifference();
  const auto launch = run.launch(*run.kernel, run.a);
  Queued queued(run.device, *launch);
  if (const std::string wrong = tool::tryQueues(queued); !wrong.empty())
    fail("order", wrong);
}

// ---- Work that fails

namespace {

class ErrorTest {
public:
  explicit ErrorTest(ProbeRun &run)
      : run(run), device(run.device.info()), failing(stream(run)), other(stream(run)),
        launch(run.launch(*run.kernel, run.a)), given(must(launch->operands())), ofOther(must(launch->operands())) {}

  void tryAll() {
    if (!makeFail())
      refuse("no-failure", "no work that fails later can be made: `copy` refuses an address that is none at once");
    must(launch->spoil(given));
    (void)enqueue(failing, given); // may fail, too
    for (const char *when : {"", " again"})
      if (failing.wait())
        fail("status", std::string("stream_wait succeeds") + when + " behind a copy from an address that is none");
    if (status(failing))
      fail("status", "stream_status succeeds behind work that failed");
    const Tensors found = must(launch->read(given));
    for (const std::vector<std::byte> &output : found)
      if (!std::ranges::all_of(output, [&](std::byte byte) { return byte == output.front(); }))
        fail("status", "work behind a failure happens all the same, though the stream has not been reset");
    callOn(other, ofOther, "on a stream beside one that has failed");
    reset();
    callOn(failing, given, "on a stream that has failed and has been reset");
  }

private:
  MortiseStreamArgs argsOf(const tool::Stream &of) const {
    MortiseStreamArgs args{};
    args.stream = of.get();
    return args;
  }
  Result<void> status(const tool::Stream &of) const {
    auto args = argsOf(of);
    return runtime::callOn(device, "stream_status", device.plugin->table->stream_status, args);
  }
  void reset() const {
    auto args = argsOf(failing);
    must(runtime::callOn(device, "stream_reset", device.plugin->table->stream_reset, args));
    must(status(failing));
    must(failing.wait());
  }
  // False: the plugin refuses the copy at once.
  bool makeFail() {
    MortiseCopyArgs args{};
    args.stream = failing.get();
    args.source_device = device.info.device;
    args.target = addressOf(target);
    args.bytes = sizeof target;
    return static_cast<bool>(runtime::callOn(device, "copy", device.plugin->table->copy, args));
  }
  Result<void> enqueue(const tool::Stream &on, Operands &operands) {
    tool::Call args;
    launch->fill(args, operands);
    return launch->enqueue(args, on.get());
  }
  void callOn(const tool::Stream &on, Operands &operands, const char *when) {
    must(launch->refill(operands));
    must(enqueue(on, operands));
    must(on.wait());
    run.judge(*launch, operands, when);
  }

  ProbeRun &run;
  const runtime::Device &device;
  std::byte target[64]{};
  tool::Stream failing, other;
  std::unique_ptr<Launch> launch;
  Operands given, ofOther;
};

} // namespace

void tryErrors(ProbeRun &run) {
  const runtime::Device &device = run.device.info();
  if (!run.hasStreams() || device.inHostMemory() || &device.owner() != &device)
    refuse("no-failure", "the device has no queued copies of its own, with which work can be made to fail");
  ErrorTest(run).tryAll();
}

} // namespace mortise::conformance
