// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions by oneDNN, in its own layouts: values between convolutions stay blocked. Bias and batch normalisation go
// into the weights when constants are bound; a residual is added in place and an activation applied before storing.
#include "convolution.hpp"
#include "../device.hpp"
#include "product.hpp"
#include "question.hpp"

#include <mortise/plugin.hpp>

#include <algorithm>
#include <bit>
#include <cmath>

namespace mortise::cpu {

using memory = dnnl::memory;

static memory::dims attribute(const MortiseNode &node, const char *name, int64_t less = 0) {
  memory::dims list;
  for (int64_t item : intsAttribute(node, name))
    list.push_back(item - less);
  return list;
}

View readable(Claims &claims, uint32_t value) {
  const View &view = claims.viewOf(value);
  return nests(view, claims.facts.sample, claims.facts.ranges) ? view : claims.facts.denseView(value);
}

void takeConversion(Claims &claims, Convolution &made) {
  const MortiseNode *convert = claims.facts.value(made.weightView.base).producer;
  if (made.hasConstantWeight || !convert || !isOp(*convert, "mortise.convert"))
    return;
  const MortiseValue &source = *convert->operands[0];
  if (source.type->dtype != MORTISE_F32 || claims.viewOf(source.index) != claims.facts.denseView(source.index))
    return;
  for (uint32_t value = made.weightView.base;;) {
    const MortiseNode *user = claims.facts.soleUser(value);
    if (user && std::ranges::find(made.nodes, user->index) != made.nodes.end())
      break;
    if (!user || !isOp(*user, Op::Transpose, Op::Reshape))
      return;
    value = user->results[0]->index;
  }
  made.nodes.push_back(convert->index);
  made.weightView.base = source.index;
  made.weightType = memory::data_type::f32;
}

Convolution readConvolution(Claims &claims, const MortiseNode &node) {
  Convolution made;
  made.nodes = {node.index};
  made.x = node.operands[0]->index;
  made.weight = node.operands[1]->index;
  made.result = made.target = node.results[0]->index;
  made.xView = readable(claims, made.x);
  made.weightView = readable(claims, made.weight);
  made.type = made.compute = made.weightType = made.targetType = libraryType(node.results[0]->type->dtype);
  made.hasConstantWeight = claims.facts.isConstant(made.weight);
  made.groups = intAttribute(node, "groups");
  made.strides = attribute(node, "strides");
  made.low = attribute(node, "low");
  made.high = attribute(node, "high");
  made.dilations = attribute(node, "dilations", 1);
  return made;
}

FixedConvolution fix(const Convolution &claimed, memory::dims xDims, memory::dims resultDims, const Values &values) {
  const FixedView weight = values(claimed.weightView);
  FixedConvolution made{claimed, std::move(xDims), std::move(resultDims), weight.dims, weight.strides, {}, 2};
  for (int64_t dim : made.resultDims)
    made.flops *= static_cast<double>(dim);
  for (size_t i = 1; i < weight.dims.size(); ++i)
    made.flops *= static_cast<double>(weight.dims[i]);
  if (made.groups > 1) {
    made.weightDims[0] /= made.groups;
    made.weightDims.insert(made.weightDims.begin(), made.groups);
    made.weightStrides.insert(made.weightStrides.begin(), made.weightDims[1] * made.weightStrides[0]);
  }
  for (size_t i = 0; i < made.weightDims.size(); ++i)
    if (made.weightDims[i] == 1)
      made.weightStrides[i] = i + 1 < made.weightDims.size() ? made.weightStrides[i + 1] * made.weightDims[i + 1] : 1;
  for (const Affine &affine : made.affine) {
    std::vector<int64_t> &strides = made.affineStrides.emplace_back();
    for (const Affine::Part &part : affine.operands)
      strides.push_back(part.value == none ? 0 : values(part.view.strides[0]));
  }
  return made;
}

// Channel values: strides 0 but for dimension 1.
static bool perChannel(const View &view) {
  for (size_t i = 0; i < view.dims.size(); ++i)
    if (i != 1 && !(view.dims[i] == 1) && !(view.strides[i] == 0))
      return false;
  return true;
}

static bool takeAffine(Claims &claims, Convolution &made, const MortiseNode &user) {
  Affine affine;
  affine.node = user.index;
  affine.op = opName(user);
  if (isOp(user, "mortise.batch_norm")) {
    if (user.operands[0]->index != made.target)
      return false;
    affine.kind = Affine::BatchNorm;
    affine.epsilon = floatAttribute(user, "epsilon");
    for (size_t i = 1; i < 5; ++i) {
      if (!user.operands[i]) {
        affine.operands.push_back({none, {}});
        continue;
      }
      uint32_t operand = user.operands[i]->index;
      if (!claims.facts.isConstant(operand) || claims.facts.type(operand).dtype != MORTISE_F32)
        return false;
      affine.operands.push_back({claims.viewOf(operand).base, claims.viewOf(operand)});
    }
  } else if (isOp(user, "mortise.add") || isOp(user, "mortise.mul")) {
    affine.kind = isOp(user, "mortise.add") ? Affine::Add : Affine::Multiply;
    uint32_t other = user.operands[user.operands[0]->index == made.target ? 1 : 0]->index;
    if (other == made.target || !claims.facts.isConstant(other))
      return false;
    View view = claims.viewOf(other);
    if (!perChannel(view))
      return false;
    view.dims = {view.dims[1]};
    view.strides = {view.strides[1]};
    affine.operands.push_back({view.base, view});
  } else {
    return false;
  }
  made.affine.push_back(std::move(affine));
  return true;
}

static bool takeResidual(Claims &claims, Convolution &made, const MortiseNode &user) {
  if (!isOp(user, "mortise.add") || made.residual != none || user.operands[0]->index == user.operands[1]->index)
    return false;
  uint32_t other = user.operands[user.operands[0]->index == made.target ? 1 : 0]->index;
  const View &view = claims.viewOf(other);
  if (!isDense(view) || !std::ranges::equal(claims.facts.extents(view.base), claims.facts.extents(made.target)) ||
      !std::ranges::equal(claims.facts.extents(other), claims.facts.extents(made.target)))
    return false;
  made.residual = view.base;
  return true;
}

static dnnl::convolution_forward::primitive_desc describe(const FixedConvolution &made, const memory::desc &x,
                                                          const memory::desc &result, bool biased) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops operations;
  Question<dnnl::convolution_forward::primitive_desc> question;
  if (made.residual != none)
    operations.append_sum(1);
  question.add(int64_t(made.residual != none));
  question.add(static_cast<int64_t>(made.activations.size()));
  for (const PostOp &post : made.activations) {
    operations.append_eltwise(post.algorithm, post.alpha, post.beta);
    question.add(static_cast<int64_t>(post.algorithm));
    question.add(post.alpha);
    question.add(post.beta);
  }
  attributes.set_post_ops(operations);
  memory::desc weights(made.weightDims, made.compute, memory::format_tag::any), bias;
  if (biased)
    bias = memory::desc({made.resultDims[1]}, memory::data_type::f32, memory::format_tag::a);
  question.add(x);
  question.add(weights);
  question.add(result);
  for (const memory::dims *list : {&made.strides, &made.dilations, &made.low, &made.high})
    question.add(*list);
  question.add(int64_t(biased));
  question.add(int64_t(made.hasConstantWeight));
  return question.answer([&]() -> dnnl::convolution_forward::primitive_desc {
    // Weights that change are reordered in each call, which takes longer for the layouts that inference gets.
    const auto kind = made.hasConstantWeight ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training;
    constexpr auto algorithm = dnnl::algorithm::convolution_direct;
    if (!biased)
      return {engine(),     kind,           algorithm, x,         weights,    result,
              made.strides, made.dilations, made.low,  made.high, attributes, true};
    return {engine(),     kind,           algorithm, x,         weights,    bias, result,
            made.strides, made.dilations, made.low,  made.high, attributes, true};
  });
}

