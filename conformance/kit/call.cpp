// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "call.hpp"

#include <mortise/runtime/call.hpp>
#include <mortise/symbols.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>

namespace mortise::conformance {
namespace {

size_t elementBytes(const MortiseType &type) { return std::max<size_t>(dtypeBits(type.dtype) / 8, 1); }

// Bytes from the first to the last element.
size_t spanBytes(const MortiseType &type) {
  if (!type.strides || elementCount(type) == 0)
    return byteSize(type);
  int64_t last = 0;
  for (int32_t i = 0; i < type.rank; ++i)
    last += (type.dims[i] - 1) * type.strides[i];
  return static_cast<size_t>(last + 1) * elementBytes(type);
}

// body(element in row-major order, its place in elements).
template <typename Body> void forElements(const MortiseType &type, Body body) {
  std::vector<int64_t> index(static_cast<size_t>(type.rank));
  const int64_t count = elementCount(type);
  for (int64_t element = 0; element < count; ++element) {
    int64_t at = 0;
    for (size_t i = 0; i < index.size(); ++i)
      at += index[i] * type.strides[i];
    body(static_cast<size_t>(element), static_cast<size_t>(at));
    for (size_t i = index.size(); i-- > 0;) {
      if (++index[i] < type.dims[i])
        break;
      index[i] = 0;
    }
  }
}

// The tensor as it lies in memory: dense elements at their places, `poison` between them.
std::vector<std::byte> spread(const MortiseType &type, const std::vector<std::byte> &dense, std::byte poison) {
  if (!type.strides)
    return dense;
  std::vector<std::byte> image(spanBytes(type), poison);
  const size_t size = elementBytes(type);
  forElements(type, [&](size_t element, size_t at) {
    std::memcpy(image.data() + at * size, dense.data() + element * size, size);
  });
  return image;
}

// The dense elements of a tensor as it lies in memory. What lies between them becomes `poison`.
std::vector<std::byte> gather(const MortiseType &type, std::vector<std::byte> &image, std::byte poison) {
  if (!type.strides)
    return image;
  std::vector<std::byte> dense(byteSize(type));
  const size_t size = elementBytes(type);
  forElements(type, [&](size_t element, size_t at) {
    std::memcpy(dense.data() + element * size, image.data() + at * size, size);
    std::fill_n(image.begin() + static_cast<ptrdiff_t>(at * size), size, poison);
  });
  return dense;
}

double seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

} // namespace

Call::~Call() {
  const MortisePlugin &table = kernel.device.table();
  if (frame) {
    MortiseFrameArgs args{.struct_size = sizeof args,
                          .kernel = kernel.handle,
                          .constants = constants,
                          .instance = instance,
                          .frame = frame};
    (void)kernel.device.call("frame_destroy", table.frame_destroy, args);
  }
  if (instance) {
    MortiseInstanceArgs args{.struct_size = sizeof args, .kernel = kernel.handle, .instance = instance};
    (void)kernel.device.call("instance_destroy", table.instance_destroy, args);
  }
  if (isBound) {
    MortiseConstantsArgs args{.struct_size = sizeof args, .kernel = kernel.handle, .constants = constants};
    (void)kernel.device.call("constants_destroy", table.constants_destroy, args);
  }
}

Result<void> Call::place(Place &at, const MortiseType &type, uint32_t space, const std::vector<std::byte> *dense) {
  at.type = &type;
  const size_t size = elementBytes(type);
  auto buffer = of.point.layout == Layout::Misaligned
                    ? Buffer::makeMisaligned(kernel.device, space, spanBytes(type), size, edge)
                    : Buffer::make(kernel.device, space, spanBytes(type), size, edge);
  if (!buffer)
    return buffer.error();
  at.buffer.emplace(std::move(*buffer));
  at.before = dense ? spread(type, *dense, poison) : std::vector<std::byte>(spanBytes(type), poison);
  return at.buffer->write(at.before);
}

// Those of a dynamic case, whose tensors are dense, are those of its plain graph.
const MortiseGraph &Call::staticTypes() const { return view.symbol_count ? of.plain->view() : view; }

// The place of an output: an input's, or its own.
size_t Call::homeOf(size_t output) const {
  for (size_t i = 0; i < view.alias_count; ++i)
    if (view.aliases[i]->output == output)
      return view.aliases[i]->input;
  if (of.point.layout == Layout::InPlace)
    for (const MortiseInPlace &pair : kernel.pairs)
      if (pair.output == view.outputs[output]->index)
        for (size_t i = 0; i < view.input_count; ++i)
          if (pair.input == view.inputs[i]->index && !places[i].isWritten)
            return i;
  return view.input_count + output;
}

Result<void> Call::placeAll() {
  const MortiseGraph &types = staticTypes();
  places.resize(view.input_count + view.output_count);
  for (size_t i = 0; i < view.input_count; ++i) {
    uint32_t space = 0;
    if ((view.inputs[i]->flags & MORTISE_VALUE_CONSTANT) && kernel.info.constant_spaces)
      space = kernel.info.constant_spaces[i];
    if (auto done = place(places[i], *types.inputs[i]->type, space, &of.inputs[i]); !done)
      return done;
  }
  for (size_t i = 0; i < view.output_count; ++i) {
    const size_t home = homeOf(i);
    outputPlaces.push_back(home);
    places[home].isWritten = true;
    if (home >= view.input_count)
      if (auto done = place(places[home], *types.outputs[i]->type, 0, nullptr); !done)
        return done;
  }
  return {};
}

Result<void> Call::bind() {
  std::vector<MortiseAddress> addresses(view.input_count);
  bool any = false;
  for (size_t i = 0; i < view.input_count; ++i)
    if (view.inputs[i]->flags & MORTISE_VALUE_CONSTANT) {
      addresses[i] = places[i].buffer->address();
      any = true;
    }
  if (!any)
    return {};
  MortiseConstantsBindArgs args{.struct_size = sizeof args, .kernel = kernel.handle, .inputs = addresses.data()};
  if (auto done = kernel.device.call("constants_bind", kernel.device.table().constants_bind, args); !done)
    return done;
  constants = args.constants;
  isBound = true;
  if (args.workspace_bytes)
    workspaceBytes = args.workspace_bytes;
  return {};
}

Result<void> Call::makeWorkspace() {
  if (kernel.info.workspace.count && workspaceBytes == 0) {
    const Result<int64_t> bytes = evaluate(kernel.info.workspace, of.symbols);
    if (!bytes)
      return bytes.error();
    if (*bytes < 0)
      return Error{MORTISE_INTERNAL, "kernel_info wants a workspace of " + std::to_string(*bytes) + " bytes"};
    workspaceBytes = static_cast<uint64_t>(*bytes);
  }
  if (view.symbol_count && kernel.device.info().plugin->hasInstances()) {
    MortiseInstanceArgs args{
        .struct_size = sizeof args, .kernel = kernel.handle, .constants = constants, .symbols = of.symbols.data()};
    if (auto done = kernel.device.call("instance_create", kernel.device.table().instance_create, args); !done)
      return done;
    instance = args.instance;
    workspaceBytes = args.workspace_bytes;
  }
  if (workspaceBytes == 0)
    return {};
  auto made = Buffer::make(kernel.device, 0, workspaceBytes, kernel.device.info().home().alignment, edge);
  if (!made)
    return made.error();
  workspace.emplace(std::move(*made));
  return workspace->write(std::vector<std::byte>(workspaceBytes, poison));
}

Result<void> Call::makeFrame() {
  if (!kernel.device.info().plugin->hasFrames())
    return {};
  MortiseFrameArgs args{
      .struct_size = sizeof args, .kernel = kernel.handle, .constants = constants, .instance = instance};
  if (auto done = kernel.device.call("frame_create", kernel.device.table().frame_create, args); !done)
    return done;
  frame = args.frame;
  return {};
}

Result<void> Call::enqueue() {
  std::vector<MortiseAddress> inputs, outputs;
  for (size_t i = 0; i < view.input_count; ++i)
    inputs.push_back(view.inputs[i]->flags & MORTISE_VALUE_CONSTANT ? 0 : places[i].buffer->address());
  for (const size_t at : outputPlaces)
    outputs.push_back(places[at].buffer->address());
  if (isClocked && kernel.info.step_count) {
    clocks.emplace(kernel.info.step_count * sizeof(uint64_t), alignof(uint64_t), Edge::Begin);
    std::ranges::fill(clocks->bytes(), std::byte{0});
  }
  const std::vector<uint64_t> unchanged((inputs.size() + outputs.size() + 1 + 63) / 64);
  MortiseEnqueueArgs args{.struct_size = sizeof args,
                          .kernel = kernel.handle,
                          .constants = constants,
                          .stream = kernel.device.stream(),
                          .inputs = inputs.data(),
                          .outputs = outputs.data(),
                          .workspace = workspace ? workspace->address() : 0,
                          .symbols = of.symbols.data(),
                          .step_ns = clocks ? reinterpret_cast<uint64_t *>(clocks->bytes().data()) : nullptr,
                          .instance = instance,
                          .frame = frame,
                          .unchanged = frame ? unchanged.data() : nullptr};
  const double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
  auto done = kernel.device.call("enqueue", kernel.device.table().enqueue, args);
  // The lists may be gone when the call returns.
  std::ranges::fill(inputs, MortiseAddress(8));
  std::ranges::fill(outputs, MortiseAddress(8));
  auto waited = kernel.device.wait();
  cpuSeconds = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  runSeconds = seconds(CLOCK_MONOTONIC) - wall;
  return done ? waited : done;
}

Result<void> Call::readBack() {
  for (Place &at : places) {
    if (!at.buffer)
      continue;
    auto bytes = at.buffer->read(at.isIntact);
    if (!bytes)
      return bytes.error();
    at.after = std::move(*bytes);
  }
  if (workspace) {
    auto bytes = workspace->read(workspaceIntact);
    if (!bytes)
      return bytes.error();
  }
  for (size_t i = 0; i < view.output_count; ++i)
    outputs.push_back(gather(*staticTypes().outputs[i]->type, places[outputPlaces[i]].after, poison));
  return {};
}

Result<void> Call::run() {
  for (auto step :
       {&Call::placeAll, &Call::bind, &Call::makeWorkspace, &Call::makeFrame, &Call::enqueue, &Call::readBack})
    if (auto done = (this->*step)(); !done)
      return done;
  return {};
}

Wrong Call::damage() const {
  for (size_t i = 0; i < places.size(); ++i) {
    const Place &at = places[i];
    if (!at.buffer)
      continue;
    const std::string name =
        (i < view.input_count ? "input " : "output ") + std::to_string(i < view.input_count ? i : i - view.input_count);
    if (!at.isIntact)
      return {"memory", "it writes beside " + name};
    if (i < view.input_count && !at.isWritten && at.before != at.after)
      return {"input", "it writes to " + name + ", which is only to be read"};
    // gather() has put the poison where elements were.
    if (at.isWritten && at.type->strides &&
        !std::ranges::all_of(at.after, [&](std::byte byte) { return byte == poison; }))
      return {"memory", "it writes between the elements of " + name};
  }
  if (!workspaceIntact)
    return {"memory", "it writes beside its workspace of " + std::to_string(workspaceBytes) + " bytes"};
  if (clocks && !clocks->isIntact())
    return {"memory",
            "it clocks more steps than the " + std::to_string(kernel.info.step_count) + " that kernel_info has"};
  return {};
}

} // namespace mortise::conformance
