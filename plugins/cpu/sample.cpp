// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Typical values of symbols: a search for some that break no guard and make every extent an extent.
#include "views.hpp"

#include <algorithm>

namespace mortise::cpu {

namespace {
class Search {
public:
  explicit Search(const MortiseGraph &graph);
  std::vector<int64_t> run() const;

private:
  static constexpr int64_t targets[] = {64, 128, 256, 32, 512, 16, 1024, 8, 4, 2, 1, 0, 4096, 65536, 1 << 20};
  int64_t near(size_t symbol, int64_t target) const;
  size_t broken(const std::vector<int64_t> &values) const;

  const MortiseGraph &graph;
  struct Condition {
    Dim dim;
    int32_t relation;
  };
  std::vector<Condition> conditions;
};
} // namespace

Search::Search(const MortiseGraph &graph) : graph(graph) {
  std::set<Dim> seen;
  for (size_t i = 0; i < graph.value_count; ++i)
    if (!isStatic(*graph.values[i]->type))
      for (const Dim &dim : codegen::denseView(*graph.values[i]).dims)
        if (!dim.isNumber() && seen.insert(dim).second)
          conditions.push_back({dim - 1, MORTISE_RELATION_AT_LEAST}); // something, not nothing
  for (const MortiseGuard *guard : guardsOf(graph))
    if (Result<Dim> dim = Dim::from(guard->expr, graph.symbol_count))
      conditions.push_back({*dim, guard->relation});
}

int64_t Search::near(size_t number, int64_t target) const {
  const MortiseSymbol &symbol = *graph.symbols[number];
  const int64_t divisor = std::max<int64_t>(symbol.divisor, 1);
  const int64_t low = (symbol.min + divisor - 1) / divisor * divisor, high = symbol.max / divisor * divisor;
  return std::max(low, std::min(high, target / divisor * divisor));
}

size_t Search::broken(const std::vector<int64_t> &values) const {
  return static_cast<size_t>(std::ranges::count_if(conditions, [&](const Condition &condition) {
    Result<int64_t> value = condition.dim.evaluate(values);
    return !value || *value < 0 || (condition.relation == MORTISE_RELATION_ZERO && *value != 0);
  }));
}

// The same target for all, then one symbol at a time to what breaks fewest.
std::vector<int64_t> Search::run() const {
  std::vector<int64_t> best;
  size_t fewest = SIZE_MAX;
  auto consider = [&](std::vector<int64_t> values) {
    if (size_t count = broken(values); count < fewest) {
      fewest = count;
      best = std::move(values);
      return true;
    }
    return false;
  };
  for (int64_t target : targets) {
    std::vector<int64_t> values;
    for (size_t i = 0; i < graph.symbol_count; ++i)
      values.push_back(near(i, target));
    consider(std::move(values));
    if (fewest == 0)
      return best;
  }
  for (bool better = true; better && fewest != 0;) {
    better = false;
    const std::vector<int64_t> from = best;
    for (size_t i = 0; i < graph.symbol_count; ++i)
      for (int64_t target : targets) {
        std::vector<int64_t> values = from;
        values[i] = near(i, target);
        better |= consider(std::move(values));
      }
  }
  return best;
}

Values sampleOf(const MortiseGraph &graph) { return {Search(graph).run()}; }

} // namespace mortise::cpu
