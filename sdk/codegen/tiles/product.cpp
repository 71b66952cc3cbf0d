// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A tile of a product (LoopPlan::product): what a block of side x side threads does. For a few terms at a time, all
// threads put the factors of the tile's rows and columns into the block's memory, and then each adds their products to
// the sums of its own results, which stay in registers. Factors and results are expressions, computed like those of any
// other kernel, so that what stands before and behind a product needs no memory.
//
// Factors of f16 and bf16 are multiplied as matrices where the machine does that. Then the results of a thread are
// those that SimtMachine::multiply gives it (MatrixLayout).
#include "emit/simt.hpp"

#include <mlir/Interfaces/LoopLikeInterface.h>
#include <mlir/Transforms/LoopInvariantCodeMotionUtils.h>

namespace mortise::codegen {

using namespace mlir;
using I = arith::CmpIPredicate;

static constexpr unsigned side = ProductTile::side;
static constexpr unsigned termsAtOnce = ProductTile::termsAtOnce;

// Loops that one position counts over.
struct SimtKernel::Axis {
  SmallVector<Digit> digits;
  Dim extent = 1;
  unsigned step = 1; // of a tile
};

// The rows or the columns of a tile.
struct SimtKernel::Edge {
  Axis axis;
  ExprId factor = 0;
  bool alongSum = false;  // neighbouring threads read neighbouring terms, else neighbouring rows or columns
  unsigned perThread = 1; // results of a thread along the edge
  bool areRows = false;
  int32_t matrices = 0;      // ProductTile
  MatrixLayout::Edge layout; // likewise
  unsigned depth = 0;
  Value first; // position of the tile
  Value mine;  // the thread's first result along the edge: i32
  Value line;  // of matrices: the place in the array of what the thread names first, i32
  // The factors: one term after another. Of matrices: all terms of one row or column, and then those of the next. Each
  // has a few elements more, so that threads side by side meet other banks.
  Value array;
  Type type;

