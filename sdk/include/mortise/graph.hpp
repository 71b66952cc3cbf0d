// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions, shared by hosts and plugins, that read the C structs of a graph (plugin.h). Header only. They allocate
// only where they return strings or vectors, and need static shapes only where they say so.
#pragma once

#include <mortise/dtypes.h>
#include <mortise/ops.hpp>
#include <mortise/result.hpp>

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace mortise {

// ---- Addresses

// The pointer that an address in a space of kind HOST, PINNED or UNIFIED is.
template <typename T = void> T *pointer(MortiseAddress address) {
  return reinterpret_cast<T *>(static_cast<uintptr_t>(address));
}
inline MortiseAddress addressOf(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer); }

inline std::span<const int64_t> dims(const MortiseType &type) { return {type.dims, static_cast<size_t>(type.rank)}; }
inline bool isStatic(const MortiseType &type) { return type.dim_exprs == nullptr; }

// Product of the extents; static shapes only.
inline int64_t elementCount(const MortiseType &type) {
  int64_t count = 1;
  for (int64_t dim : dims(type))
    count *= dim;
  return count;
}

// Bits that one element occupies; 0 for an unknown dtype. I1 occupies a byte, I4 half of one.
inline size_t dtypeBits(int32_t dtype) { return mortise_dtype_bits(dtype); }
// "?" when unknown.
inline const char *dtypeName(int32_t dtype) {
  const MortiseDTypeInfo *info = mortise_dtype_info(dtype);
  return info ? info->name : "?";
}
// 0 when unknown.
inline int32_t dtypeFromName(std::string_view name) {
  for (int32_t dtype = 1; dtype <= MORTISE_DTYPE_COUNT; ++dtype)
    if (name == mortise_dtype_info(dtype)->name)
      return dtype;
  return 0;
}
// False for an unknown dtype, as for all functions that follow.
inline bool isOfKind(int32_t dtype, MortiseDTypeKind kind) {
  const MortiseDTypeInfo *info = mortise_dtype_info(dtype);
  return info && info->kind == kind;
}
inline bool isFloat(int32_t dtype) { return isOfKind(dtype, MORTISE_KIND_FLOAT); }
inline bool isBool(int32_t dtype) { return isOfKind(dtype, MORTISE_KIND_BOOL); }
inline bool isUnsigned(int32_t dtype) { return isOfKind(dtype, MORTISE_KIND_UNSIGNED); }
inline bool isSigned(int32_t dtype) { return isOfKind(dtype, MORTISE_KIND_SIGNED); }
inline bool isInteger(int32_t dtype) { return isSigned(dtype) || isUnsigned(dtype); } // not booleans
// A float of fewer than 32 bits.
inline bool isNarrowFloat(int32_t dtype) { return isFloat(dtype) && dtypeBits(dtype) < 32; }

// body(T()) with the C type T of an integer dtype that fills whole bytes; `otherwise` for any other dtype.
template <typename Result, typename Body> Result visitInteger(int32_t dtype, Result otherwise, Body &&body) {
  switch (dtype) {
#define MORTISE_DTYPE_ROW(NAME, name, kind, bits, exponent, mantissa, max, storage, torch, dlpack)                     \
  case MORTISE_##NAME:                                                                                                 \
    if constexpr ((MORTISE_KIND_##kind == MORTISE_KIND_SIGNED || MORTISE_KIND_##kind == MORTISE_KIND_UNSIGNED) &&      \
                  (bits) == 8 * sizeof(storage))                                                                       \
      return body(storage());                                                                                          \
    break;
    MORTISE_FOR_EACH_DTYPE(MORTISE_DTYPE_ROW)
#undef MORTISE_DTYPE_ROW
  default:
    break;
  }
  return otherwise;
}

// Bytes of a dense tensor; static shapes only.
inline size_t byteSize(const MortiseType &type) {
  return (static_cast<size_t>(elementCount(type)) * dtypeBits(type.dtype) + 7) / 8;
}

// NULL when the node has no attribute of this name.
inline const MortiseAttribute *findAttribute(const MortiseNode &node, std::string_view name) {
  for (size_t i = 0; i < node.attribute_count; ++i)
    if (name == node.attributes[i]->name)
      return node.attributes[i];
  return nullptr;
}
// Readers of attributes that the op defines; 0, "" or empty when absent.
inline int64_t intAttribute(const MortiseNode &node, std::string_view name) {
  const MortiseAttribute *found = findAttribute(node, name);
  return found ? found->i64 : 0;
}
inline double floatAttribute(const MortiseNode &node, std::string_view name) {
  const MortiseAttribute *found = findAttribute(node, name);
  return found ? found->f64 : 0;
}
inline std::string_view stringAttribute(const MortiseNode &node, std::string_view name) {
  const MortiseAttribute *found = findAttribute(node, name);
  return found ? std::string_view(found->string) : std::string_view();
}
inline std::span<const int64_t> intsAttribute(const MortiseNode &node, std::string_view name) {
  const MortiseAttribute *found = findAttribute(node, name);
  return found ? std::span<const int64_t>(found->i64s, found->count) : std::span<const int64_t>();
}

// The graphs that a control flow op runs; none for a node written by a revision 1 host.
inline std::span<const MortiseGraph *const> bodiesOf(const MortiseNode &node) {
  if (node.struct_size < offsetof(MortiseNode, body_count) + sizeof(node.body_count))
    return {};
  return {node.bodies, node.body_count};
}
// The conditions on the symbols' values; none for a graph written by a revision 1 host.
inline std::span<const MortiseGuard *const> guardsOf(const MortiseGraph &graph) {
  if (graph.struct_size < offsetof(MortiseGraph, guard_count) + sizeof(graph.guard_count))
    return {};
  return {graph.guards, graph.guard_count};
}
// One program per entry of an integer array, or NULL when all entries are numbers.
inline const MortiseExpr *exprsOf(const MortiseAttribute &attribute) {
  return attribute.struct_size > offsetof(MortiseAttribute, exprs) ? attribute.exprs : nullptr;
}

// "f32[2, 16]"; "?" for a symbolic extent.
inline std::string typeString(const MortiseType &type) {
  std::string text = std::string(dtypeName(type.dtype)) + "[";
  for (int32_t i = 0; i < type.rank; ++i)
    text += (i ? ", " : "") + (type.dims[i] == MORTISE_DYNAMIC ? "?" : std::to_string(type.dims[i]));
  return text + "]";
}

} // namespace mortise
