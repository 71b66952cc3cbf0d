// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "hsaco.hpp"

#include <llvm-c/Disassembler.h>
#include <llvm-c/Target.h>
#include <llvm/BinaryFormat/MsgPackDocument.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/MemoryBuffer.h>

#include <set>

namespace mortise::codegen::test {

namespace {

Error broken(const std::string &what) {
  return {MORTISE_INVALID_ARGUMENT, "expected a code object of AMD's, found " + what};
}

Result<HsacoKernel> kernelOf(llvm::msgpack::MapDocNode &from) {
  std::string missing;
  const auto number = [&](const char *key) -> uint64_t {
    llvm::msgpack::DocNode &node = from[key];
    if (node.getKind() == llvm::msgpack::Type::UInt)
      return node.getUInt();
    missing += std::string(missing.empty() ? "" : ", ") + key;
    return 0;
  };
  HsacoKernel kernel;
  kernel.name = from[".name"].toString();
  kernel.wave = number(".wavefront_size");
  kernel.blockThreads = number(".max_flat_workgroup_size");
  kernel.vgprs = number(".vgpr_count");
  kernel.sgprs = number(".sgpr_count");
  kernel.spilled = number(".vgpr_spill_count") + number(".sgpr_spill_count");
  kernel.scratchBytes = number(".private_segment_fixed_size");
  kernel.sharedBytes = number(".group_segment_fixed_size");
  kernel.argumentBytes = number(".kernarg_segment_size");
  if (!missing.empty())
    return broken("metadata of " + kernel.name + " without " + missing);
  return kernel;
}

} // namespace

Result<Hsaco> readHsaco(const std::string &code) {
  auto file = llvm::object::ELF64LEObjectFile::create(llvm::MemoryBufferRef(code, "kernel"));
  if (!file)
    return broken(llvm::toString(file.takeError()));
  Hsaco found;
  found.chip = file->tryGetCPUName().value_or("").str();
  std::set<std::string> symbols;
  for (const llvm::object::ELFSymbolRef symbol : file->getDynamicSymbolIterators())
    if (auto name = symbol.getName())
      symbols.insert(name->str());
    else
      llvm::consumeError(name.takeError());
  const auto &elf = file->getELFFile();
  auto sections = elf.sections();
  if (!sections)
    return broken(llvm::toString(sections.takeError()));
  for (const auto &section : *sections) {
    if (section.sh_type != llvm::ELF::SHT_NOTE)
      continue;
    llvm::Error error = llvm::Error::success();
    for (const auto note : elf.notes(section, error)) {
      if (note.getType() != llvm::ELF::NT_AMDGPU_METADATA)
        continue;
      llvm::msgpack::Document document;
      if (!document.readFromBlob(note.getDescAsStringRef(4), false))
        return broken("metadata that is no MessagePack");
      llvm::msgpack::DocNode &kernels = document.getRoot().getMap()["amdhsa.kernels"];
      for (llvm::msgpack::DocNode &each : kernels.getArray()) {
        auto kernel = kernelOf(each.getMap());
        if (!kernel)
          return kernel.error();
        found.kernels.push_back(std::move(*kernel));
      }
    }
    if (error)
      return broken(llvm::toString(std::move(error)));
  }
  for (const HsacoKernel &kernel : found.kernels)
    if (!symbols.contains(kernel.name + ".kd"))
      return broken("no descriptor of " + kernel.name);
  return found;
}

Result<std::string> disassemble(const std::string &code) {
  const auto read = readHsaco(code);
  if (!read)
    return read.error();
  LLVMInitializeAMDGPUTargetInfo();
  LLVMInitializeAMDGPUTargetMC();
  LLVMInitializeAMDGPUDisassembler();
  const std::unique_ptr<void, decltype(&LLVMDisasmDispose)> with(
      LLVMCreateDisasmCPU("amdgcn-amd-amdhsa", read->chip.c_str(), nullptr, 0, nullptr, nullptr), &LLVMDisasmDispose);
  if (!with)
    return Error{MORTISE_UNSUPPORTED, "no disassembler for " + read->chip};
  auto file = llvm::object::ELF64LEObjectFile::create(llvm::MemoryBufferRef(code, "kernel"));
  if (!file)
    return broken(llvm::toString(file.takeError()));
  std::string text;
  for (const llvm::object::SectionRef &section : file->sections()) {
    if (!section.isText())
      continue;
    auto bytes = section.getContents();
    if (!bytes)
      return broken(llvm::toString(bytes.takeError()));
    for (size_t at = 0; at < bytes->size();) {
      char line[256];
      auto *from = reinterpret_cast<uint8_t *>(const_cast<char *>(bytes->data()) + at); // is not changed
      const size_t taken = LLVMDisasmInstruction(with.get(), from, bytes->size() - at, at, line, sizeof line);
      text += taken ? std::string(line) + "\n" : "";
      at += taken ? taken : 4; // what pads kernels may be no instruction
    }
  }
  return text;
}

std::string excess(const HsacoKernel &kernel) {
  constexpr uint64_t mostShared = 64 << 10; // of a block, on all of them
  std::string text;
  const auto check = [&](uint64_t has, uint64_t most, const char *what) {
    if (has > most)
      text += (text.empty() ? "" : "; ") + std::to_string(has) + " " + what + ", at most " + std::to_string(most);
  };
  check(kernel.spilled, 0, "spilled registers");
  check(kernel.scratchBytes, 0, "bytes of scratch memory");
  check(kernel.sharedBytes, mostShared, "bytes of a block's memory");
  // Registers of a SIMD's lane: 512 for 64 threads, 1024 (gfx11 and gfx12: 1536) for 32, given to a wave in blocks of 8
  // at least. A block's waves lie on four SIMDs; in gfx11 and gfx12 on four, too, of a pair of compute units.
  const uint64_t waves = (kernel.blockThreads + kernel.wave - 1) / kernel.wave, ofSimd = (waves + 3) / 4;
  check(ofSimd * ((kernel.vgprs + 7) / 8 * 8), kernel.wave == 64 ? 512 : 1024, "registers of a SIMD");
  return text;
}

} // namespace mortise::codegen::test
