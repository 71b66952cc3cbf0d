// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A scheduled plan to PTX. One object per thread.
#pragma once

#include "schedule/simt.hpp"

#include <mortise/codegen/simt.hpp>

#include <memory>
#include <string>

namespace mortise::codegen {

class PtxBackend {
public:
  static Result<std::unique_ptr<PtxBackend>> create(const SimtTarget &target);
  ~PtxBackend();
  struct Code {
    std::string text;
    bool usesAlignment = false; // the text for a smaller alignment is another
    std::vector<std::vector<uint32_t>> over;
  };
  // `alignment` of the addresses of all inputs and outputs in bytes; 1: that of their elements.
  Result<Code> compile(LoopPlan &plan, const SimtSchedule &schedule, const std::string &entry, unsigned alignment);

private:
  struct Impl;
  explicit PtxBackend(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace mortise::codegen
