// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/ir/builder.hpp>

#include "repeat.hpp"
#include "vendor.hpp"

#define GET_OP_CLASSES
#include <mortise/ir/control_flow.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/vendor.h.inc>

#include <llvm/ADT/ScopeExit.h>
#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/Diagnostics.h>
#include <mlir/IR/OwningOpRef.h>
#include <mlir/IR/Verifier.h>

#include <bit>
#include <deque>
#include <optional>

using namespace mlir;

namespace mortise::ir {
namespace {

Error invalid(std::string message) { return {MORTISE_INVALID_ARGUMENT, std::move(message)}; }

// Captures the first error that MLIR would print.
struct Messages {
  explicit Messages(MLIRContext *context)
      : handler(context, [this](Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == DiagnosticSeverity::Error && message.empty())
            message = diagnostic.str();
          return success();
        }) {}
  // The first error, without the prefix "'OP' op ".
  std::string about(llvm::StringRef op) const {
    llvm::StringRef rest = message;
    (void)(rest.consume_front("'") && rest.consume_front(op) && rest.consume_front("' op "));
    return rest.empty() ? "does not verify" : rest.str();
  }
  std::string message;
  ScopedDiagnosticHandler handler;
};

template <typename Names> std::string nearest(llvm::StringRef name, const Names &names) {
  std::vector<std::string_view> all;
  for (llvm::StringRef known : names)
    all.emplace_back(known);
  return portable::suggestion(name, all);
}

struct Request { // op and location of an addOp call, for its errors
  llvm::StringRef op;
  std::string place; // "mortise.add at model.py:3"
  Error error(const std::string &message) const { return invalid(place + ": " + message); }
};

std::string placeOf(std::string_view op, std::string_view location) {
  return std::string(op) + (location.empty() ? "" : " at ") + std::string(location);
}

// The number of operands of each slot. At most one slot is variadic.
Result<std::vector<int32_t>> segmentsOf(const Request &request, llvm::ArrayRef<OperandSlot> slots,
                                        llvm::ArrayRef<Value> operands) {
  size_t least = 0;
  bool variadic = false;
  std::string names;
  for (const OperandSlot &slot : slots) {
    least += !slot.optional && !slot.variadic;
    variadic |= slot.variadic;
    names += (names.empty() ? "" : ", ") + slot.name.str() +
             (slot.optional   ? " (optional)"
              : slot.variadic ? "..."
                              : "");
  }
  if (operands.size() < least || (!variadic && operands.size() > slots.size()))
    return request.error("expected operands " + (names.empty() ? "none" : names) + ", found " +
                         std::to_string(operands.size()));
  std::vector<int32_t> segments;
  size_t next = 0;
  for (const OperandSlot &slot : slots) {
    if (slot.variadic) {
      segments.push_back(static_cast<int32_t>(operands.size() - (slots.size() - 1)));
      next += segments.back();
      continue;
    }
    bool given = next < operands.size() && operands[next];
    if (!given && !slot.optional)
      return request.error("operand '" + slot.name.str() + "' is missing; expected " + names);
    segments.push_back(given);
    ++next;
  }
  return segments;
}

} // namespace

struct Builder::Impl {
  Impl(MLIRContext &context, const portable::VendorOps *vendors) : context(&context), vendors(vendors) {}

  Result<Value> value(ValueId id, const std::string &what) const {
    if (id >= values.size())
      return invalid(what + " " + std::to_string(id) + " is not a value of this builder, which has " +
                     std::to_string(values.size()));
    return values[id];
  }
  ValueId add(Value value) {
    values.push_back(value);
    return static_cast<ValueId>(values.size() - 1);
  }
  const MortiseType *typeOf(ValueId id) {
    types.resize(values.size());
    if (!types[id])
      types[id] = std::make_unique<CType>(llvm::cast<RankedTensorType>(values[id].getType()));
    return &types[id]->type;
  }
  Location locationOf(std::string_view location) const {
    if (location.empty())
      return UnknownLoc::get(context);
    return NameLoc::get(StringAttr::get(context, llvm::StringRef(location)));
  }
  // The symbol table; NULL when there are no symbols. Symbols cannot be added afterwards.
  SymbolsAttr table();

