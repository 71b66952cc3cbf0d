// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "try_queues.hpp"

#include "buffer.hpp"

#include <mortise/graph.hpp>
#include <mortise/runtime/device_memory.hpp>

#include <algorithm>
#include <chrono>
#include <deque>
#include <thread>

namespace mortise::tool {
namespace {

using Clock = std::chrono::steady_clock;

double msSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// The elements of each operand from the last to the first: other operands that are as legal.
Tensors reversed(const MortiseGraph &view, const Tensors &inputs) {
  Tensors other = inputs;
  for (size_t i = 0; i < other.size(); ++i) {
    const size_t size = elementAlignment(*view.inputs[i]->type);
    for (size_t at = 0; at + size <= inputs[i].size(); at += size)
      std::copy_n(inputs[i].end() - static_cast<ptrdiff_t>(at + size), size,
                  other[i].begin() + static_cast<ptrdiff_t>(at));
  }
  return other;
}

// Ends a test. What is queued then is waited for before its memory ends.
struct Failed {
  Error error;
};
void must(Result<void> done) {
  if (!done)
    throw Failed{done.error()};
}
template <typename T> T must(Result<T> made) {
  if (!made)
    throw Failed{made.error()};
  return std::move(*made);
}

class Event {
public:
  explicit Event(const runtime::Device &device) : device(device) {
    MortiseEventArgs args{};
    must(runtime::callOn(device, "event_create", table().event_create, args));
    event = args.event;
  }
  Event(const Event &) = delete;
  ~Event() {
    MortiseEventArgs args{};
    args.event = event;
    (void)runtime::callOn(device, "event_destroy", table().event_destroy, args);
  }
  void record(const Stream &stream) { call("event_record", table().event_record, stream.get()); }
  void wait(const Stream &stream) { call("event_wait", table().event_wait, stream.get()); }
  void synchronize() { call("event_synchronize", table().event_synchronize); }
  bool query() { return call("event_query", table().event_query).happened != 0; }

private:
  const MortisePlugin &table() const { return *device.plugin->table; }
  MortiseEventArgs call(const char *name, MortiseStatus *(*slot)(MortiseEventArgs *), MortiseStream *stream = nullptr) {
    MortiseEventArgs args{};
    args.event = event;
    args.stream = stream;
    must(runtime::callOn(device, name, slot, args));
    return args;
  }

  const runtime::Device &device;
  MortiseEvent *event = nullptr;
};

// The memory of one call.
struct Operands {
  std::vector<Buffer> inputs, outputs;
  std::vector<Buffer> workspace; // one
};

std::vector<MortiseAddress> addresses(const std::vector<Buffer> &buffers) {
  std::vector<MortiseAddress> list;
  for (const Buffer &buffer : buffers)
    list.push_back(buffer.address());
  return list;
}

class Queues {
public:
  explicit Queues(QueuedKernel &kernel)
      : device(kernel.device()), kernel(kernel), a(must(Stream::create(device))), b(must(Stream::create(device))) {}

  std::string run();

private:
  struct Test {
    const char *when;
    std::string (Queues::*run)();
    bool copies; // it needs the slots of memory
  };
  static const Test tests[];

  // ---- Memory and work, which live until all streams have been waited for

  Operands &operands(const Tensors &values) {
    Operands &made = memory.emplace_back();
    const MortiseGraph &view = kernel.graph();
    for (size_t i = 0; i < view.input_count; ++i) {
      made.inputs.push_back(must(Buffer::make(device, values[i], elementAlignment(*view.inputs[i]->type))));
    }
    for (const MortiseValue *output : std::span(view.outputs, view.output_count))
      made.outputs.push_back(must(Buffer::poisoned(device, byteSize(*output->type), elementAlignment(*output->type))));
    made.workspace.push_back(must(Buffer::poisoned(device, kernel.workspaceBytes(), device.home().alignment)));
    return made;
  }
  Tensors &onHost(const Tensors &values) { return tensors.emplace_back(values); }
  Tensors &blank() { // for outputs
    Tensors &made = tensors.emplace_back();
    for (const std::vector<std::byte> &value : expected)
      made.emplace_back(value.size(), std::byte{0xff});
    return made;
  }

  static void fill(Call &call, const Operands &given, const std::vector<MortiseAddress> &outputs) {
    call.inputs = addresses(given.inputs);
    call.outputs = outputs;
    call.workspace = given.workspace[0].size() ? given.workspace[0].address() : 0;
  }
  // When the call returns, its arguments become those of another call.
  void enqueue(const Stream &stream, const Operands &given, const std::vector<MortiseAddress> &outputs) {
    Call &call = calls.emplace_back(), other;
    fill(call, given, outputs);
    must(kernel.enqueue(call, stream.get()));
    fill(other, *decoy, addresses(decoy->outputs));
    std::ranges::copy(other.inputs, call.inputs.begin());
    std::ranges::copy(other.outputs, call.outputs.begin());
    call.args.workspace = other.workspace;
  }
  void enqueue(const Stream &stream, const Operands &given) { enqueue(stream, given, addresses(given.outputs)); }

