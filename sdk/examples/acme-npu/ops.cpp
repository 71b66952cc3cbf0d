// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops.hpp"

#include <bit>
#include <cmath>
#include <cstring>

namespace npu {
namespace {
using namespace mortise;

// ---- f16 in software: any compiler, any processor

float widen(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000) << 16, rest = half & 0x7fff;
  if (rest >= 0x7c00)
    return std::bit_cast<float>(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  // Moved to the place of f32's fields, and multiplied by 2^112 for the difference of the exponents' biases.
  const float size = std::bit_cast<float>(rest << 13) * 0x1p112f;
  return sign ? -size : size;
}

uint16_t narrow(float number) {
  const uint32_t bits = std::bit_cast<uint32_t>(number), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  if (size > 0x7f800000)
    return static_cast<uint16_t>(sign | 0x7e00);
  if (size >= 0x477ff000) // 65520 and more rounds to infinity
    return static_cast<uint16_t>(sign | 0x7c00);
  if (size < 0x38800000) { // subnormal: the sum's last place is that of the result
    const float sum = std::bit_cast<float>(size) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(sum) - 0x3f000000));
  }
  return static_cast<uint16_t>(sign | (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13);
}

// ---- What the unit takes

std::string text(int64_t number) { return std::to_string(number); }

Refusal tooLarge(const MortiseNode &node, int64_t bytes, const std::string &what) {
  return {MORTISE_REASON_MEMORY, std::string(node.op) + ": " + what + " take " + text(bytes) +
                                     " bytes, and the unit's scratch has " + text(scratch) + "; split the row"};
}

std::optional<Refusal> refuseType(const MortiseType &type, std::initializer_list<int32_t> allowed) {
  if (std::ranges::find(allowed, type.dtype) == allowed.end())
    return Refusal{MORTISE_REASON_DTYPE,
                   std::string("expected ") + dtypeName(*allowed.begin()) + ", found " + typeString(type)};
  if (!isStatic(type))
    return Refusal{MORTISE_REASON_NEEDS_STATIC, "expected a static shape, found " + typeString(type)};
  if (type.strides)
    return Refusal{MORTISE_REASON_LAYOUT, "expected a dense row-major tensor"};
  return std::nullopt;
}

std::optional<Refusal> refuseTypes(const MortiseNode &node, std::initializer_list<int32_t> allowed) {
  if (auto refusal = refuseType(*node.results[0]->type, allowed))
    return refusal;
  for (size_t i = 0; i < node.operand_count; ++i)
    if (node.operands[i])
      if (auto refusal = refuseType(*node.operands[i]->type, allowed))
        return refusal;
  return std::nullopt;
}

bool equalsInts(const MortiseNode &node, const char *name, std::initializer_list<int64_t> expected) {
  return std::ranges::equal(intsAttribute(node, name), expected);
}

// [M, K] by [K, N] or [N, K]: what a dot may be.
std::optional<Refusal> refuseDot(const MortiseNode &node, int64_t bytesOfElement) {
  const MortiseType &lhs = *node.operands[0]->type, &rhs = *node.operands[1]->type;
  if (lhs.rank != 2 || rhs.rank != 2)
    return Refusal{MORTISE_REASON_RANK, "expected matrices, found " + typeString(lhs) + " and " + typeString(rhs)};
  if (!equalsInts(node, "lhs_batch", {}) || !equalsInts(node, "rhs_batch", {}) ||
      !equalsInts(node, "lhs_contract", {1}) ||
      !(equalsInts(node, "rhs_contract", {0}) || equalsInts(node, "rhs_contract", {1})))
    return Refusal{MORTISE_REASON_ATTRIBUTE, "expected rows of the left matrix by rows or columns of the right one"};
  const int64_t bytes = lhs.dims[1] * (1 + columns) * bytesOfElement + columns * 4;
  if (bytes > scratch)
    return tooLarge(node, bytes, "a row, " + text(columns) + " columns of weight and their sums");
  return std::nullopt;
}

bool is(const MortiseNode &node, std::string_view op) { return op == node.op; }

int64_t rowLength(const MortiseNode &node) { // layer_norm: the dimensions from `axis` on
  int64_t length = 1;
  const MortiseType &type = *node.operands[0]->type;
  for (int64_t i = intAttribute(node, "axis"); i < type.rank; ++i)
    length *= type.dims[i];
  return length;
}

std::optional<Step::Kind> kindOf(const MortiseNode &node) {
  if (is(node, "mortise.add"))
    return Step::Add;
  if (is(node, "mortise.sub"))
    return Step::Sub;
  if (is(node, "mortise.mul"))
    return Step::Mul;
  if (is(node, "mortise.gelu"))
    return stringAttribute(node, "approximate") == "tanh" ? Step::GeluTanh : Step::Gelu;
  if (is(node, "mortise.layer_norm"))
    return Step::LayerNorm;
  if (is(node, "mortise.linear"))
    return Step::Linear;
  if (is(node, "mortise.dot")) {
    const int32_t dtype = node.results[0]->type->dtype;
    return dtype == MORTISE_F16 ? Step::Linear : dtype == MORTISE_I32 ? Step::Dot32 : Step::Dot8;
  }
  if (is(node, "acme_npu.lookup"))
    return Step::Lookup;
  if (is(node, "mortise.reshape"))
    return Step::Copy;
  return std::nullopt;
}

} // namespace

