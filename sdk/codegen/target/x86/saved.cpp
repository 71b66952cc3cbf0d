// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "target/x86/saved.hpp"

#include "target/bytes.hpp"

namespace mortise::codegen {

static constexpr uint64_t endOfFunction = 0x6e6f6974636e7566;

void append(std::vector<std::byte> &bytes, const std::string &key, const Compiled &compiled) {
  ByteWriter out(bytes);
  out.text(key);
  out.text(compiled.symbol);
  out.text(compiled.object);
  const Function &function = compiled.function;
  for (const Dim *dim : {&function.tasks, &function.grain, &function.scratchBytes, &function.bytes, &function.flops})
    out.dim(*dim);
  out.number(function.over.size());
  for (const std::vector<uint32_t> &inputs : function.over)
    out.list(inputs);
  out.number(endOfFunction);
}

Result<std::vector<SavedFunction>> readFunctions(std::span<const std::byte> bytes) {
  std::vector<SavedFunction> all;
  for (ByteReader in(bytes); !in.atEnd();) {
    SavedFunction &saved = all.emplace_back();
    saved.key = in.text();
    saved.compiled.symbol = in.text();
    saved.compiled.object = in.text();
    Function &function = saved.compiled.function;
    for (Dim *dim : {&function.tasks, &function.grain, &function.scratchBytes, &function.bytes, &function.flops})
      *dim = in.dim();
    function.over.resize(in.count(sizeof(uint64_t)));
    for (std::vector<uint32_t> &inputs : function.over)
      inputs = in.list();
    if (in.number() != endOfFunction || in.failed)
      return Error{MORTISE_CORRUPT, "saved functions: expected function " + std::to_string(all.size()) +
                                        " to be whole, found its bytes damaged"};
  }
  return all;
}

} // namespace mortise::codegen
