// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/runtime/place_rule.hpp>

#include <mortise/runtime/manifest.hpp>

#include <algorithm>
#include <fnmatch.h>
#include <ranges>

namespace mortise::runtime {
namespace {

// The parts of `text` between separators, without those that are empty.
std::vector<std::string> parts(std::string_view text, char separator) {
  std::vector<std::string> found;
  for (const auto part : std::views::split(text, separator))
    if (!part.empty())
      found.emplace_back(part.begin(), part.end());
  return found;
}

bool fits(const std::string &pattern, std::string_view text) {
  return ::fnmatch(pattern.c_str(), std::string(text).c_str(), 0) == 0;
}

Error wrong(const std::string &rule, const std::string &why) {
  return {MORTISE_INVALID_ARGUMENT, "place rule '" + rule + "': " + why +
                                        "; write op=PATTERN, location=PATTERN and one of device=NAMES and "
                                        "not_device=NAMES, with spaces between them"};
}

Result<PlaceRule> parseRule(const std::string &text) {
  PlaceRule rule;
  rule.text = text;
  std::vector<std::string> seen;
  for (const std::string &field : parts(text, ' ')) {
    const size_t equals = field.find('=');
    const std::string key = field.substr(0, equals);
    const std::string value = equals == std::string::npos ? std::string() : field.substr(equals + 1);
    if (value.empty())
      return wrong(text, "expected FIELD=VALUE, found '" + field + "'");
    if (std::ranges::find(seen, key) != seen.end())
      return wrong(text, "found " + key + " twice");
    seen.push_back(key);
    if ((key == "op" || key == "location") && value.find(',') != std::string::npos)
      return wrong(text,
                   "expected one pattern in " + key + ", found a list, '" + value + "'; give each a rule of its own");
    if (key == "op") {
      rule.op = value.starts_with("mortise.") ? value.substr(value.find('.') + 1) : value;
    } else if (key == "location") {
      rule.location = value;
    } else if (key == "device" || key == "not_device") {
      if (!rule.devices.empty())
        return wrong(text, "found both device and not_device");
      rule.devices = parts(value, ',');
      if (std::ranges::find(rule.devices, "auto") != rule.devices.end())
        return wrong(text, "expected names of devices in " + key + ", found 'auto'");
      rule.forbids = key == "not_device";
    } else {
      return wrong(text, "unknown field '" + key + "', the nearest is '" +
                             nearest(key, {"op", "location", "device", "not_device"}) + "'");
    }
  }
  if (rule.devices.empty())
    return wrong(text, "it names no device");
  return rule;
}

} // namespace

bool PlaceRule::matches(std::string_view op, std::string_view location) const {
  constexpr std::string_view dialect = "mortise.";
  return fits(this->op, op.starts_with(dialect) ? op.substr(dialect.size()) : op) && fits(this->location, location);
}

bool PlaceRule::names(std::string_view kind, uint32_t ordinal) const {
  const std::string full = std::string(kind) + ":" + std::to_string(ordinal);
  return std::ranges::any_of(devices, [&](const std::string &name) { return name == kind || name == full; });
}

Result<std::vector<PlaceRule>> parsePlaceRules(std::string_view text) {
  std::vector<PlaceRule> rules;
  for (const std::string &part : parts(text, ';')) {
    if (part.find_first_not_of(' ') == std::string::npos)
      continue;
    Result<PlaceRule> rule = parseRule(part);
    if (!rule)
      return rule.error();
    rules.push_back(std::move(*rule));
  }
  return rules;
}

} // namespace mortise::runtime
