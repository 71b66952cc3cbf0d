// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "onnx.hpp"

#include "../../tools/mortise/command.hpp"

#include <mortise/conformance/error_bounds.hpp>
#include <mortise/reference/interpreter.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace mortise::conformance {
namespace {

namespace fs = std::filesystem;

constexpr const char *modelName = "model.onnx";

std::string importer() { return (fs::path(tool::self()).parent_path() / "mortise-import-onnx").string(); }
std::string valuesOf(const std::string &folder, size_t number) {
  return folder + "/test_data_set_" + std::to_string(number - 1);
}

std::vector<const void *> addresses(const Tensors &tensors) {
  std::vector<const void *> made;
  for (const std::vector<std::byte> &tensor : tensors)
    made.push_back(tensor.data());
  return made;
}

// Reads the parts of a file, whose sizes its first line says.
class Parts {
public:
  explicit Parts(std::string content) : content(std::move(content)) {}
  bool take(const Json &size, std::span<const std::byte> &part) {
    const auto all = std::as_bytes(std::span(content));
    if (!size.is_number_unsigned() || size.get<size_t>() > all.size() - at)
      return false;
    part = all.subspan(at, size.get<size_t>());
    at += part.size();
    return true;
  }
  bool takeAll(const Json &sizes, Tensors &tensors) {
    for (const Json &size : sizes) {
      std::span<const std::byte> part;
      if (!take(size, part))
        return false;
      tensors.emplace_back(part.begin(), part.end());
    }
    return true;
  }

private:
  const std::string content;
  size_t at = 0;
};

bool fit(const Tensors &tensors, const MortiseValue *const *values, size_t count) {
  bool all = tensors.size() == count;
  for (size_t i = 0; all && i < count; ++i)
    all = isStatic(*values[i]->type) && tensors[i].size() == byteSize(*values[i]->type);
  return all;
}

Verdict refusalOf(const std::string &id, const std::string &reason, const std::string &why) {
  return {.id = id, .outcome = Outcome::Refused, .reason = reason, .why = why};
}
Verdict failureOf(const std::string &id, const std::string &kind, const std::string &why) {
  return {.id = id, .outcome = Outcome::Failed, .kind = kind, .why = why};
}

// Why the graph is no work for a device, or cannot be judged; "" when it can.
std::string whyNotJudged(const MortiseGraph &graph) {
  if (graph.node_count == 0)
    return "the graph has no node: its results are its inputs";
  for (const MortiseNode *node : std::span(graph.nodes, graph.node_count))
    if (const auto refusal = reference::refuse(*node))
      return std::string(node->op) + ": " + refusal.detail;
  return "";
}

Verdict judged(Device &device, const std::string &id, const OnnxCase &of, const NetworkTask &task) {
  if (!of.wrong.empty())
    return failureOf(id, "reference", of.wrong);
  if (!of.refused.empty())
    return refusalOf(id, "import", of.refused + ": " + of.why);
  const MortiseGraph &view = of.graph->view();
  if (const std::string why = whyNotJudged(view); !why.empty())
    return refusalOf(id, "not-judged", why);
  const auto differs = judgeReference(of);
  if (!differs)
    return failureOf(id, "kit", differs.error().message);
  if (!differs->empty())
    return failureOf(id, "reference", *differs);
  const auto make = [&](const std::set<Op> &expanded) { return networkOf(view, of.inputs, expanded); };
  return judgeNetwork(device, id, make, task);
}

} // namespace

Result<std::vector<Point>> onnxPoints(const std::vector<std::string> &folders) {
  std::error_code failed;
  if (!fs::exists(importer(), failed))
    return Error{MORTISE_NOT_FOUND, "--onnx: expected the importer " + importer() + " beside this program, found none"};
  std::vector<Point> points;
  for (const std::string &folder : folders) {
    std::vector<std::string> tests;
    if (fs::exists(fs::path(folder) / modelName, failed))
      tests.push_back(folder);
    else if (fs::is_directory(folder, failed))
      for (const auto &entry : fs::directory_iterator(folder, failed))
        if (fs::exists(entry.path() / modelName, failed))
          tests.push_back(entry.path().string());
    std::ranges::sort(tests);
    const size_t before = points.size();
    for (const std::string &test : tests)
      for (uint16_t number = 1; fs::is_directory(valuesOf(test, number), failed); ++number) {
        Point point{.number = number, .probe = Probe::Network};
        point.isOnnx = true;
        point.file = fs::absolute(test).lexically_normal().string();
        points.push_back(std::move(point));
      }
    if (points.size() == before)
      return Error{MORTISE_NOT_FOUND,
                   "--onnx: expected a test of ONNX (model.onnx and test_data_set_0), or a folder of "
                   "such, found none in '" +
                       folder + "'; conformance/onnx_node_tests.py writes those of the package onnx"};
  }
  return points;
}

