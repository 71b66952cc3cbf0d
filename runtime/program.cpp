// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/runtime/program.hpp>

#include "call_check.hpp"
#include "host.hpp"
#include "plan_check.hpp"

#include <algorithm>
#include <condition_variable>
#include <numeric>
#include <optional>

namespace mortise::runtime {

struct Program::Impl {
  std::shared_ptr<const Registry> registry;
  size_t specializeLimit = 0;
  std::unique_ptr<Layout> layout; // the members below refer to it
  bool hasConstants = false;

  std::mutex specialising; // held while a specialisation is made; locked before `mutex`; guards `specialised`
  SpecialisedKernels specialised;

  mutable std::mutex mutex; // guards the members below
  std::condition_variable idle;
  std::unique_ptr<Binding> current;
  std::vector<std::unique_ptr<Context>> free;
  struct Flight { // a call on a caller's stream that has returned; it still uses its binding
    Binding *binding;
    std::shared_ptr<Specialisation> specialisation;
    std::unique_ptr<Context> context;
  };
  std::vector<Flight> flights;
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
      if (context->isInFlight())
        impl.fly({binding, std::move(specialisation), std::move(context)});
      else
        impl.release(binding, std::move(specialisation), std::move(context));
    }
  };
  // `tensors` may be empty; otherwise they are checked before a specialisation is made for new values.
  // `callers`: empty for a call that waits for its work.
  Result<void> lease(std::optional<Lease> &place, std::span<const int64_t> values,
                     const std::span<const Tensor> *tensors, std::span<const CallersStream> callers);
  const Specialisation::Queued &schedulesOn(std::span<const CallersStream> callers, Specialisation &specialisation);
  void release(Binding *binding, std::shared_ptr<Specialisation> specialisation, std::unique_ptr<Context> context);
  void letGo(const Specialisation *specialisation);
  void fly(Flight flight);
  void land();
  void finish(Flight flight);
  std::unique_ptr<Context> contextFor(Binding &binding, const Specialisation &specialisation,
                                      std::span<const CallersStream> callers);
  Result<void> bind(std::unique_ptr<Binding> fresh);
  std::shared_ptr<Specialisation> find(Binding &binding, std::span<const int64_t> values);
  std::unique_ptr<Context> freeContext(uint64_t specialisation);
  Result<std::shared_ptr<Specialisation>> specialiseFor(Binding &binding, std::span<const int64_t> values);
  void limitValues(Binding &binding, std::vector<std::shared_ptr<Specialisation>> &gone);
  void limitKernels();

  Result<void> runChecked(std::span<const Tensor> inputs, std::span<const Tensor> outputs, bool profile,
                          std::span<const CallerStream> callers = {});
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
    free.reserve(++contexts); // so that returning a context to a list does not allocate
    flights.reserve(contexts);
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
                                  const std::span<const Tensor> *tensors, std::span<const CallersStream> callers) {
  if (isForkedChild())
    return forkedChildError();
  if (!layout->timelines.empty())
    land();
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
      context = contextFor(*binding, *specialisation, callers);
  }
  if (!specialisation) {
    auto checked = tensors ? checkNewValues(*layout, *tensors, values) : checkValues(*layout->plan, values);
    auto made = checked ? specialiseFor(*binding, values) : Result<std::shared_ptr<Specialisation>>(checked.error());
    const std::lock_guard lock(mutex);
    if (!made) {
      if (--binding->users == 0 && binding != current.get())
        idle.notify_all();
      return made.error();
    }
    specialisation = std::move(*made);
    context = contextFor(*binding, *specialisation, callers);
  }
  if (!context) {
    auto made = Context::create(*layout);
    if (!made) {
      release(binding, std::move(specialisation), nullptr);
      return made.error();
    }
    context = std::move(*made);
  }
  place.emplace(*this, binding, std::move(specialisation), std::move(context));
  return {};
}

