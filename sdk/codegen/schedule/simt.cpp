// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The numbers come from measurements of bandwidth on an H100 and an H200: accesses of 16 bytes, four vectors a thread,
// one row a block (docs/codegen.md).
#include "schedule/simt.hpp"

#include <mortise/codegen/simt.hpp>
#include <mortise/dtypes.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace mortise::codegen {

static constexpr unsigned blockBytes = 16384; // of a block's memory, which every device has
static constexpr unsigned accessBytes = 16;   // of one load or store of a thread
static constexpr unsigned mostLanes = 8;      // of f32 in registers
static constexpr unsigned vectorsPerThread = 4;
// Of a row in the registers of one thread, so that two of the largest blocks share a multiprocessor: one loads while
// the other computes. The rest of a longer row is read again, mostly from a cache.
static constexpr unsigned mostValues = 32;
static constexpr unsigned mostValuesOfFew = 48; // in smaller blocks
static constexpr unsigned pointwiseThreads = 256;
static constexpr unsigned rowThreads = 512; // of a block, at most
static constexpr unsigned leastBlockThreads = 64;
static constexpr unsigned leastRowThreads = 8; // that share a row: 128 bytes side by side
static constexpr unsigned columnThreads = 256; // likewise
static constexpr unsigned scanThreads = 256;   // of a block
static constexpr unsigned scanSteps = 4;       // of a row, for each thread, before more threads share it
static constexpr unsigned scanPartSteps = 8;   // of a part, for each thread, at least
static constexpr unsigned mostScanParts = 128;
static constexpr unsigned mostParts = 512;
static constexpr double mostRounds = 4;           // of blocks, where units have parts
static constexpr double worthPart = 0.01;         // of the device's time that more parts have to save
static constexpr unsigned stepsPerPart = 16;      // at least, of each thread
static constexpr unsigned mostUnrolled = 8;       // steps
static constexpr unsigned bytesInFlight = 128;    // of a thread's loads
static constexpr unsigned residentThreads = 1024; // of a multiprocessor, where a thread may have 64 registers
static constexpr double mostUnrolledCost = 512;   // of the code of all steps, in additions
static constexpr unsigned partsPerThread = 8;
static constexpr double shortRounds = 4;         // of the device's threads
static constexpr double mostShortBlocks = 16384; // each costs a nanosecond where kernels overlap

// A team shares a row, so that few rows need not be kept apart.
FuseTarget simtFuseTarget() { return {.lanes = 4, .threads = 1, .contractions = true, .sorts = true}; }

// The bytes of the smallest element that varies along the loop in memory: more of them fit one access.
static unsigned smallestElement(const LoopPlan &plan) {
  unsigned bytes = 8;
  const auto take = [&](int32_t dtype) { bytes = std::min(bytes, static_cast<unsigned>(dtypeBits(dtype) / 8)); };
  for (const Expr &expr : plan.dag.exprs)
    if (expr.op == Op::Input && !(elementCount(expr.dims) == 1))
      take(expr.dtype);
  for (const Root &root : plan.roots)
    take(plan.dag.exprs[root.expr].dtype);
  return std::max(1U, bytes);
}

static unsigned registerBytes(int32_t dtype) {
  return std::max(static_cast<unsigned>(dtypeBits(dtype) / 8), isFloat(dtype) ? 4U : 1U);
}

// Whether vectors along the innermost loop are loaded and stored as a whole: else each lane would need an access, and
// neighbouring threads would not touch neighbouring elements.
static bool isContiguous(const LoopPlan &plan) {
  const Loop &last = plan.loops.back();
  for (GuardId guard = 1; guard < plan.space.guardCount(); ++guard)
    for (const Condition &check : plan.space.guard(guard))
      if (plan.space.loops(check.index) & last.members)
        return false;
  const auto fits = [&](IndexId address) {
    if (!(plan.space.loops(address) & last.members))
      return true;
    for (const auto &[atom, factor] : plan.space.index(address).terms)
      if (plan.space.atom(atom).kind != Atom::Loop && (plan.space.atom(atom).loops & last.members))
        return false;
    return plan.coefficient(address, last.number) == 1;
  };
  return std::ranges::all_of(plan.loads, fits) &&
         std::ranges::all_of(plan.roots, [&](const Root &root) { return root.row || fits(root.address); });
}

