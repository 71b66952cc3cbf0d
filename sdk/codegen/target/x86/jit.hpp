// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a plan to machine code: one Backend per thread, which reuses contexts, patterns and the target machine, and one
// Session per compiler, which owns the linked code.
#pragma once

#include "emit/code.hpp"
#include "schedule/schedule.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace mortise::codegen {

struct Object {
  std::string code; // an ELF file
  Dim tasks = 1, grain = 1;
  std::vector<std::vector<uint32_t>> over;
  double mlirSeconds = 0, llvmSeconds = 0;
};

class Backend {
public:
  static Result<std::unique_ptr<Backend>> create(const Target &target);
  ~Backend();
  // An ELF file with the module's code. Changes the module.
  Result<std::string> assemble(llvm::Module &module);
  const Instructions &instructions() const;
  // `transform` may be NULL.
  Result<Object> compile(LoopPlan &plan, const CpuSchedule &schedule, const std::string &symbol,
                         const Transform *transform);

private:
  struct Impl;
  explicit Backend(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

class Session {
public:
  static Result<std::unique_ptr<Session>> create();
  ~Session();
  // Thread safe. `object`: an ELF file that defines `symbol`. The code lives as long as the session.
  Result<void *> link(std::string_view object, const std::string &symbol);

private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace mortise::codegen