  Value offsetOf(Code &c, Value number) const { // of a result of this thread: i32
    const auto constant = [&](int64_t value) { return c.integer(number.getType(), value); };
    const unsigned results = layout.results; // a power of 2
    if (results * layout.apart == layout.lines)
      return c.addI(mine, c.mulI(number, constant(layout.apart)));
    Value matrix = arith::ShRUIOp::create(c.b, c.loc, number, constant(llvm::Log2_32(results)));
    Value inside = c.mulI(c.andI(number, constant(results - 1)), constant(layout.apart));
    return c.addI(c.addI(mine, inside), c.mulI(matrix, constant(layout.lines)));
  }
  unsigned count() const { return matrices ? axis.step * stride() : (axis.step + 1) * depth; }
  size_t matrixCount() const { return perThread / layout.results; }
  unsigned stride() const { return depth + 8; } // of matrices: lines that are read at once have other banks
  Value placeOf(Code &c, Value along, Value term) const {
    const auto constant = [&](int64_t value) { return c.integer(along.getType(), value); };
    return matrices ? c.addI(c.mulI(along, constant(stride())), term)
                    : c.addI(c.mulI(term, constant(axis.step + 1)), along);
  }
};

SimtKernel::Axis SimtKernel::axisOf(unsigned step, llvm::function_ref<bool(const ScheduledLoop &)> isPart) const {
  Axis axis;
  axis.step = step;
  for (const ScheduledLoop &loop : llvm::reverse(simt.loops))
    if (isPart(loop)) {
      axis.digits.push_back({&loop, loop.extent});
      axis.extent *= loop.extent;
    }
  return axis;
}

// Of positions, which may reach one step behind the end.
Type SimtKernel::typeOf(const Axis &axis) { return isNarrow(axis.extent) ? b.getI32Type() : b.getI64Type(); }

// Sets the counters for the position first + offset, or for the last one where that is behind it. Returns whether it is
// inside; null where it always is.
Value SimtKernel::enter(const Axis &axis, Value first, Value offset) {
  Value at = c.addI(first, c.resizeInt(offset, first.getType(), false)), isInside;
  if (!plan.space.facts.isMultiple(axis.extent, axis.step)) {
    Value last = c.resizeInt(extent(axis.extent - 1), at.getType(), false);
    isInside = c.compareI(I::sle, at, last);
    at = c.two<arith::MinSIOp>(at, last);
  }
  setCounters(at, axis.digits);
  return isInside;
}

// This thread's share of the factors of an edge, for the terms of `terms` from `first` on, and where they belong.
SmallVector<std::pair<Value, Value>> SimtKernel::share(const Edge &edge, const Axis &terms, Value first) {
  Type i32 = b.getI32Type();
  const unsigned fast = edge.alongSum ? terms.step : edge.axis.step; // both are powers of 2, at most side * side
  Value low = c.andI(member, c.integer(i32, fast - 1));
  Value high = arith::ShRUIOp::create(b, c.loc, member, c.integer(i32, llvm::Log2_32(fast)));
  SmallVector<std::pair<Value, Value>> all;
  for (unsigned i = 0; i < edge.axis.step * terms.step / (side * side); ++i) {
    Value moved = c.addI(high, c.integer(i32, int64_t(i) * side * side / fast));
    Value along = edge.alongSum ? moved : low, term = edge.alongSum ? low : moved;
    scopes.back().next = nullptr;
    scopes.push_back({scopes.back().loops});
    enter(edge.axis, edge.first, along); // what is behind the edge is not stored
    Value isTerm = enter(terms, first, term), factor = value(edge.factor, plan.reductions[0].operandAt, 0);
    if (isTerm)
      factor = c.select(isTerm, factor, arith::ConstantOp::create(b, c.loc, b.getZeroAttr(factor.getType())));
    if (edge.matrices)
      factor = c.intBits(c.toMemory(factor, edge.matrices));
    scopes.pop_back();
    all.emplace_back(factor, edge.placeOf(c, along, term));
  }
  return all;
}

static Value placeIn(Code &c, Value array, Type type, Value index) {
  return LLVM::GEPOp::create(c.b, c.loc, array.getType(), type, array, ValueRange{index});
}

// Adds the products of the terms in the block's memory to the sums.
Emitter::Carried SimtKernel::addTerms(const Edge &rows, const Edge &columns, unsigned terms, ValueRange sums) {
  if (rows.matrices)
    return addMatrices(rows, columns, terms, sums);
  Type i32 = b.getI32Type(), type = sums[0].getType();
  const bool isReal = isa<FloatType>(type);
  return loop(c.i64(0), c.i64(terms), termsAtOnce, sums, 0, [&](Value from, ValueRange before) {
    Carried next(before.begin(), before.end());
    for (unsigned term = 0; term < termsAtOnce; ++term) {
      Value number = c.addI(c.resizeInt(from, i32, false), c.integer(i32, term));
      const auto factors = [&](const Edge &edge) {
        Value at = c.addI(c.mulI(number, c.integer(i32, edge.axis.step + 1)), edge.mine);
        SmallVector<Value> all;
        for (unsigned i = 0; i < edge.perThread; ++i)
          all.push_back(LLVM::LoadOp::create(
              b, c.loc, type, placeIn(c, edge.array, type, c.addI(at, c.integer(i32, int64_t(i) * side)))));
        return all;
      };
      const SmallVector<Value> left = factors(rows), right = factors(columns);
      for (size_t i = 0; i < left.size(); ++i)
        for (size_t j = 0; j < right.size(); ++j) {
          Value &sum = next[i * right.size() + j];
          sum = isReal ? c.fma(left[i], right[j], sum) : c.addI(c.mulI(left[i], right[j]), sum);
        }
    }
    return next;
  });
}

// Factors of the matrix with this number along the edge, and of the terms from `term` on.
SmallVector<Value> SimtKernel::matrixAt(const Edge &edge, unsigned number, unsigned term) {
  const int64_t line = int64_t(number) * edge.layout.lines;
  Value place = c.addI(edge.line, c.integer(b.getI32Type(), line * edge.stride() + term));
  Value first = placeIn(c, edge.array, edge.type, place);
  return machine.readFactors(c, {first, edge.areRows, edge.matrices, edge.stride()});
}

// Sums are those of each matrix, row by row of matrices. The products of the terms in the block's memory are added to
// them by an instruction that rounds to nearest: that of matrices does not, and its errors would add up along the
// terms.
Emitter::Carried SimtKernel::addMatrices(const Edge &rows, const Edge &columns, unsigned terms, ValueRange sums) {
  const MatrixLayout &layout = simt.tile->layout;
  const unsigned steps = terms / layout.terms;
  const size_t tall = rows.matrixCount(), wide = columns.matrixCount(), size = sums.size() / (tall * wide);
  // Of each matrix along the edge and each step; what is read at once may be for several steps.
  const auto factors = [&](const Edge &edge, unsigned matrix) {
    SmallVector<Carried> all;
    for (unsigned step = 0; step < steps; step += edge.layout.products) {
      const Carried read = matrixAt(edge, matrix, step * layout.terms);
      const size_t part = read.size() / edge.layout.products;
      for (unsigned i = 0; i < edge.layout.products; ++i)
        all.emplace_back(ArrayRef(read).slice(i * part, part));
    }
    return all;
  };
  SmallVector<SmallVector<Carried>> left;
  for (unsigned i = 0; i < tall; ++i)
    left.push_back(factors(rows, i));
  Carried next(sums.begin(), sums.end());
  for (unsigned j = 0; j < wide; ++j) {
    const SmallVector<Carried> right = factors(columns, j);
    SmallVector<Carried> made(tall, machine.zeroSums(c, layout));
    for (unsigned step = 0; step < steps; ++step)
      for (unsigned i = 0; i < tall; ++i) // one does not wait for the one before
        made[i] = machine.multiply(c, rows.matrices, left[i][step], right[step], made[i]);
    for (unsigned i = 0; i < tall; ++i) {
      const auto mine = MutableArrayRef(next).slice((i * wide + j) * size, size);
      llvm::copy(machine.addSums(c, mine, made[i]), mine.begin());
    }
  }
  return next;
}

// What addMatrices has summed up, as the thread's results, row by row.
Emitter::Carried SimtKernel::numbersOf(const Edge &rows, const Edge &columns, ArrayRef<Value> sums) {
  const MatrixLayout &layout = simt.tile->layout;
  const unsigned height = layout.rows.results, width = layout.columns.results;
  const size_t tall = rows.matrixCount(), wide = columns.matrixCount(), size = sums.size() / (tall * wide);
  Value memory;
  if (layout.isOpaque) {
    Type f32 = b.getF32Type(), i32 = b.getI32Type();
    const unsigned numbers = layout.rows.lines * layout.columns.lines, threads = machine.subgroup();
    Value array = shared(f32, size_t(numbers) * (side * side / threads));
    Value subgroup = arith::ShRUIOp::create(b, c.loc, member, c.integer(i32, llvm::Log2_32(threads)));
    memory = placeIn(c, array, f32, c.mulI(subgroup, c.integer(i32, numbers)));
  }
  Carried all(size_t(rows.perThread) * columns.perThread);
  for (size_t i = 0; i < tall; ++i)
    for (size_t j = 0; j < wide; ++j) {
      const Carried mine = machine.numbersOf(c, sums.slice((i * wide + j) * size, size), memory);
      for (size_t k = 0; k < mine.size(); ++k)
        all[(height * i + k / width) * columns.perThread + width * j + k % width] = mine[k];
    }
  return all;
}

// What a result needs is one piece of code for all of them: registers have no numbers, so that each step of the loops
// selects its sum.
void SimtKernel::storeTile(const Edge &rows, const Edge &columns, ArrayRef<Value> sums) {
  Type i32 = b.getI32Type();
  const auto pick = [&](ArrayRef<Value> from, Value number) {
    Value picked = from[0];
    for (size_t i = 1; i < from.size(); ++i)
      picked = c.select(c.compareI(I::eq, number, c.integer(i32, static_cast<int64_t>(i))), from[i], picked);
    return picked;
  };
  const auto forEach = [&](const Edge &edge, llvm::function_ref<void(Value number, Value isInside)> body) {
    loop(c.i64(0), c.i64(edge.perThread), 1, {}, 0, [&](Value counter, ValueRange) {
      Value number = c.resizeInt(counter, i32, false);
      body(number, enter(edge.axis, edge.first, edge.offsetOf(c, number)));
      return Carried();
    });
  };
  const size_t width = columns.perThread;
  forEach(rows, [&](Value row, Value isRow) {
    SmallVector<Value> line;
    for (size_t j = 0; j < width; ++j) {
      SmallVector<Value> column;
      for (size_t i = 0; i < rows.perThread; ++i)
        column.push_back(sums[i * width + j]);
      line.push_back(pick(column, row));
    }
    forEach(columns, [&](Value column, Value isColumn) {
      rowScope = scopes.size() - 1;
      setResult(plan.reductions[0], {pick(line, column)});
      Value isInside = isRow && isColumn ? c.andI(isRow, isColumn) : isRow ? isRow : isColumn;
      isInside ? onlyIf(isInside, [&] { storeRows(); }) : storeRows();
    });
  });
}

void SimtKernel::product(Value unit) {
  const ProductTile &tile = *simt.tile;
  const Product &product = *plan.product;
  Type i32 = b.getI32Type();
  Edge rows{axisOf(tile.rows, [&](const ScheduledLoop &loop) { return loop.members & product.rows; }), product.lhs,
            product.lhsAlongSum};
  Edge columns{axisOf(tile.columns, [&](const ScheduledLoop &loop) { return loop.members & product.columns; }),
               product.rhs, product.rhsAlongSum};
  const Axis terms = axisOf(tile.depth, [](const ScheduledLoop &loop) { return loop.reduced; });
  const Axis others = axisOf(1, [&](const ScheduledLoop &loop) {
    return !loop.reduced && !(loop.members & (product.rows | product.columns));
  });
  const auto place = [&](Edge &edge) {
    const Dim tiles = ceilDiv(edge.axis.extent, Dim(edge.axis.step));
    Value number = unit;
    if (tiles == 1) {
      number = c.integer(unit.getType(), 0);
    } else {
      Value count = c.resizeInt(positive(tiles), unit.getType(), false);
      number = c.two<arith::RemUIOp>(unit, count);
      unit = c.two<arith::DivUIOp>(unit, count);
    }
    Type type = typeOf(edge.axis);
    edge.first = c.mulI(c.resizeInt(number, type, false), c.integer(type, edge.axis.step));
  };
  place(columns);
  place(rows);
  setCounters(unit, others.digits);
  const Reduction &sum = plan.reductions[0];
  const Value zero = initial(sum, false)[0];
  rows.perThread = tile.rowsPerThread(), columns.perThread = tile.columnsPerThread();
  rows.layout = tile.layout.rows, columns.layout = tile.layout.columns;
  rows.areRows = true;
  for (Edge *edge : {&rows, &columns}) {
    edge->matrices = tile.matrices, edge->depth = tile.depth;
    edge->type = tile.matrices ? b.getI16Type() : zero.getType();
    edge->array = shared(edge->type, edge->count());
  }
  const auto bits = [&](Value number, unsigned from, unsigned count) { // powers of 2
    Value moved = arith::ShRUIOp::create(b, c.loc, number, c.integer(i32, llvm::Log2_32(from)));
    return c.andI(moved, c.integer(i32, count - 1));
  };
  // Subgroups form a grid over the tile, and what each has of it threads share out like a matrix.
  const unsigned threads = side * side / (tile.gridRows * tile.gridColumns);
  const auto enterPart = [&](Edge &edge, unsigned before, unsigned parts) {
    const MatrixLayout::Edge &layout = edge.layout;
    edge.mine = c.mulI(bits(member, layout.every, layout.sets()), c.integer(i32, layout.setStart()));
    if (!tile.matrices)
      return;
    Value start = c.mulI(bits(member, threads * before, parts), c.integer(i32, edge.axis.step / parts));
    edge.mine = c.addI(start, edge.mine);
    Value line = start, term = c.integer(i32, 0);
    if (!tile.layout.isOpaque) {
      line = c.addI(start, bits(member, 1, layout.lines));
      term = c.mulI(bits(member, layout.lines, threads / layout.lines), c.integer(i32, layout.piece));
    }
    edge.line = edge.placeOf(c, line, term);
  };
  enterPart(columns, 1, tile.gridColumns), enterPart(rows, tile.gridColumns, tile.gridRows);
  Carried start(size_t(rows.perThread) * columns.perThread, zero);
  if (tile.matrices) {
    start.clear();
    for (size_t i = 0; i < rows.matrixCount() * columns.matrixCount(); ++i)
      llvm::append_range(start, machine.zeroSums(c, tile.layout));
  }
  Carried sums = loop(c.i64(0), extent(terms.extent), tile.depth, start, 0, [&](Value from, ValueRange before) {
    Value first = c.resizeInt(from, typeOf(terms), false);
    // All reads before the first write, so that they wait for memory together.
    const auto ofRows = share(rows, terms, first), ofColumns = share(columns, terms, first);
    for (const auto &[edge, factors] : {std::pair(&rows, &ofRows), {&columns, &ofColumns}})
      for (const auto &[factor, at] : *factors)
        LLVM::StoreOp::create(b, c.loc, factor, placeIn(c, edge->array, edge->type, at));
    machine.barrier(c);
    Carried next = addTerms(rows, columns, tile.depth, before);
    machine.barrier(c);
    return next;
  });
  // Where each row and column lies is found once, where registers are left for it. The compilers of drivers leave it in
  // the loop.
  constexpr size_t fewSums = 16;
  if (tile.matrices && sums.size() <= fewSums)
    moveLoopInvariantCode(cast<LoopLikeOpInterface>(sums[0].getDefiningOp()));
  if (tile.matrices)
    sums = numbersOf(rows, columns, sums);
  currentPass = plan.passes - 1;
  storeTile(rows, columns, sums);
}

} // namespace mortise::codegen
