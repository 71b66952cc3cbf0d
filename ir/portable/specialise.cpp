// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/portable/graph.hpp>
#include <mortise/rewrite.hpp>

#include <map>

namespace mortise {
namespace {

class Specialiser : public GraphRewriter {
public:
  explicit Specialiser(std::span<const int64_t> symbols) : symbols(symbols) {}

protected:
  bool changeType(const MortiseType *&type) override {
    if (isStatic(*type) && !copyStruct(*type).stride_exprs)
      return true;
    auto [entry, added] = known.try_emplace(type);
    if (added) {
      MortiseType &fixed = *copyOf(*type);
      if (!fix("extent ", *type, fixed.dims, fixed.dim_exprs) ||
          !fix("stride ", *type, fixed.strides, fixed.stride_exprs))
        return false;
      entry->second = &fixed;
    }
    type = entry->second;
    return true;
  }

  // Puts numbers in the place of one program per dimension, where there are any.
  bool fix(const char *what, const MortiseType &type, const int64_t *&numbers, const MortiseExpr *&exprs) {
    std::vector<int64_t> fixed;
    for (int32_t i = 0; exprs && i < type.rank; ++i) {
      const Result<int64_t> number = evaluate(exprs[i], symbols);
      const std::string which = what + std::to_string(i) + " of " + typeString(type);
      if (!number)
        return fail(MORTISE_INVALID_ARGUMENT, which + ": " + number.error().message);
      if (*number < 0)
        return fail(MORTISE_INVALID_ARGUMENT, which + " is " + std::to_string(*number) + "; expected 0 or more");
      fixed.push_back(*number);
    }
    if (exprs)
      numbers = keep(std::move(fixed));
    exprs = nullptr;
    return true;
  }

  bool changeNode(const MortiseNode &node, std::vector<Draft> &drafts) override {
    for (const MortiseAttribute *&attribute : drafts[0].attributes) {
      const MortiseAttribute from = copyStruct(*attribute);
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
      fixed->i64s = keep(std::move(entries));
      fixed->exprs = nullptr;
      attribute = fixed;
    }
    return true;
  }

  bool changeGraph(MortiseGraph &graph) override {
    graph.symbol_count = graph.guard_count = 0;
    return true;
  }

private:
  std::span<const int64_t> symbols;
  std::map<const MortiseType *, const MortiseType *> known;
};

} // namespace

Result<std::shared_ptr<const Graph>> specialise(const MortiseGraph &graph, std::span<const int64_t> symbols) {
  if (Result<void> checked = checkSymbols(graph, symbols); !checked)
    return checked.error();
  Specialiser specialiser(symbols);
  Result<MortiseGraph> fixed = specialiser.rewrite(graph);
  if (!fixed)
    return fixed.error();
  return Graph::copy(*fixed);
}

} // namespace mortise
