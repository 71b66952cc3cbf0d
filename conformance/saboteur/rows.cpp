// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Wrong arithmetic along rows: reductions, scans, sorts, softmax, norms.
#include "node.hpp"

#include <mortise/views.hpp>

#include <algorithm>
#include <cmath>

namespace saboteur {
namespace {

using Offsets = std::vector<int64_t>;

// The offsets, by `strides`, of all indices of `dims` in row-major order.
Offsets offsets(std::span<const int64_t> dims, std::span<const int64_t> strides) {
  Offsets made = {0};
  for (size_t d = 0; d < dims.size(); ++d) {
    Offsets next;
    for (const int64_t offset : made)
      for (int64_t i = 0; i < dims[d]; ++i)
        next.push_back(offset + i * strides[d]);
    made = std::move(next);
  }
  return made;
}

// The elements of the operand behind each element of a reduction's result.
struct Reduction {
  Offsets kept, reduced;
  explicit Reduction(const NodeRun &run) {
    const std::span<const int64_t> dims = run.operand(0).dims();
    Offsets axes, strides = mortise::denseStrides(dims), keptDims, keptStrides, goneDims, goneStrides;
    if (mortise::findAttribute(run.node, "axis"))
      axes = {mortise::intAttribute(run.node, "axis")};
    else if (const auto list = mortise::intsAttribute(run.node, "axes"); !list.empty())
      axes.assign(list.begin(), list.end());
    for (size_t d = 0; d < dims.size(); ++d) {
      const bool gone = std::ranges::find(axes, static_cast<int64_t>(d)) != axes.end();
      (gone ? goneDims : keptDims).push_back(dims[d]);
      (gone ? goneStrides : keptStrides).push_back(strides[d]);
    }
    kept = offsets(keptDims, keptStrides);
    reduced = offsets(goneDims, goneStrides);
  }
};

using Body = std::function<void(int64_t result, const Offsets &elements)>;

// Calls body(position in the result, positions in the operand) for each row of a reduction.
bool eachRow(const NodeRun &run, const Body &body) {
  const Reduction reduction(run);
  for (size_t i = 0; i < reduction.kept.size(); ++i) {
    Offsets elements = reduction.reduced;
    for (int64_t &element : elements)
      element += reduction.kept[i];
    body(static_cast<int64_t>(i), elements);
  }
  return true;
}

constexpr auto reductions = {Op::ReduceSum, Op::ReduceProd, Op::ReduceMax, Op::ReduceMin};

// The reduction of some elements, each step rounded to `dtype`.
double combined(Op op, const Tensor &x, std::span<const int64_t> elements, int32_t dtype) {
  double made = op == Op::ReduceProd ? 1 : op == Op::ReduceMax ? -INFINITY : op == Op::ReduceMin ? INFINITY : 0;
  for (const int64_t i : elements) {
    const double next = x.number(i);
    if (op == Op::ReduceMax || op == Op::ReduceMin)
      made = std::isnan(made) || std::isnan(next) ? NAN : (op == Op::ReduceMax) == (next > made) ? next : made;
    else
      made = rounded(op == Op::ReduceProd ? made * next : made + next, dtype);
  }
  return made;
}

bool reduceWrongly(NodeRun &run) {
  const Tensor x = run.operand(0), to = run.result();
  const bool narrow = x.hasFloats() && mortise::dtypeBits(x.dtype()) < 32;
  const bool extreme = run.isOneOf({Op::ReduceMax, Op::ReduceMin});
  if (is(Fault::SumInNarrow) && narrow && run.isOneOf({Op::ReduceSum, Op::Mean}))
    return eachRow(run, [&](int64_t r, const Offsets &row) {
      const double sum = combined(Op::ReduceSum, x, row, x.dtype());
      to.put(r, run.op == Op::Mean ? sum / static_cast<double>(row.size()) : sum);
    });
  if (is(Fault::ReduceSwallowsNan) && x.hasFloats() && extreme)
    return eachRow(run, [&](int64_t r, Offsets row) {
      if (!std::ranges::all_of(row, [&](int64_t i) { return std::isnan(x.number(i)); }))
        std::erase_if(row, [&](int64_t i) { return std::isnan(x.number(i)); });
      to.put(r, combined(run.op, x, row, x.dtype()));
    });
  if (is(Fault::ReduceMaxFromZero) && run.op == Op::ReduceMax && (x.hasFloats() || x.hasIntegers())) {
    run.interpret();
    for (int64_t i = 0; i < to.count(); ++i)
      if (x.hasFloats() ? to.number(i) < 0 : to.integer(i) < 0)
        std::fill_n(to.data + i * static_cast<int64_t>(mortise::dtypeBits(to.dtype()) / 8),
                    mortise::dtypeBits(to.dtype()) / 8, std::byte(0));
    return true;
  }
  if (is(Fault::ReduceTailLost) && x.hasFloats() && run.isOneOf(reductions))
    return eachRow(run, [&](int64_t r, Offsets row) {
      if (row.size() > 8)
        row.resize(row.size() / 8 * 8);
      to.put(r, combined(run.op, x, row, MORTISE_F64));
    });
  if (is(Fault::MeanByOneLess) && run.op == Op::Mean)
    return eachRow(run, [&](int64_t r, const Offsets &row) {
      const double count = row.size() < 2 ? static_cast<double>(row.size()) : static_cast<double>(row.size() - 1);
      to.put(r, combined(Op::ReduceSum, x, row, MORTISE_F64) / count);
    });
  return false;
}

bool chooseWrongly(NodeRun &run) {
  const Tensor x = run.operand(0), to = run.result();
  if (!x.hasFloats() && !x.hasIntegers())
    return false;
  const auto value = [&](int64_t i) { return x.hasFloats() ? x.number(i) : static_cast<double>(x.integer(i)); };
  const bool largest = run.op == Op::Argmax;
  const bool last = is(Fault::ArgmaxLastOfEqual), skips = is(Fault::ArgmaxSkipsNan) && x.hasFloats();
  if (!last && !skips)
    return false;
  return eachRow(run, [&](int64_t r, const Offsets &row) {
    size_t best = 0;
    for (size_t k = 1; k < row.size(); ++k) {
      const double now = value(row[k]), so = value(row[best]);
      const bool wins = std::isnan(now) ? last : std::isnan(so) ? skips : largest ? now > so : now < so;
      if (wins || (last && now == so))
        best = k;
    }
    to.put(r, static_cast<int64_t>(best));
  });
}

// ---- Lines along an axis, of the extents of the operand

struct Axis {
  int64_t outer = 1, extent = 1, inner = 1;
  Axis(const Tensor &x, int64_t axis) {
    for (int64_t d = 0; d < x.type->rank; ++d)
      (d < axis ? outer : d == axis ? extent : inner) *= x.dims()[static_cast<size_t>(d)];
  }
  int64_t at(int64_t line, int64_t k) const { return (line / inner * extent + k) * inner + line % inner; }
  int64_t lines() const { return outer * inner; }
};

bool scanWrongly(NodeRun &run) {
  const Tensor x = run.operand(0), to = run.result();
  const Axis axis(x, mortise::intAttribute(run.node, "axis"));
  const bool narrow = is(Fault::SumInNarrow) && x.hasFloats() && mortise::dtypeBits(x.dtype()) < 32;
  if (!narrow && !(is(Fault::ScanLosesCarry) && x.hasFloats()))
    return false;
  for (int64_t line = 0; line < axis.lines(); ++line) {
    double carry = 0, block = 0;
    for (int64_t k = 0; k < axis.extent; ++k) {
      if (!narrow && k % 32 == 0) {
        carry = block;
        block = 0;
      }
      block = narrow ? rounded(block + x.number(axis.at(line, k)), x.dtype()) : block + x.number(axis.at(line, k));
      to.put(axis.at(line, k), carry + block);
    }
  }
  return true;
}

bool softmaxWrongly(NodeRun &run) {
  const Tensor x = run.operand(0), to = run.result();
  const bool logarithm = run.op == Op::LogSoftmax;
  if (!(is(Fault::SoftmaxWithoutMax) && !logarithm) && !(is(Fault::LogSoftmaxOfSoftmax) && logarithm))
    return false;
  const Axis axis(x, mortise::intAttribute(run.node, "axis"));
  const int32_t wide = x.dtype() == MORTISE_F64 ? MORTISE_F64 : MORTISE_F32;
  for (int64_t line = 0; line < axis.lines(); ++line) {
    double most = logarithm ? -INFINITY : 0, sum = 0;
    for (int64_t k = 0; logarithm && k < axis.extent; ++k)
      most = std::fmax(most, x.number(axis.at(line, k)));
    const auto term = [&](int64_t k) { return rounded(std::exp(x.number(axis.at(line, k)) - most), wide); };
    for (int64_t k = 0; k < axis.extent; ++k)
      sum = rounded(sum + term(k), wide);
    for (int64_t k = 0; k < axis.extent; ++k) {
      const double share = rounded(term(k) / sum, wide);
      to.put(axis.at(line, k), logarithm ? std::log(share) : share);
    }
  }
  return true;
}

bool sortWrongly(NodeRun &run) {
  const Tensor x = run.operand(0), values = run.results[0], indices = run.results[1];
  if (!is(Fault::SortUnstable) || !x.hasFloats() || values.count() < 2)
    return false;
  run.interpret();
  const Axis axis(values, mortise::intAttribute(run.node, "axis"));
  for (int64_t line = 0; line < axis.lines(); ++line)
    for (int64_t begin = 0, end = 0; begin < axis.extent; begin = end) {
      for (end = begin + 1; end < axis.extent; ++end)
        if (values.number(axis.at(line, end)) != values.number(axis.at(line, begin)))
          break;
      for (int64_t a = begin, b = end - 1; a < b; ++a, --b) {
        const int64_t kept = indices.integer(axis.at(line, a));
        indices.put(axis.at(line, a), indices.integer(axis.at(line, b)));
        indices.put(axis.at(line, b), kept);
      }
    }
  return true;
}

// The moments of one row of a norm.
struct Moments {
  double mean = 0, variance = 0;
};
Moments momentsOf(const Tensor &x, int64_t begin, int64_t length, bool centred) {
  const auto count = static_cast<double>(length);
  const int32_t narrow = is(Fault::NormInNarrow) ? x.dtype() : MORTISE_F64;
  Moments made;
  for (int64_t i = begin; centred && i < begin + length; ++i)
    made.mean += x.number(i) / count;
  if (is(Fault::VarianceInOnePass)) {
    float sum = 0, squares = 0;
    for (int64_t i = begin; i < begin + length; ++i) {
      const auto element = static_cast<float>(x.number(i));
      sum += element;
      squares += element * element;
    }
    const float mean = sum / static_cast<float>(length);
    return {mean, squares / static_cast<float>(length) - mean * mean};
  }
  double squares = 0;
  for (int64_t i = begin; i < begin + length; ++i)
    squares = rounded(squares + rounded(std::pow(x.number(i) - made.mean, 2), narrow), narrow);
  made.variance = squares / (is(Fault::VarianceByOneLess) && length > 1 ? count - 1 : count);
  return made;
}

bool normaliseWrongly(NodeRun &run) {
  const bool centred = run.op == Op::LayerNorm;
  const Tensor x = run.operand(0), scale = run.optional(1), bias = centred ? run.optional(2) : Tensor(),
               to = run.result();
  const bool outside = is(Fault::EpsilonOutsideRoot);
  if (!(is(Fault::NormInNarrow) && !centred && mortise::dtypeBits(x.dtype()) < 32) &&
      !((is(Fault::VarianceByOneLess) || (is(Fault::VarianceInOnePass) && x.dtype() == MORTISE_F32)) && centred) &&
      !outside)
    return false;
  const double epsilon = mortise::floatAttribute(run.node, "epsilon");
  int64_t length = 1;
  for (int64_t d = mortise::intAttribute(run.node, "axis"); d < x.type->rank; ++d)
    length *= x.dims()[static_cast<size_t>(d)];
  for (int64_t row = 0; length && row < x.count(); row += length) {
    const auto [mean, variance] = momentsOf(x, row, length, centred);
    const double divisor = outside ? std::sqrt(variance) + epsilon : std::sqrt(variance + epsilon);
    for (int64_t i = 0; i < length; ++i)
      to.put(row + i,
             (x.number(row + i) - mean) / divisor * (scale ? scale.number(i) : 1) + (bias ? bias.number(i) : 0));
  }
  return true;
}

} // namespace

bool rowsWrongly(NodeRun &run) {
  switch (run.op) {
  case Op::ReduceSum:
  case Op::ReduceProd:
  case Op::ReduceMax:
  case Op::ReduceMin:
  case Op::Mean:
    return reduceWrongly(run);
  case Op::Argmax:
  case Op::Argmin:
    return chooseWrongly(run);
  case Op::Cumsum:
    return scanWrongly(run);
  case Op::Softmax:
  case Op::LogSoftmax:
    return softmaxWrongly(run);
  case Op::Sort:
  case Op::TopK:
    return sortWrongly(run);
  case Op::LayerNorm:
  case Op::RmsNorm:
    return normaliseWrongly(run);
  default:
    return false;
  }
}

} // namespace saboteur