static unsigned widest(const LoopPlan &plan) { return std::min(mostLanes, accessBytes / smallestElement(plan)); }

static unsigned chooseLanes(const LoopPlan &plan) {
  if (!isContiguous(plan))
    return 1;
  unsigned lanes = widest(plan);
  while (lanes > 1 && !plan.space.facts.isMultiple(plan.loops.back().extent, lanes))
    lanes /= 2;
  return lanes;
}

// The address by which the vectors of a row can be aligned where only narrow ones divide it. All that is stored, and
// most of what is loaded, has to be aligned with it; rows have to be long, the only loop of a unit, and, where nothing
// else makes a unit of them, enough for the device.
static std::optional<IndexId> findPeeled(const LoopPlan &plan, const SimtTarget &target, unsigned lanes) {
  const Loop &last = plan.loops.back();
  const unsigned wide = widest(plan);
  const std::optional<int64_t> extent = last.extent.number();
  if (lanes * 4 > wide || !isContiguous(plan) || !extent || *extent < int64_t(target.subgroup) * wide ||
      std::ranges::count_if(plan.loops, &Loop::reduced) > 1)
    return {};
  double rows = 1;
  for (const Loop &loop : plan.loops)
    rows *= &loop == &last ? 1 : plan.typical(loop.extent);
  const double rowVectors = static_cast<double>(*extent) / wide;
  if (!last.reduced && rows * std::min<double>(rowThreads, rowVectors / vectorsPerThread) < target.deviceThreads / 4.0)
    return {};
  std::optional<IndexId> found;
  for (const Root &root : plan.roots)
    if (!root.row && !plan.space.isCongruent(root.address, found.emplace(found.value_or(root.address)), wide))
      return {};
  int aligned = 0;
  for (IndexId address : plan.loads)
    if (plan.space.loops(address) & last.members)
      aligned += plan.space.isCongruent(address, found.emplace(found.value_or(address)), wide) ? 1 : -1;
  return aligned >= 0 ? found : std::nullopt;
}

static unsigned powerOf2(double atLeast, unsigned most) {
  return std::min(std::bit_ceil(static_cast<unsigned>(std::clamp(std::ceil(atLeast), 1.0, 1e6))), most);
}

int64_t SimtSchedule::keptElements() const {
  const int64_t vectors = (*loops.back().extent.number() + lanes - 1) / lanes;
  return std::max<int64_t>(0, vectors - int64_t(copies) * team) * lanes;
}

static int64_t valuesOf(const Reduction &reduction, const LoopPlan &plan) {
  return isArg(plan.dag.exprs[reduction.expr].op) ? 2 : 1;
}

// Of a block's memory for what several passes need of its rows, and for what its teams combine.
static int64_t keptBytes(const LoopPlan &plan, const SimtTarget &target, const SimtSchedule &schedule) {
  int64_t ofElement = 0, combined = 0;
  for (const Reread &read : plan.rereads)
    ofElement += static_cast<int64_t>(dtypeBits(read.dtype) / 8);
  if (schedule.keepsValues)
    for (const Cached &entry : plan.cache)
      ofElement += schedule.keeps(entry) ? registerBytes(plan.dag.exprs[entry.expr].dtype) : 0;
  for (const Reduction &reduction : plan.reductions)
    combined += valuesOf(reduction, plan) * 8 * (schedule.team / target.subgroup + 1);
  return schedule.teams * (schedule.keptElements() * ofElement + combined);
}

