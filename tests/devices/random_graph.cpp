// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../cpu/network.hpp"
#include "strict.hpp"

#include <algorithm>
#include <random>

namespace mortise::test {
namespace {

using Dims = std::vector<int64_t>;

constexpr int64_t standIn = 10007; // for the symbol n

class GraphMaker {
public:
  GraphMaker(uint64_t seed, bool symbolic) : random(seed), rows(symbolic ? standIn : 1 + below(6)) {}

  std::shared_ptr<const Graph> make() {
    const size_t inputs = 1 + below(3);
    for (size_t i = 0; i < inputs; ++i)
      add(leaf(chance(60) ? Dims{rows, 4} : Dims{rows, 4, 3}));
    for (int64_t left = 2 + below(10); left > 0; --left)
      add(clipped(node()));
    states();
    for (ValueId value : values)
      if (value == values.back() || chance(20))
        net.output(value);
    auto graph = net.finish();
    return rows == standIn ? withSymbols(graph->view(), {{standIn, "n", 1}}) : graph;
  }

private:
  int64_t below(int64_t count) { return static_cast<int64_t>(random() % static_cast<uint64_t>(count)); }
  bool chance(int percent) { return below(100) < percent; }
  void add(ValueId value) { values.push_back(value); }
  ValueId some() { return values[static_cast<size_t>(below(static_cast<int64_t>(values.size())))]; }
  bool isConstantShape(const Dims &dims) const { return std::ranges::find(dims, standIn) == dims.end(); }

  ValueId leaf(const Dims &dims) {
    const uint32_t flags = chance(25) && isConstantShape(dims) ? MORTISE_VALUE_CONSTANT
                           : chance(15)                        ? MORTISE_VALUE_DONATED
                                                               : 0;
    return net.input(MORTISE_F32, dims, flags);
  }
  // Another value of these extents: one that is there, or a new input.
  ValueId like(ValueId value) {
    const Dims dims = net.dims(value);
    for (int attempt = 0; attempt < 4; ++attempt)
      if (const ValueId found = some(); net.dims(found) == dims)
        return found;
    return leaf(dims);
  }
  ValueId clipped(ValueId value) {
    const Dims dims = net.dims(value);
    return net.op("min", {net.op("max", {value, net.splat(-8, dims)}), net.splat(8, dims)});
  }

  ValueId node() {
    const ValueId x = some();
    const Dims dims = net.dims(x);
    const auto last = static_cast<int64_t>(dims.size()) - 1;
    switch (below(8)) {
    case 0:
      return net.op(chance(50) ? "neg" : "relu", {x});
    case 1:
      return net.op(chance(50) ? "sub" : "max", {x, like(x)});
    case 2:
      return net.op("mul", {x, like(x)});
    case 3: { // the first extent stays first
      if (dims.size() < 3)
        return net.op("abs", {x});
      return net.transpose(x, {0, 2, 1});
    }
    case 4:
      return net.linear(x, net.weight({4, dims[static_cast<size_t>(last)]}));
    case 5: {
      Dims shape = dims;
      shape.back() = 1;
      return net.reshape(net.op("reduce_sum", {x}, {ints("axes", {last})}), shape);
    }
    case 6: {
      Dims starts(dims.size(), 0), strides(dims.size(), 1);
      if (dims.back() > 1)
        starts.back() = 1;
      return net.op("slice", {x}, {ints("starts", starts), ints("limits", dims), ints("strides", strides)});
    }
    default:
      return net.op("add", {x, like(x)});
    }
  }

  // Updates of states, in the memory of the input.
  void states() {
    for (int64_t left = below(3); left > 0; --left) {
      const ValueId value = some();
      const int64_t number = net.inputCount();
      const ValueId state = net.input(MORTISE_F32, net.dims(value), MORTISE_VALUE_STATE);
      const ValueId next = clipped(net.op("add", {state, value}));
      if (chance(50))
        add(net.op("sub", {next, state}));
      net.output(next, number);
    }
  }

  std::mt19937_64 random;
  const int64_t rows;
  Network net;
  std::vector<ValueId> values;
};

} // namespace

std::shared_ptr<const Graph> randomGraph(uint64_t seed, bool symbolic) { return GraphMaker(seed, symbolic).make(); }

} // namespace mortise::test