static memory::desc anyLayout(const memory::dims &extents, memory::data_type type) {
  return memory::desc(extents, type, memory::format_tag::any);
}

// ---- Weights

// Scales and shifts, channel by channel: weights' = weights * scale, bias' = shift.
static void foldAffine(const std::vector<Affine> &affine, const std::vector<std::vector<int64_t>> &strides,
                       int64_t channels, int64_t perChannel, void *const *operands) {
  const auto *weights = static_cast<const float *>(operands[0]);
  auto *folded = static_cast<float *>(operands[1]), *bias = static_cast<float *>(operands[2]);
  for (int64_t channel = 0; channel < channels; ++channel) {
    double scale = 1, shift = 0;
    void *const *next = operands + 3;
    for (size_t s = 0; s < affine.size(); ++s) {
      const Affine &step = affine[s];
      double values[4] = {1, 0, 0, 1};
      for (size_t i = 0; i < step.operands.size(); ++i)
        if (step.operands[i].value != none)
          values[i] = static_cast<const float *>(*next++)[channel * strides[s][i]];
      if (step.kind == Affine::Add) {
        shift += values[0];
      } else if (step.kind == Affine::Multiply) {
        scale *= values[0];
        shift *= values[0];
      } else {
        double factor = values[0] / std::sqrt(values[3] + step.epsilon);
        scale *= factor;
        shift = (shift - values[2]) * factor + values[1];
      }
    }
    for (int64_t i = 0; i < perChannel; ++i)
      folded[channel * perChannel + i] = static_cast<float>(weights[channel * perChannel + i] * scale);
    bias[channel] = static_cast<float>(shift);
  }
}

