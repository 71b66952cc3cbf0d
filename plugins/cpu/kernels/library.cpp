// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products in oneDNN's terms: which layouts it computes on, what has to be copied first, which post ops it takes.
#include "product.hpp"
#include "question.hpp"

#include <algorithm>

namespace mortise::cpu {

using memory = dnnl::memory;

// Empty where the library has no such layout: every second element of an odd number, say.
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
  return memory::desc(extents, type, strides, /*allow_empty=*/true);
}

// A dense layout with the same extents.
static memory::desc packedLayout(const memory::desc &from, memory::data_type type) {
  memory::dims extents = from.get_dims();
  return memory::desc(extents, type, denseStrides(extents));
}

static bool isDenseLayout(const memory::desc &layout) {
  const memory::dims extents = layout.get_dims(), strides = layout.get_strides(), dense = denseStrides(extents);
  for (size_t i = 0; i < extents.size(); ++i)
    if (extents[i] != 1 && strides[i] != dense[i])
      return false;
  return true;
}

static bool unitStride(const Axis &x, const Axis &y, int64_t Axis::*stride) {
  return x.*stride == 1 || y.*stride == 1 || x.extent == 1 || y.extent == 1;
}

namespace {
// A product's axes as the library has them: any number in the batch, one each of the others.
struct LibraryAxes {
  std::vector<Axis> batch;
  Axis m, n, k;
};
using MatmulQuestion = Question<dnnl::matmul::primitive_desc>;
} // namespace

// nullopt when the library has no such product.
static std::optional<LibraryAxes> libraryAxes(const FixedProduct &fixed) {
  LibraryAxes axes{fixed.batch, {}, {}, {}};
  if (fixed.k.size() > 1)
    return std::nullopt;
  if (!fixed.k.empty())
    axes.k = fixed.k[0];
  for (auto [list, axis] : {std::pair{&fixed.m, &axes.m}, std::pair{&fixed.n, &axes.n}}) {
    if (!list->empty())
      *axis = list->back();
    for (size_t i = 0; i + 1 < list->size(); ++i)
      axes.batch.push_back((*list)[i]);
  }
  if (axes.batch.size() > 8)
    return std::nullopt;
  return axes;
}