  Result<DictionaryAttr> attributes(const Request &request, const MortiseOp::Concept &op,
                                    std::span<const MortiseAttribute *const> given);
  // Appends an op to `block`. NULL operands stand for optional ones left out. `bodies` may be empty.
  Result<Operation *> append(Block &block, std::string_view op, llvm::ArrayRef<Value> operands,
                             std::span<const MortiseAttribute *const> attributes, std::string_view location,
                             std::span<const MortiseGraph *const> bodies);
  Result<Operation *> make(Block &block, const Request &request, RegisteredOperationName name,
                           llvm::ArrayRef<Value> operands, DictionaryAttr attributes, Location location,
                           std::span<const MortiseGraph *const> bodies);
  Result<void> fill(Region &region, const MortiseGraph &body, const std::string &what);
  // The op of a vendor, by what its plugin says, or as a node of a graph has it.
  Result<Operation *> appendVendors(Block &block, std::string_view op, llvm::ArrayRef<Value> operands,
                                    std::span<const MortiseAttribute *const> attributes, std::string_view location);
  Result<Operation *> appendVendors(Block &block, const MortiseNode &node, llvm::ArrayRef<Value> operands);
  Result<Operation *> makeVendors(Block &block, std::string_view op, llvm::ArrayRef<Value> operands,
                                  DictionaryAttr parameters, llvm::ArrayRef<Type> types, std::string_view location);
  // A node of a graph, of any op.
  Result<Operation *> append(Block &block, const MortiseNode &node, llvm::ArrayRef<Value> operands);
  Result<llvm::SmallVector<Value>> valuesOf(std::span<const ValueId> ids, std::string_view op) const;
  std::vector<ValueId> addResults(Operation *op);

  MLIRContext *context;
  const portable::VendorOps *vendors;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  std::vector<Value> values;
  std::vector<std::unique_ptr<CType>> types; // C types that typeOf returned; NULL for other values
  std::vector<std::pair<Value, int64_t>> outputs;
  std::vector<NamedAttrList> inputAttributes;
  llvm::SmallVector<StringAttr> symbolNames;
  llvm::SmallVector<int64_t> symbolFacts;
  llvm::SmallVector<Attribute> guards;
  SymbolsAttr symbols;
  bool fixed = false; // symbols can no longer be added
  unsigned depth = 0; // nesting depth of bodies
  static constexpr unsigned maxDepth = 16;
  static inline const Error finished{MORTISE_INVALID_ARGUMENT, "the builder is empty: finish() was called before"};
};

SymbolsAttr Builder::Impl::table() {
  if (!fixed && !symbolNames.empty())
    symbols = SymbolsAttr::get(context, symbolNames, symbolFacts);
  fixed = true;
  return symbols;
}

Builder::Builder(MLIRContext &context, std::string_view name, const portable::VendorOps *vendors)
    : impl(std::make_unique<Impl>(context, vendors)) {
  context.loadDialect<MortiseDialect, func::FuncDialect>();
  Location unknown = UnknownLoc::get(&context);
  impl->module = ModuleOp::create(unknown);
  impl->function =
      func::FuncOp::create(unknown, name.empty() ? "main" : llvm::StringRef(name), FunctionType::get(&context, {}, {}));
  impl->module->push_back(impl->function);
  impl->function.addEntryBlock();
}
Builder::~Builder() = default;

Result<uint32_t> Builder::addSymbol(std::string_view name, int64_t min, int64_t max, int64_t divisor) {
  if (!impl->module)
    return Impl::finished;
  std::string what = "symbol '" + std::string(name) + "'";
  if (impl->fixed)
    return invalid(what + " comes after the first guard, input or op; declare all symbols before");
  Messages messages(impl->context);
  impl->symbolNames.push_back(StringAttr::get(impl->context, llvm::StringRef(name)));
  impl->symbolFacts.append({min, max, divisor});
  if (failed(SymbolsAttr::verify([&] { return emitError(UnknownLoc::get(impl->context)); }, impl->symbolNames,
                                 impl->symbolFacts))) {
    impl->symbolNames.pop_back();
    impl->symbolFacts.truncate(impl->symbolFacts.size() - 3);
    return invalid(messages.message);
  }
  return static_cast<uint32_t>(impl->symbolNames.size() - 1);
}

