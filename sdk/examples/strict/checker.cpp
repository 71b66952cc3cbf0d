// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "checker.hpp"

#include <algorithm>

namespace strict {
namespace {

void join(Clock &clock, const Clock &other) {
  clock.resize(std::max(clock.size(), other.size()));
  for (size_t i = 0; i < other.size(); ++i)
    clock[i] = std::max(clock[i], other[i]);
}

bool knows(const Clock &clock, Actor actor, uint64_t time) { return actor < clock.size() && clock[actor] >= time; }

std::string name(Actor actor) { return actor == host ? "the host" : "stream " + std::to_string(actor); }

} // namespace

Actor Checker::addStream() {
  const std::lock_guard lock(mutex);
  // What the host knows comes before all that a new stream gets, so that no race is hidden.
  const auto free =
      std::ranges::find_if(gone, [&](Actor stream) { return knows(clocks[host], stream, clocks[stream][stream]); });
  if (free != gone.end()) {
    const Actor stream = *free;
    gone.erase(free);
    return stream;
  }
  clocks.emplace_back(clocks.size() + 1);
  return static_cast<Actor>(clocks.size() - 1);
}

void Checker::endStream(Actor stream) {
  const std::lock_guard lock(mutex);
  const auto last = std::ranges::find_if(pasts, [&](const Past &past) { return past.actor == stream; });
  if (last != pasts.end())
    found.push_back("the end of " + name(stream) + ", while the host has not waited for " + *last->what);
}

void Checker::removeStream(Actor stream) {
  const std::lock_guard lock(mutex);
  gone.push_back(stream);
}

Result<void> Checker::check(Actor actor, const Clock &clock, const std::string &what, uint64_t begin, uint64_t end,
                            bool writes) {
  for (const Past &past : pasts) {
    if (past.begin >= end || begin >= past.end || !(past.writes || writes) || knows(clock, past.actor, past.time))
      continue;
    const std::string message = what + " on " + name(actor) + (writes ? " writes" : " reads") + " bytes that " +
                                *past.what + " on " + name(past.actor) + (past.writes ? " writes" : " reads") +
                                ", and nothing orders them";
    found.push_back(message);
    return Error{MORTISE_INTERNAL, message};
  }
  return {};
}

Result<void> Checker::queue(Actor stream, const std::string &what, const std::vector<Use> &uses) {
  const std::lock_guard lock(mutex);
  Clock &clock = clocks[stream];
  join(clock, clocks[host]);
  Result<void> result;
  for (const Use &use : uses)
    if (result)
      result = check(stream, clock, what, use.begin, use.begin + use.bytes, use.writes);
  for (Actor other = host + 1; other < clocks.size(); ++other)
    if (other != stream && clocks[other][other] != 0 && !knows(clock, other, clocks[other][other])) {
      ++beside;
      break;
    }
  const uint64_t time = ++clock[stream];
  const auto shared = std::make_shared<const std::string>(what);
  for (const Use &use : uses)
    if (use.bytes)
      pasts.push_back({use.begin, use.begin + use.bytes, use.writes, stream, time, shared});
  return result;
}

void Checker::hostUses(const Use &use) {
  const std::lock_guard lock(mutex);
  (void)check(host, clocks[host], use.writes ? "a write" : "a read", use.begin, use.begin + use.bytes, use.writes);
}

bool Checker::isIdle(uint64_t begin, uint64_t bytes) const {
  const std::lock_guard lock(mutex);
  return std::ranges::none_of(pasts, [&](const Past &past) { return past.begin < begin + bytes && begin < past.end; });
}

Clock Checker::mark(Actor stream) {
  const std::lock_guard lock(mutex);
  join(clocks[stream], clocks[host]);
  return clocks[stream];
}

void Checker::streamWaits(Actor stream, const Clock &mark) {
  const std::lock_guard lock(mutex);
  join(clocks[stream], mark);
}

void Checker::hostWaits(const Clock &mark) {
  const std::lock_guard lock(mutex);
  join(clocks[host], mark);
  forgetWhatTheHostKnows();
}

void Checker::hide(Actor actor, const Clock &mark) {
  const std::lock_guard lock(mutex);
  for (Actor other = 0; other < mark.size(); ++other)
    news |= !knows(clocks[actor], other, mark[other]) && mark[other] != 0;
}

bool Checker::hidNews() const {
  const std::lock_guard lock(mutex);
  return news;
}

Result<void> Checker::end(Actor actor, const std::string &what, uint64_t begin, uint64_t bytes) {
  const std::lock_guard lock(mutex);
  if (actor != host)
    join(clocks[actor], clocks[host]);
  const Result<void> result = check(actor, clocks[actor], what, begin, begin + bytes, true);
  std::erase_if(pasts, [&](const Past &past) { return past.begin >= begin && past.end <= begin + bytes; });
  return result;
}

// What is queued later comes behind what the host knows, so that no check can fail on it.
void Checker::forgetWhatTheHostKnows() {
  std::erase_if(pasts, [&](const Past &past) { return knows(clocks[host], past.actor, past.time); });
}

std::vector<std::string> Checker::violations() const {
  const std::lock_guard lock(mutex);
  return found;
}

uint64_t Checker::besideOthers() const {
  const std::lock_guard lock(mutex);
  return beside;
}

void Checker::forgetAll() {
  const std::lock_guard lock(mutex);
  beside = 0;
  news = false;
  found.clear();
  pasts.clear();
}

Checker &checker() {
  static auto *made = new Checker;
  return *made;
}

} // namespace strict
