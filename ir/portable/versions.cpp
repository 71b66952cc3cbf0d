// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Upgrades graphs of older opsets, and rewrites graphs for readers of older opsets.
#include "reading.hpp"
#include <mortise/portable/older.hpp>
#include <mortise/portable/vendor_ops.hpp>
#include <mortise/rewrite.hpp>

#include <algorithm>
#include <map>

namespace mortise {
namespace {

using portable::AttributeAdded;
using portable::AttributeValue;
using portable::Op;
using portable::OpAttribute;
using portable::OpRetired;
using portable::Opset;
using portable::Replacement;

constexpr std::string_view ours = "mortise.";

std::string num(size_t value) { return std::to_string(value); }

template <typename List> std::string nearest(std::string_view name, const List &known) {
  std::vector<std::string_view> names;
  for (const auto &candidate : known)
    names.emplace_back(candidate.name);
  return portable::suggestion(name, names);
}

struct OperandCounts {
  size_t least = 0, most = 0;
};
OperandCounts operandCounts(const Op &op) {
  OperandCounts counts;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    if (op.operands[i] != ',')
      continue;
    const char kind = op.operands[i - 1];
    counts.least += kind != '*' && kind != '?';
    counts.most = kind == '*' ? SIZE_MAX : counts.most + (counts.most != SIZE_MAX);
  }
  return counts;
}

std::string describe(const MortiseNode &node) { return "node " + num(node.index) + " (" + node.op + ")"; }

// Checks a node against the ops of `graphOpset`. The error's message is empty when the node is valid.
class Checker {
public:
  Checker(const Opset &opset, uint32_t graphOpset) : opset(opset), graphOpset(graphOpset) {}

  Error check(const MortiseNode &node) const {
    const std::string_view name = node.op;
    if (!name.starts_with(ours))
      return portable::isVendorOp(name)
                 ? Error{} // its plugin's declaration is looked at when the graph is compiled
                 : refuse(node, "expected an op of the language, \"mortise.NAME\", or of a vendor, \"VENDOR.NAME\" of "
                                "a-z, 0-9 and '_'");
    const Op *op = opset.find(name);
    const OpRetired *retired = op ? nullptr : opset.findRetired(name);
    if (retired && graphOpset >= retired->retired)
      return refuse(node, "the op was retired in opset " + num(retired->retired) + ", and the graph is of opset " +
                              num(graphOpset));
    op = retired ? &retired->op : op;
    if (!op)
      return refuse(node, "no opset up to " + num(opset.newest) + " has this op" + nearest(name, opset.ops));
    if (op->since > graphOpset)
      return refuse(node,
                    "the op is of opset " + num(op->since) + ", and the graph says it is of opset " + num(graphOpset));
    const OperandCounts counts = operandCounts(*op);
    if (node.operand_count < counts.least || node.operand_count > counts.most)
      return refuse(node, "expected the operands (" + op->operands + "), found " + num(node.operand_count));
    for (size_t i = 0, slot = 0; i < node.operand_count && slot < op->operands.size(); ++i) {
      const size_t end = op->operands.find(',', slot);
      const char kind = op->operands[end - 1];
      if (!node.operands[i] && kind != '?')
        return refuse(node, "operand " + num(i) + " of (" + op->operands + ") is left out");
      slot = kind == '*' ? slot : end + 1;
    }
    if (node.result_count == 0)
      return refuse(node, "the op has no results");
    for (size_t i = 0; i < node.attribute_count; ++i)
      if (Error error = check(node, *op, *node.attributes[i]); !error.message.empty())
        return error;
    for (const OpAttribute &attribute : op->attributes)
      if (!findAttribute(node, attribute.name) && since(*op, attribute.name) <= graphOpset)
        return refuse(node, "attribute '" + attribute.name + "' is missing");
    return {};
  }

private:
  uint32_t since(const Op &op, std::string_view attribute) const {
    const AttributeAdded *added = opset.added(op.name, attribute);
    return added ? added->since : op.since;
  }

