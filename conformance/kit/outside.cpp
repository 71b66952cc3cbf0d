// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "judge.hpp"
#include "run.hpp"
#include "verdict.hpp"

#include <iostream>

namespace mortise::conformance {
namespace {

Json typeJson(const MortiseType &type) {
  return {{"dtype", dtypeName(type.dtype)},
          {"dims", std::vector<int64_t>(type.dims, type.dims + type.rank)},
          {"bytes", byteSize(type)}};
}

Json attributesJson(const MortiseNode &node) {
  Json made = Json::object();
  for (size_t i = 0; i < node.attribute_count; ++i) {
    const MortiseAttribute &attribute = *node.attributes[i];
    Json &value = made[attribute.name];
    if (attribute.kind == MORTISE_ATTRIBUTE_F64)
      value = attribute.f64;
    else if (attribute.kind == MORTISE_ATTRIBUTE_STRING)
      value = attribute.string;
    else if (attribute.kind == MORTISE_ATTRIBUTE_I64_ARRAY)
      value = std::vector<int64_t>(attribute.i64s, attribute.i64s + attribute.count);
    else
      value = attribute.i64;
  }
  return made;
}

void say(const Json &line) { std::cout << line.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n"; }

// The case; false when it is none for others.
bool show(const Case &of) {
  const MortiseGraph &view = of.plain->view();
  if (view.node_count != 1 || view.output_count != 1 || view.nodes[0]->body_count)
    return false;
  const MortiseNode &node = *view.nodes[0];
  std::vector<const std::vector<std::byte> *> data;
  Json operands = Json::array();
  for (size_t i = 0; i < node.operand_count; ++i) {
    if (!node.operands[i]) {
      operands.push_back(nullptr);
      continue;
    }
    operands.push_back(typeJson(*node.operands[i]->type));
    for (size_t input = 0; input < view.input_count; ++input)
      if (view.inputs[input] == node.operands[i])
        data.push_back(&of.inputs[input]);
  }
  say({{"case", of.id},
       {"op", node.op},
       {"attributes", attributesJson(node)},
       {"operands", operands},
       {"result", typeJson(*view.outputs[0]->type)}});
  for (size_t i = 0, operand = 0; i < node.operand_count; ++i)
    if (node.operands[i]) {
      const auto bytes = static_cast<std::streamsize>(byteSize(*node.operands[i]->type));
      std::cout.write(reinterpret_cast<const char *>(data[operand++]->data()), bytes);
    }
  std::cout.flush();
  return true;
}

// Errors: standard input ends, or does not follow the rules.
Result<Verdict> judged(const Case &of) {
  std::string line;
  std::getline(std::cin, line);
  const Json answer = Json::parse(line, nullptr, false);
  if (!answer.is_object())
    return Error{MORTISE_INVALID_ARGUMENT, "expected a line of JSON, found '" + line.substr(0, 200) + "'"};
  Verdict verdict{.id = of.id};
  if (answer.contains("refused")) {
    verdict.outcome = Outcome::Refused;
    verdict.reason = "op";
    verdict.why = answer["refused"];
    return verdict;
  }
  std::vector<std::byte> found(byteSize(*of.plain->view().outputs[0]->type));
  std::cin.read(reinterpret_cast<char *>(found.data()), static_cast<std::streamsize>(found.size()));
  if (!std::cin)
    return Error{MORTISE_INVALID_ARGUMENT, "expected " + std::to_string(found.size()) + " bytes of " + of.id};
  CaseJudge judge(of);
  auto text = judge.compare(0, found);
  if (!text)
    return text.error();
  verdict.distances = judge.distances;
  if (!text->empty()) {
    verdict.outcome = Outcome::Failed;
    verdict.kind = "result";
    verdict.why = *text;
  }
  return verdict;
}

} // namespace

int judgeOutside(const Options &options) {
  const auto fail = [](const std::string &why) {
    std::cerr << "mortise-conformance: " << why << "\n";
    return Exit::usage;
  };
  Coverage coverage;
  const auto points = chosen(options, coverage);
  if (!points)
    return fail(points.error().message);
  for (const Point &point : *points) {
    if (point.shape == Shape::Broadcast || point.probe != Probe::None)
      continue;
    auto made = makeCase(point, options.seed);
    if (!made)
      return fail(made.error().message);
    if (!show(*made))
      continue;
    auto verdict = judged(*made);
    if (!verdict)
      return fail(verdict.error().message);
    say(verdict->json());
    std::cout.flush();
  }
  return Exit::good;
}

} // namespace mortise::conformance
