// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Faults of streams, events and memory of the device saboteur-queue.
#include "host.hpp"

#include <csignal>

namespace mortise::test {
namespace {

// A product that takes long enough for everything else to happen first, queued on a stream.
struct Slow {
  static constexpr int64_t size = 128;
  static constexpr size_t bytes = size * size * 4;
  Slow()
      : graph(one("dot", {noise(f32, {size, size}, 1), noise(f32, {size, size}, 2)}, {{f32, {size, size}}},
                  {integers("lhs_batch", {}), integers("rhs_batch", {}), integers("lhs_contract", {1}),
                   integers("rhs_contract", {0})})),
        kernel(WithQueue, graph.view()), workspace(WithQueue, kernel.workspaceBytes()) {
    x.write(graph.inputs[0]);
    y.write(graph.inputs[1]);
    hostDelay = std::chrono::milliseconds(300);
  }
  ~Slow() { hostDelay = std::chrono::milliseconds(0); }
  void queue(const Stream &stream) {
    const std::vector<MortiseAddress> inputs = {x.address(), y.address()}, outputs = {result.address()};
    calls.push_back(std::make_unique<Call>(kernel, inputs, outputs, workspace.address(), &stream));
    EXPECT_EQ(calls.back()->enqueue(), "");
  }
  bool isRight(const Bytes &found) { return difference(graph, {found}).empty(); }

