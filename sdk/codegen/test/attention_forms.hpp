// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An attention of any form, run by its kernel in the emulator, and judged as the conformance kit judges it: around
// exact results, by bounds in closed form.
#pragma once

#include "oracle.hpp"

#include <mortise/conformance/op_bounds.hpp>

namespace mortise::codegen::test {

using Mask = AttentionCode::Mask;
using Split = AttentionCode::Split;

enum class Layout {
  Dense,
  Tokens, // [batch, rows, heads, elements], read as [batch, heads, rows, elements]
  Odd,    // behind 3 elements, with 3 more in each row and 5 more in each head: no address is a multiple of 16
};

struct Form {
  int64_t batch = 1, heads = 1, groups = 1, queries = 16, keys = 16, depth = 16, width = 16;
  int32_t dtype = MORTISE_BF16;
  Mask mask = Mask::None;
  bool causal = false;
  Dims maskDims = {}; // empty: those of the scores
  double scale = 0.25;
  Layout layout = Layout::Dense, resultLayout = Layout::Dense;
  unsigned subgroups = 0, cluster = 0; // 0: as chosen
  std::optional<Split> split = std::nullopt;
  std::optional<bool> readsAhead = std::nullopt;

  std::string text() const {
    std::string all = dtypeName(dtype);
    for (const int64_t number : {batch, heads, groups, queries, keys, depth, width})
      all += " " + std::to_string(number);
    return all + (causal ? " causal" : "") + " mask " + std::to_string(static_cast<int>(mask)) + " layout " +
           std::to_string(static_cast<int>(layout)) + (split == Split::Keys ? " split keys" : "");
  }
};

// Where a tensor of 4 dimensions lies, and how many elements its memory has.
struct Placed {
  View view;
  int64_t span = 0;
};

inline Placed placed(const Dims &dims, Layout layout) {
  Placed made;
  made.view.dims.assign(dims.begin(), dims.end());
  Dims strides = denseStrides(dims);
  int64_t offset = 0;
  if (layout == Layout::Tokens) {
    strides = {dims[1] * dims[2] * dims[3], dims[3], dims[1] * dims[3], 1};
  } else if (layout == Layout::Odd) {
    offset = 3;
    strides = {0, 0, dims[3] + 3, 1};
    strides[1] = dims[2] * strides[2] + 5;
    strides[0] = dims[1] * strides[1];
  }
  made.view.offset = offset;
  made.view.strides.assign(strides.begin(), strides.end());
  made.span = offset + 1;
  for (size_t i = 0; i < 4; ++i) {
    if (dims[i] == 0)
      made.span = 0;
    made.span += made.span ? (dims[i] - 1) * strides[i] : 0;
  }
  return made;
}

// Calls `use` with the dense position of each element and its place.
template <typename Use> void forEachElement(const Dims &dims, const View &view, Use use) {
  const auto stride = [&](size_t i) { return *view.strides[i].number(); };
  int64_t dense = 0;
  for (int64_t b = 0; b < dims[0]; ++b)
    for (int64_t h = 0; h < dims[1]; ++h)
      for (int64_t i = 0; i < dims[2]; ++i)
        for (int64_t e = 0; e < dims[3]; ++e)
          use(dense++, *view.offset.number() + b * stride(0) + h * stride(1) + i * stride(2) + e * stride(3));
}

class Attention {
public:
  enum Operand : uint8_t { OfQ, OfK, OfV, OfMask };

  explicit Attention(const Form &form) : form(form) {
    dims = {{form.batch, form.heads, form.queries, form.depth},
            {form.batch, form.groups, form.keys, form.depth},
            {form.batch, form.groups, form.keys, form.width}};
    if (form.mask != Mask::None)
      dims.push_back(form.maskDims.empty() ? Dims{form.batch, form.heads, form.queries, form.keys} : form.maskDims);
    resultDims = {form.batch, form.heads, form.queries, form.width};
    for (size_t i = 0; i < dims.size(); ++i) {
      operands.push_back(builder.input(dtypeOf(i), dims[i]));
      places.push_back(placed(dims[i], form.layout));
      flatOperands.push_back(flat.input(dtypeOf(i), {std::max<int64_t>(places[i].span, 1)}));
    }
    builder.output(
        builder.op("attention", operands, form.dtype, resultDims, {{"scale", form.scale}, {"causal", form.causal}}));
    place = placed(resultDims, form.resultLayout);
    flatResult = flat.input(form.dtype, {std::max<int64_t>(place.span, 1)});
    dense.emplace(builder.view());
    memory.emplace(flat.view());
    for (size_t i = 0; i < dims.size(); ++i)
      fill(static_cast<Operand>(i), 0);
  }

