// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One op on its operands, and what all formulas have in common.
#pragma once

#include "../drift.hpp"
#include "../one_node.hpp"

#include <mortise/conformance/error_bounds.hpp>
#include <mortise/conformance/op_bounds.hpp>
#include <mortise/ops.hpp>
#include <mortise/reference/formats.hpp>
#include <mortise/reference/unrounded.hpp>

#include <algorithm>
#include <cmath>
#include <functional>

namespace mortise::conformance::formulas {

using Doubles = std::vector<double>;

inline int64_t product(std::span<const int64_t> values) {
  int64_t made = 1;
  for (const int64_t value : values)
    made *= value;
  return made;
}

// The last node of a graph with its operands, and the accumulator that its type is computed in.
class Subject {
public:
  Subject(const MortiseNode &node, const MortiseGraph &view, std::vector<Bytes> operands, size_t result)
      : node(node), view(view), bytes(std::move(operands)), result(result), dtype(node.results[result]->type->dtype),
        accumulator(dtype == MORTISE_F64 ? MORTISE_F64 : MORTISE_F32), w(unitRoundoff(accumulator)),
        // Half the smallest number, which is no double for f64.
        tiny(accumulator == MORTISE_F64 ? 0x1p-1074 : 0x1p-150) {
    for (size_t i = 0; i < view.input_count; ++i)
      values.push_back(valuesOf(*view.inputs[i]->type, bytes[i]));
  }

  const MortiseNode &node;
  const MortiseGraph &view; // the node alone
  std::vector<Bytes> bytes; // of the view's inputs
  const size_t result;      // of the node, whose numbers are asked for
  const int32_t dtype, accumulator;
  const double w, tiny;
  Doubles y; // exact

  const MortiseType &type(size_t operand) const { return *node.operands[operand]->type; }
  bool has(size_t operand) const { return operand < node.operand_count && node.operands[operand]; }
  size_t inputOf(size_t operand) const {
    const auto *found = std::find_if(view.inputs, view.inputs + view.input_count, [&](const MortiseValue *input) {
      return input->index == node.operands[operand]->index;
    });
    return static_cast<size_t>(found - view.inputs);
  }
  const Doubles &x(size_t operand = 0) const { return values[inputOf(operand)]; }
  double ulpOf(double value) const { return ulp(value, accumulator); }
  // One rounding. Half the smallest number of f64 is none.
  double half(double value) const { return std::max(ulpOf(value) / 2, tiny); }
  // The sum of n roundings, each at most w, of a sum's terms: the worst case, or what is exceeded with a probability of
  // 2 n exp(-32) at most.
  double growth(double n) const { return std::min(n, confidence * std::sqrt(n)) * w; }
  double underflows(double n) const { return std::min(n, confidence * std::sqrt(n)) * tiny; }
  // The error of a sum with so many roundings, of terms whose magnitudes add up to `size`. `drift`: drift.hpp.
  double sumError(double size, double n, double drift) const {
    return n > 0 ? std::min(n * w * size, growth(n) * size + drift) : 0;
  }
  // `more`: roundings beyond one for each term but the first.
  double sumError(std::span<const double> terms, double more = 0) const {
    double size = 0;
    for (const double term : terms)
      size += std::abs(term);
    return sumError(size, static_cast<double>(terms.size()) - 1 + more, drift(terms, w));
  }

  // What the op gives, unrounded, when each float of operand i is changed. `changed` may be another node.
  Result<Doubles> with(const std::function<double(size_t, double)> &change,
                       const MortiseGraph *changed = nullptr) const {
    std::vector<Bytes> operands = bytes;
    for (size_t i = 0; i < node.operand_count; ++i)
      if (node.operands[i] && isFloat(type(i).dtype))
        reference::visitFloat(type(i).dtype, [&](auto kind) {
          using Kind = decltype(kind);
          auto *at = reinterpret_cast<typename Kind::Storage *>(operands[inputOf(i)].data());
          for (int64_t e = 0; e < elementCount(type(i)); ++e)
            at[e] = Kind::store(change(i, Kind::load(at[e])));
        });
    return run(operands, changed ? *changed : view, reference::interpretUnrounded);
  }
  // The op on the magnitudes of its operands: where it adds, the sum of the terms' magnitudes.
  Result<Doubles> magnitudes() const {
    return with([](size_t, double value) { return std::abs(value); });
  }
  Result<Doubles> exact() const {
    bool wide = false;
    for (size_t i = 0; i < node.operand_count; ++i)
      wide = wide || (node.operands[i] && type(i).dtype == MORTISE_F64);
    return run(bytes, view, wide || dtype == MORTISE_F64 ? reference::interpretInMpfr : reference::interpretUnrounded);
  }

  static Doubles valuesOf(const MortiseType &type, const Bytes &from) {
    Doubles made(static_cast<size_t>(elementCount(type)));
    if (dtypeBits(type.dtype) >= 8)
      reference::visitElement(type.dtype, [&](auto kind) {
        using Kind = decltype(kind);
        for (size_t i = 0; i < made.size(); ++i)
          made[i] = static_cast<double>(Kind::load(reinterpret_cast<const typename Kind::Storage *>(from.data())[i]));
      });
    return made;
  }

private:
  using Run = Result<void> (*)(const MortiseGraph &, std::span<const void *const>, std::span<void *const>);
  Result<Doubles> run(const std::vector<Bytes> &operands, const MortiseGraph &of, Run interpret) const {
    std::vector<const void *> from;
    for (const Bytes &operand : operands)
      from.push_back(operand.data());
    std::vector<Doubles> made;
    std::vector<void *> to;
    for (size_t i = 0; i < of.output_count; ++i)
      made.emplace_back(static_cast<size_t>(elementCount(*of.outputs[i]->type)) + 1);
    for (Doubles &each : made)
      to.push_back(each.data());
    if (Result<void> done = interpret(of, from, to); !done)
      return done.error();
    made[result].pop_back();
    return std::move(made[result]);
  }
  std::vector<Doubles> values;
};

// A node with another text for one of its attributes.
class Renamed {
public:
  Renamed(const Subject &of, std::string_view name, const char *text)
      : node(of.node), graph(of.view), attributes(node.attributes, node.attributes + node.attribute_count) {
    for (const MortiseAttribute *&attribute : attributes)
      if (attribute->name == name) {
        changed = *attribute;
        changed.string = text;
        attribute = &changed;
      }
    node.attributes = attributes.data();
    graph.nodes = nodes;
  }
  Renamed(const Renamed &) = delete;
  const MortiseGraph &view() const { return graph; }

private:
  MortiseNode node;
  MortiseGraph graph;
  std::vector<const MortiseAttribute *> attributes;
  MortiseAttribute changed{};
  const MortiseNode *nodes[1] = {&node};
};

template <typename Body> Doubles each(const Subject &of, Body body) {
  Doubles made(of.y.size());
  for (size_t i = 0; i < made.size(); ++i)
    made[i] = body(i);
  return made;
}

} // namespace mortise::conformance::formulas
