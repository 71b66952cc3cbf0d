// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random small graphs: views, elementwise ops, gathers, reductions and norms in any order.
#pragma once

#include "graph/index.hpp"
#include "test_graph.hpp"

#include <algorithm>
#include <map>
#include <random>

namespace mortise::codegen::test {

// Makes the same choices for the same seed, whether extents are numbers, symbols, or the symbols' values.
class RandomGraph {
public:
  enum class Kind { Numbers, Symbols, Values };
  RandomGraph(unsigned seed, Kind kind, std::vector<int64_t> symbolValues = {})
      : kind(kind), symbolValues(std::move(symbolValues)), random(seed) {
    facts.symbols = {{2, INT64_MAX, 1}, {2, 300, 1}, {4, INT64_MAX, 4}};
    if (kind == Kind::Symbols)
      for (const SymbolRange &range : facts.symbols)
        b.symbol("s", range.min, range.max, range.divisor);
  }
  int64_t pick(int64_t n) { return static_cast<int64_t>(random() % n); }

  void build() {
    static const int64_t extents[] = {1, 2, 3, 5, 8, 16, 17, 33};
    for (int i = 0; i < 2; ++i) {
      Extents dims;
      for (int64_t r = pick(4); r-- > 0;)
        if (kind != Kind::Numbers && pick(2))
          dims.push_back(Dim::symbol(static_cast<uint32_t>(pick(3))));
        else
          dims.push_back(extents[pick(8)]);
      remember(b.symbolicInput(MORTISE_F32, real(dims)), dims);
      inputs.push_back(values.back());
    }
    for (int64_t steps = 3 + pick(10); steps-- > 0;)
      grow(values[std::max<int64_t>(0, static_cast<int64_t>(values.size()) - 1 - pick(4))]);
    b.output(values.back());
    if (pick(2))
      b.output(values[values.size() - 2]->producer ? values[values.size() - 2] : values.back());
  }

  // More elements than the reference computes in little time.
  bool isTooLarge() const {
    return std::any_of(values.begin(), values.end(), [](V value) { return elementCount(*value->type) > 200000; });
  }

