// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops that plugins declare: the checks of a table's declarations, and of what its `infer` answers.
#include "vendor_ops.hpp"
#include "loader.hpp"
#include <mortise/portable/vendor_ops.hpp>
#include <mortise/runtime/guard.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <set>

namespace mortise::runtime {
namespace {

constexpr size_t mostOps = 4096, mostAttributes = 256, mostResults = 16, mostEntries = 1 << 16;
constexpr int32_t mostRank = 32; // of the portable format

Error invalid(std::string message) { return {MORTISE_INVALID_ARGUMENT, std::move(message)}; }

// The value of a fallback lies where it can be read.
bool isReadableValue(const MortiseAttribute &value) {
  switch (value.kind) {
  case MORTISE_ATTRIBUTE_STRING:
    return value.string && readString(value.string);
  case MORTISE_ATTRIBUTE_I64_ARRAY:
    return value.count <= mostEntries && (value.count == 0 || holds(value.i64s, value.count));
  case MORTISE_ATTRIBUTE_F64_ARRAY:
    return value.count <= mostEntries && (value.count == 0 || holds(value.f64s, value.count));
  default:
    return true;
  }
}

Result<void> checkFallback(const MortiseAttributeDeclaration &attribute, const std::string &which) {
  const MortiseAttribute *value = attribute.fallback;
  if (!value)
    return {};
  if (!holds(value) || value->struct_size < sizeof(MortiseAttribute) || !value->name || !readString(value->name))
    return invalid(which +
                   ": expected its fallback to be a MortiseAttribute or NULL, found an address where none can be "
                   "read");
  if (std::strcmp(value->name, attribute.name) != 0 || value->kind != attribute.kind)
    return invalid(which + ": expected a fallback of its name and kind, found '" + legible(value->name) + "', " +
                   portable::attributeKindName(value->kind));
  if (value->kind == MORTISE_ATTRIBUTE_TENSOR || value->exprs)
    return invalid(which + ": expected a fallback that is no tensor and has no programs");
  if (!isReadableValue(*value))
    return invalid(which + ": expected a value of its fallback, found memory that cannot be read");
  return {};
}

Result<void> checkAttributes(const MortiseOpDeclaration &op, const std::string &which) {
  if (op.attribute_count > mostAttributes || (op.attribute_count && !holds(op.attributes, op.attribute_count)))
    return invalid(which + ": expected a list of at most " + std::to_string(mostAttributes) + " attributes, found " +
                   std::to_string(op.attribute_count) + " that cannot be read");
  std::string last;
  for (size_t i = 0; i < op.attribute_count; ++i) {
    const MortiseAttributeDeclaration *attribute = op.attributes[i];
    const std::string place = which + ", attribute " + std::to_string(i);
    if (!holds(attribute) || attribute->struct_size < sizeof(MortiseAttributeDeclaration))
      return invalid(place + ": expected a MortiseAttributeDeclaration, found an address where none can be read");
    const auto name = attribute->name ? readString(attribute->name) : std::nullopt;
    if (!name || name->empty())
      return invalid(place + ": expected a name, found none");
    const std::string named = which + ", attribute '" + legible(*name) + "'";
    if (i && *name <= last)
      return invalid(named + ": expected attributes sorted by name, each once, found it behind '" + last + "'");
    last = legible(*name);
    if (attribute->kind < MORTISE_ATTRIBUTE_BOOL || attribute->kind > MORTISE_ATTRIBUTE_TENSOR)
      return invalid(named + ": expected a kind of MortiseAttributeKind, found " + std::to_string(attribute->kind));
    if (auto checked = checkFallback(*attribute, named); !checked)
      return checked;
  }
  return {};
}

Result<void> checkOp(const MortiseOpDeclaration *op, size_t number) {
  const std::string place = "op " + std::to_string(number) + " of its table";
  if (!holds(op) || op->struct_size < sizeof(MortiseOpDeclaration))
    return invalid(place + ": expected a MortiseOpDeclaration, found an address where none can be read");
  const auto name = op->name ? readString(op->name) : std::nullopt;
  if (!name || !portable::isVendorOp(*name))
    return invalid(place +
                   ": expected a name such as \"acme.swizzle\", the vendor's word, a dot and the op's, of a-z, "
                   "0-9 and '_', found " +
                   (name ? "'" + legible(*name) + "'" : "none"));
  const std::string which = "its op '" + *name + "'";
  if (!op->summary || !readString(op->summary))
    return invalid(which + ": expected a summary of one line, found none");
  if (op->operands_min > op->operands_max)
    return invalid(which + ": expected operands_min to be at most operands_max, found " +
                   std::to_string(op->operands_min) + " and " + std::to_string(op->operands_max));
  return checkAttributes(*op, which);
}

// Takes the types that `infer` adds, and passes on those whose members can be read.
struct Answer {
  const MortiseInferArgs &asked;
  size_t count = 0;
  std::string wrong{};

