// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "kernel.hpp"

namespace mortise::rocm {

using codegen::CallAddresses;

static constexpr codegen::LoweringNames names{"rocm.pointwise", "rocm.rows", "rocm.columns", "rocm.scan",
                                              "rocm.product",   "rocm.sort", "rocm.copy"};
static constexpr size_t mostArguments = 500; // of 8 bytes; a launch takes 4 KB

Result<std::unique_ptr<Kernel>> Kernel::compile(Device &device, const MortiseGraph &region) {
  std::unique_ptr<Kernel> kernel(new Kernel(device, region));
  if (auto compiled = static_cast<GeneratedRegion &>(*kernel).compile(names); !compiled)
    return compiled.error();
  for (const codegen::ProgramStep &step : kernel->program.steps)
    if (const auto *launch = std::get_if<codegen::LaunchStep>(&step.work))
      if (launch->arguments.size() > mostArguments)
        return Error{MORTISE_UNSUPPORTED, "expected at most " + std::to_string(mostArguments) +
                                              " arguments of a kernel, found " +
                                              std::to_string(launch->arguments.size()) + " of '" + step.name + "'"};
  return kernel;
}

Result<void> Kernel::queueLaunch(Stream &stream, const codegen::LaunchStep &launch, size_t step,
                                 const CallAddresses &addresses) const {
  uint64_t values[mostArguments];
  void *places[mostArguments];
  for (size_t i = 0; i < launch.arguments.size(); ++i)
    places[i] = &values[i];
  const bool isAligned = codegen::fillValues(launch.arguments, step, *launch.code, addresses, {}, values);
  Result<const Function::Entries *> entries = functions[launch.group]->entries(isAligned);
  if (!entries)
    return entries.error();
  const std::vector<uint64_t> &grids = addresses.numbers.grids[step];
  for (size_t i = 0; i < grids.size(); ++i) {
    if (grids[i] == 0)
      continue;
    const hip::Status queued = device.driver.moduleLaunchKernel((**entries)[i], static_cast<unsigned>(grids[i]), 1, 1,
                                                                launch.code->launches[i].threads, 1, 1,
                                                                /*sharedBytes=*/0, stream.handle, places, nullptr);
    if (auto done = device.check(queued, "hipModuleLaunchKernel"); !done)
      return done;
  }
  return {};
}

Result<void> Kernel::queueStep(Stream &stream, size_t step, const CallAddresses &addresses) const {
  const auto &work = program.steps[step].work;
  if (const auto *launch = std::get_if<codegen::LaunchStep>(&work))
    return queueLaunch(stream, *launch, step, addresses);
  const auto &copy = std::get<codegen::CopyStep>(work);
  void *target = reinterpret_cast<void *>(addresses(copy.target));
  void *source = reinterpret_cast<void *>(addresses(copy.source));
  const uint64_t bytes = addresses.numbers.amounts[step];
  return device.check(device.driver.memcpyDtoDAsync(target, source, bytes, stream.handle), "hipMemcpyDtoDAsync");
}

Result<void> Kernel::enqueue(const codegen::BoundInputs *bound, const codegen::SimtNumbers *instance,
                             const MortiseEnqueueArgs &args) const {
  const auto call = begin<Stream>(instance, args);
  if (!call)
    return call.error();
  const auto &[queue, numbers] = *call;
  Stream &stream = *queue;
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return stream.fail(entered.error());
  const CallAddresses addresses{*numbers, args, codegen::inputsOf(bound)};
  codegen::StepClock<Stream, Event> clock(stream, args.step_ns);
  Result<void> done = clock.mark();
  for (size_t i = 0; done && i < program.steps.size(); ++i) {
    if (numbers->amounts[i] != 0)
      done = queueStep(stream, i, addresses);
    if (!done)
      done = Error{done.error().code, program.steps[i].name + ": " + done.error().message};
    else
      done = clock.mark();
  }
  if (done)
    done = clock.write();
  return done ? Result<void>() : stream.fail(done.error());
}

} // namespace mortise::rocm
