// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plugin in C++. It runs whole regions of f32 elementwise ops in one pass, block by block, so that intermediate
// values stay in the cache. Shows convex regions, a workspace, steps and parallel loops with mortise/plugin.hpp.
#include <mortise/plugin.hpp>

#include <algorithm>
#include <cmath>

namespace {
using mortise::Result;

constexpr int64_t block = 256; // elements of each value processed at once

using Loop = void (*)(const float *a, const float *b, float *out, int64_t count);
template <auto F> void unary(const float *a, const float *, float *out, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    out[i] = F(a[i], 0.f);
}
template <auto F> void binary(const float *a, const float *b, float *out, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    out[i] = F(a[i], b[i]);
}

struct Op {
  const char *name;
  Loop loop;
};
constexpr Op ops[] = {
    {"mortise.add", binary<[](float a, float b) { return a + b; }>},
    {"mortise.sub", binary<[](float a, float b) { return a - b; }>},
    {"mortise.mul", binary<[](float a, float b) { return a * b; }>},
    {"mortise.div", binary<[](float a, float b) { return a / b; }>},
    {"mortise.neg", unary<[](float a, float) { return -a; }>},
    {"mortise.abs", unary<[](float a, float) { return std::fabs(a); }>},
    {"mortise.exp", unary<[](float a, float) { return std::exp(a); }>},
    {"mortise.tanh", unary<[](float a, float) { return std::tanh(a); }>},
};

const Op *findOp(const MortiseNode &node) {
  for (const Op &op : ops)
    if (std::string_view(op.name) == node.op)
      return &op;
  return nullptr;
}

bool dense(const MortiseValue *value) {
  return value->type->dtype == MORTISE_F32 && mortise::isStatic(*value->type) && !value->type->strides;
}

struct Pointwise : mortise::PluginAdaptor<Pointwise> {
  static constexpr mortise::PluginIdentity identity{"pointwise", "Mortise examples", "1.0.0"};

  // One op over a block: the places of its operands and of its result.
  struct Instruction {
    Loop loop;
    uint32_t operands[2], result; // indices into `places`
  };
  struct Place {
    enum Kind { Input, Output, Workspace } kind;
    uint32_t index;
  };
  struct Copy {
    uint32_t value, output;
  };
  struct Kernel {
    std::vector<Instruction> instructions;
    std::vector<Place> places; // one per value of the region
    std::vector<Copy> copies;  // to outputs that no instruction writes
    int64_t count = 0;
    mortise::ConstantExpr workspace;
    mortise::StepList steps;
  };
  struct Constants {
    std::vector<MortiseAddress> inputs;
  };

  Result<void> initialize(const MortiseInitializeArgs &) { return {}; }

  Result<std::span<const MortiseDeviceInfo *const>> devices() {
    static const MortiseDeviceInfo device = [] {
      auto info = mortise::sized<MortiseDeviceInfo>();
      info.kind = info.name = "pointwise";
      info.threads = 1;
      info.spaces = mortise::hostSpaces().data();
      info.space_count = 1;
      info.features = "";
      return info;
    }();
    static const MortiseDeviceInfo *const list[] = {&device};
    return std::span<const MortiseDeviceInfo *const>(list);
  }

  Result<void> propose(mortise::Proposal &proposal) {
    const MortiseGraph &graph = proposal.graph();
    std::vector<bool> supported(graph.node_count);
    for (uint32_t i = 0; i < graph.node_count; ++i) {
      const MortiseNode &node = *graph.nodes[i];
      if (!findOp(node))
        proposal.refuse(i, MORTISE_REASON_OP, "expected an elementwise op of the table");
      else if (!dense(node.results[0]))
        proposal.refuse(i, node.results[0]->type->strides ? MORTISE_REASON_LAYOUT : MORTISE_REASON_DTYPE,
                        "expected dense f32 of static shape, found " + mortise::typeString(*node.results[0]->type));
      else
        supported[i] = true;
    }
    // A kernel has one loop, so all nodes of a region must have the same number of elements.
    for (const std::vector<uint32_t> &region : mortise::convexRegions(graph, supported)) {
      double elements = static_cast<double>(mortise::elementCount(*graph.nodes[region[0]]->results[0]->type));
      bool agree = std::all_of(region.begin(), region.end(), [&](uint32_t node) {
        return static_cast<double>(mortise::elementCount(*graph.nodes[node]->results[0]->type)) == elements;
      });
      if (agree)
        proposal.add({"pointwise.region", region, 1000 + elements * static_cast<double>(region.size()), 8 * elements,
                      elements * static_cast<double>(region.size())});
      else
        for (uint32_t node : region)
          proposal.refuse(node, MORTISE_REASON_SIZE, "expected equal sizes throughout a region");
    }
    return {};
  }

