// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One change of one instruction, as an implementer could have made it by mistake.
#pragma once

#include <llvm/IR/Function.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mortise::mutants {

#define X(Name, name, group, what) Name,
enum class Operator : uint8_t {
#include "operators.def"
};
#undef X

constexpr uint32_t everywhere = UINT32_MAX;

struct Site {
  uint32_t instruction; // its number in the function, or `everywhere`: all that have a pattern
  uint32_t operand;     // 0 where the operator concerns the whole instruction
  Operator change;
  bool operator==(const Site &) const = default;
};

// "17.1/plus-one", or "*.1/plus-one" for everywhere.
std::string textOf(const Site &site);
std::optional<Site> siteOf(std::string_view text);

// What a function computes and how, without its integer constants (extents, strides, bounds) and names: kernels of
// other extents that consist of the same instructions have the same kind. The same in every process.
uint64_t kindOf(const llvm::Function &function);

// What stands around an instruction, as the lines of the generator that made it leave it in all kernels: the operation,
// its predicate and element types, its operands' operations, what uses it, and constants but 64-bit integers and the
// counts that means are divided by, which are extents and addresses. Numbers of lanes do not count.
uint64_t patternOf(const llvm::Instruction &in);

// All changes that can be made, in the order of the instructions.
std::vector<Site> sitesOf(llvm::Function &function);

// The same for patterns, each once.
std::vector<std::pair<uint64_t, Site>> patternSitesOf(llvm::Function &function);

// Whether the site is one of the function's; its instruction is changed then.
bool mutate(llvm::Function &function, const Site &site);

// The instructions that had the pattern and the site, as they stood there; they are changed.
std::vector<std::string> mutateEverywhere(llvm::Function &function, uint64_t pattern, const Site &site);

} // namespace mortise::mutants
