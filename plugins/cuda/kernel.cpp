// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "builder.hpp"
#include "call.hpp"
#include "memory.hpp"
#include "wide_biases.hpp"
#include "window.hpp"

#include <algorithm>
#include <deque>

namespace mortise::cuda {

// ---- Compilation

namespace {

// What is compiled in the place of a region.
class Rewritten {
public:
  Rewritten(Device &device, const MortiseCompileOptions &options) : device(device), options(options) {}
  // `unproved`: as Builder::unprovedBiases has them.
  Result<const MortiseGraph *> run(const MortiseGraph &region, std::span<const uint32_t> unproved) {
    const MortiseGraph *graph = &region;
    if (!unproved.empty()) {
      biases.emplace(unproved);
      if (auto done = apply(*biases, graph); !done)
        return done.error();
    }
    if (WindowRewriter::concern(*graph)) {
      windows.emplace(*graph, device, options);
      if (auto prepared = windows->prepare(); !prepared)
        return prepared.error();
      if (auto done = apply(*windows, graph); !done)
        return done.error();
    }
    if (products.concern(*graph))
      if (auto done = apply(products, graph); !done)
        return done.error();
    return graph;
  }
  std::span<const ConvolutionShape> shapes() const {
    return windows ? windows->shapes : std::span<const ConvolutionShape>();
  }
  // Per node, those of the region that it was made of. Empty: the region is as it was.
  std::vector<std::vector<uint32_t>> origins;

private:
  Result<void> apply(RegionRewriter &rewriter, const MortiseGraph *&graph) {
    Result<MortiseGraph> made = rewriter.rewrite(*graph);
    if (!made)
      return made.error();
    graph = &graphs.emplace_back(*made);
    if (!origins.empty())
      for (std::vector<uint32_t> &from : rewriter.origins) {
        std::vector<uint32_t> first;
        for (const uint32_t node : from)
          first.insert(first.end(), origins[node].begin(), origins[node].end());
        from = std::move(first);
      }
    origins = std::move(rewriter.origins);
    return {};
  }

