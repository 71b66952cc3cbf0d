// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The inputs and outputs of a compiled program, as a graph without nodes.
#pragma once

#include <mortise/graph.hpp>
#include <mortise/result.hpp>

#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace mortise::plan {
struct PlanT;
struct TensorTypeT;
} // namespace mortise::plan

namespace mortise::tool {

class Signature {
public:
  // `assignments`: numbers for the program's symbols, as withNumbers takes them. Program::load has taken the plan.
  static Result<std::unique_ptr<Signature>> make(const plan::PlanT &plan, const std::string &assignments);

  // Static: inputs, outputs and aliases. Belongs to this object.
  const MortiseGraph &view() const { return graph; }

private:
  Result<const MortiseValue *> add(const plan::TensorTypeT &type, const std::vector<int64_t> &symbols);

  std::deque<std::vector<int64_t>> dims;
  std::deque<MortiseType> types;
  std::deque<MortiseValue> made;
  std::deque<MortiseAlias> madeAliases;
  std::vector<const MortiseValue *> values, inputs, outputs;
  std::vector<const MortiseAlias *> aliases;
  MortiseGraph graph{};
};

} // namespace mortise::tool
