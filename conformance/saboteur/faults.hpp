// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of faults (faults.def), and the one that is planted in this process.
#pragma once

#include <mortise/result.hpp>

#include <span>
#include <string_view>

namespace saboteur {

enum class Group { Arithmetic, Memory, Concurrency, Lifecycle, Lying };

enum class Fault {
  None,
#define X(Identifier, name, Group, what, shows) Identifier,
#include "faults.def"
#undef X
};

struct Row {
  Fault fault;
  std::string_view name;
  Group group;
  std::string_view what, shows;
};
std::span<const Row> faults(); // without "none"

// Plants one fault in place of the one before: a name of the table, or "none".
mortise::Result<void> plant(std::string_view name);
bool is(Fault fault);

} // namespace saboteur
