// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Wrong reads and writes of a node's memory, and races within a node.
#include "node.hpp"

#include <mortise/plugin.hpp>

#include <cstring>
#include <mutex>

namespace saboteur {
namespace {

constexpr int64_t lanes = 8;
constexpr size_t vectorBytes = 32;

void copyElement(const Tensor &tensor, int64_t to, int64_t from) {
  const auto size = static_cast<int64_t>(mortise::dtypeBits(tensor.dtype()) / 8);
  std::memcpy(tensor.data + to * size, tensor.data + from * size, static_cast<size_t>(size));
}

// Reads that leave no trace but a fault of the page.
void touch(const std::byte *begin, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)
    (void)*const_cast<const volatile std::byte *>(begin + i);
}

bool elementwiseBuffers(NodeRun &run) {
  const Tensor to = run.result();
  const int64_t count = to.count();
  if (is(Fault::TailUnwritten))
    return count < lanes;
  if (is(Fault::TailShortLane) && count > lanes && count % lanes) {
    run.interpret();
    copyElement(to, count - 1, count - 1 - lanes);
    return true;
  }
  if (is(Fault::Index16Bits) && count > 65536) {
    run.interpret();
    for (int64_t i = 65536; i < count; ++i)
      copyElement(to, i, i % 65536);
    return true;
  }
  if (is(Fault::WritePastEnd) && count) {
    run.interpret();
    const size_t bytes = to.bytes();
    std::memset(to.data + bytes, 0, (vectorBytes - bytes % vectorBytes) % vectorBytes);
    return true;
  }
  if ((is(Fault::ReadPastEnd) || is(Fault::ReadBeforeBegin)) && count)
    for (const Tensor &operand : run.operands)
      is(Fault::ReadPastEnd) ? touch(operand.data + operand.bytes(), vectorBytes)
                             : touch(operand.data - vectorBytes, vectorBytes);
  return false;
}

bool sumInThreads(NodeRun &run) {
  const Tensor x = run.operand(0);
  if (run.count() != 1 || x.count() < 4096 || !x.hasFloats())
    return false;
  if (is(Fault::RaceInSum)) {
    volatile double sum = 0;
    mortise::parallelFor(x.count(), 1024, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        sum = sum + x.number(i);
    });
    run.result().put(0, sum);
    return true;
  }
  constexpr int64_t block = 256;
  float sum = 0;
  std::mutex mutex;
  mortise::parallelFor((x.count() + block - 1) / block, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      float part = 0;
      for (int64_t i = b * block; i < std::min(x.count(), (b + 1) * block); ++i)
        part += static_cast<float>(x.number(i));
      const std::lock_guard lock(mutex);
      sum += part;
    }
  });
  run.result().put(0, static_cast<double>(sum));
  return true;
}

// Adds a partial sum of the workspace, as a kernel does that forgets to clear it.
bool sumOntoWorkspace(NodeRun &run) {
  if (!run.result().hasFloats() || run.count() == 0)
    return false;
  run.interpret();
  double part = 0;
  std::memcpy(&part, run.kept, sizeof part);
  part += run.result().number(0);
  std::memcpy(run.kept, &part, sizeof part);
  run.result().put(0, part);
  return true;
}

bool softmaxInPlace(NodeRun &run) {
  run.interpret();
  const Tensor x = run.operand(0);
  double most = -INFINITY;
  for (int64_t i = 0; i < x.count(); ++i)
    most = std::max(most, x.number(i));
  for (int64_t i = 0; i < x.count(); ++i)
    x.put(i, x.number(i) - most);
  return true;
}

bool storeBooleansWrongly(NodeRun &run) {
  run.interpret();
  for (const Tensor &result : run.results)
    for (int64_t i = 0; result.dtype() == MORTISE_I1 && i < result.count(); ++i)
      result.data[i] = result.data[i] == std::byte(0) ? std::byte(0) : std::byte(255);
  return true;
}

bool storeHalfBytesWrongly(NodeRun &run) {
  const Tensor to = run.result();
  const std::byte before = to.data[to.bytes() - 1];
  run.interpret();
  to.data[to.bytes() - 1] = before;
  return true;
}

} // namespace

bool buffersWrongly(NodeRun &run) {
  const Tensor to = run.result();
  const bool reduces = run.isOneOf({Op::ReduceSum, Op::ReduceProd, Op::ReduceMax, Op::ReduceMin, Op::Mean});
  if (is(Fault::BooleansAllOnes))
    return storeBooleansWrongly(run);
  if (is(Fault::HalfByteUnwritten) && to.dtype() == MORTISE_I4 && to.count() % 2)
    return storeHalfBytesWrongly(run);
  if (is(Fault::EmptyReductionUnwritten))
    return reduces && run.operand(0).count() == 0;
  if (is(Fault::InputWritten) && run.op == Op::Softmax)
    return softmaxInPlace(run);
  if (is(Fault::WorkspaceDirty) && run.op == Op::ReduceSum)
    return sumOntoWorkspace(run);
  if ((is(Fault::RaceInSum) || is(Fault::OrderOfArrival)) && run.op == Op::ReduceSum)
    return sumInThreads(run);
  return run.isElementwise() && to.dtype() != MORTISE_I4 && elementwiseBuffers(run);
}

} // namespace saboteur
