// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What compiled functions are saved as: numbers of 8 bytes, and text behind its length. Only the build that wrote them
// reads them.
#pragma once

#include <mortise/dim.hpp>

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace mortise::codegen {

class ByteWriter {
public:
  explicit ByteWriter(std::vector<std::byte> &bytes) : bytes(bytes) {}
  void raw(const void *data, size_t count) {
    const auto *from = static_cast<const std::byte *>(data);
    bytes.insert(bytes.end(), from, from + count);
  }
  void number(uint64_t value) { raw(&value, sizeof value); }
  void text(const std::string &value) {
    number(value.size());
    raw(value.data(), value.size());
  }
  void list(const std::vector<uint32_t> &numbers) {
    number(numbers.size());
    raw(numbers.data(), numbers.size() * sizeof(uint32_t));
  }
  void dim(const Dim &value) {
    const std::vector<MortiseExprStep> steps = value.steps();
    number(steps.size());
    raw(steps.data(), steps.size() * sizeof(MortiseExprStep));
  }

private:
  std::vector<std::byte> &bytes;
};

// After a read beyond the end all reads give zeros, and `failed` is set.
class ByteReader {
public:
  explicit ByteReader(std::span<const std::byte> bytes) : left(bytes) {}
  bool failed = false;
  bool atEnd() const { return left.empty(); }

  void raw(void *into, size_t count) {
    if (count == 0)
      return;
    failed |= count > left.size();
    if (failed) {
      std::memset(into, 0, count);
      return;
    }
    std::memcpy(into, left.data(), count);
    left = left.subspan(count);
  }
  uint64_t number() {
    uint64_t value = 0;
    raw(&value, sizeof value);
    return value;
  }
  // The number of items of `size` bytes that follow.
  size_t count(size_t size) {
    const uint64_t found = number();
    failed |= found > left.size() / size;
    return failed ? 0 : static_cast<size_t>(found);
  }
  std::string text() {
    std::string value(count(1), '\0');
    raw(value.data(), value.size());
    return value;
  }
  std::vector<uint32_t> list() {
    std::vector<uint32_t> numbers(count(sizeof(uint32_t)));
    raw(numbers.data(), numbers.size() * sizeof(uint32_t));
    return numbers;
  }
  Dim dim() {
    constexpr size_t mostSymbols = 1 << 16;
    std::vector<MortiseExprStep> steps(count(sizeof(MortiseExprStep)));
    raw(steps.data(), steps.size() * sizeof(MortiseExprStep));
    auto value = Dim::from(steps, mostSymbols);
    failed |= !value;
    return value ? *value : Dim(0);
  }

private:
  std::span<const std::byte> left;
};

} // namespace mortise::codegen