  Error check(const MortiseNode &node, const Op &op, const MortiseAttribute &attribute) const {
    const OpAttribute *known = op.find(attribute.name);
    const std::string name = std::string("attribute '") + attribute.name + "'";
    if (!known)
      return refuse(node, "the op has no " + name + nearest(attribute.name, op.attributes));
    if (since(op, attribute.name) > graphOpset)
      return refuse(node, name + " is of opset " + num(since(op, attribute.name)) +
                              ", and the graph says it is of opset " + num(graphOpset));
    if (attribute.kind != known->kind)
      return refuse(node, "expected " + name + " to be " + portable::attributeKindName(known->kind) + ", found " +
                              portable::attributeKindName(attribute.kind));
    if (known->values.empty() ||
        std::find(known->values.begin(), known->values.end(), attribute.string) != known->values.end())
      return {};
    std::string values;
    for (const std::string &value : known->values)
      values += (values.empty() ? "" : ", ") + value;
    return refuse(node, "expected " + name + " to be one of " + values + "; found '" + attribute.string + "'");
  }

  static Error refuse(const MortiseNode &node, std::string what) {
    return {MORTISE_UNSUPPORTED, describe(node) + ": " + std::move(what)};
  }

  const Opset &opset;
  const uint32_t graphOpset;
};

class Changer : public GraphRewriter {
protected:
  explicit Changer(const Opset &opset) : opset(opset) {}

  const MortiseAttribute *make(const std::string &name, const AttributeValue &value) {
    MortiseAttribute empty{};
    empty.struct_size = sizeof(MortiseAttribute);
    MortiseAttribute *attribute = copyOf(empty);
    attribute->name = keep(name);
    attribute->kind = value.kind;
    attribute->i64 = value.i64;
    attribute->f64 = value.f64;
    attribute->string = keep(value.string);
    attribute->i64s = keep(value.i64s);
    attribute->f64s = keep(value.f64s);
    attribute->count = std::max(value.i64s.size(), value.f64s.size());
    return attribute;
  }

  const Opset &opset;
};

class Upgrader : public Changer {
public:
  Upgrader(const Opset &opset, uint32_t graphOpset) : Changer(opset), graphOpset(graphOpset) {}

protected:
  bool changeNode(const MortiseNode &node, std::vector<Draft> &drafts) override {
    if (Error found = Checker(opset, graphOpset).check(node); !found.message.empty())
      return fail(found.code, found.message);
    std::vector<Draft> result;
    if (!bringUp(drafts[0], node, graphOpset, result))
      return false;
    drafts = std::move(result);
    return true;
  }
  bool changeGraph(MortiseGraph &graph) override {
    graph.opset = opset.newest;
    return true;
  }

private:
  // Upgrades a draft that is valid in opset `from`, and appends the result.
  bool bringUp(Draft &draft, const MortiseNode &node, uint32_t from, std::vector<Draft> &result) {
    if (const OpRetired *retired = opset.findRetired(draft.op); retired && retired->retired > from)
      return replace(*retired, draft, node, result);
    const Op *op = opset.find(draft.op);
    for (size_t i = 0; op && i < op->attributes.size(); ++i) {
      const std::string &name = op->attributes[i].name;
      const AttributeAdded *added = opset.added(op->name, name);
      if (added && added->since > from)
        draft.attributes.push_back(make(name, added->implied));
    }
    draft.since = op ? op->since : draft.since;
    result.push_back(std::move(draft));
    return true;
  }

