// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fuzz target for the whole path of a file: load, import into MLIR with all verifiers, export. Only the reader is
// built with sanitizers; the dialect is the build's, but ASan's allocator serves its allocations.
#include "consume.hpp"

#include <mortise/ir/portable.hpp>

#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/Diagnostics.h>
#include <mlir/IR/MLIRContext.h>
#include <mlir/IR/OwningOpRef.h>
#include <mlir/IR/Verifier.h>

#include <optional>

using namespace mortise;

namespace {

// Replaced from time to time, because a context keeps every type and attribute that it has seen.
mlir::MLIRContext &context() {
  static std::optional<mlir::MLIRContext> current;
  static size_t uses = 0;
  if (uses++ % 2000 == 0) {
    current.emplace(mlir::MLIRContext::Threading::DISABLED);
    current->getDiagEngine().registerHandler([](mlir::Diagnostic &) {});
  }
  return *current;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const auto graph = Graph::load(std::as_bytes(std::span(data, size)));
  if (!graph)
    return 0;
  auto module = ir::importGraph(**graph, context());
  if (!module) {
    fuzz::require(!module.error().message.empty(), "an error says something");
    return 0;
  }
  fuzz::require(mlir::succeeded(mlir::verify(**module)), "what is imported verifies");
  const auto exported = ir::exportGraph(**module);
  fuzz::require(static_cast<bool>(exported), "what is imported can be exported",
                exported ? "" : exported.error().message);
  const auto again = ir::importGraph(**exported, context());
  fuzz::require(static_cast<bool>(again), "what is exported can be imported", again ? "" : again.error().message);
  const auto twice = ir::exportGraph(**again);
  fuzz::require(twice && std::ranges::equal((*twice)->bytes(), (*exported)->bytes()), "it stays the same");
  return 0;
}
