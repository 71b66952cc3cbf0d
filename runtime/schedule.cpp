// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "schedule.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace mortise::runtime {
namespace {

// For each timeline, how many items are known to have happened: those up to that number that lie on the timeline.
using Clock = std::vector<uint32_t>;

void join(Clock &clock, const Clock &other) {
  for (size_t t = 0; t < clock.size(); ++t)
    clock[t] = std::max(clock[t], other[t]);
}

class Scheduler {
public:
  explicit Scheduler(const Layout &layout)
      : layout(layout), count(layout.timelines.size()), now(count + 1, Clock(count)), events(count) {}

  void add(const Item &item) {
    const auto number = static_cast<uint32_t>(after.size());
    const uint32_t own = item.timeline == none ? static_cast<uint32_t>(count) : item.timeline;
    timelines.push_back(own);
    Clock known = now[own];
    join(known, now[count]); // what is queued now comes behind what the host has waited for
    schedule.steps.push_back({static_cast<uint32_t>(schedule.waits.size())});
    wait(needed(number, item.accesses), own, known);
    schedule.steps.back().waitCount = static_cast<uint32_t>(schedule.waits.size()) - schedule.steps.back().firstWait;
    if (own < count)
      known[own] = number + 1;
    now[own] = known;
    after.push_back(std::move(known));
    remember(number, item.accesses);
  }

  Schedule finish(size_t ends) {
    mark(ends);
    std::vector<uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::sort(order, std::greater(), [&](uint32_t t) { return lastOn(t); });
    for (uint32_t t : order) // a stream that ends late has often waited for the others
      if (lastOn(t) > now[count][t]) {
        schedule.atEnd.push_back(layout.timelines[t]);
        join(now[count], now[t]);
      }
    return std::move(schedule);
  }

  // As firstEndsBehind().
  std::vector<uint32_t> endsBehind(size_t ends) const {
    std::vector<uint32_t> found(after.size(), none);
    for (uint32_t item = 0; item < found.size(); ++item)
      for (uint32_t end = 0; end < ends && found[item] == none; ++end)
        if (timelines[item] < count && after[after.size() - ends + end][timelines[item]] > item)
          found[item] = end;
    return found;
  }

private:
  struct Past {
    Access access;
    uint32_t item;
  };

  uint32_t timeline(uint32_t item) const { return timelines[item]; }
  uint32_t userOf(const Past &past) const { return past.access.user == none ? timeline(past.item) : past.access.user; }
  const MortisePlugin *pluginOf(uint32_t timeline) const {
    return timeline == count ? nullptr : layout.streams[layout.timelines[timeline]].device->plugin->table;
  }
  uint32_t lastOn(uint32_t t) const { return now[t][t]; }

  // The items behind which this one comes, each plus 1, the latest first.
  std::vector<uint32_t> needed(uint32_t number, std::span<const Access> accesses) const {
    std::vector<uint32_t> result;
    for (const Access &access : accesses)
      if (access.memory < memories.size())
        for (const Past &past : memories[access.memory])
          if (past.access.begin < access.end && access.begin < past.access.end &&
              (past.access.writes || access.writes) && timeline(past.item) != count && userOf(past) != timeline(number))
            result.push_back(past.item + 1);
    std::ranges::sort(result, std::greater());
    return result;
  }

  void wait(const std::vector<uint32_t> &items, uint32_t own, Clock &known) {
    for (uint32_t behind : items) {
      const uint32_t other = timeline(behind - 1);
      if (known[other] >= behind)
        continue;
      const bool byHost = pluginOf(own) != pluginOf(other); // a plugin knows only its own events
      schedule.waits.push_back({eventBehind(behind - 1), byHost});
      join(known, after[behind - 1]);
      if (byHost)
        join(now[count], after[behind - 1]);
    }
  }

  // Leaves out the marks of ends that come before others.
  void mark(size_t ends) {
    const size_t first = after.size() - ends;
    Clock due(count);
    for (size_t item = ends; item < first; ++item)
      if (timelines[item] < count)
        due[timelines[item]] = static_cast<uint32_t>(item) + 1;
    std::vector<bool> marked(ends, true);
    for (size_t out = 0; out < ends; ++out) {
      Clock known(count);
      for (size_t end = 0; end < ends; ++end)
        if (marked[end] && end != out)
          join(known, after[first + end]);
      marked[out] = !std::ranges::equal(known, due, std::greater_equal());
    }
    for (size_t end = 0; end < ends; ++end)
      if (marked[end])
        schedule.marks.push_back(eventBehind(static_cast<uint32_t>(first + end)));
  }

  uint32_t eventBehind(uint32_t item) {
    uint32_t &record = schedule.steps[item].record;
    if (record == none) {
      const uint32_t on = timeline(item);
      record = static_cast<uint32_t>(schedule.events.size());
      schedule.events.push_back({on, events[on]++});
    }
    return record;
  }

  // A write replaces the uses that lie within it: what conflicts with those conflicts with the write, too.
  void remember(uint32_t number, std::span<const Access> accesses) {
    for (const Access &access : accesses) {
      memories.resize(std::max<size_t>(memories.size(), access.memory + 1));
      std::vector<Past> &uses = memories[access.memory];
      std::erase_if(uses, [&](const Past &past) {
        return past.item != number && past.access.begin >= access.begin && past.access.end <= access.end &&
               (access.writes || (!past.access.writes && timeline(past.item) == timeline(number)));
      });
      uses.push_back({access, number});
    }
  }

  const Layout &layout;
  const size_t count;              // of timelines; the number of the host's
  std::vector<uint32_t> timelines; // per item
  std::vector<Clock> now;          // per timeline, then the host's
  std::vector<Clock> after;        // per item: what has happened when it has
  std::vector<uint32_t> events;    // per timeline: how many it records
  std::vector<std::vector<Past>> memories;
  Schedule schedule;
};

} // namespace

static Scheduler scheduled(const Layout &layout, std::span<const Item> items) {
  Scheduler scheduler(layout);
  for (const Item &item : items)
    scheduler.add(item);
  return scheduler;
}

Schedule Schedule::make(const Layout &layout, std::span<const Item> items, size_t ends) {
  return layout.timelines.empty() ? Schedule() : scheduled(layout, items).finish(ends);
}

std::vector<uint32_t> firstEndsBehind(const Layout &layout, std::span<const Item> items, size_t ends) {
  return scheduled(layout, items).endsBehind(ends);
}

} // namespace mortise::runtime
