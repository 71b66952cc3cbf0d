// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Probes: what is tried of a kernel and its device beside the result of a call (the levels abi, stress and perf).
#pragma once

#include "launch.hpp"
#include "verdict.hpp"

#include <functional>

namespace mortise::conformance {

struct ProbeTask {
  uint64_t seed = 0;
  double seconds = 1;                       // of a case of the level stress
  std::function<void()> stillThere = [] {}; // called at least every few seconds
};

// A point with a probe.
Verdict probe(Device &device, const Point &point, const ProbeTask &task);

// ---- For the files of probes

// Ends a probe with what it has found.
struct Ended {
  Outcome outcome = Outcome::Failed;
  std::string kind, reason, why;
};
[[noreturn]] void fail(const std::string &kind, const std::string &why);
[[noreturn]] void refuse(const std::string &reason, const std::string &why);
void must(const Result<void> &done); // a status where none is due
template <typename T> T must(Result<T> made) {
  if (!made)
    fail("status", made.error().message);
  return std::move(*made);
}

class ProbeRun {
public:
  ProbeRun(Device &device, const Point &point, const ProbeTask &task) : device(device), point(point), task(task) {}

  Device &device;
  const Point point;
  const ProbeTask &task;
  Case a, b; // one graph with two sets of values
  std::unique_ptr<Kernel> kernel;
  std::optional<Speed> speed; // what trySpeed has measured

  bool hasStreams() const { return device.info().plugin->hasStreams(); }
  // Makes the cases and the kernel, or refuses as the plugin does.
  void prepare();
  // The kernel of a case's graph; NULL where it is refused, and `refused` says why.
  std::unique_ptr<Kernel> compiled(const Case &of, Refused &refused);
  // Refuses where the results of the two sets of values are not told apart.
  void needDifference();
  std::unique_ptr<Launch> launch(Kernel &of, const Case &values);
  // Enqueues, waits and judges. `when` begins what is said about a wrong result.
  void call(Launch &launch, Operands &given, const std::string &when);
  void judge(Launch &launch, Operands &given, const std::string &when);
  // Bytes of the heap that are left each time that `body` has run.
  uint64_t leakOf(const std::function<void()> &body);
};

// Each tries one probe.
void tryThreads(ProbeRun &run); // probe_order.cpp
void tryFrames(ProbeRun &run);
void tryQueues(ProbeRun &run);
void tryErrors(ProbeRun &run);
void tryRepeats(ProbeRun &run);
void tryKernels(ProbeRun &run); // probe_lifecycle.cpp
void tryAgain(ProbeRun &run);
void tryConstants(ProbeRun &run);
void trySaved(ProbeRun &run);
void tryCancelled(ProbeRun &run);
void tryNewer(ProbeRun &run);
void tryMemory(ProbeRun &run); // probe_memory.cpp
void tryLeaks(ProbeRun &run);
void tryFlat(ProbeRun &run);
void trySpeed(ProbeRun &run); // probe_speed.cpp

} // namespace mortise::conformance
