// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "convolution.hpp"

#include <algorithm>

namespace mortise::cuda {

// ---- Which nodes

codegen::Support supportsConvolution(const MortiseNode &node, std::span<const SymbolRange> ranges) {
  const MortiseType &x = *node.operands[0]->type;
  const auto refuse = [](MortiseReason reason, std::string detail) {
    return codegen::Support{false, reason, std::move(detail)};
  };
  if (x.dtype != MORTISE_F32 && x.dtype != MORTISE_F16 && x.dtype != MORTISE_BF16)
    return refuse(MORTISE_REASON_DTYPE,
                  std::string("convolutions are of f32, f16 and bf16, found ") + dtypeName(x.dtype));
  if (x.rank < 3 || x.rank > 5)
    return refuse(MORTISE_REASON_RANK, "one to three spatial dimensions, found rank " + std::to_string(x.rank));
  for (const char *name : {"strides", "low", "high", "dilations"})
    for (const int64_t number : intsAttribute(node, name))
      if (number == MORTISE_DYNAMIC)
        return refuse(MORTISE_REASON_NEEDS_STATIC,
                      std::string("expected numbers in ") + name + ", found an expression");
  for (const Dim &dim : dimsOf(*node.operands[1]->type))
    if (!dim.isNumber())
      return refuse(MORTISE_REASON_NEEDS_STATIC,
                    "expected a weight of static extents, found " + typeString(*node.operands[1]->type));
    else if (dim == Dim(0))
      return refuse(MORTISE_REASON_SIZE, "a convolution over nothing has no lowering here");
  const std::vector<Dim> dims = dimsOf(x);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!dims[i].isValid())
      return refuse(MORTISE_REASON_NEEDS_STATIC, "an extent's expression is none in " + typeString(x));
    if (i > 0 && bounds(dims[i], ranges).low < 1)
      return refuse(MORTISE_REASON_SIZE, "a convolution over nothing has no lowering here");
  }
  for (const Dim &dim : dimsOf(*node.results[0]->type))
    if (!dim.isValid())
      return refuse(MORTISE_REASON_NEEDS_STATIC,
                    "an extent's expression is none in " + typeString(*node.results[0]->type));
  return {};
}

// ---- Numbers

Result<ConvolutionCall> callOf(const ConvolutionShape &shape, std::span<const int64_t> symbols) {
  ConvolutionCall call = shape.call;
  call.weight = shape.weight;
  for (const auto &[from, to] : {std::pair{&shape.x, &call.x}, std::pair{&shape.result, &call.result}}) {
    auto dims = evaluate(std::span<const Dim>(*from), symbols);
    if (!dims)
      return dims.error();
    *to = std::move(*dims);
  }
  return call;
}

static uint64_t countOf(const std::vector<int64_t> &dims) {
  uint64_t count = 1;
  for (const int64_t dim : dims)
    count *= static_cast<uint64_t>(std::max<int64_t>(dim, 0));
  return count;
}

static std::string textOf(const std::vector<int64_t> &dims) {
  std::string text;
  for (const int64_t dim : dims)
    text += (text.empty() ? "" : "x") + std::to_string(dim);
  return text;
}

Result<ConvolutionNumbers> numbersOf(const ConvolutionShape &shape, const PerRole<Dim> &elements,
                                     const PerRole<bool> &ours, ConvolutionLibrary &library,
                                     std::span<const int64_t> symbols) {
  Result<ConvolutionCall> call = callOf(shape, symbols);
  if (!call)
    return call.error();
  const auto starts = evaluate(std::span<const Dim>(elements), symbols);
  if (!starts)
    return starts.error();
  ConvolutionNumbers numbers;
  const uint64_t results = countOf(call->result);
  if (results == 0)
    return numbers;
  const uint64_t size = dtypeBits(call->dtype) / 8, resultSize = dtypeBits(call->resultDtype) / 8;
  const auto channels = static_cast<uint64_t>(call->result[1]);
  numbers.sizes = {countOf(call->x) * size,
                   countOf(call->weight) * size,
                   results * resultSize,
                   call->hasScale ? channels * size : 0,
                   call->hasBias ? channels * size : 0,
                   call->hasAddend ? results * size : 0};
  for (size_t role = 0; role < roleCount; ++role) {
    numbers.offsets[role] = static_cast<uint64_t>((*starts)[role]) * (role == RoleResult ? resultSize : size);
    numbers.bytes += static_cast<double>(numbers.sizes[role]);
  }
  const double terms = static_cast<double>(countOf(call->weight)) / static_cast<double>(call->weight[0]);
  numbers.flops = 2 * static_cast<double>(results) * terms;
  numbers.extents = " " + textOf(call->x) + " * " + textOf(call->weight);
  auto prepared = library.prepare(*call);
  if (!prepared)
    return prepared.error();
  numbers.library = std::move(*prepared);
  constexpr uint64_t aligned = 256;
  const auto rounded = [](uint64_t bytes) { return (bytes + aligned - 1) / aligned * aligned; };
  numbers.workspaceBytes = rounded(numbers.library->workspaceBytes());
  for (size_t role = 0; role < roleCount; ++role) {
    numbers.mayStage[role] =
        numbers.sizes[role] != 0 && (!ours[role] || numbers.offsets[role] % convolutionAlignment != 0);
    if (!numbers.mayStage[role])
      continue;
    numbers.staging[role] = numbers.workspaceBytes;
    numbers.workspaceBytes += rounded(numbers.sizes[role]);
  }
  return numbers;
}

// ---- Calls

// The library reads and writes aligned memory only: what the caller aligned less is copied.
Result<void> queueConvolution(Stream &stream, const ConvolutionNumbers &numbers, const ConvolutionMemory &memory) {
  if (!numbers.library)
    return {};
  Device &device = stream.device;
  const auto copy = [&](MortiseAddress target, MortiseAddress source, uint64_t bytes) {
    return device.check(device.driver.memcpyDtoDAsync(target, source, bytes, stream.handle), "cuMemcpyDtoDAsync");
  };
  PerRole<MortiseAddress> given{}, used{};
  for (size_t role = 0; role < roleCount; ++role) {
    if (numbers.sizes[role] == 0)
      continue;
    given[role] = used[role] = memory.addresses[role] + numbers.offsets[role];
    if (used[role] % convolutionAlignment == 0)
      continue;
    if (!numbers.mayStage[role])
      return Error{MORTISE_INTERNAL, "expected an address of the plugin's that is a multiple of 16, found another one; "
                                     "please report this"};
    used[role] = memory.workspace + numbers.staging[role];
    if (role != RoleResult)
      if (auto done = copy(used[role], given[role], numbers.sizes[role]); !done)
        return done;
  }
  const ConvolutionAddresses addresses{used[RoleX],     used[RoleWeight], used[RoleResult],
                                       used[RoleScale], used[RoleBias],   used[RoleAddend]};
  if (auto queued = numbers.library->enqueue(addresses, memory.workspace, stream.handle); !queued)
    return libraryError(stream, queued.error());
  if (used[RoleResult] == given[RoleResult])
    return {};
  return copy(given[RoleResult], used[RoleResult], numbers.sizes[RoleResult]);
}

} // namespace mortise::cuda