// All that foldAffine() does.
static std::string foldSignature(const FixedConvolution &made, int64_t channels, int64_t perChannel) {
  std::string text = "fold " + std::to_string(channels) + " " + std::to_string(perChannel);
  for (size_t s = 0; s < made.affine.size(); ++s) {
    const Affine &affine = made.affine[s];
    text += " " + std::to_string(affine.kind);
    if (affine.kind == Affine::BatchNorm)
      text += " " + std::to_string(std::bit_cast<uint64_t>(affine.epsilon));
    for (size_t i = 0; i < affine.operands.size(); ++i)
      text += affine.operands[i].value == none ? " -" : " " + std::to_string(made.affineStrides[s][i]);
  }
  return text;
}

std::pair<Operand, Operand> makeWeights(StepBuilder &builder, const FixedConvolution &made,
                                        const memory::desc &wanted) {
  bool bind = builder.isConstant(made.weight), before = builder.binding;
  builder.binding = bind || before;
  const FixedView view = builder.values(made.weightView);
  Operand weights = builder.read(view.base, view.offset), bias;
  memory::desc layout(made.weightDims, made.weightType, made.weightStrides);
  if (!made.affine.empty()) {
    memory::desc dense(made.weightDims, made.type, denseStrides(made.weightDims));
    int64_t channels = made.resultDims[1];
    Step step;
    step.name = "fold " + std::to_string(made.affine.size()) + " channel scales and shifts into weights";
    step.lowering = "cpu.fold";
    if (layout != dense) {
      Operand packed{builder.keep(dense.get_size()), 0, true};
      builder.reorder("weights", layout, weights, dense, packed);
      weights = packed;
      weights.written = false;
    }
    Operand folded{builder.keep(dense.get_size()), 0, true};
    bias = {builder.keep(static_cast<size_t>(channels) * 4), 0, true};
    step.operands = {weights, folded, bias};
    for (const Affine &affine : made.affine)
      for (const Affine::Part &part : affine.operands)
        if (part.value != none)
          step.operands.push_back(builder.read(part.value, builder.values(part.view.offset)));
    int64_t perChannel = static_cast<int64_t>(dense.get_size()) / 4 / std::max<int64_t>(channels, 1);
    step.action =
        NativeLoop{[affine = made.affine, strides = made.affineStrides, channels, perChannel](void *const *operands) {
                     foldAffine(affine, strides, channels, perChannel, operands);
                   },
                   foldSignature(made, channels, perChannel)};
    builder.addStep(std::move(step));
    weights = folded;
    layout = dense;
    weights.written = bias.written = false;
  }
  if (layout != wanted) {
    Operand packed{bind ? builder.keep(wanted.get_size()) : builder.allocate(wanted.get_size()), 0, true};
    builder.reorder("weights", layout, weights, wanted, packed);
    weights = packed;
    weights.written = false;
  }
  builder.binding = before;
  return {weights, bias};
}

// ---- Steps

std::string title(const FixedConvolution &made) {
  auto list = [](const memory::dims &extents, size_t from) {
    std::string text;
    for (size_t i = from; i < extents.size(); ++i)
      text += (i == from ? "" : "x") + std::to_string(extents[i]);
    return text;
  };
  std::string name =
      "convolution " + list(made.xDims, 0) + " to " + list(made.resultDims, 1) + " by " + list(made.weightDims, 2);
  for (const Affine &affine : made.affine)
    name += " + " + std::string(affine.op == "add" ? "bias" : affine.op);
  if (made.residual != none)
    name += " + residual";
  for (const PostOp &post : made.activations)
    name += " + " + std::string(post.op);
  for (size_t i = made.inputActivations.size(); i-- > 0;)
    name.insert(0, std::string(made.inputActivations[i].op) + " + ");
  return name;
}

