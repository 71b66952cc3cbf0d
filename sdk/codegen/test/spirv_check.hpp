// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "test_graph.hpp"

#include <mortise/codegen/simt.hpp>

#include <string>

namespace mortise::codegen::test {

// What spirv-val has against a module for Vulkan 1.1; empty: nothing, or there is no validator (canValidate).
std::string invalidSpirv(const std::string &code);
bool canValidate();
// The same for the kernels of these groups, which are compiled for a device that has everything; or why they do not
// compile.
std::string invalidSpirv(const MortiseGraph &graph, std::span<const Group> groups);

// A device that has all that code can make use of, but no exchanges within subgroups.
VulkanFeatures allFeatures();

} // namespace mortise::codegen::test
