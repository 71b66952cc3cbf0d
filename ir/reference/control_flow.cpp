// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bodies are compiled to programs whose inputs and outputs have the interpreter's internal layout (i4 not packed).
#include "check.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace mortise::reference::inline MORTISE_ARITHMETIC {
namespace {

bool sameType(const MortiseType &left, const MortiseType &right) {
  return left.dtype == right.dtype && std::ranges::equal(dims(left), dims(right));
}
size_t bytesOf(const MortiseType &type) { return static_cast<size_t>(elementCount(type)) * storageBytes(type.dtype); }

// Checks that the body takes `inputs` and that the interpreter runs all of its nodes, none of them a collective.
Refusal checkBody(const Shapes &shapes, size_t number, std::span<const MortiseType> inputs) {
  const MortiseGraph &body = *bodiesOf(shapes.node)[number];
  std::string what = "body " + std::to_string(number);
  bool fits = body.input_count == inputs.size();
  for (size_t i = 0; fits && i < inputs.size(); ++i)
    fits = sameType(*body.inputs[i]->type, inputs[i]);
  if (!fits)
    return shapes.fail("expected " + what + " to take the types of the operands");
  for (size_t i = 0; i < body.node_count; ++i) {
    Refusal refusal = checkNode(*body.nodes[i]);
    if (!refusal && rankCount(*body.nodes[i]))
      refusal = shapes.fail("is a collective, and bodies hold none");
    if (refusal)
      return {refusal.reason, what + ": " + body.nodes[i]->op + ": " + refusal.detail};
  }
  return {};
}
// The body's outputs from `first` on are of these types.
Refusal checkOutputs(const Shapes &shapes, size_t number, std::span<const MortiseType> expected) {
  const MortiseGraph &body = *bodiesOf(shapes.node)[number];
  bool fits = body.output_count == expected.size();
  for (size_t i = 0; fits && i < expected.size(); ++i)
    fits = sameType(*body.outputs[i]->type, expected[i]);
  return fits ? Refusal() : shapes.fail("expected other outputs of body " + std::to_string(number));
}
Refusal checkCount(const Shapes &shapes, size_t count) {
  if (bodiesOf(shapes.node).size() == count)
    return {};
  return shapes.fail("expected " + std::to_string(count) + " bodies, found " +
                     std::to_string(bodiesOf(shapes.node).size()));
}
std::vector<MortiseType> operandTypes(const Shapes &shapes, size_t first = 0) {
  std::vector<MortiseType> types;
  for (size_t i = first; i < shapes.node.operand_count; ++i)
    types.push_back(shapes.type(i));
  return types;
}
std::vector<MortiseType> resultTypes(const Shapes &shapes) {
  std::vector<MortiseType> types;
  for (size_t i = 0; i < shapes.node.result_count; ++i)
    types.push_back(shapes.result(i));
  return types;
}

constexpr std::align_val_t alignment{64};
struct Block { // memory of one tensor, or a workspace
  explicit Block(size_t bytes) : data(static_cast<std::byte *>(::operator new(bytes, alignment))) {}
  Block(Block &&other) noexcept : data(std::exchange(other.data, nullptr)) {}
  ~Block() { ::operator delete(data, alignment); }
  std::byte *data;
};

// A body's program with its workspace.
struct Runner {
  Runner(const Call &call, size_t number)
      : program(*call.bodies[number]), parallelFor(call.parallelFor), workspace(program.workspaceBytes()) {}
  void operator()(std::span<const void *const> inputs, std::span<void *const> outputs) {
    program.run(inputs, outputs, workspace.data, parallelFor, nullptr);
  }
  const Interpreter &program;
  ParallelFor parallelFor;
  Block workspace;
};

std::vector<const void *> readable(const std::vector<void *> &pointers) { return {pointers.begin(), pointers.end()}; }

// The state of a loop: two blocks for each tensor; each step reads one and writes the other.
struct State {
  explicit State(std::span<const Tensor> start) : start(start) {
    for (auto *pointers : {&now, &next})
      for (const Tensor &tensor : start)
        pointers->push_back(blocks.emplace_back(bytesOf(*tensor.type)).data);
    for (size_t i = 0; i < start.size(); ++i)
      copy(start[i].data, now[i], i);
  }
  void copy(const void *from, void *to, size_t i) const {
    if (size_t bytes = bytesOf(*start[i].type))
      std::memcpy(to, from, bytes);
  }
  std::span<const Tensor> start;
  std::vector<Block> blocks;
  std::vector<void *> now, next;
};

Refusal checkIf(const Shapes &shapes) {
  if (shapes.dtype(0) != MORTISE_I1 || shapes.rank(0) != 0)
    return shapes.fail("expected a predicate i1[], found " + typeString(shapes.type(0)), MORTISE_REASON_DTYPE);
  if (Refusal refusal = checkCount(shapes, 2))
    return refusal;
  std::vector<MortiseType> inputs = operandTypes(shapes, 1), results = resultTypes(shapes);
  return firstOf(checkBody(shapes, 0, inputs), checkBody(shapes, 1, inputs), checkOutputs(shapes, 0, results),
                 checkOutputs(shapes, 1, results));
}
void runIf(const Call &call) {
  Runner body(call, *call.operand(0).as<I1>() ? 0 : 1);
  std::vector<const void *> inputs;
  std::vector<void *> outputs;
  for (const Tensor &operand : call.operands.subspan(1))
    inputs.push_back(operand.data);
  for (const Tensor &result : call.results)
    outputs.push_back(result.data);
  body(inputs, outputs);
}

Refusal checkWhile(const Shapes &shapes) {
  if (Refusal refusal = checkCount(shapes, 2))
    return refusal;
  constexpr MortiseType decision{sizeof(MortiseType), nullptr, MORTISE_I1, 0, nullptr, nullptr, nullptr};
  std::vector<MortiseType> state = operandTypes(shapes), results = resultTypes(shapes);
  if (state.size() != results.size() || !std::ranges::equal(state, results, sameType))
    return shapes.fail("expected results of the operands' types");
  return firstOf(checkBody(shapes, 0, state), checkBody(shapes, 1, state), checkOutputs(shapes, 0, {&decision, 1}),
                 checkOutputs(shapes, 1, state));
}
void runWhile(const Call &call) {
  Runner condition(call, 0), step(call, 1);
  State state(call.operands);
  auto goesOn = [&] {
    uint8_t going = 0;
    void *decision[] = {&going};
    condition(readable(state.now), decision);
    return going != 0;
  };
  while (goesOn()) {
    step(readable(state.now), state.next);
    state.now.swap(state.next);
  }
  for (size_t i = 0; i < call.results.size(); ++i)
    state.copy(state.now[i], call.results[i].data, i);
}

Refusal checkScan(const Shapes &shapes) {
  std::span<const int64_t> trips = shapes.integers("trips");
  int64_t carried = shapes.integer("carried");
  if (shapes.node.operand_count == 0)
    return shapes.fail("expected at least one operand, found none");
  if (trips.size() != 1 || trips[0] < 0 || carried < 0 || carried > static_cast<int64_t>(shapes.node.operand_count))
    return shapes.fail("expected one number of trips, and no more carried operands than there are");
  if (Refusal refusal = checkCount(shapes, 1))
    return refusal;
  std::vector<MortiseType> inputs = operandTypes(shapes), results = resultTypes(shapes);
  for (auto *types : {&inputs, &results})
    for (auto i = static_cast<size_t>(carried); i < types->size(); ++i) {
      MortiseType &type = (*types)[i];
      if (type.rank < 1 || type.dims[0] != trips[0])
        return shapes.fail("expected " + std::to_string(trips[0]) + " slices, found " + typeString(type));
      type.rank -= 1;
      type.dims += 1;
    }
  for (size_t i = 0; i < static_cast<size_t>(carried); ++i)
    if (i >= results.size() || !sameType(inputs[i], results[i]))
      return shapes.fail("expected the first results to have the types of the carried operands");
  return firstOf(checkBody(shapes, 0, inputs), checkOutputs(shapes, 0, results));
}
void runScan(const Call &call) {
  Runner step(call, 0);
  auto carried = static_cast<size_t>(call.integer("carried"));
  int64_t trips = call.integers("trips")[0];
  State state(call.operands.first(carried));
  auto slice = [&](const Tensor &stacked, int64_t trip) -> void * {
    return trips ? stacked.data + bytesOf(*stacked.type) / static_cast<size_t>(trips) * static_cast<size_t>(trip)
                 : nullptr;
  };
  for (int64_t trip = 0; trip < trips; ++trip) {
    std::vector<const void *> inputs = readable(state.now);
    std::vector<void *> outputs = state.next;
    for (const Tensor &stacked : call.operands.subspan(carried))
      inputs.push_back(slice(stacked, trip));
    for (const Tensor &stacked : call.results.subspan(carried))
      outputs.push_back(slice(stacked, trip));
    step(inputs, outputs);
    state.now.swap(state.next);
  }
  for (size_t i = 0; i < carried; ++i)
    state.copy(state.now[i], call.results[i].data, i);
}

} // namespace

std::span<const OpSpec> controlFlowOps() {
  static const std::vector<OpSpec> ops = {
      {Op::If, checkIf, runIf},
      {Op::While, checkWhile, runWhile},
      {Op::Scan, checkScan, runScan},
  };
  return ops;
}

} // namespace mortise::reference::inline MORTISE_ARITHMETIC
