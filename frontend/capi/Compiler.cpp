// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Compiler.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

namespace mortise::capi {

struct Compiler::Impl {
  // Without MLIR's threads: graphs are small, and several compile at once in threads of the caller.
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  ir::Builder builder;
  explicit Impl(std::string_view name) : builder(context, name) {}
};

Compiler::Compiler(std::string_view name) : impl(std::make_unique<Impl>(name)) {}
Compiler::~Compiler() = default;
ir::Builder &Compiler::builder() { return impl->builder; }
std::string Compiler::text() const { return impl->builder.text(); }

Result<std::shared_ptr<const plan::PlanT>> Compiler::compile(const runtime::Registry &registry,
                                                             const runtime::Config &config, passes::Timings &timings) {
  Result<mlir::OwningOpRef<mlir::ModuleOp>> module = impl->builder.finish();
  if (!module)
    return module.error();
  return passes::compile(**module, registry, config, &timings);
}

} // namespace mortise::capi
