// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "toml.hpp"

#include <toml++/toml.h>

#include <fstream>
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
  flatten(parsed.table(), "", table);
  return table;
}

} // namespace mortise::runtime