  Result<std::unique_ptr<Kernel>> compile(const MortiseCompileArgs &args) {
    if (mortise::cancelled())
      return mortise::cancelledError();
    const MortiseGraph &region = *args.region;
    auto kernel = std::make_unique<Kernel>();
    uint32_t temporaries = 0;
    // Later instructions may read an input that an output overwrites, so that such an output is copied last.
    std::vector<const MortiseValue *> overwritten(region.output_count);
    for (size_t i = 0; i < region.alias_count; ++i)
      overwritten[region.aliases[i]->output] = region.inputs[region.aliases[i]->input];
    for (size_t i = 0; i < region.value_count; ++i) {
      const MortiseValue &value = *region.values[i];
      const auto *output = std::find(region.outputs, region.outputs + region.output_count, &value);
      const auto number = static_cast<uint32_t>(output - region.outputs);
      if (!value.producer)
        kernel->places.push_back({Place::Input, value.result_index});
      else if (number < region.output_count && !overwritten[number])
        kernel->places.push_back({Place::Output, number});
      else
        kernel->places.push_back({Place::Workspace, temporaries++});
    }
    std::vector<uint32_t> nodes;
    for (size_t i = 0; i < region.node_count; ++i) {
      const MortiseNode &node = *region.nodes[i];
      const Op *op = findOp(node);
      if (!op || !dense(node.results[0]))
        return mortise::Error{MORTISE_INVALID_ARGUMENT, std::string("expected a region as proposed, found ") + node.op};
      uint32_t last = node.operands[node.operand_count - 1]->index;
      kernel->instructions.push_back({op->loop, {node.operands[0]->index, last}, node.results[0]->index});
      kernel->count = mortise::elementCount(*node.results[0]->type);
      nodes.push_back(static_cast<uint32_t>(i));
    }
    // A region may return a value several times, and an input.
    for (uint32_t i = 0; i < region.output_count; ++i) {
      const MortiseValue &value = *region.outputs[i];
      if (!dense(&value) || mortise::elementCount(*value.type) != kernel->count)
        return mortise::Error{MORTISE_UNSUPPORTED,
                              "expected outputs of the region's own size, found " + mortise::typeString(*value.type)};
      const Place &place = kernel->places[value.index];
      if (place.kind == Place::Input && overwritten[i] && overwritten[i] != &value)
        return mortise::Error{MORTISE_UNSUPPORTED, "expected results to overwrite inputs, found another input"};
      if (place.kind != Place::Output || place.index != i)
        kernel->copies.push_back({value.index, i});
    }
    std::stable_partition(kernel->copies.begin(), kernel->copies.end(),
                          [&](const Copy &copy) { return !overwritten[copy.output]; });
    // Blocks run at the same time, so each has its own temporaries.
    kernel->workspace = mortise::ConstantExpr(int64_t(temporaries) * blocks(*kernel) * block * int64_t(sizeof(float)));
    double elements = static_cast<double>(kernel->count), count = static_cast<double>(nodes.size());
    std::string name = std::to_string(nodes.size()) + " elementwise ops";
    kernel->steps.add(std::move(name), "pointwise.region", std::move(nodes), 8 * elements, elements * count);
    return kernel;
  }

  Result<void> describe(const Kernel &kernel, MortiseKernelInfo &info) {
    info.workspace = kernel.workspace.expr();
    kernel.steps.fill(info);
    return {};
  }

  Result<mortise::Packed<Constants>> bind(const Kernel &kernel, const MortiseAddress *inputs) {
    mortise::Packed<Constants> packed{std::make_unique<Constants>(), 0};
    for (const Place &place : kernel.places)
      if (place.kind == Place::Input) {
        packed.constants->inputs.resize(std::max<size_t>(packed.constants->inputs.size(), place.index + 1));
        packed.constants->inputs[place.index] = inputs[place.index];
      }
    return packed;
  }

  Result<void> enqueue(const Kernel &kernel, const Constants *constants, const MortiseEnqueueArgs &args) {
    mortise::parallelFor(blocks(kernel), 16, [&](int64_t first, int64_t last) {
      for (int64_t number = first; number < last; ++number)
        runBlock(kernel, constants, args, number);
    });
    return {};
  }

private:
  static int64_t blocks(const Kernel &kernel) { return (kernel.count + block - 1) / block; }

  static void runBlock(const Kernel &kernel, const Constants *constants, const MortiseEnqueueArgs &args,
                       int64_t number) {
    int64_t begin = number * block, count = std::min(block, kernel.count - begin);
    auto place = [&](uint32_t value) -> float * {
      const Place &where = kernel.places[value];
      switch (where.kind) {
      case Place::Input: {
        MortiseAddress input = args.inputs[where.index] ? args.inputs[where.index] : constants->inputs[where.index];
        return mortise::pointer<float>(input) + begin; // never written through
      }
      case Place::Output:
        return mortise::pointer<float>(args.outputs[where.index]) + begin;
      default:
        return mortise::pointer<float>(args.workspace) + (where.index * blocks(kernel) + number) * block;
      }
    };
    for (const Instruction &step : kernel.instructions)
      step.loop(place(step.operands[0]), place(step.operands[1]), place(step.result), count);
    for (const Copy &copy : kernel.copies)
      std::copy_n(place(copy.value), count, mortise::pointer<float>(args.outputs[copy.output]) + begin);
  }
};

} // namespace

MORTISE_DEFINE_PLUGIN(Pointwise)
