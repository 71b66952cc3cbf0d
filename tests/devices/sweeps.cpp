// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sweeps.hpp"

#include <mortise/graph.hpp>

namespace mortise::test {
namespace {

// Where the tensors of calls lie: in the host's memory, or, in queued calls, in that of devices.
constexpr const char *homes[] = {"", "strict:0", "strict:0,strict:1", "aloof:0,strict:0"};

// How many contexts a program makes for queued calls, and so how often it calls a slot, depends on time.
bool wasReached(const std::string &slot, uint64_t number) {
  return strictReport()["calls"].value(slot, uint64_t{0}) >= number;
}

std::string placeName(uint64_t graph, const Places &place, const std::string &home) {
  return "graph " + std::to_string(graph) + " on " + place.devices +
         (home.empty() ? "" : ", queued, tensors on " + home);
}

} // namespace

std::string settings(uint64_t seed, int split, int delayUs) {
  return "seed=" + std::to_string(seed) + " split=" + std::to_string(split) + " delay_us=" + std::to_string(delayUs) +
         (seed % 4 >= 2 ? " layouts=1" : "");
}

void Sweep::add(const Found &found, uint64_t loads, const std::string &what) {
  runs += loads;
  wrong += !found.wrong.empty();
  missingWaits += !found.violations.empty();
  leaks += !found.leaked.empty();
  if (!found.nothing())
    problems.push_back(what + ": " + found.text());
}

Sweep sweepGraphs(uint64_t first, uint64_t count, uint64_t delays, std::span<const Places> places) {
  Sweep sweep;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const bool symbolic = seed % 2 == 1;
    auto graph = randomGraph(seed, symbolic);
    for (const Places &place : places)
      for (const char *home : {homes[0], homes[1 + seed % 3]}) {
        Runs runs{.devices = place.devices, .count = *home ? 3 : 2, .rebinds = !*home && seed % 3 == 0, .home = home};
        if (symbolic)
          runs.values = {{3}, {5}, {3}};
        for (uint64_t delay = *home ? 1 : 0; delay < delays; delay += 2)
          runs.loads.push_back(settings(seed + (delay << 32), place.split, 60));
        if (!runs.loads.empty())
          sweep.add(runStrict(*graph, runs), runs.loads.size(), placeName(seed, place, home));
      }
  }
  return sweep;
}

uint64_t Plants::count() const {
  uint64_t sum = 0;
  for (const auto &[slot, number] : planted)
    sum += number;
  return sum;
}

namespace {

// The runs of one graph in which waits are left out one by one.
class WaitPlanter {
public:
  WaitPlanter(uint64_t seed, const Places &place, const std::string &home, Plants &plants)
      : seed(seed), home(home), plants(plants), graph(randomGraph(seed, false)), what(placeName(seed, place, home)),
        runs{.devices = place.devices, .home = home}, how(settings(seed, place.split, 200) + " late=1") {}

  // In programs of `count` calls. Only what they have beyond `before`, calls of each slot, is left out.
  nlohmann::json leaveOut(int count, const nlohmann::json &before = nlohmann::json::object()) {
    runs.count = count;
    runs.loads = {how};
    if (const Found found = runStrict(*graph, runs); !found.nothing()) {
      plants.missed.push_back(what + " without a plant: " + found.text());
      return before;
    }
    const nlohmann::json calls = strictReport()["calls"];
    for (const std::string slot : {"event_wait", "event_record", "event_synchronize", "event_query", "stream_wait"})
      for (uint64_t n = before.value(slot, uint64_t{0}) + 1; n <= calls.value(slot, uint64_t{0}); ++n)
        if (home.empty() || slot != "stream_wait") // otherwise it is the test's own
          leaveOut(slot, n);
    return calls;
  }

private:
  void leaveOut(const std::string &slot, uint64_t n) {
    const char *kind = slot == "event_query" ? " drop=" : " hide=";
    runs.loads = {how + kind + slot + ":" + std::to_string(n)};
    const bool found = !runStrict(*graph, runs).nothing();
    const nlohmann::json seen = strictReport();
    // What told nobody anything new cannot be missed. A wrong answer is harmless where the next call's own waits order
    // what it uses all the same: often, since a caller's calls come one behind the other in its streams.
    if (!found && (!seen["news"] || slot == "event_query")) {
      ++plants.redundant[slot];
      return;
    }
    ++plants.planted[slot];
    if (!found)
      plants.missed.push_back(what + ": " + slot + " " + std::to_string(n) + " (strict_sweeps once " +
                              std::to_string(seed) + " " + std::to_string(runs.count) + " '" + runs.devices + "' '" +
                              home + "' '" + runs.loads.front() + "')");
  }

  const uint64_t seed;
  const std::string home;
  Plants &plants;
  const std::shared_ptr<const Graph> graph;
  const std::string what;
  Runs runs;
  // Where a call has happened before the next one begins, the host knows so, and nothing that is left out in between
  // can be found: `late` keeps that from the host.
  const std::string how;
};

} // namespace

