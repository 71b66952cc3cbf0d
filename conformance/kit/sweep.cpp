// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sweep.hpp"

#include "../../tools/mortise/command.hpp"
#include "worker.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <iostream>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace mortise::conformance {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t mostOfPortion =
    256;                         // cases of one worker: a fresh process now and then, for what a plugin leaves behind
constexpr size_t mostEnds = 200; // crashes and hangs after which the sweep is given up

// The line that a crash leaves (runtime/crash.hpp), or the end of what was said.
std::string crashIn(const std::string &said) {
  if (const size_t at = said.find("mortise: SIG"); at != std::string::npos)
    return said.substr(at, said.find('\n', at) - at);
  return said.substr(said.size() - std::min<size_t>(said.size(), 400));
}

class Sweep {
public:
  Sweep(const Options &options, std::string device, std::vector<std::string> ids, const std::string &journal,
        const std::function<bool(const Verdict &)> &stops, int jobs)
      : options(options), jobs(jobs), device(std::move(device)), ids(std::move(ids)), stops(stops),
        shows(isatty(STDERR_FILENO)) {
    if (!journal.empty())
      file.open(journal, std::ios::app);
    std::ofstream list(listFile());
    for (const std::string &id : this->ids)
      list << id << "\n";
    verdicts.resize(this->ids.size());
    portion = std::clamp<size_t>(this->ids.size() / static_cast<size_t>(4 * jobs), 8, mostOfPortion);
  }

  void run() {
    std::vector<std::thread> threads;
    for (int i = 0; i < jobs; ++i)
      threads.emplace_back([this] {
        for (size_t first; (first = next.fetch_add(portion)) < ids.size();)
          runPortion(first, std::min(portion, ids.size() - first));
      });
    for (std::thread &thread : threads)
      thread.join();
    progress("");
  }

  // It was given up, or stopped.
  bool isEnded() const { return isStopped || !broken.empty(); }
  std::vector<std::optional<Verdict>> verdicts;
  std::string broken;

private:
  std::string listFile() const { return scratch.folder + "/cases"; }

  void runPortion(size_t first, size_t count) {
    const size_t end = first + count;
    while (first < end) {
      const WorkerTask task{options.plugin,
                            options.beside,
                            device,
                            options.seed,
                            options.memory,
                            options.seconds,
                            options.report,
                            listFile(),
                            first,
                            end - first,
                            options.extent == Extent::Full || first == 0};
      std::vector<std::string> command = {tool::self()};
      std::ranges::copy(argumentsOf(task), std::back_inserter(command));
      auto child = tool::Child::start(command);
      if (!child)
        return giveUp(child.error().message);
      const Clock::time_point begin = Clock::now();
      bool open = false; // a case has begun and not ended
      while (const auto line = isStopped ? std::nullopt : (*child)->readLine(options.limit)) {
        const Json read = Json::parse(*line, nullptr, false);
        if (read.contains("unusable"))
          return giveUp(read["unusable"]);
        if (read.contains("begin"))
          open = true;
        if (read.contains("outcome")) {
          keep(first++, Verdict::read(read));
          open = false;
        }
      }
      if (isStopped)
        return;
      const tool::Ended ended = (*child)->end();
      if (first == end && ended.good)
        return;
      if (!open && first == end)
        --first; // at the worker's end: what its last case left behind
      const bool hung = ended.how.starts_with("no answer");
      Verdict verdict{.id = ids[first],
                      .outcome = hung ? Outcome::Hung : Outcome::Crashed,
                      .why = ended.how + ": " + crashIn((*child)->said())};
      if (!open)
        verdict.why = "before or behind the case, " + verdict.why;
      verdict.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      keep(first++, std::move(verdict));
      if (++ends >= mostEnds)
        return giveUp(std::to_string(mostEnds) + " processes crashed or hung");
    }
  }

  void giveUp(const std::string &why) {
    const std::lock_guard lock(mutex);
    if (broken.empty())
      broken = why;
    next = ids.size();
  }

  void keep(size_t i, Verdict verdict) {
    const std::lock_guard lock(mutex);
    if (file.is_open())
      file << verdict.json().dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
    if (!verdicts[i])
      ++done;
    ++sums[static_cast<size_t>(verdict.outcome)];
    if (stops && stops(verdict)) {
      isStopped = true;
      next = ids.size();
    }
    verdicts[i] = std::move(verdict);
    const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
    if (!shows || seconds - shown < 0.2)
      return;
    shown = seconds;
    const double left = seconds / static_cast<double>(done) * static_cast<double>(ids.size() - done);
    std::string text = std::to_string(done) + " of " + std::to_string(ids.size()) + " cases, " +
                       std::to_string(std::lround(left)) + " s left";
    for (size_t outcome = 0; outcome < std::size(outcomeNames); ++outcome)
      if (sums[outcome])
        text += ", " + std::to_string(sums[outcome]) + " " + outcomeNames[outcome];
    progress(text);
  }

  // The last line of a terminal, which the next one replaces.
  void progress(const std::string &text) const {
    if (shows)
      std::cerr << "\r\033[K" << text << std::flush;
  }

  const Options &options;
  const int jobs; // workers at a time
  const std::string device;
  const std::vector<std::string> ids;
  const std::function<bool(const Verdict &)> &stops;
  std::atomic<bool> isStopped = false;
  const bool shows;
  const tool::Scratch scratch;
  std::ofstream file;
  std::mutex mutex;
  std::atomic<size_t> next = 0, ends = 0;
  size_t done = 0, portion = 0;
  std::array<size_t, std::size(outcomeNames)> sums{};
  const Clock::time_point began = Clock::now();
  double shown = 0;
};

} // namespace

Swept sweep(const Options &options, const std::string &device, const std::vector<Point> &points,
            const std::map<std::string, Verdict> &known, const std::string &journal,
            const std::function<bool(const Verdict &)> &stops) {
  Swept swept;
  std::vector<std::string> missing, clocked; // another worker would be heard in a clock
  for (const Point &point : points)
    if (std::string id = idOf(point); !known.contains(id))
      (point.probe == Probe::Speed ? clocked : missing).push_back(std::move(id));
  swept.resumed = points.size() - missing.size() - clocked.size();
  Sweep made(options, device, std::move(missing), journal, stops, options.jobs);
  made.run();
  Sweep alone(options, device, std::move(clocked), journal, stops, 1);
  if (!made.isEnded())
    alone.run();
  swept.broken = made.broken + alone.broken;
  auto next = made.verdicts.begin(), nextAlone = alone.verdicts.begin();
  for (const Point &point : points) {
    const auto found = known.find(idOf(point));
    auto &at = point.probe == Probe::Speed ? nextAlone : next;
    if (found != known.end()) {
      swept.verdicts.push_back(found->second);
      continue;
    }
    if (*at)
      swept.verdicts.push_back(std::move(**at));
    ++at;
  }
  return swept;
}

} // namespace mortise::conformance
