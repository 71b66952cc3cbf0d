// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Toml.h"

#include <toml++/toml.h>

#include <fstream>
#include <sstream>

namespace mortise::runtime {
namespace {

Result<std::string> textOf(const toml::node &node, const std::string &key, const std::string &path) {
  if (const auto *string = node.as_string())
    return string->get();
  if (const auto *integer = node.as_integer())
    return std::to_string(integer->get());
  if (const auto *boolean = node.as_boolean())
    return std::string(boolean->get() ? "true" : "false");
  if (const auto *floating = node.as_floating_point()) {
    std::ostringstream text;
    text << floating->get();
    return text.str();
  }
  return Error{MORTISE_INVALID_ARGUMENT, path + ":" + std::to_string(node.source().begin.line) + ": '" + key +
                                             "' expects text, a number, true or false, or a list of them"};
}

Result<void> flatten(const toml::table &table, const std::string &prefix, const std::string &path, TomlTable &out) {
  for (const auto &[name, node] : table) {
    const std::string key = prefix + std::string(name.str());
    if (const auto *inner = node.as_table()) {
      if (auto done = flatten(*inner, key + ".", path, out); !done)
        return done;
      continue;
    }
    TomlValue value;
    value.line = static_cast<int>(node.source().begin.line);
    value.list = node.is_array();
    if (const auto *array = node.as_array()) {
      for (const toml::node &element : *array) {
        auto text = textOf(element, key, path);
        if (!text)
          return text.error();
        value.texts.push_back(*text);
      }
    } else {
      auto text = textOf(node, key, path);
      if (!text)
        return text.error();
      value.texts.push_back(*text);
    }
    out[key] = std::move(value);
  }
  return {};
}

} // namespace

Result<TomlTable> readToml(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return Error{MORTISE_NOT_FOUND, "cannot read '" + path + "'"};
  std::ostringstream text;
  text << file.rdbuf();
  const std::string content = text.str();
  toml::parse_result parsed = toml::parse(std::string_view(content), std::string_view(path));
  if (!parsed)
    return Error{MORTISE_INVALID_ARGUMENT, path + ":" + std::to_string(parsed.error().source().begin.line) +
                                               ": not valid TOML: " + std::string(parsed.error().description())};
  TomlTable table;
  if (auto done = flatten(parsed.table(), "", path, table); !done)
    return done.error();
  return table;
}

} // namespace mortise::runtime
