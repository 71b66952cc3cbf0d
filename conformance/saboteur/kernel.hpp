// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the host holds of the plugin: kernels, packed constants, frames.
#pragma once

#include "code.hpp"
#include "other.hpp"

#include <map>
#include <mutex>

namespace saboteur {

// A constant's copy, in memory of the plugin's own.
class Packed {
public:
  Packed(const std::byte *from, size_t bytes);
  Packed(const Packed &) = delete;
  ~Packed();
  std::byte *data() const { return memory; }

private:
  std::byte *memory;
};

struct Constants {
  std::vector<std::shared_ptr<Packed>> inputs; // NULL for inputs that are not constant
  uint64_t bytes = 0;
  std::shared_ptr<OtherConstants> other;
};

struct Kernel {
  Kernel() = default;
  Kernel(const Kernel &) = delete;
  ~Kernel();
  std::shared_ptr<const Code> code;
  std::string name; // of its ops
  const char *lowering = "saboteur.node";
  mortise::ConstantExpr workspace;
  mortise::StepList steps;
  std::unique_ptr<OtherKernel> other;

  // What faults keep where a call's own memory belongs.
  mutable Buffers lastCall;
  mutable const Constants *lastConstants = nullptr;
  mutable std::shared_ptr<Buffers> sharedFrame = std::make_shared<Buffers>();
  mutable std::mutex mutex;
  mutable std::map<std::vector<std::byte *>, std::vector<std::vector<std::byte>>> results; // by addresses of inputs
};

// The addresses of the last run, as a recorded command buffer has them.
struct Frame {
  std::shared_ptr<Buffers> buffers;
  bool hasRun = false;
};

Result<std::unique_ptr<Kernel>> makeKernel(const MortiseCompileArgs &args);
std::unique_ptr<Constants> packConstants(const Kernel &kernel, const MortiseAddress *inputs);
// The work of a call: all that it uses is taken now.
std::function<Result<void>()> workOf(const Kernel &kernel, const Constants *constants, Frame *frame,
                                     const MortiseEnqueueArgs &args);

} // namespace saboteur
