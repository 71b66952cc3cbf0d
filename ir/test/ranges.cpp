// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "range_arithmetic.hpp"

#include <mortise/graph.hpp>
#include <mortise/reference/formats.hpp>
#include <mortise/reference/interpreter.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <unordered_map>

namespace mortise::test {
namespace {

using reference::visitElement;

using Dims = std::vector<int64_t>;
int64_t product(std::span<const int64_t> dims) {
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= dim;
  return count;
}
Dims stridesOf(std::span<const int64_t> dims) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0; stride *= dims[i])
    strides[i] = stride;
  return strides;
}
// Calls body(index, number) for every index of `dims` in row-major order.
template <typename Body> void forEach(std::span<const int64_t> dims, Body body) {
  Dims index(dims.size());
  for (int64_t n = 0; n < product(dims); ++n) {
    body(index, static_cast<size_t>(n));
    for (size_t d = dims.size(); d-- > 0;) {
      if (++index[d] < dims[d])
        break;
      index[d] = 0;
    }
  }
}

struct Node { // the node that is evaluated
  const MortiseNode &node;
  std::vector<const Ranges *> operands;
  const MortiseType &type(size_t i) const { return *node.operands[i]->type; }
  const MortiseType &resultType() const { return *node.results[0]->type; }
  const Ranges &operator[](size_t i) const { return *operands[i]; }
  std::span<const int64_t> ints(const char *name) const { return intsAttribute(node, name); }
};
using Rule = std::function<void(const Node &, Ranges &)>;

template <typename Function> Rule unary(Function function) {
  return [function](const Node &node, Ranges &result) {
    for (size_t i = 0; i < result.size(); ++i)
      result[i] = node[0][i].nan == Range::always ? notANumber : function(node[0][i]);
  };
}
template <typename Function> Rule binary(Function function) {
  return [function](const Node &node, Ranges &result) {
    for (size_t i = 0; i < result.size(); ++i)
      result[i] = function(node[0][i], node[1][i]);
  };
}
// result[index] = operand[offset + sum(index * strides)].
void gather(const Ranges &from, std::span<const int64_t> dims, int64_t offset, const Dims &strides, Ranges &result) {
  forEach(dims, [&](const Dims &index, size_t n) {
    int64_t at = offset;
    for (size_t d = 0; d < index.size(); ++d)
      at += index[d] * strides[d];
    result[n] = from[static_cast<size_t>(at)];
  });
}

