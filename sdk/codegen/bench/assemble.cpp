// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// mortise_codegen_assemble TARGET [FOLDER [GRAPH...]]: compiles the kernels of all families, or of these graphs in the
// portable format, for a chip (gfx942, sm_90) or "vulkan", and prints a line of JSON for each: what it is, how long it
// took, and for AMD's what its metadata says and what of that is too much. Writes PTX and SPIR-V into the folder, for
// other tools. Status 1 where a kernel did not compile.
// mortise_codegen_assemble graphs FOLDER SEED COUNT: writes the graphs of all families and so many random ones, for
// `mortise-conformance --graph`, and prints their number.
#include "families.hpp"
#include "hsaco.hpp"
#include "random_graph.hpp"

#include <mortise/codegen/simt.hpp>
#include <mortise/portable/graph.hpp>

#include <nlohmann/json.hpp>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;
using nlohmann::json;

namespace {

std::optional<unsigned> numberOf(const char *text) {
  unsigned number = 0;
  const char *end = text + std::strlen(text);
  const auto read = std::from_chars(text, end, number);
  return read.ec == std::errc() && read.ptr == end ? std::optional(number) : std::nullopt;
}

Result<SimtTarget> targetOf(const std::string &name) {
  if (name.starts_with("gfx"))
    return SimtTarget::rocm(name, 1);
  if (const auto chip = name.starts_with("sm_") ? numberOf(name.c_str() + 3) : std::nullopt)
    return SimtTarget::cuda(static_cast<int>(*chip / 10), static_cast<int>(*chip % 10), 1);
  if (name == "vulkan") { // as NVIDIA's driver says of an H200
    VulkanFeatures features;
    features.f32 = {false, true, true}, features.f64 = {true, true, true};
    features.doubles = features.flushesSubnormals = features.exactFunctions = features.oneNan = true;
    features.halfMatrices = features.brainMatrices = true;
    features.subgroup = 32, features.sharedBytes = 48 << 10, features.argumentBytes = 256, features.blockThreads = 1024;
    return SimtTarget::vulkan(features, 1);
  }
  return Error{MORTISE_INVALID_ARGUMENT, "expected vulkan or a chip such as gfx942 or sm_90, found '" + name + "'"};
}

json described(const HsacoKernel &kernel) {
  return {{"kernel", kernel.name},          {"threads", kernel.blockThreads}, {"wave", kernel.wave},
          {"vgprs", kernel.vgprs},          {"sgprs", kernel.sgprs},          {"spilled", kernel.spilled},
          {"scratch", kernel.scratchBytes}, {"shared", kernel.sharedBytes},   {"problem", excess(kernel)}};
}

// What is known of code without running it.
void look(json &line, const std::string &code, const std::string &target, const std::filesystem::path &folder,
          const std::string &file) {
  line["bytes"] = code.size();
  if (!target.starts_with("gfx")) {
    line["file"] = file;
    std::ofstream(folder / file, std::ios::binary) << code;
    return;
  }
  const auto read = readHsaco(code);
  if (!read || read->chip != target) {
    line["problem"] = read ? "expected code for " + target + ", found " + read->chip : read.error().message;
    return;
  }
  for (const HsacoKernel &kernel : read->kernels)
    line["kernels"].push_back(described(kernel));
}

Result<void> write(const MortiseGraph &view, const std::filesystem::path &file) {
  const auto graph = Graph::copy(view);
  if (!graph)
    return graph.error();
  const auto bytes = (*graph)->bytes();
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush())
    return Error{MORTISE_INVALID_ARGUMENT, "cannot write " + file.string()};
  return {};
}

Result<std::shared_ptr<const Graph>> readGraph(const std::string &file) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (!in)
    return Error{MORTISE_INVALID_ARGUMENT, "cannot read " + file};
  return Graph::load(std::as_bytes(std::span(bytes)));
}

int writeGraphs(const std::filesystem::path &folder, unsigned seed, unsigned count) {
  size_t written = 0;
  std::string problem;
  const auto add = [&](const MortiseGraph &view, const std::string &name) {
    if (auto done = write(view, folder / (name + ".mrtg")); !done)
      problem = name + ": " + done.error().message;
    ++written;
  };
  forEachGraph([&](std::string name, const MortiseGraph &view) {
    std::ranges::replace(name, ' ', '-');
    add(view, name);
  });
  for (unsigned i = 0; i < count; ++seed) {
    RandomGraph graph(seed, RandomGraph::Kind::Numbers);
    graph.build();
    if (!graph.values.back()->producer || graph.isTooLarge())
      continue;
    add(graph.b.view(), "random-" + std::to_string(seed));
    ++i;
  }
  if (!problem.empty())
    std::fprintf(stderr, "%s\n", problem.c_str());
  std::printf("%s\n", json{{"graphs", written}}.dump().c_str());
  return problem.empty() ? 0 : 2;
}

} // namespace

int main(int count, char **arguments) {
  const std::string name = count > 1 ? arguments[1] : "";
  const std::filesystem::path folder = count > 2 ? arguments[2] : ".";
  if (name == "graphs") {
    const auto seed = count == 5 ? numberOf(arguments[3]) : std::nullopt;
    const auto many = count == 5 ? numberOf(arguments[4]) : std::nullopt;
    if (seed && many)
      return writeGraphs(folder, *seed, *many);
    std::fprintf(stderr, "expected: graphs FOLDER SEED COUNT\n");
    return 2;
  }
  const auto target = targetOf(name);
  if (!target) {
    std::fprintf(stderr, "%s\n", target.error().message.c_str());
    return 2;
  }
  const auto compiler = SimtCompiler::create(*target);
  if (!compiler) {
    std::fprintf(stderr, "%s\n", compiler.error().message.c_str());
    return 2;
  }
  int failed = 0;
  size_t number = 0;
  const auto compile = [&](const std::string &family, const MortiseGraph &graph) {
    const auto start = std::chrono::steady_clock::now();
    const auto parts = fuse({&graph, {}, {}, {}}, simtFuseTarget());
    auto functions = parts ? (*compiler)->compile(graph, parts->groups)
                           : Result<std::vector<std::shared_ptr<const SimtFunction>>>(parts.error());
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    if (!functions) {
      failed = 1;
      std::printf("%s\n", json{{"graph", family}, {"problem", functions.error().message}}.dump().c_str());
      return;
    }
    for (const auto &function : *functions)
      for (const bool isAligned : {false, true}) {
        const std::string &code = isAligned ? function->alignedCode : function->code;
        if (code.empty())
          continue;
        json line{{"graph", family}, {"aligned", isAligned}, {"problem", ""}};
        line["ms"] = taken.count() / static_cast<double>(functions->size()) / (function->alignedCode.empty() ? 1 : 2);
        look(line, code, name, folder, std::to_string(number++) + (name == "vulkan" ? ".spv" : ".ptx"));
        std::printf("%s\n", line.dump().c_str());
      }
  };
  for (const std::string file : std::span(arguments, count).subspan(std::min(count, 3))) {
    const auto graph = readGraph(file);
    if (!graph) {
      std::fprintf(stderr, "%s\n", graph.error().message.c_str());
      return 2;
    }
    compile(std::filesystem::path(file).filename(), (*graph)->view());
  }
  if (count <= 3)
    forEachGraph(compile);
  return failed;
}