Result<void> Builder::addGuard(const MortiseExpr &expr, int32_t relation, std::string_view reason) {
  if (!impl->module)
    return Impl::finished;
  if (relation != MORTISE_RELATION_ZERO && relation != MORTISE_RELATION_AT_LEAST)
    return invalid("guard: relation " + std::to_string(relation) + " is none of MortiseRelation");
  SymbolsAttr symbols = impl->table();
  Result<Dim> dim = Dim::from(expr, symbols ? symbols.getNames().size() : 0);
  if (!dim)
    return invalid("guard: " + dim.error().message);
  auto text = [&](llvm::StringRef value) { return StringAttr::get(impl->context, value); };
  impl->guards.push_back(ArrayAttr::get(impl->context, {DimsAttr::get(impl->context, *dim, symbols),
                                                        text(relation == MORTISE_RELATION_ZERO ? "zero" : "at_least"),
                                                        text(llvm::StringRef(reason))}));
  return {};
}

Result<ValueId> Builder::addInput(std::string_view name, const MortiseType &type, uint32_t flags) {
  if (!impl->module)
    return Impl::finished;
  size_t number = impl->inputAttributes.size();
  std::string what = "input " + std::to_string(number) + ", '" + std::string(name) + "'";
  constexpr uint32_t known = MORTISE_VALUE_CONSTANT | MORTISE_VALUE_STATE | MORTISE_VALUE_DONATED;
  if (flags & ~known)
    return invalid(what + ": flags " + std::to_string(flags) + " has bits that are no MortiseValueFlag");
  if (std::popcount(flags) > 1)
    return invalid(what +
                   ": expected one of constant (never written), state (written by an output) and donated "
                   "(holds anything afterwards), found flags " +
                   std::to_string(flags));
  Result<RankedTensorType> tensor = typeFrom(type, what, impl->table(), impl->context);
  if (!tensor)
    return tensor.error();
  NamedAttrList attributes;
  Attribute unit = UnitAttr::get(impl->context);
  if (!name.empty())
    attributes.set("mortise.name", StringAttr::get(impl->context, llvm::StringRef(name)));
  if (flags & MORTISE_VALUE_CONSTANT)
    attributes.set("mortise.constant", unit);
  if (flags & MORTISE_VALUE_STATE)
    attributes.set("mortise.state", unit);
  if (flags & MORTISE_VALUE_DONATED)
    attributes.set("mortise.donated", unit);
  impl->inputAttributes.push_back(attributes);
  return impl->add(impl->function.front().addArgument(*tensor, UnknownLoc::get(impl->context)));
}

Result<DictionaryAttr> Builder::Impl::attributes(const Request &request, const MortiseOp::Concept &op,
                                                 std::span<const MortiseAttribute *const> given) {
  std::vector<AttributeSlot> slots = attributeSlots(op.getAttributeSlots());
  auto names = llvm::map_range(slots, [](const AttributeSlot &slot) { return slot.name; });
  NamedAttrList list;
  for (const MortiseAttribute *attribute : given) {
    if (!attribute || !attribute->name)
      return request.error("an attribute is NULL or has no name");
    const AttributeSlot *slot = llvm::find_if(slots, [&](auto &known) { return known.name == attribute->name; }).base();
    if (slot == slots.data() + slots.size())
      return request.error(std::string("unknown attribute '") + attribute->name + "'" +
                           nearest(attribute->name, names));
    if (list.get(attribute->name))
      return request.error(std::string("attribute '") + attribute->name + "' is given twice");
    Result<Attribute> value = attributeFrom(*attribute, slot->storage, table(), context);
    if (!value)
      return Error{value.error().code, request.place + ": " + value.error().message};
    list.set(attribute->name, *value);
  }
  for (const AttributeSlot &slot : slots)
    if (!list.get(slot.name))
      return request.error("attribute '" + slot.name.str() + "' is missing");
  return list.getDictionary(context);
}

