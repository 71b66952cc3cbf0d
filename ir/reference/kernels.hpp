// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Helpers for all op families. Each family's .cpp has a table of OpSpec: the checks of an op beyond its signature, and
// its loops. checkNode() checks the signature (operands, element types, attributes) against the SDK's op table.
#pragma once

#include <mortise/reference/formats.hpp>
#include <mortise/reference/interpreter.hpp>
#include <mortise/views.hpp>

#include <functional>
#include <vector>

namespace mortise::reference::inline MORTISE_ARITHMETIC {

using Shape = std::vector<int64_t>;

struct Tensor { // dense row-major; type and data are NULL for an operand that is left out
  const MortiseType *type = nullptr;
  std::byte *data = nullptr;

  explicit operator bool() const { return type != nullptr; }
  int32_t dtype() const { return type->dtype; }
  std::span<const int64_t> dims() const { return mortise::dims(*type); }
  int64_t count() const { return elementCount(*type); }
  template <typename T> typename T::Storage *as() const { return reinterpret_cast<typename T::Storage *>(data); }
};

// The size in bytes of an element inside the interpreter, which does not pack i4, and stores unrounded floats as f64.
inline size_t storageBytes(int32_t dtype) {
  return dtype == MORTISE_I4 ? 1 : isUnrounded && isFloat(dtype) ? sizeof(double) : dtypeBits(dtype) / 8;
}

// One op to run.
struct Call {
  const MortiseNode &node;
  std::span<const Tensor> operands;
  std::span<const Tensor> results;
  Tensor result; // the first result
  ParallelFor parallelFor = nullptr;
  std::span<const std::unique_ptr<Interpreter>> bodies = {}; // those of a control flow op

  Tensor operand(size_t i) const { return i < operands.size() ? operands[i] : Tensor(); }
  int64_t integer(std::string_view name) const { return intAttribute(node, name); }
  std::span<const int64_t> integers(std::string_view name) const { return intsAttribute(node, name); }

  // Calls body(begin, end) for ranges that cover [0, count), on several threads when there are any. `body` must not
  // throw.
  template <typename Body> void parallel(int64_t count, int64_t grain, Body &&body) const {
    if (!parallelFor || count <= grain)
      return body(int64_t(0), count);
    auto task = [](void *context, int64_t begin, int64_t end) noexcept {
      (*static_cast<std::remove_reference_t<Body> *>(context))(begin, end);
    };
    parallelFor(count, grain, task, &body);
  }
};

// A node's types and attributes, for checks. Use only after the node's signature has been checked.
class Shapes {
public:
  explicit Shapes(const MortiseNode &node) : node(node) {}
  const MortiseNode &node;

  bool has(size_t i) const { return i < node.operand_count && node.operands[i]; }
  const MortiseType &type(size_t i) const { return *node.operands[i]->type; }
  std::span<const int64_t> dims(size_t i) const { return mortise::dims(type(i)); }
  int32_t rank(size_t i) const { return type(i).rank; }
  int32_t dtype(size_t i) const { return type(i).dtype; }
  const MortiseType &result(size_t i = 0) const { return *node.results[i]->type; }
  int64_t integer(std::string_view name) const { return intAttribute(node, name); }
  std::span<const int64_t> integers(std::string_view name) const { return intsAttribute(node, name); }

