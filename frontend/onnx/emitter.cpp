// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "emitter.hpp"

#include <mortise/ir/builder.hpp>
#include <mortise/ir/portable.hpp>

#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/MLIRContext.h>
#include <mlir/IR/OwningOpRef.h>

#include <algorithm>
#include <numeric>

namespace mortise::onnx {

Attribute::Attribute(const char *name, bool value) : name(name), kind(MORTISE_ATTRIBUTE_BOOL), number(value) {}
Attribute::Attribute(const char *name, int64_t value) : name(name), kind(MORTISE_ATTRIBUTE_I64), number(value) {}
Attribute::Attribute(const char *name, double value) : name(name), kind(MORTISE_ATTRIBUTE_F64), real(value) {}
Attribute::Attribute(const char *name, const char *value) : name(name), kind(MORTISE_ATTRIBUTE_STRING), word(value) {}
Attribute::Attribute(const char *name, Dims value)
    : name(name), kind(MORTISE_ATTRIBUTE_I64_ARRAY), list(std::move(value)) {}
Attribute::Attribute(const char *name, const Tensor &value)
    : name(name), kind(MORTISE_ATTRIBUTE_TENSOR), tensor(&value) {}

Dims common(const Dims &a, const Dims &b, const std::string &place) {
  Dims made(std::max(a.size(), b.size()), 1);
  for (const Dims *of : {&a, &b})
    for (size_t i = 0; i < of->size(); ++i) {
      int64_t &at = made[made.size() - of->size() + i];
      const int64_t extent = (*of)[i];
      if (at != 1 && extent != 1 && at != extent)
        corrupt(place + ": expected shapes that can be repeated to a common one, found " + text(a) + " and " + text(b));
      at = extent == 1 ? at : extent;
    }
  return made;
}

Dims without(const Dims &dims, const Dims &axes) {
  Dims made;
  for (size_t i = 0; i < dims.size(); ++i)
    if (std::ranges::find(axes, static_cast<int64_t>(i)) == axes.end())
      made.push_back(dims[i]);
  return made;
}

Dims upTo(int64_t count) {
  Dims made(static_cast<size_t>(count));
  std::iota(made.begin(), made.end(), 0);
  return made;
}

std::string typeText(const Value &value) {
  return value ? dtypeName(value.dtype) + text(value.dims) : std::string("nothing");
}

namespace {

MortiseType typeOf(int32_t dtype, const Dims &dims) {
  MortiseType type{};
  type.struct_size = sizeof type;
  type.dtype = dtype;
  type.rank = static_cast<int32_t>(dims.size());
  type.dims = dims.empty() ? nullptr : dims.data();
  return type;
}

} // namespace

Emitter::Emitter(mlir::MLIRContext &context) : builder(std::make_unique<ir::Builder>(context, "main")) {}
Emitter::~Emitter() = default;

Value Emitter::made(uint32_t id) {
  const auto type = builder->typeOf(id);
  if (!type)
    throw Refusal{type.error()};
  const auto extents = mortise::dims(**type);
  Value value{.id = id, .dtype = (*type)->dtype, .dims = {extents.begin(), extents.end()}};
  checkedBytes(value.dtype, value.dims, place); // what the model says may be short and mean terabytes
  return value;
}

Value Emitter::input(const std::string &name, int32_t dtype, const Dims &dims) {
  const auto id = builder->addInput(name, typeOf(dtype, dims), 0);
  if (!id)
    throw Refusal{id.error()};
  inputs.push_back(name);
  return made(*id);
}

Value Emitter::constant(Tensor tensor) {
  Value value{.dtype = tensor.dtype, .dims = tensor.dims};
  value.constant = kept.emplace_back(std::make_shared<const Tensor>(std::move(tensor)));
  return value;
}

const Tensor &Emitter::known(const Value &value, const char *what) {
  if (!value)
    corrupt(place + ": expected an operand '" + what + "', found none");
  if (value.constant)
    return *value.constant;
  if (!value.offered)
    unsupported("needs constant", place + ": expected '" + std::string(what) +
                                      "' as a constant (an initializer), found a value that the model computes or is "
                                      "given");
  for (const std::string &source : value.sources)
    if (std::ranges::find(bound, source) == bound.end())
      bound.push_back(source);
  return *value.offered;
}

// Literals are small; anything else is a weight, an input that is bound once.
uint32_t Emitter::idOf(const Value &value) {
  constexpr size_t largestLiteral = 512; // bytes
  if (!value.constant)
    return value.id;
  const Tensor &tensor = *value.constant;
  const auto [found, isNew] = ids.try_emplace(&tensor, 0);
  if (!isNew)
    return found->second;
  kept.push_back(value.constant);
  if (tensor.bytes.size() <= largestLiteral) {
    found->second = op("mortise.constant", {}, {{"value", tensor}}).id;
    return found->second;
  }
  const auto id = builder->addInput(tensor.name, typeOf(tensor.dtype, tensor.dims), MORTISE_VALUE_CONSTANT);
  if (!id)
    throw Refusal{id.error()};
  weights.push_back(tensor);
  return found->second = *id;
}

Values Emitter::ops(OpName name, const Values &operands, const Attributes &attributes) {
  std::vector<uint32_t> ids;
  for (const Value &operand : operands)
    ids.push_back(operand ? idOf(operand) : ir::noValue);
  std::deque<MortiseAttribute> made;
  std::deque<MortiseType> types;
  std::vector<const MortiseAttribute *> pointers;
  for (const Attribute &from : attributes) {
    MortiseAttribute &to = made.emplace_back();
    to.struct_size = sizeof to;
    to.name = from.name.c_str();
    to.kind = from.kind;
    to.i64 = from.number;
    to.f64 = from.real;
    to.string = from.word.c_str();
    to.i64s = from.list.data();
    to.count = from.list.size();
    if (from.tensor) {
      to.tensor_type = &types.emplace_back(typeOf(from.tensor->dtype, from.tensor->dims));
      to.tensor_data = from.tensor->bytes.data();
      to.count = from.tensor->bytes.size();
    }
    pointers.push_back(&to);
  }
  const auto results = builder->addOp(nameOf(name.op), ids, pointers, place);
  if (!results)
    throw Refusal{{MORTISE_UNSUPPORTED, "types: " + results.error().message}};
  Values values;
  for (const uint32_t result : *results)
    values.push_back(this->made(result));
  return values;
}

Value Emitter::op(OpName name, const Values &operands, const Attributes &attributes) {
  return ops(name, operands, attributes)[0];
}

std::shared_ptr<const Graph> Emitter::finish(const Values &results) {
  for (const Value &result : results)
    if (auto done = builder->addOutput(idOf(result), -1); !done)
      throw Refusal{done.error()};
  auto module = builder->finish();
  if (!module)
    throw Refusal{module.error()};
  auto graph = ir::exportGraph(**module);
  if (!graph)
    throw Refusal{graph.error()};
  return *graph;
}

// ---- Numbers and shapes

Value Emitter::number(double value, int32_t dtype) {
  const double list[] = {value};
  return constant(tensorOf(list, {}, dtype));
}
Value Emitter::integers(const Dims &numbers) {
  return constant(tensorOf(std::span<const int64_t>(numbers), {static_cast<int64_t>(numbers.size())}));
}

Value Emitter::convert(const Value &x, int32_t dtype) {
  return x.dtype == dtype ? x : op("mortise.convert", {x}, {{"dtype", dtypeName(dtype)}});
}

Value Emitter::reshape(const Value &x, const Dims &shape) {
  if (x.dims == shape)
    return x;
  if (!x.constant)
    return op("mortise.reshape", {x}, {{"shape", shape}});
  Tensor tensor = *x.constant;
  if (countOf(shape) != countOf(tensor.dims))
    corrupt(place + ": expected a shape of as many elements as " + typeText(x) + ", found " + text(shape));
  tensor.dims = shape;
  return constant(std::move(tensor));
}

Value Emitter::transpose(const Value &x, const Dims &permutation) {
  return std::ranges::is_sorted(permutation) ? x : op("mortise.transpose", {x}, {{"permutation", permutation}});
}

Value Emitter::swapLast(const Value &x) {
  Dims permutation = upTo(x.rank());
  if (x.rank() < 2)
    corrupt(place + ": expected a matrix, found " + typeText(x));
  std::swap(permutation[permutation.size() - 1], permutation[permutation.size() - 2]);
  return transpose(x, permutation);
}

Value Emitter::spread(const Value &x, const Dims &shape) {
  if (x.dims == shape)
    return x;
  if (x.dims.size() > shape.size())
    corrupt(place + ": expected a shape of at least the rank of " + typeText(x) + ", found " + text(shape));
  Dims axes;
  for (size_t i = 0; i < x.dims.size(); ++i)
    axes.push_back(static_cast<int64_t>(shape.size() - x.dims.size() + i));
  return op("mortise.broadcast", {x}, {{"shape", shape}, {"axes", axes}});
}

Value Emitter::along(const Value &x, int64_t axis, int64_t rank) {
  if (x.rank() == 0)
    return x;
  if (x.rank() != 1)
    corrupt(place + ": expected a vector, found " + typeText(x));
  Dims shape(static_cast<size_t>(rank), 1);
  shape[static_cast<size_t>(axis)] = x.dims[0];
  return reshape(x, shape);
}

Value Emitter::slice(const Value &x, const Dims &starts, const Dims &limits, const Dims &strides) {
  const Dims steps = strides.empty() ? Dims(x.dims.size(), 1) : strides;
  const bool isAll = limits == x.dims && std::ranges::all_of(starts, [](int64_t start) { return start == 0; }) &&
                     std::ranges::all_of(steps, [](int64_t step) { return step == 1; });
  return isAll ? x : op("mortise.slice", {x}, {{"starts", starts}, {"limits", limits}, {"strides", steps}});
}

Value Emitter::part(const Value &x, int64_t axis, int64_t begin, int64_t end) {
  Dims starts(x.dims.size(), 0), limits = x.dims;
  starts[static_cast<size_t>(axis)] = begin;
  limits[static_cast<size_t>(axis)] = end;
  return slice(x, starts, limits);
}

Value Emitter::concatenate(const Values &parts, int64_t axis) {
  return parts.size() == 1 ? parts[0] : op("mortise.concatenate", parts, {{"axis", axis}});
}

Value Emitter::pad(const Value &x, const Dims &low, const Dims &high, const Value &with, const Dims &interior) {
  const auto isZero = [](const Dims &list) { return std::ranges::all_of(list, [](int64_t n) { return n == 0; }); };
  if (isZero(low) && isZero(high) && isZero(interior))
    return x;
  const Dims between = interior.empty() ? Dims(x.dims.size(), 0) : interior;
  return op("mortise.pad", {x, reshape(with, {})}, {{"low", low}, {"high", high}, {"interior", between}});
}

Value Emitter::reverse(const Value &x, const Dims &axes) {
  return axes.empty() ? x : op("mortise.reverse", {x}, {{"axes", axes}});
}

Value Emitter::iota(const Dims &shape, int64_t axis, int32_t dtype) {
  return op("mortise.iota", {}, {{"shape", shape}, {"dtype", dtypeName(dtype)}, {"axis", axis}});
}

// ---- Elementwise

Value Emitter::combine(OpName name, const Value &a, const Value &b) {
  const Dims shape = common(a.dims, b.dims, place);
  return op(name, {spread(a, shape), spread(b, shape)});
}

Value Emitter::compare(const char *direction, const Value &a, const Value &b) {
  const Dims shape = common(a.dims, b.dims, place);
  return op("mortise.compare", {spread(a, shape), spread(b, shape)}, {{"direction", direction}});
}

Value Emitter::select(const Value &predicate, const Value &a, const Value &b) {
  const Dims shape = common(predicate.dims, common(a.dims, b.dims, place), place);
  return op("mortise.select", {spread(predicate, shape), spread(a, shape), spread(b, shape)});
}

// ---- Along axes

Value Emitter::reduce(OpName name, const Value &x, const Dims &axes, bool keeps) {
  Value reduced = op(name, {x}, {{"axes", axes}});
  if (!keeps)
    return reduced;
  Dims shape = x.dims;
  for (const int64_t axis : axes)
    shape[static_cast<size_t>(axis)] = 1;
  return reshape(reduced, shape);
}

Value Emitter::take(const Value &x, const Value &indices, int64_t axis) {
  return op("mortise.take", {x, indices}, {{"axis", axis}});
}

Value Emitter::matmul(const Value &a, const Value &b) {
  if (a.rank() == 0 || b.rank() == 0)
    corrupt(place + ": expected operands of rank 1 or more, found " + typeText(a) + " and " + typeText(b));
  Value lhs = a.rank() == 1 ? reshape(a, {1, a.dims[0]}) : a;
  Value rhs = b.rank() == 1 ? reshape(b, {b.dims[0], 1}) : b;
  const Dims lhsBatch(lhs.dims.begin(), lhs.dims.end() - 2), rhsBatch(rhs.dims.begin(), rhs.dims.end() - 2);
  const Dims batch = common(lhsBatch, rhsBatch, place);
  const auto repeated = [&](const Value &of) {
    Dims shape = batch;
    shape.insert(shape.end(), of.dims.end() - 2, of.dims.end());
    return spread(of, shape);
  };
  lhs = repeated(lhs);
  rhs = repeated(rhs);
  const auto rank = static_cast<int64_t>(batch.size());
  const Value product = op("mortise.dot", {lhs, rhs},
                           {{"lhs_batch", upTo(rank)},
                            {"rhs_batch", upTo(rank)},
                            {"lhs_contract", Dims{rank + 1}},
                            {"rhs_contract", Dims{rank}}});
  Dims shape = product.dims;
  if (b.rank() == 1)
    shape.pop_back();
  if (a.rank() == 1)
    shape.erase(shape.begin() + rank);
  return reshape(product, shape);
}

} // namespace mortise::onnx
