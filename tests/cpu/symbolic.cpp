// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns a graph with static shapes into one with symbols.
#include "network.hpp"

#include <mortise/dim.hpp>
#include <mortise/rewrite.hpp>

#include <cstdlib>

namespace mortise::test {

namespace {
class Lifted : public GraphRewriter {
public:
  explicit Lifted(const std::vector<StandIn> &standIns);

protected:
  bool changeType(const MortiseType *&type) override;
  bool changeNode(const MortiseNode &node, std::vector<Draft> &drafts) override;
  bool changeGraph(MortiseGraph &graph) override;

private:
  // NULL when all entries are numbers.
  const MortiseExpr *lift(const int64_t *&numbers, size_t count);

  const std::vector<StandIn> &standIns;
  std::deque<MortiseSymbol> symbols; // does not move its elements
  std::vector<const MortiseSymbol *> symbolList;
};
} // namespace

const MortiseExpr *Lifted::lift(const int64_t *&numbers, size_t count) {
  std::vector<MortiseExpr> list;
  std::vector<int64_t> known;
  bool symbolic = false;
  for (size_t i = 0; i < count; ++i) {
    int64_t rest = numbers[i];
    Dim dim(1);
    for (uint32_t s = 0; s < standIns.size(); ++s)
      for (; rest != 0 && rest % standIns[s].number == 0; rest /= standIns[s].number)
        dim *= standIns[s].min == standIns[s].max ? Dim(standIns[s].min) : Dim::symbol(s);
    dim *= Dim(rest);
    for (uint32_t s = 0; s < standIns.size() && dim.isNumber(); ++s) // a little more or less than a stand-in
      if (standIns[s].min != standIns[s].max && std::abs(numbers[i] - standIns[s].number) <= 200)
        dim = Dim::symbol(s) + (numbers[i] - standIns[s].number);
    symbolic |= !dim.isNumber();
    const std::vector<MortiseExprStep> steps = dim.steps();
    list.push_back({keep(steps), steps.size()});
    known.push_back(dim.numberOrDynamic());
  }
  if (!symbolic)
    return nullptr;
  numbers = keep(std::move(known));
  return keep(std::move(list));
}

bool Lifted::changeType(const MortiseType *&type) {
  MortiseType &made = *copyOf(*type);
  made.dim_exprs = lift(made.dims, static_cast<size_t>(made.rank));
  type = &made;
  return true;
}

bool Lifted::changeNode(const MortiseNode &, std::vector<Draft> &drafts) {
  for (const MortiseAttribute *&attribute : drafts[0].attributes)
    if (attribute->kind == MORTISE_ATTRIBUTE_I64_ARRAY) {
      MortiseAttribute &made = *copyOf(*attribute);
      made.exprs = lift(made.i64s, made.count);
      attribute = &made;
    }
  return true;
}

Lifted::Lifted(const std::vector<StandIn> &standIns) : standIns(standIns) {
  for (const StandIn &standIn : standIns) // stand-ins for numbers come last
    if (standIn.min != standIn.max)
      symbols.push_back({sizeof(MortiseSymbol), nullptr, standIn.name, standIn.min, standIn.max, standIn.divisor});
  for (const MortiseSymbol &symbol : symbols)
    symbolList.push_back(&symbol);
}

bool Lifted::changeGraph(MortiseGraph &graph) {
  graph.symbols = symbolList.data();
  graph.symbol_count = symbolList.size();
  return true;
}

std::shared_ptr<const Graph> withSymbols(const MortiseGraph &graph, const std::vector<StandIn> &standIns) {
  Lifted lifted(standIns);
  Result<MortiseGraph> view = lifted.rewrite(graph);
  Result<std::shared_ptr<const Graph>> made = view ? Graph::copy(*view) : view.error();
  if (!made) {
    fprintf(stderr, "%s\n", made.error().message.c_str());
    abort(); // the test itself is faulty
  }
  return std::move(*made);
}

} // namespace mortise::test
