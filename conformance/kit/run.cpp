// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run.hpp"

#include "../../runtime/plugin_record.hpp"
#include "../../tools/mortise/command.hpp"
#include "../networks/given.hpp"
#include "device.hpp"
#include "onnx.hpp"
#include "report.hpp"
#include "worker.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fnmatch.h>
#include <fstream>
#include <iostream>
#include <set>

namespace mortise::conformance {
namespace {

namespace fs = std::filesystem;

int fail(Exit exit, const std::string &why) {
  std::cerr << "mortise-conformance: " << why << "\n";
  return exit;
}

bool isLike(const Point &point, const std::string &pattern) {
  const std::string name = subjectOf(point), bare = name.substr(name.find_first_of("./") + 1);
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0 || fnmatch(pattern.c_str(), bare.c_str(), 0) == 0;
}

// How many cases the run has to have.
size_t expectedCount(const Options &options, const std::vector<Point> &points) {
  if (!options.isWhole())
    return points.size();
  size_t count = 0;
  for (const Level level : options.levels)
    count += corpusSize(level, options.extent);
  return count;
}

Result<Subject> examine(const Options &options) {
  Subject made;
  std::error_code failed;
  made.library = fs::absolute(options.plugin, failed).string();
  if (!fs::is_regular_file(made.library, failed))
    return Error{MORTISE_NOT_FOUND, "--plugin: expected a plugin's library, found no file '" + made.library + "'"};
  auto manifest =
      runtime::readManifest(options.manifest.empty() ? runtime::manifestPath(made.library) : options.manifest);
  if (!manifest)
    return manifest.error();
  made.manifest = std::move(*manifest);
  for (const auto &[file, sum] :
       {std::pair(made.library, &made.librarySha256), std::pair(tool::self(), &made.kitSha256)}) {
    auto hashed = runtime::sha256Of(file);
    if (!hashed)
      return hashed.error();
    *sum = std::move(*hashed);
  }
  return made;
}

// Asks a worker, because the plugin may crash as it is loaded.
Result<void> findDevice(const Options &options, Subject &subject) {
  std::string said;
  const tool::Scratch scratch;
  const std::string answer = scratch.folder + "/device";
  const auto ended = tool::runCommand({tool::self(), "device", options.plugin, "--beside", options.beside, "--device",
                                       options.device, "--answer", answer},
                                      options.limit, &said);
  if (!ended)
    return ended.error();
  std::ifstream file(answer);
  const Json read = Json::parse(file, nullptr, false);
  if (!ended->good || !read.is_object())
    return Error{MORTISE_NOT_FOUND, options.plugin + " cannot be used: " +
                                        (read.is_object() ? read.value("error", "") : ended->how + "\n" + said)};
  subject.device = read["name"];
  subject.deviceName = read["hardware"];
  subject.features = read["features"];
  return {};
}

// Verdicts of an earlier run with the same seed, of the same plugin and kit.
Result<std::map<std::string, Verdict>> earlier(const Options &options, const Json &key, const std::string &journal) {
  std::map<std::string, Verdict> known;
  std::ifstream file(journal);
  std::string line;
  if (!options.resume || !std::getline(file, line))
    return known;
  if (Json::parse(line, nullptr, false) != key)
    return Error{MORTISE_INVALID_ARGUMENT,
                 journal + ": expected verdicts of the same plugin, kit, device and seed, found those of another run; "
                           "give its --seed, or leave --resume out"};
  while (std::getline(file, line))
    if (const Json read = Json::parse(line, nullptr, false); read.is_object())
      known[read.value("case", "")] = Verdict::read(read);
  return known;
}

Result<void> save(const std::string &path, const std::string &text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file ? Result<void>() : Error{MORTISE_INVALID_ARGUMENT, path + ": cannot be written; is there room?"};
}

Result<void> saveAll(const Options &options, const Json &report) {
  if (options.report.empty())
    return {};
  const std::pair<const char *, std::string> files[] = {
      {"report.json", report.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"},
      {"junit.xml", junitOf(report)},
      {"report.html", pageOf(report)}};
  for (const auto &[name, text] : files)
    if (auto done = save(options.report + "/" + name, text); !done)
      return done;
  return {};
}

} // namespace

// The graphs that are named, and those in folders, by name. Three sets of numbers each, or one, also where it is given.
static Result<std::vector<Point>> pointsOfGraphs(const Options &options) {
  std::vector<std::string> files;
  for (const std::string &path : options.graphs) {
    std::error_code failed;
    if (!fs::is_directory(path, failed)) {
      if (!fs::is_regular_file(path, failed))
        return Error{MORTISE_INVALID_ARGUMENT,
                     "--graph: expected a graph's file or a folder of them, found no '" + path + "'"};
      files.push_back(path);
      continue;
    }
    const size_t before = files.size();
    for (const auto &entry : fs::directory_iterator(path, failed))
      if (entry.path().extension() == ".mrtg")
        files.push_back(entry.path().string());
    if (failed || files.size() == before)
      return Error{MORTISE_INVALID_ARGUMENT, "--graph: expected files that end in .mrtg in the folder " + path +
                                                 ", found " + (failed ? failed.message() : "none")};
    std::sort(files.begin() + static_cast<ptrdiff_t>(before), files.end());
  }
  std::vector<Point> points;
  for (const std::string &file : files)
    for (int number = 1; number <= (options.extent == Extent::Full && !hasInputs(file) ? 3 : 1); ++number) {
      Point point{.number = static_cast<uint16_t>(number), .probe = Probe::Network};
      point.file = fs::absolute(file).string();
      points.push_back(std::move(point));
    }
  return points;
}

Result<std::vector<Point>> chosen(const Options &options, Coverage &coverage) {
  std::vector<Point> points;
  if (!options.graphs.empty())
    return pointsOfGraphs(options);
  if (!options.onnx.empty())
    return onnxPoints(options.onnx);
  for (const std::string &id : options.cases) {
    auto point = pointOf(id);
    if (!point)
      return point.error();
    points.push_back(*point);
  }
  if (!points.empty())
    return points;
  std::set<std::string> unmet(options.ops.begin(), options.ops.end());
  for (const Level level : options.levels)
    for (const Point &point : pointsOf(level, options.extent, &coverage)) {
      bool isChosen = options.ops.empty();
      for (const std::string &pattern : options.ops)
        if (isLike(point, pattern)) {
          isChosen = true;
          unmet.erase(pattern);
        }
      if (isChosen)
        points.push_back(point);
    }
  if (!unmet.empty())
    return Error{MORTISE_INVALID_ARGUMENT, "--op: no op with cases of these levels is like '" + *unmet.begin() +
                                               "'; expected shell patterns such as 'reduce_*' (--list --level "
                                               "core,composite,dynamic,training,quantised,models,abi,perf names all "
                                               "cases)"};
  if (options.shards > 1) {
    std::vector<Point> part; // a piece of each op, in runs that share kernels
    constexpr size_t piece = 16;
    for (size_t i = 0; i < points.size(); ++i)
      if (i / piece % static_cast<size_t>(options.shards) == static_cast<size_t>(options.shard - 1))
        part.push_back(points[i]);
    points = std::move(part);
  }
  return points;
}

int runKit(const Options &options) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<Expectation> expectations;
  if (!options.expectations.empty()) {
    auto read = readExpectations(options.expectations);
    if (!read)
      return fail(Exit::usage, read.error().message);
    expectations = std::move(*read);
  }
  auto subject = examine(options);
  if (!subject)
    return fail(Exit::unusable, subject.error().message);
  if (auto found = findDevice(options, *subject); !found)
    return fail(Exit::unusable, found.error().message);
  Coverage coverage;
  const auto points = chosen(options, coverage);
  if (!points)
    return fail(Exit::usage, points.error().message);
  std::cerr << "seed " << options.seed << ": " << points->size() << " cases on " << subject->device << "\n";
  const Json key = {{"seed", options.seed},
                    {"plugin", subject->librarySha256},
                    {"kit", subject->kitSha256},
                    {"device", subject->device}};
  std::string journal;
  std::map<std::string, Verdict> known;
  if (!options.report.empty()) {
    std::error_code failed;
    fs::create_directories(options.report, failed);
    journal = options.report + "/verdicts.jsonl";
    auto read = earlier(options, key, journal);
    if (!read)
      return fail(Exit::usage, read.error().message);
    known = std::move(*read);
    if (known.empty())
      if (auto done = save(journal, key.dump() + "\n"); !done)
        return fail(Exit::usage, done.error().message);
  }
  const auto stops = [&](const Verdict &verdict) {
    return options.stopsAtFailure && isBad(verdict.outcome) && !isExpected(verdict, expectations);
  };
  const Swept swept = sweep(options, subject->device, *points, known, journal, stops);
  const Judgement judgement = judge(options, swept, expectedCount(options, *points), subject->manifest, expectations);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const Json report = reportOf(options, *subject, swept, judgement, coverage, seconds.count());
  if (auto done = saveAll(options, report); !done)
    return fail(Exit::usage, done.error().message);
  std::cout << summaryOf(report);
  return judgement.exit;
}

int repeatRegion(const Options &options) {
  std::string said;
  const tool::Scratch scratch;
  const std::string answer = scratch.folder + "/verdict";
  const auto ended = tool::runCommand({tool::self(), "region", options.plugin, "--beside", options.beside, "--device",
                                       options.device, "--file", options.region, "--answer", answer},
                                      options.limit, &said);
  if (!ended)
    return fail(Exit::unusable, ended.error().message);
  std::ifstream file(answer);
  const Json read = Json::parse(file, nullptr, false);
  if (read.is_object() && read.contains("error"))
    return fail(Exit::usage, read["error"]);
  Verdict verdict{.id = options.region, .outcome = Outcome::Crashed, .why = ended->how + "\n" + said};
  if (read.is_object())
    verdict = Verdict::read(read);
  std::cout << nameOf(verdict.outcome) << " " << options.region << (verdict.why.empty() ? "" : ": ") << verdict.why
            << "\n";
  if (verdict.outcome == Outcome::Refused)
    return Exit::nothing;
  return verdict.outcome == Outcome::Passed ? Exit::good : Exit::failed;
}

int listCases(const Options &options) {
  Coverage coverage;
  const auto points = chosen(options, coverage);
  if (!points)
    return fail(Exit::usage, points.error().message);
  for (const Point &point : *points)
    std::cout << idOf(point) << "\n";
  std::cerr << points->size() << " cases\n";
  for (const auto &[name, pairs] : coverage.axes)
    std::cerr << name << ": " << pairs.second << " of " << pairs.first << " pairs\n";
  return Exit::good;
}

int showDifference(const std::string &before, const std::string &after) {
  Json read[2];
  for (size_t i = 0; i < 2; ++i) {
    const std::string &path = i ? after : before;
    std::ifstream file(path);
    read[i] = Json::parse(file, nullptr, false);
    if (!read[i].is_object() || !read[i].contains("cases") ||
        read[i].value("schema", "") != "mortise-conformance-report-1")
      return fail(Exit::usage, path + ": expected a report.json of this kit");
  }
  bool worse = false;
  std::cout << differenceOf(read[0], read[1], worse);
  return worse ? Exit::failed : Exit::good;
}

} // namespace mortise::conformance
