// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "target/bytes.hpp"

#include <mortise/codegen/simt.hpp>

namespace mortise::codegen {

static constexpr uint64_t endOfFunction = 0x746d69536c656e72;

void saveFunction(std::vector<std::byte> &bytes, const SimtFunction &function, const std::string &native) {
  ByteWriter out(bytes);
  for (const std::string *text : {&function.key, &function.code, &function.alignedCode, &native})
    out.text(*text);
  out.number(function.alignment);
  out.number(function.hasTable);
  for (const Dim *dim : {&function.scratchBytes, &function.bytes, &function.flops})
    out.dim(*dim);
  out.number(function.launches.size());
  for (const SimtLaunch &launch : function.launches) {
    out.text(launch.entry);
    out.dim(launch.blocks);
    out.number(launch.threads);
    out.number(launch.sharedBytes);
    out.number(launch.awaits);
    out.dim(launch.iterations);
  }
  out.number(function.arguments.size());
  for (const SimtArgument &argument : function.arguments) {
    out.number(argument.kind);
    out.number(argument.index);
  }
  out.number(function.constants.size());
  for (const std::string &constant : function.constants)
    out.text(constant);
  out.number(function.over.size());
  for (const std::vector<uint32_t> &inputs : function.over)
    out.list(inputs);
  out.number(endOfFunction);
}

static SimtFunction readFunction(ByteReader &in) {
  SimtFunction function;
  for (std::string *text : {&function.key, &function.code, &function.alignedCode, &function.native})
    *text = in.text();
  function.alignment = static_cast<unsigned>(in.number());
  function.hasTable = in.number() != 0;
  for (Dim *dim : {&function.scratchBytes, &function.bytes, &function.flops})
    *dim = in.dim();
  function.launches.resize(in.count(6 * sizeof(uint64_t)));
  for (SimtLaunch &launch : function.launches) {
    launch.entry = in.text();
    launch.blocks = in.dim();
    launch.threads = static_cast<unsigned>(in.number());
    launch.sharedBytes = static_cast<unsigned>(in.number());
    launch.awaits = in.number() != 0;
    launch.iterations = in.dim();
  }
  function.arguments.resize(in.count(2 * sizeof(uint64_t)));
  for (SimtArgument &argument : function.arguments) {
    const uint64_t kind = in.number();
    in.failed |= kind > SimtArgument::Stride;
    argument.kind = static_cast<SimtArgument::Kind>(in.failed ? 0 : kind);
    argument.index = static_cast<uint32_t>(in.number());
  }
  function.constants.resize(in.count(sizeof(uint64_t)));
  for (std::string &constant : function.constants)
    constant = in.text();
  function.over.resize(in.count(sizeof(uint64_t)));
  for (std::vector<uint32_t> &inputs : function.over)
    inputs = in.list();
  in.failed |= in.number() != endOfFunction || function.launches.empty() || function.alignment == 0;
  return function;
}

Result<std::vector<std::shared_ptr<const SimtFunction>>> loadFunctions(std::span<const std::byte> bytes) {
  std::vector<std::shared_ptr<const SimtFunction>> all;
  for (ByteReader in(bytes); !in.atEnd();) {
    all.push_back(std::make_shared<const SimtFunction>(readFunction(in)));
    if (in.failed)
      return Error{MORTISE_CORRUPT, "saved kernels: expected kernel " + std::to_string(all.size()) +
                                        " to be whole, found its bytes damaged"};
  }
  return all;
}

} // namespace mortise::codegen