// Registers have as much of a long row as leaves room for a loop over the rest. Two blocks of a multiprocessor, of
// which one loads while the other computes, come before values that need not be computed again.
static void keepRow(const LoopPlan &plan, const SimtTarget &target, SimtSchedule &schedule, unsigned most) {
  schedule.copies = most;
  for (const int64_t blocks : {2, 1})
    for (const bool values : {true, false}) {
      schedule.keepsValues = values;
      schedule.keepsRow = !plan.rereads.empty() && blocks * keptBytes(plan, target, schedule) <= target.sharedBytes;
      if (!schedule.keepsRow)
        continue;
      if (blocks > 1)
        schedule.resident = residentThreads / schedule.threads();
      return;
    }
  schedule.copies = most - most / 4;
}

static void countUnits(SimtSchedule &schedule) {
  schedule.units = 1;
  for (size_t i = 0; i < schedule.loops.size(); ++i)
    if (const ScheduledLoop &loop = schedule.loops[i]; !loop.inside) {
      const bool hasLanes = i + 1 == schedule.loops.size() && schedule.laneLoop;
      schedule.units *= floorDiv(loop.extent, hasLanes ? schedule.lanes : schedule.countOf(i));
    }
}

// What is read once for each result of a few is read once for all of them.
static void takeTogether(const LoopPlan &plan, SimtSchedule &schedule) {
  const Product &product = *plan.product;
  uint64_t members = (product.rhsAlongSum ? product.rows : 0) | (product.lhsAlongSum ? product.columns : 0);
  if (schedule.peeled) // vectors begin elsewhere in each row
    members &= ~plan.space.loops(*schedule.peeled);
  for (size_t i = schedule.loops.size(); i-- > 0;) {
    const std::optional<int64_t> extent = schedule.loops[i].extent.number();
    if ((schedule.loops[i].members & members) && extent && *extent > 1 &&
        *extent * schedule.results() <= LoopPlan::mostTogether)
      schedule.together.push_back({static_cast<int>(i), static_cast<unsigned>(*extent)});
  }
  const bool isPair = plan.sumsBeside || (!schedule.together.empty() && plan.reductions.size() == 1);
  if (!isPair || schedule.peeled)
    return;
  // A pair of what is read once shares what is widened of the others, and what is computed of a norm's row.
  for (size_t i = schedule.loops.size(); i-- > 0;)
    if (const ScheduledLoop &loop = schedule.loops[i];
        (loop.members & (product.rows | product.columns)) && schedule.countOf(i) == 1 &&
        plan.space.facts.isMultiple(loop.extent, SimtSchedule::pair) && plan.typical(loop.extent) > 0) {
      schedule.together.push_back({static_cast<int>(i), SimtSchedule::pair});
      schedule.pairs = true;
      return;
    }
}

// A team shares each row. It is as large as lets every thread have several vectors in flight. Where the innermost loop
// has too few steps for a subgroup, the team shares the longest one.
static void scheduleRows(const LoopPlan &plan, const SimtTarget &target, SimtSchedule &schedule) {
  const Dim &extent = schedule.loops.back().extent;
  const double vectors = std::floor(plan.typical(extent) / schedule.lanes); // what is left of a peeled one is the edge
  schedule.split = static_cast<int>(schedule.loops.size()) - 1;
  double steps = vectors, vectorsPerStep = 1;
  if (vectors < target.subgroup)
    for (size_t i = 0; i + 1 < schedule.loops.size(); ++i)
      if (const double found = plan.typical(schedule.loops[i].extent); schedule.loops[i].inside && found > steps)
        steps = found, schedule.split = static_cast<int>(i), vectorsPerStep = vectors;
  // Fewer threads than a subgroup, if there are rows for all: they exchange less, and each has more in flight.
  const bool isNarrow = schedule.lanes > 1 && plan.typical(schedule.units) * target.subgroup >= target.deviceThreads;
  const unsigned edge = schedule.peeled ? 2 * schedule.lanes : 1; // its elements have a thread each
  const unsigned least = std::max({powerOf2(steps, isNarrow ? leastRowThreads : target.subgroup), edge,
                                   std::bit_ceil(schedule.results())}); // each has a thread that stores it
  const double all = steps * vectorsPerStep;
  // Of vectors a thread has more than three and up to six, so that as few as may be are left out of the last round.
  const double vectorsLeast = schedule.pairs ? 1.5 : 3; // of each row
  const double wanted = schedule.lanes > 1
                            ? std::bit_floor(static_cast<unsigned>(std::clamp((all - 1) / vectorsLeast, 1.0, 1e6)))
                            : all / (mostValues / 2.0);
  schedule.team =
      std::max(least, powerOf2(wanted, std::min({rowThreads, target.blockThreads, powerOf2(steps, rowThreads)})));
  // One team's barriers would hold up another.
  schedule.teams = schedule.team < leastBlockThreads ? 2 * leastBlockThreads / schedule.team : 1;
  const bool alone = std::ranges::count_if(schedule.loops, [](const ScheduledLoop &loop) { return loop.inside; }) == 1;
  if (auto number = extent.number(); number && *number > 0 && alone) {
    const int64_t copies = (*number / schedule.lanes + schedule.team - 1) / schedule.team;
    const unsigned most = (schedule.threads() < rowThreads ? mostValuesOfFew : mostValues) / schedule.lanes;
    schedule.isLooped = copies > most;
    schedule.copies = static_cast<unsigned>(copies);
    if (schedule.isLooped && plan.product)
      schedule.copies = 0; // no other pass needs them
    else if (schedule.isLooped)
      keepRow(plan, target, schedule, most);
  }
}