std::span<const MortiseOpDeclaration *const> ops() {
  static const MortiseOpDeclaration lookup = [] {
    auto op = sized<MortiseOpDeclaration>();
    op.name = "acme_npu.lookup";
    op.summary = "table[x + 128] for each x: lookup(x: i8 [...], table: i8 [256]) -> i8 [...]";
    op.operands_min = op.operands_max = 2;
    return op;
  }();
  static const MortiseOpDeclaration *const list[] = {&lookup};
  return list;
}

// Over symbols, too, although the unit itself takes static shapes only.
Result<void> infer(Inference &inference) {
  const MortiseType &x = inference.operand(0), &table = inference.operand(1);
  if (x.dtype != MORTISE_I8 || table.dtype != MORTISE_I8 || table.rank != 1 || table.dims[0] != 256)
    return Error{MORTISE_INVALID_ARGUMENT,
                 "expected i8 numbers and a table i8[256], found " + typeString(x) + " and " + typeString(table)};
  inference.add(x);
  return {};
}

bool isWidening(const MortiseNode &node) {
  return is(node, "mortise.convert") && node.operands[0]->type->dtype == MORTISE_I8 &&
         node.results[0]->type->dtype == MORTISE_I32;
}

std::optional<Refusal> refuseWidened(const MortiseNode &node) {
  if (auto refusal = refuseTypes(node, {MORTISE_I32}))
    return refusal;
  for (int i = 0; i < 2; ++i)
    if (const MortiseNode *producer = node.operands[i]->producer; !producer || !isWidening(*producer))
      return Refusal{MORTISE_REASON_DTYPE, "expected operands that are i8 numbers converted to i32 in this graph"};
  return refuseDot(node, 1);
}

std::optional<Refusal> refuse(const MortiseNode &node) {
  if (is(node, "mortise.convert")) // not for the op: inside a product's region it is taken
    return Refusal{MORTISE_REASON_DTYPE, "expected a convert from i8 to i32 that only products read"};
  const auto kind = kindOf(node);
  if (!kind)
    return Refusal{MORTISE_REASON_OP,
                   "expected linear, add, sub, mul, gelu or layer_norm of f16, a dot of f16 or i8, or acme_npu.lookup"};
  if (*kind == Step::Dot32)
    return refuseWidened(node);
  if (*kind == Step::Dot8) {
    auto refusal = refuseTypes(node, {MORTISE_I8});
    return refusal ? refusal : refuseDot(node, 1);
  }
  if (*kind == Step::Lookup)
    return refuseTypes(node, {MORTISE_I8}); // all else is as infer has it
  if (*kind == Step::Copy)
    return refuseTypes(node, {MORTISE_F16, MORTISE_I8});
  if (auto refusal = refuseTypes(node, {MORTISE_F16}))
    return refusal;
  if (*kind == Step::LayerNorm)
    if (const int64_t bytes = 4 * rowLength(node); bytes > scratch)
      return tooLarge(node, bytes, "the numbers of a row in f32");
  if (is(node, "mortise.dot"))
    return refuseDot(node, 2);
  if (*kind == Step::Linear) {
    const MortiseType &x = *node.operands[0]->type;
    const int64_t bytes = x.dims[x.rank - 1] * (1 + columns) * 2 + columns * 4;
    if (bytes > scratch)
      return tooLarge(node, bytes, "a row, " + text(columns) + " columns of weight and their sums");
  }
  return std::nullopt;
}

