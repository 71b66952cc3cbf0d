// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "product.hpp"

#include <algorithm>

namespace mortise::reference::inline MORTISE_ARITHMETIC {
namespace {

// The dimensions of one operand of a dot, by kind.
struct Side {
  Shape batch, contract, rest;       // extents
  Shape batchAt, contractAt, restAt; // strides
};

bool in(std::span<const int64_t> list, size_t value) {
  return std::ranges::find(list, static_cast<int64_t>(value)) != list.end();
}

Side split(std::span<const int64_t> dims, std::span<const int64_t> batch, std::span<const int64_t> contract) {
  Shape strides = denseStrides(dims);
  Side side;
  for (int64_t axis : batch) {
    side.batch.push_back(dims[static_cast<size_t>(axis)]);
    side.batchAt.push_back(strides[static_cast<size_t>(axis)]);
  }
  for (int64_t axis : contract) {
    side.contract.push_back(dims[static_cast<size_t>(axis)]);
    side.contractAt.push_back(strides[static_cast<size_t>(axis)]);
  }
  for (size_t i = 0; i < dims.size(); ++i)
    if (!in(batch, i) && !in(contract, i)) {
      side.rest.push_back(dims[i]);
      side.restAt.push_back(strides[i]);
    }
  return side;
}

Refusal checkAxes(const Shapes &shapes, size_t operand, std::string_view batch, std::string_view contract) {
  std::vector<bool> seen(shapes.dims(operand).size());
  for (std::string_view name : {batch, contract})
    for (int64_t axis : shapes.integers(name)) {
      if (axis < 0 || axis >= shapes.rank(operand) || seen[static_cast<size_t>(axis)])
        return shapes.fail("'" + std::string(name) + "' names dimension " + std::to_string(axis) + " of " +
                           typeString(shapes.type(operand)) + " twice, or there is none");
      seen[static_cast<size_t>(axis)] = true;
    }
  return {};
}
Refusal checkDot(const Shapes &shapes) {
  if (Refusal refusal =
          firstOf(checkAxes(shapes, 0, "lhs_batch", "lhs_contract"), checkAxes(shapes, 1, "rhs_batch", "rhs_contract")))
    return refusal;
  if (shapes.dtype(1) != shapes.dtype(0))
    return shapes.fail("expected operands of one dtype, found " + typeString(shapes.type(0)) + " and " +
                           typeString(shapes.type(1)),
                       MORTISE_REASON_DTYPE);
  Side left = split(shapes.dims(0), shapes.integers("lhs_batch"), shapes.integers("lhs_contract"));
  Side right = split(shapes.dims(1), shapes.integers("rhs_batch"), shapes.integers("rhs_contract"));
  if (left.batch != right.batch || left.contract != right.contract)
    return shapes.fail("the batch and contracting extents of " + typeString(shapes.type(0)) + " and " +
                       typeString(shapes.type(1)) + " differ");
  Shape expected = left.batch;
  expected.insert(expected.end(), left.rest.begin(), left.rest.end());
  expected.insert(expected.end(), right.rest.begin(), right.rest.end());
  return shapes.expect(shapes.dtype(0), expected);
}
void runDot(const Call &call) {
  Side left = split(call.operand(0).dims(), call.integers("lhs_batch"), call.integers("lhs_contract"));
  Side right = split(call.operand(1).dims(), call.integers("rhs_batch"), call.integers("rhs_contract"));
  std::vector<int64_t> leftB = offsets(left.batch, left.batchAt), rightB = offsets(right.batch, right.batchAt);
  std::vector<int64_t> leftK = offsets(left.contract, left.contractAt), leftM = offsets(left.rest, left.restAt);
  std::vector<int64_t> rightK = offsets(right.contract, right.contractAt), rightN = offsets(right.rest, right.restAt);
  auto M = static_cast<int64_t>(leftM.size()), N = static_cast<int64_t>(rightN.size());
  visitElement(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    using Acc = std::conditional_t<T::isFloat, Number, uint64_t>;
    const auto *a = call.operand(0).as<T>(), *b = call.operand(1).as<T>();
    auto *to = call.result.as<T>();
    product<Acc>(
        call, static_cast<int64_t>(leftB.size()), M, N, static_cast<int64_t>(leftK.size()),
        [&](int64_t g, int64_t m, int64_t k) {
          return static_cast<Acc>(T::load(a[leftB[size_t(g)] + leftM[size_t(m)] + leftK[size_t(k)]]));
        },
        [&](int64_t g, int64_t k, int64_t n) {
          return static_cast<Acc>(T::load(b[rightB[size_t(g)] + rightN[size_t(n)] + rightK[size_t(k)]]));
        },
        [&](int64_t g, int64_t m, int64_t n, Acc sum) {
          to[(g * M + m) * N + n] = T::store(static_cast<typename T::Compute>(sum));
        });
  });
}

Refusal checkLinear(const Shapes &shapes) {
  if (shapes.rank(0) < 1 || shapes.rank(1) != 2)
    return shapes.fail("expected x of rank 1 or more and a weight of rank 2, found " + typeString(shapes.type(0)) +
                           " and " + typeString(shapes.type(1)),
                       MORTISE_REASON_RANK);
  bool transposed = shapes.integer("weight_transposed");
  int64_t K = shapes.dims(0).back(), N = shapes.dims(1)[transposed ? 1 : 0];
  Shape weight = transposed ? Shape{K, N} : Shape{N, K}, bias{N},
        expected(shapes.dims(0).begin(), shapes.dims(0).end());
  expected.back() = N;
  return firstOf(shapes.expectOperand(1, shapes.dtype(0), weight), shapes.expectOperand(2, shapes.dtype(0), bias),
                 shapes.expect(shapes.dtype(0), expected));
}
void runLinear(const Call &call) {
  visitFloat(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    const auto *weight = call.operand(1).as<T>();
    linear<T>(call, call.operand(2), [&](int64_t i) { return T::load(weight[i]); });
  });
}

} // namespace

std::span<const OpSpec> contractionOps() {
  static const std::vector<OpSpec> ops = {
      {Op::Dot, checkDot, runDot},
      {Op::Linear, checkLinear, runLinear},
  };
  return ops;
}

} // namespace mortise::reference::inline MORTISE_ARITHMETIC
