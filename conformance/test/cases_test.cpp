// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cases/case.hpp>
#include <kit/judgement.hpp>

#include <gmock/gmock.h>

#include <mortise/reference/interpreter.hpp>

#include <algorithm>
#include <set>

namespace mortise::conformance {
namespace {

TEST(ConformanceCases, EveryOpHasARow) {
  std::vector<std::string> missing;
  for (int32_t op = 1; op < MORTISE_OP_COUNT; ++op)
    if (!rowOf(static_cast<Op>(op)))
      missing.emplace_back(mortise_op_info(op)->name);
  EXPECT_THAT(missing, testing::IsEmpty()) << "a new op needs a row in conformance/cases/rows_*.cpp";
}

// A case of every element type, shape and attributes is one that the op allows, in every layout.
TEST(ConformanceCases, RowsMakeWhatTheirOpsAllow) {
  std::vector<std::string> wrong;
  for (const Level level : {Level::Core, Level::Composite})
    for (const Point &point : pointsOf(level, Extent::Full))
      if (point.shape != Shape::Large && (point.values == Values::Random || point.values == Values::Nan))
        if (auto made = makeCase(point, 7); !made)
          wrong.push_back(made.error().message);
  const auto dynamic = pointsOf(Level::Dynamic, Extent::Quick);
  for (const uint64_t seed : {21, 22, 23}) // whatever the extents are
    for (const Point &point : dynamic)
      if (auto made = makeCase(point, seed); !made)
        wrong.push_back(made.error().message);
  EXPECT_THAT(wrong, testing::IsEmpty());
}

// Every element type that the op's table names, but for those that the op's description takes back.
TEST(ConformanceCases, EveryElementTypeOfAnOpHasCases) {
  std::set<std::string> missing;
  for (const Row &row : rows()) {
    const MortiseOpInfo &info = *infoOf(row.op);
    const uint32_t dtypes = row.slot < 0 ? info.results[0].dtypes : info.operands[row.slot].dtypes;
    for (int32_t dtype = 1; dtype <= MORTISE_DTYPE_COUNT; ++dtype) {
      bool any = false;
      for (size_t shape = 0; shape < std::size(shapeNames) && !any; ++shape)
        for (uint16_t variant = 0; variant < row.variants.size() && !any; ++variant)
          any = factsOf({.op = row.op, .dtype = dtype, .shape = static_cast<Shape>(shape), .variant = variant})
                    .skipped.empty();
      if ((dtypes >> dtype & 1) && !any)
        missing.insert(std::string(info.name) + " " + dtypeName(dtype));
    }
  }
  EXPECT_THAT(missing, testing::UnorderedElementsAre("mortise.uniform f8E4M3FN", "mortise.uniform f8E5M2",
                                                     "mortise.normal f8E4M3FN", "mortise.normal f8E5M2"));
}

TEST(ConformanceCases, NamesAreUniqueAndNameTheirPoints) {
  std::set<std::string> seen;
  for (const Level level : {Level::Core, Level::Composite, Level::Dynamic})
    for (const Point &point : pointsOf(level, level == Level::Dynamic ? Extent::Quick : Extent::Full)) {
      const std::string id = idOf(point);
      EXPECT_TRUE(seen.insert(id).second) << id;
      const auto read = pointOf(id);
      ASSERT_TRUE(read) << read.error().message;
      EXPECT_EQ(idOf(*read), id);
      ASSERT_TRUE(*read == point) << id;
    }
}

TEST(ConformanceCases, NamesOfNoCaseAreRefused) {
  for (const char *id :
       {"", "add", "add/f32/prime/dense/random", "mad/f32/prime/dense/random/#1", "add/f33/prime/dense/random/#1",
        "add/f32/primes/dense/random/#1", "add/f32/prime/denser/random/#1", "add/f32/prime/dense/randoms/#1",
        "add/f32/prime/dense/random/last/#1", "add/f32/prime/dense/random/1", "add/f32/prime/dense/random/#1x",
        "reduce_sum/f32/prime/dense/random/middle/#1"})
    EXPECT_FALSE(pointOf(id)) << id;
}

TEST(ConformanceCases, AllPairsAreCovered) {
  for (const Level level : {Level::Core, Level::Composite, Level::Dynamic}) {
    Coverage coverage;
    const auto points = pointsOf(level, Extent::Full, &coverage);
    EXPECT_GT(coverage.pairs, 0u);
    EXPECT_EQ(coverage.covered, coverage.pairs) << levelNames[static_cast<size_t>(level)];
  }
}

// A change of the table changes these numbers, and then kit/corpus.cpp: on purpose, or not at all.
TEST(ConformanceCases, CorpusIsAsItIsWrittenDown) {
  for (const Level level : {Level::Core, Level::Composite, Level::Dynamic})
    for (const Extent extent : {Extent::Quick, Extent::Full})
      EXPECT_EQ(pointsOf(level, extent).size(), corpusSize(level, extent))
          << levelNames[static_cast<size_t>(level)] << (extent == Extent::Quick ? ", quick" : ", full");
}

TEST(ConformanceCases, SeedAndNameDetermineACase) {
  const Point point{.op = Op::Add, .dtype = MORTISE_F32, .values = Values::Extreme};
  const auto one = makeCase(point, 1), again = makeCase(point, 1), other = makeCase(point, 2);
  ASSERT_TRUE(one && again && other);
  EXPECT_EQ(one->inputs, again->inputs);
  EXPECT_NE(one->inputs, other->inputs);
}

} // namespace
} // namespace mortise::conformance