Cost costOf(const MortiseNode &node) {
  Cost cost;
  if (isWidening(node))
    return cost; // as the unit reads
  cost.bytes = static_cast<double>(byteSize(*node.results[0]->type));
  for (size_t i = 0; i < node.operand_count; ++i)
    if (node.operands[i])
      cost.bytes += static_cast<double>(elementCount(*node.operands[i]->type)) *
                    (node.results[0]->type->dtype == MORTISE_F16 ? 2 : 1);
  const Step step = stepOf(node);
  const double count = static_cast<double>(elementCount(*node.results[0]->type));
  double work;
  if (step.depth) {
    work = count * static_cast<double>(step.depth) / (step.kind == Step::Linear ? f16MacsPerNs : i8MacsPerNs);
    cost.flops = 2 * count * static_cast<double>(step.depth);
  } else {
    work = count / lanesPerNs;
    cost.flops = count;
  }
  cost.ns = std::max(work, cost.bytes / bytesPerNs); // arithmetic and memory at the same time
  return cost;
}

Step stepOf(const MortiseNode &node) {
  Step step{.kind = *kindOf(node)};
  for (size_t i = 0; i < node.operand_count; ++i)
    if (node.operands[i])
      step.operands.push_back(node.operands[i]->index);
  step.result = node.results[0]->index;
  const MortiseType &first = *node.operands[0]->type;
  const int64_t count = elementCount(*node.results[0]->type);
  switch (step.kind) {
  case Step::Linear:
    step.depth = first.dims[first.rank - 1];
    step.transposed =
        is(node, "mortise.dot") ? equalsInts(node, "rhs_contract", {0}) : intAttribute(node, "weight_transposed") != 0;
    step.width = node.operands[1]->type->dims[step.transposed ? 1 : 0];
    step.hasBias = node.operand_count > 2 && node.operands[2];
    break;
  case Step::Dot8:
  case Step::Dot32:
    step.depth = first.dims[1];
    step.transposed = equalsInts(node, "rhs_contract", {0});
    step.width = node.operands[1]->type->dims[step.transposed ? 1 : 0];
    break;
  case Step::LayerNorm:
    step.width = rowLength(node);
    step.epsilon = floatAttribute(node, "epsilon");
    step.hasScale = node.operand_count > 1 && node.operands[1];
    step.hasBias = node.operand_count > 2 && node.operands[2];
    break;
  case Step::Copy:
    step.width = static_cast<int64_t>(byteSize(first));
    step.rows = 1;
    return step;
  default:
    step.width = count;
  }
  step.rows = step.width ? count / step.width : 0;
  return step;
}