// Fills a region of a control flow op from a graph that has this builder's symbols.
Result<void> Builder::Impl::fill(Region &region, const MortiseGraph &body, const std::string &what) {
  if (body.symbol_count != symbolNames.size())
    return invalid(what + " has " + std::to_string(body.symbol_count) + " symbols, expected the function's " +
                   std::to_string(symbolNames.size()));
  if (depth >= maxDepth)
    return invalid(what + ": bodies are nested deeper than " + std::to_string(maxDepth));
  ++depth;
  llvm::scope_exit done([&] { --depth; });
  Block &block = region.emplaceBlock();
  std::vector<Value> known(body.value_count);
  for (size_t i = 0; i < body.input_count; ++i) {
    Result<RankedTensorType> type =
        typeFrom(*body.inputs[i]->type, what + ", input " + std::to_string(i), table(), context);
    if (!type)
      return type.error();
    known[body.inputs[i]->index] = block.addArgument(*type, UnknownLoc::get(context));
  }
  for (size_t i = 0; i < body.node_count; ++i) {
    const MortiseNode &node = *body.nodes[i];
    llvm::SmallVector<Value> operands;
    for (size_t k = 0; k < node.operand_count; ++k)
      operands.push_back(node.operands[k] ? known[node.operands[k]->index] : Value());
    Result<Operation *> op = append(block, node, operands);
    if (!op)
      return op.error();
    if ((*op)->getNumResults() != node.result_count)
      return Error{MORTISE_CORRUPT, std::string(node.op) + " has " + std::to_string((*op)->getNumResults()) +
                                        " results, the graph says " + std::to_string(node.result_count)};
    for (size_t k = 0; k < node.result_count; ++k)
      known[node.results[k]->index] = (*op)->getResult(static_cast<unsigned>(k));
  }
  llvm::SmallVector<Value> results;
  for (size_t i = 0; i < body.output_count; ++i)
    results.push_back(known[body.outputs[i]->index]);
  OpBuilder builder = OpBuilder::atBlockEnd(&block);
  YieldOp::create(builder, UnknownLoc::get(context), results);
  return {};
}

// Creates the op at the end of the block and verifies it; destroys it when inference or verification fails.
Result<Operation *> Builder::Impl::make(Block &block, const Request &request, RegisteredOperationName name,
                                        llvm::ArrayRef<Value> operands, DictionaryAttr attributes, Location location,
                                        std::span<const MortiseGraph *const> bodies) {
  Messages messages(context);
  OperationState state(location, name);
  state.addOperands(operands);
  // Inference reads the properties, which only an op has. So the op is created with a placeholder type, which inference
  // replaces.
  state.addTypes(operands.empty() ? Type(RankedTensorType::get({}, Float32Type::get(context))) : operands[0].getType());
  for (size_t i = 0; i < bodies.size(); ++i)
    state.addRegion();
  Operation *op = Operation::create(state);
  auto refuse = [&]() {
    Error error = request.error(messages.about(request.op));
    op->destroy();
    return error;
  };
  for (size_t i = 0; i < bodies.size(); ++i)
    if (Result<void> filled =
            fill(op->getRegion(static_cast<unsigned>(i)), *bodies[i], request.place + ": body " + std::to_string(i));
        !filled) {
      op->destroy();
      return filled.error();
    }
  if (op->getPropertiesStorageSize() != 0 &&
      failed(op->setPropertiesFromAttribute(attributes, [&] { return emitError(location); })))
    return refuse();
  llvm::SmallVector<Type> types;
  auto *inference = name.getInterface<InferTypeOpInterface>();
  if (failed(inference->inferReturnTypes(context, location, operands, DictionaryAttr(), op->getPropertiesStorage(),
                                         op->getRegions(), types)))
    return refuse();
  if (types.size() == 1) {
    op->getResult(0).setType(types[0]);
  } else {
    Operation *whole = Operation::create(location, name, types, operands, NamedAttrList(), op->getPropertiesStorage(),
                                         BlockRange(), op->getNumRegions());
    for (auto [from, to] : llvm::zip(op->getRegions(), whole->getRegions()))
      to.takeBody(from);
    op->destroy();
    op = whole;
  }
  if (failed(verify(op)))
    return refuse();
  block.push_back(op);
  return op;
}

