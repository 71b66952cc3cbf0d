// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "target/x86/saved.hpp"

#include <cstring>

namespace mortise::codegen {
namespace {

constexpr uint64_t endOfFunction = 0x6e6f6974636e7566;

class Writer {
public:
  explicit Writer(std::vector<std::byte> &bytes) : bytes(bytes) {}
  void raw(const void *data, size_t count) {
    const auto *from = static_cast<const std::byte *>(data);
    bytes.insert(bytes.end(), from, from + count);
  }
  void number(uint64_t value) { raw(&value, sizeof value); }
  void text(const std::string &value) {
    number(value.size());
    raw(value.data(), value.size());
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
class Reader {
public:
  explicit Reader(std::span<const std::byte> bytes) : left(bytes) {}
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

} // namespace

void append(std::vector<std::byte> &bytes, const std::string &key, const Compiled &compiled) {
  Writer out(bytes);
  out.text(key);
  out.text(compiled.symbol);
  out.text(compiled.object);
  const Function &function = compiled.function;
  for (const Dim *dim : {&function.tasks, &function.grain, &function.scratchBytes, &function.bytes, &function.flops})
    out.dim(*dim);
  out.number(function.over.size());
  for (const std::vector<uint32_t> &inputs : function.over) {
    out.number(inputs.size());
    out.raw(inputs.data(), inputs.size() * sizeof(uint32_t));
  }
  out.number(endOfFunction);
}

Result<std::vector<SavedFunction>> readFunctions(std::span<const std::byte> bytes) {
  std::vector<SavedFunction> all;
  for (Reader in(bytes); !in.atEnd();) {
    SavedFunction &saved = all.emplace_back();
    saved.key = in.text();
    saved.compiled.symbol = in.text();
    saved.compiled.object = in.text();
    Function &function = saved.compiled.function;
    for (Dim *dim : {&function.tasks, &function.grain, &function.scratchBytes, &function.bytes, &function.flops})
      *dim = in.dim();
    function.over.resize(in.count(sizeof(uint64_t)));
    for (std::vector<uint32_t> &inputs : function.over) {
      inputs.resize(in.count(sizeof(uint32_t)));
      in.raw(inputs.data(), inputs.size() * sizeof(uint32_t));
    }
    if (in.number() != endOfFunction || in.failed)
      return Error{MORTISE_CORRUPT, "saved functions: expected function " + std::to_string(all.size()) +
                                        " to be whole, found its bytes damaged"};
  }
  return all;
}

} // namespace mortise::codegen
