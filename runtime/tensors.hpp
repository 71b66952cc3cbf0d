// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors of callers: checks, and dense copies of strided tensors.
#pragma once

#include <mortise/runtime/program.hpp>

#include <string>
#include <vector>

namespace mortise::runtime {

struct TensorSpec {
  std::string role; // "input 2 'x'"
  int32_t dtype = 0;
  std::vector<int64_t> dims;
  uint64_t bytes = 0;
  size_t elementBytes = 0;
  std::vector<std::string> formulas; // of symbolic extents, "" for numbers; empty when all are numbers
  std::string values;                // of the symbols, where formulas have been evaluated
  const Device *device = nullptr;    // whose home it lies in; NULL: host memory
  size_t alignment = 1;              // of dense memory
};

// Checks dtype, rank, dims and strides of a readable tensor; checkData checks its data, checkHome the memory in which
// it lies. Allocates only for an error.
Result<void> checkTensor(const Tensor &tensor, const TensorSpec &spec);
Result<void> checkData(const Tensor &tensor, const TensorSpec &spec);
Result<void> checkHome(const Tensor &tensor, const TensorSpec &spec);

bool stridesAreDense(const Tensor &tensor, const TensorSpec &spec); // row-major, without gaps
// Dense and aligned, so that kernels can use the memory directly.
bool isDense(const Tensor &tensor, const TensorSpec &spec);

// `tensor` has passed checkTensor. Writes spec.bytes bytes.
void copyDense(const Tensor &tensor, const TensorSpec &spec, std::byte *target);

bool overlaps(const void *a, uint64_t aBytes, const void *b, uint64_t bBytes);

} // namespace mortise::runtime
