// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <mortise/result.hpp>

#include <string>
#include <string_view>

namespace mortise::codegen {

// An object file of LLVM's AMDGPU code generator -> the shared object that drivers load, by lld, without files on disk.
// Thread safe; one call at a time works. Errors: MORTISE_INTERNAL, with what lld says; MORTISE_OUT_OF_MEMORY.
Result<std::string> linkHsaco(std::string_view object);

} // namespace mortise::codegen
