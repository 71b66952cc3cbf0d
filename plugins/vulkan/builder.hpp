// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "kernel.hpp"

namespace mortise::vulkan {

// Fills a kernel with steps. One use.
class Builder {
public:
  Builder(Kernel &kernel, const MortiseGraph &region)
      : kernel(kernel), region(region), places(region.value_count), aliased(region.output_count, UINT32_MAX) {}
  Result<void> run();

private:
  struct End { // an output that no step writes
    uint32_t output = 0, value = 0;
  };

  void placeInputs();
  void placeOutputs();
  bool mayUpdate(uint32_t output, uint32_t value) const;
  bool mayWriteOver(uint32_t group, uint32_t output, uint32_t input) const;
  Result<Place> placeOf(uint32_t value);
  Place placeFor(uint32_t value); // of a result
  Place workspace(Dim bytes);
  Result<void> addLaunch(uint32_t group);
  Result<void> addCopies();
  void addCopy(uint32_t output, uint32_t value, Place source, Place target);
  void findLives();

  Kernel &kernel;
  const MortiseGraph &region;
  std::vector<codegen::Group> groups;
  std::vector<std::shared_ptr<Function>> functions; // per group
  std::vector<std::optional<Place>> places;         // per value
  std::vector<uint32_t> aliased;                    // per output: the value of the input that it updates, or none
  std::vector<End> ends;
};

} // namespace mortise::vulkan