const Specialisation::Queued &Program::Impl::schedulesOn(std::span<const CallersStream> callers,
                                                         Specialisation &specialisation) {
  {
    const std::lock_guard lock(mutex);
    if (const auto *found = specialisation.queuedOn(callers))
      return *found;
  }
  auto made = std::make_unique<Specialisation::Queued>(schedulesOnStreams(*layout, specialisation, callers));
  const std::lock_guard lock(mutex);
  if (const auto *found = specialisation.queuedOn(callers)) // another thread was faster
    return *found;
  return *specialisation.queued.emplace_back(std::move(made));
}

// `mutex` is held. A context in flight on the same streams comes behind itself there, unless it has frames.
std::unique_ptr<Context> Program::Impl::contextFor(Binding &binding, const Specialisation &specialisation,
                                                   std::span<const CallersStream> callers) {
  for (Flight &flight : flights)
    if (!callers.empty() && flight.binding == &binding && flight.context->isInFlightOn(callers, specialisation) &&
        !flight.context->hasFrames()) {
      std::unique_ptr<Context> context = std::move(flight.context);
      std::swap(flight, flights.back());
      flights.pop_back();
      --binding.users; // the new call counts instead
      return context;
    }
  return freeContext(specialisation.number);
}

// A call of an earlier binding is waited for at once: bind() waits for its end, and no later call would see to it.
void Program::Impl::fly(Flight flight) {
  {
    const std::lock_guard lock(mutex);
    if (flight.binding == current.get())
      return flights.push_back(std::move(flight)); // within what freeContext has reserved
  }
  finish(std::move(flight));
}

// Takes back the contexts of calls that have happened, and of all calls of earlier bindings, for which it waits.
void Program::Impl::land() {
  constexpr size_t most = 16; // in flight at once; more would grow the memory without end
  std::vector<Flight> taken;
  {
    const std::lock_guard lock(mutex);
    if (flights.empty() || (flights.size() == 1 && flights[0].binding == current.get() &&
                            !flights[0].context->hasFrames() && layout->timelines.size() == 1))
      return; // its own stream's next call, most likely, and no other stream may have failed
    taken.swap(flights);
  }
  for (size_t i = 0; i < taken.size(); ++i) {
    const auto happened = taken.size() - i > most ? Result<bool>(true) : taken[i].context->hasHappened();
    if (!happened || *happened)
      finish(std::move(taken[i]));
    else
      fly(std::move(taken[i]));
  }
}

void Program::Impl::finish(Flight flight) {
  if (auto finished = flight.context->finish(); !finished)
    logMessage(MORTISE_ERROR,
               "program '" + layout->plan->name + "': a queued call failed: " + finished.error().message);
  release(flight.binding, std::move(flight.specialisation), std::move(flight.context));
}

// A context holds on to its last specialisation, and a specialisation to its binding: idle contexts let go of what no
// call will meet again. `specialisation`: of this one only; NULL: of all. `mutex` is not held, because plugins are
// called.
void Program::Impl::letGo(const Specialisation *specialisation) {
  std::vector<std::unique_ptr<Context>> idle;
  {
    const std::lock_guard lock(mutex);
    const auto kept = std::partition(free.begin(), free.end(), [&](const auto &context) {
      return specialisation && context->lastSpecialisation() != specialisation->number;
    });
    idle.assign(std::make_move_iterator(kept), std::make_move_iterator(free.end()));
    free.erase(kept, free.end());
  }
  for (const auto &context : idle)
    context->forget();
  const std::lock_guard lock(mutex);
  std::ranges::move(idle, std::back_inserter(free)); // within what freeContext has reserved
}

// `context` is NULL when none could be made.
void Program::Impl::release(Binding *binding, std::shared_ptr<Specialisation> specialisation,
                            std::unique_ptr<Context> context) {
  std::unique_lock lock(mutex);
  if (specialisation->dropped || (context && !context->isUsable())) {
    lock.unlock(); // plugins are called
    if (context && context->isUsable())
      context->forget();
    else
      context.reset();
    specialisation.reset();
    lock.lock();
  }
  specialisation.reset(); // before the last user of the binding has gone, to whose constants instances refer
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
  lock.unlock();
  for (const auto &specialisation : gone)
    letGo(specialisation.get());
  return made;
}

