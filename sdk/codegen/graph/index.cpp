// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "graph/index.hpp"

#include <algorithm>

namespace mortise::codegen {

bool Facts::atLeast(const Dim &a, const Dim &b) const {
  if (!a.isValid() || !b.isValid())
    return false;
  if (a.isNumber() && b.isNumber())
    return *a.number() >= *b.number();
  return isAtLeast(a, b, symbols);
}

bool Facts::isMultiple(const Dim &dim, int64_t divisor) const {
  return dim.isNumber() ? *dim.number() % divisor == 0 : knownDivisor(dim, symbols) % divisor == 0;
}

Interval Facts::bounds(const Dim &dim) const {
  return dim.isNumber() ? Interval{*dim.number(), *dim.number()} : mortise::bounds(dim, symbols);
}

bool Facts::isNarrow(const Dim &dim) const {
  Interval range = bounds(dim);
  return range.low >= INT32_MIN && range.high <= INT32_MAX;
}

double Facts::typical(const Dim &dim) const {
  if (dim.isNumber())
    return static_cast<double>(*dim.number());
  std::vector<int64_t> values;
  for (const SymbolRange &symbol : symbols)
    values.push_back(symbol.nearest(64));
  Result<int64_t> value = dim.evaluate(values);
  return value ? static_cast<double>(*value) : 0;
}

IndexSpace::IndexSpace(Facts facts) : facts(std::move(facts)) {
  constant(0);
  tuple(std::vector<IndexId>{});
  auto it = guardIds.emplace(std::vector<Condition>{}, 0).first;
  guards.push_back(&it->first);
}

IndexId IndexSpace::intern(Index index) {
  auto [it, fresh] = indexIds.emplace(std::move(index), static_cast<IndexId>(indices.size()));
  if (fresh) {
    indices.push_back(&it->first);
    Range range{it->first.constant, it->first.constant};
    uint64_t loops = 0;
    overflow |= !it->first.constant.isValid();
    for (const auto &[id, factor] : it->first.terms) {
      overflow |= !factor.isValid();
      const Atom &atom = atoms[id];
      loops |= atom.loops;
      bool positive = facts.atLeast(factor, 0);
      if (!positive && !facts.atLeast(0, factor)) {
        range = {Dim::invalid(), Dim::invalid()};
        continue;
      }
      range.low += factor * (positive ? atom.range.low : atom.range.high);
      range.high += factor * (positive ? atom.range.high : atom.range.low);
    }
    ranges.push_back(std::move(range));
    loopSets.push_back(loops);
  }
  return it->second;
}

AtomId IndexSpace::addAtom(Atom atom) {
  atoms.push_back(std::move(atom));
  return static_cast<AtomId>(atoms.size() - 1);
}

IndexId IndexSpace::constant(const Dim &value) { return intern({value, {}}); }

IndexId IndexSpace::loop(uint32_t number, const Dim &extent) {
  if (extent.isNumber() && *extent.number() <= 1)
    return constant(0);
  Atom atom{Atom::Loop, {0, extent - 1}};
  atom.loops = uint64_t(1) << number;
  atom.loop = number;
  return intern({0, {{addAtom(atom), 1}}});
}

IndexId IndexSpace::loaded(uint32_t expr, TupleId at, const Dim &extent, bool reductions) {
  if (extent.isNumber() && *extent.number() <= 1)
    return constant(0);
  auto key = std::make_tuple(int(Atom::Loaded), uint64_t(expr) << 32 | at, extent);
  auto found = atomIds.find(key);
  if (found == atomIds.end()) {
    Atom atom{Atom::Loaded, {0, extent - 1}};
    atom.loops = loops(at, 0);
    atom.reductions = reductions;
    atom.reads = true;
    atom.expr = expr;
    atom.at = at;
    atom.divisor = extent;
    found = atomIds.emplace(key, addAtom(atom)).first;
  }
  return intern({0, {{found->second, 1}}});
}

IndexId IndexSpace::add(IndexId a, IndexId b, const Dim &factor) {
  const Index &x = *indices[a], &y = *indices[b];
  Index sum;
  sum.constant = x.constant + factor * y.constant;
  auto i = x.terms.begin(), j = y.terms.begin();
  while (i != x.terms.end() || j != y.terms.end()) {
    if (j == y.terms.end() || (i != x.terms.end() && i->first < j->first)) {
      sum.terms.push_back(*i++);
    } else if (i == x.terms.end() || j->first < i->first) {
      if (Dim scaled = factor * j->second; !(scaled == 0))
        sum.terms.emplace_back(j->first, std::move(scaled));
      ++j;
    } else {
      if (Dim both = i->second + factor * j->second; !(both == 0))
        sum.terms.emplace_back(i->first, std::move(both));
      ++i, ++j;
    }
  }
  return intern(std::move(sum));
}

IndexId IndexSpace::divided(Atom::Kind kind, IndexId a, const Dim &divisor) {
  auto key = std::make_tuple(int(kind), uint64_t(a), divisor);
  auto found = atomIds.find(key);
  if (found == atomIds.end()) {
    Range r = range(a);
    Atom atom{kind, {0, divisor - 1}};
    if (kind == Atom::Quotient) {
      const Dim above = r.high + 1; // the quotient is exact where the extent is a multiple of the divisor
      atom.range = {r.low == 0 ? Dim(0) : floorDiv(r.low, divisor),
                    mod(above, divisor) == 0 ? floorDiv(above, divisor) - 1 : floorDiv(r.high, divisor)};
    }
    atom.loops = loops(a);
    atom.reductions = reductions(a);
    atom.reads = reads(a);
    atom.argument = a;
    atom.divisor = divisor;
    found = atomIds.emplace(key, addAtom(atom)).first;
  }
  return intern({0, {{found->second, 1}}});
}

std::pair<IndexId, IndexId> IndexSpace::split(IndexId a, const Dim &divisor) {
  Index whole, rest;
  const Dim &constant = indices[a]->constant;
  if ((constant.isNumber() && divisor.isNumber()) || mod(constant, divisor) == 0)
    whole.constant = floorDiv(constant, divisor);
  rest.constant = constant - whole.constant * divisor;
  for (const auto &[atom, factor] : indices[a]->terms)
    if (mod(factor, divisor) == 0)
      whole.terms.emplace_back(atom, floorDiv(factor, divisor));
    else
      rest.terms.emplace_back(atom, factor);
  IndexId w = intern(std::move(whole));
  return {w, intern(std::move(rest))};
}

// No division is left when `rest` is known to lie in [0, divisor).
IndexId IndexSpace::quotient(IndexId a, const Dim &divisor) {
  if (divisor.isNumber() && *divisor.number() <= 1)
    return a;
  auto [whole, rest] = split(a, divisor);
  if (within(rest, 0, divisor - 1))
    return whole;
  return isNatural(rest) ? add(whole, divided(Atom::Quotient, rest, divisor)) : divided(Atom::Quotient, a, divisor);
}

IndexId IndexSpace::remainder(IndexId a, const Dim &divisor) {
  if (divisor.isNumber() && *divisor.number() <= 1)
    return constant(0);
  IndexId rest = split(a, divisor).second;
  if (within(rest, 0, divisor - 1))
    return rest;
  return divided(Atom::Remainder, isNatural(rest) ? rest : a, divisor);
}

IndexId IndexSpace::dot(std::span<const IndexId> at, std::span<const Dim> strides, const Dim &offset) {
  IndexId sum = constant(offset);
  for (size_t i = 0; i < at.size(); ++i)
    sum = add(sum, at[i], strides[i]);
  return sum;
}

IndexId IndexSpace::linearise(std::span<const IndexId> at, std::span<const Dim> dims) {
  IndexId sum = constant(0);
  Dim stride = 1;
  for (size_t i = at.size(); i-- > 0; stride *= dims[i])
    sum = add(sum, at[i], stride);
  return sum;
}

std::vector<IndexId> IndexSpace::delinearise(IndexId linear, std::span<const Dim> dims) {
  std::vector<IndexId> at(dims.size());
  for (size_t i = dims.size(); i-- > 0;) {
    bool leading = true;
    for (size_t j = 0; j < i; ++j)
      leading &= dims[j] == 1;
    at[i] = leading && !(dims[i] == 1) ? linear : remainder(linear, dims[i]);
    linear = leading ? constant(0) : quotient(linear, dims[i]);
  }
  return at;
}

// The end of the next pair of blocks from (i, j) on whose products are the same expression; the end of both lists if
// there is none.
static std::pair<size_t, size_t> nextBlock(std::span<const Dim> from, size_t i, std::span<const Dim> to, size_t j) {
  Dim a = i < from.size() ? from[i++] : Dim(1), b = j < to.size() ? to[j++] : Dim(1);
  if (a == b)
    return {i, j};
  size_t total = from.size() + to.size();
  for (size_t length = i + j + 1; length <= total; ++length)
    for (size_t k = i; k <= std::min(from.size(), length); ++k) {
      size_t l = length - k;
      if (l < j || l > to.size())
        continue;
      Dim left = a, right = b;
      for (size_t at = i; at < k; ++at)
        left *= from[at];
      for (size_t at = j; at < l; ++at)
        right *= to[at];
      if (left == right)
        return {k, l};
    }
  return {from.size(), to.size()};
}

std::vector<IndexId> IndexSpace::reshape(std::span<const IndexId> at, std::span<const Dim> from,
                                         std::span<const Dim> to) {
  std::vector<IndexId> result;
  if (std::equal(from.begin(), from.end(), to.begin(), to.end()))
    return {at.begin(), at.end()}; // also for tensors without elements
  for (const Dim &dim : to)
    if (dim == 0)
      return std::vector<IndexId>(to.size(), constant(0));
  // Blocks of dimensions with equal products are independent of each other.
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    auto [k, l] = nextBlock(from, i, to, j);
    IndexId linear = linearise(at.subspan(i, k - i), from.subspan(i, k - i));
    for (IndexId index : delinearise(linear, to.subspan(j, l - j)))
      result.push_back(index);
    i = k, j = l;
  }
  return result;
}

