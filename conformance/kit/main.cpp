// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The command line of mortise-conformance.
#include "device.hpp"
#include "network.hpp"
#include "run.hpp"
#include "verdict.hpp"
#include "worker.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iostream>
#include <random>
#include <thread>

namespace mortise::conformance {
namespace {

std::string namesOfLevels() {
  std::string text;
  for (const char *name : levelNames)
    text += std::string(text.empty() ? "" : ", ") + name;
  return text;
}

// "" when the level is one of this version's.
std::string checkLevel(const std::string &word) {
  if (std::ranges::find(levelNames, word) != std::end(levelNames))
    return "";
  return "expected " + namesOfLevels() + ", found '" + word + "'";
}

std::string readShard(const std::string &word, Options &options) {
  const char *end = word.data() + word.size();
  const auto first = std::from_chars(word.data(), end, options.shard);
  if (first.ec == std::errc() && first.ptr != end && *first.ptr == '/')
    if (const auto second = std::from_chars(first.ptr + 1, end, options.shards);
        second.ec == std::errc() && second.ptr == end && options.shard >= 1 && options.shard <= options.shards)
      return "";
  return "expected I/N with I from 1 to N, found '" + word + "'";
}

// Writes what the kit wants to know of a device to a file; for a process of its own.
int answerDevice(const std::string &library, const std::string &beside, const std::string &name,
                 const std::string &answer) {
  auto device = Device::open(library, beside, name);
  Json line;
  if (device) {
    const MortiseDeviceInfo &info = (*device)->info().info;
    line = {{"name", (*device)->info().name()},
            {"hardware", info.name ? info.name : ""},
            {"features", info.features ? info.features : ""}};
  } else {
    line = {{"error", device.error().message}};
  }
  std::ofstream(answer) << line.dump(-1, ' ', false, Json::error_handler_t::replace);
  return device ? Exit::good : Exit::unusable;
}

// Judges a saved region, and writes the verdict to a file; for a process of its own.
int answerRegion(const WorkerTask &task, const std::string &file, const std::string &answer) {
  auto device = Device::open(task.plugin, task.beside, task.device);
  auto region = readRegion(file);
  Json line;
  if (!device || !region)
    line = {{"error", device ? region.error().message : task.plugin + " cannot be used: " + device.error().message}};
  else
    line = judgeRegion(**device, *region, file).json();
  std::ofstream(answer) << line.dump(-1, ' ', false, Json::error_handler_t::replace);
  return Exit::good;
}

struct Lines {
  Options options;
  WorkerTask task;
  std::vector<std::string> levels;
  std::string shard = "1/1", before, after, answer, region, cases;
  bool quick = false, list = false, outside = false;
};

void addRun(CLI::App &app, Lines &lines) {
  Options &options = lines.options;
  app.add_option("--plugin", options.plugin, "the plugin's library");
  app.add_option("--manifest", options.manifest, "its manifest; otherwise the one beside it");
  app.add_option("--beside", options.beside, "libraries that it needs, with colons between");
  app.add_option("--device", options.device, "the device, such as acme:1; otherwise its first");
  app.add_option("--level", lines.levels, namesOfLevels() + ", with commas between; otherwise core")
      ->delimiter(',')
      ->check(checkLevel);
  app.add_option("--op", options.ops, "shell patterns of ops, such as 'reduce_*', with commas between")->delimiter(',');
  app.add_option("--case", options.cases, "a case by its name, as reports and --list give it; may be repeated");
  app.add_option("--cases", lines.cases, "a file of such names, one to a line")->check(CLI::ExistingFile);
  app.add_option(
      "--graph", options.graphs,
      "in place of levels: a graph of somebody's own (.mrtg, as MORTISE_SAVE_GRAPHS has them written), with the inputs "
      "that lie beside it (.inputs), or a folder of such; may be repeated");
  app.add_option(
      "--onnx", options.onnx,
      "in place of levels: a test of the ONNX project (model.onnx and test_data_set_0), or a folder of such; "
      "may be repeated");
  app.add_option("--region", options.region, "a part of a network that an earlier run has saved, as its report says");
  app.add_flag("--quick", lines.quick, "a few cases for each op");
  app.add_flag("--list", lines.list, "lists the cases and what they cover, and runs nothing");
  app.add_flag("--outside", lines.outside, "")->group(""); // see judgeOutside
  app.add_option("--seed", options.seed, "of extents and values; otherwise a new one, which is named");
  app.add_option("--jobs", options.jobs, "workers at a time")->check(CLI::Range(1, 1024));
  app.add_option("--shard", lines.shard, "I/N: the I-th of N parts of the cases");
  app.add_option("--report", options.report, "a folder for report.json, report.html and junit.xml");
  app.add_flag("--resume", options.resume, "goes on where an earlier run with this --report and --seed ended");
  app.add_option("--expectations", options.expectations, "a file of the cases that are known not to pass");
  app.add_flag("--stop", options.stopsAtFailure, "ends when a case has failed, crashed or hung");
  app.add_option("--seconds", options.seconds, "of each case of the level stress; otherwise 1")
      ->check(CLI::Range(0.1, 1e6));
  app.add_option("--limit", options.limit, "seconds that a case may take")->check(CLI::Range(0.01, 1e6));
  app.add_option("--memory", options.memory, "bytes that a worker may have")
      ->check(CLI::Range(UINT64_C(1) << 26, UINT64_C(1) << 46));
}

// Commands of the kit's own, for its other processes.
void addOwn(CLI::App &app, Lines &lines) {
  WorkerTask &task = lines.task;
  CLI::App *work = app.add_subcommand("work", "")->group("");
  CLI::App *device = app.add_subcommand("device", "")->group("");
  CLI::App *region = app.add_subcommand("region", "")->group("");
  region->add_option("--file", lines.region)->required();
  region->add_option("--answer", lines.answer)->required();
  for (CLI::App *command : {work, device, region}) {
    command->add_option("plugin", task.plugin)->required();
    command->add_option("--beside", task.beside);
    command->add_option("--device", task.device);
  }
  device->add_option("--answer", lines.answer)->required();
  work->add_option("--seed", task.seed)->required();
  work->add_option("--memory", task.memory)->required();
  work->add_option("--seconds", task.seconds);
  work->add_option("--folder", task.folder);
  work->add_option("--list", task.list)->required();
  work->add_option("--first", task.first)->required();
  work->add_option("--count", task.count)->required();
  work->add_flag("--leaks", task.leaks);
}

int refuse(const std::string &why) {
  std::cerr << "mortise-conformance: " << why << "\n";
  return Exit::usage;
}

int main(int count, char **words) {
  CLI::App app("Judges a Mortise plugin: what it can do, how exactly, with proof.", "mortise-conformance");
  Lines lines;
  addRun(app, lines);
  addOwn(app, lines);
  CLI::App *diff = app.add_subcommand("diff", "what changed between two reports; status 1 when something is worse");
  diff->add_option("before", lines.before, "a report.json")->required();
  diff->add_option("after", lines.after, "another")->required();
  lines.options.jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  try {
    app.parse(count, words);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? Exit::good : Exit::usage;
  }
  if (app.got_subcommand("work"))
    return work(lines.task);
  if (app.got_subcommand("device"))
    return answerDevice(lines.task.plugin, lines.task.beside, lines.task.device, lines.answer);
  if (app.got_subcommand("region"))
    return answerRegion(lines.task, lines.region, lines.answer);
  if (app.got_subcommand(diff))
    return showDifference(lines.before, lines.after);
  Options &options = lines.options;
  for (const std::string &word : lines.levels.empty() ? std::vector<std::string>{"core"} : lines.levels)
    options.levels.push_back(static_cast<Level>(std::ranges::find(levelNames, word) - std::begin(levelNames)));
  options.extent = lines.quick ? Extent::Quick : Extent::Full;
  if (const std::string wrong = readShard(lines.shard, options); !wrong.empty())
    return refuse("--shard: " + wrong);
  if (!lines.cases.empty()) {
    std::ifstream file(lines.cases);
    for (std::string line; std::getline(file, line);)
      if (!line.empty())
        options.cases.push_back(line);
    if (options.cases.empty())
      return refuse("--cases: expected names of cases, one to a line, found none in " + lines.cases);
  }
  if (options.resume && (options.report.empty() || app.count("--seed") == 0))
    return refuse("--resume: expected --report and --seed of the run that is to go on");
  if (app.count("--seed") == 0)
    options.seed = std::random_device()() | static_cast<uint64_t>(std::random_device()()) << 32;
  if (lines.list)
    return listCases(options);
  if (lines.outside)
    return judgeOutside(options);
  if (options.plugin.empty())
    return refuse("expected --plugin LIBRARY, or --list");
  return options.region.empty() ? runKit(options) : repeatRegion(options);
}

} // namespace
} // namespace mortise::conformance

int main(int count, char **words) { return mortise::conformance::main(count, words); }