  void copy(const Stream &stream, const runtime::Place &target, const runtime::Place &source, uint64_t bytes) {
    if (bytes)
      must(runtime::queueCopy(device.owner(), stream.get(), target, source, bytes));
  }
  runtime::Place there(MortiseAddress address) const { return {&device.owner(), address}; }
  static runtime::Place here(const std::vector<std::byte> &bytes) { return {nullptr, addressOf(bytes.data())}; }
  void upload(const Stream &stream, const std::vector<Buffer> &targets, const Tensors &values) {
    for (size_t i = 0; i < targets.size(); ++i)
      copy(stream, there(targets[i].address()), here(values[i]), values[i].size());
  }
  void download(const Stream &stream, Tensors &values, const std::vector<MortiseAddress> &sources) {
    for (size_t i = 0; i < sources.size(); ++i)
      copy(stream, here(values[i]), there(sources[i]), values[i].size());
  }
  MortiseMemoryArgs allocate(uint64_t bytes) {
    MortiseMemoryArgs args{};
    args.bytes = std::max<uint64_t>(bytes, 1);
    must(runtime::callOn(device.owner(), "memory_allocate", device.owner().plugin->table->memory_allocate, args));
    return args;
  }
  void free(MortiseMemoryArgs args, MortiseStream *stream) {
    args.stream = stream;
    must(runtime::callOn(device.owner(), "memory_free", device.owner().plugin->table->memory_free, args));
  }

  std::string judge(const Operands &given) {
    Tensors found;
    for (const Buffer &output : given.outputs)
      found.push_back(must(output.read()).bytes);
    return kernel.differences(found);
  }

  static void settle() { std::this_thread::sleep_for(std::chrono::milliseconds(300)); }
  // Where the plugin is wrong, its waits may be too.
  void finish(bool wrong) {
    (void)a.wait();
    (void)b.wait();
    if (wrong)
      settle();
    calls.clear();
    tensors.clear();
    while (memory.size() > kept)
      memory.pop_back();
  }

  // ---- Delays

  static constexpr double leastMs = 12;
  static constexpr size_t block = 4 << 20, mostUnits = 1 << 14;

  // Keeps stream `a` busy.
  void hold() {
    for (size_t i = 0; i < units; ++i)
      if (blocks.empty())
        enqueue(a, *busy);
      else
        copy(a, there(blocks[0].address()), there(blocks[1].address()), block);
  }
  // How much work it takes until the stream lags behind the calls that queue it. Queues that do their work within the
  // calls never do, and are right whatever is asked of them.
  void calibrate() {
    for (units = 4; units < mostUnits; units *= 2) {
      const Clock::time_point begin = Clock::now();
      hold();
      const double queueing = msSince(begin);
      must(a.wait());
      const double lag = msSince(begin) - queueing;
      finish(false);
      if (lag >= leastMs)
        return;
      if (queueing > 20 * leastMs)
        break;
    }
    units = 1;
  }

  // False: the results of other operands are not told apart.
  bool prepare() {
    const MortiseGraph &view = kernel.graph();
    others = reversed(view, kernel.inputs());
    auto results = kernel.resultsOf(others);
    if (!results || view.alias_count || kernel.differences(*results).empty())
      return false;
    expected = std::move(*results);
    decoy = &operands(others);
    busy = &operands(others);
    kept = memory.size();
    for (int i = 0; i < 2 && !device.inHostMemory(); ++i)
      blocks.push_back(must(runtime::DeviceMemory::allocate(device.owner(), 0, block)));
    calibrate();
    return true;
  }

  // ---- Tests: each returns what is wrong with the results

  std::string unrecorded() {
    Event event(device);
    event.wait(a);
    event.synchronize();
    return event.query() ? "" : "event_query says that they have not happened, which nothing can change";
  }

  // Waits by `wait` for a kernel that is held back, and reads what it should have written.
  template <typename Wait> std::string readBehind(Wait wait) {
    const Operands &given = operands(kernel.inputs());
    hold();
    enqueue(a, given);
    wait();
    return judge(given);
  }
  std::string lists() {
    const Operands &given = operands(kernel.inputs());
    hold();
    enqueue(a, given);
    must(a.wait());
    if (judge(given).empty())
      return "";
    settle(); // where stream_wait is at fault, the work happens now
    return judge(given);
  }
  std::string streamWait() {
    return readBehind([&] { must(a.wait()); });
  }
  std::string synchronize() {
    Event event(device);
    return readBehind([&] {
      event.record(a);
      event.synchronize();
    });
  }
  std::string query() {
    Event event(device);
    return readBehind([&] {
      event.record(a);
      for (const Clock::time_point begin = Clock::now(); !event.query();)
        if (msSince(begin) > 60000)
          throw Failed{{MORTISE_INTERNAL, "event_query says for a minute that work of milliseconds has not happened"}};
    });
  }
  std::string recordedAgain() {
    Event event(device);
    event.record(b);
    event.synchronize();
    return readBehind([&] {
      event.record(a);
      event.synchronize();
    });
  }