Result<Operation *> Builder::Impl::append(Block &block, std::string_view opName, llvm::ArrayRef<Value> operands,
                                          std::span<const MortiseAttribute *const> given, std::string_view location,
                                          std::span<const MortiseGraph *const> bodies) {
  Request request{opName, placeOf(opName, location)};
  auto name = RegisteredOperationName::lookup(llvm::StringRef(opName), context);
  auto *known = name ? name->getInterface<MortiseOp>() : nullptr;
  if (!known) {
    auto names = llvm::map_range(context->getRegisteredOperationsByDialect("mortise"),
                                 [](RegisteredOperationName other) { return other.getStringRef(); });
    return Error{MORTISE_UNSUPPORTED, request.place + ": unknown op" + nearest(opName, names)};
  }
  if (int32_t slots = known->getBodySlots(); slots >= 0 && static_cast<size_t>(slots) != bodies.size())
    return request.error("expected " + std::to_string(slots) + " bodies, found " + std::to_string(bodies.size()));
  Result<std::vector<int32_t>> segments = segmentsOf(request, operandSlots(known->getOperandSlots()), operands);
  if (!segments)
    return segments.error();
  Result<DictionaryAttr> dictionary = attributes(request, *known, given);
  if (!dictionary)
    return dictionary.error();
  if (name->hasTrait<OpTrait::AttrSizedOperandSegments>()) {
    NamedAttrList list(*dictionary);
    list.set("operandSegmentSizes", DenseI32ArrayAttr::get(context, *segments));
    *dictionary = list.getDictionary(context);
  }
  llvm::SmallVector<Value> present;
  llvm::copy_if(operands, std::back_inserter(present), [](Value value) { return bool(value); });
  return make(block, request, *name, present, *dictionary, locationOf(location), bodies);
}

Result<Operation *> Builder::Impl::makeVendors(Block &block, std::string_view op, llvm::ArrayRef<Value> operands,
                                               DictionaryAttr parameters, llvm::ArrayRef<Type> types,
                                               std::string_view location) {
  const Request request{op, placeOf(op, location)};
  Messages messages(context);
  OpBuilder builder = OpBuilder::atBlockEnd(&block);
  VendorOp made = VendorOp::create(builder, locationOf(location), types, builder.getStringAttr(llvm::StringRef(op)),
                                   operands, parameters);
  if (succeeded(verify(made)))
    return made.getOperation();
  Error error = request.error(messages.about(made->getName().getStringRef()));
  made->erase();
  return error;
}

Result<Operation *> Builder::Impl::appendVendors(Block &block, std::string_view op, llvm::ArrayRef<Value> operands,
                                                 std::span<const MortiseAttribute *const> attributes,
                                                 std::string_view location) {
  const Request request{op, placeOf(op, location)};
  if (!vendors)
    return Error{MORTISE_UNSUPPORTED, request.place + ": an op of a vendor, and this builder knows no plugins"};
  if (llvm::is_contained(operands, Value()))
    return request.error("an operand is left out, and ops of vendors have no optional operands");
  const llvm::SmallVector<Type> types(ValueRange(operands).getTypes());
  const Result<VendorAnswer> answer = askVendor({llvm::StringRef(op), types, attributes, table(), context}, *vendors);
  if (!answer)
    return location.empty() ? answer.error()
                            : Error{answer.error().code, answer.error().message + "; at " + std::string(location)};
  const llvm::SmallVector<Type> results(answer->results.begin(), answer->results.end());
  return makeVendors(block, op, operands, answer->parameters, results, location);
}

