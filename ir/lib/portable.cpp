// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/ir/portable.hpp>

#include "types.hpp"

#include <mortise/ir/builder.hpp>
#include <mortise/portable/older.hpp>
#define GET_OP_CLASSES
#include <mortise/ir/control_flow.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/vendor.h.inc>

#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/OwningOpRef.h>

#include <deque>

using namespace mlir;

namespace mortise::ir {
namespace {

Error invalid(std::string message) { return {MORTISE_INVALID_ARGUMENT, std::move(message)}; }

std::string textOf(Attribute attribute) {
  std::string result;
  llvm::raw_string_ostream(result) << attribute;
  return result;
}

// C forms of types, attributes, locations and op names. MLIR uniques these, so each is converted once for all nodes.
class Pool {
public:
  const CType &type(RankedTensorType from) {
    std::unique_ptr<CType> &made = types[from];
    if (!made)
      made = std::make_unique<CType>(from);
    return *made;
  }
  const CAttribute &attribute(llvm::StringRef name, Attribute from) {
    // Names are string literals, or the context's own strings, so their addresses identify them.
    std::unique_ptr<CAttribute> &made = attributes[{name.data(), from}];
    if (!made)
      made = std::make_unique<CAttribute>(name, from);
    return *made;
  }
  const std::string &location(Location from) {
    auto [made, fresh] = locations.try_emplace(from);
    if (fresh)
      made->second = std::make_unique<std::string>(locationText(from));
    return *made->second;
  }
  struct Op {
    std::string name;
    std::vector<OperandSlot> operands;
    std::vector<AttributeSlot> attributes;
  };
  const Op &op(OperationName name, MortiseOp ours) {
    std::unique_ptr<Op> &made = ops[name];
    if (!made)
      made = std::make_unique<Op>(Op{name.getStringRef().str(), operandSlots(ours.getOperandSlots()),
                                     attributeSlots(ours.getAttributeSlots())});
    return *made;
  }

private:
  llvm::DenseMap<Type, std::unique_ptr<CType>> types;
  llvm::DenseMap<std::pair<const char *, Attribute>, std::unique_ptr<CAttribute>> attributes;
  llvm::DenseMap<Location, std::unique_ptr<std::string>> locations;
  llvm::DenseMap<OperationName, std::unique_ptr<Op>> ops;
};

// A C view of a function or of a body (then `function` is NULL), with the data that it points to.
class View {
public:
  View(Block &block, func::FuncOp function, const SymbolList &symbols, Pool &pool)
      : block(block), function(function), symbols(symbols), pool(pool) {}
  Result<void> build();

  MortiseGraph graph{};

private:
  struct Node {
    MortiseNode node{};
    std::string name; // of a vendor's op
    llvm::SmallVector<const MortiseValue *, 4> operands;
    llvm::SmallVector<const MortiseValue *, 1> results;
    llvm::SmallVector<const MortiseAttribute *, 4> attributes;
    std::vector<std::unique_ptr<View>> bodies;
    std::vector<const MortiseGraph *> bodyPointers;
  };
  struct Guard {
    explicit Guard(DimsAttr dims) : exprs(dims.getDims()) {}
    CExprs exprs;
    std::string reason;
    MortiseGuard guard{};
  };

  Result<void> addValue(Value value, const MortiseNode *producer, unsigned index, uint32_t flags, llvm::StringRef name);
  Result<void> addInputs();
  Result<void> addNode(Operation &op);
  Result<void> addOurs(MortiseOp op, Node &entry);
  Result<void> addVendors(VendorOp op, Node &entry);
  Result<void> addBodies(Operation &op, Node &entry);
  Result<void> addOutputs(Operation &terminator);
  Result<void> addGuards();

