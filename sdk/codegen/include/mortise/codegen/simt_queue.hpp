// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Streams and events with the rules of the ABI for errors: the first one of a stream stays until a reset, nothing
// further happens until then, and a mark in a failed stream counts as happened. What plugins share that have queues in
// a driver.
#pragma once

#include <mortise/plugin.hpp>

#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

namespace mortise::codegen {

// The first error of a stream or a device, which stays. Thread safe.
class FirstError {
public:
  Result<void> state() const {
    if (!failed)
      return {};
    std::lock_guard lock(mutex);
    return failed ? first : Result<void>();
  }
  // Keeps the error if it is the first, and returns the first.
  Error keep(Error error) {
    std::lock_guard lock(mutex);
    if (!failed)
      first = std::move(error);
    failed = true;
    return first;
  }
  void clear() {
    std::lock_guard lock(mutex);
    failed = false;
  }

private:
  std::atomic<bool> failed = false;
  mutable std::mutex mutex;
  Error first;
};

// A stream is a queue with a first error. `Queue` has
//   using Device                   with ordinal(), and alive(): the error with which it was lost;
//   static constexpr char kind[]   of the devices: "cuda";
//   Device &device;
//   Result<void> synchronize();    waits for all work; its error
//   Result<void> query();          the error of what has happened so far; waits for nothing
template <typename Queue> class StreamOf : public Queue {
public:
  using Queue::Queue;
  static MortiseStream *opaque(StreamOf *stream) { return reinterpret_cast<MortiseStream *>(stream); }
  // Errors: MORTISE_INVALID_ARGUMENT for NULL.
  static Result<StreamOf *> of(MortiseStream *handle, const char *slot) {
    if (!handle)
      return Error{MORTISE_INVALID_ARGUMENT, std::string(slot) + ": expected a stream, found NULL; devices of kind " +
                                                 Queue::kind + " have streams, make one with stream_create"};
    return reinterpret_cast<StreamOf *>(handle);
  }

  // For all work, with the first error since the last reset. Also behind an error: what was queued before it has to
  // have happened.
  Result<void> wait() {
    if (auto done = Queue::synchronize(); !done)
      return fail(done.error());
    return failure();
  }
  // That error; waits for nothing.
  Result<void> status() {
    if (auto known = failure(); !known)
      return known;
    if (auto asked = Queue::query(); !asked)
      return fail(asked.error());
    return {};
  }
  Result<void> reset() { // a device that is lost stays so
    if (auto alive = Queue::device.alive(); !alive)
      return alive;
    first.clear();
    return {};
  }
  // The error that keeps work from being queued, as far as it is known without asking the driver.
  Result<void> failure() const {
    if (auto known = first.state(); !known)
      return known;
    return Queue::device.alive();
  }
  // Keeps the error if it is the first, and returns it.
  Error fail(Error error) { return first.keep(std::move(error)); }

private:
  FirstError first;
};

// The stream of a call of a kernel on this device, in which work can be queued.
template <typename Stream, typename Device>
Result<Stream *> streamFor(const Device &device, const MortiseEnqueueArgs &args) {
  Result<Stream *> found = Stream::of(args.stream, "enqueue");
  if (!found)
    return found.error();
  const auto name = [](const Device &of) { return std::string(Stream::kind) + ":" + std::to_string(of.ordinal()); };
  if (&(*found)->device != &device)
    return Error{MORTISE_INVALID_ARGUMENT, "expected a stream of " + name(device) +
                                               ", for which the kernel was compiled, found one of " +
                                               name((*found)->device)};
  if (auto known = (*found)->failure(); !known)
    return known.error();
  return *found;
}

// An event is what marks queues, and its last mark. `Marker` has
//   using Mark                                          with `device`; copies mean the same mark;
//   Result<Mark> mark(Stream &);                        by one thread at a time
//   static Result<void> follow(Stream &, const Mark &); what is queued later happens behind the mark
//   static Result<bool> happened(const Mark &);
//   static Result<void> await(const Mark &);
//   static Result<uint64_t> elapsed(const Mark &begin, const Mark &end); nanoseconds, of one device
template <typename Stream, typename Marker> class EventOf : public Marker {
public:
  using Marker::Marker;
  static EventOf &of(MortiseEvent *event) { return *reinterpret_cast<EventOf *>(event); }

  Result<void> record(Stream &stream) {
    std::lock_guard lock(mutex);
    if (auto known = stream.failure(); !known) {
      last = Last{std::nullopt, known.error()};
      return {};
    }
    Result<Mark> made = Marker::mark(stream);
    if (!made) { // without a mark, those who wait would not wait
      last = Last{std::nullopt, stream.fail(made.error())};
      return *last->failure;
    }
    last = Last{*made, std::nullopt};
    return {};
  }
  Result<void> wait(Stream &stream) {
    const std::optional<Last> awaited = current();
    if (!awaited)
      return {};
    if (awaited->failure) {
      stream.fail(*awaited->failure); // the next wait for the stream returns it
      return {};
    }
    if (!stream.failure())
      return {};
    if (auto done = Marker::follow(stream, *awaited->mark); !done)
      return stream.fail(done.error());
    return {};
  }
  Result<bool> query() {
    const std::optional<Last> asked = current();
    if (!asked)
      return true;
    if (asked->failure)
      return *asked->failure;
    return Marker::happened(*asked->mark);
  }
  Result<void> synchronize() {
    const std::optional<Last> awaited = current(); // not under the lock: others may ask while this thread waits
    if (!awaited)
      return {};
    if (awaited->failure)
      return *awaited->failure;
    return Marker::await(*awaited->mark);
  }
  // Nanoseconds; 0 where there is nothing to compare.
  Result<uint64_t> since(EventOf &earlier) {
    const std::optional<Last> end = current(), begin = earlier.current();
    if (!end || !begin || !end->mark || !begin->mark || end->mark->device != begin->mark->device)
      return uint64_t{0}; // clocks of two devices do not compare
    return Marker::elapsed(*begin->mark, *end->mark);
  }

private:
  using Mark = typename Marker::Mark;
  struct Last {
    std::optional<Mark> mark;
    std::optional<Error> failure; // the stream had failed before the mark
  };
  std::optional<Last> current() const {
    std::lock_guard lock(mutex);
    return last;
  }

  mutable std::mutex mutex;
  std::optional<Last> last;
};

// Times steps of a profiled call by events between them. An event is made of a device, and has create() and destroy().
template <typename Stream, typename Event> class StepClock {
public:
  // `stepNs`: MortiseEnqueueArgs::step_ns; NULL: nothing is timed.
  StepClock(Stream &stream, uint64_t *stepNs) : stream(stream), stepNs(stepNs) {}
  StepClock(const StepClock &) = delete;
  ~StepClock() {
    for (Event &event : events)
      (void)event.destroy(); // what fails now failed for the calls before, which said so
  }
  // Before the first step, and behind each.
  Result<void> mark() {
    if (!stepNs)
      return {};
    Event &event = events.emplace_back(stream.device);
    if (auto made = event.create(); !made)
      return made;
    return event.record(stream);
  }
  // Waits: the times have to be there when the work has happened, and what a driver calls back from a stream must not
  // ask it for the time of an event. Only profiled calls wait.
  Result<void> write() {
    if (events.empty())
      return {};
    if (auto waited = events.back().synchronize(); !waited)
      return waited;
    for (size_t i = 0; i + 1 < events.size(); ++i) {
      Result<uint64_t> elapsed = events[i + 1].since(events[i]);
      if (!elapsed)
        return elapsed.error();
      stepNs[i] += *elapsed;
    }
    return {};
  }

private:
  Stream &stream;
  uint64_t *const stepNs;
  std::deque<Event> events; // does not move its elements
};

} // namespace mortise::codegen
