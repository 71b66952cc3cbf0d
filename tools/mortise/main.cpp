// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// mortise: what people do with graphs on a command line.
#include "Check.h"
#include "Draw.h"
#include "Reduce.h"
#include "Seam.h"

#include <mortise/runtime/Config.h>
#include <mortise/runtime/plan_generated.h>

#include <CLI/CLI.hpp>

#include <filesystem>
#include <iostream>

namespace {
using namespace mortise;
using namespace mortise::tool;

struct Arguments {
  std::string graph, output, device = "cpu", plugins, symbols, inputs, command;
  uint64_t seed = 0;
  double tolerance = 1e-4, seconds = 60;
};

int failed(const Error &error) {
  std::cerr << "mortise: " << error.message << "\n";
  return 2;
}

struct Host {
  runtime::Config config;
  std::shared_ptr<runtime::Registry> registry;
};
Result<Host> host(const Arguments &arguments) {
  std::vector<MortiseOption> options{{"device", arguments.device.c_str()}};
  if (!arguments.plugins.empty())
    options.push_back({"plugin_path", arguments.plugins.c_str()});
  Result<runtime::Config> config = runtime::Config::read(options);
  if (!config)
    return config.error();
  return Host{*config, runtime::Registry::load(*config)};
}

Result<std::shared_ptr<const Graph>> numbered(const Arguments &arguments) {
  auto graph = loadGraph(arguments.graph);
  return graph ? withNumbers(std::move(*graph), arguments.symbols) : graph;
}
Result<Tensors> inputsFor(const MortiseGraph &graph, const Arguments &arguments) {
  return arguments.inputs.empty() ? Result<Tensors>(makeInputs(graph, arguments.seed))
                                  : loadInputs(graph, arguments.inputs);
}

int convert(const Arguments &arguments) {
  auto graph = loadGraph(arguments.graph);
  if (!graph)
    return failed(graph.error());
  Result<void> saved = saveGraph(**graph, arguments.output);
  return saved ? 0 : failed(saved.error());
}

int drawPage(const Arguments &arguments) {
  auto graph = loadGraph(arguments.graph);
  if (!graph)
    return failed(graph.error());
  Placed placed{*graph, nullptr};
  if (!arguments.device.empty()) {
    Result<Host> made = host(arguments);
    if (!made)
      return failed(made.error());
    Result<Placed> compiled = compile(**graph, *made->registry, made->config);
    if (!compiled)
      return failed(compiled.error());
    placed = std::move(*compiled);
  }
  const std::string page = draw(placed.graph->view(), placed.plan.get());
  Result<void> saved = writeFile(arguments.output, std::as_bytes(std::span(page.data(), page.size())));
  if (!saved)
    return failed(saved.error());
  std::cout << arguments.output << ": " << placed.graph->view().node_count << " nodes\n";
  return 0;
}

// Exit status 0: right; 1: wrong, or it does not compile or run.
int checkGraph(const Arguments &arguments) {
  auto graph = numbered(arguments);
  if (!graph)
    return failed(graph.error());
  Result<Tensors> inputs = inputsFor((*graph)->view(), arguments);
  if (!inputs)
    return failed(inputs.error());
  Result<Host> made = host(arguments);
  if (!made)
    return failed(made.error());
  Result<Verdict> verdict = check(**graph, *inputs, made->registry, made->config, arguments.tolerance);
  if (!verdict)
    verdict = Verdict{false, verdict.error().message};
  std::cout << (verdict->good ? "right" : verdict->detail) << "\n";
  return verdict->good ? 0 : 1;
}

// A region on disk for a command to look at, removed afterwards.
struct Scratch {
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "mortise-reduce-XXXXXX").string();
    folder = mkdtemp(pattern.data()) ? pattern : "";
  }
  ~Scratch() {
    std::error_code ignored;
    if (!folder.empty())
      std::filesystem::remove_all(folder, ignored);
  }
  std::string folder;
};

