// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/passes/prices.hpp>

#include "copy_times.hpp"
#include "symbols.hpp"

#include <mortise/runtime/manifest.hpp>
#include <mortise/symbols.hpp>

#include <algorithm>
#include <cstdio>

namespace mortise::passes {
namespace {

// As the setting `transfer` names a memory.
std::string nameOf(const runtime::Device *device) {
  return device ? std::string(device->info.kind) + ":" + std::to_string(device->info.ordinal)
                : std::string(runtime::hostMemory);
}

CopyPrice given(double ns, double bytesPerSecond, PriceSource source) { return {ns, bytesPerSecond, source, source}; }

CopyPrice stated(double ns, double bytesPerSecond) { // 0: not known
  CopyPrice price;
  if (ns > 0) {
    price.ns = ns;
    price.nsSource = PriceSource::Stated;
  }
  if (bytesPerSecond > 0) {
    price.bytesPerSecond = bytesPerSecond;
    price.bytesPerSecondSource = PriceSource::Stated;
  }
  return price;
}

CopyPrice statedBy(const runtime::Device &device) { return stated(device.info.copy_ns, device.info.copy_bandwidth); }

// A copy and another one behind it. The weaker source counts.
CopyPrice both(const CopyPrice &first, const CopyPrice &second) {
  return {first.ns + second.ns, 1 / (1 / first.bytesPerSecond + 1 / second.bytesPerSecond),
          std::max(first.nsSource, second.nsSource), std::max(first.bytesPerSecondSource, second.bytesPerSecondSource)};
}

// Says what is wrong with one end of a transfer; "" when it names a memory, or may once its plugin is loaded.
std::string checkEnd(const runtime::Registry &registry, const std::string &name) {
  if (name == runtime::hostMemory)
    return "";
  if (auto found = registry.expect(name); !found) {
    std::vector<std::string> known = registry.names();
    known.emplace_back(runtime::hostMemory);
    const bool meantHost = runtime::nearest(name, known) == runtime::hostMemory;
    return found.error().message + (meantHost ? "; did you mean 'host', which is the host's memory?" : "");
  }
  std::string wrong;
  for (const runtime::Device *device : registry.devices()) {
    const runtime::Device &owner = device->owner();
    if (name != device->info.kind && name != nameOf(device))
      continue;
    if (&owner == device && (!owner.inHostMemory() || owner.hidesMemory()))
      return "";
    wrong = "expected a memory, found device '" + name + "', which computes in " +
            (owner.inHostMemory() ? "the host's; write 'host'" : "that of '" + nameOf(&owner) + "'; write this name");
  }
  return wrong;
}

} // namespace

double launchNs(const runtime::Device &device) { return device.info.launch_ns > 0 ? device.info.launch_ns : regionNs; }

const char *priceSourceName(PriceSource source) {
  constexpr const char *names[] = {"set", "measured", "stated", "guess"};
  return names[static_cast<size_t>(source)];
}

std::string priceText(double ns, std::string_view nsSource, double bytesPerSecond,
                      std::string_view bytesPerSecondSource, bool overHost) {
  const auto says = [](std::string_view source) -> std::string {
    return source == "set"      ? "set by the user"
           : source == "stated" ? "stated by the device"
           : source == "guess"  ? "the host's guess"
                                : std::string(source);
  };
  char time[32], rate[32];
  std::snprintf(time, sizeof time, "%.4g us", ns / 1e3);
  std::snprintf(rate, sizeof rate, "%.4g GB/s", bytesPerSecond / 1e9);
  const bool one = nsSource == bytesPerSecondSource;
  return time + (one ? " and " : ", " + says(nsSource) + ", and ") + rate + ", " + says(bytesPerSecondSource) +
         (overHost ? "; over the host's memory" : "");
}

std::string priceText(const CopyPrice &price) {
  return priceText(price.ns, priceSourceName(price.nsSource), price.bytesPerSecond,
                   priceSourceName(price.bytesPerSecondSource), price.overHost);
}

Result<std::shared_ptr<Prices>> Prices::make(const runtime::Registry &registry, const runtime::Config &config) {
  auto prices = std::make_shared<Prices>();
  prices->registry = registry.shared_from_this();
  prices->set = config.transfers();
  for (const runtime::Transfer &transfer : prices->set)
    for (const std::string &end : {transfer.from, transfer.to})
      if (const std::string wrong = checkEnd(registry, end); !wrong.empty())
        return Error{MORTISE_INVALID_ARGUMENT, "transfer '" + transfer.from + "->" + transfer.to + "': " + wrong};
  return prices;
}

CopyPrice Prices::copy(const runtime::Device *from, const runtime::Device *to) const { return entry(from, to).price; }

std::pair<CallCopies, CallCopies> Prices::callCopies(const MortiseGraph &region, const runtime::Device &device) const {
  if (!device.hidesMemory())
    return {};
  std::pair<CallCopies, CallCopies> copies{{.price = copy(nullptr, &device)}, {.price = copy(&device, nullptr)}};
  const std::vector<int64_t> symbols = typicalValues(region);
  const auto add = [&](CallCopies &to, const MortiseValue &value) {
    ++to.tensors;
    to.bytes += bytesAt(*value.type, symbols);
  };
  for (const MortiseValue *input : std::span(region.inputs, region.input_count))
    if (!(input->flags & MORTISE_VALUE_CONSTANT))
      add(copies.first, *input);
  for (const MortiseValue *output : std::span(region.outputs, region.output_count))
    add(copies.second, *output);
  return copies;
}

Prices::Entry Prices::entry(const runtime::Device *from, const runtime::Device *to) const {
  {
    const std::lock_guard lock(mutex);
    if (const auto found = known.find({from, to}); found != known.end())
      return found->second;
  }
  const Entry made = find(from, to); // may call a plugin
  const std::lock_guard lock(mutex);
  return known.emplace(std::pair(from, to), made).first->second;
}

Prices::Entry Prices::find(const runtime::Device *from, const runtime::Device *to) const {
  const auto isHosts = [](const runtime::Device *end) { return end->inHostMemory() && !end->hidesMemory(); };
  const bool within = from == to || (!from && isHosts(to)) || (!to && isHosts(from));
  if (within) // between its spaces
    return {statedBy(*(from ? from : to)), true};
  const auto link = from && to ? runtime::linkBetween(*from, *to) : std::nullopt;
  const bool overHost = from && to && !link;
  const auto setFor = [&](const runtime::Device *one, const runtime::Device *other) {
    return runtime::findTransfer(set, nameOf(one), nameOf(other));
  };
  const bool wayIsSet = overHost && (setFor(from, nullptr) || setFor(nullptr, to));
  Entry made;
  if (const runtime::Transfer *transfer = setFor(from, to))
    made = {given(transfer->ns, transfer->bytesPerSecond, PriceSource::Set), true};
  else if (const auto kept = registry && !wayIsSet ? keptCopyTime(from, to, registry->cache()) : std::nullopt)
    made = {given(kept->ns, kept->bytesPerSecond, PriceSource::Measured), true};
  else if (overHost)
    made = {both(copy(from, nullptr), copy(nullptr, to)), wayIsSet};
  else if (link)
    made = {stated(link->copyNs, link->bandwidth), false};
  else
    made = {statedBy(*(from ? from : to)), false};
  made.price.overHost = overHost;
  return made;
}

void Prices::measure(std::span<const runtime::Device *const> memories) {
  std::vector<const runtime::Device *> ends{nullptr}; // first, because ways over the host begin and end there
  ends.insert(ends.end(), memories.begin(), memories.end());
  for (const runtime::Device *from : ends)
    for (const runtime::Device *to : ends) {
      if (from == to || entry(from, to).isFinal)
        continue;
      const Result<CopyTime> time = timeCopies(from, to, registry);
      if (!time) {
        const std::string text = "max-autotune: copies from '" + nameOf(from) + "' to '" + nameOf(to) +
                                 "' cannot be measured, and cost what they did: " + time.error().message;
        runtime::host().log(MORTISE_WARNING, text.c_str());
        continue;
      }
      keepCopyTime(from, to, *time, registry->cache());
      Entry made{given(time->ns, time->bytesPerSecond, PriceSource::Measured), true};
      made.price.overHost = entry(from, to).price.overHost;
      const std::lock_guard lock(mutex);
      known[{from, to}] = made;
    }
}

} // namespace mortise::passes
