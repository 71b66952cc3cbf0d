// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The devices, what the host holds of them (kernels, constants, frames), and one run of a kernel.
#pragma once

#include "checker.hpp"
#include "layout.hpp"

#include <mortise/plugin.hpp>
#include <mortise/reference/interpreter.hpp>

#include <memory>
#include <string>
#include <vector>

namespace strict {

struct Device {
  const char *kind;
  uint32_t ordinal;
  std::string name() const { return std::string(kind) + ":" + std::to_string(ordinal); }
};
// Two of one kind, and another kind.
inline constexpr Device devices[] = {{"strict", 0}, {"strict", 1}, {"aloof", 0}};

inline MortiseDevice *handle(const Device &device) {
  return reinterpret_cast<MortiseDevice *>(const_cast<Device *>(&device));
}
inline uint32_t numberOf(const MortiseDevice *device) {
  return static_cast<uint32_t>(reinterpret_cast<const Device *>(device) - devices);
}

// An object that the host holds. Work that is queued uses it, and its end has to come behind that work.
struct Counted {
  explicit Counted(const char *kind);
  Counted(const Counted &) = delete;
  virtual ~Counted();
  Use use(bool writes = false) const { return {mortise::addressOf(this), 1, writes}; }
  const char *kind;
};

// A value that a kernel reads or writes.
struct Operand {
  Elements elements;
  MortiseForm form;
  uint64_t bytes;
  bool donated; // an input whose memory the kernel may overwrite
};

// What runs. Work keeps it, so that a host that ends a kernel too early gets a message, and damages no memory.
struct Code {
  uint32_t device = 0;
  std::unique_ptr<mortise::reference::Interpreter> program;
  std::vector<Operand> inputs, outputs;
  std::string name;
  uint64_t workspaceBytes = 0;
};

struct Kernel : Counted {
  Kernel() : Counted("kernel") {}
  static Result<std::unique_ptr<Kernel>> make(const MortiseCompileArgs &args);
  std::shared_ptr<const Code> code;
  mortise::ConstantExpr workspace;
  mortise::StepList steps;
};

struct Constants : Counted {
  Constants() : Counted("constants") {}
  std::vector<MortiseAddress> inputs;
};

struct Frame : Counted {
  Frame() : Counted("frame") {}
  ~Frame() override;
  MortiseMemoryArgs memory() const; // a request to the host for `scratch`
  std::vector<MortiseAddress> last; // of its last run
  MortiseAddress scratch = 0;       // memory of the device's, as a driver keeps descriptors in
  uint32_t device = 0;
  static constexpr uint64_t scratchBytes = 64;
};

// Everything that one run of a kernel uses, taken from the arguments before enqueue returns. Called on the stream's
// thread.
struct Run {
  std::shared_ptr<const Code> code;
  std::vector<MortiseAddress> inputs, outputs;
  MortiseAddress workspace;
  uint64_t *stepNs;

  Result<void> operator()() const;
};

} // namespace strict