// Threads side by side have vectors side by side. A team shares the outermost of the reduced loops.
static void scheduleColumns(const LoopPlan &plan, const SimtTarget &target, SimtSchedule &schedule) {
  schedule.teams = target.subgroup;
  for (size_t i = 0; i < schedule.loops.size() && schedule.split < 0; ++i)
    if (schedule.loops[i].inside)
      schedule.split = static_cast<int>(i);
  const double steps = schedule.split < 0 ? 1 : plan.typical(schedule.loops[schedule.split].extent);
  schedule.team = powerOf2(steps / 4, columnThreads / schedule.teams);
  if (schedule.team == 1)
    schedule.teams = columnThreads;
}

// Whether teams can share a unit: its results, as the last pass has them, must be all that is stored.
static bool isShareable(const LoopPlan &plan) {
  return plan.passes == 2 && std::ranges::all_of(plan.roots, &Root::row);
}

// So many, between two numbers, that the blocks of all parts fill the device, which has `resident` of them at once, as
// often as there are rounds of them: the last round takes as long as the others, however few blocks it has. Fewer where
// that makes no difference.
static unsigned chooseParts(double blocks, double resident, unsigned least, double most) {
  unsigned best = 1;
  double bestShare = 0;
  for (unsigned parts = least; parts <= std::max(1.0, most) && blocks * parts <= mostRounds * resident; ++parts) {
    const double rounds = blocks * parts / resident, share = rounds / std::ceil(rounds);
    if (share > bestShare * (1 + worthPart))
      best = parts, bestShare = share;
  }
  return best;
}

static void shareUnits(const LoopPlan &plan, const SimtTarget &target, SimtSchedule &schedule) {
  if (schedule.split < 0 || !isShareable(plan))
    return;
  const Dim &extent = schedule.loops[schedule.split].extent;
  const double vectors = plan.typical(extent) / schedule.stepOf(schedule.split);
  const double steps = vectors / schedule.team, most = std::min<double>(mostParts, steps / stepsPerPart);
  const double blocks = std::max(1.0, std::ceil(plan.typical(schedule.units) / schedule.teams));
  const double resident = std::max(1.0, std::floor(target.deviceThreads / 2.0 / schedule.threads()));
  schedule.parts = chooseParts(blocks, resident, 1, most);
  // Where there is a second kernel anyway, it has all that threads would have to fold.
  const unsigned withoutFolds = static_cast<unsigned>(std::ceil(steps / (SimtSchedule::foldAfter * mostUnrolled)));
  if (schedule.parts > 1 && schedule.parts < withoutFolds)
    schedule.parts = std::max(schedule.parts, chooseParts(blocks, resident, withoutFolds, most));
  if (schedule.parts == 1)
    return;
  schedule.copies = 0, schedule.isLooped = true, schedule.keepsRow = schedule.keepsValues = false;
  schedule.together.clear(), schedule.pairs = false;
  countUnits(schedule);
  int64_t values = 0;
  for (const Reduction &reduction : plan.reductions)
    values += valuesOf(reduction, plan);
  const int64_t lanes = schedule.laneInside ? 1 : schedule.lanes;
  schedule.scratchBytes = schedule.units * (8 * values * schedule.parts * lanes);
}

