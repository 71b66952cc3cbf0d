// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "builder.hpp"
#include "call.hpp"

#include <algorithm>

namespace mortise::cuda {

static constexpr uint64_t mostBlocks = (1u << 31) - 1; // of a one-dimensional grid

// ---- Compilation

Result<std::unique_ptr<Kernel>> Kernel::compile(Device &device, const MortiseGraph &region,
                                                const MortiseCompileOptions &options, Graphs graphs) {
  if (cancelled())
    return cancelledError();
  std::unique_ptr<Kernel> kernel(new Kernel(device, region, graphs));
  CanonicalProducts rewriter;
  std::optional<MortiseGraph> rewritten;
  if (CanonicalProducts::concern(region)) {
    Result<MortiseGraph> made = rewriter.rewrite(region);
    if (!made)
      return made.error();
    rewritten = *made;
  }
  if (auto built = Builder(*kernel, rewritten ? *rewritten : region, rewriter.origins, options).run(); !built)
    return built.error();
  Result<std::unique_ptr<Schedule>> usual = kernel->scheduleFor(typicalValues(region));
  if (!usual)
    return usual.error();
  kernel->usual = std::move(*usual);
  return kernel;
}

// ---- Numbers

Result<ProductNumbers> Kernel::productNumbers(const Product &product, std::span<const int64_t> symbols) const {
  Result<ProductLibrary *> library = device.products();
  if (!library)
    return library.error();
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return entered.error();
  return numbersOf(product.shape, **library, symbols);
}

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
  schedule->products.resize(steps.size());
  schedule->grids.resize(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step &step = steps[i];
    if (const auto *product = std::get_if<Product>(&step.work)) {
      Result<ProductNumbers> numbers = productNumbers(*product, symbols);
      if (!numbers)
        return Error{numbers.error().code, step.name + ": " + numbers.error().message};
      schedule->amounts.push_back(numbers->rowBytes * numbers->rowCount);
      schedule->steps.add(step.name + numbers->extents, step.lowering, step.nodes, numbers->bytes, numbers->flops);
      schedule->products[i] = std::move(*numbers);
      continue;
    }
    if (const auto *launch = std::get_if<Launch>(&step.work)) {
      const codegen::SimtFunction &code = launch->function->code();
      for (const codegen::SimtLaunch &each : code.launches) {
        Result<uint64_t> blocks = count(each.blocks);
        if (!blocks)
          return Error{blocks.error().code, step.name + ": " + blocks.error().message};
        if (*blocks > mostBlocks)
          return Error{MORTISE_UNSUPPORTED, step.name + ": expected a grid of at most 2147483647 blocks, found " +
                                                std::to_string(*blocks) + "; run the graph on smaller tensors"};
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
  for (size_t i = 0; i < steps.size(); ++i)
    if (const auto *product = std::get_if<Product>(&steps[i].work))
      sizes[product->workspace.index] = schedule->products[i].workspaceBytes;
  Result<uint64_t> bytes = codegen::placeBuffers(buffers, sizes, schedule->offsets);
  if (!bytes)
    return bytes.error();
  schedule->workspaceBytes = *bytes;
  schedule->workspace = ConstantExpr(static_cast<int64_t>(*bytes));
  if (graphs != Graphs::Off)
    schedule->replays = Replays::of(device, steps, *schedule, graphs == Graphs::Products);
  return schedule;
}

// ---- Calls

namespace {

// Times steps of a profiled call by events between them.
class Clock {
public:
  Clock(Stream &stream, bool on) : stream(stream), on(on) {}
  Clock(const Clock &) = delete;
  ~Clock() {
    for (CUevent event : events)
      stream.device.driver.eventDestroy(event);
  }
  Result<void> mark() {
    if (!on)
      return {};
    Device &device = stream.device;
    CUevent event = nullptr;
    if (auto made = device.check(device.driver.eventCreate(&event, CU_EVENT_DEFAULT), "cuEventCreate"); !made)
      return made;
    events.push_back(event);
    return device.check(device.driver.eventRecord(event, stream.handle), "cuEventRecord");
  }
  // Waits: the times have to be there when the work has happened, and what the driver calls back from a stream must not
  // ask it for the time of an event. Only profiled calls wait.
  Result<void> write(uint64_t *stepNs) {
    if (!on || events.empty())
      return {};
    Device &device = stream.device;
    if (auto waited = device.check(device.driver.eventSynchronize(events.back()), "cuEventSynchronize"); !waited)
      return waited;
    for (size_t i = 0; i + 1 < events.size(); ++i) {
      float milliseconds = 0;
      const CUresult asked = device.driver.eventElapsedTime(&milliseconds, events[i], events[i + 1]);
      if (auto done = device.check(asked, "cuEventElapsedTime"); !done)
        return done;
      stepNs[i] += static_cast<uint64_t>(std::max(0.0, milliseconds * 1e6));
    }
    return {};
  }

private:
  Stream &stream;
  const bool on;
  std::vector<CUevent> events;
};

Result<void> queueLaunch(Stream &stream, const Launch &launch, std::span<const uint64_t> grids,
                         const Addresses &addresses) {
  LaunchArguments arguments;
  if (auto set = arguments.set(launch, addresses); !set)
    return set;
  const codegen::SimtFunction &code = launch.function->code();
  Device &device = stream.device;
  for (size_t i = 0; i < grids.size(); ++i) {
    if (grids[i] == 0)
      continue;
    const CUresult queued =
        device.driver.launchKernel((*arguments.entries)[i], static_cast<unsigned>(grids[i]), 1, 1,
                                   code.launches[i].threads, 1, 1, 0, stream.handle, arguments.pointers(), nullptr);
    if (auto done = device.check(queued, "cuLaunchKernel"); !done)
      return done;
  }
  return {};
}

Result<void> queueCopy(Stream &stream, const Copy &copy, uint64_t bytes, const Addresses &addresses) {
  Device &device = stream.device;
  const MortiseAddress target = addresses(copy.target), source = addresses(copy.source);
  return device.check(device.driver.memcpyDtoDAsync(target, source, bytes, stream.handle), "cuMemcpyDtoDAsync");
}

} // namespace

Result<void> queueStep(Stream &stream, const Step &step, size_t number, const Addresses &addresses) {
  const Schedule &schedule = addresses.schedule;
  Result<void> done;
  if (const auto *launch = std::get_if<Launch>(&step.work))
    done = queueLaunch(stream, *launch, schedule.grids[number], addresses);
  else if (const auto *copy = std::get_if<Copy>(&step.work))
    done = queueCopy(stream, *copy, schedule.amounts[number], addresses);
  else
    done = queueProduct(stream, schedule.products[number], addresses(std::get<Product>(step.work)));
  return done ? done : Error{done.error().code, step.name + ": " + done.error().message};
}

Result<void> Kernel::enqueue(const Constants *bound, const Schedule *instance, const MortiseEnqueueArgs &args) const {
  Result<Stream *> found = Stream::of(args.stream, "enqueue");
  if (!found)
    return found.error();
  Stream &stream = **found;
  if (&stream.device != &device)
    return Error{MORTISE_INVALID_ARGUMENT, "expected a stream of cuda:" + std::to_string(device.ordinal()) +
                                               ", for which the kernel was compiled, found one of cuda:" +
                                               std::to_string(stream.device.ordinal())};
  if (region.symbol_count && !instance)
    return Error{MORTISE_INTERNAL, "expected an instance for the symbols' values, found none"};
  if (auto known = stream.failure(); !known)
    return known;
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return stream.fail(entered.error());
  const Schedule &schedule = instance ? *instance : *usual;
  const Addresses addresses{bound, schedule, region, args};
  if (schedule.replays && !args.step_ns) { // which times each step
    Result<bool> replayed = schedule.replays->queue(stream, addresses);
    if (!replayed)
      return stream.fail(replayed.error());
    if (*replayed)
      return {};
  }
  Clock clock(stream, args.step_ns != nullptr);
  Result<void> done = clock.mark();
  for (size_t i = 0; done && i < steps.size(); ++i) {
    if (schedule.amounts[i] != 0)
      done = queueStep(stream, steps[i], i, addresses);
    if (done)
      done = clock.mark();
  }
  if (done)
    done = clock.write(args.step_ns);
  return done ? Result<void>() : stream.fail(done.error());
}

} // namespace mortise::cuda
