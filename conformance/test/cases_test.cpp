// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cases/case.hpp>
#include <kit/judgement.hpp>

#include <gmock/gmock.h>

#include <mortise/reference/interpreter.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
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
  for (const Level level : {Level::Core, Level::Composite, Level::Quantised})
    for (const Point &point : pointsOf(level, Extent::Full))
      if (point.probe == Probe::None && point.shape != Shape::Large &&
          (point.values == Values::Random || point.values == Values::Nan))
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
  for (const Level level :
       {Level::Core, Level::Composite, Level::Dynamic, Level::Quantised, Level::Abi, Level::Stress, Level::Perf})
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
        "reduce_sum/f32/prime/dense/random/middle/#1", "abi/add/f32/prime/dense/random/#1",
        "abi/none/add/f32/prime/dense/random/#1", "abi/threads", "abi/speed/add/f32/bulk/dense/random/#1",
        "perf/threads/add/f32/bulk/dense/random/#1", "perf/add/f32/bulk/dense/random/#1"})
    EXPECT_FALSE(pointOf(id)) << id;
}

TEST(ConformanceCases, AllPairsAreCovered) {
  for (const Level level : {Level::Core, Level::Composite, Level::Dynamic, Level::Quantised}) {
    Coverage coverage;
    const auto points = pointsOf(level, Extent::Full, &coverage);
    EXPECT_GT(coverage.pairs, 0u);
    EXPECT_EQ(coverage.covered, coverage.pairs) << levelNames[static_cast<size_t>(level)];
  }
}

// Plugins that take dense operands alone have kernels of their own for rows, columns and tails.
TEST(ConformanceCases, DenseOperandsHaveSeveralShapes) {
  std::map<std::tuple<Op, int32_t, uint16_t, Values>, std::set<Shape>> shapes;
  for (const Point &point : pointsOf(Level::Core, Extent::Full))
    if (point.layout == Layout::Dense && point.shape != Shape::One && point.shape != Shape::Zero)
      shapes[{point.op, point.dtype, point.variant, point.values}].insert(point.shape);
  constexpr uint16_t last = 0, first = 1;
  for (const Op op : {Op::Argmin, Op::Argmax, Op::ReduceMax, Op::Cummax, Op::Sort})
    for (const uint16_t variant : {last, first}) {
      const auto &of = shapes[{op, MORTISE_F32, variant, Values::Nan}];
      EXPECT_GE(of.size(), 3u) << nameOf(op) << ", " << variant;
      EXPECT_TRUE(variant == last || !of.contains(Shape::Rank1)) << nameOf(op) << ": the first dimension is the last";
    }
}

// A change of the table changes these numbers, and then kit/corpus.cpp: on purpose, or not at all.
TEST(ConformanceCases, CorpusIsAsItIsWrittenDown) {
  for (size_t i = 0; i < std::size(levelNames); ++i)
    for (const Extent extent : {Extent::Quick, Extent::Full})
      EXPECT_EQ(pointsOf(static_cast<Level>(i), extent).size(), corpusSize(static_cast<Level>(i), extent))
          << levelNames[i] << (extent == Extent::Quick ? ", quick" : ", full");
}

TEST(ConformanceCases, EachProbeIsTried) {
  std::set<Probe> tried;
  for (const Level level : {Level::Abi, Level::Stress, Level::Perf})
    for (const Extent extent : {Extent::Full, Extent::Quick}) {
      for (const Point &point : pointsOf(level, extent))
        tried.insert(point.probe);
      if (level == Level::Perf)
        EXPECT_EQ(tried.size(), std::size(probeNames) - 2); // neither None nor Network
    }
  EXPECT_FALSE(tried.contains(Probe::None));
}