TupleId IndexSpace::tuple(std::vector<IndexId> at) {
  auto [it, fresh] = tupleIds.emplace(std::move(at), static_cast<TupleId>(tuples.size()));
  if (fresh)
    tuples.push_back(&it->first);
  return it->second;
}

GuardId IndexSpace::guard(GuardId outer, IndexId index, const Dim &low, const Dim &high) {
  if (within(index, low, high - 1))
    return outer;
  // Positions in a padded tensor are compared, not those in the tensor, which are negative before it.
  if (auto before = indices[index]->constant.number(); before && *before < 0)
    return guard(outer, add(index, constant(-*before)), low - *before, high - *before);
  std::vector<Condition> all = *guards[outer];
  Condition fresh{index, low, high};
  auto place = std::lower_bound(all.begin(), all.end(), fresh);
  if (place != all.end() && *place == fresh)
    return outer;
  all.insert(place, fresh);
  auto [it, added] = guardIds.emplace(std::move(all), static_cast<GuardId>(guards.size()));
  if (added)
    guards.push_back(&it->first);
  return it->second;
}

uint64_t IndexSpace::loops(TupleId at, GuardId guard) const {
  uint64_t all = 0;
  for (IndexId index : *tuples[at])
    all |= loopSets[index];
  for (const Condition &condition : *guards[guard])
    all |= loopSets[condition.index];
  return all;
}

bool IndexSpace::reductions(IndexId id) const {
  for (const auto &[atom, factor] : indices[id]->terms)
    if (atoms[atom].reductions)
      return true;
  return false;
}

bool IndexSpace::isCongruent(IndexId a, IndexId b, int64_t modulus) const {
  std::map<AtomId, Dim> difference(indices[a]->terms.begin(), indices[a]->terms.end());
  for (const auto &[atom, factor] : indices[b]->terms)
    difference.try_emplace(atom, 0).first->second -= factor;
  return facts.isMultiple(indices[a]->constant - indices[b]->constant, modulus) &&
         std::ranges::all_of(difference, [&](const auto &term) { return facts.isMultiple(term.second, modulus); });
}

bool IndexSpace::reads(IndexId id) const {
  for (const auto &[atom, factor] : indices[id]->terms)
    if (atoms[atom].reads)
      return true;
  return false;
}

} // namespace mortise::codegen