  Device &device;
  const MortiseCompileOptions &options;
  std::optional<WideBiases> biases;
  std::optional<WindowRewriter> windows;
  CanonicalProducts products{device};
  std::deque<MortiseGraph> graphs;
};

} // namespace

Result<std::unique_ptr<Kernel>> Kernel::compile(Device &device, const MortiseGraph &region,
                                                const MortiseCompileOptions &options, Graphs graphs,
                                                ProductsBy products) {
  if (cancelled())
    return cancelledError();
  std::unique_ptr<Kernel> kernel(new Kernel(device, region, graphs));
  std::optional<Rewritten> rewritten;
  std::optional<Builder> builder;
  std::vector<uint32_t> unproved;
  for (bool again = true; again;) {
    builder.reset();
    rewritten.emplace(device, options);
    Result<const MortiseGraph *> graph = rewritten->run(region, unproved);
    if (!graph)
      return graph.error();
    builder.emplace(*kernel, **graph, rewritten->origins, rewritten->shapes(), options, products);
    const Result<void> built = builder->run();
    const std::span<const uint32_t> found = builder->unprovedBiases();
    again = !found.empty();
    if (!built && !again)
      return built.error();
    unproved.insert(unproved.end(), found.begin(), found.end());
  }
  if (!kernel->packing.empty()) {
    Result<std::unique_ptr<Schedule>> packing = kernel->numbersOf(kernel->packing, kernel->packed, {});
    if (!packing)
      return packing.error();
    kernel->packingSchedule = std::move(*packing);
  }
  Result<std::unique_ptr<Schedule>> usual = kernel->scheduleFor(typicalValues(region));
  if (!usual)
    return usual.error();
  kernel->usual = std::move(*usual);
  return kernel;
}

// ---- Numbers

// Numbers of what a library computes.
Result<void> Kernel::addCall(Schedule &schedule, const Step &step, size_t number,
                             std::span<const int64_t> symbols) const {
  const auto failed = [&](const Error &error) { return Error{error.code, step.name + ": " + error.message}; };
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return entered.error();
  const auto add = [&](uint64_t written, const auto &numbers) {
    const std::string name = step.name + numbers.extents;
    schedule.addCall({name, step.lowering, step.nodes}, written, numbers.bytes, numbers.flops);
  };
  if (const auto *product = std::get_if<Product>(&step.work)) {
    Result<ProductLibrary *> library = device.products();
    if (!library)
      return failed(library.error());
    Result<ProductNumbers> numbers = cuda::numbersOf(product->shape, **library, symbols);
    if (!numbers)
      return failed(numbers.error());
    add(numbers->rowBytes * numbers->rowCount, *numbers);
    schedule.products[number] = std::move(*numbers);
    return {};
  }
  const auto &convolution = std::get<Convolution>(step.work);
  PerRole<bool> ours{};
  for (size_t role = 0; role < roleCount; ++role)
    ours[role] = convolution.places[role] && (convolution.places[role]->kind == Place::Workspace ||
                                              convolution.places[role]->kind == Place::Packed);
  Result<ConvolutionLibrary *> library = device.convolutions();
  if (!library)
    return failed(library.error());
  Result<ConvolutionNumbers> numbers =
      cuda::numbersOf(convolution.shape, convolution.elements, ours, **library, symbols);
  if (!numbers)
    return failed(numbers.error());
  add(numbers->sizes[RoleResult], *numbers);
  schedule.convolutions[number] = std::move(*numbers);
  return {};
}

std::vector<std::shared_ptr<Function>> Kernel::generatedFunctions() const {
  std::vector<std::shared_ptr<Function>> all;
  for (const std::vector<Step> *list : {&packing, &steps})
    for (const Step &step : *list)
      if (const auto *launch = std::get_if<Launch>(&step.work))
        all.push_back(launch->function);
  return all;
}

Result<std::unique_ptr<Schedule>> Kernel::scheduleFor(std::span<const int64_t> symbols) const {
  Result<std::unique_ptr<Schedule>> schedule = numbersOf(steps, buffers, symbols);
  if (schedule && graphs != Graphs::Off)
    (*schedule)->replays = Replays::of(device, steps, **schedule, graphs == Graphs::Calls);
  return schedule;
}

Result<std::unique_ptr<Schedule>> Kernel::numbersOf(std::span<const Step> steps,
                                                    std::span<const codegen::Buffer> buffers,
                                                    std::span<const int64_t> symbols) const {
  auto schedule = std::make_unique<Schedule>(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step &step = steps[i];
    const codegen::SimtNumbers::Naming naming{step.name, step.lowering, step.nodes};
    Result<void> added;
    if (step.isCall())
      added = addCall(*schedule, step, i, symbols);
    else if (const auto *launch = std::get_if<Launch>(&step.work))
      added = schedule->addLaunch(naming, launch->function->code(), launch->attention ? &*launch->attention : nullptr,
                                  codegen::LaunchLimits(), symbols);
    else
      added = schedule->addCopy(naming, std::get<Copy>(step.work).bytes, symbols);
    if (!added)
      return added.error();
  }
  Result<std::vector<uint64_t>> found = codegen::sizesOf(buffers, symbols);
  if (!found)
    return found.error();
  std::vector<uint64_t> &sizes = *found;
  for (size_t i = 0; i < steps.size(); ++i)
    if (const auto *product = std::get_if<Product>(&steps[i].work))
      sizes[product->workspace.index] = schedule->products[i].workspaceBytes;
    else if (const auto *convolution = std::get_if<Convolution>(&steps[i].work))
      sizes[convolution->workspace.index] = schedule->convolutions[i].workspaceBytes;
  if (auto placed = schedule->place(buffers, sizes); !placed)
    return placed.error();
  return schedule;
}

// ---- Calls

namespace {

Result<void> queueLaunch(Stream &stream, const Launch &launch, size_t step, const Addresses &addresses) {
  const std::vector<uint64_t> &grids = addresses.schedule.grids[step];
  LaunchArguments arguments;
  if (auto set = arguments.set(launch, step, addresses); !set)
    return set;
  const codegen::SimtFunction &code = launch.function->code();
  Device &device = stream.device;
  for (size_t i = 0; i < grids.size(); ++i) {
    if (grids[i] == 0)
      continue;
    const codegen::SimtLaunch &kernel = code.launches[i];
    const CUresult queued =
        device.driver.launchKernel((*arguments.entries)[i], static_cast<unsigned>(grids[i]), 1, 1, kernel.threads, 1, 1,
                                   kernel.sharedBytes, stream.handle, arguments.pointers(), nullptr);
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
    done = queueLaunch(stream, *launch, number, addresses);
  else if (const auto *copy = std::get_if<Copy>(&step.work))
    done = queueCopy(stream, *copy, schedule.amounts[number], addresses);
  else if (const auto *convolution = std::get_if<Convolution>(&step.work))
    done = queueConvolution(stream, schedule.convolutions[number], addresses(*convolution));
  else
    done = queueProduct(stream, schedule.products[number], addresses(std::get<Product>(step.work)));
  return done ? done : Error{done.error().code, step.name + ": " + done.error().message};
}

// ---- Constants

Constants::~Constants() {
  if (!packed)
    return;
  auto memory = sized<MortiseMemoryArgs>();
  memory.device = reinterpret_cast<MortiseDevice *>(&device);
  memory.bytes = packedBytes;
  memory.address = packed;
  (void)release(memory); // a lost device has lost it
}

Result<std::unique_ptr<Constants>> Kernel::bind(const MortiseAddress *inputs) const {
  auto made = std::make_unique<Constants>(device);
  made->inputs.assign(inputs, inputs + region.input_count);
  if (!packingSchedule || packingSchedule->workspaceBytes == 0)
    return made;
  auto memory = sized<MortiseMemoryArgs>();
  memory.device = reinterpret_cast<MortiseDevice *>(&device);
  memory.bytes = packingSchedule->workspaceBytes;
  if (auto done = allocate(memory); !done)
    return done.error();
  made->packed = memory.address;
  made->packedBytes = memory.bytes;
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return entered.error();
  Result<CUstream> service = device.serviceStream();
  if (!service)
    return service.error();
  Stream stream(device, *service, true);
  auto args = sized<MortiseEnqueueArgs>();
  args.inputs = inputs;
  const Addresses addresses(made.get(), *packingSchedule, packingSchedule.get(), region, args);
  for (size_t i = 0; i < packing.size(); ++i)
    if (packingSchedule->amounts[i] != 0)
      if (auto done = queueStep(stream, packing[i], i, addresses); !done)
        return done.error();
  if (auto done = device.check(device.driver.streamSynchronize(*service), "cuStreamSynchronize"); !done)
    return done.error();
  return made;
}

// ---- The call

Result<void> Kernel::enqueue(const Constants *bound, const Schedule *instance, const MortiseEnqueueArgs &args) const {
  Result<Stream *> found = codegen::streamFor<Stream>(device, args);
  if (!found)
    return found.error();
  Stream &stream = **found;
  if (region.symbol_count && !instance)
    return Error{MORTISE_INTERNAL, "expected an instance for the symbols' values, found none"};
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return stream.fail(entered.error());
  const Schedule &schedule = instance ? *instance : *usual;
  if (packingSchedule && !bound)
    return Error{MORTISE_INTERNAL, "expected bound constants, found none"};
  const Addresses addresses(bound, schedule, packingSchedule.get(), region, args);
  if (schedule.replays && !args.step_ns) { // which times each step
    Result<bool> replayed = schedule.replays->queue(stream, addresses);
    if (!replayed)
      return stream.fail(replayed.error());
    if (*replayed)
      return {};
  }
  codegen::StepClock<Stream, Event> clock(stream, args.step_ns);
  Result<void> done = clock.mark();
  for (size_t i = 0; done && i < steps.size(); ++i) {
    if (schedule.amounts[i] != 0)
      done = queueStep(stream, steps[i], i, addresses);
    if (done)
      done = clock.mark();
  }
  if (done)
    done = clock.write();
  return done ? Result<void>() : stream.fail(done.error());
}

} // namespace mortise::cuda
