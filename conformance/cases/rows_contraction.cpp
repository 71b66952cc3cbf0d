// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products, attention and what prepares its operands.
#include "rows.hpp"

#include <algorithm>

namespace mortise::conformance {
namespace {

// plain: [m, k] x [k, n]; turned: [k, m] x [n, k]; batched: [b, m, k] x [b, k, n]; vector: [k] x [k]; inner: [m, k, l]
// x [l, k]; outer: no sum.
void dot(Draft &draft) {
  const int32_t dtype = draft.point.dtype;
  const Dims e = draft.extents(3, 3, 3, draft.unlessBulk(250000, 3500000)); // m, k, n
  const int64_t m = e[0], k = e[1], n = e[2];
  struct Form {
    Dims lhs, rhs, lhsBatch, rhsBatch, lhsContract, rhsContract, to;
  };
  const Form forms[] = {{{m, k}, {k, n}, {}, {}, {1}, {0}, {m, n}},
                        {{k, m}, {n, k}, {}, {}, {0}, {1}, {m, n}},
                        {{2, m, k}, {2, k, n}, {0}, {0}, {2}, {1}, {2, m, n}},
                        {{k * m}, {k * m}, {}, {}, {0}, {0}, {}},
                        {{m, k, 3}, {3, k}, {}, {}, {1, 2}, {1, 0}, {m}},
                        {{m}, {n}, {}, {}, {}, {}, {m, n}}};
  const Form &form = forms[draft.point.variant];
  const auto *lhs = draft.operand(dtype, form.lhs), *rhs = draft.operand(dtype, form.rhs);
  draft.node({lhs, rhs}, {{dtype, form.to}},
             {integers("lhs_batch", form.lhsBatch), integers("lhs_contract", form.lhsContract),
              integers("rhs_batch", form.rhsBatch), integers("rhs_contract", form.rhsContract)});
}

void linear(Draft &draft) {
  const int32_t dtype = draft.point.dtype;
  Dims x = draft.extents(1, 5, 2, 12000);
  const int64_t k = x.back();
  const int64_t n = draft.point.shape == Shape::One     ? 1
                    : draft.point.shape == Shape::Large ? 96
                                                        : draft.pick(1, 37, 256);
  const bool transposed = draft.point.variant == 1, bare = draft.point.variant == 2; // plain, transposed, bare
  const auto *operand = draft.operand(dtype, x);
  const auto *weight = draft.operand(dtype, transposed ? Dims{k, n} : Dims{n, k});
  const auto *bias = bare ? nullptr : draft.input(dtype, {n}, plain);
  x.back() = n;
  draft.node({operand, weight, bias}, {{dtype, x}}, {flag("weight_transposed", transposed)});
}

// none; causal; mask: booleans; added: a mask that is added; grouped: several query heads for one of keys.
struct Heads {
  int64_t batch, heads, keyHeads, queries, keys, depth, width;
  explicit Heads(Draft &draft) {
    const Dims e = draft.extents(4, 4, 4, draft.unlessBulk(30000, 1 << 20)); // batch, heads, queries, depth
    batch = std::min<int64_t>(e[0], 3), keyHeads = std::clamp<int64_t>(e[1], 1, 3);
    heads = draft.point.variant == 4 ? 2 * keyHeads : keyHeads;
    queries = e[2], depth = e[3];
    keys = draft.point.shape == Shape::One     ? 1
           : draft.point.shape == Shape::Large ? draft.pick(100, 1100) // more than any block of keys
                                               : draft.pick(1, 19, 256);
    width = draft.unlessBulk(5, 64); // of values
  }
  Dims q() const { return {batch, heads, queries, depth}; }
  Dims k() const { return {batch, keyHeads, keys, depth}; }
  Dims v() const { return {batch, keyHeads, keys, width}; }
  Dims result() const { return {batch, heads, queries, width}; }
  Dims sums() const { return {batch, heads, queries}; }