Operand inLayout(StepBuilder &builder, uint32_t index, const FixedView &view, const memory::desc &wanted) {
  Memory &found = builder.memoryOf(view.base);
  const bool whole = builder.isWhole(view);
  if (whole && found.blocked != none && found.layout == wanted)
    return {found.blocked, 0, false};
  const memory::data_type type = libraryType(builder.type(index).dtype);
  const bool isThere = isLayoutOf(view, type, wanted);
  memory::desc layout;
  Operand source;
  if (whole && found.blocked != none && !(isThere && found.dense != none)) {
    layout = found.layout;
    source = {found.blocked, 0, false};
  } else {
    memory::dims strides = view.strides;
    for (size_t i = strides.size(); i-- > 0;)
      if (view.dims[i] == 1)
        strides[i] = i + 1 < strides.size() ? strides[i + 1] * view.dims[i + 1] : 1;
    layout = memory::desc(view.dims, type, strides);
    source = builder.read(view.base, view.offset);
    if (isThere)
      return source;
  }
  if (layout == wanted)
    return source;
  Operand target{builder.allocate(wanted.get_size()), 0, true};
  builder.reorder("to the convolution's layout", layout, source, wanted, target);
  target.written = false;
  if (whole && found.blocked == none &&
      wanted.get_data_type() == layout.get_data_type()) { // for other convolutions, too
    found.blocked = target.buffer;
    found.layout = wanted;
  }
  return target;
}

// The layout that x has, when converting it would cost more than the convolution may lose by reading it so.
static memory::desc inputLayout(StepBuilder &builder, const FixedConvolution &made) {
  memory::desc any = anyLayout(made.xDims, made.compute);
  const FixedView view = builder.values(made.xView);
  const Memory &found = builder.memoryOf(view.base);
  if (found.blocked == none || found.layout.get_dims() != made.xDims || !isDense(view) || made.type != made.compute)
    return any;
  const MortiseDeviceInfo &device = deviceInfo();
  double converting = 2 * static_cast<double>(found.layout.get_size()) / device.bandwidth + 1.5e-6;
  return made.flops / device.peak_flops < 8 * converting ? found.layout : any;
}

static bool isPlain(const dnnl::convolution_forward::primitive_desc &description) {
  return !description || std::string_view(description.impl_info_str()).starts_with("ref");
}

Result<void> addSteps(StepBuilder &builder, const Unit &unit, const Convolution &claimed) {
  if (builder.elements(claimed.target) == 0) {
    builder.write(claimed.target);
    return {};
  }
  if (claimed.gradient != Gradient::None) {
    addGradient(builder, claimed);
    return {};
  }
  const std::span<const int64_t> xDims = builder.extents(claimed.x), resultDims = builder.extents(claimed.result);
  const FixedConvolution made =
      fix(claimed, {xDims.begin(), xDims.end()}, {resultDims.begin(), resultDims.end()}, builder.values);
  if (made.byLoop) {
    addDepthwiseLoop(builder, made);
    return {};
  }
  const FixedView root = builder.rootOf(made.target);
  bool biased = !made.affine.empty(), sameType = made.type == made.compute;
  Memory residual = made.residual == none ? Memory{} : builder.memoryOf(made.residual);
  bool inPlace =
      residual.blocked != none && sameType && made.xView.base != made.residual && builder.diesAt(made.residual, unit);
  struct Layouts {
    memory::desc x, result;
    bool inPlace = false;
  };
  std::vector<Layouts> wanted; // best first
  const memory::desc any = anyLayout(made.xDims, made.compute), given = inputLayout(builder, made),
                     anyResult = anyLayout(made.resultDims, made.compute);
  if (builder.units.roots[made.target])
    wanted.push_back({channelsLast(made.xDims, made.compute), channelsLast(made.resultDims, made.compute)});
  if (inPlace)
    wanted.insert(wanted.end(), {{given, residual.layout, true}, {any, residual.layout, true}});
  wanted.insert(wanted.end(), {{given, anyResult}, {any, anyResult}});
  dnnl::convolution_forward::primitive_desc description;
  for (const Layouts &each : wanted) {
    description = describe(made, each.x, each.result, biased);
    inPlace = each.inPlace;
    if (!isPlain(description))
      break;
  }
  if (!description)
    return Error{MORTISE_INTERNAL, "oneDNN takes no " + title(made) + " on this machine; please report it"};
  Operand x = inLayout(builder, made.x, builder.values(made.xView), description.src_desc());
  auto [weights, bias] = makeWeights(builder, made, description.weights_desc());
  const memory::desc result = description.dst_desc();
  const bool direct =
      made.residual == none && builder.isWantedDense(made.target) && isLayoutOf(root, made.type, result);
  Operand target;
  if (inPlace) {
    target = {residual.blocked, 0, true};
  } else if (made.residual != none) {
    Memory &found = builder.memoryOf(made.residual);
    const Memory before = found; // now, since x may be the residual
    target = inLayout(builder, made.residual, builder.viewOf(made.residual), result);
    if (before.blocked == target.buffer ||
        found.dense == target.buffer) { // needed there: by the convolution, or behind
      Operand copy{builder.allocate(result.get_size()), 0, true};
      builder.reorder("residual", result, target, result, copy);
      target = copy;
    } else { // written over
      found.blocked = before.blocked, found.layout = before.layout;
    }
    target.written = true;
  } else {
    target = direct ? builder.write(made.target) : Operand{builder.allocate(result.get_size()), 0, true};
  }
  std::vector<int> arguments = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
  std::vector<memory::desc> layouts = {description.src_desc(), description.weights_desc(), result};
  std::vector<Operand> operands = {x, weights, target};
  if (biased) {
    arguments.push_back(DNNL_ARG_BIAS);
    layouts.push_back(description.bias_desc());
    operands.push_back(bias);
  }
  Step &step =
      builder.addLibraryStep(title(made), isPlain(description) ? "onednn.convolution.plain" : "onednn.convolution",
                             description, arguments, layouts, operands);
  step.nodes = made.nodes;
  step.flops = made.flops;
  if (direct)
    return {};
  if (sameType) {
    builder.memoryOf(made.target).blocked = target.buffer;
    builder.memoryOf(made.target).layout = result;
  } else {
    target.written = false;
    builder.reorder("result", result, target, memory::desc(root.dims, made.type, root.strides),
                    builder.write(made.target));
  }
  return {};
}

