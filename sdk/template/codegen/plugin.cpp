// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plugin in C++ whose kernels are generated: the toolkit fuses a region's nodes into loops and compiles them to
// machine code for this CPU. Start from it where some ops have a library call: mark those as taken, and the rest is
// generated.
#include <mortise/codegen/codegen.hpp>
#include <mortise/plugin.hpp>
#include <mortise/threads.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

namespace {
using namespace mortise;

constexpr size_t alignment = 64;
constexpr size_t most = 64; // inputs or outputs of a function

struct Generated : PluginAdaptor<Generated> {
  static constexpr PluginIdentity identity{"acme", "Acme Inc.", "1.0.0"};

  // Where a value of the region lies.
  struct Place {
    enum Kind { Input, Output, Workspace } kind = Input;
    uint32_t index = 0;  // of the input or output
    uint64_t offset = 0; // in the workspace
  };
  struct Step { // one function
    codegen::Function::Entry entry;
    std::vector<Place> inputs, outputs;
    int64_t tasks = 0, grain = 1;
    size_t scratchBytes = 0; // for each thread
  };
  struct Copy {
    Place source, target;
    size_t bytes = 0;
  };
  struct Kernel {
    std::vector<Step> steps;
    std::vector<Copy> copies; // behind them
    size_t inputCount = 0;
    ConstantExpr workspace;
    StepList list;
  };
  struct Constants {
    std::vector<MortiseAddress> inputs;
  };

  Result<void> initialize(const MortiseInitializeArgs &) { return {}; }

  Result<std::span<const MortiseDeviceInfo *const>> devices() {
    static const MortiseDeviceInfo device = [] {
      auto info = sized<MortiseDeviceInfo>();
      info.kind = info.name = "acme";
      info.threads = 1;
      info.spaces = hostSpaces().data();
      info.space_count = 1;
      info.features = "";
      return info;
    }();
    static const MortiseDeviceInfo *const list[] = {&device};
    return std::span<const MortiseDeviceInfo *const>(list);
  }

  Result<void> propose(Proposal &proposal) {
    const MortiseGraph &graph = proposal.graph();
    std::vector<bool> supported(graph.node_count);
    for (uint32_t i = 0; i < graph.node_count; ++i) {
      const codegen::Support support = codegen::supports(*graph.nodes[i]);
      const bool isFixed = isStaticNode(*graph.nodes[i]);
      supported[i] = support.yes && isFixed;
      if (!support.yes)
        proposal.refuse(i, support.reason, support.detail);
      else if (!isFixed)
        proposal.refuse(i, MORTISE_REASON_NEEDS_STATIC, "expected a static shape");
    }
    for (const std::vector<uint32_t> &region : convexRegions(graph, supported)) {
      double bytes = 0;
      for (const uint32_t node : region)
        bytes += static_cast<double>(byteSize(*graph.nodes[node]->results[0]->type));
      proposal.add({"acme.region", region, 1000 + bytes / 10, bytes, bytes / 4}); // 10 bytes per nanosecond
    }
    return {};
  }

  Result<std::unique_ptr<Kernel>> compile(const MortiseCompileArgs &args) {
    if (cancelled())
      return cancelledError();
    const MortiseGraph &region = *args.region;
    auto fused = codegen::fuse({&region, std::vector<bool>(region.node_count), outputsOf(region), {}}, target());
    auto code = compiler();
    if (!fused || !code)
      return fused ? code.error() : fused.error();
    for (const codegen::Group &group : fused->groups)
      if (group.inputs.size() > most || group.outputs.size() > most)
        return Error{MORTISE_UNSUPPORTED, "expected at most 64 inputs and outputs of a loop: " + group.name};
    auto functions = (*code)->compile(region, fused->groups);
    if (!functions)
      return functions.error();
    auto kernel = std::make_unique<Kernel>();
    kernel->inputCount = region.input_count;
    std::vector<std::optional<Place>> places(region.value_count);
    for (uint32_t i = 0; i < region.input_count; ++i)
      places[region.inputs[i]->index] = Place{Place::Input, i, 0};
    // An output that updates a state has the memory of its input, and outputs of functions overlap nothing.
    std::vector<bool> updates(region.output_count);
    for (size_t i = 0; i < region.alias_count; ++i)
      updates[region.aliases[i]->output] = true;
    for (uint32_t i = 0; i < region.output_count; ++i)
      if (!updates[i])
        places[region.outputs[i]->index] = Place{Place::Output, i, 0};
    uint64_t bytes = 0;
    const auto placeOf = [&](uint32_t value) {
      if (!places[value]) {
        places[value] = Place{Place::Workspace, 0, bytes};
        bytes += aligned(byteSize(*region.values[value]->type));
      }
      return *places[value];
    };
    for (size_t i = 0; i < functions->size(); ++i) {
      const codegen::Group &group = fused->groups[i];
      const codegen::Function &function = (*functions)[i];
      // Shapes are static, so that these are numbers.
      Step &step = kernel->steps.emplace_back(Step{function.entry,
                                                   {},
                                                   {},
                                                   function.tasks.number().value_or(0),
                                                   function.grain.number().value_or(1),
                                                   static_cast<size_t>(function.scratchBytes.number().value_or(0))});
      for (const uint32_t value : group.inputs)
        step.inputs.push_back(placeOf(value));
      for (const uint32_t value : group.outputs)
        step.outputs.push_back(placeOf(value));
      kernel->list.add(group.name, "acme.loop", group.nodes, static_cast<double>(function.bytes.number().value_or(0)),
                       static_cast<double>(function.flops.number().value_or(0)));
    }
    for (uint32_t i = 0; i < region.output_count; ++i)
      if (updates[i]) {
        const MortiseValue &output = *region.outputs[i];
        kernel->copies.push_back({placeOf(output.index), {Place::Output, i, 0}, byteSize(*output.type)});
      }
    kernel->workspace = ConstantExpr(static_cast<int64_t>(bytes));
    return kernel;
  }

