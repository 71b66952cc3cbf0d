// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler.hpp"

#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/MLIRContext.h>
#include <mlir/IR/OwningOpRef.h>

#include <mortise/ir/portable.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace mortise::capi {
namespace {

// Writes the graph to FOLDER/NAME.mrtg, or NAME.2.mrtg and so on. Never overwrites a file, so several processes may
// write to one folder.
Result<void> save(const Graph &graph, const std::string &folder) {
  std::string name = graph.view().name;
  for (char &c : name)
    c = std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' ? c : '_';
  const auto failed = [&](const std::string &path, const std::string &why) {
    return Error{MORTISE_INVALID_ARGUMENT,
                 "save_graphs: cannot write " + path + ": " + why + "; name a folder that is writable"};
  };
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return failed(folder, error.message());
  for (unsigned number = 1;; ++number) {
    const std::string path =
        folder + "/" + name + (number > 1 ? "." + std::to_string(number) : std::string()) + ".mrtg";
    std::FILE *file = std::fopen(path.c_str(), "wbx");
    if (!file && errno == EEXIST)
      continue;
    if (!file)
      return failed(path, std::strerror(errno));
    const bool written = std::fwrite(graph.bytes().data(), 1, graph.bytes().size(), file) == graph.bytes().size();
    if (std::fclose(file) != 0 || !written)
      return failed(path, std::strerror(errno));
    return {};
  }
}

} // namespace

struct Compiler::Impl {
  // Threading is disabled because graphs are small, and callers compile several at once in their own threads.
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  ir::Builder builder;
  Impl(std::string_view name, const runtime::Registry &registry) : builder(context, name, &registry) {}
};

Compiler::Compiler(std::string_view name, const runtime::Registry &registry)
    : impl(std::make_unique<Impl>(name, registry)) {}
Compiler::~Compiler() = default;
ir::Builder &Compiler::builder() { return impl->builder; }
std::string Compiler::text() const { return impl->builder.text(); }

Result<std::shared_ptr<runtime::Program>> Compiler::compile(const std::shared_ptr<const runtime::Registry> &registry,
                                                            const runtime::Config &config, passes::Timings &timings,
                                                            std::vector<passes::Uncovered> &uncovered,
                                                            const passes::Homes &homes) {
  Result<mlir::OwningOpRef<mlir::ModuleOp>> module = impl->builder.finish();
  if (!module)
    return module.error();
  if (const std::string &folder = config.get("save_graphs"); !folder.empty()) {
    Result<std::shared_ptr<const Graph>> graph = ir::exportGraph(**module);
    Result<void> saved = graph ? save(**graph, folder) : Result<void>(graph.error());
    if (!saved)
      return saved.error();
  }
  return passes::compileAndLoad(**module, registry, config, &timings, &uncovered, homes);
}

} // namespace mortise::capi
