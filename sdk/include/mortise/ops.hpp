// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The op table (mortise/ops.h) for C++: ops and traits as types, so that a misspelt name does not compile. Header only.
#pragma once

#include <mortise/ops.h>

#include <iterator>
#include <string_view>

namespace mortise {

enum class Op : uint16_t {
  Unknown = MORTISE_OP_UNKNOWN, // a vendor's op, or one of a later opset
#define MORTISE_OP_ROW(NAME, Name, name) Name = MORTISE_OP_##NAME,
  MORTISE_FOR_EACH_OP(MORTISE_OP_ROW)
#undef MORTISE_OP_ROW
};

// The traits; mortise/ops.h describes each.
enum class Trait : uint32_t {
#define MORTISE_TRAIT_ROW(NAME, Name) Name = MORTISE_TRAIT_##NAME,
  MORTISE_FOR_EACH_TRAIT(MORTISE_TRAIT_ROW)
#undef MORTISE_TRAIT_ROW
};

inline constexpr size_t opCount = MORTISE_OP_COUNT; // numbers are below it

inline Op opNamed(const char *name) { return static_cast<Op>(mortise_op_find(name)); }
inline Op opOf(const MortiseNode &node) { return opNamed(node.op); }

// NULL for Unknown.
inline const MortiseOpInfo *infoOf(Op op) { return mortise_op_info(static_cast<int32_t>(op)); }
// "mortise.add"; "" for Unknown.
inline std::string_view nameOf(Op op) {
  const MortiseOpInfo *info = infoOf(op);
  return info ? std::string_view(info->name) : std::string_view();
}

// Whether the op has one of the traits; false for Unknown.
template <typename... Traits> bool has(Op op, Trait trait, Traits... others) {
  const MortiseOpInfo *info = infoOf(op);
  return info && (info->traits & (static_cast<uint32_t>(trait) | ... | static_cast<uint32_t>(others))) != 0;
}
template <typename... Traits> bool has(const MortiseNode &node, Trait trait, Traits... others) {
  return has(opOf(node), trait, others...);
}

// Whether the node is one of these ops; Unknown matches nothing.
template <typename... Ops> bool isOp(const MortiseNode &node, Op op, Ops... others) {
  return ((nameOf(op) == node.op) || ... || (nameOf(others) == node.op));
}

// An op named by a literal: isOp(node, "mortise.put"). A name that no op has does not compile.
struct OpName {
  Op op = Op::Unknown;
  template <size_t size> consteval OpName(const char (&name)[size]) { // NOLINT(google-explicit-constructor)
    constexpr std::string_view names[] = {
#define MORTISE_OP_ROW(NAME, Name, name) "mortise." #name, // NOLINT(bugprone-suspicious-missing-comma): one name
        MORTISE_FOR_EACH_OP(MORTISE_OP_ROW)
#undef MORTISE_OP_ROW
    };
    for (size_t i = 0; i < std::size(names); ++i)
      if (names[i] == std::string_view(name, size - 1))
        op = static_cast<Op>(i + 1);
    if (op == Op::Unknown)
      noOpHasThisName();
  }
  static void noOpHasThisName() {} // not a constant expression, so a call is an error
};
inline bool isOp(const MortiseNode &node, OpName name) { return isOp(node, name.op); }

} // namespace mortise
