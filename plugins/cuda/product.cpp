// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "product.hpp"

#include <algorithm>
#include <numeric>

namespace mortise::cuda {

namespace {

constexpr double mostCalls = 4; // of the library, before a copy of an operand is cheaper

// ---- Reading nodes

struct Dimensions { // of the operands
  std::vector<int64_t> lhsBatch, rhsBatch, lhsContract, rhsContract;
};

// Summed dimensions in the order of lhs, since no other order counts.
Dimensions dimensionsOf(const MortiseNode &node) {
  if (isOp(node, Op::Linear))
    return {{}, {}, {node.operands[0]->type->rank - 1}, {intAttribute(node, "weight_transposed") ? 0 : 1}};
  const auto list = [&](const char *name) {
    const std::span<const int64_t> found = intsAttribute(node, name);
    return std::vector<int64_t>(found.begin(), found.end());
  };
  Dimensions dims{list("lhs_batch"), list("rhs_batch"), list("lhs_contract"), list("rhs_contract")};
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (size_t i = 0; i < dims.lhsContract.size(); ++i)
    pairs.push_back({dims.lhsContract[i], dims.rhsContract[i]});
  std::ranges::sort(pairs);
  for (size_t i = 0; i < pairs.size(); ++i)
    std::tie(dims.lhsContract[i], dims.rhsContract[i]) = pairs[i];
  return dims;
}

bool contains(const std::vector<int64_t> &list, int64_t item) { return std::ranges::find(list, item) != list.end(); }

std::vector<int64_t> restOf(int64_t rank, const std::vector<int64_t> &batch, const std::vector<int64_t> &contract) {
  std::vector<int64_t> rest;
  for (int64_t i = 0; i < rank; ++i)
    if (!contains(batch, i) && !contains(contract, i))
      rest.push_back(i);
  return rest;
}

// Batch, then the rest and the summed dimensions in either order: the library reads the dense operand.
bool isReadable(int64_t rank, const std::vector<int64_t> &batch, const std::vector<int64_t> &contract) {
  const std::vector<int64_t> rest = restOf(rank, batch, contract);
  for (const bool restFirst : {true, false}) {
    std::vector<int64_t> order = batch;
    for (const std::vector<int64_t> *part : {restFirst ? &rest : &contract, restFirst ? &contract : &rest})
      order.insert(order.end(), part->begin(), part->end());
    if (std::ranges::is_sorted(order))
      return true;
  }
  return false;
}

bool isReadable(const MortiseNode &node) {
  const Dimensions dims = dimensionsOf(node);
  return isReadable(node.operands[0]->type->rank, dims.lhsBatch, dims.lhsContract) &&
         isReadable(node.operands[1]->type->rank, dims.rhsBatch, dims.rhsContract);
}

// ---- Plans
//
// A plan chooses the axes of one matrix product, one more that the library runs over as a batch, and leaves the others
// to several calls. The same search serves expressions and numbers; what it finds for expressions it finds, perhaps
// with fewer calls, for each set of numbers.

struct SymbolicRules {
  std::span<const SymbolRange> ranges;
  bool isAtLeast(const Dim &x, const Dim &y) const { return mortise::isAtLeast(x, y, ranges); }
  double most(const Dim &x) const { return static_cast<double>(bounds(x, ranges).high); }
};
struct NumericRules {
  bool isAtLeast(int64_t x, int64_t y) const { return x >= y; }
  double most(int64_t x) const { return static_cast<double>(x); }
};

template <typename Number> struct Stored { // an operand's matrix
  bool termsFirst = true;                  // the terms of a sum lie side by side
  Number stride = 1;
};
template <typename Number> struct Plan {
  using Axis = ProductAxis<Number>;
  Axis m, n, k, batch;
  Stored<Number> a, b;
  Number resultStride = 1;
  std::vector<Axis> rest;
  double calls = 0;
};

template <typename Number> std::vector<ProductAxis<Number>> merged(const std::vector<ProductAxis<Number>> &axes) {
  std::vector<ProductAxis<Number>> list;
  for (const ProductAxis<Number> &axis : axes) {
    if (axis.extent == Number(1))
      continue;
    if (!list.empty()) {
      ProductAxis<Number> &outer = list.back();
      const auto follows = [&](const Number &far, const Number &near) {
        const std::optional<Number> span = detail::times(near, axis.extent);
        return span && far == *span;
      };
      const std::optional<Number> extent = detail::times(outer.extent, axis.extent);
      if (extent && follows(outer.a, axis.a) && follows(outer.b, axis.b) && follows(outer.c, axis.c)) {
        outer = {*extent, axis.a, axis.b, axis.c};
        continue;
      }
    }
    list.push_back(axis);
  }
  return list;
}
template <typename Number> ProductAxes<Number> merged(const ProductAxes<Number> &axes) {
  return {merged(axes.batch), merged(axes.m), merged(axes.n), merged(axes.k)};
}

template <typename Number> bool isEmpty(const std::vector<ProductAxis<Number>> &axes) {
  return std::ranges::find(axes, Number(0), &ProductAxis<Number>::extent) != axes.end();
}

// How a matrix with these extents and strides lies, if one of its dimensions is contiguous and the other does not
// overlap. Strides of an extent of 1 do not count.
template <typename Number, typename Rules>
std::optional<Stored<Number>> stored(const Number &terms, const Number &termStride, const Number &others,
                                     const Number &otherStride, const Rules &rules) {
  const Number one(1);
  if (terms == one || termStride == one) {
    if (others == one)
      return Stored<Number>{true, terms};
    if (rules.isAtLeast(otherStride, terms))
      return Stored<Number>{true, otherStride};
  }
  if (others == one || otherStride == one) {
    if (terms == one)
      return Stored<Number>{false, others};
    if (rules.isAtLeast(termStride, others))
      return Stored<Number>{false, termStride};
  }
  return std::nullopt;
}

template <typename Number, typename Rules> class Planner {
public:
  using Axis = ProductAxis<Number>;
  Planner(const ProductAxes<Number> &axes, const Rules &rules) : axes(axes), rules(rules) {}
  // With the fewest calls.
  std::optional<Plan<Number>> run() {
    if (axes.k.size() > 1)
      return std::nullopt;
    const size_t none = SIZE_MAX;
    for (size_t m = axes.m.empty() ? none : 0; m == none || m < axes.m.size(); m = m == none ? axes.m.size() : m + 1)
      for (size_t n = axes.n.empty() ? none : 0; n == none || n < axes.n.size(); n = n == none ? axes.n.size() : n + 1)
        consider(m, n);
    return best;
  }

private:
  void consider(size_t m, size_t n) {
    const Number one(1);
    Plan<Number> plan;
    if (m < axes.m.size())
      plan.m = axes.m[m];
    if (n < axes.n.size())
      plan.n = axes.n[n];
    if (!axes.k.empty())
      plan.k = axes.k[0];
    // The result lies row by row.
    if (plan.n.extent != one && plan.n.c != one)
      return;
    if (plan.m.extent != one && !rules.isAtLeast(plan.m.c, plan.n.extent))
      return;
    plan.resultStride = plan.m.extent == one ? plan.n.extent : plan.m.c;
    const auto a = stored(plan.k.extent, plan.k.a, plan.m.extent, plan.m.a, rules);
    const auto b = stored(plan.k.extent, plan.k.b, plan.n.extent, plan.n.b, rules);
    if (!a || !b)
      return;
    plan.a = *a;
    plan.b = *b;
    plan.rest = axes.batch;
    for (size_t i = 0; i < axes.m.size(); ++i)
      if (i != m)
        plan.rest.push_back(axes.m[i]);
    for (size_t i = 0; i < axes.n.size(); ++i)
      if (i != n)
        plan.rest.push_back(axes.n[i]);
    for (const Axis &axis : plan.rest)
      if (!rules.isAtLeast(axis.a, Number(0)) || !rules.isAtLeast(axis.b, Number(0)))
        return;
    const auto longest = std::ranges::max_element(plan.rest, {}, [&](const Axis &x) { return rules.most(x.extent); });
    if (longest != plan.rest.end()) {
      plan.batch = *longest;
      plan.rest.erase(longest);
    }
    plan.calls = 1;
    for (const Axis &axis : plan.rest)
      plan.calls *= rules.most(axis.extent);
    if (!best || plan.calls < best->calls)
      best = std::move(plan);
  }

  const ProductAxes<Number> &axes;
  const Rules &rules;
  std::optional<Plan<Number>> best;
};

} // namespace

// ---- Which nodes

codegen::Support supportsProduct(const MortiseNode &node, bool addsNarrowBias) {
  const MortiseType &type = *node.results[0]->type;
  const bool narrow = type.dtype == MORTISE_F32 || type.dtype == MORTISE_F16 || type.dtype == MORTISE_BF16;
  if (!narrow && type.dtype != MORTISE_F64)
    return {false, MORTISE_REASON_DTYPE,
            std::string("products are of f64, f32, f16 and bf16, found ") + dtypeName(type.dtype)};
  if (node.operand_count > 2 && node.operands[2]) {
    if (!narrow)
      return {false, MORTISE_REASON_DTYPE,
              std::string("the library adds no bias of ") + dtypeName(type.dtype) + ": use the decomposition"};
    if (type.dtype != MORTISE_F32 && !addsNarrowBias)
      return {false, MORTISE_REASON_OPTION,
              std::string("the option library_bias is off, so that the library adds no bias of ") +
                  dtypeName(type.dtype) + ": use the decomposition"};
  }
  for (size_t i = 0; i < node.operand_count; ++i) {
    if (!node.operands[i])
      continue;
    const MortiseType &operand = *node.operands[i]->type;
    if (operand.rank > 16)
      return {false, MORTISE_REASON_RANK, "at most 16 dimensions, found " + std::to_string(operand.rank)};
    for (const Dim &dim : dimsOf(operand))
      if (!dim.isValid())
        return {false, MORTISE_REASON_NEEDS_STATIC, "an extent's expression is none in " + typeString(operand)};
  }
  return {};
}

// The node that changes only where elements lie: the view of another value.
static const MortiseNode *viewOf(const MortiseValue &value) {
  const MortiseNode *node = value.producer;
  return node && has(*node, Trait::View) && node->operand_count == 1 && node->result_count == 1 ? node : nullptr;
}

// What an operand was before it was converted to f32, if it was f16 or bf16. NULL: it was not converted.
static const MortiseValue *narrowSource(const MortiseValue &operand) {
  const MortiseValue *value = &operand;
  while (const MortiseNode *view = viewOf(*value))
    value = view->operands[0];
  if (!value->producer || !isOp(*value->producer, Op::Convert))
    return nullptr;
  const MortiseValue *source = value->producer->operands[0];
  return source->type->dtype == MORTISE_F16 || source->type->dtype == MORTISE_BF16 ? source : nullptr;
}

int32_t narrowType(const MortiseNode &product) {
  if (product.results[0]->type->dtype != MORTISE_F32 || (product.operand_count > 2 && product.operands[2]))
    return 0;
  const MortiseValue *lhs = narrowSource(*product.operands[0]), *rhs = narrowSource(*product.operands[1]);
  return lhs && rhs && lhs->type->dtype == rhs->type->dtype ? lhs->type->dtype : 0;
}

bool CanonicalProducts::concern(const MortiseGraph &graph) const {
  return std::any_of(graph.nodes, graph.nodes + graph.node_count, [this](const MortiseNode *node) {
    return isCall(*node) && ((isOp(*node, Op::Dot) && !isReadable(*node)) || narrowType(*node));
  });
}

// The views between the conversion and the product, of the narrow type.
const MortiseValue *CanonicalProducts::narrowed(const MortiseValue &value, Drafts &drafts) {
  const MortiseNode *view = viewOf(value);
  if (!view)
    return value.producer->operands[0];
  if (const auto known = narrowViews.find(&value); known != narrowViews.end())
    return known->second;
  const MortiseValue *source = narrowed(*view->operands[0], drafts);
  return narrowViews[&value] = add(drafts, std::string(view->op), {source}, source->type->dtype, dimsOf(*value.type),
                                   {view->attributes, view->attributes + view->attribute_count});
}

void CanonicalProducts::transposeOperands(const MortiseNode &node, Drafts &drafts) {
  const Dimensions dims = dimensionsOf(node);
  const auto range = [](size_t first, size_t count) {
    std::vector<int64_t> list(count);
    std::iota(list.begin(), list.end(), static_cast<int64_t>(first));
    return list;
  };
  const size_t batch = dims.lhsBatch.size(), summed = dims.lhsContract.size();
  for (const size_t operand : {size_t{0}, size_t{1}}) {
    const auto rank = static_cast<size_t>(node.operands[operand]->type->rank);
    const std::vector<int64_t> &first = operand ? dims.rhsBatch : dims.lhsBatch,
                               &last = operand ? dims.rhsContract : dims.lhsContract;
    std::vector<int64_t> permutation = first;
    for (const std::vector<int64_t> &part : {restOf(static_cast<int64_t>(rank), first, last), last})
      permutation.insert(permutation.end(), part.begin(), part.end());
    const MortiseValue *before = drafts.back().operands[operand];
    const MortiseValue *turned = transposed(drafts, *before, permutation);
    drafts.back().operands[operand] = turned;
    for (const auto &[name, list] :
         {std::pair{operand ? "rhs_batch" : "lhs_batch", range(0, batch)},
          std::pair{operand ? "rhs_contract" : "lhs_contract", range(rank - summed, summed)}})
      for (const MortiseAttribute *&attribute : drafts.back().attributes)
        if (std::string_view(attribute->name) == name) {
          MortiseAttribute *changed = copyOf(*attribute);
          changed->i64s = keep(list);
          attribute = changed;
        }
  }
}

bool CanonicalProducts::changeNode(const MortiseNode &node, Drafts &drafts) {
  if (isCall(node) && narrowType(node))
    for (const size_t operand : {size_t{0}, size_t{1}})
      drafts.back().operands[operand] = narrowed(*node.operands[operand], drafts);
  if (isCall(node) && isOp(node, Op::Dot) && !isReadable(node))
    transposeOperands(node, drafts);
  origins.insert(origins.end(), drafts.size(), std::vector<uint32_t>{node.index});
  return true;
}

// ---- Axes

ProductAxes<Dim> axesOf(const MortiseNode &node, const View &lhs, const View &rhs) {
  const Dimensions dims = dimensionsOf(node);
  const View result = denseView(*node.results[0]);
  ProductAxes<Dim> axes;
  size_t at = 0; // among the result's dimensions
  const auto index = [](int64_t i) { return static_cast<size_t>(i); };
  for (size_t i = 0; i < dims.lhsBatch.size(); ++i, ++at)
    axes.batch.push_back({lhs.dims[index(dims.lhsBatch[i])], lhs.strides[index(dims.lhsBatch[i])],
                          rhs.strides[index(dims.rhsBatch[i])], result.strides[at]});
  for (const int64_t i : restOf(node.operands[0]->type->rank, dims.lhsBatch, dims.lhsContract))
    axes.m.push_back({lhs.dims[index(i)], lhs.strides[index(i)], 0, result.strides[at++]});
  for (const int64_t i : restOf(node.operands[1]->type->rank, dims.rhsBatch, dims.rhsContract))
    axes.n.push_back({rhs.dims[index(i)], 0, rhs.strides[index(i)], result.strides[at++]});
  for (size_t i = 0; i < dims.lhsContract.size(); ++i)
    axes.k.push_back({lhs.dims[index(dims.lhsContract[i])], lhs.strides[index(dims.lhsContract[i])],
                      rhs.strides[index(dims.rhsContract[i])], 0});
  return merged(axes);
}

bool fitsLibrary(const ProductAxes<Dim> &axes, std::span<const SymbolRange> ranges) {
  if (isEmpty(axes.batch) || isEmpty(axes.m) || isEmpty(axes.n) || isEmpty(axes.k))
    return true;
  const SymbolicRules rules{ranges};
  const auto plan = Planner(axes, rules).run();
  return plan && plan->calls <= mostCalls;
}

static constexpr double mostGroupRows = 4;
// The library's kernels for few rows take about so much longer than a generated one where the weights are small (H200:
// 5.7 us for 2048 x 2048 in bf16, 3.6). From the second row on, each element that is read costs a group as much as so
// many additions of f32, since it widens both factors, and the library, with tensor cores, next to nothing.
static constexpr double libraryNs = 2500, rowCost = 8;

bool suitsGroup(const MortiseNode &node, const View &lhs, const View &rhs, std::span<const SymbolRange> ranges,
                std::span<const int64_t> typical, double flops) {
  using Axis = ProductAxis<Dim>;
  const int32_t dtype = node.operands[0]->type->dtype;
  if (dtype != MORTISE_F32 && dtype != MORTISE_F16 && dtype != MORTISE_BF16)
    return false;
  const ProductAxes<Dim> axes = axesOf(node, lhs, rhs);
  if (axes.k.size() != 1)
    return false;
  const auto isWhole = [&, lanes = 128 / static_cast<int64_t>(dtypeBits(dtype))](const Dim &dim) {
    return knownDivisor(dim, ranges) % lanes == 0;
  };
  // `large`, `small`: of the two operands, the strides of the one that is read once, and of the other one.
  const auto fits = [&](const std::vector<Axis> &few, const std::vector<Axis> &many, Dim Axis::*large,
                        Dim Axis::*small) {
    double rows = 1, others = 1;
    bool isSure = true, isAligned = isWhole(axes.k[0].extent);
    const auto usual = [&](const Dim &extent) {
      const Result<int64_t> number = extent.evaluate(typical);
      return number ? static_cast<double>(*number) : mostGroupRows + 1;
    };
    const double terms = usual(axes.k[0].extent);
    const auto add = [&](const Axis &axis, bool isRow) {
      (isRow ? rows : others) *= usual(axis.extent);
      isSure &= !isRow || axis.extent.isNumber();
      isAligned &= isWhole(axis.*large) && isWhole(axis.*small);
    };
    for (const Axis &axis : few)
      add(axis, true);
    for (const Axis &axis : many)
      add(axis, false);
    for (const Axis &axis : axes.batch)
      add(axis, axis.*large == Dim(0));
    return rows <= (isSure ? mostGroupRows : 1) && rows < others && isAligned && axes.k[0].*large == Dim(1) &&
           axes.k[0].*small == Dim(1) && (rows - 1) * others * terms * rowCost <= libraryNs * 1e-9 * flops;
  };
  return isWhole(lhs.offset) && isWhole(rhs.offset) &&
         (fits(axes.m, axes.n, &Axis::b, &Axis::a) || fits(axes.n, axes.m, &Axis::a, &Axis::b));
}

// ---- Numbers

static Result<std::vector<ProductAxis<int64_t>>> evaluate(const std::vector<ProductAxis<Dim>> &axes,
                                                          std::span<const int64_t> symbols) {
  std::vector<ProductAxis<int64_t>> numbers;
  for (const ProductAxis<Dim> &axis : axes) {
    const Dim dims[] = {axis.extent, axis.a, axis.b, axis.c};
    Result<std::vector<int64_t>> found = mortise::evaluate(std::span<const Dim>(dims), symbols);
    if (!found)
      return found.error();
    numbers.push_back({(*found)[0], (*found)[1], (*found)[2], (*found)[3]});
  }
  return numbers;
}

static double countOf(const std::vector<ProductAxis<int64_t>> &axes) {
  double count = 1;
  for (const ProductAxis<int64_t> &axis : axes)
    count *= static_cast<double>(axis.extent);
  return count;
}

static ProductCall callOf(const ProductShape &shape, const Plan<int64_t> &plan) {
  // The library's columns are our rows.
  ProductCall call;
  call.dtype = shape.dtype;
  call.resultDtype = shape.resultDtype;
  call.tensorFloats = shape.tensorFloats;
  call.hasBias = shape.hasBias;
  call.hasAddend = shape.hasAddend;
  call.rows = plan.n.extent;
  call.columns = plan.m.extent;
  call.terms = plan.k.extent;
  call.batch = plan.batch.extent;
  call.firstTransposed = plan.b.termsFirst;
  call.secondTransposed = !plan.a.termsFirst;
  call.firstStride = plan.b.stride;
  call.secondStride = plan.a.stride;
  call.resultStride = plan.resultStride;
  if (call.batch > 1) {
    call.firstStep = plan.batch.b;
    call.secondStep = plan.batch.a;
    call.resultStep = plan.batch.c;
  }
  return call;
}

Result<ProductNumbers> numbersOf(const ProductShape &shape, ProductLibrary &library, std::span<const int64_t> symbols) {
  ProductAxes<int64_t> axes;
  for (const auto &[from, to] : {std::pair{&shape.axes.batch, &axes.batch}, std::pair{&shape.axes.m, &axes.m},
                                 std::pair{&shape.axes.n, &axes.n}, std::pair{&shape.axes.k, &axes.k}}) {
    auto found = evaluate(*from, symbols);
    if (!found)
      return found.error();
    *to = std::move(*found);
  }
  const Dim dims[] = {shape.aOffset, shape.bOffset, shape.biasOffset, shape.addendOffset};
  const auto offsets = mortise::evaluate(std::span<const Dim>(dims), symbols);
  if (!offsets)
    return offsets.error();
  const auto size = static_cast<int64_t>(dtypeBits(shape.dtype) / 8),
             resultSize = static_cast<int64_t>(dtypeBits(shape.resultDtype) / 8);
  const auto bytes = [&](int64_t elements) { return static_cast<uint64_t>(elements * size); };
  const auto resultBytes = [&](int64_t elements) { return static_cast<uint64_t>(elements * resultSize); };
  const double batch = countOf(axes.batch), m = countOf(axes.m), n = countOf(axes.n), k = countOf(axes.k);
  ProductNumbers numbers;
  if (batch * m * n == 0)
    return numbers;
  const auto text = [](double count) { return std::to_string(static_cast<int64_t>(count)); };
  numbers.extents = " " + (batch == 1 ? "" : text(batch) + "x") + text(m) + "x" + text(k) + "x" + text(n);
  numbers.flops = 2 * batch * m * n * k;
  numbers.bytes =
      batch * (m * k + k * n) * static_cast<double>(size) +
      (batch * m * n * (shape.hasAddend ? 2 : 1) + (shape.hasBias ? n : 0)) * static_cast<double>(resultSize);
  numbers.bias = resultBytes((*offsets)[2]);
  numbers.addend = resultBytes((*offsets)[3]);
  numbers.rowBytes = static_cast<uint64_t>(n) * static_cast<uint64_t>(resultSize);
  numbers.rowCount = static_cast<uint64_t>(batch * m);
  if (k == 0)
    return numbers;
  const NumericRules rules;
  const ProductAxes<int64_t> joined = merged(axes); // what happens to be contiguous now
  std::optional<Plan<int64_t>> plan = Planner(joined, rules).run();
  if (!plan) {
    for (auto *list : {&axes.batch, &axes.m, &axes.n, &axes.k})
      std::erase_if(*list, [](const ProductAxis<int64_t> &axis) { return axis.extent == 1; });
    plan = Planner(axes, rules).run();
  }
  if (!plan)
    return Error{MORTISE_INTERNAL, "the library cannot read a product's operands for these values of the symbols, as "
                                   "it could for others; please report this graph"};
  if (plan->batch.extent > INT32_MAX)
    return Error{MORTISE_UNSUPPORTED, "expected a batch of at most 2147483647 products, found " +
                                          std::to_string(plan->batch.extent) + "; run the graph on smaller tensors"};
  numbers.parts = {{bytes((*offsets)[0]), bytes((*offsets)[1]), 0}};
  for (const ProductAxis<int64_t> &axis : plan->rest) {
    const std::vector<ProductNumbers::Part> before = std::move(numbers.parts);
    numbers.parts.clear();
    for (const ProductNumbers::Part &part : before)
      for (int64_t i = 0; i < axis.extent; ++i)
        numbers.parts.push_back(
            {part.a + bytes(i * axis.a), part.b + bytes(i * axis.b), part.c + resultBytes(i * axis.c)});
  }
  constexpr MortiseAddress aligned = 256; // as the starts of values usually are
  const ProductNumbers::Part &first = numbers.parts[0];
  auto prepared = library.prepare(callOf(shape, *plan), {aligned + first.b, aligned + first.a, aligned + first.c,
                                                         aligned + numbers.bias, aligned + numbers.addend + first.c});
  if (!prepared)
    return prepared.error();
  numbers.library = std::move(*prepared);
  numbers.workspaceBytes = numbers.library->workspaceBytes();
  return numbers;
}

// ---- Calls

// Sums without terms are 0, or the bias: its copies double from row to row. No such product has an addend.
static Result<void> queueEmptySums(Stream &stream, const ProductNumbers &numbers, const ProductMemory &memory) {
  Device &device = stream.device;
  const uint64_t bytes = numbers.rowBytes * numbers.rowCount;
  if (!memory.bias)
    return device.check(device.driver.memsetD8Async(memory.c, 0, bytes, stream.handle), "cuMemsetD8Async");
  const auto copy = [&](MortiseAddress source, uint64_t at, uint64_t count) {
    return device.check(device.driver.memcpyDtoDAsync(memory.c + at, source, count, stream.handle),
                        "cuMemcpyDtoDAsync");
  };
  Result<void> done = copy(memory.bias + numbers.bias, 0, numbers.rowBytes);
  for (uint64_t there = numbers.rowBytes; done && there < bytes; there *= 2)
    done = copy(memory.c, there, std::min(there, bytes - there));
  return done;
}

Result<void> queueProduct(Stream &stream, const ProductNumbers &numbers, const ProductMemory &memory) {
  if (!numbers.library)
    return numbers.rowCount ? queueEmptySums(stream, numbers, memory) : Result<void>();
  for (const ProductNumbers::Part &part : numbers.parts) {
    const ProductAddresses addresses{memory.b + part.b, memory.a + part.a, memory.c + part.c,
                                     memory.bias + numbers.bias, memory.addend + numbers.addend + part.c};
    Result<void> queued = numbers.library->enqueue(addresses, memory.workspace, stream.handle);
    if (queued)
      continue;
    return libraryError(stream, queued.error());
  }
  return {};
}

} // namespace mortise::cuda
