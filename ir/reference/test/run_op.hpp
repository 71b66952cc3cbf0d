// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs one op in the interpreter. Elements are passed as double or int64_t.
#pragma once

#include "view_builder.hpp"
#include <mortise/reference/formats.hpp>
#include <mortise/reference/interpreter.hpp>

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <vector>

namespace mortise::test {

using Dims = std::vector<int64_t>;
inline constexpr double inf = std::numeric_limits<double>::infinity();
inline constexpr double NaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr int32_t f64 = MORTISE_F64, f32 = MORTISE_F32, f16 = MORTISE_F16, bf16 = MORTISE_BF16,
                         f8e4 = MORTISE_F8E4M3FN, f8e5 = MORTISE_F8E5M2, i64 = MORTISE_I64, i32 = MORTISE_I32,
                         i16 = MORTISE_I16, i8 = MORTISE_I8, i4 = MORTISE_I4, ui8 = MORTISE_UI8, i1 = MORTISE_I1;
inline const std::vector<int32_t> floatTypes{f64, f32, f16, bf16, f8e4, f8e5};
inline const std::vector<int32_t> intTypes{i64, i32, i16, i8, i4, ui8};

// Elements are doubles, so integers must be exact as a double.
struct Data {
  int32_t dtype = 0;
  Dims dims;
  std::vector<double> values;
  bool given = true;
};
inline Data absent() { return {0, {}, {}, false}; }
inline Data scalar(int32_t dtype, double value) { return {dtype, {}, {value}}; }
inline Data vector(int32_t dtype, std::vector<double> values) {
  auto count = static_cast<int64_t>(values.size());
  return {dtype, {count}, std::move(values)};
}
// The numbers first, first + 1, first + 2, ...
inline Data counting(int32_t dtype, Dims dims, double first = 0) {
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= dim;
  Data data{dtype, std::move(dims), std::vector<double>(static_cast<size_t>(count))};
  std::iota(data.values.begin(), data.values.end(), first);
  return data;
}
// Pseudorandom numbers in [-2, 2), the same in every run.
inline Data noise(int32_t dtype, Dims dims, uint32_t seed = 1) {
  Data data = counting(dtype, std::move(dims));
  for (double &value : data.values) {
    seed = seed * 1664525u + 1013904223u;
    value = reference::visitFloat(dtype, [&](auto type) {
      using T = decltype(type);
      return T::load(T::store(static_cast<double>(seed >> 8) / (1 << 22) - 2));
    });
  }
  return data;
}

inline std::vector<uint8_t> encode(const Data &data) {
  std::vector<uint8_t> bytes((data.values.size() * dtypeBits(data.dtype) + 7) / 8 + 8); // never empty
  reference::visitElement(data.dtype, [&](auto type) {
    using T = decltype(type);
    for (size_t i = 0; i < data.values.size(); ++i) {
      typename T::Storage stored = T::store(static_cast<typename T::Compute>(data.values[i]));
      if (T::dtype == MORTISE_I4)
        bytes[i / 2] = static_cast<uint8_t>(bytes[i / 2] | (static_cast<uint8_t>(stored) & 15) << (i % 2 * 4));
      else
        std::memcpy(&bytes[i * sizeof(stored)], &stored, sizeof(stored));
    }
  });
  return bytes;
}
inline std::vector<double> decode(int32_t dtype, const std::vector<uint8_t> &bytes, size_t count) {
  std::vector<double> values(count);
  reference::visitElement(dtype, [&](auto type) {
    using T = decltype(type);
    for (size_t i = 0; i < count; ++i) {
      typename T::Storage stored;
      if (T::dtype == MORTISE_I4)
        stored = T::store(bytes[i / 2] >> (i % 2 * 4));
      else
        std::memcpy(&stored, &bytes[i * sizeof(stored)], sizeof(stored));
      values[i] = static_cast<double>(T::load(stored));
    }
  });
  return values;
}

struct Slot { // the type of a result
  int32_t dtype = 0;
  Dims dims;
};

struct OpRun {
  ViewBuilder builder;
  std::vector<std::vector<uint8_t>> buffers;
  std::vector<std::vector<uint8_t>> outputs;

