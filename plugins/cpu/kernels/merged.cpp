// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of one lhs with several constant matrices become one product with the matrices side by side; each result is
// a column slice of its result. Only the plain case: one row axis, at most a bias.
#include "product.h"

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

static std::optional<Sibling> readSibling(Scheduler &scheduler, const MortiseNode &node) {
  if (scheduler.isTaken(node) || !(isOp(node, "mortise.dot") || isOp(node, "mortise.linear")))
    return std::nullopt;
  Sibling sibling{readProduct(node), {}};
  Product &product = sibling.product;
  const MortiseType &lhs = scheduler.type(product.lhs), &rhs = scheduler.type(product.rhs);
  if (!scheduler.isConstant(product.rhs) || scheduler.isConstant(product.lhs) || !product.lhsBatch.empty() ||
      product.lhsContract.size() != 1 || product.lhsContract[0] != lhs.rank - 1 || rhs.rank != 2 || lhs.rank < 2 ||
      elementCount(rhs) == 0 || elementCount(lhs) == 0 || product.dtype != MORTISE_F32)
    return std::nullopt;
  product.a = scheduler.viewOf(product.lhs);
  product.b = scheduler.viewOf(product.rhs);
  product.c = codegen::denseView(scheduler.value(product.result));
  if (repeats(product.a, {}) || repeats(product.b, {}))
    return std::nullopt;
  findAxes(product);
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
  if (sibling.bias.other != none && !scheduler.isConstant(sibling.bias.other))
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
static std::pair<Operand, Operand> bindMerged(Scheduler &scheduler, const std::vector<Sibling> &siblings,
                                              LibraryProduct &made, int64_t columns, int64_t depth, bool biased) {
  bool before = std::exchange(scheduler.binding, true);
  Operand rows{scheduler.keep(static_cast<size_t>(columns * depth) * 4), 0, true}, bias;
  if (biased)
    bias = {scheduler.keep(static_cast<size_t>(columns) * 4), 0, true};
  int64_t at = 0;
  for (const Sibling &sibling : siblings) {
    const Product &product = sibling.product;
    int64_t width = product.n[0].extent;
    Operand block = rows;
    block.offset = at * depth * 4;
    scheduler.reorder(
        "weights side by side",
        memory::desc({depth, width}, memory::data_type::f32, memory::dims{product.k[0].b, product.n[0].b}),
        scheduler.read(product.b.base, product.b.offset),
        memory::desc({depth, width}, memory::data_type::f32, memory::dims{1, depth}), block);
    if (sibling.bias.other != none) {
      Operand part = bias;
      part.offset = at * 4;
      memory::dim stride = std::max<int64_t>(sibling.bias.view.strides.back(), 1);
      scheduler.reorder("bias", memory::desc({width}, memory::data_type::f32, memory::dims{stride}),
                        scheduler.read(sibling.bias.other, sibling.bias.view.offset),
                        memory::desc({width}, memory::data_type::f32, memory::dims{1}), part);
    }
    at += width;
  }
  scheduler.binding = before;
  rows.written = bias.written = false;
  if (made.packB)
    rows = packWeights(scheduler, made, rows);
  return {rows, bias};
}

static Result<void> emitMerged(Scheduler &scheduler, const std::vector<Sibling> &siblings, const Product &whole,
                               LibraryProduct made, bool biased) {
  int64_t columns = whole.n[0].extent;
  auto [weights, bias] = bindMerged(scheduler, siblings, made, columns, whole.k[0].extent, biased);
  int64_t rows = whole.m.empty() ? 1 : whole.m[0].extent, at = 0;
  BufferId result = scheduler.allocate(static_cast<size_t>(rows * columns) * 4);
  for (const Sibling &sibling : siblings) {
    scheduler.memoryOf(sibling.product.target).dense = result;
    scheduler.memoryOf(sibling.product.target).offset = at * 4;
    at += sibling.product.n[0].extent;
  }
  std::vector<int> arguments = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
  std::vector<memory::desc> layouts = {made.a, made.b, made.c};
  std::vector<Operand> operands = {scheduler.read(whole.a.base, whole.a.offset), weights, {result, 0, true}};
  if (biased) {
    arguments.push_back(DNNL_ARG_BIAS);
    layouts.push_back(made.bias);
    operands.push_back(bias);
  }
  Step &step = scheduler.addLibraryStep(describe(whole) + " (" + std::to_string(siblings.size()) + " side by side)" +
                                            (biased ? " + bias" : ""),
                                        "onednn.matmul", made.description, arguments, layouts, operands);
  step.nodes = whole.nodes;
  step.flops = whole.flops;
  return {};
}

static void claimSiblings(Scheduler &scheduler, std::vector<Sibling> siblings) {
  Product whole = siblings[0].product;
  int64_t columns = 0;
  bool biased = false;
  whole.nodes.clear();
  for (Sibling &sibling : siblings) {
    columns += sibling.product.n[0].extent;
    biased |= sibling.bias.other != none;
    whole.nodes.insert(whole.nodes.end(), sibling.product.nodes.begin(), sibling.product.nodes.end());
  }
  std::sort(whole.nodes.begin(), whole.nodes.end());
  int64_t depth = whole.k[0].extent;
  whole.flops = whole.flops / static_cast<double>(whole.n[0].extent) * static_cast<double>(columns);
  whole.n = {{columns, 0, depth, 1}};
  whole.k[0].b = 1;
  if (!whole.m.empty())
    whole.m[0].c = columns;
  whole.post.clear();
  LibraryProduct made = library(scheduler, whole, memory::data_type::f32, false, biased);
  if (!made.ok)
    return; // each is claimed on its own
  Unit unit;
  unit.nodes = whole.nodes;
  unit.reads = {whole.a.base};
  for (Sibling &sibling : siblings) {
    const Product &product = sibling.product;
    View view = codegen::denseView(scheduler.value(product.target));
    int64_t width = product.n[0].extent;
    for (int64_t &stride : view.strides)
      stride = stride >= width ? stride / width * columns : stride;
    scheduler.setRoot(product.target, view);
    unit.reads.push_back(product.b.base);
    if (sibling.bias.other != none)
      unit.reads.push_back(sibling.bias.other);
    unit.writes.push_back(product.target);
  }
  for (uint32_t node : whole.nodes)
    scheduler.take(*scheduler.graph.nodes[node]);
  unit.emit = [&scheduler, siblings = std::move(siblings), whole, made, biased](const Unit &) {
    return emitMerged(scheduler, siblings, whole, made, biased);
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