  // Both streams write the same outputs: what comes last stays.
  std::string overwrite() {
    const Operands &first = operands(others), &last = operands(kernel.inputs());
    Event event(device);
    hold();
    enqueue(a, first, addresses(last.outputs));
    event.record(a);
    event.wait(b);
    enqueue(b, last);
    must(b.wait());
    must(a.wait());
    return judge(last);
  }

  std::string oneStream() {
    const Operands &given = operands(others);
    const Tensors &source = onHost(kernel.inputs());
    Tensors &found = blank();
    hold();
    upload(a, given.inputs, source);
    enqueue(a, given);
    download(a, found, addresses(given.outputs));
    must(a.wait());
    return kernel.differences(found);
  }

  std::string acrossStreams() {
    const Operands &given = operands(kernel.inputs());
    Tensors &found = blank();
    Event event(device);
    hold();
    enqueue(a, given);
    event.record(a);
    event.wait(b);
    download(b, found, addresses(given.outputs));
    must(b.wait());
    return kernel.differences(found);
  }

  std::string inputsAgain() {
    const Operands &given = operands(kernel.inputs());
    const Tensors &source = onHost(others);
    hold();
    enqueue(a, given);
    upload(a, given.inputs, source);
    must(a.wait());
    return judge(given);
  }

  std::string sourceAgain() {
    const Operands &given = operands(others);
    Tensors &source = onHost(kernel.inputs());
    Event event(device);
    hold();
    upload(a, given.inputs, source);
    event.record(a);
    event.synchronize();
    for (size_t i = 0; i < source.size(); ++i) // the same memory
      std::ranges::copy(others[i], source[i].begin());
    enqueue(a, given);
    must(a.wait());
    return judge(given);
  }

  // What is freed on a stream may be given out again only when the work before has happened.
  std::string freed() {
    const Operands &given = operands(kernel.inputs());
    Tensors &found = blank();
    std::vector<MortiseMemoryArgs> lent, next;
    std::vector<MortiseAddress> outputs;
    for (const std::vector<std::byte> &output : found) {
      lent.push_back(allocate(output.size()));
      outputs.push_back(lent.back().address);
    }
    hold();
    enqueue(a, given, outputs);
    download(a, found, outputs);
    for (const MortiseMemoryArgs &args : lent)
      free(args, a.get());
    for (const std::vector<std::byte> &output : found) // whoever gets the memory now writes to it at once
      for (int i = 0; i < 4; ++i) {
        next.push_back(allocate(output.size()));
        copy(b, there(next.back().address), here(onHost({{output.size(), std::byte{0x5a}}})[0]), output.size());
      }
    must(b.wait());
    must(a.wait());
    for (const MortiseMemoryArgs &args : next)
      free(args, nullptr);
    return kernel.differences(found);
  }

  const runtime::Device &device;
  QueuedKernel &kernel;
  Tensors others, expected; // operands with other results, and these
  std::deque<Operands> memory;
  std::deque<Tensors> tensors;
  std::deque<Call> calls; // a plugin that keeps pointers to arguments finds others there, and no fault
  Operands *decoy = nullptr, *busy = nullptr; // the first of `memory`
  size_t kept = 0;                            // of `memory`, beyond a test
  std::vector<runtime::DeviceMemory> blocks;
  size_t units = 1;
  Stream a, b; // end before all else
};

const Queues::Test Queues::tests[] = {
    {"events that were never recorded: ", &Queues::unrecorded, false},
    {"what enqueue was given was changed when it had returned, as it may be: ", &Queues::lists, false},
    {"stream_wait returned before the work had happened: ", &Queues::streamWait, false},
    {"event_synchronize returned before the work in front of the event had happened: ", &Queues::synchronize, false},
    {"event_query said that an event had happened before the work in front of it had: ", &Queues::query, false},
    {"an event that was recorded again was still at its first mark: ", &Queues::recordedAgain, false},
    {"work behind event_wait did not wait for the other stream: ", &Queues::overwrite, false},
    {"copies and a kernel on one stream: ", &Queues::oneStream, true},
    {"a copy behind event_wait did not wait for the other stream: ", &Queues::acrossStreams, true},
    {"an input was written by a copy behind the kernel on its stream: ", &Queues::inputsAgain, true},
    {"the source of a copy was written when the event behind the copy had happened: ", &Queues::sourceAgain, true},
    {"memory was freed on a stream behind work that uses it, and given out before the work: ", &Queues::freed, true},
};

std::string Queues::run() {
  if (!prepare())
    return "";
  for (const Test &test : tests) {
    if (test.copies && device.inHostMemory())
      continue;
    std::string wrong;
    try {
      wrong = (this->*test.run)();
      wrong = wrong.empty() ? "" : test.when + wrong;
    } catch (const Failed &failed) {
      wrong = failed.error.message;
    }
    finish(!wrong.empty());
    if (!wrong.empty())
      return "in queues: " + wrong;
  }
  return "";
}

} // namespace

std::string tryQueues(QueuedKernel &kernel) {
  try {
    return Queues(kernel).run();
  } catch (const Failed &failed) {
    return "in queues: " + failed.error.message;
  }
}

} // namespace mortise::tool