void constant(const Node &node, Ranges &result) {
  const MortiseAttribute &value = *findAttribute(node.node, "value");
  std::vector<long double> numbers = decode(*value.tensor_type, value.tensor_data);
  int32_t dtype = value.tensor_type->dtype;
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] = Range::of(numbers[i]);
    auto x = static_cast<double>(numbers[i]);
    // A literal that bf16 represents is taken as exact.
    bool few = !isFloat(dtype) || !std::isfinite(x) || nearest(MORTISE_BF16, x) == x;
    if (!few)
      result[i] = {-next(dtype, -x), next(dtype, x), Range::never};
  }
}
void broadcast(const Node &node, Ranges &result) {
  std::span<const int64_t> from = dims(node.type(0)), axes = node.ints("axes");
  Dims strides(static_cast<size_t>(node.resultType().rank)), own = stridesOf(from);
  for (size_t d = 0; d < from.size(); ++d)
    strides[static_cast<size_t>(axes[d])] = from[d] == 1 ? 0 : own[d];
  gather(node[0], dims(node.resultType()), 0, strides, result);
}
void slice(const Node &node, Ranges &result) {
  Dims strides = stridesOf(dims(node.type(0)));
  int64_t offset = 0;
  for (size_t d = 0; d < strides.size(); ++d) {
    offset += node.ints("starts")[d] * strides[d];
    strides[d] *= node.ints("strides")[d];
  }
  gather(node[0], dims(node.resultType()), offset, strides, result);
}
void transpose(const Node &node, Ranges &result) {
  Dims own = stridesOf(dims(node.type(0))), strides;
  for (int64_t axis : node.ints("permutation"))
    strides.push_back(own[static_cast<size_t>(axis)]);
  gather(node[0], dims(node.resultType()), 0, strides, result);
}
void concatenate(const Node &node, Ranges &result) {
  auto axis = static_cast<size_t>(intAttribute(node.node, "axis"));
  Dims strides = stridesOf(dims(node.resultType()));
  int64_t start = 0;
  for (size_t o = 0; o < node.operands.size(); ++o) {
    forEach(dims(node.type(o)), [&](const Dims &index, size_t n) {
      int64_t at = start * strides[axis];
      for (size_t d = 0; d < index.size(); ++d)
        at += index[d] * strides[d];
      result[static_cast<size_t>(at)] = node[o][n];
    });
    start += dims(node.type(o))[axis];
  }
}
void iota(const Node &node, Ranges &result) {
  auto axis = static_cast<size_t>(intAttribute(node.node, "axis"));
  forEach(dims(node.resultType()), [&](const Dims &index, size_t n) { result[n] = Range::of(index[axis]); });
}
void take(const Node &node, Ranges &result) {
  std::span<const int64_t> from = dims(node.type(0));
  auto axis = static_cast<size_t>(intAttribute(node.node, "axis"));
  int64_t inner = product(from.subspan(axis + 1)), count = static_cast<int64_t>(node[1].size());
  for (size_t n = 0; n < result.size(); ++n) {
    auto at = static_cast<int64_t>(n);
    int64_t i = at % inner, k = at / inner % count, o = at / inner / count;
    auto index = static_cast<int64_t>(node[1][static_cast<size_t>(k)].low);
    index = index < -from[axis] ? 0 : index >= from[axis] ? from[axis] - 1 : index < 0 ? index + from[axis] : index;
    result[n] = node[0][static_cast<size_t>((o * from[axis] + index) * inner + i)];
  }
}
void reduce(const Node &node, Ranges &result, const std::string &how) {
  std::span<const int64_t> from = dims(node.type(0)), axes = node.ints("axes");
  Dims strides(from.size()), own = stridesOf(dims(node.resultType()));
  for (size_t d = 0, k = 0; d < from.size(); ++d)
    if (std::ranges::find(axes, static_cast<int64_t>(d)) == axes.end())
      strides[d] = own[k++];
  std::vector<Sum> sums(result.size());
  std::vector<bool> started(result.size());
  forEach(from, [&](const Dims &index, size_t n) {
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d)
      at += index[d] * strides[d];
    auto to = static_cast<size_t>(at);
    if (how == "sum")
      sums[to] += node[0][n];
    else
      result[to] = started[to] ? extreme(result[to], node[0][n], how == "max") : node[0][n];
    started[to] = true;
  });
  int32_t dtype = node.resultType().dtype;
  for (size_t i = 0; i < result.size(); ++i)
    if (how == "sum")
      result[i] = sums[i].result();
    else if (!started[i])
      result[i] = visitElement(dtype, [&](auto type) {
        using T = decltype(type);
        long double end;
        if constexpr (T::isFloat)
          end = T::dtype == MORTISE_F8E4M3FN ? 448 : infinite;
        else
          end = how == "max" ? -static_cast<long double>(T::lowest) : static_cast<long double>(T::highest);
        return Range::of(how == "max" ? -end : end);
      });
}
void dot(const Node &node, Ranges &result) {
  auto left = dims(node.type(0)), right = dims(node.type(1));
  auto lb = node.ints("lhs_batch"), rb = node.ints("rhs_batch"), lc = node.ints("lhs_contract"),
       rc = node.ints("rhs_contract");
  Dims ls = stridesOf(left), rs = stridesOf(right), leftAt, rightAt, inner, innerLeft, innerRight;
  auto in = [](std::span<const int64_t> list, size_t value) {
    return std::ranges::find(list, static_cast<int64_t>(value)) != list.end();
  };
  for (size_t i = 0; i < lb.size(); ++i) {
    leftAt.push_back(ls[static_cast<size_t>(lb[i])]);
    rightAt.push_back(rs[static_cast<size_t>(rb[i])]);
  }
  for (size_t d = 0; d < left.size(); ++d)
    if (!in(lb, d) && !in(lc, d)) {
      leftAt.push_back(ls[d]);
      rightAt.push_back(0);
    }
  for (size_t d = 0; d < right.size(); ++d)
    if (!in(rb, d) && !in(rc, d)) {
      leftAt.push_back(0);
      rightAt.push_back(rs[d]);
    }
  for (size_t i = 0; i < lc.size(); ++i) {
    inner.push_back(left[static_cast<size_t>(lc[i])]);
    innerLeft.push_back(ls[static_cast<size_t>(lc[i])]);
    innerRight.push_back(rs[static_cast<size_t>(rc[i])]);
  }
  forEach(dims(node.resultType()), [&](const Dims &index, size_t n) {
    int64_t l = 0, r = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      l += index[d] * leftAt[d];
      r += index[d] * rightAt[d];
    }
    Sum sum;
    forEach(inner, [&](const Dims &k, size_t) {
      int64_t a = l, b = r;
      for (size_t d = 0; d < k.size(); ++d) {
        a += k[d] * innerLeft[d];
        b += k[d] * innerRight[d];
      }
      sum += mul(node[0][static_cast<size_t>(a)], node[1][static_cast<size_t>(b)]);
    });
    result[n] = sum.result();
  });
}
void convolution(const Node &node, Ranges &result) {
  auto x = dims(node.type(0)), weight = dims(node.type(1));
  Dims xs = stridesOf(x), ws = stridesOf(weight);
  const int64_t groups = std::max<int64_t>(1, intAttribute(node.node, "groups"));
  int64_t outputs = weight[0] / groups;
  forEach(dims(node.resultType()), [&](const Dims &index, size_t n) {
    Sum sum;
    forEach(weight.subspan(1), [&](const Dims &tap, size_t) {
      int64_t at = index[0] * xs[0] + (index[1] / outputs * weight[1] + tap[0]) * xs[1],
              w = index[1] * ws[0] + tap[0] * ws[1];
      bool inside = true;
      for (size_t d = 2; d < x.size(); ++d) {
        int64_t i = index[d] * node.ints("strides")[d - 2] - node.ints("low")[d - 2] +
                    tap[d - 1] * node.ints("dilations")[d - 2];
        inside = inside && i >= 0 && i < x[d];
        at += i * xs[d];
        w += tap[d - 1] * ws[d];
      }
      sum += mul(inside ? node[0][static_cast<size_t>(at)] : Range::of(0), node[1][static_cast<size_t>(w)]);
    });
    result[n] = sum.result();
  });
}

