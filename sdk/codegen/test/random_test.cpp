// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random small graphs against the reference: views, elementwise ops, gathers, reductions and norms in any order.
// Extents are numbers, or symbols, where one compiled function must serve many values.
#include "oracle.hpp"
#include "random_graph.hpp"

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;

namespace {

void eachSeed(const std::function<void(unsigned)> &test) {
  const char *only = std::getenv("MORTISE_SEED");
  unsigned first = only ? static_cast<unsigned>(std::strtoul(only, nullptr, 10)) : 1, last = only ? first : 100;
  if (const char *many = std::getenv("MORTISE_SEEDS"))
    last = static_cast<unsigned>(std::strtoul(many, nullptr, 10));
  for (unsigned seed = first; seed <= last && !testing::Test::HasFailure(); ++seed)
    test(seed);
}

// `prepare` is given each graph before it is computed.
void checkNumbers(const std::function<void(Oracle &, unsigned seed)> &prepare) {
  eachSeed([&](unsigned seed) {
    RandomGraph maker(seed, RandomGraph::Kind::Numbers);
    maker.build();
    if (!maker.values.back()->producer || maker.isTooLarge())
      return;
    Oracle oracle(maker.b);
    prepare(oracle, seed);
    for (V input : maker.inputs)
      oracle.fill(input, Fill::Plain, seed);
    oracle.check(roundings, "MORTISE_SEED=" + std::to_string(seed));
  });
}

TEST(Random, GraphsAgreeWithTheReference) {
  checkNumbers([](Oracle &, unsigned) {});
}

TEST(Random, GroupsWriteDimensionsInAnyOrder) {
  checkNumbers([](Oracle &oracle, unsigned seed) { oracle.permute(seed); });
}

TEST(Random, SymbolicGraphsAgreeWithTheReferenceAtAllShapes) {
  auto compiler = std::move(*Compiler::create(testTarget(2)));
  eachSeed([&](unsigned seed) {
    std::string what = "MORTISE_SEED=" + std::to_string(seed);
    RandomGraph symbolic(seed, RandomGraph::Kind::Symbols);
    symbolic.build();
    if (!symbolic.values.back()->producer)
      return;
    const MortiseGraph &graph = symbolic.b.view();
    auto fused = fuse({&graph, {}, {}, {}}, testTarget(2));
    ASSERT_TRUE(fused) << what << fused.error().message;
    auto functions = compiler->compile(graph, fused->groups);
    ASSERT_TRUE(functions) << what << functions.error().message;
    auto parts = fuse({&graph, {}, {}, {}}, simtFuseTarget());
    ASSERT_TRUE(parts) << what << parts.error().message;
    std::optional<std::vector<EmulatedFunction>> kernels;
    if (Emulator::supports(graph)) {
      auto made = Emulator::shared().compile(graph, parts->groups);
      ASSERT_TRUE(made) << what << made.error().message;
      kernels = std::move(*made);
    }
    for (std::vector<int64_t> shape :
         {std::vector<int64_t>{2, 2, 4}, {3, 17, 8}, {16, 5, 4}, {7, 2, 20}, {33, 16, 4}}) {
      RandomGraph maker(seed, RandomGraph::Kind::Values, shape);
      maker.build();
      if (maker.isTooLarge())
        continue;
      Oracle oracle(maker.b);
      for (V input : maker.inputs)
        oracle.fill(input, Fill::Plain, seed);
      std::string here = what + " at " + std::to_string(shape[0]) + ", " + std::to_string(shape[1]) + ", " +
                         std::to_string(shape[2]) + " ";
      oracle.interpret(here);
      oracle.run(fused->groups, *functions, shape, roundings, here);
      if (kernels)
        oracle.run(parts->groups, *kernels, shape, roundings, here + "(SIMT) ");
    }
  });
}

} // namespace