namespace {

const uint16_t *halves(const std::vector<void *> &values, uint32_t value) {
  return static_cast<uint16_t *>(values[value]);
}

// Products tile by tile: 16 columns of the weight in scratch, then each row by them. Sums of `Sum`, in order of depth.
template <typename Number, typename Sum, typename Load, typename Store>
void product(const Step &step, const Number *x, const Number *weight, Load &&load, Store &&store) {
  std::vector<Sum> tile(static_cast<size_t>(step.depth * columns));
  for (int64_t first = 0; first < step.width; first += columns) {
    const int64_t width = std::min(columns, step.width - first);
    for (int64_t k = 0; k < step.depth; ++k)
      for (int64_t n = 0; n < columns; ++n)
        tile[static_cast<size_t>(k * columns + n)] =
            n >= width ? Sum()
                       : load(weight[step.transposed ? k * step.width + first + n : (first + n) * step.depth + k]);
    for (int64_t row = 0; row < step.rows; ++row) {
      Sum sums[columns] = {};
      for (int64_t k = 0; k < step.depth; ++k) {
        const Sum number = load(x[row * step.depth + k]);
        for (int64_t n = 0; n < columns; ++n)
          sums[n] += number * tile[static_cast<size_t>(k * columns + n)];
      }
      for (int64_t n = 0; n < width; ++n)
        store(row * step.width + first + n, first + n, sums[n]);
    }
  }
}

void linear(const Step &step, const std::vector<void *> &values) {
  const uint16_t *bias = step.hasBias ? halves(values, step.operands[2]) : nullptr;
  auto *out = static_cast<uint16_t *>(values[step.result]);
  product<uint16_t, float>(
      step, halves(values, step.operands[0]), halves(values, step.operands[1]), widen,
      [&](int64_t at, int64_t column, float sum) { out[at] = narrow(bias ? sum + widen(bias[column]) : sum); });
}

template <typename Out> void dot(const Step &step, const std::vector<void *> &values) {
  auto *out = static_cast<Out *>(values[step.result]);
  // Unsigned, because i32 wraps around.
  product<int8_t, uint32_t>(
      step, static_cast<int8_t *>(values[step.operands[0]]), static_cast<int8_t *>(values[step.operands[1]]),
      [](int8_t number) { return static_cast<uint32_t>(int32_t(number)); },
      [&](int64_t at, int64_t, uint32_t sum) { out[at] = static_cast<Out>(sum); });
}

void layerNorm(const Step &step, const std::vector<void *> &values) {
  const uint16_t *x = halves(values, step.operands[0]);
  const uint16_t *scale = step.hasScale ? halves(values, step.operands[1]) : nullptr;
  const uint16_t *bias = step.hasBias ? halves(values, step.operands[step.hasScale ? 2 : 1]) : nullptr;
  auto *out = static_cast<uint16_t *>(values[step.result]);
  const auto width = static_cast<double>(step.width);
  for (int64_t row = 0; row < step.rows; ++row, x += step.width, out += step.width) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < step.width; ++i)
      sum += widen(x[i]);
    const double mean = sum / width;
    for (int64_t i = 0; i < step.width; ++i)
      squares += (widen(x[i]) - mean) * (widen(x[i]) - mean);
    const double factor = 1 / std::sqrt(squares / width + step.epsilon);
    for (int64_t i = 0; i < step.width; ++i)
      out[i] = narrow(static_cast<float>((widen(x[i]) - mean) * factor * (scale ? widen(scale[i]) : 1) +
                                         (bias ? widen(bias[i]) : 0)));
  }
}

float gelu(float x) { return x * 0.5f * std::erfc(-x * 0.70710678f); }
float geluTanh(float x) { // 1 + tanh(t) as 2 / (1 + exp(-2 t)), which does not cancel
  return x / (1 + std::exp(-1.5957691216f * (x + 0.044715f * x * x * x)));
}

template <typename F> void each(const Step &step, const std::vector<void *> &values, F &&f) {
  const uint16_t *a = halves(values, step.operands[0]), *b = halves(values, step.operands.back());
  auto *out = static_cast<uint16_t *>(values[step.result]);
  for (int64_t i = 0; i < step.width; ++i)
    out[i] = narrow(f(widen(a[i]), widen(b[i])));
}

} // namespace

void run(const Step &step, const std::vector<void *> &values) {
  if (step.rows == 0)
    return;
  switch (step.kind) {
  case Step::Copy:
    std::memcpy(values[step.result], values[step.operands[0]], static_cast<size_t>(step.width));
    return;
  case Step::Add:
    return each(step, values, [](float a, float b) { return a + b; });
  case Step::Sub:
    return each(step, values, [](float a, float b) { return a - b; });
  case Step::Mul:
    return each(step, values, [](float a, float b) { return a * b; });
  case Step::Gelu:
    return each(step, values, [](float a, float) { return gelu(a); });
  case Step::GeluTanh:
    return each(step, values, [](float a, float) { return geluTanh(a); });
  case Step::LayerNorm:
    return layerNorm(step, values);
  case Step::Linear:
    return linear(step, values);
  case Step::Dot8:
    return dot<int8_t>(step, values);
  case Step::Dot32:
    return dot<int32_t>(step, values);
  case Step::Lookup: {
    const auto *x = static_cast<int8_t *>(values[step.operands[0]]),
               *table = static_cast<int8_t *>(values[step.operands[1]]);
    for (int64_t i = 0; i < step.width; ++i)
      static_cast<int8_t *>(values[step.result])[i] = table[x[i] + 128];
  }
  }
}

} // namespace npu
