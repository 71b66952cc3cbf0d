// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hand-made graphs, and plugins whose proposals a test defines. No library is loaded.
#pragma once

#include "../place.hpp"

#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>

namespace mortise::passes::test {

class GraphMaker {
public:
  // From here on values are f32[n] for a symbol n, not f32[16].
  void symbolic(int64_t min = 0, int64_t max = INT64_MAX, int64_t divisor = 1);
  void guard(std::vector<MortiseExprStep> steps, MortiseRelation relation);
  // `type` must outlive this object.
  void retype(uint32_t value, const MortiseType &type) { values[value]->type = &type; }
  void since(uint32_t opset) { nodes.back()->node.since = opset; } // of the node added last
  uint32_t input(uint32_t flags = 0) { return value(nullptr, inputs.size(), flags, &inputs); }
  uint32_t node(const char *op, std::initializer_list<uint32_t> operands); // one result of type f32[16]
  uint32_t literal();                                                      // f32[16], also after symbolic()
  void output(uint32_t value) { outputs.push_back(values[value].get()); }
  void alias(uint32_t input, uint32_t output);
  const MortiseGraph &view(); // call after everything was added

private:
  struct Node {
    MortiseNode node{};
    std::vector<const MortiseValue *> operands, results;
    std::vector<const MortiseAttribute *> attributes;
    std::string location;
  };
  uint32_t value(const MortiseNode *producer, size_t resultIndex, uint32_t flags,
                 std::vector<const MortiseValue *> *list);

  const int64_t extents[1] = {16};
  const float zeros[16] = {};
  MortiseType type{sizeof(MortiseType), nullptr, MORTISE_F32, 1, extents, nullptr, nullptr};
  const MortiseType literalType{sizeof(MortiseType), nullptr, MORTISE_F32, 1, extents, nullptr, nullptr};
  MortiseAttribute zero{};
  const int64_t dynamic[1] = {MORTISE_DYNAMIC};
  const MortiseExprStep program[1] = {{MORTISE_EXPR_SYMBOL, 0, 0}};
  const MortiseExpr exprs[1] = {{program, 1}};
  MortiseSymbol symbol{sizeof(MortiseSymbol), nullptr, "n", 0, INT64_MAX, 1};
  const MortiseSymbol *symbols[1] = {&symbol};
  bool hasSymbol = false;
  std::deque<std::vector<MortiseExprStep>> guardSteps;
  std::deque<MortiseGuard> guards;
  std::vector<const MortiseGuard *> guardList;
  std::deque<std::unique_ptr<MortiseValue>> values;
  std::deque<std::unique_ptr<Node>> nodes;
  std::vector<const MortiseValue *> valueList, inputs, outputs;
  std::vector<const MortiseNode *> nodeList;
  std::deque<MortiseAlias> aliases;
  std::vector<const MortiseAlias *> aliasList;
  MortiseGraph graph{};
};

struct Offer { // the arguments of a plugin's propose, and its way to answer
  const MortiseProposeArgs &args;
  void add(std::vector<uint32_t> nodes, double cost, const char *lowering = "fake.region",
           std::vector<MortiseInPlace> inPlace = {}, std::vector<MortiseForm> forms = {}) const;
  std::span<const MortiseForm> forms() const { return {args.forms, args.form_count}; }
  void refuse(uint32_t node, int32_t reason, const char *detail) const { args.refuse(args.sink, node, reason, detail); }
  const MortiseGraph &graph() const { return *args.graph; }
};

class FakePlugin {
public:
  // `kind`: of its device; NULL for one called like the plugin.
  FakePlugin(const char *name, std::function<MortiseStatus *(const Offer &)> answer, bool hostMemory = true,
             uint32_t opset = MORTISE_OPSET, const char *kind = nullptr);
  Target target() const { return {.device = &device, .memoryLimit = limit}; }
  void isOpPackOf(const FakePlugin &other) { device.same = &other.device; }
  void limitMemory(uint64_t bytes) { limit = bytes; }
  void hasLayouts(MortiseStatus *(*slot)(MortiseLayoutArgs *)) { table.layout = slot; }
  void costsToCopy(double ns, double bytesPerSecond) {
    device.info.copy_ns = ns;
    device.info.copy_bandwidth = bytesPerSecond;
  }
  void isApart() { plugin.apart = {device.info.device}; }
  void hasBandwidth(double bytesPerSecond) { device.info.bandwidth = bytesPerSecond; }
  void declares(const char *op) {
    declaration = {.struct_size = sizeof declaration, .name = op, .summary = "", .operands_max = UINT32_MAX};
    table.ops = declarations;
    table.op_count = 1;
  }
  void hasScratch() {
    scratch = space;
    scratch.kind = MORTISE_SPACE_DEVICE;
    device.info.space_count = 2;
    table.memory_allocate = [](MortiseMemoryArgs *) -> MortiseStatus * { return nullptr; };
  }

private:
  std::function<MortiseStatus *(const Offer &)> answer;
  MortiseSpace space{}, scratch{};
  const MortiseSpace *spaces[2] = {&space, &scratch};
  MortiseOpDeclaration declaration{};
  const MortiseOpDeclaration *declarations[1] = {&declaration};
  MortisePlugin table{};
  runtime::Plugin plugin;
  runtime::Device device;
  std::optional<uint64_t> limit;
};

using Nodes = std::vector<uint32_t>;

// Adds an input, so many neg behind each other, and an output.
void chain(GraphMaker &maker, int length);

// Whether a node was refused for this reason, in words that have `part` in them.
bool refused(const Placement &placement, uint32_t node, int32_t reason, const std::string &part);

// Takes the whole of any graph in one region.
std::function<MortiseStatus *(const Offer &)> takesAll(double nsPerNode);

} // namespace mortise::passes::test
