// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "fixture.hpp"

namespace mortise::passes::test {

uint32_t GraphMaker::value(const MortiseNode *producer, size_t resultIndex, uint32_t flags,
                           std::vector<const MortiseValue *> *list) {
  auto made = std::make_unique<MortiseValue>();
  *made = {sizeof(MortiseValue),
           nullptr,
           &type,
           producer,
           static_cast<uint32_t>(values.size()),
           static_cast<uint32_t>(resultIndex),
           flags,
           1,
           ""};
  list->push_back(made.get());
  valueList.push_back(made.get());
  values.push_back(std::move(made));
  return static_cast<uint32_t>(values.size() - 1);
}

uint32_t GraphMaker::node(const char *op, std::initializer_list<uint32_t> operands) {
  nodes.push_back(std::make_unique<Node>());
  Node &made = *nodes.back();
  made.location = "model.py:" + std::to_string(nodes.size());
  for (uint32_t operand : operands)
    made.operands.push_back(values[operand].get());
  made.node.struct_size = sizeof(MortiseNode);
  made.node.index = static_cast<uint32_t>(nodes.size() - 1);
  made.node.since = 1;
  made.node.op = op;
  nodeList.push_back(&made.node);
  return value(&made.node, 0, 0, &made.results);
}

void GraphMaker::symbolic(int64_t min, int64_t max, int64_t divisor) {
  hasSymbol = true;
  symbol.min = min;
  symbol.max = max;
  symbol.divisor = divisor;
  type.dims = dynamic;
  type.dim_exprs = exprs;
}

void GraphMaker::guard(std::vector<MortiseExprStep> steps, MortiseRelation relation) {
  guardSteps.push_back(std::move(steps));
  guards.push_back({sizeof(MortiseGuard),
                    nullptr,
                    {guardSteps.back().data(), guardSteps.back().size()},
                    relation,
                    0,
                    "the test's guard"});
  guardList.push_back(&guards.back());
}

uint32_t GraphMaker::literal() {
  zero.struct_size = sizeof zero;
  zero.name = "value";
  zero.kind = MORTISE_ATTRIBUTE_TENSOR;
  zero.tensor_type = &literalType;
  zero.tensor_data = zeros;
  zero.count = sizeof zeros;
  const uint32_t result = node("mortise.constant", {});
  nodes.back()->attributes.push_back(&zero);
  retype(result, literalType);
  return result;
}

void GraphMaker::alias(uint32_t input, uint32_t output) {
  aliases.push_back({sizeof(MortiseAlias), nullptr, input, output});
  aliasList.push_back(&aliases.back());
}

const MortiseGraph &GraphMaker::view() {
  for (auto &made : nodes) {
    made->node.operands = made->operands.data();
    made->node.operand_count = made->operands.size();
    made->node.results = made->results.data();
    made->node.result_count = made->results.size();
    made->node.attributes = made->attributes.data();
    made->node.attribute_count = made->attributes.size();
    made->node.location = made->location.c_str();
  }
  for (auto &made : values) {
    made->use_count = 0;
    for (const auto &user : nodes)
      for (const MortiseValue *operand : user->operands)
        made->use_count += operand == made.get();
    for (const MortiseValue *output : outputs)
      made->use_count += output == made.get();
  }
  graph = {sizeof graph,
           nullptr,
           "test",
           MORTISE_OPSET,
           0,
           nodeList.data(),
           nodeList.size(),
           valueList.data(),
           valueList.size(),
           inputs.data(),
           inputs.size(),
           outputs.data(),
           outputs.size(),
           aliasList.data(),
           aliasList.size(),
           symbols,
           hasSymbol ? size_t(1) : 0,
           guardList.data(),
           guardList.size()};
  return graph;
}

void Offer::add(std::vector<uint32_t> nodes, double cost, const char *lowering, std::vector<MortiseInPlace> inPlace,
                std::vector<MortiseForm> forms) const {
  MortiseCandidate candidate{sizeof candidate, nullptr,        lowering,     nodes.data(), nodes.size(), cost, 0, 0,
                             inPlace.data(),   inPlace.size(), forms.data(), forms.size()};
  args.add(args.sink, &candidate);
}

FakePlugin::FakePlugin(const char *name, std::function<MortiseStatus *(const Offer &)> answer, bool hostMemory,
                       uint32_t opset, const char *kind)
    : answer(std::move(answer)) {
  table.struct_size = sizeof table;
  table.name = name;
  table.opset = opset;
  table.propose = [](MortiseProposeArgs *args) -> MortiseStatus * {
    return reinterpret_cast<FakePlugin *>(args->device)->answer(Offer{*args});
  };
  plugin.name = name;
  plugin.table = &table;
  plugin.abiRevision = MORTISE_ABI_REVISION;
  device.plugin = &plugin;
  device.info.struct_size = sizeof device.info;
  device.info.device = reinterpret_cast<MortiseDevice *>(this);
  device.info.kind = kind ? kind : name;
  device.info.name = name;
  space = {.struct_size = sizeof space,
           .name = "memory",
           .kind = hostMemory ? MORTISE_SPACE_HOST : MORTISE_SPACE_DEVICE,
           .alignment = 64};
  device.info.spaces = spaces;
  device.info.space_count = 1;
  device.info.automatic = 1;
}

void chain(GraphMaker &maker, int length) {
  uint32_t value = maker.input();
  for (int i = 0; i < length; ++i)
    value = maker.node("mortise.neg", {value});
  maker.output(value);
}

bool refused(const Placement &placement, uint32_t node, int32_t reason, const std::string &part) {
  for (const Refusal &refusal : placement.refusals)
    if (refusal.node == node && refusal.reason == reason && refusal.detail.find(part) != std::string::npos)
      return true;
  return false;
}

std::function<MortiseStatus *(const Offer &)> takesAll(double nsPerNode) {
  return [nsPerNode](const Offer &offer) -> MortiseStatus * {
    std::vector<uint32_t> nodes;
    for (uint32_t n = 0; n < offer.graph().node_count; ++n)
      nodes.push_back(n);
    offer.add(nodes, nsPerNode * static_cast<double>(nodes.size()));
    return nullptr;
  };
}

} // namespace mortise::passes::test