// Speeds are compared between runs.
TEST(ConformanceCases, BulksAreOfTheLevelPerfAndAlwaysTheSame) {
  for (const Level level : {Level::Core, Level::Composite, Level::Dynamic, Level::Abi, Level::Stress})
    for (const Point &point : pointsOf(level, Extent::Quick))
      ASSERT_NE(point.shape, Shape::Bulk) << idOf(point);
  std::set<Op> tried;
  for (const Point &point : pointsOf(Level::Perf, Extent::Full)) {
    tried.insert(point.op);
    EXPECT_EQ(point.probe, Probe::Speed);
    const Row *row = rowOf(point.op);
    Draft one(point, 1), other(point, 2);
    row->make(one);
    row->make(other);
    EXPECT_EQ(one.skipped, "");
    const MortiseGraph &view = one.builder.view(), &again = other.builder.view();
    for (size_t n = 0; n < view.node_count; ++n)
      EXPECT_EQ(reference::refuse(*view.nodes[n]).detail, "") << idOf(point);
    double bytes = 0;
    ASSERT_EQ(view.value_count, again.value_count);
    for (size_t i = 0; i < view.value_count; ++i) {
      const MortiseType &type = *view.values[i]->type;
      bytes += static_cast<double>(byteSize(type));
      EXPECT_TRUE(point.shape != Shape::Bulk || std::ranges::equal(dims(type), dims(*again.values[i]->type)))
          << idOf(point);
    }
    EXPECT_GT(bytes, 1e5) << idOf(point);
  }
  EXPECT_EQ(tried.size(), rows().size() - 3); // without what is known when it is compiled
}

// Kernels of equal types and other attributes are to meet in one process.
TEST(ConformanceCases, AttributesDoNotChangeExtents) {
  const Point up{.op = Op::Sort, .dtype = MORTISE_F32, .shape = Shape::Rank3};
  Point down = up;
  down.variant = 2;
  const auto one = makeCase(up, 1), other = makeCase(down, 1);
  ASSERT_TRUE(one && other);
  EXPECT_TRUE(
      std::ranges::equal(dims(*one->plain->view().inputs[0]->type), dims(*other->plain->view().inputs[0]->type)));
  EXPECT_EQ(intAttribute(*one->plain->view().nodes[0], "descending"), 0);
  EXPECT_EQ(intAttribute(*other->plain->view().nodes[0], "descending"), 1);
}

TEST(ConformanceCases, OutputsMayBeListedTwiceAndBeInputs) {
  Point point{.op = Op::Exp, .dtype = MORTISE_F32, .layout = Layout::Twice};
  const auto twice = makeCase(point, 1);
  point.layout = Layout::Passed;
  const auto passed = makeCase(point, 1);
  point.layout = Layout::Updated;
  const auto updated = makeCase(point, 1);
  ASSERT_TRUE(twice && passed && updated);
  const MortiseGraph &listed = twice->graph->view(), &through = passed->graph->view(), &state = updated->graph->view();
  ASSERT_EQ(listed.output_count, 2u);
  EXPECT_EQ(listed.outputs[0], listed.outputs[1]);
  EXPECT_EQ(twice->expected[0], twice->expected[1]);
  ASSERT_EQ(through.output_count, 2u);
  EXPECT_EQ(through.outputs[1], through.inputs[0]);
  EXPECT_EQ(passed->expected[1], passed->inputs[0]);
  EXPECT_EQ(passed->exactness[1], Exactness::Bits);
  ASSERT_EQ(state.node_count, 2u);
  ASSERT_EQ(state.alias_count, 1u);
  EXPECT_EQ(state.aliases[0]->output, 0u);
  EXPECT_EQ(updated->expected[0], updated->expected[1]); // both of the old state
}

TEST(ConformanceCases, OpsAreTriedBehindOthers) {
  const Row *row = rowOf(Op::Sub);
  const auto variant = std::ranges::find(row->variants, "of-add") - row->variants.begin();
  const Point point{.op = Op::Sub, .dtype = MORTISE_F32, .variant = static_cast<uint16_t>(variant)};
  const auto made = makeCase(point, 1);
  ASSERT_TRUE(made) << made.error().message;
  const MortiseGraph &view = made->plain->view();
  ASSERT_EQ(view.node_count, 2u);
  EXPECT_STREQ(view.nodes[0]->op, "mortise.add");
  EXPECT_STREQ(view.nodes[1]->op, "mortise.sub");
  EXPECT_EQ(made->exactness[0], Exactness::Bounded);
}

// What max selects is not rounded: neither behind it nor before it is there anything to keep in more bits.
TEST(ConformanceCases, OpsThatSelectAreExactBehindOthersAndBefore) {
  for (const auto &[op, first] :
       {std::pair(Op::Sub, "of-max"), std::pair(Op::Max, "of-mul"), std::pair(Op::Min, "of-add")}) {
    const Row *row = rowOf(op);
    const auto variant = std::ranges::find(row->variants, first) - row->variants.begin();
    const auto made = makeCase({.op = op, .dtype = MORTISE_F32, .variant = static_cast<uint16_t>(variant)}, 1);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(made->exactness[0], Exactness::Exact) << nameOf(op) << " " << first;
  }
}

