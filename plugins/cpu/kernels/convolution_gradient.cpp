// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gradients of convolutions, which the language has as convolutions: by reversed weights, of a tensor with zeros
// between its elements where there are strides (that of the input, which is a transposed convolution), and of two
// tensors whose batches are their channels (that of the weights). oneDNN computes them from the tensors as they lie, so
// that nothing is reversed or padded, and layouts are those of the neighbours.
#include "../device.hpp"
#include "convolution.hpp"
#include "question.hpp"

#include <mortise/plugin.hpp>

#include <algorithm>
#include <numeric>

namespace mortise::cpu {

using memory = dnnl::memory;

namespace {
// What the library makes of a gradient. The arguments are x, the weights (or the result's gradient), and the result.
struct GradientCall {
  dnnl::primitive_desc_base description;
  memory::desc x, weight, result;
  std::vector<int> arguments;

  bool isFast() const {
    return description && std::string_view(description.impl_info_str()).find("ref") == std::string_view::npos;
  }
};
} // namespace

static memory::desc anyLayout(const memory::dims &extents, memory::data_type type) {
  return memory::desc(extents, type, memory::format_tag::any);
}

template <typename Description>
static Question<Description> questionOf(const memory::desc &x, const memory::desc &weight, const memory::desc &result,
                                        std::initializer_list<const memory::dims *> parameters) {
  Question<Description> question;
  for (const memory::desc *layout : {&x, &weight, &result})
    question.add(*layout);
  for (const memory::dims *list : parameters)
    question.add(*list);
  return question;
}

static dnnl::primitive_attr attributes() {
  dnnl::primitive_attr made;
  made.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return made;
}

// Images are channels last, or as the library likes them; the weights, and their gradient, are as it likes them.
static memory::desc imageLayout(const FixedConvolution &made, const memory::dims &extents, bool last) {
  return last ? channelsLast(extents, made.compute) : anyLayout(extents, made.compute);
}

// A transposed convolution, by the weights before they are reversed. Its strides are how far apart a pad had put x.
static GradientCall describeInput(const FixedConvolution &made, bool last) {
  using Description = dnnl::deconvolution_forward::primitive_desc;
  const size_t rank = made.dilations.size();
  memory::dims low, high;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t reach = (made.weightDims[made.weightDims.size() - rank + i] - 1) * (made.dilations[i] + 1);
    low.push_back(reach - made.low[i]);
    high.push_back(reach - made.high[i]);
  }
  const memory::desc x = imageLayout(made, made.xDims, last), weight = anyLayout(made.weightDims, made.compute),
                     result = imageLayout(made, made.resultDims, last);
  auto question = questionOf<Description>(x, weight, result, {&made.spread, &made.dilations, &low, &high});
  const Description found = question.answer([&]() -> Description {
    return {engine(),
            dnnl::prop_kind::forward_inference,
            dnnl::algorithm::deconvolution_direct,
            x,
            weight,
            result,
            made.spread,
            made.dilations,
            low,
            high,
            attributes(),
            true};
  });
  if (!found)
    return {};
  return {
      found, found.src_desc(), found.weights_desc(), found.dst_desc(), {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}};
}