  bool replace(const OpRetired &retired, const Draft &draft, const MortiseNode &node, std::vector<Draft> &result) {
    MortiseNode old = node; // the draft as a node; an earlier replacement may have produced it
    old.op = draft.op.c_str();
    old.operands = draft.operands.data();
    old.operand_count = draft.operands.size();
    old.attributes = draft.attributes.data();
    old.attribute_count = draft.attributes.size();
    const std::vector<Replacement> replacements = retired.replace(old);
    std::vector<const MortiseValue *> results;
    for (const Replacement &replacement : replacements) {
      const bool last = &replacement == &replacements.back();
      Draft next;
      next.op = replacement.op;
      next.results = last ? draft.results : std::vector<const MortiseValue *>{newValue(replacement.type)};
      if (last)
        next.bodies = draft.bodies;
      results.push_back(next.results.front());
      for (const Replacement::Operand &operand : replacement.operands)
        next.operands.push_back(operand.earlier >= 0 ? results.at(static_cast<size_t>(operand.earlier))
                                                     : operand.value);
      next.attributes = replacement.kept;
      for (const auto &[name, value] : replacement.attributes)
        next.attributes.push_back(make(name, value));
      if (!bringUp(next, node, retired.retired, result))
        return false;
    }
    return true;
  }

  const uint32_t graphOpset;
};

// Leaves out attributes that `newestOpset` does not have and implies, and changes nothing else.
class Trimmer : public Changer {
public:
  Trimmer(const Opset &opset, uint32_t newestOpset) : Changer(opset), newestOpset(newestOpset) {}
  size_t count = 0; // of the attributes left out

protected:
  bool changeNode(const MortiseNode &node, std::vector<Draft> &drafts) override {
    count += std::erase_if(drafts[0].attributes, [&](const MortiseAttribute *attribute) {
      const AttributeAdded *added = opset.added(node.op, attribute->name);
      return added && added->since > newestOpset && added->implied.equals(*attribute);
    });
    return true;
  }

private:
  const uint32_t newestOpset;
};

class Downgrader : public Changer {
public:
  Downgrader(const Opset &opset, uint32_t newestOpset, uint32_t newestFormat)
      : Changer(opset), newestOpset(newestOpset), newestFormat(newestFormat) {}

protected:
  bool changeNode(const MortiseNode &node, std::vector<Draft> &drafts) override {
    if (node.body_count != 0 && newestFormat < 2)
      return tooNew(node, "the bodies of the op are of format version 2", newestFormat);
    const Op *op = opset.find(node.op);
    if (!op && std::string_view(node.op).starts_with(ours)) {
      const Error unknown = Checker(opset, opset.newest).check(node);
      return fail(unknown.code, unknown.message);
    }
    Draft &draft = drafts[0];
    if (op)
      draft.since = op->since; // may have been raised by an attribute that is dropped here
    if (draft.since > newestOpset)
      return tooNew(node, "the op is of opset " + num(draft.since), newestOpset);
    std::erase_if(draft.attributes,
                  [&](const MortiseAttribute *attribute) { return op && isImplied(*op, *attribute); });
    for (const MortiseAttribute *attribute : draft.attributes)
      if (!fits(node, op, *attribute))
        return false;
    return true;
  }
  // The flag donated only permits an optimisation, so dropping it keeps the meaning.
  uint32_t changeFlags(uint32_t flags) override {
    return newestFormat < 2 ? flags & ~uint32_t(MORTISE_VALUE_DONATED) : flags;
  }
  bool changeGraph(MortiseGraph &graph) override {
    graph.opset = std::min(newestOpset, opset.newest);
    return true;
  }

private:
  bool isImplied(const Op &op, const MortiseAttribute &attribute) const {
    const AttributeAdded *added = opset.added(op.name, attribute.name);
    return added && added->since > newestOpset && added->implied.equals(attribute);
  }

  bool fits(const MortiseNode &node, const Op *op, const MortiseAttribute &attribute) {
    const std::string name = std::string("attribute '") + attribute.name + "'";
    if (newestFormat < 2 && copyStruct(attribute).exprs)
      return tooNew(node, name + " is symbolic, which is of format version 2", newestFormat);
    if (!op)
      return true;
    if (const AttributeAdded *added = opset.added(op->name, attribute.name); added && added->since > newestOpset)
      return tooNew(node, name + " at this value is of opset " + num(added->since), newestOpset);
    for (const portable::ValueAdded &added : opset.valuesAdded)
      if (added.op == op->name && added.attribute == attribute.name && added.since > newestOpset &&
          attribute.kind == MORTISE_ATTRIBUTE_STRING && added.value == attribute.string)
        return tooNew(node, name + " = \"" + added.value + "\" is of opset " + num(added.since), newestOpset);
    return true;
  }

