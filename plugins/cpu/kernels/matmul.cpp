// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products by oneDNN: operands are read and results written through strides, so that transposes around attention cost
// nothing.
#include "product.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <unordered_map>

extern "C" int omp_get_max_threads(void);

namespace mortise::cpu {

using memory = dnnl::memory;

// ---- Reading the node

Product readProduct(const MortiseNode &node) {
  Product product;
  product.node = &node;
  product.lhs = node.operands[0]->index;
  product.rhs = node.operands[1]->index;
  product.result = product.target = node.results[0]->index;
  product.dtype = node.results[0]->type->dtype;
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

void findAxes(Product &product) {
  std::vector<Axis> batch, m, n, k;
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
  product.flops = 2;
  for (const std::vector<Axis> *list : {&batch, &m, &n, &k})
    for (const Axis &axis : *list)
      product.flops *= static_cast<double>(axis.extent);
  product.batch = mergeAxes(batch);
  product.m = mergeAxes(m);
  product.n = mergeAxes(n);
  product.k = mergeAxes(k);
}

bool repeats(const View &view, const std::vector<int64_t> &batch) {
  for (size_t i = 0; i < view.dims.size(); ++i)
    if (view.dims[i] > 1 && view.strides[i] == 0 && !contains(batch, static_cast<int64_t>(i)))
      return true;
  return false;
}

// ---- In the library's terms

static memory::desc makeLayout(const std::vector<Axis> &batch, const Axis &row, const Axis &column,
                               int64_t Axis::*stride, memory::data_type type) {
  memory::dims extents, strides;
  int64_t outer = std::max(row.extent * (row.*stride), column.extent * (column.*stride));
  for (const Axis &axis : batch) {
    bool repeated = axis.*stride == 0;
    extents.push_back(repeated ? 1 : axis.extent);
    strides.push_back(repeated ? outer : axis.*stride);
  }
  for (const Axis *axis : {&row, &column})
    extents.push_back(axis->extent);
  // An extent of 1 gets the stride that makes a plain row-major or column-major matrix.
  int64_t r = row.*stride, c = column.*stride;
  if (row.extent == 1)
    r = c == 1 || column.extent == 1 ? column.extent : 1;
  if (column.extent == 1)
    c = r == 1 && row.extent > 1 ? row.extent : 1;
  if (row.extent == 1 && column.extent == 1)
    r = c = 1;
  strides.push_back(r);
  strides.push_back(c);
  return memory::desc(extents, type, strides);
}

// A dense layout with the same extents.
static memory::desc packedLayout(const memory::desc &from, memory::data_type type) {
  memory::dims extents = from.get_dims();
  return memory::desc(extents, type, denseStrides(extents));
}

static bool unitStride(const Axis &x, const Axis &y, int64_t Axis::*stride) {
  return x.*stride == 1 || y.*stride == 1 || x.extent == 1 || y.extent == 1;
}

// What the library was asked for: all that its answer depends on. Layouts are strided, or the library's choice.
class Question {
public:
  void add(int64_t number) { key.append(reinterpret_cast<const char *>(&number), sizeof number); }
  void add(const memory::dims &list) {
    add(static_cast<int64_t>(list.size()));
    for (int64_t number : list)
      add(number);
  }
  void add(const memory::desc &layout) {
    add(static_cast<int64_t>(layout.get_data_type()));
    add(static_cast<int64_t>(layout.get_format_kind()));
    add(layout.get_dims());
    if (layout.get_format_kind() == memory::format_kind::blocked)
      add(layout.get_strides());
  }
  void add(float number) { key.append(reinterpret_cast<const char *>(&number), sizeof number); }

  // The answer given before to the same question by any region, else `ask`'s. The library takes some 50 us to answer,
  // and the layers of a network ask the same.
  template <typename Ask> dnnl::matmul::primitive_desc answer(Ask ask) {
    static std::mutex mutex;
    static auto *known = new std::unordered_map<std::string, dnnl::matmul::primitive_desc>; // outlives every kernel
    constexpr size_t most = 4096;
    {
      std::lock_guard lock(mutex);
      if (auto found = known->find(key); found != known->end())
        return found->second;
    }
    dnnl::matmul::primitive_desc made = ask();
    std::lock_guard lock(mutex);
    if (known->size() >= most)
      known->clear();
    return known->emplace(std::move(key), std::move(made)).first->second;
  }

private:
  std::string key;
};

LibraryProduct library(Scheduler &scheduler, const Product &product, memory::data_type compute, bool packAll,
                       bool biased) {
  LibraryProduct made;
  memory::data_type type = libraryType(product.dtype);
  std::vector<Axis> batch = product.batch;
  if (product.k.size() > 1 || type == memory::data_type::undef)
    return made;
  Axis m, n, k;
  if (!product.k.empty())
    k = product.k[0];
  for (auto [list, axis] : {std::pair{&product.m, &m}, std::pair{&product.n, &n}}) {
    if (!list->empty())
      *axis = list->back();
    for (size_t i = 0; i + 1 < list->size(); ++i)
      batch.push_back((*list)[i]);
  }
  if (batch.size() > 8)
    return made;
  made.weights = scheduler.isConstant(product.rhs) && batch.empty() && scheduler.options.packWeights;
  if (n.c != 1 && n.extent > 1 && (m.c == 1 || m.extent == 1) && !made.weights) {
    // The result is stored column by column: compute the transposed product.
    made.swapped = true;
    std::swap(m, n);
    for (Axis *axis : {&m, &n, &k})
      std::swap(axis->a, axis->b);
    for (Axis &axis : batch)
      std::swap(axis.a, axis.b);
  }
  made.sourceA = makeLayout(batch, m, k, &Axis::a, type);
  made.sourceB = makeLayout(batch, k, n, &Axis::b, type);
  made.targetC = makeLayout(batch, m, n, &Axis::c, type);
  made.packA = packAll || compute != type || !unitStride(m, k, &Axis::a);
  made.packB = packAll || compute != type || !unitStride(k, n, &Axis::b);
  made.packC = compute != type || !(n.c == 1 || n.extent == 1);
  made.a = made.packA ? packedLayout(made.sourceA, compute) : made.sourceA;
  made.b = made.packB ? packedLayout(made.sourceB, compute) : made.sourceB;
  made.c = made.packC ? packedLayout(made.targetC, compute) : made.targetC;

  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops operations;
  Question question;
  question.add(omp_get_max_threads());
  for (const PostOp &post : product.post) {
    question.add(static_cast<int64_t>(post.algorithm));
    if (post.other == none) {
      operations.append_eltwise(post.algorithm, post.alpha, post.beta);
      question.add(post.alpha);
      question.add(post.beta);
      continue;
    }
    // Its view along the library's axes; they are the result's own dimensions, merged, unless m or n were split.
    std::vector<int64_t> wanted;
    for (const Axis &axis : batch)
      wanted.push_back(axis.extent);
    wanted.push_back(m.extent);
    wanted.push_back(n.extent);
    std::optional<View> view;
    if (!made.swapped && product.m.size() <= 1 && product.n.size() <= 1)
      view = reshapeView(post.view, wanted);
    if (!view)
      return made;
    bool row = &post == &product.post.front() && post.algorithm == dnnl::algorithm::binary_add &&
               type == memory::data_type::f32 && compute == type && !biased;
    for (size_t i = 0; i + 1 < wanted.size(); ++i)
      row &= wanted[i] == 1 || view->strides[i] == 0;
    if (row && (view->strides.back() == 1 || n.extent == 1)) {
      made.rowBias = true;
      question.add(int64_t(-1));
      continue;
    }
    memory::dims otherDims, otherStrides;
    int64_t last = 1;
    for (size_t i = wanted.size(); i-- > 0;) {
      bool repeated = view->strides[i] == 0 || wanted[i] == 1;
      otherDims.insert(otherDims.begin(), repeated ? 1 : wanted[i]);
      otherStrides.insert(otherStrides.begin(), repeated ? last : view->strides[i]);
      last = std::max(last, otherStrides.front() * otherDims.front());
    }
    made.others.emplace_back(otherDims, type, otherStrides);
    operations.append_binary(post.algorithm, made.others.back());
    question.add(made.others.back());
  }
  attributes.set_post_ops(operations);
  memory::desc weights = made.b;
  if (made.weights) {
    made.packB = true;
    weights = memory::desc(made.b.get_dims(), compute, memory::format_tag::any);
  }
  question.add(made.a);
  question.add(weights);
  question.add(made.c);
  if (biased || made.rowBias) {
    memory::dims extents(batch.size() + 1, 1);
    extents.push_back(n.extent);
    made.bias = memory::desc(extents, memory::data_type::f32, denseStrides(extents));
    question.add(made.bias);
    made.description = question.answer(
        [&] { return dnnl::matmul::primitive_desc(engine(), made.a, weights, made.bias, made.c, attributes, true); });
  } else {
    made.description = question.answer(
        [&] { return dnnl::matmul::primitive_desc(engine(), made.a, weights, made.c, attributes, true); });
  }
  if (!made.description)
    return made;
  if (made.weights) {
    made.b = made.description.weights_desc();
    made.packB = made.b != made.sourceB;
  }
  made.ok = true;
  return made;
}

// The best way the library has; without `ok` when it has none.
static LibraryProduct chooseLibrary(Scheduler &scheduler, const Product &product) {
  memory::data_type type = libraryType(product.dtype);
  LibraryProduct made = library(scheduler, product, type, false);
  if (!made.ok && product.dtype != MORTISE_F32)
    made = library(scheduler, product, memory::data_type::f32, false);
  // Its plain loops are a hundred times slower than copying the operands first.
  if (made.ok && product.flops > 1e5 && std::string_view(made.description.impl_info_str()).starts_with("ref")) {
    LibraryProduct packed = library(scheduler, product, made.a.get_data_type(), true);
    if (packed.ok && !std::string_view(packed.description.impl_info_str()).starts_with("ref"))
      return packed;
    if (!product.post.empty())
      made.ok = false; // without them there may be a fast way
  }
  return made;
}

// ---- Steps

std::string describe(const Product &product) {
  auto extent = [](const std::vector<Axis> &axes) {
    int64_t count = 1;
    for (const Axis &axis : axes)
      count *= axis.extent;
    return std::to_string(count);
  };
  std::string name = "matmul ";
  if (!product.batch.empty())
    name += extent(product.batch) + "x";
  name += extent(product.m) + "x" + extent(product.k) + "x" + extent(product.n);
  for (const PostOp &post : product.post)
    name += " + " + std::string(std::string_view(post.node->op).substr(8));
  return name;
}

Operand packWeights(Scheduler &scheduler, const LibraryProduct &made, Operand source) {
  Operand packed{scheduler.keep(made.b.get_size()), 0, false};
  bool before = std::exchange(scheduler.binding, true);
  scheduler.reorder("weights", made.sourceB, source, made.b, packed);
  scheduler.binding = before;
  return packed;
}

static Operand copied(Scheduler &scheduler, const char *what, const memory::desc &from, Operand source,
                      const memory::desc &to) {
  Operand target{scheduler.allocate(to.get_size()), 0, true};
  scheduler.reorder(what, from, source, to, target);
  target.written = false;
  return target;
}

static Result<void> emitLibrary(Scheduler &scheduler, const Product &product, const LibraryProduct &made) {
  Operand a = scheduler.read(product.a.base, product.a.offset), b = scheduler.read(product.b.base, product.b.offset);
  if (made.swapped)
    std::swap(a, b);
  if (made.packA)
    a = copied(scheduler, "operand", made.sourceA, a, made.a);
  if (made.weights && made.packB)
    b = packWeights(scheduler, made, b);
  else if (made.packB)
    b = copied(scheduler, "operand", made.sourceB, b, made.b);
  std::vector<int> arguments = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
  std::vector<memory::desc> layouts = {made.a, made.b, made.c};
  std::vector<Operand> operands = {a, b, {}};
  size_t binary = 0;
  for (size_t i = 0; i < product.post.size(); ++i)
    if (const PostOp &post = product.post[i]; post.other != none && i == 0 && made.rowBias) {
      arguments.push_back(DNNL_ARG_BIAS);
      layouts.push_back(made.bias);
      operands.push_back(scheduler.read(post.other, post.view.offset));
    } else if (post.other != none) {
      int position = static_cast<int>(i) - (made.rowBias ? 1 : 0);
      arguments.push_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(position) | DNNL_ARG_SRC_1);
      layouts.push_back(made.others[binary++]);
      operands.push_back(scheduler.read(post.other, post.view.offset));
    }
  Operand target = scheduler.write(product.target);
  target.offset = product.c.offset * static_cast<int64_t>(dtypeBits(product.dtype) / 8);
  operands[2] = made.packC ? Operand{scheduler.allocate(made.c.get_size()), 0, true} : target;
  bool reference = std::string_view(made.description.impl_info_str()).starts_with("ref");
  Step &step = scheduler.addLibraryStep(describe(product), reference ? "onednn.matmul.plain" : "onednn.matmul",
                                        made.description, arguments, layouts, operands);
  step.nodes = product.nodes;
  step.flops = product.flops;
  if (made.packC) {
    operands[2].written = false;
    scheduler.reorder("result", made.c, operands[2], made.targetC, target);
  }
  return {};
}

static void addProduct(Scheduler &scheduler, Product product) {
  for (uint32_t node : product.nodes)
    scheduler.take(*scheduler.graph.nodes[node]);
  std::sort(product.nodes.begin(), product.nodes.end());
  Unit unit;
  unit.nodes = product.nodes;
  unit.reads = {product.a.base, product.b.base};
  for (const PostOp &post : product.post)
    if (post.other != none)
      unit.reads.push_back(post.other);
  unit.writes = {product.target};
  bool empty = product.flops == 0;
  LibraryProduct made;
  if (!empty)
    made = chooseLibrary(scheduler, product);
  if (made.ok) {
    unit.emit = [&scheduler, product, made](const Unit &) { return emitLibrary(scheduler, product, made); };
  } else {
    unit.emit = [&scheduler, product](const Unit &) -> Result<void> {
      ProductLoop loop{product.dtype, product.batch, product.m, product.n, product.k, false};
      for (int64_t dim : product.lhsContract)
        loop.empty |= product.a.dims[dim] == 0;
      Step step;
      step.name = describe(product);
      step.lowering = "cpu.product_loop";
      step.nodes = product.nodes;
      step.flops = product.flops;
      Operand target = scheduler.write(product.target);
      target.offset = product.c.offset * static_cast<int64_t>(dtypeBits(product.dtype) / 8);
      step.operands = {scheduler.read(product.a.base, product.a.offset),
                       scheduler.read(product.b.base, product.b.offset), target};
      step.native = productLoop(std::move(loop));
      if (elementCount(scheduler.type(product.result)) != 0)
        scheduler.addStep(std::move(step));
      return {};
    };
  }
  scheduler.addUnit(std::move(unit));
}

// ---- Claims

// Views after the product that end where a copy would be needed: the product stores through their strides instead.
static void storeThroughViews(Scheduler &scheduler, Product &product) {
  std::vector<const MortiseNode *> chain;
  uint32_t current = product.target;
  bool transposed = false;
  while (const MortiseNode *user = scheduler.soleUser(current)) {
    if (scheduler.isTaken(*user) || !(isOp(*user, "mortise.transpose") || isOp(*user, "mortise.reshape")))
      break;
    transposed |= isOp(*user, "mortise.transpose");
    chain.push_back(user);
    current = user->results[0]->index;
  }
  while (!chain.empty()) {
    uint32_t end = chain.back()->results[0]->index;
    bool copy = scheduler.viewOf(end).base == end ||
                (scheduler.isOutput(end) && scheduler.soleUser(end) == nullptr && transposed);
    if (copy) {
      std::optional<View> view = codegen::denseView(scheduler.value(end));
      for (size_t i = chain.size(); i-- > 0 && view;)
        view = viewBack(*chain[i], *view);
      if (view)
        view = reshapeView(*view, product.c.dims);
      // The innermost result dimension stays contiguous, or the library would need a copy after all.
      if (view && (view->strides.empty() || view->dims.back() == 1 || view->strides.back() == 1)) {
        view->base = end;
        product.c = *view;
        product.target = end;
        for (const MortiseNode *node : chain)
          product.nodes.push_back(node->index);
        return;
      }
    }
    chain.pop_back();
  }
}

static Result<void> claimOne(Scheduler &scheduler, const MortiseNode &node) {
  Product product = readProduct(node);
  product.nodes = {node.index};
  product.a = scheduler.viewOf(product.lhs);
  product.b = scheduler.viewOf(product.rhs);
  if (repeats(product.a, product.lhsBatch))
    product.a = codegen::denseView(scheduler.value(product.lhs));
  if (repeats(product.b, product.rhsBatch))
    product.b = codegen::denseView(scheduler.value(product.rhs));
  product.c = codegen::denseView(scheduler.value(product.result));
  findAxes(product);
  Epilogue epilogue;
  epilogue.target = product.result;
  if (libraryType(product.dtype) != memory::data_type::undef && product.flops > 0)
    epilogue = findEpilogue(scheduler, product.result, product.dtype, false);
  // linear's own bias comes first; it cannot be left out.
  if (node.operand_count > 2 && node.operands[2]) {
    PostOp bias;
    bias.node = &node;
    bias.algorithm = dnnl::algorithm::binary_add;
    const View &view = scheduler.viewOf(node.operands[2]->index);
    bias.other = view.base;
    bias.view = {view.base, view.offset, product.c.dims, std::vector<int64_t>(product.c.dims.size(), 0)};
    bias.view.strides.back() = view.strides[0];
    product.post.push_back(std::move(bias));
  }
  size_t own = product.post.size();
  if (own > 0 && !chooseLibrary(scheduler, product).ok) { // rows that do not merge: have them made dense
    product.a = codegen::denseView(scheduler.value(product.lhs));
    product.b = codegen::denseView(scheduler.value(product.rhs));
    findAxes(product);
    if (!chooseLibrary(scheduler, product).ok)
      return Error{MORTISE_INTERNAL, "oneDNN takes no linear of " + typeString(scheduler.type(product.lhs)) + " by " +
                                         typeString(scheduler.type(product.rhs)) +
                                         " on this machine; please report it"};
  }
  product.post.insert(product.post.end(), epilogue.post.begin(), epilogue.post.end());
  // As much of the epilogue as the library takes.
  for (size_t fused = epilogue.post.size();; --fused) {
    product.post.resize(own + fused);
    if (product.flops == 0 || fused == 0 || chooseLibrary(scheduler, product).ok)
      break;
  }
  if (product.post.size() > own) {
    const MortiseNode *last = product.post.back().node;
    for (uint32_t fused : epilogue.nodes) {
      product.nodes.push_back(fused);
      if (fused == last->index)
        break;
    }
    product.target = last->results[0]->index;
    product.c.base = product.target;
  }
  Product plain = product;
  storeThroughViews(scheduler, product);
  if (product.target != plain.target) {
    findAxes(product);
    if (product.flops != 0 && !chooseLibrary(scheduler, product).ok) {
      product = std::move(plain);
      findAxes(product);
    }
  }
  addProduct(scheduler, std::move(product));
  return {};
}

Result<void> claimProducts(Scheduler &scheduler) {
  for (size_t i = 0; i < scheduler.graph.node_count; ++i) {
    const MortiseNode &node = *scheduler.graph.nodes[i];
    if (!scheduler.isTaken(node) && (isOp(node, "mortise.dot") || isOp(node, "mortise.linear")))
      if (Result<void> result = claimOne(scheduler, node); !result)
        return result;
  }
  return {};
}

} // namespace mortise::cpu
