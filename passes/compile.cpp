// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/passes/compile.hpp>

#include "devices.hpp"
#include "plan_writer.hpp"

#include <mortise/ir/decompose.hpp>
#include <mortise/ir/dialect.hpp>
#include <mortise/ir/portable.hpp>
#include <mortise/ir/vendor.hpp>
#include <mortise/passes/passes.hpp>
#include <mortise/portable/graph.hpp>
#include <mortise/runtime/plan_generated.h>

#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/IR/Builders.h>
#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/Diagnostics.h>
#include <mlir/IR/IRMapping.h>
#include <mlir/IR/MLIRContext.h>
#include <mlir/IR/OwningOpRef.h>
#include <mlir/IR/PatternMatch.h>
#include <mlir/Interfaces/FunctionInterfaces.h>
#include <mlir/Pass/PassManager.h>

#include <llvm/ADT/MapVector.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <set>

namespace mortise::passes {
namespace {

class Clock {
public:
  explicit Clock(double *total) : total(total) {}
  ~Clock() {
    if (total)
      *total += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

private:
  double *total;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

Result<void> runPasses(mlir::ModuleOp module, void (*build)(mlir::OpPassManager &), double *seconds) {
  Clock clock(seconds);
  std::string diagnostics;
  mlir::ScopedDiagnosticHandler handler(module.getContext(), [&](mlir::Diagnostic &diagnostic) {
    diagnostics += (diagnostics.empty() ? "" : "; ") + diagnostic.str();
    return mlir::success();
  });
  mlir::PassManager manager(module.getContext());
  manager.enableVerifier(false); // the IR is verified between stages instead, see pipelines.cpp
  build(manager);
  if (mlir::failed(manager.run(module)))
    return Error{MORTISE_INTERNAL, "the compiler's own passes failed: " + diagnostics};
  return {};
}

// The ops that become nodes of the exported graph, in the order of the nodes.
std::vector<mlir::Operation *> nodesOf(mlir::ModuleOp module) {
  std::vector<mlir::Operation *> ops;
  for (auto function : module.getOps<mlir::FunctionOpInterface>())
    for (mlir::Operation &op : function.getFunctionBody().front())
      if (op.getName().getDialectNamespace() == "mortise")
        ops.push_back(&op);
  return ops;
}

// Decomposes the composites among `nodes`.
Result<bool> decomposeAll(mlir::ModuleOp module, const MortiseGraph &graph, const std::vector<uint32_t> &nodes) {
  const std::vector<mlir::Operation *> ops = nodesOf(module);
  if (ops.size() != graph.node_count)
    return Error{MORTISE_INTERNAL, "the exported graph has " + std::to_string(graph.node_count) +
                                       " nodes, the module " + std::to_string(ops.size()) + " ops"};
  bool changed = false;
  mlir::IRRewriter rewriter(module.getContext());
  for (uint32_t node : nodes) {
    if (ir::opName(ops[node]) != graph.nodes[node]->op)
      return Error{MORTISE_INTERNAL, "node " + std::to_string(node) + " is " + graph.nodes[node]->op +
                                         " in the exported graph and " + ir::opName(ops[node]).str() +
                                         " in the module"};
    if (ir::isComposite(ops[node]) && mlir::succeeded(ir::decompose(ops[node], rewriter)))
      changed = true;
  }
  return changed;
}

using ByName = llvm::MapVector<llvm::StringRef, std::vector<mlir::Operation *>>;

// Builds a function that holds a copy of the first op of each name; every operand of a copy is an argument.
mlir::OwningOpRef<mlir::ModuleOp> firstOfEach(mlir::ModuleOp module, const ByName &ops) {
  auto function = *module.getOps<mlir::func::FuncOp>().begin();
  mlir::OwningOpRef<mlir::ModuleOp> result = mlir::ModuleOp::create(module.getLoc());
  mlir::OpBuilder builder(result->getBodyRegion());
  auto copy = mlir::func::FuncOp::create(builder, function.getLoc(), "composites", builder.getFunctionType({}, {}));
  if (mlir::Attribute symbols = function->getAttr("mortise.symbols"))
    copy->setAttr("mortise.symbols", symbols);
  mlir::Block *block = copy.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  llvm::SmallVector<mlir::Value> results;
  for (const auto &[name, instances] : ops) {
    mlir::IRMapping arguments;
    for (mlir::Value operand : instances.front()->getOperands())
      if (!arguments.contains(operand))
        arguments.map(operand, block->addArgument(operand.getType(), operand.getLoc()));
    llvm::append_range(results, builder.clone(*instances.front(), arguments)->getResults());
  }
  mlir::func::ReturnOp::create(builder, function.getLoc(), results);
  copy.setFunctionType(builder.getFunctionType(block->getArgumentTypes(), mlir::ValueRange(results).getTypes()));
  return result;
}

class Compilation {
public:
  Compilation(const std::vector<Target> &targets, const Homes &homes, Timings *timings)
      : targets(targets), homes(homes), passSeconds(timings ? &timings->passes : nullptr),
        placeSeconds(timings ? &timings->place : nullptr) {}

  struct Form { // one form of the program, and its placement
    std::shared_ptr<const Graph> graph;
    Placement placement;
    std::vector<DecomposedRefusal> lost;
  };

  // Decomposes, before placement, every composite op for which all plugins answer MORTISE_REASON_OP (no lowering for
  // the op). One instance of each op is enough to ask. Without this step the whole program would be exported, proposed
  // and cleaned up twice.
  Result<void> decomposeUnsupported(mlir::ModuleOp module, std::vector<DecomposedRefusal> &lost) {
    std::vector<llvm::StringRef> asked;
    for (;;) {
      ByName composites;
      for (mlir::Operation *op : nodesOf(module))
        if (ir::isComposite(op) && !llvm::is_contained(asked, op->getName().getStringRef()))
          composites[op->getName().getStringRef()].push_back(op);
      if (composites.empty())
        return {};
      Result<std::shared_ptr<const Graph>> graph = ir::exportGraph(*firstOfEach(module, composites));
      if (!graph)
        return graph.error();
      const Proposals answers = ask((*graph)->view());
      mlir::IRRewriter rewriter(module.getContext());
      uint32_t node = 0;
      for (const auto &[name, instances] : composites) {
        asked.push_back(name);
        if (!hasNoLowering(answers, node++))
          continue;
        for (mlir::Operation *op : instances)
          if (mlir::failed(ir::decompose(op, rewriter)))
            return Error{MORTISE_INTERNAL, name.str() + " has no decomposition"};
        note(name.str(), node - 1, answers.refusals, answers.declined, lost);
      }
    }
  }

  // Places the module. Composites that no plugin takes are decomposed, and placement runs again. When nothing
  // decomposes any further, `uncovered` (unless NULL) receives the nodes that are still uncovered.
  Result<Form> placeAndDecompose(mlir::ModuleOp module, std::vector<DecomposedRefusal> lost,
                                 std::vector<Uncovered> *uncovered = nullptr) {
    for (;;) {
      Result<Form> form = placed(module);
      if (!form)
        return form.error();
      Placement &placement = form->placement;
      if (placement.uncovered.empty()) {
        form->lost = std::move(lost);
        return form;
      }
      const MortiseGraph &graph = form->graph->view();
      Result<bool> decomposed = decomposeAll(module, graph, placement.uncovered);
      if (!decomposed)
        return decomposed.error();
      if (!*decomposed) {
        std::vector<Uncovered> left = uncoveredNodes(graph, placement, targets);
        Error error = uncoveredError(graph, left);
        if (uncovered)
          *uncovered = std::move(left);
        return error;
      }
      for (uint32_t node : placement.uncovered)
        note(graph.nodes[node]->op, node, placement.refusals, placement.declined, lost);
      if (Result<void> done = runPasses(module, buildCleanup, passSeconds); !done)
        return done.error();
    }
  }

  // With several targets, one device may take a composite although its parts would be cheaper on others. Tries the
  // decomposition of each kind of composite and keeps the form with the lower total cost.
  Result<void> tryDecompositions(mlir::ModuleOp module, Form &best) {
    std::vector<std::string> tried;
    for (size_t next = 0; next < best.graph->view().node_count && tried.size() < maxTrials; ++next) {
      const std::string op = best.graph->view().nodes[next]->op;
      const std::vector<mlir::Operation *> ops = nodesOf(module);
      if (!ir::isComposite(ops[next]) || std::find(tried.begin(), tried.end(), op) != tried.end())
        continue;
      tried.push_back(op);
      mlir::OwningOpRef<mlir::ModuleOp> copy = module.clone();
      mlir::IRRewriter rewriter(module.getContext());
      for (mlir::Operation *other : nodesOf(*copy))
        if (other->getName().getStringRef() == op && mlir::failed(ir::decompose(other, rewriter)))
          return Error{MORTISE_INTERNAL, op + " has no decomposition"};
      if (Result<void> done = runPasses(*copy, buildCleanup, passSeconds); !done)
        return done.error();
      Result<Form> parts = placeAndDecompose(*copy, best.lost);
      if (!parts || !(parts->placement.costNs < best.placement.costNs * (1 - 1e-9)))
        continue; // the parts are not taken by any plugin, or cost as much
      note(op, best, *parts);
      module.getBodyRegion().takeBody(copy->getBodyRegion());
      best = std::move(*parts);
      next = static_cast<size_t>(-1); // nodes have new numbers: start again; `tried` keeps each op from a second trial
    }
    return {};
  }

  Result<std::shared_ptr<const plan::PlanT>> write(const Form &form, const std::string &require) {
    Clock clock(placeSeconds);
    if (Result<void> met = checkRequirement(require, form.graph->view(), form.placement, targets); !met)
      return met.error();
    return writePlan(form.graph->view(), form.placement, targets, form.lost, homes);
  }

private:
  static constexpr size_t maxTrials = 8;

  Proposals ask(const MortiseGraph &graph) {
    Clock clock(placeSeconds);
    std::vector<Target> asked = targets; // who takes what is the question here, not what it costs
    for (Target &target : asked)
      target.measurements = nullptr;
    return propose(graph, asked);
  }

  bool hasNoLowering(const Proposals &answers, uint32_t node) const {
    std::vector<bool> refused(targets.size());
    for (const Refusal &refusal : answers.refusals)
      if (refusal.node == node && refusal.reason == MORTISE_REASON_OP)
        refused[refusal.target] = true;
    return llvm::all_of(refused, [](bool by) { return by; }) &&
           llvm::none_of(answers.candidates, [&](const Candidate &candidate) {
             return std::binary_search(candidate.nodes.begin(), candidate.nodes.end(), node);
           });
  }

  Result<Form> placed(mlir::ModuleOp module) {
    Form form;
    {
      Clock clock(passSeconds);
      Result<std::shared_ptr<const Graph>> exported = ir::exportGraph(module);
      if (!exported)
        return exported.error();
      form.graph = std::move(*exported);
    }
    if (Result<void> checked = checkGraph(form.graph->view()); !checked)
      return checked.error();
    std::vector<bool> composite;
    for (mlir::Operation *op : nodesOf(module))
      composite.push_back(ir::isComposite(op));
    composite.resize(form.graph->view().node_count);
    Clock clock(placeSeconds);
    form.placement = place(form.graph->view(), targets, composite, homes);
    return form;
  }

  // Records for the report why the composite at `node`, an `op`, is decomposed: all that every target answered.
  void note(const std::string &op, uint32_t node, std::span<const Refusal> refusals, std::span<const Declined> declined,
            std::vector<DecomposedRefusal> &lost) const {
    for (uint32_t target = 0; target < targets.size(); ++target)
      for (Refusal &answer : answersFor(node, target, refusals, declined)) {
        answer.node = UINT32_MAX;
        lost.push_back({op, std::move(answer)});
      }
  }

  // Records that the composite `op` was decomposed because its parts cost less.
  static void note(const std::string &op, const Form &whole, Form &parts) {
    std::vector<bool> named(UINT8_MAX + 1);
    for (const Candidate &region : whole.placement.regions)
      for (uint32_t node : region.nodes)
        if (whole.graph->view().nodes[node]->op == op && !named[region.target & UINT8_MAX]) {
          named[region.target & UINT8_MAX] = true;
          parts.lost.push_back({op,
                                {UINT32_MAX, region.target, MORTISE_REASON_COST,
                                 "in parts the program costs " + nsText(parts.placement.costNs) + ", with it whole " +
                                     nsText(whole.placement.costNs)}});
        }
  }

  const std::vector<Target> &targets;
  const Homes &homes;
  double *passSeconds, *placeSeconds;
};

// A graph on its way to a plan, and what has been learned about it. Kept with the program, it can be placed again.
struct Placing {
  const runtime::Config config;
  const Homes homes;
  std::vector<Target> targets;
  std::vector<DecomposedRefusal> lost;
  std::shared_ptr<const Graph> graph; // as it was placed last
  bool failed = false;                // to place it again
};

// Whether a plan for a placement is accepted. False: `targets` have been told what to do otherwise.
using Accept = std::function<Result<bool>(const std::shared_ptr<const plan::PlanT> &plan, const Placement &placement,
                                          std::vector<Target> &targets)>;

// Places a module that has been through the passes until a plan is accepted.
Result<std::shared_ptr<const plan::PlanT>> placeUntil(const Accept &accept, mlir::ModuleOp module, Placing &placing,
                                                      Timings *timings, std::vector<Uncovered> *uncovered) {
  Compilation compilation(placing.targets, placing.homes, timings);
  for (;;) {
    Result<Compilation::Form> form = compilation.placeAndDecompose(module, placing.lost, uncovered);
    if (!form)
      return form.error();
    if (placing.targets.size() > 1)
      if (Result<void> tried = compilation.tryDecompositions(module, *form); !tried)
        return tried.error();
    auto plan = compilation.write(*form, placing.config.get("require"));
    if (!plan)
      return plan.error();
    const Result<bool> accepted = accept(*plan, form->placement, placing.targets);
    if (!accepted)
      return accepted.error();
    placing.lost = std::move(form->lost);
    placing.graph = std::move(form->graph);
    if (*accepted)
      return plan;
  }
}

Result<std::shared_ptr<const plan::PlanT>> compileUntil(const Accept &accept, mlir::ModuleOp module,
                                                        const runtime::Registry &registry, Placing &placing,
                                                        Timings *timings, std::vector<Uncovered> *uncovered) {
  if (uncovered)
    uncovered->clear();
  Result<std::vector<Target>> targets = chooseTargets(registry, placing.config, placing.homes);
  if (!targets)
    return targets.error();
  if (Result<void> checked = ir::checkVendorOps(module, registry); !checked)
    return checked.error();
  placing.targets = std::move(*targets);
  Compilation compilation(placing.targets, placing.homes, timings);
  double *passSeconds = timings ? &timings->passes : nullptr;
  if (Result<void> done = runPasses(module, buildRecognition, passSeconds); !done)
    return done.error();
  if (Result<void> done = compilation.decomposeUnsupported(module, placing.lost); !done)
    return done.error();
  if (Result<void> done = runPasses(module, buildCleanup, passSeconds); !done)
    return done.error();
  return placeUntil(accept, module, placing, timings, uncovered);
}

// Tells the target of the refused region not to offer it again. False if it has been told before.
Result<bool> refuse(const plan::PlanT &plan, const runtime::RefusedRegion &refused, std::vector<Target> &targets) {
  const plan::RegionT &region = *plan.regions[refused.region];
  const auto graph = Graph::read(std::as_bytes(std::span(region.graph)));
  auto form = graph ? canonical((*graph)->view()) : Result<std::shared_ptr<const Graph>>(graph.error());
  if (!form)
    return form.error();
  for (Target &target : targets) {
    if (target.device->name() != region.device || target.device->plugin->name != region.plugin)
      continue;
    for (const RefusedOffer &known : target.refused)
      if (known.lowering == region.lowering && std::ranges::equal(known.region->bytes(), (*form)->bytes()))
        return false;
    target.refused.push_back({region.lowering, std::move(*form), refused.reason});
    return true;
  }
  return false;
}

// The bytes of the constants that a plan needs in one memory, where they are known.
uint64_t constantBytes(const plan::PlanT &plan, const runtime::Device &owner, const std::vector<Target> &targets) {
  std::set<uint32_t> constants; // inputs of the plan
  for (const auto &region : plan.regions)
    for (const Target &target : targets)
      if (target.device->name() == region->device && target.device->sharesMemory(owner))
        for (const uint32_t buffer : region->inputs)
          if (const plan::BufferT &read = *plan.buffers[buffer];
              read.kind == plan::BufferKind::Input && plan.inputs[read.index]->constant)
            constants.insert(read.index);
  for (const auto &step : plan.steps)
    if (const plan::CopyT *copy = step->instruction.AsCopy()) {
      const plan::BufferT &read = *plan.buffers[copy->source];
      if (read.kind == plan::BufferKind::Input && plan.inputs[read.index]->constant &&
          plan.spaces[plan.buffers[copy->target]->space]->device == owner.name())
        constants.insert(read.index);
    }
  uint64_t sum = 0;
  for (const uint32_t input : constants) {
    const plan::TensorTypeT &type = *plan.inputs[input]->type;
    uint64_t bits = dtypeBits(type.dtype);
    for (const int64_t extent : type.dims)
      bits *= extent == MORTISE_DYNAMIC ? 0 : static_cast<uint64_t>(extent);
    sum += (bits + 7) / 8;
  }
  return sum;
}

// Lowers the limits of devices whose memory a plan takes more of than was estimated, so that it is placed again with
// fewer nodes there. False where all has room. `arenas`: bytes per memory space.
bool lowerLimits(const plan::PlanT &plan, std::span<const uint64_t> arenas, const Placement &placement,
                 std::vector<Target> &targets) {
  bool lowered = false;
  for (size_t space = 1; space < plan.spaces.size(); ++space)
    for (size_t t = 0; t < targets.size(); ++t) {
      const runtime::Device &owner = targets[t].device->owner();
      if (!targets[t].memoryLimit || owner.name() != plan.spaces[space]->device || placement.memoryUse[t] == 0)
        continue;
      const uint64_t needed = arenas[space] + constantBytes(plan, owner, targets);
      if (needed <= owner.memoryLimit)
        continue;
      const uint64_t excess = needed - owner.memoryLimit;
      targets[t].memoryLimit = placement.memoryUse[t] - std::min(placement.memoryUse[t], excess);
      lowered = true;
    }
  return lowered;
}

// Accepts a plan whose program can be loaded, which `program` receives.
Accept loads(const std::shared_ptr<const runtime::Registry> &registry, const runtime::Config &config, Timings *timings,
             std::shared_ptr<runtime::Program> &program) {
  return [&, timings](const std::shared_ptr<const plan::PlanT> &plan, const Placement &placement,
                      std::vector<Target> &targets) -> Result<bool> {
    std::optional<runtime::RefusedRegion> refused;
    auto loaded = [&] {
      Clock clock(timings ? &timings->kernels : nullptr);
      return runtime::Program::load(plan, registry, {.specializeLimit = config.specializeLimit(), .refused = &refused});
    }();
    if (loaded) {
      program = std::move(*loaded);
      const bool accepted = !lowerLimits(*plan, program->spaceBytes(), placement, targets);
      if (!accepted)
        program.reset(); // what it holds on devices counts
      return accepted;
    }
    const bool again = loaded.error().code == MORTISE_UNSUPPORTED && refused;
    const Result<bool> told = again ? refuse(*plan, *refused, targets) : Result<bool>(false);
    if (!told)
      return told.error();
    if (*told)
      return false;
    return loaded.error();
  };
}

// runtime::PlaceAgain. The passes have had the graph. An offer that was struck before is asked for once more only if no
// program came of it then.
Result<std::shared_ptr<runtime::Program>> placeAgain(Placing &placing,
                                                     const std::shared_ptr<const runtime::Registry> &registry,
                                                     const plan::PlanT &plan, const runtime::RefusedRegion &refused,
                                                     std::vector<Uncovered> &uncovered) {
  const Result<bool> told = refuse(plan, refused, placing.targets);
  if (!told)
    return told.error();
  if (!*told && !placing.failed)
    return Error{MORTISE_UNSUPPORTED, "its plugin offers the same region"};
  placing.failed = true;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<ir::MortiseDialect, mlir::func::FuncDialect>();
  Result<mlir::OwningOpRef<mlir::ModuleOp>> module = ir::importGraph(*placing.graph, context);
  if (!module)
    return module.error();
  std::shared_ptr<runtime::Program> program;
  auto placed = placeUntil(loads(registry, placing.config, nullptr, program), **module, placing, nullptr, &uncovered);
  if (!placed)
    return placed.error();
  placing.failed = false;
  return program;
}

} // namespace

Result<std::shared_ptr<const plan::PlanT>> compile(mlir::ModuleOp module, const runtime::Registry &registry,
                                                   const runtime::Config &config, Timings *timings,
                                                   std::vector<Uncovered> *uncovered, const Homes &homes) {
  const auto accept = [](const auto &plan, const Placement &placement, auto &targets) -> Result<bool> {
    std::vector<uint64_t> arenas; // without workspaces, which are known when the kernels are
    for (const auto &space : plan->spaces)
      arenas.push_back(space->bytes);
    return !lowerLimits(*plan, arenas, placement, targets);
  };
  Placing placing{.config = config, .homes = homes, .targets = {}, .lost = {}, .graph = nullptr};
  return compileUntil(accept, module, registry, placing, timings, uncovered);
}

Result<std::shared_ptr<runtime::Program>> compileAndLoad(mlir::ModuleOp module,
                                                         const std::shared_ptr<const runtime::Registry> &registry,
                                                         const runtime::Config &config, Timings *timings,
                                                         std::vector<Uncovered> *uncovered, const Homes &homes) {
  const auto placing =
      std::make_shared<Placing>(Placing{.config = config, .homes = homes, .targets = {}, .lost = {}, .graph = nullptr});
  std::shared_ptr<runtime::Program> program;
  auto plan = compileUntil(loads(registry, config, timings, program), module, *registry, *placing, timings, uncovered);
  if (!plan)
    return plan.error();
  program->setPlaceAgain([placing, registry](const plan::PlanT &refusing, const runtime::RefusedRegion &refused,
                                             std::vector<Uncovered> &left) {
    return placeAgain(*placing, registry, refusing, refused, left);
  });
  return program;
}

} // namespace mortise::passes