// Which operands are copied first, and all layouts but the library's own of the weights. Turns the axes of a result
// that is stored column by column, for which the transposed product is computed. False when the library cannot describe
// an operand.
static bool chooseLayouts(LibraryProduct &made, LibraryAxes &axes, memory::data_type type, memory::data_type compute,
                          bool packAll) {
  auto &[batch, m, n, k] = axes;
  if (n.c != 1 && n.extent > 1 && (m.c == 1 || m.extent == 1) && !made.weights) {
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
  for (const memory::desc *layout : {&made.sourceA, &made.sourceB, &made.targetC})
    if (!*layout)
      return false;
  made.packA = packAll || compute != type || !unitStride(m, k, &Axis::a);
  made.packB = packAll || compute != type || !unitStride(k, n, &Axis::b);
  made.packC = compute != type || !(n.c == 1 || n.extent == 1);
  made.a = made.packA ? packedLayout(made.sourceA, compute) : made.sourceA;
  made.b = made.packB ? packedLayout(made.sourceB, compute) : made.sourceB;
  made.c = made.packC ? packedLayout(made.targetC, compute) : made.targetC;
  return true;
}

// The other operand of a binary post op, whose view along the library's axes has the extents `wanted`.
static memory::desc otherLayout(const FixedView &view, const std::vector<int64_t> &wanted, memory::data_type type) {
  memory::dims dims, strides;
  int64_t last = 1;
  for (size_t i = wanted.size(); i-- > 0;) {
    bool repeated = view.strides[i] == 0 || wanted[i] == 1;
    dims.insert(dims.begin(), repeated ? 1 : wanted[i]);
    strides.insert(strides.begin(), repeated ? last : view.strides[i]);
    last = std::max(last, strides.front() * dims.front());
  }
  return memory::desc(dims, type, strides, /*allow_empty=*/true);
}

// `mayBias`: the first of them may be passed as a bias. False when one has an operand that the library cannot read.
static bool addPostOps(const Product &product, const FixedProduct &fixed, const LibraryAxes &axes, bool mayBias,
                       LibraryProduct &made, dnnl::post_ops &operations, MatmulQuestion &question) {
  const memory::data_type type = libraryType(product.dtype);
  for (size_t p = 0; p < product.post.size(); ++p) {
    const PostOp &post = product.post[p];
    question.add(static_cast<int64_t>(post.algorithm));
    if (post.other == none) {
      operations.append_eltwise(post.algorithm, post.alpha, post.beta);
      question.add(post.alpha);
      question.add(post.beta);
      continue;
    }
    // Its view along the library's axes; they are the result's own dimensions, merged, unless m or n were split.
    std::vector<int64_t> wanted;
    for (const Axis &axis : axes.batch)
      wanted.push_back(axis.extent);
    wanted.push_back(axes.m.extent);
    wanted.push_back(axes.n.extent);
    const FixedView &other = fixed.post[p];
    bool inOrder = fixed.inOrder;
    if (!inOrder) { // whatever is repeated along all dimensions but the last is so in any order of them
      inOrder = true;
      for (size_t i = 0; i + 1 < other.dims.size(); ++i)
        inOrder &= other.dims[i] == 1 || other.strides[i] == 0;
    }
    std::optional<FixedView> view;
    if (inOrder && fixed.m.size() <= 1 && fixed.n.size() <= 1)
      view = reshapeView(other, wanted);
    if (!view)
      return false;
    bool row = p == 0 && post.algorithm == dnnl::algorithm::binary_add && mayBias;
    for (size_t i = 0; i + 1 < wanted.size(); ++i)
      row &= wanted[i] == 1 || view->strides[i] == 0;
    if (row && (view->strides.back() == 1 || axes.n.extent == 1)) {
      made.rowBias = true;
      question.add(int64_t(-1));
      continue;
    }
    // oneDNN finds the operand's elements as if it were dense, whatever its description says.
    memory::desc layout = otherLayout(*view, wanted, type);
    if (!layout || !isDenseLayout(layout))
      return false;
    made.others.push_back(std::move(layout));
    operations.append_binary(post.algorithm, made.others.back());
    question.add(made.others.back());
  }
  return true;
}

static bool isGemm(const dnnl::matmul::primitive_desc &description) {
  return std::string_view(description.impl_info_str()).starts_with("gemm");
}

// Weights for gemm, which takes them row by row: rows that stand an even number of cache lines apart fall into few sets
// of the caches, of which gemm reads several rows at once.
// Nullopt where padding gains nothing, or too little to copy (`copied`: they are copied anyway).
static std::optional<memory::desc> padRows(const memory::desc &weights, bool copied) {
  constexpr int64_t lineBytes = 64, fewSets = 2048; // between rows: from here on padding pays for a copy
  const memory::dims dims = weights.get_dims(), strides = weights.get_strides();
  const int64_t elementBytes = static_cast<int64_t>(memory::data_type_size(weights.get_data_type()));
  const int64_t rowBytes = strides[0] * elementBytes, lines = (rowBytes + lineBytes - 1) / lineBytes;
  if (dims.size() != 2 || weights.get_inner_nblks() != 0 || strides[1] != 1 || lines % 2 == 1 || lines < 4 ||
      (!copied && rowBytes % fewSets != 0))
    return std::nullopt;
  return memory::desc(dims, weights.get_data_type(), {(lines + 1) * lineBytes / elementBytes, 1});
}

LibraryProduct askLibrary(const Product &product, const FixedProduct &fixed, memory::data_type compute, bool packAll,
                          bool biased) {
  LibraryProduct made;
  const memory::data_type type = libraryType(product.dtype);
  std::optional<LibraryAxes> axes = libraryAxes(fixed);
  if (!axes || type == memory::data_type::undef)
    return made;
  made.weights = product.weights && axes->batch.empty();
  if (!chooseLayouts(made, *axes, type, compute, packAll))
    return made;

  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops operations;
  MatmulQuestion question;
  const bool mayBias = type == memory::data_type::f32 && compute == type && !biased;
  if (!addPostOps(product, fixed, *axes, mayBias, made, operations, question))
    return made;
  attributes.set_post_ops(operations);
  memory::desc weights = made.b;
  if (made.weights) {
    made.packB = true;
    weights = memory::desc(made.b.get_dims(), compute, memory::format_tag::any);
  }
  if (biased || made.rowBias) {
    memory::dims extents(axes->batch.size() + 1, 1);
    extents.push_back(axes->n.extent);
    made.bias = memory::desc(extents, memory::data_type::f32, denseStrides(extents));
  }
  auto ask = [&](const memory::desc &weights) {
    MatmulQuestion asked = question;
    asked.add(made.a);
    asked.add(weights);
    asked.add(made.c);
    if (!made.bias)
      return asked.answer(
          [&] { return dnnl::matmul::primitive_desc(engine(), made.a, weights, made.c, attributes, true); });
    asked.add(made.bias);
    return asked.answer(
        [&] { return dnnl::matmul::primitive_desc(engine(), made.a, weights, made.bias, made.c, attributes, true); });
  };
  made.description = ask(weights);
  if (!made.description)
    return made;
  // The implementation by gemm ("gemm:jit", at every instruction set) finds the elements of a binary post op's operand
  // by the distance from the result's start, as if the result were dense; where it is not, it reads wild memory.
  if (!made.others.empty() && !isDenseLayout(made.c) && isGemm(made.description))
    return made;
  if (made.weights) {
    made.b = made.description.weights_desc();
    made.packB = made.b != made.sourceB;
    if (isGemm(made.description))
      if (std::optional<memory::desc> padded = padRows(made.b, made.packB))
        if (auto found = ask(*padded); found && isGemm(found)) {
          made.description = std::move(found);
          made.b = *padded;
          made.packB = true;
        }
  }
  made.ok = true;
  return made;
}

static bool isPlain(const LibraryProduct &made) {
  return std::string_view(made.description.impl_info_str()).starts_with("ref");
}

static LibraryProduct choose(const Product &product, const FixedProduct &fixed, bool keepPostOps) {
  memory::data_type type = libraryType(product.dtype);
  LibraryProduct made = askLibrary(product, fixed, type, false);
  if (!made.ok && product.dtype != MORTISE_F32)
    made = askLibrary(product, fixed, memory::data_type::f32, false);
  // Its plain loops are a hundred times slower than copying the operands first.
  if (made.ok && fixed.flops > 1e5 && isPlain(made)) {
    LibraryProduct packed = askLibrary(product, fixed, made.a.get_data_type(), true);
    if (packed.ok && !isPlain(packed))
      return packed;
    if (!product.post.empty() && !keepPostOps)
      made.ok = false; // without them there may be a fast way
  }
  return made;
}

// All that the choice depends on: values' numbers and offsets into them are no part of it.
static std::string choiceKey(const Product &product, const FixedProduct &fixed, bool keepPostOps) {
  std::string key;
  auto add = [&](const auto &item) { key.append(reinterpret_cast<const char *>(&item), sizeof item); };
  auto list = [&](const std::vector<int64_t> &numbers) {
    add(numbers.size());
    for (int64_t number : numbers)
      add(number);
  };
  add(product.dtype), add(product.weights), add(keepPostOps), add(fixed.inOrder), add(fixed.flops),
      add(omp_get_max_threads());
  for (const std::vector<Axis> *axes : {&fixed.batch, &fixed.m, &fixed.n, &fixed.k}) {
    add(axes->size());
    for (const Axis &axis : *axes)
      add(axis.extent), add(axis.a), add(axis.b), add(axis.c);
  }
  for (size_t i = 0; i < product.post.size(); ++i) {
    const PostOp &post = product.post[i];
    add(post.algorithm), add(post.alpha), add(post.beta), add(post.other == none);
    if (post.other != none)
      list(fixed.post[i].dims), list(fixed.post[i].strides);
  }
  return key;
}

// A claim asks several times and its builder again, and the layers of a network ask the same.
LibraryProduct chooseLibrary(const Product &product, const FixedProduct &fixed, bool keepPostOps) {
  static std::mutex mutex;
  static auto *known = new std::unordered_map<std::string, LibraryProduct>; // outlives every kernel
  constexpr size_t most = 4096;
  std::string key = choiceKey(product, fixed, keepPostOps);
  {
    std::lock_guard lock(mutex);
    if (auto found = known->find(key); found != known->end())
      return found->second;
  }
  LibraryProduct made = choose(product, fixed, keepPostOps);
  std::lock_guard lock(mutex);
  if (known->size() >= most)
    known->clear();
  known->emplace(std::move(key), made);
  return made;
}

bool suitsLibrary(const Product &product) {
  if (product.k.size() > 1)
    return false;
  std::vector<Dim> wanted;
  for (const SymbolicAxis &axis : product.batch)
    wanted.push_back(axis.extent);
  for (const std::vector<SymbolicAxis> *list : {&product.m, &product.n})
    for (size_t i = 0; i + 1 < list->size(); ++i)
      wanted.push_back((*list)[i].extent);
  if (wanted.size() > 8)
    return false;
  for (const std::vector<SymbolicAxis> *list : {&product.m, &product.n})
    wanted.push_back(list->empty() ? Dim(1) : list->back().extent);
  // A result that is not stored row by row may be computed transposed, where other operands do not fit.
  bool rows = product.m.size() <= 1 && product.n.size() <= 1 && (product.n.empty() || product.n[0].c == 1);
  for (const PostOp &post : product.post)
    if (post.other != none && (!rows || !reshapeView(post.view, wanted)))
      return false;
  return true;
}

} // namespace mortise::cpu
