// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "given.hpp"

#include <mortise/conformance/error_bounds.hpp>
#include <mortise/ops.hpp>
#include <mortise/reference/formats.hpp>
#include <mortise/reference/interpreter.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>

namespace mortise::conformance {
namespace {

namespace fs = std::filesystem;

std::string beside(const std::string &path, const char *extension) {
  return fs::path(path).replace_extension(extension).string();
}

// A file that holds tensors one after the other.
class Pieces {
public:
  explicit Pieces(std::string path) : path(std::move(path)) {
    std::ifstream file(this->path, std::ios::binary);
    content.assign(std::istreambuf_iterator<char>(file), {});
  }
  // Less than was asked for at the end of the file.
  std::span<const std::byte> take(size_t size) {
    asked += size;
    const auto all = std::as_bytes(std::span(content));
    const size_t begin = std::min(asked - size, all.size());
    return all.subspan(begin, std::min(size, all.size() - begin));
  }
  Result<void> atEnd() const {
    if (asked == content.size())
      return {};
    return Error{MORTISE_INVALID_ARGUMENT,
                 path + ": expected " + std::to_string(asked) + " bytes, found " + std::to_string(content.size())};
  }

private:
  const std::string path;
  std::vector<char> content;
  size_t asked = 0;
};

// What an output is expected to be: floats are in f64, with a bound for each.
struct Expected {
  std::span<const std::byte> elements, bounds;
};

double numberAt(std::span<const std::byte> from, size_t i) {
  double value = 0;
  std::memcpy(&value, from.data() + i * sizeof value, sizeof value);
  return value;
}

// "" when the interpreter's result is as expected. `errors`: the standard error of each element, for floats; they may
// be missing.
std::string difference(const MortiseType &type, std::span<const std::byte> found, const Expected &want,
                       std::span<const double> errors) {
  if (!isFloat(type.dtype))
    return std::ranges::equal(found, want.elements) ? "" : "it has other elements";
  return reference::visitFloat(type.dtype, [&](auto format) -> std::string {
    using Format = decltype(format);
    const auto *elements = reinterpret_cast<const typename Format::Storage *>(found.data());
    for (size_t i = 0; i < static_cast<size_t>(elementCount(type)); ++i) {
      const auto value = static_cast<double>(Format::load(elements[i]));
      const double expected = numberAt(want.elements, i);
      const double most = numberAt(want.bounds, i) + (errors.empty() ? 0 : allowed(errors[i], expected, type.dtype));
      const bool isEqual = value == expected || (std::isnan(value) && std::isnan(expected));
      if (isEqual || std::isinf(most) || std::abs(value - expected) <= most)
        continue;
      char line[160];
      snprintf(line, sizeof line, "element %zu: expected %.9g, found %.9g; at most %.3g away", i, expected, value,
               most);
      return line;
    }
    return "";
  });
}

Result<std::string> judgeInterpreter(const std::string &path, const MortiseGraph &graph, const Given &given) {
  Pieces pieces(path);
  std::vector<Expected> wanted;
  std::vector<std::vector<std::byte>> results;
  std::vector<void *> targets;
  std::vector<const void *> sources;
  for (const MortiseValue *output : std::span(graph.outputs, graph.output_count)) {
    const size_t numbers = static_cast<size_t>(elementCount(*output->type)) * sizeof(double);
    const bool hasBounds = isFloat(output->type->dtype);
    const auto elements = pieces.take(hasBounds ? numbers : byteSize(*output->type));
    wanted.push_back({elements, pieces.take(hasBounds ? numbers : 0)});
    targets.push_back(results.emplace_back(byteSize(*output->type)).data());
  }
  if (auto read = pieces.atEnd(); !read)
    return read.error();
  for (const std::vector<std::byte> &input : given.inputs)
    sources.push_back(input.data());
  if (auto done = reference::interpret(graph, sources, targets); !done)
    return done.error();
  for (size_t i = 0; i < results.size(); ++i) {
    const MortiseType &type = *graph.outputs[i]->type;
    std::string why = difference(type, results[i], wanted[i], {});
    if (!why.empty() && isFloat(type.dtype)) {
      auto measured = standardErrors(graph, sources);
      if (!measured)
        return measured.error();
      why = difference(type, results[i], wanted[i], (*measured)[i]);
    }
    if (!why.empty())
      return path + ": the interpreter's output " + std::to_string(i) + ", " + typeString(type) + ": " + why;
  }
  return std::string();
}

} // namespace

bool hasInputs(const std::string &path) {
  std::error_code failed;
  return fs::is_regular_file(beside(path, ".inputs"), failed);
}

Result<std::optional<Given>> readGiven(const std::string &path, const MortiseGraph &graph) {
  if (!hasInputs(path))
    return std::optional<Given>();
  Given given;
  Pieces pieces(beside(path, ".inputs"));
  for (const MortiseValue *input : std::span(graph.inputs, graph.input_count)) {
    const auto bytes = pieces.take(byteSize(*input->type));
    given.inputs.emplace_back(bytes.begin(), bytes.end());
  }
  if (auto read = pieces.atEnd(); !read)
    return read.error();
  std::error_code failed;
  if (const std::string expected = beside(path, ".expected"); fs::is_regular_file(expected, failed)) {
    auto wrong = judgeInterpreter(expected, graph, given);
    if (!wrong)
      return wrong.error();
    given.wrong = std::move(*wrong);
  }
  return std::optional(std::move(given));
}

} // namespace mortise::conformance