Rule reducing(const char *how) {
  return [how](const Node &node, Ranges &result) { reduce(node, result, how); };
}
template <double (*function)(double)> double call(double x) { return function(x); }

const std::unordered_map<std::string_view, Rule> &rules() {
  static const std::unordered_map<std::string_view, Rule> all = {
      {"add", binary(add)},
      {"sub", binary([](const Range &a, const Range &b) { return add(a, negated(b)); })},
      {"mul", binary(mul)},
      {"div", binary(div)},
      {"max", binary([](const Range &a, const Range &b) { return extreme(a, b, true); })},
      {"min", binary([](const Range &a, const Range &b) { return extreme(a, b, false); })},
      {"neg", unary(negated)},
      {"abs", unary(magnitude)},
      {"round", unary([](const Range &a) { return Range{std::nearbyint(a.low), std::nearbyint(a.high), a.nan}; })},
      {"exp", unary([](const Range &a) {
         return rising(a, [](double x) { return std::exp(x); }, -infinite, infinite, isZeroOrEnd, 0);
       })},
      {"log", unary([](const Range &a) {
         return rising(a, [](double x) { return std::log(std::abs(x)); }, 0, infinite, isOneOrEnd);
       })},
      {"logistic", unary([](const Range &a) {
         return rising(
             a,
             [](double x) {
               double e = std::exp(-std::abs(x));
               return x >= 0 ? 1 / (1 + e) : e / (1 + e);
             },
             -infinite, infinite, isZeroOrEnd, 0, 1);
       })},
      {"tanh", unary([](const Range &a) {
         return rising(a, [](double x) { return std::tanh(x); }, -infinite, infinite, isZeroOrEnd, -1, 1);
       })},
      {"erfc", unary([](const Range &a) {
         return falling(a, [](double x) { return std::erfc(x); }, -infinite, infinite, isZeroOrEnd, 0, 2);
       })},
      {"sqrt", unary(squareRoot)},
      {"rsqrt", unary(reciprocalRoot)},
      {"cos", unary(cosine)},
      {"compare",
       [](const Node &node, Ranges &result) {
         for (size_t i = 0; i < result.size(); ++i)
           result[i] = compared(node[0][i], node[1][i], stringAttribute(node.node, "direction"));
       }},
      {"select",
       [](const Node &node, Ranges &result) {
         for (size_t i = 0; i < result.size(); ++i) {
           const Range &chosen = node[0][i];
           result[i] =
               chosen.low == chosen.high ? (chosen.low != 0 ? node[1][i] : node[2][i]) : hull(node[1][i], node[2][i]);
         }
       }},
      {"convert",
       [](const Node &node, Ranges &result) {
         for (size_t i = 0; i < result.size(); ++i)
           result[i] = converted(node[0][i], node.type(0).dtype, node.resultType().dtype);
       }},
      {"constant", constant},
      {"broadcast", broadcast},
      {"reshape", [](const Node &node, Ranges &result) { result = node[0]; }},
      {"transpose", transpose},
      {"slice", slice},
      {"concatenate", concatenate},
      {"iota", iota},
      {"extents",
       [](const Node &node, Ranges &result) {
         for (size_t i = 0; i < result.size(); ++i)
           result[i] = Range::of(node.ints("shape")[i]);
       }},
      {"take", take},
      {"reduce_sum", reducing("sum")},
      {"reduce_max", reducing("max")},
      {"reduce_min", reducing("min")},
      {"dot", dot},
      {"convolution", convolution},
  };
  return all;
}

