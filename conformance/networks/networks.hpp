// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The graphs of the levels training, quantised and models: each has a name, and weights and inputs by seed.
#pragma once

#include "tape.hpp"

#include "../cases/table.hpp"

#include <functional>

namespace mortise::conformance {

struct Network {
  const char *name;
  Level level;
  std::function<void(Tape &)> make;
};

// Those of a level stand together. A network's index stays in Point::variant.
std::span<const Network> networks();
// The element types that each network is tried in.
inline constexpr int32_t networkTypes[] = {MORTISE_F32, MORTISE_F16, MORTISE_BF16};
std::vector<Point> networkPoints(Level level, Extent extent);

// A network's graph, and two sets of inputs that have the constants in common.
struct NetworkCase {
  std::shared_ptr<const Graph> graph;
  std::vector<std::vector<std::byte>> inputs[2];
  std::string wrong; // why the interpreter's results are not those that a file expects; "" when nothing is known
};
std::vector<std::byte> filled(const Leaf &leaf, std::mt19937_64 &random);
// `expanded`: as Tape has it.
Result<NetworkCase> makeNetwork(const Network &network, int32_t dtype, uint64_t seed,
                                const std::set<Op> &expanded = {});

// Of a graph in the portable format, which is made static at small values of its symbols. Inputs hold floats from
// -1 to 1, or from 0.1 where a result would be NaN otherwise, and integers from 0 to 7, unless they lie beside the file
// (given.hpp). Errors: MORTISE_INVALID_ARGUMENT, MORTISE_CORRUPT: there is no such file, it holds no graph, or one that
// the interpreter does not take.
Result<NetworkCase> loadNetwork(const std::string &path, uint64_t seed, const std::set<Op> &expanded = {});

// Of a static graph, with these inputs in both sets.
Result<NetworkCase> networkOf(const MortiseGraph &graph, const std::vector<std::vector<std::byte>> &inputs,
                              const std::set<Op> &expanded = {});

// An op, or a few, whose derivatives are a network of the level training: the value, and what it depends on.
struct Function {
  const char *name;
  Value (*make)(Tape &, std::vector<Value> &by);
};
std::span<const Function> differentiated();
// Records the function, the sum of its elements times those of another input, and the derivatives of that sum by each
// of what it depends on; they are the outputs.
std::vector<Value> differentiate(Tape &tape, const Function &of); // what it depends on

std::vector<Network> trainingNetworks();
std::vector<Network> quantisedNetworks();
std::vector<Network> models();

} // namespace mortise::conformance
