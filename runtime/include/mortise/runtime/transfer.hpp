// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prices of copies that the setting `transfer` gives, in place of what devices state.
#pragma once

#include <mortise/result.hpp>

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mortise::runtime {

inline constexpr std::string_view hostMemory = "host"; // its name at one end of a transfer

struct Transfer {
  std::string from, to; // "host", a kind (all its ordinals), or KIND:ORDINAL
  double ns = 0;        // of a copy of one byte
  double bytesPerSecond = 0;
};

// Entries with commas between them: `FROM->TO=NS:BYTES_PER_SECOND`. Errors: MORTISE_INVALID_ARGUMENT.
Result<std::vector<Transfer>> parseTransfers(std::string_view text);

// One [[transfer]] table of a file, its fields and their values, in the form that the setting has as text.
// Errors: MORTISE_INVALID_ARGUMENT.
Result<std::string> transferText(std::span<const std::pair<std::string, std::string>> fields);

// The entry for copies between two memories, each "host" or KIND:ORDINAL: the one that names most ordinals, of several
// the last. NULL where none fits.
const Transfer *findTransfer(std::span<const Transfer> transfers, std::string_view from, std::string_view to);

} // namespace mortise::runtime
