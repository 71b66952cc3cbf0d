// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/runtime/program.hpp>

#include "executable.hpp"
#include "host.hpp"

#include <algorithm>
#include <atomic>

namespace mortise::runtime {
namespace {

// The caller's description of a constant. Its memory stays valid until others are bound.
struct Constant {
  explicit Constant(const Tensor &from)
      : dims(from.dims, from.dims + from.rank), strides(from.strides, from.strides + (from.strides ? from.rank : 0)),
        tensor(from) {}
  Tensor view() const {
    Tensor whole = tensor;
    whole.dims = dims.data();
    whole.strides = tensor.strides ? strides.data() : nullptr;
    return whole;
  }

private:
  std::vector<int64_t> dims, strides;
  Tensor tensor;
};

bool sameType(const plan::TensorTypeT &a, const plan::TensorTypeT &b) { return a.dtype == b.dtype && a.dims == b.dims; }

// Whether callers can pass the same tensors.
bool sameSignature(const plan::PlanT &a, const plan::PlanT &b) {
  return a.symbols.size() == b.symbols.size() &&
         std::ranges::equal(a.inputs, b.inputs,
                            [](const auto &x, const auto &y) {
                              return sameType(*x->type, *y->type) && x->constant == y->constant &&
                                     x->state == y->state && x->donated == y->donated;
                            }) &&
         std::ranges::equal(a.outputs, b.outputs, [](const auto &x, const auto &y) {
           return sameType(*x->type, *y->type) && x->alias == y->alias;
         });
}

} // namespace

struct Program::Impl {
  PlaceAgain placeAgain;

  std::mutex changing; // held while constants are bound, and while the graph is placed again; guards the next two
  // The last is in use. The others are retired, and stay because a call may still have the address of one.
  std::vector<std::unique_ptr<Executable>> executables;
  std::vector<std::optional<Constant>> constants; // as they were bound last
  std::atomic<Executable *> current;

  mutable std::mutex answering; // guards the member below
  std::vector<Uncovered> uncovered;

