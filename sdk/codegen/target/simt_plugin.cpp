// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/codegen/simt_plugin.hpp>

#include <numeric>

namespace mortise::codegen {

static constexpr uint64_t alignment = 256;
static constexpr uint64_t most = UINT64_C(1) << 46; // bytes; keeps sums far from overflow

Result<uint64_t> placeBuffers(std::span<const Buffer> buffers, std::span<const uint64_t> bytes,
                              std::vector<uint64_t> &offsets) {
  const auto rounded = [&](uint32_t i) { return (bytes[i] + alignment - 1) / alignment * alignment; };
  std::vector<uint32_t> order(buffers.size()), placed; // `placed`: by offset
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](uint32_t x, uint32_t y) { return bytes[x] != bytes[y] ? bytes[x] > bytes[y] : x < y; });
  offsets.assign(buffers.size(), 0);
  uint64_t end = 0;
  for (const uint32_t i : order) {
    if (bytes[i] > most)
      return Error{MORTISE_UNSUPPORTED, "expected values of at most 2^46 bytes between kernels, found " +
                                            std::to_string(bytes[i]) + "; run the graph on smaller tensors"};
    uint64_t at = 0;
    for (const uint32_t other : placed) {
      // A step reads its inputs while it writes its outputs, so that both live in it.
      if (buffers[other].last < buffers[i].first || buffers[i].last < buffers[other].first)
        continue;
      if (at + rounded(i) <= offsets[other])
        break;
      at = std::max(at, offsets[other] + rounded(other));
    }
    offsets[i] = at;
    end = std::max(end, at + rounded(i));
    const auto behind = [&](uint32_t x, uint32_t y) { return offsets[x] < offsets[y]; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i, behind), i);
  }
  return end;
}

Result<SimtCompiler *> sharedCompiler(const SimtTarget &target) {
  static std::mutex mutex;
  // Never destroyed: the process's exit frees it.
  static auto *made = new std::map<std::string, std::unique_ptr<SimtCompiler>>;
  std::lock_guard lock(mutex);
  std::unique_ptr<SimtCompiler> &compiler = (*made)[target.chip + " " + target.features];
  if (!compiler) {
    auto created = SimtCompiler::create(target);
    if (!created)
      return created.error();
    compiler = std::move(*created);
  }
  return compiler.get();
}

} // namespace mortise::codegen
