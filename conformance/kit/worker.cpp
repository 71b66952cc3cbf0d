// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "worker.hpp"

#include "trial.hpp"

#include <fstream>
#include <iostream>
#include <set>
#include <sys/resource.h>
#include <unistd.h>

namespace mortise::conformance {
namespace {

// Lines of the plugin's own go to standard error.
class Lines {
public:
  Lines() : file(dup(STDOUT_FILENO)) { dup2(STDERR_FILENO, STDOUT_FILENO); }
  void say(const Json &line) const {
    const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    for (size_t done = 0; done < text.size();) {
      const ssize_t count = write(file, text.data() + done, text.size() - done);
      if (count <= 0)
        _exit(3); // nobody listens
      done += static_cast<size_t>(count);
    }
  }

private:
  const int file;
};

void limit(uint64_t bytes) {
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
#ifndef MORTISE_SANITIZED // whose shadow is larger than any limit
  const rlimit most{bytes, bytes};
  setrlimit(RLIMIT_DATA, &most);
#endif
}

std::vector<std::string> idsOf(const WorkerTask &task) {
  std::ifstream file(task.list);
  std::vector<std::string> ids;
  std::string line;
  for (size_t i = 0; std::getline(file, line); ++i)
    if (i >= task.first && i < task.first + task.count)
      ids.push_back(line);
  return ids;
}

std::string leakText(uint64_t bytes, const char *when) {
  return "each time that it is " + std::string(when) + ", " + std::to_string(bytes) +
         " bytes of memory are not given back";
}

} // namespace

std::vector<std::string> argumentsOf(const WorkerTask &task) {
  std::vector<std::string> arguments = {"work",      task.plugin,
                                        "--beside",  task.beside,
                                        "--device",  task.device,
                                        "--seed",    std::to_string(task.seed),
                                        "--memory",  std::to_string(task.memory),
                                        "--seconds", std::to_string(task.seconds),
                                        "--folder",  task.folder,
                                        "--list",    task.list,
                                        "--first",   std::to_string(task.first),
                                        "--count",   std::to_string(task.count)};
  if (task.leaks)
    arguments.emplace_back("--leaks");
  return arguments;
}

int work(const WorkerTask &task) {
  limit(task.memory);
  const Lines lines;
  auto device = Device::open(task.plugin, task.beside, task.device);
  if (!device) {
    lines.say({{"unusable", device.error().message}});
    return Exit::unusable;
  }
  lines.say({{"ready", (*device)->info().name()}});
  const auto stillThere = [&] { lines.say({{"still", "there"}}); };
  Trials trials(**device, {task.seed, task.seconds, task.folder, stillThere});
  std::set<Op> tried; // for leaks
  for (const std::string &id : idsOf(task)) {
    lines.say({{"begin", id}});
    const auto point = pointOf(id);
    if (!point) {
      lines.say({{"unusable", point.error().message}});
      return Exit::unusable;
    }
    Verdict verdict = trials.run(*point);
    const bool hasWork = point->probe == Probe::None &&
                         (point->shape == Shape::Prime || point->shape == Shape::Tail || point->shape == Shape::Rank1);
    if (task.leaks && hasWork && verdict.outcome == Outcome::Passed && tried.insert(point->op).second) {
      if (const uint64_t leak = trials.leakOf(*point, false))
        verdict.why = leakText(leak, "run");
      else if (const uint64_t compiled = trials.leakOf(*point, true))
        verdict.why = leakText(compiled, "compiled, run and destroyed");
      if (!verdict.why.empty()) {
        verdict.outcome = Outcome::Failed;
        verdict.kind = "leak";
      }
    }
    lines.say(verdict.json());
  }
  return 0;
}

} // namespace mortise::conformance
