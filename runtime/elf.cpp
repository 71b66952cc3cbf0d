// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/runtime/elf.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mortise::runtime {
namespace {

#if defined(__x86_64__)
constexpr unsigned machine = EM_X86_64;
constexpr const char *machineName = "x86-64";
#elif defined(__aarch64__)
constexpr unsigned machine = EM_AARCH64;
constexpr const char *machineName = "AArch64";
#else
#error "say which ELF machine this is"
#endif

Error corrupt(const std::string &what) { return {MORTISE_CORRUPT, what}; }
Error truncated(const char *part, uint64_t end, uint64_t size) {
  return corrupt("truncated: its " + std::string(part) + " reaches to byte " + std::to_string(end) + " of a file of " +
                 std::to_string(size) + " bytes; copy or build it again");
}

struct File {
  int descriptor;
  uint64_t size;

  bool holds(uint64_t offset, uint64_t bytes) const { return offset <= size && bytes <= size - offset; }

  template <typename T> bool read(uint64_t offset, T *out, size_t count) const {
    const size_t bytes = count * sizeof(T);
    if (!holds(offset, bytes))
      return false;
    for (size_t done = 0; done < bytes;) {
      const ssize_t got =
          pread(descriptor, reinterpret_cast<char *>(out) + done, bytes - done, static_cast<off_t>(offset + done));
      if (got <= 0)
        return false;
      done += static_cast<size_t>(got);
    }
    return true;
  }

  std::string string(uint64_t offset) const {
    std::string text;
    for (char c; text.size() < 4096 && read(offset + text.size(), &c, 1) && c;)
      text += c;
    return text;
  }
};

Result<void> checkHeader(const File &file, const Elf64_Ehdr &header) {
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != machine)
    return Error{MORTISE_VERSION_MISMATCH, std::string("expected a 64-bit ") + machineName +
                                               " library, found ELF machine " + std::to_string(header.e_machine) +
                                               "; build the plugin for this machine"};
  if (header.e_type != ET_DYN)
    return corrupt("expected a shared library, found ELF type " + std::to_string(header.e_type) +
                   "; link it with -shared");
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0 || header.e_phnum > 512)
    return corrupt("its ELF program headers are malformed; build it again");
  const uint64_t programs = uint64_t{header.e_phnum} * sizeof(Elf64_Phdr);
  if (!file.holds(header.e_phoff, programs))
    return truncated("program headers", header.e_phoff + programs, file.size);
  const uint64_t sections = uint64_t{header.e_shnum} * header.e_shentsize;
  if (header.e_shoff != 0 && !file.holds(header.e_shoff, sections))
    return truncated("section headers", header.e_shoff + sections, file.size);
  return {};
}

// The build id among the notes of a segment; "" when it is not there.
std::string readBuildId(const File &file, const Elf64_Phdr &notes) {
  const uint64_t end = notes.p_offset + notes.p_filesz;
  const auto padded = [](uint64_t size) { return (size + 3) / 4 * 4; };
  Elf64_Nhdr note{};
  for (uint64_t at = notes.p_offset; at + sizeof note <= end && file.read(at, &note, 1);) {
    const uint64_t content = at + sizeof note + padded(note.n_namesz);
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && note.n_descsz <= 64 && content + note.n_descsz <= end) {
      std::vector<unsigned char> bytes(note.n_descsz);
      std::string digits;
      if (file.read(content, bytes.data(), bytes.size()))
        for (const unsigned char byte : bytes)
          for (const int digit : {byte >> 4, byte & 15})
            digits += "0123456789abcdef"[digit];
      return digits;
    }
    at = content + padded(note.n_descsz);
  }
  return "";
}

class Opened {
public:
  explicit Opened(const std::string &path)
      : descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)),
        why(descriptor < 0 ? std::strerror(errno) : ""), path(path) {}
  ~Opened() {
    if (descriptor >= 0)
      close(descriptor);
  }
  Opened(const Opened &) = delete;
  Error error() const { return {MORTISE_NOT_FOUND, path + " cannot be opened: " + why}; }
  const int descriptor;

private:
  const std::string why, path;
};

} // namespace

