// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Index.h"

#include <algorithm>

namespace mortise::codegen {

IndexSpace::IndexSpace() {
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
    for (auto [id, factor] : it->first.terms) {
      const Atom &atom = atoms[id];
      range.low += factor * (factor > 0 ? atom.range.low : atom.range.high);
      range.high += factor * (factor > 0 ? atom.range.high : atom.range.low);
      loops |= atom.loops;
    }
    ranges.push_back(range);
    loopSets.push_back(loops);
  }
  return it->second;
}

AtomId IndexSpace::addAtom(Atom atom) {
  atoms.push_back(atom);
  return static_cast<AtomId>(atoms.size() - 1);
}

IndexId IndexSpace::constant(int64_t value) { return intern({value, {}}); }

IndexId IndexSpace::loop(uint32_t number, int64_t extent) {
  if (extent <= 1)
    return constant(0);
  Atom atom{Atom::Loop, {0, extent - 1}};
  atom.loops = uint64_t(1) << number;
  atom.loop = number;
  return intern({0, {{addAtom(atom), 1}}});
}

IndexId IndexSpace::loaded(uint32_t expr, TupleId at, int64_t extent, bool reductions) {
  if (extent <= 1)
    return constant(0);
  auto key = std::make_pair(int(Atom::Loaded), std::make_pair(uint64_t(expr) << 32 | at, uint64_t(extent)));
  auto found = atomIds.find(key);
  if (found == atomIds.end()) {
    Atom atom{Atom::Loaded, {0, std::max<int64_t>(extent - 1, 0)}};
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

IndexId IndexSpace::add(IndexId a, IndexId b, int64_t factor) {
  const Index &x = *indices[a], &y = *indices[b];
  Index sum;
  sum.constant = x.constant + factor * y.constant;
  auto i = x.terms.begin(), j = y.terms.begin();
  while (i != x.terms.end() || j != y.terms.end()) {
    if (j == y.terms.end() || (i != x.terms.end() && i->first < j->first)) {
      sum.terms.push_back(*i++);
    } else if (i == x.terms.end() || j->first < i->first) {
      if (factor)
        sum.terms.emplace_back(j->first, factor * j->second);
      ++j;
    } else {
      if (int64_t both = i->second + factor * j->second)
        sum.terms.emplace_back(i->first, both);
      ++i, ++j;
    }
  }
  return intern(std::move(sum));
}

static int64_t floorDiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

IndexId IndexSpace::divided(Atom::Kind kind, IndexId a, int64_t divisor) {
  auto key = std::make_pair(int(kind), std::make_pair(uint64_t(a), uint64_t(divisor)));
  auto found = atomIds.find(key);
  if (found == atomIds.end()) {
    Range r = range(a);
    Atom atom{kind, {}};
    atom.range =
        kind == Atom::Quotient ? Range{floorDiv(r.low, divisor), floorDiv(r.high, divisor)} : Range{0, divisor - 1};
    atom.loops = loops(a);
    atom.reductions = reductions(a);
    atom.reads = reads(a);
    atom.argument = a;
    atom.divisor = divisor;
    found = atomIds.emplace(key, addAtom(atom)).first;
  }
  return intern({0, {{found->second, 1}}});
}

// a = divisor * whole + rest; when rest is known to lie in [0, divisor) no division is left.
IndexId IndexSpace::quotient(IndexId a, int64_t divisor) {
  if (divisor <= 1)
    return a;
  Index whole, rest;
  whole.constant = floorDiv(indices[a]->constant, divisor);
  rest.constant = indices[a]->constant - whole.constant * divisor;
  for (auto [atom, factor] : indices[a]->terms)
    if (factor % divisor == 0)
      whole.terms.emplace_back(atom, factor / divisor);
    else
      rest.terms.emplace_back(atom, factor);
  IndexId w = intern(std::move(whole)), r = intern(std::move(rest));
  if (range(r).within(0, divisor - 1))
    return w;
  return range(r).low >= 0 ? add(w, divided(Atom::Quotient, r, divisor)) : divided(Atom::Quotient, a, divisor);
}

IndexId IndexSpace::remainder(IndexId a, int64_t divisor) {
  if (divisor <= 1)
    return constant(0);
  Index rest;
  rest.constant = indices[a]->constant - floorDiv(indices[a]->constant, divisor) * divisor;
  for (auto [atom, factor] : indices[a]->terms)
    if (factor % divisor != 0)
      rest.terms.emplace_back(atom, factor);
  IndexId r = intern(std::move(rest));
  if (range(r).within(0, divisor - 1))
    return r;
  return divided(Atom::Remainder, range(r).low >= 0 ? r : a, divisor);
}

IndexId IndexSpace::dot(std::span<const IndexId> at, std::span<const int64_t> strides, int64_t offset) {
  IndexId sum = constant(offset);
  for (size_t i = 0; i < at.size(); ++i)
    sum = add(sum, at[i], strides[i]);
  return sum;
}

IndexId IndexSpace::linearise(std::span<const IndexId> at, std::span<const int64_t> dims) {
  IndexId sum = constant(0);
  int64_t stride = 1;
  for (size_t i = at.size(); i-- > 0; stride *= dims[i])
    sum = add(sum, at[i], stride);
  return sum;
}

std::vector<IndexId> IndexSpace::delinearise(IndexId linear, std::span<const int64_t> dims) {
  std::vector<IndexId> at(dims.size());
  for (size_t i = dims.size(); i-- > 0;) {
    bool leading = true;
    for (size_t j = 0; j < i; ++j)
      leading &= dims[j] == 1;
    at[i] = leading && dims[i] > 1 ? linear : remainder(linear, dims[i]);
    linear = leading ? constant(0) : quotient(linear, dims[i]);
  }
  return at;
}

std::vector<IndexId> IndexSpace::reshape(std::span<const IndexId> at, std::span<const int64_t> from,
                                         std::span<const int64_t> to) {
  std::vector<IndexId> result;
  for (int64_t dim : to)
    if (dim == 0)
      return std::vector<IndexId>(to.size(), constant(0));
  // Blocks of dimensions with equal products are independent of each other.
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    size_t i0 = i, j0 = j;
    int64_t a = i < from.size() ? from[i++] : 1, b = j < to.size() ? to[j++] : 1;
    while (a != b) {
      if (a < b && i < from.size())
        a *= from[i++];
      else if (j < to.size())
        b *= to[j++];
      else
        break;
    }
    IndexId linear = linearise(at.subspan(i0, i - i0), from.subspan(i0, i - i0));
    for (IndexId index : delinearise(linear, to.subspan(j0, j - j0)))
      result.push_back(index);
  }
  return result;
}

TupleId IndexSpace::tuple(std::vector<IndexId> at) {
  auto [it, fresh] = tupleIds.emplace(std::move(at), static_cast<TupleId>(tuples.size()));
  if (fresh)
    tuples.push_back(&it->first);
  return it->second;
}

GuardId IndexSpace::guard(GuardId outer, IndexId index, int64_t low, int64_t high) {
  if (range(index).within(low, high - 1))
    return outer;
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
  for (auto [atom, factor] : indices[id]->terms)
    if (atoms[atom].reductions)
      return true;
  return false;
}

bool IndexSpace::reads(IndexId id) const {
  for (auto [atom, factor] : indices[id]->terms)
    if (atoms[atom].reads)
      return true;
  return false;
}

} // namespace mortise::codegen
