// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products by oneDNN: operands are read and results written through strides, so that transposes around attention cost
// nothing.
#include "product.hpp"

#include <algorithm>
#include <numeric>

namespace mortise::cpu {

using memory = dnnl::memory;

// ---- Reading the node

Product readProduct(const Claims &claims, const MortiseNode &node) {
  Product product;
  product.lhs = node.operands[0]->index;
  product.rhs = node.operands[1]->index;
  product.result = product.target = node.results[0]->index;
  product.dtype = node.results[0]->type->dtype;
  product.weights = claims.facts.isConstant(product.rhs) && claims.facts.options.packWeights;
  if (isOp(node, "mortise.linear")) {
    product.lhsContract = {node.operands[0]->type->rank - 1};
    product.rhsContract = {intAttribute(node, "weight_transposed") ? 0 : 1};
    return product;
  }
  auto copy = [&](const char *name) {
    std::span<const int64_t> found = intsAttribute(node, name);
    return std::vector<int64_t>(found.begin(), found.end());
  };
  product.lhsBatch = copy("lhs_batch");
  product.rhsBatch = copy("rhs_batch");
  product.lhsContract = copy("lhs_contract");
  product.rhsContract = copy("rhs_contract");
  return product;
}

static bool contains(const std::vector<int64_t> &list, int64_t item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

void findAxes(Product &product, const Values &sample) {
  std::vector<SymbolicAxis> batch, m, n, k;
  size_t c = 0;
  for (size_t i = 0; i < product.lhsBatch.size(); ++i, ++c)
    batch.push_back({product.a.dims[product.lhsBatch[i]], product.a.strides[product.lhsBatch[i]],
                     product.b.strides[product.rhsBatch[i]], product.c.strides[c]});
  for (int64_t i = 0; i < static_cast<int64_t>(product.a.dims.size()); ++i)
    if (!contains(product.lhsBatch, i) && !contains(product.lhsContract, i))
      m.push_back({product.a.dims[i], product.a.strides[i], 0, product.c.strides[c++]});
  for (int64_t i = 0; i < static_cast<int64_t>(product.b.dims.size()); ++i)
    if (!contains(product.rhsBatch, i) && !contains(product.rhsContract, i))
      n.push_back({product.b.dims[i], 0, product.b.strides[i], product.c.strides[c++]});
  for (size_t i = 0; i < product.lhsContract.size(); ++i)
    k.push_back({product.a.dims[product.lhsContract[i]], product.a.strides[product.lhsContract[i]],
                 product.b.strides[product.rhsContract[i]], 0});
  product.batch = mergeAxes(std::move(batch), sample);
  product.m = mergeAxes(std::move(m), sample);
  product.n = mergeAxes(std::move(n), sample);
  product.k = mergeAxes(std::move(k), sample);
}

FixedProduct fix(const Product &product, const Values &values, bool merge) {
  FixedProduct fixed;
  fixed.a = values(product.a.offset);
  fixed.b = values(product.b.offset);
  fixed.c = values(product.c.offset);
  fixed.flops = 2;
  for (auto [from, to] : {std::pair{&product.batch, &fixed.batch}, std::pair{&product.m, &fixed.m},
                          std::pair{&product.n, &fixed.n}, std::pair{&product.k, &fixed.k}}) {
    for (const SymbolicAxis &axis : *from) {
      to->push_back({values(axis.extent), values(axis.a), values(axis.b), values(axis.c)});
      fixed.flops *= static_cast<double>(to->back().extent);
    }
    if (merge)
      *to = mergeAxes(std::move(*to));
  }
  const std::vector<int64_t> dims = values(product.c.dims), strides = values(product.c.strides);
  const size_t m = product.lhsBatch.size(), n = product.a.dims.size() - product.lhsContract.size();
  for (auto [first, end] : {std::pair{size_t(0), m}, std::pair{m, n}, std::pair{n, dims.size()}}) {
    int64_t outer = INT64_MAX;
    for (size_t i = first; i < std::min(end, dims.size()); ++i)
      if (dims[i] != 1) {
        fixed.inOrder &= strides[i] <= outer;
        outer = strides[i];
      }
  }
  for (const PostOp &post : product.post)
    fixed.post.push_back(post.other == none ? FixedView{} : values(post.view));
  return fixed;
}

bool hasTerms(const Claims &claims, const Product &product) {
  for (const SymbolicAxis &axis : product.k)
    if (!claims.facts.isPositive(axis.extent))
      return false;
  return true;
}

bool repeats(const View &view, const std::vector<int64_t> &batch) {
  for (size_t i = 0; i < view.dims.size(); ++i)
    if (view.dims[i].number().value_or(2) > 1 && view.strides[i] == 0 && !contains(batch, static_cast<int64_t>(i)))
      return true;
  return false;
}

// ---- Steps

std::string describe(const Product &product, const FixedProduct &fixed) {
  auto extent = [](const std::vector<Axis> &axes) {
    int64_t count = 1;
    for (const Axis &axis : axes)
      count *= axis.extent;
    return std::to_string(count);
  };
  std::string name = "matmul ";
  if (!fixed.batch.empty())
    name += extent(fixed.batch) + "x";
  name += extent(fixed.m) + "x" + extent(fixed.k) + "x" + extent(fixed.n);
  for (const PostOp &post : product.post)
    name += " + " + std::string(post.op);
  return name;
}

Operand packWeights(StepBuilder &builder, const LibraryProduct &made, Operand source) {
  Operand packed{builder.keep(made.b.get_size()), 0, false};
  bool before = std::exchange(builder.binding, true);
  builder.reorder("weights", made.sourceB, source, made.b, packed);
  builder.binding = before;
  return packed;
}

static Operand copied(StepBuilder &builder, const char *what, const memory::desc &from, Operand source,
                      const memory::desc &to) {
  Operand target{builder.allocate(to.get_size()), 0, true};
  builder.reorder(what, from, source, to, target);
  target.written = false;
  return target;
}

static void addLibrarySteps(StepBuilder &builder, const Product &product, const FixedProduct &fixed,
                            const LibraryProduct &made) {
  Operand a = builder.read(product.a.base, fixed.a), b = builder.read(product.b.base, fixed.b);
  if (made.swapped)
    std::swap(a, b);
  if (made.packA)
    a = copied(builder, "operand", made.sourceA, a, made.a);
  if (made.weights && made.packB)
    b = packWeights(builder, made, b);
  else if (made.packB)
    b = copied(builder, "operand", made.sourceB, b, made.b);
  std::vector<int> arguments = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
  std::vector<memory::desc> layouts = {made.a, made.b, made.c};
  std::vector<Operand> operands = {a, b, {}};
  size_t binary = 0;
  for (size_t i = 0; i < product.post.size(); ++i)
    if (const PostOp &post = product.post[i]; post.other != none && i == 0 && made.rowBias) {
      arguments.push_back(DNNL_ARG_BIAS);
      layouts.push_back(made.bias);
      operands.push_back(builder.read(post.other, fixed.post[i].offset));
    } else if (post.other != none) {
      int position = static_cast<int>(i) - (made.rowBias ? 1 : 0);
      arguments.push_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(position) | DNNL_ARG_SRC_1);
      layouts.push_back(made.others[binary++]);
      operands.push_back(builder.read(post.other, fixed.post[i].offset));
    }
  Operand target = builder.write(product.target);
  target.offset = fixed.c * static_cast<int64_t>(dtypeBits(product.dtype) / 8);
  operands[2] = made.packC ? Operand{builder.allocate(made.c.get_size()), 0, true} : target;
  bool reference = std::string_view(made.description.impl_info_str()).starts_with("ref");
  Step &step = builder.addLibraryStep(describe(product, fixed), reference ? "onednn.matmul.plain" : "onednn.matmul",
                                      made.description, arguments, layouts, operands);
  step.nodes = product.nodes;
  step.flops = fixed.flops;
  if (made.packC) {
    operands[2].written = false;
    builder.reorder("result", made.c, operands[2], made.targetC, target);
  }
}

Step productStep(StepBuilder &builder, const Product &product, const FixedProduct &fixed, const char *lowering) {
  Step step;
  step.name = describe(product, fixed);
  step.lowering = lowering;
  step.nodes = product.nodes;
  step.flops = fixed.flops;
  Operand target = builder.write(product.target);
  target.offset = fixed.c * static_cast<int64_t>(dtypeBits(product.dtype) / 8);
  step.operands = {builder.read(product.a.base, fixed.a), builder.read(product.b.base, fixed.b), target};
  return step;
}

static void addLoop(StepBuilder &builder, const Product &product, const FixedProduct &fixed) {
  ProductLoop loop{product.dtype, fixed.batch, fixed.m, fixed.n, fixed.k, false};
  for (const Axis &axis : fixed.k)
    loop.empty |= axis.extent == 0;
  Step step = productStep(builder, product, fixed, "cpu.product_loop");
  step.action = NativeLoop{productLoop(std::move(loop)), {}};
  builder.addStep(std::move(step));
}

Result<void> addSteps(StepBuilder &builder, const Unit &, const Product &product) {
  if (builder.elements(product.result) == 0) {
    builder.write(product.target);
    return {};
  }
  if (FixedProduct fixed = fix(product, builder.values, true); fixed.flops != 0 && hasFewRows(product, fixed)) {
    addFewRows(builder, product, fixed);
    return {};
  }
  // With the axes merged that happen to be contiguous now; if that is not to the library's liking, as they were
  // claimed.
  for (bool merge : {true, false}) {
    FixedProduct fixed = fix(product, builder.values, merge);
    if (fixed.flops == 0 || !product.byLibrary)
      break;
    if (LibraryProduct made = chooseLibrary(product, fixed, !merge); made.ok) {
      addLibrarySteps(builder, product, fixed, made);
      return {};
    }
  }
  FixedProduct fixed = fix(product, builder.values, true);
  if (!product.post.empty())
    return Error{MORTISE_NEEDS_STATIC, "oneDNN takes no \"" + describe(product, fixed) +
                                           "\" on this machine, though it took others of its kind"};
  addLoop(builder, product, fixed);
  return {};
}

// The library takes the product for the sample's values, and addProduct will ask it the same for others. keepPostOps:
// its plain loops count as well, because the product has post-ops that cannot be left out.
static bool fitsLibrary(const Claims &claims, const Product &product, bool keepPostOps = false) {
  if (!suitsLibrary(product))
    return false;
  FixedProduct fixed = fix(product, claims.facts.sample, !keepPostOps);
  return fixed.flops != 0 && chooseLibrary(product, fixed, keepPostOps).ok;
}

static void addProduct(Claims &claims, Product product) {
  for (uint32_t node : product.nodes)
    claims.take(*claims.facts.graph.nodes[node]);
  std::sort(product.nodes.begin(), product.nodes.end());
  Unit unit;
  unit.nodes = product.nodes;
  unit.reads = {product.a.base, product.b.base};
  for (const PostOp &post : product.post)
    if (post.other != none)
      unit.reads.push_back(post.other);
  unit.writes = {product.target};
  product.byLibrary =
      fitsLibrary(claims, product) || (!product.post.empty() && fitsLibrary(claims, product, /*keepPostOps=*/true));
  unit.work = std::move(product);
  claims.units.push_back(std::move(unit));
}

// ---- Claims

void storeThroughViews(Claims &claims, uint32_t &target, View &stored, std::vector<uint32_t> &nodes) {
  std::vector<const MortiseNode *> chain;
  uint32_t current = target;
  bool transposed = false;
  while (const MortiseNode *user = claims.facts.soleUser(current)) {
    if (claims.isTaken(*user) || !(isOp(*user, "mortise.transpose") || isOp(*user, "mortise.reshape")))
      break;
    transposed |= isOp(*user, "mortise.transpose");
    chain.push_back(user);
    current = user->results[0]->index;
  }
  while (!chain.empty()) {
    uint32_t end = chain.back()->results[0]->index;
    // An output that would be copied; but a transpose of extents of 1 copies nothing: that is all of the product's own
    // memory. And who reads the output besides does so through its view of the result, which must then be written.
    const View &view = claims.viewOf(end);
    bool whole =
        isDense(view) && elementCount(claims.facts.extents(end)) == elementCount(claims.facts.extents(view.base));
    bool copy = view.base == end || (claims.facts.isOutput(end) && !claims.facts.isRead(end) && transposed && !whole);
    if (copy) {
      std::optional<View> back = claims.facts.denseView(end);
      for (size_t i = chain.size(); i-- > 0 && back;)
        back = viewBack(*chain[i], *back, claims.facts.extents(chain[i]->operands[0]->index));
      if (back)
        back = reshapeView(*back, stored.dims);
      // The innermost dimension stays contiguous, or the library would need a copy after all.
      if (back && (back->strides.empty() || back->dims.back() == 1 || back->strides.back() == 1)) {
        back->base = target = end;
        stored = std::move(*back);
        for (const MortiseNode *node : chain)
          nodes.push_back(node->index);
        return;
      }
    }
    chain.pop_back();
  }
}

// The product alone, with linear's own bias, which comes first and cannot be left out.
static Result<Product> readOne(Claims &claims, const MortiseNode &node) {
  Product product = readProduct(claims, node);
  product.nodes = {node.index};
  product.a = claims.viewOf(product.lhs);
  product.b = claims.viewOf(product.rhs);
  if (repeats(product.a, product.lhsBatch))
    product.a = claims.facts.denseView(product.lhs);
  if (repeats(product.b, product.rhsBatch))
    product.b = claims.facts.denseView(product.rhs);
  product.c = claims.facts.denseView(product.result);
  findAxes(product, claims.facts.sample);
  for (auto [view, value] : {std::pair{&product.a, product.lhs}, std::pair{&product.b, product.rhs}})
    if (!fitsLibrary(claims, product) && view->base != value) {
      Product dense = product;
      (view == &product.a ? dense.a : dense.b) = claims.facts.denseView(value);
      findAxes(dense, claims.facts.sample);
      if (fitsLibrary(claims, dense))
        product = std::move(dense);
    }
  if (node.operand_count < 3 || !node.operands[2])
    return product;
  PostOp bias;
  bias.node = node.index;
  bias.op = opName(node);
  bias.algorithm = dnnl::algorithm::binary_add;
  View view = claims.viewOf(node.operands[2]->index);
  if (!(view.strides[0] == 1) && !(view.dims[0] == 1))
    view = claims.facts.denseView(node.operands[2]->index);
  bias.other = view.base;
  bias.view = {view.base, view.offset, product.c.dims, std::vector<Dim>(product.c.dims.size(), 0)};
  bias.view.strides.back() = view.strides[0];
  product.post.push_back(std::move(bias));
  if (fitsLibrary(claims, product))
    return product;
  // Rows that do not merge: have them made dense.
  product.a = claims.facts.denseView(product.lhs);
  product.b = claims.facts.denseView(product.rhs);
  findAxes(product, claims.facts.sample);
  if (fitsLibrary(claims, product) || fitsLibrary(claims, product, /*keepPostOps=*/true))
    return product;
  return Error{MORTISE_INTERNAL, "oneDNN takes no linear of " + typeString(claims.facts.type(product.lhs)) + " by " +
                                     typeString(claims.facts.type(product.rhs)) + " on this machine; please report it"};
}

static Result<void> claimOne(Claims &claims, const MortiseNode &node) {
  Result<Product> read = readOne(claims, node);
  if (!read)
    return read.error();
  Product product = std::move(*read);
  Epilogue epilogue;
  epilogue.target = product.result;
  if (libraryType(product.dtype) != memory::data_type::undef && hasTerms(claims, product) &&
      fix(product, claims.facts.sample, false).flops > 0 &&
      !hasFewRows(product, fix(product, claims.facts.sample, true)))
    epilogue = findEpilogue(claims, product.result, product.dtype, false);
  size_t own = product.post.size();
  product.post.insert(product.post.end(), epilogue.post.begin(), epilogue.post.end());
  // As much of the epilogue as the library takes.
  for (size_t fused = epilogue.post.size();; --fused) {
    product.post.resize(own + fused);
    if (fused != 0 && product.post.back().continues)
      continue;
    if (fused == 0 || fitsLibrary(claims, product))
      break;
  }
  if (product.post.size() > own) {
    const uint32_t last = product.post.back().node;
    for (uint32_t fused : epilogue.nodes) {
      product.nodes.push_back(fused);
      if (fused == last)
        break;
    }
    product.target = claims.facts.graph.nodes[last]->results[0]->index;
    product.c.base = product.target;
  }
  Product plain = product;
  storeThroughViews(claims, product.target, product.c, product.nodes);
  if (product.target != plain.target) {
    findAxes(product, claims.facts.sample);
    bool empty = fix(product, claims.facts.sample, false).flops == 0;
    if (!empty && !fitsLibrary(claims, product))
      product = std::move(plain);
  }
  addProduct(claims, std::move(product));
  return {};
}

Result<void> claimProducts(Claims &claims) {
  for (size_t i = 0; i < claims.facts.graph.node_count; ++i) {
    const MortiseNode &node = *claims.facts.graph.nodes[i];
    if (!claims.isTaken(node) && (isOp(node, "mortise.dot") || isOp(node, "mortise.linear")))
      if (Result<void> result = claimOne(claims, node); !result)
        return result;
  }
  return {};
}

} // namespace mortise::cpu
