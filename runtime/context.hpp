// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The execution context of one call in flight: arenas, streams, events, frames and argument blocks. From call to call
// only addresses change. Where no work outlives a call, its arenas in host memory are those of the process
// (HostArenas).
#pragma once

#include "call_schedule.hpp"
#include "host_arenas.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

namespace mortise::runtime {

class Context {
public:
  static Result<std::unique_ptr<Context>> create(const Layout &layout);
  ~Context();

  // `inputs` and `outputs` hold one pointer per plan input and output, or an address in the memory of its home;
  // `specialisation` belongs to `binding`. No work is in flight when the call returns, or returns an error. Allocates
  // memory only when a specialisation differs from the context's last one and needs more memory than there is.
  Result<void> execute(const Binding &binding, const std::shared_ptr<Specialisation> &specialisation,
                       const void *const *inputs, void *const *outputs, bool profile);

  // The same on callers' streams in place of the timelines that `queued`, of the specialisation, is for. Returns when
  // all is queued and the host's tensors are the caller's again; then the context is in flight.
  Result<void> enqueueOn(std::span<const CallersStream> callers, const Specialisation::Queued &queued,
                         const Binding &binding, const std::shared_ptr<Specialisation> &specialisation,
                         const void *const *inputs, void *const *outputs);
  // Whether the last enqueueOn() has happened: nothing else may be done with a context before it has, but another
  // enqueueOn() of the same specialisation on the same streams. Errors: where a stream has failed, other streams may
  // still work until finish().
  Result<bool> hasHappened();
  Result<void> finish(); // waits for it; errors: those of the work
  bool isInFlight() const { return flight != nullptr; }
  bool isInFlightOn(std::span<const CallersStream> callers, const Specialisation &specialisation) const {
    return flight && std::ranges::equal(flightStreams, callers) && current.get() == &specialisation;
  }
  bool hasFrames() const; // that belong to one call at a time

  // Lets go of the last specialisation and what was made for it. The next run may be of any binding.
  void forget();

  uint64_t lastSpecialisation() const { return current ? current->number : 0; }
  bool isUsable() const { return usable; } // false when a stream failed and could not be reset
  // The operation with which the last execute() or enqueueOn() ended, where it ended with an error of one.
  std::optional<size_t> failedOperation() const { return failed; }

  // Nanoseconds per clock (Specialisation::clocks) of the last profiled run.
  std::span<const uint64_t> clocks() const { return nanoseconds; }

  // Scratch of checked runs: the pointers passed to execute(), and dense copies of strided inputs.
  std::vector<const void *> inputPointers;
  std::vector<void *> outputPointers;
  std::vector<Block> staging;

private:
  // A plugin's state for one region of this context, and the addresses of its last run.
  struct Frame {
    MortiseFrame *frame = nullptr;
    std::vector<MortiseAddress> last; // inputs, outputs, workspace
    std::vector<uint64_t> unchanged;
  };

  // What a profiled run marks around a region's work.
  struct Timer {
    struct Mark {
      std::chrono::steady_clock::time_point when; // for work that is done when `enqueue` returns
      MortiseEvent *event = nullptr;              // for work in a stream
    } begin, end;
  };

  explicit Context(const Layout &layout);
  Result<void> createStreams();
  Result<MortiseStream *> createStream(const StreamPlace &place);
  static Result<MortiseEvent *> createEvent(const Device &device);
  Result<void> createEvents(const Schedule &schedule);
  Result<void> createFrame(size_t operation);
  void destroyFrames();
  Result<void> take(const Binding &binding, const std::shared_ptr<Specialisation> &specialisation);
  void fill(const Binding &binding);
  void setAddresses(const void *const *inputs, void *const *outputs);
  Result<void> grow(size_t space, uint64_t bytes);
  bool borrows(size_t space) const;
  Result<void> borrow(const Binding &binding);
  void giveBack();
  Result<void> allocate(size_t space, uint64_t bytes);
  void registerHostMemory();
  Error tooMuch(Error error, size_t number, const Specialisation &wanted) const;
  Result<void> executeAll(const Schedule &schedule, size_t first, bool profile);
  Result<void> waitFor(const Schedule &schedule, size_t item, uint32_t timeline);
  Result<void> recordBehind(const Schedule &schedule, size_t item);
  // Calls the slot with an event of Schedule::marks, of the last enqueueOn().
  Result<void> callOnEvent(uint32_t number, const char *name,
                           MortiseStatus *(*MortisePlugin::*slot)(MortiseEventArgs *),
                           MortiseEventArgs &args) const; // of the call in flight
  Result<void> enqueue(size_t operation, bool profile);
  Result<void> mark(size_t operation, Timer::Mark Timer::*which);
  void clockTheRest();
  Result<void> copy(size_t operation);
  void markUnchanged(size_t operation);
  Result<void> wait(uint32_t stream);
  void reset(uint32_t stream);
  // Resets those of the context's streams that failed in calls on a caller's stream, all of which have happened. The
  // caller has learned of the error from its own stream.
  void clearErrors();
  void abandon(); // waits for all streams of the call after an error, so that nothing touches the caller's memory
  Error inOperation(size_t operation, const Error &error) const;

  const Layout &layout;
  std::vector<Block> hostMemory;            // per memory space, where it is the host's; during a call if it is borrowed
  std::vector<HostArenas::Need> needs;      // per memory space
  std::vector<RegisteredMemory> registered; // the arena in host memory, for devices that copy from and to it
  std::vector<DeviceMemory> deviceMemory;   // per memory space, where it is a device's
  std::vector<MortiseAddress> spaceStart;
  std::vector<uint64_t> spaceBytes;
  std::vector<MortiseAddress> address;         // per buffer
  std::vector<MortiseAddress> copiedConstants; // per operation (Binding::copied)
  std::vector<MortiseAddress> inputSlots, outputSlots;
  std::vector<MortiseStream *> streams;            // the context's own
  std::vector<MortiseStream *> active;             // those of the call: some may be the caller's
  std::vector<std::vector<MortiseEvent *>> events; // per timeline
  std::vector<MortiseEnqueueArgs> enqueues;        // per operation; unused for copies
  std::vector<Frame> frames;                       // per operation
  std::vector<uint64_t> nanoseconds;
  std::vector<Timer> timers;               // per operation, once a run was profiled
  std::shared_ptr<Specialisation> current; // for which the lists above were filled
  const Schedule *flight = nullptr;        // of the last enqueueOn(), until that is known to have happened
  std::vector<CallersStream> flightStreams;
  const Specialisation::Queued *prepared = nullptr; // of `current`: for whose schedules there are events
  bool hasQueued = false;                           // calls on callers' streams, since clearErrors()
  bool usable = true;
  std::optional<size_t> failed; // operation of the last call
};

} // namespace mortise::runtime