Plants leaveOutWaits(uint64_t first, uint64_t count, std::span<const Places> places) {
  Plants plants;
  for (uint64_t seed = first; seed < first + count; ++seed)
    for (const char *home : homes)
      for (const Places &place : places) {
        WaitPlanter planter(seed, place, home, plants);
        // On several streams, a wait at the end of a call is often for the end of the program alone, which the last
        // call's waits cover, too. So each call is the last once.
        if (std::string_view(home).find(',') != std::string_view::npos)
          planter.leaveOut(2, planter.leaveOut(1));
        else
          planter.leaveOut(*home ? 3 : 2);
      }
  return plants;
}

namespace {

// What has the n-th call of a slot fail, with the codes by turns.
std::string faultOf(const std::string &slot, uint64_t n, std::span<const MortiseCode> codes) {
  return slot + ":" + std::to_string(n) + ":" + std::to_string(codes[n % codes.size()]);
}

// A kernel that cannot be saved is compiled again by the next process, and one that cannot be loaded by this one, so
// that results stay right.
void failSaving(const Graph &graph, const Places &place, const std::string &how, const std::string &what,
                std::span<const MortiseCode> codes, Plants &plants) {
  for (const std::string slot : {"kernel_save", "kernel_load"}) {
    const auto run = [&](const std::string &settings) {
      forgetKernels();
      Runs runs{.devices = place.devices, .loads = {how}, .keepsKernels = true};
      if (slot == "kernel_load") // an earlier process saves what this one loads
        if (Found found = runStrict(graph, runs); !found.nothing())
          return found;
      runs.loads = {settings};
      return runStrict(graph, runs);
    };
    if (const Found found = run(how); !found.nothing()) {
      plants.missed.push_back(what + ", kernels on disk, without a plant: " + found.text());
      continue;
    }
    const nlohmann::json calls = strictReport()["calls"];
    const uint64_t times = calls.value(slot, uint64_t{0});
    if (times == 0 && calls.contains("kernel_compile")) // otherwise another device has all of it
      plants.missed.push_back(what + ": " + slot + " is never called");
    for (uint64_t n = 1; n <= times; ++n) {
      const std::string fault = faultOf(slot, n, codes);
      const Found found = run(how + " fail=" + fault);
      if (!wasReached(slot, n))
        continue;
      ++plants.planted[slot];
      const bool compiled = slot == "kernel_save" || wasReached("kernel_compile", 1);
      if (!found.nothing() || !compiled)
        plants.missed.push_back(what + ", " + fault + ": " + (compiled ? found.text() : "nothing was compiled"));
    }
  }
}

} // namespace

Plants failEveryCall(uint64_t first, uint64_t count, std::span<const MortiseCode> codes,
                     std::span<const Places> places) {
  Plants plants;
  for (uint64_t seed = first; seed < first + count; ++seed)
    for (const char *home : homes)
      for (const Places &place : places) {
        auto graph = randomGraph(seed, false);
        const std::string how = settings(seed, place.split, 20), what = placeName(seed, place, home);
        Runs runs{.devices = place.devices, .home = home, .loads = {how}};
        if (const Found found = runStrict(*graph, runs); !found.nothing()) {
          plants.missed.push_back(what + " without a plant: " + found.text());
          continue;
        }
        const nlohmann::json calls = strictReport()["calls"];
        if (!*home)
          failSaving(*graph, place, how, what, codes, plants);
        for (const auto &[slot, times] : calls.items())
          for (uint64_t n = 1; n <= times.get<uint64_t>(); ++n) {
            const std::string fault = faultOf(slot, n, codes);
            runs.loads = {how + " fail=" + fault};
            const Found found = runStrict(*graph, runs);
            if (!wasReached(slot, n))
              continue;
            ++plants.planted[slot];
            // A program that ends while calls are in flight has nobody to tell that waiting for them failed, and the
            // caller knows of errors that the context finds in its own streams later. What cannot be registered is
            // copied all the same. A plugin that does not know its layouts gets less work.
            const bool mayPass = slot.ends_with("_destroy") || slot == "layout" || slot == "memory_free" ||
                                 slot == "peer" || slot.starts_with("host_") || slot == "event_query" ||
                                 slot == "stream_status" || (*home && slot == "event_synchronize");
            const bool named = found.wrong.find("strict") != std::string::npos &&
                               found.wrong.find("injected into call") != std::string::npos &&
                               found.wrong.find(slot) != std::string::npos;
            if (!found.violations.empty() || !found.leaked.empty() || !(found.wrong.empty() ? mayPass : named))
              plants.missed.push_back(what + ", " + fault + ": " + (found.nothing() ? "no error" : found.text()));
          }
      }
  return plants;
}

} // namespace mortise::test
