// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// mortise-import-onnx MODEL TARGET: a model as a graph in the portable format; with --values FOLDER as a case of the
// conformance kit, which links no MLIR and asks this program.
#include <mortise/onnx/import.hpp>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iostream>

namespace mortise::onnx {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

int fail(const std::string &why) {
  std::cerr << "mortise-import-onnx: " << why << "\n";
  return 1;
}

std::string read(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool write(const std::string &path, const std::string &line, const std::vector<std::span<const std::byte>> &parts) {
  std::ofstream file(path, std::ios::binary);
  file << line;
  for (const auto part : parts)
    file.write(reinterpret_cast<const char *>(part.data()), static_cast<std::streamsize>(part.size()));
  file.close();
  return static_cast<bool>(file);
}

Json described(const Model &model) {
  Json weights = Json::array();
  for (const Tensor &weight : model.weights)
    weights.push_back({{"name", weight.name}, {"bytes", weight.bytes.size()}});
  return {{"nodes", model.graph->view().node_count},
          {"inputs", model.inputs},
          {"weights", weights},
          {"outputs", model.outputs}};
}

// "input_0.pb" and those that follow, with the name of each in the message.
Result<std::vector<Tensor>> valuesIn(const std::string &folder, const std::string &kind) {
  std::vector<Tensor> made;
  for (size_t i = 0;; ++i) {
    const std::string path = folder + "/" + kind + "_" + std::to_string(i) + ".pb";
    std::error_code failed;
    if (!fs::exists(path, failed))
      return made;
    auto tensor = readTensor(path);
    if (!tensor)
      return tensor.error();
    made.push_back(std::move(*tensor));
  }
}

// A file is a line of JSON with the sizes in bytes, then the graph in the portable format, the inputs, and the results
// that the model's author expects; or a line that says why there is none.
struct Case {
  Json line;
  std::vector<std::span<const std::byte>> parts;
};

Json refusal(const std::string &reason, const std::string &why) {
  return {{"format", "mortise-case-1"}, {"refused", reason}, {"why", why}};
}

Json refusalOf(const Error &error) {
  const size_t colon = error.message.find(": ");
  if (error.code == MORTISE_UNSUPPORTED && colon != std::string::npos)
    return refusal(error.message.substr(0, colon), error.message.substr(colon + 2));
  if (error.code == MORTISE_INTERNAL)
    return {{"format", "mortise-case-1"}, {"wrong", "the importer is at fault: " + error.message}};
  return refusal("error", error.message);
}

std::string textOf(const Tensor &tensor) {
  MortiseType type{};
  type.dtype = tensor.dtype;
  type.rank = static_cast<int32_t>(tensor.dims.size());
  type.dims = tensor.dims.data();
  return typeString(type);
}

Json caseOf(const Model &model, const std::vector<Tensor> &values, const std::vector<Tensor> &expected, Case &made) {
  Json inputs = Json::array(), outputs = Json::array();
  made.parts.push_back(model.graph->bytes());
  const auto put = [&](Json &sizes, const Tensor &tensor) {
    sizes.push_back(tensor.bytes.size());
    made.parts.emplace_back(tensor.bytes);
  };
  for (const std::string &name : model.inputs) {
    const auto found = std::ranges::find(values, name, &Tensor::name);
    if (found == values.end())
      return refusal("no value", "there is no value of the input '" + name + "'");
    put(inputs, *found);
  }
  for (const Tensor &weight : model.weights)
    put(inputs, weight);
  if (expected.size() != model.outputs.size())
    return refusal("no value", "expected " + std::to_string(model.outputs.size()) + " results, found " +
                                   std::to_string(expected.size()));
  const MortiseGraph &view = model.graph->view();
  for (size_t i = 0; i < expected.size(); ++i) {
    const MortiseType &type = *view.outputs[i]->type;
    if (expected[i].dtype != type.dtype || !std::ranges::equal(expected[i].dims, mortise::dims(type)))
      return {{"format", "mortise-case-1"},
              {"wrong", "output " + std::to_string(i) + ": expected " + textOf(expected[i]) + ", the graph gives " +
                            typeString(type)}};
    put(outputs, expected[i]);
  }
  return {{"format", "mortise-case-1"},
          {"graph", model.graph->bytes().size()},
          {"inputs", inputs},
          {"outputs", outputs},
          {"bound", model.bound}};
}

int writeCase(const std::string &model, const std::string &folder, const std::string &target) {
  Case made;
  std::vector<Tensor> expected; // which the parts point into, as they do into the two below
  Options options{fs::path(model).parent_path().string(), {}, {}};
  Result<Model> imported = Error{};
  auto values = valuesIn(folder, "input");
  auto results = values ? valuesIn(folder, "output") : values;
  if (!results) {
    made.line = refusalOf(results.error());
  } else {
    options.values = *values;
    const std::string content = read(model);
    imported = importModel(std::as_bytes(std::span(content)), options);
    made.line = imported ? caseOf(*imported, *values, *results, made) : refusalOf(imported.error());
  }
  if (!made.line.contains("graph"))
    made.parts.clear();
  const std::string line = made.line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  return write(target, line, made.parts) ? 0 : fail(target + ": cannot be written; is there room?");
}

int writeGraph(const std::string &model, const std::string &target, const std::string &weights,
               const std::vector<std::string> &extents) {
  Options options;
  for (const std::string &word : extents) {
    const size_t equals = word.find('=');
    const char *end = word.data() + word.size();
    int64_t number = 0;
    if (equals == std::string::npos || std::from_chars(word.data() + equals + 1, end, number).ptr != end)
      return fail("--extent: expected NAME=NUMBER, found '" + word + "'");
    options.extents[word.substr(0, equals)] = number;
  }
  const auto made = importFile(model, options);
  if (!made)
    return fail(made.error().message);
  if (!write(target, "", {made->graph->bytes()}))
    return fail(target + ": cannot be written; is there room?");
  std::vector<std::span<const std::byte>> parts;
  for (const Tensor &weight : made->weights)
    parts.emplace_back(weight.bytes);
  if (!weights.empty() && !write(weights, "", parts))
    return fail(weights + ": cannot be written; is there room?");
  std::cout << described(*made).dump(1, ' ', false, Json::error_handler_t::replace) << "\n";
  return 0;
}

int main(int count, char **words) {
  CLI::App app("Writes an ONNX model as a graph of Mortise.", "mortise-import-onnx");
  std::string model, target, weights, values;
  std::vector<std::string> extents;
  app.add_option("model", model, "the model, in ONNX's format")->required()->check(CLI::ExistingFile);
  app.add_option("target", target, "the graph's file (.mrtg)")->required();
  app.add_option("--extent", extents, "NAME=NUMBER of a symbolic dimension; may be repeated");
  app.add_option("--weights", weights, "a file for the weights, the graph's last inputs, one after the other");
  app.add_option("--values", values,
                 "a folder of input_0.pb, output_0.pb and so on: writes a case of the conformance kit")
      ->check(CLI::ExistingDirectory);
  CLI11_PARSE(app, count, words);
  return values.empty() ? writeGraph(model, target, weights, extents) : writeCase(model, values, target);
}

} // namespace
} // namespace mortise::onnx

int main(int count, char **words) { return mortise::onnx::main(count, words); }