  Graph graph;
  Kernel kernel;
  Memory x{WithQueue, bytes}, y{WithQueue, bytes}, result{WithQueue, bytes}, workspace;
  std::vector<std::unique_ptr<Call>> calls;
};

// Whether `read` sees the result of slow work: with "none" always, with the fault not.
void expectLate(const std::string &fault, const std::function<Bytes(Slow &slow, const Stream &stream)> &read) {
  for (const std::string &planted : {std::string("none"), fault}) {
    plant(planted);
    Slow slow;
    const Stream stream(WithQueue);
    slow.queue(stream);
    const Bytes found = read(slow, stream);
    EXPECT_EQ(slow.isRight(found), planted == "none") << planted;
    plant("none"); // before what is left is waited for
    EXPECT_EQ(stream.wait(), "");
  }
}

FAULT_TEST(EventWaitIgnored, "event-wait-ignored") {
  expectLate("event-wait-ignored", [](Slow &slow, const Stream &stream) {
    const Stream other(WithQueue);
    const Event event;
    EXPECT_EQ(event.record(stream), "");
    EXPECT_EQ(event.holdBack(other), "");
    return slow.result.read(&other);
  });
}
FAULT_TEST(EventEarly, "event-early") {
  expectLate("event-early", [](Slow &slow, const Stream &stream) {
    const Event event;
    EXPECT_EQ(event.record(stream), "");
    EXPECT_EQ(event.synchronize(), "");
    EXPECT_TRUE(event.hasHappened());
    return slow.result.read();
  });
}
FAULT_TEST(EventKeepsFirstMark, "event-keeps-first-mark") {
  expectLate("event-keeps-first-mark", [](Slow &slow, const Stream &stream) {
    const Stream other(WithQueue);
    const Event event;
    EXPECT_EQ(event.record(other), "");
    EXPECT_EQ(event.record(stream), "");
    EXPECT_EQ(event.synchronize(), "");
    return slow.result.read();
  });
}
FAULT_TEST(StreamWaitEarly, "stream-wait-early") {
  expectLate("stream-wait-early", [](Slow &slow, const Stream &stream) {
    EXPECT_EQ(stream.wait(), "");
    return slow.result.read();
  });
}
FAULT_TEST(CopyOvertakes, "copy-overtakes") {
  expectLate("copy-overtakes", [](Slow &slow, const Stream &stream) { return slow.result.read(&stream); });
}

// In a child, because memory that is gone may be no memory any more.
FAULT_TEST(FreedAtOnce, "freed-at-once") {
  const auto run = [] {
    Slow slow;
    const Stream stream(WithQueue);
    slow.queue(stream);
    slow.queue(stream);
    slow.x.free(stream);
    if (const Bytes found = slow.result.read(&stream); !slow.isRight(found))
      raise(SIGUSR1);
  };
  plant("none");
  EXPECT_EQ(signalOf(run), 0);
  plant("freed-at-once");
  EXPECT_NE(signalOf(run), 0);
}

// A small kernel behind slow work.
struct Behind {
  explicit Behind(double first)
      : graph(one("neg", {vector(f32, {first, 2, 3, 4})}, {{f32, {4}}})), input(WithQueue, 16), output(WithQueue, 16) {
    input.write(graph.inputs[0]);
  }
  bool isRight() { return difference(graph, {output.read()}).empty(); }
  Graph graph;
  Memory input, output;
};

FAULT_TEST(ListsReadLate, "lists-read-late") {
  for (const std::string fault : {"none", "lists-read-late"}) {
    plant(fault);
    Slow slow;
    Behind behind(1), other(5);
    const Kernel kernel(WithQueue, behind.graph.view());
    const Memory workspace(WithQueue, kernel.workspaceBytes());
    const Stream stream(WithQueue);
    slow.queue(stream);
    Call run(kernel, {behind.input.address()}, {behind.output.address()}, workspace.address(), &stream);
    EXPECT_EQ(run.enqueue(), "");
    run.inputs[0] = other.input.address();
    run.outputs[0] = other.output.address();
    EXPECT_EQ(stream.wait(), "");
    EXPECT_EQ(behind.isRight(), fault == "none");
  }
}

struct Frame {
  explicit Frame(const Kernel &kernel) : kernel(kernel) {
    auto args = sized<MortiseFrameArgs>();
    args.kernel = kernel.handle;
    EXPECT_EQ(call(plugin().frame_create, args), "");
    handle = args.frame;
  }
  ~Frame() {
    auto args = sized<MortiseFrameArgs>();
    args.kernel = kernel.handle;
    args.frame = handle;
    EXPECT_EQ(call(plugin().frame_destroy, args), "");
  }
  const Kernel &kernel;
  MortiseFrame *handle;
};

void queueIn(const Frame &frame, const Behind &behind, const Memory &workspace, const Stream &stream) {
  const uint64_t unchanged = 0;
  Call run(frame.kernel, {behind.input.address()}, {behind.output.address()}, workspace.address(), &stream);
  run.args.frame = frame.handle;
  run.args.unchanged = &unchanged;
  EXPECT_EQ(run.enqueue(), "");
}

FAULT_TEST(FrameStaleAddresses, "frame-stale-addresses") {
  for (const std::string fault : {"none", "frame-stale-addresses"}) {
    plant(fault);
    Behind first(1), second(5);
    const Kernel kernel(WithQueue, first.graph.view());
    const Memory workspace(WithQueue, kernel.workspaceBytes());
    const Frame frame(kernel);
    const Stream stream(WithQueue);
    for (const Behind *behind : {&first, &second}) {
      queueIn(frame, *behind, workspace, stream);
      EXPECT_EQ(stream.wait(), "");
    }
    EXPECT_TRUE(first.isRight());
    EXPECT_EQ(second.isRight(), fault == "none");
  }
}

FAULT_TEST(FrameShared, "frame-shared") {
  for (const std::string fault : {"none", "frame-shared"}) {
    plant(fault);
    Slow slow;
    Behind first(1), second(5);
    const Kernel kernel(WithQueue, first.graph.view());
    const Memory workspaces[] = {{WithQueue, kernel.workspaceBytes()}, {WithQueue, kernel.workspaceBytes()}};
    const Frame frames[] = {Frame(kernel), Frame(kernel)};
    const Stream stream(WithQueue), other(WithQueue);
    slow.queue(stream);
    queueIn(frames[0], first, workspaces[0], stream);
    queueIn(frames[1], second, workspaces[1], other);
    EXPECT_EQ(stream.wait(), "");
    EXPECT_EQ(other.wait(), "");
    EXPECT_TRUE(second.isRight());
    EXPECT_EQ(first.isRight(), fault == "none");
  }
}

// ---- Errors

std::string copyFromNowhere(const Stream &stream, Bytes &into) {
  auto args = sized<MortiseCopyArgs>();
  args.device = args.source_device = handleOf(WithQueue);
  args.stream = stream.handle;
  args.target = addressOf(into.data());
  args.source = 64; // no memory of the device
  args.bytes = into.size();
  return call(plugin().copy, args);
}

FAULT_TEST(StreamErrorSwallowed, "stream-error-swallowed") {
  for (const std::string fault : {"none", "stream-error-swallowed"}) {
    plant(fault);
    const Stream stream(WithQueue);
    Bytes into(16);
    EXPECT_EQ(copyFromNowhere(stream, into), "");
    EXPECT_EQ(stream.wait().empty(), fault != "none");
  }
}

FAULT_TEST(WorkAfterError, "work-after-error") {
  for (const std::string fault : {"none", "work-after-error"}) {
    plant(fault);
    Behind behind(1);
    const Kernel kernel(WithQueue, behind.graph.view());
    const Memory workspace(WithQueue, kernel.workspaceBytes());
    const Stream stream(WithQueue);
    Bytes into(16);
    EXPECT_EQ(copyFromNowhere(stream, into), "");
    Call run(kernel, {behind.input.address()}, {behind.output.address()}, workspace.address(), &stream);
    (void)run.enqueue(); // may fail, too
    EXPECT_NE(stream.wait(), "");
    EXPECT_EQ(behind.isRight(), fault != "none");
  }
}

FAULT_TEST(ResetIgnored, "reset-ignored") {
  for (const std::string fault : {"none", "reset-ignored"}) {
    plant(fault);
    const Stream stream(WithQueue);
    Bytes into(16);
    EXPECT_EQ(copyFromNowhere(stream, into), "");
    EXPECT_NE(stream.wait(), "");
    EXPECT_EQ(stream.reset(), "");
    EXPECT_EQ(stream.wait().empty(), fault == "none");
  }
}

// The code of an allocation of more than the device has, and its address.
std::pair<int32_t, MortiseAddress> allocateTooMuch() {
  auto args = sized<MortiseMemoryArgs>();
  args.device = handleOf(WithQueue);
  args.bytes = UINT64_C(1) << 50;
  const int32_t code = codeOf(plugin().memory_allocate(&args));
  return {code, args.address};
}
FAULT_TEST(OutOfMemoryAsInternal, "out-of-memory-as-internal") {
  plant("none");
  EXPECT_EQ(allocateTooMuch().first, MORTISE_OUT_OF_MEMORY);
  plant("out-of-memory-as-internal");
  EXPECT_EQ(allocateTooMuch().first, MORTISE_INTERNAL);
}
FAULT_TEST(FailedAllocationSucceeds, "failed-allocation-succeeds") {
  plant("failed-allocation-succeeds");
  EXPECT_EQ(allocateTooMuch(), std::pair(int32_t(MORTISE_OK), MortiseAddress(0)));
}

} // namespace
} // namespace mortise::test
