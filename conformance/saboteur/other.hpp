// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of another plugin that this process has loaded, which a plugin that lies passes off as its own.
#pragma once

#include <mortise/plugin.hpp>

#include <memory>

namespace saboteur {
using mortise::Error;
using mortise::Result;

// The table of a synchronous plugin other than this one; NULL when there is none.
const MortisePlugin *otherPlugin();

class OtherConstants;

class OtherKernel {
public:
  static Result<std::unique_ptr<OtherKernel>> make(const MortiseCompileArgs &args);
  uint64_t workspaceBytes() const { return bytes; }
  Result<std::shared_ptr<OtherConstants>> bind(const MortiseAddress *inputs) const;
  Result<void> enqueue(const OtherConstants *constants, const MortiseEnqueueArgs &args) const;
  ~OtherKernel();

private:
  friend class OtherConstants;
  const MortisePlugin *plugin = nullptr;
  MortiseKernel *kernel = nullptr;
  uint64_t bytes = 0;
};

class OtherConstants {
public:
  OtherConstants(const OtherKernel &kernel, MortiseConstants *handle) : kernel(kernel), handle(handle) {}
  OtherConstants(const OtherConstants &) = delete;
  ~OtherConstants();
  MortiseConstants *get() const { return handle; }

private:
  const OtherKernel &kernel;
  MortiseConstants *handle;
};

} // namespace saboteur
