// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Data of tensors that lie in files beside the model.
#pragma once

#include "tensor.hpp"

namespace mortise::onnx {

// Reads `bytes` bytes. The file lies in the model's folder or below it: its path may not be absolute, climb, or lead
// through a link, and what is no plain file is not opened.
std::vector<std::byte> readExternal(const proto::TensorProto &of, const std::string &folder, size_t bytes,
                                    const std::string &what);

} // namespace mortise::onnx
