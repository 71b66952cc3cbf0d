// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measures the compiler on generated networks: mortise_passes_bench (--ops N | --layers N) [--towers N] [--kernels]
// [--hidden N] [--head N]. Prints one line of JSON. MORTISE_* choose the device and plugins, as everywhere.
#include "networks.hpp"

#include <mortise/passes/compile.hpp>
#include <mortise/runtime/plan_generated.h>

#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/MLIRContext.h>
#include <mlir/IR/OwningOpRef.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

using namespace mortise;
using namespace mortise::passes;

namespace {

struct Arguments {
  size_t ops = 0, layers = 0, towers = 1;
  int64_t head = 0; // output features of a norm and a linear after the layers; 0: neither
  bench::Shape shape;
  bool kernels = false;
};

[[noreturn]] void fail(const std::string &message) {
  std::fprintf(stderr, "mortise_passes_bench: %s\n", message.c_str());
  std::exit(1);
}

template <typename T> T must(Result<T> result) {
  if (!result)
    fail(result.error().message);
  return std::move(*result);
}

Arguments parse(int count, char **words) {
  Arguments result;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (word == "--kernels") {
      result.kernels = true;
      continue;
    }
    int64_t number = 0;
    if (++i < count)
      std::from_chars(words[i], words[i] + std::strlen(words[i]), number);
    if (number < 1)
      fail("expected a number of at least 1 after " + std::string(word));
    if (word == "--ops")
      result.ops = static_cast<size_t>(number);
    else if (word == "--layers")
      result.layers = static_cast<size_t>(number);
    else if (word == "--towers")
      result.towers = static_cast<size_t>(number);
    else if (word == "--head")
      result.head = number;
    else if (word == "--hidden") {
      result.shape.hidden = number;
      result.shape.inner = 2 * number;
    } else
      fail("expected --ops, --layers, --towers, --hidden, --head or --kernels, found " + std::string(word));
  }
  if ((result.ops == 0) == (result.layers == 0))
    fail("expected --ops N or --layers N");
  return result;
}

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Parallel towers of layers over one input. Neighbouring towers exchange values at every fourth layer; all towers are
// added at the end.
size_t describe(ir::Builder &builder, const Arguments &arguments) {
  bench::LayerMaker maker(builder, arguments.shape);
  const ir::ValueId x = maker.input({arguments.shape.tokens, arguments.shape.hidden}, false);
  maker.prepare();
  std::vector<ir::ValueId> towers(arguments.towers, x);
  for (size_t depth = 0; arguments.layers ? depth < arguments.layers : maker.ops() < arguments.ops; ++depth) {
    for (ir::ValueId &tower : towers)
      if (arguments.layers || maker.ops() < arguments.ops)
        tower = maker.layer(tower);
    if (depth % 4 == 3)
      for (size_t i = 0; i + 1 < towers.size(); ++i)
        towers[i] = maker.add(towers[i], towers[i + 1]);
  }
  for (size_t i = 1; i < towers.size(); ++i)
    towers[0] = maker.add(towers[0], towers[i]);
  if (arguments.head)
    towers[0] = maker.head(towers[0], arguments.head);
  if (Result<void> added = builder.addOutput(towers[0], -1); !added)
    fail(added.error().message);
  return maker.ops();
}

} // namespace

int main(int count, char **words) {
  const Arguments arguments = parse(count, words);
  const runtime::Config config = must(runtime::Config::read({}));
  const std::shared_ptr<runtime::Registry> registry = runtime::Registry::open(config);
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto start = std::chrono::steady_clock::now();
  ir::Builder builder(context, "network");
  const size_t ops = describe(builder, arguments);
  mlir::OwningOpRef<mlir::ModuleOp> module = must(builder.finish());
  const double build = since(start);
  start = std::chrono::steady_clock::now();
  Timings timings;
  const std::shared_ptr<const plan::PlanT> plan = must(passes::compile(*module, *registry, config, &timings));
  const double pipeline = since(start);
  double kernels = 0;
  if (arguments.kernels) {
    start = std::chrono::steady_clock::now();
    must(runtime::Program::load(plan, registry));
    kernels = since(start);
  }
  std::printf("{\"ops\": %zu, \"nodes\": %zu, \"regions\": %zu, \"build_s\": %.4f, \"pipeline_s\": %.4f, "
              "\"passes_s\": %.4f, \"place_s\": %.4f, \"kernels_s\": %.4f}\n",
              ops, plan->node_ops.size(), plan->regions.size(), build, pipeline, timings.passes, timings.place,
              kernels);
}