  TestGraph b;
  std::vector<V> values, inputs;

private:
  const Extents &dimsOf(V v) { return shapes[v]; }
  Extents real(Extents dims) const {
    if (kind == Kind::Values)
      for (Dim &dim : dims)
        dim = *dim.evaluate(symbolValues);
    return dims;
  }
  V remember(V value, Extents dims) {
    shapes[value] = std::move(dims);
    values.push_back(value);
    return value;
  }
  V add(const std::string &op, std::vector<V> operands, Extents dims, std::vector<Attr> attributes = {}) {
    for (Attr &attribute : attributes)
      attribute.extents = real(attribute.extents);
    V value = b.symbolicOp(op, std::move(operands), MORTISE_F32, real(dims), std::move(attributes));
    return remember(value, std::move(dims));
  }
  int64_t least(const Dim &dim) const { return facts.bounds(dim).low; }
  // A value of the same shape: an earlier one, or a broadcast of the sum.
  V partner(V x) {
    std::vector<V> same;
    for (V v : values)
      if (dimsOf(v) == dimsOf(x))
        same.push_back(v);
    return same[pick(same.size())];
  }
  void grow(V x) {
    Extents dims = dimsOf(x);
    int64_t rank = dims.size();
    switch (pick(13)) {
    case 0:
      add("abs", {x}, dims);
      return;
    case 1:
      add("tanh", {x}, dims);
      return;
    case 2:
    case 3:
      add(pick(2) ? "add" : "max", {x, partner(x)}, dims);
      return;
    case 4:
      add("mul", {x, partner(x)}, dims);
      return;
    case 5: { // reshape: merge or split
      Extents to = dims;
      if (rank >= 2 && pick(2)) {
        int64_t i = pick(rank - 1);
        merged.push_back({to[i], to[i + 1]});
        to[i] *= to[i + 1];
        to.erase(to.begin() + i + 1);
      } else {
        int64_t i = rank ? pick(rank) : 0;
        Extents parts{1, rank ? to[i] : Dim(1)};
        if (rank && facts.isMultiple(to[i], 2))
          parts = {2, floorDiv(to[i], 2)};
        for (const auto &[outer, inner] : merged) // split a merged dimension again, in either order
          if (rank && outer * inner == to[i])
            parts = pick(2) ? Extents{outer, inner} : Extents{inner, outer};
        if (rank)
          to.erase(to.begin() + i);
        to.insert(to.begin() + i, parts.begin(), rank ? parts.end() : parts.begin() + 1);
      }
      add("reshape", {x}, to, {{"shape", to}});
      return;
    }
    case 6: { // transpose
      Dims permutation(rank);
      Extents to(rank);
      for (int64_t i = 0; i < rank; ++i)
        permutation[i] = i;
      std::shuffle(permutation.begin(), permutation.end(), random);
      for (int64_t i = 0; i < rank; ++i)
        to[i] = dims[permutation[i]];
      add("transpose", {x}, to, {{"permutation", permutation}});
      return;
    }
    case 7: { // broadcast with a new dimension
      if (rank > 4)
        return;
      Extents to = dims;
      Dims axes;
      int64_t at = pick(rank + 1);
      to.insert(to.begin() + at, 3);
      for (int64_t i = 0; i < rank; ++i)
        axes.push_back(i < at ? i : i + 1);
      add("broadcast", {x}, to, {{"shape", to}, {"axes", axes}});
      return;
    }
    case 8: { // slice
      if (!rank)
        return;
      Extents starts(rank, 0), limits = dims, to = dims;
      Dims steps(rank, 1);
      int64_t i = pick(rank);
      starts[i] = pick(4) ? Dim(pick(std::min<int64_t>(least(dims[i]), 40))) : dims[i] - 1;
      steps[i] = 1 + pick(2);
      to[i] = ceilDiv(dims[i] - starts[i], steps[i]);
      add("slice", {x}, to, {{"starts", starts}, {"limits", limits}, {"strides", steps}});
      return;
    }
    case 9: { // reduce
      if (!rank)
        return;
      Dims axes;
      Extents to;
      for (int64_t i = 0; i < rank; ++i)
        if (pick(2) || (i == rank - 1 && axes.empty()))
          axes.push_back(i);
        else
          to.push_back(dims[i]);
      static const char *ops[] = {"reduce_max", "reduce_min", "mean"};
      V r = add(ops[pick(3)], {x}, to, {{"axes", axes}});
      if (pick(2)) { // broadcast back
        Dims kept;
        for (int64_t i = 0; i < rank; ++i)
          if (std::find(axes.begin(), axes.end(), i) == axes.end())
            kept.push_back(i);
        V wide = add("broadcast", {r}, dims, {{"shape", dims}, {"axes", kept}});
        add("sub", {x, wide}, dims);
      }
      return;
    }
    case 10:
      if (rank)
        add("softmax", {x}, dims, {{"axis", pick(rank)}});
      return;
    case 11: { // pad or concatenate
      if (!rank)
        return;
      int64_t i = pick(rank);
      Extents to = dims;
      if (pick(2)) {
        Extents low(rank, 0), high(rank, 0);
        Dims interior(rank, 0);
        low[i] = pick(3) ? Dim(2) : dims[pick(rank)], high[i] = 1, to[i] += low[i] + 1;
        V zero = b.constant<float>(MORTISE_F32, {}, {0.25f});
        add("pad", {x, zero}, to, {{"low", low}, {"high", high}, {"interior", interior}});
      } else {
        to[i] += to[i];
        add("concatenate", {x, partner(x)}, to, {{"axis", i}});
      }
      return;
    }
    default: { // take
      if (!rank)
        return;
      int64_t axis = pick(rank);
      V index = b.constant<int64_t>(MORTISE_I64, {3}, {0, -1, pick(std::min<int64_t>(least(dims[axis]), 40) + 2)});
      Extents to = dims;
      to[axis] = 3;
      add("take", {x, index}, to, {{"axis", axis}});
      return;
    }
    }
  }
  Kind kind;
  std::vector<int64_t> symbolValues;
  Facts facts;
  std::map<V, Extents> shapes; // over the symbols
  std::vector<std::pair<Dim, Dim>> merged;
  std::mt19937 random;
};

} // namespace mortise::codegen::test