  // The result, or result i of several, must have this type.
  Refusal expect(int32_t dtype, std::span<const int64_t> dims) const { return expectResult(0, dtype, dims); }
  Refusal expectResult(size_t i, int32_t dtype, std::span<const int64_t> dims) const;
  // Operand i must have this type or be left out.
  Refusal expectOperand(size_t i, int32_t dtype, std::span<const int64_t> dims) const;
  Refusal expectFloatOperand(size_t i, std::span<const int64_t> dims) const; // of any float dtype
  Refusal axis(std::string_view name, int64_t rank) const;                   // 0 <= axis < rank
  Refusal ascendingAxes(std::string_view name, int64_t rank) const;          // strictly ascending, each below rank
  Refusal length(std::string_view name, size_t count) const;                 // of an integer array
  Refusal atLeast(std::string_view name, int64_t least) const;               // each element of an integer array
  Refusal fail(std::string detail, MortiseReason reason = MORTISE_REASON_ATTRIBUTE) const {
    return {reason, std::move(detail)};
  }
};

// The first refusal among several.
template <typename... Rest> Refusal firstOf(Refusal first, Rest... rest) {
  if constexpr (sizeof...(rest) > 0)
    return first ? first : firstOf(std::move(rest)...);
  else
    return first;
}

struct OpSpec {
  Op op;
  std::function<Refusal(const Shapes &)> check; // checks beyond the signature
  std::function<void(const Call &)> run; // not called when all results are empty; an empty result may have no memory
  // For a collective, instead of `run`: gets the calls of all ranks, indexed by rank.
  std::function<void(std::span<const Call>)> runRanks = nullptr;
};

std::span<const OpSpec> elementwiseOps();
std::span<const OpSpec> shapeOps();
std::span<const OpSpec> indexingOps();
std::span<const OpSpec> contractionOps();
std::span<const OpSpec> reductionOps();
std::span<const OpSpec> windowOps();
std::span<const OpSpec> normalisationOps();
std::span<const OpSpec> attentionOps();
std::span<const OpSpec> randomOps();
std::span<const OpSpec> quantisationOps();
std::span<const OpSpec> controlFlowOps();
std::span<const OpSpec> collectiveOps();

// ---- Indexing

inline int64_t product(std::span<const int64_t> dims) {
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= dim;
  return count;
}

// The offsets, by `strides`, of all indices of `dims` in row-major order.
std::vector<int64_t> offsets(std::span<const int64_t> dims, std::span<const int64_t> strides);

// A shape split at one axis: [outer, extent, inner].
struct AxisView {
  int64_t outer, extent, inner;
  AxisView(std::span<const int64_t> dims, int64_t axis)
      : outer(product(dims.first(static_cast<size_t>(axis)))), extent(dims[static_cast<size_t>(axis)]),
        inner(product(dims.subspan(static_cast<size_t>(axis) + 1))) {}
};

// result[i...] = source[start + sum(i * stride)], for any element type.
void copyStrided(const Call &call, const Tensor &source, int64_t start, std::span<const int64_t> strides);

// The elements of a float tensor; `count` times `otherwise` when the tensor is left out.
std::vector<Number> toNumbers(const Tensor &tensor, int64_t count, Number otherwise);

// An index, counted from the end when negative, and whether it is in range.
struct Position {
  int64_t index;
  bool inRange;
};
inline Position position(int64_t index, int64_t extent) {
  bool inRange = index >= -extent && index < extent;
  if (!inRange)
    index = index < 0 ? 0 : extent - 1;
  return {index < 0 ? index + extent : index, inRange};
}

// The larger and the smaller of two numbers: NaN if either is NaN; +0 is above -0.
inline Number maximum(Number left, Number right) {
  if (isnan(left) || isnan(right))
    return isnan(left) ? left : right;
  return left == right ? (signbit(left) ? right : left) : (left > right ? left : right);
}
inline Number minimum(Number left, Number right) {
  if (isnan(left) || isnan(right))
    return isnan(left) ? left : right;
  return left == right ? (signbit(left) ? left : right) : (left < right ? left : right);
}
inline int64_t maximum(int64_t left, int64_t right) { return left > right ? left : right; }
inline int64_t minimum(int64_t left, int64_t right) { return left < right ? left : right; }

// The order of sort, argmax and similar ops: a NaN is above all numbers and equal to another NaN, -0 equals +0.
inline bool isBelow(Number left, Number right) { return isnan(right) ? !isnan(left) : left < right; }
inline bool isBelow(int64_t left, int64_t right) { return left < right; }

// The maximum and the minimum of no elements: infinities, or the extreme numbers of a type without infinities.
template <typename T> typename T::Compute lowestOf() {
  if constexpr (!T::isFloat)
    return T::lowest;
  else
    return T::dtype == MORTISE_F8E4M3FN ? Number(-448) : -std::numeric_limits<Number>::infinity();
}
template <typename T> typename T::Compute highestOf() {
  if constexpr (!T::isFloat)
    return T::highest;
  else
    return T::dtype == MORTISE_F8E4M3FN ? Number(448) : std::numeric_limits<Number>::infinity();
}

// Limits `value` to the range, not the precision, of the type in which composite ops compute for element type T (f64
// for f64, else f32). Numbers outside become infinity or 0, as in a decomposition, which rounds after each op.
template <typename T> Number inRange(Number value) {
  if constexpr (MORTISE_REFERENCE_VARIANT == 2 || (T::dtype == MORTISE_F64 && MORTISE_REFERENCE_VARIANT < 2))
    return value; // it has that range already
  constexpr bool wide = T::dtype == MORTISE_F64;
  if (abs(value) >= (wide ? Number(0x1.fffffffffffffp1023) * (1 + Number(0x1p-54)) : Number(0x1.ffffffp127)))
    return copysign(std::numeric_limits<Number>::infinity(), value);
  return abs(value) <= (wide ? Number(0x1p-1074) / 2 : Number(0x1p-150)) ? copysign(Number(0), value) : value;
}

// Sums and products: integers wrap, floats are computed in Number.
inline Number plus(Number left, Number right) { return left + right; }
inline Number times(Number left, Number right) { return left * right; }
inline int64_t plus(int64_t left, int64_t right) {
  return static_cast<int64_t>(static_cast<uint64_t>(left) + static_cast<uint64_t>(right));
}
inline int64_t times(int64_t left, int64_t right) {
  return static_cast<int64_t>(static_cast<uint64_t>(left) * static_cast<uint64_t>(right));
}

} // namespace mortise::reference::inline MORTISE_ARITHMETIC
