// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls as CUDA graphs: a schedule's steps are recorded once and launched as one piece of work. A call with other
// addresses changes the parameters of the nodes that have them; earlier launches keep theirs, also those that have not
// happened yet, so that a graph need not wait for them.
#pragma once

#include "stream.hpp"

#include <span>
#include <vector>

namespace mortise::cuda {

struct Addresses;
struct Schedule;
struct Step;

// The graphs of one schedule. Thread safe.
class Replays {
public:
  // NULL where calls are cheaper without, or a graph cannot hold them.
  static std::unique_ptr<Replays> of(Device &device, std::span<const Step> steps, const Schedule &schedule);
  Replays(const Replays &) = delete;
  ~Replays();

  // The device's context is current. False: nothing is queued, and the call's steps are to be queued one by one.
  // Errors: of the launch.
  Result<bool> queue(Stream &stream, const Addresses &addresses);

private:
  class Recording;
  Replays(Device &device, std::span<const Step> steps);
  std::unique_ptr<Recording> take(const Addresses &addresses);
  Result<std::unique_ptr<Recording>> suited(std::unique_ptr<Recording> recording, const Addresses &addresses) const;
  void giveUp(const Error &error);

  Device &device;
  const std::span<const Step> steps;            // the kernel's
  std::mutex mutex;                             // of what follows
  std::vector<std::unique_ptr<Recording>> idle; // the last one was used last
  size_t count = 0;                             // with those in use
  bool isFirst = true, givenUp = false;
};

} // namespace mortise::cuda