  // Normal numbers, `special` of a thousand of them special ones; booleans.
  void fill(Operand operand, unsigned special, double deviation = 1.5, const std::vector<double> &list = hostile) {
    std::mt19937 engine(operand + 7);
    std::normal_distribution<double> normal(0, deviation);
    for (int64_t i = 0; i < elementCount(*operands[operand]->type); ++i) {
      double number = dtypeOf(operand) == MORTISE_I1 ? engine() % 2 : normal(engine);
      if (engine() % 1000 < special)
        number = list[engine() % list.size()];
      set(operand, i, number);
    }
  }
  void set(Operand operand, int64_t i, double number) {
    setElement(dense->at(operands[operand]->index), dtypeOf(operand), i, number);
  }
  double get(Operand operand, int64_t i) { return element(dense->at(operands[operand]->index), dtypeOf(operand), i); }
  int64_t count(Operand operand) const { return elementCount(*operands[operand]->type); }

  // Runs the kernel. The result, dense.
  std::vector<double> run() {
    std::vector<View> views;
    std::vector<std::byte *> addresses;
    for (size_t i = 0; i < dims.size(); ++i) {
      views.push_back(places[i].view);
      addresses.push_back(memory->at(flatOperands[i]->index));
      const size_t bytes = dtypeBits(dtypeOf(i)) / 8;
      const std::byte *from = dense->at(operands[i]->index);
      forEachElement(dims[i], places[i].view, [&](int64_t at, int64_t to) {
        std::copy_n(from + static_cast<size_t>(at) * bytes, bytes, addresses[i] + static_cast<size_t>(to) * bytes);
      });
    }
    std::byte *to = memory->at(flatResult->index);
    addresses.push_back(to);
    const size_t bytes = byteSize(*flatResult->type);
    std::fill_n(to, bytes, std::byte(0xa5));
    const MortiseNode &node = *builder.view().nodes[0];
    EXPECT_TRUE(supportsAttention(node, Emulator::shared().target()).yes);
    AttentionCall call = attentionCall(node, views, place.view, {}, Emulator::shared().target());
    if (form.split && call.code.split != *form.split)
      call.code.split = *form.split, call.code.subgroups = 2, call.code.cluster = 1;
    if (form.subgroups)
      call.code.subgroups = form.subgroups, call.code.cluster = 1;
    if (form.cluster)
      call.code.subgroups = call.code.mostSubgroups(), call.code.cluster = form.cluster;
    call.code.readsAhead = form.readsAhead.value_or(call.code.readsAhead);
    runAttention(call, addresses);
    std::vector<double> found;
    std::vector<bool> written(static_cast<size_t>(std::max<int64_t>(place.span, 1)));
    forEachElement(resultDims, place.view, [&](int64_t, int64_t from) {
      written[static_cast<size_t>(from)] = true;
      found.push_back(element(to, form.dtype, from));
    });
    for (size_t i = 0; i < written.size(); ++i)
      EXPECT_TRUE(written[i] || (to[2 * i] == std::byte(0xa5) && to[2 * i + 1] == std::byte(0xa5)))
          << form.text() << ": wrote behind a row, at " << i;
    EXPECT_TRUE(memory->intact(flatResult->index));
    return found;
  }

  conformance::ExactResult exact() {
    std::vector<const void *> inputs;
    for (V operand : operands)
      inputs.push_back(dense->at(operand->index));
    auto made = conformance::exactResults(builder.view(), inputs);
    EXPECT_TRUE(made) << made.error().message;
    return made ? made->front() : conformance::ExactResult{};
  }

  void check() { compare(run(), exact()); }

  void compare(const std::vector<double> &found, const conformance::ExactResult &exact) const {
    ASSERT_EQ(found.size(), exact.values.size()) << form.text();
    const double top = conformance::largestFinite(form.dtype), behind = top + conformance::ulp(top, form.dtype);
    for (size_t i = 0; i < found.size(); ++i) {
      const double want = exact.values[i], bound = exact.bounds[i];
      if (std::isnan(want) ? std::isnan(found[i]) : found[i] == want)
        continue;
      if (!std::isfinite(bound))
        continue; // rounding alone makes an intermediate result finite or not
      const double distance = std::isfinite(found[i])                       ? std::abs(found[i] - want)
                              : std::isinf(found[i]) && want * found[i] > 0 ? std::max(0.0, behind - std::abs(want))
                                                                            : INFINITY;
      ASSERT_TRUE(std::isfinite(want) && distance <= bound)
          << form.text() << ", element " << i << " of row " << i / static_cast<size_t>(form.width) << ": found "
          << found[i] << ", expected " << want << " within " << bound << ", is " << distance;
    }
  }

  static inline const std::vector<double> hostile = {0.0,  -0.0, INFINITY, -INFINITY, NAN,  1.0,
                                                     -1.0, 0.5,  65504,    1e-30,     6e-8, -100};
  const Form form;

private:
  int32_t dtypeOf(size_t operand) const {
    return operand == OfMask && form.mask == Mask::Hides ? MORTISE_I1 : form.dtype;
  }
  TestGraph builder, flat;
  std::vector<Dims> dims;
  Dims resultDims;
  std::vector<V> operands, flatOperands;
  V flatResult = nullptr;
  std::vector<Placed> places;
  Placed place;
  std::optional<Memory> dense, memory;
};

inline void check(const Form &form) {
  Attention attention(form);
  attention.check();
}

inline constexpr int32_t dtypes[] = {MORTISE_BF16, MORTISE_F16};

} // namespace mortise::codegen::test
