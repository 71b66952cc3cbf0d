// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads a shared library's headers without loading it: the dynamic loader trusts them, and crashes on malformed ones.
#pragma once

#include <mortise/result.hpp>

#include <string>
#include <vector>

namespace mortise::runtime {

struct ElfLibrary {
  std::vector<std::string> needed; // DT_NEEDED
  std::string buildId;             // in hexadecimal digits; "" where the linker wrote none
};

// Errors: MORTISE_CORRUPT (not ELF, truncated, malformed), MORTISE_VERSION_MISMATCH (another machine).
Result<ElfLibrary> readElf(int descriptor);

// Refuses libLLVM and libMLIR, which abort a process that holds another copy.
Result<void> checkNeeded(const ElfLibrary &library);

} // namespace mortise::runtime