  // NULL for the variants without one.
  const MortiseValue *mask(Draft &draft) const {
    const uint16_t variant = draft.point.variant;
    if (variant == 1 || variant == 2)
      draft.keepsFinite(); // a kernel may leave hidden keys out, whatever they hold
    return variant == 2   ? draft.input(MORTISE_I1, {batch, 1, queries, keys}, between(0, 1))
           : variant == 3 ? draft.input(draft.point.dtype, {1, heads, queries, keys}, plain)
                          : nullptr;
  }
};
std::vector<Attribute> attentionAttributes(const Draft &draft) {
  return {flag("causal", draft.point.variant == 1), real("scale", 0.25)};
}
int32_t sumsType(int32_t dtype) { return dtype == MORTISE_F64 ? MORTISE_F64 : MORTISE_F32; }

void attention(Draft &draft) {
  const int32_t dtype = draft.point.dtype;
  const Heads of(draft);
  const auto *q = draft.operand(dtype, of.q()), *k = draft.operand(dtype, of.k()), *v = draft.operand(dtype, of.v());
  draft.node({q, k, v, of.mask(draft)}, {{dtype, of.result()}}, attentionAttributes(draft));
}

void attentionForward(Draft &draft) {
  const int32_t dtype = draft.point.dtype;
  const Heads of(draft);
  const auto *q = draft.operand(dtype, of.q()), *k = draft.operand(dtype, of.k()), *v = draft.operand(dtype, of.v());
  draft.node({q, k, v, of.mask(draft)}, {{dtype, of.result()}, {sumsType(dtype), of.sums()}},
             attentionAttributes(draft));
}

void attentionGradient(Draft &draft) {
  const int32_t dtype = draft.point.dtype;
  const Heads of(draft);
  // Plain, since what weights e^(score - sum) come to is beyond f32 for others, and an order of summation decides then.
  const auto *q = draft.input(dtype, of.q(), plain), *k = draft.input(dtype, of.k(), plain);
  const auto *v = draft.operand(dtype, of.v()), *result = draft.input(dtype, of.result(), plain);
  const auto *sums = draft.input(sumsType(dtype), of.sums(), plain), *gradient = draft.operand(dtype, of.result());
  draft.node({q, k, v, result, sums, gradient, of.mask(draft)}, {{dtype, of.q()}, {dtype, of.k()}, {dtype, of.v()}},
             attentionAttributes(draft));
}

void raggedAttention(Draft &draft) {
  const int32_t dtype = draft.point.dtype;
  const Dims e = draft.extents(3, 3, 3, draft.unlessBulk(20000, 1 << 17)); // rows, heads, depth
  const int64_t rows = e[0], heads = std::clamp<int64_t>(e[1], 1, 4), depth = e[2], keys = draft.pick(1, 23, 256);
  const int64_t width = draft.unlessBulk(5, 64);
  std::vector<const MortiseValue *> operands = {draft.operand(dtype, {rows, heads, depth}),
                                                draft.operand(dtype, {keys, heads, depth}),
                                                draft.operand(dtype, {keys, heads, width})};
  operands.push_back(draft.input(MORTISE_I64, {4}, {Fill::Steps, 0, rows}));
  operands.push_back(draft.input(MORTISE_I64, {4}, {Fill::Steps, 0, keys}));
  draft.keepsFinite(); // a kernel may leave hidden keys out, whatever they hold
  draft.node(operands, {{dtype, {rows, heads, width}}},
             {flag("causal", draft.point.variant == 1), real("scale", 0.25)});
}

void rope(Draft &draft) {
  Dims dims = draft.extents(1, 6, 4);
  dims.back() *= 2;
  Dims table(dims.size(), 1);
  table.back() = dims.back();
  if (dims.size() > 1)
    table[dims.size() - 2] = dims[dims.size() - 2];
  const auto *x = draft.operand(draft.point.dtype, dims);
  const auto *cosine = draft.input(draft.point.dtype, table, plain),
             *sine = draft.input(draft.point.dtype, table, plain);
  draft.node({x, cosine, sine}, {{draft.point.dtype, dims}}, {flag("interleaved", draft.point.variant == 1)});
}

} // namespace

std::vector<Row> contractionRows() {
  return {{Op::Dot, {"plain", "turned", "batched", "vector", "inner", "outer"}, dot},
          {Op::Linear, {"plain", "transposed", "bare"}, linear},
          {Op::Attention, {"none", "causal", "mask", "added", "grouped"}, attention},
          {Op::AttentionForward, {"none", "causal", "mask", "added", "grouped"}, attentionForward},
          {Op::AttentionGradient, {"none", "causal", "mask", "added", "grouped"}, attentionGradient},
          {Op::RaggedAttention, {"none", "causal"}, raggedAttention},
          {Op::Rope, {"halves", "interleaved"}, rope}};
}

} // namespace mortise::conformance
