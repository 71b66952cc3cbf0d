// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of GPUs on the CPU: the same schedule and the same emitted code, for a machine whose threads are fibers. They
// change only at barriers and exchanges, in an order drawn by chance, so that code that forgets one sees memory that
// nobody has written.
#pragma once

#include "test_graph.hpp"

#include <mortise/codegen/simt.hpp>

namespace mortise::codegen::test {

struct EmulatedFunction {
  struct Kernel {
    void *entry = nullptr, *alignedEntry = nullptr; // the same where the alignment of addresses makes no difference
    Dim blocks = 1;
    unsigned threads = 1, cluster = 1;
    bool synchronises = false; // needs fibers
  };
  std::vector<Kernel> kernels;
  unsigned alignment = 1;
  Dim scratchBytes = 0;
  bool hasScratch = false;
  std::vector<uint32_t> symbols; // their numbers
};

class Emulator {
public:
  static Emulator &shared(); // one for the process and each machine
  // While it lives, `shared` is a machine with such subgroups; otherwise they have 32 threads and mmaLayout.
  struct Subgroups {
    explicit Subgroups(unsigned size, std::optional<MatrixLayout> matrices = {});
    ~Subgroups();
    Subgroups(const Subgroups &) = delete;
  };
  // While it lives, `shared` is a machine whose one fma takes subnormal results for 0.
  struct FlushingFma {
    FlushingFma();
    ~FlushingFma();
    FlushingFma(const FlushingFma &) = delete;
  };
  static bool supports(const MortiseGraph &graph);
  // Whether a test that is one of many has to emulate: always, but each eighth time where another run of the suite
  // does: with sanitizers, which see nothing of generated code, and with the CPU's instructions restricted.
  static bool isDue();
  // Groups with equal code are compiled once.
  Result<std::vector<EmulatedFunction>> compile(const MortiseGraph &graph, std::span<const Group> groups);
  Result<EmulatedFunction::Kernel> compile(const AttentionCode &code, unsigned alignment);
  const SimtTarget &target() const;
  ~Emulator();

private:
  struct Impl;
  explicit Emulator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

void runGroup(const Group &group, const EmulatedFunction &function, Memory &memory,
              std::span<const int64_t> symbols = {});
// `addresses`: of q, k, v, the mask if there is one, and the result.
void runAttention(const AttentionCall &call, std::span<std::byte *const> addresses,
                  std::span<const int64_t> symbols = {});

} // namespace mortise::codegen::test