  Result<void> describe(const Kernel &kernel, MortiseKernelInfo &info) {
    info.workspace = kernel.workspace.expr();
    kernel.list.fill(info);
    return {};
  }

  Result<Packed<Constants>> bind(const Kernel &kernel, const MortiseAddress *inputs) {
    auto constants = std::make_unique<Constants>();
    constants->inputs.assign(inputs, inputs + kernel.inputCount);
    return Packed<Constants>{std::move(constants), 0};
  }

  Result<void> enqueue(const Kernel &kernel, const Constants *constants, const MortiseEnqueueArgs &args) {
    const auto at = [&](const Place &place) {
      if (place.kind == Place::Workspace)
        return pointer(args.workspace + place.offset);
      const MortiseAddress address = place.kind == Place::Output ? args.outputs[place.index] : args.inputs[place.index];
      return pointer(address || !constants ? address : constants->inputs[place.index]);
    };
    for (const Step &step : kernel.steps) {
      std::array<const void *, most> inputs;
      std::array<void *, most> outputs;
      std::ranges::transform(step.inputs, inputs.begin(), at);
      std::ranges::transform(step.outputs, outputs.begin(), at);
      parallelFor(step.tasks, step.grain, [&](int64_t begin, int64_t end) {
        step.entry(inputs.data(), outputs.data(), scratch(step.scratchBytes), nullptr, begin, end);
      });
    }
    for (const Copy &copy : kernel.copies)
      if (copy.bytes)
        std::memcpy(at(copy.target), at(copy.source), copy.bytes);
    return {};
  }

private:
  // Also its operands, whose extents bound the indices: the result of a lookup says nothing of its table.
  static bool isStaticNode(const MortiseNode &node) {
    const auto isFixed = [](const MortiseValue *value) { return value == nullptr || isStatic(*value->type); };
    return std::all_of(node.operands, node.operands + node.operand_count, isFixed) &&
           std::all_of(node.results, node.results + node.result_count, isFixed);
  }
  // A thread's own memory, which only grows.
  static void *scratch(size_t bytes) {
    thread_local std::unique_ptr<void, decltype(&std::free)> memory(nullptr, std::free);
    thread_local size_t size = 0;
    if (bytes > size) {
      size = aligned(bytes);
      memory.reset(std::aligned_alloc(alignment, size));
    }
    return memory.get();
  }

  static size_t aligned(size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

  // The values that the host wants in memory.
  static std::vector<bool> outputsOf(const MortiseGraph &region) {
    std::vector<bool> wanted(region.value_count);
    for (size_t i = 0; i < region.output_count; ++i)
      wanted[region.outputs[i]->index] = true;
    return wanted;
  }

  static const codegen::Target &target() {
    static const auto made = codegen::Target::host(compileThreads());
    return made;
  }
  // One for the process: it owns the machine code, and compiles equal groups once.
  static Result<codegen::Compiler *> compiler() {
    static auto *made = new auto(codegen::Compiler::create(target()));
    return *made ? Result<codegen::Compiler *>((*made)->get()) : made->error();
  }
};

} // namespace

MORTISE_DEFINE_PLUGIN(Generated)
