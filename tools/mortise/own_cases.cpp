// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "own_cases.hpp"

#include "seam.hpp"

#include <mortise/portable/vendor_ops.hpp>
#include <mortise/runtime/manifest.hpp>

#include <algorithm>
#include <fnmatch.h>
#include <map>

namespace mortise::tool {
namespace {

constexpr size_t mostTried = 4096,
                 mostKept = 4; // combinations of types for one op; accepted ones by first element type
constexpr uint32_t mostOperands = 4;
constexpr uint64_t seed = 1;

const std::vector<std::vector<int64_t>> shapes{{4, 8}, {8}, {256}, {8, 4}, {2, 4, 8}, {}, {2, 3, 8, 8}};

struct Shaped {
  int32_t dtype;
  std::vector<int64_t> dims;
  MortiseType view() const {
    return {sizeof(MortiseType),
            nullptr,
            dtype,
            static_cast<int32_t>(dims.size()),
            dims.empty() ? nullptr : dims.data(),
            nullptr,
            nullptr,
            nullptr};
  }
  std::string text() const {
    std::string made = "tensor<";
    for (const int64_t dim : dims)
      made += std::to_string(dim) + "x";
    return made + dtypeName(dtype) + ">";
  }
};

// The element types that the manifest claims for the op, or the commonest.
std::vector<int32_t> dtypesOf(const runtime::Manifest &manifest, const std::string &op) {
  std::vector<int32_t> found;
  for (const runtime::ManifestClaim &claim : manifest.claims)
    for (const std::string &pattern : claim.ops)
      if (fnmatch(pattern.c_str(), op.c_str(), 0) == 0)
        for (const std::string &name : claim.dtypes)
          if (const int32_t dtype = dtypeFromName(name); std::ranges::find(found, dtype) == found.end())
            found.push_back(dtype);
  return found.empty() ? std::vector<int32_t>{MORTISE_F32, MORTISE_F16, MORTISE_I8, MORTISE_I32, MORTISE_I64} : found;
}

// An attribute that has to be given, as a value and as text.
struct Given {
  MortiseAttribute value{};
  std::string text;
  explicit Given(const MortiseAttributeDeclaration &declared) {
    value.struct_size = sizeof value;
    value.name = declared.name;
    value.kind = declared.kind;
    value.i64 = 1;
    value.f64 = 1;
    value.string = "";
    constexpr const char *texts[] = {"", "true", "1 : i64", "1.0 : f64", "\"\"", "array<i64>", "array<f64>", ""};
    text = std::string(declared.name) + " = " + texts[declared.kind];
  }
};

class Maker {
public:
  Maker(const Host &host, const runtime::Manifest &manifest, const MortiseOpDeclaration &op)
      : host(host), op(op), dtypes(dtypesOf(manifest, op.name)) {
    for (const MortiseAttributeDeclaration *declared : std::span(op.attributes, op.attribute_count)) {
      if (!declared->fallback)
        given.emplace_back(*declared);
      tensors |= !declared->fallback && declared->kind == MORTISE_ATTRIBUTE_TENSOR;
    }
  }

  std::vector<OpCase> make() {
    const size_t choices = dtypes.size() * shapes.size();
    size_t tried = 0;
    for (uint32_t count = op.operands_min; !tensors && count <= std::min(op.operands_max, mostOperands); ++count) {
      size_t combinations = 1;
      for (uint32_t i = 0; i < count; ++i)
        combinations *= choices;
      for (size_t number = 0; number < combinations && tried < mostTried; ++number, ++tried) {
        std::vector<Shaped> operands;
        for (size_t i = 0, rest = number; i < count; ++i, rest /= choices)
          operands.push_back({dtypes[rest % choices / shapes.size()], shapes[rest % shapes.size()]});
        add(operands);
      }
    }
    return std::move(cases);
  }
  std::string lie; // what infer answered last that is no list of types

private:
  void add(const std::vector<Shaped> &operands) {
    if (const int32_t first = operands.empty() ? 0 : operands[0].dtype; kept[first] < mostKept)
      if (const std::vector<Shaped> results = inferred(operands); !results.empty())
        kept[first] += keep(operands, results);
  }