// More threads come before wider accesses: a subgroup side by side, and enough of them for the device.
static unsigned narrowColumns(const LoopPlan &plan, const SimtTarget &target, const SimtSchedule &schedule) {
  double columns = 1, rows = 1;
  for (const ScheduledLoop &loop : schedule.loops)
    (loop.inside ? rows : columns) *= plan.typical(loop.extent);
  const double perColumn =
      isShareable(plan) ? rows / mostUnrolled : static_cast<double>(columnThreads) / target.subgroup;
  unsigned bytes = 0; // of a lane's partial results, which a block has in its memory
  for (const Reduction &reduction : plan.reductions) {
    const Expr &expr = plan.dag.exprs[reduction.expr];
    bytes += registerBytes(plan.dag.exprs[expr.operands[0]].dtype) + (isArg(expr.op) ? 8 : 0);
  }
  unsigned lanes = schedule.lanes;
  while (lanes > 1 && (columns / lanes < target.subgroup || columns / lanes * perColumn < target.deviceThreads / 4.0 ||
                       columnThreads * lanes * bytes > blockBytes))
    lanes /= 2;
  return lanes;
}

// As many loads in flight as registers hold, but not more than a thread has steps. What computes much for each element
// waits for that, and not for memory.
static void unrollSteps(const LoopPlan &plan, SimtSchedule &schedule) {
  const int innermost = schedule.innermost();
  if (schedule.copies || innermost < 0)
    return; // registers are full
  const auto streams = std::ranges::count_if(
      plan.dag.exprs, [](const Expr &expr) { return expr.op == Op::Input && !(elementCount(expr.dims) == 1); });
  double steps = plan.typical(schedule.loops[innermost].extent) / schedule.stepOf(innermost);
  if (innermost == schedule.split)
    steps /= schedule.team * schedule.parts;
  const double most =
      std::min({steps, double(mostUnrolled), double(bytesInFlight) / (std::max<double>(streams, 1) * accessBytes),
                mostUnrolledCost / (plan.costPerPoint * schedule.lanes)});
  schedule.unroll = std::bit_floor(static_cast<unsigned>(std::max(most, 1.0)));
  if (isShareable(plan) && schedule.unroll > 1)
    schedule.resident = residentThreads / schedule.threads();
}

static constexpr double enoughTiles = 256;  // that large tiles should leave
static constexpr unsigned matrixDepth = 32; // terms of a tile of matrices

// The type of 16 bits that these numbers have in memory, or would be rounded to there; 0 for others.
static int32_t narrowType(const Dag &dag, ExprId id) {
  const Expr *expr = &dag.exprs[id];
  while (expr->dtype == MORTISE_F32 && (expr->op == Op::Keep || expr->op == Op::Convert || has(expr->op, Trait::View)))
    expr = &dag.exprs[expr->operands[0]];
  return isNarrowFloat(expr->dtype) ? expr->dtype : 0;
}

// The grid in which a subgroup reads the fewest lines for its part of the tile.
bool ProductTile::multiplyMatrices(int32_t dtype, const MatrixLayout &of, unsigned subgroups) {
  unsigned fewest = 0;
  for (unsigned down = 1; down <= subgroups; down *= 2) {
    const unsigned across = subgroups / down, height = rows / down, width = columns / across;
    if (height < of.rows.lines || width < of.columns.lines || (fewest && height + width >= fewest))
      continue;
    fewest = height + width;
    gridRows = down, gridColumns = across;
  }
  if (fewest)
    matrices = dtype, layout = of;
  return fewest != 0;
}