  bool tooNew(const MortiseNode &node, const std::string &what, uint32_t newest) {
    return fail(MORTISE_UNSUPPORTED, describe(node) + ": " + what + ", expected at most " + num(newest) +
                                         "; update what reads it, or do without");
  }

  const uint32_t newestOpset, newestFormat;
};

// What of format version 2 a graph has that no node has, or "".
std::string ofVersionTwo(const MortiseGraph &view) {
  if (copyStruct(view).guard_count != 0)
    return "guards";
  for (size_t i = 0; i < view.value_count; ++i)
    if (copyStruct(*view.values[i]->type).stride_exprs)
      return "symbolic strides";
  return "";
}

} // namespace

Result<std::shared_ptr<const Graph>> Graph::load(std::span<const std::byte> bytes, const Opset &opset) {
  const detail::Newest newest{portable::formatVersion, opset.newest};
  Result<std::shared_ptr<const Graph>> graph = detail::readBytes(bytes, newest);
  if (!graph)
    return graph;
  Upgrader upgrader(opset, (*graph)->view().opset);
  Result<MortiseGraph> current = upgrader.rewrite((*graph)->view());
  if (!current)
    return current.error();
  return (*graph)->view().opset == opset.newest ? graph : detail::copyView(*current, newest);
}

uint32_t portable::sinceOf(std::string_view op, uint32_t opSince, std::span<const MortiseAttribute *const> attributes,
                           const Opset &opset) {
  uint32_t since = opSince;
  for (const MortiseAttribute *attribute : attributes) {
    if (const AttributeAdded *added = opset.added(op, attribute->name); added && !added->implied.equals(*attribute))
      since = std::max(since, added->since);
    for (const portable::ValueAdded &added : opset.valuesAdded)
      if (added.op == op && added.attribute == attribute->name && attribute->kind == MORTISE_ATTRIBUTE_STRING &&
          added.value == attribute->string)
        since = std::max(since, added.since);
  }
  return since;
}

Result<std::shared_ptr<const Graph>> portable::withoutImplied(const MortiseGraph &graph, uint32_t newest,
                                                              const Opset &opset) {
  const auto isLater = [&](const AttributeAdded &added) { return added.since > newest; };
  if (std::ranges::none_of(opset.attributesAdded, isLater))
    return std::shared_ptr<const Graph>();
  Trimmer trimmer(opset, newest);
  const Result<MortiseGraph> trimmed = trimmer.rewrite(graph);
  if (!trimmed)
    return trimmed.error();
  if (trimmer.count == 0)
    return std::shared_ptr<const Graph>();
  return detail::copyView(*trimmed, {portable::formatVersion, opset.newest});
}

Result<std::vector<std::byte>> Graph::bytesFor(uint32_t newestOpset, uint32_t newestFormat, const Opset &opset) const {
  if (newestOpset < 1 || newestFormat < 1)
    return Error{MORTISE_INVALID_ARGUMENT, "expected an opset and a format version of 1 or more, found " +
                                               num(newestOpset) + " and " + num(newestFormat)};
  if (const std::string newer = newestFormat < 2 ? ofVersionTwo(view()) : ""; !newer.empty())
    return Error{MORTISE_UNSUPPORTED, "the graph's " + newer + " are of format version 2, expected at most " +
                                          num(newestFormat) + "; specialise it, or update what reads it"};
  Downgrader downgrader(opset, newestOpset, newestFormat);
  Result<MortiseGraph> older = downgrader.rewrite(view());
  if (!older)
    return older.error();
  Result<std::shared_ptr<const Graph>> written =
      detail::copyView(*older, {std::min(newestFormat, portable::formatVersion), std::min(newestOpset, opset.newest)});
  if (!written)
    return written.error();
  return std::vector<std::byte>((*written)->bytes().begin(), (*written)->bytes().end());
}

} // namespace mortise
