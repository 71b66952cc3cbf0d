// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One node at work: its operands and results in memory, for the code that computes it wrongly.
#pragma once

#include "faults.hpp"

#include <mortise/graph.hpp>
#include <mortise/reference/formats.hpp>
#include <mortise/reference/interpreter.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

namespace saboteur {
using mortise::Error;
using mortise::Op;
using mortise::Result;

// A dense value. Elements of less than a byte are read and written by the reference alone.
struct Tensor {
  const MortiseType *type = nullptr; // NULL for an operand that is left out
  std::byte *data = nullptr;

  explicit operator bool() const { return type != nullptr; }
  int32_t dtype() const { return type->dtype; }
  std::span<const int64_t> dims() const { return mortise::dims(*type); }
  int64_t count() const { return mortise::elementCount(*type); }
  size_t bytes() const { return mortise::byteSize(*type); }
  bool hasFloats() const { return mortise::isFloat(dtype()); }
  bool hasIntegers() const { return mortise::isInteger(dtype()) && dtype() != MORTISE_I4; }

  // Of floats.
  double number(int64_t i) const {
    return mortise::reference::visitFloat(dtype(), [&](auto kind) {
      using T = decltype(kind);
      return static_cast<double>(T::load(reinterpret_cast<const typename T::Storage *>(data)[i]));
    });
  }
  void put(int64_t i, double value) const {
    mortise::reference::visitFloat(dtype(), [&](auto kind) {
      using T = decltype(kind);
      reinterpret_cast<typename T::Storage *>(data)[i] = T::store(value);
    });
  }
  // Of integers and booleans.
  int64_t integer(int64_t i) const {
    return mortise::reference::visitInt(dtype(), [&](auto kind) {
      using T = decltype(kind);
      return static_cast<int64_t>(T::load(reinterpret_cast<const typename T::Storage *>(data)[i]));
    });
  }
  void put(int64_t i, int64_t value) const {
    mortise::reference::visitInt(dtype(), [&](auto kind) {
      using T = decltype(kind);
      reinterpret_cast<typename T::Storage *>(data)[i] = T::store(value);
    });
  }
};

// A number rounded to a float dtype.
inline double rounded(double value, int32_t dtype) {
  return mortise::reference::visitFloat(dtype, [&](auto kind) {
    using T = decltype(kind);
    return static_cast<double>(T::load(T::store(value)));
  });
}
// A number rounded to `bits` bits of mantissa.
double shortened(double value, int bits);

using Tensors = std::vector<Tensor>;

struct NodeRun {
  const MortiseNode &node;
  Op op;
  Tensors operands, results;
  std::function<void(const Tensors &operands, const Tensors &results)> reference;
  std::function<Tensor(const MortiseValue &)> valueOf; // of the region
  std::byte *kept;                                     // 64 bytes of the workspace that no other node uses
  uint64_t runs;                                       // of the kernel, before this one

  const Tensor &operand(size_t i) const { return operands[i]; } // that the op has always
  Tensor optional(size_t i) const { return i < operands.size() ? operands[i] : Tensor(); }
  Tensor result() const { return results[0]; }
  int64_t count() const { return results[0].count(); }
  void interpret() const { reference(operands, results); }
  bool isOneOf(std::initializer_list<Op> ops) const { return std::ranges::find(ops, op) != ops.end(); }
  bool isElementwise() const { return mortise::has(op, mortise::Trait::Elementwise) || op == Op::Relu; }
};

// Each computes the node as the planted fault has it, or returns false: the fault is of another kind, or does not
// concern the node.
bool elementsWrongly(NodeRun &run); // elementwise.cpp
bool integersWrongly(NodeRun &run); // integers.cpp
bool rowsWrongly(NodeRun &run);     // rows.cpp
bool productsWrongly(NodeRun &run); // products.cpp
bool buffersWrongly(NodeRun &run);  // buffers.cpp
bool liesAbout(NodeRun &run);       // lies.cpp

} // namespace saboteur