static void scheduleProduct(const LoopPlan &plan, const SimtTarget &target, SimtSchedule &schedule) {
  const Dim rows = plan.extentOf(plan.product->rows), columns = plan.extentOf(plan.product->columns);
  Dim others = 1;
  for (const Loop &loop : plan.loops)
    if (!loop.reduced && !(loop.members & (plan.product->rows | plan.product->columns)))
      others *= loop.extent;
  const Expr &factor = plan.dag.exprs[plan.product->lhs];
  const unsigned bytes = registerBytes(factor.dtype);
  ProductTile tile;
  tile.rows = plan.typical(rows) <= 16 ? 16 : 64;
  tile.columns = plan.typical(columns) <= 16 ? 16 : 64;
  if (bytes <= 4 && plan.typical(rows) * plan.typical(columns) * plan.typical(others) >= enoughTiles * 128 * 128 &&
      plan.typical(rows) >= 128 && plan.typical(columns) >= 128)
    tile.rows = tile.columns = 128;
  const int32_t narrow = narrowType(plan.dag, plan.product->lhs);
  const unsigned threads = ProductTile::side * ProductTile::side, subgroups = threads / target.subgroup;
  // Of two tiles that have few rows or columns, one has a matrix for each subgroup.
  const auto multiplies = [&] {
    if (tile.multiplyMatrices(narrow, *target.matrices, subgroups))
      return true;
    (tile.rows < tile.columns ? tile.columns : tile.rows) *= 2;
    return tile.multiplyMatrices(narrow, *target.matrices, subgroups);
  };
  if (target.matrices && target.matrices->takes(narrow) && narrow == narrowType(plan.dag, plan.product->rhs) &&
      tile.rows * tile.columns > threads && multiplies()) {
    tile.depth = matrixDepth;
  } else if ((tile.rows + tile.columns + 2) * tile.depth * bytes > blockBytes) {
    tile.depth /= 2;
  }
  schedule.units = others * ceilDiv(rows, Dim(tile.rows)) * ceilDiv(columns, Dim(tile.columns));
  schedule.team = ProductTile::side * ProductTile::side;
  schedule.tile = tile;
}

static void scheduleSort(const LoopPlan &plan, SimtSchedule &schedule) {
  constexpr unsigned mostWords = 1024;                // of a block
  constexpr int64_t mostPositions = INT64_C(1) << 31; // of a row
  const Expr &root = plan.dag.exprs[plan.dag.roots[0]];
  SortSchedule sort;
  sort.applies = plan.isScatter();
  // A word has a key of up to 32 bits and the position; a key of 64 bits has one for itself.
  const bool isWide = sort.applies ? !plan.space.facts.isNarrow(elementCount(root.dims))
                                   : dtypeBits(plan.dag.exprs[root.operands[0]].dtype) > 32;
  sort.words = isWide ? 2 : 1;
  const unsigned elements = mostWords / sort.words;
  while (sort.chunk < elements && !plan.space.facts.atLeast(Dim(sort.chunk), plan.rowLength))
    sort.chunk *= 2;
  sort.chunks = elements / sort.chunk;
  while (sort.run(sort.merges) < mostPositions && !plan.space.facts.atLeast(Dim(sort.run(sort.merges)), plan.rowLength))
    ++sort.merges;
  const Dim rows = plan.sortedRows();
  schedule.units = rows * ceilDiv(plan.rowLength, Dim(sort.chunk));
  // Rows that are too long have a grid that no launch takes.
  if (!plan.space.facts.atLeast(Dim(mostPositions), plan.rowLength))
    schedule.units += min(max(plan.rowLength - mostPositions, Dim(0)), Dim(1)) * (mostPositions * sort.chunks);
  schedule.teams = sort.chunks;
  if (sort.merges > 0 || sort.applies)
    schedule.scratchBytes = rows * plan.rowLength * int64_t(2 * sizeof(uint64_t) * sort.words);
  schedule.sort = sort;
}