template <typename T> std::vector<T> numbersOf(const std::vector<std::byte> &bytes) {
  std::vector<T> numbers(bytes.size() / sizeof(T));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

// Numbers that are rounded wrongly by whoever rounds to f64 first.
TEST(ConformanceCases, IntegersLieBesideTies) {
  const auto made = makeCase({.op = Op::Neg, .dtype = MORTISE_I64, .shape = Shape::Large, .values = Values::Ties}, 1);
  ASSERT_TRUE(made) << made.error().message;
  const auto numbers = numbersOf<int64_t>(made->inputs[0]);
  const auto isTwice = [](int64_t number) {
    return static_cast<float>(number) != static_cast<float>(static_cast<double>(number));
  };
  EXPECT_GT(std::ranges::count_if(numbers, isTwice), 0);
}

TEST(ConformanceCases, LargeTensorsOfNarrowTypesHoldEveryNumber) {
  for (const int32_t dtype : {MORTISE_F16, MORTISE_BF16}) {
    const auto made = makeCase({.op = Op::Exp, .dtype = dtype, .shape = Shape::Large, .values = Values::Nan}, 1);
    ASSERT_TRUE(made) << made.error().message;
    const auto numbers = numbersOf<uint16_t>(made->inputs[0]);
    const unsigned infinity = dtype == MORTISE_F16 ? 0x7c00 : 0x7f80;
    const std::set<uint16_t> met(numbers.begin(), numbers.end());
    for (unsigned bits = 0; bits <= infinity; ++bits)
      EXPECT_TRUE(met.contains(static_cast<uint16_t>(bits)) && met.contains(static_cast<uint16_t>(bits | 0x8000)))
          << bits;
    EXPECT_GT(*met.rbegin(), 0x8000 | infinity); // a NaN
  }
}

// So that a kernel that is compiled for one point alone meets zeros, ties and common numbers.
TEST(ConformanceCases, OtherValuesAreOfOtherClassesForTheSameGraph) {
  const auto others = [](const Point &point) {
    const auto made = makeCase(point, 1);
    const auto other = makeOther(*made, 1);
    EXPECT_TRUE(made && other && *other);
    EXPECT_TRUE(std::ranges::equal(made->graph->bytes(), (*other)->graph->bytes()));
    EXPECT_NE(made->inputs, (*other)->inputs);
    return numbersOf<float>((*other)->inputs[0]);
  };
  const auto isTie = [](float number) { return std::abs(number) < 16 && number * 2 == std::round(number * 2); };
  const auto isZero = [](float number) { return number == 0; };
  const auto isNan = [](float number) { return std::isnan(number); };
  for (const Values own : {Values::Nan, Values::Random}) {
    const Point point{.op = Op::Exp, .dtype = MORTISE_F32, .shape = Shape::Large, .values = own};
    const auto mixed = others(point);
    EXPECT_GT(std::ranges::count_if(mixed, isZero), 0);
    EXPECT_GT(std::ranges::count_if(mixed, [&](float x) { return !isZero(x) && isTie(x); }), 0);
    EXPECT_GT(std::ranges::count_if(mixed, [&](float x) { return !isTie(x); }), 0);
    EXPECT_EQ(std::ranges::count_if(mixed, isNan), 0);
  }
  Point sum{.op = Op::ReduceSum, .dtype = MORTISE_F32, .shape = Shape::Large, .values = Values::Zeros};
  EXPECT_EQ(std::ranges::count_if(others(sum), isZero), 0);
  sum.values = Values::Random;
  const auto ties = others(sum);
  EXPECT_GT(std::ranges::count_if(ties, isTie), std::ssize(ties) / 4);
}

// One program for all extents is judged for two of them, also where those of the case leave nothing to compute.
TEST(ConformanceCases, OtherValuesOfDynamicCasesHaveOtherExtents) {
  for (const Shape shape : {Shape::Zero, Shape::Prime, Shape::Rank4})
    for (const Op op : {Op::Exp, Op::Softmax, Op::ReduceSum}) {
      const auto made = makeCase({.op = op, .dtype = MORTISE_F32, .shape = shape, .dynamic = true}, 1);
      ASSERT_TRUE(made) << made.error().message;
      const auto other = makeOther(*made, 1);
      ASSERT_TRUE(other && *other);
      EXPECT_TRUE(std::ranges::equal(made->graph->bytes(), (*other)->graph->bytes()));
      EXPECT_NE(made->symbols, (*other)->symbols) << made->id;
      EXPECT_FALSE((*other)->inputs[0].empty()) << made->id;
    }
}

// Rows longer than a tile of any kernel, and as many rows; but no product with one of its three extents alone.
TEST(ConformanceCases, LargeTensorsAreLongInOneAxisToo) {
  const auto longest = [](Op op, uint64_t seed) {
    const auto made = makeCase({.op = op, .dtype = MORTISE_I8, .shape = Shape::Large}, seed);
    EXPECT_TRUE(made) << made.error().message;
    const MortiseType &type = *made->plain->view().inputs[0]->type;
    return *std::max_element(type.dims, type.dims + type.rank);
  };
  int even = 0, isLong = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    (longest(Op::Neg, seed) > 20000 ? isLong : even) += 1;
    EXPECT_LT(longest(Op::Dot, seed), 200);
  }
  EXPECT_GT(even, 3);
  EXPECT_GT(isLong, 3);
}

