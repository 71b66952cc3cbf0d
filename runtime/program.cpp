// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/runtime/program.hpp>

#include "context.hpp"
#include "host.hpp"
#include "plan_check.hpp"

#include <algorithm>
#include <condition_variable>
#include <optional>

namespace mortise::runtime {

struct Program::Impl {
  std::shared_ptr<Registry> registry;
  LoadOptions options;
  std::unique_ptr<Layout> layout; // the members below refer to it
  bool hasConstants = false;

  std::mutex specialising; // held while a specialisation is made; locked before `mutex`; guards `specialised`
  SpecialisedKernels specialised;

  mutable std::mutex mutex; // guards the members below
  std::condition_variable idle;
  std::unique_ptr<Binding> current;
  std::vector<std::unique_ptr<Context>> free;
  size_t contexts = 0;
  uint64_t readies = 0, uses = 0, dropped = 0, compiled = 0;
  uint64_t largestArena = 0;
  std::vector<uint32_t> compiledByRegion;
  struct Clocks { // per region: step times of profiled runs of the kernel that ran last
    KernelPtr kernel;
    std::vector<StepInfo> steps;
    std::vector<uint64_t> ns;
  };
  std::vector<Clocks> clocks;

  // One call in flight: a leased context, and the binding of constants that was current when the call began.
  struct Lease {
    Impl &impl;
    Binding *binding;
    std::shared_ptr<Specialisation> specialisation;
    std::unique_ptr<Context> context;
    ~Lease() {
      specialisation.reset(); // instances are destroyed before the constants that they refer to
      impl.release(binding, std::move(context));
    }
  };
  // `tensors` may be empty; otherwise they are checked before a specialisation is made for new values.
  Result<void> lease(std::optional<Lease> &place, std::span<const int64_t> values,
                     const std::span<const Tensor> *tensors);
  void release(Binding *binding, std::unique_ptr<Context> context);
  Result<void> bind(std::unique_ptr<Binding> fresh);
  std::shared_ptr<Specialisation> find(Binding &binding, std::span<const int64_t> values);
  std::unique_ptr<Context> freeContext(uint64_t specialisation);
  Result<std::shared_ptr<Specialisation>> specialiseFor(Binding &binding, std::span<const int64_t> values);
  void limitValues(Binding &binding, std::vector<std::shared_ptr<Specialisation>> &gone);
  void limitKernels();

