// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds work that uses memory, or a handle, that other work uses at the same time: a race, whether it went wrong this
// time or not. Every stream has a vector clock, and the host one more (all its threads count as one, so the checker
// may miss a race between threads of the host, but never reports one that is none). Source of the method: Flanagan and
// Freund, "FastTrack: Efficient and Precise Dynamic Race Detection", PLDI 2009.
#pragma once

#include <mortise/result.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace strict {
using mortise::Error;
using mortise::Result;

// For each actor, how much of its work is known to have happened. Actor 0 is the host.
using Clock = std::vector<uint64_t>;
using Actor = uint32_t;
constexpr Actor host = 0;

struct Use {
  uint64_t begin = 0, bytes = 0; // host memory and device memory have different addresses
  bool writes = false;
};

class Checker {
public:
  Actor addStream();
  // A violation where the host does not know that all work of the stream has happened.
  void endStream(Actor stream);
  void removeStream(Actor stream); // its clock serves a later stream, once the host knows of all its work

  // Work that the host queues on a stream now. `what` names it in messages. Errors (INTERNAL) name this work and the
  // other that it is not ordered against. The work counts as queued in any case.
  Result<void> queue(Actor stream, const std::string &what, const std::vector<Use> &uses);

  // The host uses memory now. A violation is found, not returned.
  void hostUses(const Use &use);

  // Whether the host knows of everything that used the range to have happened.
  bool isIdle(uint64_t begin, uint64_t bytes) const;

  // The mark of an event in a stream, and what waits for it.
  Clock mark(Actor stream);
  void streamWaits(Actor stream, const Clock &mark);
  void hostWaits(const Clock &mark);
  // A wait that is kept from the checker, and whether one was that would have told its actor of work that it did not
  // know of: otherwise nothing can come of it.
  void hide(Actor actor, const Clock &mark);
  bool hidNews() const;

  // An end of life: everything that used the range must be known to the host, or to the stream that ends it. `what`
  // names the end: "memory_free of allocation 3".
  // So must everything that used a frame be known to the host before its next call.
  Result<void> end(Actor actor, const std::string &what, uint64_t begin, uint64_t bytes);

  std::vector<std::string> violations() const;
  // Pieces of work that were queued beside work on another stream: nothing orders them behind all of it.
  uint64_t besideOthers() const;
  void forgetAll(); // violations, uses and counts; no work is in flight

private:
  struct Past {
    uint64_t begin, end;
    bool writes;
    Actor actor;
    uint64_t time;
    std::shared_ptr<const std::string> what;
  };
  Result<void> check(Actor actor, const Clock &clock, const std::string &what, uint64_t begin, uint64_t end,
                     bool writes);
  void forgetWhatTheHostKnows();

  mutable std::mutex mutex;
  std::vector<Clock> clocks = {Clock(1)};
  std::vector<Actor> gone; // streams without an owner
  std::vector<Past> pasts; // uses that the host does not know to have happened
  std::vector<std::string> found;
  uint64_t beside = 0;
  bool news = false; // hidNews()
};

Checker &checker();

} // namespace strict
