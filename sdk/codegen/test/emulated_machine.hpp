// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The machine that kernels are emitted for when they are emulated on the CPU: what threads ask for becomes calls of
// functions that BlockRun has.
#pragma once

#include "block_run.hpp"

#include "emit/simt.hpp"

#include <functional>

namespace mortise::codegen::test {

// Makes the address of a function that kernels call.
using EmulatedCallee = std::function<mlir::Value(Code &, EmulatedCall)>;
// An element of a table of the module's, which whoever loads the kernels fills: `EmulatedCall::Count` addresses, in the
// order of the calls.
inline constexpr char emulatedTable[] = "mortise_emulated_functions";
mlir::Value calleeOfTable(Code &c, EmulatedCall call);

class EmulatedMachine final : public SimtMachine {
public:
  EmulatedMachine(const SimtTarget &target, EmulatedCallee callee)
      : size(target.subgroup), layout(target.matrices), callee(std::move(callee)) {}
  mutable bool synchronises = false; // some kernel has barriers or exchanges
  void makeKernel(mlir::LLVM::LLVMFuncOp, unsigned, unsigned, unsigned cluster) const override { blocks = cluster; }
  mlir::Value thread(Code &c) const override;
  mlir::Value block(Code &c) const override;
  void barrier(Code &c) const override;
  mlir::Value exchange(Code &c, mlir::Value bits, unsigned mask) const override;
  unsigned sharedSpace() const override { return 0; }
  // One array has the memory of all blocks of a cluster.
  mlir::Value sharedArray(Code &c, mlir::ModuleOp module, const std::string &name, mlir::Type type,
                          size_t count) const override;
  mlir::Value ofBlock(Code &c, mlir::Value array, mlir::Value number) const override;
  void clusterBarrier(Code &c) const override;
  unsigned subgroup() const override { return size; }
  bool overlapsKernels() const override { return size == 32; } // as NVIDIA's GPUs do, and AMD's do not
  void releaseNext(Code &) const override {}
  void awaitKernels(Code &) const override {}              // they run one after the other
  bool copiesAside() const override { return size == 32; } // likewise
  void copyAside(Code &c, mlir::Value to, mlir::Value from) const override;
  void awaitCopies(Code &c) const override;
  llvm::SmallVector<mlir::Value> multiply(Code &c, int32_t dtype, llvm::ArrayRef<mlir::Value> lhs,
                                          llvm::ArrayRef<mlir::Value> rhs,
                                          llvm::ArrayRef<mlir::Value> sums) const override;
  llvm::SmallVector<mlir::Value> readFactors(Code &c, const Factors &factors) const override;
  llvm::SmallVector<mlir::Value> readMatrices(Code &c, mlir::Value row, bool transposed) const override;
  // A call of a function of BlockRun's.
  mlir::Value call(Code &c, EmulatedCall which, mlir::Type result, mlir::ValueRange arguments) const;
  // To be done to a module with all its kernels: vectors check their addresses, which GPUs have to find aligned, and
  // CPUs load anyway; and the block's memory starts with NaN, or other numbers that no kernel writes.
  void finish(mlir::ModuleOp module, const Instructions &instructions) const;

private:
  mlir::Value words(Code &c) const;

  llvm::SmallVector<mlir::Value> multiplyLines(Code &c, int32_t dtype, mlir::Value lhs, mlir::Value rhs,
                                               llvm::ArrayRef<mlir::Value> sums) const;
  BlockRun::Lines lines(int32_t dtype) const;

  const unsigned size;
  const std::optional<MatrixLayout> layout;
  const EmulatedCallee callee;
  // Of the function at hand: memory on a thread's stack, the blocks of a cluster, and per shared array that of the
  // first block and its bytes.
  mutable mlir::Value memory;
  mutable unsigned blocks = 1;
  mutable llvm::DenseMap<mlir::Value, std::pair<mlir::Value, size_t>> ofFirst;
};

// As wrong as instructions may be.
class EmulatedApproximations final : public Approximations {
public:
  EmulatedApproximations(const EmulatedMachine &machine, bool hasReciprocal)
      : machine(machine), hasReciprocal(hasReciprocal) {}
  mlir::Value exp2(Code &c, mlir::Value x, bool subnormals) const override;
  mlir::Value reciprocal(Code &c, mlir::Value x) const override;
  mlir::Value reciprocalRoot(Code &c, mlir::Value x) const override;
  mlir::Value flushingFma(Code &c, mlir::Value x, mlir::Value y, mlir::Value z) const override;

private:
  const EmulatedMachine &machine;
  const bool hasReciprocal; // otherwise it is made of the reciprocal of a root
};

} // namespace mortise::codegen::test
