// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "kernel.hpp"

#include "builder.hpp"
#include "memory.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace mortise::vulkan {

static constexpr uint64_t gridRow = codegen::VulkanFeatures::gridRow, mostRows = 65535;
static constexpr uint64_t mostBlocks = mostRows * gridRow - 1; // of a grid

// ---- Compilation

Result<std::unique_ptr<Kernel>> Kernel::compile(Device &device, const MortiseGraph &region) {
  if (cancelled())
    return cancelledError();
  std::unique_ptr<Kernel> kernel(new Kernel(device, region));
  if (auto built = Builder(*kernel, region).run(); !built)
    return built.error();
  Result<std::unique_ptr<Schedule>> usual = kernel->scheduleFor(typicalValues(region));
  if (!usual)
    return usual.error();
  kernel->usual = std::move(*usual);
  return kernel;
}

// ---- Numbers

Result<std::unique_ptr<Schedule>> Kernel::scheduleFor(std::span<const int64_t> symbols) const {
  auto schedule = std::make_unique<Schedule>();
  const auto count = [&](const Dim &dim) -> Result<uint64_t> {
    const Result<int64_t> number = dim.evaluate(symbols);
    if (!number)
      return number.error();
    return static_cast<uint64_t>(std::max<int64_t>(*number, 0));
  };
  // What explain shows may be missing.
  const auto shown = [&](const Dim &dim) {
    const Result<int64_t> number = dim.evaluate(symbols);
    return number ? static_cast<double>(*number) : 0;
  };
  schedule->grids.resize(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step &step = steps[i];
    if (const auto *launch = std::get_if<Launch>(&step.work)) {
      const codegen::SimtFunction &code = launch->function->code();
      for (const codegen::SimtLaunch &each : code.launches) {
        Result<uint64_t> blocks = count(each.blocks);
        if (!blocks)
          return Error{blocks.error().code, step.name + ": " + blocks.error().message};
        if (*blocks > mostBlocks)
          return Error{MORTISE_UNSUPPORTED, step.name + ": expected a grid of at most " + std::to_string(mostBlocks) +
                                                " blocks, found " + std::to_string(*blocks) +
                                                "; run the graph on smaller tensors"};
        Result<uint64_t> iterations = count(each.iterations);
        if (!iterations)
          return Error{iterations.error().code, step.name + ": " + iterations.error().message};
        if (const int64_t most = device.mostIterations(); *iterations > static_cast<uint64_t>(most))
          return Error{MORTISE_UNSUPPORTED, step.name + ": expected at most " + std::to_string(most) +
                                                " iterations of loops in a thread, where this device's driver leaves "
                                                "them, found up to " +
                                                std::to_string(*iterations) +
                                                "; run the graph on smaller tensors or another device"};
        schedule->grids[i].push_back(*blocks);
      }
      schedule->amounts.push_back(std::ranges::max(schedule->grids[i]));
      schedule->steps.add(step.name, step.lowering, step.nodes, shown(code.bytes), shown(code.flops));
      continue;
    }
    Result<uint64_t> amount = count(std::get<Copy>(step.work).bytes);
    if (!amount)
      return Error{amount.error().code, step.name + ": " + amount.error().message};
    schedule->amounts.push_back(*amount);
    schedule->steps.add(step.name, step.lowering, step.nodes, 2.0 * static_cast<double>(*amount), 0);
  }
  std::vector<uint64_t> sizes;
  for (const codegen::Buffer &buffer : buffers) {
    Result<uint64_t> size = count(buffer.bytes);
    if (!size)
      return size.error();
    sizes.push_back(*size);
  }
  Result<uint64_t> bytes = codegen::placeBuffers(buffers, sizes, schedule->offsets);
  if (!bytes)
    return bytes.error();
  schedule->workspaceBytes = *bytes;
  schedule->workspace = ConstantExpr(static_cast<int64_t>(*bytes));
  return schedule;
}

// ---- Calls

