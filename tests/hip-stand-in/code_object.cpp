// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "code_object.hpp"

#include "../../sdk/codegen/test/block_run.hpp"

#include <nlohmann/json.hpp>

#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>

namespace mortise::stand_in {

namespace {

constexpr unsigned amdgpuMachine = 224, hsaAbi = 64, metadataNote = 32; // EM_AMDGPU, ELFOSABI_AMDGPU_HSA
constexpr unsigned architectureBits = 0xff;                             // EF_AMDGPU_MACH

// EF_AMDGPU_MACH_AMDGCN_*.
const std::map<unsigned, const char *> architectures = {{0x3f, "gfx90a"},  {0x4c, "gfx942"},  {0x4f, "gfx950"},
                                                        {0x41, "gfx1100"}, {0x4e, "gfx1201"}, {0x36, "gfx1030"}};

std::invalid_argument broken(const std::string &what) {
  return std::invalid_argument("expected a code object of AMD's, found " + what);
}

const Elf64_Ehdr &headerOf(const char *image) { return *reinterpret_cast<const Elf64_Ehdr *>(image); }

KernelMetadata metadataOf(const nlohmann::json &from) {
  KernelMetadata kernel;
  kernel.wave = from.at(".wavefront_size");
  kernel.blockThreads = from.at(".max_flat_workgroup_size");
  kernel.sharedBytes = from.at(".group_segment_fixed_size");
  kernel.scratchBytes = from.at(".private_segment_fixed_size");
  kernel.argumentBytes = from.at(".kernarg_segment_size");
  if (from.contains(".args"))
    for (const auto &argument : from[".args"])
      kernel.arguments.push_back(
          {argument.at(".offset"), argument.at(".size"), argument.at(".value_kind") == "global_buffer"});
  return kernel;
}

} // namespace

CodeObject::CodeObject(const char *image) {
  const Elf64_Ehdr &header = headerOf(image);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    throw broken("no ELF file");
  if (header.e_machine != amdgpuMachine || header.e_ident[EI_OSABI] != hsaAbi || header.e_type != ET_DYN)
    throw broken("an ELF file for machine " + std::to_string(header.e_machine));
  const auto known = architectures.find(header.e_flags & architectureBits);
  if (known == architectures.end())
    throw broken("one for an architecture that the stand-in does not know");
  architecture = known->second;
  readMetadata(image);
  loadEmulated(image);
}

CodeObject::~CodeObject() {
  if (library)
    dlclose(library);
  if (file >= 0)
    close(file);
}

void CodeObject::readMetadata(const char *image) {
  const Elf64_Ehdr &header = headerOf(image);
  const auto *sections = reinterpret_cast<const Elf64_Shdr *>(image + header.e_shoff);
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    if (sections[i].sh_type != SHT_NOTE)
      continue;
    const auto padded = [](uint64_t bytes) { return (bytes + 3) / 4 * 4; };
    for (uint64_t at = sections[i].sh_offset, end = at + sections[i].sh_size; at < end;) {
      const auto &note = *reinterpret_cast<const Elf64_Nhdr *>(image + at);
      const char *text = image + at + sizeof note + padded(note.n_namesz);
      at += sizeof note + padded(note.n_namesz) + padded(note.n_descsz);
      if (note.n_type != metadataNote)
        continue;
      const auto document = nlohmann::json::from_msgpack(text, text + note.n_descsz, true, false);
      if (document.is_discarded())
        throw broken("metadata that are no MessagePack");
      for (const auto &kernel : document.at("amdhsa.kernels"))
        kernels.emplace(kernel.at(".name"), metadataOf(kernel));
    }
  }
  if (kernels.empty())
    throw broken("one without kernels");
}

void CodeObject::loadEmulated(const char *image) {
  using codegen::test::EmulatedCall;
  const Elf64_Ehdr &header = headerOf(image);
  const char *end = image + header.e_shoff + uint64_t{header.e_shnum} * header.e_shentsize; // as lld writes it
  EmulatedTrailer trailer;
  std::memcpy(&trailer, end, sizeof trailer);
  if (std::memcmp(trailer.mark, EmulatedTrailer::signature, sizeof trailer.mark) != 0)
    throw broken("no emulated kernels behind it: load the plugin of tests/hip-stand-in/plugin");
  synchronises = trailer.synchronises != 0;
  file = memfd_create("emulated", MFD_CLOEXEC);
  const char *bytes = end + sizeof trailer;
  if (file < 0 || write(file, bytes, trailer.bytes) != static_cast<ssize_t>(trailer.bytes))
    throw broken("no memory for emulated kernels");
  library = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw broken(std::string("emulated kernels that cannot be loaded: ") + dlerror());
  if (auto *table = static_cast<void **>(dlsym(library, "mortise_emulated_functions")))
    for (unsigned i = 0; i < static_cast<unsigned>(EmulatedCall::Count); ++i)
      table[i] = codegen::test::emulatedFunction(static_cast<EmulatedCall>(i));
}

void *CodeObject::entry(const std::string &kernel) const { return dlsym(library, kernel.c_str()); }

} // namespace mortise::stand_in
