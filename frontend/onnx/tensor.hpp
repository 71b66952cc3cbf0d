// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors in a model's messages, and element types.
#pragma once

#include <mortise/onnx/import.hpp>

#include <onnx-ml.pb.h>

#include <stdexcept>

namespace mortise::onnx {

namespace proto = ::onnx;

using Dims = std::vector<int64_t>;

// Thrown by all that reads a model, because rows are expressions; importModel and readTensor catch it.
struct Refusal {
  Error error;
};
[[noreturn]] void refuse(MortiseCode code, std::string message);
// MORTISE_UNSUPPORTED. `reason` is one of a few words, by which refusals are counted.
[[noreturn]] void unsupported(const std::string &reason, const std::string &detail);
[[noreturn]] void corrupt(std::string message);

// The file's content. At most `most` bytes, because a file may be anything.
std::string contentOf(const std::string &path);

// Of TensorProto::DataType; refuses a type that the language does not have.
int32_t dtypeOf(int type);
// "FLOAT8E4M3FNUZ"; the number for a type that ONNX does not have.
std::string typeName(int type);

int64_t countOf(const Dims &dims);
std::string text(const Dims &dims);
// Refuses negative extents, and more elements than fit into memory.
size_t checkedBytes(int32_t dtype, const Dims &dims, const std::string &what);

// `folder`: as Options have it. `what` stands for the tensor in messages.
Tensor tensorFrom(const proto::TensorProto &from, const std::string &folder, const std::string &what);

// The elements of a tensor of integers or booleans.
std::vector<int64_t> integersOf(const Tensor &tensor);
// Of any element type.
std::vector<double> numbersOf(const Tensor &tensor);
Tensor tensorOf(std::span<const int64_t> numbers, Dims dims, int32_t dtype = MORTISE_I64);
Tensor tensorOf(std::span<const double> numbers, Dims dims, int32_t dtype);

} // namespace mortise::onnx