  Result<void> readValues(std::span<const Tensor> tensors, std::span<int64_t> values) const;
  Result<void> checkNewValues(std::span<const Tensor> tensors, std::span<const int64_t> values) const;
  Result<void> checkInputs(std::span<const Tensor> tensors, const Shape &shape, Context &context) const;
  Result<void> checkDonated(const Shape &shape, const Context &context) const;
  Result<void> checkOutputs(std::span<const Tensor> tensors, std::span<const Tensor> inputs, const Shape &shape,
                            Context &context) const;
  Result<void> runChecked(std::span<const Tensor> inputs, std::span<const Tensor> outputs, bool profile);
  void addClocks(const Specialisation &specialisation, const Context &context);
};

// `mutex` is held.
std::shared_ptr<Specialisation> Program::Impl::find(Binding &binding, std::span<const int64_t> values) {
  for (const auto &specialisation : binding.specialisations)
    if (std::ranges::equal(specialisation->shape.values, values)) {
      specialisation->lastUse = ++uses;
      return specialisation;
    }
  return nullptr;
}

// `mutex` is held. Prefers a context whose last run was of this specialisation.
std::unique_ptr<Context> Program::Impl::freeContext(uint64_t specialisation) {
  if (free.empty()) {
    free.reserve(++contexts); // so that returning a context to the list does not allocate
    return nullptr;
  }
  auto best =
      std::ranges::find_if(free, [&](const auto &context) { return context->lastSpecialisation() == specialisation; });
  if (best == free.end())
    --best;
  std::swap(*best, free.back());
  std::unique_ptr<Context> context = std::move(free.back());
  free.pop_back();
  return context;
}

Result<void> Program::Impl::lease(std::optional<Lease> &place, std::span<const int64_t> values,
                                  const std::span<const Tensor> *tensors) {
  if (isForkedChild())
    return forkedChildError();
  Binding *binding;
  std::shared_ptr<Specialisation> specialisation;
  std::unique_ptr<Context> context;
  {
    const std::lock_guard lock(mutex);
    binding = current.get();
    if (binding == nullptr)
      return Error{MORTISE_INVALID_ARGUMENT,
                   "the program has constant inputs, and none are bound; bind them before the first run"};
    ++binding->users;
    specialisation = find(*binding, values);
    if (specialisation)
      context = freeContext(specialisation->number);
  }
  if (!specialisation) {
    auto checked = tensors ? checkNewValues(*tensors, values) : checkValues(*layout->plan, values);
    auto made = checked ? specialiseFor(*binding, values) : Result<std::shared_ptr<Specialisation>>(checked.error());
    const std::lock_guard lock(mutex);
    if (!made) {
      if (--binding->users == 0 && binding != current.get())
        idle.notify_all();
      return made.error();
    }
    specialisation = std::move(*made);
    context = freeContext(specialisation->number);
  }
  if (!context) {
    auto made = Context::create(*layout);
    if (!made) {
      specialisation.reset();
      release(binding, nullptr);
      return made.error();
    }
    context = std::move(*made);
  }
  place.emplace(*this, binding, std::move(specialisation), std::move(context));
  return {};
}

void Program::Impl::release(Binding *binding, std::unique_ptr<Context> context) {
  const std::lock_guard lock(mutex);
  if (context)
    free.push_back(std::move(context));
  else
    --contexts;
  if (--binding->users == 0 && binding != current.get())
    idle.notify_all();
}

// Serialised, so that threads that meet the same new values at once make one specialisation.
Result<std::shared_ptr<Specialisation>> Program::Impl::specialiseFor(Binding &binding,
                                                                     std::span<const int64_t> values) {
  std::vector<std::shared_ptr<Specialisation>>
      gone; // destroyed after the locks are released, because destruction calls plugins
  const std::lock_guard one(specialising);
  {
    const std::lock_guard lock(mutex);
    if (auto found = find(binding, values))
      return found;
  }
  auto made = makeSpecialisation(*layout, binding, values, specialised);
  std::unique_lock lock(mutex);
  compiled = specialised.compiled;
  compiledByRegion = specialised.compiledByRegion;
  compiledByRegion.resize(layout->regions.size());
  if (!made) {
    lock.unlock();
    limitKernels(); // also counts the kernels of values that then failed
    return made;
  }
  (*made)->number = ++readies;
  (*made)->lastUse = ++uses;
  uint64_t bytes = 0;
  for (uint64_t space : (*made)->spaceBytes)
    bytes += space;
  largestArena = std::max(largestArena, bytes);
  binding.specialisations.push_back(*made);
  limitValues(binding, gone);
  return made;
}

// `specialising` and `mutex` are held.
void Program::Impl::limitValues(Binding &binding, std::vector<std::shared_ptr<Specialisation>> &gone) {
  const auto oldest = [](const auto &a, const auto &b) { return a->lastUse < b->lastUse; };
  while (binding.specialisations.size() > options.specializeLimit) {
    const auto last = std::ranges::min_element(binding.specialisations, oldest);
    if (dropped++ == 0)
      logMessage(MORTISE_WARNING, "program '" + layout->plan->name + "' met more than " +
                                      std::to_string(options.specializeLimit) +
                                      " sets of symbol values; the least recently used goes each time; raise "
                                      "specialize_limit if they come back");
    specialised.forget((*last)->shape.values);
    gone.push_back(std::move(*last));
    binding.specialisations.erase(last);
  }
  limitKernels();
}

// Drops kernels that no specialisation uses: those of earlier bindings, and of values that failed. `specialising` is
// held.
void Program::Impl::limitKernels() {
  while (specialised.setCount() > options.specializeLimit)
    specialised.forget(Values(specialised.oldest()));
}

// Returns when no call uses the previous binding any more, so the caller may then free the memory of its constants.
Result<void> Program::Impl::bind(std::unique_ptr<Binding> fresh) {
  fresh->regions = &layout->regions;
  if (auto packed = packAll(*layout->plan, layout->literalData, *fresh); !packed)
    return packed;
  if (layout->plan->symbols.empty())
    if (auto made = specialiseFor(*fresh, {}); !made)
      return made.error();
  std::unique_lock lock(mutex);
  std::swap(current, fresh);
  if (fresh)
    idle.wait(lock, [&] { return fresh->users == 0; });
  lock.unlock();
  return {};
}

// Reads the symbols' values from the inputs' extents, without checking the values.
Result<void> Program::Impl::readValues(std::span<const Tensor> tensors, std::span<int64_t> values) const {
  const auto &specs = layout->inputs;
  if (tensors.size() != specs.size())
    return Error{MORTISE_INVALID_ARGUMENT, "expected " + std::to_string(specs.size()) + " inputs, found " +
                                               std::to_string(tensors.size()) + "; pass one per input of the plan"};
  for (size_t i = 0; i < values.size(); ++i) {
    const plan::SymbolT &symbol = *layout->plan->symbols[i];
    const Tensor &tensor = tensors[symbol.input];
    if (auto checked = checkTensor(tensor, specs[symbol.input]); !checked)
      return checked;
    values[i] = tensor.dims[symbol.dimension];
  }
  return {};
}

// Checks ranges, divisors and guards before memory or kernels are made for the values.
Result<void> Program::Impl::checkNewValues(std::span<const Tensor> tensors, std::span<const int64_t> values) const {
  if (auto checked = checkValues(*layout->plan, values); !checked)
    return checked;
  auto specs = inputSpecs(*layout, values);
  if (!specs)
    return specs.error();
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!layout->plan->inputs[i]->constant)
      if (auto checked = checkTensor(tensors[i], (*specs)[i]); !checked)
        return checked;
  return {};
}

