// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of one lhs with several constant matrices become one product with the matrices side by side; each result is
// a column slice of its result. Only the plain case: one row axis, at most a bias.
#include "product.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace mortise::cpu {

using memory = dnnl::memory;

using Sibling = MergedProduct::Part;

// A row whose place and stride do not depend on symbols.
static bool isNumber(const View &view) { return view.offset.isNumber() && view.strides.back().isNumber(); }

static std::optional<Sibling> readSibling(Claims &claims, const MortiseNode &node) {
  if (claims.isTaken(node) || !(isOp(node, "mortise.dot") || isOp(node, "mortise.linear")))
    return std::nullopt;
  Sibling sibling{readProduct(claims, node), {}};
  Product &product = sibling.product;
  const MortiseType &lhs = claims.facts.type(product.lhs), &rhs = claims.facts.type(product.rhs);
  if (!claims.facts.isConstant(product.rhs) || claims.facts.isConstant(product.lhs) || !product.lhsBatch.empty() ||
      product.lhsContract.size() != 1 || product.lhsContract[0] != lhs.rank - 1 || rhs.rank != 2 || lhs.rank < 2 ||
      !isStatic(rhs) || elementCount(rhs) == 0 || elementCount(claims.facts.extents(product.lhs)) == Dim(0) ||
      product.dtype != MORTISE_F32)
    return std::nullopt;
  product.a = claims.viewOf(product.lhs);
  product.b = claims.viewOf(product.rhs);
  product.c = claims.facts.denseView(product.result);
  if (repeats(product.a, {}) || !nests(product.b, claims.facts.sample, claims.facts.ranges))
    return std::nullopt;
  findAxes(product, claims.facts.sample);
  if (product.m.size() > 1 || product.n.size() != 1 || product.k.size() != 1 || product.k[0].a != 1)
    return std::nullopt;
  product.nodes = {node.index};
  if (node.operand_count > 2 && node.operands[2]) {
    const View &view = claims.viewOf(node.operands[2]->index);
    sibling.bias.other = view.base;
    sibling.bias.view = view;
  } else if (Epilogue epilogue = findEpilogue(claims, product.result, product.dtype, true); !epilogue.post.empty()) {
    sibling.bias = epilogue.post[0];
    product.nodes.insert(product.nodes.end(), epilogue.nodes.begin(), epilogue.nodes.end());
    product.target = epilogue.target;
  }
  if (sibling.bias.other != none && (!claims.facts.isConstant(sibling.bias.other) ||
                                     sibling.bias.view.strides.back() == 0 || !isNumber(sibling.bias.view)))
    return std::nullopt;
  if (claims.isReadByUnit(product.target)) // by a gradient, which was claimed before
    return std::nullopt;
  // What could be fused behind it is worth more than the merge.
  if (claims.facts.isOutput(product.target))
    return std::nullopt;
  if (!findActivation(claims, product.target).post.empty())
    return std::nullopt;
  return sibling;
}

static uint32_t throughReshapes(const Claims &claims, uint32_t value) {
  for (const MortiseNode *node = claims.facts.value(value).producer; node && isOp(*node, "mortise.reshape");
       node = claims.facts.value(value).producer)
    value = node->operands[0]->index;
  return value;
}

// The matrices as the rows of one [columns, depth] matrix, then in the library's layout; the biases in one row.
static std::pair<Operand, Operand> bindMerged(StepBuilder &builder, const std::vector<Sibling> &siblings,
                                              const LibraryProduct &made, int64_t columns, int64_t depth, bool biased) {
  bool before = std::exchange(builder.binding, true);
  Operand rows{builder.keep(static_cast<size_t>(columns * depth) * 4), 0, true}, bias;
  if (biased)
    bias = {builder.keep(static_cast<size_t>(columns) * 4), 0, true};
  int64_t at = 0;
  for (const Sibling &sibling : siblings) {
    FixedProduct fixed = fix(sibling.product, builder.values, false);
    int64_t width = fixed.n[0].extent;
    Operand block = rows;
    block.offset = at * depth * 4;
    builder.reorder("weights side by side",
                    memory::desc({depth, width}, memory::data_type::f32, memory::dims{fixed.k[0].b, fixed.n[0].b}),
                    builder.read(sibling.product.b.base, fixed.b),
                    memory::desc({depth, width}, memory::data_type::f32, memory::dims{1, depth}), block);
    if (sibling.bias.other != none) {
      Operand part = bias;
      part.offset = at * 4;
      memory::dim stride = builder.values(sibling.bias.view.strides.back());
      builder.reorder("bias", memory::desc({width}, memory::data_type::f32, memory::dims{stride}),
                      builder.read(sibling.bias.other, builder.values(sibling.bias.view.offset)),
                      memory::desc({width}, memory::data_type::f32, memory::dims{1}), part);
    }
    at += width;
  }
  builder.binding = before;
  rows.written = bias.written = false;
  if (made.packB)
    rows = packWeights(builder, made, rows);
  return {rows, bias};
}