// ---- Claims

static void findFusions(Claims &claims, Convolution &made) {
  bool affine = claims.facts.isConstant(made.weight) && made.type == memory::data_type::f32;
  for (;;) {
    if (Activation activation = findActivation(claims, made.target); !activation.post.empty()) {
      made.activations = std::move(activation.post);
      made.activationNodes = std::move(activation.nodes);
      made.nodes.insert(made.nodes.end(), made.activationNodes.begin(), made.activationNodes.end());
      made.beforeActivation = made.target;
      made.target = activation.target;
      break;
    }
    const MortiseNode *user = claims.facts.soleUser(made.target);
    if (!user || claims.isTaken(*user))
      break;
    if (affine && made.residual == none && takeAffine(claims, made, *user)) {
    } else if (made.type == made.compute && takeResidual(claims, made, *user)) {
      affine = false;
    } else {
      break;
    }
    made.nodes.push_back(user->index);
    made.target = user->results[0]->index;
  }
}

Result<void> claimConvolutions(Claims &claims) {
  for (size_t i = 0; i < claims.facts.graph.node_count; ++i) {
    const MortiseNode &node = *claims.facts.graph.nodes[i];
    if (!isOp(node, "mortise.convolution") || claims.isTaken(node))
      continue;
    Convolution made = readConvolution(claims, node);
    takeConversion(claims, made);
    auto inNumbers = [&] {
      const Values &sample = claims.facts.sample;
      return fix(made, sample(claims.facts.extents(made.x)), sample(claims.facts.extents(made.result)), sample);
    };
    auto ask = [&] {
      FixedConvolution tried = inNumbers();
      return describe(tried, anyLayout(tried.xDims, tried.compute), anyLayout(tried.resultDims, tried.compute),
                      !tried.affine.empty());
    };
    if (elementCount(claims.facts.sample(claims.facts.extents(made.target))) != 0) {
      if (!ask())
        made.compute = memory::data_type::f32;
      const auto alone = ask();
      Convolution plain = made;
      findFusions(claims, made);
      // Its plain loops take every post op, and are a hundred times slower than what may refuse one.
      if (const auto fused = ask(); !fused || (isPlain(fused) && !isPlain(alone)))
        made = std::move(plain);
      if (!alone)
        return Error{MORTISE_UNSUPPORTED,
                     "oneDNN takes no " + title(inNumbers()) + " of " + dtypeName(node.results[0]->type->dtype)};
    }
    for (uint32_t taken : made.nodes)
      claims.take(*claims.facts.graph.nodes[taken]);
    claimDepthwiseLoop(claims, made);
    std::sort(made.nodes.begin(), made.nodes.end());
    Unit unit;
    unit.nodes = made.nodes;
    unit.reads = {made.xView.base, made.weightView.base};
    for (const Affine &affine : made.affine)
      for (const Affine::Part &part : affine.operands)
        if (part.value != none)
          unit.reads.push_back(part.value);
    if (made.residual != none)
      unit.reads.push_back(made.residual);
    unit.writes = {made.target};
    unit.work = std::move(made);
    claims.units.push_back(std::move(unit));
  }
  return {};
}

} // namespace mortise::cpu