// `specialising` and `mutex` are held.
void Program::Impl::limitValues(Binding &binding, std::vector<std::shared_ptr<Specialisation>> &gone) {
  const auto oldest = [](const auto &a, const auto &b) { return a->lastUse < b->lastUse; };
  while (binding.specialisations.size() > specializeLimit) {
    const auto last = std::ranges::min_element(binding.specialisations, oldest);
    if (dropped++ == 0)
      logMessage(MORTISE_WARNING, "program '" + layout->plan->name + "' met more than " +
                                      std::to_string(specializeLimit) +
                                      " sets of symbol values; the least recently used goes each time; raise "
                                      "specialize_limit if they come back");
    specialised.forget((*last)->shape.values);
    (*last)->dropped = true;
    gone.push_back(std::move(*last));
    binding.specialisations.erase(last);
  }
  limitKernels();
}

// Drops kernels that no specialisation uses: those of earlier bindings, and of values that failed. `specialising` is
// held.
void Program::Impl::limitKernels() {
  while (specialised.setCount() > specializeLimit)
    specialised.forget(Values(specialised.oldest()));
}

// Returns when no call uses the previous binding any more, so the caller may then free the memory of its constants.
Result<void> Program::Impl::bind(std::unique_ptr<Binding> fresh) {
  fresh->regions = &layout->regions;
  if (auto packed = packAll(*layout->plan, layout->literalData, *fresh); !packed)
    return packed;
  if (auto brought = layout->bringCopiedConstants(*fresh); !brought)
    return brought;
  if (layout->plan->symbols.empty())
    if (auto made = specialiseFor(*fresh, {}); !made)
      return made.error();
  {
    const std::lock_guard lock(mutex);
    std::swap(current, fresh);
  }
  land();
  std::unique_lock lock(mutex);
  if (fresh)
    idle.wait(lock, [&] { return fresh->users == 0; });
  lock.unlock();
  letGo(nullptr);
  return {};
}

