// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "devices.hpp"

#include "command.hpp"
#include "files.hpp"
#include "seam.hpp"

#include <mortise/passes/prices.hpp>
#include <mortise/runtime/describe.hpp>
#include <mortise/runtime/manifest.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <sstream>

namespace mortise::tool {
namespace {

using Json = nlohmann::ordered_json;

Json described(const Host &host) { return Json::parse(runtime::describe(*host.registry, host.config)); }

std::string number(double value, const char *unit) {
  char text[48];
  std::snprintf(text, sizeof text, "%.4g %s", value, unit);
  return text;
}

// "AMD EPYC, 2 threads, 231 GFLOP/s, 40 GB/s"; what is unknown is left out.
std::string properties(const runtime::Device &device) {
  const MortiseDeviceInfo &info = device.info;
  std::string text = info.name && *info.name ? info.name : "no name";
  if (info.threads)
    text += ", " + std::to_string(info.threads) + (info.threads == 1 ? " thread" : " threads");
  if (info.peak_flops > 0)
    text += ", " + number(info.peak_flops / 1e9, "GFLOP/s");
  if (info.bandwidth > 0)
    text += ", " + number(info.bandwidth / 1e9, "GB/s");
  if (const uint64_t bytes = info.spaces[0]->bytes)
    text += ", " + number(static_cast<double>(bytes) / (1 << 30), "GiB");
  return text + (device.plugin->isolated ? ", in a process of its own"
                 : device.inHostMemory() ? ", computes in host memory"
                                         : ", memory of its own");
}

// What copies to and from the memories of devices cost, each direction once.
Result<Json> links(const Host &host) {
  auto prices = passes::Prices::make(*host.registry, host.config);
  if (!prices)
    return prices.error();
  std::vector<const runtime::Device *> memories{nullptr}; // the host's
  for (const runtime::Device *device : host.registry->devices())
    if (&device->owner() == device && (!device->inHostMemory() || device->hidesMemory()))
      memories.push_back(device);
  Json list = Json::array();
  const auto name = [](const runtime::Device *device) { return device ? device->name() : std::string("host"); };
  for (const runtime::Device *from : memories)
    for (const runtime::Device *to : memories) {
      if (from == to)
        continue;
      const passes::CopyPrice price = (*prices)->copy(from, to);
      list.push_back({{"from", name(from)},
                      {"to", name(to)},
                      {"ns", price.ns},
                      {"ns_source", passes::priceSourceName(price.nsSource)},
                      {"bytes_per_second", price.bytesPerSecond},
                      {"bytes_per_second_source", passes::priceSourceName(price.bytesPerSecondSource)},
                      {"over_host", price.overHost},
                      {"text", passes::priceText(price)}});
    }
  return list;
}

std::string pluginText(const runtime::Plugin &plugin) {
  std::ostringstream text;
  text << plugin.name << " " << plugin.version << " of " << plugin.vendor << ", ABI revision " << plugin.abiRevision
       << ", " << plugin.path;
  return text.str();
}

// A small graph that doctor() has every device compute.
struct Probe {
  const char *what, *text;
};
constexpr Probe probes[] = {
    {"sum", "func.func @probe(%x: tensor<8x32xf32>, %y: tensor<8x32xf32>) -> tensor<8x32xf32> {\n"
            "  %0 = mortise.add %x, %y : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>\n"
            "  return %0 : tensor<8x32xf32>\n}\n"},
    {"product",
     "func.func @probe(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>) -> tensor<8x32xf32> {\n"
     "  %0 = mortise.dot %x, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, "
     "rhs_contract = array<i64: 0>} : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>\n"
     "  return %0 : tensor<8x32xf32>\n}\n"},
    {"softmax", "func.func @probe(%x: tensor<8x32xf32>) -> tensor<8x32xf32> {\n"
                "  %0 = mortise.softmax %x {axis = 1 : i64} : (tensor<8x32xf32>) -> tensor<8x32xf32>\n"
                "  return %0 : tensor<8x32xf32>\n}\n"},
};
constexpr double probeSeconds = 60;

enum class Outcome { Right, Refused, Failed };

// Compares the device with the interpreter in another process. `why`: receives what failed.
Outcome tryDevice(const Host &host, const Probe &probe, const Scratch &scratch, const std::string &device,
                  const std::string &plugins, std::string &why) {
  Result<std::shared_ptr<const Graph>> graph = parse(probe.text, probe.what);
  Result<runtime::Config> config = Host::configure(device, plugins);
  const std::string file = scratch.folder + "/" + probe.what + ".mrtg";
  Result<void> saved = !graph    ? Result<void>(graph.error())
                       : !config ? Result<void>(config.error())
                                 : saveGraph(**graph, file);
  if (!saved) {
    why = saved.error().message;
    return Outcome::Failed;
  }
  if (auto placed = compile(**graph, *host.registry, *config); !placed && placed.error().code == MORTISE_UNSUPPORTED)
    return Outcome::Refused;
  std::vector<std::string> command{self(), "check", file, "--device", device};
  if (!plugins.empty())
    command.insert(command.end(), {"--plugins", plugins});
  std::string said;
  Result<Ended> ended = runCommand(command, probeSeconds, &said);
  if (ended && ended->good)
    return Outcome::Right;
  std::ranges::replace(said, '\n', ' ');
  why = ended ? ended->how + (said.empty() ? "" : ": " + said) : ended.error().message;
  return Outcome::Failed;
}

// What doctor() finds, a line each.
struct Report {
  int faults = 0;
  void good(const std::string &text) { std::cout << "ok    " << text << std::endl; }
  void bad(const std::string &text) {
    std::cout << "BAD   " << text << std::endl;
    ++faults;
  }
};

void examine(const Host &host, const runtime::Device &device, const Scratch &scratch, const std::string &plugins,
             Report &report) {
  std::string right, refused;
  for (const Probe &probe : probes) {
    std::string why;
    const Outcome outcome = tryDevice(host, probe, scratch, device.name(), plugins, why);
    if (outcome == Outcome::Failed)
      return report.bad("device " + device.name() + ": a " + probe.what + ": " + why);
    std::string &list = outcome == Outcome::Right ? right : refused;
    list += (list.empty() ? "" : ", ") + std::string(probe.what);
  }
  report.good("device " + device.name() + ": " + properties(device) + "; right: " + (right.empty() ? "-" : right) +
              (refused.empty() ? "" : "; not taken: " + refused));
}

} // namespace

int showDevices(const Host &host, bool json) {
  host.registry->loadAll();
  const Result<Json> copies = links(host);
  if (!copies) {
    std::cerr << "mortise: " << copies.error().message << "\n";
    return 1;
  }
  if (json) {
    Json whole = described(host);
    whole.erase("config");
    whole["copies"] = *copies;
    std::cout << whole.dump(2) << "\n";
  } else {
    for (const runtime::Device *device : host.registry->devices()) {
      std::cout << device->name() << ": " << properties(*device)
                << (device->info.automatic ? "" : "; used only when asked for by name") << "\n";
      if (device->info.features && *device->info.features)
        std::cout << "    features " << device->info.features << "\n";
      std::cout << "    plugin " << pluginText(*device->plugin) << "\n";
      if (const std::vector<std::string> &hidden = device->plugin->hidden; !hidden.empty())
        std::cout << "    isolated, and so without " << runtime::join(hidden) << "\n";
    }
    for (const runtime::Plugin *plugin : host.registry->plugins())
      if (!plugin->deviceless.empty())
        std::cout << "no device of plugin " << plugin->name << ": " << plugin->deviceless << "\n";
    for (const Json &copy : *copies)
      std::cout << "copies from " << copy["from"].get<std::string>() << " to " << copy["to"].get<std::string>() << ": "
                << copy["text"].get<std::string>() << "\n";
    for (const runtime::Rejected &plugin : host.registry->rejected())
      std::cout << "rejected: " << plugin.path << ": " << plugin.error.message << "\n";
  }
  if (!host.registry->devices().empty())
    return 0;
  std::cerr << "mortise: no device; plugin_path is \"" << host.config.get("plugin_path")
            << "\"; set it to the folder of your plugins (MORTISE_PLUGIN_PATH)\n";
  return 1;
}

int showConfig(const Host &host, bool json) {
  if (json) {
    std::cout << described(host)["config"].dump(2) << "\n";
    return 0;
  }
  size_t width = 0;
  for (const runtime::Setting &setting : host.config.settings())
    width = std::max(width, setting.key.size());
  for (const runtime::Setting &setting : host.config.settings())
    std::cout << setting.key << std::string(width - setting.key.size(), ' ') << " = \"" << setting.value << "\"  ("
              << setting.source << ")\n";
  return 0;
}

int doctor(const Host &host, const std::string &plugins) {
  Report report;
  report.good("configuration: " + std::to_string(host.config.settings().size()) +
              " settings; `mortise config show` lists them");
  host.registry->loadAll();
  for (const runtime::Plugin *plugin : host.registry->plugins())
    report.good("plugin " + pluginText(*plugin) +
                (plugin->deviceless.empty() ? "" : "; no device here: " + plugin->deviceless));
  for (const runtime::Rejected &plugin : host.registry->rejected())
    report.bad("plugin " + plugin.path + ": " + plugin.error.message);
  std::istringstream chosen(host.config.get("device"));
  for (std::string name; std::getline(chosen, name, ',');)
    if (auto found = host.registry->find(name); !found)
      report.bad("device \"" + name + "\" of the configuration: " + found.error().message);
  const Scratch scratch;
  if (scratch.folder.empty())
    report.bad("no temporary folder can be made, so no device was tried; is TMPDIR writable?");
  else
    for (const runtime::Device *device : host.registry->devices())
      examine(host, *device, scratch, plugins, report);
  std::cout << (report.faults ? std::to_string(report.faults) + " wrong" : "all is well") << "\n";
  return report.faults ? 1 : 0;
}

} // namespace mortise::tool