Result<void> addSteps(StepBuilder &builder, const Unit &, const MergedProduct &merged) {
  const std::vector<Sibling> &siblings = merged.parts;
  const Product &whole = merged.whole;
  const bool biased = merged.biased;
  FixedProduct fixed = fix(whole, builder.values, false);
  if (fixed.flops == 0) { // no rows
    for (const Sibling &sibling : siblings)
      builder.write(sibling.product.target);
    return {};
  }
  LibraryProduct made = askLibrary(whole, fixed, memory::data_type::f32, false, biased);
  if (!made.ok)
    return Error{MORTISE_NEEDS_STATIC, "oneDNN takes no \"" + describe(whole, fixed) +
                                           "\" on this machine, though it took others of its kind"};
  int64_t columns = fixed.n[0].extent;
  auto [weights, bias] = bindMerged(builder, siblings, made, columns, fixed.k[0].extent, biased);
  int64_t rows = fixed.m.empty() ? 1 : fixed.m[0].extent, at = 0;
  BufferId result = builder.allocate(static_cast<size_t>(rows * columns) * 4);
  for (const Sibling &sibling : siblings) {
    builder.memoryOf(sibling.product.target).dense = result;
    builder.memoryOf(sibling.product.target).offset = at * 4;
    at += builder.values(sibling.product.n[0].extent);
  }
  std::vector<int> arguments = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
  std::vector<memory::desc> layouts = {made.a, made.b, made.c};
  std::vector<Operand> operands = {builder.read(whole.a.base, fixed.a), weights, {result, 0, true}};
  if (biased) {
    arguments.push_back(DNNL_ARG_BIAS);
    layouts.push_back(made.bias);
    operands.push_back(bias);
  }
  Step &step = builder.addLibraryStep(describe(whole, fixed) + " (" + std::to_string(siblings.size()) +
                                          " side by side)" + (biased ? " + bias" : ""),
                                      "onednn.matmul", made.description, arguments, layouts, operands);
  step.nodes = whole.nodes;
  step.flops = fixed.flops;
  return {};
}

// A value with its own extents in rows of `columns` elements, of which it takes `width`; nullopt when its innermost
// dimensions are not just that.
static std::optional<View> columnSlice(View view, const Dim &width, const Dim &columns) {
  Dim inner(1), stride(1);
  bool rows = false;
  for (size_t i = view.dims.size(); i-- > 0;) {
    if (!rows && inner == width && !(view.dims[i] == 1)) {
      rows = true;
      stride = columns;
    }
    view.strides[i] = stride;
    stride = stride * view.dims[i];
    inner = rows ? inner : inner * view.dims[i];
  }
  if (!rows && !(inner == width))
    return std::nullopt;
  return view;
}

static void claimSiblings(Claims &claims, std::vector<Sibling> siblings) {
  Product whole = siblings[0].product;
  Dim columns(0), depth = whole.k[0].extent;
  bool biased = false;
  whole.nodes.clear();
  for (Sibling &sibling : siblings) {
    columns += sibling.product.n[0].extent;
    biased |= sibling.bias.other != none;
    whole.nodes.insert(whole.nodes.end(), sibling.product.nodes.begin(), sibling.product.nodes.end());
  }
  std::sort(whole.nodes.begin(), whole.nodes.end());
  whole.n = {{columns, 0, depth, 1}};
  whole.k[0].b = 1;
  if (!whole.m.empty())
    whole.m[0].c = columns;
  whole.post.clear();
  whole.b.offset = whole.c.offset = 0;
  if (!askLibrary(whole, fix(whole, claims.facts.sample, false), memory::data_type::f32, false, biased).ok)
    return; // each is claimed on its own
  std::vector<View> slices;
  for (const Sibling &sibling : siblings) {
    std::optional<View> slice =
        columnSlice(claims.facts.denseView(sibling.product.target), sibling.product.n[0].extent, columns);
    if (!slice)
      return;
    slices.push_back(std::move(*slice));
  }
  Unit unit;
  unit.nodes = whole.nodes;
  unit.reads = {whole.a.base};
  for (size_t i = 0; i < siblings.size(); ++i) {
    const Sibling &sibling = siblings[i];
    claims.layout.setRoot(sibling.product.target, slices[i]);
    unit.reads.push_back(sibling.product.b.base);
    if (sibling.bias.other != none)
      unit.reads.push_back(sibling.bias.other);
    unit.writes.push_back(sibling.product.target);
  }
  for (uint32_t node : whole.nodes)
    claims.take(*claims.facts.graph.nodes[node]);
  unit.work = MergedProduct{std::move(siblings), std::move(whole), biased};
  claims.units.push_back(std::move(unit));
}

Result<void> claimMergedProducts(Claims &claims) {
  if (!claims.facts.options.packWeights)
    return {};
  std::map<uint32_t, std::vector<uint32_t>> byLhs;
  for (size_t i = 0; i < claims.facts.graph.node_count; ++i)
    if (const MortiseNode &node = *claims.facts.graph.nodes[i];
        isOp(node, "mortise.dot") || isOp(node, "mortise.linear"))
      byLhs[throughReshapes(claims, node.operands[0]->index)].push_back(node.index);
  std::vector<std::vector<uint32_t>> families;
  for (auto &[lhs, nodes] : byLhs)
    if (nodes.size() > 1)
      families.push_back(std::move(nodes));
  // In graph order: where a family stores decides how those after it read.
  std::sort(families.begin(), families.end());
  for (const std::vector<uint32_t> &family : families) {
    std::vector<Sibling> siblings;
    for (uint32_t node : family)
      if (std::optional<Sibling> sibling = readSibling(claims, *claims.facts.graph.nodes[node]))
        if (siblings.empty() ||
            (siblings[0].product.a.base == sibling->product.a.base &&
             siblings[0].product.a.offset == sibling->product.a.offset &&
             siblings[0].product.m.size() == sibling->product.m.size() &&
             (siblings[0].product.m.empty() || (siblings[0].product.m[0].a == sibling->product.m[0].a &&
                                                siblings[0].product.m[0].extent == sibling->product.m[0].extent))))
          siblings.push_back(std::move(*sibling));
    if (siblings.size() > 1)
      claimSiblings(claims, std::move(siblings));
  }
  return {};
}

} // namespace mortise::cpu
