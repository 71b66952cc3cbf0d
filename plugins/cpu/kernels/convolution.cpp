// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions by oneDNN, in its own layouts: values between convolutions stay blocked. Bias and batch normalisation go
// into the weights when constants are bound; a residual is added in place and an activation applied before storing.
#include "../device.hpp"
#include "product.hpp"

#include <mortise/plugin.hpp>

#include <algorithm>
#include <bit>
#include <cmath>

namespace mortise::cpu {

using memory = dnnl::memory;

namespace {
// One step of y = scale * x + shift per channel, from constants.
struct Affine {
  const MortiseNode *node = nullptr;
  enum Kind { Add, Multiply, BatchNorm } kind = Add;
  std::vector<std::pair<uint32_t, View>>
      operands;                 // Add, Multiply: one; BatchNorm: scale, bias (or none), mean, variance
  std::vector<int64_t> strides; // of the operands, in numbers
};

// What the claim decides, then what the symbols' values add to it.
struct Convolution {
  const MortiseNode *node = nullptr;
  std::vector<uint32_t> nodes;
  uint32_t x = none, weight = none, target = none;
  std::vector<Affine> affine;
  uint32_t residual = none;
  std::vector<PostOp> activations; // none or one
  memory::data_type type = memory::data_type::undef, compute = memory::data_type::undef;