// The convolution runs over x with its channels as batch, by the result's gradient: its strides are the other one's
// dilations, and the other way round. resultDims are those of the weights.
static GradientCall describeWeights(const FixedConvolution &made, bool last) {
  using Forward = dnnl::convolution_forward::primitive_desc;
  using Description = dnnl::convolution_backward_weights::primitive_desc;
  memory::dims strides, dilations, high;
  for (size_t i = 0; i < made.strides.size(); ++i) {
    strides.push_back(made.dilations[i] + 1);
    dilations.push_back(made.strides[i] - 1);
    high.push_back((made.weightDims[i + 2] - 1) * strides[i] + (made.resultDims[i + 2] - 1) * made.strides[i] + 1 -
                   made.xDims[i + 2] - made.low[i]);
  }
  const memory::desc x = imageLayout(made, made.xDims, last), weight = imageLayout(made, made.weightDims, last),
                     result = anyLayout(made.resultDims, made.compute);
  auto question = questionOf<Description>(x, weight, result, {&strides, &dilations, &made.low, &high});
  const Description found = question.answer([&]() -> Description {
    constexpr auto algorithm = dnnl::algorithm::convolution_direct;
    const Forward forward(engine(), dnnl::prop_kind::forward_training, algorithm, x, result, weight, strides, dilations,
                          made.low, high, attributes(), true);
    if (!forward)
      return {};
    return {engine(), algorithm, x, result, weight, strides, dilations, made.low, high, forward, attributes(), true};
  });
  if (!found)
    return {};
  return {found,
          found.src_desc(),
          found.diff_dst_desc(),
          found.diff_weights_desc(),
          {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS}};
}

static View swapped(View view) {
  std::swap(view.dims[0], view.dims[1]);
  std::swap(view.strides[0], view.strides[1]);
  return view;
}

static FixedConvolution inNumbers(const Convolution &claimed, memory::dims resultDims, const Values &values) {
  if (claimed.gradient == Gradient::OfInput) {
    FixedConvolution made = fix(claimed, values(claimed.xView).dims, std::move(resultDims), values);
    for (int64_t apart : made.spread)
      made.flops /= static_cast<double>(apart);
    return made;
  }
  std::swap(resultDims[0], resultDims[1]);
  FixedConvolution made = fix(claimed, values(claimed.xView).dims, std::move(resultDims), values);
  made.flops *= static_cast<double>(made.weightDims[0]) / static_cast<double>(made.weightDims[1]); // sums over batches
  return made;
}

static GradientCall describe(const FixedConvolution &made, bool last = false) {
  return made.gradient == Gradient::OfInput ? describeInput(made, last) : describeWeights(made, last);
}

// One of the images at least lies so.
static bool isChannelsLast(StepBuilder &builder, const FixedConvolution &made) {
  if (made.gradient == Gradient::OfInput)
    return builder.units.roots[made.target].has_value();
  const auto lies = [&](const View &symbolic) {
    const FixedView view = builder.values(symbolic);
    return view.dims[1] > 1 && isLayoutOf(view, made.type, channelsLast(view.dims, made.type));
  };
  return lies(made.xView) || lies(made.weightView);
}

void addGradient(StepBuilder &builder, const Convolution &claimed) {
  const std::span<const int64_t> resultDims = builder.extents(claimed.result);
  const FixedConvolution made = inNumbers(claimed, {resultDims.begin(), resultDims.end()}, builder.values);
  const bool last = isChannelsLast(builder, made);
  GradientCall call = describe(made, last);
  if (last && !call.isFast())
    call = describe(made);
  const bool ofInput = made.gradient == Gradient::OfInput;
  const Operand x = inLayout(builder, made.x, builder.values(made.xView), call.x);
  const Operand weight = ofInput ? makeWeights(builder, made, call.weight).first
                                 : inLayout(builder, made.weight, builder.values(made.weightView), call.weight);
  FixedView wanted{made.target, 0, made.resultDims, builder.rootOf(made.target).strides}; // what the library computes
  if (!ofInput) {
    for (size_t i = 0; i < made.targetOrder.size(); ++i)
      wanted.strides[made.targetOrder[i]] = builder.rootOf(made.target).strides[i];
    std::swap(wanted.strides[0], wanted.strides[1]); // the node's result has inputs first
  }
  const bool direct =
      (!ofInput || builder.isWantedDense(made.target)) && isLayoutOf(wanted, made.targetType, call.result);
  Operand target = direct ? builder.write(made.target) : Operand{builder.allocate(call.result.get_size()), 0, true};
  Step &step = builder.addLibraryStep((ofInput ? "gradient of the input: " : "gradient of the weights: ") + title(made),
                                      "onednn.convolution_gradient", call.description, call.arguments,
                                      {call.x, call.weight, call.result}, {x, weight, target});
  step.nodes = made.nodes;
  step.flops = made.flops;
  if (direct)
    return;
  if (ofInput && made.type == made.compute) {
    builder.memoryOf(made.target).blocked = target.buffer;
    builder.memoryOf(made.target).layout = call.result;
    return;
  }
  target.written = false;
  builder.reorder("gradient", call.result, target, memory::desc(wanted.dims, made.targetType, wanted.strides),
                  builder.write(made.target));
}

