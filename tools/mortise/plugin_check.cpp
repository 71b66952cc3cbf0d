// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "cases.hpp"
#include "claims.hpp"
#include "command.hpp"
#include "plugin.hpp"
#include "trials.hpp"

#include <mortise/runtime/elf.hpp>
#include <mortise/runtime/manifest.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <unistd.h>

namespace mortise::tool {
namespace {

using Json = nlohmann::ordered_json;

using Taken = std::map<std::string, std::map<std::string, size_t>>; // cases that are right, by op, by element type

class PluginChecker {
public:
  explicit PluginChecker(const PluginCheck &asked) : asked(asked), shows(isatty(STDERR_FILENO) && !asked.json) {}

  int run() {
    checkFiles();
    if (faults == 0)
      checkDevices();
    say("", faults ? std::to_string(faults) + " wrong" : "nothing wrong");
    if (asked.json)
      std::cout << report.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
    return faults ? 1 : 0;
  }

private:
  void say(const char *mark, const std::string &text) {
    progress("");
    if (asked.json)
      return;
    std::string indented;
    for (const char c : text)
      indented += c == '\n' ? "\n      " : std::string(1, c);
    while (indented.ends_with(' ') || indented.ends_with('\n'))
      indented.pop_back();
    std::cout << mark << (*mark ? std::string(6 - std::string_view(mark).size(), ' ') : "") << indented << std::endl;
  }
  void note(const char *mark, const char *check, const std::string &text) {
    report["checks"].push_back({{"outcome", mark}, {"check", check}, {"detail", text}});
    say(mark, text);
  }
  void good(const char *check, const std::string &text) { note("ok", check, text); }
  void bad(const char *check, const std::string &text) {
    ++faults;
    note("BAD", check, text);
  }
  // The last line of a terminal, which the next one replaces.
  void progress(const std::string &text) {
    if (shows)
      std::cerr << "\r\033[K" << text << std::flush;
  }

  // What can be told without loading it.
  void checkFiles() {
    const auto elf = runtime::readElf(asked.library);
    if (!elf)
      return bad("file", asked.library + ": " + elf.error().message);
    const auto exports = runtime::readExports(asked.library);
    std::vector<std::string> others;
    if (exports)
      std::ranges::copy_if(*exports, std::back_inserter(others),
                           [](const std::string &name) { return name != MORTISE_PLUGIN_SYMBOL; });
    const std::string needs = elf->needed.empty() ? "nothing" : runtime::join(elf->needed);
    if (others.empty()) {
      good("file", "it exports " MORTISE_PLUGIN_SYMBOL " alone, and needs " + needs);
    } else {
      const size_t count = others.size();
      others.resize(std::min<size_t>(count, 5));
      bad("file", "expected the one export " MORTISE_PLUGIN_SYMBOL ", found " + std::to_string(count) +
                      " more: " + runtime::join(others) + (count > others.size() ? ", ..." : "") +
                      "; another library's function of such a name may be called in place of yours, or yours in place "
                      "of it: hide them with -fvisibility=hidden, -Wl,--exclude-libs,ALL and a version script, as "
                      "mortise_add_plugin does");
    }
    auto read = runtime::readManifest(runtime::manifestPath(std::filesystem::absolute(asked.library)));
    if (!read)
      return bad("manifest", read.error().message);
    manifest = std::move(*read);
    good("manifest", manifest.name + " " + manifest.version + " of " + manifest.vendor + ": ABI revisions " +
                         std::to_string(manifest.abiOldest) + " to " + std::to_string(manifest.abiNewest) + ", opset " +
                         std::to_string(manifest.opset) + ", devices " + runtime::join(manifest.devices) +
                         (manifest.ops.empty() ? "" : ", ops of its own " + runtime::join(manifest.ops)));
    for (const std::string &text : unknownClaims(manifest))
      bad("claims", "the manifest claims " + text);
  }

  // Loads it in a process of its own, which lists its devices.
  void checkDevices() {
    auto child = Child::start({self(), "devices", "--json", "--plugins", plugins()});
    if (!child)
      return bad("load", child.error().message);
    std::string text;
    while (const auto line = (*child)->readLine(asked.limit))
      text += *line + "\n";
    const Ended ended = (*child)->end();
    const Json listed = Json::parse(text, nullptr, false);
    if (!listed.is_object())
      return bad("load", "it does not load: " + ended.how + "\n" + crashIn((*child)->said()));
    for (const Json &rejected : listed["rejected"])
      bad("load", rejected["reason"].get<std::string>());
    if (faults)
      return;
    std::vector<std::string> names;
    for (const Json &device : listed["devices"])
      if (const std::string name = device["name"];
          std::ranges::find(manifest.devices, name.substr(0, name.find(':'))) != manifest.devices.end())
        names.push_back(name); // the others are of plugins beside it
    if (names.empty())
      return note("note", "load", "it loads, and has no device on this machine, so that nothing can be tried");
    if (!asked.device.empty() && std::ranges::find(names, asked.device) == names.end())
      return bad("load", "it has no device " + asked.device + "; its devices are " + runtime::join(names));
    for (const std::string &name : names)
      if (asked.device.empty() || name == asked.device) {
        good("load", "it loads, and has device " + name);
        tryOps(name);
      }
  }

  std::string plugins() const {
    const std::string library = std::filesystem::absolute(asked.library).string();
    return asked.beside.empty() ? library : library + ":" + asked.beside;
  }

