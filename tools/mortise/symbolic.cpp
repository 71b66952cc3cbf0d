// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Puts symbols in place of the first extents of a static graph.
#include "cases.hpp"
#include "seam.hpp"

#include <mortise/rewrite.hpp>
#include <mortise/symbols.hpp>

#include <algorithm>
#include <functional>

namespace mortise::tool {
namespace {

// The extents that become symbols: the first of each value of any rank, and the second of each value of rank 3 or more,
// where they are those of the first input that has one.
struct Extents {
  int64_t first = 0, second = 0; // 0: none

  explicit Extents(const MortiseGraph &graph) {
    for (size_t i = 0; i < graph.input_count; ++i) {
      const MortiseType &type = *graph.inputs[i]->type;
      if (first == 0 && type.rank >= 1 && type.dims[0] > 1)
        first = type.dims[0];
      if (second == 0 && type.rank >= 3 && type.dims[1] > 1)
        second = type.dims[1];
    }
  }
};

class WithSymbols : public GraphRewriter {
public:
  WithSymbols(Extents extents, bool two, int64_t least) : extents(extents), least(least) {
    count = two && extents.second ? 2 : 1;
  }

  bool changeType(const MortiseType *&type) override {
    std::vector<int64_t> dims(type->dims, type->dims + type->rank);
    std::vector<MortiseExpr> exprs;
    bool changed = false;
    for (size_t i = 0; i < dims.size(); ++i) {
      const bool isFirst = i == 0 && dims[i] == extents.first;
      const bool isSecond = count == 2 && i == 1 && dims.size() >= 3 && dims[i] == extents.second;
      exprs.push_back(
          {keep(std::vector<MortiseExprStep>{{isFirst || isSecond ? MORTISE_EXPR_SYMBOL : MORTISE_EXPR_CONST, 0,
                                              isFirst    ? 0
                                              : isSecond ? 1
                                                         : dims[i]}}),
           1});
      changed |= isFirst || isSecond;
      dims[i] = isFirst || isSecond ? MORTISE_DYNAMIC : dims[i];
    }
    if (type->strides || !changed)
      return true;
    MortiseType *copy = copyOf(*type);
    copy->dims = keep(std::move(dims));
    copy->dim_exprs = keep(std::move(exprs));
    type = copy;
    return true;
  }

  bool changeGraph(MortiseGraph &graph) override {
    graph.symbols = pointers;
    graph.symbol_count = count;
    return true;
  }

private:
  const Extents extents;
  const int64_t least;
  size_t count;
  const MortiseSymbol symbols[2]{{sizeof(MortiseSymbol), nullptr, "n", least, INT64_MAX, 1},
                                 {sizeof(MortiseSymbol), nullptr, "m", least, INT64_MAX, 1}};
  const MortiseSymbol *const pointers[2]{&symbols[0], &symbols[1]};
};

// A call learns a symbol's value from an extent of an input that is just the symbol.
bool isKnownToCalls(const MortiseGraph &graph) {
  std::vector<bool> known(graph.symbol_count);
  for (size_t i = 0; i < graph.input_count; ++i)
    for (const Dim &dim : dimsOf(*graph.inputs[i]->type, graph.symbol_count))
      for (size_t symbol = 0; symbol < known.size(); ++symbol)
        known[symbol] = known[symbol] || dim == Dim::symbol(static_cast<uint32_t>(symbol));
  return std::ranges::all_of(known, std::identity());
}

} // namespace

std::shared_ptr<const Graph> withSymbols(const OpCase &given) {
  if (given.symbolic && isKnownToCalls(given.symbolic->view()))
    return given.symbolic;
  const MortiseGraph &view = given.point.graph->view();
  const Extents extents(view);
  if (extents.first == 0)
    return nullptr;
  for (const int64_t least : {0, 1})
    for (const bool two : {true, false}) {
      if (two && !extents.second)
        continue;
      WithSymbols rewriter(extents, two, least);
      const auto changed = rewriter.rewrite(view);
      const auto copy = changed ? Graph::copy(*changed) : changed.error();
      const auto text = copy ? print(**copy) : copy.error();
      auto made = text ? parse(*text, "case") : text.error(); // which checks what the op allows
      if (made)
        return std::move(*made);
    }
  return nullptr;
}

} // namespace mortise::tool
