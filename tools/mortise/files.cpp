// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "files.hpp"

#include "seam.hpp"

#include <mortise/reference/formats.hpp>

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>

namespace mortise::tool {
namespace {

Error invalid(std::string message) { return {MORTISE_INVALID_ARGUMENT, std::move(message)}; }

} // namespace

Result<std::string> readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::string content((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.is_open() || file.bad())
    return Error{MORTISE_NOT_FOUND, path + ": expected a file that can be read"};
  return content;
}

Result<void> writeFile(const std::string &path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file)
    return invalid(path + ": cannot be written; is the folder there, and writable?");
  return {};
}

bool isProgram(std::string_view content) { return content.starts_with("MRTPROG\n"); } // program_file.hpp

Result<std::shared_ptr<const Graph>> loadGraph(const std::string &path) {
  Result<std::string> content = readFile(path);
  if (!content)
    return content.error();
  // FlatBuffers keep their identifier at byte 4.
  if (content->size() >= 8 && content->compare(4, 4, "MRTG") == 0)
    return Graph::load(std::as_bytes(std::span(content->data(), content->size())));
  if (isProgram(*content))
    return invalid(path + ": expected a graph, found a compiled program, which `mortise run` and `mortise bench` take");
  if (path.ends_with(".mrtg"))
    return Error{MORTISE_CORRUPT, path + ": expected a graph in the portable format (MRTG at byte 4), found " +
                                      std::to_string(content->size()) + " bytes of something else"};
  return parse(*content, path);
}

Result<void> saveGraph(const Graph &graph, const std::string &path) {
  if (path.ends_with(".mrtg"))
    return writeFile(path, graph.bytes());
  if (path != "-" && !path.ends_with(".mlir"))
    return invalid(path + ": expected a name that ends in .mrtg or .mlir, or - for text to standard output");
  Result<std::string> text = print(graph);
  if (!text)
    return text.error();
  if (path != "-")
    return writeFile(path, std::as_bytes(std::span(text->data(), text->size())));
  std::cout << *text;
  return {};
}

Result<std::vector<int64_t>> readNumbers(std::span<const MortiseSymbol *const> symbols,
                                         const std::string &assignments) {
  std::vector<int64_t> values;
  for (size_t i = 0; i < symbols.size(); ++i) {
    const MortiseSymbol &symbol = *symbols[i];
    const int64_t step = symbol.divisor;
    const int64_t least = symbol.min > INT64_MAX - step ? symbol.min : (symbol.min + step - 1) / step * step;
    values.push_back(std::min(std::max((4 + static_cast<int64_t>(i)) / step * step, least), symbol.max));
  }
  std::istringstream list(assignments);
  for (std::string part; std::getline(list, part, ',');) {
    const size_t equals = part.find('=');
    size_t number = 0;
    while (number < symbols.size() && part.substr(0, equals) != symbols[number]->name)
      ++number;
    if (equals == std::string::npos || number == symbols.size())
      return invalid("symbols: expected NAME=NUMBER with a symbol of the graph, found '" + part + "'");
    const char *end = part.data() + part.size();
    if (const auto read = std::from_chars(part.data() + equals + 1, end, values[number]);
        read.ec != std::errc() || read.ptr != end)
      return invalid("symbols: expected a number of 64 bits in '" + part + "'");
  }
  return values;
}

Result<std::shared_ptr<const Graph>> withNumbers(std::shared_ptr<const Graph> graph, const std::string &assignments) {
  const MortiseGraph &view = graph->view();
  const Result<std::vector<int64_t>> values = readNumbers({view.symbols, view.symbol_count}, assignments);
  if (!values)
    return values.error();
  return view.symbol_count == 0 ? Result<std::shared_ptr<const Graph>>(graph) : specialise(view, *values);
}

Result<void> fitsMemory(const MortiseGraph &graph) {
  const uint64_t room = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  uint64_t all = 0;
  for (size_t i = 0; i < graph.value_count; ++i) {
    const uint64_t bytes = byteSize(*graph.values[i]->type);
    if (bytes > room - all)
      return Error{MORTISE_OUT_OF_MEMORY, "running it takes more than this machine's " + std::to_string(room >> 20) +
                                              " MB of memory: value " + std::to_string(i) + " is " +
                                              typeString(*graph.values[i]->type) +
                                              "; choose smaller numbers with --symbols, or reduce it elsewhere"};
    all += bytes;
  }
  return {};
}

Tensors makeInputs(const MortiseGraph &graph, uint64_t seed) {
  Tensors tensors;
  for (size_t i = 0; i < graph.input_count; ++i) {
    const MortiseType &type = *graph.inputs[i]->type;
    std::vector<std::byte> &bytes = tensors.emplace_back(byteSize(type));
    std::mt19937_64 random(seed * 1000003 + i);
    std::normal_distribution<double> normal;
    if (!isFloat(type.dtype)) {
      for (std::byte &byte : bytes)
        byte = std::byte{0};
      const size_t size = std::max<size_t>(dtypeBits(type.dtype) / 8, 1);
      // Sets the low byte only; the formats are little endian.
      for (size_t at = 0; at + size <= bytes.size(); at += size)
        bytes[at] = static_cast<std::byte>(random() % (isBool(type.dtype) ? 2 : 8));
      continue;
    }
    reference::visitFloat(type.dtype, [&](auto format) {
      using Format = decltype(format);
      auto *at = reinterpret_cast<typename Format::Storage *>(bytes.data());
      for (int64_t k = 0; k < elementCount(type); ++k) {
        const uint64_t kind = random() % 64;
        at[k] = Format::store(kind == 0 ? 0.0 : kind == 1 ? 30 * normal(random) : normal(random));
      }
    });
  }
  return tensors;
}

Result<Tensors> loadInputs(const MortiseGraph &graph, const std::string &path) {
  Result<std::string> content = readFile(path);
  if (!content)
    return content.error();
  Tensors tensors;
  size_t at = 0;
  for (size_t i = 0; i < graph.input_count; ++i) {
    const size_t size = byteSize(*graph.inputs[i]->type);
    if (size > content->size() - at)
      return invalid(path + ": expected the bytes of " + std::to_string(graph.input_count) +
                     " inputs one after the other, found too few for input " + std::to_string(i) + ", " +
                     typeString(*graph.inputs[i]->type));
    const std::byte *from = reinterpret_cast<const std::byte *>(content->data()) + at;
    tensors.emplace_back(from, from + size);
    at += size;
  }
  if (at != content->size())
    return invalid(path + ": expected " + std::to_string(at) + " bytes, found " + std::to_string(content->size()));
  return tensors;
}

Result<void> saveInputs(const Tensors &tensors, const std::string &path) {
  std::vector<std::byte> all;
  for (const std::vector<std::byte> &tensor : tensors)
    all.insert(all.end(), tensor.begin(), tensor.end());
  return writeFile(path, all);
}

} // namespace mortise::tool
