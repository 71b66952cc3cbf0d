// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layouts of the device's own. They are of no use but to show which layout the host believes a value to have.
#pragma once

#include <mortise/plugin.hpp>

#include <cstddef>
#include <vector>

namespace strict {

enum Layout : uint32_t {
  Plain = MORTISE_PLAIN_LAYOUT,
  Reversed = 1, // the last element first
  Padded = 2,   // an element of padding behind each row
};
inline constexpr uint32_t layoutCount = 3;
const char *nameOf(uint32_t layout);

// Whether values of the type have layouts: elements of whole bytes.
bool hasLayouts(const MortiseType &type);

// The elements of a value of a static type.
struct Elements {
  uint64_t count, columns; // columns: the last extent
  size_t bits;             // of each
};
Elements elementsOf(const MortiseType &type);

// Bytes of a value in a layout: for known extents, and as a program over the graph's symbols.
uint64_t bytesOf(const Elements &elements, uint32_t layout);
std::vector<MortiseExprStep> sizeOf(const MortiseType &type, uint32_t layout);

// Between a dense row-major value and its layout.
void pack(const Elements &elements, uint32_t layout, const std::byte *dense, std::byte *into);
void unpack(const Elements &elements, uint32_t layout, const std::byte *from, std::byte *dense);

// A conversion is one node that leaves its value as it is; the kernel unpacks what it reads, and packs what it
// writes.
void proposeConversion(mortise::Proposal &proposal);

// A layout and a space by seed for each value at the border of a region, so that what one region gives is now and
// then what the next one wants.
std::vector<MortiseForm> randomForms(const MortiseGraph &graph, const std::vector<uint32_t> &nodes, uint64_t seed);

} // namespace strict
