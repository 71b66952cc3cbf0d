// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Costs in ns that candidates do not include: starting a region, and copies between memories (decision 0045).
#pragma once

#include <mortise/runtime/registry.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace mortise::passes {

inline constexpr double regionNs = 300;         // starting a region, where the device does not know
inline constexpr double copyLatencyNs = 10'000; // a copy of one byte, likewise
inline constexpr double copyBandwidth = 12e9;   // bytes per second of a bus, likewise

double launchNs(const runtime::Device &device);

// Where a price comes from, the strongest first.
enum class PriceSource {
  Set,      // the setting `transfer`
  Measured, // in the mode max-autotune
  Stated,   // by the device
  Guess,    // the constants above
};
const char *priceSourceName(PriceSource source); // "set", "measured", "stated", "guess"

struct CopyPrice {
  double ns = copyLatencyNs; // of a copy of one byte
  double bytesPerSecond = copyBandwidth;
  PriceSource nsSource = PriceSource::Guess, bytesPerSecondSource = PriceSource::Guess;
  bool overHost = false; // the devices do not reach each other

  double of(double bytes) const { return ns + bytes / bytesPerSecond * 1e9; }
};
// Copies of a call in one direction, to the process of an isolated plugin or back (decision 0042).
struct CallCopies {
  size_t tensors = 0;
  double bytes = 0; // of all of them, with typical values of the symbols
  CopyPrice price;

  double costNs() const { return tensors ? price.ns * static_cast<double>(tensors - 1) + price.of(bytes) : 0; }
};

// "1.5 us and 16 GB/s, stated by the device"
std::string priceText(const CopyPrice &price);
// The same of what a report tells; the sources are names.
std::string priceText(double ns, std::string_view nsSource, double bytesPerSecond,
                      std::string_view bytesPerSecondSource, bool overHost);

// What copies between memories cost. Devices stand for their memories (Device::owner), NULL for the host's. Any thread.
class Prices {
public:
  Prices() = default; // as devices state
  // With what the setting `transfer` says, and what was measured before. Errors: an end of a transfer that is no
  // memory.
  static Result<std::shared_ptr<Prices>> make(const runtime::Registry &registry, const runtime::Config &config);

  // From one memory to another; from a device to itself: between two of its spaces. Not within the host's memory. A
  // device that hides its memory stands for it.
  CopyPrice copy(const runtime::Device *from, const runtime::Device *to) const;

  // What a call of the region copies in the process of the device's plugin, where the device hides its memory there:
  // inputs that are not constant, and outputs. Nothing on other devices.
  std::pair<CallCopies, CallCopies> callCopies(const MortiseGraph &region, const runtime::Device &device) const;

  // Measures copies between the host and these memories, and between any two of them, unless their price is set or was
  // measured before, and keeps what it finds for later processes. What cannot be measured keeps its price, and a
  // warning says why.
  void measure(std::span<const runtime::Device *const> memories);

private:
  struct Entry {
    CopyPrice price;
    bool isFinal = false; // measuring does not replace it
  };
  Entry entry(const runtime::Device *from, const runtime::Device *to) const;
  Entry find(const runtime::Device *from, const runtime::Device *to) const;

  std::shared_ptr<const runtime::Registry> registry; // NULL: nothing was set or measured
  std::vector<runtime::Transfer> set;
  mutable std::mutex mutex;
  mutable std::map<std::pair<const runtime::Device *, const runtime::Device *>, Entry> known;
};

} // namespace mortise::passes