namespace {

// The addresses of one call.
struct Addresses {
  const Constants *constants;
  const Schedule &schedule;
  const MortiseEnqueueArgs &args;
  MortiseAddress operator()(const Place &place) const {
    if (place.kind == Place::Workspace)
      return args.workspace + schedule.offsets[place.index];
    if (place.kind == Place::Output)
      return args.outputs[place.index];
    const MortiseAddress given = args.inputs[place.index];
    return given || !constants ? given : constants->inputs[place.index];
  }
};

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

Result<void> recordLaunch(Device &device, Device::Commands &commands, const Launch &launch,
                          std::span<const uint64_t> grids, const Addresses &addresses) {
  const codegen::SimtFunction &code = launch.function->code();
  std::vector<uint64_t> values;
  MortiseAddress bits = 0; // of all addresses
  for (const Launch::Argument &argument : launch.arguments) {
    if (argument.kind == Launch::Argument::Symbol) {
      values.push_back(static_cast<uint64_t>(addresses.args.symbols[argument.number]));
    } else if (argument.kind == Launch::Argument::Constant) {
      values.push_back(launch.function->constant(argument.number));
    } else {
      values.push_back(addresses(argument.place));
      bits |= values.back();
    }
  }
  Result<Function::Pipelines> pipelines = launch.function->pipelines(bits % code.alignment == 0); // a power of two
  if (!pipelines)
    return pipelines.error();
  if (auto pushed = pushArguments(device, commands, code, values); !pushed)
    return pushed;
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

// Times steps of a profiled call, each of which is a submission of its own.
class Clock {
public:
  Clock(Device &device, uint64_t *stepNs) : device(device), stepNs(stepNs) {}
  bool isOn() const { return stepNs != nullptr; }
  Result<void> time(size_t step, uint64_t submission) {
    const auto start = std::chrono::steady_clock::now();
    Result<void> done = device.wait(submission);
    const auto taken = std::chrono::steady_clock::now() - start;
    stepNs[step] += static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(taken).count());
    return done;
  }

private:
  Device &device;
  uint64_t *stepNs;
};

} // namespace

Result<void> Kernel::enqueue(const Constants *bound, const Schedule *instance, const MortiseEnqueueArgs &args) const {
  Result<Stream *> found = Stream::of(args.stream, "enqueue");
  if (!found)
    return found.error();
  Stream &stream = **found;
  if (&stream.device != &device)
    return Error{MORTISE_INVALID_ARGUMENT, "expected a stream of vulkan:" + std::to_string(device.ordinal()) +
                                               ", for which the kernel was compiled, found one of vulkan:" +
                                               std::to_string(stream.device.ordinal())};
  if (region.symbol_count && !instance)
    return Error{MORTISE_INTERNAL, "expected an instance for the symbols' values, found none"};
  if (auto known = stream.failure(); !known)
    return known;
  const Schedule &schedule = instance ? *instance : *usual;
  const Addresses addresses{bound, schedule, args};
  Clock clock(device, args.step_ns);
  std::optional<Device::Commands> commands;
  const auto submit = [&]() -> Result<uint64_t> {
    Result<uint64_t> queued = device.submit(*std::exchange(commands, std::nullopt));
    if (queued)
      stream.follow(*queued);
    return queued;
  };
  Result<void> done;
  for (size_t i = 0; done && i < steps.size(); ++i) {
    const uint64_t amount = schedule.amounts[i];
    if (amount == 0)
      continue;
    if (commands) {
      device.barrier(*commands);
    } else if (Result<Device::Commands> begun = device.begin(); begun) {
      commands = std::move(*begun);
    } else {
      done = begun.error();
      break;
    }
    const auto &work = steps[i].work;
    if (const auto *launch = std::get_if<Launch>(&work)) {
      done = recordLaunch(device, *commands, *launch, schedule.grids[i], addresses);
    } else {
      const auto &copy = std::get<Copy>(work);
      done = recordCopy(device, *commands, addresses(copy.target), addresses(copy.source), amount);
    }
    if (done && clock.isOn()) {
      if (auto before = device.wait(stream.last()); !before) // what is timed begins when it is submitted
        done = before;
      Result<uint64_t> queued = submit();
      done = queued ? clock.time(i, *queued) : queued.error();
    }
    if (!done)
      done = Error{done.error().code, steps[i].name + ": " + done.error().message};
  }
  if (done && commands)
    if (Result<uint64_t> queued = submit(); !queued)
      done = queued.error();
  if (commands)
    device.drop(*std::exchange(commands, std::nullopt));
  return done ? Result<void>() : stream.fail(done.error());
}

} // namespace mortise::vulkan
