// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The forms of values in memory (MortiseForm), and how a value gets from one place to another: by copies between
// memories, and by conversions between layouts of a plugin's own, which are regions that the plugin offers like any
// other. Links no LLVM.
#pragma once

#include "propose.hpp"

#include <compare>
#include <map>
#include <mutex>

namespace mortise::passes {

// The form in which a candidate has a value; plain, and in the home, where it names none.
MortiseForm formOf(const Candidate &candidate, uint32_t value);

struct LayoutSize {
  std::string name;                   // for reports
  std::vector<MortiseExprStep> bytes; // over the graph's symbols
};
struct Conversion {
  std::shared_ptr<const Graph> graph; // one mortise.convert to the type that the value has
  Candidate candidate;                // for this graph
};

// What a plugin says of its layouts on one device, asked once for each type. Any thread.
class Layouts {
public:
  // What a value of `type`, in a graph with the symbols of `graph`, takes in a layout.
  Result<LayoutSize> size(const MortiseGraph &graph, const MortiseType &type, const Target &target, uint32_t layout);
  // The plugin's offer to convert such a value between two layouts, in the home; NULL when it makes none.
  const Conversion *conversion(const MortiseGraph &graph, const MortiseType &type, const Target &target, uint32_t from,
                               uint32_t to);

private:
  std::mutex mutex;
  // By the graph that converts, and the two layouts.
  std::map<std::pair<std::string, std::pair<uint32_t, uint32_t>>, std::unique_ptr<Conversion>> known;
};

// Says what is wrong with the layouts that a candidate names: unknown to the plugin, or without a conversion; or "".
std::string checkLayouts(const MortiseGraph &graph, const Target &target, const Candidate &candidate);

// Where a value is, and how it lies there.
struct Place {
  const runtime::Device *memory = nullptr; // the device that owns the memory (Device::owner), NULL: the host's
  uint32_t space = 0;                      // among its spaces
  uint32_t layout = MORTISE_PLAIN_LAYOUT;
  uint32_t target = 0; // whose layout it is; 0 when plain
  auto operator<=>(const Place &) const = default;
};
Place placeOf(const std::vector<Target> &targets, const Candidate &candidate, uint32_t value);

// One step of a value's way. The layouts differ where it is a conversion, and the memories or spaces where it is a
// copy.
struct Hop {
  Place from, to;
  const Conversion *conversion = nullptr; // NULL: a copy
  uint32_t target = 0;                    // that converts
};
// The way of a value of `type` from one place to another. Candidates that passed checkLayouts have one.
std::vector<Hop> route(const MortiseGraph &graph, const MortiseType &type, const std::vector<Target> &targets,
                       Place from, const Place &to);
// Whether hops[i] and the next one copy a value from one device to another, which do not reach each other. Together
// they have one price.
bool leadsOverHost(std::span<const Hop> hops, size_t i);

} // namespace mortise::passes
