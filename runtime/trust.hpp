// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether anybody but the user and root decides what a plugin's files hold.
#pragma once

#include <mortise/result.hpp>

#include <span>
#include <string>
#include <sys/types.h>

namespace mortise::runtime {

// Examines the file at an absolute path, and every folder and link on the way to it: each belongs to this user, to root
// or to one of `owners`, and the world may write to none. Folders above the file's own may be sticky, like /tmp.
// Errors: MORTISE_NOT_FOUND (something is missing), MORTISE_INVALID_ARGUMENT (what is wrong, and how to mend it).
Result<void> checkTrust(const std::string &path, std::span<const uid_t> owners);

} // namespace mortise::runtime