  void tryOps(const std::string &device) {
    const Trials trials = tryInChildren(asked, plugins(), device, [this](const std::string &text) { progress(text); });
    for (const Trials::Fault &fault : trials.faults)
      bad(fault.check.c_str(), fault.text);
    if (trials.count == 0)
      return trials.faults.empty() ? bad("ops", "no op is like '" + asked.ops +
                                                    "'; expected shell patterns of ops, such as "
                                                    "mortise.add,mortise.reduce_*")
                                   : void();
    judge(device, trials);
  }

  void judge(const std::string &device, const Trials &trials) {
    const std::vector<Answer> &answers = trials.answers;
    std::map<Outcome, size_t> sums;
    Taken right;
    std::map<std::string, std::map<std::string, size_t>> refusals; // by op, by reason
    Json all = Json::array();
    size_t fused = 0, chains = 0;
    for (const Answer &answer : answers) {
      fused += answer.fused;
      ++sums[answer.outcome];
      constexpr const char *words[] = {"right", "refused", "wrong", "folded"};
      all.push_back({{"case", answer.name}, {"outcome", words[static_cast<int>(answer.outcome)]}, {"why", answer.why}});
      chains += answer.outcome == Outcome::Right && answer.nodes > 1;
      if (answer.outcome == Outcome::Right && answer.nodes == 1)
        ++right[answer.op][answer.dtype];
      if (answer.outcome == Outcome::Refused)
        ++refusals[answer.op][answer.why];
      if (answer.outcome == Outcome::Wrong)
        bad("ops", answer.name + ": " + answer.why);
    }
    report["devices"][device] = all;
    std::string text;
    std::map<std::string, std::vector<std::string>> byTypes; // ops by element types
    for (const auto &[op, dtypes] : right) {
      std::string types;
      for (const auto &[dtype, number] : dtypes)
        types += (types.empty() ? "" : " ") + dtype;
      byTypes[types].push_back(op.starts_with("mortise.") ? op.substr(op.find('.') + 1) : op);
    }
    for (const auto &[types, ops] : byTypes)
      text += "\n" + types + ": " + runtime::join(ops);
    if (right.empty())
      bad("ops", "device " + device + " takes none of the " + std::to_string(answers.size()) + " cases");
    else
      good("ops", std::to_string(sums[Outcome::Right]) + " cases are right, of which " + std::to_string(chains) +
                      " are chains of ops; " + std::to_string(fused) + " candidates of several ops are right" + text);
    text = std::to_string(sums[Outcome::Refused]) + " cases are refused" +
           (asked.verbose ? "" : "; --verbose lists the reasons");
    if (asked.verbose)
      for (const auto &[op, reasons] : refusals)
        for (const auto &[why, number] : reasons)
          text += "\n" + op + " (" + std::to_string(number) + "): " + why;
    if (sums[Outcome::Refused])
      note("note", "ops", text);
    if (trials.givenUp && answers.size() < trials.count)
      bad("ops", std::to_string(trials.count - answers.size()) + " cases were not tried, because " +
                     std::to_string(trials.ends) + " processes crashed or hung");
    else
      checkClaims(answers);
    noteOwnOps(answers, right);
  }

  // The reference interpreter does not know the plugin's own ops.
  void noteOwnOps(const std::vector<Answer> &answers, const Taken &right) {
    for (const std::string &op : manifest.ops) {
      if (!isChosen(op, asked.ops))
        continue;
      const auto found = right.find(op);
      const auto tried = std::ranges::find(answers, op, &Answer::op);
      size_t cases = 0;
      if (found != right.end())
        for (const auto &[dtype, number] : found->second)
          cases += number;
      if (cases)
        note("note", "own ops",
             op + " of its own ran in " + std::to_string(cases) +
                 " cases, equal inputs with equal results; there is no reference for it, so that what it computes "
                 "was compared with nothing, and neither symbols nor its candidates alone were tried: test it against "
                 "your own definition");
      else if (tried == answers.end())
        note("note", "own ops",
             op + " of its own was not tried: its infer accepts none of the small types that were guessed; try it with "
                  "`mortise run` on a graph of yours");
      else
        note("note", "own ops", op + " of its own is declared, and the device runs none of its cases: " + tried->why);
    }
  }

  // Every claim needs a kernel.
  void checkClaims(const std::vector<Answer> &answers) {
    std::vector<ClaimedCase> cases;
    for (const Answer &answer : answers)
      if (answer.nodes == 1)
        cases.push_back({answer.op, answer.dtype, answer.why, answer.rank, answer.outcome == Outcome::Right,
                         answer.outcome == Outcome::Refused});
    const Claims claims = weighClaims(manifest, cases, asked.ops);
    for (const std::string &text : claims.refused)
      bad("claims", "the manifest claims " + text);
    if (manifest.claims.empty())
      note("note", "claims",
           "the manifest claims nothing: [[claims]] with ops, dtypes and max_rank tells people what to "
           "expect");
    else if (claims.refused.empty())
      good("claims",
           "no claim is refused; " + std::to_string(claims.shown) + " pairs of an op and an element type were right");
    if (!claims.untried.empty())
      note("note", "claims",
           "there is no case that fits these claims, so that nothing is said of them: " +
               runtime::join(claims.untried));
  }

  const PluginCheck &asked;
  const bool shows;
  runtime::Manifest manifest;
  int faults = 0;
  Json report = {{"checks", Json::array()}};
};

} // namespace

int checkPlugin(const PluginCheck &asked) {
  // Several processes, and several threads in each, make short calls. Where their threads spin at OpenMP's barriers,
  // they take the cores from each other, which doubles the time.
  setenv("OMP_WAIT_POLICY", "passive", 0);
  return PluginChecker(asked).run();
}

} // namespace mortise::tool
