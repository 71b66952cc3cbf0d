// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All operands are 0, but for factors of 1 + 2^-6 in the first term of the first and last rows and columns. Their
// product, 1 + 2^-5 + 2^-12, has more digits than f16 and bf16 keep, and the bias is -(1 + 2^-5): a kernel that rounds
// once gives 2^-12, and one that rounds before it adds the bias gives 0. Where there is an addend, it and the bias are
// half of that each, so that the product together with either of them has too many digits as well.
#include "product_probe.hpp"

#include "memory.hpp"

#include <algorithm>
#include <array>

namespace mortise::cuda {

namespace {

struct Bits {
  uint16_t factor, bias, halfBias, result;
};
constexpr Bits f16{0x3c10, 0xbc20, 0xb820, 0x0c00}, bf16{0x3f82, 0xbf84, 0xbf04, 0x3980};
constexpr int64_t elementBytes = sizeof(uint16_t);

// Parts of one piece of memory that is given back when the object ends.
class Memory {
public:
  explicit Memory(Device &device) {
    args.device = reinterpret_cast<MortiseDevice *>(&device);
    args.bytes = 0;
  }
  Memory(const Memory &) = delete;
  ~Memory() {
    if (args.address)
      (void)release(args); // a lost device has lost it
  }
  // Where the part begins, once there is memory.
  uint64_t add(uint64_t bytes) {
    constexpr uint64_t alignment = 256;
    return std::exchange(args.bytes, args.bytes + (bytes + alignment - 1) / alignment * alignment);
  }
  Result<void> take() { return allocate(args); }
  MortiseAddress start() const { return args.address; }
  uint64_t bytes() const { return args.bytes; }

private:
  MortiseMemoryArgs args = sized<MortiseMemoryArgs>();
};

// Of a matrix of this many columns in memory, and those of a batch.
uint64_t bytesOf(int64_t rows, int64_t columns, int64_t stride, int64_t step, int64_t batch) {
  return static_cast<uint64_t>(((batch - 1) * step + (columns - 1) * stride + rows) * elementBytes);
}

} // namespace

Result<bool> roundsOnce(Device &device, const ProductCall &call, uint64_t workspaceBytes, const QueueProduct &kernel) {
  const CaptureOfOthers undisturbed(device);
  Result<CUstream> service = device.serviceStream();
  if (!service)
    return service.error();
  Stream stream(device, *service, true);
  const Driver &driver = device.driver;

  Memory memory(device);
  const auto operand = [&](bool isTransposed, int64_t rows, int64_t columns, int64_t stride, int64_t step) {
    return memory.add(isTransposed ? bytesOf(columns, rows, stride, step, call.batch)
                                   : bytesOf(rows, columns, stride, step, call.batch));
  };
  const uint64_t first = operand(call.firstTransposed, call.rows, call.terms, call.firstStride, call.firstStep),
                 second = operand(call.secondTransposed, call.terms, call.columns, call.secondStride, call.secondStep),
                 result = operand(false, call.rows, call.columns, call.resultStride, call.resultStep),
                 addend = call.hasAddend ? operand(false, call.rows, call.columns, call.resultStride, call.resultStep)
                                         : result,
                 bias = operand(false, call.rows, 1, call.rows, 0), workspace = memory.add(workspaceBytes);
  if (auto taken = memory.take(); !taken)
    return taken.error();
  const auto at = [&](uint64_t part, int64_t element) {
    return memory.start() + part + static_cast<uint64_t>(element * elementBytes);
  };

  Result<void> done =
      device.check(driver.memsetD8Async(memory.start(), 0, memory.bytes(), *service), "cuMemsetD8Async");
  const auto write = [&](MortiseAddress target, const uint16_t &bits) {
    if (done)
      done = device.check(driver.memcpyHtoDAsync(target, &bits, sizeof bits, *service), "cuMemcpyHtoDAsync");
  };
  const Bits &bits = call.dtype == MORTISE_F16 ? f16 : bf16;
  const int64_t rows[] = {0, call.rows - 1}, columns[] = {0, call.columns - 1};
  for (const int64_t row : rows) {
    write(at(first, call.firstTransposed ? row * call.firstStride : row), bits.factor);
    write(at(bias, row), call.hasAddend ? bits.halfBias : bits.bias);
    for (const int64_t column : columns)
      if (call.hasAddend)
        write(at(addend, row + column * call.resultStride), bits.halfBias);
  }
  for (const int64_t column : columns)
    write(at(second, call.secondTransposed ? column : column * call.secondStride), bits.factor);
  if (done)
    if (auto queued = kernel({at(first, 0), at(second, 0), at(result, 0), at(bias, 0), at(addend, 0)}, at(workspace, 0),
                             *service);
        !queued)
      done = libraryError(stream, queued.error());
  std::array<uint16_t, 4> results{};
  for (size_t i = 0; done && i < results.size(); ++i)
    done =
        device.check(driver.memcpyDtoHAsync(&results[i], at(result, rows[i / 2] + columns[i % 2] * call.resultStride),
                                            sizeof results[i], *service),
                     "cuMemcpyDtoHAsync");
  // Also after an error: what is queued writes to `results`.
  const Result<void> waited = device.check(driver.streamSynchronize(*service), "cuStreamSynchronize");
  if (!done || !waited)
    return done ? waited.error() : done.error();
  return std::ranges::all_of(results, [&](uint16_t found) { return found == bits.result; });
}

} // namespace mortise::cuda
