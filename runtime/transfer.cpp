// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/runtime/transfer.hpp>

#include <mortise/runtime/manifest.hpp>

#include <algorithm>
#include <charconv>
#include <optional>
#include <ranges>

namespace mortise::runtime {
namespace {

constexpr double mostNs = 1e12, mostBytesPerSecond = 1e18;
constexpr std::string_view arrow = "->";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

Error wrong(std::string_view entry, const std::string &why) {
  return {MORTISE_INVALID_ARGUMENT,
          "transfer '" + std::string(entry) + "': " + why +
              "; write FROM->TO=NS:BYTES_PER_SECOND, with host or a device at each end, and commas between several, "
              "such as \"host->acme=10000:12e9, acme->host=15000:12e9\""};
}

std::optional<double> number(std::string_view text, double least, double most) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least && value <= most))
    return std::nullopt;
  return value;
}

bool hasOrdinal(std::string_view name) { return name.find(':') != std::string_view::npos; }

bool fits(std::string_view name, std::string_view memory) {
  return name == memory || (name != hostMemory && name == memory.substr(0, memory.find(':')));
}

Result<Transfer> parseTransfer(std::string_view entry) {
  const size_t equals = entry.rfind('=');
  const std::string_view ends = entry.substr(0, equals);
  const size_t middle = ends.find(arrow);
  if (equals == std::string_view::npos || middle == std::string_view::npos)
    return wrong(entry, std::string("found no ") + (equals == std::string_view::npos ? "=" : "->"));
  Transfer transfer;
  transfer.from = trimmed(ends.substr(0, middle));
  transfer.to = trimmed(ends.substr(middle + arrow.size()));
  for (const std::string &name : {transfer.from, transfer.to})
    if (name.empty() || name == "auto" || name.find_first_of(" =>") != std::string::npos)
      return wrong(entry, "expected host or the name of a device, found '" + name + "'");
  if (transfer.from == transfer.to && (transfer.from == hostMemory || hasOrdinal(transfer.from)))
    return wrong(entry, "expected two memories, found '" + transfer.from + "' twice");
  const std::string_view price = entry.substr(equals + 1);
  const size_t colon = std::min(price.find(':'), price.size());
  const std::string_view ns = trimmed(price.substr(0, colon)),
                         rate = trimmed(price.substr(std::min(colon + 1, price.size())));
  const auto time = number(ns, 0, mostNs), bandwidth = number(rate, 1, mostBytesPerSecond);
  if (!time)
    return wrong(entry, "expected nanoseconds from 0 to 1e12, found '" + std::string(ns) + "'");
  if (!bandwidth)
    return wrong(entry, "expected bytes per second from 1 to 1e18, found '" + std::string(rate) + "'");
  transfer.ns = *time;
  transfer.bytesPerSecond = *bandwidth;
  return transfer;
}

} // namespace

Result<std::vector<Transfer>> parseTransfers(std::string_view text) {
  std::vector<Transfer> transfers;
  if (trimmed(text).empty())
    return transfers;
  for (const auto part : std::views::split(text, ',')) {
    const std::string_view entry = trimmed(std::string_view(part.begin(), part.end()));
    Result<Transfer> transfer = parseTransfer(entry);
    if (!transfer)
      return transfer.error();
    if (std::ranges::any_of(
            transfers, [&](const Transfer &other) { return other.from == transfer->from && other.to == transfer->to; }))
      return wrong(entry, "found " + transfer->from + "->" + transfer->to + " twice");
    transfers.push_back(std::move(*transfer));
  }
  return transfers;
}

Result<std::string> transferText(std::span<const std::pair<std::string, std::string>> fields) {
  std::string from, to, ns, rate;
  const std::pair<std::string, std::string *> known[] = {
      {"from", &from}, {"to", &to}, {"ns", &ns}, {"bytes_per_second", &rate}};
  std::vector<std::string> names;
  for (const auto &[name, place] : known)
    names.push_back(name);
  for (const auto &[name, value] : fields) {
    const auto field = std::ranges::find(known, name, &std::pair<std::string, std::string *>::first);
    if (field == std::end(known))
      return Error{MORTISE_INVALID_ARGUMENT, "unknown field '" + name + "' of [[transfer]], the nearest is '" +
                                                 nearest(name, names) + "'; the fields are " + join(names)};
    *field->second = value;
  }
  for (const auto &[name, place] : known)
    if (place->empty())
      return Error{MORTISE_INVALID_ARGUMENT,
                   "expected the fields " + join(names) + " in [[transfer]], found no " + name};
  return from + std::string(arrow) + to + "=" + ns + ":" + rate;
}

const Transfer *findTransfer(std::span<const Transfer> transfers, std::string_view from, std::string_view to) {
  const Transfer *best = nullptr;
  const auto ordinals = [](const Transfer &transfer) { return hasOrdinal(transfer.from) + hasOrdinal(transfer.to); };
  for (const Transfer &transfer : transfers)
    if (fits(transfer.from, from) && fits(transfer.to, to) && (!best || ordinals(transfer) >= ordinals(*best)))
      best = &transfer;
  return best;
}

} // namespace mortise::runtime
