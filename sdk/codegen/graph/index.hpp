// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Symbolic integer index arithmetic: sums of atoms with coefficients that are constant during a run (numbers, or
// extents over the graph's symbols). Atoms are loop counters, quotients and remainders that do not simplify, and
// indices read from memory. Everything is interned: equal objects have equal ids.
#pragma once

#include <mortise/bounds.hpp>

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace mortise::codegen {

using IndexId = uint32_t; // constant + sum(coefficient * atom)
using TupleId = uint32_t; // one index per dimension
using GuardId = uint32_t; // conjunction of range conditions; 0 is "always"
using AtomId = uint32_t;

struct Range {
  Dim low, high; // inclusive; invalid when nothing is known
};

// Answers questions about extents from the ranges of the symbols.
class Facts {
public:
  std::vector<SymbolRange> symbols;
  bool atLeast(const Dim &a, const Dim &b) const;
  bool isMultiple(const Dim &dim, int64_t divisor) const;
  Interval bounds(const Dim &dim) const;
  bool isNarrow(const Dim &dim) const; // fits an i32
  // The value for typical values of the symbols. Only for choices among correct alternatives: the values of a run
  // differ.
  double typical(const Dim &dim) const;
};

struct Atom {
  enum Kind : uint8_t { Loop, Quotient, Remainder, Loaded } kind;
  Range range;
  uint64_t loops = 0;      // loops that its value depends on, as a bit set
  bool reductions = false; // depends on the result of a reduction
  bool reads = false;      // depends on an index read from memory
  uint32_t loop = 0;       // Loop: its number
  IndexId argument = 0;    // Quotient, Remainder
  Dim divisor = 1;         // Quotient, Remainder; Loaded: the extent that it is clamped to
  uint32_t expr = 0;       // Loaded: the integer expression ...
  TupleId at = 0;          // ... and where it is evaluated
};

struct Index {
  Dim constant = 0;
  std::vector<std::pair<AtomId, Dim>> terms; // ascending atoms, coefficients not 0
  auto operator<=>(const Index &) const = default;
};

struct Condition { // low <= index < high
  IndexId index;
  Dim low, high;
  auto operator<=>(const Condition &) const = default;
};

class IndexSpace {
public:
  explicit IndexSpace(Facts facts = {});
  IndexId constant(const Dim &value);
  // A fresh counter 0 .. extent - 1; a loop of extent 1 (or 0) is the constant 0.
  IndexId loop(uint32_t number, const Dim &extent);
  IndexId loaded(uint32_t expr, TupleId at, const Dim &extent, bool reductions);
  IndexId add(IndexId a, IndexId b, const Dim &factor = 1); // a + factor * b
  IndexId scale(IndexId a, const Dim &factor) { return add(constant(0), a, factor); }
  IndexId quotient(IndexId a, const Dim &divisor);
  IndexId remainder(IndexId a, const Dim &divisor);

  IndexId dot(std::span<const IndexId> at, std::span<const Dim> strides, const Dim &offset = 0);
  IndexId linearise(std::span<const IndexId> at, std::span<const Dim> dims);
  std::vector<IndexId> delinearise(IndexId linear, std::span<const Dim> dims);
  // The position in shape `to` of the element at `at` in shape `from`; both have the same elements in row-major order.
  std::vector<IndexId> reshape(std::span<const IndexId> at, std::span<const Dim> from, std::span<const Dim> to);

  TupleId tuple(std::vector<IndexId> at);
  const std::vector<IndexId> &tuple(TupleId id) const { return *tuples[id]; }
  GuardId guard(GuardId outer, IndexId index, const Dim &low,
                const Dim &high); // leaves out conditions that always hold
  const std::vector<Condition> &guard(GuardId id) const { return *guards[id]; }
  size_t guardCount() const { return guards.size(); }

  const Index &index(IndexId id) const { return *indices[id]; }
  IndexId atomIndex(AtomId id) { return intern({0, {{id, 1}}}); }
  const Atom &atom(AtomId id) const { return atoms[id]; }
  size_t atomCount() const { return atoms.size(); }
  const Range &range(IndexId id) const { return ranges[id]; }
  bool within(IndexId id, const Dim &low, const Dim &high) const { return inside(ranges[id], low, high); }
  bool isNatural(IndexId id) const { return facts.atLeast(ranges[id].low, 0); }
  bool isNarrow(IndexId id) const { return facts.isNarrow(ranges[id].low) && facts.isNarrow(ranges[id].high); }
  uint64_t loops(IndexId id) const { return loopSets[id]; }
  uint64_t loops(TupleId at, GuardId guard) const;
  bool reductions(IndexId id) const;
  bool reads(IndexId id) const;
  // Whether the difference is a multiple of the modulus for all values of the atoms.
  bool isCongruent(IndexId a, IndexId b, int64_t modulus) const;

  // An extent or a position overflowed 63 bits or the size limits of Dim: code made from this space must not run.
  bool overflows() const { return overflow; }

  const Facts facts;

private:
  bool inside(const Range &range, const Dim &low, const Dim &high) const {
    return facts.atLeast(range.low, low) && facts.atLeast(high, range.high);
  }
  // Splits a into divisor * whole + rest; `whole` takes the constant and the terms that divide exactly.
  std::pair<IndexId, IndexId> split(IndexId a, const Dim &divisor);
  IndexId intern(Index index);
  AtomId addAtom(Atom atom);
  IndexId divided(Atom::Kind kind, IndexId a, const Dim &divisor);

  bool overflow = false;
  std::vector<Atom> atoms;
  std::map<Index, IndexId> indexIds;
  std::vector<const Index *> indices;
  std::vector<Range> ranges;
  std::vector<uint64_t> loopSets;
  std::map<std::vector<IndexId>, TupleId> tupleIds;
  std::vector<const std::vector<IndexId> *> tuples;
  std::map<std::vector<Condition>, GuardId> guardIds;
  std::vector<const std::vector<Condition> *> guards;
  std::map<std::tuple<int, uint64_t, Dim>, AtomId> atomIds;
};

} // namespace mortise::codegen