// Runs an op on exact numbers in the interpreter: for ops on integers and bits, and ops that only move elements.
Result<std::vector<Ranges>> exactly(const MortiseGraph &graph, const MortiseNode &node,
                                    const std::vector<Ranges> &values) {
  uint32_t index[] = {node.index};
  Result<Region> region = extractRegion(graph, index);
  if (!region)
    return region.error();
  Buffers buffers;
  for (uint32_t input : region->inputs) {
    std::vector<long double> numbers;
    for (const Range &range : values[input]) {
      if (!range.isPoint())
        return Error{MORTISE_UNSUPPORTED, std::string(node.op) + ": no rule for ranges"};
      numbers.push_back(range.nan == Range::always ? std::numeric_limits<long double>::quiet_NaN() : range.low);
    }
    buffers.push_back(encode(*graph.values[input]->type, numbers));
  }
  Result<Buffers> results = interpret(region->graph->view(), buffers);
  if (!results)
    return results.error();
  std::vector<Ranges> ranges(node.result_count);
  for (size_t i = 0; i < results->size(); ++i) {
    const MortiseValue &value = *graph.values[region->outputs[i]];
    for (long double number : decode(*value.type, (*results)[i].data()))
      ranges[value.result_index].push_back(Range::of(number));
  }
  return ranges;
}

} // namespace

