// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The command `mortise`: runs, converts, draws, checks and reduces graphs, and says what is installed.
#include "cache.hpp"
#include "check.hpp"
#include "command.hpp"
#include "devices.hpp"
#include "draw.hpp"
#include "explain.hpp"
#include "host.hpp"
#include "plugin.hpp"
#include "reduce.hpp"
#include "run.hpp"
#include "seam.hpp"
#include "signature.hpp"
#include "try.hpp"

#include <mortise/runtime/program.hpp>
#include <mortise/runtime/program_file.hpp>

#include <CLI/CLI.hpp>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <optional>
#include <sstream>
#include <thread>

namespace {
using namespace mortise;
using namespace mortise::tool;

struct Arguments {
  std::string graph, output, plugins, beside, symbols, inputs, command, ops;
  std::optional<std::string> device; // as configured without one
  uint64_t seed = 0;
  double tolerance = 1e-4, limit = 60, duration = 3; // seconds
  bool json = false, verbose = false;
  size_t first = 0, every = 1;
  int jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  NewPlugin plugin;
  uint32_t opset = 0, format = 0; // 0: the newest
};

int failed(const Error &error) {
  std::cerr << "mortise: " << error.message << "\n";
  return 2;
}

// command(host) with the host that the arguments name; its exit status.
template <typename Command> int withHost(const Arguments &arguments, Command command) {
  Result<Host> host = Host::open(arguments.device.value_or(""), arguments.plugins);
  return host ? command(*host) : failed(host.error());
}

Result<Tensors> inputsOf(const Arguments &arguments, const MortiseGraph &view) {
  if (Result<void> fits = fitsMemory(view); !fits)
    return fits.error();
  return arguments.inputs.empty() ? Result<Tensors>(makeInputs(view, arguments.seed))
                                  : loadInputs(view, arguments.inputs);
}

// A graph with numbers for its symbols, and its inputs.
struct Case {
  std::shared_ptr<const Graph> graph;
  Tensors inputs;
};
Result<Case> load(const Arguments &arguments) {
  auto graph = loadGraph(arguments.graph);
  if (graph)
    graph = withNumbers(std::move(*graph), arguments.symbols);
  if (!graph)
    return graph.error();
  Result<Tensors> inputs = inputsOf(arguments, (*graph)->view());
  if (!inputs)
    return inputs.error();
  return Case{std::move(*graph), std::move(*inputs)};
}

// command(host, case), likewise with the graph and its inputs.
template <typename Command> int withCase(const Arguments &arguments, Command command) {
  Result<Case> given = load(arguments);
  if (!given)
    return failed(given.error());
  return withHost(arguments, [&](const Host &host) { return command(host, *given); });
}

int convert(const Arguments &arguments) {
  auto graph = loadGraph(arguments.graph);
  if (!graph)
    return failed(graph.error());
  if (arguments.opset || arguments.format) {
    const auto newest = [](uint32_t version) { return version ? version : UINT32_MAX; };
    auto older = (*graph)->bytesFor(newest(arguments.opset), newest(arguments.format));
    if (!older)
      return failed(older.error());
    if (!arguments.output.ends_with(".mrtg"))
      return failed({MORTISE_INVALID_ARGUMENT, arguments.output + ": only the portable format has versions; expected a "
                                                                  "name that ends in .mrtg with --opset or --format"});
    Result<void> saved = writeFile(arguments.output, *older);
    return saved ? 0 : failed(saved.error());
  }
  Result<void> saved = saveGraph(**graph, arguments.output);
  return saved ? 0 : failed(saved.error());
}

int drawPage(const Arguments &arguments) {
  auto graph = loadGraph(arguments.graph);
  if (graph && !arguments.symbols.empty())
    graph = withNumbers(std::move(*graph), arguments.symbols);
  if (!graph)
    return failed(graph.error());
  Placed placed{*graph, nullptr};
  if (arguments.device != "") {
    Result<Host> made = Host::open(arguments.device.value_or(""), arguments.plugins);
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

// Exit status 0: results agree; 1: they differ, or the graph does not compile or run.
int checkGraph(const Arguments &arguments) {
  return withCase(arguments, [&](const Host &host, const Case &given) {
    Result<Verdict> verdict = check(*given.graph, given.inputs, host.registry, host.config, arguments.tolerance);
    if (!verdict)
      verdict = Verdict{false, verdict.error().message};
    std::cout << (verdict->good ? "right" : verdict->detail) << "\n";
    return verdict->good ? 0 : 1;
  });
}

// The command that decides whether the region fails: `check` of this program, or the command given by the user.
std::vector<std::string> question(const Arguments &arguments, const std::string &region, const std::string &values) {
  if (!arguments.command.empty()) {
    std::string text = arguments.command;
    for (size_t at = 0; (at = text.find("{}", at)) != std::string::npos; at += region.size())
      text.replace(at, 2, region);
    return {"/bin/sh", "-c", text};
  }
  std::ostringstream tolerance;
  tolerance.precision(17);
  tolerance << arguments.tolerance;
  std::vector<std::string> command{self(), "check", region, "--inputs", values, "--tolerance", tolerance.str()};
  if (arguments.device)
    command.insert(command.end(), {"--device", *arguments.device});
  if (!arguments.plugins.empty())
    command.insert(command.end(), {"--plugins", arguments.plugins});
  return command;
}

int reduceGraph(const Arguments &arguments) {
  Result<Case> given = load(arguments);
  if (!given)
    return failed(given.error());
  const Scratch scratch;
  if (scratch.folder.empty())
    return failed({MORTISE_INTERNAL, "no temporary folder can be made; is TMPDIR writable?"});
  const std::string region = scratch.folder + "/region.mrtg", values = scratch.folder + "/region.bin";
  const std::vector<std::string> command = question(arguments, region, values);
  std::string how;
  // Runs in a separate process, so a crash or a hang counts as a failure.
  const auto fails = [&](const Graph &candidate, const Tensors &inputs) -> Result<bool> {
    if (Result<void> saved = saveGraph(candidate, region); !saved)
      return saved.error();
    if (Result<void> saved = saveInputs(inputs, values); !saved)
      return saved.error();
    Result<Ended> ended = runCommand(command, arguments.limit);
    if (!ended)
      return ended.error();
    if (arguments.command.empty() && ended->how == "exit status 2") // `check` has printed the reason
      return Error{MORTISE_INVALID_ARGUMENT, "a region cannot be checked"};
    how = ended->good ? how : ended->how;
    return !ended->good;
  };
  Result<Reduced> smallest = reduce(*given->graph, given->inputs, fails);
  if (!smallest)
    return failed(smallest.error());
  const std::string bytes = std::filesystem::path(arguments.output).replace_extension(".bin").string();
  Result<void> saved = saveGraph(*smallest->graph, arguments.output);
  if (saved)
    saved = saveInputs(smallest->inputs, bytes);
  if (!saved)
    return failed(saved.error());
  std::cout << arguments.output << ": " << smallest->graph->view().node_count << " of "
            << given->graph->view().node_count << " nodes still fail (" << how << "), " << smallest->tried
            << " regions tried; its inputs are in " << bytes << "\n";
  if (!arguments.command.empty())
    return 0;
  std::cout << "repeat:";
  for (const std::string &word : question(arguments, arguments.output, bytes))
    std::cout << " " << word;
  std::cout << "\n";
  return 0;
}

int finished(const Result<void> &done) { return done ? 0 : failed(done.error()); }

int compileGraph(const Arguments &arguments) {
  return withHost(arguments, [&](const Host &host) {
    auto graph = loadGraph(arguments.graph);
    if (graph && !arguments.symbols.empty())
      graph = withNumbers(std::move(*graph), arguments.symbols);
    if (!graph)
      return failed(graph.error());
    auto program = compileAndLoad(**graph, host.registry, host.config);
    if (!program)
      return failed(program.error());
    std::vector<runtime::SavedKernel> kernels;
    if (host.config.savedKernels())
      kernels = (*program)->saveKernels();
    auto bytes = runtime::writeProgram((*program)->plan(), kernels);
    if (!bytes)
      return failed(bytes.error());
    if (Result<void> saved = writeFile(arguments.output, *bytes); !saved)
      return failed(saved.error());
    std::cout << arguments.output << ": " << bytes->size() << " bytes";
    for (const runtime::RegionReport &region : (*program)->report())
      std::cout << "\n  " << region.device << " (" << region.plugin << "): " << region.nodes.size() << " nodes, "
                << region.lowering;
    std::cout << "\n";
    return 0;
  });
}

// command(host, execution, view) with a compiled program of a file. `content`: the file's.
template <typename Command>
Result<void> withProgram(const Arguments &arguments, const std::string &content, const Host &host, Command command) {
  if (arguments.device)
    return Error{MORTISE_INVALID_ARGUMENT,
                 arguments.graph +
                     ": a compiled program runs on the devices that it was compiled for; leave out --device"};
  auto saved = runtime::readProgram(std::as_bytes(std::span(content.data(), content.size())));
  if (!saved)
    return Error{saved.error().code, arguments.graph + ": " + saved.error().message};
  runtime::LoadOptions options{.specializeLimit = host.config.specializeLimit()};
  if (host.config.savedKernels())
    options.kernels = saved->kernels;
  const auto start = std::chrono::steady_clock::now();
  auto program = runtime::Program::load(saved->plan, host.registry, options);
  if (!program)
    return program.error();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto signature = Signature::make(*saved->plan, arguments.symbols);
  if (!signature)
    return signature.error();
  const MortiseGraph &view = (*signature)->view();
  Result<Tensors> inputs = inputsOf(arguments, view);
  Result<Execution> execution =
      inputs ? Execution::make(std::move(*program), view, std::move(*inputs)) : Result<Execution>(inputs.error());
  if (!execution)
    return execution.error();
  execution->compileSeconds = seconds;
  return command(host, *execution, view);
}

// command(host, execution, view) with what the arguments name: a graph, which is compiled, or a compiled program.
template <typename Command> int withExecution(const Arguments &arguments, Command command) {
  const Result<std::string> content = readFile(arguments.graph);
  if (!content)
    return failed(content.error());
  if (isProgram(*content) || arguments.graph.ends_with(".mrtp"))
    return withHost(arguments,
                    [&](const Host &host) { return finished(withProgram(arguments, *content, host, command)); });
  return withCase(arguments, [&](const Host &host, Case &given) {
    Result<Execution> execution = Execution::make(*given.graph, std::move(given.inputs), host.registry, host.config);
    return finished(execution ? command(host, *execution, given.graph->view()) : Result<void>(execution.error()));
  });
}

int runOnce(const Arguments &arguments) {
  return withExecution(arguments, [&](const Host &, Execution &execution, const MortiseGraph &view) {
    return tool::runOnce(execution, view, arguments.output);
  });
}
int bench(const Arguments &arguments) {
  return withExecution(arguments, [&](const Host &host, Execution &execution, const MortiseGraph &) {
    return tool::bench(execution, host, arguments.duration, arguments.json);
  });
}
int explainGraph(const Arguments &arguments) {
  return withCase(arguments, [&](const Host &host, Case &given) {
    std::optional<Placed> drawn;
    if (!arguments.output.empty()) {
      auto placed = compile(*given.graph, *host.registry, host.config);
      if (!placed)
        return failed(placed.error());
      drawn = std::move(*placed);
    }
    Result<Execution> execution = Execution::make(*given.graph, std::move(given.inputs), host.registry, host.config);
    return finished(execution ? explain(*execution, host, arguments.json, drawn ? &*drawn : nullptr, arguments.output)
                              : Result<void>(execution.error()));
  });
}
int listDevices(const Arguments &arguments) {
  return withHost(arguments, [&](const Host &host) { return showDevices(host, arguments.json); });
}
int listConfig(const Arguments &arguments) {
  return withHost(arguments, [&](const Host &host) { return showConfig(host, arguments.json); });
}
int examine(const Arguments &arguments) {
  return withHost(arguments, [&](const Host &host) { return doctor(host, arguments.plugins); });
}
// command(cache); no plugin is loaded for it.
template <typename Command> int withCache(const Arguments &arguments, Command command) {
  auto config = Host::configure("", arguments.plugins);
  return config ? command(runtime::KernelCache::open(*config)) : failed(config.error());
}
int listCache(const Arguments &arguments) {
  return withCache(arguments,
                   [&](const runtime::OpenedKernelCache &cache) { return showCache(cache, arguments.json); });
}
int checkLibrary(const Arguments &arguments) {
  return checkPlugin({arguments.plugins, arguments.device.value_or(""), arguments.ops, arguments.beside,
                      arguments.limit, arguments.json, arguments.verbose, arguments.jobs});
}
int tryLibrary(const Arguments &arguments) {
  return withHost(arguments,
                  [&](const Host &host) { return tryCases(host, arguments.ops, arguments.first, arguments.every); });
}
int makePlugin(const Arguments &arguments) { return newPlugin(arguments.plugin); }
int emptyCache(const Arguments &arguments) { return withCache(arguments, clearCache); }

} // namespace

int main(int argc, char **argv) {
  Arguments arguments;
  CLI::App app("Mortise: one compiler, any backend.");
  app.require_subcommand(1);
  const auto calls = [&](CLI::App *made, int (*run)(const Arguments &)) {
    made->callback([&arguments, run] { throw CLI::RuntimeError(run(arguments)); });
  };
  const auto command = [&](const char *name, const char *help, int (*run)(const Arguments &)) {
    CLI::App *made = app.add_subcommand(name, help);
    made->add_option("graph", arguments.graph, "a graph: .mrtg or .mlir")->required();
    calls(made, run);
    return made;
  };
  const auto executing = [&](const char *name, const char *help, int (*run)(const Arguments &)) {
    CLI::App *made = command(name, help, run);
    made->get_option("graph")->description("a graph: .mrtg or .mlir; or a compiled program: .mrtp");
    return made;
  };
  const auto withPlugins = [&](CLI::App *made) {
    made->add_option("--plugins", arguments.plugins, "plugin_path: directories and files, colon separated");
  };
  const auto onDevice = [&](CLI::App *made, const std::string &rest = "; default: as configured") {
    made->add_option("--device", arguments.device, "a device, or several with commas between" + rest);
    withPlugins(made);
  };
  const auto asJson = [&](CLI::App *made) { made->add_flag("--json", arguments.json, "JSON"); };
  const auto withSymbols = [&](CLI::App *made) {
    made->add_option("--symbols", arguments.symbols, "numbers for symbols: b=2,s=16");
  };
  const auto withInputs = [&](CLI::App *made) {
    withSymbols(made);
    made->add_option("--inputs", arguments.inputs,
                     "the inputs' bytes, dense, one after the other; else made by --seed");
    made->add_option("--seed", arguments.seed, "of made inputs")->capture_default_str();
  };
  const auto withTolerance = [&](CLI::App *made) {
    made->add_option("--tolerance", arguments.tolerance, "relative to an output's largest magnitude")
        ->capture_default_str();
  };
  const auto positive = [](const std::string &text) -> std::string {
    double number = 0;
    return CLI::detail::lexical_cast(text, number) && number > 0 && std::isfinite(number)
               ? ""
               : "expected a number of seconds above 0, found '" + text + "'";
  };
  CLI::App *made =
      app.add_subcommand("devices", "the installed devices, and plugins that were rejected, with the reason");
  calls(made, listDevices);
  withPlugins(made);
  asJson(made);
  made = app.add_subcommand("doctor", "checks plugins, configuration and, by a small graph, every device");
  calls(made, examine);
  onDevice(made);
  CLI::App *config = app.add_subcommand("config", "the configuration")->require_subcommand(1);
  made = config->add_subcommand("show", "every setting, and where its value comes from");
  calls(made, listConfig);
  withPlugins(made);
  asJson(made);
  CLI::App *cache =
      app.add_subcommand("cache", "compiled kernels on disk, and their measured times")->require_subcommand(1);
  made = cache->add_subcommand("show", "every entry, and how much room they take");
  calls(made, listCache);
  withPlugins(made);
  asJson(made);
  made = cache->add_subcommand("clear", "removes all of them");
  calls(made, emptyCache);
  withPlugins(made);
  CLI::App *plugin = app.add_subcommand("plugin", "for people who write plugins")->require_subcommand(1);
  const auto onLibrary = [&](const char *name, const char *help, int (*run)(const Arguments &)) {
    made = plugin->add_subcommand(name, help);
    calls(made, run);
    made->add_option("library", arguments.plugins, "libNAME.so, with libNAME.toml beside it")->required();
    made->add_option("--device", arguments.device, "one of its devices; default: each");
    made->add_option("--ops", arguments.ops,
                     "shell patterns with commas between: mortise.add,mortise.reduce_*; default: every op");
  };
  made = plugin->add_subcommand("new", "writes a project that builds: NAME/CMakeLists.txt and what belongs to it");
  calls(made, makePlugin);
  made->add_option("name", arguments.plugin.name, "of the plugin and its device: lower case letters, digits, _ and -")
      ->required();
  made->add_option("--lang", arguments.plugin.lang, "c, cpp, or codegen (C++ with generated kernels)")
      ->check(CLI::IsMember({"c", "cpp", "codegen"}))
      ->capture_default_str();
  made->add_option("--memory", arguments.plugin.memory,
                   "host: kernels use ordinary memory; own: the device has its own")
      ->check(CLI::IsMember({"host", "own"}))
      ->capture_default_str();
  made->add_option("--vendor", arguments.plugin.vendor, "default: the name");
  made->add_option("--folder", arguments.plugin.folder, "default: the name");
  onLibrary("check", "says what is wrong with a plugin; its code runs in child processes", checkLibrary);
  made->add_option("--beside", arguments.beside,
                   "plugins to load with it, colon separated: an op-pack needs the owner of its device");
  made->add_option("--seconds", arguments.limit, "limit for loading it, and for one case")
      ->capture_default_str()
      ->check(positive);
  made->add_option("--jobs", arguments.jobs,
                   "processes at a time; 1 for a device that one process can use; default: one for each core")
      ->check(CLI::Range(1, 1024));
  made->add_flag("--verbose", arguments.verbose, "lists why ops are refused");
  asJson(made);
  onLibrary("try", "runs cases in this process, a line of JSON each; `check` calls it", tryLibrary);
  made->group("");
  made->add_option("--first", arguments.first, "number of the first case");
  made->add_option("--every", arguments.every, "1: each case from there on; N: each Nth")->check(CLI::PositiveNumber);
  made = executing("run", "runs a graph or a program once and summarises its outputs", runOnce);
  onDevice(made);
  withInputs(made);
  made->add_option("-o,--output", arguments.output, "a file for the outputs' bytes, dense, one after the other");
  made = executing("bench", "runs it many times: time of calls, of compilation, and of each step", bench);
  onDevice(made);
  withInputs(made);
  asJson(made);
  made->add_option("--seconds", arguments.duration, "of calls")->capture_default_str()->check(positive);
  made = command("explain", "where each region runs and why: predicted and measured time, copies, and who refused what",
                 explainGraph);
  made->add_option("-o,--output", arguments.output, "a page with bars and the drawn graph");
  onDevice(made);
  withInputs(made);
  asJson(made);
  made = command("compile", "compiles a graph to a file that mortise_program_load reads", compileGraph);
  made->add_option("-o,--output", arguments.output, "the program: NAME.mrtp")->required();
  onDevice(made);
  withSymbols(made);
  made = command("convert", "text to the portable format and back, by the names' ends", convert);
  made->add_option("output", arguments.output, ".mrtg or .mlir; - is text to standard output")->required();
  made->add_option("--opset", arguments.opset, "for readers that know no newer one; default: the newest");
  made->add_option("--format", arguments.format, "version of the format, likewise");
  made = command("draw", "a graph as an HTML page: ops, shapes, devices, costs", drawPage);
  made->add_option("-o,--output", arguments.output, "the page")->required();
  onDevice(made, "; \"\": the graph alone, as it was loaded");
  withSymbols(made);
  made = command("check", "runs a graph on a device and beside the reference interpreter", checkGraph);
  onDevice(made);
  withInputs(made);
  withTolerance(made);
  made = command("reduce", "shrinks a failing graph to its smallest failing region", reduceGraph);
  onDevice(made);
  withInputs(made);
  withTolerance(made);
  made->add_option("-o,--output", arguments.output, "the region: .mrtg or .mlir; its inputs go beside it as .bin")
      ->required();
  made->add_option("--command", arguments.command,
                   "asks this instead of a device: {} is the region's file; exit status "
                   "0 is right, anything else fails");
  made->add_option("--seconds", arguments.limit, "limit of one try")->capture_default_str()->check(positive);
  CLI11_PARSE(app, argc, argv);
  return 0;
}
