// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "lift.hpp"

#include <algorithm>
#include <deque>

namespace mortise::conformance {
namespace {

constexpr int64_t mostOfSymbol = 1 << 20;

Error computed(const std::string &what) {
  return {MORTISE_UNSUPPORTED, "the row computes " + what + " from an extent"};
}

class Lift {
public:
  Lift(ViewBuilder &marked, const MortiseGraph &actual, std::span<const int64_t> markers,
       std::span<const int64_t> numbers, bool mayBeEmpty)
      : builder(marked), actual(actual), markers(markers), numbers(numbers), mayBeEmpty(mayBeEmpty) {}

  Result<std::shared_ptr<const Graph>> run() {
    const MortiseGraph &view = builder.view();
    if (view.value_count != actual.value_count || view.node_count != actual.node_count)
      return computed("its nodes");
    for (size_t i = 0; i < view.value_count; ++i)
      if (auto done = liftType(*const_cast<MortiseValue *>(view.values[i]), *actual.values[i]->type); !done)
        return done.error();
    for (size_t n = 0; n < view.node_count; ++n) {
      const MortiseNode &node = *view.nodes[n], &other = *actual.nodes[n];
      if (node.body_count)
        return Error{MORTISE_UNSUPPORTED, "bodies of control flow are static in this version of the kit"};
      for (size_t a = 0; a < node.attribute_count; ++a)
        if (auto done = liftAttribute(*const_cast<MortiseAttribute *>(node.attributes[a]), *other.attributes[a]); !done)
          return done.error();
    }
    for (const std::string &name : names)
      builder.symbol(name.c_str(), mayBeEmpty ? 0 : 1, mostOfSymbol);
    MortiseGraph made = builder.view();
    made.opset = MORTISE_OPSET;
    made.name = "case";
    return Graph::copy(made);
  }

  std::vector<size_t> used; // per symbol: its marker

private:
  using Program = ViewBuilder::Program;

  // `number` where it is equal in both, otherwise the symbol's program.
  std::optional<Program> programOf(int64_t marker, int64_t number) {
    for (size_t i = 0; i < markers.size(); ++i)
      if (markers[i] == marker && numbers[i] == number) {
        const auto found = std::ranges::find(used, i);
        const auto symbol = static_cast<size_t>(found - used.begin());
        if (found == used.end()) {
          used.push_back(i);
          names.push_back("s" + std::to_string(symbol));
        }
        return Program{{MORTISE_EXPR_SYMBOL, 0, static_cast<int64_t>(symbol)}};
      }
    if (marker != number)
      return std::nullopt;
    return Program{{MORTISE_EXPR_CONST, 0, number}};
  }

  Result<void> liftType(MortiseValue &value, const MortiseType &other) {
    const MortiseType &type = *value.type;
    std::vector<Program> programs;
    Dims dims;
    bool symbolic = false;
    for (int32_t i = 0; i < type.rank; ++i) {
      auto program = programOf(type.dims[i], other.dims[i]);
      if (!program)
        return computed("an extent");
      const bool isSymbol = program->front().op == MORTISE_EXPR_SYMBOL;
      symbolic |= isSymbol;
      dims.push_back(isSymbol ? MORTISE_DYNAMIC : type.dims[i]);
      programs.push_back(std::move(*program));
    }
    if (symbolic)
      value.type = builder.type(type.dtype, dims, programs);
    return {};
  }

  Result<void> liftAttribute(MortiseAttribute &attribute, const MortiseAttribute &other) {
    const std::string name = attribute.name;
    if (attribute.i64 != other.i64 || attribute.count != other.count || attribute.f64 != other.f64)
      return computed("the attribute " + name);
    if (attribute.kind == MORTISE_ATTRIBUTE_TENSOR)
      return std::equal(static_cast<const char *>(attribute.tensor_data),
                        static_cast<const char *>(attribute.tensor_data) + attribute.count,
                        static_cast<const char *>(other.tensor_data))
                 ? Result<void>()
                 : computed("a literal");
    if (attribute.kind != MORTISE_ATTRIBUTE_I64_ARRAY)
      return {};
    std::vector<MortiseExpr> &list = exprs.emplace_back();
    Dims &entries = arrays.emplace_back();
    bool symbolic = false;
    for (size_t i = 0; i < attribute.count; ++i) {
      auto program = programOf(attribute.i64s[i], other.i64s[i]);
      if (!program)
        return computed("the attribute " + name);
      const Program &kept = steps.emplace_back(std::move(*program));
      const bool isSymbol = kept.front().op == MORTISE_EXPR_SYMBOL;
      symbolic |= isSymbol;
      entries.push_back(isSymbol ? MORTISE_DYNAMIC : attribute.i64s[i]);
      list.push_back({kept.data(), kept.size()});
    }
    if (symbolic) {
      attribute.i64s = entries.data();
      attribute.exprs = list.data();
    }
    return {};
  }

  ViewBuilder &builder;
  const MortiseGraph &actual;
  const std::span<const int64_t> markers, numbers;
  const bool mayBeEmpty;
  std::deque<std::string> names;
  std::deque<std::vector<MortiseExpr>> exprs;
  std::deque<Dims> arrays;
  std::deque<Program> steps;
};

} // namespace

Result<Lifted> lifted(ViewBuilder &marked, const MortiseGraph &actual, std::span<const int64_t> markers,
                      std::span<const int64_t> numbers, bool mayBeEmpty) {
  Lift lift(marked, actual, markers, numbers, mayBeEmpty);
  auto graph = lift.run();
  if (!graph)
    return graph.error();
  Lifted made{std::move(*graph), {}};
  for (const size_t marker : lift.used)
    made.values.push_back(numbers[marker]);
  if (made.values.empty())
    return Error{MORTISE_UNSUPPORTED, "no extent of the case is a symbol"};
  return made;
}

} // namespace mortise::conformance
