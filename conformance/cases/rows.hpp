// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rows of each op family.
#pragma once

#include "table.hpp"

namespace mortise::conformance {

std::vector<Row> elementwiseRows();
std::vector<Row> movementRows();
std::vector<Row> indexingRows();
std::vector<Row> contractionRows();
std::vector<Row> reductionRows();
std::vector<Row> normalisationRows();
std::vector<Row> windowRows();
std::vector<Row> randomRows();
std::vector<Row> quantisationRows();
std::vector<Row> controlFlowRows();
std::vector<Row> collectiveRows();

using test::flag;
using test::integer;
using test::integers;
using test::real;
using test::string;

// The part of a list of axes or of extents that a row needs.
inline Dims without(Dims dims, int64_t axis) {
  dims.erase(dims.begin() + axis);
  return dims;
}
inline int64_t lastAxis(const Dims &dims) { return static_cast<int64_t>(dims.size()) - 1; }
// Of markers (lift.hpp) it wraps.
inline int64_t product(const Dims &dims) {
  uint64_t made = 1;
  for (const int64_t dim : dims)
    made *= static_cast<uint64_t>(dim);
  return static_cast<int64_t>(made);
}

} // namespace mortise::conformance
