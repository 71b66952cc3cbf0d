// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Symbolic integer index arithmetic: sums of atoms with constant coefficients. Atoms are loop counters, quotients and
// remainders that do not simplify, and indices read from memory. Everything is interned: equal things have equal ids.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace mortise::codegen {

using IndexId = uint32_t; // constant + sum(coefficient * atom)
using TupleId = uint32_t; // one index per dimension
using GuardId = uint32_t; // conjunction of range conditions; 0 is "always"
using AtomId = uint32_t;

struct Range {
  int64_t low, high; // inclusive
  bool within(int64_t l, int64_t h) const { return low >= l && high <= h; }
};

struct Atom {
  enum Kind : uint8_t { Loop, Quotient, Remainder, Loaded } kind;
  Range range;
  uint64_t loops = 0;      // loops that its value depends on, as a bit set
  bool reductions = false; // depends on the result of a reduction
  bool reads = false;      // depends on an index read from memory
  uint32_t loop = 0;       // Loop: its number
  IndexId argument = 0;    // Quotient, Remainder
  int64_t divisor = 1;     // Quotient, Remainder; Loaded: the extent that it is clamped to
  uint32_t expr = 0;       // Loaded: the integer expression ...
  TupleId at = 0;          // ... and where it is evaluated
};

struct Index {
  int64_t constant = 0;
  std::vector<std::pair<AtomId, int64_t>> terms; // ascending atoms, coefficients not 0
  auto operator<=>(const Index &) const = default;
};

struct Condition { // low <= index < high
  IndexId index;
  int64_t low, high;
  auto operator<=>(const Condition &) const = default;
};

class IndexSpace {
public:
  IndexSpace();
  IndexId constant(int64_t value);
  // A fresh counter 0 .. extent - 1; a loop of extent 1 (or 0) is the constant 0.
  IndexId loop(uint32_t number, int64_t extent);
  IndexId loaded(uint32_t expr, TupleId at, int64_t extent, bool reductions);
  IndexId add(IndexId a, IndexId b, int64_t factor = 1); // a + factor * b
  IndexId scale(IndexId a, int64_t factor) { return add(constant(0), a, factor); }
  IndexId quotient(IndexId a, int64_t divisor);
  IndexId remainder(IndexId a, int64_t divisor);

  IndexId dot(std::span<const IndexId> at, std::span<const int64_t> strides, int64_t offset = 0);
  IndexId linearise(std::span<const IndexId> at, std::span<const int64_t> dims);
  std::vector<IndexId> delinearise(IndexId linear, std::span<const int64_t> dims);
  // Where the element `at` of shape `from` stands in the row-major equal shape `to`.
  std::vector<IndexId> reshape(std::span<const IndexId> at, std::span<const int64_t> from, std::span<const int64_t> to);

  TupleId tuple(std::vector<IndexId> at);
  const std::vector<IndexId> &tuple(TupleId id) const { return *tuples[id]; }
  GuardId guard(GuardId outer, IndexId index, int64_t low, int64_t high); // drops what always holds
  const std::vector<Condition> &guard(GuardId id) const { return *guards[id]; }

  const Index &index(IndexId id) const { return *indices[id]; }
  IndexId atomIndex(AtomId id) { return intern({0, {{id, 1}}}); }
  const Atom &atom(AtomId id) const { return atoms[id]; }
  size_t atomCount() const { return atoms.size(); }
  Range range(IndexId id) const { return ranges[id]; }
  uint64_t loops(IndexId id) const { return loopSets[id]; }
  uint64_t loops(TupleId at, GuardId guard) const;
  bool reductions(IndexId id) const;
  bool reads(IndexId id) const;

private:
  IndexId intern(Index index);
  AtomId addAtom(Atom atom);
  IndexId divided(Atom::Kind kind, IndexId a, int64_t divisor);

  std::vector<Atom> atoms;
  std::map<Index, IndexId> indexIds;
  std::vector<const Index *> indices;
  std::vector<Range> ranges;
  std::vector<uint64_t> loopSets;
  std::map<std::vector<IndexId>, TupleId> tupleIds;
  std::vector<const std::vector<IndexId> *> tuples;
  std::map<std::vector<Condition>, GuardId> guardIds;
  std::vector<const std::vector<Condition> *> guards;
  std::map<std::pair<int, std::pair<uint64_t, uint64_t>>, AtomId> atomIds;
};

} // namespace mortise::codegen