Range Range::of(long double value) { return std::isnan(value) ? notANumber : Range{value, value, Range::never}; }
bool Range::allows(double value) const {
  if (std::isnan(value))
    return nan != never;
  return nan != always && low <= value && value <= high;
}
bool Range::isOpen() const {
  return nan == maybe || (nan == never && low != high && (low == -infinite || high == infinite));
}

Result<std::vector<Ranges>> enclose(const MortiseGraph &graph, const std::vector<Ranges> &inputs) {
  std::vector<Ranges> values(graph.value_count);
  for (size_t i = 0; i < graph.input_count; ++i)
    values[graph.inputs[i]->index] = inputs[i];
  for (size_t i = 0; i < graph.node_count; ++i) {
    const MortiseNode &node = *graph.nodes[i];
    auto rule = rules().find(std::string_view(node.op).substr(std::string_view("mortise.").size()));
    if (rule == rules().end()) {
      Result<std::vector<Ranges>> results = exactly(graph, node, values);
      if (!results)
        return results.error();
      for (size_t k = 0; k < node.result_count; ++k)
        values[node.results[k]->index] = std::move((*results)[k]);
      continue;
    }
    Node call{node, {}};
    for (size_t k = 0; k < node.operand_count; ++k)
      call.operands.push_back(&values[node.operands[k]->index]);
    Ranges result(static_cast<size_t>(elementCount(call.resultType())));
    rule->second(call, result);
    for (Range &range : result)
      range = rounded(call.resultType().dtype, range);
    values[node.results[0]->index] = std::move(result);
  }
  std::vector<Ranges> outputs;
  for (size_t i = 0; i < graph.output_count; ++i)
    outputs.push_back(values[graph.outputs[i]->index]);
  return outputs;
}

std::vector<long double> decode(const MortiseType &type, const void *bytes) {
  std::vector<long double> values(static_cast<size_t>(elementCount(type)));
  visitElement(type.dtype, [&](auto element) {
    using T = decltype(element);
    for (size_t i = 0; i < values.size(); ++i) {
      typename T::Storage stored;
      if (T::dtype == MORTISE_I4)
        stored = T::store(static_cast<const uint8_t *>(bytes)[i / 2] >> (i % 2 * 4));
      else
        std::memcpy(&stored, static_cast<const char *>(bytes) + i * sizeof stored, sizeof stored);
      values[i] = static_cast<long double>(T::load(stored));
    }
  });
  return values;
}
std::vector<char> encode(const MortiseType &type, std::span<const long double> values) {
  std::vector<char> bytes(byteSize(type) + 8); // never empty
  visitElement(type.dtype, [&](auto element) {
    using T = decltype(element);
    for (size_t i = 0; i < values.size(); ++i) {
      auto stored = T::store(static_cast<typename T::Compute>(values[i]));
      if (T::dtype == MORTISE_I4)
        bytes[i / 2] = static_cast<char>(bytes[i / 2] | (static_cast<uint8_t>(stored) & 15) << (i % 2 * 4));
      else
        std::memcpy(bytes.data() + i * sizeof stored, &stored, sizeof stored);
    }
  });
  return bytes;
}

Result<Buffers> interpret(const MortiseGraph &graph, const Buffers &inputs) {
  std::vector<const void *> in;
  std::vector<void *> out;
  for (const auto &buffer : inputs)
    in.push_back(buffer.data());
  Buffers outputs;
  for (size_t n = 0; n < graph.output_count; ++n)
    outputs.emplace_back(byteSize(*graph.outputs[n]->type) + 8); // never empty
  for (auto &buffer : outputs)
    out.push_back(buffer.data());
  if (Result<void> done = reference::interpret(graph, in, out); !done)
    return done.error();
  return outputs;
}

} // namespace mortise::test
