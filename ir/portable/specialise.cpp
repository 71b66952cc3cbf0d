// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "limits.hpp"
#include "rebuild.hpp"
#include <mortise/portable/graph.hpp>

#include <map>

namespace mortise {
namespace {

Error invalid(std::string message) { return {MORTISE_INVALID_ARGUMENT, std::move(message)}; }

class Specialiser : public portable::Rebuild {
public:
  explicit Specialiser(std::span<const int64_t> symbols) : symbols(symbols) {}

protected:
  bool changeType(const MortiseType *&type) override {
    if (isStatic(*type))
      return true;
    auto [entry, added] = known.try_emplace(type);
    if (added) {
      MortiseType &fixed = types.emplace_back(portable::shallow(*type));
      std::vector<int64_t> extents;
      for (int32_t i = 0; i < type->rank; ++i) {
        Result<int64_t> extent = evaluate(type->dim_exprs[i], symbols);
        if (!extent)
          return fail(MORTISE_INVALID_ARGUMENT,
                      "extent " + std::to_string(i) + " of " + typeString(*type) + ": " + extent.error().message);
        if (*extent < 0)
          return fail(MORTISE_INVALID_ARGUMENT, "extent " + std::to_string(i) + " of " + typeString(*type) + " is " +
                                                    std::to_string(*extent) + "; expected 0 or more");
        extents.push_back(*extent);
      }
      fixed.dims = keep(numbers, std::move(extents));
      fixed.dim_exprs = nullptr;
      entry->second = &fixed;
    }
    type = entry->second;
    return true;
  }

  bool changeNode(const MortiseNode &node, std::vector<Draft> &drafts) override {
    for (const MortiseAttribute *&attribute : drafts[0].attributes) {
      const MortiseAttribute from = portable::shallow(*attribute);
      if (from.kind != MORTISE_ATTRIBUTE_I64_ARRAY || !from.exprs)
        continue;
      std::vector<int64_t> entries(from.i64s, from.i64s + from.count);
      for (size_t i = 0; i < from.count; ++i) {
        if (entries[i] != MORTISE_DYNAMIC)
          continue;
        Result<int64_t> entry = evaluate(from.exprs[i], symbols);
        if (!entry)
          return fail(MORTISE_INVALID_ARGUMENT, "entry " + std::to_string(i) + " of attribute '" + from.name +
                                                    "' of node " + std::to_string(node.index) + " (" + node.op +
                                                    "): " + entry.error().message);
        entries[i] = *entry;
      }
      MortiseAttribute *fixed = copyOf(from);
      fixed->i64s = keep(numbers, std::move(entries));
      fixed->exprs = nullptr;
      attribute = fixed;
    }
    return true;
  }

  void changeGraph(MortiseGraph &graph) override { graph.symbol_count = graph.guard_count = 0; }

private:
  std::span<const int64_t> symbols;
  std::map<const MortiseType *, const MortiseType *> known;
};

Result<void> checkSymbols(const MortiseGraph &graph, std::span<const int64_t> symbols) {
  if (symbols.size() != graph.symbol_count)
    return invalid("expected a value for each of the graph's " + std::to_string(graph.symbol_count) +
                   " symbols, found " + std::to_string(symbols.size()));
  for (size_t i = 0; i < symbols.size(); ++i) {
    const MortiseSymbol &symbol = *graph.symbols[i];
    const std::string found = ", found " + std::to_string(symbols[i]);
    if (symbols[i] < symbol.min || symbols[i] > symbol.max)
      return invalid(std::string("expected '") + symbol.name + "' to be at least " + std::to_string(symbol.min) +
                     (symbol.max == INT64_MAX ? "" : " and at most " + std::to_string(symbol.max)) + found);
    if (symbol.divisor < 1 || symbols[i] % symbol.divisor != 0)
      return invalid(std::string("expected '") + symbol.name + "' to be a multiple of " +
                     std::to_string(symbol.divisor) + found);
  }
  const MortiseGraph whole = portable::shallow(graph);
  for (size_t i = 0; i < whole.guard_count; ++i) {
    const MortiseGuard &guard = *whole.guards[i];
    const std::string name = "guard " + std::to_string(i) + " (" + (guard.reason ? guard.reason : "") + ")";
    Result<int64_t> value = evaluate(guard.expr, symbols);
    if (!value)
      return invalid(name + ": " + value.error().message);
    const bool zero = guard.relation == MORTISE_RELATION_ZERO;
    if (zero ? *value != 0 : *value < 0)
      return invalid(name + " does not hold: expected " + (zero ? "0" : "0 or more") + ", found " +
                     std::to_string(*value));
  }
  return {};
}

} // namespace

Result<std::shared_ptr<const Graph>> specialise(const MortiseGraph &graph, std::span<const int64_t> symbols) {
  if (Result<void> checked = checkSymbols(graph, symbols); !checked)
    return checked.error();
  Specialiser specialiser(symbols);
  Result<MortiseGraph> fixed = specialiser.rebuild(graph);
  if (!fixed)
    return fixed.error();
  return Graph::copy(*fixed);
}

} // namespace mortise
