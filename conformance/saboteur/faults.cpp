// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "faults.hpp"

#include <algorithm>
#include <atomic>
#include <string>

namespace saboteur {
namespace {

std::atomic<Fault> planted{Fault::None};

} // namespace

std::span<const Row> faults() {
  static constexpr Row rows[] = {
#define X(Identifier, name, group, what, shows) {Fault::Identifier, name, Group::group, what, shows},
#include "faults.def"
#undef X
  };
  return rows;
}

mortise::Result<void> plant(std::string_view name) {
  const auto row = std::ranges::find(faults(), name, &Row::name);
  if (name != "none" && row == faults().end())
    return mortise::Error{MORTISE_INVALID_ARGUMENT,
                          "option fault: expected none or a name of conformance/saboteur/faults.def, found '" +
                              std::string(name) + "'"};
  planted = name == "none" ? Fault::None : row->fault;
  return {};
}

bool is(Fault fault) { return planted.load(std::memory_order_relaxed) == fault; }

} // namespace saboteur
