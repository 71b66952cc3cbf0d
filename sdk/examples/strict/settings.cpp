// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "settings.hpp"

#include <nlohmann/json.hpp>

#include <charconv>
#include <sstream>

namespace strict {
namespace {

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

} // namespace

std::string Control::configure(std::string_view words) {
  Settings fresh;
  std::optional<Fault> failing, dropping, hiding;
  std::istringstream stream{std::string(words)};
  for (std::string word; stream >> word;) {
    const size_t equals = std::min(word.find('='), word.size());
    const std::string key = word.substr(0, equals), value = equals < word.size() ? word.substr(equals + 1) : "";
    const std::pair<const char *, uint64_t *> numbers[] = {
        {"seed", &fresh.seed}, {"delay_us", &fresh.delayUs}, {"split", &fresh.split},
        {"peer", &fresh.peer}, {"memory", &fresh.memory},    {"clock", &fresh.clock},
        {"skew", &fresh.skew}, {"late", &fresh.late},        {"layouts", &fresh.layouts}};
    bool known = false;
    for (const auto &[name, place] : numbers)
      if (key == name) {
        const auto parsed = number(value);
        if (!parsed)
          return "expected a number in '" + word + "'";
        *place = *parsed;
        known = true;
      }
    if (key == "slow") {
      const size_t price = value.rfind('='), colon = value.rfind(':');
      const bool whole = price != std::string::npos && colon != std::string::npos && colon > price;
      const auto ns = whole ? number(value.substr(price + 1, colon - price - 1)) : std::nullopt;
      const auto rate = whole ? number(value.substr(colon + 1)) : std::nullopt;
      if (!ns || !rate || *rate == 0)
        return "expected slow=FROM->TO=NS:BYTES_PER_SECOND in '" + word + "'";
      fresh.slow.push_back({value.substr(0, price), *ns, *rate});
      known = true;
    }
    if (key == "cannot") {
      fresh.cannot = value;
      known = true;
    }
    if (key == "fail" || key == "drop" || key == "hide") {
      std::istringstream parts(value);
      std::string slot, nth, code;
      std::getline(parts, slot, ':');
      std::getline(parts, nth, ':');
      std::getline(parts, code);
      const auto count = number(nth), status = number(key == "fail" ? code : "0");
      if (slot.empty() || !count || !status)
        return "expected " + key + "=SLOT:N" + (key == "fail" ? ":CODE" : "") + " in '" + word + "'";
      (key == "fail"   ? failing
       : key == "drop" ? dropping
                       : hiding) = Fault{slot, *count, static_cast<int32_t>(*status)};
      known = true;
    }
    if (!known)
      return "expected a setting of control.h, found '" + word + "'";
  }
  if (fresh.split == 0)
    return "expected split to be at least 1";
  const std::lock_guard lock(mutex);
  current = fresh;
  fails = failing;
  drops = dropping;
  hides = hiding;
  calls.clear();
  bytes.clear();
  return "";
}

Settings Control::settings() const {
  const std::lock_guard lock(mutex);
  return current;
}

Result<void> Control::enter(const std::string &slot) {
  const std::lock_guard lock(mutex);
  if (const uint64_t count = ++calls[slot]; fails && fails->slot == slot && fails->number == count)
    return Error{static_cast<MortiseCode>(fails->code), "injected into call " + std::to_string(count) + " of " + slot};
  return {};
}

bool Control::isDropped(const std::string &slot) const {
  const std::lock_guard lock(mutex);
  return drops && drops->slot == slot && drops->number == calls.at(slot);
}

bool Control::isHidden(const std::string &slot) const {
  const std::lock_guard lock(mutex);
  return hides && hides->slot == slot && hides->number == calls.at(slot);
}

void Control::add(const std::string &kind, int64_t count) {
  const std::lock_guard lock(mutex);
  live[kind] += count;
}

void Control::copied(const std::string &where, uint64_t count) {
  const std::lock_guard lock(mutex);
  bytes[where] += count;
}

std::string Control::report(const std::vector<std::string> &violations, uint64_t beside, bool news) const {
  const std::lock_guard lock(mutex);
  nlohmann::ordered_json copied;
  for (const char *where : {"to_device", "to_host", "between", "within"})
    copied[where] = bytes.contains(where) ? bytes.at(where) : 0;
  const nlohmann::ordered_json whole = {{"violations", violations}, {"live", live},     {"calls", calls},
                                        {"copied", copied},         {"beside", beside}, {"news", news}};
  return whole.dump();
}

Control &control() {
  static auto *made = new Control; // threads of streams may outlive static destruction
  return *made;
}

} // namespace strict
