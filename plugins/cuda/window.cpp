// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "window.hpp"

#include <mortise/threads.hpp>

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <set>

namespace mortise::cuda {

namespace {

constexpr int64_t mostSlices = 64; // of a pool: one group reads them all

std::vector<int64_t> listAttribute(const MortiseNode &node, const char *name) {
  const std::span<const int64_t> found = intsAttribute(node, name);
  return {found.begin(), found.end()};
}

// [N, C, spatial...] to [N, spatial..., C], and back.
std::vector<int64_t> toLast(size_t rank) {
  std::vector<int64_t> permutation{0};
  for (size_t i = 2; i < rank; ++i)
    permutation.push_back(static_cast<int64_t>(i));
  permutation.push_back(1);
  return permutation;
}
std::vector<int64_t> toFirst(size_t rank) {
  std::vector<int64_t> permutation{0, static_cast<int64_t>(rank) - 1};
  for (size_t i = 1; i + 1 < rank; ++i)
    permutation.push_back(static_cast<int64_t>(i));
  return permutation;
}
template <typename T> std::vector<T> permuted(const std::vector<T> &list, const std::vector<int64_t> &permutation) {
  std::vector<T> result;
  for (const int64_t from : permutation)
    result.push_back(list[static_cast<size_t>(from)]);
  return result;
}

const MortiseValue *operandOf(const MortiseNode &node, size_t i) {
  return i < node.operand_count ? node.operands[i] : nullptr;
}
const MortiseValue *scaleOf(const MortiseNode &node) { return operandOf(node, 2); }
const MortiseValue *biasOf(const MortiseNode &node) { return operandOf(node, 3); }
std::string_view activationOf(const MortiseNode &node) {
  const std::string_view found = stringAttribute(node, "activation");
  return found.empty() ? "none" : found;
}

template <typename T> std::vector<std::byte> bytesOf(T number) {
  const auto *first = reinterpret_cast<const std::byte *>(&number);
  return {first, first + sizeof number};
}
// What every number is at least.
std::vector<std::byte> lowestOf(int32_t dtype) {
  switch (dtype) {
  case MORTISE_F64:
    return bytesOf(-std::numeric_limits<double>::infinity());
  case MORTISE_F32:
    return bytesOf(-std::numeric_limits<float>::infinity());
  case MORTISE_F16:
    return bytesOf(uint16_t{0xfc00});
  case MORTISE_BF16:
    return bytesOf(uint16_t{0xff80});
  case MORTISE_I64:
    return bytesOf(std::numeric_limits<int64_t>::min());
  case MORTISE_I32:
    return bytesOf(std::numeric_limits<int32_t>::min());
  case MORTISE_I16:
    return bytesOf(std::numeric_limits<int16_t>::min());
  case MORTISE_I8:
    return bytesOf(std::numeric_limits<int8_t>::min());
  default: // ui8
    return bytesOf(uint8_t{0});
  }
}
std::vector<std::byte> zeroOf(int32_t dtype) { return std::vector<std::byte>(dtypeBits(dtype) / 8); }

bool isNarrow(int32_t dtype) { return dtype == MORTISE_F16 || dtype == MORTISE_BF16; }

} // namespace

// ---- Which nodes

codegen::Support supportsPool(const MortiseNode &node) {
  const MortiseType &x = *node.operands[0]->type;
  const auto refuse = [](MortiseReason reason, std::string detail) {
    return codegen::Support{false, reason, std::move(detail)};
  };
  constexpr int32_t taken[] = {MORTISE_F64, MORTISE_F32, MORTISE_F16, MORTISE_BF16, MORTISE_I64,
                               MORTISE_I32, MORTISE_I16, MORTISE_I8,  MORTISE_UI8};
  if (std::ranges::find(taken, x.dtype) == std::end(taken))
    return refuse(MORTISE_REASON_DTYPE, std::string("no pooling of ") + dtypeName(x.dtype));
  if (x.rank < 3 || x.rank > 5)
    return refuse(MORTISE_REASON_RANK, "one to three spatial dimensions, found rank " + std::to_string(x.rank));
  for (const char *name : {"window", "strides", "low", "high", "dilations"})
    for (const int64_t number : intsAttribute(node, name))
      if (number == MORTISE_DYNAMIC)
        return refuse(MORTISE_REASON_NEEDS_STATIC,
                      std::string("expected numbers in ") + name + ", found an expression");
  int64_t slices = 1;
  for (const int64_t extent : intsAttribute(node, "window"))
    slices = extent > mostSlices ? mostSlices + 1 : std::min(slices * extent, mostSlices + 1);
  if (slices > mostSlices)
    return refuse(MORTISE_REASON_SIZE, "pools have windows of at most " + std::to_string(mostSlices) + " elements");
  const std::vector<Dim> dims = dimsOf(x);
  for (size_t i = 0; i < dims.size(); ++i)
    if (!dims[i].isValid() || (i >= 2 && !dims[i].isNumber()))
      return refuse(MORTISE_REASON_NEEDS_STATIC, "expected static spatial extents, found " + typeString(x));
    else if (i >= 2 && dims[i] == Dim(0))
      return refuse(MORTISE_REASON_SIZE, "a pool over nothing has no lowering here");
  return {};
}

bool WindowRewriter::concern(const MortiseGraph &graph) {
  return std::any_of(graph.nodes, graph.nodes + graph.node_count,
                     [](const MortiseNode *node) { return isConvolution(*node) || isPool(*node); });
}

// ---- What belongs together

WindowRewriter::WindowRewriter(const MortiseGraph &graph, Device &device, const MortiseCompileOptions &options)
    : graph(graph), device(device), options(options), typical(typicalValues(graph)), soleUsers(soleUsersOf(graph)),
      absorbed(graph.node_count) {
  findPatterns();
}

// Last convolutions first: of two that are added, the later one adds the other's result.
void WindowRewriter::findPatterns() {
  for (size_t n = graph.node_count; n-- > 0;) {
    if (!isConvolution(*graph.nodes[n]) || !device.hasConvolutionsOf(graph.nodes[n]->results[0]->type->dtype))
      continue;
    Pattern pattern = patternOf(*graph.nodes[n]);
    for (const uint32_t node : pattern.nodes)
      absorbed[node] = node != pattern.last->index;
    const uint32_t last = pattern.last->index;
    patterns.emplace(last, std::move(pattern));
  }
}

WindowRewriter::Pattern WindowRewriter::patternOf(const MortiseNode &convolution) const {
  Pattern pattern{&convolution, nullptr, false, &convolution, {convolution.index}};
  const MortiseValue &sums = *convolution.results[0];
  const MortiseNode *add = soleUsers[sums.index];
  if (!isNarrow(sums.type->dtype) || activationOf(convolution) != "none" || !add || !isOp(*add, Op::Add) ||
      patterns.contains(add->index) || absorbed[add->index])
    return pattern;
  const MortiseValue *other = add->operands[add->operands[0] == &sums ? 1 : 0];
  if (other->type->rank != sums.type->rank || dimsOf(*other->type) != dimsOf(*sums.type))
    return pattern;
  pattern.addend = other;
  pattern.last = add;
  pattern.nodes.push_back(add->index);
  const MortiseNode *relu = soleUsers[add->results[0]->index];
  if (relu && isOp(*relu, Op::Relu)) {
    pattern.hasRelu = true;
    pattern.last = relu;
    pattern.nodes.push_back(relu->index);
  }
  return pattern;
}

// ---- What the library is asked for

// The library reads 16 bytes of channels at once. For numbers of 16 bits with other channels, as images have them, it
// has one engine, which takes many times as long as the tensors take to be read and written.
bool WindowRewriter::isGenerated(const MortiseNode &convolution) const {
  constexpr int64_t channelsAtOnce = 8;
  const MortiseType &weight = *convolution.operands[1]->type;
  return isNarrow(weight.dtype) && device.target().matrices && intAttribute(convolution, "groups") == 1 &&
         weight.dims[1] % channelsAtOnce != 0;
}

// Best first. The last one is always there.
std::vector<WindowRewriter::Form> WindowRewriter::formsOf(const Pattern &pattern) const {
  const MortiseNode &node = *pattern.convolution;
  const int32_t dtype = node.results[0]->type->dtype;
  const bool isPlain = !scaleOf(node) && !biasOf(node) && activationOf(node) == "none" && !pattern.addend;
  if (!isNarrow(dtype))
    return {{dtype, dtype, isPlain}};
  std::vector<Form> forms;
  if (activationOf(node) == "none" || activationOf(node) == "relu")
    forms.push_back({dtype, dtype, true});
  forms.push_back({dtype, MORTISE_F32, false});
  forms.push_back({MORTISE_F32, MORTISE_F32, false});
  return forms;
}

WindowRewriter::Window WindowRewriter::windowOf(const MortiseNode &node) {
  Window window{listAttribute(node, "strides"), listAttribute(node, "dilations"), {}, {}, {}};
  const std::vector<int64_t> low = listAttribute(node, "low"), high = listAttribute(node, "high");
  const int64_t *extents = node.operands[1]->type->dims + 2;
  for (size_t i = 0; i < low.size(); ++i) {
    const int64_t padding = std::min({low[i], high[i], (extents[i] - 1) * window.dilations[i]});
    window.padding.push_back(padding);
    window.extraLow.push_back(low[i] - padding);
    window.extraHigh.push_back(high[i] - padding);
  }
  return window;
}

ConvolutionShape WindowRewriter::shapeOf(const Pattern &pattern, const Form &form) const {
  const MortiseNode &node = *pattern.convolution;
  const Window window = windowOf(node);
  ConvolutionShape shape;
  shape.call.dtype = form.dtype;
  shape.call.resultDtype = form.resultDtype;
  const bool mayRound = options.precision != MORTISE_PRECISION_HIGHEST;
  shape.call.tensorFloats = mayRound && form.dtype == MORTISE_F32;
  shape.call.channelsLast = mayRound || isNarrow(node.results[0]->type->dtype); // as tensor cores read them
  shape.call.deterministic = options.deterministic != 0;
  shape.call.strides = window.strides;
  shape.call.padding = window.padding;
  shape.call.dilations = window.dilations;
  if (form.isWhole) {
    shape.call.hasScale = scaleOf(node);
    shape.call.hasBias = biasOf(node);
    shape.call.hasAddend = pattern.addend;
    if (pattern.hasRelu || activationOf(node) == "relu")
      shape.call.activation = ConvolutionCall::Relu;
  }
  shape.x = dimsOf(*node.operands[0]->type);
  for (size_t i = 0; i < window.extraLow.size(); ++i)
    shape.x[i + 2] += Dim(window.extraLow[i] + window.extraHigh[i]);
  const MortiseType &weight = *node.operands[1]->type;
  shape.weight.assign(weight.dims, weight.dims + weight.rank);
  shape.result = dimsOf(*node.results[0]->type);
  return shape;
}

// For typical values of the symbols.
Result<std::shared_ptr<LibraryConvolution>> WindowRewriter::ask(const ConvolutionShape &shape) const {
  Result<ConvolutionCall> call = callOf(shape, typical);
  if (!call)
    return call.error();
  if (std::ranges::find(call->result, 0) != call->result.end())
    return Error{MORTISE_UNSUPPORTED, "there is nothing to compute"};
  Result<ConvolutionLibrary *> library = device.convolutions();
  if (!library)
    return library.error();
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return entered.error();
  return (*library)->prepare(*call);
}

Result<void> WindowRewriter::prepare() {
  std::set<ConvolutionCall> met;
  std::vector<ConvolutionShape> wanted;
  for (const auto &[last, pattern] : patterns) {
    if (isGenerated(*pattern.convolution))
      continue;
    ConvolutionShape shape = shapeOf(pattern, formsOf(pattern)[0]);
    if (Result<ConvolutionCall> call = callOf(shape, typical); call && met.insert(*call).second)
      wanted.push_back(std::move(shape));
  }
  std::vector<std::optional<Result<std::shared_ptr<LibraryConvolution>>>> results(wanted.size());
  std::atomic<size_t> next = 0;
  inThreads(std::min<size_t>(compileThreads(), wanted.size()), [&] {
    for (size_t i; (i = next++) < wanted.size();)
      results[i] = ask(wanted[i]);
  });
  for (const auto &result : results)
    if (!*result && (*result).error().code != MORTISE_UNSUPPORTED)
      return (*result).error();
  return {};
}

// ---- Nodes

bool WindowRewriter::changeNode(const MortiseNode &node, Drafts &drafts) {
  if (absorbed[node.index]) {
    drafts.clear();
    return true;
  }
  std::vector<uint32_t> from{node.index};
  bool done = true;
  if (const auto pattern = patterns.find(node.index); pattern != patterns.end()) {
    from = pattern->second.nodes;
    done = convolve(pattern->second, drafts);
  } else {
    done = isPool(node) ? pool(node, drafts) : follow(node, drafts);
  }
  origins.insert(origins.end(), drafts.size(), from);
  return done;
}

// The value as it is stored with channels last, or a view of it in that order.
const MortiseValue *WindowRewriter::lastOf(const MortiseValue &value, Drafts &drafts) {
  const auto known = lasts.find(&value);
  return known != lasts.end() ? known->second
                              : transposed(drafts, value, toLast(static_cast<size_t>(value.type->rank)));
}

void WindowRewriter::replaceByLast(const MortiseNode &node, const MortiseValue &last, Drafts &drafts) {
  const MortiseValue *result = node.results[0];
  lasts[result] = &last;
  replaceUses(result, transposed(drafts, last, toFirst(static_cast<size_t>(last.type->rank))));
  drafts.pop_back();
}

// `low` and `high`: of the spatial dimensions.
const MortiseValue *WindowRewriter::padded(const MortiseValue &value, size_t firstSpatial, std::vector<int64_t> low,
                                           std::vector<int64_t> high, std::vector<std::byte> filling, Drafts &drafts) {
  const auto isZero = [](int64_t number) { return number == 0; };
  if (std::ranges::all_of(low, isZero) && std::ranges::all_of(high, isZero))
    return &value;
  std::vector<Dim> dims = dimsOf(*value.type);
  for (std::vector<int64_t> *list : {&low, &high}) {
    list->insert(list->begin(), firstSpatial, 0);
    list->resize(dims.size(), 0);
  }
  for (size_t i = 0; i < dims.size(); ++i)
    dims[i] += Dim(low[i] + high[i]);
  return add(
      drafts, Op::Pad, {&value, scalar(drafts, value.type->dtype, std::move(filling))}, value.type->dtype, dims,
      {attribute("low", low), attribute("high", high), attribute("interior", std::vector<int64_t>(dims.size(), 0))});
}

// As a group computes it, in front of what `finished` adds, which becomes a part of the group.
const MortiseValue *WindowRewriter::generated(const Pattern &pattern, Drafts &drafts) {
  const MortiseNode &node = *pattern.convolution;
  const std::vector<int64_t> order = toLast(static_cast<size_t>(node.results[0]->type->rank));
  std::vector<const MortiseAttribute *> attributes{attribute(codegen::channelsLastAttribute, int64_t{1}),
                                                   attribute("groups", int64_t{1})};
  for (const char *name : {"strides", "low", "high", "dilations"})
    attributes.push_back(attribute(name, listAttribute(node, name)));
  return add(drafts, Op::Convolution, {lastOf(*node.operands[0], drafts), transposed(drafts, *node.operands[1], order)},
             MORTISE_F32, permuted(dimsOf(*node.results[0]->type), order), std::move(attributes));
}

bool WindowRewriter::convolve(const Pattern &pattern, Drafts &drafts) {
  const MortiseNode &node = *pattern.convolution;
  if (isGenerated(node)) {
    const MortiseValue *sums = generated(pattern, drafts);
    replaceByLast(*pattern.last, *finished(pattern, sums, sums->type->rank - 1, drafts), drafts);
    return true;
  }
  const std::vector<Form> forms = formsOf(pattern);
  size_t chosen = 0;
  for (; chosen + 1 < forms.size(); ++chosen) {
    auto asked = ask(shapeOf(pattern, forms[chosen]));
    if (asked)
      break;
    if (asked.error().code != MORTISE_UNSUPPORTED)
      return fail(asked.error().code, asked.error().message);
  }
  const Form &form = forms[chosen];
  const ConvolutionShape shape = shapeOf(pattern, form);
  const bool last = shape.call.channelsLast;
  const Window window = windowOf(node);
  const auto rank = shape.x.size();

  const MortiseValue *x = node.operands[0], *weight = node.operands[1];
  if (last) {
    x = lastOf(*x, drafts);
    weight = transposed(drafts, *weight, toLast(rank));
  }
  x = padded(*x, last ? 1 : 2, window.extraLow, window.extraHigh, zeroOf(x->type->dtype), drafts);
  std::vector<const MortiseValue *> operands{converted(drafts, *x, form.dtype), converted(drafts, *weight, form.dtype)};
  if (form.isWhole) {
    for (const MortiseValue *channels : {scaleOf(node), biasOf(node)})
      if (channels)
        operands.push_back(channels);
    if (pattern.addend)
      operands.push_back(last ? lastOf(*pattern.addend, drafts) : pattern.addend);
  }
  const std::vector<Dim> dims = last ? permuted(shape.result, toLast(rank)) : shape.result;
  const MortiseValue *value = add(drafts, Op::FusedConvolution, std::move(operands), form.resultDtype, dims,
                                  {attribute(shapeAttribute, static_cast<int64_t>(shapes.size()))});
  shapes.push_back(shape);
  if (!form.isWhole)
    value = finished(pattern, value, last ? static_cast<int64_t>(rank) - 1 : 1, drafts);
  if (last) {
    replaceByLast(*pattern.last, *value, drafts);
    return true;
  }
  replaceUses(pattern.last->results[0], value);
  drafts.pop_back();
  return true;
}

// What follows the sums, which are of f32, by groups: computed in f32 and rounded once.
const MortiseValue *WindowRewriter::finished(const Pattern &pattern, const MortiseValue *sums, int64_t channelAxis,
                                             Drafts &drafts) {
  const MortiseNode &node = *pattern.convolution;
  const int32_t dtype = sums->type->dtype;
  const std::vector<Dim> dims = dimsOf(*sums->type);
  const auto perChannel = [&](const MortiseValue &value) {
    return add(drafts, Op::Broadcast, {converted(drafts, value, dtype)}, dtype, dims,
               {attribute("shape", std::span<const Dim>(dims)), attribute("axes", std::vector<int64_t>{channelAxis})});
  };
  const auto apply = [&](Op op, std::vector<const MortiseValue *> operands,
                         std::vector<const MortiseAttribute *> attributes = {}) {
    return add(drafts, op, std::move(operands), dtype, dims, std::move(attributes));
  };
  const MortiseValue *value = sums;
  if (const MortiseValue *scale = scaleOf(node))
    value = apply(Op::Mul, {value, perChannel(*scale)});
  if (const MortiseValue *bias = biasOf(node))
    value = apply(Op::Add, {value, perChannel(*bias)});
  if (pattern.addend) {
    const bool last = channelAxis != 1;
    const MortiseValue *addend = last ? lastOf(*pattern.addend, drafts) : pattern.addend;
    value = apply(Op::Add, {value, converted(drafts, *addend, dtype)});
  }
  const std::string_view activation = activationOf(node);
  if (pattern.hasRelu || activation == "relu")
    value = apply(Op::Relu, {value});
  else if (activation == "silu")
    value = apply(Op::Silu, {value});
  else if (activation != "none")
    value = apply(Op::Gelu, {value}, {attribute("approximate", activation == "gelu" ? "none" : "tanh")});
  return converted(drafts, *value, node.results[0]->type->dtype);
}

bool WindowRewriter::pool(const MortiseNode &node, Drafts &drafts) {
  const bool isSum = isOp(node, Op::SumPool);
  const MortiseValue &x = *node.operands[0];
  const auto known = lasts.find(&x);
  const bool last = known != lasts.end();
  const size_t firstSpatial = last ? 1 : 2;
  const int32_t dtype = x.type->dtype, computed = isSum && isNarrow(dtype) ? MORTISE_F32 : dtype;
  const MortiseValue *value = converted(drafts, last ? *known->second : x, computed);
  value = padded(*value, firstSpatial, listAttribute(node, "low"), listAttribute(node, "high"),
                 isSum ? zeroOf(computed) : lowestOf(computed), drafts);
  const std::vector<int64_t> window = listAttribute(node, "window"), dilations = listAttribute(node, "dilations");
  const std::vector<Dim> from = dimsOf(*value->type), resultDims = dimsOf(*node.results[0]->type);
  const std::vector<Dim> dims = last ? permuted(resultDims, toLast(resultDims.size())) : resultDims;
  std::vector<int64_t> strides(from.size(), 1);
  std::ranges::copy(listAttribute(node, "strides"), strides.begin() + static_cast<ptrdiff_t>(firstSpatial));
  const MortiseValue *result = nullptr;
  std::vector<int64_t> at(window.size()); // an element of the window
  for (bool more = true; more;) {
    std::vector<Dim> starts(from.size(), Dim(0)), limits = from;
    for (size_t i = 0; i < window.size(); ++i) {
      const size_t axis = firstSpatial + i;
      starts[axis] = at[i] * dilations[i];
      limits[axis] = starts[axis] + (dims[axis] - Dim(1)) * Dim(strides[axis]) + Dim(1);
    }
    const MortiseValue *slice = add(drafts, Op::Slice, {value}, computed, dims,
                                    {attribute("starts", std::span<const Dim>(starts)),
                                     attribute("limits", std::span<const Dim>(limits)), attribute("strides", strides)});
    result = result ? add(drafts, isSum ? Op::Add : Op::Max, {result, slice}, computed, dims) : slice;
    more = false;
    for (size_t i = window.size(); i-- > 0 && !more;) {
      more = ++at[i] < window[i];
      if (!more)
        at[i] = 0;
    }
  }
  result = converted(drafts, *result, dtype);
  if (last) {
    replaceByLast(node, *result, drafts);
    return true;
  }
  replaceUses(node.results[0], result);
  drafts.pop_back();
  return true;
}

// An op on elements of values that are stored with channels last, which then has such a result.
bool WindowRewriter::follow(const MortiseNode &node, Drafts &drafts) {
  if (!has(node, Trait::Elementwise) || node.result_count != 1)
    return true;
  const std::vector<Dim> dims = dimsOf(*node.results[0]->type);
  bool any = false;
  for (size_t i = 0; i < node.operand_count; ++i) {
    const MortiseValue *operand = node.operands[i];
    if (!operand || static_cast<size_t>(operand->type->rank) != dims.size())
      return true;
    any |= lasts.contains(operand);
  }
  if (!any)
    return true;
  std::vector<const MortiseValue *> operands;
  for (size_t i = 0; i < node.operand_count; ++i)
    operands.push_back(lastOf(*node.operands[i], drafts));
  const MortiseValue *result =
      add(drafts, std::string(node.op), std::move(operands), node.results[0]->type->dtype,
          permuted(dims, toLast(dims.size())), {node.attributes, node.attributes + node.attribute_count});
  replaceByLast(node, *result, drafts);
  return true;
}

} // namespace mortise::cuda
