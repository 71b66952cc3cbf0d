// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which points of a row are tried.
#include "table.hpp"

#include "../networks/networks.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <set>

namespace mortise::conformance {
namespace {

// The axes of a point, as small numbers.
constexpr size_t axisCount = 5;
constexpr const char *axisNames[axisCount] = {"dtype", "shape", "values", "layout", "attributes"};
using Place = std::array<uint16_t, axisCount>;

Place placeOf(const Point &point) {
  return {static_cast<uint16_t>(point.dtype), static_cast<uint16_t>(point.shape), static_cast<uint16_t>(point.values),
          static_cast<uint16_t>(point.layout), point.variant};
}

using Pair = std::array<uint16_t, 4>; // two axes, and a number of each
template <typename Body> void forPairs(const Place &place, Body body) {
  for (uint16_t a = 0; a < axisCount; ++a)
    for (uint16_t b = a + 1; b < axisCount; ++b)
      body(Pair{a, b, place[a], place[b]});
}

template <typename Body> void forBits(uint32_t bits, Body body) {
  for (; bits; bits &= bits - 1)
    body(std::countr_zero(bits));
}

class RowPoints {
public:
  RowPoints(const Row &row, bool dynamic) : row(row), dynamic(dynamic) {
    const MortiseOpInfo &info = *infoOf(row.op);
    const uint32_t dtypes = row.slot < 0 ? info.results[0].dtypes : info.operands[row.slot].dtypes;
    forBits(dtypes, [&](int dtype) {
      for (size_t shape = 0; shape < std::size(shapeNames); ++shape)
        for (uint16_t variant = 0; variant < row.variants.size() && static_cast<Shape>(shape) != Shape::Bulk; ++variant)
          addCell(dtype, static_cast<Shape>(shape), variant);
    });
  }

  std::vector<Point> full() {
    // Each element type and shape with each class of values; layout and attributes are those that cover most new pairs.
    for (const auto &[key, list] : groups)
      forBits(valuesOf(list), [&](int values) { take(list, static_cast<Values>(values)); });
    // What is left of the pairs.
    for (const Cell &cell : cells)
      forBits(cell.facts.values, [&](int values) {
        forBits(cell.facts.layouts, [&](int layout) {
          const Point point = at(cell, static_cast<Values>(values), static_cast<Layout>(layout));
          if (isNew(point))
            add(point);
        });
      });
    if (!dynamic)
      addDense();
    return std::move(points);
  }

  // Each value of each axis once, and each element type with each shape where it is static.
  std::vector<Point> quick() {
    std::set<std::pair<size_t, uint16_t>> seen;
    const auto news = [&](const Place &place) {
      int count = 0;
      for (size_t axis = 0; axis < axisCount; ++axis)
        count += !seen.contains({axis, place[axis]});
      return count;
    };
    const std::vector<Point> all = shuffled();
    for (int wanted = static_cast<int>(axisCount); wanted > 0; --wanted)
      for (const Point &point : all) {
        const Place place = placeOf(point);
        if (news(place) < wanted)
          continue;
        for (size_t axis = 0; axis < axisCount; ++axis)
          seen.insert({axis, place[axis]});
        add(point);
      }
    // Dense, because some plugins take nothing else.
    std::set<std::pair<int32_t, Shape>> met;
    const auto isNew = [&](const Point &point) {
      return point.layout == Layout::Dense && met.insert({point.dtype, point.shape}).second;
    };
    std::ranges::for_each(points, isNew);
    for (const Point &point : dynamic ? std::span<const Point>() : std::span<const Point>(all))
      if (isNew(point))
        add(point);
    return std::move(points);
  }

  void count(Coverage &coverage) const {
    std::set<Pair> all;
    for (const Cell &cell : cells)
      forBits(cell.facts.values, [&](int values) {
        forBits(cell.facts.layouts, [&](int layout) {
          forPairs(placeOf(at(cell, static_cast<Values>(values), static_cast<Layout>(layout))),
                   [&](const Pair &pair) { all.insert(pair); });
        });
      });
    const auto named = [&](const Pair &pair) -> auto & {
      return coverage.axes[std::string(axisNames[pair[0]]) + " x " + axisNames[pair[1]]];
    };
    for (const Pair &pair : all)
      ++named(pair).first;
    for (const Pair &pair : covered)
      ++named(pair).second;
    coverage.pairs += all.size();
    coverage.covered += covered.size();
  }

private:
  struct Cell {
    int32_t dtype;
    Shape shape;
    uint16_t variant;
    Facts facts;
  };

  void addCell(int32_t dtype, Shape shape, uint16_t variant) {
    Point point{.op = row.op, .dtype = dtype, .shape = shape, .variant = variant, .dynamic = dynamic};
    Facts facts = factsOf(point);
    if (!facts.skipped.empty())
      return;
    groups[{dtype, shape}].push_back(cells.size());
    cells.push_back({dtype, shape, variant, std::move(facts)});
  }

