// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which operations of a plan wait for which, where the work of one call lies on several timelines (streams that run at
// the same time, and the host). An operation waits for an earlier one on another timeline when both use the same memory
// and one of them writes it, unless it is ordered behind it already. Found with vector clocks: Mattern, "Virtual Time
// and Global States of Distributed Systems", 1989.
#pragma once

#include "layout.hpp"

namespace mortise::runtime {

// One use of memory by an operation: bytes [begin, end) of a memory space, or of a caller's tensor.
struct Access {
  uint32_t memory = 0;
  uint64_t begin = 0, end = UINT64_MAX;
  bool writes = false;
  uint32_t user = none; // the timeline that uses it, where it is not the item's
};

// What comes at one place in the order of the calls: an operation of the plan, or the begin or end of a call.
struct Item {
  uint32_t timeline = none; // none: the host's
  std::vector<Access> accesses;
};

struct Event {
  uint32_t timeline = 0; // that records it
  uint32_t number = 0;   // among the events of the timeline
};

struct Schedule {
  struct Wait {
    uint32_t event = 0;  // number among `events`
    bool byHost = false; // the host waits; otherwise the operation's stream does
  };
  struct Step { // of one item
    uint32_t firstWait = 0, waitCount = 0;
    uint32_t record = none; // the event recorded behind the item
  };
  std::vector<Step> steps; // per item; empty when all operations are the host's
  std::vector<Wait> waits;
  std::vector<Event> events;
  std::vector<uint32_t> marks; // events of a call on callers' streams: when they have happened, all its work has
  std::vector<uint32_t> atEnd; // streams that the host waits for at the end; the others have happened then

  // `ends`: how many of the first items begin the call, on as many streams of the caller's, and how many of the last
  // ones end it, and get marks.
  static Schedule make(const Layout &layout, std::span<const Item> items, size_t ends);
};

// Of such a call: per item the first end that comes behind it, `none` where none does.
std::vector<uint32_t> firstEndsBehind(const Layout &layout, std::span<const Item> items, size_t ends);

} // namespace mortise::runtime
