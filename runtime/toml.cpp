// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "toml.hpp"

#include <mortise/runtime/files.hpp>

#include <toml++/toml.h>

#include <optional>
#include <sstream>

namespace mortise::runtime {
namespace {

std::optional<std::string> textOf(const toml::node &node) {
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
  return std::nullopt;
}

TomlValue valueOf(const toml::node &node) {
  TomlValue value;
  auto add = [&](const toml::node &part) {
    if (auto text = textOf(part))
      value.texts.push_back(std::move(*text));
    else
      value.kind = TomlKind::Other;
  };
  if (const auto *array = node.as_array()) {
    value.kind = TomlKind::List;
    for (const toml::node &element : *array)
      add(element);
  } else {
    add(node);
  }
  return value;
}

void flatten(const toml::table &table, const std::string &prefix, TomlTable &out) {
  for (const auto &[name, node] : table) {
    const std::string key = prefix + std::string(name.str());
    const auto *array = node.as_array();
    if (const auto *inner = node.as_table())
      flatten(*inner, key + ".", out);
    else if (array && !array->empty() && array->is_homogeneous<toml::table>())
      for (size_t i = 0; i < array->size(); ++i)
        flatten(*array->get(i)->as_table(), key + "." + std::to_string(i) + ".", out);
    else
      out[key] = valueOf(node);
  }
}

// The line with a key of more parts than anybody writes, or 0. toml++ makes a table of each part, and walks and frees
// tables by recursion. A key is on one line; what stands in quotes is part of no other key.
size_t lineOfDeepKey(std::string_view content) {
  constexpr int mostDots = 64;
  size_t line = 1;
  int dots = 0;
  char quote = 0;
  for (const char c : content) {
    if (c == '\n') {
      ++line;
      dots = quote = 0;
    } else if (quote) {
      quote = c == quote ? 0 : quote;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '.' && ++dots > mostDots) {
      return line;
    }
  }
  return 0;
}

} // namespace

Result<TomlTable> readToml(const std::string &path) {
  constexpr uint64_t mostBytes = 1 << 20;
  auto bytes = readFile(path, mostBytes);
  if (!bytes)
    return bytes.error();
  const std::string_view content(reinterpret_cast<const char *>(bytes->data()), bytes->size());
  if (const size_t line = lineOfDeepKey(content))
    return Error{MORTISE_INVALID_ARGUMENT,
                 path + ":" + std::to_string(line) + ": expected keys of a few parts, found one of more than 64"};
  toml::parse_result parsed = toml::parse(content, std::string_view(path));
  if (!parsed)
    return Error{MORTISE_INVALID_ARGUMENT, path + ":" + std::to_string(parsed.error().source().begin.line) +
                                               ": not valid TOML: " + std::string(parsed.error().description())};
  TomlTable table;
  flatten(parsed.table(), "", table);
  return table;
}

} // namespace mortise::runtime
