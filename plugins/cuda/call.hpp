// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One call of a kernel: where its values lie, and what its steps are given.
#pragma once

#include "kernel.hpp"

#include <algorithm>

namespace mortise::cuda {

struct Addresses : codegen::CallAddresses {
  // `packing`: NULL where no place is packed.
  Addresses(const Constants *constants, const Schedule &schedule, const Schedule *packing, const MortiseGraph &region,
            const MortiseEnqueueArgs &args)
      : CallAddresses{schedule, args,
                      constants ? std::span<const MortiseAddress>(constants->inputs)
                                : std::span<const MortiseAddress>(),
                      constants ? constants->packed : 0, packing},
        schedule(schedule), region(region) {}
  const Schedule &schedule;
  const MortiseGraph &region;

  using CallAddresses::operator();
  ProductMemory operator()(const Product &product) const {
    const auto any = [&](const std::optional<Place> &place) { return place ? (*this)(*place) : 0; };
    return {(*this)(product.a), (*this)(product.b),  (*this)(product.c),
            any(product.bias),  any(product.addend), (*this)(product.workspace)};
  }
  ConvolutionMemory operator()(const Convolution &convolution) const {
    ConvolutionMemory memory;
    for (size_t role = 0; role < roleCount; ++role)
      memory.addresses[role] = convolution.places[role] ? (*this)(*convolution.places[role]) : 0;
    memory.workspace = (*this)(convolution.workspace);
    return memory;
  }
  // Of the region's inputs, its outputs, the workspace and packed constants: all that calls with one schedule differ
  // in. The caller's are the outputs and those inputs that are not constant.
  size_t count() const { return region.input_count + region.output_count + 2; }
  MortiseAddress at(size_t i) const {
    if (i < region.input_count)
      return input(i);
    if (i < region.input_count + region.output_count)
      return args.outputs[i - region.input_count];
    return i + 1 < count() ? args.workspace : packed;
  }
  bool isCallers(size_t i) const {
    return i < region.input_count ? !(region.inputs[i]->flags & MORTISE_VALUE_CONSTANT)
                                  : i < region.input_count + region.output_count;
  }
};

// What the kernels of a launch are given, and the code that suits its addresses.
class LaunchArguments {
public:
  LaunchArguments() = default;
  LaunchArguments(const LaunchArguments &) = delete;
  // Of the step with this number. Errors: those of Function::entries.
  Result<void> set(const Launch &launch, size_t step, const Addresses &addresses) {
    count = launch.arguments.size();
    const bool isAligned = codegen::fillValues(launch.arguments, step, launch.function->code(), addresses, {}, list);
    for (size_t i = 0; i < count; ++i)
      places[i] = &list[i];
    Result<const Function::Entries *> found = launch.function->entries(isAligned);
    if (!found)
      return found.error();
    entries = *found;
    return {};
  }
  std::span<const uint64_t> values() const { return {list, count}; }
  void **pointers() { return places; }
  const Function::Entries *entries = nullptr;

private:
  size_t count = 0;
  uint64_t list[Launch::mostArguments];
  void *places[Launch::mostArguments];
};

// Queues the step with this number, which has something to do.
Result<void> queueStep(Stream &stream, const Step &step, size_t number, const Addresses &addresses);

} // namespace mortise::cuda
