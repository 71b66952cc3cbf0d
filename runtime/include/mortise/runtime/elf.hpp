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
Result<ElfLibrary> readElf(const std::string &path); // also MORTISE_NOT_FOUND

// The dynamic symbols that a library defines, sorted, without reserved names such as _init; none where it has no
// section headers. For checks: loading a plugin does not read them. Errors: as readElf(), and MORTISE_NOT_FOUND.
Result<std::vector<std::string>> readExports(const std::string &path);

// Refuses libLLVM and libMLIR, which abort a process that holds another copy.
Result<void> checkNeeded(const ElfLibrary &library);

} // namespace mortise::runtime
