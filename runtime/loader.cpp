// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "loader.hpp"

#include "crash.hpp"
#include "host.hpp"
#include "isolation/proxy.hpp"
#include "plugin_record.hpp"
#include "trust.hpp"
#include <mortise/runtime/call.hpp>
#include <mortise/runtime/elf.hpp>

#include <boost/dll/shared_library.hpp>

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <link.h>
#include <map>
#include <mutex>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace mortise::runtime {
namespace {

struct Descriptor {
  int number = -1;
  ~Descriptor() {
    if (number >= 0)
      close(number);
  }
};

Error refused(MortiseCode code, std::string message) { return {code, std::move(message)}; }

struct Checked {
  FileIdentity identity;
  std::string build; // Plugin::build
};

// `path`: as it was named, perhaps through links. `library`: what it leads to.
Result<Checked> checkFile(const std::string &path, const fs::path &library, std::span<const uid_t> owners) {
  Descriptor descriptor{open(library.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (descriptor.number < 0)
    return refused(errno == ENOENT ? MORTISE_NOT_FOUND : MORTISE_INVALID_ARGUMENT,
                   std::string("cannot be opened: ") + std::strerror(errno));
  struct stat info{};
  if (fstat(descriptor.number, &info) != 0)
    return refused(MORTISE_INVALID_ARGUMENT, std::string("cannot be examined: ") + std::strerror(errno));
  if (!S_ISREG(info.st_mode))
    return refused(MORTISE_INVALID_ARGUMENT, "expected a regular file, found a directory, device or pipe");
  if (auto trusted = checkTrust(path, owners); !trusted)
    return trusted.error();
  auto elf = readElf(descriptor.number);
  if (!elf)
    return elf.error();
  if (!MORTISE_ALLOW_SHARED_LLVM)
    if (auto checked = checkNeeded(*elf); !checked)
      return checked.error();
  const FileIdentity identity = identityOf(info);
  return Checked{identity, elf->buildId.empty() ? identity.text() : elf->buildId};
}

// Keeps objects until the process ends: libraries are never unloaded, and plugins keep pointers to their arguments.
template <typename T> T *keepForever(std::unique_ptr<T> owned) {
  static auto *kept = new std::vector<std::unique_ptr<T>>(); // loadPlugin's mutex guards it
  return kept->emplace_back(std::move(owned)).get();
}

// Whether the symbol at the address is a function's, by the library's own table of symbols.
bool isFunction(const void *address) {
  Dl_info where{};
  const ElfW(Sym) *symbol = nullptr;
  if (dladdr1(address, &where, reinterpret_cast<void **>(const_cast<ElfW(Sym) **>(&symbol)), RTLD_DL_SYMENT) == 0 ||
      symbol == nullptr)
    return false;
  const int type = ELF64_ST_TYPE(symbol->st_info);
  return type == STT_FUNC || type == STT_GNU_IFUNC;
}

// Opens the library and never closes it. Boost.DLL reports errors by exceptions.
Result<MortisePluginFn> openLibrary(const fs::path &library) {
  const AskScope scope("the start", nullptr, library.c_str()); // its constructors
  const FloatGuard guard;
  try {
    const auto *opened = keepForever(std::make_unique<boost::dll::shared_library>(
        library, boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local));
    if (!opened->has(MORTISE_PLUGIN_SYMBOL))
      return refused(MORTISE_INVALID_ARGUMENT,
                     "expected it to export the function " MORTISE_PLUGIN_SYMBOL
                     ", found none; it is a library but not a plugin, or its version script hides it");
    const MortisePluginFn function = &opened->get<const MortisePlugin *()>(MORTISE_PLUGIN_SYMBOL);
    if (!isFunction(reinterpret_cast<const void *>(function)))
      return refused(MORTISE_INVALID_ARGUMENT,
                     "expected " MORTISE_PLUGIN_SYMBOL " to be a function that returns the table, found data; "
                     "export a function as plugin.h declares it");
    return function;
  } catch (const std::exception &exception) {
    std::string text = exception.what();
    const std::string mark = "dlerror system message: ";
    if (const size_t at = text.find(mark); at != std::string::npos)
      text = text.substr(at + mark.size(), text.rfind(')') - at - mark.size());
    return refused(MORTISE_NOT_FOUND, "the dynamic loader refused it: " + text);
  }
}

Result<const MortisePlugin *> askForTable(MortisePluginFn function) {
  const AskScope scope(MORTISE_PLUGIN_SYMBOL, reinterpret_cast<const void *>(function), nullptr);
  const FloatGuard guard;
  try {
    return function();
  } catch (const std::exception &exception) {
    return thrown(MORTISE_PLUGIN_SYMBOL, exception.what());
  } catch (...) {
    return thrown(MORTISE_PLUGIN_SYMBOL, nullptr);
  }
}

Result<void> initialise(LoadedPlugin &loaded, const LoadRequest &request) {
  loaded.host = host();
  loaded.host.abi_revision = loaded.plugin.abiRevision;
  std::vector<MortiseOption> options;
  for (const Setting &setting : request.options)
    options.push_back({setting.key.c_str(), setting.value.c_str()});
  MortiseInitializeArgs args{.struct_size = sizeof(MortiseInitializeArgs),
                             .host = &loaded.host,
                             .plugin_path = loaded.plugin.path.c_str(),
                             .options = options.data(),
                             .option_count = options.size()};
  auto called = call("initialize", loaded.plugin.table->initialize, args);
  if (!called)
    return refused(called.error().code, "its initialize failed: " + called.error().message);
  return {};
}

Result<const LoadedPlugin *> openPlugin(const Manifest &manifest, const LoadRequest &request, const fs::path &library,
                                        const Checked &before) {
  if (request.isolation) {
    auto isolated = isolation::open(manifest, request, library.string());
    return isolated ? Result<const LoadedPlugin *>(keepForever(std::move(*isolated))) : isolated.error();
  }
  auto function = openLibrary(library);
  if (!function)
    return function.error();
  struct stat info{};
  if (stat(library.c_str(), &info) != 0 || !identityOf(info).sameContent(before.identity))
    return refused(MORTISE_CORRUPT, "it was replaced while it was being loaded; start again");
  nameLibrary(reinterpret_cast<const void *>(*function), manifest.name, library.string());
  auto table = askForTable(*function);
  if (!table)
    return table.error();
  MortisePlugin copy{};
  auto revision = checkTable(*table, manifest, copy);
  if (!revision)
    return revision.error();
  LoadedPlugin *loaded = keepForever(std::make_unique<LoadedPlugin>());
  const MortisePlugin &checked = loaded->table = copy;
  loaded->plugin = {checked.name, checked.vendor, checked.version, library.string(), before.build, &checked, *revision};
  if (auto done = initialise(*loaded, request); !done)
    return done.error();
  MortiseDevicesArgs answer{.struct_size = sizeof(MortiseDevicesArgs)};
  if (auto called = call("devices", checked.devices, answer); !called) {
    if (called.error().code != MORTISE_NOT_FOUND)
      return refused(called.error().code, "its devices cannot be listed: " + called.error().message);
    loaded->plugin.deviceless = called.error().message;
    logMessage(MORTISE_INFO, "plugin '" + loaded->plugin.name + "' has no device here: " + called.error().message);
    answer = {.struct_size = sizeof(MortiseDevicesArgs)}; // whatever it wrote
  }
  auto devices = checkDevices(answer, checked, manifest);
  if (!devices)
    return devices.error();
  loaded->devices = std::move(*devices);
  return loaded;
}

Result<void> checkHash(const Manifest &manifest, const std::string &found) {
  if (manifest.sha256.empty() || manifest.sha256 == found)
    return {};
  return refused(MORTISE_CORRUPT,
                 "expected the library of its manifest, with sha256 = \"" + manifest.sha256 + "\", found \"" + found +
                     "\"; install library and manifest together again (mortise_add_plugin writes the line)");
}

// What the record of the file says is not done again.
Result<const LoadedPlugin *> proveAndOpen(const Manifest &manifest, const LoadRequest &request, const fs::path &library,
                                          const Checked &checked) {
  const std::optional<PluginRecord> known = findPluginRecord(library, checked.identity);
  PluginRecord record = known.value_or(PluginRecord{});
  if (!manifest.sha256.empty() && record.sha256.empty()) {
    auto sum = sha256Of(library);
    if (!sum)
      return refused(MORTISE_CORRUPT, sum.error().message);
    record.sha256 = std::move(*sum);
  }
  if (auto hashed = checkHash(manifest, record.sha256); !hashed)
    return hashed.error();
#ifndef MORTISE_SANITIZED // a worker would not have the run time that its parent was given
  if (request.probe && !request.isolation && !record.proven) {
    auto proven = isolation::prove(manifest, request, library);
    if (!proven)
      return proven.error();
    record.proven = *proven;
  }
#endif
  auto opened = openPlugin(manifest, request, library, checked);
  if (opened && (!known || known->sha256 != record.sha256 || known->proven != record.proven))
    keepPluginRecord(library, checked.identity, record);
  return opened;
}

struct Known {
  FileIdentity identity;
  std::optional<Result<const LoadedPlugin *>> answer;
};

} // namespace

Result<void> checkLibrary(const std::string &library) {
  std::error_code failed;
  const fs::path path = fs::canonical(library, failed);
  if (failed)
    return refused(MORTISE_NOT_FOUND, "cannot be opened: " + failed.message());
  auto checked = checkFile(library, path, {});
  return checked ? Result<void>() : checked.error();
}

Result<const LoadedPlugin *> loadPlugin(const Manifest &manifest, const LoadRequest &request) {
  static std::mutex mutex;
  static auto *known = new std::map<std::string, Known>();
  std::error_code failed;
  const fs::path library = fs::canonical(request.files.library, failed);
  if (failed)
    return refused(MORTISE_NOT_FOUND, "cannot be opened: " + failed.message());
  const std::lock_guard lock(mutex);
  auto checked = checkFile(request.files.library, library, request.owners);
  if (!checked)
    return checked.error();
  const std::string key = library.string() + (request.isolation ? " (isolated)" : "");
  auto found = known->find(key);
  if (found == known->end())
    found = known->emplace(key, Known{checked->identity, proveAndOpen(manifest, request, library, *checked)}).first;
  else if (!found->second.identity.sameContent(checked->identity))
    return refused(MORTISE_CORRUPT,
                   "it changed since this process loaded it, and libraries stay loaded; start a new process");
  return *found->second.answer;
}

} // namespace mortise::runtime