Result<void> Program::Impl::runChecked(std::span<const Tensor> inputs, std::span<const Tensor> outputs, bool profile,
                                       std::span<const CallerStream> callers) {
  thread_local Values values;
  values.resize(layout->plan->symbols.size());
  if (auto read = readValues(*layout, inputs, values); !read)
    return read;
  thread_local std::vector<CallersStream> streams;
  if (auto found = findTimelines(*layout, callers, streams); !found)
    return found;
  std::optional<Lease> place;
  if (auto leased = lease(place, values, &inputs, streams); !leased)
    return leased;
  Context &context = *place->context;
  const Specialisation &specialisation = *place->specialisation;
  if (auto taken = takeTensors(*layout, specialisation.shape, inputs, outputs, context); !taken)
    return taken;
  if (!streams.empty())
    return context.enqueueOn(streams, schedulesOn(streams, *place->specialisation), *place->binding,
                             place->specialisation, context.inputPointers.data(), context.outputPointers.data());
  auto done = context.execute(*place->binding, place->specialisation, context.inputPointers.data(),
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

Result<std::shared_ptr<Program>> Program::load(std::shared_ptr<const plan::PlanT> plan,
                                               std::shared_ptr<const Registry> registry, const LoadOptions &options) {
  if (isForkedChild())
    return forkedChildError();
  if (registry == nullptr)
    return Error{MORTISE_INVALID_ARGUMENT, "expected a registry, found NULL"};
  auto layout = Layout::make(std::move(plan), *registry, options);
  if (!layout)
    return layout.error();
  auto impl = std::make_unique<Impl>();
  impl->registry = std::move(registry);
  impl->layout = std::move(*layout);
  impl->specializeLimit = std::max<size_t>(options.specializeLimit, 1);
  impl->clocks.resize(impl->layout->regions.size());
  impl->compiledByRegion.resize(impl->layout->regions.size());
  for (const auto &input : impl->layout->plan->inputs)
    impl->hasConstants |= input->constant;
  if (impl->layout->plan->symbols.empty()) { // with symbols, the memory depends on the values of each call
    auto bytes = fixedSpaceBytes(*impl->layout);
    if (!bytes)
      return bytes.error();
    impl->largestArena = std::accumulate(bytes->begin(), bytes->end(), uint64_t{0});
  }
  if (!impl->hasConstants) {
    auto empty = std::make_unique<Binding>();
    empty->data.resize(impl->layout->inputs.size());
    if (auto bound = impl->bind(std::move(empty)); !bound)
      return bound.error();
  }
  return std::shared_ptr<Program>(new Program(std::move(impl)));
}

std::vector<SavedKernel> Program::saveKernels() const {
  return runtime::saveKernels(*impl->layout->plan, impl->layout->regions);
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
    const Device *device = tensors[i].device && !tensors[i].device->inHostMemory() ? tensors[i].device : nullptr;
    fresh->data[i] = {device, addressOf(tensors[i].data)};
    const bool dense = isDense(tensors[i], specs[i]);
    if (device && !dense)
      return Error{MORTISE_INVALID_ARGUMENT, specs[i].role + ": expected dense memory, because it lies on device '" +
                                                 device->name() + "', found strides; make it contiguous"};
    if (dense && !(device && impl->layout->needsOnHost(i)))
      continue;
    auto block = Block::allocate(specs[i].bytes, 64);
    if (!block)
      return block.error();
    const Place host{nullptr, addressOf(block->data())};
    if (!device)
      copyDense(tensors[i], specs[i], block->data());
    else if (auto copied = copyNow(host, fresh->data[i], specs[i].bytes); !copied)
      return copied;
    fresh->data[i] = host;
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

Result<void> Program::enqueue(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                              std::span<const CallerStream> callers) {
  if (callers.empty())
    return Error{MORTISE_INVALID_ARGUMENT, "expected a stream to queue the call on, found none"};
  for (const CallerStream &caller : callers)
    if (caller.device == nullptr || caller.stream == nullptr || !caller.device->plugin->hasStreams())
      return Error{MORTISE_INVALID_ARGUMENT,
                   "expected a stream and its device, which has streams, found " +
                       std::string(caller.device ? caller.stream ? "a device without" : "no stream" : "no device")};
  return impl->runChecked(inputs, outputs, false, callers);
}

Result<void> Program::runPointers(const void *const *inputs, void *const *outputs, std::span<const int64_t> values) {
  std::optional<Impl::Lease> place;
  if (auto leased = impl->lease(place, values, nullptr, {}); !leased)
    return leased;
  return place->context->execute(*place->binding, place->specialisation, inputs, outputs, false);
}

Result<void> Program::symbolValues(std::span<const Tensor> inputs, std::span<int64_t> values) const {
  if (values.size() != impl->layout->plan->symbols.size())
    return Error{MORTISE_INVALID_ARGUMENT, "expected room for the values of " +
                                               std::to_string(impl->layout->plan->symbols.size()) + " symbols, found " +
                                               std::to_string(values.size())};
  if (auto read = readValues(*impl->layout, inputs, values); !read)
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
  return checkNewValues(*impl->layout, inputs, values);
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

std::vector<uint64_t> Program::spaceBytes() const {
  std::vector<uint64_t> bytes(impl->layout->spaces.size());
  if (impl->layout->plan->symbols.empty())
    bytes = *fixedSpaceBytes(*impl->layout); // load() has checked it
  return bytes;
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
  ValuesReport report{
      .limit = impl->specializeLimit, .met = impl->readies, .dropped = impl->dropped, .specialised = impl->compiled};
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
    if (!region.specialise)
      report.cached = layout.regions[i].kernel->cached;
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
