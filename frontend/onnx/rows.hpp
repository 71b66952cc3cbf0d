// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rows of each family.
#pragma once

#include "node.hpp"

namespace mortise::onnx {

std::span<const Row> elementwiseRows();
std::span<const Row> activationRows();
std::span<const Row> reductionRows();
std::span<const Row> movementRows();
std::span<const Row> creationRows();
std::span<const Row> contractionRows();
std::span<const Row> normalisationRows();
std::span<const Row> lossRows();
std::span<const Row> indexingRows();
std::span<const Row> windowRows();
std::span<const Row> quantisationRows();
std::span<const Row> attentionRows();
std::span<const Row> resizeRows();
std::span<const Row> recurrentRows();

} // namespace mortise::onnx
