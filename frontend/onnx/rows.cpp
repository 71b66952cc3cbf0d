// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "rows.hpp"

#include <algorithm>

namespace mortise::onnx {

std::span<const Row> rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> made;
    for (const auto family : {elementwiseRows, activationRows, reductionRows, movementRows, creationRows,
                              contractionRows, normalisationRows, lossRows, indexingRows, windowRows, quantisationRows,
                              attentionRows, resizeRows, recurrentRows})
      std::ranges::copy(family(), std::back_inserter(made));
    std::ranges::sort(made, {}, [](const Row &row) { return std::string_view(row.name); });
    return made;
  }();
  return all;
}

const Row *rowOf(std::string_view name) {
  const auto nameIn = [](const Row &row) { return std::string_view(row.name); };
  const auto found = std::ranges::lower_bound(rows(), name, {}, nameIn);
  return found != rows().end() && nameIn(*found) == name ? &*found : nullptr;
}

} // namespace mortise::onnx
