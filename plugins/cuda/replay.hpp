// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls as CUDA graphs: a schedule's steps are recorded once and launched as one piece of work. A call whose tensors
// lie elsewhere changes the parameters of the nodes that have their addresses; earlier launches keep theirs, also those
// that have not happened yet, so that a graph need not wait for them.
//
// Calls of libraries (products, convolutions) can only be captured, and while anything is captured a wait for the whole
// device in another thread is an error. So they are queued between graphs, unless the user wants otherwise; then they
// are captured in the first calls, and one whose addresses change is queued from then on.
#pragma once

#include "stream.hpp"

#include <span>
#include <vector>

namespace mortise::cuda {

struct Addresses;
struct Schedule;
struct Step;

// What becomes of a kernel's calls.
enum class Graphs {
  Off,     // every call queues the steps
  Kernels, // graphs have kernels and copies, and calls of libraries are queued between them
  Calls,   // calls of libraries, too, which are captured when the kernel is first called
};

// The graphs of one schedule. Thread safe.
class Replays {
public:
  // `calls`: those of libraries may be captured. NULL where calls are cheaper without, or a graph cannot hold them.
  static std::unique_ptr<Replays> of(Device &device, std::span<const Step> steps, const Schedule &schedule, bool calls);
  Replays(const Replays &) = delete;
  ~Replays();

  // The device's context is current. False: nothing is queued, and the call's steps are to be queued one by one.
  // Errors: of the launch.
  Result<bool> queue(Stream &stream, const Addresses &addresses);

private:
  class Recording;
  Replays(Device &device, std::span<const Step> steps, std::vector<bool> outside);
  std::unique_ptr<Recording> take(const Addresses &addresses);
  std::unique_ptr<Recording> makeAnew(std::span<const size_t> changing);
  Result<void> record(Recording &recording, const Addresses &addresses);
  void giveUp(const Error &error);

  Device &device;
  const std::span<const Step> steps;            // the kernel's
  std::mutex mutex;                             // of what follows
  std::vector<std::unique_ptr<Recording>> idle; // the last one was used last
  std::vector<bool> outside;                    // per step: no graph gets it
  size_t count = 0;                             // of recordings, with those in use
  size_t made = 0;                              // and all that there ever were
  bool isFirst = true, givenUp = false;
};

} // namespace mortise::cuda
