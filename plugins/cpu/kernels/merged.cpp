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

struct Sibling {
  Product product;
  PostOp bias; // `other` is none without one
};

// A row whose place and stride do not depend on symbols.
static bool isNumber(const View &view) { return view.offset.isNumber() && view.strides.back().isNumber(); }

static std::optional<Sibling> readSibling(Scheduler &scheduler, const MortiseNode &node) {
  if (scheduler.isTaken(node) || !(isOp(node, "mortise.dot") || isOp(node, "mortise.linear")))
    return std::nullopt;
  Sibling sibling{readProduct(scheduler, node), {}};
  Product &product = sibling.product;
  const MortiseType &lhs = scheduler.type(product.lhs), &rhs = scheduler.type(product.rhs);
  if (!scheduler.isConstant(product.rhs) || scheduler.isConstant(product.lhs) || !product.lhsBatch.empty() ||
      product.lhsContract.size() != 1 || product.lhsContract[0] != lhs.rank - 1 || rhs.rank != 2 || lhs.rank < 2 ||
      !isStatic(rhs) || elementCount(rhs) == 0 || elementCount(scheduler.extents(product.lhs)) == Dim(0) ||
      product.dtype != MORTISE_F32)
    return std::nullopt;
  product.a = scheduler.viewOf(product.lhs);
  product.b = scheduler.viewOf(product.rhs);
  product.c = scheduler.denseView(product.result);
  if (repeats(product.a, {}) || repeats(product.b, {}))
    return std::nullopt;
  findAxes(product, scheduler.sample);
  if (product.m.size() > 1 || product.n.size() != 1 || product.k.size() != 1 || product.k[0].a != 1)
    return std::nullopt;
  product.nodes = {node.index};
  if (node.operand_count > 2 && node.operands[2]) {
    const View &view = scheduler.viewOf(node.operands[2]->index);
    sibling.bias.other = view.base;
    sibling.bias.view = view;
  } else if (Epilogue epilogue = findEpilogue(scheduler, product.result, product.dtype, true); !epilogue.post.empty()) {
    sibling.bias = epilogue.post[0];
    product.nodes.insert(product.nodes.end(), epilogue.nodes.begin(), epilogue.nodes.end());
    product.target = epilogue.target;
  }
  if (sibling.bias.other != none && (!scheduler.isConstant(sibling.bias.other) ||
                                     sibling.bias.view.strides.back() == 0 || !isNumber(sibling.bias.view)))
    return std::nullopt;
  // What could be fused behind it is worth more than the merge.
  if (scheduler.isOutput(product.target))
    return std::nullopt;
  if (const MortiseNode *user = scheduler.soleUser(product.target);
      user && activation(scheduler, *user).algorithm != dnnl::algorithm::undef)
    return std::nullopt;
  return sibling;
}

static uint32_t throughReshapes(const Scheduler &scheduler, uint32_t value) {
  for (const MortiseNode *node = scheduler.value(value).producer; node && isOp(*node, "mortise.reshape");
       node = scheduler.value(value).producer)
    value = node->operands[0]->index;
  return value;
}

// The matrices as the rows of one [columns, depth] matrix, then in the library's layout; the biases in one row.
static std::pair<Operand, Operand> bindMerged(Emitter &emitter, const std::vector<Sibling> &siblings,
                                              const LibraryProduct &made, int64_t columns, int64_t depth, bool biased) {
  bool before = std::exchange(emitter.binding, true);
  Operand rows{emitter.keep(static_cast<size_t>(columns * depth) * 4), 0, true}, bias;
  if (biased)
    bias = {emitter.keep(static_cast<size_t>(columns) * 4), 0, true};
  int64_t at = 0;
  for (const Sibling &sibling : siblings) {
    FixedProduct fixed = fix(sibling.product, emitter.values, false);
    int64_t width = fixed.n[0].extent;
    Operand block = rows;
    block.offset = at * depth * 4;
    emitter.reorder("weights side by side",
                    memory::desc({depth, width}, memory::data_type::f32, memory::dims{fixed.k[0].b, fixed.n[0].b}),
                    emitter.read(sibling.product.b.base, fixed.b),
                    memory::desc({depth, width}, memory::data_type::f32, memory::dims{1, depth}), block);
    if (sibling.bias.other != none) {
      Operand part = bias;
      part.offset = at * 4;
      memory::dim stride = emitter.values(sibling.bias.view.strides.back());
      emitter.reorder("bias", memory::desc({width}, memory::data_type::f32, memory::dims{stride}),
                      emitter.read(sibling.bias.other, emitter.values(sibling.bias.view.offset)),
                      memory::desc({width}, memory::data_type::f32, memory::dims{1}), part);
    }
    at += width;
  }
  emitter.binding = before;
  rows.written = bias.written = false;
  if (made.packB)
    rows = packWeights(emitter, made, rows);
  return {rows, bias};
}

