// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops that the language does not have: what their plugins declare (MortiseOpDeclaration), and checks against it. Links
// no LLVM.
#pragma once

#include <mortise/plugin.h>
#include <mortise/result.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mortise::portable {

// Whether a name has the form of a vendor's op, "acme.swizzle", and is none of the language's.
bool isVendorOp(std::string_view name);

// Those who know declarations: the registry of plugins, or a test. All threads may call it.
class VendorOps {
public:
  virtual ~VendorOps() = default;

  // The declaration of an op; it lives until the process ends. Error: MORTISE_UNSUPPORTED, nobody declares it.
  virtual Result<const MortiseOpDeclaration *> declaration(std::string_view op) const = 0;

  // Asks for the types of the results: calls `add` with each, none of which has members that cannot be read.
  virtual Result<void> infer(const MortiseInferArgs &args) const = 0;
};

// The attributes of an op, sorted by name: those that are given, and the fallbacks of those left out. Errors:
// MORTISE_INVALID_ARGUMENT, another number of operands than declared, an attribute that is unknown, missing, given
// twice, or of another kind.
Result<std::vector<const MortiseAttribute *>> completeAttributes(const MortiseOpDeclaration &op, size_t operandCount,
                                                                 std::span<const MortiseAttribute *const> given);

// How two declarations of one op differ, "attribute 'scale'"; "" where they do not. Summaries may differ.
std::string difference(const MortiseOpDeclaration &a, const MortiseOpDeclaration &b);

// "a boolean", "a list of integers"; "?" for a kind that is none of MortiseAttributeKind.
const char *attributeKindName(int32_t kind);

// The suggestion for an unknown name, "; the nearest known is 'x'"; "" where nothing is known.
std::string suggestion(std::string_view name, std::span<const std::string_view> known);

} // namespace mortise::portable