Result<OnnxCase> readOnnxCase(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::string first;
  std::getline(file, first);
  const Json line = Json::parse(first, nullptr, false);
  const Error damaged{MORTISE_CORRUPT, path + ": expected a case that this kit's importer has written"};
  if (!line.is_object() || line.value("format", "") != "mortise-case-1")
    return damaged;
  OnnxCase made{.refused = line.value("refused", ""), .wrong = line.value("wrong", ""), .why = line.value("why", "")};
  if (!made.refused.empty() || !made.wrong.empty())
    return made;
  Parts parts({std::istreambuf_iterator<char>(file), {}});
  std::span<const std::byte> bytes;
  if (!line.contains("graph") || !line.contains("inputs") || !line.contains("outputs") ||
      !parts.take(line["graph"], bytes) || !parts.takeAll(line["inputs"], made.inputs) ||
      !parts.takeAll(line["outputs"], made.expected))
    return damaged;
  auto graph = Graph::load(bytes);
  if (!graph)
    return graph.error();
  made.graph = std::move(*graph);
  const MortiseGraph &view = made.graph->view();
  if (view.symbol_count || !fit(made.inputs, view.inputs, view.input_count) ||
      !fit(made.expected, view.outputs, view.output_count))
    return damaged;
  for (const Json &name : line.value("bound", Json::array()))
    made.bound.push_back(name);
  return made;
}

Result<std::string> judgeReference(const OnnxCase &of) {
  const MortiseGraph &view = of.graph->view();
  const std::vector<const void *> inputs = addresses(of.inputs);
  Tensors results;
  std::vector<void *> targets;
  for (size_t i = 0; i < view.output_count; ++i)
    targets.push_back(results.emplace_back(byteSize(*view.outputs[i]->type)).data());
  if (auto done = reference::interpret(view, inputs, targets); !done)
    return done.error();
  // ONNX's operators mean exp(x) - 1 where the importer has expm1, and so computed the releases before 1.23: what that
  // loses near 0 is a rounding of ONNX's results.
  Tape formulas(MORTISE_F32, {Op::Expm1});
  formulas.record(view);
  MortiseGraph asOnnx = formulas.builder.view();
  asOnnx.opset = view.opset;
  Judge judge(asOnnx, inputs);
  for (size_t i = 0; i < view.output_count; ++i) {
    const auto text = judge.differences(i, of.expected[i], results[i]);
    if (!text)
      return text.error();
    if (!text->empty())
      return "output " + std::to_string(i) + ": the interpreter is held against ONNX's results ('got'): " + *text;
  }
  return std::string();
}

Verdict judgeOnnx(Device &device, const Point &point, const NetworkTask &task) {
  const auto begin = std::chrono::steady_clock::now();
  constexpr double limit = 30; // seconds that importing may take
  const std::string id = idOf(point);
  const tool::Scratch scratch;
  const std::string made = scratch.folder + "/case";
  std::string said;
  const auto ended = tool::runCommand(
      {importer(), point.file + "/" + modelName, made, "--values", valuesOf(point.file, point.number)}, limit, &said);
  Verdict verdict;
  if (!ended || !ended->good) {
    verdict =
        failureOf(id, "import", "the importer ends: " + (ended ? ended->how + ": " + said : ended.error().message));
  } else {
    const auto read = readOnnxCase(made);
    verdict = read ? judged(device, id, *read, task) : failureOf(id, "kit", read.error().message);
    if (read)
      verdict.bound = read->bound;
  }
  verdict.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return verdict;
}

} // namespace mortise::conformance