Result<Operation *> Builder::Impl::appendVendors(Block &block, const MortiseNode &node,
                                                 llvm::ArrayRef<Value> operands) {
  const std::string_view location = node.location ? node.location : "";
  const Request request{node.op, placeOf(node.op, location)};
  if (llvm::is_contained(operands, Value()) || !bodiesOf(node).empty())
    return Error{MORTISE_UNSUPPORTED,
                 request.place + ": expected all operands and no bodies, as plugins declare ops of vendors"};
  Result<DictionaryAttr> parameters = vendorParameters({node.attributes, node.attribute_count}, table(), context);
  if (!parameters)
    return Error{parameters.error().code, request.place + ": " + parameters.error().message};
  llvm::SmallVector<Type> types;
  for (size_t i = 0; i < node.result_count; ++i) {
    Result<RankedTensorType> type =
        typeFrom(*node.results[i]->type, request.place + ": result " + std::to_string(i), table(), context);
    if (!type)
      return type.error();
    types.push_back(*type);
  }
  return makeVendors(block, node.op, operands, *parameters, types, location);
}

Result<Operation *> Builder::Impl::append(Block &block, const MortiseNode &node, llvm::ArrayRef<Value> operands) {
  if (portable::isVendorOp(node.op))
    return appendVendors(block, node, operands);
  return append(block, node.op, operands, {node.attributes, node.attribute_count}, node.location ? node.location : "",
                bodiesOf(node));
}

Result<llvm::SmallVector<Value>> Builder::Impl::valuesOf(std::span<const ValueId> ids, std::string_view op) const {
  llvm::SmallVector<Value> values;
  for (ValueId id : ids) {
    Result<Value> known = id == noValue ? Value() : value(id, std::string(op) + ": operand");
    if (!known)
      return known.error();
    values.push_back(*known);
  }
  return values;
}

std::vector<ValueId> Builder::Impl::addResults(Operation *op) {
  std::vector<ValueId> results;
  for (OpResult result : op->getResults())
    results.push_back(add(result));
  return results;
}

Result<std::vector<ValueId>> Builder::addOp(std::string_view opName, std::span<const ValueId> operands,
                                            std::span<const MortiseAttribute *const> attributes,
                                            std::string_view location, std::span<const MortiseGraph *const> bodies) {
  if (!impl->module)
    return Impl::finished;
  auto values = impl->valuesOf(operands, opName);
  if (!values)
    return values.error();
  Block &block = impl->function.front();
  Result<Operation *> op = portable::isVendorOp(opName) && bodies.empty()
                               ? impl->appendVendors(block, opName, *values, attributes, location)
                               : impl->append(block, opName, *values, attributes, location, bodies);
  return op ? Result<std::vector<ValueId>>(impl->addResults(*op)) : op.error();
}

Result<std::vector<ValueId>> Builder::addNode(const MortiseNode &node, std::span<const ValueId> operands) {
  if (!impl->module)
    return Impl::finished;
  auto values = impl->valuesOf(operands, node.op);
  if (!values)
    return values.error();
  Result<Operation *> op = impl->append(impl->function.front(), node, *values);
  return op ? Result<std::vector<ValueId>>(impl->addResults(*op)) : op.error();
}

Result<bool> Builder::repeat(const Repetition &repetition) {
  if (!impl->module)
    return Impl::finished;
  const size_t lists = size_t{repetition.copies} + 1; // location lists: the second copy's and one for each new copy
  if (repetition.count == 0 || repetition.own.size() % (lists + 1) != 0 || repetition.locations.size() % lists != 0)
    return invalid("repeat: expected at least one value, own values for " + std::to_string(lists + 1) +
                   " copies and locations for " + std::to_string(lists) + ", found " +
                   std::to_string(repetition.count) + ", " + std::to_string(repetition.own.size()) + " and " +
                   std::to_string(repetition.locations.size()));
  if (size_t{repetition.first} + 2 * size_t{repetition.count} > impl->values.size())
    return invalid("repeat: values " + std::to_string(repetition.first) + " to " +
                   std::to_string(size_t{repetition.first} + 2 * size_t{repetition.count}) +
                   " are expected in this builder, which has " + std::to_string(impl->values.size()));
  for (const char *location : repetition.locations)
    if (!location)
      return invalid("repeat: a location is NULL");
  return repeatOps(repetition, impl->values, impl->function.front());
}