// A softmax that takes another number than the largest away overflows then.
TEST(ConformanceCases, OtherValuesOfASoftmaxAreFarApart) {
  for (const Op op : {Op::Softmax, Op::LogSoftmax, Op::CrossEntropy}) {
    const Point point{.op = op, .dtype = MORTISE_F32, .shape = Shape::Prime};
    const auto made = makeCase(point, 1);
    const auto other = makeOther(*made, 1);
    ASSERT_TRUE(made && other && *other);
    EXPECT_LT(std::ranges::max(numbersOf<float>(made->inputs[0])), 20) << nameOf(op);
    EXPECT_GT(std::ranges::max(numbersOf<float>((*other)->inputs[0])), 200) << nameOf(op);
  }
}

// One that networks have would not be seen in results of f16 and bf16.
TEST(ConformanceCases, NormsHaveSmallAndLargeEpsilons) {
  for (const Op op : {Op::LayerNorm, Op::RmsNorm, Op::GroupNorm, Op::BatchNorm}) {
    std::set<double> met;
    for (uint64_t seed = 0; seed < 16; ++seed) {
      const auto made = makeCase({.op = op, .dtype = MORTISE_BF16, .shape = Shape::Prime}, seed);
      ASSERT_TRUE(made) << made.error().message;
      met.insert(floatAttribute(*made->graph->view().nodes[0], "epsilon"));
    }
    EXPECT_EQ(met, (std::set<double>{1e-5, 0.125})) << nameOf(op);
  }
}

TEST(ConformanceCases, OpsThatChooseMeetEqualExtremes) {
  for (const Op op : {Op::Argmax, Op::Argmin, Op::Sort, Op::TopK, Op::Cummax, Op::Cummin}) {
    int repeating = 0;
    for (uint64_t seed = 0; seed < 16; ++seed) {
      const auto made = makeCase({.op = op, .dtype = MORTISE_F32, .shape = Shape::Large}, seed);
      ASSERT_TRUE(made) << made.error().message;
      const auto numbers = numbersOf<float>(made->inputs[0]);
      repeating += std::ranges::count(numbers, std::ranges::max(numbers)) > 1 &&
                   std::ranges::count(numbers, std::ranges::min(numbers)) > 1;
    }
    EXPECT_GT(repeating, 2) << nameOf(op);
    EXPECT_LT(repeating, 16) << nameOf(op); // the one largest number is tried, too
  }
}

// A product of many even numbers is 0, whatever becomes of one factor.
TEST(ConformanceCases, FactorsOfIntegerProductsAreOdd) {
  for (const Op op : {Op::ReduceProd, Op::Cumprod}) {
    const auto made = makeCase({.op = op, .dtype = MORTISE_I8, .shape = Shape::Large}, 1);
    ASSERT_TRUE(made) << made.error().message;
    for (const int8_t factor : numbersOf<int8_t>(made->inputs[0]))
      ASSERT_TRUE(factor & 1);
  }
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
