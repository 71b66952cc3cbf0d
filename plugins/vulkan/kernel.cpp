// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "kernel.hpp"

#include "memory.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace mortise::vulkan {

using codegen::CallAddresses;

static constexpr codegen::LoweringNames names{"vulkan.pointwise", "vulkan.rows", "vulkan.columns", "vulkan.scan",
                                              "vulkan.product",   "vulkan.sort", "vulkan.copy"};

Result<std::unique_ptr<Kernel>> Kernel::compile(Device &device, const MortiseGraph &region) {
  std::unique_ptr<Kernel> kernel(new Kernel(device, region));
  auto compiled = static_cast<GeneratedRegion &>(*kernel).compile(names);
  if (!compiled)
    return compiled.error();
  kernel->hasCopies = std::ranges::any_of(kernel->program.steps, [](const codegen::ProgramStep &step) {
    return std::holds_alternative<codegen::CopyStep>(step.work);
  });
  return kernel;
}

namespace {

// A table lies in memory that is given back when the submission has happened.
Result<void> pushArguments(Device &device, Device::Commands &commands, const codegen::SimtFunction &code,
                           const std::vector<uint64_t> &values) {
  const auto push = [&](const uint64_t *from, size_t count) {
    device.functions().CmdPushConstants(commands.handle, device.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                        static_cast<uint32_t>(count * sizeof(uint64_t)), from);
  };
  if (!code.hasTable) {
    if (!values.empty())
      push(values.data(), values.size());
    return {};
  }
  Result<Allocation> table = device.staging(values.size() * sizeof(uint64_t));
  if (!table)
    return table.error();
  commands.staging.push_back(*table);
  std::memcpy(table->mapped, values.data(), values.size() * sizeof(uint64_t));
  push(&table->address, 1);
  return {};
}

Result<void> recordLaunch(Device &device, Device::Commands &commands, Function &function,
                          const codegen::LaunchStep &launch, size_t step, const CallAddresses &addresses) {
  constexpr uint64_t gridRow = codegen::VulkanFeatures::gridRow;
  const codegen::SimtFunction &code = function.code();
  std::vector<uint64_t> values(launch.arguments.size());
  const bool isAligned =
      codegen::fillValues(launch.arguments, step, code, addresses, function.constants(), values.data());
  Result<const Function::Pipelines *> pipelines = function.pipelines(isAligned);
  if (!pipelines)
    return pipelines.error();
  if (auto pushed = pushArguments(device, commands, code, values); !pushed)
    return pushed;
  const std::vector<uint64_t> &grids = addresses.numbers.grids[step];
  const DeviceFunctions &calls = device.functions();
  bool isFirst = true;
  for (size_t i = 0; i < grids.size(); ++i) {
    if (grids[i] == 0)
      continue;
    if (!isFirst)
      device.barrier(commands);
    isFirst = false;
    calls.CmdBindPipeline(commands.handle, VK_PIPELINE_BIND_POINT_COMPUTE, (**pipelines)[i]);
    const auto rows = static_cast<uint32_t>(grids[i] / gridRow), rest = static_cast<uint32_t>(grids[i] % gridRow);
    if (rows > 0)
      calls.CmdDispatchBase(commands.handle, 0, 0, 0, gridRow, rows, 1);
    if (rest > 0)
      calls.CmdDispatchBase(commands.handle, 0, rows, 0, rest, 1, 1);
  }
  return {};
}

// Times steps of a profiled call, each of which is a submission of its own: by the device's clock, or the host's where
// it has none.
class Clock {
public:
  Clock(Device &device, uint64_t *stepNs) : device(device), stepNs(stepNs) {
    if (stepNs)
      alone = std::unique_lock(device.clock());
  }
  bool isOn() const { return stepNs != nullptr; }
  void mark(const Device::Commands &commands, Device::Mark which) const {
    if (isOn())
      device.mark(commands, which);
  }
  Result<void> time(size_t step, uint64_t submission) {
    const auto start = std::chrono::steady_clock::now();
    if (Result<void> done = device.wait(submission); !done)
      return done;
    const auto taken = std::chrono::steady_clock::now() - start;
    const Result<uint64_t> own = device.marked();
    if (!own)
      return own.error();
    const auto hosts = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(taken).count());
    stepNs[step] += *own ? *own : hosts;
    return {};
  }

private:
  Device &device;
  uint64_t *stepNs;
  std::unique_lock<std::mutex> alone;
};

} // namespace

