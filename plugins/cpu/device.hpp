// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The machine that this process runs on.
#pragma once

#include <mortise/codegen/codegen.hpp>
#include <mortise/plugin.h>

#include <cstdint>
#include <string_view>

namespace mortise::cpu {

// Restricts generated code, loops of our own and oneDNN to an x86-64 level; "native" leaves them everything. For the
// whole process, and therefore before anything is compiled: another level later is an error.
Result<void> setIsa(std::string_view level);
std::string_view isa();
const codegen::Target &target(); // of generated code

// What loops of our own are compiled for.
enum class Vectors { Baseline, Avx2, Avx512 };
Vectors vectors();

const MortiseDeviceInfo &deviceInfo(); // found once
uint32_t threadCount();                // of the process's pool

// bf16 products without converting to f32 first (AVX-512, with or without its bf16 instructions).
bool hasBrainProducts();

} // namespace mortise::cpu