Result<ElfLibrary> readElf(int descriptor) {
  struct stat info{};
  if (fstat(descriptor, &info) != 0)
    return corrupt(std::string("cannot be examined: ") + std::strerror(errno));
  const File file{descriptor, static_cast<uint64_t>(info.st_size)};
  Elf64_Ehdr header{};
  unsigned char magic[SELFMAG] = {};
  if (!file.read(0, magic, SELFMAG) || std::memcmp(magic, ELFMAG, SELFMAG) != 0)
    return corrupt("expected a shared library (ELF), found something else; give the path of a plugin library");
  if (!file.read(0, &header, 1))
    return truncated("ELF header", sizeof header, file.size);
  if (auto checked = checkHeader(file, header); !checked)
    return checked.error();

  std::vector<Elf64_Phdr> segments(header.e_phnum);
  if (!file.read(header.e_phoff, segments.data(), segments.size()))
    return corrupt("its program headers cannot be read");
  const Elf64_Phdr *dynamic = nullptr;
  for (const Elf64_Phdr &segment : segments) {
    if ((segment.p_type == PT_LOAD || segment.p_type == PT_DYNAMIC) && !file.holds(segment.p_offset, segment.p_filesz))
      return truncated("code or data", segment.p_offset + segment.p_filesz, file.size);
    if (segment.p_type == PT_DYNAMIC)
      dynamic = &segment;
  }
  if (dynamic == nullptr || dynamic->p_filesz > (1 << 20))
    return corrupt("expected a dynamic section, found none that is sound; build it as a shared library");

  std::vector<Elf64_Dyn> entries(dynamic->p_filesz / sizeof(Elf64_Dyn));
  if (!file.read(dynamic->p_offset, entries.data(), entries.size()))
    return corrupt("its dynamic section cannot be read");
  uint64_t strings = 0;
  std::vector<uint64_t> needed;
  for (const Elf64_Dyn &entry : entries) {
    if (entry.d_tag == DT_NULL)
      break;
    if (entry.d_tag == DT_NEEDED)
      needed.push_back(entry.d_un.d_val);
    if (entry.d_tag == DT_STRTAB)
      for (const Elf64_Phdr &segment : segments)
        if (segment.p_type == PT_LOAD && entry.d_un.d_ptr >= segment.p_vaddr &&
            entry.d_un.d_ptr - segment.p_vaddr < segment.p_filesz)
          strings = entry.d_un.d_ptr - segment.p_vaddr + segment.p_offset;
  }
  if (strings == 0)
    return corrupt("its dynamic section names no string table; build it again");
  ElfLibrary library;
  for (uint64_t offset : needed)
    library.needed.push_back(file.string(strings + offset));
  for (const Elf64_Phdr &segment : segments)
    if (segment.p_type == PT_NOTE && library.buildId.empty() && file.holds(segment.p_offset, segment.p_filesz))
      library.buildId = readBuildId(file, segment);
  return library;
}

Result<ElfLibrary> readElf(const std::string &path) {
  const Opened opened(path);
  return opened.descriptor < 0 ? opened.error() : readElf(opened.descriptor);
}

Result<std::vector<std::string>> readExports(const std::string &path) {
  const Opened opened(path);
  if (opened.descriptor < 0)
    return opened.error();
  if (const auto library = readElf(opened.descriptor); !library) // otherwise its headers are sound
    return library.error();
  std::vector<std::string> names;
  struct stat info{};
  fstat(opened.descriptor, &info);
  const File file{opened.descriptor, static_cast<uint64_t>(info.st_size)};
  Elf64_Ehdr header{};
  file.read(0, &header, 1);
  std::vector<Elf64_Shdr> sections(header.e_shentsize == sizeof(Elf64_Shdr) ? header.e_shnum : 0);
  file.read(header.e_shoff, sections.data(), sections.size());
  for (const Elf64_Shdr &section : sections) {
    if (section.sh_type != SHT_DYNSYM || section.sh_link >= sections.size())
      continue;
    const Elf64_Shdr &strings = sections[section.sh_link];
    if (!file.holds(section.sh_offset, section.sh_size) || !file.holds(strings.sh_offset, strings.sh_size))
      continue;
    std::vector<Elf64_Sym> symbols(section.sh_size / sizeof(Elf64_Sym));
    std::string text(strings.sh_size, 0);
    file.read(section.sh_offset, symbols.data(), symbols.size());
    file.read(strings.sh_offset, text.data(), text.size());
    for (const Elf64_Sym &symbol : symbols) {
      const int visibility = ELF64_ST_VISIBILITY(symbol.st_other);
      const bool isSeen = symbol.st_shndx != SHN_UNDEF && symbol.st_shndx != SHN_ABS &&
                          ELF64_ST_BIND(symbol.st_info) != STB_LOCAL &&
                          (visibility == STV_DEFAULT || visibility == STV_PROTECTED);
      const std::string name = symbol.st_name < text.size() ? text.c_str() + symbol.st_name : "";
      if (isSeen && name != "_init" && name != "_fini")
        names.push_back(name);
    }
  }
  std::ranges::sort(names);
  return names;
}

Result<void> checkNeeded(const ElfLibrary &library) {
  for (const std::string &name : library.needed)
    if (name.starts_with("libLLVM") || name.starts_with("libMLIR"))
      return Error{MORTISE_UNSUPPORTED, "needs " + name +
                                            ", and two copies of LLVM in one process abort; link LLVM statically with "
                                            "-Wl,--exclude-libs,ALL and a version script"};
  return {};
}

} // namespace mortise::runtime
