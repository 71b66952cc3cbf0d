// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "trials.hpp"

#include "command.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <mutex>
#include <thread>

namespace mortise::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr int mostEnds = 8; // crashes and hangs after which a device is given up

class Runner {
public:
  Runner(const PluginCheck &asked, const std::string &plugins, const std::string &device,
         const std::function<void(const std::string &)> &progress)
      : asked(asked), plugins(plugins), device(device), progress(progress) {}

  // Case number i is tried in lane i modulo the number of lanes, so that a lane has slow cases and fast ones.
  Trials run() {
    std::vector<std::thread> lanes;
    for (int lane = 0; lane < asked.jobs; ++lane)
      lanes.emplace_back([this, lane] { runLane(static_cast<size_t>(lane)); });
    for (std::thread &lane : lanes)
      lane.join();
    std::ranges::sort(trials.answers, {}, &Answer::number);
    return std::move(trials);
  }

private:
  // A child that crashes or hangs has a successor for the cases behind the one at fault.
  void runLane(size_t next) {
    while (!isOver(next)) {
      auto child = Child::start({self(), "plugin", "try", plugins, "--device", device, "--ops", asked.ops, "--first",
                                 std::to_string(next), "--every", std::to_string(asked.jobs)});
      if (!child)
        return fault("ops", child.error().message);
      bool complete = false;
      std::optional<Answer> open; // a case that has begun and not ended
      while (const auto line = (*child)->readLine(asked.limit)) {
        const Json read = Json::parse(*line, nullptr, false);
        if (read.contains("begin")) {
          open = Answer{read["begin"], read["name"], read["op"], read["dtype"], "", read["rank"], read["nodes"]};
          next = open->number + static_cast<size_t>(asked.jobs);
          tell(*open);
        } else if (read.contains("end") && open) {
          open->outcome = static_cast<Outcome>(read["outcome"].get<int>());
          open->why = read["why"];
          open->fused = read["fused"];
          keep(std::move(*open));
          open.reset();
        } else if (read.contains("complete")) {
          complete = true;
        } else {
          hear(read);
        }
      }
      const Ended ended = (*child)->end();
      if (ended.good && complete)
        return;
      const std::string why =
          ended.how + (ended.good ? ", before the end of its cases" : ": " + crashIn((*child)->said()));
      if (!open)
        return fault("ops", "between cases, or behind the last, " + why);
      open->why = why;
      keep(std::move(*open));
      const std::lock_guard lock(mutex);
      ++trials.ends;
    }
  }

  bool isOver(size_t next) {
    const std::lock_guard lock(mutex);
    trials.givenUp = trials.givenUp || trials.ends >= mostEnds;
    return trials.givenUp || (isCounted && next >= trials.count);
  }
  void hear(const Json &read) {
    if (read.contains("lie")) {
      const std::lock_guard lock(mutex);
      trials.faults.push_back({"own ops", read["lie"]});
    } else if (read.contains("leak") && read["leak"] != 0) {
      fault("leaks", "each time that " + read["name"].get<std::string>() + " is compiled, run and destroyed, " +
                         std::to_string(read["leak"].get<uint64_t>()) + " bytes of memory are not given back");
    } else if (read.contains("cases")) {
      const std::lock_guard lock(mutex);
      isCounted = true;
      trials.count = read["cases"];
    }
  }
  void tell(const Answer &begun) {
    const std::lock_guard lock(mutex);
    progress(device + ": case " + std::to_string(begun.number + 1) + " of " + std::to_string(trials.count) + ": " +
             begun.name);
  }
  void keep(Answer answer) {
    const std::lock_guard lock(mutex);
    trials.answers.push_back(std::move(answer));
  }
  // What lies beside the cases, several lanes meet: one tells of it.
  void fault(const std::string &check, const std::string &text) {
    const std::lock_guard lock(mutex);
    if (std::ranges::none_of(trials.faults, [&](const Trials::Fault &known) { return check == known.check; }))
      trials.faults.push_back({check, text});
  }

  const PluginCheck &asked;
  const std::string &plugins, &device;
  const std::function<void(const std::string &)> &progress;
  std::mutex mutex;
  bool isCounted = false;
  Trials trials;
};

} // namespace

Trials tryInChildren(const PluginCheck &asked, const std::string &plugins, const std::string &device,
                     const std::function<void(const std::string &)> &progress) {
  return Runner(asked, plugins, device, progress).run();
}

std::string crashIn(const std::string &said) {
  if (const size_t at = said.find("mortise: SIG"); at != std::string::npos)
    return said.substr(at, said.find('\n', at) - at);
  return said.substr(said.size() - std::min<size_t>(said.size(), 600));
}

} // namespace mortise::tool