int reduceGraph(const Arguments &arguments) {
  auto graph = numbered(arguments);
  if (!graph)
    return failed(graph.error());
  Result<Tensors> inputs = inputsFor((*graph)->view(), arguments);
  if (!inputs)
    return failed(inputs.error());
  const Scratch scratch;
  if (scratch.folder.empty())
    return failed({MORTISE_INTERNAL, "no temporary folder can be made; is TMPDIR writable?"});
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string region = scratch.folder + "/region.mrtg", values = scratch.folder + "/region.bin";
  std::string how;
  // In a process of its own: a crash or a hang is a failure like any other.
  const auto fails = [&](const Graph &candidate, const Tensors &given) -> Result<bool> {
    if (Result<void> saved = saveGraph(candidate, region); !saved)
      return saved.error();
    if (Result<void> saved = saveInputs(given, values); !saved)
      return saved.error();
    std::vector<std::string> command{self,
                                     "check",
                                     region,
                                     "--inputs",
                                     values,
                                     "--device",
                                     arguments.device,
                                     "--tolerance",
                                     std::to_string(arguments.tolerance)};
    if (!arguments.plugins.empty())
      command.insert(command.end(), {"--plugins", arguments.plugins});
    if (!arguments.command.empty()) {
      std::string text = arguments.command;
      for (size_t at; (at = text.find("{}")) != std::string::npos;)
        text.replace(at, 2, region);
      command = {"/bin/sh", "-c", text};
    }
    Result<Ended> ended = runCommand(command, arguments.seconds);
    if (!ended)
      return ended.error();
    if (arguments.command.empty() && ended->how == "exit status 2") // `check` said why
      return Error{MORTISE_INVALID_ARGUMENT, "a region cannot be checked"};
    how = ended->good ? how : ended->how;
    return !ended->good;
  };
  Result<Reduced> smallest = reduce(**graph, *inputs, fails);
  if (!smallest)
    return failed(smallest.error());
  const std::string bytes = std::filesystem::path(arguments.output).replace_extension(".bin").string();
  Result<void> saved = saveGraph(*smallest->graph, arguments.output);
  if (saved)
    saved = saveInputs(smallest->inputs, bytes);
  if (!saved)
    return failed(saved.error());
  std::cout << arguments.output << ": " << smallest->graph->view().node_count << " of " << (*graph)->view().node_count
            << " nodes still fail (" << how << "), " << smallest->tried << " regions tried; its inputs are in " << bytes
            << "\n";
  if (arguments.command.empty())
    std::cout << "repeat: " << self << " check " << arguments.output << " --inputs " << bytes << " --device "
              << arguments.device << (arguments.plugins.empty() ? "" : " --plugins " + arguments.plugins) << "\n";
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  Arguments arguments;
  CLI::App app("Mortise: one compiler, any backend.");
  app.require_subcommand(1);
  const auto command = [&](const char *name, const char *help, int (*run)(const Arguments &)) {
    CLI::App *made = app.add_subcommand(name, help);
    made->add_option("graph", arguments.graph, "a graph: .mrtg or .mlir")->required();
    made->callback([&arguments, run] { throw CLI::RuntimeError(run(arguments)); });
    return made;
  };
  const auto onDevice = [&](CLI::App *made) {
    made->add_option("--device", arguments.device, "a device, or several with commas between")->capture_default_str();
    made->add_option("--plugins", arguments.plugins, "plugin_path: directories and files, colon separated");
  };
  const auto withInputs = [&](CLI::App *made) {
    made->add_option("--symbols", arguments.symbols, "numbers for symbols: b=2,s=16");
    made->add_option("--inputs", arguments.inputs,
                     "the inputs' bytes, dense, one after the other; else made by --seed");
    made->add_option("--seed", arguments.seed, "of made inputs")->capture_default_str();
    made->add_option("--tolerance", arguments.tolerance, "relative to an output's largest magnitude")
        ->capture_default_str();
  };
  CLI::App *made = command("convert", "text to the portable format and back, by the names' ends", convert);
  made->add_option("output", arguments.output, ".mrtg or .mlir; - is text to standard output")->required();
  made = command("draw", "a graph as an HTML page: ops, shapes, devices, costs", drawPage);
  made->add_option("-o,--output", arguments.output, "the page")->required();
  onDevice(made);
  made = command("check", "runs a graph on a device and beside the reference interpreter", checkGraph);
  onDevice(made);
  withInputs(made);
  made = command("reduce", "shrinks a failing graph to its smallest failing region", reduceGraph);
  onDevice(made);
  withInputs(made);
  made->add_option("-o,--output", arguments.output, "the region: .mrtg or .mlir; its inputs go beside it as .bin")
      ->required();
  made->add_option("--command", arguments.command,
                   "asks this instead of a device: {} is the region's file; exit status "
                   "0 is right, anything else fails");
  made->add_option("--seconds", arguments.seconds, "limit of one try")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return 0;
}
