// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the figures strict-device, device-faults and state-stays run: prints one line of JSON.
#include "../../tools/mortise/files.hpp"
#include "../../tools/mortise/seam.hpp"
#include "state.hpp"
#include "sweeps.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>

using namespace mortise;
using namespace mortise::test;

int main(int argc, char **argv) {
  CLI::App app("Many runs on the strict plugin (sdk/examples/strict)");
  app.require_subcommand(1);
  uint64_t first = 0, count = 1, delays = 1;
  int calls = 4;
  std::string file;

  CLI::App *graphs = app.add_subcommand("graphs", "random graphs, each with several seeds of delays");
  CLI::App *waits = app.add_subcommand("waits", "leaves out each wait and each event in turn");
  CLI::App *faults = app.add_subcommand("faults", "has each call of each slot fail once");
  for (CLI::App *command : {graphs, waits, faults}) {
    command->add_option("first", first, "the first graph's seed")->required();
    command->add_option("count", count, "how many graphs")->required()->check(CLI::PositiveNumber);
  }
  size_t place = 0;
  faults->add_option("place", place, "which combination of devices")
      ->required()
      ->check(CLI::Range(0, int(std::size(everyPlace)) - 1));
  graphs->add_option("delays", delays, "how many seeds of delays")->required()->check(CLI::PositiveNumber);
  CLI::App *show = app.add_subcommand("show", "prints the random graph of a seed, as the sweep of graphs makes it");
  show->add_option("seed", first)->required();
  std::string devices, home, settings;
  CLI::App *once = app.add_subcommand("once", "runs one random graph without symbols, as the sweep of waits does");
  once->add_option("seed", first)->required();
  once->add_option("calls", calls)->required()->check(CLI::PositiveNumber);
  once->add_option("devices", devices)->required();
  once->add_option("home", home, "the device on which the tensors lie, or ''")->required();
  once->add_option("settings", settings, "of control.h")->required();
  CLI::App *state = app.add_subcommand("state", "runs a static graph whose states stay on the device");
  state->add_option("graph", file)->required();
  state->add_option("--calls", calls)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);

  if (*show) {
    const auto text = tool::print(*randomGraph(first, first % 2 == 1));
    std::printf("%s\n", text ? text->c_str() : text.error().message.c_str());
    return text ? 0 : 1;
  }
  nlohmann::ordered_json result;
  const auto asPlants = [&](const Plants &plants) {
    result = {{"planted", plants.count()},
              {"by_slot", plants.planted},
              {"redundant", plants.redundant},
              {"missed", plants.missed}};
  };
  if (*graphs) {
    constexpr Places places[] = {{"strict:0,cpu", 2}, {"strict:0,strict:1", 2}, {"strict:0,strict:1,aloof:0", 3}};
    const Sweep sweep = sweepGraphs(first, count, delays, places);
    result = {{"runs", sweep.runs},
              {"wrong", sweep.wrong},
              {"missing_waits", sweep.missingWaits},
              {"leaks", sweep.leaks},
              {"problems", sweep.problems}};
  } else if (*once) {
    const Found found =
        runStrict(*randomGraph(first, false), {.devices = devices, .count = calls, .home = home, .loads = {settings}});
    result = {{"found", found.text()}, {"calls", strictReport()["calls"]}};
  } else if (*waits) {
    asPlants(leaveOutWaits(first, count, everyPlace));
  } else if (*faults) {
    constexpr MortiseCode codes[] = {MORTISE_OUT_OF_MEMORY, MORTISE_DEVICE_LOST};
    asPlants(failEveryCall(first, count, codes, {&everyPlace[place], 1}));
  } else {
    auto graph = tool::loadGraph(file);
    if (!graph) {
      std::fprintf(stderr, "strict_sweeps: %s\n", graph.error().message.c_str());
      return 2;
    }
    const StateRun run = runWithStates(**graph, calls);
    result = {{"calls", run.calls},
              {"states", run.states},
              {"state_bytes", run.stateBytes},
              {"caller_bytes", run.callerBytes},
              {"copied_bytes", run.copiedBytes},
              {"problem", run.problem}};
  }
  std::printf("%s\n", result.dump().c_str());
  return 0;
}
