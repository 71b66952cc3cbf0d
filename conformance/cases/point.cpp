// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "point.hpp"

#include "../networks/networks.hpp"
#include "table.hpp"

#include <algorithm>
#include <charconv>

namespace mortise::conformance {
namespace {

constexpr std::string_view dynamicPrefix = "dynamic/", probePrefix = "abi/", speedPrefix = "perf/",
                           filePrefix = "file/", onnxPrefix = "onnx/";

Error unknown(std::string_view id, const std::string &what) {
  return {MORTISE_INVALID_ARGUMENT,
          "case " + std::string(id) + ": " + what +
              "; expected OP/DTYPE/SHAPE/LAYOUT/VALUES[/ATTRIBUTES]/#NUMBER, as --list writes it"};
}

// "#3".
bool readNumber(Point &point, const std::string &word) {
  const char *end = word.data() + word.size();
  return word.size() >= 2 && word[0] == '#' && std::from_chars(word.data() + 1, end, point.number).ptr == end;
}

std::vector<std::string> wordsOf(std::string_view text) {
  std::vector<std::string> words;
  for (size_t at; (at = text.find('/')) != std::string_view::npos; text.remove_prefix(at + 1))
    words.emplace_back(text.substr(0, at));
  words.emplace_back(text);
  return words;
}

// Whether the words are those of a network's case.
bool readNetwork(Point &point, const std::vector<std::string> &words) {
  point.isOnnx = words[0] + "/" == onnxPrefix;
  if (words.size() > 2 && (point.isOnnx || words[0] + "/" == filePrefix) && readNumber(point, words.back())) {
    for (size_t i = 1; i + 1 < words.size(); ++i)
      point.file += (i > 1 ? "/" : "") + words[i];
    point.probe = Probe::Network;
    return true;
  }
  if (words.size() != 4)
    return false;
  point.probe = Probe::Network;
  point.dtype = dtypeFromName(words[2]);
  for (point.variant = 0; point.variant < networks().size(); ++point.variant)
    if (subjectOf(point) == words[0] + "/" + words[1])
      return std::ranges::find(networkTypes, point.dtype) != std::end(networkTypes) && readNumber(point, words[3]);
  return false;
}

template <typename Axis, size_t size> bool read(Axis &to, const char *const (&names)[size], std::string_view word) {
  const auto *found = std::find(std::begin(names), std::end(names), word);
  to = static_cast<Axis>(found - std::begin(names));
  return found != std::end(names);
}

} // namespace

std::string subjectOf(const Point &point) {
  if (!point.file.empty())
    return std::string(point.isOnnx ? onnxPrefix : filePrefix) + point.file;
  if (point.probe != Probe::Network)
    return std::string(nameOf(point.op));
  const Network &network = networks()[point.variant];
  return std::string(levelNames[static_cast<size_t>(network.level)]) + "/" + network.name;
}

std::string idOf(const Point &point) {
  if (!point.file.empty())
    return subjectOf(point) + "/#" + std::to_string(point.number);
  if (point.probe == Probe::Network)
    return subjectOf(point) + "/" + dtypeName(point.dtype) + "/#" + std::to_string(point.number);
  std::string id = point.dynamic ? std::string(dynamicPrefix) : "";
  if (point.probe != Probe::None)
    id += std::string(point.probe == Probe::Speed ? speedPrefix : probePrefix) +
          probeNames[static_cast<size_t>(point.probe)] + "/";
  id += nameOf(point.op).substr(std::string_view("mortise.").size());
  id += '/';
  id += dtypeName(point.dtype);
  for (const char *word : {shapeNames[static_cast<size_t>(point.shape)], layoutNames[static_cast<size_t>(point.layout)],
                           valuesNames[static_cast<size_t>(point.values)]})
    id += std::string("/") + word;
  const Row *row = rowOf(point.op);
  if (row && point.variant < row->variants.size() && !row->variants[point.variant].empty())
    id += "/" + row->variants[point.variant];
  return id + "/#" + std::to_string(point.number);
}

Result<Point> pointOf(std::string_view id) {
  Point point;
  if (Point network; readNetwork(network, wordsOf(id)))
    return network;
  std::string_view rest = id;
  if (rest.starts_with(dynamicPrefix)) {
    point.dynamic = true;
    rest.remove_prefix(dynamicPrefix.size());
  } else if (rest.starts_with(probePrefix) || rest.starts_with(speedPrefix)) {
    const bool isSpeed = rest.starts_with(speedPrefix);
    rest.remove_prefix(isSpeed ? speedPrefix.size() : probePrefix.size());
    const std::string word(rest.substr(0, rest.find('/')));
    if (!read(point.probe, probeNames, word) || point.probe == Probe::None || word.size() == rest.size() ||
        (point.probe == Probe::Speed) != isSpeed)
      return unknown(id, "there is nothing like '" + word + "' to try");
    rest.remove_prefix(word.size() + 1);
  }
  const std::vector<std::string> words = wordsOf(rest);
  if (words.size() < 6 || words.size() > 7)
    return unknown(id, "found " + std::to_string(words.size()) + " parts");
  point.op = opNamed(("mortise." + words[0]).c_str());
  const Row *row = rowOf(point.op);
  if (!row)
    return unknown(id, "there is no op '" + words[0] + "'");
  point.dtype = dtypeFromName(words[1]);
  if (point.dtype == 0)
    return unknown(id, "there is no element type '" + words[1] + "'");
  if (!read(point.shape, shapeNames, words[2]))
    return unknown(id, "there is no shape '" + words[2] + "'");
  if (!read(point.layout, layoutNames, words[3]))
    return unknown(id, "there is no layout '" + words[3] + "'");
  if (!read(point.values, valuesNames, words[4]))
    return unknown(id, "there are no values '" + words[4] + "'");
  const std::string variant = words.size() == 7 ? words[5] : "";
  const auto found = std::ranges::find(row->variants, variant);
  if (found == row->variants.end())
    return unknown(id, "the op has no attributes '" + variant + "'");
  point.variant = static_cast<uint16_t>(found - row->variants.begin());
  if (!readNumber(point, words.back()))
    return unknown(id, "'" + words.back() + "' is no number");
  return point;
}

} // namespace mortise::conformance
