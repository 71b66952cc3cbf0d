// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rewriting of regions before they are compiled.
#pragma once

#include <mortise/ops.hpp>
#include <mortise/plugin.hpp>
#include <mortise/rewrite.hpp>
#include <mortise/symbols.hpp>

#include <cstddef>
#include <deque>

namespace mortise::cuda {

// Per value the node that alone uses it, once; NULL where there is none.
inline std::vector<const MortiseNode *> soleUsersOf(const MortiseGraph &graph) {
  std::vector<const MortiseNode *> users(graph.value_count);
  for (size_t n = 0; n < graph.node_count; ++n)
    for (size_t i = 0; i < graph.nodes[n]->operand_count; ++i)
      if (const MortiseValue *operand = graph.nodes[n]->operands[i]; operand && operand->use_count == 1)
        users[operand->index] = graph.nodes[n];
  return users;
}

// The result is for the Builder alone: library calls may have operands that no op of a host has.
class RegionRewriter : public GraphRewriter {
public:
  std::vector<std::vector<uint32_t>> origins; // per node of the copy: the original's that it was made of

protected:
  using Drafts = std::vector<Draft>;
  MortiseType *typeOf(int32_t dtype, std::span<const Dim> dims) {
    MortiseType type = sized<MortiseType>();
    type.dtype = dtype;
    type.rank = static_cast<int32_t>(dims.size());
    std::vector<MortiseExpr> exprs;
    type.dims = keep(numbersOf(dims, exprs));
    type.dim_exprs = exprs.empty() ? nullptr : keep(std::move(exprs));
    return copyOf(type);
  }
  const MortiseAttribute *attribute(const char *name, std::span<const Dim> dims) {
    MortiseAttribute made = described(name, MORTISE_ATTRIBUTE_I64_ARRAY);
    std::vector<MortiseExpr> exprs;
    made.i64s = keep(numbersOf(dims, exprs));
    made.count = dims.size();
    made.exprs = exprs.empty() ? nullptr : keep(std::move(exprs));
    return copyOf(made);
  }
  const MortiseAttribute *attribute(const char *name, std::vector<int64_t> numbers) {
    MortiseAttribute made = described(name, MORTISE_ATTRIBUTE_I64_ARRAY);
    made.count = numbers.size();
    made.i64s = keep(std::move(numbers));
    return copyOf(made);
  }
  const MortiseAttribute *attribute(const char *name, int64_t number) {
    MortiseAttribute made = described(name, MORTISE_ATTRIBUTE_I64);
    made.i64 = number;
    return copyOf(made);
  }
  const MortiseAttribute *attribute(const char *name, const char *text) {
    MortiseAttribute made = described(name, MORTISE_ATTRIBUTE_STRING);
    made.string = text;
    return copyOf(made);
  }

  // A node with one result. It goes before the last draft, which is that of the node at hand.
  const MortiseValue *add(Drafts &drafts, std::string op, std::vector<const MortiseValue *> operands, int32_t dtype,
                          std::span<const Dim> dims, std::vector<const MortiseAttribute *> attributes = {}) {
    Draft draft;
    draft.op = std::move(op);
    draft.operands = std::move(operands);
    draft.results = {newValue(typeOf(dtype, dims))};
    draft.attributes = std::move(attributes);
    drafts.insert(drafts.end() - 1, draft);
    return draft.results[0];
  }
  const MortiseValue *add(Drafts &drafts, Op op, std::vector<const MortiseValue *> operands, int32_t dtype,
                          std::span<const Dim> dims, std::vector<const MortiseAttribute *> attributes = {}) {
    return add(drafts, std::string(nameOf(op)), std::move(operands), dtype, dims, std::move(attributes));
  }
  const MortiseValue *transposed(Drafts &drafts, const MortiseValue &value, const std::vector<int64_t> &permutation) {
    const std::vector<Dim> from = dimsOf(*value.type);
    std::vector<Dim> dims;
    for (const int64_t axis : permutation)
      dims.push_back(from[static_cast<size_t>(axis)]);
    return add(drafts, Op::Transpose, {&value}, value.type->dtype, dims, {attribute("permutation", permutation)});
  }
  const MortiseValue *converted(Drafts &drafts, const MortiseValue &value, int32_t dtype) {
    if (value.type->dtype == dtype)
      return &value;
    return add(drafts, Op::Convert, {&value}, dtype, dimsOf(*value.type), {attribute("dtype", dtypeName(dtype))});
  }
  // A literal without dimensions.
  const MortiseValue *scalar(Drafts &drafts, int32_t dtype, std::vector<std::byte> bytes) {
    MortiseAttribute made = described("value", MORTISE_ATTRIBUTE_TENSOR);
    made.tensor_type = typeOf(dtype, {});
    made.count = bytes.size();
    made.tensor_data = literals.emplace_back(std::move(bytes)).data();
    return add(drafts, Op::Constant, {}, dtype, {}, {copyOf(made)});
  }

private:
  static MortiseAttribute described(const char *name, MortiseAttributeKind kind) {
    MortiseAttribute made = sized<MortiseAttribute>();
    made.name = name;
    made.kind = kind;
    return made;
  }
  // `exprs` stays empty where all are numbers.
  std::vector<int64_t> numbersOf(std::span<const Dim> dims, std::vector<MortiseExpr> &exprs) {
    std::vector<int64_t> numbers;
    bool isStatic = true;
    for (const Dim &dim : dims) {
      numbers.push_back(dim.numberOrDynamic());
      isStatic &= dim.isNumber();
    }
    for (size_t i = 0; i < dims.size() && !isStatic; ++i) {
      std::vector<MortiseExprStep> steps = dims[i].steps();
      const size_t count = steps.size();
      exprs.push_back({keep(std::move(steps)), count});
    }
    return numbers;
  }

  std::deque<std::vector<std::byte>> literals;
};

} // namespace mortise::cuda