  void add(const MortiseType *type) {
    const std::string found = wrong.empty() ? check(type) : wrong;
    if (found.empty())
      asked.add(asked.sink, type);
    else
      wrong = found;
    ++count;
  }
  std::string check(const MortiseType *type) const {
    const std::string which = "result " + std::to_string(count) + ": ";
    if (count == mostResults)
      return "expected at most " + std::to_string(mostResults) + " results, found more";
    if (!holds(type) || type->struct_size < sizeof(MortiseType))
      return which + "expected a MortiseType, found an address where none can be read";
    if (type->rank < 0 || type->rank > mostRank)
      return which + "expected a rank of 0 to " + std::to_string(mostRank) + ", found " + std::to_string(type->rank);
    const auto rank = static_cast<size_t>(type->rank);
    if (rank && !holds(type->dims, rank))
      return which + "expected " + std::to_string(rank) + " extents, found memory that cannot be read";
    if (type->strides)
      return which + "expected a dense row-major type, found strides";
    const bool symbolic = std::find(type->dims, type->dims + rank, MORTISE_DYNAMIC) != type->dims + rank;
    if (!symbolic)
      return type->dim_exprs ? which + "expected no programs where every extent is a number" : "";
    if (!holds(type->dim_exprs, rank))
      return which + "expected a program for each extent, found memory that cannot be read";
    for (const MortiseExpr &expr : std::span(type->dim_exprs, rank))
      if (expr.count == 0 || expr.count > mostEntries || !holds(expr.steps, expr.count))
        return which + "expected the steps of an extent's program, found memory that cannot be read";
    return "";
  }
};

} // namespace

Result<void> checkOps(const MortisePlugin &table, const Manifest &manifest) {
  if ((table.op_count != 0) != (table.infer != nullptr))
    return invalid(table.infer ? "expected the ops that its slot infer answers for, found op_count 0"
                               : "expected the slot infer with its ops, found NULL");
  if (table.infer && !isReadable(reinterpret_cast<const void *>(table.infer), 1))
    return invalid("expected slot infer to point to a function, found an address where nothing is");
  if (table.op_count > mostOps || (table.op_count && !holds(table.ops, table.op_count)))
    return invalid("expected a list of at most " + std::to_string(mostOps) + " ops in its table, found " +
                   std::to_string(table.op_count) + " that cannot be read");
  std::set<std::string> names;
  for (size_t i = 0; i < table.op_count; ++i) {
    if (auto checked = checkOp(table.ops[i], i); !checked)
      return checked;
    if (!names.insert(table.ops[i]->name).second)
      return invalid(std::string("its op '") + table.ops[i]->name + "' is declared twice; declare it once");
  }
  const std::set<std::string> listed(manifest.ops.begin(), manifest.ops.end());
  if (names == listed)
    return {};
  const auto text = [](const std::set<std::string> &set) {
    return set.empty() ? "none" : join({set.begin(), set.end()});
  };
  return invalid("expected the manifest's line ops = [...] to list the ops of its table (" + text(names) + "), found " +
                 text(listed));
}

const MortiseOpDeclaration *Plugin::declared(std::string_view op) const {
  for (const MortiseOpDeclaration *declaration : std::span(table->ops, table->op_count))
    if (op == declaration->name)
      return declaration;
  return nullptr;
}

namespace {

// What is wrong with the types that `ask` is answered with; those before reach `asked.add`.
template <typename Ask> Result<std::string> checkedAnswer(const MortiseInferArgs &asked, const Ask &ask) {
  Answer answer{asked};
  MortiseInferArgs args = asked;
  args.sink = &answer;
  args.add = [](void *sink, const MortiseType *type) { static_cast<Answer *>(sink)->add(type); };
  const AboutScope about(asked.op);
  if (Result<void> answered = ask(args); !answered)
    return answered.error();
  return answer.count == 0 ? "expected at least one result, found none" : answer.wrong;
}

} // namespace

Result<std::string> callInfer(const MortisePlugin &table, const MortiseInferArgs &asked) {
  return checkedAnswer(asked, [&](MortiseInferArgs &args) { return call("infer", table.infer, args); });
}

Result<void> askInfer(const Plugin &plugin, const MortiseInferArgs &asked) {
  const std::string which = std::string(asked.op) + ": ", whose = "plugin '" + plugin.name + "'";
  const auto wrong = plugin.infer ? checkedAnswer(asked, plugin.infer) : callInfer(*plugin.table, asked);
  if (!wrong) {
    const std::string &said = wrong.error().message; // which names a plugin in a process of its own that ended
    return Error{wrong.error().code, which + (said.starts_with(whose) ? "" : whose + ": ") + said};
  }
  if (!wrong->empty())
    return Error{MORTISE_INTERNAL, which + "what " + whose + " infers is wrong: " + *wrong};
  return {};
}

} // namespace mortise::runtime
