// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the unit computes: which nodes, what a node costs, and one run of it.
#pragma once

#include <mortise/plugin.hpp>

#include <optional>
#include <vector>

namespace npu {

constexpr int64_t scratch = 256 * 1024; // bytes beside the arithmetic unit; operands pass through them
constexpr int64_t columns = 16;         // of a product's weight that are there at a time

// Cycles are nanoseconds: the clock runs at 1 GHz.
constexpr double f16MacsPerNs = 1024, i8MacsPerNs = 4096, lanesPerNs = 64, bytesPerNs = 64, launchNs = 2000;

struct Refusal {
  MortiseReason reason;
  std::string detail;
};

struct Cost {
  double ns = 0, bytes = 0, flops = 0;
  Cost &operator+=(const Cost &other) { return ns += other.ns, bytes += other.bytes, flops += other.flops, *this; }
};

// Its own op, acme_npu.lookup, and the types of its results.
std::span<const MortiseOpDeclaration *const> ops();
mortise::Result<void> infer(mortise::Inference &inference);

// Why the unit cannot run a node as it stands alone; empty when it can. Products of i8 that give i32 are
// groups of nodes: see refuseWidened.
std::optional<Refusal> refuse(const MortiseNode &node);

// Whether a node is a product of i32 whose two operands are i8 numbers widened in this graph: the unit multiplies i8
// and adds in i32, and takes no other i32. The reason why it is not, otherwise.
std::optional<Refusal> refuseWidened(const MortiseNode &node);
bool isWidening(const MortiseNode &node); // convert from i8 to i32

Cost costOf(const MortiseNode &node);

// A node ready to run: the operation, and the values that it reads and writes.
struct Step {
  enum Kind { Add, Sub, Mul, Gelu, GeluTanh, LayerNorm, Linear, Dot8, Dot32, Lookup, Copy } kind;
  std::vector<uint32_t> operands; // values of the region; none: left out
  uint32_t result = 0;
  int64_t rows = 0, depth = 0, width = 0; // of a product; elsewhere rows of `width` elements
  bool transposed = false;                // the weight is stored [depth, width]
  double epsilon = 0;
  bool hasScale = false, hasBias = false; // operands in this order, behind the first (two)
};
Step stepOf(const MortiseNode &node);

// Runs on memory that the unit reaches; one pointer for each value of the region.
void run(const Step &step, const std::vector<void *> &values);

} // namespace npu