// ---- Claims

static std::vector<int64_t> counted(int64_t from, size_t count) {
  std::vector<int64_t> list(count);
  std::iota(list.begin(), list.end(), from);
  return list;
}

static bool isZero(const Claims &claims, uint32_t scalar) {
  const MortiseNode *producer = claims.facts.value(scalar).producer;
  if (!producer || !isOp(*producer, "mortise.constant"))
    return false;
  const MortiseAttribute *literal = findAttribute(*producer, "value");
  const std::span bytes(static_cast<const char *>(literal->tensor_data), literal->count);
  return std::ranges::all_of(bytes, [](char byte) { return byte == 0; });
}

// A pad that puts zeros between elements of x, and may add to its ends or take from them, becomes `spread` and padding.
static bool takeSpread(Claims &claims, Convolution &made) {
  const MortiseNode *pad = claims.facts.value(made.x).producer;
  if (!pad || !isOp(*pad, "mortise.pad") || !isZero(claims, pad->operands[1]->index))
    return false;
  const auto interior = intsAttribute(*pad, "interior"), low = intsAttribute(*pad, "low"),
             high = intsAttribute(*pad, "high");
  if (findAttribute(*pad, "low")->exprs || findAttribute(*pad, "high")->exprs)
    return false;
  for (size_t i = 0; i < 2; ++i)
    if (interior[i] || low[i] || high[i])
      return false;
  for (size_t i = 0; i < made.low.size(); ++i)
    if ((low[i + 2] < 0 && made.low[i] > 0) || (high[i + 2] < 0 && made.high[i] > 0)) // zeros where elements were
      return false;
  for (size_t i = 0; i < made.spread.size(); ++i) {
    made.spread[i] += interior[i + 2];
    made.low[i] += low[i + 2];
    made.high[i] += high[i + 2];
  }
  if (claims.facts.soleUser(made.x))
    made.nodes.push_back(pad->index);
  made.x = pad->operands[0]->index;
  return true;
}

static bool readGradientOfInput(Claims &claims, Convolution &made) {
  const MortiseNode *reverse = claims.facts.value(made.weight).producer;
  made.spread.assign(made.strides.size(), 1);
  if (!reverse || !isOp(*reverse, "mortise.reverse") ||
      !std::ranges::equal(intsAttribute(*reverse, "axes"), counted(2, made.strides.size())) ||
      !std::ranges::all_of(made.strides, [](int64_t stride) { return stride == 1; }) ||
      (!takeSpread(claims, made) &&
       claims.facts.isConstant(made.weight))) // which are reversed once, when they are bound
    return false;
  if (claims.facts.soleUser(made.weight))
    made.nodes.push_back(reverse->index);
  made.weight = reverse->operands[0]->index;
  made.xView = readable(claims, made.x);
  made.weightView = readable(claims, made.weight);
  takeConversion(claims, made);
  made.gradient = Gradient::OfInput;
  return true;
}

// A slice that alone reads the value and leaves out its last elements: strided windows may end before x does.
static const MortiseNode *cutFromTheEnd(const Claims &claims, uint32_t value) {
  const MortiseNode *slice = claims.facts.soleUser(value);
  const auto isAll = [&](std::string_view name, int64_t number) {
    return std::ranges::all_of(intsAttribute(*slice, name), [&](int64_t item) { return item == number; });
  };
  return slice && isOp(*slice, "mortise.slice") && isAll("starts", 0) && isAll("strides", 1) ? slice : nullptr;
}