// Rows of one run have nothing to merge. The expression stays short, because an extent may be a long one: where that
// cannot be known, all but the first run count twice, and the blocks that are too many end at once.
Dim SimtSchedule::mergeBlocks(const LoopPlan &plan, unsigned merges) const {
  const Dim run = sort->run(merges), runs = ceilDiv(plan.rowLength, run), rows = plan.sortedRows();
  const bool keepsAll = plan.space.facts.atLeast(plan.sortedCount(), run) || plan.isScatter();
  const Dim kept = keepsAll ? run : min(run, plan.sortedCount()); // of a run, more than it may have
  const bool isMerged = plan.space.facts.atLeast(plan.rowLength, run + 1);
  const Dim counted = isMerged ? runs : floorDiv(max(plan.rowLength, Dim(1)) - 1, run) * 2;
  return ceilDiv(rows * counted * kept, Dim(SortSchedule::threads));
}

// `while` loops of an element: remainders of f64 take 40 steps at most, powers of integers one for each bit.
static constexpr int64_t mostElementSteps = 64;

Dim SimtSchedule::iterations(const LoopPlan &plan, bool combines) const {
  if (sort) {
    constexpr int64_t stages = 16; // of a chunk's network, and fewer steps of a search in a run than they take together
    return sort->applies ? plan.rowLength + stages * stages : Dim(stages * stages);
  }
  if (tile) {
    Dim terms = 1;
    for (const ScheduledLoop &loop : loops)
      if (loop.reduced)
        terms *= loop.extent;
    const int64_t stores = tile->rowsPerThread() * (tile->columnsPerThread() + 2) + 1;
    return ceilDiv(terms, Dim(tile->depth)) * (tile->depth / ProductTile::termsAtOnce + 2) + 1 + stores;
  }
  const int64_t ofElement =
      (mostElementSteps + 1) * std::ranges::count_if(plan.dag.exprs, [](const Expr &expr) {
        return (expr.op == Op::Rem && isFloat(expr.dtype)) || (expr.op == Op::Pow && !isFloat(expr.dtype));
      });
  if (combines)
    return ofElement;
  Dim nest = ofElement * (std::max(copies, 1U) + (peeled ? 1 : 0)); // of the loops from here inwards
  for (size_t i = loops.size(); i-- > 0;) {
    if (!loops[i].inside || (!isLooped && i + 1 == loops.size()))
      continue;
    const Dim steps = stepsPerThread(static_cast<int>(i));
    nest = steps * nest + 1;
    if (unroll > 1 && static_cast<int>(i) == innermost()) // the loops of a round, each with its end
      nest += ceilDiv(steps, Dim(unroll)) + (ceilDiv(steps, Dim(int64_t(unroll) * foldAfter)) + 1) * (unroll + 2);
    else
      nest += steps;
  }
  if (!plan.isPut())
    return nest * plan.passes;
  const Dim copied = plan.isPutConsecutive ? ceilDiv(plan.putExtent, plan.putCount()) : plan.putExtent;
  return nest * plan.passes + (copied + 1) * (ofElement + 1);
}

SimtSchedule combineSchedule(const SimtSchedule &schedule, const SimtTarget &target) {
  SimtSchedule combine = schedule;
  combine.team = powerOf2(double(schedule.parts) / partsPerThread, target.subgroup);
  combine.teams = columnThreads / combine.team;
  combine.laneInside = false; // neighbouring threads have neighbouring units
  combine.split = -1;
  combine.resident = 0;
  combine.peeled.reset();
  combine.unroll = combine.lanes = 1;
  combine.units = 1;
  for (const ScheduledLoop &loop : schedule.loops)
    if (!loop.inside)
      combine.units *= loop.extent;
  return combine;
}