// What recordLaunch and recordCopy read of a call. Numbers follow from the symbols.
Recordings::Key Kernel::keyOf(const CallAddresses &addresses) const {
  const MortiseEnqueueArgs &args = addresses.args;
  Recordings::Key key{args.workspace};
  key.reserve(region.input_count + region.output_count + region.symbol_count + 2);
  for (size_t i = 0; i < region.input_count; ++i)
    key.push_back(addresses.input(i));
  key.insert(key.end(), args.outputs, args.outputs + region.output_count);
  for (size_t i = 0; i < region.symbol_count; ++i)
    key.push_back(static_cast<uint64_t>(args.symbols[i]));
  if (hasCopies)
    key.push_back(device.released());
  return key;
}

Result<void> Kernel::enqueue(const codegen::BoundInputs *bound, const codegen::SimtNumbers *instance,
                             const MortiseEnqueueArgs &args) const {
  const auto call = begin<Stream>(instance, args);
  if (!call)
    return call.error();
  const auto &[queue, numbers] = *call;
  Stream &stream = *queue;
  const CallAddresses addresses{*numbers, args, codegen::inputsOf(bound)};
  Clock clock(device, args.step_ns);
  const Recordings::Key key = clock.isOn() ? Recordings::Key() : keyOf(addresses);
  if (!clock.isOn()) {
    const Result<uint64_t> again = recordings.submit(key);
    if (!again)
      return stream.fail(again.error());
    if (*again) {
      stream.follow(*again);
      return {};
    }
  }
  const auto use = !clock.isOn() && recordings.isWorthKeeping(key) ? Device::Use::Again : Device::Use::Once;
  std::optional<Device::Commands> commands;
  const auto submit = [&]() -> Result<uint64_t> {
    Device::Commands recorded = *std::exchange(commands, std::nullopt);
    Result<uint64_t> queued =
        use == Device::Use::Again ? recordings.keep(key, std::move(recorded)) : device.submit(std::move(recorded));
    if (queued)
      stream.follow(*queued);
    return queued;
  };
  Result<void> done;
  for (size_t i = 0; done && i < program.steps.size(); ++i) {
    const uint64_t amount = numbers->amounts[i];
    if (amount == 0)
      continue;
    if (commands) {
      device.barrier(*commands);
    } else if (Result<Device::Commands> begun = device.begin(use); begun) {
      commands = std::move(*begun);
    } else {
      done = begun.error();
      break;
    }
    clock.mark(*commands, Device::Mark::Begin);
    const auto &work = program.steps[i].work;
    if (const auto *launch = std::get_if<codegen::LaunchStep>(&work)) {
      done = recordLaunch(device, *commands, *functions[launch->group], *launch, i, addresses);
    } else {
      const auto &copy = std::get<codegen::CopyStep>(work);
      done = recordCopy(device, *commands, addresses(copy.target), addresses(copy.source), amount);
    }
    clock.mark(*commands, Device::Mark::End);
    if (done && clock.isOn()) {
      if (auto before = device.wait(stream.last()); !before) // what is timed begins when it is submitted
        done = before;
      Result<uint64_t> queued = submit();
      done = queued ? clock.time(i, *queued) : queued.error();
    }
    if (!done)
      done = Error{done.error().code, program.steps[i].name + ": " + done.error().message};
  }
  if (done && commands)
    if (Result<uint64_t> queued = submit(); !queued)
      done = queued.error();
  if (commands)
    device.drop(*std::exchange(commands, std::nullopt));
  return done ? Result<void>() : stream.fail(done.error());
}

} // namespace mortise::vulkan
