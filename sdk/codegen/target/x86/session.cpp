// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "target/x86/jit.hpp"
#include "target/x86/runtime.hpp"

#include <llvm/ExecutionEngine/Orc/AbsoluteSymbols.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/ExecutionEngine/Orc/SelfExecutorProcessControl.h>
#include <llvm/Support/MemoryBuffer.h>

#include <atomic>

namespace mortise::codegen {

using namespace llvm::orc;

struct Session::Impl {
  std::unique_ptr<ExecutionSession> session;
  std::unique_ptr<ObjectLinkingLayer> layer;
  JITDylib *runtime = nullptr;
  std::atomic<uint64_t> libraries = 0;
  ~Impl() {
    if (session)
      if (llvm::Error error = session->endSession())
        llvm::consumeError(std::move(error));
  }
};

Session::Session(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Session::~Session() = default;

static Error failure(llvm::Error error) {
  return {MORTISE_INTERNAL, "linking generated code: " + llvm::toString(std::move(error))};
}

Result<std::unique_ptr<Session>> Session::create() {
  auto control = SelfExecutorProcessControl::Create();
  if (!control)
    return failure(control.takeError());
  auto impl = std::make_unique<Impl>();
  impl->session = std::make_unique<ExecutionSession>(std::move(*control));
  impl->layer = std::make_unique<ObjectLinkingLayer>(*impl->session);
  impl->runtime = &impl->session->createBareJITDylib("runtime");
  SymbolMap symbols;
  for (const RuntimeFunction &function : runtimeFunctions())
    symbols[impl->session->intern(function.name)] = {ExecutorAddr::fromPtr(function.address),
                                                     llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  if (llvm::Error error = impl->runtime->define(absoluteSymbols(std::move(symbols))))
    return failure(std::move(error));
  return std::unique_ptr<Session>(new Session(std::move(impl)));
}

Result<void *> Session::link(std::string_view object, const std::string &symbol) {
  // Functions from several processes may have one symbol, and libraries need names of their own.
  const std::string name = symbol + "." + std::to_string(impl->libraries++);
  JITDylib &library = impl->session->createBareJITDylib(name);
  library.addToLinkOrder(*impl->runtime);
  if (llvm::Error error = impl->layer->add(library, llvm::MemoryBuffer::getMemBufferCopy(object, name)))
    return failure(std::move(error));
  auto found = impl->session->lookup({&library}, impl->session->intern(symbol));
  if (!found)
    return failure(found.takeError());
  return found->getAddress().toPtr<void *>();
}

} // namespace mortise::codegen
