// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// cpu_clock [minilm|bert|resnet50|llama]...: compile, bind and run times of whole networks in the cpu plugin alone, and
// where the time goes. For people at work on the plugin; published figures come from bench/.
#include "network.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>

using namespace mortise;
using namespace mortise::test;

static double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static ValueId norm(Network &net, ValueId x, int64_t width) {
  return net.op("layer_norm", {x, net.weight({width}), net.weight({width})},
                {integer("axis", static_cast<int64_t>(net.dims(x).size()) - 1), real("epsilon", 1e-12)});
}

static void encoder(Network &net, int64_t layers, int64_t width, int64_t heads, int64_t inner, int64_t tokens) {
  ValueId ids = net.input(MORTISE_I64, {1, tokens});
  ValueId x = net.op("embedding", {net.weight({30522, width}), ids});
  x = net.op("add", {x, net.broadcast(
                            net.op("slice", {net.weight({512, width})},
                                   {ints("starts", {0, 0}), ints("limits", {tokens, width}), ints("strides", {1, 1})}),
                            {1, tokens, width}, {1, 2})});
  x = norm(net, x, width);
  int64_t size = width / heads;
  auto split = [&](ValueId v) { return net.transpose(net.reshape(v, {1, tokens, heads, size}), {0, 2, 1, 3}); };
  for (int64_t i = 0; i < layers; ++i) {
    auto project = [&] { return split(net.linear(x, net.weight({width, width}), net.weight({width}))); };
    ValueId q = project(), k = project(), v = project();
    ValueId y = net.attention(q, k, v, 1 / std::sqrt(double(size)));
    y = net.reshape(net.transpose(y, {0, 2, 1, 3}), {1, tokens, width});
    x = norm(net, net.op("add", {net.linear(y, net.weight({width, width}), net.weight({width})), x}), width);
    ValueId h =
        net.op("gelu", {net.linear(x, net.weight({inner, width}), net.weight({inner}))}, {text("approximate", "none")});
    x = norm(net, net.op("add", {net.linear(h, net.weight({width, inner}), net.weight({width})), x}), width);
  }
  net.output(x);
}

static ValueId convolve(Network &net, ValueId x, int64_t out, int64_t size, int64_t stride) {
  ValueId y = net.convolution(x, net.weight({out, net.dims(x)[1], size, size}), {stride, stride}, {size / 2, size / 2});
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

// One decoded token with a cache of `context` positions.
static void decoder(Network &net, int64_t layers, int64_t width, int64_t heads, int64_t groups, int64_t inner,
                    int64_t context) {
  int64_t size = width / heads;
  ValueId x = net.input(MORTISE_F32, {1, 1, width}), at = net.input(MORTISE_I64, {1});
  int64_t position = 2; // inputs so far
  auto rms = [&](ValueId v) {
    ++position;
    return net.op("rms_norm", {v, net.weight({width})}, {integer("axis", 2), real("epsilon", 1e-6)});
  };
  std::vector<std::pair<ValueId, int64_t>> states; // and the input that each overwrites
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

static int clock(const std::string &name) {
  Network net;
  if (name == "minilm")
    encoder(net, 6, 384, 12, 1536, 32);
  else if (name == "bert")
    encoder(net, 12, 768, 12, 3072, 128);
  else if (name == "resnet50")
    resnet(net);
  else if (name == "llama")
    decoder(net, 8, 1024, 16, 8, 2816, 512);
  else
    return fprintf(stderr, "unknown network %s\n", name.c_str()), 2;
  auto graph = net.finish();
  const MortiseGraph &view = graph->view();
  double start = seconds();
  auto compiled = Compiled::make(graph);
  if (!compiled)
    return fprintf(stderr, "%s\n", compiled.error().message.c_str()), 1;
  double compileTime = seconds() - start;
  std::vector<std::vector<std::byte>> inputs(view.input_count), outputs(view.output_count);
  std::vector<const void *> bound(view.input_count), passed(view.input_count);
  std::vector<void *> out(view.output_count);
  for (size_t i = 0; i < view.input_count; ++i) {
    inputs[i].resize(byteSize(*view.inputs[i]->type));
    randomFill(*view.inputs[i], i, inputs[i]);
    if (view.inputs[i]->flags & MORTISE_VALUE_CONSTANT) {
      if (view.inputs[i]->type->dtype == MORTISE_F32) // keeps activations in range
        for (size_t k = 0; k < inputs[i].size() / 4; ++k)
          reinterpret_cast<float *>(inputs[i].data())[k] *= 0.05f;
      bound[i] = inputs[i].data();
    } else {
      passed[i] = inputs[i].data();
    }
  }
  for (size_t i = 0; i < view.output_count; ++i) {
    outputs[i].resize(byteSize(*view.outputs[i]->type));
    out[i] = outputs[i].data();
  }
  start = seconds();
  if (auto result = (*compiled)->bind(bound); !result)
    return fprintf(stderr, "%s\n", result.error().message.c_str()), 1;
  double bindTime = seconds() - start;
  for (int i = 0; i < 5; ++i)
    if (auto result = (*compiled)->run(passed, out); !result)
      return fprintf(stderr, "%s\n", result.error().message.c_str()), 1;
  std::vector<double> times;
  double until = seconds() + 2;
  while (seconds() < until || times.size() < 10) {
    start = seconds();
    (void)(*compiled)->run(passed, out);
    times.push_back(seconds() - start);
  }
  std::sort(times.begin(), times.end());
  printf("%s: compile %.1f ms, bind %.1f ms, run %.3f ms (median of %zu, fastest %.3f), workspace %.2f MB, %zu steps\n",
         name.c_str(), compileTime * 1e3, bindTime * 1e3, times[times.size() / 2] * 1e3, times.size(), times[0] * 1e3,
         double((*compiled)->workspaceBytes()) / 1e6, (*compiled)->steps().size());
  std::vector<uint64_t> ns((*compiled)->steps().size(), UINT64_MAX); // fastest of several
  for (int i = 0; i < 40; ++i) {
    std::vector<uint64_t> once(ns.size());
    (void)(*compiled)->run(passed, out, once.data());
    for (size_t k = 0; k < ns.size(); ++k)
      ns[k] = std::min(ns[k], once[k]);
  }
  std::map<std::string, std::tuple<double, int, double, double>> sums;
  for (size_t i = 0; i < ns.size(); ++i) {
    const MortiseStep &step = *(*compiled)->steps()[i];
    auto &[time, count, bytes, flops] = sums[std::string(step.lowering) + "  " + step.name];
    time += double(ns[i]);
    ++count;
    bytes += step.bytes;
    flops += step.flops;
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
  return 0;
}

int main(int count, char **arguments) {
  for (int i = 1; i < count; ++i)
    if (int status = clock(arguments[i]))
      return status;
}