  // All points, always in the same order, which no axis decides.
  std::vector<Point> shuffled() const {
    std::vector<Point> all;
    for (const Cell &cell : cells)
      forBits(cell.facts.values, [&](int values) {
        forBits(cell.facts.layouts,
                [&](int layout) { all.push_back(at(cell, static_cast<Values>(values), static_cast<Layout>(layout))); });
      });
    std::mt19937_64 random(static_cast<uint64_t>(row.op));
    for (size_t i = all.size(); i > 1; --i)
      std::swap(all[i - 1], all[random() % i]);
    return all;
  }

  uint32_t valuesOf(const std::vector<size_t> &list) const {
    uint32_t values = 0;
    for (const size_t i : list)
      values |= cells[i].facts.values;
    return values;
  }

  Point at(const Cell &cell, Values values, Layout layout) const {
    return {row.op, cell.dtype, cell.shape, layout, values, cell.variant, 1, dynamic};
  }

  int newPairs(const Point &point) const {
    int count = 0;
    forPairs(placeOf(point), [&](const Pair &pair) { count += !covered.contains(pair); });
    return count;
  }
  bool isNew(const Point &point) const { return newPairs(point) > 0; }

  void add(const Point &point) {
    forPairs(placeOf(point), [&](const Pair &pair) { covered.insert(pair); });
    ++uses[{3, static_cast<uint16_t>(point.layout)}];
    ++uses[{4, point.variant}];
    points.push_back(point);
  }

  // Each element type with all attributes and classes of values, for plugins that take dense operands alone: of the
  // shapes with some elements each in turn, some of them for every such triple, because a kernel for few columns is
  // another one than that for rows.
  void addDense() {
    constexpr size_t enough = 3;
    using Triple = std::tuple<int32_t, uint16_t, Values>;
    std::map<Triple, std::set<Shape>> seen;
    std::map<std::pair<int32_t, uint16_t>, std::vector<size_t>> lists;
    const auto hasWork = [](Shape shape) {
      return shape != Shape::Zero && shape != Shape::One && shape != Shape::Scalar && shape != Shape::Large;
    };
    for (const Point &point : points)
      if (point.layout == Layout::Dense && hasWork(point.shape))
        seen[{point.dtype, point.variant, point.values}].insert(point.shape);
    for (size_t i = 0; i < cells.size(); ++i)
      if (hasWork(cells[i].shape))
        lists[{cells[i].dtype, cells[i].variant}].push_back(i);
    size_t turn = 0;
    for (const auto &[key, list] : lists)
      forBits(valuesOf(list), [&](int bit) {
        const auto values = static_cast<Values>(bit);
        std::set<Shape> &shapes = seen[{key.first, key.second, values}];
        for (size_t i = 0; i < list.size() && shapes.size() < enough; ++i, ++turn)
          if (const Cell &cell = cells[list[turn % list.size()]];
              cell.facts.values >> bit & 1 && shapes.insert(cell.shape).second)
            add(at(cell, values, Layout::Dense));
      });
  }

  // The layout and the attributes that cover most new pairs, and of equal ones those used least.
  void take(const std::vector<size_t> &list, Values values) {
    std::optional<Point> best;
    std::pair<int, int> most{-1, 0};
    for (const size_t i : list)
      if (cells[i].facts.values >> static_cast<unsigned>(values) & 1)
        forBits(cells[i].facts.layouts, [&](int layout) {
          const Point point = at(cells[i], values, static_cast<Layout>(layout));
          const auto used = [&](size_t axis, uint16_t number) {
            const auto found = uses.find({axis, number});
            return found == uses.end() ? 0 : found->second;
          };
          const std::pair<int, int> gain{newPairs(point),
                                         -used(3, static_cast<uint16_t>(layout)) - used(4, point.variant)};
          if (gain > most) {
            most = gain;
            best = point;
          }
        });
    if (best)
      add(*best);
  }

  const Row &row;
  const bool dynamic;
  std::vector<Cell> cells;
  std::map<std::pair<int32_t, Shape>, std::vector<size_t>> groups;
  std::set<Pair> covered;
  std::map<std::pair<size_t, uint16_t>, int> uses;
  std::vector<Point> points;
};

} // namespace

std::vector<Point> pointsOf(Level level, Extent extent, Coverage *coverage) {
  if (level >= Level::Abi)
    return probePoints(level, extent);
  std::vector<Point> all;
  for (const Row &row : rows()) {
    if (!isAt(row.op, level))
      continue;
    RowPoints made(row, level == Level::Dynamic);
    std::vector<Point> points = extent == Extent::Full ? made.full() : made.quick();
    if (coverage)
      made.count(*coverage);
    // Those of one graph together.
    std::ranges::sort(points, {}, [](const Point &point) {
      return std::tuple(point.dtype, point.shape, point.variant, point.layout, point.values);
    });
    for (Point point : points) {
      all.push_back(point);
      point.number = 2; // the same kernel for other numbers
      if (level == Level::Dynamic)
        all.push_back(point);
    }
  }
  std::ranges::move(networkPoints(level, extent), std::back_inserter(all));
  return all;
}

} // namespace mortise::conformance
