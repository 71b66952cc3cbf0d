// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where elements lie that loops of our own walk in row-major order.
#pragma once

#include "../views.hpp"

#include <vector>

namespace mortise::cpu {

// Where the elements of some dimensions of a view lie, in row-major order. They are computed, because a program over
// symbols is first scheduled for typical extents, of which six have more elements than a list has room for.
class Offsets {
public:
  Offsets() = default;
  Offsets(const FixedView &view, size_t from, size_t to) {
    for (size_t d = from; d < to; ++d) {
      const int64_t extent = view.dims[d], stride = view.strides[d];
      count *= extent;
      if (extent == 1)
        continue;
      if (!dims.empty() && dims.back().stride == extent * stride) // the rows of one dimension
        dims.back() = {dims.back().extent * extent, stride};
      else
        dims.push_back({extent, stride});
    }
  }
  int64_t size() const { return count; }
  bool areContiguous() const { return dims.empty() || (dims.size() == 1 && dims[0].stride == 1); }
  int64_t operator[](int64_t i) const {
    int64_t offset = 0;
    for (size_t d = dims.size(); d-- > 1; i /= dims[d].extent)
      offset += i % dims[d].extent * dims[d].stride;
    return dims.empty() ? offset : offset + i * dims[0].stride;
  }

private:
  struct Dim {
    int64_t extent, stride;
  };
  std::vector<Dim> dims;
  int64_t count = 1;
};

} // namespace mortise::cpu