static Result<void> emitMerged(Emitter &emitter, const std::vector<Sibling> &siblings, const Product &whole,
                               bool biased) {
  FixedProduct fixed = fix(whole, emitter.values, false);
  if (fixed.flops == 0) { // no rows
    for (const Sibling &sibling : siblings)
      emitter.write(sibling.product.target);
    return {};
  }
  LibraryProduct made = askLibrary(whole, fixed, memory::data_type::f32, false, biased);
  if (!made.ok)
    return Error{MORTISE_NEEDS_STATIC, "oneDNN takes no \"" + describe(whole, fixed) +
                                           "\" on this machine, though it took others of its kind"};
  int64_t columns = fixed.n[0].extent;
  auto [weights, bias] = bindMerged(emitter, siblings, made, columns, fixed.k[0].extent, biased);
  int64_t rows = fixed.m.empty() ? 1 : fixed.m[0].extent, at = 0;
  BufferId result = emitter.allocate(static_cast<size_t>(rows * columns) * 4);
  for (const Sibling &sibling : siblings) {
    emitter.memoryOf(sibling.product.target).dense = result;
    emitter.memoryOf(sibling.product.target).offset = at * 4;
    at += emitter.values(sibling.product.n[0].extent);
  }
  std::vector<int> arguments = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
  std::vector<memory::desc> layouts = {made.a, made.b, made.c};
  std::vector<Operand> operands = {emitter.read(whole.a.base, fixed.a), weights, {result, 0, true}};
  if (biased) {
    arguments.push_back(DNNL_ARG_BIAS);
    layouts.push_back(made.bias);
    operands.push_back(bias);
  }
  Step &step = emitter.addLibraryStep(describe(whole, fixed) + " (" + std::to_string(siblings.size()) +
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

static void claimSiblings(Scheduler &scheduler, std::vector<Sibling> siblings) {
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
  if (!askLibrary(whole, fix(whole, scheduler.sample, false), memory::data_type::f32, false, biased).ok)
    return; // each is claimed on its own
  std::vector<View> slices;
  for (const Sibling &sibling : siblings) {
    std::optional<View> slice =
        columnSlice(scheduler.denseView(sibling.product.target), sibling.product.n[0].extent, columns);
    if (!slice)
      return;
    slices.push_back(std::move(*slice));
  }
  Unit unit;
  unit.nodes = whole.nodes;
  unit.reads = {whole.a.base};
  for (size_t i = 0; i < siblings.size(); ++i) {
    const Sibling &sibling = siblings[i];
    scheduler.setRoot(sibling.product.target, slices[i]);
    unit.reads.push_back(sibling.product.b.base);
    if (sibling.bias.other != none)
      unit.reads.push_back(sibling.bias.other);
    unit.writes.push_back(sibling.product.target);
  }
  for (uint32_t node : whole.nodes)
    scheduler.take(*scheduler.graph.nodes[node]);
  unit.emit = [siblings = std::move(siblings), whole, biased](Emitter &emitter, const Unit &) {
    return emitMerged(emitter, siblings, whole, biased);
  };
  scheduler.addUnit(std::move(unit));
}

Result<void> claimMergedProducts(Scheduler &scheduler) {
  if (!scheduler.options.packWeights)
    return {};
  std::map<uint32_t, std::vector<uint32_t>> byLhs;
  for (size_t i = 0; i < scheduler.graph.node_count; ++i)
    if (const MortiseNode &node = *scheduler.graph.nodes[i]; isOp(node, "mortise.dot") || isOp(node, "mortise.linear"))
      byLhs[throughReshapes(scheduler, node.operands[0]->index)].push_back(node.index);
  std::vector<std::vector<uint32_t>> families;
  for (auto &[lhs, nodes] : byLhs)
    if (nodes.size() > 1)
      families.push_back(std::move(nodes));
  // In graph order: where a family stores decides how those after it read.
  std::sort(families.begin(), families.end());
  for (const std::vector<uint32_t> &family : families) {
    std::vector<Sibling> siblings;
    for (uint32_t node : family)
      if (std::optional<Sibling> sibling = readSibling(scheduler, *scheduler.graph.nodes[node]))
        if (siblings.empty() ||
            (siblings[0].product.a.base == sibling->product.a.base &&
             siblings[0].product.a.offset == sibling->product.a.offset &&
             siblings[0].product.m.size() == sibling->product.m.size() &&
             (siblings[0].product.m.empty() || (siblings[0].product.m[0].a == sibling->product.m[0].a &&
                                                siblings[0].product.m[0].extent == sibling->product.m[0].extent))))
          siblings.push_back(std::move(*sibling));
    if (siblings.size() > 1)
      claimSiblings(scheduler, std::move(siblings));
  }
  return {};
}

} // namespace mortise::cpu