Result<const MortiseType *> Builder::typeOf(ValueId value) const {
  if (Result<Value> known = impl->value(value, "value"); !known)
    return known.error();
  return impl->typeOf(value);
}

Result<void> Builder::addOutput(ValueId id, int64_t aliasInput) {
  if (!impl->module)
    return Impl::finished;
  std::string what = "output " + std::to_string(impl->outputs.size());
  Result<Value> value = impl->value(id, what + ": value");
  if (!value)
    return value.error();
  if (aliasInput != -1) {
    if (aliasInput < 0 || aliasInput >= static_cast<int64_t>(impl->inputAttributes.size()))
      return invalid(what + ": there is no input " + std::to_string(aliasInput) + " to be written to");
    BlockArgument input = impl->function.getArgument(static_cast<unsigned>(aliasInput));
    NamedAttrList &attributes = impl->inputAttributes[static_cast<size_t>(aliasInput)];
    if (input.getType() != (*value).getType())
      return invalid(what + " is written to input " + std::to_string(aliasInput) + ", but has type " +
                     ir::text((*value).getType()) + ", not " + ir::text(input.getType()));
    if (attributes.get("mortise.constant"))
      return invalid(what + " is written to input " + std::to_string(aliasInput) + ", which is constant");
    if (attributes.get("mortise.donated"))
      return invalid(what + " is written to input " + std::to_string(aliasInput) +
                     ", which is donated: its memory holds anything afterwards; make it state");
    for (auto &other : impl->outputs)
      if (other.second == aliasInput)
        return invalid(what + " is written to input " + std::to_string(aliasInput) + ", as another output is");
    attributes.set("mortise.state", UnitAttr::get(impl->context));
  }
  impl->outputs.emplace_back(*value, aliasInput);
  return {};
}

size_t Builder::inputCount() const { return impl->inputAttributes.size(); }
size_t Builder::outputCount() const { return impl->outputs.size(); }

std::string Builder::text() const {
  std::string result;
  llvm::raw_string_ostream stream(result);
  if (impl->module) // generic form: the function has no return yet
    impl->module->print(stream, OpPrintingFlags().assumeVerified());
  return result;
}

Result<OwningOpRef<ModuleOp>> Builder::finish() {
  if (!impl->module)
    return Impl::finished;
  OpBuilder builder(impl->context);
  llvm::SmallVector<Value> results;
  llvm::SmallVector<Type> types;
  for (auto &output : impl->outputs) {
    results.push_back(output.first);
    types.push_back(output.first.getType());
  }
  func::FuncOp function = impl->function;
  function.setFunctionType(builder.getFunctionType(function.front().getArgumentTypes(), types));
  if (SymbolsAttr symbols = impl->table())
    function->setAttr("mortise.symbols", symbols);
  if (!impl->guards.empty())
    function->setAttr("mortise.guards", ArrayAttr::get(impl->context, impl->guards));
  llvm::SmallVector<DictionaryAttr> inputAttributes; // all at once, because setting them one by one is quadratic
  for (const NamedAttrList &attributes : impl->inputAttributes)
    inputAttributes.push_back(attributes.getDictionary(impl->context));
  function.setAllArgAttrs(inputAttributes);
  llvm::SmallVector<DictionaryAttr> resultAttributes;
  for (const auto &output : impl->outputs) {
    NamedAttrList attributes;
    if (output.second != -1)
      attributes.set("mortise.alias", builder.getI64IntegerAttr(output.second));
    resultAttributes.push_back(attributes.getDictionary(impl->context));
  }
  function.setAllResultAttrs(resultAttributes);
  builder.setInsertionPointToEnd(&function.front());
  func::ReturnOp end = func::ReturnOp::create(builder, function.getLoc(), results);
  Messages messages(impl->context);
  OwningOpRef<ModuleOp> module = std::move(impl->module);
  // The other ops were verified when they were added, or equal ops were (repeat).
  if (failed(verify(function, /*verifyRecursively=*/false)) || failed(verify(end)))
    return invalid("the function does not verify: " + messages.message);
  return module;
}

} // namespace mortise::ir
