// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/runtime/Program.h>

#include "Context.h"
#include "Host.h"
#include "PlanCheck.h"

#include <algorithm>
#include <condition_variable>
#include <optional>

namespace mortise::runtime {

struct Program::Impl {
  std::shared_ptr<Registry> registry;
  std::unique_ptr<Layout> layout; // outlives what follows
  bool hasConstants = false;

  std::mutex mutex; // guards what follows
  std::condition_variable idle;
  std::unique_ptr<Bound> bound;
  std::vector<std::unique_ptr<Context>> free;
  size_t contexts = 0;
  uint64_t bindings = 0;
  std::vector<uint64_t> clocks; // sums over profiled runs

  // One call in flight: a context, and a hold on the constants of its time.
  struct Lease {
    Impl &impl;
    Bound *bound;
    std::unique_ptr<Context> context;
    ~Lease() { impl.release(bound, std::move(context)); }
  };
  Result<void> lease(std::optional<Lease> &place);
  void release(Bound *held, std::unique_ptr<Context> context);
  Result<void> bind(std::unique_ptr<Bound> fresh);
  Result<void> checkInputs(std::span<const Tensor> tensors, Context &context) const;
  Result<void> checkOutputs(std::span<const Tensor> tensors, std::span<const Tensor> inputs, Context &context) const;
  Result<void> runChecked(std::span<const Tensor> inputs, std::span<const Tensor> outputs, bool profile);
};

Result<void> Program::Impl::lease(std::optional<Lease> &place) {
  if (isForkedChild())
    return forkedChildError();
  std::unique_ptr<Context> context;
  Bound *held;
  {
    const std::lock_guard lock(mutex);
    held = bound.get();
    if (held == nullptr)
      return Error{MORTISE_INVALID_ARGUMENT,
                   "the program has constant inputs, and none are bound; bind them before the first run"};
    ++held->users;
    if (!free.empty()) {
      context = std::move(free.back());
      free.pop_back();
    } else {
      free.reserve(++contexts); // so that giving it back allocates nothing
    }
  }
  if (!context) {
    auto made = Context::create(*layout);
    if (!made) {
      release(held, nullptr);
      return made.error();
    }
    context = std::move(*made);
  }
  place.emplace(*this, held, std::move(context));
  return {};
}

void Program::Impl::release(Bound *held, std::unique_ptr<Context> context) {
  const std::lock_guard lock(mutex);
  if (context)
    free.push_back(std::move(context));
  else
    --contexts;
  if (--held->users == 0 && held != bound.get())
    idle.notify_all();
}

// Returns once no call uses the old constants, so that their memory may go.
Result<void> Program::Impl::bind(std::unique_ptr<Bound> fresh) {
  fresh->kernels = &layout->kernels;
  if (auto packed = packConstants(*layout->plan, layout->literalData, *fresh); !packed)
    return packed;
  std::unique_lock lock(mutex);
  fresh->number = ++bindings;
  std::swap(bound, fresh);
  if (fresh)
    idle.wait(lock, [&] { return fresh->users == 0; });
  return {};
}

Result<void> Program::Impl::checkInputs(std::span<const Tensor> tensors, Context &context) const {
  const auto &specs = layout->inputs;
  if (tensors.size() != specs.size())
    return Error{MORTISE_INVALID_ARGUMENT, "expected " + std::to_string(specs.size()) + " inputs, found " +
                                               std::to_string(tensors.size()) + "; pass one per input of the plan"};
  for (size_t i = 0; i < specs.size(); ++i) {
    if (layout->plan->inputs[i]->constant)
      continue;
    const TensorSpec &spec = specs[i];
    if (auto checked = checkTensor(tensors[i], spec); !checked)
      return checked;
    context.inputPointers[i] = tensors[i].data;
    if (isDense(tensors[i], spec))
      continue;
    const bool written =
        layout->plan->inputs[i]->state || std::ranges::any_of(layout->plan->outputs, [&](const auto &output) {
          return output->alias == static_cast<int64_t>(i);
        });
    if (written)
      return Error{MORTISE_INVALID_ARGUMENT,
                   spec.role +
                       ": expected dense, aligned memory, because it is updated in place, found strides or an odd "
                       "address; make it contiguous"};
    if (context.staging[i].data() == nullptr) {
      auto block = Block::allocate(spec.bytes, 64);
      if (!block)
        return block.error();
      context.staging[i] = std::move(*block);
    }
    copyDense(tensors[i], spec, context.staging[i].data());
    context.inputPointers[i] = context.staging[i].data();
  }
  return {};
}

Result<void> Program::Impl::checkOutputs(std::span<const Tensor> tensors, std::span<const Tensor> inputs,
                                         Context &context) const {
  const auto &specs = layout->outputs;
  auto wrong = [](const TensorSpec &spec, const std::string &rest) {
    return Error{MORTISE_INVALID_ARGUMENT, spec.role + ": " + rest};
  };
  if (tensors.size() != specs.size())
    return Error{MORTISE_INVALID_ARGUMENT, "expected " + std::to_string(specs.size()) + " outputs, found " +
                                               std::to_string(tensors.size()) + "; pass one per output of the plan"};
  for (size_t i = 0; i < specs.size(); ++i) {
    const Tensor &tensor = tensors[i];
    const TensorSpec &spec = specs[i];
    context.outputPointers[i] = tensor.data;
    if (const int64_t alias = layout->plan->outputs[i]->alias; alias >= 0) {
      if (tensor.data != nullptr && tensor.data != inputs[alias].data)
        return wrong(spec, "expected NULL or the memory of " + layout->inputs[alias].role +
                               ", which it is written to, found other memory");
      continue;
    }
    if (auto checked = checkTensor(tensor, spec); !checked)
      return checked;
    if (!isDense(tensor, spec))
      return wrong(
          spec,
          "expected dense memory aligned to its elements, found strides or an odd address; pass a contiguous tensor");
    for (size_t j = 0; j < inputs.size(); ++j)
      if (!layout->plan->inputs[j]->constant &&
          overlaps(tensor.data, spec.bytes, context.inputPointers[j], layout->inputs[j].bytes))
        return wrong(spec, "expected memory of its own, found it to overlap " + layout->inputs[j].role +
                               "; pass another tensor");
    for (size_t j = 0; j < i; ++j)
      if (layout->plan->outputs[j]->alias < 0 && overlaps(tensor.data, spec.bytes, tensors[j].data, specs[j].bytes))
        return wrong(spec,
                     "expected memory of its own, found it to overlap " + specs[j].role + "; pass another tensor");
  }
  return {};
}

Result<void> Program::Impl::runChecked(std::span<const Tensor> inputs, std::span<const Tensor> outputs, bool profile) {
  std::optional<Lease> place;
  if (auto leased = lease(place); !leased)
    return leased;
  Context &context = *place->context;
  if (auto checked = checkInputs(inputs, context); !checked)
    return checked;
  if (auto checked = checkOutputs(outputs, inputs, context); !checked)
    return checked;
  auto done = context.execute(place->bound, context.inputPointers.data(), context.outputPointers.data(), profile);
  if (done && profile) {
    const std::lock_guard lock(mutex);
    for (size_t i = 0; i < clocks.size(); ++i)
      clocks[i] += context.clocks()[i];
  }
  return done;
}

Result<std::shared_ptr<Program>> Program::load(std::shared_ptr<const plan::PlanT> plan,
                                               std::shared_ptr<Registry> registry) {
  if (isForkedChild())
    return forkedChildError();
  if (registry == nullptr)
    return Error{MORTISE_INVALID_ARGUMENT, "expected a registry, found NULL"};
  auto layout = Layout::make(std::move(plan), *registry);
  if (!layout)
    return layout.error();
  auto impl = std::make_unique<Impl>();
  impl->registry = std::move(registry);
  impl->layout = std::move(*layout);
  impl->clocks.resize(impl->layout->clocks);
  for (const auto &input : impl->layout->plan->inputs)
    impl->hasConstants |= input->constant;
  if (!impl->hasConstants) {
    auto empty = std::make_unique<Bound>();
    empty->data.resize(impl->layout->inputs.size());
    if (auto bound = impl->bind(std::move(empty)); !bound)
      return bound.error();
  }
  return std::shared_ptr<Program>(new Program(std::move(impl)));
}

Result<void> Program::bindConstants(std::span<const Tensor> tensors) {
  if (isForkedChild())
    return forkedChildError();
  const auto &specs = impl->layout->inputs;
  if (tensors.size() != specs.size())
    return Error{MORTISE_INVALID_ARGUMENT, "expected " + std::to_string(specs.size()) +
                                               " entries, one per input and ignored where it is not "
                                               "constant, found " +
                                               std::to_string(tensors.size())};
  auto fresh = std::make_unique<Bound>();
  fresh->data.resize(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    if (!impl->layout->plan->inputs[i]->constant)
      continue;
    if (auto checked = checkTensor(tensors[i], specs[i]); !checked)
      return checked;
    fresh->data[i] = tensors[i].data;
    if (isDense(tensors[i], specs[i]))
      continue;
    auto block = Block::allocate(specs[i].bytes, 64);
    if (!block)
      return block.error();
    copyDense(tensors[i], specs[i], block->data());
    fresh->data[i] = block->data();
    fresh->staged.push_back(std::move(*block));
  }
  return impl->bind(std::move(fresh));
}

Result<void> Program::run(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  return impl->runChecked(inputs, outputs, false);
}

Result<void> Program::runProfiled(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  return impl->runChecked(inputs, outputs, true);
}

Result<void> Program::runPointers(const void *const *inputs, void *const *outputs) {
  std::optional<Impl::Lease> place;
  if (auto leased = impl->lease(place); !leased)
    return leased;
  return place->context->execute(place->bound, inputs, outputs, false);
}

const plan::PlanT &Program::plan() const { return *impl->layout->plan; }

uint64_t Program::arenaBytes() const {
  uint64_t bytes = 0;
  for (const MemorySpace &space : impl->layout->spaces)
    bytes += space.bytes;
  return bytes;
}

uint64_t Program::packedBytes() const {
  const std::lock_guard lock(impl->mutex);
  return impl->bound ? impl->bound->packedBytes : 0;
}

std::vector<RegionReport> Program::report() const {
  const Layout &layout = *impl->layout;
  std::vector<RegionReport> reports;
  for (size_t i = 0; i < layout.kernels.size(); ++i) {
    const plan::RegionT &region = *layout.plan->regions[i];
    RegionReport &report = reports.emplace_back(
        RegionReport{region.device, region.plugin, region.lowering, region.nodes, region.cost_ns, {}});
    for (const StepInfo &step : layout.kernels[i]->steps)
      report.steps.push_back({step.name, step.lowering, 0, step.bytes, step.flops});
    if (report.steps.empty())
      report.steps.push_back({region.lowering, region.lowering});
  }
  const std::lock_guard lock(impl->mutex);
  for (const Operation &operation : layout.operations)
    if (operation.region != none)
      for (size_t i = 0; i < reports[operation.region].steps.size(); ++i)
        reports[operation.region].steps[i].ns += impl->clocks[operation.clocks + i];
  return reports;
}

Program::Program(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Program::~Program() = default;

} // namespace mortise::runtime