// A team shares the row of a running op, and combines what its threads have at each step. Where that leaves threads
// without work, as columns do, whose threads have one each, units have parts: what each comes to is found first.
static void scheduleScan(const LoopPlan &plan, const SimtTarget &target, SimtSchedule &schedule) {
  const auto along = std::ranges::find_if(schedule.loops, &ScheduledLoop::reduced);
  if (along == schedule.loops.end())
    return;
  const double steps = plan.typical(along->extent);
  if (plan.reducesInnermost() && steps >= target.subgroup) {
    // Each combination of logarithms is code of its own: subgroups do not meet, which would be twice as many.
    const bool isShort = std::ranges::none_of(
        plan.runs, [&](const auto &run) { return plan.dag.exprs[run.first].op == Op::Cumlogsumexp; });
    schedule.team = std::max(target.subgroup, powerOf2(steps / scanSteps, isShort ? scanThreads : target.subgroup));
    schedule.teams = scanThreads / schedule.team;
    schedule.scans = true;
  }
  // What one running op comes to must not depend on what another one has come to before.
  const double most = std::min<double>(mostScanParts, steps / (schedule.team * scanPartSteps));
  const double parts = std::min(most, target.deviceThreads / 2.0 / (plan.typical(schedule.units) * schedule.team));
  if (plan.runs.size() == 1 && parts >= 2) {
    schedule.parts = static_cast<unsigned>(parts);
    const int64_t values = runSize(plan.dag.exprs[plan.runs.front().first].op);
    schedule.scratchBytes = schedule.units * (8 * values * int64_t(schedule.parts));
  }
  if (schedule.scans || schedule.parts > 1)
    schedule.split = static_cast<int>(along - schedule.loops.begin());
}

static SimtSchedule chooseSchedule(const LoopPlan &plan, const SimtTarget &target) {
  SimtSchedule schedule;
  for (const Loop &loop : plan.loops)
    schedule.loops.push_back({loop, loop.reduced});
  if (plan.isSort() || plan.isScatter()) {
    scheduleSort(plan, schedule);
    return schedule;
  }
  if (plan.suitsTiles() && plan.reductions.size() == 1) {
    scheduleProduct(plan, target, schedule);
    return schedule;
  }
  const bool inOrder = plan.scan || plan.isPut(); // their innermost loop carries a value or may write twice
  schedule.laneLoop = !plan.loops.empty() && !(inOrder && plan.reducesInnermost());
  schedule.laneInside = schedule.laneLoop && plan.reducesInnermost();
  if (schedule.laneLoop && !inOrder)
    schedule.lanes = chooseLanes(plan);
  const bool reduces = !plan.reductions.empty();
  if (schedule.laneLoop && !inOrder && (schedule.laneInside || !reduces))
    schedule.peeled = findPeeled(plan, target, schedule.lanes);
  if (schedule.peeled) {
    schedule.lanes = widest(plan);
    schedule.laneInside = schedule.loops.back().inside = true;
  }
  if (reduces && !schedule.laneInside)
    schedule.lanes = narrowColumns(plan, target, schedule);
  if (schedule.laneInside && plan.product)
    takeTogether(plan, schedule);
  countUnits(schedule);
  if (schedule.laneInside)
    scheduleRows(plan, target, schedule);
  else if (reduces)
    scheduleColumns(plan, target, schedule);
  else
    schedule.teams = std::min(pointwiseThreads, target.blockThreads);
  if (plan.scan)
    scheduleScan(plan, target, schedule);
  if (reduces)
    shareUnits(plan, target, schedule);
  if (reduces || schedule.laneInside)
    unrollSteps(plan, schedule);
  const auto isOneStep = [&](IndexId address) {
    return std::ranges::all_of(plan.loops, [&](const Loop &loop) { return plan.space.loops(address) & loop.members; });
  };
  schedule.readsOnce =
      reduces && isShareable(plan) && schedule.lanes == widest(plan) && std::ranges::all_of(plan.loads, isOneStep);
  return schedule;
}

SimtSchedule scheduleSimt(const LoopPlan &plan, const SimtTarget &target) {
  SimtSchedule schedule = chooseSchedule(plan, target);
  if (schedule.sort)
    return schedule;
  const double blocks = plan.typical(schedule.blocks()) * schedule.parts;
  schedule.isShort = !schedule.readsOnce && blocks <= mostShortBlocks &&
                     blocks * schedule.threads() <= shortRounds * target.deviceThreads;
  return schedule;
}

} // namespace mortise::codegen
