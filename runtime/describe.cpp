// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/runtime/describe.hpp>

#include <nlohmann/json.hpp>

namespace mortise::runtime {

using Json = nlohmann::ordered_json;

const char *codeName(MortiseCode code) {
  constexpr const char *names[] = {"OK",        "INVALID_ARGUMENT", "UNSUPPORTED", "NEEDS_STATIC", "OUT_OF_MEMORY",
                                   "NOT_FOUND", "VERSION_MISMATCH", "CANCELLED",   "DEVICE_LOST",  "CORRUPT",
                                   "INTERNAL"};
  return code >= MORTISE_OK && code <= MORTISE_INTERNAL ? names[code] : "UNKNOWN";
}

std::string describe(const Registry &registry, const Config &config) {
  Json plugins = Json::array(), devices = Json::array(), rejected = Json::array(), settings = Json::array();
  registry.loadAll();
  for (const Plugin *plugin : registry.plugins()) {
    Json ops = Json::object(); // of the vendor's own, with their summaries
    for (const MortiseOpDeclaration *op : std::span(plugin->table->ops, plugin->table->op_count))
      ops[op->name] = legible(op->summary);
    plugins.push_back({{"name", plugin->name},
                       {"vendor", plugin->vendor},
                       {"version", plugin->version},
                       {"path", plugin->path},
                       {"ops", ops},
                       {"no_device", plugin->deviceless},
                       {"isolated", plugin->isolated},
                       {"hidden", plugin->hidden}});
  }
  for (const Device *device : registry.devices()) {
    const MortiseDeviceInfo &info = device->info;
    devices.push_back(
        {{"name", device->name()},
         {"plugin", device->plugin->name},
         {"kind", info.kind},
         {"hardware", info.name ? info.name : ""},
         {"ordinal", info.ordinal},
         {"automatic", info.automatic != 0},
         {"host_memory", device->inHostMemory()},
         {"threads", info.threads},
         {"peak_flops", info.peak_flops},
         {"bandwidth", info.bandwidth},
         {"memory_bytes", device->home().bytes},
         {"dlpack", info.dlpack_type && !device->plugin->isolated ? Json{info.dlpack_type, info.dlpack_id} : Json()},
         {"isolated", device->plugin->isolated},
         {"features", info.features ? info.features : ""}});
  }
  for (const Rejected &plugin : registry.rejected())
    rejected.push_back(
        {{"path", plugin.path}, {"code", codeName(plugin.error.code)}, {"reason", plugin.error.message}});
  for (const Setting &setting : config.settings())
    settings.push_back({{"key", setting.key}, {"value", setting.value}, {"source", setting.source}});
  const Json whole = {{"plugins", plugins}, {"devices", devices}, {"rejected", rejected}, {"config", settings}};
  return whole.dump(-1, ' ', false, Json::error_handler_t::replace);
}

} // namespace mortise::runtime
