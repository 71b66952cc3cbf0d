// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "judgement.hpp"

#include "../../runtime/toml.hpp"

#include <algorithm>
#include <charconv>

namespace mortise::conformance {
namespace {

Error invalid(const std::string &path, const std::string &key, const std::string &what) {
  return {MORTISE_INVALID_ARGUMENT, path + ": " + key + ": " + what};
}

Result<Outcome> outcomeNamed(const std::string &path, const std::string &key, const std::string &word) {
  const auto *found = std::ranges::find(outcomeNames, word);
  if (found == std::end(outcomeNames) || word == "passed")
    return invalid(path, key, "expected failed, refused, crashed or hung, found '" + word + "'");
  return static_cast<Outcome>(found - std::begin(outcomeNames));
}

} // namespace

Result<std::vector<Expectation>> readExpectations(const std::string &path) {
  const auto table = runtime::readToml(path);
  if (!table)
    return table.error();
  std::map<std::pair<std::string, size_t>, Expectation> entries; // by list and number
  for (const auto &[key, value] : *table) {
    const size_t first = key.find('.'), second = key.find('.', first == std::string::npos ? first : first + 1);
    const std::string list = key.substr(0, first);
    if ((list != "never" && list != "not-yet") || second == std::string::npos)
      return invalid(path, key,
                     "expected [[never]] and [[not-yet]], with cases, reason, and perhaps outcome and partly");
    size_t number = 0;
    std::from_chars(key.data() + first + 1, key.data() + second, number);
    Expectation &entry = entries[{list, number}];
    entry.never = list == "never";
    const std::string member = key.substr(second + 1);
    if (member == "cases" && value.kind == runtime::TomlKind::List && !value.texts.empty()) {
      entry.cases = value.texts;
    } else if (member == "reason" && value.kind == runtime::TomlKind::Text) {
      entry.reason = value.texts[0];
    } else if (member == "partly" && value.kind == runtime::TomlKind::Text && value.texts[0] == "true") {
      entry.partly = true;
    } else if (member == "outcome" && value.kind == runtime::TomlKind::Text) {
      const auto outcome = outcomeNamed(path, key, value.texts[0]);
      if (!outcome)
        return outcome.error();
      entry.outcome = *outcome;
    } else {
      return invalid(path, key, "expected cases (a list of patterns), reason, outcome (texts) or partly (true)");
    }
  }
  std::vector<Expectation> all;
  for (auto &[key, entry] : entries) {
    const std::string name = key.first + "." + std::to_string(key.second);
    if (entry.cases.empty())
      return invalid(path, name, "expected cases, a list of patterns such as \"convolution/f64/*\"");
    if (entry.reason.empty())
      return invalid(path, name, "expected a reason");
    all.push_back(std::move(entry));
  }
  return all;
}

} // namespace mortise::conformance