  std::vector<Shaped> inferred(const std::vector<Shaped> &operands) {
    std::vector<MortiseType> types;
    for (const Shaped &operand : operands)
      types.push_back(operand.view());
    std::vector<const MortiseType *> pointers;
    for (const MortiseType &type : types)
      pointers.push_back(&type);
    std::vector<const MortiseAttribute *> values;
    for (const Given &each : given)
      values.push_back(&each.value);
    const auto attributes = portable::completeAttributes(op, operands.size(), values);
    if (!attributes)
      return {};
    std::vector<Shaped> results;
    MortiseInferArgs args{};
    args.struct_size = sizeof args;
    args.op = op.name;
    args.operands = pointers.data();
    args.operand_count = pointers.size();
    args.attributes = attributes->data();
    args.attribute_count = attributes->size();
    args.sink = &results;
    args.add = [](void *sink, const MortiseType *type) {
      static_cast<std::vector<Shaped> *>(sink)->push_back({type->dtype, {type->dims, type->dims + type->rank}});
    };
    const Result<void> asked = host.registry->infer(args);
    if (!asked && asked.error().code == MORTISE_INTERNAL)
      lie = asked.error().message;
    return asked ? results : std::vector<Shaped>();
  }

  // False for types that are none of the language's.
  bool keep(const std::vector<Shaped> &operands, const std::vector<Shaped> &results) {
    const auto list = [](const std::vector<Shaped> &types) {
      std::string text;
      for (const Shaped &type : types)
        text += (text.empty() ? "" : ", ") + type.text();
      return text;
    };
    std::string arguments, names, returned, parameters;
    for (size_t i = 0; i < operands.size(); ++i) {
      const std::string comma = i ? ", " : "", name = "%x" + std::to_string(i);
      arguments += comma + name + ": " + operands[i].text();
      names += comma + name;
    }
    for (size_t i = 0; i < results.size(); ++i)
      returned += (i ? ", " : "") + (results.size() == 1 ? std::string("%r") : "%r#" + std::to_string(i));
    for (const Given &each : given)
      parameters += (parameters.empty() ? "" : ", ") + each.text;
    auto graph = parse("func.func @own(" + arguments + ") -> (" + list(results) + ") {\n  %r" +
                           (results.size() == 1 ? "" : ":" + std::to_string(results.size())) + " = mortise.vendor \"" +
                           op.name + "\"(" + names + ") {" + parameters + "} : (" + list(operands) + ") -> (" +
                           list(results) + ")\n  return " + returned + " : " + list(results) + "\n}\n",
                       "case");
    if (!graph)
      return false;
    const MortiseGraph &view = (*graph)->view();
    OpCase made{.op = op.name, .name = op.name};
    made.point = {.symbols = {}, .graph = *graph, .inputs = makeInputs(view, seed), .expected = {}};
    made.dtype = operands.empty() ? results[0].dtype : operands[0].dtype;
    for (const Shaped &operand : operands)
      made.name += (&operand == operands.data() ? " " : ", ") + typeString(operand.view());
    for (size_t i = 0; i < view.value_count; ++i)
      made.rank = std::max(made.rank, view.values[i]->type->rank);
    cases.push_back(std::move(made));
    return true;
  }

  const Host &host;
  const MortiseOpDeclaration &op;
  const std::vector<int32_t> dtypes;
  std::vector<Given> given;
  bool tensors = false; // an attribute has to be a tensor, for which there is no guess
  std::map<int32_t, size_t> kept;
  std::vector<OpCase> cases;
};

} // namespace

std::vector<OpCase> ownCases(const Host &host, const std::string &ops, std::vector<std::string> &lies) {
  const auto devices = host.registry->find(host.config.get("device"));
  if (!devices)
    return {};
  const runtime::Plugin &plugin = *devices->front()->plugin;
  const auto manifest = runtime::readManifest(runtime::manifestPath(plugin.path));
  std::vector<OpCase> cases;
  for (const MortiseOpDeclaration *op : std::span(plugin.table->ops, plugin.table->op_count)) {
    if (!isChosen(op->name, ops))
      continue;
    Maker maker(host, manifest ? *manifest : runtime::Manifest{}, *op);
    std::ranges::move(maker.make(), std::back_inserter(cases));
    if (!maker.lie.empty())
      lies.push_back(maker.lie);
  }
  return cases;
}

} // namespace mortise::tool