  Result<void> run(const std::string &op, const std::vector<Data> &operands, const std::vector<Slot> &slots,
                   std::vector<Attribute> attributes) {
    std::vector<const MortiseValue *> values;
    for (const Data &operand : operands) {
      values.push_back(operand.given ? builder.input(operand.dtype, operand.dims) : nullptr);
      if (operand.given)
        buffers.push_back(encode(operand));
    }
    std::vector<const MortiseType *> types;
    for (const Slot &slot : slots)
      types.push_back(builder.type(slot.dtype, slot.dims));
    for (MortiseValue *result : builder.ops(op, values, types, std::move(attributes)))
      builder.output(result);
    std::vector<const void *> inputs;
    for (const auto &buffer : buffers)
      inputs.push_back(buffer.data());
    constexpr uint8_t sentinel = 0xa5;
    std::vector<void *> pointers;
    for (const MortiseType *type : types)
      pointers.push_back(outputs.emplace_back(byteSize(*type) + 64, sentinel).data());
    Result<void> result = reference::interpret(builder.view(), inputs, pointers);
    for (size_t k = 0; k < outputs.size(); ++k)
      for (size_t i = byteSize(*types[k]); i < outputs[k].size(); ++i)
        EXPECT_EQ(outputs[k][i], sentinel) << op << " writes beyond its output";
    return result;
  }
};

// An op with several results.
inline std::vector<Data> runOps(const std::string &op, const std::vector<Data> &operands,
                                const std::vector<Slot> &slots, std::vector<Attribute> attributes = {}) {
  OpRun run;
  Result<void> result = run.run(op, operands, slots, std::move(attributes));
  EXPECT_TRUE(result) << result.error().message;
  std::vector<Data> all;
  for (size_t i = 0; i < slots.size(); ++i)
    all.push_back({slots[i].dtype, slots[i].dims,
                   decode(slots[i].dtype, run.outputs[i],
                          static_cast<size_t>(elementCount(*run.builder.view().outputs[i]->type)))});
  return all;
}
inline Data runOp(const std::string &op, const std::vector<Data> &operands, int32_t dtype, Dims dims,
                  std::vector<Attribute> attributes = {}) {
  return runOps(op, operands, {{dtype, std::move(dims)}}, std::move(attributes))[0];
}
// The error's text; "" when there is none.
inline std::string opsError(const std::string &op, const std::vector<Data> &operands, const std::vector<Slot> &slots,
                            std::vector<Attribute> attributes = {}) {
  OpRun run;
  Result<void> result = run.run(op, operands, slots, std::move(attributes));
  return result ? "" : result.error().message;
}
inline std::string opError(const std::string &op, const std::vector<Data> &operands, int32_t dtype, Dims dims,
                           std::vector<Attribute> attributes = {}) {
  return opsError(op, operands, {{dtype, std::move(dims)}}, std::move(attributes));
}

// Equality by meaning of bits: NaN equals NaN, -0 does not equal +0.
inline bool same(double left, double right) {
  return std::isnan(left) ? std::isnan(right) : left == right && std::signbit(left) == std::signbit(right);
}
inline void expectValues(const Data &found, const std::vector<double> &expected) {
  ASSERT_EQ(found.values.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(same(found.values[i], expected[i])) << "element " << i << " of " << dtypeName(found.dtype)
                                                    << ": expected " << expected[i] << ", found " << found.values[i];
}
inline void expectNear(const Data &found, const std::vector<double> &expected, double tolerance) {
  ASSERT_EQ(found.values.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(same(found.values[i], expected[i]) ||
                std::abs(found.values[i] - expected[i]) <= tolerance * std::max(1.0, std::abs(expected[i])))
        << "element " << i << ": expected " << expected[i] << ", found " << found.values[i];
}
// `value` after rounding to the dtype.
inline double rounded(int32_t dtype, double value) {
  return reference::visitFloat(dtype, [&](auto type) {
    using T = decltype(type);
    return static_cast<double>(T::load(T::store(value)));
  });
}

} // namespace mortise::test