// x and the gradient of what x gave lie with batch and channels exchanged, and the sums are over more places than there
// are results for.
static bool readGradientOfWeights(Claims &claims, Convolution &made) {
  const Values &sample = claims.facts.sample;
  const View x = swapped(claims.viewOf(made.x)), weight = swapped(claims.viewOf(made.weight));
  const FixedView taps = sample(weight);
  const std::vector<int64_t> result = sample(claims.facts.extents(made.result));
  int64_t terms = 1, results = 1;
  for (size_t i = 2; i < result.size(); ++i)
    terms *= taps.dims[i], results *= result[i];
  const auto isImage = [](const View &view) { return isDense(view) || isChannelsLast(view); };
  if (made.groups != 1 || !isImage(x) || !isImage(weight) || taps.dims[0] == 1 || taps.dims[1] == 1 || terms < results)
    return false;
  made.xView = x, made.weightView = weight;
  made.gradient = Gradient::OfWeights;
  while (const MortiseNode *cut = cutFromTheEnd(claims, made.result)) {
    made.nodes.push_back(cut->index);
    made.result = made.target = cut->results[0]->index;
  }
  const MortiseNode *user = claims.facts.soleUser(made.result);
  if (user && isOp(*user, "mortise.transpose")) { // with outputs first, and with channels last where weights are so
    const std::span<const int64_t> order = intsAttribute(*user, "permutation");
    made.targetOrder.assign(order.begin(), order.end());
    made.nodes.push_back(user->index);
    made.target = user->results[0]->index;
    const MortiseNode *convert = claims.facts.soleUser(made.target);
    if (convert && isOp(*convert, "mortise.convert") && convert->results[0]->type->dtype == MORTISE_F32 &&
        made.compute == made.type) { // else it would not be rounded
      made.nodes.push_back(convert->index);
      made.target = convert->results[0]->index;
      made.targetType = memory::data_type::f32;
    }
  }
  return true;
}

// The gradient that a convolution is, if the library computes it in `type` faster than by its plain loops.
static std::optional<Convolution> readGradient(Claims &claims, const Convolution &alone, memory::data_type type) {
  for (auto *read : {readGradientOfInput, readGradientOfWeights}) {
    Convolution made = alone;
    made.compute = type;
    if (!read(claims, made))
      continue;
    std::vector<int64_t> result = claims.facts.sample(claims.facts.extents(made.result));
    if (elementCount(result) != 0 && describe(inNumbers(made, std::move(result), claims.facts.sample)).isFast())
      return made;
  }
  return {};
}

// Before anyone asks for views behind a gradient of weights, which has memory of its own as it is wanted.
Result<void> claimConvolutionGradients(Claims &claims) {
  for (size_t i = 0; i < claims.facts.graph.node_count; ++i) {
    const MortiseNode &node = *claims.facts.graph.nodes[i];
    if (!isOp(node, "mortise.convolution"))
      continue;
    const Convolution alone = readConvolution(claims, node);
    std::optional<Convolution> made = readGradient(claims, alone, alone.type);
    if (!made && alone.type != memory::data_type::f32) // few processors have gradients of 16 bits
      made = readGradient(claims, alone, memory::data_type::f32);
    if (!made)
      continue;
    if (made->target != made->result)
      claims.layout.makeDense(made->target);
    std::sort(made->nodes.begin(), made->nodes.end());
    for (uint32_t taken : made->nodes)
      claims.take(*claims.facts.graph.nodes[taken]);
    Unit unit;
    unit.nodes = made->nodes;
    unit.reads = {made->xView.base, made->weightView.base};
    unit.writes = {made->target};
    unit.work = std::move(*made);
    claims.units.push_back(std::move(unit));
  }
  return {};
}

} // namespace mortise::cpu