  memory::dims xDims, resultDims, weightDims, weightStrides; // weights with the group dimension where there is one
  memory::dims strides, low, high, dilations;
  double flops = 0;
};
} // namespace

static memory::dims attribute(const MortiseNode &node, const char *name, int64_t less = 0) {
  memory::dims list;
  for (int64_t item : intsAttribute(node, name))
    list.push_back(item - less);
  return list;
}

static Convolution readConvolution(const MortiseNode &node) {
  Convolution made;
  made.node = &node;
  made.nodes = {node.index};
  made.x = node.operands[0]->index;
  made.weight = node.operands[1]->index;
  made.target = node.results[0]->index;
  made.type = made.compute = libraryType(node.results[0]->type->dtype);
  return made;
}

// `weight`: where the weights are.
static Convolution inNumbers(Convolution made, const Scheduler &scheduler, const Values &values,
                             const FixedView &weight) {
  const MortiseNode &node = *made.node;
  made.xDims = values(scheduler.extents(made.x));
  made.resultDims = values(scheduler.extents(node.results[0]->index));
  made.weightDims = weight.dims;
  made.weightStrides = weight.strides;
  made.flops = 2;
  for (int64_t dim : made.resultDims)
    made.flops *= static_cast<double>(dim);
  for (size_t i = 1; i < weight.dims.size(); ++i)
    made.flops *= static_cast<double>(weight.dims[i]);
  if (int64_t groups = intAttribute(node, "groups"); groups > 1) {
    made.weightDims[0] /= groups;
    made.weightDims.insert(made.weightDims.begin(), groups);
    made.weightStrides.insert(made.weightStrides.begin(), made.weightDims[1] * made.weightStrides[0]);
  }
  for (size_t i = 0; i < made.weightDims.size(); ++i)
    if (made.weightDims[i] == 1)
      made.weightStrides[i] = i + 1 < made.weightDims.size() ? made.weightStrides[i + 1] * made.weightDims[i + 1] : 1;
  made.strides = attribute(node, "strides");
  made.low = attribute(node, "low");
  made.high = attribute(node, "high");
  made.dilations = attribute(node, "dilations", 1);
  for (Affine &affine : made.affine) {
    affine.strides.clear();
    for (auto &[value, view] : affine.operands)
      affine.strides.push_back(value == none ? 0 : values(view.strides[0]));
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

static bool takeAffine(Scheduler &scheduler, Convolution &made, const MortiseNode &user) {
  Affine affine;
  affine.node = &user;
  if (isOp(user, "mortise.batch_norm")) {
    if (user.operands[0]->index != made.target)
      return false;
    affine.kind = Affine::BatchNorm;
    for (size_t i = 1; i < 5; ++i) {
      if (!user.operands[i]) {
        affine.operands.push_back({none, {}});
        continue;
      }
      uint32_t operand = user.operands[i]->index;
      if (!scheduler.isConstant(operand) || scheduler.type(operand).dtype != MORTISE_F32)
        return false;
      affine.operands.push_back({scheduler.viewOf(operand).base, scheduler.viewOf(operand)});
    }
  } else if (isOp(user, "mortise.add") || isOp(user, "mortise.mul")) {
    affine.kind = isOp(user, "mortise.add") ? Affine::Add : Affine::Multiply;
    uint32_t other = user.operands[user.operands[0]->index == made.target ? 1 : 0]->index;
    if (other == made.target || !scheduler.isConstant(other))
      return false;
    View view = scheduler.viewOf(other);
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

static bool takeResidual(Scheduler &scheduler, Convolution &made, const MortiseNode &user) {
  if (!isOp(user, "mortise.add") || made.residual != none || user.operands[0]->index == user.operands[1]->index)
    return false;
  uint32_t other = user.operands[user.operands[0]->index == made.target ? 1 : 0]->index;
  const View &view = scheduler.viewOf(other);
  if (!isDense(view) || !std::ranges::equal(scheduler.extents(view.base), scheduler.extents(made.target)) ||
      !std::ranges::equal(scheduler.extents(other), scheduler.extents(made.target)))
    return false;
  made.residual = view.base;
  return true;
}

static dnnl::convolution_forward::primitive_desc describe(const Convolution &made, const memory::desc &x,
                                                          const memory::desc &result, bool biased) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops operations;
  if (made.residual != none)
    operations.append_sum(1);
  for (const PostOp &post : made.activations)
    operations.append_eltwise(post.algorithm, post.alpha, post.beta);
  attributes.set_post_ops(operations);
  memory::desc weights(made.weightDims, made.compute, memory::format_tag::any);
  auto kind = dnnl::prop_kind::forward_inference;
  auto algorithm = dnnl::algorithm::convolution_direct;
  if (!biased)
    return {engine(),     kind,           algorithm, x,         weights,    result,
            made.strides, made.dilations, made.low,  made.high, attributes, true};
  memory::desc bias({made.resultDims[1]}, memory::data_type::f32, memory::format_tag::a);
  return {engine(),     kind,           algorithm, x,         weights,    bias, result,
          made.strides, made.dilations, made.low,  made.high, attributes, true};
}

static memory::desc anyLayout(const memory::dims &extents, memory::data_type type) {
  return memory::desc(extents, type, memory::format_tag::any);
}

// ---- Weights

// Scales and shifts, channel by channel: weights' = weights * scale, bias' = shift.
static void foldAffine(const std::vector<Affine> &affine, int64_t channels, int64_t perChannel, void *const *operands) {
  const auto *weights = static_cast<const float *>(operands[0]);
  auto *folded = static_cast<float *>(operands[1]), *bias = static_cast<float *>(operands[2]);
  for (int64_t channel = 0; channel < channels; ++channel) {
    double scale = 1, shift = 0;
    void *const *next = operands + 3;
    for (const Affine &step : affine) {
      double values[4] = {1, 0, 0, 1};
      for (size_t i = 0; i < step.operands.size(); ++i)
        if (step.operands[i].first != none)
          values[i] = static_cast<const float *>(*next++)[channel * step.strides[i]];
      if (step.kind == Affine::Add) {
        shift += values[0];
      } else if (step.kind == Affine::Multiply) {
        scale *= values[0];
        shift *= values[0];
      } else {
        double factor = values[0] / std::sqrt(values[3] + floatAttribute(*step.node, "epsilon"));
        scale *= factor;
        shift = (shift - values[2]) * factor + values[1];
      }
    }
    for (int64_t i = 0; i < perChannel; ++i)
      folded[channel * perChannel + i] = static_cast<float>(weights[channel * perChannel + i] * scale);
    bias[channel] = static_cast<float>(shift);
  }
}

// Weights in the library's layout and the bias; made when constants are bound if the weights are constant.
static std::pair<Operand, Operand> makeWeights(Emitter &emitter, const Convolution &made, const memory::desc &wanted) {
  bool bind = emitter.isConstant(made.weight), before = emitter.binding;
  emitter.binding = bind || before;
  const FixedView &view = emitter.viewOf(made.weight);
  Operand weights = emitter.read(view.base, view.offset), bias;
  memory::desc layout(made.weightDims, made.type, made.weightStrides);
  if (!made.affine.empty()) {
    memory::desc dense(made.weightDims, made.type, denseStrides(made.weightDims));
    int64_t channels = made.resultDims[1];
    Step step;
    step.name = "fold " + std::to_string(made.affine.size()) + " channel scales and shifts into weights";
    step.lowering = "cpu.fold";
    if (layout != dense) {
      Operand packed{emitter.keep(dense.get_size()), 0, true};
      emitter.reorder("weights", layout, weights, dense, packed);
      weights = packed;
      weights.written = false;
    }
    Operand folded{emitter.keep(dense.get_size()), 0, true};
    bias = {emitter.keep(static_cast<size_t>(channels) * 4), 0, true};
    step.operands = {weights, folded, bias};
    for (const Affine &affine : made.affine)
      for (auto &[value, operandView] : affine.operands)
        if (value != none)
          step.operands.push_back(emitter.read(value, emitter.values(operandView.offset)));
    int64_t perChannel = static_cast<int64_t>(dense.get_size()) / 4 / std::max<int64_t>(channels, 1);
    step.native = [affine = made.affine, channels, perChannel](void *const *operands) {
      foldAffine(affine, channels, perChannel, operands);
    };
    step.signature = "fold " + std::to_string(channels) + " " + std::to_string(perChannel);
    for (const Affine &affine : made.affine) {
      step.signature += " " + std::to_string(affine.kind);
      if (affine.kind == Affine::BatchNorm)
        step.signature += " " + std::to_string(std::bit_cast<uint64_t>(floatAttribute(*affine.node, "epsilon")));
      for (size_t i = 0; i < affine.operands.size(); ++i)
        step.signature += affine.operands[i].first == none ? " -" : " " + std::to_string(affine.strides[i]);
    }
    emitter.addStep(std::move(step));
    weights = folded;
    layout = dense;
    weights.written = bias.written = false;
  }
  if (layout != wanted) {
    Operand packed{bind ? emitter.keep(wanted.get_size()) : emitter.allocate(wanted.get_size()), 0, true};
    emitter.reorder("weights", layout, weights, wanted, packed);
    weights = packed;
    weights.written = false;
  }
  emitter.binding = before;
  return {weights, bias};
}

// ---- Steps

static std::string title(const Convolution &made) {
  auto list = [](const memory::dims &extents, size_t from) {
    std::string text;
    for (size_t i = from; i < extents.size(); ++i)
      text += (i == from ? "" : "x") + std::to_string(extents[i]);
    return text;
  };
  std::string name =
      "convolution " + list(made.xDims, 0) + " to " + list(made.resultDims, 1) + " by " + list(made.weightDims, 2);
  for (const Affine &affine : made.affine)
    name += std::string(" + ") + (std::string_view(affine.node->op).substr(8) == "add" ? "bias" : affine.node->op + 8);
  if (made.residual != none)
    name += " + residual";
  for (const PostOp &post : made.activations)
    name += std::string(" + ") + (post.node->op + 8);
  return name;
}

// A value in the layout wanted: as it is, or reordered.
static Operand inLayout(Emitter &emitter, uint32_t index, const memory::desc &wanted) {
  const FixedView &view = emitter.viewOf(index);
  Memory &found = emitter.memoryOf(view.base);
  bool whole = isDense(view) && std::ranges::equal(emitter.extents(view.base), view.dims);
  if (whole && found.blocked != none && found.layout == wanted)
    return {found.blocked, 0, false};
  memory::desc layout;
  Operand source;
  if (whole && found.blocked != none) {
    layout = found.layout;
    source = {found.blocked, 0, false};
  } else {
    memory::dims strides = view.strides;
    for (size_t i = strides.size(); i-- > 0;)
      if (view.dims[i] == 1)
        strides[i] = i + 1 < strides.size() ? strides[i + 1] * view.dims[i + 1] : 1;
    layout = memory::desc(view.dims, libraryType(emitter.type(index).dtype), strides);
    source = emitter.read(view.base, view.offset);
  }
  if (layout == wanted)
    return source;
  Operand target{emitter.allocate(wanted.get_size()), 0, true};
  emitter.reorder("to the convolution's layout", layout, source, wanted, target);
  target.written = false;
  return target;
}

// The layout that x has, when converting it would cost more than the convolution may lose by reading it so.
static memory::desc inputLayout(Emitter &emitter, const Convolution &made) {
  memory::desc any = anyLayout(made.xDims, made.compute);
  const FixedView &view = emitter.viewOf(made.x);
  const Memory &found = emitter.memoryOf(view.base);
  if (found.blocked == none || found.layout.get_dims() != made.xDims || !isDense(view) || made.type != made.compute)
    return any;
  const MortiseDeviceInfo &device = deviceInfo();
  double converting = 2 * static_cast<double>(found.layout.get_size()) / device.bandwidth + 1.5e-6;
  return made.flops / device.peak_flops < 8 * converting ? found.layout : any;
}

static bool isPlain(const dnnl::convolution_forward::primitive_desc &description) {
  return !description || std::string_view(description.impl_info_str()).starts_with("ref");
}

static Result<void> emitConvolution(Emitter &emitter, const Convolution &claimed, const Unit &unit) {
  if (emitter.elements(claimed.target) == 0) {
    emitter.write(claimed.target);
    return {};
  }
  const Convolution made = inNumbers(claimed, emitter.plan, emitter.values, emitter.viewOf(claimed.weight));
  memory::desc result = anyLayout(made.resultDims, made.compute);
  bool biased = !made.affine.empty(), sameType = made.type == made.compute;
  Memory residual = made.residual == none ? Memory{} : emitter.memoryOf(made.residual);
  bool inPlace = residual.blocked != none && sameType && emitter.viewOf(made.x).base != made.residual &&
                 emitter.diesAt(made.residual, unit);
  dnnl::convolution_forward::primitive_desc description;
  memory::desc any = anyLayout(made.xDims, made.compute), given = inputLayout(emitter, made);
  if (inPlace)
    description = describe(made, given, residual.layout, biased);
  if (inPlace && isPlain(description))
    description = describe(made, any, residual.layout, biased);
  if (isPlain(description)) {
    inPlace = false;
    description = describe(made, given, result, biased);
  }
  if (isPlain(description))
    description = describe(made, any, result, biased);
  if (!description)
    return Error{MORTISE_INTERNAL, "oneDNN takes no " + title(made) + " on this machine; please report it"};
  Operand x = inLayout(emitter, made.x, description.src_desc());
  auto [weights, bias] = makeWeights(emitter, made, description.weights_desc());
  result = description.dst_desc();
  Operand target;
  if (inPlace) {
    target = {residual.blocked, 0, true};
  } else if (made.residual != none) {
    target = inLayout(emitter, made.residual, result);
    if (residual.blocked == target.buffer || residual.dense == target.buffer ||
        emitter.memoryOf(made.residual).dense == target.buffer) { // still needed there
      Operand copy{emitter.allocate(result.get_size()), 0, true};
      emitter.reorder("residual", result, target, result, copy);
      target = copy;
    }
    target.written = true;
  } else {
    target = {emitter.allocate(result.get_size()), 0, true};
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
      emitter.addLibraryStep(title(made), isPlain(description) ? "onednn.convolution.plain" : "onednn.convolution",
                             description, arguments, layouts, operands);
  step.nodes = made.nodes;
  step.flops = made.flops;
  if (sameType) {
    emitter.memoryOf(made.target).blocked = target.buffer;
    emitter.memoryOf(made.target).layout = result;
  } else {
    target.written = false;
    emitter.reorder("result", result, target, memory::desc(made.resultDims, made.type, denseStrides(made.resultDims)),
                    emitter.write(made.target));
  }
  return {};
}

// ---- Claims

static void findFusions(Scheduler &scheduler, Convolution &made) {
  bool affine = scheduler.isConstant(made.weight) && made.type == memory::data_type::f32;
  while (const MortiseNode *user = scheduler.soleUser(made.target)) {
    if (scheduler.isTaken(*user))
      break;
    if (affine && made.residual == none && takeAffine(scheduler, made, *user)) {
    } else if (made.type == made.compute && takeResidual(scheduler, made, *user)) {
      affine = false;
    } else {
      PostOp post = activation(scheduler, *user);
      if (post.algorithm == dnnl::algorithm::undef)
        break;
      made.activations.push_back(post);
    }
    made.nodes.push_back(user->index);
    made.target = user->results[0]->index;
    if (!made.activations.empty())
      break;
  }
}

Result<void> claimConvolutions(Scheduler &scheduler) {
  for (size_t i = 0; i < scheduler.graph.node_count; ++i) {
    const MortiseNode &node = *scheduler.graph.nodes[i];
    if (!isOp(node, "mortise.convolution") || scheduler.isTaken(node))
      continue;
    Convolution made = readConvolution(node);
    FixedView weight = scheduler.sample(scheduler.viewOf(made.weight));
    auto possible = [&] {
      Convolution tried = inNumbers(made, scheduler, scheduler.sample, weight);
      return static_cast<bool>(describe(tried, anyLayout(tried.xDims, tried.compute),
                                        anyLayout(tried.resultDims, tried.compute), !tried.affine.empty()));
    };
    if (elementCount(scheduler.sample(scheduler.extents(made.target))) != 0) {
      if (!possible())
        made.compute = memory::data_type::f32;
      Convolution plain = made;
      findFusions(scheduler, made);
      if (!possible())
        made = std::move(plain);
      if (!possible())
        return Error{MORTISE_UNSUPPORTED, "oneDNN takes no " +
                                              title(inNumbers(made, scheduler, scheduler.sample, weight)) + " of " +
                                              dtypeName(node.results[0]->type->dtype)};
    }
    for (uint32_t taken : made.nodes)
      scheduler.take(*scheduler.graph.nodes[taken]);
    std::sort(made.nodes.begin(), made.nodes.end());
    Unit unit;
    unit.nodes = made.nodes;
    unit.reads = {scheduler.viewOf(made.x).base, scheduler.viewOf(made.weight).base};
    for (const Affine &affine : made.affine)
      for (auto &[value, view] : affine.operands)
        if (value != none)
          unit.reads.push_back(value);
    if (made.residual != none)
      unit.reads.push_back(made.residual);
    unit.writes = {made.target};
    unit.emit = [made](Emitter &emitter, const Unit &self) { return emitConvolution(emitter, made, self); };
    scheduler.addUnit(std::move(unit));
  }
  return {};
}

} // namespace mortise::cpu
