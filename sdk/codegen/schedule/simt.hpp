// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Schedules for GPUs: loops bound to blocks, teams of threads, single threads and vectors. A team is the threads that
// share the steps of one loop and combine what they reduce.
#pragma once

#include <mortise/codegen/simt.hpp>

#include "schedule/schedule.hpp"

#include <algorithm>

namespace mortise::codegen {

struct SimtTarget;

// A block computes rows x columns results of a product (LoopPlan::product), side x side threads each their share. The
// factors of `depth` terms at a time lie in the block's memory.
struct ProductTile {
  static constexpr unsigned side = 16;                // threads
  static constexpr unsigned termsAtOnce = 4;          // that the inner loop spells out
  unsigned rows = side, columns = side, depth = side; // multiples of `side`; the depth may be half of it
  // f16 or bf16: subgroups multiply the factors as matrices of that type (SimtMachine::multiply). The block's subgroups
  // form a grid over the tile. 0: threads multiply them one by one.
  int32_t matrices = 0;
  // Of matrices; otherwise every thread is one of side x side, and has results in every line that is its own.
  MatrixLayout layout{{.lines = side, .results = 1, .apart = side, .every = side},
                      {.lines = side, .results = 1, .apart = side, .every = 1}};
  unsigned gridRows = 1, gridColumns = 1; // powers of 2
  unsigned rowsPerThread() const { return rows / gridRows / layout.rows.sets(); }
  unsigned columnsPerThread() const { return columns / gridColumns / layout.columns.sets(); }
  // Whether there is a grid of so many subgroups, which then becomes that of the tile.
  bool multiplyMatrices(int32_t dtype, const MatrixLayout &of, unsigned subgroups);
};

// What sorts rows: the blocks sort chunks of them in their memory; where a row has several, kernels merge `ways` sorted
// runs into one, again and again, and a last one writes what is sorted. Sorted updates have two kernels behind that:
// one copies the operand, one applies the updates (tiles/sort.cpp).
struct SortSchedule {
  static constexpr unsigned threads = 256; // of a block
  static constexpr unsigned ways = 4;      // a power of 2
  unsigned words = 1;                      // of 64 bits: the key and the position of an element
  unsigned chunk = 1;                      // elements, a power of 2
  unsigned chunks = 1;                     // of a block
  unsigned merges = 0;                     // kernels that merge; 0: every row is one chunk
  bool applies = false;                    // updates are sorted
  unsigned elements() const { return chunk * chunks; }
  int64_t run(unsigned merges) const { // elements, behind so many merges
    int64_t length = chunk;
    while (merges-- > 0)
      length *= ways;
    return length;
  }
};

// The lanes are the elements that one thread loads and stores at once. They divide the extent of the innermost loop, or
// it is peeled, so that no vector is partial.
struct SimtSchedule : Schedule {
  // Each element of the loops that are not `inside`, times each vector of the lane loop where that is not inside, is
  // the work of one team.
  Dim units = 1;
  unsigned team = 1;  // threads of a team, a power of 2
  unsigned teams = 1; // of a block
  int split = -1;     // the loop, inside, whose steps the threads of a team take by turns; -1 where nothing is reduced
  // So many vectors of a row each thread computes and keeps in registers from pass to pass.
  unsigned copies = 0;
  bool isLooped = true; // the others come in a loop, which computes them again in each pass
  // Whether a team keeps what that loop reads again (LoopPlan::rereads) in the block's memory, from the first pass on.
  bool keepsRow = false;
  bool keepsValues = false;                    // and what it would compute again (LoopPlan::cache)
  static constexpr unsigned fetchedAtOnce = 8; // vectors of a thread
  // A unit has `count` neighbours along each of these loops, which are not inside: all read the same factor of their
  // products, and a thread multiplies what it has read with the other factor of each.
  struct Neighbours {
    int loop;
    unsigned count; // divides the loop's extent
  };
  std::vector<Neighbours> together;
  static constexpr unsigned pair = 2;
  bool pairs = false;        // the last ones are a pair of those that are read once
  unsigned results() const { // of a unit, for each reduction
    unsigned all = 1;
    for (const Neighbours &each : together)
      all *= each.count;
    return all;
  }
  unsigned countOf(size_t loop) const {
    const auto found = std::ranges::find(together, static_cast<int>(loop), &Neighbours::loop);
    return found == together.end() ? 1 : found->count;
  }
  // Set where rows begin and end anywhere between aligned vectors: the lane loop is peeled. Its vectors begin where
  // this address is a multiple of the lanes; the elements in front of them and behind are one for a thread.
  std::optional<IndexId> peeled;
  // > 1: the innermost loop takes so many steps at once, a power of 2, so that their loads are under way together. They
  // are combined in pairs, and `foldAfter` times so many steps end in a partial result, if there are more of them: sums
  // of many terms would lose digits one after the other.
  unsigned unroll = 1;
  static constexpr unsigned foldAfter = 16;
  bool folds() const { // registers are kept free where it is known that there are no more
    const std::optional<int64_t> steps = stepsPerThread(innermost()).number();
    return !steps || *steps > int64_t(unroll) * foldAfter;
  }
  // > 1: the steps of the loop `split` are shared by so many teams, because there are few units. They leave partial
  // results in scratch memory, which a second kernel combines (combineSchedule).
  unsigned parts = 1;
  // Blocks that are to share a multiprocessor, which decides how many registers a thread may have; 0: any number.
  unsigned resident = 0;
  Dim scratchBytes = 0;   // of all partial results
  bool scans = false;     // a team shares the row of running ops, the loop `split`
  bool readsOnce = false; // nothing is read again, by no thread: caches need not have it
  bool isShort = false;   // the kernel, so that it pays if its start overlaps the end of the one before it
  // A unit is a tile of a product. Tiles follow each other along the columns, then along the rows.
  std::optional<ProductTile> tile;
  // A unit is a chunk of a row: those of a row follow each other.
  std::optional<SortSchedule> sort;
  bool hasScratch() const { return parts > 1 || (sort && (sort->merges > 0 || sort->applies)); }
  Dim mergeBlocks(const LoopPlan &plan, unsigned merges) const; // of the kernel behind so many merges

  // What the loops of one thread take together, at most. A loop takes one iteration more, in which it ends. `combines`:
  // in the kernel of combineSchedule.
  Dim iterations(const LoopPlan &plan, bool combines) const;
  int innermost() const { // of the loops inside a unit; -1 where there is none
    int last = static_cast<int>(loops.size()) - 1;
    while (last >= 0 && !loops[last].inside)
      --last;
    return last;
  }
  // Elements of a step of a loop inside a unit.
  int64_t stepOf(size_t loop) const { return laneInside && loop + 1 == loops.size() ? lanes : 1; }
  unsigned threads() const { return sort ? SortSchedule::threads : team * teams; }
  Dim stepsPerThread(int loop) const { // of a loop inside a unit, at most
    return ceilDiv(loops[loop].extent, Dim(stepOf(loop) * (loop == split ? int64_t(team) * parts : 1)));
  }
  bool keeps(const Cached &entry) const { return keepsValues && entry.root < 0; }
  // Of a row that a team keeps (keepsRow): elements of the lane loop.
  int64_t keptElements() const;
  Dim blocks() const { return ceilDiv(units, Dim(teams)); } // of one part
};

SimtSchedule scheduleSimt(const LoopPlan &plan, const SimtTarget &target);
// For the kernel that combines the parts: a team has one result, of which each thread has equally many parts.
SimtSchedule combineSchedule(const SimtSchedule &schedule, const SimtTarget &target);

} // namespace mortise::codegen
