// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "toml.hpp"

#include <mortise/runtime/files.hpp>

#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>

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
    char text[32]; // the shortest that reads back as the same number
    return std::string(text, std::to_chars(std::begin(text), std::end(text), floating->get()).ptr);
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

// False: there are too many keys, or one is too long, so that all of them would take too much memory.
bool flatten(const toml::table &table, const std::string &prefix, TomlTable &out) {
  constexpr size_t longest = 1024, most = 10'000;
  for (const auto &[name, node] : table) {
    const std::string key = prefix + std::string(name.str());
    if (key.size() > longest || out.size() >= most)
      return false;
    const auto *array = node.as_array();
    bool fits = true;
    if (const auto *inner = node.as_table())
      fits = flatten(*inner, key + ".", out);
    else if (array && !array->empty() && array->is_homogeneous<toml::table>())
      for (size_t i = 0; i < array->size() && fits; ++i)
        fits = flatten(*array->get(i)->as_table(), key + "." + std::to_string(i) + ".", out);
    else
      out[key] = valueOf(node);
    if (!fits)
      return false;
  }
  return true;
}

// The line with a key of more parts than anybody writes, or 0. toml++ makes a table of each part, and walks and frees
// tables by recursion. Strings and comments are skipped as TOML 1.0 defines them.
size_t lineOfDeepKey(std::string_view content) {
  constexpr int mostDots = 64;
  size_t line = 1;
  int dots = 0;
  const auto quotesAt = [&](size_t at) { // equal quotation marks from there on
    const size_t end = content.find_first_not_of(content[at], at);
    return (end == std::string_view::npos ? content.size() : end) - at;
  };
  for (size_t i = 0; i < content.size(); ++i) {
    const char c = content[i];
    if (c == '#') {
      i = std::min(content.find('\n', i), content.size()) - 1;
    } else if (c == '"' || c == '\'') {
      const bool lines = quotesAt(i) >= 3;
      for (i += lines ? 3 : 1; i < content.size(); ++i) {
        if (content[i] == '\n' && !lines)
          break; // no TOML: the parser says so
        line += content[i] == '\n';
        if (content[i] == '\\' && c == '"')
          line += ++i < content.size() && content[i] == '\n';
        else if (const size_t quotes = content[i] == c ? quotesAt(i) : 0; quotes >= (lines ? 3u : 1u)) {
          i += lines ? std::min<size_t>(quotes, 5) - 1 : 0; // two of them may belong to the text
          break;
        }
      }
      if (i < content.size() && content[i] == '\n')
        --i; // counted below
    } else if (c == '\n') {
      ++line;
      dots = 0;
    } else if (c == '=' || c == ',' || c == '{' || c == '[') {
      dots = 0;
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
  if (!flatten(parsed.table(), "", table))
    return Error{MORTISE_INVALID_ARGUMENT,
                 path + ": expected at most 10000 keys of at most 1024 bytes with their tables' names, found more"};
  return table;
}

} // namespace mortise::runtime
