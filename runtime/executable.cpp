// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "executable.hpp"

#include "call_check.hpp"
#include "host.hpp"
#include "plan_check.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

namespace mortise::runtime {

Result<std::unique_ptr<Executable>> Executable::load(std::shared_ptr<const plan::PlanT> plan,
                                                     std::shared_ptr<const Registry> registry,
                                                     const LoadOptions &options) {
  if (isForkedChild())
    return forkedChildError();
  if (registry == nullptr)
    return Error{MORTISE_INVALID_ARGUMENT, "expected a registry, found NULL"};
  auto layout = Layout::make(std::move(plan), *registry, options);
  if (!layout)
    return layout.error();
  auto made = std::make_unique<Executable>();
  made->registry = std::move(registry);
  made->layout = std::move(*layout);
  made->specializeLimit = std::max<size_t>(options.specializeLimit, 1);
  made->clocks.resize(made->layout->regions.size());
  made->compiledByRegion.resize(made->layout->regions.size());
  for (const auto &input : made->layout->plan->inputs)
    made->hasConstants |= input->constant;
  if (made->layout->plan->symbols.empty()) { // with symbols, the memory depends on the values of each call
    auto bytes = fixedSpaceBytes(*made->layout);
    if (!bytes)
      return bytes.error();
    made->largestArena = std::accumulate(bytes->begin(), bytes->end(), uint64_t{0});
  }
  if (!made->hasConstants) {
    auto empty = std::make_unique<Binding>();
    empty->data.resize(made->layout->inputs.size());
    if (auto bound = made->bind(std::move(empty), options.refused); !bound)
      return bound.error();
  }
  return made;
}

// `mutex` is held.
std::shared_ptr<Specialisation> Executable::find(Binding &binding, std::span<const int64_t> values) const {
  for (const auto &specialisation : binding.specialisations)
    if (std::ranges::equal(specialisation->shape.values, values)) {
      specialisation->lastUse = ++uses;
      return specialisation;
    }
  return nullptr;
}

// `mutex` is held. Prefers a context whose last run was of this specialisation.
std::unique_ptr<Context> Executable::freeContext(uint64_t specialisation) {
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

// `mutex` is held.
Error Executable::cannotLease(Ending &ending) const {
  if (isRetired) {
    ending.isRetired = true;
    return {MORTISE_INTERNAL, "the program was placed again"};
  }
  if (!lostRegion)
    return {MORTISE_INVALID_ARGUMENT,
            "the program has constant inputs, and none are bound; bind them before the first run"};
  ending.refused = lostRegion;
  return inRegion(*layout->plan, lostRegion->region, {MORTISE_UNSUPPORTED, lostRegion->reason});
}

Result<void> Executable::lease(std::optional<Lease> &place, std::span<const int64_t> values,
                               const std::span<const Tensor> *tensors, std::span<const CallersStream> callers,
                               Ending &ending) {
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
    if (binding == nullptr || lostRegion) [[unlikely]]
      return cannotLease(ending);
    ++binding->users;
    specialisation = find(*binding, values);
    if (specialisation)
      context = contextFor(*binding, *specialisation, callers);
  }
  if (!specialisation) {
    auto checked = tensors ? checkNewValues(*layout, *tensors, values) : checkValues(*layout->plan, values);
    auto made = checked ? specialiseFor(*binding, values, &ending.refused)
                        : Result<std::shared_ptr<Specialisation>>(checked.error());
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

const Specialisation::Queued &Executable::schedulesOn(std::span<const CallersStream> callers,
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
std::unique_ptr<Context> Executable::contextFor(Binding &binding, const Specialisation &specialisation,
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
void Executable::fly(Flight flight) {
  {
    const std::lock_guard lock(mutex);
    if (flight.binding == current.get())
      return flights.push_back(std::move(flight)); // within what freeContext has reserved
  }
  finish(std::move(flight));
}

// Takes back the contexts of calls that have happened, and of all calls of earlier bindings, for which it waits.
void Executable::land() {
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

void Executable::finish(Flight flight) {
  if (auto finished = flight.context->finish(); !finished)
    logMessage(MORTISE_ERROR,
               "program '" + layout->plan->name + "': a queued call failed: " + finished.error().message);
  release(flight.binding, std::move(flight.specialisation), std::move(flight.context));
}

// A context holds on to its last specialisation, and a specialisation to its binding: idle contexts let go of what no
// call will meet again. `specialisation`: of this one only; NULL: of all. `mutex` is not held, because plugins are
// called.
void Executable::letGo(const Specialisation *specialisation) {
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
void Executable::release(Binding *binding, std::shared_ptr<Specialisation> specialisation,
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
Result<std::shared_ptr<Specialisation>> Executable::specialiseFor(Binding &binding, std::span<const int64_t> values,
                                                                  RefusedPlace refused) {
  std::vector<std::shared_ptr<Specialisation>>
      gone; // destroyed after the locks are released, because destruction calls plugins
  const std::lock_guard one(specialising);
  {
    const std::lock_guard lock(mutex);
    if (auto found = find(binding, values))
      return found;
  }
  auto made = makeSpecialisation(*layout, binding, values, specialised, refused);
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
void Executable::limitValues(Binding &binding, std::vector<std::shared_ptr<Specialisation>> &gone) {
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
void Executable::limitKernels() {
  while (specialised.setCount() > specializeLimit)
    specialised.forget(Values(specialised.oldest()));
}

Result<void> Executable::bind(std::unique_ptr<Binding> fresh, RefusedPlace refused) {
  fresh->regions = &layout->regions;
  if (auto packed = packAll(*layout->plan, layout->literalData, *fresh, refused); !packed)
    return packed;
  if (auto brought = layout->bringCopiedConstants(*fresh); !brought)
    return brought;
  if (layout->plan->symbols.empty())
    if (auto made = specialiseFor(*fresh, {}, refused); !made)
      return made.error();
  const std::unique_ptr<Binding> before = exchange(std::move(fresh));
  letGo(nullptr);
  return {};
}

// Returns when no call uses the previous binding any more, so the caller may then free the memory of its constants.
std::unique_ptr<Binding> Executable::exchange(std::unique_ptr<Binding> fresh) {
  {
    const std::lock_guard lock(mutex);
    std::swap(current, fresh);
  }
  land();
  std::unique_lock lock(mutex);
  if (fresh)
    idle.wait(lock, [&] { return fresh->users == 0; });
  return fresh;
}

void Executable::retire() {
  {
    const std::lock_guard lock(mutex);
    isRetired = true;
  }
  const std::unique_ptr<Binding> before = exchange(nullptr);
  std::vector<std::unique_ptr<Context>> contextsOfIt; // destroyed before the constants that they refer to
  {
    const std::lock_guard one(specialising);
    specialised = {};
  }
  const std::lock_guard lock(mutex);
  contextsOfIt.swap(free);
}

bool Executable::isBound() const {
  const std::lock_guard lock(mutex);
  return current != nullptr;
}

std::optional<RefusedRegion> Executable::lost() const {
  const std::lock_guard lock(mutex);
  return lostRegion;
}

Result<void> Executable::run(std::span<const Tensor> inputs, std::span<const Tensor> outputs, bool profile,
                             std::span<const CallerStream> callers, Ending &ending) {
  thread_local Values values;
  values.resize(layout->plan->symbols.size());
  if (auto read = readValues(*layout, inputs, values); !read)
    return read;
  thread_local std::vector<CallersStream> streams;
  if (auto found = findTimelines(*layout, callers, streams); !found)
    return found;
  std::optional<Lease> place;
  if (auto leased = lease(place, values, &inputs, streams, ending); !leased)
    return leased;
  Context &context = *place->context;
  const Specialisation &specialisation = *place->specialisation;
  if (auto taken = takeTensors(*layout, specialisation.shape, inputs, outputs, context); !taken)
    return taken;
  const void *const *in = context.inputPointers.data();
  void *const *out = context.outputPointers.data();
  auto done = !streams.empty() ? context.enqueueOn(streams, schedulesOn(streams, *place->specialisation),
                                                   *place->binding, place->specialisation, in, out)
                               : context.execute(*place->binding, place->specialisation, in, out, profile);
  if (!done)
    findLost(*place, done.error(), in, out, inputs, ending);
  else if (profile)
    addClocks(specialisation, context);
  return done;
}

Result<void> Executable::runPointers(const void *const *inputs, void *const *outputs, std::span<const int64_t> values,
                                     Ending &ending) {
  std::optional<Lease> place;
  if (auto leased = lease(place, values, nullptr, {}, ending); !leased)
    return leased;
  auto done = place->context->execute(*place->binding, place->specialisation, inputs, outputs, false);
  if (!done) [[unlikely]]
    findLost(*place, done.error(), inputs, outputs, {}, ending);
  return done;
}

// Whether the call ended with a kernel that never runs again, and whether it can be repeated without it. `callers`: the
// caller's tensors, if `inputs` may be copies of them.
void Executable::findLost(const Lease &lease, const Error &error, const void *const *inputs, void *const *outputs,
                          std::span<const Tensor> callers, Ending &ending) {
  const std::optional<size_t> failed = lease.context->failedOperation();
  const uint32_t region = failed ? layout->operations[*failed].region : none;
  if (region == none)
    return;
  const Kernel &kernel = *lease.specialisation->kernels[region];
  const Plugin &plugin = *kernel.device->plugin;
  if (!plugin.hasLost || !plugin.hasLost(kernel.kernel))
    return;
  const std::string prefix = regionText(*layout->plan, region) + ": ";
  ending.refused =
      RefusedRegion{region, error.message.starts_with(prefix) ? error.message.substr(prefix.size()) : error.message};
  ending.tooLate = !canRepeat(lease.specialisation->shape, *failed, inputs, outputs, callers);
  const std::lock_guard lock(mutex);
  lostRegion = ending.refused;
}

// Whether the first `operations` have written nothing that a call reads. A kernel whose process ended has written
// nothing: its outputs are copied when it has succeeded.
bool Executable::canRepeat(const Shape &shape, size_t operations, const void *const *inputs, void *const *outputs,
                           std::span<const Tensor> callers) const {
  const plan::PlanT &plan = *layout->plan;
  const auto isCopy = [&](size_t input) { return !callers.empty() && callers[input].data != inputs[input]; };
  const auto isRead = [&](const void *data, uint64_t bytes) {
    for (size_t i = 0; i < plan.inputs.size(); ++i)
      if (!plan.inputs[i]->constant && overlaps(data, bytes, inputs[i], shape.inputs[i].bytes))
        return true;
    return false;
  };
  const auto spoils = [&](uint32_t buffer) {
    const plan::BufferT &root = *plan.buffers[memoryOf(plan, buffer)];
    if (root.kind == plan::BufferKind::Input)
      return !isCopy(root.index);
    if (root.kind != plan::BufferKind::Output)
      return false;
    const int64_t alias = plan.outputs[root.index]->alias;
    return alias >= 0 ? !isCopy(static_cast<size_t>(alias))
                      : isRead(outputs[root.index], shape.outputs[root.index].bytes);
  };
  const auto spoilsAny = [&](uint32_t region) {
    const std::vector<uint32_t> &taken = plan.regions[region]->inputs;
    const MortiseGraph &graph = layout->regions[region].graph->view();
    for (size_t i = 0; i < taken.size(); ++i)
      if ((graph.inputs[i]->flags & MORTISE_VALUE_DONATED) && spoils(taken[i]))
        return true;
    return std::ranges::any_of(plan.regions[region]->outputs, spoils);
  };
  for (const Operation &operation : std::span(layout->operations).first(operations))
    if (operation.region == none ? spoils(operation.target) : spoilsAny(operation.region))
      return false;
  return true;
}

Result<void> Executable::bindConstants(std::span<const Tensor> tensors, RefusedPlace refused) {
  if (isForkedChild())
    return forkedChildError();
  const auto &specs = layout->inputs;
  if (tensors.size() != specs.size())
    return Error{MORTISE_INVALID_ARGUMENT, "expected " + std::to_string(specs.size()) +
                                               " entries, one per input and ignored where it is not "
                                               "constant, found " +
                                               std::to_string(tensors.size())};
  auto fresh = std::make_unique<Binding>();
  fresh->data.resize(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    if (!layout->plan->inputs[i]->constant)
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
    if (dense && !(device && layout->needsOnHost(i)))
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
  return bind(std::move(fresh), refused);
}

Result<void> Executable::symbolValues(std::span<const Tensor> inputs, std::span<int64_t> values) const {
  if (values.size() != layout->plan->symbols.size())
    return Error{MORTISE_INVALID_ARGUMENT, "expected room for the values of " +
                                               std::to_string(layout->plan->symbols.size()) + " symbols, found " +
                                               std::to_string(values.size())};
  if (auto read = readValues(*layout, inputs, values); !read)
    return read;
  {
    const std::lock_guard lock(mutex);
    // The reference is released under the lock, while the list still owns the specialisation.
    if (const std::shared_ptr<Specialisation> known = current ? find(*current, values) : nullptr) {
      for (size_t i = 0; i < inputs.size(); ++i)
        if (!layout->plan->inputs[i]->constant)
          if (auto checked = checkTensor(inputs[i], known->shape.inputs[i]); !checked)
            return checked;
      return {};
    }
  }
  return checkNewValues(*layout, inputs, values);
}

Result<std::vector<int64_t>> Executable::outputShape(size_t output, std::span<const int64_t> values) const {
  const plan::PlanT &plan = *layout->plan;
  if (output >= plan.outputs.size())
    return Error{MORTISE_INVALID_ARGUMENT, "expected one of " + std::to_string(plan.outputs.size()) +
                                               " outputs, found number " + std::to_string(output)};
  if (values.size() != plan.symbols.size())
    return Error{MORTISE_INVALID_ARGUMENT, "expected values of " + std::to_string(plan.symbols.size()) +
                                               " symbols, found " + std::to_string(values.size())};
  return extentsOf(*plan.outputs[output]->type, values);
}

} // namespace mortise::runtime
