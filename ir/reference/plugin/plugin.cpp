// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reference interpreter as a plugin. It is used only when requested by name, never chosen automatically.
#include <mortise/plugin.hpp>
#include <mortise/reference/interpreter.hpp>
#include <mortise/reference/number.hpp>

namespace mortise::reference::inline MORTISE_ARITHMETIC {
namespace {

// Numbers of more bits than this arithmetic has are none of its own.
Refusal refuseWide(const MortiseNode &node) {
  if (sizeof(Number) < sizeof(double))
    for (const auto values : {std::span(node.operands, node.operand_count), std::span(node.results, node.result_count)})
      for (const MortiseValue *value : values)
        if (value && value->type->dtype == MORTISE_F64)
          return {MORTISE_REASON_DTYPE, "f64 has more bits than the f32 that this reference computes in"};
  return {};
}

struct Reference : PluginAdaptor<Reference> {
  static constexpr PluginIdentity identity{"reference", "Mortise", "0.1.0"};

  struct Kernel {
    std::unique_ptr<Interpreter> program;
    size_t inputs, outputs;
    ConstantExpr workspace;
    StepList steps;
  };
  using Constants = std::vector<MortiseAddress>; // the caller's own memory, read in place

  Result<void> initialize(const MortiseInitializeArgs &) { return {}; }

  Result<std::span<const MortiseDeviceInfo *const>> devices() {
    static const MortiseDeviceInfo info = [] {
      auto info = sized<MortiseDeviceInfo>();
      static char handle; // the device has no state
      info.device = reinterpret_cast<MortiseDevice *>(&handle);
      info.kind = "reference";
      info.name = "reference interpreter";
      info.threads = static_cast<uint32_t>(std::max(1, host().thread_count()));
      info.spaces = hostSpaces().data();
      info.space_count = 1;
      info.features = "";
      return info;
    }();
    static const MortiseDeviceInfo *const list[] = {&info};
    return std::span<const MortiseDeviceInfo *const>(list);
  }

  Result<void> propose(Proposal &proposal) {
    const MortiseGraph &graph = proposal.graph();
    std::vector<bool> supported(graph.node_count);
    for (uint32_t i = 0; i < graph.node_count; ++i) {
      Refusal refusal = refuse(*graph.nodes[i]);
      if (!refusal)
        refusal = refuseWide(*graph.nodes[i]);
      supported[i] = !refusal;
      if (refusal)
        proposal.refuse(i, refusal.reason, refusal.detail);
    }
    for (const std::vector<uint32_t> &nodes : convexRegions(graph, supported)) {
      Candidate candidate{"reference.region", nodes};
      for (uint32_t node : nodes) {
        Estimate cost = estimate(*graph.nodes[node]);
        candidate.costNs += cost.ns;
        candidate.bytes += cost.bytes;
        candidate.flops += cost.flops;
      }
      proposal.add(candidate);
    }
    return {};
  }

  Result<std::unique_ptr<Kernel>> compile(const MortiseCompileArgs &args) {
    if (cancelled())
      return cancelledError();
    if (std::string_view(args.lowering) != "reference.region")
      return Error{MORTISE_NOT_FOUND, std::string("expected the lowering reference.region, found ") + args.lowering};
    Result<std::unique_ptr<Interpreter>> program = Interpreter::compile(*args.region);
    if (!program)
      return program.error();
    const MortiseGraph &graph = *args.region;
    auto kernel = std::make_unique<Kernel>();
    kernel->workspace = ConstantExpr(static_cast<int64_t>((*program)->workspaceBytes()));
    kernel->program = std::move(*program);
    kernel->inputs = graph.input_count;
    kernel->outputs = graph.output_count;
    for (uint32_t i = 0; i < graph.node_count; ++i) {
      const MortiseNode &node = *graph.nodes[i];
      Estimate cost = estimate(node);
      kernel->steps.add(std::string(node.op) + " " + typeString(*node.results[0]->type), "reference.node", {i},
                        cost.bytes, cost.flops);
    }
    return kernel;
  }

  Result<void> describe(const Kernel &kernel, MortiseKernelInfo &info) {
    info.workspace = kernel.workspace.expr();
    kernel.steps.fill(info);
    info.code_bytes = 0;
    return {};
  }

  Result<Packed<Constants>> bind(const Kernel &kernel, const MortiseAddress *inputs) {
    return Packed<Constants>{std::make_unique<Constants>(inputs, inputs + kernel.inputs), 0};
  }

  Result<void> enqueue(const Kernel &kernel, const Constants *constants, const MortiseEnqueueArgs &args) {
    std::vector<const void *> inputs;
    for (size_t i = 0; i < kernel.inputs; ++i)
      inputs.push_back(pointer(args.inputs[i] || !constants ? args.inputs[i] : (*constants)[i]));
    std::vector<void *> outputs;
    for (size_t i = 0; i < kernel.outputs; ++i)
      outputs.push_back(pointer(args.outputs[i]));
    kernel.program->run(inputs, outputs, pointer(args.workspace), host().parallel_for, args.step_ns);
    return {};
  }
};

} // namespace
} // namespace mortise::reference::inline MORTISE_ARITHMETIC

MORTISE_DEFINE_PLUGIN(mortise::reference::Reference)
