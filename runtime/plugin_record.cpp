// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "plugin_record.hpp"

#include <mortise/plugin.h>
#include <mortise/runtime/files.hpp>

#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
// EVP would bring OpenSSL's providers into every program that is linked with the runtime, for one function.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

namespace mortise::runtime {
namespace {

using Json = nlohmann::json;
constexpr uint64_t mostBytes = 1 << 16;

std::string hex(std::span<const unsigned char> bytes) {
  std::string text;
  for (const unsigned char byte : bytes)
    for (const int digit : {byte >> 4, byte & 15})
      text += "0123456789abcdef"[digit];
  return text;
}

std::string hash(std::span<const std::byte> bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256_CTX state;
  SHA256_Init(&state);
  SHA256_Update(&state, bytes.data(), bytes.size());
  SHA256_Final(digest.data(), &state);
  return hex(digest);
}

// nullopt: there is no folder that is this user's alone.
std::optional<std::string> fileOf(const std::string &library) {
  const std::string folder = cacheFolder("plugins");
  if (!makePrivateFolder(folder))
    return std::nullopt;
  return folder + "/" + hash(std::as_bytes(std::span(library))).substr(0, 32) + ".json";
}

// The identity, and what else decides whether a record holds.
Json keyOf(const std::string &library, const FileIdentity &identity) {
  return {library,           identity.device,  identity.inode,      identity.size,
          identity.modified, identity.changed, MORTISE_ABI_REVISION};
}

} // namespace

FileIdentity identityOf(const struct stat &info) {
  const auto nanoseconds = [](const timespec &time) { return time.tv_sec * INT64_C(1000000000) + time.tv_nsec; };
  return {info.st_dev, info.st_ino, info.st_size, nanoseconds(info.st_mtim), nanoseconds(info.st_ctim)};
}

std::optional<PluginRecord> findPluginRecord(const std::string &library, const FileIdentity &identity) {
  const auto file = fileOf(library);
  if (!file)
    return std::nullopt;
  const auto bytes = readFile(*file, mostBytes);
  if (!bytes)
    return std::nullopt;
  const auto *text = reinterpret_cast<const char *>(bytes->data());
  const Json kept = Json::parse(text, text + bytes->size(), nullptr, false);
  if (!kept.is_object() || kept.value("key", Json()) != keyOf(library, identity) || !kept["sha256"].is_string() ||
      !kept["proven"].is_boolean())
    return std::nullopt;
  return PluginRecord{kept["sha256"], kept["proven"]};
}

void keepPluginRecord(const std::string &library, const FileIdentity &identity, const PluginRecord &record) {
  using namespace std::chrono;
  const nanoseconds age = system_clock::now().time_since_epoch() - nanoseconds(identity.changed);
  const auto file = fileOf(library);
  if (age < 2s || !file)
    return;
  const std::string text =
      Json{{"key", keyOf(library, identity)}, {"sha256", record.sha256}, {"proven", record.proven}}.dump();
  (void)replaceFile(*file, std::as_bytes(std::span(text)), {.mode = 0600, .durable = false});
}

Result<std::string> sha256Of(const std::string &file) {
  const auto bytes = readFile(file);
  if (!bytes)
    return bytes.error();
  return hash(*bytes);
}

} // namespace mortise::runtime