Result<void> Program::Impl::checkInputs(std::span<const Tensor> tensors, const Shape &shape, Context &context) const {
  for (size_t i = 0; i < shape.inputs.size(); ++i) {
    if (layout->plan->inputs[i]->constant)
      continue;
    const TensorSpec &spec = shape.inputs[i];
    if (auto checked = checkTensor(tensors[i], spec); !checked)
      return checked;
    if (auto checked = checkData(tensors[i], spec); !checked)
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
    if (context.staging[i].data() == nullptr || context.staging[i].size() < spec.bytes) {
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

// A donated input's memory may hold anything after the call, so no other input may overlap it.
Result<void> Program::Impl::checkDonated(const Shape &shape, const Context &context) const {
  const auto &inputs = layout->plan->inputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    for (size_t j = 0; inputs[i]->donated && j < inputs.size(); ++j)
      if (i != j && !inputs[j]->constant &&
          overlaps(context.inputPointers[i], shape.inputs[i].bytes, context.inputPointers[j], shape.inputs[j].bytes))
        return Error{MORTISE_INVALID_ARGUMENT,
                     shape.inputs[i].role +
                         ": expected memory of its own, because it is donated, found it to overlap " +
                         shape.inputs[j].role + "; pass a copy"};
  return {};
}

Result<void> Program::Impl::checkOutputs(std::span<const Tensor> tensors, std::span<const Tensor> inputs,
                                         const Shape &shape, Context &context) const {
  const auto &specs = shape.outputs;
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
    if (auto checked = checkData(tensor, spec); !checked)
      return checked;
    if (!isDense(tensor, spec))
      return wrong(
          spec,
          "expected dense memory aligned to its elements, found strides or an odd address; pass a contiguous tensor");
    for (size_t j = 0; j < inputs.size(); ++j)
      if (!layout->plan->inputs[j]->constant &&
          overlaps(tensor.data, spec.bytes, context.inputPointers[j], shape.inputs[j].bytes))
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
  thread_local Values values;
  values.resize(layout->plan->symbols.size());
  if (auto read = readValues(inputs, values); !read)
    return read;
  std::optional<Lease> place;
  if (auto leased = lease(place, values, &inputs); !leased)
    return leased;
  Context &context = *place->context;
  const Specialisation &specialisation = *place->specialisation;
  if (auto checked = checkInputs(inputs, specialisation.shape, context); !checked)
    return checked;
  if (auto checked = checkDonated(specialisation.shape, context); !checked)
    return checked;
  if (auto checked = checkOutputs(outputs, inputs, specialisation.shape, context); !checked)
    return checked;
  auto done = context.execute(*place->binding, specialisation, context.inputPointers.data(),
                              context.outputPointers.data(), profile);
  if (done && profile)
    addClocks(specialisation, context);
  return done;
}

void Program::Impl::addClocks(const Specialisation &specialisation, const Context &context) {
  const std::lock_guard lock(mutex);
  for (size_t i = 0; i < clocks.size(); ++i) {
    Clocks &sums = clocks[i];
    if (sums.kernel != specialisation.kernels[i]) {
      sums.kernel = specialisation.kernels[i];
      sums.ns.assign(std::max<size_t>(specialisation.steps(i).size(), 1), 0);
    }
    sums.steps = specialisation.steps(i);
    for (size_t j = 0; j < sums.ns.size(); ++j)
      sums.ns[j] += context.clocks()[specialisation.clocks[i] + j];
  }
}

namespace {

// The fast path of a plan without symbols.
Result<uint64_t> fixedArenaBytes(const Layout &layout) {
  std::vector<uint64_t> workspaces(layout.spaces.size());
  for (const CompiledRegion &region : layout.regions)
    if (region.kernel) {
      auto bytes = workspaceOf(*region.kernel, {});
      if (!bytes)
        return bytes.error();
      uint64_t &most = workspaces[layout.spaceOf(*region.device)];
      most = std::max(most, *bytes);
    }
  uint64_t sum = 0;
  for (size_t i = 0; i < layout.spaces.size(); ++i) {
    const uint64_t alignment = layout.spaces[i].alignment;
    sum += (layout.plan->spaces[i]->bytes + alignment - 1) / alignment * alignment + workspaces[i];
  }
  return sum;
}

} // namespace

Result<std::shared_ptr<Program>> Program::load(std::shared_ptr<const plan::PlanT> plan,
                                               std::shared_ptr<Registry> registry, const LoadOptions &options) {
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
  impl->options = options;
  impl->options.specializeLimit = std::max<size_t>(options.specializeLimit, 1);
  impl->clocks.resize(impl->layout->regions.size());
  impl->compiledByRegion.resize(impl->layout->regions.size());
  for (const auto &input : impl->layout->plan->inputs)
    impl->hasConstants |= input->constant;
  if (impl->layout->plan->symbols.empty()) { // with symbols, the memory depends on the values of each call
    auto bytes = fixedArenaBytes(*impl->layout);
    if (!bytes)
      return bytes.error();
    impl->largestArena = *bytes;
  }
  if (!impl->hasConstants) {
    auto empty = std::make_unique<Binding>();
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
  auto fresh = std::make_unique<Binding>();
  fresh->data.resize(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    if (!impl->layout->plan->inputs[i]->constant)
      continue;
    if (auto checked = checkTensor(tensors[i], specs[i]); !checked)
      return checked;
    if (auto checked = checkData(tensors[i], specs[i]); !checked)
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

Result<void> Program::runPointers(const void *const *inputs, void *const *outputs, std::span<const int64_t> values) {
  std::optional<Impl::Lease> place;
  if (auto leased = impl->lease(place, values, nullptr); !leased)
    return leased;
  return place->context->execute(*place->binding, *place->specialisation, inputs, outputs, false);
}

Result<void> Program::symbolValues(std::span<const Tensor> inputs, std::span<int64_t> values) const {
  if (values.size() != impl->layout->plan->symbols.size())
    return Error{MORTISE_INVALID_ARGUMENT, "expected room for the values of " +
                                               std::to_string(impl->layout->plan->symbols.size()) + " symbols, found " +
                                               std::to_string(values.size())};
  if (auto read = impl->readValues(inputs, values); !read)
    return read;
  {
    const std::lock_guard lock(impl->mutex);
    // The reference is released under the lock, while the list still owns the specialisation.
    if (const std::shared_ptr<Specialisation> known = impl->current ? impl->find(*impl->current, values) : nullptr) {
      for (size_t i = 0; i < inputs.size(); ++i)
        if (!impl->layout->plan->inputs[i]->constant)
          if (auto checked = checkTensor(inputs[i], known->shape.inputs[i]); !checked)
            return checked;
      return {};
    }
  }
  return impl->checkNewValues(inputs, values);
}

Result<std::vector<int64_t>> Program::outputShape(size_t output, std::span<const int64_t> values) const {
  const plan::PlanT &plan = *impl->layout->plan;
  if (output >= plan.outputs.size())
    return Error{MORTISE_INVALID_ARGUMENT, "expected one of " + std::to_string(plan.outputs.size()) +
                                               " outputs, found number " + std::to_string(output)};
  if (values.size() != plan.symbols.size())
    return Error{MORTISE_INVALID_ARGUMENT, "expected values of " + std::to_string(plan.symbols.size()) +
                                               " symbols, found " + std::to_string(values.size())};
  return extentsOf(*plan.outputs[output]->type, values);
}

const plan::PlanT &Program::plan() const { return *impl->layout->plan; }

uint64_t Program::arenaBytes() const {
  const std::lock_guard lock(impl->mutex);
  return impl->largestArena;
}

uint64_t Program::packedBytes() const {
  const std::lock_guard lock(impl->mutex);
  if (!impl->current)
    return 0;
  uint64_t bytes = impl->current->packedBytes;
  for (const auto &specialisation : impl->current->specialisations)
    bytes += specialisation->packedBytes;
  return bytes;
}

ValuesReport Program::valuesReport() const {
  const std::lock_guard lock(impl->mutex);
  ValuesReport report{.limit = impl->options.specializeLimit,
                      .met = impl->readies,
                      .dropped = impl->dropped,
                      .specialised = impl->compiled};
  if (impl->current)
    for (const auto &specialisation : impl->current->specialisations) {
      ++report.ready;
      for (const MortiseInstance *instance : specialisation->instances)
        report.instances += instance != nullptr;
    }
  return report;
}

std::vector<RegionReport> Program::report() const {
  const Layout &layout = *impl->layout;
  const std::lock_guard lock(impl->mutex);
  const Specialisation *latest = nullptr;
  if (impl->current)
    for (const auto &specialisation : impl->current->specialisations)
      if (!latest || latest->lastUse < specialisation->lastUse)
        latest = specialisation.get();
  std::vector<RegionReport> reports;
  for (size_t i = 0; i < layout.regions.size(); ++i) {
    const plan::RegionT &region = *layout.plan->regions[i];
    RegionReport &report = reports.emplace_back(
        RegionReport{region.device, region.plugin, region.lowering, region.nodes, region.cost_ns, {}, {}, 0});
    if (region.specialise)
      report.specialised = region.specialise_reason.empty() ? "needs static" : region.specialise_reason;
    report.kernels = region.specialise ? impl->compiledByRegion[i] : layout.regions[i].first == i;
    const Impl::Clocks &clocks = impl->clocks[i];
    const std::vector<StepInfo> *steps = clocks.kernel              ? &clocks.steps
                                         : latest                   ? &latest->steps(i)
                                         : layout.regions[i].kernel ? &layout.regions[i].kernel->steps
                                                                    : nullptr;
    if (steps)
      for (const StepInfo &step : *steps)
        report.steps.push_back({step.name, step.lowering, 0, step.bytes, step.flops});
    if (report.steps.empty())
      report.steps.push_back({region.lowering, region.lowering});
    for (size_t j = 0; j < clocks.ns.size() && j < report.steps.size(); ++j)
      report.steps[j].ns = clocks.ns[j];
  }
  return reports;
}

Program::Program(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Program::~Program() = default;

} // namespace mortise::runtime
