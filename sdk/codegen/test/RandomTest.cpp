// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random small graphs: views, elementwise ops, gathers, reductions and norms in any order, against the reference.
#include "Oracle.h"

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;

namespace {

class Maker {
public:
  explicit Maker(unsigned seed) : random(seed) {}
  int64_t pick(int64_t n) { return static_cast<int64_t>(random() % n); }

  void build() {
    static const int64_t extents[] = {1, 2, 3, 5, 8, 16, 17, 33};
    for (int i = 0; i < 2; ++i) {
      Dims dims;
      for (int64_t r = pick(4); r-- > 0;)
        dims.push_back(extents[pick(8)]);
      values.push_back(b.input(MORTISE_F32, dims));
      inputs.push_back(values.back());
    }
    for (int64_t steps = 3 + pick(10); steps-- > 0;)
      grow(values[std::max<int64_t>(0, static_cast<int64_t>(values.size()) - 1 - pick(4))]);
    b.output(values.back());
    if (pick(2))
      b.output(values[values.size() - 2]->producer ? values[values.size() - 2] : values.back());
  }

  TestGraph b;
  std::vector<V> values, inputs;

private:
  Dims dimsOf(V v) { return Dims(v->type->dims, v->type->dims + v->type->rank); }
  V add(const std::string &op, std::vector<V> operands, Dims dims, std::vector<Attr> attributes = {}) {
    values.push_back(b.op(op, std::move(operands), MORTISE_F32, std::move(dims), std::move(attributes)));
    return values.back();
  }
  // Something of the same shape: an earlier value, or a broadcast of its sum.
  V partner(V x) {
    std::vector<V> same;
    for (V v : values)
      if (dimsOf(v) == dimsOf(x))
        same.push_back(v);
    return same[pick(same.size())];
  }
  void grow(V x) {
    Dims dims = dimsOf(x);
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
      Dims to = dims;
      if (rank >= 2 && pick(2)) {
        int64_t i = pick(rank - 1);
        to[i] *= to[i + 1];
        to.erase(to.begin() + i + 1);
      } else {
        int64_t i = rank ? pick(rank) : 0;
        if (rank && to[i] % 2 == 0)
          to[i] /= 2, to.insert(to.begin() + i, 2);
        else
          to.insert(to.begin() + i, 1);
      }
      add("reshape", {x}, to, {{"shape", to}});
      return;
    }
    case 6: { // transpose
      Dims permutation(rank), to(rank);
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
      Dims to = dims, axes;
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
      Dims starts(rank, 0), limits = dims, steps(rank, 1), to = dims;
      int64_t i = pick(rank);
      starts[i] = pick(dims[i]);
      steps[i] = 1 + pick(2);
      to[i] = (dims[i] - starts[i] + steps[i] - 1) / steps[i];
      add("slice", {x}, to, {{"starts", starts}, {"limits", limits}, {"strides", steps}});
      return;
    }
    case 9: { // reduce
      if (!rank)
        return;
      Dims axes, to;
      for (int64_t i = 0; i < rank; ++i)
        if (pick(2) || (i == rank - 1 && axes.empty()))
          axes.push_back(i);
        else
          to.push_back(dims[i]);
      static const char *ops[] = {"reduce_max", "reduce_min", "mean"};
      V r = add(ops[pick(3)], {x}, to, {{"axes", axes}});
      if (pick(2)) { // and back
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
      Dims to = dims;
      if (pick(2)) {
        Dims low(rank, 0), high(rank, 0), interior(rank, 0);
        low[i] = 2, high[i] = 1, to[i] += 3;
        V zero = b.constant<float>(MORTISE_F32, {}, {0.25f});
        add("pad", {x, zero}, to, {{"low", low}, {"high", high}, {"interior", interior}});
      } else {
        to[i] *= 2;
        add("concatenate", {x, partner(x)}, to, {{"axis", i}});
      }
      return;
    }
    default: { // take
      if (!rank)
        return;
      int64_t axis = pick(rank);
      V index = b.constant<int64_t>(MORTISE_I64, {3}, {0, -1, pick(dims[axis] + 2)});
      Dims to = dims;
      to[axis] = 3;
      add("take", {x, index}, to, {{"axis", axis}});
      return;
    }
    }
  }
  std::mt19937 random;
};

TEST(Random, GraphsAgreeWithTheReference) {
  const char *only = std::getenv("MORTISE_SEED");
  unsigned first = only ? static_cast<unsigned>(std::strtoul(only, nullptr, 10)) : 1, last = only ? first : 100;
  if (const char *many = std::getenv("MORTISE_SEEDS"))
    last = static_cast<unsigned>(std::strtoul(many, nullptr, 10));
  for (unsigned seed = first; seed <= last; ++seed) {
    Maker maker(seed);
    maker.build();
    if (!maker.values.back()->producer)
      continue;
    int64_t largest = 0;
    for (V v : maker.values)
      largest = std::max(largest, elementCount(*v->type));
    if (largest > 200000)
      continue;
    Oracle oracle(maker.b);
    for (V input : maker.inputs)
      oracle.fill(input, Fill::Plain, seed);
    oracle.check(64, 2e-5, "MORTISE_SEED=" + std::to_string(seed));
    if (HasFailure())
      return;
  }
}

} // namespace
