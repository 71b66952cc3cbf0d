// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes op by op in the compute type C, as the descriptions of the ops require, because all backends must give equal
// bits.
#include "product.hpp"

namespace mortise::reference::inline MORTISE_ARITHMETIC {
namespace {

bool isQuantised(int32_t dtype) {
  return dtype == MORTISE_I8 || dtype == MORTISE_UI8 || dtype == MORTISE_I4 || dtype == MORTISE_F8E4M3FN ||
         dtype == MORTISE_F8E5M2;
}
double largest(int32_t dtype) {
  return dtype == MORTISE_F8E4M3FN ? 448.0
         : dtype == MORTISE_F8E5M2 ? 57344.0
                                   : visitInt(dtype, [](auto type) { return double(decltype(type)::highest); });
}
// Calls body(C{}), with C double when one of `dtypes` is f64, else float.
template <typename Body> void inComputeType(std::initializer_list<int32_t> dtypes, Body body) {
  for (int32_t dtype : dtypes)
    if (dtype == MORTISE_F64)
      return body(double());
  body(float());
}
template <typename C> std::vector<C> valuesOf(const Tensor &tensor) { // the elements converted to C
  std::vector<C> values(tensor ? static_cast<size_t>(tensor.count()) : 0);
  if (tensor)
    visitElement(tensor.dtype(), [&](auto type) {
      using T = decltype(type);
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<C>(T::load(tensor.as<T>()[i]));
    });
  return values;
}

// For each element of `dims`, the index of the element of `parts` that covers it. Each extent of `parts` divides that
// of `dims`.
std::vector<int64_t> partOf(std::span<const int64_t> dims, std::span<const int64_t> parts) {
  std::vector<int64_t> all{0};
  for (size_t d = 0; d < dims.size(); ++d) {
    std::vector<int64_t> next;
    for (int64_t at : all)
      for (int64_t i = 0; i < dims[d]; ++i)
        next.push_back(at * parts[d] + i / (dims[d] / parts[d]));
    all = std::move(next);
  }
  return all;
}

Refusal checkGranularity(const Shapes &shapes, size_t scale, std::span<const int64_t> whole) {
  bool fits = isFloat(shapes.dtype(scale)) && shapes.dims(scale).size() == whole.size();
  for (size_t d = 0; fits && d < whole.size(); ++d) {
    int64_t part = shapes.dims(scale)[d];
    fits = part == 1 || part == whole[d] || (part != 0 && whole[d] % part == 0);
  }
  return fits ? Refusal()
              : shapes.fail("expected a float scale whose extents divide the tensor's, found " +
                            typeString(shapes.type(scale)));
}
// Checks that operand `i`, a zero point, has the shape of operand `scale` and an element type that `quantised` permits.
Refusal checkZeroPoint(const Shapes &shapes, size_t i, size_t scale, int32_t quantised) {
  if (!shapes.has(i))
    return {};
  if (isFloat(quantised) || (shapes.dtype(i) != quantised && shapes.dtype(i) != MORTISE_I32))
    return shapes.fail("expected a zero point of the quantised integer type or i32, found " +
                           typeString(shapes.type(i)),
                       MORTISE_REASON_DTYPE);
  return shapes.expectOperand(i, shapes.dtype(i), shapes.dims(scale));
}

Refusal checkQuantize(const Shapes &shapes) {
  int32_t dtype = dtypeFromName(stringAttribute(shapes.node, "dtype"));
  if (!isQuantised(dtype))
    return shapes.fail("expected a dtype to quantise to");
  return firstOf(checkGranularity(shapes, 1, shapes.dims(0)), checkZeroPoint(shapes, 2, 1, dtype),
                 shapes.expect(dtype, shapes.dims(0)));
}
// saturate(round(x / scale) + zeroPoint) in C.
template <typename T, typename C> typename T::Storage quantised(C x, C scale, C zeroPoint, bool shifted) {
  C y = x / scale;
  if constexpr (T::isFloat) {
    constexpr double end = T::dtype == MORTISE_F8E4M3FN ? 448.0 : 57344.0;
    return T::store(std::isnan(y) ? double(y) : std::min(std::max(double(y), -end), end));
  } else {
    y = std::nearbyint(y);
    if (shifted)
      y += zeroPoint;
    return convertElement<T, F64>(double(y));
  }
}
template <typename T, typename C>
void quantiseAll(const Tensor &to, const std::vector<C> &x, const std::vector<C> &scale, const std::vector<C> &zero,
                 const std::vector<int64_t> &part) {
  for (size_t i = 0; i < x.size(); ++i) {
    auto p = static_cast<size_t>(part[i]);
    to.as<T>()[i] = quantised<T, C>(x[i], scale[p], zero.empty() ? C(0) : zero[p], !zero.empty());
  }
}
template <typename Body> void visitQuantised(int32_t dtype, Body body) {
  switch (dtype) {
  case MORTISE_I8:
    return body(I8());
  case MORTISE_UI8:
    return body(UI8());
  case MORTISE_I4:
    return body(I4());
  case MORTISE_F8E4M3FN:
    return body(F8E4M3FN());
  default:
    return body(F8E5M2());
  }
}
void runQuantize(const Call &call) {
  inComputeType({call.operand(0).dtype(), call.operand(1).dtype()}, [&]<typename C>(C) {
    std::vector<C> x = valuesOf<C>(call.operand(0)), scale = valuesOf<C>(call.operand(1)),
                   zero = valuesOf<C>(call.operand(2));
    std::vector<int64_t> part = partOf(call.result.dims(), call.operand(1).dims());
    visitQuantised(call.result.dtype(),
                   [&](auto type) { quantiseAll<decltype(type)>(call.result, x, scale, zero, part); });
  });
}

Refusal checkDequantize(const Shapes &shapes) {
  int32_t dtype = dtypeFromName(stringAttribute(shapes.node, "dtype"));
  if (!isQuantised(shapes.dtype(0)) || !isFloat(dtype))
    return shapes.fail("expected a quantised tensor and a float dtype, found " + typeString(shapes.type(0)),
                       MORTISE_REASON_DTYPE);
  return firstOf(checkGranularity(shapes, 1, shapes.dims(0)), checkZeroPoint(shapes, 2, 1, shapes.dtype(0)),
                 shapes.expect(dtype, shapes.dims(0)));
}
// (q - zeroPoint) * scale in C, for each element.
template <typename C>
std::vector<C> dequantised(const Tensor &q, const std::vector<C> &scale, const std::vector<C> &zero,
                           const std::vector<int64_t> &part) {
  std::vector<C> values = valuesOf<C>(q);
  for (size_t i = 0; i < values.size(); ++i) {
    auto p = static_cast<size_t>(part[i]);
    values[i] = (zero.empty() ? values[i] : values[i] - zero[p]) * scale[p];
  }
  return values;
}
void runDequantize(const Call &call) {
  inComputeType({call.result.dtype(), call.operand(1).dtype()}, [&]<typename C>(C) {
    std::vector<int64_t> part = partOf(call.result.dims(), call.operand(1).dims());
    std::vector<C> values =
        dequantised(call.operand(0), valuesOf<C>(call.operand(1)), valuesOf<C>(call.operand(2)), part);
    visitFloat(call.result.dtype(), [&](auto type) {
      using T = decltype(type);
      for (size_t i = 0; i < values.size(); ++i)
        call.result.as<T>()[i] = T::store(static_cast<double>(values[i]));
    });
  });
}

Refusal checkDynamic(const Shapes &shapes) {
  int32_t dtype = dtypeFromName(stringAttribute(shapes.node, "dtype"));
  if (!isQuantised(dtype) || dtype == MORTISE_UI8 || shapes.rank(0) < 1)
    return shapes.fail("expected x of rank 1 or more and a signed dtype to quantise to, found " +
                       typeString(shapes.type(0)));
  Shape scale(shapes.dims(0).begin(), shapes.dims(0).end());
  scale.back() = 1;
  int32_t compute = shapes.dtype(0) == MORTISE_F64 ? MORTISE_F64 : MORTISE_F32;
  return firstOf(shapes.expectResult(0, dtype, shapes.dims(0)), shapes.expectResult(1, compute, scale));
}
void runDynamic(const Call &call) {
  inComputeType({call.operand(0).dtype()}, [&]<typename C>(C) {
    std::vector<C> x = valuesOf<C>(call.operand(0)), scale(static_cast<size_t>(call.results[1].count()));
    size_t length = static_cast<size_t>(call.operand(0).dims().back());
    for (size_t row = 0; row < scale.size(); ++row) {
      Number top = 0;
      for (size_t i = 0; i < length; ++i)
        top = maximum(top, abs(Number(x[row * length + i])));
      scale[row] = top == 0 ? C(1) : static_cast<C>(top) / static_cast<C>(largest(call.result.dtype()));
      call.results[1].as<std::conditional_t<sizeof(C) == 8, F64, F32>>()[row] = scale[row];
    }
    std::vector<int64_t> part = partOf(call.result.dims(), call.results[1].dims());
    visitQuantised(call.result.dtype(),
                   [&](auto type) { quantiseAll<decltype(type)>(call.result, x, scale, {}, part); });
  });
}

// The shape of the scale in rank 2, so that its extents divide those of the weight.
Shape scaleDims(std::span<const int64_t> scale, bool transposed) {
  if (scale.size() == 2)
    return {scale[0], scale[1]};
  int64_t outer = scale.empty() ? 1 : scale[0];
  return transposed ? Shape{1, outer} : Shape{outer, 1};
}
Refusal checkLinear(const Shapes &shapes) {
  bool transposed = shapes.integer("weight_transposed");
  if (shapes.rank(0) < 1 || shapes.rank(1) != 2 || !isQuantised(shapes.dtype(1)) ||
      shapes.dims(1)[transposed ? 0 : 1] != shapes.dims(0).back())
    return shapes.fail("expected x [..., K] and a quantised weight of N and K, found " + typeString(shapes.type(0)) +
                       " and " + typeString(shapes.type(1)));
  int64_t N = shapes.dims(1)[transposed ? 1 : 0], K = shapes.dims(0).back();
  Shape scale = scaleDims(shapes.dims(2), transposed), bias{N}, expected(shapes.dims(0).begin(), shapes.dims(0).end());
  expected.back() = N;
  int64_t outer = scale[transposed ? 1 : 0], inner = scale[transposed ? 0 : 1];
  bool fits = shapes.rank(2) <= 2 && (outer == N || shapes.rank(2) == 0) &&
              (inner == K || (inner != 0 && K % inner == 0)) &&
              (shapes.dtype(2) == MORTISE_F32 || shapes.dtype(2) == shapes.dtype(0));
  if (!fits)
    return shapes.fail("expected a scale [], [N] or of rank 2 with N and a divisor of K, of f32 or x's dtype, found " +
                       typeString(shapes.type(2)));
  return firstOf(checkZeroPoint(shapes, 3, 2, shapes.dtype(1)), shapes.expectOperand(4, shapes.dtype(0), bias),
                 shapes.expect(shapes.dtype(0), expected));
}
void runLinear(const Call &call) {
  Shape scale = scaleDims(call.operand(2).dims(), call.integer("weight_transposed") != 0);
  std::vector<int64_t> part = partOf(call.operand(1).dims(), scale);
  inComputeType({call.result.dtype()}, [&]<typename C>(C) {
    std::vector<C> weight =
        dequantised(call.operand(1), valuesOf<C>(call.operand(2)), valuesOf<C>(call.operand(3)), part);
    visitFloat(call.result.dtype(), [&](auto type) {
      linear<decltype(type)>(call, call.operand(4),
                             [&](int64_t i) { return static_cast<double>(weight[static_cast<size_t>(i)]); });
    });
  });
}

} // namespace

std::span<const OpSpec> quantisationOps() {
  static const std::vector<OpSpec> ops = {
      {Op::Quantize, checkQuantize, runQuantize},
      {Op::Dequantize, checkDequantize, runDequantize},
      {Op::DynamicQuantize, checkDynamic, runDynamic},
      {Op::QuantizedLinear, checkLinear, runLinear},
  };
  return ops;
}

} // namespace mortise::reference::inline MORTISE_ARITHMETIC
