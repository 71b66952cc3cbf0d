// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// cpu_clock [minilm|bert|resnet50|mobilenet|mobilenet-hswish|llama]...: compile, bind and run times of whole networks
// in the cpu plugin alone, with a profile. cpu_clock shapes: one kernel for all shapes beside a kernel for each shape.
// cpu_clock layers: compile times of 1 and 32 equal layers. cpu_clock attention: the kernel of attention beside its
// parts. This is a tool for work on the plugin; published figures come from bench/.
#include "network.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>

using namespace mortise;
using namespace mortise::test;

// Measures processor time, for a busy machine and one thread, when MORTISE_BENCH_CPU is set: MORTISE_BENCH_CPU=1
// OMP_NUM_THREADS=1 taskset -c 0 cpu_clock ...
static double seconds() {
  static const bool busy = getenv("MORTISE_BENCH_CPU") != nullptr;
  if (busy) {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static ValueId norm(Network &net, ValueId x, int64_t width) {
  return net.op("layer_norm", {x, net.weight({width}), net.weight({width})},
                {integer("axis", static_cast<int64_t>(net.dims(x).size()) - 1), real("epsilon", 1e-12)});
}

static void encoder(Network &net, int64_t layers, int64_t width, int64_t heads, int64_t inner, int64_t tokens,
                    int64_t batch = 1) {
  ValueId ids = net.input(MORTISE_I64, {batch, tokens});
  ValueId x = net.op("embedding", {net.weight({30522, width}), ids});
  x = net.op("add", {x, net.broadcast(
                            net.op("slice", {net.weight({tableRows(tokens), width})},
                                   {ints("starts", {0, 0}), ints("limits", {tokens, width}), ints("strides", {1, 1})}),
                            {batch, tokens, width}, {1, 2})});
  x = norm(net, x, width);
  int64_t size = width / heads;
  auto split = [&](ValueId v) { return net.transpose(net.reshape(v, {batch, tokens, heads, size}), {0, 2, 1, 3}); };
  for (int64_t i = 0; i < layers; ++i) {
    auto project = [&] { return split(net.linear(x, net.weight({width, width}), net.weight({width}))); };
    ValueId q = project(), k = project(), v = project();
    ValueId y = net.attention(q, k, v, 1 / std::sqrt(double(size)));
    y = net.reshape(net.transpose(y, {0, 2, 1, 3}), {batch, tokens, width});
    x = norm(net, net.op("add", {net.linear(y, net.weight({width, width}), net.weight({width})), x}), width);
    ValueId h =
        net.op("gelu", {net.linear(x, net.weight({inner, width}), net.weight({inner}))}, {text("approximate", "none")});
    x = norm(net, net.op("add", {net.linear(h, net.weight({width, inner}), net.weight({width})), x}), width);
  }
  net.output(x);
}

static ValueId convolve(Network &net, ValueId x, int64_t out, int64_t size, int64_t stride, int64_t groups = 1) {
  ValueId y = net.convolution(x, net.weight({out, net.dims(x)[1] / groups, size, size}), {stride, stride},
                              {size / 2, size / 2}, groups);
  return net.op("batch_norm",
                {y, net.weight({out}), net.weight({out}), net.weight({out}), net.op("exp", {net.weight({out})})},
                {real("epsilon", 1e-5)});
}

static void resnet(Network &net) {
  ValueId x = net.op("relu", {convolve(net, net.input(MORTISE_F32, {1, 3, 224, 224}), 64, 7, 2)});
  x = net.op("max_pool", {x},
             {ints("window", {3, 3}), ints("strides", {2, 2}), ints("low", {1, 1}), ints("high", {1, 1}),
              ints("dilations", {1, 1})});
  int64_t counts[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage)
    for (int64_t i = 0; i < counts[stage]; ++i) {
      int64_t width = 64 << stage, stride = stage && !i ? 2 : 1;
      ValueId y = net.op("relu", {convolve(net, x, width, 1, 1)});
      y = net.op("relu", {convolve(net, y, width, 3, stride)});
      y = convolve(net, y, width * 4, 1, 1);
      x = net.op("relu", {net.op("add", {y, i ? x : convolve(net, x, width * 4, 1, stride)})});
    }
  x = net.op("mean", {x}, {ints("axes", {2, 3})});
  net.output(net.linear(x, net.weight({1000, 2048}), net.weight({1000})));
}

// MobileNetV2 (table 2 of the paper), with activations as PyTorch's decompositions write them.
static void mobilenet(Network &net, bool swish) {
  auto literal = [&](double value, ValueId like) { return net.splat(value, net.dims(like)); };
  auto clip = [&](ValueId x) { return net.op("min", {net.op("max", {x, literal(0, x)}), literal(6, x)}); };
  auto activate = [&](ValueId x) {
    if (!swish)
      return clip(x);
    return net.op("div", {net.op("mul", {x, clip(net.op("add", {x, literal(3, x)}))}), literal(6, x)});
  };
  auto block = [&](ValueId x, int64_t out, int64_t size, int64_t stride, bool depthwise) {
    return convolve(net, x, out, size, stride, depthwise ? out : 1);
  };
  struct {
    int64_t widening, width, blocks, stride;
  } stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  ValueId x = activate(block(net.input(MORTISE_F32, {1, 3, 224, 224}), 32, 3, 2, false));
  for (auto [widening, width, blocks, stride] : stages)
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t narrow = net.dims(x)[1], step = i ? 1 : stride;
      ValueId y = widening == 1 ? x : activate(block(x, narrow * widening, 1, 1, false));
      y = activate(block(y, narrow * widening, 3, step, true));
      y = block(y, width, 1, 1, false);
      x = step == 1 && narrow == width ? net.op("add", {x, y}) : y;
    }
  x = net.op("mean", {activate(block(x, 1280, 1, 1, false))}, {ints("axes", {2, 3})});
  net.output(net.linear(x, net.weight({1000, 1280}), net.weight({1000})));
}

// Decodes one token with a cache of `context` positions.
static void decoder(Network &net, int64_t layers, int64_t width, int64_t heads, int64_t groups, int64_t inner,
                    int64_t context) {
  int64_t size = width / heads;
  ValueId x = net.input(MORTISE_F32, {1, 1, width}), at = net.input(MORTISE_I64, {1});
  int64_t position = 2; // the number of inputs so far
  auto rms = [&](ValueId v) {
    ++position;
    return net.op("rms_norm", {v, net.weight({width})}, {integer("axis", 2), real("epsilon", 1e-6)});
  };
  std::vector<std::pair<ValueId, int64_t>> states; // each with the input that it overwrites
  for (int64_t i = 0; i < layers; ++i) {
    ValueId h = rms(x);
    auto project = [&](int64_t out) {
      ++position;
      return net.linear(h, net.weight({out, width}));
    };
    ValueId q = net.reshape(project(width), {1, groups, heads / groups, size});
    auto cached = [&] {
      ValueId v = net.transpose(net.reshape(project(groups * size), {1, 1, groups, size}), {0, 2, 1, 3});
      ValueId cache = net.input(MORTISE_F32, {1, groups, context, size}, MORTISE_VALUE_STATE);
      ValueId updated = net.op("put", {cache, at, v}, {integer("axis", 2), text("mode", "set")});
      states.push_back({updated, position++});
      return updated;
    };
    ValueId k = cached(), v = cached();
    ValueId y = net.reshape(net.attention(q, k, v, 1 / std::sqrt(double(size))), {1, 1, width});
    ++position;
    x = net.op("add", {x, net.linear(y, net.weight({width, width}))});
    h = rms(x);
    position += 3;
    ValueId gate = net.op("silu", {net.linear(h, net.weight({inner, width}))}),
            up = net.linear(h, net.weight({inner, width}));
    x = net.op("add", {x, net.linear(net.op("mul", {gate, up}), net.weight({width, inner}))});
  }
  net.output(x);
  for (auto [state, input] : states)
    net.output(state, input);
}

// Memory for a graph with static shapes. `constants`: buffers whose constant inputs are reused, or null to make new
// ones.
struct Buffers {
  explicit Buffers(const MortiseGraph &view, const Buffers *constants = nullptr);
  std::vector<std::vector<std::byte>> inputs, outputs;
  std::vector<const void *> bound, passed;
  std::vector<void *> out;
};

Buffers::Buffers(const MortiseGraph &view, const Buffers *constants)
    : inputs(view.input_count), outputs(view.output_count), bound(view.input_count), passed(view.input_count),
      out(view.output_count) {
  for (size_t i = 0; i < view.input_count; ++i) {
    const MortiseValue &input = *view.inputs[i];
    bool constant = input.flags & MORTISE_VALUE_CONSTANT;
    if (constant && constants) {
      bound[i] = constants->bound[i];
      continue;
    }
    inputs[i].resize(byteSize(*input.type));
    randomFill(input, i, inputs[i]);
    if (constant && input.type->dtype == MORTISE_F32) // keeps activations in range
      for (size_t k = 0; k < inputs[i].size() / 4; ++k)
        reinterpret_cast<float *>(inputs[i].data())[k] *= 0.05f;
    (constant ? bound : passed)[i] = inputs[i].data();
  }
  for (size_t i = 0; i < view.output_count; ++i) {
    outputs[i].resize(byteSize(*view.outputs[i]->type));
    out[i] = outputs[i].data();
  }
}

template <typename T> static T must(Result<T> result) {
  if (!result) {
    fprintf(stderr, "%s\n", result.error().message.c_str());
    exit(1);
  }
  return std::move(*result);
}
static void must(Result<void> result) {
  if (!result) {
    fprintf(stderr, "%s\n", result.error().message.c_str());
    exit(1);
  }
}

// Prints the time of each step, the fastest of several runs.
static void profile(Compiled &compiled, const Buffers &buffers) {
  std::vector<const MortiseStep *> steps = compiled.steps();
  std::vector<uint64_t> ns(steps.size(), UINT64_MAX);
  for (int i = 0; i < 40; ++i) {
    std::vector<uint64_t> once(ns.size());
    must(compiled.run(buffers.passed, buffers.out, once.data()));
    for (size_t k = 0; k < ns.size(); ++k)
      ns[k] = std::min(ns[k], once[k]);
  }
  std::map<std::string, std::tuple<double, int, double, double>> sums;
  for (size_t i = 0; i < ns.size(); ++i) {
    auto &[time, count, bytes, flops] = sums[std::string(steps[i]->lowering) + "  " + steps[i]->name];
    time += double(ns[i]);
    ++count;
    bytes += steps[i]->bytes;
    flops += steps[i]->flops;
  }
  std::vector<std::pair<double, std::string>> order;
  for (auto &[key, value] : sums)
    order.push_back({std::get<0>(value), key});
  std::sort(order.rbegin(), order.rend());
  for (size_t i = 0; i < order.size() && i < 25; ++i) {
    auto [time, count, bytes, flops] = sums[order[i].second];
    printf("  %9.1f us  %3d x  %7.1f GFLOP/s %6.1f GB/s  %s\n", time / 1e3, count, flops / time, bytes / time,
           order[i].second.c_str());
  }
}

static void clock(const std::string &name) {
  Network net;
  if (name == "minilm")
    encoder(net, 6, 384, 12, 1536, 32);
  else if (name == "bert")
    encoder(net, 12, 768, 12, 3072, 128);
  else if (name == "resnet50")
    resnet(net);
  else if (name == "mobilenet" || name == "mobilenet-hswish")
    mobilenet(net, name != "mobilenet");
  else if (name == "llama")
    decoder(net, 8, 1024, 16, 8, 2816, 512);
  else
    must(Error{MORTISE_INVALID_ARGUMENT, "unknown network " + name});
  auto graph = net.finish();
  double start = seconds();
  auto compiled = must(Compiled::make(graph));
  double compileTime = seconds() - start;
  Buffers buffers(graph->view());
  start = seconds();
  must(compiled->bind(buffers.bound));
  double bindTime = seconds() - start;
  for (int i = 0; i < 5; ++i)
    must(compiled->run(buffers.passed, buffers.out));
  std::vector<double> times;
  double until = seconds() + 2;
  while (seconds() < until || times.size() < 10) {
    start = seconds();
    must(compiled->run(buffers.passed, buffers.out));
    times.push_back(seconds() - start);
  }
  std::sort(times.begin(), times.end());
  printf("%s: compile %.1f ms, bind %.1f ms, run %.3f ms (median of %zu, fastest %.3f), workspace %.2f MB, %zu steps\n",
         name.c_str(), compileTime * 1e3, bindTime * 1e3, times[times.size() / 2] * 1e3, times.size(), times[0] * 1e3,
         double(compiled->workspaceBytes()) / 1e6, compiled->steps().size());
  profile(*compiled, buffers);
}

// One kernel for all shapes beside a kernel for each: how long an instance takes to make, and how much slower it runs.
static void clockShapes(const char *name, int64_t layers, int64_t width, int64_t heads, int64_t inner) {
  Build build = [=](Network &net, int64_t batch, int64_t tokens) {
    encoder(net, layers, width, heads, inner, tokens, batch);
  };
  double start = seconds();
  auto general = must(compileForShapes(build));
  printf("%s: compile for all shapes %.1f ms\n", name, (seconds() - start) * 1e3);
  std::unique_ptr<Buffers> weights;
  double worst = 0;
  uint64_t code = general->codeBytes();
  for (auto [batch, tokens] : Shapes{{2, 7},
                                     {2, 16},
                                     {2, 33},
                                     {3, 128},
                                     {4, 5},
                                     {4, 64},
                                     {5, 21},
                                     {7, 96},
                                     {8, 8},
                                     {8, 48},
                                     {16, 12},
                                     {16, 77},
                                     {2, 256},
                                     {11, 2}}) {
    Network net;
    build(net, batch, tokens);
    auto graph = net.finish();
    if (!weights) {
      weights = std::make_unique<Buffers>(graph->view());
      must(general->bind(weights->bound));
    }
    Buffers buffers(graph->view(), weights.get());
    start = seconds();
    must(general->prepare({batch, tokens}));
    double instance = seconds() - start;
    if (general->codeBytes() != code)
      must(Error{MORTISE_INTERNAL, "an instance made machine code"});
    auto single = must(Compiled::make(graph));
    code = general->codeBytes(); // kernels share the code of the process
    must(single->bind(buffers.bound));
    double best[2] = {1e9, 1e9}, until = seconds() + 1.5;
    for (int round = 0; round < 6 || seconds() < until; ++round)
      for (int k = 0; k < 2; ++k) {
        start = seconds();
        must((k ? single : general)->run(buffers.passed, buffers.out));
        best[k] = std::min(best[k], seconds() - start);
      }
    worst = std::max(worst, best[0] / best[1]);
    printf("  %3ld x %3ld: instance %6.2f ms, run %8.3f ms, static %8.3f ms, ratio %.3f, packed for it %.1f MB\n",
           long(batch), long(tokens), instance * 1e3, best[0] * 1e3, best[1] * 1e3, best[0] / best[1],
           double(general->instanceBytes) / 1e6);
  }
  printf("  worst ratio %.3f\n", worst);
}

// Equal layers should cost as much as compiling one. Nothing is bound.
static void clockLayers() {
  double first = 0;
  for (int64_t layers : {0, 1, 2, 8, 32}) {
    Network net;
    encoder(net, layers, 256 + 16 * layers, 4, 512, 48); // other widths each time, so that no cache applies
    auto graph = net.finish();
    double start = seconds();
    auto compiled = must(Compiled::make(graph));
    double time = seconds() - start;
    if (layers == 0)
      continue; // warms up what a process does once
    first = first == 0 ? time : first;
    printf("%2ld layers: compile %.1f ms, %.2f times that of one\n", long(layers), time * 1e3, time / first);
  }
}

namespace {
enum Form { Parts, Whole, Causal, Forms };

// A training step's attention, forward and backward, one op after the other: the scores in memory, and made twice.
void trainByParts(Network &net, ValueId q, ValueId k, ValueId v, ValueId gradient, double scale) {
  const std::vector<int64_t> dims = {net.dims(q)[0], net.dims(q)[1], net.dims(q)[2], net.dims(k)[2]};
  const auto product = [&](ValueId x, ValueId y, int64_t xAxis, int64_t yAxis) {
    return net.dot(x, y, {0, 1}, {0, 1}, {xAxis}, {yAxis});
  };
  const auto scores = [&] { return net.op("mul", {product(q, k, 3, 3), net.splat(scale, dims)}); };
  const auto perQuery = [&](ValueId x) { return net.broadcast(x, dims, {0, 1, 2}); };
  const auto overKeys = [&](const char *op, ValueId x) { return net.op(op, {x}, {ints("axes", {3})}); };
  const ValueId before = scores(), largest = overKeys("reduce_max", before);
  const ValueId powers = net.op("exp", {net.op("sub", {before, perQuery(largest)})});
  const ValueId sums = net.op("add", {largest, net.op("log", {overKeys("reduce_sum", powers)})});
  const ValueId result = product(net.op("softmax", {before}, {integer("axis", 3)}), v, 3, 2);
  const ValueId weights = net.op("exp", {net.op("sub", {scores(), perQuery(sums)})});
  const ValueId share = overKeys("reduce_sum", net.op("mul", {gradient, result}));
  ValueId change = net.op("sub", {product(gradient, v, 3, 3), perQuery(share)});
  change = net.op("mul", {net.op("mul", {weights, change}), net.splat(scale, dims)});
  for (const ValueId value :
       {result, sums, product(change, k, 3, 2), product(change, q, 2, 2), product(weights, gradient, 2, 2)})
    net.output(value);
}

// 12 heads of 64; bf16 is widened for the parts.
void attentionNetwork(Network &net, int64_t tokens, int32_t dtype, Form form, bool trains) {
  constexpr double scale = 0.125;
  const auto input = [&] {
    const ValueId x = net.input(dtype, {1, 12, tokens, 64});
    return form == Parts && dtype != MORTISE_F32 ? net.op("convert", {x}, {text("dtype", "f32")}) : x;
  };
  const ValueId q = input(), k = input(), v = input(), gradient = trains ? input() : ir::noValue;
  const std::vector<Attribute> attributes = {real("scale", scale), boolean("causal", form == Causal)};
  if (form == Parts && trains)
    return trainByParts(net, q, k, v, gradient, scale);
  if (form == Parts)
    return net.output(net.attention(q, k, v, scale));
  if (!trains)
    return net.output(net.op("attention", {q, k, v, ir::noValue}, attributes));
  const auto made = net.ops("attention_forward", {q, k, v, ir::noValue}, attributes);
  const auto gradients = net.ops("attention_gradient", {q, k, v, made[0], made[1], gradient, ir::noValue}, attributes);
  for (const ValueId value : {made[0], made[1], gradients[0], gradients[1], gradients[2]})
    net.output(value);
}
} // namespace

// The kernels, plain and causal, beside product, softmax and product.
static void clockAttention() {
  for (const bool trains : {false, true})
    for (const int32_t dtype : {MORTISE_F32, MORTISE_BF16})
      for (const int64_t tokens : {128, 512, 1024, 2048}) {
        double best[Forms];
        size_t workspace[Forms];
        for (int form = Parts; form < Forms; ++form) {
          Network net;
          attentionNetwork(net, tokens, dtype, Form(form), trains);
          auto graph = net.finish();
          auto compiled = must(Compiled::make(graph));
          const Buffers buffers(graph->view());
          must(compiled->bind(buffers.bound));
          best[form] = 1e9, workspace[form] = compiled->workspaceBytes();
          const double until = seconds() + 0.5;
          for (int round = 0; round < 6 || seconds() < until; ++round) {
            const double start = seconds();
            must(compiled->run(buffers.passed, buffers.out));
            best[form] = std::min(best[form], seconds() - start);
          }
        }
        printf("%s%s, %4ld tokens: parts %8.3f ms, %6.1f MB; kernel %8.3f ms, causal %8.3f ms, %6.1f MB\n",
               dtypeName(dtype), trains ? ", training" : "", long(tokens), best[Parts] * 1e3,
               double(workspace[Parts]) / 1e6, best[Whole] * 1e3, best[Causal] * 1e3, double(workspace[Causal]) / 1e6);
      }
}

int main(int count, char **arguments) {
  for (int i = 1; i < count; ++i)
    if (std::string name = arguments[i]; name == "shapes") {
      clockShapes("minilm", 6, 384, 12, 1536);
      clockShapes("bert", 12, 768, 12, 3072);
    } else if (name == "layers") {
      clockLayers();
    } else if (name == "attention") {
      clockAttention();
    } else {
      clock(name);
    }
}
