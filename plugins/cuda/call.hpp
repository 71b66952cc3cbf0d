// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One call of a kernel: where its values lie, and what its steps are given.
#pragma once

#include "kernel.hpp"

#include <algorithm>

namespace mortise::cuda {

struct Addresses {
  const Constants *constants;
  const Schedule &schedule;
  const Schedule *packing; // NULL: no place is packed
  const MortiseGraph &region;
  const MortiseEnqueueArgs &args;

  MortiseAddress operator()(const Place &place) const {
    switch (place.kind) {
    case Place::Workspace:
      return args.workspace + schedule.offsets[place.index];
    case Place::Packed:
      return constants->packed + packing->offsets[place.index];
    case Place::Output:
      return args.outputs[place.index];
    case Place::Input:
      break;
    }
    return input(place.index);
  }
  ProductMemory operator()(const Product &product) const {
    return {(*this)(product.a), (*this)(product.b), (*this)(product.c), product.bias ? (*this)(*product.bias) : 0,
            (*this)(product.workspace)};
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
    return i + 1 < count() ? args.workspace : constants ? constants->packed : 0;
  }
  bool isCallers(size_t i) const {
    return i < region.input_count ? !(region.inputs[i]->flags & MORTISE_VALUE_CONSTANT)
                                  : i < region.input_count + region.output_count;
  }

private:
  MortiseAddress input(size_t i) const {
    const MortiseAddress given = args.inputs[i];
    return given || !constants ? given : constants->inputs[i];
  }
};

// What the kernels of a launch are given, and the code that suits its addresses.
class LaunchArguments {
public:
  LaunchArguments() = default;
  LaunchArguments(const LaunchArguments &) = delete;
  // Of the step with this number. Errors: those of Function::entries.
  Result<void> set(const Launch &launch, size_t step, const Addresses &addresses) {
    using Argument = Launch::Argument;
    MortiseAddress bits = 0; // of all addresses and strides
    count = launch.arguments.size();
    for (size_t i = 0; i < count; ++i) {
      const Argument &argument = launch.arguments[i];
      list[i] = argument.kind == Argument::Address ? addresses(argument.place)
                : argument.kind == Argument::Symbol
                    ? static_cast<uint64_t>(addresses.args.symbols[argument.index])
                    : static_cast<uint64_t>(addresses.schedule.numbers[step][argument.index]);
      bits |= argument.kind == Argument::Address || argument.kind == Argument::Stride ? list[i] : 0;
      places[i] = &list[i];
    }
    Result<Function::Entries> found =
        launch.function->entries(bits % launch.function->code().alignment == 0); // a power of two
    if (!found)
      return found.error();
    entries = *found;
    return {};
  }
  std::span<const uint64_t> values() const { return {list, count}; }
  void **pointers() { return places; }
  Function::Entries entries = nullptr;

private:
  size_t count = 0;
  uint64_t list[Launch::mostArguments];
  void *places[Launch::mostArguments];
};

// Queues the step with this number, which has something to do.
Result<void> queueStep(Stream &stream, const Step &step, size_t number, const Addresses &addresses);

} // namespace mortise::cuda