  Executable &executable() const { return *current.load(std::memory_order_acquire); }
  template <typename Run> Result<void> call(Run run);
  Result<void> replace(const Executable &refusing, const RefusedRegion &refused, const Error &error);
  Result<void> bind(std::span<const Tensor> tensors, std::optional<RefusedRegion> refused, Error error);
  Result<std::unique_ptr<Executable>> place(const plan::PlanT &plan, const RefusedRegion &refused, const Error &error);
};

// run(executable, ending) again on another executable while there is a reason to.
template <typename Run> Result<void> Program::Impl::call(Run run) {
  for (;;) {
    Executable &used = executable();
    Ending ending;
    auto done = run(used, ending);
    if (done) [[likely]]
      return done;
    if (ending.isRetired)
      continue;
    if (!ending.refused || done.error().code != MORTISE_UNSUPPORTED)
      return done;
    if (ending.tooLate)
      return Error{MORTISE_DEVICE_LOST, done.error().message +
                                            "; the call cannot be repeated without this kernel, because memory that it "
                                            "reads has been written; the next call does without it"};
    if (auto replaced = replace(used, *ending.refused, done.error()); !replaced)
      return replaced;
  }
}

Result<void> Program::Impl::replace(const Executable &refusing, const RefusedRegion &refused, const Error &error) {
  const std::lock_guard lock(changing);
  if (&executable() != &refusing)
    return {}; // another call was faster
  std::vector<Tensor> tensors;
  for (const std::optional<Constant> &constant : constants)
    tensors.push_back(constant ? constant->view() : Tensor());
  return bind(tensors, refused, error);
}

// `changing` is held. `refused`: by the executable in use; the graph is placed again first, and for as long as what is
// placed refuses to bind. After an error the executable in use is the one from before. It ends, because each round
// takes an offer away.
Result<void> Program::Impl::bind(std::span<const Tensor> tensors, std::optional<RefusedRegion> refused, Error error) {
  std::unique_ptr<Executable> fresh;
  for (;;) {
    Executable &used = fresh ? *fresh : executable();
    if (!refused) {
      auto bound = fresh && fresh->isBound() ? Result<void>() : used.bindConstants(tensors, &refused);
      if (bound)
        break;
      if (!refused || bound.error().code != MORTISE_UNSUPPORTED)
        return bound;
      error = bound.error();
    }
    auto placed = place(used.plan(), *refused, error);
    if (!placed)
      return placed.error();
    fresh = std::move(*placed);
    refused.reset();
  }
  if (!fresh)
    return {};
  Executable &before = executable();
  executables.push_back(std::move(fresh));
  current.store(executables.back().get(), std::memory_order_release);
  before.retire();
  return {};
}

Result<std::unique_ptr<Executable>> Program::Impl::place(const plan::PlanT &plan, const RefusedRegion &refused,
                                                         const Error &error) {
  if (!placeAgain)
    return Error{error.code, error.message +
                                 "; the program is a plan without its graph, as one from a file is, so that "
                                 "it cannot be placed again without this region: compile the graph again"};
  logMessage(MORTISE_INFO, "program '" + plan.name + "' is placed again: " + error.message);
  std::vector<Uncovered> left;
  auto made = placeAgain(plan, refused, left);
  {
    const std::lock_guard lock(answering);
    uncovered = std::move(left);
  }
  if (!made)
    return Error{made.error().code, error.message + "; placed again without this region: " + made.error().message};
  if (!sameSignature(plan, (*made)->plan()))
    return Error{MORTISE_INTERNAL, "a graph that was placed again takes other inputs or gives other outputs"};
  return std::move((*made)->impl->executables.back());
}

Result<std::shared_ptr<Program>> Program::load(std::shared_ptr<const plan::PlanT> plan,
                                               std::shared_ptr<const Registry> registry, const LoadOptions &options) {
  auto executable = Executable::load(std::move(plan), std::move(registry), options);
  if (!executable)
    return executable.error();
  return std::shared_ptr<Program>(new Program(std::move(*executable)));
}

void Program::setPlaceAgain(PlaceAgain placeAgain) { impl->placeAgain = std::move(placeAgain); }

Result<void> Program::bindConstants(std::span<const Tensor> tensors) {
  if (isForkedChild())
    return forkedChildError(); // another thread may have held the lock when the process forked
  const std::lock_guard lock(impl->changing);
  std::optional<RefusedRegion> lost = impl->executable().lost();
  const Error error{MORTISE_UNSUPPORTED, lost ? lost->reason : ""};
  if (auto bound = impl->bind(tensors, std::move(lost), error); !bound)
    return bound;
  impl->constants.clear();
  for (size_t i = 0; i < tensors.size(); ++i)
    impl->constants.push_back(plan().inputs[i]->constant ? std::optional(Constant(tensors[i])) : std::nullopt);
  return {};
}

Result<void> Program::run(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  return impl->call([&](Executable &used, Ending &ending) { return used.run(inputs, outputs, false, {}, ending); });
}

Result<void> Program::runProfiled(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  return impl->call([&](Executable &used, Ending &ending) { return used.run(inputs, outputs, true, {}, ending); });
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
  return impl->call(
      [&](Executable &used, Ending &ending) { return used.run(inputs, outputs, false, callers, ending); });
}

Result<void> Program::runPointers(const void *const *inputs, void *const *outputs, std::span<const int64_t> values) {
  return impl->call(
      [&](Executable &used, Ending &ending) { return used.runPointers(inputs, outputs, values, ending); });
}

Result<void> Program::symbolValues(std::span<const Tensor> inputs, std::span<int64_t> values) const {
  return impl->executable().symbolValues(inputs, values);
}
Result<std::vector<int64_t>> Program::outputShape(size_t output, std::span<const int64_t> values) const {
  return impl->executable().outputShape(output, values);
}
std::vector<SavedKernel> Program::saveKernels() const { return impl->executable().saveKernels(); }
const plan::PlanT &Program::plan() const { return impl->executable().plan(); }
std::vector<Uncovered> Program::uncovered() const {
  const std::lock_guard lock(impl->answering);
  return impl->uncovered;
}
uint64_t Program::arenaBytes() const { return impl->executable().arenaBytes(); }
std::vector<uint64_t> Program::spaceBytes() const { return impl->executable().spaceBytes(); }
uint64_t Program::packedBytes() const { return impl->executable().packedBytes(); }
ValuesReport Program::valuesReport() const { return impl->executable().valuesReport(); }
std::vector<RegionReport> Program::report() const { return impl->executable().report(); }

Program::Program(std::unique_ptr<Executable> executable) : impl(std::make_unique<Impl>()) {
  impl->current = executable.get();
  impl->executables.push_back(std::move(executable));
}
Program::~Program() = default;

} // namespace mortise::runtime