  Block &block;
  func::FuncOp function;
  const SymbolList &symbols;
  Pool &pool;
  std::deque<Guard> guards;
  std::vector<const MortiseGuard *> guardPointers;
  std::string name;
  std::deque<Node> nodes;
  std::deque<std::string> names; // of inputs
  std::deque<MortiseValue> values;
  std::deque<MortiseAlias> aliases;
  llvm::DenseMap<Value, MortiseValue *> byValue;
  std::vector<const MortiseNode *> nodePointers;
  std::vector<const MortiseValue *> valuePointers, inputPointers, outputPointers;
  std::vector<const MortiseAlias *> aliasPointers;
};

Result<void> View::addValue(Value value, const MortiseNode *producer, unsigned index, uint32_t flags,
                            llvm::StringRef label) {
  auto tensor = llvm::dyn_cast<RankedTensorType>(value.getType());
  const auto describe = [&] {
    return producer ? std::string(producer->op) + ": a result" : "input " + std::to_string(index);
  };
  if (!tensor || !hasKnownExtents(tensor) || elementName(tensor.getElementType()).empty())
    return invalid(describe() + " has type " + text(value.getType()) +
                   ": expected a tensor of a type of ours whose extents are known");
  if (SymbolsAttr table = symbolsOf(tensor); table && table != symbols.table)
    return invalid(describe() + " has type " + text(value.getType()) +
                   ", whose symbols are not those of the function's mortise.symbols");
  MortiseValue entry{};
  entry.struct_size = sizeof(MortiseValue);
  entry.type = &pool.type(tensor).type;
  entry.producer = producer;
  entry.index = static_cast<uint32_t>(values.size());
  entry.result_index = index;
  entry.flags = flags;
  entry.use_count = static_cast<uint32_t>(std::distance(value.use_begin(), value.use_end()));
  entry.name = label.empty() ? "" : names.emplace_back(label.str()).c_str();
  values.push_back(entry);
  byValue[value] = &values.back();
  valuePointers.push_back(&values.back());
  return {};
}

Result<void> View::addInputs() {
  for (BlockArgument argument : block.getArguments()) {
    unsigned i = argument.getArgNumber();
    if (!function) {
      if (Result<void> added = addValue(argument, nullptr, i, 0, ""); !added)
        return added;
      inputPointers.push_back(byValue[argument]);
      continue;
    }
    uint32_t flags = (function.getArgAttr(i, "mortise.constant") ? MORTISE_VALUE_CONSTANT : 0) |
                     (function.getArgAttr(i, "mortise.state") ? MORTISE_VALUE_STATE : 0) |
                     (function.getArgAttr(i, "mortise.donated") ? MORTISE_VALUE_DONATED : 0);
    auto label = function.getArgAttrOfType<StringAttr>(i, "mortise.name");
    if (Result<void> added = addValue(argument, nullptr, i, flags, label ? label.getValue() : ""); !added)
      return added;
    inputPointers.push_back(byValue[argument]);
  }
  return {};
}

Result<void> View::addNode(Operation &op) {
  auto ours = llvm::dyn_cast<MortiseOp>(op);
  auto vendors = llvm::dyn_cast<VendorOp>(op);
  if (!ours && !vendors)
    return invalid("'" + op.getName().getStringRef().str() + "' is not a mortise op, so it has no portable form");
  Node &entry = nodes.emplace_back();
  MortiseNode &node = entry.node;
  node.struct_size = sizeof(MortiseNode);
  node.index = static_cast<uint32_t>(nodes.size() - 1);
  node.location = pool.location(op.getLoc()).c_str();
  if (Result<void> added = ours ? addOurs(ours, entry) : addVendors(vendors, entry); !added)
    return added;
  node.operands = entry.operands.data();
  node.operand_count = entry.operands.size();
  llvm::sort(entry.attributes, [](auto *a, auto *b) { return llvm::StringRef(a->name) < b->name; });
  node.attributes = entry.attributes.data();
  node.attribute_count = entry.attributes.size();
  for (OpResult result : op.getResults()) {
    if (Result<void> added = addValue(result, &node, result.getResultNumber(), 0, ""); !added)
      return added;
    entry.results.push_back(byValue[result]);
  }
  node.results = entry.results.data();
  node.result_count = entry.results.size();
  if (Result<void> added = addBodies(op, entry); !added)
    return added;
  nodePointers.push_back(&node);
  return {};
}

// Name, operands and attributes of an op of the language.
Result<void> View::addOurs(MortiseOp ours, Node &entry) {
  Operation &op = *ours.getOperation();
  const Pool::Op &known = pool.op(op.getName(), ours);
  entry.node.since = ours.getSince();
  entry.node.op = known.name.c_str();

  // Optional operands that are left out become NULL in the view.
  const std::vector<OperandSlot> &slots = known.operands;
  auto sizes = op.getAttrOfType<DenseI32ArrayAttr>("operandSegmentSizes");
  size_t next = 0, spare = op.getNumOperands() - llvm::count_if(slots, [](auto &slot) { return !slot.optional; });
  for (auto [i, slot] : llvm::enumerate(slots)) {
    if (slot.variadic)
      for (; next < op.getNumOperands(); ++next)
        entry.operands.push_back(byValue.lookup(op.getOperand(next)));
    else if (slot.optional && !(sizes ? sizes[i] : spare))
      entry.operands.push_back(nullptr);
    else
      entry.operands.push_back(byValue.lookup(op.getOperand(next++)));
  }

  for (const AttributeSlot &slot : known.attributes) {
    Attribute value = op.getInherentAttr(slot.name).value_or(Attribute());
    if (!value)
      return invalid(known.name + ": attribute '" + slot.name.str() + "' is missing");
    const CAttribute &attribute = pool.attribute(slot.name, value);
    if (!attribute.error.empty())
      return invalid(known.name + ": " + attribute.error);
    entry.attributes.push_back(&attribute.attribute);
  }
  entry.node.since = portable::sinceOf(known.name, entry.node.since, entry.attributes);
  return {};
}

Result<void> View::addVendors(VendorOp op, Node &entry) {
  entry.name = op.getOpName().str();
  entry.node.op = entry.name.c_str();
  entry.node.since = 1; // its plugin's opset says nothing about it
  for (Value operand : op.getInputs())
    entry.operands.push_back(byValue.lookup(operand));
  for (NamedAttribute parameter : op.getParameters()) {
    const CAttribute &attribute = pool.attribute(parameter.getName(), parameter.getValue());
    if (!attribute.error.empty())
      return invalid(entry.name + ": " + attribute.error);
    entry.attributes.push_back(&attribute.attribute);
  }
  return {};
}

Result<void> View::addBodies(Operation &op, Node &entry) {
  for (auto [i, region] : llvm::enumerate(op.getRegions())) {
    if (!region.hasOneBlock())
      return invalid(std::string(entry.node.op) + ": body " + std::to_string(i) + " must have one block");
    entry.bodies.push_back(std::make_unique<View>(region.front(), func::FuncOp(), symbols, pool));
    if (Result<void> built = entry.bodies.back()->build(); !built)
      return Error{built.error().code,
                   std::string(entry.node.op) + ", body " + std::to_string(i) + ": " + built.error().message};
    entry.bodyPointers.push_back(&entry.bodies.back()->graph);
  }
  entry.node.bodies = entry.bodyPointers.data();
  entry.node.body_count = entry.bodyPointers.size();
  return {};
}

Result<void> View::addGuards() {
  auto list = function ? function->getAttrOfType<ArrayAttr>("mortise.guards") : ArrayAttr();
  for (Attribute entry : list ? list.getValue() : llvm::ArrayRef<Attribute>()) {
    auto parts = llvm::dyn_cast<ArrayAttr>(entry);
    auto dims = parts && parts.size() == 3 ? llvm::dyn_cast<DimsAttr>(parts[0]) : DimsAttr();
    auto relation = dims ? llvm::dyn_cast<StringAttr>(parts[1]) : StringAttr();
    auto reason = dims ? llvm::dyn_cast<StringAttr>(parts[2]) : StringAttr();
    if (!relation || !reason || dims.size() != 1 || (relation != "zero" && relation != "at_least"))
      return invalid("mortise.guards: expected [#mortise.dims of one entry, \"zero\" or \"at_least\", a reason], "
                     "found " +
                     textOf(entry));
    Guard &guard = guards.emplace_back(dims);
    guard.reason = reason.str();
    guard.guard = {sizeof(MortiseGuard),
                   nullptr,
                   guard.exprs.exprs[0],
                   relation == "zero" ? MORTISE_RELATION_ZERO : MORTISE_RELATION_AT_LEAST,
                   0,
                   guard.reason.c_str()};
    guardPointers.push_back(&guard.guard);
  }
  return {};
}

Result<void> View::addOutputs(Operation &terminator) {
  if (function ? !llvm::isa<func::ReturnOp>(terminator) : !llvm::isa<YieldOp>(terminator))
    return invalid(std::string(function ? "the function must end in func.return" : "a body must end in mortise.yield") +
                   ", found " + terminator.getName().getStringRef().str());
  for (auto [i, operand] : llvm::enumerate(terminator.getOperands())) {
    outputPointers.push_back(byValue.lookup(operand));
    auto alias = function ? function.getResultAttrOfType<IntegerAttr>(i, "mortise.alias") : IntegerAttr();
    if (!alias)
      continue;
    int64_t input = alias.getInt();
    if (input < 0 || input >= static_cast<int64_t>(inputPointers.size()) ||
        function.getArgument(input).getType() != operand.getType())
      return invalid("output " + std::to_string(i) + " has mortise.alias " + std::to_string(input) +
                     ": expected the number of an input of its type");
    aliases.push_back({sizeof(MortiseAlias), nullptr, static_cast<uint32_t>(input), static_cast<uint32_t>(i)});
    aliasPointers.push_back(&aliases.back());
  }
  return {};
}

Result<void> View::build() {
  if (Result<void> added = addInputs(); !added)
    return added;
  if (block.empty() || !block.back().hasTrait<OpTrait::IsTerminator>())
    return invalid(function ? "the function must end in func.return" : "a body must end in mortise.yield");
  for (Operation &op : block.without_terminator())
    if (Result<void> added = addNode(op); !added)
      return added;
  if (Result<void> added = addOutputs(block.back()); !added)
    return added;
  if (Result<void> added = addGuards(); !added)
    return added;
  name = function ? function.getSymName().str() : "";
  graph = {sizeof(MortiseGraph),
           nullptr,
           name.c_str(),
           MORTISE_OPSET,
           0,
           nodePointers.data(),
           nodePointers.size(),
           valuePointers.data(),
           valuePointers.size(),
           inputPointers.data(),
           inputPointers.size(),
           outputPointers.data(),
           outputPointers.size(),
           aliasPointers.data(),
           aliasPointers.size(),
           symbols.pointers.data(),
           symbols.pointers.size(),
           guardPointers.data(),
           guardPointers.size()};
  return {};
}

} // namespace

Result<std::shared_ptr<const Graph>> exportGraph(ModuleOp module) {
  func::FuncOp function;
  for (auto candidate : module.getOps<func::FuncOp>()) {
    if (candidate.isPrivate() || candidate.isExternal())
      continue;
    if (function)
      return invalid("the module must have one public function, found '" + function.getSymName().str() + "' and '" +
                     candidate.getSymName().str() + "'");
    function = candidate;
  }
  if (!function)
    return invalid("the module must have one public function with a body, found none");
  if (!function.getBody().hasOneBlock())
    return invalid("the function must have one block");
  SymbolList symbols(symbolTable(function));
  Pool pool;
  View view(function.front(), function, symbols, pool);
  if (Result<void> built = view.build(); !built)
    return built.error();
  return Graph::copy(view.graph);
}

Result<OwningOpRef<ModuleOp>> importGraph(const Graph &source, MLIRContext &context) {
  const MortiseGraph &graph = source.view();
  if (graph.opset > MORTISE_OPSET)
    return Error{MORTISE_VERSION_MISMATCH, "the graph is of opset " + std::to_string(graph.opset) +
                                               ", and this build knows up to " + std::to_string(MORTISE_OPSET)};
  Builder builder(context, graph.name ? graph.name : "");
  for (size_t i = 0; i < graph.symbol_count; ++i) {
    const MortiseSymbol &symbol = *graph.symbols[i];
    if (Result<uint32_t> added = builder.addSymbol(symbol.name, symbol.min, symbol.max, symbol.divisor); !added)
      return added.error();
  }
  for (const MortiseGuard *guard : guardsOf(graph))
    if (Result<void> added = builder.addGuard(guard->expr, guard->relation, guard->reason ? guard->reason : ""); !added)
      return added.error();
  std::vector<ValueId> ids(graph.value_count, noValue);
  for (size_t i = 0; i < graph.input_count; ++i) {
    const MortiseValue &input = *graph.inputs[i];
    Result<ValueId> id = builder.addInput(input.name ? input.name : "", *input.type, input.flags);
    if (!id)
      return id.error();
    ids[input.index] = *id;
  }
  for (size_t i = 0; i < graph.node_count; ++i) {
    const MortiseNode &node = *graph.nodes[i];
    std::vector<ValueId> operands;
    for (size_t j = 0; j < node.operand_count; ++j)
      operands.push_back(node.operands[j] ? ids[node.operands[j]->index] : noValue);
    Result<std::vector<ValueId>> results = builder.addNode(node, operands);
    if (!results)
      return results.error();
    if (results->size() != node.result_count)
      return Error{MORTISE_CORRUPT, std::string(node.op) + " has " + std::to_string(results->size()) +
                                        " results, the graph says " + std::to_string(node.result_count)};
    for (size_t j = 0; j < node.result_count; ++j) {
      Result<const MortiseType *> inferred = builder.typeOf((*results)[j]);
      if (typeString(**inferred) != typeString(*node.results[j]->type))
        return Error{MORTISE_CORRUPT, std::string(node.op) + " gives " + typeString(**inferred) + ", the graph says " +
                                          typeString(*node.results[j]->type)};
      ids[node.results[j]->index] = (*results)[j];
    }
  }
  std::vector<int64_t> aliased(graph.output_count, -1);
  for (size_t i = 0; i < graph.alias_count; ++i)
    aliased[graph.aliases[i]->output] = graph.aliases[i]->input;
  for (size_t i = 0; i < graph.output_count; ++i)
    if (Result<void> added = builder.addOutput(ids[graph.outputs[i]->index], aliased[i]); !added)
      return added.error();
  return builder.finish();
}

} // namespace mortise::ir
